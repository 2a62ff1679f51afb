// SPDX-License-Identifier: Apache-2.0
// abtree.hpp: an ordered map: a lock-free tree with many keys to a node.
//
//     spolia::abtree<std::uint64_t, std::uint64_t> ages;
//     ages.insert(7, 42);                          // false if 7 was there
//     if (auto age = ages.find(7)) use(*age);
//     ages.range(5, 10, [](auto& key, auto& value) { ... });
//     ages.erase(7);
//
// Source:      Brown: Techniques for constructing efficient lock-free data structures, PhD thesis,
//              Toronto 2017, chapter 8: the relaxed (a,b)-tree. Pairs lie in the leaves, which
//              never change: an update puts a new leaf in the place of the old one. Balance is
//              restored in steps of their own, which other operations may overtake.
// Departures:  Leaves are a type of their own, without tag or mark. No node has a search key: a
//              thread that makes a violation looks for it on the way to its own key, from the root,
//              until there is none; so rebalancing is a loop, and each step is an operation of its
//              own.
// Domain:      any scheme. Where a scheme does not protect what a removed node leads to (pointer or
//              era protection), a search that finds itself in one starts over; and where it
//              protects single pointers only, keys and values must lie in the leaves, since one
//              leaf names many. The tree has a domain of its own, or shares one.
// Threads:     everything but construction, destruction and audit() may run beside everything.
// Order:       insert, insert_or_assign, erase, find, contains, visit are linearizable.
// Scans:       for_each, range and runs, and those from above to below, copy a leaf at a time; only
//              if pairs do not lie in leaves, they allocate, once. The pairs of one leaf are of one
//              moment, those of different leaves need not be.
// Progress:    updates are lock-free. find, contains, visit and each leaf of a range only read, as
//              many nodes as the tree is high: logarithmic, but for violations under repair.
// Errors:      an update that throws (std::bad_alloc, or what copying a key or making a value
//              throws) has changed nothing. An update that has taken effect does not throw:
//              rebalancing that cannot get memory is left to later operations on the same way, and
//              the tree is correct and less balanced until then. Under a restartable scheme the
//              comparator must neither throw nor allocate nor lock, since a search may be
//              abandoned anywhere.
// Memory:      nodes of 248 bytes for 8-byte keys and values, at random two thirds full (256
//              under robust_token, and 264 under eras, which stamp each block); a descriptor of
//              128 bytes for each thread number.
// Retires:     an update retires one leaf, and one entry if it erases or replaces a value that does
//              not lie in the leaf; each repair retires two nodes (weight) or three (size). Left
//              alone, an update makes at most one repair for each level of the tree if it splits a
//              leaf, two if it leaves one too small; on average far less than one.
// User code:   comparisons, the copies that find and ranges make, the making of values, and the
//              function of visit run inside a guard and hold up freeing for as long as they take.
//              Those of for_each and range do not. Destructors of keys and values must not throw.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/unwind.hpp>
#include <spolia/map/detail/abtree_audit.hpp>
#include <spolia/map/detail/abtree_floats.hpp>
#include <spolia/map/detail/abtree_nodes.hpp>
#include <spolia/map/detail/abtree_search.hpp>
#include <spolia/map/detail/abtree_sorted.hpp>
#include <spolia/map/detail/face.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/right_kinds.hpp>
#include <spolia/map/detail/scan.hpp>
#include <spolia/map/keys.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/guard.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// Children of an inner node, and pairs in a leaf, at most. With 14, nodes of 8-byte keys and
/// values take 248 bytes where blocks are not stamped: one size for both kinds, four cache lines, a
/// size class of the usual allocators.
inline constexpr unsigned abtree_degree = 14;

