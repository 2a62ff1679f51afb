// SPDX-License-Identifier: Apache-2.0
// snapshots.hpp: `spolia-bench snapshots`: maps that one can take snapshots of, under updates,
// look-ups and read transactions, with a snapshot held throughout if one likes.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace bench {

/// Those of version/collectors.hpp.
std::vector<std::string> collector_names();

struct snapshot_options {
  option_names given;
  std::vector<std::string> structures = {"hash"};
  std::vector<std::string> collectors = collector_names();
  std::uint32_t threads = 2;
  std::uint32_t readers = 0;        ///< more threads, that make read transactions only
  std::uint32_t small_readers = 0;  ///< and more, whose read transactions look up 16 keys
  std::uint64_t keys = 100000;
  double theta = 0;            ///< of Zipf's distribution of keys; 0: uniform
  double update = 50;          ///< per cent of operations that update, half of them erasing
  double rtx_share = 1;        ///< per cent of operations that are read transactions
  std::uint32_t rtx = 1024;    ///< keys that a read transaction looks up
  std::uint32_t rtx_most = 0;  ///< if not 0: uniform between the two
  std::uint32_t batch = 0;     ///< if not 0: an update is a batch of so many changes, in two maps
  bool hold = false;           ///< one snapshot through the whole run
  double seconds = 1;
  std::optional<double> warm_up;  ///< seconds of the same work before the measured time
  bool paper_size = false;        ///< keys and threads as the paper has them, unless given
  std::uint64_t updates = 0;      ///< successful ones to make in all, instead of a time; 0: by time
  std::uint32_t still_every = 0;  ///< ms of work between two accounts of versions; 0: none
  std::uint32_t trials = 1;
  std::uint32_t order = 0;  ///< in which what is measured in turn comes: in_order
  std::uint64_t seed = 1;
  std::string json = "-";
};

/// Something to be measured. Without versions it says so in `collector`: "copies", "none".
struct snapshot_result;
struct snapshot_contender {
  const char* structure;
  const char* collector;
  snapshot_result (*run)(const snapshot_options&, std::uint32_t trial);
  bool has_versions = false;
};
/// For rivals that are there if their library is.
bool add_snapshot_rival(const snapshot_contender&);

/// Completes the options. Throws usage_error if the words or numbers make no sense.
void settle(snapshot_options&);

/// Runs the trials of each structure and collector, interleaved, and gives each record.
/// Precondition: settle() has been called.
void measure_snapshots(const snapshot_options&,
                       const std::function<void(const nlohmann::json&)>& write);

}  // namespace bench
