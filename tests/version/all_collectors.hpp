// SPDX-License-Identifier: Apache-2.0
/// \file
/// Every collector, with every kind of timeline, for typed tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>

namespace spolia::test {

using on_update = basic_timeline<logical_clock, stamping::on_update>;
using by_hardware = basic_timeline<hardware_clock>;

using all_collectors =
    testing::Types<epoch_collector<>, dl_rt<>, sl_rt<>, epoch_collector<domain<debra>, on_update>,
                   dl_rt<domain<debra>, on_update>, sl_rt<domain<debra>, on_update>,
                   dl_rt<domain<quiescent>, by_hardware>, sl_rt<domain<quiescent>, by_hardware>>;

struct collector_names {
  template <class Collector>
  static std::string GetName(int i) {
    return std::string(Collector::info.name) + "_" + std::to_string(i);
  }
};

/// Whether this machine has the clock.
template <class Collector>
bool usable() {
  using clock = typename Collector::timeline_type::clock_type;
  return !std::is_same_v<clock, hardware_clock> || hardware_clock::trusted();
}

/// Objects of one type, with all they need; taken down in order.
template <class T, class Collector>
struct versioned_objects {
  using object = versioned<T, Collector>;

  explicit versioned_objects(range_tracker::options o = {.batch = 8, .least_batch = 1, .steps = 6})
      : versions(nodes, time, o) {}
  ~versioned_objects() {
    versions.close();
    for (auto& o : objects) o->clear(versions);
  }

  template <class... Arguments>
  object& make(Arguments&&... arguments) {
    objects.push_back(std::make_unique<object>(versions, std::forward<Arguments>(arguments)...));
    return *objects.back();
  }
  auto enter() { return versions.enter(); }

  typename Collector::domain_type nodes;
  typename Collector::timeline_type time;
  Collector versions;
  std::vector<std::unique_ptr<object>> objects;
};

}  // namespace spolia::test
