// SPDX-License-Identifier: Apache-2.0
// list_tree.hpp: TreeDL, a doubly linked version list with a tree of removals laid over it: a
// version is removed at amortized constant cost, however many of its neighbours go at the same
// time.
//
// Source:      Ben-David et al.: Space and Time Bounded Multiversion Garbage Collection, DISC 2021;
//              called TreeDL, and measured as part of BBF+, in Wei et al., PPoPP 2023.
// Idea:        versions are numbered as they are appended, and the numbers are the in-order numbers
//              of a binary tree that grows on to the right (depth() below). Of two neighbours in
//              the list one is always deeper than the other. A version that is to go
//                and has no deeper neighbour, a leaf: is taken out at once, for none of its
//                  neighbours can go while it is there
//                has one deeper neighbour: is taken out while that one is kept in place, by a job
//                  that it carries, and that a thread which wants to remove it has to finish first
//                has two: stays, and goes when one of them has gone.
//              A thread that has taken a version out goes on with a neighbour that was waiting for
//              it.
// Cost:        try_append: O(1). find: the versions newer than the one wanted. remove: amortized
//              O(1).
// Progress:    try_append and find wait-free, remove lock-free (D2).
// Bound:       with L versions appended (the first one included), R removed and P removals under
//              way, at most 2 (L - R) + O(P log Lmax) are linked, Lmax the most that were ever
//              appended to one list: a version that stays has two others below it, and a tree has
//              fewer forks than leaves. When nothing is under way: fewer than 2 (L - R).
// Memory:      seven words a version: two links, two jobs, number, state, holds.
// Needs:       a guard of region protection around each call, as in list_pdl.hpp.
//
// Which calls are allowed
//   try_append(x, y), finish_append(x, y): as in list_pdl.hpp.
//   remove(x, gone): once for each x that has an end; never for the head. Calls gone(y), at its
//              end, for each version y that the caller alone may retire, under this guard: x, or
//              others, or none. If x waits for its neighbours, a later removal gives it to its
//              caller. Returns how many versions it has tried to take out.
//
// A job. `n.right_job = b` says: b, which is n's right neighbour, is to be taken out, and n stays
//   meanwhile. (And the same to the left.) What b links to is then read from b. `n.right_job = n`:
//   n is being removed itself, and takes no jobs any more: frozen. Both are frozen, left and right,
//   before anything is taken out on account of n.
//
// Why the links agree. Let b be marked and frozen, between a and c.
//   1. Taking a out while b is its neighbour needs b to be no deeper than a, or a job on b. So if b
//      is deeper than a then a stays until b is gone; likewise c. So the neighbours of a leaf stand
//      still; and so does the one that a job does not name, since b is deeper than it. The other
//      one, deeper than b, is kept in place by the job: a thread that removes it freezes it, and so
//      finishes the job first.
//   2. Thus all threads that take b out make the same three changes: b is `gone`, c.left: b -> a,
//      and a.right: b -> c. No pointer ever comes back to b, and a thread that comes too late
//      changes nothing. The link of the neighbour that has the job is changed last. So while it
//      names b there is something left to do, and neither of the neighbours has been taken out:
//      that is asked before anything is read through a job. A leaf's left neighbour is the last one
//      likewise.
//   3. No version is forgotten. b stops because a neighbour is in its way: it is frozen, and then
//      has read its links. The thread that takes that neighbour out has changed b's link and then
//      asks whether b is frozen. All four are seq_cst: one of them sees the other.
// Why no retired version is reached. One thread makes b `gone`; it has then seen to both links. By
//   (2) no version that is linked names b any more, and what was unlinked is reached only under
//   guards that are older. Left over are jobs. A thread that puts one up for b holds b while it can
//   be read: from before, until it has been taken down. The thread that drops the last hold, the
//   first one being that of the thread that made b `gone`, may retire b. So every thread that has
//   found b's name in a job did so before b was retired, and under a guard.
//
// Departures from the papers:
//   D1  A job is one word, and no block that would have to be freed: it names b, and the rest
//       follows from b's links (1). It is taken down when it is done. (The artifact leaves it to
//       Java's collector; in C++ a late helper would compare a link with the address of a version
//       that was freed, and may have come back as another one.)
//   D2  A thread that cannot put up a job because another one is there finishes that and tries
//       again. The papers try once, which is right only as long as no job is ever taken down.
//   D3  Versions are given to the caller when they may be retired: in Java that need not be known.
//   D4  In a fork's child, what a lost thread was taking out stays linked until the list ends, and
//       so does what waits for it: versions less deep, on one way up through the tree, so O(log
//       Lmax) for each lost thread. They are not retired, and the node in whose field they are, if
//       it has died, is not freed (owner.hpp); as with all that lost threads had
//       (range_tracker.hpp).
#pragma once

#include <bit>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/version/detail/chain.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// How far the removal of a version has come.
enum class removal : std::uint8_t { none, marked, gone };

