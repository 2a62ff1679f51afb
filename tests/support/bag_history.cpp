// SPDX-License-Identifier: Apache-2.0
// bag_history.cpp: matching, ranks, and when a value is certainly there.
#include "support/bag_history.hpp"

#include <algorithm>
#include <stdexcept>
#include <unordered_map>

#include "support/report.hpp"

namespace spolia::test {

bag_history::bag_history(std::span<const bag_event> events, bag_words words)
    : events_(events), words_(words) {
  require_well_formed(events);
  assign_ranks();
  match();
}

void bag_history::assign_ranks() {
  struct moment {
    std::uint64_t time;
    std::uint32_t code;  // even: the call of event code / 2; odd: its return
  };
  std::vector<moment> moments;
  moments.reserve(2 * events_.size());
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    moments.push_back({events_[i].start, 2 * i});
    moments.push_back({events_[i].end, 2 * i + 1});
  }
  std::sort(moments.begin(), moments.end(), [](const moment& a, const moment& b) {
    return a.time != b.time ? a.time < b.time : (a.code & 1U) < (b.code & 1U);
  });
  start_.resize(events_.size());
  end_.resize(events_.size());
  for (const moment& m : moments) {
    ((m.code & 1U) == 0 ? start_ : end_)[m.code / 2] = ranks_++;
  }
}

void bag_history::match() {
  std::unordered_map<std::uint64_t, std::size_t> where;
  where.reserve(events_.size());
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    if (events_[i].op != bag_op::put) continue;
    if (!where.emplace(events_[i].value, values_.size()).second) {
      throw std::invalid_argument("the value " + std::to_string(events_[i].value) +
                                  " was put twice; the checker needs unique values");
    }
    values_.push_back({start_[i], end_[i], ranks_, ranks_ + 1, i, no_event});
  }
  for (std::uint32_t i = 0; i < events_.size(); ++i) {
    const bag_event& e = events_[i];
    if (e.op == bag_op::put) continue;
    if (!e.ok) {
      empties_.push_back({start_[i], end_[i], i});
      continue;
    }
    const auto found = where.find(e.value);
    if (found == where.end()) {
      stray_ = {i, no_event};
      continue;
    }
    bag_value& v = values_[found->second];
    if (v.take != no_event) stray_ = {i, v.take};
    v.take = i;
    v.take_start = start_[i];
    v.take_end = end_[i];
  }
  std::sort(values_.begin(), values_.end(),
            [](const bag_value& a, const bag_value& b) { return a.put_end < b.put_end; });
}

std::vector<std::uint32_t> bag_history::certain_values() const {
  std::vector<std::uint32_t> begins(ranks_ + 1);
  std::vector<std::uint32_t> ends(ranks_ + 1);
  for (const bag_value& v : values_) {
    if (!v.certain()) continue;
    ++begins[v.put_end];
    ++ends[v.take_start];
  }
  std::vector<std::uint32_t> count(ranks_);
  std::uint32_t now = 0;
  for (rank i = 0; i < ranks_; ++i) count[i] = now = now + begins[i] - ends[i];
  return count;
}

std::optional<verdict> bag_history::impossible_take() const {
  if (stray_) {
    const std::string value = std::to_string(events_[stray_->event].value);
    if (stray_->other == no_event) {
      return refuse("the value " + value + " was taken, but never put", {}, stray_->event);
    }
    const bag_value twice{0, 0, 0, 0, no_event, stray_->other};
    return refuse("the value " + value + " was taken twice", {&twice, 1}, stray_->event);
  }
  for (const bag_value& v : values_) {
    if (v.take_end < v.put_start) {
      return refuse("a value was taken before it was put", {&v, 1});
    }
  }
  return std::nullopt;
}

std::optional<verdict> bag_history::impossible_empty() const {
  const std::vector<std::uint32_t> count = certain_values();
  std::vector<rank> next_gap(ranks_ + 1, ranks_);  // from here on, the first place with no value
  for (rank i = ranks_; i-- > 0;) next_gap[i] = count[i] == 0 ? i : next_gap[i + 1];
  for (const empty_take& e : empties_) {
    if (next_gap[e.start] < e.end) continue;
    return refuse("a take found nothing, though at each moment some value was certainly there",
                  cover(values_, e.start, e.end), e.event);
  }
  return std::nullopt;
}

std::vector<bag_value> bag_history::cover(std::span<const bag_value> among, rank from, rank to) {
  std::vector<bag_value> chain;
  std::size_t next = 0;
  for (rank covered = from; covered < to;) {
    const bag_value* best = nullptr;
    for (; next < among.size() && among[next].put_end <= covered; ++next) {
      if (best == nullptr || among[next].take_start > best->take_start) best = &among[next];
    }
    if (best == nullptr || best->take_start <= covered) {
      throw std::logic_error("the interval is not covered");
    }
    chain.push_back(*best);
    covered = best->take_start;
  }
  return chain;
}

verdict bag_history::refuse(const std::string& why, std::span<const bag_value> evidence,
                            std::uint32_t one_more) const {
  std::vector<report_row> rows;
  const auto add = [&](std::uint32_t event) {
    if (event != no_event) rows.push_back(describe(events_[event], words_.put, words_.take));
  };
  for (const bag_value& v : evidence) {
    add(v.put);
    add(v.take);
    if (v.put != no_event && v.take == no_event) rows.back().note = "(stays)";
  }
  add(one_more);
  return {search_outcome::refused,
          std::string("not a ") + words_.structure + ": " + why + ":\n" + render(std::move(rows))};
}

}  // namespace spolia::test
