// SPDX-License-Identifier: Apache-2.0
// An equality at the fifth place, as std::unordered_map has it, of a map whose buckets are sorted.
// refused: the fifth argument of this map is an order of its keys
#include <functional>

#include <spolia/map/michael_hash.hpp>

#if defined(REFUSED)
using less = std::equal_to<>;
#else
using less = std::less<>;
#endif

using ages = spolia::michael_hash<int, int, spolia::domain<>, std::hash<int>, less>;

int age_of(const ages& all, int number) { return all.find(number).value_or(0); }