#pragma GCC diagnostic push
// Bases may have virtual functions; a domain ends each node by the type that it was made with.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
template <class Base>
struct tree_node : Base {
  using Base::Base;
  atomic<tree_node*> left{this};
  atomic<tree_node*> right{nullptr};
  atomic<tree_node*> left_job{nullptr};
  atomic<tree_node*> right_job{nullptr};
  atomic<std::uint64_t> number{2};  // that of a list's first
  atomic<std::uint64_t> holds{1};
  atomic<removal> state{removal::none};
};
#pragma GCC diagnostic pop

template <class Base>
class tree_list : public detail::version::version_chain<tree_node<Base>> {
 public:
  using node = tree_node<Base>;

  tree_list() noexcept = default;
  explicit tree_list(node* first) noexcept : detail::version::version_chain<node>(first) {}

  bool try_append(node* x, node* y) noexcept {
    // acquire: we look into w. ← the releases of left pointers.
    node* const w = x->left.load_acquire();
    if (w != nullptr) set_right(w, x);  // if its maker is slow
    // relaxed, both: published with the version. Helpers store the same.
    y->number.store_relaxed(x->number.load_relaxed() + 1);
    if (!this->advance(x, y)) return false;
    set_right(x, y);
    return true;
  }

  /// Some thread's try_append(x, y) has made y the head.
  static void finish_append(node* x, node* y) noexcept { set_right(x, y); }

  /// See the top of this file.
  template <class Gone>
  static std::uint64_t remove(node* x, Gone&& gone) noexcept {
    // relaxed: it only has to be there.
    if (SPOLIA_CHECKS && x->right.load_relaxed() == nullptr) {
      misuse::report("a version was removed that nothing ended", threads::number());
      return 0;
    }
    gone_list mine;
    // release → the acquire in splice(): what led to the removal comes before the retirement.
    x->state.store_release(removal::marked);
    if (!SPOLIA_FAULT("treedl.no_freeze")) freeze(x, side::left, mine);
    freeze(x, side::right, mine);
    std::uint64_t tried = 0;
    for (node* b = x; b != nullptr; ++tried) b = take_out(b, mine);
    while (node* const y = mine.pop()) gone(y);
    return tried;
  }

  /// In the tree that lies over the list. 0: there is no such version.
  static std::uint64_t depth(const node* n) noexcept {
    if (n == nullptr) return 0;
    const std::uint64_t number = n->number.load_relaxed();
    const std::uint64_t k = bit_length(number) - 1;
    // The powers of two are the way down to the right; what lies between two of them hangs on the
    // left of the larger one, in perfect balance.
    if (std::has_single_bit(number)) return k;
    return 2 * k + 1 - static_cast<std::uint64_t>(std::countr_zero(number));
  }

 private:
  enum class side : std::uint8_t { left, right };
  static constexpr side other(side s) noexcept {
    return s == side::left ? side::right : side::left;
  }
  static atomic<node*>& link(node* n, side s) noexcept {
    return s == side::left ? n->left : n->right;
  }
  static atomic<node*>& job(node* n, side s) noexcept {
    return s == side::left ? n->left_job : n->right_job;
  }

  /// Versions that may be retired, until no thread looks at their list any more: their owner's last
  /// hold may be among theirs (owner.hpp).
  class gone_list {
   public:
    void push(node* n) noexcept {
      n->next.write(first_);
      first_ = n;
    }
    node* pop() noexcept {
      node* const n = static_cast<node*>(first_);
      if (n != nullptr) first_ = n->next.read();
      return n;
    }

   private:
    tracked* first_ = nullptr;
  };

  /// Takes b, which is marked and frozen, out if its place in the tree allows it; gives the one
  /// that is to be tried next, null if none.
  static node* take_out(node* b, gone_list& mine) noexcept {
    // seq_cst, both ↔ the changes in splice(), after freeze(): see (3).
    node* const a = b->left.load_seq_cst();
    node* const c = b->right.load_seq_cst();
    // acquire: if it is not gone, neither are the two, as (2) says. After them, therefore.
    if (b->state.load_acquire() == removal::gone) return nullptr;
    const bool left_deeper = depth(a) > depth(b);
    const bool right_deeper = depth(c) > depth(b);
    if (left_deeper && right_deeper) return nullptr;
    if (left_deeper) return splice_beside(a, side::right, b, mine) ? if_frozen(c) : nullptr;
    if (right_deeper) return splice_beside(c, side::left, b, mine) ? if_frozen(a) : nullptr;
    // What lay between a and b is being taken out: the thread that does that will see to b.
    // seq_cst ↔ splice(), as above.
    if (a != nullptr && a->right.load_seq_cst() != b) return nullptr;
    if (!splice(a, b, c, side::left, mine)) return nullptr;
    node* const l = if_frozen(a);
    node* const r = if_frozen(c);
    if (l == nullptr || r == nullptr) return l == nullptr ? r : l;
    return depth(l) > depth(r) ? l : r;
  }

  /// A neighbour that has been removed, as far as that went.
  static node* if_frozen(node* n) noexcept {
    if (n == nullptr || SPOLIA_FAULT("treedl.forgets_neighbours")) return nullptr;
    // seq_cst ↔ freeze(): see (3).
    return n->right_job.load_seq_cst() == n ? n : nullptr;
  }

