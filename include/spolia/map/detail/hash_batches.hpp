// SPDX-License-Identifier: Apache-2.0
// hash_batches.hpp: how a change of a snapshot_hash that belongs to a batch is put in place.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
auto snapshot_hash_core<Key, Value, Collector, Hash, Equal>::stage(batch_state& batch,
                                                                   std::uint64_t h, const Key& key,
                                                                   const pair* with,
                                                                   bool only_if_absent) -> staged {
  static_cast<void>(size_.here());
  session s = collector_.enter();
  collector_.prepare(s);
  for (;;) {
    if (batch.is_undone()) return {false, 0};
    const place p = place_of(s, h);
    const bool again = p.newest->batch == &batch;
    const pairs before = again ? p.newest->before() : current(*p.newest);
    const pairs now = again ? p.newest->after() : before;
    if (!again) {
      if (!stands(*p.newest, before)) continue;
      if (p.newest->depth < table_.level()) {
        divide(s, p, before);
        continue;
      }
    }
    const pair* old = pair_in(now, h, key);
    const pair* const fresh_pair = only_if_absent && old != nullptr ? nullptr : with;
    if (fresh_pair == nullptr && with != nullptr) old = nullptr;  // it stays
    version* const fresh =
        maker::make(nodes(), p.newest->depth, before.size() + size_of(now, old, fresh_pair));
    push_changed(*fresh, before, nullptr, nullptr);
    fresh->join(batch);
    push_changed(*fresh, now, old, fresh_pair);
    if (append(s, p, fresh)) {
      return {true, (fresh_pair != nullptr ? 1 : 0) - (old != nullptr ? 1 : 0)};
    }
    fresh->destroy_in(nodes());
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
