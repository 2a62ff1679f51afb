// SPDX-License-Identifier: Apache-2.0
/// \file
/// What something costs beside something else. A machine that has other things to do changes its
/// speed from one moment to the next, by more than what a test has to tell apart. So two things are
/// compared by pairs: they are done in turn, and of the ratios the median counts. What changes the
/// speed for a while changes both halves of nearly all pairs.
///
///     EXPECT_LE(times_as_much(31, [&] { return cost_of(with); },
///                                 [&] { return cost_of(without); }), 1.2);
/// Where they differ by a multiple, the least of each is enough, in turn as well.
///
/// A cost is the time that a processor has worked for the calling thread: what the thread waits, or
/// is stopped, is not in it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <utility>
#include <vector>

namespace spolia::test {

/// Seconds of the calling thread.
inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Seconds that `f()` takes.
template <class F>
double cost_of(F&& f) {
  const double before = thread_seconds();
  std::forward<F>(f)();
  return thread_seconds() - before;
}

/// How many times as much as `other()` it is what `one()` returns, by the median of so many pairs.
/// Each of them comes first in every second pair, as what comes first may pay for both.
template <class One, class Other>
double times_as_much(int pairs, One&& one, Other&& other) {
  std::vector<double> ratios;
  for (int n = 0; n < pairs; ++n) {
    const double before = n % 2 == 0 ? one() : 0;
    const double by_other = other();
    ratios.push_back((n % 2 == 0 ? before : one()) / by_other);
  }
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

/// The least of so many of what each returns, in turn.
template <class One, class Other>
std::pair<double, double> least_in_turn(int rounds, One&& one, Other&& other) {
  std::pair<double, double> least{one(), other()};
  for (int n = 1; n < rounds; ++n) {
    least.first = std::min(least.first, one());
    least.second = std::min(least.second, other());
  }
  return least;
}

}  // namespace spolia::test
