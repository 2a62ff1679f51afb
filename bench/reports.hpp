// SPDX-License-Identifier: Apache-2.0
// reports.hpp: what reports over a table of the shape of TPC-H's lineitem (lineitem.hpp) cost at a
// snapshot from before all rows were updated, and at a new one; and, with `load`, whether they get
// slower at one snapshot while transactions go on.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "options.hpp"

namespace bench {

struct reports_options {
  option_names given;
  std::vector<std::string> versions;  ///< none given: all
  std::uint32_t threads = 2;          ///< that update rows
  std::uint64_t rows = 100000;
  std::uint32_t age = 10;    ///< updates a row before the reports
  double seconds = 1;        ///< of the reports while no transaction is made
  double load = 0;           ///< seconds of reports beside transactions
  std::uint32_t parts = 10;  ///< of `load`, that are told one by one
  std::uint32_t trials = 1;
  std::uint32_t order = 0;  ///< in which what is measured in turn comes: in_order
  std::uint64_t seed = 1;
  bool spoil = false;  ///< expect something wrong at the old snapshot, to try the check
  std::string json = "-";
};

/// Throws usage_error if the numbers make no sense.
void check(const reports_options&);

/// Runs each trial over each storage by turns, each in a process of its own. Each record goes to
/// `take`. Throws std::runtime_error if a report at the old snapshot is not what it was when that
/// began, or if by a query and by rows it is not the same.
void run_reports(const reports_options&, const std::function<void(const nlohmann::json&)>& take);

}  // namespace bench