namespace detail::map {

template <class Key, class Value, class Domain, class Compare, unsigned Degree>
class abtree_core {
  static_assert(protects_stepwise_search<typename Domain::scheme_type>,
                "abtree: this scheme does not protect a search that goes from node to node");
  static_assert(!protects_single_pointers<typename Domain::scheme_type> ||
                    abtree_nodes<Key, Value, Domain, Compare, Degree>::value_in_leaf,
                "abtree: under a scheme that protects single pointers keys and values must lie in "
                "the leaves: trivially copyable and at most 16 bytes each");
  static_assert(
      std::is_nothrow_destructible_v<Key> && std::is_nothrow_destructible_v<Value>,
      "abtree: destructors of keys and values run where no caller can catch what they throw");

  using nodes = abtree_nodes<Key, Value, Domain, Compare, Degree>;
  using steps = abtree_steps<nodes, Domain, Degree>;
  using search = abtree_search<Key, nodes, Domain, Compare, Degree>;
  using leaf = typename nodes::leaf;
  using internal = typename nodes::internal;
  using entry = typename nodes::entry;
  using payload = typename nodes::payload;
  using guard = typename Domain::guard;
  using owner = typename scx<internal>::owner;
  using spot = typename search::spot;
  using status = typename search::status;
  using wanted = typename search::wanted;

 public:
  using key_type = Key;
  using mapped_type = Value;
  using domain_type = Domain;
  using key_compare = Compare;
  using seen = seen_value<Value>;

  abtree_core(Domain& home, Compare less)
      : steps_(home, entry_), search_(entry_, steps_.records(), std::move(less)) {
    const typename nodes::item none{};
    entry_.child(0).store_relaxed(home.template make<leaf>(&none, 0U));
  }
  abtree_core(const abtree_core&) = delete;
  abtree_core& operator=(const abtree_core&) = delete;
  ~abtree_core() { fell(entry_.child(0).load_relaxed()); }

  Domain& home() const noexcept { return steps_.home(); }

  /// While it is empty and no other thread knows it: n pairs; next(f) calls f(key, value) of the
  /// next one. Throws std::invalid_argument if they do not ascend; then it is empty.
  template <class Next>
  void fill(std::size_t n, const Next& next) {
    if (n == 0) return;
    const owner me = steps_.records().me();
    abtree_sorted<abtree_core> made(*this, Degree);
    auto* const root = made.root(n, next, me.mine->stamped);
    fell(entry_.child(0).load_relaxed());
    entry_.child(0).store_relaxed(root);
    me.mine->inserted.add(n);
    me.mine->leaves.add(made.leaves() - 1);
    me.mine->internals.add(made.internals());
  }

  template <bool Assign, class K, class V, class... Seen>
  bool put(const K& key, V&& value, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    const owner me = steps_.records().me();
    guard g = home().enter();
    fresh_entry made(home(), nullptr);
    payload content{};
    for (bool ready = false;;) {
      const spot s = search_.locate(g, key,
                                    only_for_seen ? wanted::present
                                    : Assign      ? wanted::either
                                                  : wanted::absent);
      if (only_for_seen ? !s.found : !Assign && s.found) return false;
      if (s.is != status::free) {
        clear_way(g, s.is, s.info);
        continue;
      }
      if (!(s.low->has(s.at, was) && ...)) return false;
      if (!std::exchange(ready, true)) {
        const Key* const there = s.found ? std::addressof(s.low->key(s.at)) : nullptr;
        const Key& stays = key_there_or<only_for_seen, Key>(there, key);
        content = contain(stays, std::forward<V>(value), made, me.mine->stamped);
      }
      if (s.found) {
        if (!substitute(me, s, typename nodes::instead{s.at, content})) continue;
        if constexpr (!nodes::value_in_leaf) g.retire(s.low->contents[s.at]);
      } else if constexpr (!only_for_seen) {
        if (!add(me, s, key, content)) continue;
        me.mine->inserted.add();
      }
      made.release();
      const bool overfull = !only_for_seen && !s.found && s.low->size == Degree;
      g.retire(s.low);
      if (overfull) rebalance(g, me, key);
      return only_for_seen || !s.found;
    }
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    const owner me = steps_.records().me();
    guard g = home().enter();
    for (;;) {
      const spot s = search_.locate(g, key, wanted::present);
      if (!s.found) return false;
      if (s.is != status::free) {
        clear_way(g, s.is, s.info);
        continue;
      }
      if (!(s.low->has(s.at, was) && ...)) return false;
      if (!substitute(me, s, typename nodes::without{s.at})) continue;
      if constexpr (!nodes::value_in_leaf) g.retire(s.low->contents[s.at]);
      me.mine->erased.add();
      const bool underfull = s.low->size <= steps::least;
      g.retire(s.low);
      if (underfull) rebalance(g, me, key);
      return true;
    }
  }

