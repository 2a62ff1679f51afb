// SPDX-License-Identifier: Apache-2.0
// registry.hpp: which combinations of structure, scheme and release policy this program holds, and
// which sets of other libraries it can put beside them.
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

/// What one trial gave. Nothing stands for what the subject has no figure of.
struct trial_result {
  double elapsed_s = 0;
  std::uint64_t operations = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::optional<std::uint64_t> garbage_peak;
  std::optional<std::uint64_t> garbage_bound;
  std::optional<std::uint64_t> pauses;
  std::uint64_t free_ns_p50 = 0;
  std::uint64_t free_ns_p999 = 0;
  std::uint64_t free_ns_max = 0;
  std::optional<std::uint64_t> retired;
  std::optional<std::uint64_t> freed;
  std::optional<std::uint64_t> epochs;
  std::optional<std::uint64_t> bag;  ///< safe blocks that pile up before any are freed, or one
  std::uint64_t page_faults = 0;     ///< in the measured time, without those that read a disk
  std::uint64_t size_end = 0;
  std::optional<std::uint64_t> commits;    ///< sections or transactions that wrote
  std::optional<std::uint64_t> conflicts;  ///< of these, tries that were begun anew
  std::vector<std::vector<double>> looks;  ///< ms, and what the subject's look() gives
  std::vector<std::pair<double, std::uint64_t>> garbage_over_time;         ///< ms, blocks
  std::vector<std::pair<std::uint64_t, std::uint64_t>> garbage_per_epoch;  ///< epoch, blocks
  std::optional<free_counts> counted;
  std::optional<allocator_counts> allocator;
};

using runner = trial_result (*)(const set_options&, std::uint32_t trial);

/// One of Spolia's structures under one of its schemes.
struct cell {
  std::string structure;
  std::string scheme;
  std::string release;
  const spolia::scheme_info* info;
  bool supported;  ///< whether the scheme can protect the structure
  runner run;      ///< null: it cannot, or this program was built without
};

/// All cells of the program. They add themselves before main.
std::vector<cell>& cells();

/// What other libraries' schemes are said to free with: their own way.
inline constexpr const char* own_release = "own";

/// A library that rivals come from.
struct library {
  std::string name;
  std::string package;  ///< of Debian; empty for what every compiler has
  std::string version;  ///< empty: it was not there when this program was configured
  [[nodiscard]] bool built() const { return !version.empty(); }
};

/// A set of another library, and the ways it protects what is read.
struct rival {
  std::string structure;
  std::string library;
  std::string title;
  std::string like;  ///< the structures of Spolia that do the same; empty: none does
  std::vector<std::string> schemes;  ///< the first is meant where none is named
  bool stalls;                       ///< whether others can go on beside a thread that reads
};

const std::vector<library>& libraries();
const std::vector<rival>& rivals();
/// What a rival's scheme is, in a few words.
const std::string& rival_scheme_title(const std::string& scheme);

/// Called before main by the source of each rival that is built.
bool add_rival(const char* structure, const char* scheme, runner run);

/// The library that a rival comes from.
const library& library_of(const rival&);

/// Completes the options that were left empty, and gives what they name. Throws usage_error with
/// what is allowed.
runner settle(set_options&);

}  // namespace bench
