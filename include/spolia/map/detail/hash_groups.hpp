// SPDX-License-Identifier: Apache-2.0
// hash_groups.hpp: look-ups of several keys or buckets of a snapshot_hash_core at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/key_groups.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// What some keys lead to: the newest versions of the buckets at the table's present level, fetched
/// together.
template <class Key, class Value, version_collector Collector, class Hash, class Equal>
struct snapshot_hash_core<Key, Value, Collector, Hash, Equal>::group {
  SPOLIA_ALWAYS_INLINE group(const snapshot_hash_core& of, session&,
                             std::span<const Key* const> keys)
      : level(of.table_.level()) {
    std::array<list*, keys_together> lists;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      h[i] = of.hash_of(*keys[i]);
      lists[i] = &of.table_[lower_bits(h[i], level)];
      __builtin_prefetch(lists[i]);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      newest[i] = static_cast<version*>(lists[i]->head());
      if (newest[i] != nullptr) newest[i]->prefetch();
    }
  }
  /// With its stamp; null if the bucket has not begun.
  version* settled(const snapshot_hash_core& of, std::size_t i) const noexcept {
    version* const v = newest[i];
    if (v != nullptr) v->stamp.see_to(of.time(), *v);  // as in the table's settled()
    return v;
  }
  [[nodiscard]] std::uint64_t bucket(std::size_t i) const noexcept {
    return lower_bits(h[i], level);
  }

  const std::uint32_t level;
  std::array<std::uint64_t, keys_together> h;
  std::array<version*, keys_together> newest;
};

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::find_each_at(
    std::uint64_t then, std::span<const Key* const> keys, const Value** found) const {
  session s = collector_.enter();
  const group some(*this, s, keys);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const version* const v = version_at(some.settled(*this, i), some.bucket(i), then, some.h[i]);
    const pair* const p = pair_at(v, then, some.h[i], *keys[i]);
    found[i] = p == nullptr ? nullptr : std::addressof(p->value());
  }
}

/// Why these are of one instant: that of the reading of `now`. All are seq_cst: this reading, and
/// behind it the looks at heads; in an update the setting of the head, and behind it the reading of
/// the clock that gives the stamp. A version whose stamp is below what we read was set before our
/// reading, and a newer one that we did not see was set behind our look, so behind our reading. So
/// each was the newest at our reading. With an equal stamp it may have been set behind it, and
/// perhaps another one that we did not see was not: a snapshot has to move the clock first.
template <class Key, class Value, version_collector Collector, class Hash, class Equal>
bool snapshot_hash_core<Key, Value, Collector, Hash, Equal>::find_each_now(
    session& s, std::uint64_t now, std::span<const Key* const> keys, const Value** found) const {
  group some(*this, s, keys);
  if (SPOLIA_FAULT("hash.late_clock")) now = time().now();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    version* v = some.settled(*this, i);
    if (v == nullptr || !covers(*v, some.bucket(i), some.h[i])) v = search(some.h[i]).newest;
    // What belongs to a batch may not count yet, or from another time on.
    if (v->batch != nullptr) return false;
    if (v->stamp.read() >= now && !SPOLIA_FAULT("hash.any_stamp")) return false;
    some.newest[i] = v;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const version& v = *some.newest[i];
    const pair* const p = pair_in(v, current(v), some.h[i], *keys[i]);
    found[i] = p == nullptr ? nullptr : &p->value();
  }
  return true;
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::gather(const lease& then,
                                                                    std::uint64_t from,
                                                                    std::uint64_t to,
                                                                    std::vector<pair>& some) const {
  session s = collector_.enter();
  for (std::uint64_t i = from; i < to; ++i) {
    const version* const v = then.look([&] { return bucket_at(s, then.timestamp(), i); });
    if (v == nullptr) continue;
    for (const pair& p : v->at(then.timestamp(), time())) some.push_back(p);
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
