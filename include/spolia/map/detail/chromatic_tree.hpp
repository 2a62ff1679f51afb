// SPDX-License-Identifier: Apache-2.0
// chromatic_tree.hpp: the operations of a snapshot_tree, on the present and at a time. Batches and
// the account of versions are in chromatic_tree_impl.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/life.hpp>
#include <spolia/base/unwind.hpp>
#include <spolia/map/detail/chromatic_audit.hpp>
#include <spolia/map/detail/chromatic_leaves.hpp>
#include <spolia/map/detail/chromatic_nodes.hpp>
#include <spolia/map/detail/chromatic_past.hpp>
#include <spolia/map/detail/chromatic_shortcuts.hpp>
#include <spolia/map/detail/chromatic_sorted.hpp>
#include <spolia/map/detail/chromatic_steps.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/detail/size_counter.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/holdings.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Key, class Value, version_collector Collector, class Compare,
          std::size_t Capacity = usual_leaf_pairs<Key, Value>,
          std::size_t Shortcuts = usual_shortcuts<Key>>
class chromatic_tree {
  using nodes = chromatic_nodes<Key, Value, Collector, Capacity>;
  using steps = chromatic_steps<nodes, Collector>;
  using leaves = chromatic_leaves<nodes, Collector, Compare>;
  using shortcuts = chromatic_shortcuts<nodes, Collector, Compare, Shortcuts>;
  using node = typename nodes::node;
  using internal = typename nodes::internal;
  using leaf = typename nodes::leaf;
  using pairs = typename leaf::pairs;
  using link = typename nodes::link;
  using edge = typename steps::edge;
  using view = typename steps::view;
  using making = typename steps::making;
  using owner = typename steps::owner;
  using place = typename leaves::place;
  using edit = typename leaves::edit;
  using content = typename leaves::content;

 public:
  using domain_type = typename Collector::domain_type;
  using session = typename Collector::session;
  using pair = typename nodes::pair;
  using past = chromatic_past<nodes, Collector, Compare, shortcuts>;

  /// Throws std::bad_alloc.
  chromatic_tree(Collector& c, Compare less)
      : collector_(c),
        less_(std::move(less)),
        leaves_(c, less_),
        entry_(born(), link{leaves_.make({}).release(), 1, true}),
        steps_(c, entry_),
        shortcuts_(c, entry_, less_),
        past_(c, entry_, less_, leaves_, shortcuts_) {}
  chromatic_tree(const chromatic_tree&) = delete;
  chromatic_tree& operator=(const chromatic_tree&) = delete;
  ~chromatic_tree() {
    collector_.close();
    shortcuts_.clear();
    fell(steps_.follow(&entry_, 0).to());
    entry_.child(0).destroy_in(collector_.nodes());
  }

  Collector& collector() const noexcept { return collector_; }
  const Compare& less() const noexcept { return less_; }
  const life& alive() const noexcept { return alive_; }
  std::size_t size_approx() const noexcept { return size_.approx(); }

  /// While it is empty and no other thread knows it: n pairs; next(f) calls f(key, value) of the
  /// next one. Snapshots that were taken before do not see them. Throws std::invalid_argument if
  /// they do not ascend, std::bad_alloc, and what copying and comparing throw; then it is empty.
  template <class Next>
  void fill(std::size_t n, const Next& next) {
    if (n == 0) return;
    chromatic_sorted<nodes, Collector, leaves, Compare> made(collector_, leaves_, less_);
    const link top = made.tree(n, next);
    session here = collector_.enter();
    const auto [me, size] = prepare(here);
    view p;
    std::uint64_t since = 0;
    while (since == 0) {
      if (steps_.look(here, &entry_, p)) since = steps_.publish(here, me, p, 0, top, {});
    }
    made.release();
    collector_.died(here, *p.to(0).to, since);
    size->added.add(n);
    shortcuts_.renew(here);
  }

