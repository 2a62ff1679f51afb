// SPDX-License-Identifier: Apache-2.0
/// \file
/// What scenarios over counted pointers share: a collector of their own, nodes that must be whole
/// while they are looked at, and turns of the collector.
#pragma once

#include <memory>
#include <utility>

#include <spolia/memory.hpp>
#include <spolia/model/engine.hpp>

#include "model/domain_scenarios.hpp"

namespace spolia::test {

struct counted_node {
  explicit counted_node(int v = 1) : value(v) {}
  ~counted_node() { value.write(0); }
  void look() const { model::check(value.read() != 0, "the object was looked at after its end"); }

  plain<int> value;
  atomic_shared_ptr<counted_node> next;
};

using node_ptr = shared_ptr<counted_node>;

/// Epochs begin whenever somebody helps and units are logged; nobody helps by himself.
inline constexpr counted::collector_options on_demand{
    .help_every = 1000, .epoch_at = 0, .step = 8, .crowd = 1000, .too_many = 1000};

/// The state of a scenario: two locations, and a third one for pointers without ownership.
struct counted_state {
  counted_state() : collector(on_demand) {
    counted::scenario_collector = &collector;
    counted::here();
    first = make_shared<counted_node>(1);
    second = make_shared<counted_node>(2);
  }
  counted_state(const counted_state&) = delete;
  counted_state& operator=(const counted_state&) = delete;

  /// One thread's tasks until a whole epoch is over, if nobody disturbs it.
  void epoch() {
    counted::member& me = counted::here();
    const unsigned turns = 1 + 2 * threads::high_water();
    for (unsigned i = 0; i < turns; ++i) counted::help(me);
  }
  /// In `finally`: nothing may be left but what the locations hold.
  void end() {
    first = nullptr;
    second = nullptr;
    weak = weak_ptr<counted_node>();
    model::check(counted::drain(), "everything ends");
  }

  counted::collector collector;
  atomic_shared_ptr<counted_node> first;
  atomic_shared_ptr<counted_node> second;
  atomic_weak_ptr<counted_node> weak;
};

using counted_setup = void (*)(model::scenario&, const std::shared_ptr<counted_state>&);

inline scenario_setup over_counted(counted_setup threads) {
  return [threads](model::scenario& run) {
    auto s = std::make_shared<counted_state>();
    run.name(s->first, "first");
    run.name(s->second, "second");
    threads(run, s);
    run.finally([s] { s->end(); });
  };
}

}  // namespace spolia::test
