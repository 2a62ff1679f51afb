// SPDX-License-Identifier: Apache-2.0
/// \file
/// One random operation of a map, for a history.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/map/updates.hpp>

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

/// One random update that goes by the value that there is, likewise.
template <class Map>
void operate_by_value(Map& m, map_lane& lane, rng& random, std::uint64_t key, std::uint64_t value) {
  using change = map_lane::change;
  lane.by_value(key, [&]() -> change {
    std::uint64_t before = 0;
    const auto next = [&](std::uint64_t& v) { before = std::exchange(v, value); };
    switch (random.below(6)) {
      case 0: {
        const bool there = m.update(key, next) == update_result::updated;
        return {map_op::replace, there, value, before};
      }
      case 1:
        if (m.upsert(key, next, value) == update_result::inserted) {
          return {map_op::insert, true, value};
        }
        return {map_op::replace, true, value, before};
      case 2: {
        const auto got = m.get_or_insert(key, value);
        return {got.inserted ? map_op::insert : map_op::find, true, got.value};
      }
      case 3: {
        const auto seen = m.find(key);
        if (!seen) return {map_op::find, false};
        if (m.compare_exchange(key, *seen, value) == update_result::updated) {
          return {map_op::replace, true, value, *seen};
        }
        return {map_op::find, true, *seen};
      }
      case 4: {
        const auto pred = [&](std::uint64_t v) { return before = v, v % 3 != 0; };
        const auto done = m.erase_if(key, pred);
        if (done == update_result::unchanged) return {map_op::find, true, before};
        return {map_op::take, done == update_result::erased, before};
      }
      default: {
        const auto last = m.extract(key);
        return {map_op::take, last.has_value(), last.value_or(0)};
      }
    }
  });
}

}  // namespace spolia::test
