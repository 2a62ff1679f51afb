// SPDX-License-Identifier: Apache-2.0
// A thread that is cancelled while it compares or copies keys, wherever in a map that is: it
// unwinds, lets go of its guard or its lock, and the map stays usable. In repairs, too, which no
// exception leaves: these come last in an operation, so each operation's last places are tried.
#include <gtest/gtest.h>

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>

#include <spolia/map.hpp>
#include <spolia/snapshot.hpp>

#include "support/few_types.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;

/// How many places there are until this thread ends; negative: it does not.
thread_local int places_left = -1;
void place() {
  if (places_left < 0 || places_left-- != 0) return;
  pthread_cancel(pthread_self());
  pthread_testcancel();
}

struct fragile {
  fragile() = default;
  explicit(false) fragile(int n) : number(n) {}
  fragile(const fragile& other) : number(other.number) { place(); }
  fragile& operator=(const fragile& other) {
    place();
    number = other.number;
    return *this;
  }
  ~fragile() = default;
  friend bool operator==(const fragile& a, const fragile& b) {
    place();
    return a.number == b.number;
  }
  friend bool operator<(const fragile& a, const fragile& b) {
    place();
    return a.number < b.number;
  }
  int number = 0;
};
/// So few that the chains of a table get long, and it grows.
struct few_hashes {
  std::size_t operator()(const fragile& f) const {
    place();
    return static_cast<std::size_t>(f.number % 4);
  }
};
struct hash_of_fragile {
  std::size_t operator()(const fragile& f) const {
    place();
    return static_cast<std::size_t>(f.number) * 0x9E3779B97F4A7C15U;
  }
};
using less = std::less<fragile>;

template <class Map>
std::unique_ptr<Map> made() {
  if constexpr (std::is_default_constructible_v<Map>) {
    return std::make_unique<Map>();
  } else {
    return std::make_unique<Map>(4U);
  }
}

template <class Map>
constexpr int there = 40;
/// So many that enough of a node's leaves are empty in the end for it to be made anew without them.
template <class Family>
constexpr int there<counted_btree<fragile, int, Family, less>> = 56;
template <class Family>
constexpr int there<counted_btree_locked<fragile, int, Family, less>> = 56;

/// Updates that make maps grow, shrink and repair themselves. After each, done().
template <class Map>
void work(Map& m, const std::function<void()>& done) {
  for (int i = 0; i < there<Map>; ++i) {
    m.insert(fragile(there<Map> + i), i);
    done();
  }
  if constexpr (requires { m.time(); }) {
    changes some;
    for (int i = 0; i < 8; ++i) some.erase(m, fragile(there<Map> + i));
    for (int i = 0; i < 4; ++i) some.insert(m, fragile(there<Map> + i), i);
    some.commit();
    done();
  }
  for (int i = 0; i < there<Map>; ++i) {
    m.erase(fragile(there<Map> + i));
    done();
  }
}

struct job {
  std::function<void()> run;
  int place;
  bool through = false;
  int left = 0;
};
void* as_thread(void* given) {
  job& mine = *static_cast<job*>(given);
  places_left = mine.place;
  mine.run();
  mine.left = places_left;
  places_left = -1;
  mine.through = true;
  return nullptr;
}
/// Runs it in a thread that ends at that place. True: there was no such place.
bool runs_through(const std::function<void()>& run, int place) {
  job mine{run, place};
  pthread_t thread{};
  EXPECT_EQ(pthread_create(&thread, nullptr, as_thread, &mine), 0);
  void* ended = nullptr;
  EXPECT_EQ(pthread_join(thread, &ended), 0);
  EXPECT_EQ(mine.through, ended != PTHREAD_CANCELED);
  return mine.through;
}

template <class Map>
std::unique_ptr<Map> filled() {
  auto m = made<Map>();
  for (int key = 0; key < there<Map>; ++key) m->insert(fragile(key), key);
  return m;
}

/// All of the first places, of the thousands that follow fewer and fewer, and the last ones of each
/// operation. Fewer of those where places are slow.
template <class Map>
std::set<int> places_to_try() {
  constexpr int many = 1 << 30;
  const auto m = filled<Map>();
  std::set<int> chosen;
  places_left = many;
  work(*m, [&] {
    constexpr int last_ones = spolia::test::fewer > 4 ? 2 : 4;
    const int so_far = many - places_left;
    for (int n = 1; n <= std::min(last_ones, so_far); ++n) chosen.insert(so_far - n);
  });
  const int all = many - std::exchange(places_left, -1);
  const int first_ones = spolia::test::tries(400);
  for (int n = 0; n < all; n += n < first_ones ? 1 : 1 + n / (first_ones / 16)) chosen.insert(n);
  chosen.insert(2 * all);  // it ends at none
  return chosen;
}

template <class Map>
void expect_usable(Map& m, int place) {
  std::size_t pairs = 0;
  for (int key = 0; key < 3 * there<Map>; ++key) {
    pairs += m.contains(fragile(key)) ? 1U : 0U;
    if (key >= there<Map>) continue;
    EXPECT_EQ(m.find(fragile(key)), key) << "ended at place " << place;
  }
  EXPECT_EQ(m.size_approx(), pairs) << "ended at place " << place;
  for (int key = there<Map>; key < 3 * there<Map>; ++key) m.insert_or_assign(fragile(key), key);
  for (int key = there<Map>; key < 3 * there<Map>; ++key) {
    EXPECT_TRUE(m.erase(fragile(key))) << "ended at place " << place;
  }
  EXPECT_EQ(m.size_approx(), std::size_t{there<Map>}) << "ended at place " << place;
  if constexpr (requires { m.audit(); }) {
    EXPECT_EQ(m.audit().wrong, "");
  }
}

template <class Map>
struct unwinding : testing::Test {};
using maps = spolia::test::few_or_all<
    16, abtree<fragile, int, domain<>, less, 4>, external_bst<fragile, int, domain<>, less>,
    avl<fragile, int, region_domain, less>, list<fragile, int, domain<>, less>,
    snapshot_tree<fragile, int, sl_rt<>, less, 2>,
    snapshot_hash<fragile, int, sl_rt<>, hash_of_fragile>,
    counted_bst<fragile, int, thin_family, less>, counted_btree<fragile, int, thin_family, less>,
    counted_tree<fragile, int, thin_family, less>,
    counted_btree_locked<fragile, int, thin_family, less>,
    counted_hash<fragile, int, thin_family, few_hashes>, rlu_bst<fragile, int, rlu::domain, less>,
    rlu_list<fragile, int, rlu::domain, less>,
    rlu_hash<fragile, int, rlu::domain, hash_of_fragile, less>,
    michael_hash<fragile, int, domain<>, few_hashes, less>,
    split_ordered_hash<fragile, int, domain<>, few_hashes, less>>;
TYPED_TEST_SUITE(unwinding, maps);

TYPED_TEST(unwinding, leaves_the_map_usable_wherever_it_begins) {
  bool through = false;
  for (const int place : places_to_try<TypeParam>()) {
    const auto m = filled<TypeParam>();
    through = runs_through([&] { work(*m, [] {}); }, place);
    expect_usable(*m, place);
    if constexpr (requires { m->domain().drain(); }) {
      m->domain().drain();
      if constexpr (requires { m->domain().stats().garbage(); }) {
        EXPECT_EQ(m->domain().stats().garbage(), 0U) << "a guard is left at place " << place;
      }
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_TRUE(through);
}

}  // namespace
