// SPDX-License-Identifier: Apache-2.0
// tree_router.hpp: which of 64 inputs still have a task that waits for a thread, and which are not
// yet done, in a tree of small nodes: the paper's, beside the one word of one_word_router.hpp.
//
// Source:      Tripp, Hyde, Grossman-Ponemon, "FRC", ISMM 2018, section 3.5 (static tree router).
// Idea:        a perfect binary tree; each node has a bit for each child that has something below
//              it. A thread that changes an input goes up only as far as a bit changes, so threads
//              at inputs far from each other meet seldom.
// Cost:        a claim walks down six nodes and up as far as they become empty; each node on the
//              way up is locked, and stays so until the one above is done.
// Progress:    blocking for the length of such a walk; a thread that waits gives the processor
//              away.
// Departures:
//   1. The node is an OR of its children, as in the paper's pseudocode; its text says AND.
//   2. A claim takes the input itself, under the lock of the lowest node; the paper asks the
//      input's queue.
#pragma once

#include <array>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

class tree_router {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr unsigned inputs = 4;
#else
  static constexpr unsigned inputs = 64;
#endif
  static constexpr unsigned none = inputs;

  /// Each input with its bit in `which` has a task. Not to be called while any has one.
  void open(std::uint64_t which) noexcept {
    for (unsigned n = inputs; n-- > 1;) {
      std::uint8_t state = 0;
      for (unsigned side = 0; side < 2; ++side) {
        const unsigned child = 2 * n + side;
        const bool below = child >= inputs ? (which >> (child - inputs) & 1U) != 0
                                           : node(child).load_relaxed() != 0;
        if (below) state |= bit_of(child);
      }
      // release → the acquire in lock: what the tasks need to know. The root is the last.
      node(n).store_release(state);
    }
  }

  /// Takes the task of one input, looking from `hint` on; none if nothing was found.
  unsigned claim(unsigned hint) noexcept {
    for (unsigned turn = 0; turn < turns && node(1).load_relaxed() != 0; ++turn) {
      const unsigned n = find(hint);
      if (n != 0 && release(n) != released::nothing) return n - inputs;
    }
    return none;
  }

  /// The input has more to do, for any thread that comes.
  void give_back(unsigned i) noexcept {
    unsigned n = inputs + i;
    std::uint8_t below = 0;
    unsigned locked = 0;
    do {
      const std::uint8_t bit = bit_of(n);
      n /= 2;
      const std::uint8_t before = lock(n);
      if (locked != 0) unlock(locked, below);
      locked = n;
      below = before | bit;
      if (before != 0) break;  // those above know already
    } while (n != 1);
    unlock(locked, below);
  }

  /// As a barrier: input i is done. True for the last one, which sees all that was done before.
  bool arrive(unsigned i) noexcept { return release(inputs + i) == released::last; }

  /// In a forked child: also locks of threads that have vanished.
  void reset() noexcept {
    for (unsigned n = 1; n < inputs; ++n) node(n).store_relaxed(0);
  }

 private:
  enum class released : std::uint8_t { nothing, one, last };
  static constexpr unsigned turns = 3;  // then others are at work here, and their tasks are few
  static constexpr std::uint8_t both = 3;
  static constexpr std::uint8_t locked_bit = 4;

  struct alignas(cache_line) line {
    atomic<std::uint8_t> state{0};
  };

  static constexpr std::uint8_t bit_of(unsigned child) noexcept {
    return static_cast<std::uint8_t>(1U << (child & 1U));
  }
  atomic<std::uint8_t>& node(unsigned n) noexcept { return nodes_[n].state; }

  /// The place of an input that seems to have a task, or 0.
  unsigned find(unsigned hint) noexcept {
    unsigned n = 1;
    for (unsigned level = inputs / 2; n < inputs; level /= 2) {
      const std::uint8_t state = node(n).load_relaxed() & both;
      if (state == 0) return 0;  // another thread was faster
      const unsigned wanted = 2 * n + ((hint & level) != 0 ? 1U : 0U);
      n = (state & bit_of(wanted)) != 0 ? wanted : (wanted ^ 1U);
    }
    return n;
  }

  std::uint8_t lock(unsigned n) noexcept {
    backoff wait;
    for (;;) {
      std::uint8_t seen = node(n).load_relaxed() & both;
      // acquire ← the releases in unlock and open: what was done below, and by whom it was opened.
      if (node(n).cas_strong_acquire(seen, static_cast<std::uint8_t>(seen | locked_bit))) {
        return seen;
      }
      wait.pause();
    }
  }
  void unlock(unsigned n, std::uint8_t state) noexcept {
    if (SPOLIA_FAULT("counted.tree_relaxed")) return node(n).store_relaxed(state);
    // release → the acquire in lock.
    node(n).store_release(state);
  }

  /// Nothing: the input n (a leaf's place) had been released before. Last: the tree is empty now.
  released release(unsigned n) noexcept {
    released what = released::nothing;
    unsigned locked = 0;
    for (;;) {
      const std::uint8_t bit = bit_of(n);
      n /= 2;
      const std::uint8_t before = lock(n);
      // Not before the one above is locked: else an input below could come back in between, and be
      // forgotten above.
      if (locked != 0) unlock(locked, 0);
      locked = n;
      const auto after = static_cast<std::uint8_t>(before & ~bit);
      if ((before & bit) != 0 && what == released::nothing) what = released::one;
      if (before == after || after != 0 || n == 1) {
        unlock(n, after);
        return before != after && after == 0 ? released::last : what;
      }
    }
  }

  std::array<line, inputs> nodes_{};  // from 1 on; node n has the children 2n and 2n + 1
};

}  // namespace counted::detail

namespace counted {
using detail::tree_router;
}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR
