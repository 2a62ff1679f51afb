// SPDX-License-Identifier: Apache-2.0
// snapshots.hpp: `spolia-bench snapshots`: maps that one can take snapshots of, under updates,
// look-ups and read transactions, with a snapshot held throughout if one likes.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

struct snapshot_options {
  std::vector<std::string> structures = {"hash"};
  std::vector<std::string> collectors = {"epoch", "steam", "bbf+", "dl_rt", "sl_rt"};
  std::uint32_t threads = 2;
  std::uint64_t keys = 100000;
  double update = 50;        ///< per cent of operations that update, half of them erasing
  double rtx_share = 1;      ///< per cent of operations that are read transactions
  std::uint32_t rtx = 1024;  ///< keys that a read transaction looks up
  bool hold = false;         ///< one snapshot through the whole run
  double seconds = 1;
  std::uint64_t updates = 0;  ///< successful ones to make in all, instead of a time; 0: by time
  std::uint32_t trials = 1;
  std::uint64_t seed = 1;
  std::string json = "-";
};

/// Throws usage_error if the words or numbers make no sense.
void check(const snapshot_options&);

/// Runs the trials of each structure and collector, interleaved, and gives each record.
void measure_snapshots(const snapshot_options&,
                       const std::function<void(const nlohmann::json&)>& write);

}  // namespace bench
