// SPDX-License-Identifier: Apache-2.0
// zipf.hpp: keys of which some are asked for much more often than others.
#pragma once

#include <spolia/base/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "random.hpp"

namespace bench {

/// Ranks from 0 to n - 1, the first the likeliest (theta 0: all alike), after Gray et al.: Quickly
/// Generating Billion-Record Synthetic Databases, SIGMOD 1994, as YCSB has it.
class zipf {
 public:
  zipf(std::uint64_t n, double theta) : n_(n), theta_(theta) {
    if (theta == 0) return;  // uniform
    double sum = 0;
    for (std::uint64_t i = 1; i <= n; ++i) sum += 1 / std::pow(static_cast<double>(i), theta);
    zeta_ = sum;
    two_ = 1 + std::pow(0.5, theta);
    alpha_ = 1 / (1 - theta);
    eta_ = (1 - std::pow(2.0 / static_cast<double>(n), 1 - theta)) / (1 - two_ / sum);
  }
  /// The same with the likely ones spread over all. Without skew it costs what below() does, which
  /// the loops that are measured rely on.
  SPOLIA_ALWAYS_INLINE std::uint64_t draw_spread(random_source& from) const {
    if (theta_ == 0) [[likely]]
      return from.below(n_);
    return random_source(draw_skewed(from)).next() % n_;
  }
  std::uint64_t draw(random_source& from) const {
    return theta_ == 0 ? from.below(n_) : draw_skewed(from);
  }

 private:
  SPOLIA_NOINLINE std::uint64_t draw_skewed(random_source& from) const {
    const double u = static_cast<double>(from.next() >> 11U) * 0x1.0p-53;
    const double scaled = u * zeta_;
    if (scaled < 1) return 0;
    if (scaled < two_) return 1;
    const auto rank =
        static_cast<std::uint64_t>(static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1, alpha_));
    return std::min(rank, n_ - 1);
  }

  std::uint64_t n_;
  double theta_;
  double zeta_ = 0;  // of all ranks
  double two_ = 0;   // of the first two
  double alpha_ = 0;
  double eta_ = 0;
};

}  // namespace bench
