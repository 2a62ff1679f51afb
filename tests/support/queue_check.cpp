// SPDX-License-Identifier: Apache-2.0
// queue_check.cpp: FIFO by bad patterns. Henzinger, Sezgin and Vafeiadis showed that with unique
// values a history of complete operations is linearizable exactly if no take is impossible, no
// empty take is impossible, and no value overtakes another.
#include <algorithm>
#include <numeric>

#include "support/bag_history.hpp"

namespace spolia::test {
namespace {

// b was put after a, and yet taken before a: for each b, the a with put_end < b.put_start whose
// take starts last accuses it, if any does.
std::optional<verdict> overtaking(const bag_history& history) {
  const std::span<const bag_value> by_put_end = history.values();
  std::vector<std::uint32_t> by_put_start(by_put_end.size());
  std::iota(by_put_start.begin(), by_put_start.end(), 0U);
  std::sort(by_put_start.begin(), by_put_start.end(), [&](std::uint32_t a, std::uint32_t b) {
    return by_put_end[a].put_start < by_put_end[b].put_start;
  });
  std::size_t next = 0;
  const bag_value* last_taken = nullptr;
  for (const std::uint32_t i : by_put_start) {
    const bag_value& b = by_put_end[i];
    for (; next < by_put_end.size() && by_put_end[next].put_end < b.put_start; ++next) {
      const bag_value& a = by_put_end[next];
      if (last_taken == nullptr || a.take_start > last_taken->take_start) last_taken = &a;
    }
    if (last_taken != nullptr && b.take_end < last_taken->take_start) {
      const bag_value evidence[] = {*last_taken, b};
      return history.refuse("the value that was put second was taken first", evidence);
    }
  }
  return std::nullopt;
}

}  // namespace

verdict check_queue(std::span<const bag_event> history) {
  const bag_history h(history, {"FIFO queue", "enqueue", "dequeue"});
  if (auto v = h.impossible_take()) return *v;
  if (auto v = overtaking(h)) return *v;
  return h.impossible_empty().value_or(verdict{});
}

}  // namespace spolia::test
