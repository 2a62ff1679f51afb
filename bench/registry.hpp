// SPDX-License-Identifier: Apache-2.0
// registry.hpp: which combinations of structure, scheme and release policy this program holds.
#pragma once

#include <spolia/reclaim/concepts.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace bench {

/// What one trial gave.
struct trial_result {
  double elapsed_s = 0;
  std::uint64_t operations = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t garbage_peak = 0;
  std::optional<std::uint64_t> garbage_bound;
  std::uint64_t free_ns_p50 = 0;
  std::uint64_t free_ns_p999 = 0;
  std::uint64_t free_ns_max = 0;
  std::uint64_t pauses = 0;
  std::uint64_t retired = 0;
  std::uint64_t freed = 0;
  std::uint64_t epochs = 0;
  std::uint64_t size_end = 0;
  std::vector<std::pair<double, std::uint64_t>> garbage_over_time;  ///< ms, blocks
};

struct cell {
  std::string structure;
  std::string scheme;
  std::string release;
  const spolia::scheme_info* info;
  bool supported;  ///< false: the scheme cannot protect the structure; then run is null
  trial_result (*run)(const set_options&, std::uint32_t trial);
};

/// All cells of the program. They add themselves before main.
std::vector<cell>& cells();

/// The cell that the options name. Throws usage_error with what is allowed.
const cell& find(const set_options&);

}  // namespace bench
