// SPDX-License-Identifier: Apache-2.0
/// \file
/// What scenarios over counted pointers share: a collector of their own, nodes that must be whole
/// while they are looked at, turns of the collector, and the scenarios that are the same over both
/// families of pointers (counted/families.hpp).
#pragma once

#include <memory>
#include <utility>

#include <spolia/memory.hpp>
#include <spolia/model/engine.hpp>

#include "model/domain_scenarios.hpp"

namespace spolia::test {

template <class Family>
struct node_over {
  explicit node_over(int v = 1) : value(v) {}
  ~node_over() { value.write(0); }
  void look() const { model::check(value.read() != 0, "the object was looked at after its end"); }

  plain<int> value;
  typename Family::template location<node_over> next;
};
using counted_node = node_over<shared_family>;
using node_ptr = shared_ptr<counted_node>;

/// Epochs begin whenever a thread helps and units are logged; no thread helps by itself.
inline constexpr counted::detail::collector_options on_demand{
    .help_every = 1000, .epoch_at = 0, .step = 8, .hurry_from = 1000, .wait_at = 1000};

/// The state of a scenario: two locations with an object each.
template <class Family>
struct state_over {
  using node = node_over<Family>;
  using pointer = typename Family::template pointer<node>;
  using location = typename Family::template location<node>;
  using reader = typename Family::template private_pointer<node>;

  state_over() : collector(on_demand) {
    counted::detail::scenario_collector = &collector;
    counted::detail::most_found = 1;
    counted::detail::here();
    first = make(1);
    second = make(2);
  }
  state_over(const state_over&) = delete;
  state_over& operator=(const state_over&) = delete;

  static pointer make(int value) { return Family::template make<node>(value); }
  static void look_at(const location& from) {
    const reader n(from);
    if (n) n->look();
  }

  /// One thread's tasks until a whole epoch is over, if no other thread disturbs it.
  void epoch() {
    counted::detail::member& me = counted::detail::here();
    const unsigned turns = 1 + 2 * threads::high_water();
    for (unsigned i = 0; i < turns; ++i) counted::detail::help(me);
  }
  /// In `finally`: nothing may be left but what the locations hold.
  void end() {
    first = nullptr;
    second = nullptr;
    model::check(counted::drain(), "everything ends");
  }

  counted::detail::collector collector;
  location first;
  location second;
};

/// And a third one for pointers without ownership.
struct counted_state : state_over<shared_family> {
  void end() {
    weak = weak_ptr<counted_node>();
    state_over::end();
  }
  atomic_weak_ptr<counted_node> weak;
};

template <class State>
using setup_with = void (*)(model::scenario&, const std::shared_ptr<State>&);
using counted_setup = setup_with<counted_state>;

template <class State>
scenario_setup over_state(setup_with<State> threads) {
  return [threads](model::scenario& run) {
    auto s = std::make_shared<State>();
    run.name(s->first, "first");
    run.name(s->second, "second");
    threads(run, s);
    run.finally([s] { s->end(); });
  };
}
inline scenario_setup over_counted(counted_setup threads) { return over_state(threads); }

// ---- what is the same over both families

/// A pin against overwriting and a whole epoch.
template <class State>
void overwritten(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] { State::look_at(s->first); });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// The reader goes on to what hangs below the object, which ends under its feet.
template <class State>
void walked(model::scenario& run, const std::shared_ptr<State>& s) {
  s->first.load()->next = State::make(3);
  run.thread([s] {
    typename State::reader n(s->first);
    if (!n) return;
    n = n->next;
    if (n) n->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// The reader goes on twice, and so names something else where it named the first object.
template <class State>
void walked_on(model::scenario& run, const std::shared_ptr<State>& s) {
  auto below = State::make(3);
  below->next = State::make(4);
  s->first.load()->next = std::move(below);
  run.thread([s] {
    typename State::reader n(s->first);
    if (!n) return;
    n->look();
    n = n->next;
    if (n) n = n->next;
    if (n) n->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// The reader goes on to nothing, by a location in the object: null is named where the object
/// before it was, and so in the slot that says whether the pin is free.
template <class State>
void walked_off(model::scenario& run, const std::shared_ptr<State>& s) {
  s->first.load()->next = State::make(3);
  run.thread([s] {
    typename State::reader n(s->first);
    if (!n) return;
    n = n->next;
    if (!n) return;
    n = n->next;
    model::check(!n, "nothing follows");
    n = s->second;
    n->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// A private copy outlives what it was copied from.
template <class State>
void copied(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    typename State::reader n(s->first);
    const typename State::reader copy = n;
    n = s->second;
    if (copy) copy->look();
    if (n) n->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// A private pointer becomes a counted one, which outlives it.
template <class State>
void shared_out(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    typename State::pointer kept;
    {
      const typename State::reader n(s->first);
      kept = n.share_out();
    }
    if (kept) kept->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// exchange gives out a pointer that drops its unit at once, with a pin on the object.
template <class State>
void exchanged(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] { State::look_at(s->first); });
  run.thread([s] {
    typename State::pointer old = s->first.exchange(nullptr);
    old->look();
    old.reset();
    s->epoch();
  });
}

/// The last of two plain pointers.
template <class State>
void dropped_by_two(model::scenario& run, const std::shared_ptr<State>&) {
  const auto p = State::make(4);
  auto both = std::make_shared<std::pair<typename State::pointer, typename State::pointer>>(p, p);
  run.thread([both] {
    both->first->look();
    both->first.reset();
  });
  run.thread([both] {
    both->second->look();
    both->second.reset();
  });
}

}  // namespace spolia::test
