// SPDX-License-Identifier: Apache-2.0
// All pairs of a map with snapshots, without one.
// refused: take_a_snapshot_and_give_it_to_all
#include <spolia/map/snapshot_hash.hpp>

int sum_of(const spolia::snapshot_hash<int, int>& stock) {
  int sum = 0;
  const spolia::snapshot now;
#if defined(REFUSED)
  for (const auto& [key, value] : stock.all()) sum += value;
#else
  for (const auto& [key, value] : stock.all(now)) sum += value;
#endif
  return sum;
}
