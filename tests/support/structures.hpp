// SPDX-License-Identifier: Apache-2.0
/// \file
/// Small lock-free structures, each written once over any domain, as a container writes them: what
/// the tests of schemes do their work on. The reader may take them as examples of the contract.
///
///   treiber_stack        one pointer is protected and validated by its source: any scheme
///   michael_scott_queue  two are, and the second by a look at the head: any scheme
///   optimistic_set       Harris's list, whose searches walk through removed runs of nodes: only
///                        schemes that protect those
///
/// A value that has note_retired() (ledger.hpp) is told when its node is retired.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/marked_ptr.hpp>
#include <spolia/reclaim/domain.hpp>

namespace spolia::test {

namespace structure_parts {

template <class Value, class Domain>
struct plain_node : Domain::header {
  explicit plain_node(Value v) : value(std::move(v)) {}
  Value value;
  atomic<plain_node*> next{nullptr};
};

template <class Value>
void note_retired(Value& value) {
  if constexpr (requires { value.note_retired(); }) value.note_retired();
}
template <class Value>
void note_retired(std::optional<Value>& value) {
  if (value.has_value()) note_retired(*value);
}

template <class Guard, class Node>
void retire_node(Guard& guard, Node* n) {
  note_retired(n->value);
  guard.retire(n);
}

template <class Domain, class Node>
void destroy_chain(Domain& domain, Node* n) {
  while (n != nullptr) {
    Node* const after = n->next.load_relaxed();
    domain.destroy(n);
    n = after;
  }
}

}  // namespace structure_parts

template <class Value, class Domain>
class treiber_stack {
  using node = structure_parts::plain_node<Value, Domain>;

 public:
  explicit treiber_stack(Domain& domain) : domain_(domain) {}
  treiber_stack(const treiber_stack&) = delete;
  treiber_stack& operator=(const treiber_stack&) = delete;
  ~treiber_stack() { structure_parts::destroy_chain(domain_, head_.load_relaxed()); }

  void put(Value value) {
    node* const fresh = domain_.template make<node>(std::move(value));
    node* seen = head_.load_relaxed();
    do {
      fresh->next.store_relaxed(seen);
      // release → the acquire in take(): the node arrives constructed.
    } while (!head_.cas_strong_release(seen, fresh));
  }

  std::optional<Value> take() {
    auto guard = domain_.enter();
    for (;;) {
      const auto first = guard.read([&](auto& phase) { return phase.keep(phase.protect(head_)); });
      node* top = first.get();
      if (top == nullptr) return std::nullopt;
      memory::note_access(top);
      std::optional<Value> value(top->value);
      node* const after = top->next.load_relaxed();
      // acquire ← the release in put(), for the nodes below. release: continues for them.
      if (!head_.cas_strong_acq_rel(top, after)) continue;
      structure_parts::retire_node(guard, top);
      return value;
    }
  }

  /// f(value) for the first `nodes` nodes, linked and unlinked ones: not for schemes that protect
  /// single pointers. It may start over.
  template <class F>
    requires(protects_optimistic_search<typename Domain::scheme_type>)
  void walk(unsigned nodes, F&& f) {
    auto guard = domain_.enter();
    guard.read([&](auto& phase) {
      auto n = phase.protect(head_);
      for (unsigned i = 0; i < nodes && n != nullptr; ++i) {
        f(n->value);
        n = phase.protect(n->next);
      }
    });
  }

 private:
  Domain& domain_;
  alignas(cache_line) atomic<node*> head_{nullptr};
};

template <class Value, class Domain>
class michael_scott_queue {
  using node = structure_parts::plain_node<std::optional<Value>, Domain>;

 public:
  explicit michael_scott_queue(Domain& domain) : domain_(domain) {
    node* const dummy = domain_.template make<node>(std::nullopt);
    head_.store_relaxed(dummy);
    tail_.store_relaxed(dummy);
  }
  michael_scott_queue(const michael_scott_queue&) = delete;
  michael_scott_queue& operator=(const michael_scott_queue&) = delete;
  ~michael_scott_queue() { structure_parts::destroy_chain(domain_, head_.load_relaxed()); }

  void put(Value value) {
    node* const fresh = domain_.template make<node>(std::move(value));
    auto guard = domain_.enter();
    for (;;) {
      const auto found = guard.read([&](auto& phase) { return phase.keep(phase.protect(tail_)); });
      node* last = found.get();
      // acquire ← the release below: the tail may be moved to a node whose link is then used.
      node* after = last->next.load_acquire();
      if (after != nullptr) {
        tail_.cas_strong_release(last, after);
      } else if (last->next.cas_strong_release(after, fresh)) {  // → the acquires of `next`
        tail_.cas_strong_release(last, fresh);
        return;
      }
    }
  }

