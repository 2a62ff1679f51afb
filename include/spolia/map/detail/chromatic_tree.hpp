// SPDX-License-Identifier: Apache-2.0
// chromatic_tree.hpp: the operations of a snapshot_tree, on the present and at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/detail/chromatic_audit.hpp>
#include <spolia/map/detail/chromatic_nodes.hpp>
#include <spolia/map/detail/chromatic_steps.hpp>
#include <spolia/map/detail/fresh.hpp>
#include <spolia/map/size_counter.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/holdings.hpp>
#include <spolia/version/lease.hpp>
#include <spolia/version/snapshot.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

template <class Key, class Value, version_collector Collector, class Compare>
class chromatic_tree {
  using nodes = chromatic_nodes<Key, Value, Collector>;
  using steps = chromatic_steps<nodes, Collector>;
  using node = typename nodes::node;
  using internal = typename nodes::internal;
  using empty_leaf = typename nodes::empty_leaf;
  using keyed = typename nodes::keyed;
  using link = typename nodes::link;
  using kind = typename nodes::kind;
  using choice = typename nodes::choice;
  using edge = typename steps::edge;
  using view = typename steps::view;
  using making = typename steps::making;
  using owner = typename steps::owner;

 public:
  using domain_type = typename Collector::domain_type;
  using session = typename Collector::session;
  using leaf = typename nodes::leaf;

  /// Leaves to find in one session: some microseconds.
  static constexpr unsigned chunk_size = 16;
  /// Leaves that follow each other in ascending order. They stay while the snapshot does.
  struct chunk {
    unsigned count = 0;
    std::array<const leaf*, chunk_size> at{};
  };
  /// Keys from *lo on (behind it, if `open`) and in front of *hi; null: no limit.
  struct limits {
    const Key* lo = nullptr;
    const Key* hi = nullptr;
    bool open = false;
  };

  /// Throws std::bad_alloc.
  chromatic_tree(Collector& c, Compare less)
      : collector_(c),
        entry_(born(), link{c.nodes().template make<empty_leaf>(born()), 1}),
        steps_(c, entry_),
        less_(std::move(less)) {}
  chromatic_tree(const chromatic_tree&) = delete;
  chromatic_tree& operator=(const chromatic_tree&) = delete;
  ~chromatic_tree() {
    collector_.close();
    fell(steps_.follow(&entry_, 0).to());
    entry_.child(0).destroy_in(collector_.nodes());
  }

  Collector& collector() const noexcept { return collector_; }
  const Compare& less() const noexcept { return less_; }
  std::size_t size_approx() const noexcept { return size_.approx(); }

  template <bool Assign, class V>
  bool put(const Key& key, V&& value) {
    const owner me = steps_.records().me();
    size_counter::mine& size = size_.here();
    session here = enter();
    auto made = no_fresh<leaf>(collector_.nodes());
    for (;;) {
      const spot s = locate(key);
      const bool there = is_at(s, key);
      const bool found = there && pair_in(s) != nullptr;
      if (found && !Assign) return false;
      if (there && !stands(s, found)) continue;
      view p;
      if (!still_there(here, s, p)) continue;
      if (made == nullptr) {
        made = make_fresh<leaf>(collector_.nodes(), born(), key, std::forward<V>(value));
      }
      bool violation = false;
      const std::uint64_t done = there ? substitute(here, me, s, p, made.get())
                                       : add(here, me, s, p, made.get(), violation);
      if (done == 0) continue;
      made.release();
      if (!found) size.added.add(1);
      if (violation) rebalance(here, me, key);
      return !found;
    }
  }

  bool erase(const Key& key) {
    const owner me = steps_.records().me();
    size_counter::mine& size = size_.here();
    session here = enter();
    for (;;) {
      const spot s = locate(key);
      if (!is_at(s, key) || pair_in(s) == nullptr) return false;
      if (!stands(s, true) || !remove(here, me, s, key)) continue;
      size.removed.add(1);
      return true;
    }
  }

