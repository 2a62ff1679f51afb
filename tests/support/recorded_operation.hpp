// SPDX-License-Identifier: Apache-2.0
/// \file
/// One random operation of a map, for a history.
#pragma once

#include <cstdint>

#include "support/linearizability.hpp"
#include "support/stress.hpp"

namespace spolia::test {

/// Values are to be unique in the history.
template <class Map>
void operate(Map& m, map_lane& lane, rng& random, std::uint64_t key, std::uint64_t value) {
  switch (random.below(8)) {
    case 0:
    case 1:
      lane.insert(key, value, [&] { return m.insert(key, value); });
      break;
    case 2:
      lane.insert_or_assign(key, value, [&] { return m.insert_or_assign(key, value); });
      break;
    case 3:
    case 4:
      lane.erase(key, [&] { return m.erase(key); });
      break;
    case 5:
      lane.contains(key, [&] { return m.contains(key); });
      break;
    default:
      lane.find(key, [&] { return m.find(key); });
      break;
  }
}

}  // namespace spolia::test
