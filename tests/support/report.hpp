// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the checkers share: refusing malformed histories and printing operations as a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/history.hpp"

namespace spolia::test {

struct report_row {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t thread = 0;
  std::string operation;
  std::string result;
  std::string note;
};

/// Sorted by start, with times counted from the first row's start; all but 40 rows are left out of
/// the middle.
[[nodiscard]] std::string render(std::vector<report_row> rows);

[[nodiscard]] report_row describe(const map_event& e);
/// `put` and `take` are the structure's own words for them.
[[nodiscard]] report_row describe(const bag_event& e, const char* put, const char* take);
[[nodiscard]] report_row describe(const scan_event& e);

/// \throws std::invalid_argument if an operation ends before it starts, or if two operations of
/// one thread overlap
template <class Event>
void require_well_formed(std::span<const Event> history) {
  struct slot {
    std::uint32_t thread;
    std::uint64_t start, end;
  };
  std::vector<slot> slots;
  slots.reserve(history.size());
  for (const Event& e : history) {
    if (e.end < e.start) throw std::invalid_argument("an operation ends before it starts");
    slots.push_back({e.thread, e.start, e.end});
  }
  const auto before = [](const slot& a, const slot& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  };
  // A recorder hands out its lanes one after the other, in order.
  if (!std::is_sorted(slots.begin(), slots.end(), before)) {
    std::sort(slots.begin(), slots.end(), before);
  }
  for (std::size_t i = 1; i < slots.size(); ++i) {
    if (slots[i].thread == slots[i - 1].thread && slots[i].start < slots[i - 1].end) {
      throw std::invalid_argument("operations of one thread overlap");
    }
  }
}

}  // namespace spolia::test
