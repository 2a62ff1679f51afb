// SPDX-License-Identifier: Apache-2.0
/// \file
/// What tests do less of where everything is slow. Needs nothing of the library.
#pragma once

namespace spolia::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// From one to the next of what is tried at every byte.
inline constexpr unsigned stride = sanitized ? 4 : 1;

/// How many of n random things are tried: under a sanitizer, which looks for other mistakes than
/// wrong answers, a quarter.
constexpr int tries(int n) noexcept { return sanitized ? n / 4 : n; }

/// How many of n threads or processes are begun: on an emulated processor, where that takes
/// milliseconds, a fifth.
#if defined(SPOLIA_TEST_EMULATED)
constexpr int starts(int n) noexcept { return n / 5; }
#else
constexpr int starts(int n) noexcept { return n; }
#endif

}  // namespace spolia::test
