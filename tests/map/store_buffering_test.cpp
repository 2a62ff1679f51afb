// SPDX-License-Identifier: Apache-2.0
// Store buffering: what is linearizable puts an update before all that its thread does next. One
// thread writes into X and then reads Y, the other one writes into Y and then reads X, again and
// again, with numbers that only grow. If the first reads y in Y after it has written x into X, then
// the second, which writes y + 1 later, must read x or more in X after that. No clock is needed to
// say so, and the threads do not wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/snapshot.hpp>

#include "support/schemes.hpp"

namespace {

using namespace spolia;

// An object with a number that grows.

template <class Map>
struct in_map {
  in_map() : map(made()) { map->insert(1, 0); }
  static std::unique_ptr<Map> made() {
    if constexpr (std::is_default_constructible_v<Map>) {
      return std::make_unique<Map>();
    } else {
      return std::make_unique<Map>(8U);
    }
  }
  void write(int n) { map->insert_or_assign(1, n); }
  int read() { return *map->find(1); }
  std::unique_ptr<Map> map;
};
/// Each number is a key that comes, and the one before goes.
template <class Map>
struct in_keys : in_map<Map> {
  void write(int n) {
    this->map->insert(n + 2, n);
    top = n;
  }
  int read() {
    while (this->map->contains(found + 3)) ++found;
    return found;
  }
  int top = 0;
  int found = 0;  // the reader's
};
template <class Map>
struct in_batch : in_map<Map> {
  void write(int n) {
    changes one;
    one.insert_or_assign(*this->map, 1, n);
    one.commit();
  }
};
template <class Map>
struct at_snapshot : in_map<Map> {
  int read() {
    const snapshot now;
    return *this->map->find(now, 1);
  }
};
template <template <class> class Location>
struct in_location {
  void write(int n) { location.store(make_shared<int>(n)); }
  int read() {
    const auto p = location.load();
    return p ? *p : 0;
  }
  Location<int> location;
};
struct in_private : in_location<atomic_shared_ptr> {
  int read() {
    const private_ptr<int> p(location);
    return p ? *p : 0;
  }
};
struct in_atomic {
  void write(int n) { number.store(n); }
  int read() { return number.load(); }
  std::atomic<int> number{0};
};

/// Those that publish by plain stores need a fence on each processor, which most others do not.
template <class Object>
inline constexpr bool by_plain_stores = false;
template <class... Arguments>
inline constexpr bool by_plain_stores<in_map<avl<Arguments...>>> = true;
template <class... Arguments>
inline constexpr bool by_plain_stores<in_keys<avl<Arguments...>>> = true;
template <class... Arguments>
inline constexpr bool by_plain_stores<in_map<counted_btree<Arguments...>>> = true;
template <class... Arguments>
inline constexpr bool by_plain_stores<in_keys<counted_btree<Arguments...>>> = true;

template <class X, class Y>
struct pair {
  using x = X;
  using y = Y;
};

/// Runs one side: what it read after each write.
template <class Mine, class Other>
std::vector<int> run(Mine& mine, Other& other, std::atomic<int>& ready, int rounds) {
  std::vector<int> seen(static_cast<std::size_t>(rounds) + 1);
  ready.fetch_add(1);
  while (ready.load() < 2) std::this_thread::yield();
  for (int i = 1; i <= rounds; ++i) {
    mine.write(i);
    seen[static_cast<std::size_t>(i)] = other.read();
  }
  return seen;
}

struct result {
  int wrong = 0;
  int met = 0;  // how often one has read a new number
};
template <class X, class Y>
result once(int rounds) {
  X x;
  Y y;
  std::atomic<int> ready{0};
  std::vector<int> by_first;
  std::thread first([&] { by_first = run(x, y, ready, rounds); });
  const std::vector<int> by_second = run(y, x, ready, rounds);
  first.join();
  result r;
  for (int i = 1; i <= rounds; ++i) {
    const auto read = static_cast<std::size_t>(by_first[static_cast<std::size_t>(i)]);
    if (by_first[static_cast<std::size_t>(i) - 1] != static_cast<int>(read)) ++r.met;
    if (read + 1 < by_second.size() && by_second[read + 1] < i) ++r.wrong;
  }
  return r;
}

template <class Pair>
struct store_buffering : testing::Test {};
template <class Map>
using both = pair<in_map<Map>, in_map<Map>>;
template <class Map>
using keys = pair<in_keys<Map>, in_keys<Map>>;
template <class Map>
using with_atomic = pair<in_map<Map>, in_atomic>;

/// Each map beside an atomic, whose accesses are in one order with those of all others; and what is
/// no map.
using pairs_with_atomics =
    testing::Types<with_atomic<abtree<int, int>>, with_atomic<external_bst<int, int>>,
                   with_atomic<avl<int, int>>, with_atomic<list<int, int>>,
                   with_atomic<counted_bst<int, int>>, with_atomic<counted_btree<int, int>>,
                   with_atomic<counted_hash<int, int>>, with_atomic<snapshot_hash<int, int>>,
                   with_atomic<snapshot_tree<int, int>>, with_atomic<rlu_bst<int, int>>,
                   with_atomic<rlu_list<int, int>>, with_atomic<rlu_hash<int, int>>,
                   pair<in_batch<snapshot_hash<int, int>>, in_atomic>,
                   pair<in_batch<snapshot_tree<int, int>>, in_atomic>,
                   pair<at_snapshot<snapshot_hash<int, int>>, in_atomic>,
                   pair<at_snapshot<snapshot_hash<int, int>>, in_location<atomic_shared_ptr>>,
                   pair<in_location<atomic_shared_ptr>, in_location<atomic_shared_ptr>>,
                   pair<in_location<atomic_shared_ptr>, in_atomic>, pair<in_private, in_private>,
                   pair<in_private, in_atomic>>;
#if SPOLIA_TEST_EVERY_DAY
using pairs_of_objects = pairs_with_atomics;
#else
/// Two maps, or two keys of one: they order their accesses as beside an atomic.
using pairs_of_maps =
    testing::Types<both<abtree<int, int>>, both<external_bst<int, int>>, both<avl<int, int>>,
                   both<list<int, int>>, both<counted_bst<int, int>>, both<counted_btree<int, int>>,
                   both<counted_hash<int, int>>, both<counted_btree<int, int, shared_family>>,
                   both<snapshot_hash<int, int>>, both<snapshot_tree<int, int>>,
                   both<rlu_bst<int, int>>, both<rlu_list<int, int>>, both<rlu_hash<int, int>>,
                   keys<avl<int, int>>, keys<counted_btree<int, int>>, keys<abtree<int, int>>,
                   pair<in_private, in_map<avl<int, int>>>,
                   pair<in_map<counted_btree<int, int>>, in_map<avl<int, int>>>>;
using pairs_of_objects = spolia::test::join_types<pairs_with_atomics, pairs_of_maps>::type;
#endif
TYPED_TEST_SUITE(store_buffering, pairs_of_objects);

TYPED_TEST(store_buffering, one_of_two_sees_the_other) {
  // Until the threads have met often enough, or time is up: where they never run side by side there
  // is nothing to see.
  using x = typename TypeParam::x;
  using y = typename TypeParam::y;
  constexpr bool longer = by_plain_stores<x> || by_plain_stores<y>;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(longer ? 500 : 150);
  int met = 0;
  do {
    const result r = once<x, y>(2'000);
    met += r.met;
    EXPECT_EQ(r.wrong, 0) << "of " << r.met;
  } while (met < (longer ? 300'000 : 30'000) && std::chrono::steady_clock::now() < end);
  this->RecordProperty("met", met);
}

}  // namespace
