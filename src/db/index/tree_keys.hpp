// SPDX-License-Identifier: Apache-2.0
// tree_keys.hpp: keys of ordered indexes, and the trees over them. Internal.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <spolia/db/schema.hpp>
#include <spolia/map/abtree.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

template <std::uint32_t Words>
struct tree_key {
  std::array<std::uint64_t, Words> words;

  friend bool operator<(const tree_key& a, const tree_key& b) noexcept {
    std::uint32_t i = 0;
    while (i + 1 < Words && a.words[i] == b.words[i]) ++i;
    return a.words[i] < b.words[i];
  }
  friend bool operator==(const tree_key& a, const tree_key& b) noexcept = default;
};

}  // namespace db

namespace detail::map {

// In the leaves, although they are long: to copy a few of them costs less than to allocate a place
// for each, and a search does not go from place to place to compare them.
template <std::uint32_t Words>
inline constexpr bool lies_in_nodes<db::tree_key<Words>> = true;

}  // namespace detail::map

namespace db {

/// Nodes of long keys or values have fewer of them, so that allocators have a quick way for their
/// size.
template <std::uint32_t Words, class What, class Domain = domain<>>
using tree_of = abtree<tree_key<Words>, What, Domain, std::less<tree_key<Words>>,
                       (Words > 6 || sizeof(What) > 8 ? 11 : abtree_degree)>;

template <std::uint32_t Words>
tree_key<Words> cut(const key_words& key) noexcept {
  tree_key<Words> k{};
  std::copy_n(key.begin(), std::min<std::size_t>(Words, key.size()), k.words.begin());
  return k;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
