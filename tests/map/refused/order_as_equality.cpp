// SPDX-License-Identifier: Apache-2.0
// An order at the fifth place, where this map has its equality.
// refused: the fifth argument of this map is an equality of its keys
#include <functional>

#include <spolia/map/snapshot_hash.hpp>

#if defined(REFUSED)
using equal = std::less<>;
#else
using equal = std::equal_to<>;
#endif

using stock = spolia::snapshot_hash<int, int, spolia::sl_rt<>, std::hash<int>, equal>;

int left_of(const stock& all, int part) { return all.find(part).value_or(0); }
