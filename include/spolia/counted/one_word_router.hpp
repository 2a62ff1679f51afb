// SPDX-License-Identifier: Apache-2.0
// one_word_router.hpp: which of 64 inputs still have a task that waits for a thread, and which are
// not yet done, in one word each.
//
// Threads are spread over the inputs by their numbers, so there may be more of them than inputs.
//
// Cost:        a look at one word if there is nothing; a read-modify-write for each task.
// Progress:    lock-free: a claim that fails has lost against another claim.
#pragma once

#include <bit>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

class one_word_router {
 public:
  static constexpr unsigned inputs = 64;
  static constexpr unsigned none = inputs;

  /// Each input with its bit in `which` has a task. Not to be called while any has one.
  void open(std::uint64_t which) noexcept {
    // release → the acquire in claim: what the tasks need to know.
    waiting_.store_release(which);
  }

  /// Takes the task of one input, looking from `hint` on; none if there is nothing.
  unsigned claim(unsigned hint) noexcept {
    std::uint64_t seen = waiting_.load_relaxed();
    while (seen != 0) {
      const auto skip = static_cast<int>(hint % inputs);
      const unsigned i =
          (hint + static_cast<unsigned>(std::countr_zero(std::rotr(seen, skip)))) % inputs;
      const std::uint64_t bit = std::uint64_t{1} << i;
      // acquire ← the releases in open and give_back, which later claims continue.
      seen = SPOLIA_FAULT("counted.claim_relaxed") ? waiting_.fetch_and_relaxed(~bit)
                                                   : waiting_.fetch_and_acquire(~bit);
      if ((seen & bit) != 0) return i;
    }
    return none;
  }

  /// The input has more to do, for any thread that comes.
  void give_back(unsigned i) noexcept {
    // release → the acquire in claim: how far we have come.
    waiting_.fetch_or_release(std::uint64_t{1} << i);
  }

  void reset() noexcept { waiting_.store_relaxed(0); }

 private:
  alignas(cache_line) atomic<std::uint64_t> waiting_{0};
};

/// Tells which thread is the last.
class one_word_barrier {
 public:
  void open(std::uint64_t which) noexcept { undone_.store_relaxed(which); }

  /// Input i is done. True for the last one, which sees all that was done before.
  bool arrive(unsigned i) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << i;
    if (SPOLIA_FAULT("counted.arrive_relaxed")) return undone_.fetch_and_relaxed(~bit) == bit;
    // release and acquire: what the others did happens before what the last one does now.
    return undone_.fetch_and_acq_rel(~bit) == bit;
  }

  void reset() noexcept { undone_.store_relaxed(0); }

 private:
  alignas(cache_line) atomic<std::uint64_t> undone_{0};
};

}  // namespace counted::detail

namespace counted {
using detail::one_word_barrier;
using detail::one_word_router;
}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR
