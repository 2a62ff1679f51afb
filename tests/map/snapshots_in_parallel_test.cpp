// SPDX-License-Identifier: Apache-2.0
// for_each of a snapshot in several threads.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/snapshot.hpp>

namespace {

using namespace spolia;
using namespace std::chrono_literals;

constexpr int pairs_of_many = 5000;

template <class Map>
class snapshots_in_parallel : public testing::Test {
 protected:
  snapshots_in_parallel() {
    for (int key = 0; key < pairs_of_many; ++key) map.insert(key, -key);
  }

  /// Says how often f is to be told of each key.
  struct seen {
    void operator()(int key, int value) {
      EXPECT_EQ(value, -key);
      // relaxed: looked at when the threads have ended.
      times[static_cast<std::size_t>(key)].fetch_add(1, std::memory_order_relaxed);
    }
    void expect_once_each() const {
      for (const auto& n : times) ASSERT_EQ(n.load(std::memory_order_relaxed), 1);
    }
    std::array<std::atomic<int>, pairs_of_many> times{};
  };

  Map map;
};
using snapshot_maps_of_ints = testing::Types<snapshot_hash<int, int>, snapshot_tree<int, int>>;
TYPED_TEST_SUITE(snapshots_in_parallel, snapshot_maps_of_ints);

TYPED_TEST(snapshots_in_parallel, show_each_pair_once) {
  for (const std::size_t threads : {0U, 1U, 4U}) {
    typename TestFixture::seen all;
    const snapshot now;
    std::thread writer([&] {
      for (int key = 0; key < pairs_of_many; ++key) this->map.insert_or_assign(key, -key);
      for (int key = 0; key < 100; ++key) this->map.insert(pairs_of_many + key, 0);
    });
    this->map.for_each(now, threads, all);
    writer.join();
    all.expect_once_each();
    for (int key = 0; key < 100; ++key) this->map.erase(pairs_of_many + key);
  }
  const snapshot of_nothing;
  TypeParam empty;
  empty.for_each(of_nothing, 3, [](int, int) { FAIL(); });
}

TYPED_TEST(snapshots_in_parallel, throw_what_was_thrown_first_when_all_have_stopped) {
  const snapshot now;
  std::atomic<int> running = 0;
  const auto f = [&](int key, int) {
    running.fetch_add(1, std::memory_order_relaxed);
    const auto left = [&](const void*) { running.fetch_sub(1, std::memory_order_relaxed); };
    const std::unique_ptr<const void, decltype(left)> at_end(&key, left);
    if (key % 1000 == 999) throw std::runtime_error("here");
    std::this_thread::yield();
  };
  EXPECT_THROW(this->map.for_each(now, 4, f), std::runtime_error);
  EXPECT_EQ(running.load(std::memory_order_relaxed), 0);

  std::atomic<int> shown = 0;
  this->map.for_each(now, 4,
                     [&](int, int) { return shown.fetch_add(1, std::memory_order_relaxed) < 100; });
  EXPECT_LT(shown.load(std::memory_order_relaxed), 200) << "false ends it";
}

TYPED_TEST(snapshots_in_parallel, go_to_an_executor) {
  const snapshot now;
  std::vector<std::function<void()>> later;
  typename TestFixture::seen all;
  this->map.for_each(now, 3, [&](auto task) { later.emplace_back(task); }, all);
  for (const auto& task : later) task();  // too late: nothing is left
  all.expect_once_each();

  typename TestFixture::seen again;
  std::vector<std::thread> own;
  std::atomic<int> running = 0;
  const auto slowly = [&, caller = std::this_thread::get_id()](int key, int value) {
    running.fetch_add(1, std::memory_order_relaxed);
    if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(20us);
    again(key, value);
    running.fetch_sub(1, std::memory_order_relaxed);
  };
  this->map.for_each(now, 3, [&](auto task) { own.emplace_back(task); }, slowly);
  EXPECT_EQ(running.load(std::memory_order_relaxed), 0) << "none is left in it";
  again.expect_once_each();
  for (std::thread& one : own) one.join();

  const auto refuses = [](const auto&) { throw std::length_error("too busy"); };
  EXPECT_THROW(this->map.for_each(now, 3, refuses, again), std::length_error);
}

TEST(snapshot_hash_room, is_made_ahead_and_loses_nothing) {
  snapshot_hash<int, int> map;
  for (int key = 0; key < 1000; ++key) map.insert(key, key);
  const snapshot before;
  map.reserve(100'000);
  const auto buckets = map.buckets();
  EXPECT_GE(buckets * 16, 100'000U);
  EXPECT_THROW(map.reserve((std::uint64_t{1} << 40U) + 1), std::length_error);
  for (int key = 0; key < 1000; ++key) ASSERT_EQ(map.find(key), key);
  for (int key = 1000; key < 100'000; ++key) map.insert(key, key);
  for (int key = 0; key < 100'000; key += 9) ASSERT_EQ(map.find(key), key);
  EXPECT_EQ(map.buckets(), buckets) << "no update has made it larger";
  EXPECT_EQ(map.size(before), 1000U);
}

}  // namespace
