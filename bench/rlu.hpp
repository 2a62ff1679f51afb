// SPDX-License-Identifier: Apache-2.0
// rlu.hpp: read-log-update beside what else one can do with the same structures.
#pragma once

#include <nlohmann/json.hpp>
#include <spolia/rlu/options.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "options.hpp"
#include "registry.hpp"

namespace bench {

struct rlu_options : set_options {
  rlu_options() {
    structure = "hash";
    keys = 20000;
    update = 20;
  }
  std::string sync = "mvrlu";
  std::uint64_t buckets = 1000;  ///< of the hash table and the cache
  spolia::rlu::options domain;   ///< of mvrlu and mvrlu-hardware
  bool detector = false;         ///< a thread looks after their logs
  std::uint32_t together = 10;   ///< of rlu-deferred: sections that are written back together
};

inline bool has_buckets(const rlu_options& o) {
  return o.structure == "hash" || o.structure == "cache";
}
/// Those that the structure has.
inline std::uint64_t buckets_of(const rlu_options& o) { return has_buckets(o) ? o.buckets : 1; }

/// A structure and a way to synchronise it. Those of other libraries put themselves here before
/// main.
struct rlu_way {
  std::string structure;
  std::string sync;
  runner run;
};
std::vector<rlu_way>& all_rlu_ways();

/// The ways to synchronise that `structure` can have here; empty if there is no such structure.
std::vector<std::string> rlu_ways(const std::string& structure);

/// Completes the options. Throws usage_error with what is allowed if there is no such combination,
/// or if it cannot honour what was given.
void settle(rlu_options&);

/// The record of one trial. Precondition: settle() has been called.
nlohmann::json run_rlu(const rlu_options&, std::uint32_t trial);

}  // namespace bench
