// SPDX-License-Identifier: Apache-2.0
// chromatic_steps.hpp: the rebalancing steps of a chromatic tree, each for both directions at once,
// and how changes are published.
//
// Source:     Brown, Ellen, Ruppert: A general technique for non-blocking trees, PPoPP 2014; the
//             steps are those of Boyar, Fagerberg, Larsen (BLK, RB1, RB2, PUSH, W1 to W7).
// Invariant:  all ways from the root to a leaf have the same sum of weights; leaves weigh at least
//             1, and the root weighs 1.
// Violations: a red node below a red one; a node that weighs more than 1. Each is on the way to the
//             key of some update that has not returned. A step takes one away, or moves it up, and
//             makes no other.
// A step reads the links of a few nodes, after llx() of each; builds nodes that take their places;
//   and publishes them by one change of a link in the node above, which removes them. No thread
//   can have changed any link that it has read.
//
// Departure from the papers: a node's weight belongs to the link that leads to it. So a node that
//   only gets heavier, or keeps a weight above 0, is not replaced; in particular leaves never are,
//   and values are never copied. A node that becomes red is replaced, since the step relies on its
//   children not being red: a thread that reads that a node is not red may rely on it for as long
//   as that node is in the tree.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/chromatic_nodes.hpp>
#include <spolia/map/detail/scx.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Nodes, class Collector>
class chromatic_steps {
 public:
  using node = typename Nodes::node;
  using internal = typename Nodes::internal;
  using link = typename Nodes::link;
  using version = typename internal::version;
  using session = typename Collector::session;
  using tree_scx = scx<internal, 5>;
  using owner = typename tree_scx::owner;

  /// A link: in which node, on which side, and what it was.
  struct edge {
    internal* at = nullptr;
    unsigned side = 0;
    version* seen = nullptr;
    [[nodiscard]] node* to() const noexcept { return seen->value.to; }
    [[nodiscard]] bool to_leaf() const noexcept { return seen->value.to_leaf; }
    [[nodiscard]] std::uint32_t weight() const noexcept { return seen->value.weight; }
  };
  /// A node whose links a change relies on.
  struct view {
    internal* at = nullptr;
    std::uint64_t info = 0;
    std::array<version*, 2> seen{};
    [[nodiscard]] const link& to(unsigned side) const noexcept { return seen[side]->value; }
    [[nodiscard]] bool leads(unsigned side, const node* n) const noexcept {
      return to(side).to == n;
    }
  };

  chromatic_steps(Collector& c, internal& entry) noexcept : collector_(c), entry_(entry) {}

  tree_scx& records() noexcept { return scx_; }

  edge follow(internal* at, unsigned side) const noexcept {
    return {at, side, at->child(side).newest(collector_.time())};
  }

  /// Looks at a node; false: start over. Finishes what is under way there.
  bool look(session& here, node* n, view& v) noexcept {
    if (n->is_leaf()) return false;  // the caller's view was of different moments
    v.at = Nodes::as_internal(n);
    const auto seen = scx_.llx(*v.at);
    if (!seen) {
      if (seen.is == tree_scx::view::status::busy) scx_.help(here.guard(), seen.info);
      return false;
    }
    v.info = seen.info;
    for (unsigned side = 0; side < 2; ++side) v.seen[side] = follow(v.at, side).seen;
    return true;
  }

  /// Puts `fresh` in the place of the link of `top` on that side, and removes the given nodes, of
  /// which each hangs on the one before and the first on that link. False: nothing has changed. The
  /// stamp of the change is what removed leaves died at.
  std::uint64_t publish(session& here, owner me, const view& top, unsigned side, link fresh,
                        std::initializer_list<const view*> removed) {
    version* const old = top.seen[side];
    version* const next = top.at->child(side).make(collector_, *top.at, old, fresh);
    if (top.at->hold()) {
      if (scx_.attempt(me, change_of(top, side, old, next, removed))) {
        top.at->expect(side, fresh);
        top.at->child(side).ended(here, old, next);
        // relaxed: its stamp has been set.
        const std::uint64_t until = next->since.load_relaxed();
        for (const view* v : removed) collector_.died(here, *v->at, until);
        return until;
      }
      collector_.let_go(here, *top.at);
    }
    next->destroy_in(collector_.nodes());
    return 0;
  }

