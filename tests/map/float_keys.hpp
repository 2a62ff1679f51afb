// SPDX-License-Identifier: Apache-2.0
/// \file
/// Maps with floating-point keys, for programs compiled with different flags: see
/// float_keys_test.cpp and fast_math_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include <spolia/map.hpp>

#include "support/few_types.hpp"

namespace spolia::test {

/// Each map with this key, made by make(). The other arguments are as users leave them.
template <class Key>
struct float_maps {
  template <class Map>
  struct plain {
    using map = Map;
    static auto make() { return std::make_unique<Map>(); }
  };
  struct with_buckets {
    using map = rlu_hash<Key, int>;
    static auto make() { return std::make_unique<map>(64); }
  };
  /// Of each way to keep keys. What other maps do with keys of other widths is the same.
  using some = few_or_all<1, plain<abtree<Key, int>>, plain<snapshot_tree<Key, int>>,
                          plain<counted_hash<Key, int>>, plain<rlu_bst<Key, int>>>;
  using all = types<4, plain<abtree<Key, int>>, plain<snapshot_tree<Key, int>>,
                    plain<counted_hash<Key, int>>, plain<rlu_bst<Key, int>>, plain<avl<Key, int>>,
                    plain<external_bst<Key, int>>, plain<list<Key, int>>,
                    plain<snapshot_hash<Key, int>>, plain<counted_bst<Key, int>>,
                    plain<counted_btree<Key, int>>, plain<rlu_list<Key, int>>, with_buckets>;
};

template <class Map>
inline constexpr bool is_ordered = requires(const Map& m, typename Map::key_type k) {
  m.range(k, k, [](const auto&, const auto&) {});
};

/// Finite keys: below 0 and above, and among them some that a processor may take for 0.
template <class Key>
std::vector<Key> finite_keys() {
  std::vector<Key> keys;
  for (int i = -500; i < 500; ++i) keys.push_back(static_cast<Key>(i) / 2);
  for (int i = 1; i <= 20; ++i) {
    keys.push_back(std::numeric_limits<Key>::denorm_min() * static_cast<Key>(i));
    keys.push_back(-keys.back());
  }
  keys.push_back(std::numeric_limits<Key>::max());
  keys.push_back(std::numeric_limits<Key>::lowest());
  return keys;
}

/// Small numbers by their bits: with some flags arithmetic makes 0 of them.
template <class Key, class Word>
std::vector<Key> small_keys() {
  std::vector<Key> keys;
  for (Word i = 1; i <= 20; ++i) {
    keys.push_back(std::bit_cast<Key>(i));
    keys.push_back(std::bit_cast<Key>(static_cast<Word>(i | Word{1} << (sizeof(Word) * 8 - 1))));
  }
  return keys;
}

/// All are put in, found, shown in their order, and taken out.
template <class Made, class Key>
void expect_all_kept(const std::vector<Key>& keys) {
  const auto m = Made::make();
  int n = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_TRUE(m->insert(keys[i * 7 % keys.size()], static_cast<int>(i * 7 % keys.size()))) << i;
  }
  for (const Key& key : keys) {
    EXPECT_FALSE(m->insert(key, -1)) << n;
    EXPECT_EQ(m->find(key), n) << n;
    ++n;
  }
  EXPECT_EQ(m->size_approx(), keys.size());
  if constexpr (is_ordered<typename Made::map>) {
    std::size_t shown = 0;
    m->for_each([&](const Key&, int) { ++shown; });
    EXPECT_EQ(shown, keys.size());
  }
  for (const Key& key : keys) EXPECT_TRUE(m->erase(key));
  EXPECT_TRUE(m->empty_approx());
}

}  // namespace spolia::test
