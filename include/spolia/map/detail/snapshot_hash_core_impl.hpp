// SPDX-License-Identifier: Apache-2.0
// snapshot_hash_core_impl.hpp: what a snapshot_hash does seldom: divisions, look-ups of several
// keys, batches, and the account of versions. Part of snapshot_hash_core.hpp, which includes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/batch_state.hpp>
#include <spolia/map/detail/key_groups.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/lease.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

// How a bucket becomes two: see "Growth" in snapshot_hash.hpp.

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
  const std::uint64_t other_bucket = sibling_of(*rest, p.bucket);
  Collector::place(table_[other_bucket], *other);
  if (leaving != 0) table_.group_of(other_bucket).enter();
  if (append(s, p, rest)) return forget(s, other_bucket, *other);
  if (leaving != 0) table_.group_of(other_bucket).take_back();
  rest->destroy_in(nodes());
  other->destroy_in(nodes());
}

// How an empty bucket lets go of its version: see "Shrinking" in snapshot_hash.hpp.

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::forget(session& s,
                                                                    std::uint64_t bucket,
                                                                    version& v) noexcept {
  if constexpr (forgetting_collector<Collector>) {
    if (v.count() != 0 || !v.batch.is_none()) return;
    version* const instead = empties_.template of<maker>(nodes(), v.depth);
    if (instead == nullptr || instead == &v) return;
    finish_division(v, bucket);
    // relaxed: the caller has seen it set.
    empties_.note(v.since.load_relaxed());
    collector_.forget(s, table_[bucket], &v, instead);
  }
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::forget_empty(
    session& s, std::uint64_t from, std::uint64_t to) noexcept {
  for (std::uint64_t i = from; i < to; ++i) {
    if (version* const v = settled(table_[i])) forget(s, i, *v);
  }
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::forget_some(session& s) noexcept {
  const std::uint64_t n = table_.size();
  const std::uint64_t i = next_to_forget_.fetch_add_relaxed(forgotten_together) & (n - 1);
  forget_empty(s, i, (std::min)(i + forgotten_together, n));
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::shrink() {
  for (std::uint64_t i = 0; i < table_.size(); i += forgotten_together) {
    session s = collector_.enter();
    prepare(s);
    forget_empty(s, i, (std::min)(i + forgotten_together, table_.size()));
  }
}

// Several keys, or buckets, at once.

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
/// after it the looks at heads; in an update the setting of the head, and after it the reading of
/// the clock that gives the stamp. A version whose stamp is below what we read was set before our
/// reading, and a newer one that we did not see was set after our look, so after our reading. So
/// each was the newest at our reading. With an equal stamp it may have been set after it, and
/// perhaps another one that we did not see was not: a snapshot has to move the clock first.
template <class Key, class Value, version_collector Collector, class Hash, class Equal>
bool snapshot_hash_core<Key, Value, Collector, Hash, Equal>::find_each_now(
    session& s, std::uint64_t now, std::span<const Key* const> keys, const Value** found) const {
  group some(*this, s, keys);
  if (SPOLIA_FAULT("hash.late_clock")) now = time().now();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    version* v = some.settled(*this, i);
    if (v == nullptr || !covers(*v, some.bucket(i), some.h[i])) v = search(some.h[i]).newest;
    // What a batch changes may not count yet, or from another time on.
    if (v->batch.has_two()) return false;
    const std::uint64_t set = empties_.has(*v) ? empties_.latest() : v->stamp.read();
    if (set >= now && !SPOLIA_FAULT("hash.any_stamp")) return false;
    some.newest[i] = v;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const version& v = *some.newest[i];
    const pair* const p = pair_in(v, current(v), some.h[i], *keys[i]);
    found[i] = p == nullptr ? nullptr : std::addressof(p->value());
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

/// A change that belongs to a batch (map/changes.hpp), put in place.
///
/// The bucket gets a version with two contents: what is in it before the batch, and what is in it
/// afterwards. A thread that wants to change the bucket decides the batch first.
template <class Key, class Value, version_collector Collector, class Hash, class Equal>
class snapshot_hash_core<Key, Value, Collector, Hash, Equal>::batch_change {
 public:
  /// `key` maps to nothing. Throws what hashing or copying a key throws.
  template <class K>
  batch_change(snapshot_hash_core& in, K&& key)
      : core_(in), key_(std::forward<K>(key)), hash_(in.hash_of(key_)) {}
  /// `key` maps to `value`. Also throws std::bad_alloc, or what making a value throws.
  template <class K, class V>
  batch_change(snapshot_hash_core& in, bool if_absent, K&& key, V&& value)
      : batch_change(in, std::forward<K>(key)) {
    with_.emplace(pair::make(hash_, key_, std::forward<V>(value)));
    only_if_absent_ = if_absent;
  }

  [[nodiscard]] bool is_of(const Key& key) const { return core_.equal_(key_, key); }
  [[nodiscard]] bool is_only_if_absent() const noexcept { return only_if_absent_; }
  /// What the key maps to afterwards; null: nothing.
  [[nodiscard]] const Value* value() const noexcept {
    return with_ ? std::addressof(with_->value()) : nullptr;
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
    const bool again = p.newest->batch.is_changed_by(batch);
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

// Which versions there are, and which snapshots hold them.

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
holdings snapshot_hash_core<Key, Value, Collector, Hash, Equal>::account() {
  holdings all;
  const std::uint64_t held = collector_.stats().held();
  detail::version::holdings_sum sum(time().living());
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
      if (v == nullptr || empties_.has(*v)) continue;
      ++all.current;
      all.current_bytes += v->bytes();
      f(*v);
    }
  }
}

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
void snapshot_hash_core<Key, Value, Collector, Hash, Equal>::add_older(
    detail::version::holdings_sum& sum, const version& newest) noexcept {
  // relaxed, all but the pointers: stamps are set before a version is passed.
  std::uint64_t until = newest.since.load_relaxed();
  // acquire, both ← where lists are made and cut: the version named is constructed.
  for (const auto* v = newest.left.load_acquire(); v != nullptr; v = v->left.load_acquire()) {
    const std::uint64_t since = v->since.load_relaxed();
    sum.add(since, until, v->bytes());
    until = since;
  }
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