  /// Nodes that no other thread has seen: destroyed, unless released.
  class making {
   public:
    explicit making(Collector& c) noexcept : collector_(c), born_(c.time().earliest()) {}
    making(const making&) = delete;
    making& operator=(const making&) = delete;
    ~making() {
      while (count_ != 0) collector_.nodes().destroy(made_[--count_]);
    }
    /// A node with `near` on the side d and `far` on the other one.
    template <class Key>
    link add(const Key& key, unsigned d, link nearer, link farther, std::uint32_t weight) {
      made_[count_] = collector_.nodes().template make<internal>(
          born_, key, d == 0 ? nearer : farther, d == 0 ? farther : nearer);
      return {made_[count_++], weight, false};
    }
    void release() noexcept { count_ = 0; }

   private:
    Collector& collector_;
    const std::uint64_t born_;
    std::array<internal*, 4> made_{};
    unsigned count_ = 0;
  };

  /// Repairs the violation at the end of the way `upper`, `middle`, `low`, or moves it up; or finds
  /// that something has changed. May throw; then nothing has changed.
  void repair(session& here, owner me, const edge& upper, const edge& middle, const edge& low) {
    if (low.weight() > 1) {
      lighten(here, me, upper, middle, low);
    } else {
      blacken(here, me, upper, middle, low.side);
    }
  }

 private:
  using change = typename tree_scx::change;

  static change change_of(const view& top, unsigned side, version* old, version* fresh,
                          std::initializer_list<const view*> removed) noexcept {
    change c;
    c.count = 1;
    c.v[0] = top.at;
    c.seen[0] = top.info;
    for (const view* v : removed) {
      c.v[c.count] = v->at;
      c.seen[c.count++] = v->info;
    }
    c.index = side;
    c.old = old;
    c.fresh = fresh;
    return c;
  }

  /// The root weighs 1, whatever it would weigh.
  std::uint32_t weight_below(const view& top, std::uint32_t weight) const noexcept {
    return top.at == &entry_ ? 1 : weight;
  }

  void finish(session& here, owner me, making& made, const view& top, unsigned side, link fresh,
              std::initializer_list<const view*> removed) {
    if (publish(here, me, top, side, fresh, removed) != 0) made.release();
  }

  /// Two reds in a row: `middle` leads to the upper one, whose child on side `low` is the other.
  void blacken(session& here, owner me, const edge& upper, const edge& middle, unsigned low) {
    view t;
    view g;
    view p;
    const unsigned d = middle.side;
    if (upper.at == nullptr || !look(here, upper.at, t) || !t.leads(upper.side, middle.at)) return;
    if (!look(here, middle.at, g) || !look(here, g.to(d).to, p)) return;
    const std::uint32_t weight = t.to(upper.side).weight;
    if (weight == 0 || g.to(d).weight != 0 || p.to(low).weight != 0) return;
    const link c = g.to(1 - d);
    making made(collector_);
    if (c.weight == 0) {  // BLK
      const link top =
          made.add(g.at->key, d, g.to(d).weighing(1), c.weighing(1), weight_below(t, weight - 1));
      return finish(here, me, made, t, upper.side, top, {&g});
    }
    if (low == d) {  // RB1
      const link down = made.add(g.at->key, d, p.to(1 - d), c, 0);
      const link top = made.add(p.at->key, d, p.to(d), down, weight);
      return finish(here, me, made, t, upper.side, top, {&g, &p});
    }
    view n;  // RB2
    if (!look(here, p.to(low).to, n)) return;
    const link nearer = made.add(p.at->key, d, p.to(d), n.to(d), 0);
    const link farther = made.add(g.at->key, d, n.to(1 - d), c, 0);
    const link top = made.add(n.at->key, d, nearer, farther, weight);
    finish(here, me, made, t, upper.side, top, {&g, &p, &n});
  }

  /// What a step for an overweight node has read. Names as in the papers: n, the node; s, its
  /// sibling; `near` and `far`: the sibling's children, seen from n.
  struct heavy {
    view g;
    view p;
    view s;
    unsigned up = 0;           // side of p in g
    unsigned d = 0;            // side of n in p
    std::uint32_t weight = 0;  // of p
    [[nodiscard]] link n() const noexcept { return p.to(d); }
    [[nodiscard]] link lighter() const noexcept { return n().weighing(n().weight - 1); }
    [[nodiscard]] link nearer() const noexcept { return s.to(d); }
    [[nodiscard]] link farther() const noexcept { return s.to(1 - d); }
  };

