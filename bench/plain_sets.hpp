// SPDX-License-Identifier: Apache-2.0
// plain_sets.hpp: the structures that read-log-update is compared with, as an engineer writes them
// without it: chains and a search tree under a readers-writer lock, and both read under RCU; chains
// are changed there under a lock for each bucket, the tree under one lock.
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/release.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace bench {

/// What is read inside guards of an epoch scheme.
class read_by_epochs {
 public:
  using domain = spolia::domain<spolia::debra, spolia::amortized>;

  /// Parks while it reads.
  template <class Park>
  void stall(Park&& park) {
    auto guard = home_.enter();
    park();
  }
  std::uint64_t garbage() const { return home_.garbage(); }

 protected:
  domain home_;
};

/// Sorted chains, one a bucket, read inside guards of an epoch scheme and changed under the
/// bucket's lock. With one bucket it is a list with one lock.
class rcu_chains : public read_by_epochs {
 public:
  explicit rcu_chains(std::size_t buckets) : buckets_(buckets) {}
  ~rcu_chains() {
    for (bucket& b : buckets_) {
      for (node* n = b.first.load_relaxed(); n != nullptr;) {
        node* const next = n->next.load_relaxed();
        home_.destroy(n);
        n = next;
      }
    }
  }

  bool contains(std::uint64_t key) {
    auto guard = home_.enter();
    // acquire ← the releases below: we see the node constructed.
    node* n = of(key).first.load_acquire();
    while (n != nullptr && n->key < key) n = n->next.load_acquire();  // acquire, as above
    return n != nullptr && n->key == key;
  }

  bool insert(std::uint64_t key) {
    bucket& b = of(key);
    auto guard = home_.enter();
    const std::lock_guard lock(b.lock);
    spolia::atomic<node*>& link = locate(b, key);
    node* const next = link.load_relaxed();
    if (next != nullptr && next->key == key) return false;
    node* const made = home_.make<node>();
    made->key = key;
    made->value = key;
    made->next.store_relaxed(next);
    link.store_release(made);  // → the acquires in contains
    return true;
  }

  bool erase(std::uint64_t key) {
    bucket& b = of(key);
    auto guard = home_.enter();
    const std::lock_guard lock(b.lock);
    spolia::atomic<node*>& link = locate(b, key);
    node* const n = link.load_relaxed();
    if (n == nullptr || n->key != key) return false;
    // release → the acquires in contains: the next node's making.
    link.store_release(n->next.load_relaxed());
    guard.retire(n);
    return true;
  }

 private:
  struct node : domain::header {
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    spolia::atomic<node*> next{nullptr};
  };
  struct bucket {
    spolia::atomic<node*> first{nullptr};
    std::mutex lock;
  };

  bucket& of(std::uint64_t key) noexcept { return buckets_[key % buckets_.size()]; }
  static spolia::atomic<node*>& locate(bucket& b, std::uint64_t key) noexcept {
    spolia::atomic<node*>* link = &b.first;
    for (node* n = link->load_relaxed(); n != nullptr && n->key < key; n = link->load_relaxed()) {
      link = &n->next;
    }
    return *link;
  }

  std::vector<bucket> buckets_;
};

/// Sorted chains under one readers-writer lock.
class locked_chains {
 public:
  explicit locked_chains(std::size_t buckets) : first_(buckets) {}

  bool contains(std::uint64_t key) {
    const std::shared_lock lock(lock_);
    const std::unique_ptr<node>& at = locate(key);
    return at != nullptr && at->key == key;
  }
  bool insert(std::uint64_t key) {
    const std::unique_lock lock(lock_);
    std::unique_ptr<node>& at = locate(key);
    if (at != nullptr && at->key == key) return false;
    auto made = std::make_unique<node>();
    made->key = key;
    made->value = key;
    made->next = std::move(at);
    at = std::move(made);
    return true;
  }
  bool erase(std::uint64_t key) {
    const std::unique_lock lock(lock_);
    std::unique_ptr<node>& at = locate(key);
    if (at == nullptr || at->key != key) return false;
    at = std::move(at->next);
    return true;
  }
  ~locked_chains() {
    for (auto& first : first_) {
      while (first != nullptr) first = std::move(first->next);
    }
  }

 private:
  struct node {
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    std::unique_ptr<node> next;
  };

  std::unique_ptr<node>& locate(std::uint64_t key) noexcept {
    std::unique_ptr<node>* at = &first_[key % first_.size()];
    while (*at != nullptr && (*at)->key < key) at = &(*at)->next;
    return *at;
  }

  std::shared_mutex lock_;
  std::vector<std::unique_ptr<node>> first_;
};

/// An unbalanced search tree under one readers-writer lock.
class locked_tree {
 public:
  explicit locked_tree(std::size_t) {}
  ~locked_tree() {
    while (top_ != nullptr) {
      std::unique_ptr<node>* at = &top_;
      while ((*at)->left != nullptr) at = &(*at)->left;
      *at = std::move((*at)->right);
    }
  }

  bool contains(std::uint64_t key) {
    const std::shared_lock lock(lock_);
    return *locate(key) != nullptr;
  }
  bool insert(std::uint64_t key) {
    const std::unique_lock lock(lock_);
    std::unique_ptr<node>* const at = locate(key);
    if (*at != nullptr) return false;
    *at = std::make_unique<node>();
    (*at)->key = key;
    (*at)->value = key;
    return true;
  }
  bool erase(std::uint64_t key) {
    const std::unique_lock lock(lock_);
    std::unique_ptr<node>& at = *locate(key);
    if (at == nullptr) return false;
    if (at->left == nullptr || at->right == nullptr) {
      at = std::move(at->left != nullptr ? at->left : at->right);
      return true;
    }
    std::unique_ptr<node>* least = &at->right;
    while ((*least)->left != nullptr) least = &(*least)->left;
    at->key = (*least)->key;
    at->value = (*least)->value;
    *least = std::move((*least)->right);
    return true;
  }

 private:
  struct node {
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    std::unique_ptr<node> left;
    std::unique_ptr<node> right;
  };

  std::unique_ptr<node>* locate(std::uint64_t key) noexcept {
    std::unique_ptr<node>* at = &top_;
    while (*at != nullptr && (*at)->key != key)
      at = key < (*at)->key ? &(*at)->left : &(*at)->right;
    return at;
  }

  std::shared_mutex lock_;
  std::unique_ptr<node> top_;
};

/// An unbalanced search tree that is read inside guards of an epoch scheme and changed under one
/// lock. Readers go by one link to what is new: so a node with two children is replaced by a copy
/// that has the next key, on a copy of the way there.
class rcu_tree : public read_by_epochs {
 public:
  explicit rcu_tree(std::size_t) {}
  ~rcu_tree() { end(top_.load_relaxed()); }

  bool contains(std::uint64_t key) {
    auto guard = home_.enter();
    // acquire, both ← the releases below: we see the node constructed.
    node* n = top_.load_acquire();
    while (n != nullptr && n->key != key) n = n->to(key).load_acquire();
    return n != nullptr;
  }

  bool insert(std::uint64_t key) {
    auto guard = home_.enter();
    const std::lock_guard lock(lock_);
    link& at = locate(key);
    if (at.load_relaxed() != nullptr) return false;
    at.store_release(made(key, nullptr, nullptr));  // → the acquires in contains
    return true;
  }

  bool erase(std::uint64_t key) {
    auto guard = home_.enter();
    const std::lock_guard lock(lock_);
    link& at = locate(key);
    node* const n = at.load_relaxed();
    if (n == nullptr) return false;
    node* const left = n->left.load_relaxed();
    node* const right = n->right.load_relaxed();
    const bool inner = left != nullptr && right != nullptr;
    node* instead = left == nullptr ? right : left;
    if (inner) {
      std::uint64_t next = 0;
      node* const rest = without_least(*right, next);
      instead = made(next, left, rest);
    }
    at.store_release(instead);  // → the acquires in contains
    guard.retire(n);
    for (node* old = inner ? right : nullptr; old != nullptr;) {  // what was copied
      node* const below = old->left.load_relaxed();
      guard.retire(old);
      old = below;
    }
    return true;
  }

 private:
  struct node;
  using link = spolia::atomic<node*>;
  struct node : domain::header {
    link& to(std::uint64_t k) noexcept { return k < key ? left : right; }
    std::uint64_t key = 0;
    std::uint64_t value = 0;
    link left{nullptr};
    link right{nullptr};
  };

  node* made(std::uint64_t key, node* left, node* right) {
    node* const n = home_.make<node>();
    n->key = key;
    n->value = key;
    n->left.store_relaxed(left);
    n->right.store_relaxed(right);
    return n;
  }

  link& locate(std::uint64_t key) noexcept {
    link* at = &top_;
    for (node* n = top_.load_relaxed(); n != nullptr && n->key != key; n = at->load_relaxed()) {
      at = &n->to(key);
    }
    return *at;
  }

  /// A copy of the way from `n` to the least key below it, which it leaves out.
  node* without_least(const node& n, std::uint64_t& least) {
    node* const left = n.left.load_relaxed();
    node* const right = n.right.load_relaxed();
    if (left != nullptr) return made(n.key, without_least(*left, least), right);
    least = n.key;
    return right;
  }

  void end(node* n) noexcept {
    if (n == nullptr) return;
    end(n->left.load_relaxed());
    end(n->right.load_relaxed());
    home_.destroy(n);
  }

  std::mutex lock_;
  link top_{nullptr};
};

}  // namespace bench
