// SPDX-License-Identifier: Apache-2.0
// Two plugins with a static copy of the library each, as extension modules of interpreters are
// built and loaded. Each uses maps, snapshots and pointers of its own, by threads that know nothing
// of the other's: so nothing of the one may show in the other, whatever the linker makes one in the
// process.

// The plugins are of the native build variant.
#undef SPOLIA_CHECKS
#define SPOLIA_CHECKS 0

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "support/elsewhere.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "users/tenant.hpp"

namespace {

using namespace spolia::test;

class loaded_tenant {
 public:
  explicit loaded_tenant(const char* path)
      : path_(path), handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) ADD_FAILURE() << dlerror();
  }
  [[nodiscard]] const tenant& functions() const {
    return *static_cast<const tenant*>(dlsym(handle_, "tenant_functions"));
  }
  /// Whether it is gone.
  bool unload() {
    EXPECT_EQ(dlclose(handle_), 0);
    return dlopen(path_, RTLD_NOW | RTLD_NOLOAD) == nullptr;
  }

 private:
  const char* path_;
  void* handle_;
};

/// Three threads for each plugin, all at once.
void work_in_both(const tenant& first, const tenant& second) {
  constexpr int workers = 3;
  std::vector<std::thread> threads;
  for (const tenant* const of : {&first, &second}) {
    for (int t = 0; t < workers; ++t) {
      threads.emplace_back(
          [of, t] { EXPECT_STREQ(of->work(t, workers, tries(100)), nullptr) << "thread " << t; });
    }
  }
  for (std::thread& w : threads) w.join();
}

TEST(users_static_copies, have_nothing_in_common_that_matters) {
  // In a child with a limit: mixed identities show as threads that wait forever.
  EXPECT_EQ(status_of_child([] {
              const loaded_tenant first(SPOLIA_FIRST_TENANT);
              const loaded_tenant second(SPOLIA_SECOND_TENANT);
              EXPECT_NE(first.functions().timeline(), second.functions().timeline());
              first.functions().use_kinds(4);  // so one number means two types in the two copies
              work_in_both(first.functions(), second.functions());
            }),
            0);
}

TEST(users_static_copies, announce_snapshots_under_numbers_of_their_own) {
  EXPECT_EQ(status_of_child([] {
              const loaded_tenant first(SPOLIA_FIRST_TENANT);
              const loaded_tenant second(SPOLIA_SECOND_TENANT);
              for (const loaded_tenant* const of : {&first, &second}) {
                const tenant& does = of->functions();
                EXPECT_STREQ(does.work(0, 1, 1), nullptr);
                on_another_thread([&] { EXPECT_TRUE(does.announces_here()); });
              }
            }),
            0);
}

TEST(users_static_copies, end_what_is_retired_by_code_of_their_own) {
  EXPECT_EQ(status_of_child([] {
              const loaded_tenant first(SPOLIA_FIRST_TENANT);
              const loaded_tenant second(SPOLIA_SECOND_TENANT);
              EXPECT_EQ(first.functions().end_blocks(10), 10 * kinds_ended);
              EXPECT_EQ(second.functions().end_blocks(10), 10 * kinds_ended);
            }),
            0);
}

TEST(users_static_copies, give_memory_back_to_where_it_came_from) {
  EXPECT_EQ(status_of_child([] {
              const loaded_tenant first(SPOLIA_FIRST_TENANT);
              const loaded_tenant second(SPOLIA_SECOND_TENANT);
              first.functions().churn(1000);
              // Long enough for everything that grows once: pools, and a race detector's shadow.
              second.functions().churn(100000);
              const std::uint64_t before = resident_bytes();
              second.functions().churn(200000);
              // One kind of object that ended in the other copy's pool would cost 6 MB and more.
              EXPECT_LT(resident_bytes(), before + 4000000);
            }),
            0);
}

TEST(users_static_copies, may_be_closed_and_loaded_again) {
  EXPECT_EQ(status_of_child([] {
              loaded_tenant second(SPOLIA_SECOND_TENANT);
              for (int round = 0; round < 3; ++round) {
                loaded_tenant first(SPOLIA_FIRST_TENANT);
                first.functions().use_kinds(round);
                work_in_both(first.functions(), second.functions());
                // It may stay where it is: unique symbols keep a shared object loaded.
                first.unload();
              }
            }),
            0);
}

TEST(users_static_copies, go_where_their_symbols_are_hidden) {
  EXPECT_EQ(status_of_child([] {
              loaded_tenant second(SPOLIA_SECOND_HIDDEN_TENANT);
              for (int round = 0; round < 3; ++round) {
                loaded_tenant first(SPOLIA_FIRST_HIDDEN_TENANT);
                first.functions().use_kinds(round);
                work_in_both(first.functions(), second.functions());
                EXPECT_TRUE(first.unload());
              }
            }),
            0);
}

/// One thing of the first plugin's is used by both.
void use_by_both(int kind) {
  const loaded_tenant first(SPOLIA_FIRST_TENANT);
  const loaded_tenant second(SPOLIA_SECOND_TENANT);
  if (kind == kinds_of_things) {
    prices* const map = first.functions().make();
    first.functions().change(*map, 1);
    second.functions().change(*map, 2);
  } else {
    void* const thing = first.functions().make_thing();
    first.functions().use_thing(thing, kind);
    second.functions().use_thing(thing, kind);
  }
}

TEST(users_static_copies, are_told_apart_where_they_share_a_thing) {
  for (int kind = 0; kind <= kinds_of_things; ++kind) {
    EXPECT_DEATH(use_by_both(kind), "belongs to another copy of the Spolia library") << kind;
  }
}

TEST(users_static_copies, may_use_what_is_their_own_after_each_other) {
  EXPECT_EQ(status_of_child([] {
              const loaded_tenant first(SPOLIA_FIRST_TENANT);
              const loaded_tenant second(SPOLIA_SECOND_TENANT);
              for (int kind = 0; kind < kinds_of_things; ++kind) {
                void* const one = first.functions().make_thing();
                void* const other = second.functions().make_thing();
                for (int round = 0; round < 2; ++round) {
                  first.functions().use_thing(one, kind);
                  second.functions().use_thing(other, kind);
                }
              }
            }),
            0);
}

}  // namespace