  template <class K>
  bool contains(const K& key) const {
    guard g = home().enter();
    return search_.contains(g, key);
  }

  template <class K, class F>
  bool visit(const K& key, F&& f) const {
    guard g = home().enter();
    const auto hit = search_.look_up(g, key);
    if (!hit.found) return false;
    if constexpr (nodes::value_in_leaf) {
      std::forward<F>(f)(hit.content);
    } else {
      std::forward<F>(f)(hit.content->value);
    }
    return true;
  }

  template <class K>
  bool look(const K& key, seen& to) const {
    guard g = home().enter();
    return search_.look(g, key, to);
  }

  template <bool Down, class Within, class F>
  void scan(const Within& within, F& f) const {
    if (within.template is_empty<Key>(search_.less())) return;
    scanning on;
    scan_on<Down>(within, on, f);
  }
  template <bool Down, class Within>
  auto outermost(const Within& within) const {
    std::optional<std::pair<Key, Value>> found;
    const auto take = [&](const Key& key, const Value& value) {
      found.emplace(key, value);
      return false;
    };
    scanning on{.most = 1};
    scan_on<Down>(within, on, take);
    return found;
  }

  std::size_t size_approx() const noexcept {
    std::uint64_t inserted = 0;
    std::uint64_t erased = 0;
    steps_.records().for_each([&](const auto& cell) {
      erased += cell.erased.value();
      inserted += cell.inserted.value();
    });
    return inserted > erased ? inserted - erased : 0;
  }

  /// See abtree::bytes_approx.
  std::uint64_t bytes_approx() const noexcept {
    std::uint64_t leaves = 1;
    std::uint64_t internals = 0;
    steps_.records().for_each([&](const auto& cell) {
      leaves += cell.leaves.value();
      internals += cell.internals.value();
    });
    const auto all =
        static_cast<std::int64_t>(leaves * sizeof(leaf) + internals * sizeof(internal));
    const std::uint64_t apart = nodes::value_in_leaf ? 0 : size_approx() * sizeof(entry);
    return static_cast<std::uint64_t>((std::max)(all, std::int64_t{0})) + apart;
  }

  /// See abtree::audit.
  abtree_findings audit() const {
    return abtree_auditor<nodes, Compare, Degree, steps::least>(search_.less()).look_over(entry_);
  }

 private:
  friend class abtree_sorted<abtree_core>;
  static constexpr unsigned most_in_node = Degree;
  [[nodiscard]] const Compare& less() const noexcept { return search_.less(); }

  using fresh_leaf = unpublished<Domain, leaf>;
  using fresh_entry = unpublished<Domain, entry>;

  /// Before another search: finishes what is under way, or waits to see what others have done.
  void clear_way(guard& g, status is, std::uint64_t info) noexcept {
    if (is == status::busy) {
      steps_.records().help(g, info);
    } else {
      spin_wait();
    }
  }

  /// What the leaf is to hold for the pair.
  template <class V>
  payload contain([[maybe_unused]] const Key& key, V&& value, [[maybe_unused]] fresh_entry& made,
                  [[maybe_unused]] tally& stamps) {
    if constexpr (nodes::value_in_leaf) {
      return Value(std::forward<V>(value));
    } else {
      made.hold(
          home().template make<entry>(key, std::forward<V>(value), next_stamp<Value>(stamps)));
      return made.get();
    }
  }