  /// With a value seen: true if the key still had that one, and has this one now.
  template <bool Assign, class K, class V, class... Seen>
  bool put(const K& key, V&& value, const Seen&... was) {
    constexpr bool only_for_seen = sizeof...(Seen) != 0;
    session here = collector_.enter();
    std::optional<pair> fresh;
    for (;;) {
      const spot s = locate(key);
      const place now = leaves_.find(s.current(time()), key);
      if (now.found ? !Assign || !(was.is(*now.get()) && ...) : only_for_seen) return false;
      const auto [me, size] = prepare(here);
      view p;
      if (!s.stands(now.in, time()) || !still_there(here, s, p)) continue;
      if (!fresh) {
        const Key* const there = now.found ? std::addressof(now.get()->key()) : nullptr;
        const Key& stays = key_there_or<only_for_seen, Key>(there, key);
        fresh.emplace(pair::make(0, stays, std::forward<V>(value)));
      }
      bool violation = false;
      if (replace(here, me, s, p, {.after = now.changed(&*fresh)}, violation) == 0) continue;
      if (!now.found) size->added.add(1);
      if (violation) rebalance(here, me, key);
      return only_for_seen || !now.found;
    }
  }

  template <class K, class... Seen>
  bool erase(const K& key, const Seen&... was) {
    session here = collector_.enter();
    for (bool whole_way = false;;) {
      const spot s = whole_way ? locate(key, top_edge()) : locate(key);
      const place now = leaves_.find(s.current(time()), key);
      if (!now.found || !(was.is(*now.get()) && ...)) return false;
      const auto [me, size] = prepare(here);
      if (!s.stands(now.in, time())) continue;
      const shrunk done = shrink(here, me, s, now.changed(nullptr), key, size);
      whole_way = done == shrunk::wants_whole_way;
      if (done == shrunk::yes) return true;
    }
  }

  /// The pair of `key` as the tree is now, null if there is none. It stays while the session does.
  template <class K>
  SPOLIA_ALWAYS_INLINE const pair* find(session&, const K& key) const {
    edge low = first_edge(key);
    while (!low.to_leaf()) low = next_edge(low, key);
    nodes::as_leaf(low.to())->prefetch();
    return leaves_.find(nodes::as_leaf(low.to())->current(time()), key).get();
  }

  /// Lets go of removed routers at which searches might begin. Throws std::bad_alloc. Outside of
  /// sessions.
  void renew_shortcuts() {
    session here = enter();
    shortcuts_.renew(here);
  }

  /// As it was at a snapshot, or a lease.
  const past& at_instants() const noexcept { return past_; }

  /// What there is, and which snapshots hold it; see holdings.hpp. Nodes count like versions, since
  /// they come and go like these. Throws std::bad_alloc. Outside of sessions.
  holdings account();
  class batch_change;  // a change that belongs to a batch
  // What a batch expects of a key, and of a range: chromatic_conditions.hpp.
  class batch_condition;
  class batch_range;

  /// No other thread may use the tree meanwhile.
  chromatic_findings audit() const {
    return chromatic_auditor<nodes, Compare>(less_).look_over(
        steps_.follow(const_cast<internal*>(&entry_), 0).seen->value,
        [this](const internal& i, unsigned side) {
          return i.child(side).newest(collector_.time())->value;
        },
        [this](node* n) { return nodes::as_leaf(n)->current(time()); });
  }

 private:
  class batch_reliance;

  /// The end of a way: the link to the leaf, and the one above it. That is not there if the leaf
  /// hangs on the entry, or if the way began at the leaf's parent.
  struct spot {
    edge upper;
    edge low;
    [[nodiscard]] const leaf& at() const noexcept { return *nodes::as_leaf(low.to()); }
    template <class Timeline>
    [[nodiscard]] pairs current(Timeline& time) const noexcept {
      return at().current(time);
    }
    template <class Timeline>
    [[nodiscard]] bool stands(pairs seen, Timeline& time) const noexcept {
      return at().stands(seen, time);
    }
  };

  /// What a change needs on top of its nodes, taken before anything takes effect: a call that finds
  /// nothing to change pays for a look-up only.
  struct ready {
    owner me;
    size_counter::mine* size;
  };
  /// Throws std::bad_alloc.
  ready prepare(session& here) {
    const ready all{steps_.records().me(), &size_.here()};
    collector_.prepare(here);
    return all;
  }
  session enter() const {
    session here = collector_.enter();
    collector_.prepare(here);
    return here;
  }
  auto& time() const noexcept { return collector_.time(); }
  std::uint64_t born() const noexcept { return time().earliest(); }

