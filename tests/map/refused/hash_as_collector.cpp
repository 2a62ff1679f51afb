// SPDX-License-Identifier: Apache-2.0
// A hash at the third place, where a map with snapshots has its collector.
// refused: the third argument of a map with snapshots is its collector
#include <functional>

#include <spolia/map/snapshot_hash.hpp>

#if defined(REFUSED)
using stock = spolia::snapshot_hash<int, int, std::hash<int>>;
#else
using stock = spolia::snapshot_hash<int, int, spolia::sl_rt<>, std::hash<int>>;
#endif

int left_of(const stock& all, int part) { return all.find(part).value_or(0); }
