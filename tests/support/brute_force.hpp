// SPDX-License-Identifier: Apache-2.0
/// \file
/// The definition of linearizability, taken literally: try all orders. Only for a handful of
/// operations; this is what the fast checkers are compared with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace spolia::test {

template <class Event>
bool respects_time(std::span<const Event> events, const std::vector<std::size_t>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = i + 1; j < order.size(); ++j) {
      if (events[order[j]].end < events[order[i]].start) return false;
    }
  }
  return true;
}

/// Whether `explains(order)` holds for some permutation of the indices of `events` in which no
/// operation comes after one that began after its end.
template <class Event, class Explains>
bool some_order(std::span<const Event> events, Explains explains) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < events.size(); ++i) order.push_back(i);
  do {
    if (respects_time(events, order) && explains(order)) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

/// Gives each of `count` operations a thread and an interval such that operations of one thread
/// do not overlap. `below(n)` is a random number below n.
template <class Event, class Below>
std::vector<Event> random_intervals(std::size_t count, std::uint32_t threads, Below below) {
  std::vector<std::uint64_t> free_from(threads, 0);
  std::vector<Event> events(count);
  for (Event& e : events) {
    e.thread = static_cast<std::uint32_t>(below(threads));
    e.start = free_from[e.thread] + below(4);
    e.end = e.start + below(7);
    free_from[e.thread] = e.end + below(2);
  }
  return events;
}

}  // namespace spolia::test
