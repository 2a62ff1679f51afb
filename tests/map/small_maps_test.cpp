// SPDX-License-Identifier: Apache-2.0
// What a map of one pair takes, where there are many of them.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/snapshot.hpp>

#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;

template <class Map>
std::uint64_t bytes_for_each_small_map() {
  constexpr std::uint64_t maps = 2000;
  std::vector<std::unique_ptr<Map>> all;
  all.reserve(maps);
  const std::uint64_t before = test::resident_when_trimmed();
  for (std::uint64_t i = 0; i < maps; ++i) {
    all.push_back(std::make_unique<Map>());
    all.back()->insert(1, 1);
  }
  return (test::resident_bytes() - before) / maps;
}

TEST(small_maps, take_little) {
  if (test::sanitized) GTEST_SKIP() << "a sanitizer's heap takes more";
  EXPECT_LE((bytes_for_each_small_map<list<int, int>>()), 8192U);
  EXPECT_LE((bytes_for_each_small_map<abtree<int, int>>()), 8192U);
  EXPECT_LE((bytes_for_each_small_map<snapshot_tree<int, int>>()), 12'288U);
  EXPECT_LE((bytes_for_each_small_map<snapshot_hash<int, int>>()), 14'336U);
}

}  // namespace
