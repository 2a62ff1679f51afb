// SPDX-License-Identifier: Apache-2.0
// in_parallel.hpp: the elements of a range, shown to a function by several threads.
//
// Idea:        the threads take a few elements at a time from one iterator, behind a lock, and show
//              them to the function without it. So threads that are slow hold up none, and a range
//              needs no parts of equal size.
// Progress:    the caller works, too, and waits for those that have begun. An executor that never
//              begins with some of the work holds up nothing.
// Cost:        a lock, once in 64 elements; the walk through the range is one thread's at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/joined_threads.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/base/unwind.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Range, class F>
class shared_walk {
 public:
  shared_walk(Range all, F& f) : all_(std::move(all)), f_(f) {}
  shared_walk(const shared_walk&) = delete;
  shared_walk& operator=(const shared_walk&) = delete;

  /// For a helper: nothing, if the caller has ended.
  void help() {
    {
      const std::lock_guard turn(lock_);
      if (closed_) return;
      ++inside_;
    }
    const leaving at_end(*this);
    work();
  }
  /// For the caller. Throws what f has thrown first.
  void finish() {
    {
      const closing at_end(*this);
      work();
    }
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  }
  /// For the caller: as much as has been begun.
  void give_up() noexcept {
    // relaxed: to be late is no harm.
    ended_.store_relaxed(true);
    const closing at_end(*this);
  }

 private:
  using elements = std::vector<std::ranges::range_value_t<Range>>;
  static constexpr std::size_t together = 64;

  // Also where a thread that was cancelled is unwound.
  struct leaving {
    explicit leaving(shared_walk& w) noexcept : walk(w) {}
    leaving(const leaving&) = delete;
    leaving& operator=(const leaving&) = delete;
    ~leaving() {
      // With the lock, since the caller may go on at once.
      const std::lock_guard turn(walk.lock_);
      --walk.inside_;
      walk.left_.notify_one();
    }
    shared_walk& walk;
  };
  struct closing {
    explicit closing(shared_walk& w) noexcept : walk(w) {}
    closing(const closing&) = delete;
    closing& operator=(const closing&) = delete;
    ~closing() {
      const uncancelled meanwhile;
      std::unique_lock turn(walk.lock_);
      walk.closed_ = true;
      walk.left_.wait(turn, [&] { return walk.inside_ == 0; });
    }
    shared_walk& walk;
  };

  void work() {
    try {
      elements some;
      some.reserve(together);
      while (take(some)) {
        for (const auto& [key, value] : some) {
          // relaxed, all: to be late is no harm.
          if (ended_.load_relaxed()) return;
          if (!shown_to(f_, key, value)) ended_.store_relaxed(true);
        }
      }
    } catch (...) {
      ended_.store_relaxed(true);
      let_unwinding_pass();
      const std::lock_guard turn(lock_);
      if (!thrown_) thrown_ = std::current_exception();
    }
  }
  bool take(elements& some) {
    some.clear();
    const std::lock_guard turn(lock_);
    if (!at_) at_.emplace(std::ranges::begin(all_));
    for (; some.size() < together && *at_ != std::ranges::end(all_); ++*at_) {
      some.push_back(**at_);
    }
    return !some.empty();
  }

  Range all_;
  F& f_;
  atomic<bool> ended_{false};
  std::mutex lock_;  // of all that follows
  std::condition_variable left_;
  std::optional<std::ranges::iterator_t<Range>> at_;
  std::exception_ptr thrown_;
  std::size_t inside_ = 0;
  bool closed_ = false;
};

/// `execute` is given so many functions that can be called once, by any thread, or never.
template <class Range, class F, class Execute>
void show_with_helpers(Range all, F& f, std::size_t helpers, Execute& execute) {
  const auto walk = std::make_shared<shared_walk<Range, F>>(std::move(all), f);
  for (std::size_t i = 0; i < helpers; ++i) {
    try {
      execute([walk] { walk->help(); });
    } catch (...) {
      walk->give_up();
      throw;
    }
  }
  walk->finish();
}

template <class Range, class F>
void show_in_threads(Range all, F& f, std::size_t threads) {
  joined_threads helpers;
  // If there are no more, those that there are do it.
  const auto start = [&](auto task) { helpers.start(std::move(task)); };
  show_with_helpers(std::move(all), f, threads > 1 ? threads - 1 : 0, start);
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
