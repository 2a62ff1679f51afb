// SPDX-License-Identifier: Apache-2.0
// A hash at the third place, where a counted map has its family of pointers.
// refused: the third argument of a counted map is its family of pointers
#include <functional>

#include <spolia/map/counted_hash.hpp>

#if defined(REFUSED)
using routes = spolia::counted_hash<int, int, std::hash<int>>;
#else
using routes = spolia::counted_hash<int, int, spolia::thin_family, std::hash<int>>;
#endif

int next_hop(const routes& all, int to) { return all.find(to).value_or(to); }
