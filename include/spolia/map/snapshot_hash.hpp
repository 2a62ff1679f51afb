// SPDX-License-Identifier: Apache-2.0
// snapshot_hash.hpp: a hash map of which you can take snapshots, and keep them.
//
//     spolia::snapshot_hash<std::string, int> stock;        // no set-up
//     spolia::snapshot_hash<int, order> orders;
//     stock.insert("nails", 100);
//     const spolia::snapshot now;                           // one instant of both
//     stock.insert_or_assign("nails", 99);
//     stock.find(now, "nails");                             // a pointer to 100, as long as `now`
//     for (auto [name, count] : stock.all(now)) ...         // takes as long as you like
//
// Source:      Wei et al., PPoPP 2023, section 6: a table whose buckets are immutable and versioned
//              (versioned.hpp). The growth is ours.
// Idea:        a bucket is a list of versions, each of which holds all pairs of the bucket. An
//              update makes a new version, with one pair more, less or changed, and appends it.
// Growth. Buckets are never moved, and no list ever ends: so no snapshot can lose what it reads.
//   A version has a depth d and holds the pairs whose hash agrees with the bucket's number in d
//   bits. When the table has grown, an update first divides its bucket b: it appends a version with
//   depth d + 1 that holds one half of the pairs and names the other half, a version that is about
//   to become the first one of bucket b + 2^d. Both have the stamp of the first: the division is
//   one change at one instant. Any thread that meets the division begins the other bucket, and no
//   thread appends after a division before that is done. A reader starts at the bucket with the
//   most bits; if that has no version at its snapshot, the pairs were in the bucket with one bit
//   less.
//   No thread waits for another, each update divides at most one bucket in each round, and a
//   snapshot goes on reading the buckets that were there.
// Shrinking. With sl_rt, a bucket whose last pair went lets go of its version when no snapshot sees
//   an older one: all such buckets share a version that says they were always empty
//   (detail/empty_versions.hpp). Updates that make a bucket empty do that for it, and for others on
//   the way; collect() does it for all. The table's words stay: a bucket may have pairs again at
//   once.
// Protects:    what find(now, ...) and all(now) give stays while the snapshot lives, without a
//              guard. No operation holds a guard longer than it takes to read one bucket (16 or 32
//              of them where it passes many), not counting visit's f.
// Cost:        find: one bucket, whose pairs are told apart by a byte of their hashes while they
//              are 20 at most (detail/hash_tags.hpp). At a snapshot: the versions of that bucket
//              that are newer; after growth since then, O(log growth) at most buckets more. An
//              update copies one bucket, 2 to 16 pairs on average, into one block. The update that
//              opens the next level makes as many words as there are buckets.
// Progress:    find, contains, visit and reads at snapshots are wait-free, but for buckets divided
//              meanwhile. Updates are lock-free. The collector's upkeep comes on top of both.
// Bound:       a version for each bucket that has begun, at most 2^levels, and what the collector
//              promises. With sl_rt, after collect() and without snapshots: a version for each
//              bucket that has pairs, or was changed by a batch last. Buckets without pairs are
//              passed 64 at a time, so to read all pairs takes time for each pair, and a little for
//              each 64 buckets (detail/bucket_group.hpp).
// Memory:      a word a bucket, as many as the most pairs so far wanted; about 136 bytes a version
//              and its pairs.
// Keys and values: any that can be moved. If they are copied as bytes, at most 32 of them, versions
//              hold them, and an update copies those of its bucket. All others lie in counted
//              blocks, and versions hold pointers: only find(key) ever copies an object of the
//              user's. So a pointer to a value stays right over updates of other keys.
// Errors:      an update throws std::bad_alloc, or what hashing, comparing, copying a key or making
//              a value throws; then nothing has changed for any reader, but what it was given to
//              move from may be gone. Reads throw the same. An update that has taken effect does
//              not throw. If there is no memory to grow, a later update tries again.
// User code:   hashes and comparisons, visit's f, and the copy that find(key) makes run inside a
//              guard and hold up freeing for as long as they take; loops over all(now) and for_each
//              do not. Destructors of keys and values run wherever the domain frees, and must not
//              throw.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/map/detail/after_update.hpp>
#include <spolia/map/detail/instant_reads.hpp>
#include <spolia/map/detail/key_groups.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/snapshot_hash_core.hpp>
#include <spolia/map/detail/snapshot_pairs.hpp>
#include <spolia/map/detail/snapshot_watch.hpp>
#include <spolia/map/detail/tried_in_vain.hpp>
#include <spolia/map/hash_seeds.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/map/updates.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/sl_rt.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class changes;

