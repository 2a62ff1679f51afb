// SPDX-License-Identifier: Apache-2.0
// A counted map of values that can only be moved: it would have to copy them.
// refused: counted maps copy keys and values
#include <memory>

#include <spolia/map/counted_hash.hpp>

#if defined(REFUSED)
using kept = std::unique_ptr<int>;
#else
using kept = std::shared_ptr<int>;
#endif

bool keep(spolia::counted_hash<int, kept>& all, const kept& value) { return all.insert(1, value); }
