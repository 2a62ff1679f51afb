// SPDX-License-Identifier: Apache-2.0
// hash_batches.hpp: how a change of a snapshot_hash that belongs to a batch (map/changes.hpp) is
// put in place.
//
// The bucket gets a version with two contents: what is in it before the batch, and what is in it
// afterwards. Whoever wants to change the bucket decides the batch first.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
class snapshot_hash_core<Key, Value, Collector, Hash, Equal>::batch_change {
 public:
  /// `key` maps to nothing. Throws what hashing or copying a key throws.
  template <class K>
  batch_change(snapshot_hash_core& in, K&& key)
      : core_(in), key_(std::forward<K>(key)), hash_(in.hash_of(key_)) {}
  /// `key` maps to `value`. Throws std::bad_alloc, or what making a value throws, besides.
  template <class K, class V>
  batch_change(snapshot_hash_core& in, bool if_absent, K&& key, V&& value)
      : batch_change(in, std::forward<K>(key)) {
    with_.emplace(pair::make(hash_, key_, std::forward<V>(value)));
    only_if_absent_ = if_absent;
  }

  /// Puts it in place. False: the batch was undone.
  bool stage(batch_state& batch) {
    static_cast<void>(core_.size_.here());
    session s = core_.collector_.enter();
    core_.collector_.prepare(s);
    while (!batch.is_undone()) {
      if (try_stage(s, batch)) return true;
    }
    return false;
  }

  /// The batch has taken effect. By the thread that called stage(). False: nothing is left to tidy.
  bool committed() noexcept {
    size_counter::mine& mine = core_.size_.here();
    if (difference_ < 0) mine.removed.add(1);
    if (difference_ <= 0) return false;
    mine.added.add(1);
    core_.grow_if_full(mine);
    return false;
  }
  static void tidy() noexcept {}
  /// The batch never will: what it has put in place shows what was there before.
  static void given_up() noexcept {}

 private:
  bool try_stage(session& s, batch_state& batch) {
    const place p = core_.place_of(s, hash_);
    const bool again = p.newest->batch == &batch;
    const pairs before = again ? p.newest->before() : core_.current(*p.newest);
    const pairs now = again ? p.newest->after() : before;
    if (!again) {
      if (!p.newest->stands(before, core_.time())) return false;
      if (p.newest->depth < core_.table_.level()) {
        core_.divide(s, p, before);
        return false;
      }
    }
    const pair* old = core_.pair_in(*p.newest, now, hash_, key_);
    const pair* const fresh_pair =
        !with_ || (only_if_absent_ && old != nullptr) ? nullptr : &*with_;
    if (fresh_pair == nullptr && with_) old = nullptr;  // it stays
    const edit after{now, old, fresh_pair, hash_};
    version* const fresh =
        maker::make(core_.nodes(), before.size() + after.size(), p.newest->depth);
    fresh->push(before);
    fresh->join(batch);
    fresh->push_edited(after);
    if (again) p.newest->changes_again();
    if (!core_.append(s, p, fresh)) {
      fresh->destroy_in(core_.nodes());
      return false;
    }
    // relaxed: append() has seen to it.
    batch.placed(fresh->since.load_relaxed());
    difference_ = (fresh_pair != nullptr ? 1 : 0) - (old != nullptr ? 1 : 0);
    return true;
  }

  snapshot_hash_core& core_;
  const Key key_;
  const std::uint64_t hash_;
  std::optional<pair> with_{};
  bool only_if_absent_ = false;
  int difference_ = 0;  // of the number of pairs
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