  /// From now on n takes no job on that side, and the one that it had is done.
  static void freeze(node* n, side s, gone_list& mine) noexcept {
    atomic<node*>& slot = job(n, s);
    // acquire ← the release of the job: we look into what it names.
    node* pending = slot.load_acquire();
    for (;;) {
      if (pending != nullptr) do_job(n, s, pending, mine);
      if (SPOLIA_FAULT("treedl.weak_freeze")) {
        if (slot.cas_strong_acq_rel(pending, n)) return;  // planted: orders nothing against (3)
        continue;
      }
      // seq_cst ↔ if_frozen(), before our looks at the links: see (3).
      if (slot.cas_strong_seq_cst(pending, n)) return;
    }
  }

  /// Takes b out by a job of n, its deeper neighbour, which has b on side s. True: our job was up.
  static bool splice_beside(node* n, side s, node* b, gone_list& mine) noexcept {
    atomic<node*>& slot = job(n, s);
    for (;;) {
      // acquire ← the release of the job, as in freeze().
      node* pending = slot.load_acquire();
      // The thread that removes n will see to b. relaxed: only spares a try.
      if (pending == n || n->state.load_relaxed() != removal::none) return false;
      if (!joined(n, s, b)) return false;
      if (pending != nullptr) {
        do_job(n, s, pending, mine);
        // relaxed: a thread that finds nothing there has nothing to look into.
        slot.cas_strong_relaxed(pending, nullptr);
        continue;
      }
      const bool unheld = SPOLIA_FAULT("treedl.unheld");
      if (!unheld && !hold(b)) return false;
      // release → the acquires of jobs: b's links are as they were when it was frozen.
      const bool ours = slot.cas_strong_acq_rel(pending, b);
      if (ours) {
        do_job(n, s, b, mine);
        node* done = b;
        // relaxed: our hold is dropped afterwards, by a release.
        slot.cas_strong_relaxed(done, nullptr);
      }
      if (!unheld) drop(b, mine);
      if (ours) return true;
    }
  }

  /// Whether n and b, on side s of it, and the version to its left name each other. If not, b has
  /// been taken out, or a thread is at work between the two and will see to b.
  static bool joined(node* n, side s, node* b) noexcept {
    // seq_cst, all ↔ splice(): see (3).
    if (link(n, s).load_seq_cst() != b) return false;
    if (s == side::right || SPOLIA_FAULT("treedl.one_end")) return true;
    // It may still lead to a leaf between a and b.
    node* const a = b->left.load_seq_cst();
    return a == nullptr || a->right.load_seq_cst() == b;
  }

  /// b is to be taken out, on side s of n, which stays.
  static void do_job(node* n, side s, node* b, gone_list& mine) noexcept {
    // seq_cst ↔ splice(). If the link has gone on the job is done, and the version that b names may
    // be freed (2).
    if (link(n, s).load_seq_cst() != b) return;
    // acquire ← the releases of links: we look into what it names.
    node* const farther = link(b, s).load_acquire();
    splice(s == side::right ? n : farther, b, s == side::right ? farther : n, other(s), mine);
  }

  /// The three changes of (2), with `last` the last one. True: this call has taken b out.
  static bool splice(node* a, node* b, node* c, side last, gone_list& mine) noexcept {
    removal marked = removal::marked;
    // acq_rel: acquire ← the mark; release → the look in take_out().
    const bool won = b->state.cas_strong_acq_rel(marked, removal::gone);
    if (last == side::left || SPOLIA_FAULT("treedl.wrong_order")) {
      pass_by(c->left, b, a);
      if (a != nullptr) pass_by(a->right, b, c);
    } else {
      if (a != nullptr) pass_by(a->right, b, c);
      pass_by(c->left, b, a);
    }
    if (won) drop(b, mine);
    return won;
  }
  static void pass_by(atomic<node*>& l, node* b, node* next) noexcept {
    // seq_cst ↔ the looks in take_out() and joined(): see (3). Also the release of a link: what is
    // named is constructed for a thread that comes this way.
    if (l.cas_strong_seq_cst(b, next)) return;
    // seq_cst: a failure is an acquire only, and we too are going to ask which version is frozen.
    static_cast<void>(l.load_seq_cst());
  }

  /// False: b may be retired already.
  static bool hold(node* b) noexcept {
    std::uint64_t now = b->holds.load_relaxed();
    while (now != 0) {
      // relaxed: that b is not retired meanwhile is a matter of this count alone.
      if (b->holds.cas_weak_relaxed(now, now + 1)) return true;
    }
    return false;
  }
  static void drop(node* b, gone_list& mine) noexcept {
    // release → acquire: that no job names b any more happens before its retirement.
    if (b->holds.fetch_sub_acq_rel(1) == 1) mine.push(b);
  }

  /// For the first time; a late helper changes nothing.
  static void set_right(node* x, node* y) noexcept {
    node* none = nullptr;
    // release → the acquires of right pointers: y is constructed.
    x->right.cas_strong_acq_rel(none, y);
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
