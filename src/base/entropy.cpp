// SPDX-License-Identifier: Apache-2.0
#include "base/entropy.hpp"

#include <unistd.h>

#include <random>
#if __has_include(<sys/random.h>)
#include <sys/random.h>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (::getentropy(&bits, sizeof bits) == 0) return bits;
  std::random_device random;
  const std::uint64_t upper = random();
  return upper << 32U | random();
}

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
