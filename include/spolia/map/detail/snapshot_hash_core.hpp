// SPDX-License-Identifier: Apache-2.0
// snapshot_hash_core.hpp: the algorithm of snapshot_hash.hpp, whose head explains it: how a key's
// bucket is found, and how it is changed. Division, look-ups of several keys, batches and the
// account of versions are in snapshot_hash_core_impl.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/life.hpp>
#include <spolia/map/detail/bucket.hpp>
#include <spolia/map/detail/bucket_table.hpp>
#include <spolia/map/detail/empty_versions.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/hash_spread.hpp>
#include <spolia/map/detail/hash_tags.hpp>
#include <spolia/map/detail/kept_pair.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/lease.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

struct hash_table_options {
  std::uint32_t base = 4;  // the first level
  std::uint32_t load = 2;  // pairs a bucket, on average, when the table doubles
  std::uint64_t seed = 0;
};

template <class Key, class Value, version_collector Collector, class Hash, class Equal>
class snapshot_hash_core {
 public:
  using pair = kept_pair<Key, Value>;
  using version = bucket<pair, Collector>;
  using session = typename Collector::session;
  using list = typename Collector::list;
  using pairs = typename version::pairs;
  using seen = seen_pair<pair, Value>;

  /// Throws std::bad_alloc.
  snapshot_hash_core(Collector& c, const hash_table_options& o, Hash hash, Equal equal)
      : collector_(c),
        table_(o.base),
        load_(o.load),
        spread_(o.seed),
        hash_(std::move(hash)),
        equal_(std::move(equal)) {
    try {
      for (std::uint64_t i = 0; i < table_.size(); ++i) begin_list(i);
    } catch (...) {
      clear();
      throw;
    }
  }
  ~snapshot_hash_core() { clear(); }
  snapshot_hash_core(const snapshot_hash_core&) = delete;
  snapshot_hash_core& operator=(const snapshot_hash_core&) = delete;

