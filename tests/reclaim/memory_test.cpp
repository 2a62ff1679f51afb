// SPDX-License-Identifier: Apache-2.0
// Blocks from a memory resource: every one comes from it and goes back to it, whichever scheme,
// policy, thread or error ends it. And what is left of many threads that have come and gone.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <spolia/hazard_pointer.hpp>
#include <spolia/map/abtree.hpp>
#include <spolia/map/list.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"
#include "support/as_it_was.hpp"
#include "support/cost.hpp"
#include "support/one_processor.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Counts what is out, and fails on demand.
class counting_resource final : public std::pmr::memory_resource {
 public:
  ~counting_resource() override { EXPECT_EQ(out_.load(), 0); }
  std::ptrdiff_t out() const { return out_.load(); }
  std::size_t calls() const { return calls_.load(); }
  void fail() { failing_ = true; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    if (failing_) throw std::bad_alloc();
    ++calls_;
    out_ += static_cast<std::ptrdiff_t>(bytes);
    return std::pmr::new_delete_resource()->allocate(bytes, align);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
    out_ -= static_cast<std::ptrdiff_t>(bytes);
    std::pmr::new_delete_resource()->deallocate(p, bytes, align);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::atomic<std::ptrdiff_t> out_{0};
  std::atomic<std::size_t> calls_{0};
  bool failing_ = false;
};

template <class Domain>
class domain_memory : public testing::Test {};
TYPED_TEST_SUITE(domain_memory, few_domains, domain_names);

template <class Domain>
struct throwing_block : Domain::header {
  explicit throwing_block(bool now) {
    if (now) throw std::runtime_error("not today");
  }
  std::string text = "longer than a string that lies in its object";
};

TYPED_TEST(domain_memory, blocks_come_from_the_resource_and_go_back) {
  counting_resource memory;
  {
    auto options = eager<TypeParam>();
    options.memory = &memory;
    TypeParam d(options);
    using block = throwing_block<TypeParam>;
    d.destroy(d.template make<block>(false));
    EXPECT_THROW((void)d.template make<block>(true), std::runtime_error);
    std::thread([&] {
      auto guard = d.enter();
      // All of them first: what is pooled at once would serve the next ones.
      std::vector<block*> made;
      for (int i = 0; i < 100; ++i) made.push_back(d.template make<block>(false));
      for (block* const b : made) guard.retire(b);
    }).join();
    {
      auto guard = d.enter();
      for (int i = 0; i < 10; ++i) {
        guard.retire(new std::string("not from there, but its record is"));
      }
    }
    EXPECT_GT(memory.calls(), 100U);
    if (drain_all(d) && TypeParam::info().reclaims) {
      EXPECT_EQ(memory.out(), 0);
    }
  }
  EXPECT_EQ(memory.out(), 0);
}

TYPED_TEST(domain_memory, a_map_lives_in_the_resource) {
  counting_resource memory;
  auto options = eager<TypeParam>();
  options.memory = &memory;
  TypeParam d(options);
  list<int, std::string, TypeParam> words(d);
  for (int i = 0; i < 100; ++i) words.insert(i, "word");
  EXPECT_GE(memory.calls(), 100U);
  memory.fail();
  EXPECT_THROW(words.insert(1000, "one more"), std::bad_alloc);
  EXPECT_FALSE(words.contains(1000));
}

/// An allocator that can say where it was used.
template <class T>
struct counting_allocator {
  using value_type = T;
  explicit counting_allocator(std::atomic<std::ptrdiff_t>* counter) : out(counter) {}
  template <class U>
  explicit counting_allocator(const counting_allocator<U>& other) : out(other.out) {}
  T* allocate(std::size_t n) {
    *out += static_cast<std::ptrdiff_t>(n * sizeof(T));
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) {
    *out -= static_cast<std::ptrdiff_t>(n * sizeof(T));
    std::allocator<T>().deallocate(p, n);
  }
  friend bool operator==(const counting_allocator&, const counting_allocator&) = default;
  std::atomic<std::ptrdiff_t>* out;
};

struct alignas(128) wide : domain<>::header {
  int value = 1;
};

TEST(allocator_resource, gives_a_domain_the_blocks_of_any_allocator) {
  std::atomic<std::ptrdiff_t> out{0};
  {
    allocator_resource memory{counting_allocator<char>(&out)};
    domain<> d({.memory = &memory});
    abtree<int, int> tree(d);
    for (int i = 0; i < 1000; ++i) tree.insert(i, i);
    EXPECT_GT(out.load(), 1000 * 8);
    for (int i = 0; i < 100; ++i) {
      wide* const block = d.make<wide>();
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 128, 0U);
      auto guard = d.enter();
      guard.retire(block);
    }
  }
  EXPECT_EQ(out.load(), 0);
}

