// SPDX-License-Identifier: Apache-2.0
// What a map of one pair takes, where there are many of them; and what the checked build variant
// says of what outlives a small map.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <spolia/base/misuse.hpp>
#include <spolia/map.hpp>
#include <spolia/snapshot.hpp>

#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;

template <class Key, class Value>
struct michael_hash_of_16 : michael_hash<Key, Value> {
  michael_hash_of_16() : michael_hash<Key, Value>(16) {}
};

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
  EXPECT_LE((bytes_for_each_small_map<michael_hash_of_16<int, int>>()), 8192U);
  EXPECT_LE((bytes_for_each_small_map<split_ordered_hash<int, int>>()), 8192U);
  EXPECT_LE((bytes_for_each_small_map<snapshot_tree<int, int>>()), 12'288U);
  EXPECT_LE((bytes_for_each_small_map<snapshot_hash<int, int>>()), 14'336U);
}

/// What was said last.
std::string& complaint_of_small_maps() {
  static std::string last;
  return last;
}
template <class F>
std::string complaint_about(F&& f) {
  complaint_of_small_maps().clear();
  const auto before = core::set_misuse_handler(
      [](const char* what, std::uint32_t) { complaint_of_small_maps() = what; });
  f();
  core::set_misuse_handler(before);
  return complaint_of_small_maps();
}

template <class Map>
void expect_that_the_late_are_named() {
  auto m = std::make_unique<Map>();
  for (int i = 0; i < 100; ++i) m->insert(i, i);
  std::optional<snapshot> now(std::in_place, m->time());
  std::optional all = m->all(*now);
  auto at = all->begin();
  EXPECT_EQ(complaint_about([&] { ++at; }), "");
  now.reset();
  EXPECT_EQ(complaint_about([&] { ++at; }), "") << "the range holds the snapshot";
  auto late = at;
  {
    const auto other = m->all(snapshot(m->time()));
    late = other.begin();
  }
  EXPECT_NE(complaint_about([&] { ++late; }).find("an iterator over a snapshot is used after"),
            std::string::npos);
  changes batch;
  batch.insert(*m, 200, 1);
  batch.expect_absent(*m, 300);
  m.reset();
  EXPECT_EQ(complaint_about([&] { ++at; }),
            "an iterator over a snapshot is used whose map has ended");
  EXPECT_EQ(complaint_about([&] { EXPECT_TRUE(all->begin() == all->end()); }),
            "a range of a snapshot is used whose map has ended");
  EXPECT_EQ(complaint_about([&] { EXPECT_FALSE(batch.commit()); }),
            "a batch is committed whose map has ended");
}

TEST(small_maps, are_missed_by_what_outlives_them) {
  if (!SPOLIA_CHECKS) GTEST_SKIP() << "the native variant does not check";
  expect_that_the_late_are_named<snapshot_hash<int, int>>();
  expect_that_the_late_are_named<snapshot_tree<int, int>>();
}

}  // namespace
