// SPDX-License-Identifier: Apache-2.0
// citrus.hpp: the Citrus tree, an unbalanced search tree that is read in regions of RCU and changed
// under a lock in each node.
//
// Source:      Maya Arbel, Hagit Attiya. Concurrent Updates with RCU: Search Tree as an Example.
//              PODC 2014.
// Idea:        a look-up is one region. An update finds its place in a region, locks the nodes that
//              it is about to change, and validates that they are still linked as it saw them. A
//              node with two children is replaced by a copy that has the least key of its right
//              subtree. The node that had this key is taken out only after a grace period: look-ups
//              that were on their way to it before the copy was linked have left by then.
// Departures:  D1  The paper waits for locks after the region. Here an update tries them inside of
//                  it, and begins anew where one is held: so a node that it locks cannot have been
//                  freed, which the paper leaves to the reader. It leaves the region before it
//                  waits for the grace period.
//              D2  Nodes are freed, by RCU. The paper frees none.
//              D3  The plain grace period, not the one by predicate (Arbel, Morrison, PPoPP 2015).
// Progress:    look-ups never wait. Updates of the same nodes wait for each other, and those of
//              nodes with two children for the look-ups of the whole tree.
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/rcu.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

namespace bench {

class citrus_tree {
 public:
  explicit citrus_tree(std::size_t) {}
  ~citrus_tree() { end(root_.child[0].load_relaxed()); }

  bool contains(std::uint64_t key) {
    const std::scoped_lock region(home_);
    // acquire, both ← the releases in link(): we see the node constructed.
    node* n = root_.child[0].load_acquire();
    while (n != nullptr && n->key != key) n = n->to(key).load_acquire();
    return n != nullptr;
  }

  bool insert(std::uint64_t key) {
    return until_done([&]() -> std::optional<bool> {
      const std::scoped_lock region(home_);
      const place at = search(key);
      if (at.found != nullptr) return false;
      const held parent(*at.parent);
      if (!parent || !is_as_seen(at)) return std::nullopt;
      link(*at.parent, at.side, new node(key, nullptr, nullptr));
      return true;
    });
  }

  bool erase(std::uint64_t key) {
    return until_done([&] { return try_erase(key); });
  }

  std::uint64_t garbage() const { return spolia::rcu_garbage(home_); }

 private:
  struct node : spolia::rcu_obj_base<node> {
    node() = default;
    node(std::uint64_t k, node* left, node* right) : key(k) {
      child[0].store_relaxed(left);
      child[1].store_relaxed(right);
    }
    std::size_t side_of(std::uint64_t k) const noexcept { return k < key ? 0 : 1; }
    spolia::atomic<node*>& to(std::uint64_t k) noexcept { return child[side_of(k)]; }

    std::uint64_t key = 0;
    std::array<spolia::atomic<node*>, 2> child{};
    // How often the child was set to null: a null that is seen twice may have been a node between.
    std::array<spolia::atomic<std::uint64_t>, 2> tag{};
    spolia::atomic<bool> is_locked{false};
    bool is_out = false;  // under its lock: is it no longer in the tree?
  };

  /// A node's lock, if no other thread held it.
  class held {
   public:
    held() = default;
    explicit held(node& n) noexcept {
      // acquire ← the release below: what its last holder has done to the node.
      if (!n.is_locked.exchange_acquire(true)) node_ = &n;
    }
    /// A new node, which no other thread knows yet.
    held(node& n, std::nullptr_t) noexcept : node_(&n) { n.is_locked.store_relaxed(true); }
    held(const held&) = delete;
    held& operator=(const held&) = delete;
    ~held() {
      if (node_ != nullptr) node_->is_locked.store_release(false);  // → the acquire above
    }
    explicit operator bool() const noexcept { return node_ != nullptr; }

   private:
    node* node_ = nullptr;
  };

  struct place {
    node* parent;
    std::size_t side;
    std::uint64_t tag;  // of the link, read before it
    node* found;        // null: no node has the key
  };

