// SPDX-License-Identifier: Apache-2.0
// random.hpp: a small fast generator, so that making keys costs less than what is measured.
#pragma once

#include <cstdint>

namespace bench {

/// splitmix64: one word of state, full period, good enough for choosing keys.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }

  /// Uniform in [0, end), for ends up to 2^32, with a bias below end / 2^32.
  std::uint64_t below(std::uint64_t end) noexcept { return (next() >> 32U) * end >> 32U; }

 private:
  std::uint64_t state_;
};

}  // namespace bench
