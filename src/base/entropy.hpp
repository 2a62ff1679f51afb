// SPDX-License-Identifier: Apache-2.0
// entropy.hpp: bits that cannot be foretold.
#pragma once

#include <cstdint>

#include <spolia/version.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// 64 bits of the system's source of random numbers, by a system call: without a file, since a
/// process may have no descriptor left, or a root directory without /dev, and libc++'s
/// std::random_device opens one. Where the call is refused, std::random_device's; throws what that
/// throws. May be called by several threads.
[[nodiscard]] std::uint64_t random_bits();

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
