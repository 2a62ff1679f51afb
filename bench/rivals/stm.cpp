// SPDX-License-Identifier: Apache-2.0
// stm.cpp: chains and a search tree in transactions of libitm, which comes with g++: the plain
// sequential code, with nothing but a word around it.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../plain_subject.hpp"
#include "../rlu.hpp"
#include "../trial.hpp"

namespace bench {
namespace {

struct chain_node {
  std::uint64_t key;
  std::uint64_t value;
  chain_node* next;
};

/// Sorted chains, one a bucket.
class stm_chains {
 public:
  explicit stm_chains(std::size_t buckets) : first_(buckets, nullptr) {}
  ~stm_chains() {
    for (chain_node* n : first_) {
      while (n != nullptr) delete std::exchange(n, n->next);
    }
  }
  stm_chains(const stm_chains&) = delete;
  stm_chains& operator=(const stm_chains&) = delete;

  bool contains(std::uint64_t key) {
    chain_node** const first = of(key);
    bool found = false;
    __transaction_atomic {
      const chain_node* const n = *locate(first, key);
      found = n != nullptr && n->key == key;
    }
    return found;
  }
  bool insert(std::uint64_t key) {
    chain_node** const first = of(key);
    bool is_new = false;
    __transaction_atomic {
      chain_node** const link = locate(first, key);
      is_new = *link == nullptr || (*link)->key != key;
      if (is_new) *link = new chain_node{key, key, *link};
    }
    return is_new;
  }
  bool erase(std::uint64_t key) {
    chain_node** const first = of(key);
    bool was_there = false;
    __transaction_atomic {
      chain_node** const link = locate(first, key);
      chain_node* const n = *link;
      was_there = n != nullptr && n->key == key;
      if (was_there) {
        *link = n->next;
        delete n;
      }
    }
    return was_there;
  }

 private:
  /// The link to the first node with no smaller key.
  [[gnu::transaction_safe]] static chain_node** locate(chain_node** link, std::uint64_t key) {
    while (*link != nullptr && (*link)->key < key) link = &(*link)->next;
    return link;
  }
  chain_node** of(std::uint64_t key) noexcept { return &first_[key % first_.size()]; }

  std::vector<chain_node*> first_;
};

struct tree_node {
  std::uint64_t key;
  std::uint64_t value;
  tree_node* left;
  tree_node* right;
};

/// An unbalanced search tree.
class stm_tree {
 public:
  explicit stm_tree(std::size_t) {}
  ~stm_tree() { end(top_); }
  stm_tree(const stm_tree&) = delete;
  stm_tree& operator=(const stm_tree&) = delete;

  bool contains(std::uint64_t key) {
    bool found = false;
    __transaction_atomic { found = *locate(&top_, key) != nullptr; }
    return found;
  }
  bool insert(std::uint64_t key) {
    bool is_new = false;
    __transaction_atomic {
      tree_node** const link = locate(&top_, key);
      is_new = *link == nullptr;
      if (is_new) *link = new tree_node{key, key, nullptr, nullptr};
    }
    return is_new;
  }
  bool erase(std::uint64_t key) {
    bool was_there = false;
    __transaction_atomic {
      tree_node** link = locate(&top_, key);
      tree_node* gone = *link;
      was_there = gone != nullptr;
      if (was_there) {
        if (gone->left != nullptr && gone->right != nullptr) {
          // The least node of the right subtree goes, and its key stays.
          tree_node* const here = gone;
          link = &here->right;
          while ((*link)->left != nullptr) link = &(*link)->left;
          gone = *link;
          here->key = gone->key;
          here->value = gone->value;
        }
        *link = gone->left != nullptr ? gone->left : gone->right;
        delete gone;
      }
    }
    return was_there;
  }

 private:
  /// The link to the node with the key, or to where it would be.
  [[gnu::transaction_safe]] static tree_node** locate(tree_node** link, std::uint64_t key) {
    while (*link != nullptr && (*link)->key != key) {
      link = key < (*link)->key ? &(*link)->left : &(*link)->right;
    }
    return link;
  }
  static void end(tree_node* n) noexcept {
    if (n == nullptr) return;
    end(n->left);
    end(n->right);
    delete n;
  }

  tree_node* top_ = nullptr;
};

const bool listed = [] {
  std::vector<rlu_way>& all = all_rlu_ways();
  all.push_back({"list", "stm", run_trial<plain_subject<stm_chains>>});
  all.push_back({"hash", "stm", run_trial<plain_subject<stm_chains>>});
  all.push_back({"tree", "stm", run_trial<plain_subject<stm_tree>>});
  return true;
}();

}  // namespace
}  // namespace bench
