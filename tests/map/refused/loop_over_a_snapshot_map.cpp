// SPDX-License-Identifier: Apache-2.0
// A loop over a map with snapshots, without one.
// refused: loop_over_all_of_a_snapshot_or_call_for_each
#include <spolia/map/snapshot_tree.hpp>

int sum_of(const spolia::snapshot_tree<int, int>& all) {
  int sum = 0;
#if defined(REFUSED)
  for (const auto& [key, value] : all) sum += value;
#else
  const spolia::snapshot now;
  for (const auto& [key, value] : all.all(now)) sum += value;
#endif
  return sum;
}
