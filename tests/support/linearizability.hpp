// SPDX-License-Identifier: Apache-2.0
/// \file
/// Judges of recorded histories (history.hpp records them): maps, FIFO queues, LIFO stacks, and
/// ordered scans. A refusal comes with a table of the few operations that no order explains.
///
///     EXPECT_TRUE(accepted(check_map(record.events())));
///
/// All checkers are exact for what they state, need whole histories (every operation that took
/// effect, also those that filled the structure before the threads started), and throw
/// std::invalid_argument if the operations of one thread overlap or end before they start.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>

#include "support/history.hpp"
#include "support/linearization_search.hpp"

namespace spolia::test {

struct verdict {
  search_outcome outcome = search_outcome::accepted;
  std::string explanation;

  /// Giving up is not accepting.
  [[nodiscard]] explicit operator bool() const { return outcome == search_outcome::accepted; }
};

/// For EXPECT_TRUE: fails with the explanation.
[[nodiscard]] inline testing::AssertionResult accepted(const verdict& v) {
  if (v) return testing::AssertionSuccess();
  return testing::AssertionFailure() << v.explanation;
}
/// For EXPECT_TRUE in tests of broken structures: something must have been found.
[[nodiscard]] inline testing::AssertionResult refused(const verdict& v) {
  if (v.outcome == search_outcome::refused) return testing::AssertionSuccess() << v.explanation;
  return testing::AssertionFailure()
         << (v ? "the history was accepted" : "the search gave up: " + v.explanation);
}

/// A map that starts empty, as a sequential object. The kinds `present` (some value) and `unknown`
/// exist for explanations, which start in the middle of a history.
struct map_spec {
  using operation = map_event;
  enum class kind : std::uint8_t { absent, known, present, unknown };
  struct state {
    kind what = kind::absent;
    std::uint64_t value = 0;  // of kind::known
    friend bool operator==(const state&, const state&) = default;
  };
  static bool apply(state& s, const operation& o) noexcept;
  static bool only_reads(const operation& o) noexcept {
    const bool may_write = o.op == map_op::insert || o.op == map_op::erase ||
                           o.op == map_op::replace || o.op == map_op::take;
    return o.op == map_op::find || o.op == map_op::contains || (may_write && !o.ok);
  }
  static digest128 digest(const state& s) noexcept {
    return digest_of(mix64(s.value) + static_cast<std::uint64_t>(s.what));
  }
};

/// Linearizability of a map, checked key by key (a map is linearizable exactly if each key's part
/// of the history is: Herlihy and Wing 1990, locality). About two million operations a second,
/// less on a key that is hot for more than eight threads at once.
/// Gives up on a key after `budget` configurations.
[[nodiscard]] verdict check_map(std::span<const map_event> history,
                                std::size_t budget = std::size_t{1} << 23);

/// Linearizability of a FIFO queue whose put values are unique, empty takes included, O(n log n):
/// a history is refused exactly if it shows one of the bad patterns of Henzinger, Sezgin and
/// Vafeiadis (Aspect-oriented linearizability proofs, 2013).
[[nodiscard]] verdict check_queue(std::span<const bag_event> history);

/// Linearizability of a LIFO stack whose put values are unique, empty takes included,
/// O(n log n) times the number of threads. See stack_check.cpp for the argument.
[[nodiscard]] verdict check_stack(std::span<const bag_event> history);

/// A weakly consistent ordered scan of a linearizable map: keys strictly increase and lie in the
/// range; no key is missed that was certainly present during the whole scan; none is shown that
/// was certainly absent during the whole scan; and no value is shown that was overwritten before
/// the scan, or written after it. "Certainly" is judged by counting successful updates: no correct
/// scan is refused, and a wrong one only passes where concurrent updates could excuse it.
[[nodiscard]] verdict check_scans(std::span<const map_event> history,
                                  std::span<const scan_event> scans);

}  // namespace spolia::test
