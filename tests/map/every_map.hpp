// SPDX-License-Identifier: Apache-2.0
/// \file
/// All maps as they are unless one says otherwise, for tests of what they have in common.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <spolia/map.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>

#include "support/few_types.hpp"

namespace spolia::test {

template <template <class, class> class Map>
struct plain_map {
  template <class Key, class Value>
  using of = Map<Key, Value>;
};

template <class Key, class Value>
using plain_abtree = abtree<Key, Value>;
template <class Key, class Value>
using plain_avl = avl<Key, Value>;
template <class Key, class Value>
using plain_external_bst = external_bst<Key, Value>;
template <class Key, class Value>
using plain_list = list<Key, Value>;
template <class Key, class Value>
using plain_snapshot_hash = snapshot_hash<Key, Value>;
template <class Key, class Value>
using plain_snapshot_tree = snapshot_tree<Key, Value>;
template <class Key, class Value>
using plain_counted_hash = counted_hash<Key, Value>;
template <class Key, class Value>
using plain_counted_bst = counted_bst<Key, Value>;
template <class Key, class Value>
using plain_counted_tree = counted_tree<Key, Value>;
template <class Key, class Value>
using plain_counted_btree = counted_btree<Key, Value>;
template <class Key, class Value>
using plain_counted_btree_locked = counted_btree_locked<Key, Value>;
template <class Key, class Value>
using plain_rlu_list = rlu_list<Key, Value>;
template <class Key, class Value>
using plain_rlu_bst = rlu_bst<Key, Value>;
template <class Key, class Value>
struct plain_rlu_hash : rlu_hash<Key, Value> {
  plain_rlu_hash() : rlu_hash<Key, Value>(16) {}
};
template <class Key, class Value>
struct plain_michael_hash : michael_hash<Key, Value> {
  plain_michael_hash() : michael_hash<Key, Value>(16) {}
};
template <class Key, class Value>
using plain_split_ordered_hash = split_ordered_hash<Key, Value>;

using every_map =
    testing::Types<plain_map<plain_abtree>, plain_map<plain_avl>, plain_map<plain_external_bst>,
                   plain_map<plain_list>, plain_map<plain_snapshot_hash>,
                   plain_map<plain_snapshot_tree>, plain_map<plain_counted_hash>,
                   plain_map<plain_counted_bst>, plain_map<plain_counted_btree>,
                   plain_map<plain_rlu_list>, plain_map<plain_rlu_bst>, plain_map<plain_rlu_hash>,
                   plain_map<plain_counted_tree>, plain_map<plain_counted_btree_locked>,
                   plain_map<plain_michael_hash>, plain_map<plain_split_ordered_hash>>;

/// Where values are updated. The maps of a kind share the code that does it, and the first few are
/// one of each kind.
using updated_maps =
    types<5, plain_map<plain_abtree>, plain_map<plain_counted_hash>, plain_map<plain_rlu_list>,
          plain_map<plain_list>, plain_map<plain_snapshot_tree>, plain_map<plain_rlu_hash>,
          plain_map<plain_avl>, plain_map<plain_external_bst>, plain_map<plain_snapshot_hash>,
          plain_map<plain_counted_bst>, plain_map<plain_counted_btree>, plain_map<plain_rlu_bst>,
          plain_map<plain_counted_tree>, plain_map<plain_counted_btree_locked>,
          plain_map<plain_michael_hash>, plain_map<plain_split_ordered_hash>>;

template <class Map, class... Maps>
constexpr std::size_t place_among(testing::Types<Maps...>) {
  std::size_t place = 0;
  const bool found = ((std::is_same_v<Map, Maps> || (++place, false)) || ...);
  return found ? place : sizeof...(Maps);
}

/// By the type: a suite may have a part of the maps.
struct every_map_name {
  template <class Map>
  static std::string GetName(int) {
    constexpr const char* names[] = {"abtree",        "avl",
                                     "external_bst",  "list",
                                     "snapshot_hash", "snapshot_tree",
                                     "counted_hash",  "counted_bst",
                                     "counted_btree", "rlu_list",
                                     "rlu_bst",       "rlu_hash",
                                     "counted_tree",  "counted_btree_locked",
                                     "michael_hash",  "split_ordered_hash"};
    return names[place_among<Map>(every_map{})];
  }
};

}  // namespace spolia::test
