// SPDX-License-Identifier: Apache-2.0
// Every public operation by two threads of different real-time priorities on one processor:
// whatever one waits for, it sleeps in the end, so that the other one gets on. Here: maps, and the
// schemes below them.

#include <gtest/gtest.h>

#include <spolia/map.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>

#include "support/two_priorities.hpp"

namespace {

using namespace spolia;
using spolia::test::both_get_on;

// ---- maps

template <class Map>
struct map_of {
  Map map;

  void use(unsigned who, unsigned i) {
    const int key = static_cast<int>((i * 7 + who) % 48);
    map.insert_or_assign(key, static_cast<int>(i));
    map.insert(key + 1, 1);
    static_cast<void>(map.find(key));
    static_cast<void>(map.contains(key + 2));
    map.erase(key + 1);
    if (i % 16 == who) map.erase(key);
    if constexpr (requires { map.for_each([](int, int) {}); }) {
      if (i % 64 == 1) map.for_each([](int, int) {});
    }
    if constexpr (requires { map.domain().drain(1); }) {
      if (i % 64 == 2) map.domain().drain(1);
    }
    if constexpr (requires { map.collect(); }) {
      if (i % 64 == 3) map.collect();
    }
    if (i % 64 == 4) static_cast<void>(map.size_approx());
  }
};

rlu::domain& rlu_home() {
  static rlu::domain home;
  return home;
}
struct rlu_list_at_home : rlu_list<int, int> {
  rlu_list_at_home() : rlu_list(rlu_home()) {}
};
struct rlu_hash_at_home : rlu_hash<int, int> {
  rlu_hash_at_home() : rlu_hash(rlu_home(), 16) {}
};
struct rlu_bst_at_home : rlu_bst<int, int> {
  rlu_bst_at_home() : rlu_bst(rlu_home()) {}
};

template <class Map>
class priorities_map : public testing::Test {};
using maps =
    testing::Types<abtree<int, int>, avl<int, int>, external_bst<int, int>, spolia::list<int, int>,
                   snapshot_hash<int, int>, snapshot_tree<int, int>, counted_hash<int, int>,
                   counted_btree<int, int>, counted_bst<int, int>, rlu_list_at_home,
                   rlu_hash_at_home, rlu_bst_at_home>;
TYPED_TEST_SUITE(priorities_map, maps);
TYPED_TEST(priorities_map, high_and_low_get_on) { both_get_on<map_of<TypeParam>>(); }

// ---- schemes

template <class Scheme>
class priorities_scheme : public testing::Test {};
using schemes = testing::Types<token, robust_token, debra, qsbr, reservations, hazard_pointers,
                               hazard_eras, intervals, wait_free_eras, neutralization,
                               neutralization_plus, none>;
TYPED_TEST_SUITE(priorities_scheme, schemes);
TYPED_TEST(priorities_scheme, high_and_low_get_on) {
  both_get_on<map_of<spolia::list<int, int, domain<TypeParam>>>>();
}

}  // namespace
