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
  std::array<list*, keys_together> lists;
  std::array<version*, keys_together> newest;
  const std::uint32_t level = table_.level();
  session s = collector_.enter();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    h[i] = hash_of(*keys[i]);
    lists[i] = &table_[lower_bits(h[i], level)];
    __builtin_prefetch(lists[i]);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    newest[i] = static_cast<version*>(lists[i]->head());
    if (newest[i] != nullptr) newest[i]->prefetch();
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    version* const v = newest[i];
    if (v != nullptr) v->stamp.see_to(time(), *v);  // as in settled()
    const pair* const p =
        pair_at(version_at(v, lower_bits(h[i], level), then, h[i]), then, h[i], *keys[i]);
    found[i] = p == nullptr ? nullptr : &p->value();
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