  /// Puts a changed copy in the leaf's place. False: another thread was faster.
  template <class Change>
  bool substitute(owner me, const spot& s, const Change& change) {
    fresh_leaf made(home(), home().template make<leaf>(*s.low, change));
    if (!steps_.replace(me, s.parent, s.info, s.index, s.low, made.get())) return false;
    made.release();
    return true;
  }

  bool add(owner me, const spot& s, [[maybe_unused]] const Key& key, payload content) {
    typename nodes::item more{{}, content};
    if constexpr (nodes::key_in_leaf) more.key = key;
    if (s.low->size == Degree) {
      return steps_.split_leaf(me, s.parent, s.info, s.index, s.low, s.at, more);
    }
    return substitute(me, s, typename nodes::with{s.at, more});
  }

  /// Repairs violations on the way to `key` until there are none.
  ///
  /// The update has taken effect, so no exception may be thrown any more: what cannot be repaired
  /// stays until a thread rebalances on the same way. (A thread that ends may unwind through here.)
  template <class K>
  SPOLIA_NOINLINE void rebalance(guard& g, owner me, const K& key) {
    using kind = typename steps::violation::kind;
    try {
      for (;;) {
        const auto v = search_.first_violation(g, key);
        if (v.is == kind::none) return;
        if (v.is == kind::weight || v.is == kind::size) {
          steps_.repair(g, me, v);
        } else {
          clear_way(g, v.is == kind::busy ? status::busy : status::removed, v.busy_info);
        }
      }
    } catch (...) {
      let_unwinding_pass();
    }
  }

  using run = std::span<const std::pair<Key, Value>>;

  /// The pairs of a chunk: those that do not lie in leaves are copied.
  class copies {
   public:
    run of(const typename search::chunk& c, unsigned most) {
      if constexpr (nodes::value_in_leaf) {
        return {c.items.data(), c.count};
      } else {
        copied_.reserve(most);
        for (unsigned i = 0; i < c.count; ++i) {
          const auto& from = c.items[i];
          if constexpr (nodes::key_in_leaf) {
            copied_.emplace_back(from.key, from.content->value);
          } else {
            copied_.emplace_back(from.content->key, from.content->value);
          }
        }
        return copied_;
      }
    }
    /// Outside of guards: destructors of copies are the user's.
    void clear() noexcept {
      if constexpr (!nodes::value_in_leaf) copied_.clear();
    }

   private:
    struct none {};
    [[no_unique_address]] std::conditional_t<nodes::value_in_leaf, none, pairs<Key, Value>> copied_;
  };

  /// How far a scan is.
  struct scanning {
    unsigned most = search::chunk_size;  // pairs at a time
    typename search::chunk c{};
    copies all{};
    std::optional<Key> at{};
    progress<Key, std::optional<Key>, 8> way{};  // a step is one leaf
  };
  template <bool Down, class Rest, class F>
  void scan_on(Rest rest, scanning& on, F& f) const {
    for (;;) {
      run batch;
      bool last = false;
      bool within_leaf = false;
      on.all.clear();
      {
        guard g = home().enter();
        search_.template next_chunk<Down>(g, rest, on.most, on.c);
        const typename search::chunk& c = on.c;
        batch = on.all.of(c, on.most);
        within_leaf = c.more;
        last = !c.more &&
               (c.limit == nullptr || rest.template is_left_at<Down>(*c.limit, search_.less()));
        if (!c.more && !last) on.at.emplace(*c.limit);
      }
      if (within_leaf) on.at.emplace(batch.back().first);
      if (!last && !on.way.template goes_on<Down>(*on.at, search_.less())) return;
      if (!detail::map::show(batch, f) || last) return;
      auto others = rest.template beyond<Down>(*on.at);
      if constexpr (!Down) others.with_from = !within_leaf;
      if constexpr (std::is_same_v<Rest, decltype(others)>) {
        rest = others;
      } else {
        return scan_on<Down>(others, on, f);
      }
    }
  }

