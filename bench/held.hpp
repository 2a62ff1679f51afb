// SPDX-License-Identifier: Apache-2.0
// held.hpp: workloads whose rows and index entries end all the time, beside readers that are held.
//
// Each keeps a table at its size: a queue, an indexed column that is updated, keys that come and
// go. What is measured is what readers that are held for the whole run cost all others: speed,
// resident memory, and how long a short read takes. And, in a table whose rows are updated, what a
// row costs such a reader: held_report.hpp.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "options.hpp"

namespace bench {

struct held_options {
  option_names given;
  std::vector<std::string> workloads = {"queue", "touched", "churn"};  ///< or report
  std::vector<std::string> indexes = {"ordered", "hash"};              ///< or cuckoo
  std::vector<std::string> versions;                                   ///< none given: all
  std::vector<std::uint32_t> holds = {0, 1};                           ///< readers that are held
  std::uint32_t threads = 2;
  std::uint64_t rows = 1000;                         ///< of the table, at all times
  std::vector<std::string> durability = {"memory"};  ///< memory: no directory
  std::string directory;                             ///< empty: in memory, if there is such a place
  bool checkpoint = false;                           ///< they are taken one after the other
  std::uint64_t ballast = 0;  ///< rows of another table, which make each checkpoint last
  double warm_up = 0.5;       ///< seconds before the measured part, in which the readers begin
  std::uint32_t age = 10;     ///< updates a row before the measured part of `report`
  double seconds = 1;
  std::uint32_t trials = 1;
  std::uint32_t order = 0;  ///< in which what is measured in turn comes: in_order
  std::uint64_t seed = 1;
  bool spoil = false;  ///< change what a reader has seen: the check has to find it
  std::string json = "-";
};

/// Throws usage_error if the numbers make no sense.
void check(const held_options&);

/// Runs each trial over each workload, index, level of durability, storage and number of readers
/// in turn, each in a process of its own, so that none gets memory that another one has left; and
/// gives each record to `take`. Throws std::runtime_error if a reader does not see what it saw when
/// it began.
void run_held(const held_options&, const std::function<void(const nlohmann::json&)>& take);

}  // namespace bench
