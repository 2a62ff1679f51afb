// SPDX-License-Identifier: Apache-2.0
// ycsb.hpp: transactions of reads and writes over one table, in the store under each version
// storage, and in engines of other libraries.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace bench {

/// What is not given is as the workload has it.
struct ycsb_options {
  option_names given;
  std::vector<std::string> engines = {"spolia"};
  std::vector<std::string> versions;               ///< of the store; none given: all
  std::vector<std::string> indexes = {"probing"};  ///< of the store: kinds of its hash index
  /// paper: Raza et al., SIGMOD 2023, section 7.1; a to f: YCSB's core workloads.
  std::string workload = "paper";
  std::uint32_t threads = 2;
  std::optional<std::uint32_t> writes;        ///< per cent of operations that update a row
  std::optional<double> theta;                ///< of Zipf's distribution; 0: uniform
  std::optional<std::uint32_t> columns;       ///< without the key
  std::optional<std::uint32_t> width;         ///< bytes of a column; 8: a number, else text
  std::optional<std::uint32_t> touch;         ///< columns that an operation looks at
  std::optional<std::uint32_t> operations;    ///< of a transaction
  std::optional<std::uint64_t> records;       ///< for each thread
  bool shared = false;                        ///< all threads draw from all records
  bool own = false;                           ///< each thread draws from its own
  std::uint32_t hold = 0;                     ///< snapshots held for the whole run
  std::string scan;                           ///< how one more thread reads; empty: none
  std::uint32_t scan_threads = 1;             ///< of a scan by query
  std::uint32_t partition = 1024;             ///< one-shot: transactions of a partition
  std::uint64_t partition_cache = 1U << 20U;  ///< one-shot: bytes of a processor's partitions
  bool changes = false;                       ///< versions of changed columns only
  std::vector<std::string> durability = {"memory"};  ///< memory: no directory
  std::string directory;                             ///< empty: in memory, if there is such a place
  bool checkpoint = false;                           ///< one is taken in the middle of the trial
  double seconds = 1;
  std::optional<double> warm_up;   ///< seconds of the same work before the measured time
  bool paper_size = false;         ///< rows and threads as the paper has them, unless given
  std::uint64_t transactions = 0;  ///< of each thread, instead of a time
  std::uint32_t trials = 1;
  std::uint32_t order = 0;  ///< in which what is measured in turn comes: in_order
  std::uint64_t seed = 1;
  std::string json = "-";
};

/// The engines that this build has, and in words those that it has not, and what to install.
std::vector<std::string> ycsb_engine_names();

/// What --scan may be.
inline constexpr std::array<const char*, 2> ycsb_scans = {"rows", "query"};

/// Completes the options. Throws usage_error if the numbers make no sense, or nothing that was
/// chosen can honour what was given.
void settle(ycsb_options&);

/// Runs each trial over each storage, engine and level of durability in turn, and gives each record
/// to `take`. Precondition: settle() has been called.
void run_ycsb(const ycsb_options&, const std::function<void(const nlohmann::json&)>& take);

}  // namespace bench
