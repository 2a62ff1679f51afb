// SPDX-License-Identifier: Apache-2.0
/// \file Treiber's stack and the queue of Michael and Scott, as a container writes them against
/// guards: the same code for schemes that protect single pointers and for those whose searches
/// start over. Both are fit for schemes that protect pointers, since what they follow is validated
/// by its source.
#pragma once

#include <cstdint>
#include <optional>

#include <spolia/base/atomic.hpp>
#include <spolia/reclaim/domain.hpp>

#include "support/ledger.hpp"
#include "support/stress.hpp"

namespace spolia::test {

template <class Domain>
class treiber_stack {
  struct node : Domain::header {
    node(ledger& book, std::uint64_t v) : value(book, v) {}
    tracked value;
    atomic<node*> next{nullptr};
  };

 public:
  treiber_stack(Domain& domain, ledger& book) : domain_(domain), book_(book) {}
  ~treiber_stack() {
    for (node* n = head_.load_relaxed(); n != nullptr;) {
      node* const after = n->next.load_relaxed();
      domain_.destroy(n);
      n = after;
    }
  }

  void put(std::uint64_t value) {
    node* const fresh = domain_.template make<node>(book_, value);
    node* seen = head_.load_relaxed();
    do {
      fresh->next.store_relaxed(seen);
    } while (!head_.cas_weak_release(seen, fresh));
  }

  std::optional<std::uint64_t> take() {
    auto guard = domain_.enter();
    for (;;) {
      node* top = guard.read([&] {
        node* const n = guard.protect(head_, 0);
        guard.keep(n, 0);
        return n;
      });
      if (top == nullptr) return std::nullopt;
      node* const after = top->next.load_relaxed();
      const std::uint64_t value = top->value.read();
      if (!head_.cas_strong_acq_rel(top, after)) continue;
      top->value.note_retired();
      guard.retire(top);
      return value;
    }
  }

  /// Reads the values of the first nodes, linked and unlinked ones: not for schemes that protect
  /// single pointers.
  std::uint64_t walk(unsigned nodes) {
    auto guard = domain_.enter();
    return guard.read([&] {
      std::uint64_t sum = 0;
      node* n = guard.protect(head_);
      for (unsigned i = 0; i < nodes && n != nullptr; ++i) {
        sum += n->value.read();
        n = guard.protect(n->next);
      }
      return sum;
    });
  }

 private:
  Domain& domain_;
  ledger& book_;
  alignas(cache_line) atomic<node*> head_{nullptr};
};

template <class Domain>
class michael_scott_queue {
  struct node : Domain::header {
    node(ledger& book, std::uint64_t v) : value(book, v) {}
    tracked value;
    atomic<node*> next{nullptr};
  };
  struct front {
    node* first;
    node* second;
  };

 public:
  michael_scott_queue(Domain& domain, ledger& book) : domain_(domain), book_(book) {
    node* const dummy = domain_.template make<node>(book_, 0U);
    head_.store_relaxed(dummy);
    tail_.store_relaxed(dummy);
  }
  ~michael_scott_queue() {
    for (node* n = head_.load_relaxed(); n != nullptr;) {
      node* const after = n->next.load_relaxed();
      domain_.destroy(n);
      n = after;
    }
  }

  void put(std::uint64_t value) {
    node* const fresh = domain_.template make<node>(book_, value);
    auto guard = domain_.enter();
    for (;;) {
      node* last = guard.read([&] {
        node* const n = guard.protect(tail_, 0);
        guard.keep(n, 0);
        return n;
      });
      node* after = last->next.load_acquire();
      if (after != nullptr) {
        tail_.cas_strong_release(last, after);
      } else if (last->next.cas_strong_release(after, fresh)) {
        tail_.cas_strong_release(last, fresh);
        return;
      }
    }
  }

  std::optional<std::uint64_t> take() {
    auto guard = domain_.enter();
    for (;;) {
      front seen = guard.read([&] {
        front f{};
        f.first = guard.protect(head_, 0);
        f.second = guard.protect(f.first->next, 1);
        guard.keep(f.first, 0);
        guard.keep(f.second, 1);
        return f;
      });
      // A dequeued node keeps its link: only while the first is still the first, the second is
      // linked.
      if (head_.load_acquire() != seen.first) continue;
      if (seen.second == nullptr) return std::nullopt;
      node* last = tail_.load_acquire();
      if (last == seen.first) tail_.cas_strong_release(last, seen.second);
      const std::uint64_t value = seen.second->value.read();
      node* const first = seen.first;
      if (!head_.cas_strong_acq_rel(seen.first, seen.second)) continue;
      first->value.note_retired();
      guard.retire(first);
      return value;
    }
  }

 private:
  Domain& domain_;
  ledger& book_;
  alignas(cache_line) atomic<node*> head_{nullptr};
  alignas(cache_line) atomic<node*> tail_{nullptr};
};

/// Threads put and take; what was put is taken once, garbage stays within the scheme's bound, and
/// in the end nothing is left.
template <template <class> class Container, class Domain>
void stress_container(typename Domain::options options, unsigned threads) {
  ledger book;
  std::atomic<std::uint64_t> put{0};
  std::atomic<std::uint64_t> taken{0};
  {
    Domain domain(options);
    {
      Container<Domain> container(domain, book);
      run_stress({.threads = threads}, [&](stress_thread& self) {
        std::uint64_t in = 0;
        std::uint64_t out = 0;
        while (self.running()) {
          if (self.random().chance(1, 2)) {
            const std::uint64_t value = self.random()() >> 8U;
            container.put(value);
            in += value;
          } else if (const auto value = container.take()) {
            out += *value;
          }
          if constexpr (requires { container.walk(1); } &&
                        protects_optimistic_search<typename Domain::scheme_type>) {
            container.walk(20);
          }
        }
        put += in;
        taken += out;
      });
      while (const auto value = container.take()) taken += *value;
      const auto bound = domain.garbage_bound(threads + 1);
      ASSERT_NE(bound.has_value(), protects_eras<typename Domain::scheme_type>);
      if (bound.has_value()) {
        EXPECT_LE(static_cast<std::uint64_t>(book.peak_limbo()), *bound + threads + 1);
      }
    }
    EXPECT_TRUE(domain.drain());
  }
  EXPECT_EQ(put.load(), taken.load());
  EXPECT_GT(book.retired(), 0);
  book.expect_empty();
}

}  // namespace spolia::test
