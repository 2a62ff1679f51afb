// SPDX-License-Identifier: Apache-2.0
// snapshot_tree.hpp: an ordered map of which you can take snapshots, and keep them.
//
//     spolia::snapshot_tree<std::string, int> stock;           // no set-up
//     spolia::snapshot_tree<int, order> orders;
//     stock.insert("nails", 100);
//     const spolia::snapshot then;                             // one instant of both
//     stock.insert_or_assign("nails", 99);
//     stock.find(then, "nails");                               // a pointer to 100
//     for (auto [name, count] : stock.all(then)) ...           // takes as long as you like
//     for (auto [name, count] : stock.range(then, "a", "n") | std::views::reverse) ...
//
// Source:      the tree: Brown, Ellen, Ruppert, PPoPP 2014: a chromatic tree by LLX and SCX; its
//              versions: Wei et al., PPoPP 2023, section 6.
// Idea:        a balanced binary search tree with the pairs in its leaves, several in each (which
//              is ours). Each link from node to node is a versioned field (owned_field.hpp). An
//              update puts a new subtree of a few nodes in the place of an old one by one change of
//              a link, and so at one instant; a snapshot goes down the links as they were.
// Protects:    what find(then, ...), all(then) and range(then, ...) give stays while the snapshot
//              and the map live, without a guard. No operation holds a guard longer than a search
//              takes (or 16 leaves, where it passes many pairs), not counting visit's f. There are
//              exceptions: some operations that split a leaf read up to 400 internal nodes under a
//              guard, and collect() and account() up to 16 000
//              (map/detail/chromatic_shortcuts.hpp).
// Order:       insert, insert_or_assign, erase, find, contains and visit are linearizable; for_each
//              and range take a snapshot, and show its instant.
// Cost:        logarithmic. At a snapshot, each link takes a step for each newer version. An update
//              copies a leaf and makes a version; one that splits a leaf makes two leaves and an
//              internal node; a step of balance makes up to four internal nodes and a version.
// Progress:    reads only read. Updates are lock-free. The collector's upkeep comes on top of both.
// Bound:       what the collector promises: a removed node goes when no snapshot needs it and no
//              version of its links is held (owner.hpp). On top of that, up to 8192 removed
//              internal nodes at which searches might begin stay until the next table of these is
//              made, or until collect(); while the table is being made, twice as many.
// Memory:      on top of the pairs, some 100 bytes a leaf and 330 bytes an internal node, with the
//              first versions of its two links; there is one internal node less than there are
//              leaves. A leaf that is split leaves two half-full ones. Where erasing has left
//              little in a leaf, it is merged with its sibling, if that is a leaf, too, and both
//              fill three quarters of one.
// Keys and values: any that can be moved; internal nodes hold copies of keys. If both are copied as
//              bytes, at most 32 of them, leaves hold them, and an update copies those of its leaf.
//              All others lie in counted blocks, and leaves hold pointers: values are made once,
//              and only find(key) copies them.
// Errors:      an update throws std::bad_alloc, or what comparing, copying a key or making a value
//              throws; then nothing has changed. An update that has taken effect does not throw: if
//              there is no memory to balance, later updates on the same way do it.
// User code:   comparisons, visit's f and the copy that find(key) makes run inside a guard and hold
//              up freeing for as long as they take. Loops over all(then), for_each's f and range's
//              f do not. Destructors of keys and values run where the domain frees, and must not
//              throw.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/map/detail/chromatic_tree.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/instant_reads.hpp>
#include <spolia/map/detail/kept_pair.hpp>
#include <spolia/map/detail/key_groups.hpp>
#include <spolia/map/detail/other_keys.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/seen_value.hpp>
#include <spolia/map/detail/snapshot_pairs.hpp>
#include <spolia/map/detail/snapshot_watch.hpp>
#include <spolia/map/detail/tree_pairs.hpp>
#include <spolia/map/detail/tried_in_vain.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/sl_rt.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class changes;

namespace detail::map {

template <class Key, class Value, version_collector Collector, class Compare, std::size_t LeafPairs>
class snapshot_tree_core {
  static_assert(std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
                "snapshot_tree: destructors run where no caller can catch what they throw");

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = typename Collector::domain_type;
  using timeline_type = typename Collector::timeline_type;
  using key_compare = Compare;
  using seen = seen_pair<kept_pair<Key, Value>, Value>;
  using tree = chromatic_tree<Key, Value, Collector, Compare,
                              LeafPairs == 0 ? usual_leaf_pairs<Key, Value> : LeafPairs>;
  using pairs = tree_pairs<tree, Key, Value>;

