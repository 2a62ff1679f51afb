// SPDX-License-Identifier: Apache-2.0
/// \file
/// Scenarios over a bare era scheme: readers announce eras, while a writer unlinks, ends eras and
/// scans.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <spolia/base/threads.hpp>
#include <spolia/model/engine.hpp>

#include "model/bare_scheme.hpp"
#include "model/search.hpp"

namespace spolia::test {

/// Two sources; every retirement ends an era, and collecting makes a scan. Nodes of the beginning
/// are as old as the world.
template <class Scheme>
struct state {
  using domain_type = bare_domain<Scheme>;
  using guard = bare_guard<domain_type>;
  using node = typename domain_type::node;

  state() : d(numbers()) {
    d.join();
    for (int i = 0; i < 2; ++i) {
      source[static_cast<std::size_t>(i)].store_relaxed(node::make(i + 1));
    }
  }

  static typename Scheme::options numbers() {
    typename Scheme::options o;
    o.scan_at = 1000;
    o.advance_every = 1;
    if constexpr (requires { o.attempts; }) o.attempts = 0;  // always ask
    return o;
  }

  /// Puts `fresh` in the place of what is linked there, and retires that.
  void replace(std::size_t i, node* fresh) {
    if (node* const old = source[i].exchange_acq_rel(fresh)) d.retire(old);
  }
  void take_away(std::size_t i) {
    replace(i, nullptr);
    d.collect();
  }

  /// Follows the link of `at`, which was found in source 0, if that can be right.
  node* follow(guard& g, node* at, unsigned slot) {
    node* to = nullptr;
    return g.step(at->next, slot, to) || source[0].load_acquire() == at ? to : nullptr;
  }

  void end() {
    for (auto& s : source) {
      for (node* n = s.load_relaxed(); n != nullptr;) {
        node* const after = n->next.load_relaxed();
        node::end(n);
        n = after;
      }
    }
    d.end();
  }