  std::optional<Value> take() {
    auto guard = domain_.enter();
    for (;;) {
      const auto [first, second] = guard.read([&](auto& phase) {
        auto seen = phase.protect(head_);
        auto behind = phase.protect(seen->next);
        return phase.keep(std::move(seen), std::move(behind));
      });
      // A dequeued node keeps its link: the second is linked only while the first is still first.
      if (first != head_.load_acquire() && !SPOLIA_FAULT("queue.no_look")) continue;
      if (second == nullptr) return std::nullopt;
      node* last = tail_.load_acquire();
      // The tail must never lag behind the head, or it would be left pointing at a retired node.
      if (first == last) tail_.cas_strong_release(last, second.get());
      memory::note_access(second.get());
      std::optional<Value> value(second->value);
      node* expected = first.get();
      if (!head_.cas_strong_acq_rel(expected, second.get())) continue;
      structure_parts::retire_node(guard, first.get());
      return value;
    }
  }

 private:
  Domain& domain_;
  alignas(cache_line) atomic<node*> head_{nullptr};
  alignas(cache_line) atomic<node*> tail_{nullptr};
};

/// Harris, DISC 2001. An update takes out a whole run of deleted nodes at once.
template <class Domain>
class optimistic_set {
  static_assert(protects_optimistic_search<typename Domain::scheme_type>,
                "its searches walk through removed nodes, and this scheme does not protect those");

  struct node : Domain::header {
    explicit node(std::uint64_t k) : key(k) {}
    const std::uint64_t key;
    atomic<detail::map::marked_ptr<node>> next;
  };
  using link = detail::map::marked_ptr<node>;
  using held = typename Domain::template protected_ptr<link>;
  struct gap {
    held left;     // not deleted when seen; null: the head
    held right;    // the first node after it that is not deleted and not smaller
    link between;  // left's link when seen: right, or the first of a run of deleted nodes
    bool found;

    node* last() const noexcept { return right.get().get(); }
  };

 public:
  explicit optimistic_set(Domain& domain) : domain_(domain) {}
  optimistic_set(const optimistic_set&) = delete;
  optimistic_set& operator=(const optimistic_set&) = delete;
  ~optimistic_set() {
    for (node* n = head_.load_relaxed().get(); n != nullptr;) {
      node* const after = n->next.load_relaxed().get();
      domain_.destroy(n);
      n = after;
    }
  }

  bool insert(std::uint64_t key) {
    node* const fresh = domain_.template make<node>(key);
    auto guard = domain_.enter();
    for (;;) {
      const gap g = search(guard, key);
      if (g.found) {
        domain_.destroy(fresh);
        return false;
      }
      fresh->next.store_relaxed(link(g.last()));
      link expected(g.last());
      // release → the acquires in protect(): the node arrives constructed.
      if (behind(g).cas_strong_release(expected, link(fresh))) return true;
    }
  }

  bool erase(std::uint64_t key) {
    auto guard = domain_.enter();
    for (;;) {
      const gap g = search(guard, key);
      if (!g.found) return false;
      link after = g.last()->next.load_acquire();
      if (after.marked() || !g.last()->next.cas_strong_release(after, after.with_mark())) continue;
      search(guard, key);  // takes it out
      return true;
    }
  }

  bool contains(std::uint64_t key) {
    auto guard = domain_.enter();
    return guard.read([&](auto& phase) {
      auto at = phase.protect(head_);
      for (;;) {
        if (at == nullptr) return false;
        memory::note_access(at.get().get());
        auto next = phase.protect(at->next);
        if (at->key >= key && !next.get().marked()) return at->key == key;
        at = std::move(next);
      }
    });
  }

 private:
  /// The gap in which `key` belongs, with no deleted node in it.
  gap search(typename Domain::guard& guard, std::uint64_t key) {
    for (;;) {
      auto [left, right, between, found] =
          guard.read([&](auto& phase) { return look(phase, key); });
      gap g{std::move(left), std::move(right), between, found};
      if (g.between.get() == g.last()) return g;
      link expected = g.between;
      if (!behind(g).cas_strong_release(expected, link(g.last()))) continue;
      // We took the run out, so no other thread retires its nodes: they stay until we do.
      for (node* n = g.between.get(); n != g.last();) {
        node* const after = n->next.load_relaxed().get();
        guard.retire(n);
        n = after;
      }
    }
  }

  template <class Phase>
  auto look(Phase& phase, std::uint64_t key) {
    typename Phase::template protected_ptr<link> left;
    auto at = phase.protect(head_);
    link between = at.get();
    while (at != nullptr) {
      memory::note_access(at.get().get());
      auto next = phase.protect(at->next);
      if (!next.get().marked()) {
        if (at->key >= key) break;
        left = std::move(at);
        between = next.get();
      }
      at = std::move(next);
    }
    const bool found = at != nullptr && at->key == key;
    return phase.keep(std::move(left), std::move(at), between, found);
  }

  atomic<link>& behind(const gap& g) noexcept { return g.left ? g.left->next : head_; }

  Domain& domain_;
  alignas(cache_line) atomic<link> head_;
};

}  // namespace spolia::test
