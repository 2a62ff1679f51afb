// SPDX-License-Identifier: Apache-2.0
// Allocations that fail, and programs that break the rules.

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "reclaim/contract.hpp"
#include "support/faults.hpp"
#include "support/structures.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Domain>
class contract_faults : public testing::Test {
 protected:
  ledger book_;
};
TYPED_TEST_SUITE(contract_faults, all_domains, domain_names);

/// What a container does: everything that may fail, on a thread that has never used the domain.
template <class Domain>
void use_everything(Domain& d, ledger& book) {
  auto* const b = d.template make<block<Domain>>(book);
  std::optional<typename Domain::guard> guard;
  try {
    guard.emplace(d.enter());
  } catch (const std::bad_alloc&) {
    d.destroy(b);
    throw;
  }
  retire_tracked(*guard, b);  // never fails
  auto* const foreign = new (std::nothrow) tracked(book);
  if (foreign == nullptr) throw std::bad_alloc();
  try {
    guard->retire(foreign);
  } catch (const std::bad_alloc&) {
    EXPECT_EQ(foreign->read(), 0U) << "it is not ours any more";
    delete foreign;
    throw;
  }
}

TYPED_TEST(contract_faults, an_allocation_that_fails_changes_nothing) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    std::uint64_t failures = 0;
    for (std::uint64_t n = 1;; ++n) {
      bool fired = false;
      on_another_thread([&] {
        fail_after fault(n);
        try {
          use_everything(d, book);
        } catch (const std::bad_alloc&) {
          EXPECT_TRUE(fault.fired());
        }
        fired = fault.fired();
      });
      retire_fresh(d, book, 10);
      if (!fired) break;
      ++failures;
    }
    EXPECT_GE(failures, 3U);
    EXPECT_TRUE(drain_all(d));
    if (TypeParam::info().reclaims) book.expect_empty();
  }
  book.expect_empty();
}

TYPED_TEST(contract_faults, freeing_needs_no_memory) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    retire_fresh(d, book, 200);
    auto* const unpublished = d.template make<block<TypeParam>>(book);
    on_another_thread([&] { retire_fresh(d, book, 200); });
    on_another_thread([&] {
      fail_after none_left(1, failing::from_then_on);
      d.destroy(unpublished);  // the thread's first call
    });
    {
      auto guard = d.enter();  // the thread's cell is there
      fail_after none_left(1, failing::from_then_on);
      auto inner = std::move(guard);
    }
    bool drained;
    {
      fail_after none_left(1, failing::from_then_on);
      drained = drain_all(d);
    }
    EXPECT_TRUE(drained);
    if (TypeParam::info().reclaims) book.expect_empty();
  }
  book.expect_empty();
}

struct throwing_block_error : std::runtime_error {
  using runtime_error::runtime_error;
};

template <class Domain>
struct throwing_block : Domain::header {
  throwing_block() { throw throwing_block_error("no"); }
};

TYPED_TEST(contract_faults, a_constructor_that_throws_leaves_no_memory_behind) {
  TypeParam d;
  d.destroy(d.template make<block<TypeParam>>(this->book_));
  const auto before = live_allocations();
  for (int i = 0; i < 10; ++i) {
    EXPECT_THROW(
        {
          auto* const never = d.template make<throwing_block<TypeParam>>();
          d.destroy(never);
        },
        throwing_block_error);
  }
  // A pool may keep one piece of memory; it does not keep one for each attempt.
  EXPECT_LE(live_allocations(), before + 1);
}

struct moves_badly {
  moves_badly() = default;
  moves_badly(moves_badly&& other) : value(other.value) {
    if (value == 0) throw throwing_block_error("no");
  }
  void operator()(tracked* p) const noexcept { delete p; }
  int value = 0;
};

