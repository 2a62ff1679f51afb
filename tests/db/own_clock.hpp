// SPDX-License-Identifier: Apache-2.0
/// \file
/// The monotonic clock of a program that has one of its own, which frozen_clock_test.cpp defines.
#pragma once

#include <atomic>
#include <cstdint>

#include "support/sanitized.hpp"

namespace spolia::test {

#if SPOLIA_TSAN || SPOLIA_ASAN
constexpr bool has_own_clock = false;  // the sanitizer has one in this one's place
#else
constexpr bool has_own_clock = true;
#endif

/// Seconds by which it is ahead of the system's.
extern constinit std::atomic<std::int64_t> monotonic_ahead;

}  // namespace spolia::test