  /// The leaf of `key` as the tree is now, null if there is none. It stays while the session does.
  const leaf* find(session&, const Key& key) const {
    const spot s = locate(key);
    return is_at(s, key) ? pair_in(s) : nullptr;
  }

  /// The leaf of `key` at an instant, null if there was none. It stays while the snapshot does; at
  /// a lease, while the session does, and when that was ended snapshot_expired is thrown.
  template <class Instant>
  const leaf* find_at(session&, const Instant& then, const Key& key) const {
    node* n = top_at(then);
    while (n != nullptr && !n->is_leaf()) {
      const internal* const i = nodes::as_internal(n);
      n = at(*i, less_(key, i->key) ? 0 : 1, then);
    }
    return n != nullptr && holds(n, key) ? nodes::pair_of(n, time_of(then), time()) : nullptr;
  }

  /// The first leaves within the limits at an instant.
  template <class Instant>
  void first_at(session&, const Instant& then, const limits& within, chunk& found) const {
    found.count = 0;
    if (node* const n = top_at(then)) ascend(n, then, within, found);
  }
  /// The last ones; also in ascending order.
  void last_at(session&, std::uint64_t then, const limits& within, chunk& found) const {
    found.count = 0;
    if (node* const n = top_at(then)) descend(n, then, within, found);
    for (unsigned i = 0; i < found.count / 2; ++i) {
      std::swap(found.at[i], found.at[found.count - 1 - i]);
    }
  }

  /// What there is, and which snapshots hold it; see holdings.hpp. Nodes count like versions, since
  /// they come and go like these. Throws std::bad_alloc. Outside of sessions.
  holdings account();
  class batch_change;  // that belongs to a batch: tree_batches.hpp

  /// Nobody may use the tree meanwhile.
  chromatic_findings audit() const {
    return chromatic_auditor<nodes, Compare>(less_).look_over(
        steps_.follow(const_cast<internal*>(&entry_), 0).seen->value,
        [this](const internal& i, unsigned side) {
          return i.child(side).newest(collector_.time())->value;
        },
        [this](node* n) { return nodes::pair_of(n, batch_state::latest, time()); });
  }

 private:
  /// The end of a way: the link to the leaf, and the one above it, if that is not the entry.
  struct spot {
    edge upper;
    edge low;
  };

  session enter() const {
    session here = collector_.enter();
    collector_.prepare(here);
    return here;
  }
  auto& time() const noexcept { return collector_.time(); }
  std::uint64_t born() const noexcept { return time().earliest(); }

  spot locate(const Key& key) const {
    spot s{{}, steps_.follow(const_cast<internal*>(&entry_), 0)};
    while (!s.low.to()->is_leaf()) {
      internal* const i = nodes::as_internal(s.low.to());
      s.upper = s.low;
      s.low = steps_.follow(i, less_(key, i->key) ? 0 : 1);
    }
    return s;
  }
  bool holds(const node* n, const Key& key) const {
    if (!n->has_key()) return false;
    const Key& other = nodes::key_of(n);
    return !less_(key, other) && !less_(other, key);
  }
  /// Whether the leaf is that of the key. It may be one without a pair.
  bool is_at(const spot& s, const Key& key) const { return holds(s.low.to(), key); }
  leaf* pair_in(const spot& s) const noexcept {
    return nodes::pair_of(s.low.to(), batch_state::latest, time());
  }
  /// Whether the leaf still has a pair, or has none, as was `seen`. From now on that stays: what a
  /// batch has not got ready by now never takes effect.
  bool stands(const spot& s, bool seen) const noexcept {
    return s.low.to()->is != kind::choice || (settled_pair_in(s) != nullptr) == seen;
  }
  leaf* settled_pair_in(const spot& s) const noexcept {
    const bool open = s.low.to()->is == kind::choice && !SPOLIA_FAULT("batch.not_undone");
    if (open) nodes::as_choice(s.low.to())->batch.decide(time());
    return pair_in(s);
  }