  void lighten(session& here, owner me, const edge& upper, const edge& middle, const edge& low) {
    heavy h;
    h.up = middle.side;
    h.d = low.side;
    if (!look(here, middle.at, h.g) || !h.g.leads(h.up, low.at)) return;
    if (!look(here, low.at, h.p) || h.n().weight < 2) return;
    h.weight = h.g.to(h.up).weight;
    const link s = h.p.to(1 - h.d);
    if (s.weight > 1) {  // W7
      making made(collector_);
      const link top = made.add(h.p.at->key, h.d, h.lighter(), s.weighing(s.weight - 1),
                                weight_below(h.g, h.weight + 1));
      return finish(here, me, made, h.g, h.up, top, {&h.p});
    }
    if (s.weight == 0 && h.weight == 0) return blacken(here, me, upper, middle, 1 - h.d);
    if (!look(here, s.to, h.s)) return;
    if (s.weight == 0) {
      below_red_sibling(here, me, h);
    } else {
      below_black_sibling(here, me, h);
    }
  }

  void below_red_sibling(session& here, owner me, const heavy& h) {
    const unsigned d = h.d;
    making made(collector_);
    if (h.nearer().weight > 1) {  // W1
      const link low =
          made.add(h.p.at->key, d, h.lighter(), h.nearer().weighing(h.nearer().weight - 1), 1);
      const link top = made.add(h.s.at->key, d, low, h.farther(), h.weight);
      return finish(here, me, made, h.g, h.up, top, {&h.p, &h.s});
    }
    view l;
    if (!look(here, h.nearer().to, l)) return;
    const link a = l.to(d);
    const link b = l.to(1 - d);
    if (h.nearer().weight == 0) {  // RB2
      const link nearer = made.add(h.p.at->key, d, h.n(), a, 0);
      const link farther = made.add(h.s.at->key, d, b, h.farther(), 0);
      const link top = made.add(l.at->key, d, nearer, farther, h.weight);
      return finish(here, me, made, h.g, h.up, top, {&h.p, &h.s, &l});
    }
    if (b.weight == 0) {  // W4
      const link nearer = made.add(h.p.at->key, d, h.lighter(), a, 1);
      const link farther = made.add(h.s.at->key, d, b.weighing(1), h.farther(), 0);
      const link top = made.add(l.at->key, d, nearer, farther, h.weight);
      return finish(here, me, made, h.g, h.up, top, {&h.p, &h.s, &l});
    }
    if (a.weight == 0) {  // W3
      view in;
      if (!look(here, a.to, in)) return;
      const link nearer = made.add(h.p.at->key, d, h.lighter(), in.to(d), 1);
      const link farther = made.add(l.at->key, d, in.to(1 - d), b, 1);
      const link low = made.add(in.at->key, d, nearer, farther, 0);
      const link top = made.add(h.s.at->key, d, low, h.farther(), h.weight);
      return finish(here, me, made, h.g, h.up, top, {&h.p, &h.s, &l, &in});
    }
    const link red = made.add(l.at->key, d, a, b, 0);  // W2
    const link low = made.add(h.p.at->key, d, h.lighter(), red, 1);
    const link top = made.add(h.s.at->key, d, low, h.farther(), h.weight);
    finish(here, me, made, h.g, h.up, top, {&h.p, &h.s, &l});
  }

  void below_black_sibling(session& here, owner me, const heavy& h) {
    const unsigned d = h.d;
    making made(collector_);
    if (h.farther().weight == 0) {  // W5
      const link low = made.add(h.p.at->key, d, h.lighter(), h.nearer(), 1);
      const link top = made.add(h.s.at->key, d, low, h.farther().weighing(1), h.weight);
      return finish(here, me, made, h.g, h.up, top, {&h.p, &h.s});
    }
    if (h.nearer().weight == 0) {  // W6
      view l;
      if (!look(here, h.nearer().to, l)) return;
      const link nearer = made.add(h.p.at->key, d, h.lighter(), l.to(d), 1);
      const link farther = made.add(h.s.at->key, d, l.to(1 - d), h.farther(), 1);
      const link top = made.add(l.at->key, d, nearer, farther, h.weight);
      return finish(here, me, made, h.g, h.up, top, {&h.p, &h.s, &l});
    }
    const link red = made.add(h.s.at->key, d, h.nearer(), h.farther(), 0);  // PUSH
    const link top = made.add(h.p.at->key, d, h.lighter(), red, weight_below(h.g, h.weight + 1));
    finish(here, me, made, h.g, h.up, top, {&h.p, &h.s});
  }

  Collector& collector_;
  internal& entry_;
  tree_scx scx_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
