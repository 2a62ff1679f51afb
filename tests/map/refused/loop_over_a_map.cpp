// SPDX-License-Identifier: Apache-2.0
// A loop over a map that threads change.
// refused: call_for_each_since_a_map_that_threads_change_has_no_iterators
#include <spolia/map/michael_hash.hpp>

int sum_of(const spolia::michael_hash<int, int>& all) {
  int sum = 0;
#if defined(REFUSED)
  for (const auto& [key, value] : all) sum += value;
#else
  all.for_each([&](const int&, const int& value) { sum += value; });
#endif
  return sum;
}
