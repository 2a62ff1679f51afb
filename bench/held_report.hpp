// SPDX-License-Identifier: Apache-2.0
// held_report.hpp: what a row costs at the oldest held snapshot and at a new one, in processor
// time: in a sum by a query of one thread, in a loop over all rows, and in look-ups by key.
//
// Each report is compared with what there has to be: its number of rows, and the sum of their
// marks, which no transaction changes.
#pragma once

#include <spolia/db.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "held_table.hpp"
#include "random.hpp"

namespace bench {

/// The number and the mark of a row.
using held_row = std::pair<std::int64_t, std::int64_t>;

class held_report {
 public:
  /// `spoil`: what is expected is wrong, to try the check.
  held_report(spolia::db::database& base, const held_table& table, bool spoil);

  // Throw std::runtime_error if a report or a row is not what it has to be.

  /// Measures each way once, at the oldest reader, or null, and at new ones. `seen` are rows as the
  /// oldest one sees them.
  void sample(const spolia::db::reader* oldest, const std::vector<held_row>& seen);
  /// A report by a query at a new reader, without a measurement.
  void check_new() const;
  /// Medians, in nanoseconds a row.
  [[nodiscard]] nlohmann::json record() const;
  /// The same fields, of a workload that has no reports.
  static nlohmann::json no_record();

 private:
  /// Nanoseconds a row: by query, row by row, by key.
  using costs = std::array<std::vector<double>, 3>;

  void choose_keys(const std::vector<held_row>& seen);
  double cost(std::size_t way, const spolia::db::reader& at, bool old) const;
  double by_key(const spolia::db::reader& at, bool old) const;
  void check(const held_sums& found, const char* way, bool old) const;

  spolia::db::database& base_;
  const held_table& table_;
  held_sums expected_;
  random_source random_{1};
  std::vector<held_row> keys_;  // that are looked for next
  costs old_;
  costs new_;
};

}  // namespace bench
