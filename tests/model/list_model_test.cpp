// SPDX-License-Identifier: Apache-2.0
// The list in a whole domain under the model checker: what races of a few operations leave behind,
// and that no node is touched after its end.

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include <spolia/map/list.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/intervals.hpp>
#include <spolia/reclaim/token.hpp>
#include <spolia/reclaim/wait_free_eras.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// A list over the keys 1 and 2, whose values are ten times the keys; and one that retires eagerly.
template <class Scheme>
struct shared_list {
  using domain_type = domain<Scheme, batch>;

  shared_list() : d(eager()), m(std::make_unique<list<int, int, domain_type>>(d)) {
    m->insert(1, 10);
    m->insert(2, 20);
  }
  static typename domain_type::options eager() {
    typename domain_type::options o;
    if constexpr (requires { o.scheme.tick_every; }) o.scheme = {.tick_every = 1, .patience = 1};
    if constexpr (requires { o.scheme.attempts; }) o.scheme.attempts = 0;
    return o;
  }

  /// Lets the scheme free what this thread retired, if it may.
  void free_what_is_safe() {
    if constexpr (protects_pointers<Scheme>) {
      d.drain();
    } else {
      for (int operation = 0; operation < 4; ++operation) auto guard = d.enter();
    }
  }

  bool is(std::optional<int> one, std::optional<int> two, std::optional<int> three = {}) const {
    return m->find(1) == one && m->find(2) == two && m->find(3) == three;
  }

  domain_type d;
  std::unique_ptr<list<int, int, domain_type>> m;
};

template <class Scheme>
using shared = std::shared_ptr<shared_list<Scheme>>;

template <class Scheme>
shared<Scheme> start() {
  return std::make_shared<shared_list<Scheme>>();
}

/// The threads have ended: `as_it_must` says whether the map is right.
template <class Scheme, class F>
void judge(model::scenario& run, shared<Scheme> s, F as_it_must) {
  run.finally([=] {
    model::check(as_it_must(), "the map holds what the operations' answers say");
    std::size_t keys = 0;
    for (const int key : {1, 2, 3}) keys += s->m->contains(key) ? 1U : 0U;
    model::check(s->m->size_approx() == keys, "the size is the number of keys");
    s->m.reset();
  });
}

/// A key is inserted behind one that is erased: without a mark the insertion is lost.
template <class Scheme>
void insert_behind_an_erase(model::scenario& run) {
  auto s = start<Scheme>();
  run.thread([=] { model::check(s->m->erase(2), "2 was there"); });
  run.thread([=] { model::check(s->m->insert(3, 30), "3 was not"); });
  judge<Scheme>(run, s, [=] { return s->is(10, {}, 30); });
}

/// Neighbours are erased at the same time: both unlink, or help to.
template <class Scheme>
void erase_neighbours(model::scenario& run) {
  auto s = start<Scheme>();
  run.thread([=] { model::check(s->m->erase(1), "1 was there"); });
  run.thread([=] { model::check(s->m->erase(2), "2 was there"); });
  judge<Scheme>(run, s, [=] { return s->is({}, {}); });
}

/// Two threads want to erase the same key.
template <class Scheme>
void erase_twice(model::scenario& run) {
  auto s = start<Scheme>();
  auto erased = std::make_shared<std::array<bool, 2>>();
  for (std::size_t t = 0; t < erased->size(); ++t) {
    run.thread([=] { (*erased)[t] = s->m->erase(1); });
  }
  judge<Scheme>(run, s, [=] { return (*erased)[0] != (*erased)[1] && s->is({}, 20); });
}

/// Two threads want to insert the same key.
template <class Scheme>
void insert_twice(model::scenario& run) {
  auto s = start<Scheme>();
  auto inserted = std::make_shared<std::array<bool, 2>>();
  for (std::size_t t = 0; t < inserted->size(); ++t) {
    run.thread([=] { (*inserted)[t] = s->m->insert(3, static_cast<int>(t)); });
  }
  judge<Scheme>(run, s, [=] {
    return (*inserted)[0] != (*inserted)[1] && s->is(10, 20, (*inserted)[0] ? 0 : 1);
  });
}