  /// Ends all nodes below and with `n`. As deep as the tree is high.
  void fell(typename nodes::node* n) noexcept {
    if (n->is_leaf) {
      leaf* const l = steps::as_leaf(n);
      if constexpr (!nodes::value_in_leaf) {
        for (unsigned i = 0; i < l->size; ++i) home().destroy(l->contents[i]);
      }
      home().destroy(l);
    } else {
      internal* const i = steps::as_internal(n);
      for (unsigned c = 0; c < i->size; ++c) fell(i->child(c).load_relaxed());
      home().destroy(i);
    }
  }

  internal entry_;  // its one child is the root; never removed
  steps steps_;
  search search_;
};

template <class Key, class Value, class Domain, class Compare, unsigned Degree>
struct abtree_core_for {
  using type = abtree_core<Key, Value, Domain, Compare, Degree>;
};
template <class Key, class Value, class Domain, unsigned Degree>
  requires ranks_lie_in_nodes<Key>
struct abtree_core_for<Key, Value, Domain, float_order<Key>, Degree> {
  using type = abtree_of_floats<
      Key, abtree_core<float_word<Key>, Value, Domain, std::less<float_word<Key>>, Degree>>;
};

}  // namespace detail::map

/// See the top of this file, and map/detail/face.hpp for what one can do with it.
template <class Key, class Value, class Domain = domain<>, class Compare = default_order<Key>,
          unsigned Degree = abtree_degree>
class abtree
    : private detail::map::kinds_by_order<Key, Domain, Compare>,
      public detail::map::map_face<
          typename detail::map::abtree_core_for<Key, Value, Domain, Compare, Degree>::type> {
  using face = detail::map::map_face<
      typename detail::map::abtree_core_for<Key, Value, Domain, Compare, Degree>::type>;

 public:
  using face::face;

  /// With a domain of its own, of pairs, things with `first` and `second`, whose keys ascend, in
  /// linear time. Throws std::invalid_argument if a key is not after the one before it,
  /// std::bad_alloc, and what copying and comparing throw; then there is no map, and the range is
  /// as it was.
  template <std::forward_iterator Iterator>
  abtree(sorted_unique_t /*are*/, Iterator first, Iterator last, Compare less = Compare())
      : face(std::move(less)) {
    this->core().fill(static_cast<std::size_t>(std::distance(first, last)), [&](const auto& to) {
      const auto& [key, value] = *first++;
      to(key, value);
    });
  }

  /// As range(), but calls f(run) for the pairs of one leaf after the other, which are a run of
  /// neighbours, read at one moment: a std::span of std::pair<Key, Value>, never empty. f returns
  /// false to stop.
  template <std::predicate<std::span<const std::pair<Key, Value>>> F>
    requires std::copy_constructible<Key> && std::copy_constructible<Value>
  void runs(const Key& lo, const Key& hi, F&& f) const {
    const detail::map::in_runs<std::remove_reference_t<F>> all{f};
    this->core().template scan<false>(detail::map::from_to(lo, hi), all);
  }
  /// The same in descending order.
  template <std::predicate<std::span<const std::pair<Key, Value>>> F>
    requires std::copy_constructible<Key> && std::copy_constructible<Value>
  void runs_down(const Key& lo, const Key& hi, F&& f) const {
    const detail::map::in_runs<std::remove_reference_t<F>> all{f};
    this->core().template scan<true>(detail::map::from_to(lo, hi), all);
  }

  /// The bytes of its nodes, and of the pairs that do not lie in them. Not of what pairs own, what
  /// waits in the domain to be freed, and what the allocator adds. As exact as size_approx(), and
  /// as quick.
  std::uint64_t bytes_approx() const noexcept { return this->core().bytes_approx(); }

  /// Looks the whole tree over, for tests. No thread may use the tree meanwhile.
  detail::map::abtree_findings audit() const { return this->core().audit(); }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
