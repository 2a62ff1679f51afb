// SPDX-License-Identifier: Apache-2.0
// hash_division.hpp: how a bucket of a snapshot_hash becomes two: see "Growth" in
// snapshot_hash.hpp. Part of snapshot_hash_core.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::begin_sibling(
    version& v, std::uint64_t bucket) const noexcept {
  list& l = table_[sibling_of(v, bucket)];
  // While this is null, the sibling is in no list, and has not been retired.
  if (l.head() != nullptr) return;
  // relaxed: begin() publishes it. Others store the same.
  const std::uint64_t since =
      SPOLIA_FAULT("hash.later_stamp") ? time().stamp() : v.since.load_relaxed();
  v.sibling->since.store_relaxed(since);
  v.sibling->stamp.is(since);
  l.begin(v.sibling);
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::divide(session& s, const place& p,
                                                                    pairs whole) {
  const auto leaves = [bit = p.newest->depth](std::uint64_t h) { return (h >> bit & 1U) != 0; };
  const auto depth = static_cast<std::uint8_t>(p.newest->depth + 1U);
  std::vector<std::uint64_t> hashes;
  hashes.reserve(whole.size());
  for (const pair& one : whole) hashes.push_back(hash_of_pair(one));
  const auto leaving =
      static_cast<std::size_t>(std::count_if(hashes.begin(), hashes.end(), leaves));
  version* const other = maker::make(nodes(), leaving, depth);
  version* rest = nullptr;
  try {
    rest = maker::make(nodes(), whole.size() - leaving, depth);
  } catch (...) {
    other->destroy_in(nodes());
    throw;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    version& v = leaves(hashes[i]) ? *other : *rest;
    v.tags.put(v.count(), hashes[i]);
    v.push(whole[i]);
  }
  rest->sibling = other;
  Collector::place(table_[sibling_of(*rest, p.bucket)], *other);
  if (append(s, p, rest)) return;
  rest->destroy_in(nodes());
  other->destroy_in(nodes());
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
