// SPDX-License-Identifier: Apache-2.0
// map_check.cpp: linearizability of maps, key by key, and what to show of a violation.
#include <algorithm>

#include "support/linearizability.hpp"
#include "support/report.hpp"

namespace spolia::test {
namespace {

using kind = map_spec::kind;
using map_search = linearization_search<map_spec>;

bool may_be_absent(kind k) noexcept { return k == kind::absent || k == kind::unknown; }
bool may_be_present(kind k) noexcept { return k != kind::absent; }

// What an operation reveals that found the key there without seeing its value.
kind seen_present(kind k) noexcept { return k == kind::unknown ? kind::present : k; }

bool leave(map_spec::state& s, bool possible, map_spec::state after) noexcept {
  if (possible) s = after;
  return possible;
}

std::vector<map_event> by_key_and_start(std::span<const map_event> history) {
  struct handle {
    std::uint64_t key, start;
    std::uint32_t index;
  };
  std::vector<handle> handles(history.size());
  for (std::size_t i = 0; i < history.size(); ++i) {
    handles[i] = {history[i].key, history[i].start, static_cast<std::uint32_t>(i)};
  }
  std::sort(handles.begin(), handles.end(), [](const handle& a, const handle& b) {
    return a.key != b.key ? a.key < b.key : a.start < b.start;
  });
  std::vector<map_event> sorted(history.size());
  for (std::size_t i = 0; i < handles.size(); ++i) sorted[i] = history[handles[i].index];
  return sorted;
}

std::vector<map_event> cut(std::span<const map_event> ops, time_window window) {
  std::vector<map_event> part;
  for (const map_event& e : ops) {
    if (e.end >= window.from && e.start <= window.until) part.push_back(e);
  }
  return part;
}

bool still_refused(std::span<const map_event> ops, time_window window, map_search& search) {
  const std::vector<map_event> part = cut(ops, window);
  constexpr search_budget small{200'000};
  return search.run(part, {kind::unknown, 0}, window, small).outcome == search_outcome::refused;
}

struct evidence {
  time_window window;
  bool needs_empty_start;  // it only accuses because the map was empty at first
};

// The latest start of a window, ending where `ops[stuck]` ends, that no content of the map before
// it excuses. A shorter window excuses more, and most violations are local, so the search widens
// the window in leaps, and then narrows it by halves.
evidence shortest_window(std::span<const map_event> ops, std::size_t stuck, map_search& search) {
  const auto window_of = [&](std::size_t operations_before) {
    return time_window{ops[stuck - operations_before].start, ops[stuck].end};
  };
  std::size_t wide = 0;
  std::size_t narrow = 0;  // not refused, if less than `wide`
  while (!still_refused(ops, window_of(wide), search)) {
    if (wide == stuck) return {{0, ops[stuck].end}, true};
    narrow = wide;
    wide = std::min(stuck, 2 * wide + 1);
  }
  while (wide - narrow > 1) {
    const std::size_t middle = narrow + (wide - narrow) / 2;
    (still_refused(ops, window_of(middle), search) ? wide : narrow) = middle;
  }
  return {window_of(wide), false};
}

bool writes(const map_event& e) noexcept {
  const bool may = e.op == map_op::insert || e.op == map_op::replace;
  return e.op == map_op::insert_or_assign || (may && e.ok);
}

std::string explain(std::span<const map_event> ops, std::size_t stuck, map_search& search) {
  const map_event culprit = ops[stuck];
  const auto [window, needs_empty_start] = shortest_window(ops, stuck, search);
  std::vector<report_row> rows;
  for (const map_event& e : cut(ops, window)) {
    report_row row = describe(e);
    if (e.start < window.from) row.note = "(optional: began before the window)";
    if (e.end > window.until) row.note = "(optional: ended after the window)";
    if (e.start == culprit.start && e.end == culprit.end && e.thread == culprit.thread) {
      row.note = "<- no order explains it";
    }
    rows.push_back(row);
  }
  std::string text = "key " + std::to_string(culprit.key) + " is not linearizable";
  if (culprit.op == map_op::find && culprit.ok &&
      std::none_of(ops.begin(), ops.end(),
                   [&](const map_event& e) { return writes(e) && e.value == culprit.value; })) {
    text += ": nothing ever wrote " + std::to_string(culprit.value);
  }
  text += needs_empty_start ? "; from the empty map on, " : "; whatever the map held before, ";
  text += std::to_string(rows.size()) + " of this key's " + std::to_string(ops.size()) +
          " operations cannot be put in order:\n";
  return text + render(std::move(rows));
}

// A search that stalls may have met a violation whose proof would take back all of the past. Often
// the last operations before it are proof enough.
verdict check_key(std::span<const map_event> ops, map_search& search, std::size_t budget) {
  constexpr std::size_t first_try = 20'000;
  constexpr std::size_t last_operations = 64;
  search_result result = search.run(ops, {}, {}, {budget, first_try});
  if (result.outcome == search_outcome::gave_up) {
    const std::size_t from = result.stuck - std::min(result.stuck, last_operations);
    if (still_refused(ops, {ops[from].start, ops[result.stuck].end}, search)) {
      result.outcome = search_outcome::refused;
    } else {
      result = search.run(ops, {}, {}, {budget});
    }
  }
  if (result.outcome == search_outcome::accepted) return {};
  if (result.outcome == search_outcome::refused) {
    return {result.outcome, explain(ops, result.stuck, search)};
  }
  return {result.outcome, "key " + std::to_string(ops.front().key) + ": " + std::to_string(budget) +
                              " configurations were not enough"};
}

}  // namespace

bool map_spec::apply(state& s, const operation& o) noexcept {
  const bool absent = may_be_absent(s.what);
  const bool present = may_be_present(s.what);
  const state after_write{kind::known, o.value};
  const auto may_hold = [&](std::uint64_t value) {
    return present && (s.what != kind::known || s.value == value);
  };
  const state after_glimpse{seen_present(s.what), s.value};
  switch (o.op) {
    case map_op::insert:
      return o.ok ? leave(s, absent, after_write) : leave(s, present, after_glimpse);
    case map_op::insert_or_assign:
      return leave(s, o.ok ? absent : present, after_write);
    case map_op::erase:
      return leave(s, o.ok ? present : absent, {kind::absent, 0});
    case map_op::contains:
      return o.ok ? leave(s, present, after_glimpse) : leave(s, absent, {kind::absent, 0});
    case map_op::find:
      if (!o.ok) return leave(s, absent, {kind::absent, 0});
      return leave(s, may_hold(o.value), after_write);
    case map_op::replace:
      if (!o.ok) return leave(s, absent, {kind::absent, 0});
      return leave(s, may_hold(o.before), after_write);
    case map_op::take:
      return leave(s, o.ok ? may_hold(o.value) : absent, {kind::absent, 0});
  }
  return false;
}

verdict check_map(std::span<const map_event> history, std::size_t budget) {
  require_well_formed(history);
  const std::vector<map_event> sorted = by_key_and_start(history);
  map_search search;
  for (std::size_t first = 0; first < sorted.size();) {
    std::size_t last = first;
    while (last < sorted.size() && sorted[last].key == sorted[first].key) ++last;
    const std::span<const map_event> ops(sorted.data() + first, last - first);
    const verdict v = check_key(ops, search, budget);
    if (!v) return v;
    first = last;
  }
  return {};
}

}  // namespace spolia::test
