// SPDX-License-Identifier: Apache-2.0
#include "held_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <stdexcept>

#include "machine.hpp"

namespace bench {

namespace db = spolia::db;

namespace {

/// To ask for the processor time costs as much as a look-up: so many are timed together.
constexpr std::size_t finds_together = 200;
constexpr std::array<const char*, 3> way_names = {"row", "each", "find"};

nlohmann::json median(std::vector<double> of) {
  if (of.empty()) return nullptr;
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return std::round(*middle * 100) / 100;
}

/// The ways by which sums are taken; by_key() is the one after them.
struct sum_way {
  const char* name;
  held_sums (held_table::*take)(const db::reader& at) const;
};
constexpr std::array<sum_way, 2> sum_ways = {
    {{"a query", &held_table::by_query}, {"a loop over all rows", &held_table::by_rows}}};

/// Of so many rows, since processor_ns() was `begin`.
double ns_a_row(std::uint64_t begin, std::uint64_t rows) {
  return static_cast<double>(processor_ns() - begin) / static_cast<double>(rows);
}

const char* name(bool old) { return old ? "the oldest reader" : "a new reader"; }

nlohmann::json fields(const std::array<nlohmann::json, 3>& old,
                      const std::array<nlohmann::json, 3>& fresh) {
  nlohmann::json made;
  for (std::size_t i = 0; i < way_names.size(); ++i) {
    made[fmt::format("old_{}_ns", way_names[i])] = old[i];
    made[fmt::format("new_{}_ns", way_names[i])] = fresh[i];
  }
  return made;
}

}  // namespace

held_report::held_report(db::database& base, const held_table& table, bool spoil)
    : base_(base), table_(table), expected_(table.expected()) {
  if (spoil) ++expected_.marks;
}

void held_report::sample(const db::reader* oldest, const std::vector<held_row>& seen) {
  for (std::size_t i = 0; i < way_names.size(); ++i) {
    // Each has keys of its own: what leads to those of the last one is in the caches.
    choose_keys(seen);
    {
      const db::reader fresh = base_.snapshot("report");
      new_[i].push_back(cost(i, fresh, false));
    }
    if (oldest == nullptr) continue;
    choose_keys(seen);
    old_[i].push_back(cost(i, *oldest, true));
  }
}

void held_report::check_new() const {
  const db::reader fresh = base_.snapshot("report");
  check(table_.by_query(fresh), sum_ways[0].name, false);
}

void held_report::choose_keys(const std::vector<held_row>& seen) {
  keys_.clear();
  while (keys_.size() < finds_together) {
    keys_.push_back(seen.empty() ? held_row{table_.random_number(random_), 0}
                                 : seen[random_.below(seen.size())]);
  }
}

double held_report::cost(std::size_t way, const db::reader& at, bool old) const {
  if (way == sum_ways.size()) return by_key(at, old);
  const std::uint64_t begin = processor_ns();
  const held_sums found = (table_.*sum_ways[way].take)(at);
  const double ns = ns_a_row(begin, expected_.rows);
  check(found, sum_ways[way].name, old);
  return ns;
}

double held_report::by_key(const db::reader& at, bool old) const {
  const held_row* wrong = nullptr;
  const std::uint64_t begin = processor_ns();
  for (const held_row& key : keys_) {
    const std::optional<std::int64_t> mark = table_.find(at, key.first);
    if (!mark || (old && *mark != key.second)) wrong = &key;
  }
  const double ns = ns_a_row(begin, keys_.size());
  if (wrong == nullptr) return ns;
  throw std::runtime_error(fmt::format("report: {} has lost row {}", name(old), wrong->first));
}

void held_report::check(const held_sums& found, const char* way, bool old) const {
  if (found == expected_) return;
  throw std::runtime_error(
      fmt::format("report: by {} {} sees {} rows whose marks have the sum {}, where {} rows with "
                  "the sum {} have to be",
                  way, name(old), found.rows, found.marks, expected_.rows, expected_.marks));
}

nlohmann::json held_report::record() const {
  return fields({median(old_[0]), median(old_[1]), median(old_[2])},
                {median(new_[0]), median(new_[1]), median(new_[2])});
}

nlohmann::json held_report::no_record() { return fields({}, {}); }

}  // namespace bench
