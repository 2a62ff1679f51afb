// SPDX-License-Identifier: Apache-2.0
/// \file
/// Failing allocations on purpose, and stopping at them. A test that uses this links
/// failing_new.cpp, which replaces the global operator new and delete; it sees what goes through
/// them and nothing else (not malloc, not mmap).
///
///     for_each_allocation_failure([&] {
///       map m;
///       try { m.insert(1, 2); } catch (const std::bad_alloc&) { EXPECT_TRUE(m.empty()); throw; }
///     });
///
/// Works under the sanitizers: memory still comes from malloc, which they watch.
#pragma once

#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>

namespace spolia::test {

enum class failing { once, from_then_on };

/// While it lives, the calling thread's `n`-th allocation from now (counted from 1) fails, and
/// with failing::from_then_on each later one. Other threads are not touched. Does not nest.
class fail_after {
 public:
  explicit fail_after(std::uint64_t n, failing how = failing::once);
  ~fail_after();
  fail_after(const fail_after&) = delete;
  fail_after& operator=(const fail_after&) = delete;

  /// Whether an allocation was made to fail.
  [[nodiscard]] bool fired() const noexcept;
};

/// While it lives, calls `f` before each allocation of the calling thread, but for those of `f`
/// itself: so a thread can be stopped amid what it does. Does not nest.
class before_allocations {
 public:
  explicit before_allocations(std::function<void()> f);
  ~before_allocations();
  before_allocations(const before_allocations&) = delete;
  before_allocations& operator=(const before_allocations&) = delete;

 private:
  const std::function<void()> f_;
};

/// Blocks that operator new gave to any thread and that were not yet deleted. Allocations by other
/// threads, by gtest and by the first use of something count too: compare before and after, around
/// as little as possible.
[[nodiscard]] std::int64_t live_allocations() noexcept;

/// Allocations that the calling thread attempted since it started, those that failed included.
[[nodiscard]] std::uint64_t thread_allocations() noexcept;

/// How much more memory there was at a time, since it was made, than then. Of all threads. One of
/// these at a time.
class bytes_taken {
 public:
  bytes_taken() noexcept;
  [[nodiscard]] std::int64_t most() const noexcept;

 private:
  const std::int64_t before_;
};

/// Runs `f()` with its first allocation failing, then with its second, and so on, until it runs
/// without meeting a failure. std::bad_alloc from `f` is expected while an allocation failed.
/// Returns how many runs met a failure: the number of allocations in `f`, if they do not depend
/// on each other.
/// \throws whatever else `f` throws; std::logic_error if there is no end to it
template <class F>
std::uint64_t for_each_allocation_failure(F&& f, failing how = failing::once) {
  constexpr std::uint64_t endless = 1'000'000;
  for (std::uint64_t n = 1; n < endless; ++n) {
    fail_after fault(n, how);
    try {
      f();
    } catch (const std::bad_alloc&) {
      if (!fault.fired()) throw;
    }
    if (!fault.fired()) return n - 1;
  }
  throw std::logic_error("each run makes more allocations than the one before");
}

/// Runs `f()`, twice if memory was missing, and `after()` each time it was. False if it was missing
/// the second time, too.
template <class F, class After>
bool try_twice(F&& f, After&& after) {
  for (int tries = 0; tries < 2; ++tries) {
    try {
      f();
      return true;
    } catch (const std::bad_alloc&) {
      after();
    }
  }
  return false;
}

}  // namespace spolia::test
