// SPDX-License-Identifier: Apache-2.0
// scan_check.cpp: weakly consistent scans, by counting.
//
// Whether a key is there at a moment, 1 or 0, is the number of its insertions that have taken
// effect minus the number of its erasures; both numbers lie between "ended before" and "started by
// then". So during a whole scan [s, e]
//     there >= (insertions with end < s) - (erasures with start <= e),
//     there <= (insertions with start <= e) - (erasures with end < s).
#include <algorithm>
#include <map>
#include <optional>

#include "support/linearizability.hpp"
#include "support/report.hpp"

namespace spolia::test {
namespace {

using times = std::vector<std::uint64_t>;

std::ptrdiff_t below(const times& sorted, std::uint64_t limit) {
  return std::lower_bound(sorted.begin(), sorted.end(), limit) - sorted.begin();
}
std::ptrdiff_t up_to(const times& sorted, std::uint64_t limit) {
  return std::upper_bound(sorted.begin(), sorted.end(), limit) - sorted.begin();
}

bool removes(const map_event& e) noexcept { return e.op == map_op::erase || e.op == map_op::take; }

/// The successful updates of one key.
class key_updates {
 public:
  void add(const map_event& e) {
    const bool inserts = e.op == map_op::insert || e.op == map_op::insert_or_assign;
    if (inserts && e.ok) {
      insert_starts_.push_back(e.start);
      insert_ends_.push_back(e.end);
    } else if (removes(e)) {
      erase_starts_.push_back(e.start);
      erase_ends_.push_back(e.end);
    }
    updates_.push_back(e);
  }

  void finish() {
    for (times* t : {&insert_starts_, &insert_ends_, &erase_starts_, &erase_ends_}) {
      std::sort(t->begin(), t->end());
    }
    std::sort(updates_.begin(), updates_.end(),
              [](const map_event& a, const map_event& b) { return a.end < b.end; });
    latest_start_.reserve(updates_.size());
    for (const map_event& e : updates_) {
      const std::uint64_t previous = latest_start_.empty() ? 0 : latest_start_.back();
      latest_start_.push_back(std::max(previous, e.start));
      if (removes(e)) continue;
      writes& w = writes_[e.value];
      w.ends.push_back(e.end);
      w.earliest_start.push_back(e.start);
    }
    for (auto& [value, w] : writes_) {
      for (std::size_t i = w.ends.size() - 1; i > 0; --i) {
        w.earliest_start[i - 1] = std::min(w.earliest_start[i - 1], w.earliest_start[i]);
      }
    }
  }

  [[nodiscard]] bool certainly_present(const scan_event& s) const {
    return below(insert_ends_, s.start) - up_to(erase_starts_, s.end) > 0;
  }
  [[nodiscard]] bool certainly_absent(const scan_event& s) const {
    return up_to(insert_starts_, s.end) - below(erase_ends_, s.start) <= 0;
  }
  /// Whether some write of `value` began by the scan's end and was not followed, in every order,
  /// by an update that was over before the scan.
  [[nodiscard]] bool may_hold(std::uint64_t value, const scan_event& s) const {
    const auto found = writes_.find(value);
    if (found == writes_.end()) return false;
    const auto over = std::partition_point(updates_.begin(), updates_.end(),
                                           [&](const auto& e) { return e.end < s.start; });
    const auto n = static_cast<std::size_t>(over - updates_.begin());
    const std::uint64_t bar = n == 0 ? 0 : latest_start_[n - 1];
    const writes& w = found->second;
    const auto first = static_cast<std::size_t>(below(w.ends, bar));
    return first < w.ends.size() && w.earliest_start[first] <= s.end;
  }

  /// The updates around the scan: those that overlap it and the last few before it.
  void describe_near(const scan_event& s, std::vector<report_row>& rows) const {
    constexpr std::ptrdiff_t before = 4;
    const auto over = std::partition_point(updates_.begin(), updates_.end(),
                                           [&](const auto& e) { return e.end < s.start; });
    for (auto e = over - std::min(before, over - updates_.begin()); e != updates_.end(); ++e) {
      if (e->start <= s.end) rows.push_back(describe(*e));
    }
  }

 private:
  /// The writes of one value, sorted by end.
  struct writes {
    times ends;
    times earliest_start;  // of this write and all that end later
  };

  times insert_starts_;
  times insert_ends_;
  times erase_starts_;
  times erase_ends_;
  std::vector<map_event> updates_;  // sorted by end
  times latest_start_;              // of updates_[0..i]
  std::map<std::uint64_t, writes> writes_;
};

class scan_judge {
 public:
  explicit scan_judge(std::span<const map_event> history) {
    for (const map_event& e : history) {
      const bool assigns = e.op == map_op::insert_or_assign;
      const bool may = e.op == map_op::insert || e.op == map_op::replace || removes(e);
      const bool updates = may && e.ok;
      if (assigns || updates) keys_[e.key].add(e);
    }
    for (auto& [key, updates] : keys_) updates.finish();
  }

  [[nodiscard]] std::optional<verdict> judge(const scan_event& s) const {
    for (std::size_t i = 0; i < s.shown.size(); ++i) {
      const auto [key, value] = s.shown[i];
      if (key < s.low || key > s.high) return refuse(s, key, "is outside the range");
      if (i > 0 && key <= s.shown[i - 1].first) {
        return refuse(s, key, "came after key " + std::to_string(s.shown[i - 1].first));
      }
      const auto found = keys_.find(key);
      if (found == keys_.end() || found->second.certainly_absent(s)) {
        return refuse(s, key, "was shown, but was absent during the whole scan");
      }
      if (!found->second.may_hold(value, s)) {
        return refuse(s, key,
                      "was shown with the value " + std::to_string(value) +
                          ", which it did not have during the scan");
      }
    }
    auto shown = s.shown.begin();
    for (auto k = keys_.lower_bound(s.low); k != keys_.end() && k->first <= s.high; ++k) {
      while (shown != s.shown.end() && shown->first < k->first) ++shown;
      const bool missing = shown == s.shown.end() || shown->first != k->first;
      if (missing && k->second.certainly_present(s)) {
        return refuse(s, k->first, "was missed, but was present during the whole scan");
      }
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] verdict refuse(const scan_event& s, std::uint64_t key,
                               const std::string& why) const {
    std::vector<report_row> rows{describe(s)};
    const auto found = keys_.find(key);
    if (found != keys_.end()) found->second.describe_near(s, rows);
    return {search_outcome::refused, "not an ordered scan: key " + std::to_string(key) + " " + why +
                                         " (the scan and the key's last updates):\n" +
                                         render(std::move(rows))};
  }

  std::map<std::uint64_t, key_updates> keys_;
};

}  // namespace

verdict check_scans(std::span<const map_event> history, std::span<const scan_event> scans) {
  require_well_formed(history);
  require_well_formed(scans);
  const scan_judge judge(history);
  for (const scan_event& s : scans) {
    if (auto v = judge.judge(s)) return *v;
  }
  return {};
}

}  // namespace spolia::test
