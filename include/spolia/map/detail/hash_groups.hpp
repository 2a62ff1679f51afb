// SPDX-License-Identifier: Apache-2.0
// hash_groups.hpp: look-ups of several keys of a snapshot_hash_core at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/key_groups.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::find_each_at(
    std::uint64_t then, std::span<const Key* const> keys, const Value** found) const {
  std::array<std::uint64_t, keys_together> h;
  const std::uint32_t level = table_.level();
  session s = collector_.enter();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    h[i] = hash_of(*keys[i]);
    __builtin_prefetch(&table_[lower_bits(h[i], level)]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto* const v = static_cast<const version*>(table_[lower_bits(h[i], level)].head());
    if (v != nullptr) v->prefetch();
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const pair* const p = find_at(s, then, h[i], *keys[i]);
    found[i] = p == nullptr ? nullptr : &p->value();
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