template <class Key, class Value, class Collector = sl_rt<>, class Hash = default_hash<Key>,
          class Equal = default_equal<Key>>
class snapshot_hash
    : private detail::map::kinds_with_snapshots_by_hash<Key, version_collector<Collector>, Hash,
                                                        Equal>,
      public detail::map::value_updates<snapshot_hash<Key, Value, Collector, Hash, Equal>, Key,
                                        Value>,
      public detail::map::instant_reads<snapshot_hash<Key, Value, Collector, Hash, Equal>, Key,
                                        Value, detail::map::by_hash<Key, Hash, Equal>>,
      public detail::map::tried_in_vain_without_snapshot {
  static_assert(std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
                "snapshot_hash: destructors run where no caller can catch what they throw");

  using core_type = detail::map::snapshot_hash_core<Key, Value, Collector, Hash, Equal>;
  using at_instants =
      detail::map::instant_reads<snapshot_hash, Key, Value, detail::map::by_hash<Key, Hash, Equal>>;
  using in_vain = detail::map::tried_in_vain_without_snapshot;

 public:
  using found_by = detail::map::by_hash<Key, Hash, Equal>;
  using key_type = Key;
  using mapped_type = Value;
  using collector_type = Collector;
  using domain_type = typename Collector::domain_type;
  using timeline_type = typename Collector::timeline_type;
  using hasher = Hash;
  using key_equal = Equal;

  struct options {
    std::uint64_t buckets = 4;  ///< to begin with; rounded up to a power of two
    /// Pairs a bucket, on average, when the table doubles.
    std::uint32_t load = detail::map::usual_bucket_pairs<Key, Value>;
    typename Collector::options collector{};
    snapshot_limits limits{};             ///< of snapshots; holdings.hpp
    std::optional<std::uint64_t> seed{};  ///< none: it draws one; hash_seeds.hpp
  };

  /// An empty map on the process's timeline, with its own domain and collector: a snapshot that
  /// names no timeline shows it, too. May throw std::bad_alloc, as all constructors here, and
  /// std::invalid_argument if an option makes no sense.
  explicit snapshot_hash(const options& o = {}, Hash hash = Hash(), Equal equal = Equal())
    requires std::same_as<timeline_type, timeline>
      : snapshot_hash(default_timeline(), o, std::move(hash), std::move(equal)) {}

  /// On another timeline, which must outlive the map.
  explicit snapshot_hash(timeline_type& time, const options& o = {}, Hash hash = Hash(),
                         Equal equal = Equal())
      : own_(std::make_unique<domain_type>()),
        collector_(*own_, time, o.collector),
        core_(collector_, checked_options(o), std::move(hash), std::move(equal)),
        watch_(o.limits) {}

  /// The same in a domain that it shares with others, and that must outlive it, too. Destructors of
  /// keys and values may then run after the map is gone.
  snapshot_hash(domain_type& shared, timeline_type& time, const options& o = {}, Hash hash = Hash(),
                Equal equal = Equal())
      : collector_(shared, time, o.collector),
        core_(collector_, checked_options(o), std::move(hash), std::move(equal)),
        watch_(o.limits) {}

  snapshot_hash(const snapshot_hash&) = delete;
  snapshot_hash& operator=(const snapshot_hash&) = delete;

  domain_type& domain() const noexcept { return collector_.nodes(); }
  timeline_type& time() const noexcept { return collector_.time(); }

  // -------------------------------------------------------------------------- the map as it is now

  /// True if `key` was absent and now maps to `value`; false: nothing has changed. Moves from what
  /// it is given only after the key was found absent.
  template <class V = Value>
    requires std::constructible_from<Value, V>
  bool insert(const Key& key, V&& value) {
    return watched(core_.template put<false>(key, std::forward<V>(value)));
  }
  template <class V = Value>
    requires std::constructible_from<Value, V>
  bool insert(Key&& key, V&& value) {
    return watched(core_.template put<false>(std::move(key), std::forward<V>(value)));
  }

  /// True if `key` was absent; false if its value was replaced. Either way it now maps to `value`.
  template <class V = Value>
    requires std::constructible_from<Value, V>
  bool insert_or_assign(const Key& key, V&& value) {
    return watched(core_.template put<true>(key, std::forward<V>(value)));
  }
  template <class V = Value>
    requires std::constructible_from<Value, V>
  bool insert_or_assign(Key&& key, V&& value) {
    return watched(core_.template put<true>(std::move(key), std::forward<V>(value)));
  }

  /// True if `key` was present, and was erased.
  bool erase(const Key& key) { return watched(core_.erase(key)); }

  /// A copy of the value that `key` maps to.
  std::optional<Value> find(const Key& key) const
    requires std::copy_constructible<Value>
  {
    std::optional<Value> found;
    visit(key, [&](const Value& value) { found.emplace(value); });
    return found;
  }

  bool contains(const Key& key) const {
    auto here = collector_.enter();
    return core_.find(here, key) != nullptr;
  }

  /// Calls f(const Value&) if `key` is present, and says whether it was. f runs under a guard: keep
  /// it short, and take no lock. f may use this map.
  template <std::invocable<const Value&> F>
  bool visit(const Key& key, F&& f) const {
    auto here = collector_.enter();
    const auto* const found = core_.find(here, key);
    if (found == nullptr) return false;
    std::forward<F>(f)(found->value());
    return true;
  }

  // The same four with a key of another type (map/keys.hpp).
  template <detail::map::other_key<Key, found_by> K>
  bool erase(const K& key) {
    bool gone = false;
    if constexpr (checked<K>()) gone = watched(core_.erase(key));
    return gone;
  }
  template <detail::map::other_key<Key, found_by> K>
    requires std::copy_constructible<Value>
  std::optional<Value> find(const K& key) const {
    std::optional<Value> found;
    visit(key, [&](const Value& value) { found.emplace(value); });
    return found;
  }
  template <detail::map::other_key<Key, found_by> K>
  bool contains(const K& key) const {
    return visit(key, [](const Value&) {});
  }
  template <detail::map::other_key<Key, found_by> K, std::invocable<const Value&> F>
  bool visit(const K& key, F&& f) const {
    if constexpr (checked<K>()) {
      auto here = collector_.enter();
      const auto* const found = core_.find(here, key);
      if (found == nullptr) return false;
      std::forward<F>(f)(found->value());
      return true;
    }
    return false;
  }

  /// Calls f(const Value*) for each of several keys, in their order, null where there is none: all
  /// of one instant within the call. For up to 16 keys that takes no snapshot unless one of their
  /// buckets has changed since the last snapshot of any thread; f runs under a guard then: keep it
  /// short, and take no lock. f may use this map.
  template <std::ranges::forward_range Keys, std::invocable<const Value*> F>
    requires std::convertible_to<std::ranges::range_reference_t<Keys>, const Key&>
  void visit_all(Keys&& keys, F&& f) const {
    if (std::ranges::distance(keys) <= std::ptrdiff_t{detail::map::keys_together} &&
        visit_at_once(keys, f)) {
      return;
    }
    const snapshot now(time(), "visit_all");
    find_all(now, keys, f);
  }

  /// Calls f(key, value) for every pair of a snapshot that it takes: all of one instant, in no
  /// order. f returns nothing, or false to stop. It runs outside of guards, and may take long,
  /// wait, and change this map.
  template <std::invocable<const Key&, const Value&> F>
  void for_each(F&& f) const {
    const snapshot now(time(), "for_each");
    for (const auto& [key, value] : all(now)) {
      if (!detail::shown_to(f, key, value)) return;
    }
  }

  /// How many pairs there are. Updates under way may be counted or not.
  std::size_t size_approx() const noexcept { return core_.size_approx(); }
  bool empty_approx() const noexcept { return size_approx() == 0; }
  /// Makes the table as large as n pairs want it, a word a bucket, so that no update does that on
  /// the way there; it stays so. Buckets are still begun by updates: until that has come to one,
  /// what is looked for there takes a step for each doubling. Throws std::length_error if n is
  /// above 2^40, and std::bad_alloc; then no pair is lost, and the table may be larger.
  void reserve(std::uint64_t n) {
    if (n > std::uint64_t{1} << 40U) throw std::length_error("snapshot_hash: room above 2^40");
    core_.reserve(n);
  }
  /// How many buckets there are.
  std::uint64_t buckets() const noexcept { return core_.buckets(); }

  // ----------------------------------------------------------------------------- and at a snapshot

  using at_instants::contains;
  using at_instants::find;
  using at_instants::for_each;
  using at_instants::visit;
  using in_vain::size;

  /// The values of several keys, in their order, as find() gives them; what they need is fetched
  /// for many at once.
  template <std::ranges::input_range Keys>
    requires std::convertible_to<std::ranges::range_reference_t<Keys>, const Key&>
  std::vector<const Value*> find_all(const snapshot& then, Keys&& keys) const {
    return detail::map::found_in_order<const Value*>(
        keys, [&](Keys& some, auto&& f) { find_all(then, some, f); });
  }
  /// Calls f(const Value*) for each, outside of guards.
  template <std::ranges::input_range Keys, std::invocable<const Value*> F>
    requires std::convertible_to<std::ranges::range_reference_t<Keys>, const Key&>
  void find_all(const snapshot& then, Keys&& keys, F&& f) const {
    if (!mine(then)) {
      for ([[maybe_unused]] const Key& key : keys) f(nullptr);
      return;
    }
    const std::uint64_t t = then.timestamp(time());
    detail::map::in_groups<Key>(keys, [&](std::span<const Key* const> some) {
      std::array<const Value*, detail::map::keys_together> found;
      core_.find_each_at(t, some, found.data());
      for (std::size_t i = 0; i < some.size(); ++i) f(found[i]);
    });
  }

  /// How many pairs there were; looks at every bucket.
  std::size_t size(const snapshot& then) const {
    if (!mine(then)) return 0;
    std::size_t sum = 0;
    for (buckets_of view(core_, then.timestamp(time()));;) {
      const auto some = view.next();
      if (some.empty()) return sum;
      sum += some.size();
    }
  }

  /// How many pairs satisfied f(key, value).
  template <std::predicate<const Key&, const Value&> F>
  std::size_t count_if(const snapshot& then, F&& f) const {
    std::size_t sum = 0;
    for (const auto& [key, value] : all(then)) sum += f(key, value) ? 1 : 0;
    return sum;
  }

  /// All pairs, in no order, each a std::pair<const Key&, const Value&>: a forward range that may
  /// be held as long as you like, since it holds the snapshot and no guard. Each step may throw
  /// std::bad_alloc if it is a thread's first.
  auto all(const snapshot& then) const {
    return detail::map::snapshot_pairs<core_type>(core_,
                                                  mine(then) ? then.clone() : snapshot::none());
  }
  detail::map::take_a_snapshot_and_give_it_to_all all() const = delete;

  // ------------------------------------------------------------------------------- and at a lease
  // It throws snapshot_expired when the lease was ended, as the reads of one key do.

  /// Calls f(key, value) for every pair, outside of guards, in no order; f returns nothing, or
  /// false to stop. If the lease is ended on the way, f was called for some of the pairs.
  template <std::invocable<const Key&, const Value&> F>
  void for_each(const lease& then, F&& f) const {
    if (!mine(then)) return;
    std::vector<typename core_type::pair> some;  // kept by their counts, or copied: kept_pair.hpp
    const std::uint64_t t = then.timestamp();
    const std::uint64_t end = core_.buckets_at(t);
    std::uint64_t next = 0;
    for (std::uint64_t i = 0; i < end; i = next) {
      next = core_.group_end(i);
      if (then.look([&] { return core_.is_group_empty(t, i); })) continue;
      next = (std::min)(i + 32, next);
      core_.gather(then, i, next, some);
      for (const auto& p : some) {
        if (!detail::shown_to(f, p.key(), p.value())) return;
      }
      some.clear();
    }
  }

  // ------------------------------------------------------------------------------------- upkeep

  /// Lets go of what no snapshot needs and no update has dropped yet, and of what empty buckets
  /// have: for idle times. Reads each bucket. May throw std::bad_alloc.
  void collect() {
    collector_.collect();
    core_.shrink();
  }
  /// Which versions there are, and which snapshots hold them: see holdings.hpp. Takes as long as
  /// there are versions, and collects. May throw std::bad_alloc.
  [[nodiscard]] holdings account() { return core_.account(); }
  /// Tells options::limits of the snapshots that are past them; returns how many. Updates do that
  /// from time to time. May throw std::bad_alloc.
  std::size_t check_snapshots() {
    return watch_.review(time(), [this] { return account(); });
  }
  /// Versions that were overwritten, and of these handed to the domain.
  collector_stats stats() const noexcept { return collector_.stats(); }

 private:
  friend class changes;  // changes.hpp
  friend class detail::map::value_updates<snapshot_hash, Key, Value>;
  friend at_instants;
  using seen = typename core_type::seen;

  static seen nothing_seen() { return {}; }
  template <class K>
  bool look_at(const K& key, seen& to) const {
    return core_.look(key, to);
  }
  bool put_if_absent(const Key& key, Value&& value) {
    return watched(core_.template put<false>(key, std::move(value)));
  }
  template <class K>
  bool put_for(const K& key, Value&& value, const seen& was) {
    return watched(core_.template put<true>(key, std::move(value), was));
  }
  template <class K>
  bool erase_seen(const K& key, const seen& was) {
    return watched(core_.erase(key, was));
  }
  core_type& in_batches() noexcept { return core_; }

  template <class K>
  static constexpr bool checked() {
    return detail::map::checked_key<found_by, K>();
  }
  const snapshot_hash& instants() const noexcept { return *this; }
  template <class K>
  const Value* find_at(const snapshot& then, const K& key) const {
    if (!mine(then)) return nullptr;
    auto here = collector_.enter();
    const auto* const found = core_.find_at(here, then.timestamp(time()), key);
    return found == nullptr ? nullptr : std::addressof(found->value());
  }
  template <class K, class F>
  bool visit_at(const lease& then, const K& key, F&& f) const {
    if (!mine(then)) return false;
    auto here = collector_.enter();
    const auto* const found = then.look([&] { return core_.find_at(here, then.timestamp(), key); });
    if (found == nullptr) return false;
    std::forward<F>(f)(found->value());
    return true;
  }

  /// visit_all() without a snapshot, of at most keys_together; false: that does not do.
  template <class Keys, class F>
  bool visit_at_once(Keys& keys, F& f) const {
    if constexpr (Collector::timeline_type::clock_type::advances_alone) {
      return false;  // stamps do not order what they stamp: see find_each_now
    } else {
      std::array<const Value*, detail::map::keys_together> found;
      std::size_t n = 0;
      bool known = true;
      auto here = collector_.enter();
      const std::uint64_t now = time().now();
      detail::map::in_groups<Key>(keys, [&](std::span<const Key* const> some) {
        known = known && core_.find_each_now(here, now, some, found.data() + n);
        n += some.size();
      });
      if (known) std::for_each_n(found.begin(), n, std::ref(f));
      return known;
    }
  }
  using buckets_of = detail::map::buckets_at<core_type>;

  static detail::map::hash_table_options checked_options(const options& o) {
    if (o.load == 0) throw std::invalid_argument("snapshot_hash: a load of 0");
    if (o.buckets == 0 || o.buckets > std::uint64_t{1} << 40U) {
      throw std::invalid_argument("snapshot_hash: from 1 to 2^40 buckets");
    }
    const auto base = bit_length(o.buckets - 1);
    return {.base = base, .load = o.load, .seed = o.seed ? *o.seed : detail::map::next_hash_seed()};
  }

  /// After an update.
  bool watched(bool changed) noexcept {
    detail::map::after_update<detail::map::published::by_exchange>();
    watch_.updated(time(), [this] { return account(); });
    return changed;
  }

  template <class Instant>
  bool mine(const Instant& then) const {
    return detail::map::is_instant_of(time(), then);
  }

  std::unique_ptr<domain_type> own_;
  mutable Collector collector_;
  core_type core_;  // goes before: it closes the collector
  detail::map::snapshot_watch watch_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
