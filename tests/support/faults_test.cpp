// SPDX-License-Identifier: Apache-2.0
// faults_test.cpp: the planned allocation fails, no other does, and blocks are counted.
#include "support/faults.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace spolia::test {
namespace {

// The compiler may leave out a new and its delete together, unless it loses sight of the pointer.
template <class T>
T* hidden(T* p) {
  T* volatile seen = p;
  return seen;
}

template <class T>
void make_and_drop() {
  delete hidden(new T());
}

struct alignas(512) overaligned {
  unsigned char bytes[512];
};

TEST(fail_after, fails_the_nth_allocation_only) {
  fail_after fault(3);
  make_and_drop<int>();
  make_and_drop<int>();
  EXPECT_FALSE(fault.fired());
  EXPECT_THROW(make_and_drop<int>(), std::bad_alloc);
  EXPECT_TRUE(fault.fired());
  EXPECT_NO_THROW(make_and_drop<int>());
}

TEST(fail_after, can_go_on_failing) {
  int failures = 0;
  {
    const fail_after fault(2, failing::from_then_on);
    for (int i = 0; i < 5; ++i) {
      try {
        make_and_drop<int>();
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    }
  }
  EXPECT_EQ(failures, 4);
  EXPECT_NO_THROW(make_and_drop<int>());
}

TEST(fail_after, ends_with_its_scope) {
  {
    const fail_after fault(1);
  }
  EXPECT_NO_THROW(make_and_drop<int>());
}

TEST(fail_after, spares_other_threads) {
  std::atomic<bool> armed{false};
  bool thrown = false;
  std::thread other([&] {
    armed.wait(false);
    try {
      for (int i = 0; i < 100; ++i) make_and_drop<int>();
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
  });
  {
    const fail_after fault(1, failing::from_then_on);
    armed.store(true);
    armed.notify_one();
    other.join();
  }
  EXPECT_FALSE(thrown);
}

TEST(fail_after, reaches_all_forms_of_new) {
  int failures = 0;
  const auto expect_failure = [&](auto make) {
    const fail_after fault(1);
    try {
      if (hidden(make()) == nullptr) ++failures;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
  };
  expect_failure([]() -> void* { return new int; });
  expect_failure([]() -> void* { return new int[3]; });
  expect_failure([]() -> void* { return new overaligned; });
  expect_failure([]() -> void* { return new overaligned[2]; });
  expect_failure([]() -> void* { return new (std::nothrow) int; });
  expect_failure([]() -> void* { return new (std::nothrow) int[3]; });
  expect_failure([]() -> void* { return new (std::nothrow) overaligned; });
  expect_failure([]() -> void* { return new (std::nothrow) overaligned[2]; });
  EXPECT_EQ(failures, 8);
}

TEST(fail_after, refuses_to_nest_and_to_count_from_zero) {
  EXPECT_THROW(fail_after(0), std::invalid_argument);
  const fail_after fault(1000);
  EXPECT_THROW(fail_after(1), std::logic_error);
}

TEST(live_allocations, counts_blocks_of_all_forms) {
  const std::int64_t before = live_allocations();
  std::unique_ptr<int> one(hidden(new int));
  std::unique_ptr<int[]> many(hidden(new int[10]));
  std::unique_ptr<overaligned> aligned(hidden(new overaligned));
  std::unique_ptr<overaligned[]> aligned_many(hidden(new overaligned[3]));
  const std::int64_t held = live_allocations() - before;
  const bool aligned_right =
      reinterpret_cast<std::uintptr_t>(aligned.get()) % alignof(overaligned) == 0 &&
      reinterpret_cast<std::uintptr_t>(aligned_many.get()) % alignof(overaligned) == 0;
  one.reset();
  many.reset();
  aligned.reset();
  aligned_many.reset();
  const std::int64_t after = live_allocations() - before;
  EXPECT_EQ(held, 4);
  EXPECT_EQ(after, 0);
  EXPECT_TRUE(aligned_right);
}

TEST(thread_allocations, counts_attempts_of_this_thread) {
  const std::uint64_t before = thread_allocations();
  make_and_drop<int>();
  make_and_drop<int>();
  EXPECT_EQ(thread_allocations() - before, 2U);
}

TEST(for_each_allocation_failure, reaches_each_allocation) {
  std::array<int, 4> reached{};
  const std::uint64_t points = for_each_allocation_failure([&] {
    std::vector<std::unique_ptr<int>> made;
    made.reserve(3);
    ++reached[0];
    for (std::size_t i = 1; i < 4; ++i) {
      made.emplace_back(hidden(new int(1)));
      ++reached[i];
    }
  });
  EXPECT_EQ(points, 4U);
  EXPECT_EQ(reached, (std::array<int, 4>{4, 3, 2, 1}));
}

TEST(for_each_allocation_failure, accepts_failures_that_were_dealt_with) {
  int fallbacks = 0;
  const std::uint64_t points = for_each_allocation_failure([&] {
    int* p = hidden(new (std::nothrow) int);
    if (p == nullptr) ++fallbacks;
    delete p;
  });
  EXPECT_EQ(points, 1U);
  EXPECT_EQ(fallbacks, 1);
}

TEST(for_each_allocation_failure, shows_a_leak_on_the_failing_path) {
  std::vector<int*> lost;
  lost.reserve(10);
  const std::int64_t before = live_allocations();
  for_each_allocation_failure([&] {
    int* first = hidden(new int(1));
    lost.push_back(first);
    make_and_drop<int>();  // where this throws, `first` is forgotten
    lost.pop_back();
    delete first;
  });
  EXPECT_EQ(live_allocations() - before, 1);
  for (int* p : lost) delete p;
}

TEST(for_each_allocation_failure, passes_on_what_was_not_its_doing) {
  EXPECT_THROW(for_each_allocation_failure([] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_THROW(for_each_allocation_failure([] { throw std::runtime_error("x"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace spolia::test