  /// Looks at the leaf's parent; false: start over.
  bool still_there(session& here, const spot& s, view& p) noexcept {
    return steps_.look(here, s.low.at, p) && p.leads(s.low.side, s.low.to());
  }

  /// A leaf has left the tree, and its pair with it, unless that is `kept`.
  void bury(session& here, node& gone, std::uint64_t until, const leaf* kept = nullptr) noexcept {
    leaf* const pair = nodes::pair_of(&gone, batch_state::latest, time());
    if (pair != &gone) collector_.died(here, gone, until);
    if (pair != nullptr && pair != kept) collector_.died(here, *pair, until);
  }

  /// The stamp of the change; 0: start over. Likewise add().
  std::uint64_t substitute(session& here, owner me, const spot& s, const view& p, node* with,
                           const leaf* kept = nullptr) {
    const link old = p.to(s.low.side);
    const std::uint64_t until = steps_.publish(here, me, p, s.low.side, link{with, old.weight}, {});
    if (until != 0) bury(here, *old.to, until, kept);
    return until;
  }

  std::uint64_t add(session& here, owner me, const spot& s, const view& p, keyed* fresh,
                    bool& violation) {
    const link old = p.to(s.low.side);
    if (!old.to->has_key()) return substitute(here, me, s, p, fresh);
    const Key& other = nodes::key_of(old.to);
    const bool in_front = less_(fresh->key, other);
    const std::uint32_t weight = s.low.at == &entry_ ? 1 : old.weight - 1;
    making made(collector_);
    const link top = made.add(in_front ? other : fresh->key, in_front ? 0 : 1, link{fresh, 1},
                              old.weighing(1), weight);
    const std::uint64_t since = steps_.publish(here, me, p, s.low.side, top, {});
    if (since == 0) return 0;
    made.release();
    // Its parent's weight may be out of date, but not if it was above 0: see chromatic_steps.hpp.
    violation = weight > 1 || (weight == 0 && s.upper.weight() == 0);
    return since;
  }

  /// The leaf goes. False: start over.
  bool remove(session& here, owner me, const spot& s, const Key& key) {
    if (s.upper.at == nullptr) return make_empty(here, me, s);
    bool violation = false;
    if (!take_out(here, me, s, violation)) return false;
    if (violation) rebalance(here, me, key);
    return true;
  }

  /// The only leaf goes.
  bool make_empty(session& here, owner me, const spot& s) {
    view p;
    if (!still_there(here, s, p)) return false;
    auto made = make_fresh<empty_leaf>(collector_.nodes(), born());
    if (substitute(here, me, s, p, made.get()) == 0) return false;
    made.release();
    return true;
  }

  /// The leaf goes and its parent with it, and its sibling takes the parent's place.
  bool take_out(session& here, owner me, const spot& s, bool& violation) {
    view g;
    view p;
    if (!steps_.look(here, s.upper.at, g) || !g.leads(s.upper.side, s.low.at)) return false;
    if (!still_there(here, s, p)) return false;
    const link sibling = p.to(1 - s.low.side);
    const std::uint32_t weight = g.at == &entry_ ? 1 : g.to(s.upper.side).weight + sibling.weight;
    const std::uint64_t until =
        steps_.publish(here, me, g, s.upper.side, sibling.weighing(weight), {&p});
    if (until == 0) return false;
    bury(here, *s.low.to(), until);
    violation = weight > 1;
    return true;
  }

  /// Repairs violations on the way to `key` until there are none.
  ///
  /// The update has taken effect, so nothing may be thrown any more: what cannot be repaired stays
  /// until somebody rebalances on the same way.
  SPOLIA_NOINLINE void rebalance(session& here, owner me, const Key& key) noexcept {
    try {
      while (repair_one(here, me, key)) {
      }
    } catch (...) {
    }
  }
  bool repair_one(session& here, owner me, const Key& key) {
    edge upper;
    edge middle;
    edge low = steps_.follow(&entry_, 0);
    for (;;) {
      const bool red_red = low.weight() == 0 && middle.at != nullptr && middle.weight() == 0;
      if (low.weight() > 1 || red_red) {
        if (!SPOLIA_FAULT("chromatic.no_repair")) steps_.repair(here, me, upper, middle, low);
        return !SPOLIA_FAULT("chromatic.no_repair");
      }
      if (low.to()->is_leaf()) return false;
      internal* const i = nodes::as_internal(low.to());
      upper = middle;
      middle = low;
      low = steps_.follow(i, less_(key, i->key) ? 0 : 1);
    }
  }

