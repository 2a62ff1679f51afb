// SPDX-License-Identifier: Apache-2.0
/// \file
/// What tests do less of where everything is slow. Needs nothing of the library.
#pragma once

namespace spolia::test {

#if defined(__has_feature)
inline constexpr bool finds_races = __has_feature(thread_sanitizer);
inline constexpr bool sanitized = finds_races || __has_feature(address_sanitizer);
#elif defined(__SANITIZE_THREAD__)
inline constexpr bool finds_races = true;
inline constexpr bool sanitized = true;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool finds_races = false;
inline constexpr bool sanitized = true;
#else
inline constexpr bool finds_races = false;
inline constexpr bool sanitized = false;
#endif

/// In `./dev test --quick`, where nothing is optimised and each test is to take a moment.
#if SPOLIA_TEST_ONE_TYPE
inline constexpr bool quick_tests = true;
#else
inline constexpr bool quick_tests = false;
#endif

/// How many times fewer things are tried under a sanitizer, which looks for other mistakes than
/// wrong answers: of each day's tests still fewer. And in `./dev test --quick`.
#if SPOLIA_TEST_EVERY_DAY
inline constexpr unsigned fewer = sanitized ? 12 : 1;
#else
inline constexpr unsigned fewer = sanitized || quick_tests ? 4 : 1;
#endif

/// A case that takes minutes where everything is slow is in the release stage of each day, and in
/// `./dev test --all` under every sanitizer. It begins with
///   if (no_long_cases) GTEST_SKIP() << "SKIPPED it is long here";
#if SPOLIA_TEST_EVERY_DAY
inline constexpr bool no_long_cases = sanitized;
#else
inline constexpr bool no_long_cases = quick_tests;
#endif

/// The same of a long case in which one thread calls the library, and the thread sanitizer. Threads
/// of the library's own, such as those that open a database, race in other cases.
///   if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
inline constexpr bool no_lone_threads = no_long_cases && finds_races;

/// How long threads race in a test of share 1, see stress.hpp. Each day the address sanitizer has
/// less: whether answers are right, the release stage finds out, and what is freed too early is a
/// race, too.
#if SPOLIA_TEST_EVERY_DAY
inline constexpr double stress_seconds = finds_races ? 0.2 : sanitized ? 0.1 : 0.5;
#else
inline constexpr double stress_seconds = quick_tests ? 0.2 : sanitized ? 0.25 : 0.5;
#endif

/// From one to the next of what is tried at every byte.
inline constexpr unsigned stride = fewer;

/// How many of n random things are tried.
constexpr int tries(int n) noexcept {
  constexpr int times = static_cast<int>(fewer);
  return (n + times - 1) / times;
}

/// From one to the next of the steps at each of which, in a run of its own, something goes wrong:
/// each step in a build without a sanitizer, and in `./dev test --all` with one.
inline constexpr unsigned steps_apart = fewer > 4 ? 3 : 1;

/// How many of n threads or processes are begun: on an emulated processor, where that takes
/// milliseconds, a fifth.
#if defined(SPOLIA_TEST_EMULATED)
constexpr int starts(int n) noexcept { return n / 5; }
#else
constexpr int starts(int n) noexcept { return n; }
#endif

}  // namespace spolia::test