  struct options {
    typename Collector::options collector{};
    snapshot_limits limits{};  ///< of snapshots; holdings.hpp
  };

  snapshot_tree_core(timeline_type& time, const options& o, Compare less)
      : own_(std::make_unique<domain_type>()),
        collector_(*own_, time, o.collector),
        tree_(collector_, std::move(less)),
        watch_(o.limits) {}
  snapshot_tree_core(domain_type& shared, timeline_type& time, const options& o, Compare less)
      : collector_(shared, time, o.collector),
        tree_(collector_, std::move(less)),
        watch_(o.limits) {}

  domain_type& home() const noexcept { return collector_.nodes(); }
  Collector& versions() const noexcept { return collector_; }

  /// While it is empty and no other thread knows it: the pairs of a range whose keys ascend.
  template <class Iterator>
  void fill(Iterator first, Iterator last) {
    tree_.fill(static_cast<std::size_t>(std::distance(first, last)), [&](const auto& to) {
      const auto& [key, value] = *first++;
      to(key, value);
    });
  }
  template <bool Assign, class K, class V, class... Seen>
  bool put(const K& key, V&& value, const Seen&... was) {
    return watched(tree_.template put<Assign>(key, std::forward<V>(value), was...));
  }
  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    return watched(tree_.erase(key, was...));
  }
  template <class K>
  bool look(const K& key, seen& to) const {
    auto here = collector_.enter();
    const auto* const found = tree_.find(here, key);
    if (found != nullptr) to.look(*found);
    return found != nullptr;
  }
  template <class K>
  bool contains(const K& key) const {
    auto here = collector_.enter();
    return tree_.find(here, key) != nullptr;
  }
  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    auto here = collector_.enter();
    const auto* const found = tree_.find(here, key);
    if (found == nullptr) return false;
    std::forward<F>(f)(found->value());
    return true;
  }
  std::size_t size_approx() const noexcept { return tree_.size_approx(); }

  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    const snapshot now(collector_.time(), "scan");
    const pairs all(tree_, now.clone(), within);
    const auto show = [&](const auto& shown) {
      for (const auto& [key, value] : shown) {
        if (!detail::shown_to(f, key, value)) return;
      }
    };
    if constexpr (Down) {
      show(std::views::reverse(all));
    } else {
      show(all);
    }
  }
  template <bool Down, class Within>
  auto outermost(const Within& within) const {
    std::optional<std::pair<Key, Value>> found;
    const snapshot now(collector_.time(), "look");
    if (const auto* const p = outermost_at<Down>(now, within)) found.emplace(p->key(), p->value());
    return found;
  }

  template <class K>
  const Value* find_at(const snapshot& then, const K& key) const {
    if (!mine(then)) return nullptr;
    const std::uint64_t t = then.timestamp(collector_.time());
    auto here = collector_.enter();
    const auto* const found = tree_.at_instants().find_at(here, t, key);
    return found == nullptr ? nullptr : std::addressof(found->value());
  }
  template <class Keys, class F>
  void find_all_at(const snapshot& then, Keys& keys, F& f) const {
    if (!mine(then)) {
      for ([[maybe_unused]] const Key& key : keys) f(nullptr);
      return;
    }
    const std::uint64_t t = then.timestamp(collector_.time());
    in_groups<Key>(keys, [&](std::span<const Key* const> some) {
      std::array<const Value*, keys_together> found;
      std::size_t n = 0;
      {
        auto here = collector_.enter();
        tree_.at_instants().find_each_at(here, t, some, [&](const auto* pair) {
          found[n++] = pair == nullptr ? nullptr : std::addressof(pair->value());
        });
      }
      for (std::size_t i = 0; i < n; ++i) f(found[i]);
    });
  }
  template <class Within>
  pairs pairs_at(const snapshot& then, const Within& within) const {
    snapshot held = then.clone();
    if (!mine(then)) held.withdraw();
    return pairs(tree_, std::move(held), within);
  }
  /// The pair stays while the snapshot does.
  template <bool Down, class Within>
  const typename tree::pair* outermost_at(const snapshot& then, const Within& within) const {
    if (!mine(then)) return nullptr;
    const std::uint64_t t = then.timestamp(collector_.time());
    auto here = collector_.enter();
    return tree_.at_instants().template outermost_at<Down>(here, t, within);
  }

  template <class K, class F>
  bool visit_at(const lease& then, const K& key, F&& f) const {
    if (!mine(then)) return false;
    auto here = collector_.enter();
    const auto* const found = tree_.at_instants().find_at(here, then, key);
    if (found == nullptr) return false;
    std::forward<F>(f)(found->value());
    return true;
  }
  template <bool Down, class Within>
  auto copy_of_outermost_at(const lease& then, const Within& within) const {
    std::optional<std::pair<Key, Value>> found;
    if (!mine(then)) return found;
    auto here = collector_.enter();
    const auto* const p = tree_.at_instants().template outermost_at<Down>(here, then, within);
    if (p != nullptr) found.emplace(p->key(), p->value());
    return found;
  }
  /// Copies a few pairs at a time: what a lease has found stays as long as a guard.
  template <class Within, class F>
  void scan_at(const lease& then, const Within& within, F& f) const {
    if (!mine(then)) return;
    std::vector<std::pair<Key, Value>> some;
    std::optional<Key> last;
    typename tree::past::limits rest{
        .lo = within.from, .hi = within.to, .open = !within.with_from, .closed = Within::has_to};
    progress<Key> way;
    bool more = true;
    while (more) {
      some.clear();
      more = gather(then, rest, some);
      for (const auto& [key, value] : some) {
        if (!detail::shown_to(f, key, value)) return;
      }
      if (some.empty() || !way.goes_on(some.back().first, tree_.less())) return;
      last.emplace(std::move(some.back().first));
      rest.lo = std::addressof(*last);
      rest.open = true;
    }
  }

  void collect() {
    tree_.renew_shortcuts();
    collector_.collect();
  }
  holdings account() { return tree_.account(); }
  std::size_t check_snapshots() {
    return watch_.review(collector_.time(), [this] { return account(); });
  }
  chromatic_findings audit() const { return tree_.audit(); }
  tree& in_batches() noexcept { return tree_; }
  /// After an update.
  bool watched(bool changed) noexcept {
    watch_.updated(collector_.time(), [this] { return account(); });
    return changed;
  }

 private:
  /// Whether there may be more.
  bool gather(const lease& then, const typename tree::past::limits& within,
              std::vector<std::pair<Key, Value>>& some) const {
    auto here = collector_.enter();
    const auto& past = tree_.at_instants();
    typename tree::past::chunk found;
    past.first_at(here, then, within, found, tree::past::which::with_some);
    auto rest = within;
    for (unsigned i = 0; i < found.count; ++i) {
      for (const auto& pair : past.pairs_of(*found.of[i], then, rest)) {
        some.emplace_back(pair.key(), pair.value());
        rest.lo = std::addressof(pair.key());
        rest.open = true;
      }
    }
    return found.is_full();
  }
  template <class Instant>
  bool mine(const Instant& then) const {
    return detail::map::is_instant_of(collector_.time(), then);
  }

  std::unique_ptr<domain_type> own_;
  mutable Collector collector_;
  tree tree_;  // goes before: it closes the collector
  snapshot_watch watch_;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what you can do with the map as it is now.