  /// Null if the tree is younger.
  template <class Instant>
  node* top_at(const Instant& then) const {
    const link* const top = link_at(entry_, 0, then);
    return top == nullptr ? nullptr : top->to;
  }
  template <class Instant>
  node* at(const internal& i, unsigned side, const Instant& then) const {
    return link_at(i, side, then)->to;
  }
  static std::uint64_t time_of(std::uint64_t then) noexcept { return then; }
  static std::uint64_t time_of(const lease& then) noexcept { return then.timestamp(); }
  const link* link_at(const internal& i, unsigned side, std::uint64_t then) const noexcept {
    return i.child(side).at(collector_.time(), then);
  }
  /// Looks at the lease after each link: if it was ended that may be an older version, and name a
  /// node that was freed long ago.
  const link* link_at(const internal& i, unsigned side, const lease& then) const {
    return then.look([&] { return link_at(i, side, then.timestamp()); });
  }

  bool within_limits(const Key& key, const limits& l) const {
    if (l.lo != nullptr && (l.open ? !less_(*l.lo, key) : less_(key, *l.lo))) return false;
    return l.hi == nullptr || less_(key, *l.hi);
  }
  void take(node* n, std::uint64_t then, const limits& within, chunk& found) const {
    if (!n->has_key() || !within_limits(nodes::key_of(n), within)) return;
    if (const leaf* const l = nodes::pair_of(n, then, time())) found.at[found.count++] = l;
  }

  // As deep as the tree is high.
  template <class Instant>
  void ascend(node* n, const Instant& then, limits within, chunk& found) const {
    if (n->is_leaf()) return take(n, time_of(then), within, found);
    const internal* const i = nodes::as_internal(n);
    if (within.lo == nullptr || less_(*within.lo, i->key)) {
      ascend(at(*i, 0, then), then, within, found);
      if (found.count != 0) within.lo = nullptr;  // what comes is behind it
    }
    if (found.count == chunk_size) return;
    if (within.hi == nullptr || less_(i->key, *within.hi)) {
      ascend(at(*i, 1, then), then, within, found);
    }
  }
  void descend(node* n, std::uint64_t then, limits within, chunk& found) const {
    if (n->is_leaf()) return take(n, then, within, found);
    const internal* const i = nodes::as_internal(n);
    if (within.hi == nullptr || less_(i->key, *within.hi)) {
      descend(at(*i, 1, then), then, within, found);
      if (found.count != 0) within.hi = nullptr;
    }
    if (found.count == chunk_size) return;
    if (within.lo == nullptr || less_(*within.lo, i->key)) {
      descend(at(*i, 0, then), then, within, found);
    }
  }

  /// Counts a link and all that hangs on it at a snapshot's time. A session for each link: what the
  /// snapshot sees stays in between.
  void weigh(const internal& i, unsigned side, std::uint64_t then, holdings& all,
             holdings_sum& sum) const;

  /// Ends all nodes below and with `n`. As deep as the tree is high.
  void fell(node* n) noexcept {
    if (!n->is_leaf()) {
      for (unsigned side = 0; side < 2; ++side) {
        fell(steps_.follow(nodes::as_internal(n), side).to());
      }
    } else if (leaf* const l = nodes::pair_of(n, batch_state::latest, time());
               l != nullptr && l != n) {
      l->destroy_in(collector_.nodes());
    }
    n->destroy_in(collector_.nodes());
  }

  Collector& collector_;
  internal entry_;  // its one child is the root; never removed
  steps steps_;
  Compare less_;
  size_counter size_;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
