// SPDX-License-Identifier: Apache-2.0
// tpcc.hpp: TPC-C over the store, under each version storage.
//
// After the specification, revision 5.11: schema (clause 1.3), transactions (2), consistency
// (3.3.2), population (4.3), random values (2.1.6, 4.3.2). What differs: no terminals, no think
// times, nothing on disk; so the figures are not tpmC and may not be called so. Each thread is a
// client of one home warehouse and begins the next transaction at once. Money is in cents, rates in
// ten-thousandths. HISTORY has a key, since tables need one.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace bench {

struct tpcc_options {
  option_names given;
  std::vector<std::string> versions;               ///< none given: all
  std::vector<std::string> indexes = {"probing"};  ///< kinds of its hash index
  std::uint32_t warehouses = 0;                    ///< 0: as many as threads
  std::uint32_t threads = 2;
  std::string mix = "full";        ///< neworder-payment, or dbx1000: see tpcc_work
  std::uint32_t items = 100000;    ///< and as many rows of STOCK in each warehouse
  std::uint32_t customers = 3000;  ///< of a district, and as many orders to begin with
  std::uint32_t hold = 0;          ///< snapshots held for the whole run
  std::uint32_t scanners = 0;      ///< threads that add up columns of STOCK at one snapshot each
  std::uint32_t partition = 1024;  ///< one-shot: transactions of a partition
  std::uint64_t partition_cache = 1U << 20U;  ///< one-shot: bytes of a processor's partitions
  std::uint32_t partitions = 256;             ///< one-shot: at most
  bool changes = false;        ///< versions of changed columns only, where they can be
  bool serializable = false;   ///< the transactions that change something
  bool delivery_hint = false;  ///< tpcc_work::delivery_hint
  std::uint64_t budget = 0;    ///< bytes of old versions; 0: no limit
  double seconds = 5;
  std::optional<double> warm_up;   ///< seconds of the same work before the measured time
  bool paper_size = false;         ///< rows and threads as the paper has them, unless given
  std::uint64_t transactions = 0;  ///< of each thread, instead of a time
  std::uint32_t trials = 1;
  std::uint32_t order = 0;  ///< in which what is measured in turn comes: in_order
  std::uint64_t seed = 1;
  std::uint32_t spoil = 0;  ///< break this condition after the run: the check has to find it
  std::string json = "-";
};

/// Completes the options. Throws usage_error if the numbers make no sense, or nothing that was
/// chosen can honour what was given.
void settle(tpcc_options&);

/// Runs each trial over each storage in turn, and gives each record to `take`. Throws
/// std::runtime_error if a condition of consistency does not hold afterwards. Precondition:
/// settle() has been called.
void run_tpcc(const tpcc_options&, const std::function<void(const nlohmann::json&)>& take);

}  // namespace bench