  domain_type d;
  std::array<atomic<node*>, 2> source;
};

template <class Scheme>
using shared = std::shared_ptr<state<Scheme>>;
template <class Scheme>
using setup = void (*)(model::scenario&, const shared<Scheme>&);

template <class Scheme>
auto over_state(setup<Scheme> threads) {
  return [=](model::scenario& run) {
    auto s = std::make_shared<state<Scheme>>();
    run.name(s->source, "source");
    threads(run, s);
    run.finally([s] { s->end(); });
  };
}

template <class Scheme>
void expect_clean(setup<Scheme> threads, int preemptions, bool weak_memory = true) {
  model::options how;
  how.preemptions = preemptions;
  how.weak_memory = weak_memory;
  const auto got = searched(how, over_state<Scheme>(threads));
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
  testing::Test::RecordProperty("executions", std::to_string(got.executions));
}

template <class Scheme>
void expect_found(setup<Scheme> threads, const char* fault, int preemptions = 2) {
  model::options how;
  how.preemptions = preemptions;
  how.fault = fault;
  const auto got = model::explore(how, over_state<Scheme>(threads));
  EXPECT_FALSE(got.ok) << fault << " was not found in " << got.executions << " executions";
}

template <class Scheme>
void look_once(model::scenario& run, const shared<Scheme>& s) {
  run.thread([s] {
    typename state<Scheme>::guard g(s->d);
    if (auto* const n = g.protect(s->source[0])) n->look();
  });
}

template <class Scheme>
void one_reader(model::scenario& run, const shared<Scheme>& s) {
  look_once<Scheme>(run, s);
  run.thread([s] { s->take_away(0); });
}

/// An era ends beside the retirement, so that the clock may be read too late or too early.
template <class Scheme>
void beside_another_clock_hand(model::scenario& run, const shared<Scheme>& s) {
  one_reader<Scheme>(run, s);
  run.thread([s] { s->d.collect(); });
}

/// What the reader finds may be born after it began, and be retired before it looks.
template <class Scheme>
void born_and_retired_under_the_reader(model::scenario& run, const shared<Scheme>& s) {
  look_once<Scheme>(run, s);
  run.thread([s] {
    s->replace(0, nullptr);
    s->replace(0, s->d.make(7));
    s->take_away(0);
  });
}

/// The second look may be at a later era than the first, in the same slot.
template <class Scheme>
void two_looks(model::scenario& run, const shared<Scheme>& s) {
  run.thread([s] {
    typename state<Scheme>::guard g(s->d);
    auto* const first = g.protect(s->source[0], 0);
    if (first != nullptr) first->look();
    if (auto* const n = g.protect(s->source[1], 1)) n->look();
    if (first != nullptr) first->look();
  });
  run.thread([s] { s->take_away(0); });
}

template <class Scheme>
void one_slot_twice(model::scenario& run, const shared<Scheme>& s) {
  run.thread([s] {
    typename state<Scheme>::guard g(s->d);
    if (auto* const n = g.protect(s->source[0])) n->look();
    if (auto* const n = g.protect(s->source[1])) n->look();
  });
  run.thread([s] { s->take_away(0); });
}

template <class Scheme>
void two_operations(model::scenario& run, const shared<Scheme>& s) {
  look_once<Scheme>(run, s);
  run.thread([s] {
    {
      typename state<Scheme>::guard g(s->d);
      if (auto* const n = g.protect(s->source[0])) n->look();
    }
    typename state<Scheme>::guard g(s->d);
    if (auto* const n = g.protect(s->source[1])) n->look();
  });
  run.thread([s] { s->take_away(0); });
}

template <class Scheme>
void nested(model::scenario& run, const shared<Scheme>& s) {
  run.thread([s] {
    typename state<Scheme>::guard outer(s->d);
    auto* const first = outer.protect(s->source[0]);
    {
      typename state<Scheme>::guard inner(s->d);
      if (auto* const n = inner.protect(s->source[1])) n->look();
    }
    if (first != nullptr) first->look();
  });
  run.thread([s] {
    s->replace(0, nullptr);
    s->take_away(1);
  });
}

template <class Scheme>
void announced(model::scenario& run, const shared<Scheme>& s) {
  run.thread([s] {
    typename state<Scheme>::guard g(s->d);
    auto* const n = s->source[0].load_acquire();
    g.announce(n, 0);
    if (n != nullptr && s->source[0].load_acquire() == n) n->look();
  });
  run.thread([s] { s->take_away(0); });
}

/// The reader stands on the first node when a second one is born after it, and both are taken out,
/// the first one first: its frozen link leads to the second one forever.
template <class Scheme>
void a_frozen_link(model::scenario& run, const shared<Scheme>& s) {
  run.thread([s] {
    typename state<Scheme>::guard g(s->d);
    auto* const at = g.protect(s->source[0], 0);
    if (at == nullptr) return;
    if (auto* const to = s->follow(g, at, 1)) to->look();
    at->look();
  });
  run.thread([s] {
    s->replace(1, nullptr);
    auto* const second = s->d.make(7);
    s->source[0].load_relaxed()->next.store_release(second);
    s->replace(0, second);
    s->take_away(0);
  });
}

/// The second node is reached in the era of the first, whose slot is then used for something else.
template <class Scheme>
void handed_on(model::scenario& run, const shared<Scheme>& s) {
  s->source[0].load_relaxed()->next.store_relaxed(state<Scheme>::node::make(3));
  run.thread([s] {
    typename state<Scheme>::guard g(s->d);
    auto* const at = g.protect(s->source[0], 0);
    auto* const to = s->follow(g, at, 1);
    if (auto* const n = g.protect(s->source[1], 0)) n->look();
    if (to != nullptr) to->look();
  });
  run.thread([s] {
    s->d.retire(s->source[0].load_relaxed()->next.exchange_acq_rel(nullptr));
    s->d.collect();
  });
}

}  // namespace spolia::test
