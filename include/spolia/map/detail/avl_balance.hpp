// SPDX-License-Identifier: Apache-2.0
// avl_balance.hpp: what keeps an avl tree low: heights, rotations, and the unlinking of nodes that
// hold no value and are not needed to route.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Damage is what judge() finds. A thread that makes damage at a node has it repaired, and so has
/// one that repairs damage and makes some elsewhere. That none is forgotten rests on this: a node
/// is judged under its lock, and after a change of a child's height, by the thread that changed it.
/// Of two children that change at the same time, the later judge sees both.
template <class Nodes, class Domain>
class avl_balance {
  using joint = typename Nodes::joint;
  using node = typename Nodes::node;
  using guard = typename Domain::guard;

 public:
  enum class damage : std::uint8_t { none, height, unlinkable, unbalanced };

  /// A lock's holder is on its way through a few instructions, unless it was stopped. Waiting
  /// inside a guard is bounded: after so many rounds, the last twenty of which sleep (15 ms in
  /// all), the damage is left to the thread that comes there next.
  static constexpr int patience = 220;

  explicit avl_balance(joint& entry) : entry_(entry) {}

  static std::int32_t height_of(const node* n) noexcept {
    return n == nullptr ? 0 : n->height.load_relaxed();
  }

  /// What is wrong at a node whose lock we hold.
  static damage judge(const node& n) noexcept {
    const node* const left = n.child[0].load_relaxed();
    const node* const right = n.child[1].load_relaxed();
    if ((left == nullptr || right == nullptr) && !n.value.is_there()) return damage::unlinkable;
    const std::int32_t l = height_of(left);
    const std::int32_t r = height_of(right);
    if (l - r > 1 || r - l > 1) return damage::unbalanced;
    return n.height.load_relaxed() == 1 + (std::max)(l, r) ? damage::none : damage::height;
  }

  /// Repairs `at`, and what follows from that, until nothing is left.
  void settle(guard& g, joint* at) noexcept {
    const node* below = nullptr;  // its height has changed: so we check its parent
    for (;;) {
      if (!lock(*at)) return;
      const bool moved = below != nullptr && below->parent.load_relaxed() != at;
      if (moved && !SPOLIA_FAULT("avl.no_parent_check")) {
        // It was moved meanwhile, by the thread that holds both parents' locks. Maybe before it was
        // as high as it is now: so look at the new parent.
        at->unlock();
        at = below->parent_of();
        continue;
      }
      if (at == &entry_ || at->is_unlinked()) return at->unlock();
      node* const n = static_cast<node*>(at);
      const damage d = judge(*n);
      if (d == damage::height) set_height(*n);
      n->unlock();
      if (d == damage::none) return;
      if (d == damage::height) {
        below = n;
        at = n->parent_of();
        continue;
      }
      below = nullptr;
      joint* const p = n->parent_of();
      if (!lock(*p)) return;
      if (n->parent.load_relaxed() != p) {
        p->unlock();
        continue;
      }
      const list rest = mend(g, *p, *n);
      if (rest.count == 0) return;
      for (unsigned i = 0; i + 1 < rest.count; ++i) settle(g, rest.at[i]);
      at = rest.at[rest.count - 1];
    }
  }

 private:
  /// Nodes to be repaired, lower ones first.
  struct list {
    unsigned count = 0;
    std::array<joint*, 4> at{};
    void add(joint* j) noexcept { at[count++] = j; }
    void add_if_damaged(node& n) noexcept {
      if (judge(n) != damage::none) add(&n);
    }
  };

  static bool lock(joint& j) noexcept {
    backoff pause;
    for (int round = 0; !j.try_lock(); ++round) {
      if (round == patience) return false;
      pause.pause();
    }
    return true;
  }

  static void set_height(node& n) noexcept {
    n.height.store_relaxed(
        1 + (std::max)(height_of(n.child[0].load_relaxed()), height_of(n.child[1].load_relaxed())));
  }

