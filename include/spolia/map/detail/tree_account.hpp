// SPDX-License-Identifier: Apache-2.0
// tree_account.hpp: how a snapshot_tree says which versions there are, and who holds them.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/chromatic_tree.hpp>
#include <spolia/version/holdings.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
holdings chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::account() {
  holdings all;
  renew_shortcuts();
  const std::uint64_t held = collector_.stats().held();
  holdings_sum sum(collector_.time().living());
  collector_.audit([&](const auto& v) {
    // relaxed: it has ended, so its stamp was set before.
    sum.add(v.since.load_relaxed(), v.until.read(), v.bytes());
  });
  const snapshot now(collector_.time(), "account");
  weigh(entry_, 0, now.timestamp(), all, sum);
  sum.finish(all);
  all.obsolete = held > all.needed ? held - all.needed : 0;
  const auto waiting = collector_.nodes().sums();
  all.waiting = waiting.garbage();
  all.waiting_bytes = waiting.garbage_bytes();
  return all;
}

template <class Key, class Value, version_collector Collector, class Compare, std::size_t Capacity,
          std::size_t Shortcuts>
void chromatic_tree<Key, Value, Collector, Compare, Capacity, Shortcuts>::weigh(
    const internal& i, unsigned side, std::uint64_t then, holdings& all, holdings_sum& sum) const {
  node* n = nullptr;
  {
    const session here = collector_.enter();
    const auto& links = i.child(side);
    const auto* newer = links.newest(collector_.time());
    n = links.at(collector_.time(), then)->to;
    all.current_bytes += newer->bytes();
    if constexpr (!Collector::info.reaches_idle_lists) {
      links.each([&](const auto& v) {
        // relaxed: all but the head have ended, and the head was settled, or is not counted.
        if (&v != newer && v.since.load_relaxed() < newer->since.load_relaxed()) {
          sum.add(v.since.load_relaxed(), newer->since.load_relaxed(), v.bytes());
          newer = static_cast<const typename internal::version*>(&v);
        }
      });
    }
  }
  all.current += 2;
  all.current_bytes += n->bytes();
  if (n->is_leaf()) return;
  for (unsigned s = 0; s < 2; ++s) {
    weigh(*nodes::as_internal(n), s, then, all, sum);
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
