// SPDX-License-Identifier: Apache-2.0
// A hash at the third place, where std::unordered_map has it and this map its domain.
// refused: the third argument of this map is its domain, such as spolia::rlu::domain
#include <functional>

#include <spolia/map/rlu_hash.hpp>

#if defined(REFUSED)
using squares = spolia::rlu_hash<int, int, std::hash<int>>;
#else
using squares = spolia::rlu_hash<int, int, spolia::rlu::domain, std::hash<int>>;
#endif

int square_of(const squares& all, int n) { return all.find(n).value_or(n * n); }