TYPED_TEST(contract_faults, a_deleter_that_cannot_be_moved_retires_nothing) {
  ledger& book = this->book_;
  TypeParam d;
  {
    auto guard = d.enter();
    auto* const object = new tracked(book);
    const auto before = live_allocations();
    EXPECT_THROW(guard.retire(object, moves_badly{}), throwing_block_error);
    EXPECT_LE(live_allocations(), before + 1);  // what gtest keeps of the exception
    delete object;
  }
  EXPECT_EQ(d.stats().retired, 0U);
  book.expect_empty();
}

#if SPOLIA_CHECKS

template <class Domain>
class contract_misuse : public testing::Test {
 protected:
  // The child of a death test starts afresh: other threads' locks are not copied into it.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};
using some_schemes =
    testing::Types<domain<token>, domain<debra>, domain<hazard_pointers>, domain<intervals>,
                   domain<neutralization>, domain<token_periodic>>;
TYPED_TEST_SUITE(contract_misuse, some_schemes, domain_names);

TYPED_TEST(contract_misuse, retiring_a_block_twice_is_reported) {
  EXPECT_DEATH(
      {
        ledger book;
        TypeParam d;
        auto* const b = d.template make<block<TypeParam>>(book);
        auto guard = d.enter();
        guard.retire(b);
        guard.retire(b);
      },
      "a block was retired twice");
}

TYPED_TEST(contract_misuse, retiring_into_another_domain_is_reported) {
  EXPECT_DEATH(
      {
        ledger book;
        TypeParam made_it;
        TypeParam other;
        auto* const b = made_it.template make<block<TypeParam>>(book);
        auto guard = other.enter();
        guard.retire(b);
      },
      "retire it under a guard of the domain whose make.. made it");
}

TYPED_TEST(contract_misuse, a_guard_that_outlives_its_domain_is_reported) {
  EXPECT_DEATH(
      {
        auto d = std::make_unique<TypeParam>();
        auto guard = d->enter();
        d.reset();
      },
      "a guard outlives its domain");
}

TYPED_TEST(contract_misuse, a_guard_that_is_left_is_reported_with_its_label) {
  EXPECT_DEATH(
      {
        auto d = std::make_unique<TypeParam>();
        {
          const auto before = d->enter("daily report");
        }
        auto guard = d->enter("monthly report");
        d.reset();
      },
      "a guard outlives its domain: .monthly report");
  EXPECT_DEATH(
      {
        auto d = std::make_unique<TypeParam>();
        {
          const auto before = d->enter("daily report");
        }
        auto guard = d->enter();
        d.reset();
      },
      "a guard outlives its domain .thread number [0-9]+, the system's [0-9]+");
}

TYPED_TEST(contract_misuse, a_thread_that_ends_inside_a_guard_is_reported) {
  EXPECT_DEATH(
      {
        TypeParam d;
        std::optional<typename TypeParam::guard> escaped;
        on_another_thread([&] { escaped.emplace(d.enter()); });
        escaped.reset();
      },
      "a thread ended inside a guard");
}

TYPED_TEST(contract_misuse, a_guard_that_ends_on_another_thread_is_reported) {
  EXPECT_DEATH(
      {
        TypeParam d;
        std::optional<typename TypeParam::guard> guard(d.enter());
        on_another_thread([&] { guard.reset(); });
      },
      "a guard ends on another thread than it began on");
}

TYPED_TEST(contract_misuse, retiring_by_the_guard_of_another_thread_is_reported) {
  EXPECT_DEATH(
      {
        TypeParam d;
        ledger book;
        auto guard = d.enter();
        on_another_thread([&] { guard.retire(d.template make<block<TypeParam>>(book)); });
      },
      "a guard is used on another thread than it began on");
}

TYPED_TEST(contract_misuse, retiring_by_a_guard_that_was_moved_from_is_reported) {
  EXPECT_DEATH(
      {
        TypeParam d;
        ledger book;
        auto guard = d.enter();
        const auto other = std::move(guard);
        guard.retire(d.template make<block<TypeParam>>(book));  // NOLINT: the mistake
      },
      "a guard is used that was moved from");
}

TEST(contract_misuse_of_guards, by_other_threads_and_with_nothing_is_reported) {
  domain<> d;
  ledger book;
  auto* const b = d.make<block<domain<>>>(book);
  atomic<block<domain<>>*> source(b);
  EXPECT_DEATH(
      {
        auto guard = d.enter();
        on_another_thread([&] { static_cast<void>(guard.protect(source)); });
      },
      "a guard is used on another thread than it began on");
  EXPECT_DEATH(
      {
        block<domain<>>* none = nullptr;
        d.enter().retire(none);
      },
      "a null pointer is retired");
  EXPECT_DEATH(
      {
        d.enter().retire(b);
        d.destroy(b);
      },
      "a block is destroyed that was retired");
  d.destroy(b);
}

TYPED_TEST(contract_misuse, draining_inside_a_guard_is_reported) {
  EXPECT_DEATH(
      {
        TypeParam d;
        auto guard = d.enter();
        d.drain();
      },
      "drain inside a guard");
}

TEST(contract_misuse_handler, a_program_may_hear_of_mistakes_and_go_on) {
  static int heard = 0;
  const auto before = core::set_misuse_handler([](const char*, std::uint32_t) { ++heard; });
  ledger book;
  {
    domain<> d;
    auto* const b = d.make<block<domain<>>>(book);
    auto guard = d.enter();
    guard.retire(b);
    guard.retire(b);
    EXPECT_FALSE(d.drain());
  }
  core::set_misuse_handler(before);
  EXPECT_EQ(heard, 2);
  book.expect_empty();
}

constexpr std::size_t npos = std::string::npos;
std::string heard_of_blocks;
void hear_of_blocks(const char* what, std::uint32_t) { heard_of_blocks += what; }

struct small_block : domain<>::header {
  int value = 0;
};
struct large_block : small_block {
  std::array<int, 16> more{};
};

/// What is heard of a mistake; it does nothing besides.
template <class F>
std::string heard_of_block(F mistake) {
  heard_of_blocks.clear();
  const auto before = core::set_misuse_handler(&hear_of_blocks);
  mistake();
  core::set_misuse_handler(before);
  return heard_of_blocks;
}

TEST(contract_misuse_of_blocks, what_make_has_not_made_is_not_taken) {
  domain<> d;
  auto own = std::make_unique<small_block>();
  EXPECT_NE((heard_of_block([&] { d.enter().retire(own.get()); })).find("no make() has made"),
            npos);
  EXPECT_NE((heard_of_block([&] { d.destroy(own.get()); })).find("no make() has made"), npos);
  EXPECT_EQ(d.stats().retired, 0U);
  EXPECT_EQ(heard_of_block([&] {
              d.enter().retire(own.release(), std::default_delete<small_block>());
              d.drain();
            }),
            "");
}

TEST(contract_misuse_of_blocks, a_pointer_to_a_base_is_not_taken) {
  domain<> d;
  auto* const made = d.make<large_block>();
  small_block* const base = made;
  EXPECT_NE(
      (heard_of_block([&] { d.enter().retire(base); })).find("another type than make() has made"),
      npos);
  EXPECT_NE((heard_of_block([&] { d.destroy(base); })).find("another type than make() has made"),
            npos);
  EXPECT_EQ(heard_of_block([&] { d.destroy(made); }), "");
}

TEST(contract_misuse_of_blocks, a_made_block_that_is_deleted_is_reported) {
  domain<> d;
  auto* const made = d.make<small_block>();
  EXPECT_EQ(heard_of_block([&] {
              small_block copy = *made;
              *made = copy;
            }),
            "")
      << "copies are the program's";
  EXPECT_NE((heard_of_block([&] { delete made; })).find("deleted by the program"), npos);
  EXPECT_NE((heard_of_block([&] {
              d.enter().retire(d.make<small_block>(), std::default_delete<small_block>());
              d.drain();
            })).find("deleted by the program"),
            npos);
}

#endif

}  // namespace