/// LeafPairs: how many pairs a leaf takes at most; 0: as many as go well with their size.
template <class Key, class Value, class Collector = sl_rt<>, class Compare = default_order<Key>,
          std::size_t LeafPairs = 0>
class snapshot_tree
    : private detail::map::kinds_with_snapshots_by_order<Key, version_collector<Collector>,
                                                         Compare>,
      public detail::map::map_face<
          detail::map::snapshot_tree_core<Key, Value, Collector, Compare, LeafPairs>>,
      public detail::map::instant_reads<snapshot_tree<Key, Value, Collector, Compare, LeafPairs>,
                                        Key, Value, detail::map::by_order<Key, Compare>> {
  using core_type = detail::map::snapshot_tree_core<Key, Value, Collector, Compare, LeafPairs>;
  using face = detail::map::map_face<core_type>;
  using found_by = detail::map::by_order<Key, Compare>;
  using at_instants = detail::map::instant_reads<snapshot_tree, Key, Value, found_by>;
  using shown = std::optional<std::pair<const Key&, const Value&>>;
  using copied = std::optional<std::pair<Key, Value>>;
  static constexpr auto& all_keys = detail::map::all_keys<Key>;

 public:
  using collector_type = Collector;
  using domain_type = typename Collector::domain_type;
  using timeline_type = typename Collector::timeline_type;
  using options = typename core_type::options;

  /// An empty map on the process's timeline, with its own domain: a snapshot that names no timeline
  /// shows it, too. Throws std::bad_alloc, as all constructors here, and std::invalid_argument if
  /// an option makes no sense.
  explicit snapshot_tree(const options& o = {}, Compare less = Compare())
    requires std::same_as<timeline_type, timeline>
      : snapshot_tree(default_timeline(), o, std::move(less)) {}

  /// On another timeline, which must outlive the map.
  explicit snapshot_tree(timeline_type& time, const options& o = {}, Compare less = Compare())
      : face(std::in_place, time, o, std::move(less)) {}

  /// The same in a domain that it shares with others, and that must outlive it, too. Destructors of
  /// keys and values may then run after the map is gone.
  snapshot_tree(domain_type& shared, timeline_type& time, const options& o = {},
                Compare less = Compare())
      : face(std::in_place, shared, time, o, std::move(less)) {}

  /// A map of these pairs, things with `first` and `second`, whose keys ascend, made in linear
  /// time; earlier snapshots see none of them. Throws std::invalid_argument if a key is not after
  /// the one before it, std::bad_alloc, and what copying and comparing throw; then there is no map,
  /// and the range is as it was.
  template <std::forward_iterator Iterator>
    requires std::same_as<timeline_type, timeline>
  snapshot_tree(sorted_unique_t are, Iterator first, Iterator last, const options& o = {},
                Compare less = Compare())
      : snapshot_tree(are, first, last, default_timeline(), o, std::move(less)) {}
  /// The same on another timeline.
  template <std::forward_iterator Iterator>
  snapshot_tree(sorted_unique_t /*are*/, Iterator first, Iterator last, timeline_type& time,
                const options& o = {}, Compare less = Compare())
      : snapshot_tree(time, o, std::move(less)) {
    this->core().fill(first, last);
  }

  timeline_type& time() const noexcept { return this->core().versions().time(); }

  using at_instants::contains;
  using at_instants::find;
  using at_instants::for_each;
  using at_instants::visit;
  using face::contains;
  using face::count;
  using face::find;
  using face::first;
  using face::for_each;
  using face::last;
  using face::last_before;
  using face::last_upto;
  using face::lower_bound;
  using face::range;
  using face::size;
  using face::upper_bound;
  using face::visit;

  /// The values of several keys, in their order, as find() gives them; memory for many of them is
  /// fetched at once.
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
    this->core().find_all_at(then, keys, f);
  }

  /// All pairs in ascending order of keys, each a std::pair<const Key&, const Value&>: a range that
  /// goes both ways and may be held as long as you like, since it holds the snapshot and no guard.
  auto all(const snapshot& then) const { return this->core().pairs_at(then, all_keys); }
  detail::map::take_a_snapshot_and_give_it_to_all all() const = delete;
  detail::map::loop_over_all_of_a_snapshot_or_call_for_each begin() const = delete;
  detail::map::loop_over_all_of_a_snapshot_or_call_for_each end() const = delete;
  /// Those with keys from `lo` on and before `hi`, or with other ends (map/ends.hpp), of which it
  /// keeps copies.
  auto range(const snapshot& then, const Key& lo, const Key& hi) const {
    return this->core().pairs_at(then, detail::map::from_to(lo, hi));
  }
  template <class Lo, class Hi>
    requires detail::map::ends_of<Lo, Hi, Key, found_by>
  auto range(const snapshot& then, const Lo& lo, const Hi& hi) const {
    return detail::map::between<Key, found_by>(
        lo, hi, [&](const auto& within) { return this->core().pairs_at(then, within); });
  }

  /// How many pairs there were, in all or in a range; reads each.
  std::size_t size(const snapshot& then) const { return count_of(all(then)); }
  std::size_t count(const snapshot& then, const Key& lo, const Key& hi) const {
    return count_of(range(then, lo, hi));
  }
  template <class Lo, class Hi>
    requires detail::map::ends_of<Lo, Hi, Key, found_by>
  std::size_t count(const snapshot& then, const Lo& lo, const Hi& hi) const {
    return count_of(range(then, lo, hi));
  }

  /// The pair with the least key, and with the greatest; the first one at `key` or after it, the
  /// first one after it, the last one before it, the last one before it or at it. Nothing: there
  /// was none. At a snapshot an optional pair of references, which stay while the snapshot and the
  /// map live; at a lease one of copies.
  template <detail::map::an_instant Instant>
  auto first(const Instant& then) const {
    return edge<false>(then, all_keys);
  }
  template <detail::map::an_instant Instant>
  auto last(const Instant& then) const {
    return edge<true>(then, all_keys);
  }
  template <detail::map::an_instant Instant>
  auto lower_bound(const Instant& then, const Key& key) const {
    return edge<false>(then, detail::map::from_on(key));
  }
  template <detail::map::an_instant Instant>
  auto upper_bound(const Instant& then, const Key& key) const {
    return edge<false>(then, detail::map::after_it(key));
  }
  template <detail::map::an_instant Instant>
  auto last_before(const Instant& then, const Key& key) const {
    return edge<true>(then, detail::map::before_it(key));
  }
  template <detail::map::an_instant Instant>
  auto last_upto(const Instant& then, const Key& key) const {
    return edge<true>(then, detail::map::up_to(key));
  }
  template <detail::map::an_instant Instant, detail::map::other_key<Key, found_by> K>
  auto lower_bound(const Instant& then, const K& key) const {
    return edge<false, K>(then, detail::map::from_on(key));
  }
  template <detail::map::an_instant Instant, detail::map::other_key<Key, found_by> K>
  auto upper_bound(const Instant& then, const K& key) const {
    return edge<false, K>(then, detail::map::after_it(key));
  }
  template <detail::map::an_instant Instant, detail::map::other_key<Key, found_by> K>
  auto last_before(const Instant& then, const K& key) const {
    return edge<true, K>(then, detail::map::before_it(key));
  }
  template <detail::map::an_instant Instant, detail::map::other_key<Key, found_by> K>
  auto last_upto(const Instant& then, const K& key) const {
    return edge<true, K>(then, detail::map::up_to(key));
  }

  // At a lease these throw snapshot_expired when it was ended, as the reads of one key do.

  /// Calls f(key, value) for every pair, or those with keys from `lo` on and before `hi`, in
  /// ascending order and outside of guards, with copies; f returns nothing, or false to stop. If
  /// the lease is ended on the way, f was called for some of the pairs.
  template <std::invocable<const Key&, const Value&> F>
    requires std::copy_constructible<Key> && std::copy_constructible<Value>
  void for_each(const lease& then, F&& f) const {
    this->core().scan_at(then, all_keys, f);
  }
  template <std::invocable<const Key&, const Value&> F>
    requires std::copy_constructible<Key> && std::copy_constructible<Value>
  void range(const lease& then, const Key& lo, const Key& hi, F&& f) const {
    this->core().scan_at(then, detail::map::from_to(lo, hi), f);
  }
  template <class Lo, class Hi, std::invocable<const Key&, const Value&> F>
    requires std::copy_constructible<Key> && std::copy_constructible<Value> &&
             detail::map::ends_of<Lo, Hi, Key, found_by>
  void range(const lease& then, const Lo& lo, const Hi& hi, F&& f) const {
    // It goes on from keys of the map, and holds them meanwhile.
    detail::map::between<Key, detail::map::by_order<Key, std::less<Key>>>(
        lo, hi, [&](const auto& within) { this->core().scan_at(then, within, f); });
  }

  /// Lets go of what no snapshot needs and no update has dropped yet: for idle times.
  void collect() { this->core().collect(); }
  /// Which versions and nodes there are, and which snapshots hold them: see holdings.hpp. Takes as
  /// long as there are of them, and collects. May throw std::bad_alloc.
  [[nodiscard]] holdings account() { return this->core().account(); }
  /// Tells options::limits of the snapshots that are past them; returns how many. Updates do that
  /// from time to time. May throw std::bad_alloc.
  std::size_t check_snapshots() { return this->core().check_snapshots(); }
  /// Versions and nodes that left the map, and of these handed to the domain.
  collector_stats stats() const noexcept { return this->core().versions().stats(); }

  /// Checks the whole tree, for tests. No thread may use the tree meanwhile.
  detail::map::chromatic_findings audit() const { return this->core().audit(); }

 private:
  friend class changes;  // changes.hpp
  friend at_instants;
  const core_type& instants() const noexcept { return this->core(); }
  auto& in_batches() noexcept { return this->core().in_batches(); }
  void watched(bool changed) noexcept { this->core().watched(changed); }

  template <class K>
  static constexpr bool checked() {
    if constexpr (std::same_as<K, Key>) return true;
    if constexpr (!std::same_as<K, Key>) return detail::map::checked_key<found_by, K>();
  }
  template <bool Down, class K = Key, class Within>
  shown edge(const snapshot& then, const Within& within) const {
    if constexpr (checked<K>()) {
      const auto* const p = this->core().template outermost_at<Down>(then, within);
      if (p != nullptr) return shown(std::in_place, p->key(), p->value());
    }
    return {};
  }
  template <bool Down, class K = Key, class Within>
  copied edge(const lease& then, const Within& within) const {
    if constexpr (checked<K>()) {
      return this->core().template copy_of_outermost_at<Down>(then, within);
    }
    return {};
  }
  template <class Pairs>
  static std::size_t count_of(const Pairs& all) {
    return static_cast<std::size_t>(std::ranges::distance(all));
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
