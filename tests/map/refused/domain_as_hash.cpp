// SPDX-License-Identifier: Apache-2.0
// A domain at the fourth place, where this map has its hash.
// refused: the fourth argument of this map is a hash of its keys
#include <spolia/map/split_ordered_hash.hpp>

#if defined(REFUSED)
using ages = spolia::split_ordered_hash<int, int, spolia::domain<>, spolia::domain<>>;
#else
using ages = spolia::split_ordered_hash<int, int, spolia::domain<>>;
#endif

int age_of(const ages& all, int number) { return all.find(number).value_or(0); }
