// SPDX-License-Identifier: Apache-2.0
// A timeline at the first place, where a collector has its domain.
// refused: the first argument of a collector is its domain
#include <spolia/map/snapshot_tree.hpp>

#if defined(REFUSED)
using collector = spolia::sl_rt<spolia::timeline>;
#else
using collector = spolia::sl_rt<spolia::region_domain, spolia::timeline>;
#endif

int ordered(const spolia::snapshot_tree<int, int, collector>& all, int part) {
  return all.find(part).value_or(0);
}
