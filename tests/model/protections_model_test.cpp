// SPDX-License-Identifier: Apache-2.0
// Protections that own their slots, under the model checker: a walk by two pointers along a list
// whose nodes are taken out meanwhile.

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include <spolia/map/detail/marked_ptr.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Two nodes, of which one thread takes out as many as it is told.
template <class Domain>
struct short_list {
  struct node : Domain::header {
    ~node() { whole.write(false); }
    plain<bool> whole{true};
    atomic<detail::map::marked_ptr<node>> next;
  };
  using link = detail::map::marked_ptr<node>;

  static auto at_once() {
    typename Domain::options o;
    o.scheme.scan_at = 1;
    if constexpr (requires { o.scheme.advance_every; }) o.scheme.advance_every = 1;
    return o;
  }

  short_list() : d(at_once()) {
    for (int i = 0; i < 2; ++i) {
      node* const n = d.template make<node>();
      n->next.store_relaxed(head.load_relaxed());
      head.store_relaxed(link(n));
    }
  }
  void clear() {
    while (node* const n = head.load_relaxed().get()) {
      head.store_relaxed(n->next.load_relaxed());
      d.destroy(n);
    }
  }

  /// Marks the first node, and takes it out.
  void take_first() {
    auto guard = d.enter();
    node* const n = head.load_relaxed().get();
    const link after = n->next.load_relaxed();
    // release → the acquires in protect(): a walk that sees no mark is in time.
    n->next.store_release(after.with_mark());
    head.store_release(after);
    guard.retire(n);
  }

  /// Once along the list, or until it stands on a node that was taken out.
  void walk() {
    auto guard = d.enter();
    typename Domain::template protected_ptr<link> prev;
    auto cur = guard.protect(head);
    while (cur != nullptr) {
      auto next = guard.protect(cur->next);
      if (next.get().marked()) return;
      if (prev != nullptr) model::check(prev->whole.read(), "the node behind is gone");
      model::check(cur->whole.read(), "the node is gone");
      prev = std::move(cur);
      cur = std::move(next);
    }
    if (prev != nullptr) model::check(prev->whole.read(), "the last node is gone");
  }

  Domain d;
  atomic<link> head;
};

template <class Scheme, int Taken>
void a_walk_by_two_pointers(model::scenario& run) {
  auto s = std::make_shared<short_list<domain<Scheme, batch>>>();
  run.name(s->head, "head");
  run.thread([=] { s->walk(); });
  run.thread([=] {
    for (int i = 0; i < Taken; ++i) s->take_first();
    s->d.drain(1);
  });
  run.finally([=] { s->clear(); });
}

TEST(protections_model, keep_both_blocks_of_a_walk) {
  expect_clean(a_walk_by_two_pointers<hazard_pointers, 1>, at_most(2));
  expect_clean(a_walk_by_two_pointers<hazard_pointers, 2>, at_most(1));
  expect_clean(a_walk_by_two_pointers<hazard_eras, 2>, at_most(1));
}

TEST(protections_model, that_share_a_slot_are_found) {
  expect_found(a_walk_by_two_pointers<hazard_pointers, 1>, "slots.taken_twice", at_most(2),
               "data race");
}

}  // namespace