  template <class K>
  edge next_edge(const edge& from, const K& key) const {
    internal* const i = nodes::as_internal(from.to());
    return follow(i, less_(key, i->key) ? 0 : 1);
  }
  edge follow(internal* i, unsigned side) const {
    i->prefetch(side);
    return steps_.follow(i, side);
  }
  edge top_edge() const { return steps_.follow(const_cast<internal*>(&entry_), 0); }
  /// On the way to a key: the first, or one from which on the way is as from the first.
  template <class K>
  edge first_edge(const K& key) const {
    internal* const i = shortcuts_.nearest(key);
    return i == nullptr ? top_edge() : follow(i, less_(key, i->key) ? 0 : 1);
  }

  template <class K>
  spot locate(const K& key) const {
    return locate(key, first_edge(key));
  }
  template <class K>
  spot locate(const K& key, const edge& from) const {
    spot s{{}, from};
    while (!s.low.to_leaf()) {
      s.upper = s.low;
      s.low = next_edge(s.low, key);
    }
    s.at().prefetch();
    return s;
  }
  /// Looks at the leaf's parent; false: start over.
  bool still_there(session& here, const spot& s, view& p) noexcept {
    return steps_.look(here, s.low.at, p) && p.leads(s.low.side, s.low.to());
  }

  /// Puts a leaf with that content in the place of the one at s, or a router and two. The stamp of
  /// the change; 0: start over. Likewise fold().
  std::uint64_t replace(session& here, owner me, const spot& s, const view& p, const content& c,
                        bool& violation) {
    if (c.most() > Capacity) return divide(here, me, s, p, c, violation);
    return put_leaf(here, me, s, p, leaves_.make(c));
  }
  std::uint64_t put_leaf(session& here, owner me, const spot& s, const view& p,
                         typename leaves::fresh made) {
    const link old = p.to(s.low.side);
    const std::uint64_t until =
        steps_.publish(here, me, p, s.low.side, link{made.get(), old.weight, true}, {});
    if (until == 0) return 0;
    made.release();
    collector_.died(here, *old.to, until);
    return until;
  }

  std::uint64_t divide(session& here, owner me, const spot& s, const view& p, const content& c,
                       bool& violation) {
    const link old = p.to(s.low.side);
    auto both = leaves_.divide(c);
    const std::uint32_t weight = s.low.at == &entry_ ? 1 : old.weight - 1;
    making made(collector_);
    const link top = made.add(both.middle, 0, link{both.low.get(), 1, true},
                              link{both.high.get(), 1, true}, weight);
    const std::uint64_t until = steps_.publish(here, me, p, s.low.side, top, {});
    if (until == 0) return 0;
    made.release();
    both.low.release();
    both.high.release();
    collector_.died(here, *old.to, until);
    // Its parent's weight may be out of date, but not if it was above 0: see chromatic_steps.hpp.
    // Where the parent's link is not known, this thread has to look.
    violation = weight > 1 || (weight == 0 && (s.upper.at == nullptr || s.upper.weight() == 0));
    shortcuts_.changed(here);
    return until;
  }

  enum class shrunk : std::uint8_t {
    yes,
    no,               // start over
    wants_whole_way,  // start over, from the top
  };
  /// Some pair of the leaf goes, and is counted unless `size` is null: `left` are the others.
  template <class K>
  shrunk shrink(session& here, owner me, const spot& s, const edit& left, const K& key,
                size_counter::mine* size) {
    view p;
    if (!still_there(here, s, p)) return shrunk::no;
    bool violation = false;
    const bool goes = folds(s, p, left);
    if (goes && s.upper.at == nullptr) return shrunk::wants_whole_way;
    const std::uint64_t done = goes ? fold(here, me, s, p, left, violation)
                                    : replace(here, me, s, p, {.after = left}, violation);
    if (done == 0) return shrunk::no;
    if (size != nullptr) size->removed.add(1);
    if (violation) rebalance(here, me, key);
    return shrunk::yes;
  }

