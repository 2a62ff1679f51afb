// SPDX-License-Identifier: Apache-2.0
// stack_check.cpp: LIFO with unique values, without search.
//
// A value that overlaps with its own take can be pushed and popped in one instant: drop it. Each
// other value is certainly on the stack from its push's end to its pop's start. Where none is,
// the stack may as well be empty (bag_history::impossible_empty), so that the history falls into
// blocks between such gaps, each of which can be judged alone. Inside a block the stack is never
// empty, hence one value lies at the bottom all the time: its push may come before the first push
// must have ended, and its pop after the last pop must have begun. If no value can, the block is
// not linearizable. If several can, any will do: taking a value out never breaks an order, and
// putting this one back, first in and last out, never does either. Without it the block falls
// into smaller ones.
#include <algorithm>
#include <bit>

#include "support/bag_history.hpp"

namespace spolia::test {
namespace {

/// Counts per gap between ranks, with subtraction over a range and search for the next zero.
class gap_tree {
 public:
  explicit gap_tree(const std::vector<std::uint32_t>& counts)
      : size_(std::bit_ceil(std::max<std::size_t>(counts.size(), 1))),
        least_(2 * size_),
        lazy_(2 * size_) {
    std::copy(counts.begin(), counts.end(), least_.begin() + static_cast<std::ptrdiff_t>(size_));
    for (std::size_t i = size_; i-- > 1;) least_[i] = std::min(least_[2 * i], least_[2 * i + 1]);
  }

  void decrement(rank from, rank to) { decrement(1, 0, size_, from, to); }

  /// The first gap at `from` or later without a value; `none` if there is none before `to`.
  [[nodiscard]] rank next_zero(rank from, rank to, rank none) const {
    const std::size_t found = next_zero(1, 0, size_, from, 0);
    return found < to ? static_cast<rank>(found) : none;
  }

 private:
  // A node's least_ does not yet include what its ancestors' lazy_ subtract.
  void decrement(std::size_t node, std::size_t low, std::size_t high, rank from, rank to) {
    if (to <= low || high <= from) return;
    if (from <= low && high <= to) {
      --least_[node];
      ++lazy_[node];
      return;
    }
    const std::size_t middle = low + (high - low) / 2;
    decrement(2 * node, low, middle, from, to);
    decrement(2 * node + 1, middle, high, from, to);
    least_[node] = std::min(least_[2 * node], least_[2 * node + 1]) - lazy_[node];
  }

  [[nodiscard]] std::size_t next_zero(std::size_t node, std::size_t low, std::size_t high,
                                      rank from, std::uint32_t above) const {
    if (high <= from || least_[node] > above) return size_;
    if (high - low == 1) return low;
    const std::size_t middle = low + (high - low) / 2;
    above += lazy_[node];
    const std::size_t left = next_zero(2 * node, low, middle, from, above);
    return left < size_ ? left : next_zero(2 * node + 1, middle, high, from, above);
  }

  std::size_t size_;
  std::vector<std::uint32_t> least_;
  std::vector<std::uint32_t> lazy_;
};

/// Which pushes are in flight at a rank. Pushes are dealt to as few lines as there were pushes in
/// flight at once, so that those of one line do not overlap.
class pushes_in_flight {
 public:
  explicit pushes_in_flight(std::span<const bag_value> values) : values_(values) {
    std::vector<std::uint32_t> by_start(values.size());
    for (std::uint32_t i = 0; i < values.size(); ++i) by_start[i] = i;
    std::sort(by_start.begin(), by_start.end(), [&](std::uint32_t a, std::uint32_t b) {
      return values[a].put_start < values[b].put_start;
    });
    std::vector<std::size_t> free;
    std::size_t ended = 0;  // values are sorted by put_end
    std::vector<std::size_t> line_of(values.size());
    for (const std::uint32_t i : by_start) {
      for (; values[ended].put_end < values[i].put_start; ++ended) free.push_back(line_of[ended]);
      if (free.empty()) {
        free.push_back(lines_.size());
        lines_.emplace_back();
      }
      line_of[i] = free.back();
      free.pop_back();
      lines_[line_of[i]].push_back(i);
    }
  }

  /// The first value for which `wanted` holds, of those with put_start < at <= put_end.
  template <class Predicate>
  [[nodiscard]] const bag_value* find(rank at, Predicate wanted) const {
    for (const std::vector<std::uint32_t>& line : lines_) {
      const auto after = std::partition_point(
          line.begin(), line.end(), [&](std::uint32_t i) { return values_[i].put_start < at; });
      if (after == line.begin()) continue;
      const bag_value& v = values_[*(after - 1)];
      if (v.put_end >= at && wanted(v)) return &v;
    }
    return nullptr;
  }

 private:
  std::span<const bag_value> values_;
  std::vector<std::vector<std::uint32_t>> lines_;
};

class stack_judge {
 public:
  explicit stack_judge(const bag_history& history)
      : history_(history),
        values_(history.values()),
        gaps_(history.certain_values()),
        pushes_(values_),
        removed_(values_.size()) {}

  std::optional<verdict> run() {
    split(0, history_.ranks());
    while (!blocks_.empty()) {
      const block b = blocks_.back();
      blocks_.pop_back();
      const bag_value* bottom = pushes_.find(b.from, [&](const bag_value& v) {
        return v.certain() && v.put_end < b.to && v.take_end > b.to && !removed_[index(v)];
      });
      if (bottom == nullptr) return no_bottom(b);
      removed_[index(*bottom)] = true;
      gaps_.decrement(bottom->put_end, bottom->take_start);
      split(b.from, b.to);
    }
    return std::nullopt;
  }

 private:
  // From the end of its first push to the start of its last pop, the stack is never empty.
  struct block {
    rank from;
    rank to;
  };

  [[nodiscard]] std::size_t index(const bag_value& v) const noexcept {
    return static_cast<std::size_t>(&v - values_.data());
  }

  // Gaps are found once and then lie between blocks forever, so all splits together take
  // O(n log n).
  void split(rank from, rank to) {
    while (from < to) {
      const rank zero = gaps_.next_zero(from, to, to);
      if (zero > from) blocks_.push_back({from, zero});
      from = zero + 1;
    }
  }

  [[nodiscard]] verdict no_bottom(const block& b) const {
    std::vector<bag_value> alive;
    for (const bag_value& v : values_) {
      const bool inside = v.put_end >= b.from && v.put_end < b.to;
      if (inside && v.certain() && !removed_[index(v)]) alive.push_back(v);
    }
    return history_.refuse(
        "at each moment some of these values are certainly on it, and none can lie at its bottom "
        "all the time",
        bag_history::cover(alive, b.from, b.to));
  }

  const bag_history& history_;
  std::span<const bag_value> values_;
  gap_tree gaps_;
  pushes_in_flight pushes_;
  std::vector<bool> removed_;
  std::vector<block> blocks_;
};

}  // namespace

verdict check_stack(std::span<const bag_event> history) {
  const bag_history h(history, {"LIFO stack", "push", "pop"});
  if (auto v = h.impossible_take()) return *v;
  if (auto v = h.impossible_empty()) return *v;
  return stack_judge(h).run().value_or(verdict{});
}

}  // namespace spolia::test
