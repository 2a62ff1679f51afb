// SPDX-License-Identifier: Apache-2.0
// salvage_numbers.cpp: the numbers of tables behind a hole.
#include "db/log/salvage_numbers.hpp"

#include <algorithm>

#include "db/log/salvage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

void table_numbers::hole(std::uint64_t after, std::uint64_t missing) {
  if (groups_.empty() || !groups_.back().tables.empty()) {
    groups_.push_back({.after = after, .missing = missing, .tables = {}});
  } else {
    groups_.back().missing += missing;
  }
}

void table_numbers::made(std::uint64_t record, const table_spec& spec) {
  groups_.back().tables.push_back({.record = record, .layout = schema(spec), .as = {}});
}

void table_numbers::change(std::uint64_t record, const change_header& c, bytes_view row) {
  if (c.table < known_) return;
  end_ = std::max(end_, c.table + 1);
  first_named_.try_emplace(c.table, record);
  for (group& g : groups_) {
    for (new_table& t : g.tables) {
      changes& all = t.as[c.table];
      ++all.count;
      all.fit = all.fit && salvaged_tables::can_be(t.layout, c, row);
    }
  }
}

void table_numbers::catalog_change(std::uint64_t record, std::uint32_t number) {
  if (number < known_ || number >= most_tables) return;
  end_ = std::max(end_, number + 1);
  first_named_.try_emplace(number, record);
  for (group& g : groups_) {
    for (new_table& t : g.tables) ++t.as[number].count;
  }
}

/// If its first table has this number.
table_numbers::worth table_numbers::of_group(const group& g, std::uint32_t from) const {
  std::uint64_t sum = 0;
  for (const new_table& t : g.tables) {
    const std::uint32_t number = from++;
    const auto named = first_named_.find(number);
    if (named == first_named_.end()) continue;
    if (named->second < t.record) return std::nullopt;
    const changes& all = t.as.at(number);
    if (!all.fit) return std::nullopt;
    sum += all.count;
  }
  return sum;
}

/// What each number is worth as the end of what comes before the group. `next`: the same after it.
std::vector<table_numbers::worth> table_numbers::before(const group& g,
                                                        const std::vector<worth>& next) const {
  const std::uint32_t size = end_ - known_;
  std::vector<worth> all(size + 1);
  std::vector<worth> begun(size + 1);  // with the group's first table there
  for (std::uint32_t k = 0; k <= size; ++k) {
    const auto behind = std::min<std::uint64_t>(size, k + g.tables.size());
    const worth mine = of_group(g, known_ + k);
    if (mine && next[behind]) begun[k] = *mine + *next[behind];
  }
  for (std::uint32_t from = 0; from <= size; ++from) {
    for (std::uint32_t k = from; k <= size && k - from <= g.missing; ++k) {
      if (begun[k] && (!all[from] || *begun[k] > *all[from])) all[from] = begun[k];
      // The next one is lost in the hole. What a change has named before was not.
      const auto named = first_named_.find(known_ + k);
      if (named != first_named_.end() && named->second <= g.after) break;
    }
  }
  return all;
}

std::pair<std::uint32_t, bool> table_numbers::first() const {
  const std::uint32_t size = end_ - known_;
  // Behind all of them nothing is named: what is, is lost in a hole.
  std::vector<worth> next(size + 1);
  next[size] = 0;
  for (std::size_t i = groups_.size(); i-- > 1;) next = before(groups_[i], next);
  const group& g = groups_.front();
  std::uint32_t best = 0;
  worth most;
  std::size_t possible = 0;
  for (std::uint32_t k = 0; k <= size && k <= g.missing; ++k) {
    const auto behind = std::min<std::uint64_t>(size, k + g.tables.size());
    const worth mine = of_group(g, known_ + k);
    if (!mine || !next[behind]) continue;
    ++possible;
    const std::uint64_t sum = *mine + *next[behind];
    if (!most || sum > *most) {
      most = sum;
      best = k;
    }
  }
  return {known_ + best, possible != 1};
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
