// SPDX-License-Identifier: Apache-2.0
// A hash at the fourth place, where a tree has its order.
// refused: the fourth argument of this map is an order of its keys
#include <functional>

#include <spolia/map/abtree.hpp>

#if defined(REFUSED)
using ages = spolia::abtree<int, int, spolia::domain<>, std::hash<int>>;
#else
using ages = spolia::abtree<int, int, spolia::domain<>, std::greater<int>>;
#endif

int age_of(const ages& all, int number) { return all.find(number).value_or(0); }
