// SPDX-License-Identifier: Apache-2.0
// A domain at the third place, where a tree with snapshots has its collector.
// refused: the third argument of a map with snapshots is its collector
#include <spolia/map/snapshot_tree.hpp>

#if defined(REFUSED)
using orders = spolia::snapshot_tree<int, int, spolia::region_domain>;
#else
using orders = spolia::snapshot_tree<int, int, spolia::sl_rt<spolia::region_domain>>;
#endif

int ordered(const orders& all, int part) { return all.find(part).value_or(0); }
