// SPDX-License-Identifier: Apache-2.0
// A comparison at the third place, where std::map has it and this map its domain.
// refused: the third argument of this map is its domain, such as spolia::domain<>
#include <functional>
#include <string>

#include <spolia/map/abtree.hpp>

#if defined(REFUSED)
using ages_by_name = spolia::abtree<std::string, int, std::less<>>;
#else
using ages_by_name = spolia::abtree<std::string, int, spolia::domain<>, std::less<>>;
#endif

int age_of(const ages_by_name& ages) { return ages.find("Ada").value_or(0); }