TEST(allocator_resource, can_be_a_monotonic_arena) {
  std::pmr::monotonic_buffer_resource arena;
  std::pmr::synchronized_pool_resource memory(&arena);
  domain<> d({.memory = &memory});
  abtree<int, int> tree(d);
  for (int i = 0; i < 1000; ++i) tree.insert(i, i);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(tree.erase(i));
}

struct counted_block : domain<hazard_pointers>::header {
  explicit counted_block(int& ended) : ended_(ended) {}
  ~counted_block() { ++ended_; }

 private:
  int& ended_;
};

/// Run over tcmalloc, too: amortized_over_tcmalloc.
TEST(amortized_release, frees_as_many_together_as_the_allocator_takes) {
  int ended = 0;
  domain<hazard_pointers> nodes({.scheme = {.scan_at = 100}});
  for (int i = 0; i < 100; ++i) {
    auto guard = nodes.enter();
    guard.retire(nodes.make<counted_block>(ended));
  }
  EXPECT_EQ(ended, dlsym(RTLD_DEFAULT, "tc_malloc") != nullptr ? 64 : 16);
}

/// One operation of each kind that looks at all threads now and then.
class all_kinds {
 public:
  static constexpr std::size_t count = 4;

  void operate(std::size_t kind) {
    switch (kind) {
      case 0: {
        auto guard = tokens_.enter();
        return guard.retire(tokens_.make<block>());
      }
      case 1: {
        const hazard_pointer h = make_hazard_pointer();
        return (new named)->retire();
      }
      case 2:
        return (new in_region)->retire();
      default: {
        // The location in it ends with it: for each of these all private pointers are looked at.
        auto made = make_shared<link>();
        made->next.store(make_shared<link>());
        return head_.store(std::move(made));
      }
    }
  }

  /// What waits is not what is asked for.
  void drain() {
    EXPECT_TRUE(tokens_.drain());
    EXPECT_TRUE(hazard_pointer_clean_up());
    rcu_barrier();
    EXPECT_TRUE(counted::drain());
  }

 private:
  struct named : hazard_pointer_obj_base<named> {
    std::array<char, 48> weight{};
  };
  struct in_region : rcu_obj_base<in_region> {
    std::array<char, 48> weight{};
  };
  struct link {
    atomic_shared_ptr<link> next;
  };
  struct block : domain<>::header {
    std::array<char, 48> weight{};
  };

  domain<> tokens_;
  atomic_shared_ptr<link> head_;
};

/// What some operations cost.
double cost_of_some(all_kinds& all, std::size_t kind) {
  return cost_of([&] {
    for (int i = 0; i < 4096; ++i) all.operate(kind);
  });
}

/// All are there at one time, and use everything.
void come_and_go(all_kinds& all, int threads) {
  struct meeting {
    all_kinds& all;
    std::latch there;
  } met{all, std::latch(threads)};
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, std::size_t{1} << 20U);
  std::vector<pthread_t> ids(static_cast<std::size_t>(threads));
  for (pthread_t& id : ids) {
    const int wrong = pthread_create(
        &id, &small,
        [](void* m) -> void* {
          auto& here = *static_cast<meeting*>(m);
          for (std::size_t kind = 0; kind < all_kinds::count; ++kind) {
            for (int i = 0; i < 3; ++i) here.all.operate(kind);
          }
          here.there.arrive_and_wait();
          return nullptr;
        },
        &met);
    ASSERT_EQ(wrong, 0);
  }
  for (const pthread_t id : ids) pthread_join(id, nullptr);
  pthread_attr_destroy(&small);
}

TEST(a_burst_of_threads, leaves_operations_and_memory_as_they_were) {
#if defined(__GLIBC__)
  mallopt(M_ARENA_MAX, 1);  // what free memory the allocator keeps is not what this asks for
#endif
  all_kinds all;
  come_and_go(all, 1);  // from now on malloc takes locks
  for (std::size_t kind = 0; kind < all_kinds::count; ++kind) cost_of_some(all, kind);
  all.drain();
  std::optional<as_it_was> before;
  if (!sanitized) {
    before.emplace([&] {
      come_and_go(all, 1);
      return [&](int kind) { return cost_of_some(all, static_cast<std::size_t>(kind)); };
    });
  }
  const std::uint64_t resident = resident_when_trimmed();
  come_and_go(all, sanitized ? 100 : 1500);
  const one_processor both_are_here;
  for (std::size_t kind = 0; kind < all_kinds::count && !sanitized; ++kind) {
    const auto here = [&] { return cost_of_some(all, kind); };
    const auto there = [&] { return (*before)(static_cast<int>(kind)); };
    // Again where the machine was busy.
    double ratio = times_as_much(31, here, there);
    for (int tries = 0; tries < 4 && ratio > 1.3; ++tries) ratio = times_as_much(31, here, there);
    EXPECT_LE(ratio, 1.3) << "kind " << kind;
  }
  all.drain();
  if (!sanitized) {
    EXPECT_LE(resident_when_trimmed(), resident + (std::uint64_t{16} << 20U));
  }
}

}  // namespace
