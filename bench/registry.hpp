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
  std::uint64_t size_end = 0;
  std::vector<std::pair<double, std::uint64_t>> garbage_over_time;  ///< ms, blocks
};

using runner = trial_result (*)(const set_options&, std::uint32_t trial);

/// One of Spolia's structures under one of its schemes.
struct cell {
  std::string structure;
  std::string scheme;
  std::string release;
  const spolia::scheme_info* info;
  bool supported;  ///< false: the scheme cannot protect the structure; then run is null
  runner run;
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
