// SPDX-License-Identifier: Apache-2.0
// chain.hpp: what all version lists share: a head, and left pointers from each version to an older
// one.
//
// Versions are "left" (older) or "right" (newer) of each other. A Node has `since` (tracked.hpp)
// and `left`, which links to the node itself until it is appended.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

template <class Node>
class version_chain {
 public:
  version_chain(const version_chain&) = delete;
  version_chain& operator=(const version_chain&) = delete;

  /// The newest version; null if the list has not begun. Its stamp may not be set yet.
  ///
  /// seq_cst, as clock.hpp asks: a snapshot passes the clock and then loads here, an update stores
  /// here (advance) and then loads the clock. One of them sees the other; if neither did, the
  /// update could be stamped inside the snapshot and yet be missed by it. Also an acquire of what
  /// the version's maker wrote.
  [[nodiscard]] Node* head() const noexcept { return head_.load_seq_cst(); }

  /// The newest version at or left of `from` whose stamp is not above `t`; null if all are newer.
  /// `from` was a head with its stamp set, seen under the same guard. Wait-free: each step goes to
  /// an older version.
  static Node* find(Node* from, std::uint64_t t) noexcept {
    return find(from, t, [] {});
  }
  /// The same, and calls step() for each version passed.
  template <class Step>
  static Node* find(Node* from, std::uint64_t t, Step&& step) noexcept {
    Node* x = from;
    // relaxed: each version's stamp is set before the next one is appended, and the head's release
    // or a left pointer's passes that on.
    while (x != nullptr && x->since.load_relaxed() > t) {
      // acquire ← the releases in advance() and where lists cut: we see the version constructed.
      x = x->left.load_acquire();
      step();
    }
    return x;
  }

  /// `y`, which no other thread knows yet, will come after `x` or nowhere. May be said before
  /// try_append(x, y), and spares that a compare-and-swap.
  static void aim(Node* x, Node* y) noexcept {
    // relaxed: the thread that publishes y, or lets others append it, publishes this.
    y->left.store_relaxed(x);
  }

  /// After a try_append that another thread may have made: for lists that have more to do then.
  static void finish_append(Node*, Node*) noexcept {}

  /// Makes `first`, which has its stamp, the first version of a list that has none. Several threads
  /// may try; one succeeds. Never again empty afterwards.
  bool begin(Node* first) noexcept {
    first->left.store_relaxed(nullptr);
    Node* none = nullptr;
    return head_.cas_strong_seq_cst(none, first);  // as in advance()
  }

  /// Makes `instead` the only version of a list that has `newest` as its newest, if that is still
  /// so: for what no reader can tell from it. `instead` has its stamp and nothing to its left, and
  /// may be in several lists.
  bool replace(Node* newest, Node* instead) noexcept {
    return head_.cas_strong_seq_cst(newest, instead);  // as in advance()
  }

  /// Calls f(version) from the newest to the oldest that is linked; stops when f returns false.
  template <class F>
  void for_each(F&& f) const {
    for (Node* x = head(); x != nullptr;) {
      // acquire, as in find(); before f, which may end the version.
      Node* const older = x->left.load_acquire();
      if (!f(x)) return;
      x = older;
    }
  }

  [[nodiscard]] std::size_t length() const noexcept {
    std::size_t n = 0;
    for_each([&](const Node*) { return ++n != 0; });
    return n;
  }

  /// No thread uses the list any more: gives its versions up, as the newest.
  Node* release() noexcept {
    Node* const all = head_.load_relaxed();
    head_.store_relaxed(nullptr);
    return all;
  }

 protected:
  /// A list that has not begun.
  version_chain() noexcept : head_(nullptr) {}
  /// `first` must have its stamp set; it is published with the list.
  explicit version_chain(Node* first) noexcept : head_(first) {
    first->left.store_relaxed(nullptr);
  }
  ~version_chain() = default;

  /// Makes `y` the newest, right of `x`. Several threads may try the same; one succeeds.
  bool advance(Node* x, Node* y) noexcept {
    // Unless it is set, by its maker or a helper: a helper that comes late must not undo what was
    // cut since. acquire ← another helper's release below: our head publishes what that one saw.
    if (Node* unset = y->left.load_acquire(); unset == y) {
      // release → the acquires of left.
      y->left.cas_strong_acq_rel(unset, x);
    }
    // seq_cst ↔ the load in head() and the clock, see there. Also the release that publishes y.
    return head_.cas_strong_seq_cst(x, y);
  }

 private:
  atomic<Node*> head_;
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR
