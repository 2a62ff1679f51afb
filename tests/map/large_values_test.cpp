// SPDX-License-Identifier: Apache-2.0
// What waits is known in bytes: where a few large values are replaced again and again, not much
// more is resident than what is alive. In every map, and for pointers.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <spolia/memory.hpp>

#include "map/every_map.hpp"
#include "support/resident.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr std::size_t megabyte_of_values = std::size_t{1} << 20U;
constexpr int large_values_alive = 16;

/// By so many threads; each calls f(i) for its numbers below `count`.
template <class F>
void replace_large_values(int threads, int count, F f) {
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([=] {
      for (int i = t; i < count; i += threads) f(i);
    });
  }
  for (auto& one : all) one.join();
}

/// Of 16 values of that size. With one thread 4 MB wait at most. Of several, each may have that
/// much, and what one that is interrupted holds up comes on top.
template <class F>
void expect_little_waits(std::size_t size, int threads, F replace) {
  const std::uint64_t before = resident_when_trimmed();
  peak_resident top;
  replace_large_values(threads, static_cast<int>(150 * megabyte_of_values / size), replace);
  top.look();
  const std::size_t waits = (threads == 1 ? 4 : 24) * megabyte_of_values;
  EXPECT_LE(top.bytes(), before + large_values_alive * size + waits + megabyte_of_values)
      << "with threads: " << threads;
}

template <class Subject>
class small_maps : public testing::Test {};
TYPED_TEST_SUITE(small_maps, every_map, every_map_name);

TYPED_TEST(small_maps, of_one_pair_take_8_kilobytes_each) {
  using numbers = typename TypeParam::template of<int, int>;
  constexpr std::size_t maps = 1000;
  std::vector<std::unique_ptr<numbers>> all;
  all.reserve(maps);
  const std::uint64_t before = resident_when_trimmed();
  for (std::size_t i = 0; i < maps; ++i) {
    all.push_back(std::make_unique<numbers>());
    all.back()->insert(1, 1);
  }
  EXPECT_LE(resident_when_trimmed(), before + maps * 8192);
}

template <class Subject>
class large_values : public testing::Test {};
TYPED_TEST_SUITE(large_values, every_map, every_map_name);

TYPED_TEST(large_values, do_not_pile_up_where_they_are_replaced) {
  for (const int threads : {1, 4}) {
    const std::size_t size = threads == 1 ? megabyte_of_values / 4 : megabyte_of_values;
    typename TypeParam::template of<int, std::vector<char>> map;
    expect_little_waits(size, threads, [&map, size](int i) {
      map.insert_or_assign(i % large_values_alive, std::vector<char>(size, 'x'));
    });
  }
}

/// Of an array behind a pointer it is not known how long it is.
struct unknown_length {
  explicit unknown_length(std::size_t bytes) : length(bytes), first(new char[bytes]) {
    std::memset(first.get(), 'x', bytes);
  }
  std::size_t length;
  std::shared_ptr<char[]> first;
};
struct told_length {
  std::size_t operator()(const unknown_length& v) const noexcept { return v.length; }
};

template <class Map>
void expect_weighed_values_to_go() {
  constexpr std::size_t size = megabyte_of_values / 4;
  Map map;
  expect_little_waits(size, 1, [&map](int i) {
    map.insert_or_assign(i % large_values_alive, unknown_length(size));
  });
  const auto found = map.find(1);
  ASSERT_TRUE(found);
  EXPECT_EQ((*found)->length, size);
  EXPECT_TRUE(map.visit(1, [](const unknown_length& v) { EXPECT_GT(v.length, 0U); }));
}

TEST(large_values_of_weighed, do_not_pile_up_where_they_are_replaced) {
  using value = weighed<unknown_length, told_length>;
  static_assert(sizeof(value) == sizeof(unknown_length));
  expect_weighed_values_to_go<abtree<int, value>>();
  expect_weighed_values_to_go<snapshot_hash<int, value>>();
}

TEST(large_values_of_pointers, do_not_pile_up_where_they_are_replaced) {
  for (const int threads : {1, 4}) {
    const std::size_t size = threads == 1 ? megabyte_of_values / 4 : megabyte_of_values;
    std::vector<atomic_shared_ptr<std::vector<char>>> at(large_values_alive);
    expect_little_waits(size, threads, [&at, size](int i) {
      at[static_cast<std::size_t>(i % large_values_alive)].store(
          make_shared<std::vector<char>>(size, 'x'));
    });
  }
}

}  // namespace
