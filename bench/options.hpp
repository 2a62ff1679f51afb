// SPDX-License-Identifier: Apache-2.0
// options.hpp: what `spolia-bench sets` can be told, and what is refused.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

/// A wrong word on the command line, or a file that cannot be written: one sentence, exit code 2.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class T>
void within(const char* option, T value, T low, T high) {
  if (!(value >= low && value <= high)) {  // no comparison is true of a NaN
    throw usage_error(
        fmt::format("--{} is {}, but must be from {} to {}", option, value, low, high));
  }
}

/// Names of options that were given on the command line, with their dashes.
using option_names = std::set<std::string>;

/// Throws usage_error if one of `options` was given, which what was `chosen` cannot honour:
/// `for_what` could.
inline void refuse(const option_names& given, std::initializer_list<const char*> options,
                   const std::string& chosen, const std::string& for_what) {
  for (const char* const one : options) {
    if (given.contains(one)) {
      throw usage_error(fmt::format("{} with {}: it is for {}", one, chosen, for_what));
    }
  }
}

/// Seconds of the same work before the measured time, where nothing else was asked.
inline constexpr double usual_warm_up = 0.1;

/// --warm-up of what can also end after so much work, by the option `amount`. That has none, so
/// that a seed does the same again. Throws usage_error.
inline double warm_up_of(const std::optional<double>& asked, bool by_time, const char* amount) {
  if (asked && !by_time) {
    throw usage_error(fmt::format("--warm-up with {}: it is for --seconds", amount));
  }
  const double seconds = asked.value_or(by_time ? usual_warm_up : 0);
  within("warm-up", seconds, 0.0, 86400.0);
  return seconds;
}

/// What is measured in turn, in the order of that number. 0: as it stands. Odd ones go backwards,
/// and after each two another one begins: two go AB, BA, BA, AB. With one order for all runs, a
/// machine that gets slower during each of them is slower for the same ones each time.
template <class T>
std::vector<T> in_order(std::vector<T> all, std::uint32_t order) {
  if (all.empty()) return all;
  std::ranges::rotate(all, all.begin() + static_cast<std::ptrdiff_t>(order / 2 % all.size()));
  if (order % 2 == 1) std::ranges::reverse(all);
  return all;
}

struct set_options {
  option_names given;
  std::string structure = "abtree";
  std::string scheme;   ///< empty: token, or a rival's first
  std::string release;  ///< empty: amortized, or a rival's own
  std::uint32_t threads = 2;
  std::uint64_t keys = 200000;
  double theta = 0;            ///< of Zipf's distribution of keys; 0: uniform
  std::uint32_t update = 100;  ///< per cent of operations that update, half of them erasing
  double seconds = 1;
  double warm_up = usual_warm_up;
  std::uint32_t trials = 1;
  std::uint64_t seed = 1;
  std::uint64_t batch = 0;               ///< 0: the scheme's own
  std::optional<std::uint32_t> turn_us;  ///< domain::options::turn_us; none: the domain's own
  std::uint32_t time_frees = 8;          ///< measure one in so many pauses; 1: all; 0: none
  bool stall = false;
  bool check = false;       ///< compare answers with std::set's before the trial
  bool count = false;       ///< count and time each free; figures of speed then mean nothing
  bool over_time = false;   ///< rlu: look at what is inside again and again, too
  bool paper_size = false;  ///< keys and threads as the paper has them, unless they are given
  std::string json = "-";
  std::string trace;
};

/// Throws usage_error if the numbers make no sense.
void check(const set_options&);

}  // namespace bench
