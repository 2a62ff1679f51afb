// SPDX-License-Identifier: Apache-2.0
// Caches of counts under the model checker: units that a thread has at hand, against epochs that
// take them.

#include <gtest/gtest.h>

#include <memory>

#include "model/counted_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Each load fills the thread's count cache.
template <class Family>
struct cache_state : state_over<Family> {
  cache_state() { counted::detail::caches_from(1); }
  void end() {
    state_over<Family>::end();
    counted::detail::caches_from(counted::detail::never);
  }
};
using thick = cache_state<shared_family>;
using thin = cache_state<thin_family>;

template <class Location>
void load_and_look(const Location& from) {
  if (const auto p = from.load()) p->look();
}

/// A unit goes out and comes back while an epoch empties the cache.
template <class State>
void taken_away(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    load_and_look(s->first);
    load_and_look(s->first);
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// Two units out at once: the cache fetches more.
template <class State>
void restocked(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    const auto one = s->first.load();
    const auto two = s->first.load();
    const auto three = s->first.load();
    if (three) three->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// More units come in than the cache keeps.
template <class State>
void full(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    const auto p = s->first.load();
    for (int i = 0; i < 4; ++i) {
      const auto copy = p;
    }
    if (p) p->look();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
}

/// The cache is of another object than the one that is loaded.
template <class State>
void of_another(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    load_and_look(s->first);
    load_and_look(s->second);
    load_and_look(s->first);
    load_and_look(s->second);
  });
  run.thread([s] { s->first = s->second.load(); });
}

/// An epoch between two fillings: the owner opens the gate again.
template <class State>
void opened_again(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    load_and_look(s->first);
    load_and_look(s->first);
  });
  run.thread([s] {
    s->first = s->second.load();
    s->epoch();
  });
}

/// Others take the unit over, and drop it where no cache is of its object.
template <class State>
void given_to_another(model::scenario& run, const std::shared_ptr<State>& s) {
  auto given = std::make_shared<typename State::pointer>();
  run.thread([s, given] {
    load_and_look(s->first);
    *given = s->first.load();
  });
  run.thread([s] {
    s->first = nullptr;
    s->epoch();
  });
  run.finally([given] {
    if (*given) (*given)->look();
    given->reset();
  });
}

template <class State>
void clean(setup_with<State> threads, const model::options& how) {
  expect_clean(over_state(threads), how);
}

TEST(counted_cache_model, epochs_take_it_away) {
  clean<thick>(&taken_away, at_most(2));
  clean<thin>(&taken_away, at_most(1));
}
TEST(counted_cache_model, units_go_out_and_come_in) {
  clean<thick>(&restocked, at_most(2));
  clean<thin>(&full, at_most(1));
}
TEST(counted_cache_model, one_object_after_the_other) {
  clean<thick>(&of_another, at_most(1));
  clean<thin>(&opened_again, at_most(2));
}
TEST(counted_cache_model, another_thread_drops_the_unit) {
  clean<thick>(&given_to_another, at_most(2));
}

TEST(counted_cache_model, every_planted_fault_is_found) {
  const auto found = [](setup_with<thick> threads, const char* fault) {
    model::options how = at_most(2);
    how.fault = fault;
    const auto got = model::explore(how, over_state(threads));
    counted::detail::caches_from(counted::detail::never);
    EXPECT_FALSE(got.ok) << fault << " was not found in " << got.executions << " executions";
  };
  found(&taken_away, "counted.cache_busy_unseen");
  found(&taken_away, "counted.cache_looks_first");
  found(&taken_away, "counted.cache_no_light");
  found(&taken_away, "counted.cache_shut_late");
  found(&taken_away, "counted.cache_leaves_relaxed");
  found(&of_another, "counted.cache_any_word");
  found(&opened_again, "counted.cache_opens_shut");
}

}  // namespace
