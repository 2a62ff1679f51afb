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

/// Calls of free in the measured time, for trials with --count.
struct free_counts {
  std::uint64_t frees = 0;
  std::optional<std::uint64_t> remote;  ///< of blocks that another thread had allocated
  std::uint64_t over_100us = 0;
  std::uint64_t runs = 0;         ///< of frees by a thread that allocated nothing in between
  std::uint64_t longest_run = 0;  ///< in blocks
  std::uint64_t ns = 0;           ///< all calls together
  std::uint64_t ns_p50 = 0;
  std::uint64_t ns_p99 = 0;
  std::uint64_t ns_p999 = 0;
  std::uint64_t ns_max = 0;
};

/// What an allocator with buffers for each thread did behind them.
struct allocator_counts {
  std::uint64_t flushes = 0;     ///< a buffer ran over: most of it went back at once
  std::uint64_t fills = 0;       ///< a buffer was empty: it got new blocks
  std::uint64_t locks = 0;       ///< locks of shared lists taken, by flushes and fills
  std::uint64_t lock_waits = 0;  ///< of these, how many slept
  std::uint64_t lock_wait_ns = 0;

  allocator_counts since(const allocator_counts& before) const noexcept {
    return {flushes - before.flushes, fills - before.fills, locks - before.locks,
            lock_waits - before.lock_waits, lock_wait_ns - before.lock_wait_ns};
  }
};

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
  std::vector<std::pair<double, std::uint64_t>> garbage_over_time;         ///< ms, blocks
  std::vector<std::pair<std::uint64_t, std::uint64_t>> garbage_per_epoch;  ///< epoch, blocks
  std::optional<free_counts> counted;
  std::optional<allocator_counts> allocator;
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
