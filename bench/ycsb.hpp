// SPDX-License-Identifier: Apache-2.0
// ycsb.hpp: transactions of reads and writes over one table of the store, under each version
// storage.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

/// As in Raza et al., SIGMOD 2023, section 7.1, unless told otherwise.
struct ycsb_options {
  std::vector<std::string> versions = {"none", "one-shot", "one-shot-consolidated", "steam"};
  std::uint32_t threads = 2;
  std::uint32_t writes = 50;       ///< per cent of operations that change a row
  double theta = 0.5;              ///< of Zipf's distribution; 0: uniform
  std::uint32_t columns = 10;      ///< of 8 bytes, besides the key
  std::uint32_t operations = 10;   ///< of a transaction
  std::uint64_t records = 1000;    ///< for each thread
  bool shared = false;             ///< all threads draw from all records; else each has its own
  std::uint32_t hold = 0;          ///< snapshots held for the whole run
  std::uint32_t partition = 1024;  ///< one-shot: transactions of a partition
  std::vector<std::string> durability = {"memory"};  ///< memory: no directory
  std::string directory;                             ///< empty: one in /dev/shm, or for scratch
  bool checkpoint = false;                           ///< one is taken in the middle of the trial
  double seconds = 1;
  std::uint32_t trials = 1;
  std::uint64_t seed = 1;
  std::string json = "-";
};

/// Throws usage_error if the numbers make no sense.
void check(const ycsb_options&);

/// Runs each trial over each storage and level of durability in turn, and gives each record to
/// `take`.
void run_ycsb(const ycsb_options&, const std::function<void(const nlohmann::json&)>& take);

}  // namespace bench
