// SPDX-License-Identifier: Apache-2.0
// snapshot_hash_conditions.hpp: what a batch (map/changes.hpp) expects of a key of a snapshot_hash.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_expectation.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// The bucket of the key is judged, and gets a version with the same pairs that names the batch
/// (batch_mark.hpp); none where the batch changes the bucket, or relies on it already.
template <class Key, class Value, version_collector Collector, class Hash, class Equal>
class snapshot_hash_core<Key, Value, Collector, Hash, Equal>::batch_condition {
 public:
  using expected = expected_pair<pair, Value>;

  /// Throws what copying a key or hashing it throws.
  template <class K>
  batch_condition(snapshot_hash_core& in, K&& key, expected what)
      : core_(in),
        key_(std::forward<K>(key)),
        hash_(in.hash_of(key_)),
        expected_(std::move(what)) {}

  /// The pair of a key at a snapshot's time; stays while the snapshot does.
  static const pair* find_at(const snapshot_hash_core& in, std::uint64_t then, const Key& key) {
    session s = in.collector_.enter();
    return in.find_at(s, then, key);
  }

  staged stage(batch_state& batch) {
    session s = core_.collector_.enter();
    core_.collector_.prepare(s);
    while (!batch.is_undone()) {
      const place p = core_.place_of(s, hash_);
      const version& v = *p.newest;
      const bool changed = v.batch.is_changed_by(batch);
      const pairs now = changed ? v.before() : core_.current(v);
      const bool again = changed || v.batch.is_relied_on_by(batch);
      if (!again && !v.may_be_relied_on(now, core_.time())) continue;
      if (!SPOLIA_FAULT("batch.no_validation") &&
          !expected_.holds(core_.pair_in(v, now, hash_, key_))) {
        return staged::refused;
      }
      if (again || SPOLIA_FAULT("batch.only_looks") || rely(s, p, now, batch)) return staged::yes;
    }
    return staged::undone;
  }

 private:
  /// False: start over.
  bool rely(session& s, const place& p, pairs now, batch_state& batch) {
    version* const fresh = maker::make(core_.nodes(), now.size(), p.newest->depth);
    try {
      fresh->repeat(*p.newest, now, [this](const pair& one) { return core_.hash_of_pair(one); });
      fresh->rely(batch, *p.newest, core_.time());
    } catch (...) {
      fresh->destroy_in(core_.nodes());
      throw;
    }
    if (!core_.append(s, p, fresh)) {
      fresh->destroy_in(core_.nodes());
      return false;
    }
    // relaxed: append() has seen to it.
    batch.placed(fresh->since.load_relaxed());
    return true;
  }

  snapshot_hash_core& core_;
  const Key key_;
  const std::uint64_t hash_;
  const expected expected_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
