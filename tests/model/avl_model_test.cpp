// SPDX-License-Identifier: Apache-2.0
// The avl tree in a whole domain under the model checker: with the keys 1 and 2 there, inserting 3
// rotates, and erasing unlinks.

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>

#include <spolia/map/avl.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/reclaim/token.hpp>

#include "model/map_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct trees {
  template <class Domain>
  using of = avl<int, int, Domain>;
};

/// A value that does not fit into a word lies in a block of its own.
struct boxed_number {
  explicit(false) boxed_number(int n) : number(n) {}
  boxed_number(const boxed_number& other) : number(other.number) {}
  boxed_number& operator=(const boxed_number&) = delete;
  ~boxed_number() { number = 0; }
  friend bool operator==(const boxed_number& a, int b) { return a.number == b; }
  int number;
};
struct trees_of_boxes {
  template <class Domain>
  using of = avl<int, boxed_number, Domain>;
};

/// A tree made by `there`, one key after the other; at rest it must be balanced again.
struct world {
  using tree = avl<int, int, domain<none>>;

  explicit world(std::initializer_list<int> there) : m(std::make_unique<tree>(home)) {
    for (const int key : there) m->insert(key, key);
  }
  void check(std::initializer_list<int> there) {
    const auto found = m->audit();
    model::check(found.wrong.empty(), "the tree is not sound");
    model::check(found.violations == 0, "damage is left that no thread repairs");
    model::check(found.pairs == there.size(), "there are other keys than there should be");
    for (const int key : there) model::check(m->find(key) == key, "a key is missing");
    m.reset();  // here, since it uses the domain, and this thread ends before the domain does
  }

  domain<none> home;
  std::unique_ptr<tree> m;
};

/// 20 comes between the two, and up.
void double_rotation_under_readers(model::scenario& run) {
  auto w = std::make_shared<world>(std::initializer_list<int>{10, 30});
  run.thread([=] { model::check(w->m->insert(20, 20), "20 was not there"); });
  run.thread([=] {
    model::check(w->m->contains(10), "10 is there all the time");
    model::check(w->m->contains(30), "30 is there all the time");
  });
  run.finally([=] { w->check({10, 20, 30}); });
}

/// Both subtrees of the root become lower: one of the threads has to see both.
void both_sides_shrink(model::scenario& run) {
  auto w = std::make_shared<world>(std::initializer_list<int>{20, 10, 30, 5, 40});
  run.thread([=] { w->m->erase(5); });
  run.thread([=] { w->m->erase(40); });
  run.finally([=] { w->check({20, 10, 30}); });
}

/// The root loses its value, and one of the two children because of which it had to stay.
void a_router_becomes_superfluous(model::scenario& run) {
  auto w = std::make_shared<world>(std::initializer_list<int>{20, 10, 30});
  run.thread([=] { w->m->erase(20); });
  run.thread([=] { w->m->erase(10); });
  run.finally([=] { w->check({30}); });
}

/// The root's node loses its value, and gets one.
void a_router_gets_a_value(model::scenario& run) {
  auto w = std::make_shared<world>(std::initializer_list<int>{20, 10, 30});
  auto inserted = std::make_shared<bool>();
  run.thread([=] { model::check(w->m->erase(20), "20 was there"); });
  run.thread([=] { *inserted = w->m->insert(20, 20); });
  run.finally([=] {
    if (*inserted) {
      w->check({10, 20, 30});
    } else {
      w->check({10, 30});
    }
  });
}

/// One rotates where the other one adds.
void rotations_meet(model::scenario& run) {
  auto w = std::make_shared<world>(std::initializer_list<int>{10, 20});
  run.thread([=] { w->m->insert(30, 30); });
  run.thread([=] { w->m->insert(15, 15); });
  run.finally([=] { w->check({10, 15, 20, 30}); });
}

/// 20 gets higher while it is moved from 30 to 10.
void a_node_is_moved_that_grows(model::scenario& run) {
  auto w = std::make_shared<world>(std::initializer_list<int>{10, 5, 30, 20, 40});
  run.thread([=] { w->m->insert(50, 50); });
  run.thread([=] { w->m->insert(25, 25); });
  run.finally([=] { w->check({5, 10, 20, 25, 30, 40, 50}); });
}

/// What is put in after an erasure must not be taken for what was there before.
void a_value_comes_back(model::scenario& run) {
  auto w = std::make_shared<world>(std::initializer_list<int>{20, 10, 30});
  run.thread([=] {
    w->m->erase(20);
    w->m->insert(20, 21);
    w->m->insert_or_assign(20, 20);
  });
  run.thread([=] {
    const auto first = w->m->find(20);
    const auto second = w->m->find(20);
    if (first == 21) model::check(second.has_value(), "a value was seen before it was there");
  });
  run.finally([=] { w->check({10, 20, 30}); });
}

constexpr auto all_of_a_world = {double_rotation_under_readers,
                                 both_sides_shrink,
                                 a_router_becomes_superfluous,
                                 a_router_gets_a_value,
                                 rotations_meet,
                                 a_node_is_moved_that_grows,
                                 a_value_comes_back};

TEST(avl_model, is_right_under_token) { expect_all_clean<trees, token>(at_most_in_order(2)); }
TEST(avl_model, is_right_with_blocks_for_values) {
  expect_all_clean<trees_of_boxes, token>(at_most_in_order(2));
}
TEST(avl_model, is_right_with_weak_memory) { expect_all_clean<trees, none>(at_most(1)); }
TEST(avl_model, rotates_and_unlinks_rightly) {
  for (const auto scenario : all_of_a_world) expect_clean(scenario, at_most_in_order(2));
}
TEST(avl_model, rotates_and_unlinks_rightly_with_weak_memory) {
  for (const auto scenario : all_of_a_world) expect_clean(scenario, at_most(1));
}

TEST(avl_model, a_search_that_ignores_versions_misses_keys) {
  expect_found(double_rotation_under_readers, "avl.no_version_check", at_most_in_order(2),
               "all the time");
}
TEST(avl_model, a_rotation_without_a_version_loses_readers) {
  expect_found(double_rotation_under_readers, "avl.no_shrink", at_most_in_order(2), "all the time");
}
TEST(avl_model, the_link_from_above_comes_last) {
  expect_found(search_beside_an_insert<trees, none>, "avl.parent_first", at_most_in_order(2),
               "all the time");
}
TEST(avl_model, nothing_is_hung_under_an_unlinked_node) {
  expect_found(insert_behind_an_erase<trees, none>, "avl.no_unlinked", at_most_in_order(2),
               "retired twice");
}
TEST(avl_model, a_node_is_published_whole) {
  expect_found(search_beside_an_insert<trees, none>, "avl.publish_relaxed", at_most(2),
               "all the time");
}
TEST(avl_model, the_next_holder_of_a_lock_sees_the_node) {
  expect_found(insert_twice<trees, none>, "avl.unlock_relaxed", at_most(2), "answers say");
}
TEST(avl_model, a_node_is_judged_by_its_parents_holder) {
  expect_found(a_node_is_moved_that_grows, "avl.no_parent_check", at_most(1),
               "damage is left that no thread repairs");
}
TEST(avl_model, values_are_looked_at_twice) {
  expect_found(a_value_comes_back, "avl.no_second_look", at_most_in_order(3),
               "before it was there");
}

}  // namespace