  /// Runs `attempt` until it gives what was done.
  template <class Attempt>
  static bool until_done(Attempt&& attempt) {
    for (spolia::backoff wait;; wait.pause()) {
      if (const std::optional<bool> done = attempt()) return *done;
    }
  }

  /// In a region.
  place search(std::uint64_t key) noexcept {
    place at{&root_, 0, 0, nullptr};
    for (;;) {
      // acquire ← the release in link(): a null that we see next is at least as new as the tag.
      at.tag = at.parent->tag[at.side].load_acquire();
      at.found = at.parent->child[at.side].load_acquire();  // acquire, as in contains
      if (at.found == nullptr || at.found->key == key) return at;
      at.parent = at.found;
      at.side = at.found->side_of(key);
    }
  }

  /// The parent is locked, and so is the node that was found.
  static bool is_as_seen(const place& at) noexcept {
    if (at.parent->is_out || at.parent->child[at.side].load_relaxed() != at.found) return false;
    return at.found != nullptr ? !at.found->is_out
                               : at.parent->tag[at.side].load_relaxed() == at.tag;
  }

  /// The parent is locked.
  static void link(node& parent, std::size_t side, node* to) noexcept {
    parent.child[side].store_release(to);  // → the acquires in contains and search
    if (to != nullptr) return;
    // release → the acquire in search.
    parent.tag[side].store_release(parent.tag[side].load_relaxed() + 1);
  }

  /// Nothing if it has to begin anew.
  std::optional<bool> try_erase(std::uint64_t key) {
    std::unique_lock region(home_);
    const place at = search(key);
    if (at.found == nullptr) return false;
    node& gone = *at.found;
    const held parent(*at.parent);
    if (!parent) return std::nullopt;
    const held own(gone);
    if (!own || !is_as_seen(at)) return std::nullopt;
    node* const left = gone.child[0].load_relaxed();
    node* const right = gone.child[1].load_relaxed();
    if (left != nullptr && right != nullptr) return replace(region, at, left, right);
    gone.is_out = true;
    link(*at.parent, at.side, left != nullptr ? left : right);
    gone.retire({}, home_);
    return true;
  }

  /// The node that was found, which has two children, by a copy with the next key. It and its
  /// parent are locked.
  std::optional<bool> replace(std::unique_lock<spolia::rcu_domain>& region, const place& at,
                              node* left, node* right) {
    const place next = least(*at.found, right);
    const bool is_below = next.parent != at.found;
    // The node itself is locked already, if it is the parent of the next one.
    const held above = is_below ? held(*next.parent) : held();
    if (is_below && !above) return std::nullopt;
    const held own(*next.found);
    const place left_end{next.found, 0, next.tag, nullptr};
    if (!own || !is_as_seen(next) || !is_as_seen(left_end)) return std::nullopt;
    node* const copy = new node(next.found->key, left, right);
    const held fresh(*copy, nullptr);
    at.found->is_out = true;
    link(*at.parent, at.side, copy);
    region.unlock();
    spolia::rcu_synchronize(home_);
    region.lock();  // until the locks are released: then nodes that were retired may go
    next.found->is_out = true;
    link(is_below ? *next.parent : *copy, is_below ? 0 : 1, next.found->child[1].load_relaxed());
    at.found->retire({}, home_);
    next.found->retire({}, home_);
    return true;
  }

  /// The node with the least key of the right subtree, the link to it, and the tag of its left end.
  static place least(node& top, node* right) noexcept {
    place at{&top, 1, 0, right};
    for (;;) {
      // acquire, both as in search.
      at.tag = at.found->tag[0].load_acquire();
      node* const below = at.found->child[0].load_acquire();
      if (below == nullptr) return at;
      at.parent = at.found;
      at.side = 0;
      at.found = below;
    }
  }

  static void end(node* n) noexcept {
    if (n == nullptr) return;
    end(n->child[0].load_relaxed());
    end(n->child[1].load_relaxed());
    delete n;
  }

  mutable spolia::rcu_domain home_;
  node root_;  // the tree is its left subtree
};

}  // namespace bench