/// A value is replaced: who looks finds the old one or the new one, never nothing.
template <class Scheme>
void replace_under_a_reader(model::scenario& run) {
  auto s = start<Scheme>();
  run.thread([=] {
    model::check(!s->m->insert_or_assign(1, 11), "1 was there");
    s->free_what_is_safe();
  });
  run.thread([=] {
    const auto seen = s->m->find(1);
    model::check(seen == 10 || seen == 11, "a value that is replaced is never missing");
  });
  judge<Scheme>(run, s, [=] { return s->is(11, 20); });
}

/// The same key is replaced and erased: either order, and nothing in between.
template <class Scheme>
void replace_against_an_erase(model::scenario& run) {
  auto s = start<Scheme>();
  auto inserted = std::make_shared<bool>();
  run.thread([=] { *inserted = s->m->insert_or_assign(1, 11); });
  run.thread([=] { model::check(s->m->erase(1), "1 was there all the time"); });
  judge<Scheme>(run, s, [=] { return *inserted ? s->is(11, 20) : s->is({}, 20); });
}

/// A search goes over nodes that are taken out and freed.
template <class Scheme>
void search_over_what_is_freed(model::scenario& run) {
  auto s = start<Scheme>();
  run.thread([=] { model::check(!s->m->erase(3), "3 was never there"); });
  run.thread([=] {
    s->m->erase(1);
    s->m->erase(2);
    s->free_what_is_safe();
  });
  judge<Scheme>(run, s, [=] { return s->is({}, {}); });
}

/// Whoever meets the deleted node takes it out, wherever its neighbours are by then.
template <class Scheme>
void three_at_one_place(model::scenario& run) {
  auto s = start<Scheme>();
  run.thread([=] { model::check(s->m->erase(2), "2 was there"); });
  run.thread([=] { model::check(s->m->insert(3, 30), "3 was not"); });
  run.thread([=] { model::check(s->m->erase(1), "1 was there"); });
  judge<Scheme>(run, s, [=] { return s->is({}, {}, 30); });
}

template <class Scheme>
void expect_all_clean(const model::options& how) {
  for (const auto scenario :
       {insert_behind_an_erase<Scheme>, erase_neighbours<Scheme>, erase_twice<Scheme>,
        insert_twice<Scheme>, replace_under_a_reader<Scheme>, replace_against_an_erase<Scheme>,
        search_over_what_is_freed<Scheme>}) {
    expect_clean(scenario, how);
  }
}

TEST(list_model, is_right_under_token) { expect_all_clean<token>(at_most(2)); }
TEST(list_model, is_right_under_token_with_more_preemptions) {
  expect_all_clean<token>(at_most_in_order(3));
}
TEST(list_model, is_right_under_hazard_pointers) {
  expect_all_clean<hazard_pointers>(at_most_in_order(2));
}
TEST(list_model, is_right_under_eras) {
  expect_all_clean<hazard_eras>(at_most_in_order(2));
  expect_all_clean<intervals>(at_most_in_order(2));
  expect_all_clean<wait_free_eras>(at_most_in_order(1));
}
TEST(list_model, three_threads_at_one_place) {
  expect_clean(three_at_one_place<token>, at_most_in_order(2));
  expect_clean(three_at_one_place<hazard_pointers>, at_most_in_order(2));
}

TEST(list_model, without_marks_insertions_are_lost) {
  expect_found(insert_behind_an_erase<token>, "list.no_mark", at_most(2),
               "what the operations' answers say");
}
TEST(list_model, a_node_is_published_whole) {
  expect_found(insert_behind_an_erase<token>, "list.publish_relaxed", at_most(2), "race");
}
TEST(list_model, who_has_not_unlinked_a_node_must_not_retire_it) {
  expect_found(search_over_what_is_freed<token>, "list.retire_before_unlink", at_most(2), "race");
}
TEST(list_model, a_deleted_nodes_link_says_nothing_under_hazard_pointers) {
  expect_found(search_over_what_is_freed<hazard_pointers>, "list.no_validate", at_most_in_order(2),
               "freed");
}

}  // namespace
