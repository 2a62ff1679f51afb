// SPDX-License-Identifier: Apache-2.0
// list_pdl.hpp: PDL, the practical doubly linked version list: any ended version can be removed.
//
// Source:      Wei et al.: Practically and Theoretically Efficient Garbage Collection for
//              Multiversioning, PPoPP 2023, section 4 and algorithm 1.
// Idea:        remove(x) marks x, walks outwards to the nearest unmarked version on either side and
//              makes these two point to each other. No thread helps another; what one removal
//              leaves half done, a neighbour's may complete.
// Cost:        try_append: O(1). find: the versions newer than the one wanted. remove: O(c), c the
//              number of adjacent versions being removed at the same time (measured in the paper:
//              1.01 on average).
// Progress:    try_append and find wait-free, remove lock-free.
// Bound:       with L versions appended (the first one included), R removed and P removals under
//              way, at most L - R + P are linked.
// Memory:      three words a version: left, right, mark.
// Needs:       a guard of region protection around each call, from before a pointer into the list
//              is read until the last one is dropped; for remove, from before the call. Walks cross
//              removed versions, so that hazard pointers and eras do not do: see below.
//
// Which calls are allowed
//   try_append(x, y): x was read from head() under this guard and has its stamp; y is new.
//   remove(x): once for each x, after try_append(x, ...) has returned true to the caller, or
//              finish_append(x, ...) was called. So never for the head. When it has returned, the
//              caller alone may retire x. Returns c, the number of versions that were being removed
//              here at the same time, x among them.
//
// Why no retired version is reached. "Retired" means that remove(x) has returned, under a guard.
//   1. Left pointers only move to older versions, right pointers to newer ones, and what a pointer
//      skips is marked (the paper's invariant 2).
//   2. The marks meet (Dekker): remove(x) marks x and then looks at l's mark; remove(l) marks l and
//      then looks at x's. At least one sees the other. So, if a removal has seen that L is not
//      marked after x was, then no removal that finds L marked can still choose x as its end: it
//      looks at x's mark later, and finds it set. This is where seq_cst is needed.
//   3. By left pointers: when remove(x) returns, r.left was made to skip x, for an r found unmarked
//      after x was marked. A removal that later skips r cannot end at x (2). No other version is
//      left that could link to x, so no thread that starts at the head afterwards comes to x; and
//      what a version reaches by left pointers only ever shrinks, so no thread does that was on its
//      way then and was not yet beyond.
//   4. By right pointers: only remove(y) follows them, from its own y and over marked versions. If
//      it comes to a retired m, then remove(m) had made L.right skip m, L being the nearest
//      unmarked version left of m. If L is y or right of y, the walk meets L or skips it, and
//      skipping it needs a right end that was looked at after L's mark: not one between L and m
//      (2). If L is left of y, then y was marked when m was removed; but y is marked by this call,
//      inside this guard, and the guard keeps what was not retired when it began. So the mark
//      must be set under the same guard as the walk.
//   5. A removed version keeps its pointers, and only threads stand on it that hold a guard from
//      before its retirement. What these pointers name was linked or not retired at that time.
//
// Departures from the paper:
//   D1  The oldest version has no sentinel left of it: a null end is not linked back.
//   D2  Several threads may run the same try_append (helpers of a larger operation do). The one
//       that made y the head may be slow, so before x may be removed finish_append gives x its
//       right end.
#pragma once

#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/version/detail/chain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

#pragma GCC diagnostic push
// Bases may have virtual functions; a domain ends each node by the type that it was made with.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
template <class Base>
struct pdl_node : Base {
  using Base::Base;
  atomic<pdl_node*> left{this};
  atomic<pdl_node*> right{nullptr};
  atomic<bool> marked{false};
};
#pragma GCC diagnostic pop

template <class Base>
class pdl_list : public detail::version::version_chain<pdl_node<Base>> {
 public:
  using node = pdl_node<Base>;

  pdl_list() noexcept = default;
  explicit pdl_list(node* first) noexcept : detail::version::version_chain<node>(first) {}

  bool try_append(node* x, node* y) noexcept {
    // acquire: we look into w. ← the releases of left pointers.
    node* const w = x->left.load_acquire();
    // First the append of x, if its maker is slow: so all but the head and its neighbour have a
    // right end, as the paper wants it.
    if (w != nullptr) set_right(w, x);
    if (!this->advance(x, y)) return false;
    set_right(x, y);
    return true;
  }

  /// Some thread's try_append(x, y) has made y the head.
  static void finish_append(node* x, node* y) noexcept {
    if (!SPOLIA_FAULT("pdl.append_unfinished")) set_right(x, y);
  }

  static std::uint64_t remove(node* x) noexcept {
    if (SPOLIA_FAULT("pdl.weak_mark")) {
      x->marked.store_release(true);  // planted: orders nothing against the looks at other marks
    } else {
      // seq_cst ↔ is_marked() in the removals of the neighbours: one of two sees the other (2).
      x->marked.exchange_seq_cst(true);
    }
    // acquire, both ← the releases of these pointers.
    node* l = x->left.load_acquire();
    node* r = x->right.load_acquire();
    if (SPOLIA_CHECKS && r == nullptr) {
      misuse::report("a version was removed that nothing ended", threads::number());
      return 0;
    }
    std::uint64_t run = 1;
    while (!bridge(l, r, run)) {
    }
    return run;
  }

 private:
  /// One try to make the nearest unmarked versions from l to the left and from r to the right point
  /// to each other; leaves l and r where it came to, and adds what it has passed to `run`.
  static bool bridge(node*& l, node*& r, std::uint64_t& run) noexcept {
    // acquire, all ← the releases of these pointers: we look into what they name.
    for (; l != nullptr && is_marked(l); ++run) l = l->left.load_acquire();
    for (; is_marked(r); ++run) r = r->right.load_acquire();
    node* right_left = r->left.load_acquire();
    node* left_right = l == nullptr ? nullptr : l->right.load_acquire();
    if (!SPOLIA_FAULT("pdl.no_second_look")) {
      if ((l != nullptr && is_marked(l)) || is_marked(r)) return false;
    }
    // release, both → the acquires above and in find(): the versions named are constructed for
    // a thread that comes this way, and what is skipped stays skipped.
    if (!r->left.cas_strong_acq_rel(right_left, l)) return false;
    return l == nullptr || l->right.cas_strong_acq_rel(left_right, r);
  }

  /// seq_cst ← the exchange in remove(): see (2).
  static bool is_marked(const node* n) noexcept { return n->marked.load_seq_cst(); }

  /// For the first time; a late helper changes nothing.
  static void set_right(node* x, node* y) noexcept {
    node* none = nullptr;
    // release → the acquires of right pointers: y is constructed.
    x->right.cas_strong_acq_rel(none, y);
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
