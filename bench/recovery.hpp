// SPDX-License-Identifier: Apache-2.0
// recovery.hpp: how long a store takes to be opened, beside reading its files.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "options.hpp"

namespace bench {

struct recovery_options {
  option_names given;
  std::string from = "log";  ///< or checkpoint
  std::uint64_t records = 100000;
  std::uint64_t changes = 1000000;  ///< of log: rows that are put, in all
  std::uint32_t columns = 10;       ///< without the key
  std::uint32_t width = 8;          ///< bytes of a column; 8: a number, else text
  std::uint32_t operations = 10;    ///< changes of a transaction
  std::uint32_t threads = 0;        ///< of the opening; 0: as many as there are processors
  bool ordered = false;             ///< the table's key is
  std::vector<std::string> indexes = {"probing"};  ///< else: kinds of the hash index, in turn
  bool cold = false;        ///< nothing of the files is in the system's memory
  bool own_memory = false;  ///< memory is taken and given back before: see recovery.cpp
  std::string directory;    ///< empty: in memory, if there is such a place
  std::uint32_t trials = 3;
  std::uint64_t seed = 1;
  std::string json = "-";
};

/// Throws usage_error if the numbers make no sense.
void check(const recovery_options&);
/// Makes a store, and opens it once for each trial, which it gives to `take`.
void run_recovery(const recovery_options&, const std::function<void(const nlohmann::json&)>& take);

}  // namespace bench