  /// Unlinks n, or rotates it down. The lock of p, n's parent, is held, and let go here.
  list mend(guard& g, joint& p, node& n) noexcept {
    list rest;
    if (!lock(n)) {
      p.unlock();
      return rest;
    }
    const damage d = n.is_unlinked() ? damage::none : judge(n);
    if (d == damage::height) set_height(n);
    if (d == damage::unlinkable) splice(p, n);
    if (d == damage::unbalanced) {
      rotate(p, n, rest);
    } else if (d != damage::none) {
      rest.add(&p);
    }
    n.unlock();
    p.unlock();
    if (d == damage::unlinkable) g.retire(&n);
    return rest;
  }

  static void splice(joint& p, node& n) noexcept {
    node* const left = n.child[0].load_relaxed();
    node* const only = left != nullptr ? left : n.child[1].load_relaxed();
    if (only != nullptr) only->hang_under(&p);
    p.lead(p.side_of(&n), only);
    n.unlink();
  }

  /// Both locks are held; n is too high on one side.
  void rotate(joint& p, node& n, list& rest) noexcept {
    const unsigned heavy =
        height_of(n.child[0].load_relaxed()) > height_of(n.child[1].load_relaxed()) ? 0 : 1;
    node& c = *n.child[heavy].load_relaxed();
    if (!lock(c)) return;
    node* const inner = c.child[1 - heavy].load_relaxed();
    const std::int32_t light = height_of(n.child[1 - heavy].load_relaxed());
    const std::int32_t outer = height_of(c.child[heavy].load_relaxed());
    if (c.height.load_relaxed() - light <= 1) {
      rest.add(&n);  // it was no more than a height that had not been set yet
    } else if (outer >= height_of(inner)) {
      rotate_once(p, n, c, heavy, rest);
    } else if (lock(*inner)) {
      const std::int32_t between = height_of(inner->child[heavy].load_relaxed());
      if (outer >= inner->height.load_relaxed()) {
        rotate_once(p, n, c, heavy, rest);
      } else if (outer - between <= 1 && between - outer <= 1) {
        rotate_twice(p, n, c, *inner, heavy, rest);
      } else {
        // c would come out unbalanced. It is already, or else `inner` is: that first.
        rest.add(outer > between ? inner : &c);
        rest.add(&n);
      }
      inner->unlock();
    }
    c.unlock();
  }

  /// c comes up, n goes down, and what lay between them goes from c to n. n's range gets smaller.
  ///
  /// The order of the links: n's new child first, so that n under c makes no circle; the link from
  /// above last, so that no thread comes to c, whose range has grown, before n hangs there.
  void rotate_once(joint& p, node& n, node& c, unsigned heavy, list& rest) noexcept {
    node* const inner = c.child[1 - heavy].load_relaxed();
    n.begin_shrink();
    if (SPOLIA_FAULT("avl.parent_first")) p.lead(p.side_of(&n), &c);
    move(inner, n, heavy);
    const unsigned side = SPOLIA_FAULT("avl.parent_first") ? p.side_of(&c) : p.side_of(&n);
    move(&n, c, 1 - heavy);
    move(&c, p, side);
    set_height(n);
    set_height(c);
    n.end_shrink();
    rest.add_if_damaged(n);
    rest.add_if_damaged(c);
    add_parent(p, rest);
  }

  /// `inner` comes up between n and c, whose ranges get smaller; each gets one of its children.
  void rotate_twice(joint& p, node& n, node& c, node& inner, unsigned heavy, list& rest) noexcept {
    const unsigned side = p.side_of(&n);
    n.begin_shrink();
    c.begin_shrink();
    move(inner.child[1 - heavy].load_relaxed(), n, heavy);
    move(inner.child[heavy].load_relaxed(), c, 1 - heavy);
    move(&c, inner, heavy);
    move(&n, inner, 1 - heavy);
    move(&inner, p, side);
    set_height(n);
    set_height(c);
    set_height(inner);
    n.end_shrink();
    c.end_shrink();
    rest.add_if_damaged(n);
    rest.add_if_damaged(c);
    rest.add_if_damaged(inner);
    add_parent(p, rest);
  }

  static void move(node* n, joint& under, unsigned side) noexcept {
    if (n != nullptr) n->hang_under(&under);
    under.lead(side, n);
  }

  void add_parent(joint& p, list& rest) noexcept {
    if (&p != &entry_) rest.add_if_damaged(static_cast<node&>(p));
  }

  joint& entry_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