  /// True if the key was absent.
  template <bool Assign, class K, class V>
  bool put(K&& key, V&& value) {
    size_counter::mine* mine = nullptr;
    put_now<Assign>(mine, std::forward<K>(key), std::forward<V>(value));
    if (mine == nullptr) return false;
    mine->added.add(1);
    grow_if_full(*mine);
    return true;
  }
  /// True if the key still had the value that was seen, and has this one now.
  template <bool Assign, class K, class V>
  bool put(const K& key, V&& value, const seen& was) {
    size_counter::mine* mine = nullptr;
    return put_now<true>(mine, key, std::forward<V>(value), was);
  }
  /// True if it was there; with the value that was seen, if one is given.
  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    size_counter::mine* const mine = erase_now(key, was...);
    if (mine == nullptr) return false;
    mine->removed.add(1);
    return true;
  }

  /// The pair as it is now; stays while the session lives. Null if there is none.
  template <class K>
  const pair* find(session& s, const K& key) const {
    const std::uint64_t h = hash_of(key);
    const version& v = *place_of(s, h).newest;
    return pair_in(v, current(v), h, key);
  }
  /// Remembers the value as it is now. False: there is none.
  template <class K>
  bool look(const K& key, seen& to) const {
    session s = collector_.enter();
    const pair* const p = find(s, key);
    if (p != nullptr) to.look(*p);
    return p != nullptr;
  }
  /// The pair at a snapshot's time; stays while the snapshot lives.
  template <class K>
  const pair* find_at(session& s, std::uint64_t then, const K& key) const {
    const std::uint64_t h = hash_of(key);
    return pair_at(version_at(s, then, h), then, h, key);
  }
  /// Their values for some keys, of which there are not more than keys_together.
  void find_each_at(std::uint64_t then, std::span<const Key* const> keys,
                    const Value** found) const;
  /// The same as of when the timeline's clock, not one that advances alone, was read: `now`. They
  /// stay while the session lives. False if that cannot be told without a snapshot.
  bool find_each_now(session&, std::uint64_t now, std::span<const Key* const> keys,
                     const Value** found) const;

  /// The version of bucket i then; null if there is none, and its pairs are in others.
  const version* bucket_at(session&, std::uint64_t then, std::uint64_t i) const noexcept {
    version* const head = head_of(i);
    return head == nullptr ? nullptr : at(head, then);
  }
  /// Its pairs, which stay while the snapshot lives.
  pairs pairs_at(session& s, std::uint64_t then, std::uint64_t i) const noexcept {
    const version* const v = bucket_at(s, then, i);
    return v == nullptr ? pairs() : v->at(then, time());
  }
  /// Where the buckets end of which i is one that are told from others by is_group_empty().
  [[nodiscard]] std::uint64_t group_end(std::uint64_t i) const noexcept {
    return table_.group_end(i);
  }
  /// Whether none of these had a pair then.
  [[nodiscard]] bool is_group_empty(std::uint64_t then, std::uint64_t i) const noexcept {
    return table_.group_of(i).is_empty_at(then);
  }
  /// Adds copies of the pairs of some buckets at a lease.
  void gather(const lease& then, std::uint64_t from, std::uint64_t to,
              std::vector<pair>& some) const;
  /// Only buckets below this have versions then.
  [[nodiscard]] std::uint64_t buckets_at(std::uint64_t then) const noexcept {
    return std::uint64_t{1} << top_level(then);
  }

  /// Ends everything, and closes the collector: no thread uses the table any more. Threads lost in
  /// a fork may have left divisions half done.
  void clear() noexcept {
    for (std::uint64_t i = 0; i < table_.size(); ++i) {
      if (version* const v = settled(table_[i])) finish_division(*v, i);
    }
    collector_.close();
    for (std::uint64_t i = 0; i < table_.size(); ++i) {
      auto* const v = static_cast<version*>(table_[i].head());
      if (v != nullptr && empties_.has(*v)) table_[i].release();
      collector_.clear(table_[i]);
    }
    empties_.end(nodes());
  }

  /// Which snapshots hold how much; see holdings.hpp. Throws std::bad_alloc.
  [[nodiscard]] holdings account();

  template <class K>
  std::uint64_t hash_of(const K& key) const {
    return spread_.mixed(static_cast<std::uint64_t>(hash_(key)));
  }

  class batch_change;     // a change that belongs to a batch
  class batch_condition;  // what a batch expects of a key: snapshot_hash_conditions.hpp

  /// Opens levels for so many pairs. Throws std::bad_alloc; some may be open then.
  void reserve(std::uint64_t n) {
    for (std::uint32_t l = table_.level(); std::uint64_t{load_} << l < n; l = table_.level()) {
      table_.open_after(l, time().now());
    }
  }

  /// Gives up the versions of all buckets that are empty, as far as no snapshot sees older ones.
  /// Throws std::bad_alloc; then the rest stays.
  void shrink();

  [[nodiscard]] std::size_t size_approx() const noexcept { return size_.approx(); }
  [[nodiscard]] std::uint64_t buckets() const noexcept { return table_.size(); }
  [[nodiscard]] Collector& collector() const noexcept { return collector_; }
  [[nodiscard]] const life& alive() const noexcept { return alive_; }

 private:
  using maker = bucket_maker<pair, Collector>;
  using edit = typename version::edit;
  using clock_type = typename Collector::timeline_type::clock_type;

  struct group;  // what several keys lead to
  /// Where a key's pair is, or would be.
  struct place {
    std::uint64_t bucket;
    version* newest;
  };

  [[nodiscard]] auto& nodes() const noexcept { return collector_.nodes(); }
  [[nodiscard]] auto& time() const noexcept { return collector_.time(); }

  static constexpr std::uint64_t lower_bits(std::uint64_t h, std::uint32_t bits) noexcept {
    return h & ((std::uint64_t{1} << bits) - 1);
  }
  /// Whether a version of this bucket has the pairs with hash h.
  static bool covers(const version& v, std::uint64_t bucket, std::uint64_t h) noexcept {
    return lower_bits(h, v.depth) == bucket;
  }
  static std::uint64_t sibling_of(const version& v, std::uint64_t bucket) noexcept {
    return bucket + (std::uint64_t{1} << (v.depth - 1));
  }

  pairs current(const version& v) const noexcept { return v.current(time()); }
  template <class K>
  const pair* pair_at(const version* v, std::uint64_t t, std::uint64_t h, const K& key) const {
    return v == nullptr ? nullptr : pair_in(*v, v->at(t, time()), h, key);
  }

  /// `some`: of the contents of v that which counts.
  template <class K>
  const pair* pair_in(const version& v, pairs some, std::uint64_t h, const K& key) const {
    if (v.batch.has_two()) [[unlikely]]
      return pair_among(some, h, key);
    for (auto like = v.like(h); !like.empty(); like.drop_first()) {
      const pair& p = some[like.first()];
      if (p.has_hash(h) && equal_(p.key(), key)) return &p;
    }
    if (some.size() <= hash_tags::most) [[likely]]
      return nullptr;
    return pair_among(some.subspan(hash_tags::most), h, key);
  }
  template <class K>
  SPOLIA_NOINLINE const pair* pair_among(pairs some, std::uint64_t h, const K& key) const {
    for (const pair& p : some) {
      if (p.has_hash(h) && equal_(p.key(), key)) return &p;
    }
    return nullptr;
  }

  static version* at(version* head, std::uint64_t t) noexcept {
    if (head->stamp.read() <= t) [[likely]]
      return head;
    return static_cast<version*>(list::find(head, t));
  }
  /// Hardware clocks may differ: then the table does not know when it grew.
  [[nodiscard]] std::uint32_t top_level(std::uint64_t t) const noexcept {
    return clock_type::advances_alone ? table_.level() : table_.level_at(t);
  }

  version* settled(list& l) const noexcept {
    auto* const v = static_cast<version*>(l.head());
    if (v == nullptr) return nullptr;
    // Before any thread relies on it, as in versioned.hpp.
    if (!v->stamp.is_told()) [[unlikely]]
      tell(*v);
    return v;
  }
  SPOLIA_NOINLINE void tell(version& v) const noexcept { v.stamp.see_to(time(), v); }

  /// The newest version of bucket i, with its stamp; null if the bucket has not begun. Then all
  /// its versions to come will have a stamp above every snapshot that there is.
  version* head_of(std::uint64_t i) const noexcept {
    list& l = table_[i];
    const std::uint32_t level = table_.level_of(i);
    if (version* const v = settled(l); v != nullptr || level == table_.base()) return v;
    const std::uint64_t parent = lower_bits(i, level - 1);
    version* const from = settled(table_[parent]);
    if (from != nullptr && from->sibling != nullptr && sibling_of(*from, parent) == i) {
      finish_division(*from, parent);
    }
    // If `from` is a version that came later than the division, then the bucket has begun between
    // our two looks, and its release is seen with `from`'s.
    return SPOLIA_FAULT("hash.one_look") ? nullptr : settled(l);
  }

  const version* version_at(session&, std::uint64_t t, std::uint64_t h) const noexcept {
    const std::uint64_t i = lower_bits(h, table_.level());
    return version_at(settled(table_[i]), i, t, h);
  }
  /// `v`: the newest of bucket i with its stamp, or null. Nearly always it is the one.
  const version* version_at(const version* v, std::uint64_t i, std::uint64_t t,
                            std::uint64_t h) const noexcept {
    if (v != nullptr && v->stamp.read() <= t && covers(*v, i, h)) [[likely]]
      return v;
    return search_at(t, h);
  }
  SPOLIA_NOINLINE version* search_at(std::uint64_t t, std::uint64_t h) const noexcept {
    for (std::uint32_t l = top_level(t);; --l) {
      const std::uint64_t i = lower_bits(h, l);
      l = table_.level_of(i);  // below, the bucket is the same
      version* const head = head_of(i);
      version* const found = head == nullptr ? nullptr : at(head, t);
      if (found != nullptr || l == table_.base()) return found;
    }
  }

  place place_of(session&, std::uint64_t h) const noexcept {
    const std::uint64_t i = lower_bits(h, table_.level());
    version* const v = settled(table_[i]);
    if (v != nullptr && covers(*v, i, h)) [[likely]] {
      v->prefetch_pairs();
      return {i, v};
    }
    return search(h);
  }
  SPOLIA_NOINLINE place search(std::uint64_t h) const noexcept {
    for (std::uint32_t l = table_.level();; --l) {
      const std::uint64_t i = lower_bits(h, l);
      l = table_.level_of(i);
      version* const head = head_of(i);
      if (head == nullptr) continue;
      if (covers(*head, i, h) || SPOLIA_FAULT("hash.wrong_half")) return {i, head};
      l = table_.level() + 1;  // it was divided meanwhile
    }
  }

  /// Counts the newest versions, and calls f(version) for each, in short sessions.
  template <class F>
  void add_current(holdings& all, F&& f) const;
  /// For collectors that track nothing: what is linked, under the caller's session.
  static void add_older(detail::version::holdings_sum& sum, const version& newest) noexcept;

  void begin_list(std::uint64_t i) {
    version* const v = maker::make(nodes(), 0, static_cast<std::uint8_t>(table_.base()));
    Collector::place(table_[i], *v);
    const std::uint64_t now = time().stamp();
    v->since.store_relaxed(now);
    v->stamp.is(now);
    table_[i].begin(v);
  }

  /// Makes `fresh` the newest version of the bucket, if p.newest still is.
  bool append(session& s, const place& p, version* fresh) noexcept {
    if (p.newest->count() == 0 || fresh->count() == 0) [[unlikely]]
      return append_counted(s, p, fresh);
    return append_now(s, p, fresh);
  }
  /// The bucket is empty, or will be.
  SPOLIA_NOINLINE bool append_counted(session& s, const place& p, version* fresh) noexcept {
    const bool was_empty = p.newest->count() == 0;
    const bool is_empty = fresh->count() == 0;
    const bool comes = was_empty && !is_empty;
    bucket_group& neighbours = table_.group_of(p.bucket);
    if (comes && !SPOLIA_FAULT("hash.counted_late")) neighbours.enter();
    if (!append_now(s, p, fresh)) {
      if (comes) neighbours.take_back();
      return false;
    }
    if (comes && SPOLIA_FAULT("hash.counted_late")) neighbours.enter();
    if (!is_empty) return true;
    std::uint32_t left = 1;
    // relaxed: it has its stamp.
    const std::uint64_t since = fresh->since.load_relaxed();
    if (!was_empty) left = neighbours.leave(SPOLIA_FAULT("hash.empty_ever") ? 0 : since);
    forget(s, p.bucket, *fresh);
    if (left % forget_every == 0) forget_some(s);
    return true;
  }
  bool append_now(session& s, const place& p, version* fresh) noexcept {
    list& l = table_[p.bucket];
    Collector::place(l, *fresh);
    list::aim(p.newest, fresh);
    if (!SPOLIA_FAULT("hash.covers_division")) finish_division(*p.newest, p.bucket);
    if (!l.try_append(p.newest, fresh)) return false;
    fresh->stamp.see_to(time(), *fresh);
    finish_division(*fresh, p.bucket);
    // One that buckets share does not end.
    if (p.newest->count() != 0 || !empties_.has(*p.newest)) [[likely]]
      collector_.ended(s, l, p.newest, fresh);
    return true;
  }

  /// Puts the version that empty buckets share in the place of `v`, if it is the bucket's newest,
  /// empty, and no snapshot sees an older one. In a prepared session.
  void forget(session& s, std::uint64_t bucket, version& v) noexcept;
  /// Does so for some buckets, that others have not seen to a moment ago.
  void forget_some(session& s) noexcept;
  void forget_empty(session& s, std::uint64_t from, std::uint64_t to) noexcept;

  /// Begins the other bucket, if v came about by a division and no thread has.
  void finish_division(version& v, std::uint64_t bucket) const noexcept {
    if (v.sibling != nullptr) begin_sibling(v, bucket);
  }
  SPOLIA_NOINLINE void begin_sibling(version& v, std::uint64_t bucket) const noexcept;

  /// What follows `from`.
  version* changed(const version& from, const edit& e) {
    version* const v = maker::make(nodes(), e.size(), from.depth);
    try {
      v->follow(from, e, [this](const pair& p) { return hash_of_pair(p); });
    } catch (...) {
      v->destroy_in(nodes());
      throw;
    }
    return v;
  }
  std::uint64_t hash_of_pair(const pair& p) const {
    return p.hash_by([this](const Key& key) { return hash_of(key); });
  }

  /// True if the change took effect; p may be out of date, or the bucket is to be divided first.
  /// Inlined: what is to be changed by way of memory costs a fiftieth of an update.
  SPOLIA_ALWAYS_INLINE bool change(session& s, const place& p, const edit& e) {
    if (!p.newest->stands(e.seen, time())) return false;
    if (p.newest->depth < table_.level()) {
      divide(s, p, e.seen);
      return false;
    }
    p.newest->prefetch_to_replace(&table_[p.bucket]);
    version* const fresh = changed(*p.newest, e);
    if (append(s, p, fresh)) return true;
    fresh->destroy_in(nodes());
    return false;
  }

  /// Divides a bucket in two, unless another thread changes it meanwhile.
  SPOLIA_NOINLINE void divide(session& s, const place& p, pairs whole);

  /// What a change needs on top of its version, taken before anything takes effect: a call that
  /// finds nothing to change pays for a look-up only. Throws std::bad_alloc.
  size_counter::mine& prepare(session& s) {
    size_counter::mine& mine = size_.here();
    collector_.prepare(s);
    return mine;
  }

  /// Whether something has changed. `added`: where to count the key if it was not there before.
  template <bool Assign, class K, class V, class... Seen>
  bool put_now(size_counter::mine*& added, K&& key, V&& value, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    const std::uint64_t h = hash_of(key);
    std::optional<pair> fresh;
    session s = collector_.enter();
    for (;;) {
      const place p = place_of(s, h);
      p.newest->prefetch_more_pairs();
      const pairs now = current(*p.newest);
      const pair* const old = [&] {
        if constexpr (!only_for_seen) {
          if (fresh) return pair_in(*p.newest, now, h, fresh->key());  // the one given was moved
        }
        return pair_in(*p.newest, now, h, key);
      }();
      if (old != nullptr ? !Assign || !(was.is(*old) && ...) : only_for_seen) return false;
      size_counter::mine& mine = prepare(s);
      if (!fresh) {
        with_key_there<only_for_seen>(
            old != nullptr ? std::addressof(old->key()) : nullptr, std::forward<K>(key),
            [&](auto&& k) __attribute__((always_inline)) {
              fresh.emplace(pair::make(h, std::forward<decltype(k)>(k), std::forward<V>(value)));
            });
      }
      if (!change(s, p, {now, old, &*fresh, h})) continue;
      if (old == nullptr) added = &mine;
      return true;
    }
  }

  /// Where to count that; null: it was not there.
  template <class K, class... Seen>
  size_counter::mine* erase_now(const K& key, const Seen&... was) {
    const std::uint64_t h = hash_of(key);
    session s = collector_.enter();
    for (;;) {
      const place p = place_of(s, h);
      p.newest->prefetch_more_pairs();
      const pairs now = current(*p.newest);
      const pair* const old = pair_in(*p.newest, now, h, key);
      if (old == nullptr || !(was.is(*old) && ...)) return nullptr;
      size_counter::mine& mine = prepare(s);
      if (change(s, p, {now, old, nullptr, h})) return &mine;
    }
  }

  /// Looks once in so many insertions of a thread, since the size is a sum over threads. Without
  /// memory the table stays as it is until the next look.
  void grow_if_full(const size_counter::mine& mine) noexcept {
    if (mine.added.value() % look_every != 0) return;
    const std::uint32_t l = table_.level();
    if (size_.approx() <= std::uint64_t{load_} << l) return;
    try {
      table_.open_after(l, time().now());
    } catch (const std::bad_alloc&) {
    }
  }

#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t look_every = 1;
#else
  static constexpr std::uint64_t look_every = 32;
#endif
  /// Of the times that a bucket of a group becomes empty. With so many looks at others a time, all
  /// buckets are looked at while half of them become empty.
  static constexpr std::uint32_t forget_every = 16;
  static constexpr std::uint64_t forgotten_together = 32;

  Collector& collector_;
  bucket_table<list> table_;
  const std::uint32_t load_;
  const hash_spread spread_;
  [[no_unique_address]] const Hash hash_;
  [[no_unique_address]] const Equal equal_;
  size_counter size_;
  empty_versions<version, Collector> empties_;
  alignas(cache_line) atomic<std::uint64_t> next_to_forget_{0};
  [[no_unique_address]] life alive_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/map/detail/snapshot_hash_core_impl.hpp>