  /// Whether the leaf at s is to go, with what is left of it in its sibling: because nothing is, or
  /// because both fill three quarters of one at most. (Where the sibling is a router, or in the
  /// midst of a batch, a leaf may stay that has few pairs.)
  bool folds(const spot& s, const view& p, const edit& left) const noexcept {
    if (s.low.at == &entry_ || left.size() > Capacity * 3 / 8) return false;
    if (left.size() == 0) return true;
    node* const other = p.to(1 - s.low.side).to;
    if (!other->is_leaf()) return false;
    const leaf& l = *nodes::as_leaf(other);
    const pairs its = l.current(time());
    if (left.size() + its.size() > Capacity * 3 / 4) return false;
    if (l.batch.is_none() || SPOLIA_FAULT("chromatic.folds_into_a_batch")) return true;
    return l.batch.is_decided() && l.stands(its, time());
  }

  /// The leaf goes and its parent with it. Its sibling takes the parent's place, or a leaf with the
  /// pairs of both.
  std::uint64_t fold(session& here, owner me, const spot& s, const view& p, const edit& left,
                     bool& violation) {
    view g;
    if (!steps_.look(here, s.upper.at, g) || !g.leads(s.upper.side, s.low.at)) return 0;
    const link sibling = p.to(1 - s.low.side);
    typename leaves::fresh both;
    if (left.size() != 0) {
      const edit its{.from = nodes::as_leaf(sibling.to)->current(time())};
      both = s.low.side == 0 ? leaves_.join(left, its) : leaves_.join(its, left);
    }
    const std::uint32_t weight = g.at == &entry_ ? 1 : g.to(s.upper.side).weight + sibling.weight;
    const link top = both != nullptr ? link{both.get(), weight, true} : sibling.weighing(weight);
    const std::uint64_t until = steps_.publish(here, me, g, s.upper.side, top, {&p});
    if (until == 0) return 0;
    collector_.died(here, *s.low.to(), until);
    if (both.release() != nullptr) collector_.died(here, *sibling.to, until);
    violation = weight > 1;
    shortcuts_.changed(here);
    return until;
  }

  /// Repairs violations on the way to `key` until there are none.
  ///
  /// The update has taken effect, so no exception may be thrown any more: what cannot be repaired
  /// stays until a thread rebalances on the same way. (A thread that ends may unwind through here.)
  template <class K>
  SPOLIA_NOINLINE void rebalance(session& here, owner me, const K& key) {
    try {
      while (repair_one(here, me, key)) {
      }
    } catch (...) {
      let_unwinding_pass();
    }
  }
  template <class K>
  bool repair_one(session& here, owner me, const K& key) {
    edge upper;
    edge middle;
    edge low = steps_.follow(&entry_, 0);
    for (;;) {
      const bool red_red = low.weight() == 0 && middle.at != nullptr && middle.weight() == 0;
      if (low.weight() > 1 || red_red) {
        if (!SPOLIA_FAULT("chromatic.no_repair")) steps_.repair(here, me, upper, middle, low);
        return !SPOLIA_FAULT("chromatic.no_repair");
      }
      if (low.to_leaf()) return false;
      internal* const i = nodes::as_internal(low.to());
      upper = middle;
      middle = low;
      low = steps_.follow(i, less_(key, i->key) ? 0 : 1);
    }
  }

  /// Counts a link and all that hangs on it at a snapshot's time. A session for each link: what the
  /// snapshot sees stays in between.
  void weigh(const internal& i, unsigned side, std::uint64_t then, holdings& all,
             detail::version::holdings_sum& sum) const;

  /// Ends all nodes below and with `n`. As deep as the tree is high.
  void fell(node* n) noexcept {
    if (!n->is_leaf()) {
      for (unsigned side = 0; side < 2; ++side) {
        fell(steps_.follow(nodes::as_internal(n), side).to());
      }
    }
    n->destroy_in(collector_.nodes());
  }

  Collector& collector_;
  Compare less_;
  leaves leaves_;
  internal entry_;  // its one child is the root; never removed
  steps steps_;
  shortcuts shortcuts_;
  past past_;
  size_counter size_;
  [[no_unique_address]] life alive_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/map/detail/chromatic_tree_impl.hpp>
