// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the queue and the stack checker have in common: puts matched with takes, stamps replaced
/// by ranks, and the reasoning about when the structure certainly was not empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support/linearizability.hpp"

namespace spolia::test {

/// Position among all calls and returns in the order of time. Equal stamps mean "concurrent", so
/// calls come before returns; hence a precedes b exactly if rank(a.end) < rank(b.start).
using rank = std::uint32_t;

inline constexpr std::uint32_t no_event = std::numeric_limits<std::uint32_t>::max();

struct bag_value {
  rank put_start = 0;
  rank put_end = 0;
  rank take_start = 0;  // of a value that stayed: after all ranks
  rank take_end = 0;
  std::uint32_t put = no_event;  // index in the history
  std::uint32_t take = no_event;

  /// From put_end to take_start the value is there in every order. An overlapping put and take
  /// can be neighbours in the order, and then no other thread sees the value.
  [[nodiscard]] bool certain() const noexcept { return put_end < take_start; }
};

struct empty_take {
  rank start = 0;
  rank end = 0;
  std::uint32_t event = no_event;
};

/// The structure's own words, for explanations.
struct bag_words {
  const char* structure;
  const char* put;
  const char* take;
};

class bag_history {
 public:
  /// \throws std::invalid_argument on a malformed history or a value that was put twice
  bag_history(std::span<const bag_event> events, bag_words words);

  /// Sorted by put_end.
  [[nodiscard]] std::span<const bag_value> values() const noexcept { return values_; }
  /// Ranks go from 0 to below this.
  [[nodiscard]] rank ranks() const noexcept { return ranks_; }
  /// For each gap [i, i + 1) between ranks: how many values are certainly there.
  [[nodiscard]] std::vector<std::uint32_t> certain_values() const;

  /// A value that came from nowhere, came twice, or came before it was put.
  [[nodiscard]] std::optional<verdict> impossible_take() const;
  /// A take that found nothing although some value was certainly there all the time. Where no
  /// value certainly is there, any order can be turned into one in which the structure is empty:
  /// takes that may be earlier come earlier and puts that may be later come later, each group in
  /// its old order, which disturbs neither FIFO nor LIFO.
  [[nodiscard]] std::optional<verdict> impossible_empty() const;

  /// A smallest set of values of `among` (sorted by put_end), one of which is certainly there at
  /// each time between the two ranks. There must be one.
  [[nodiscard]] static std::vector<bag_value> cover(std::span<const bag_value> among, rank from,
                                                    rank to);

  /// A refusal that shows these values' operations, and one more if it is not `no_event`.
  [[nodiscard]] verdict refuse(const std::string& why, std::span<const bag_value> evidence,
                               std::uint32_t one_more = no_event) const;

 private:
  void assign_ranks();
  void match();

  struct stray_take {
    std::uint32_t event;
    std::uint32_t other;  // the take that already had the value, or no_event
  };

  std::span<const bag_event> events_;
  bag_words words_;
  rank ranks_ = 0;
  std::vector<rank> start_;
  std::vector<rank> end_;
  std::vector<bag_value> values_;
  std::vector<empty_take> empties_;
  std::optional<stray_take> stray_;
};

}  // namespace spolia::test
