// SPDX-License-Identifier: Apache-2.0
// hash_account.hpp: how a snapshot_hash says which versions there are, and who holds them.
#pragma once

#include <algorithm>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>
#include <spolia/version/holdings.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
holdings snapshot_hash_core<Key, Value, Collector, Hash, Equal>::account() {
  holdings all;
  const std::uint64_t held = collector_.stats().held();
  holdings_sum sum(time().living());
  if constexpr (Collector::info.reaches_idle_lists) {
    collector_.audit([&](const auto& v) {
      // relaxed: it has ended, so its stamp was set before.
      sum.add(v.since.load_relaxed(), v.until.read(), v.bytes());
    });
    add_current(all, [](const version&) {});
  } else {
    add_current(all, [&](const version& newest) { add_older(sum, newest); });
  }
  sum.finish(all);
  all.obsolete = held > all.needed ? held - all.needed : 0;
  const auto waiting = nodes().sums();
  all.waiting = waiting.garbage();
  all.waiting_bytes = waiting.garbage_bytes();
  return all;
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
template <class F>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::add_current(holdings& all,
                                                                         F&& f) const {
  for (std::uint64_t i = 0; i < table_.size();) {
    session s = collector_.enter();
    for (const std::uint64_t end = (std::min)(i + 32, table_.size()); i < end; ++i) {
      const version* const v = head_of(i);
      if (v == nullptr) continue;
      ++all.current;
      all.current_bytes += v->bytes();
      f(*v);
    }
  }
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::add_older(
    holdings_sum& sum, const version& newest) noexcept {
  // relaxed, all but the pointers: stamps are set before a version is passed.
  std::uint64_t until = newest.since.load_relaxed();
  // acquire, both ← where lists are made and cut: the version named is constructed.
  for (const auto* v = newest.left.load_acquire(); v != nullptr; v = v->left.load_acquire()) {
    const std::uint64_t since = v->since.load_relaxed();
    sum.add(since, until, v->bytes());
    until = since;
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
