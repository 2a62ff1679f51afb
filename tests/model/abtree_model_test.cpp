// SPDX-License-Identifier: Apache-2.0
// abtree_model_test.cpp: two threads whose updates split and merge the same leaves, in every order
// and with weak memory. In the end the tree has the keys that the answers speak of, and is
// balanced.
#include <spolia/map/abtree.hpp>
#include <spolia/model/engine.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/reclaim/token.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "model/search.hpp"

namespace {

using namespace spolia;

constexpr int keys = 8;

/// A tree and what became of each key.
template <class Domain>
struct world {
  Domain home;
  std::optional<abtree<int, int, Domain, std::less<int>, 3>> tree{std::in_place, home};
  std::array<int, keys> balance{};  // before the threads
  std::array<std::array<int, keys>, 2> by_thread{};

  explicit world(std::initializer_list<int> there, typename Domain::options how = {}) : home(how) {
    for (const int key : there)
      balance.at(static_cast<std::size_t>(key)) += tree->insert(key, key) ? 1 : 0;
  }
  void insert(int thread, int key) { note(thread, key) += tree->insert(key, key) ? 1 : 0; }
  void erase(int thread, int key) { note(thread, key) -= tree->erase(key) ? 1 : 0; }

  void check() {
    const auto found = tree->audit();
    model::check(found.wrong.empty(), "the tree is not sound");
    model::check(found.violations == 0, "a violation is left that no thread repairs");
    std::size_t pairs = 0;
    for (int key = 0; key < keys; ++key) {
      const auto k = static_cast<std::size_t>(key);
      const int sum = balance[k] + by_thread[0][k] + by_thread[1][k];
      model::check(sum == 0 || sum == 1, "two threads did what only one can do");
      model::check(tree->find(key) == (sum == 1 ? std::optional(key) : std::nullopt),
                   "an update was lost");
      pairs += static_cast<std::size_t>(sum);
    }
    model::check(found.pairs == pairs, "a key is there twice");
    tree.reset();  // here, since it uses the domain, and this thread ends before the domain does
  }

 private:
  int& note(int thread, int key) {
    return by_thread.at(static_cast<std::size_t>(thread)).at(static_cast<std::size_t>(key));
  }
};

using small_world = world<domain<none>>;

/// A leaf with three keys, as many as fit: both threads split it, or one splits what the other
/// shrinks.
void splitting(model::scenario& run) {
  auto w = std::make_shared<small_world>(std::initializer_list<int>{1, 3, 5});
  run.thread([=] { w->insert(0, 2); });
  run.thread([=] { w->insert(1, 4); });
  run.finally([=] { w->check(); });
}

/// Two leaves with two keys each under a root: both threads make one too small, and the root goes.
void merging(model::scenario& run) {
  auto w = std::make_shared<small_world>(std::initializer_list<int>{1, 3, 5, 7});
  run.thread([=] { w->erase(0, 1); });
  run.thread([=] { w->erase(1, 7); });
  run.finally([=] { w->check(); });
}

/// One thread merges leaves that the other one splits.
void merging_against_splitting(model::scenario& run) {
  auto w = std::make_shared<small_world>(std::initializer_list<int>{1, 3, 5, 7, 6});
  run.thread([=] { w->erase(0, 1); });
  run.thread([=] {
    w->insert(1, 4);
    w->insert(1, 2);
  });
  run.finally([=] { w->check(); });
}

/// One thread makes leaves merge while the other one goes over all of them from above to below.
void scanning_down(model::scenario& run) {
  auto w = std::make_shared<small_world>(std::initializer_list<int>{1, 3, 5, 7});
  run.thread([=] { w->erase(0, 1); });
  run.thread([=] {
    int last = keys;
    int found = 0;
    w->tree->for_each_down([&](int key, int) {
      model::check(key < last, "not in descending order");
      last = key;
      if (key != 1) found |= 1 << key;
    });
    model::check(found == (1 << 3 | 1 << 5 | 1 << 7), "a key that no thread touched is not found");
  });
  run.finally([=] { w->check(); });
}

/// The same key from both sides.
void same_key(model::scenario& run) {
  auto w = std::make_shared<small_world>(std::initializer_list<int>{1});
  run.thread([=] {
    w->insert(0, 2);
    w->erase(0, 2);
  });
  run.thread([=] {
    w->insert(1, 2);
    w->erase(1, 1);
  });
  run.finally([=] { w->check(); });
}

/// What is removed is freed while the other thread may be looking at it.
void freeing(model::scenario& run) {
  using freeing_world = world<domain<token, batch>>;
  auto w = std::make_shared<freeing_world>(std::initializer_list<int>{1, 3, 5});
  run.thread([=] {
    w->insert(0, 2);
    w->home.drain();
  });
  run.thread([=] { w->erase(1, 3); });
  run.finally([=] { w->check(); });
}

/// The same under a scheme that protects single pointers: a search must not go on from a node that
/// was removed meanwhile, nor stay there while the removal's owner sleeps.
using named_world = world<domain<hazard_pointers, batch>>;
std::shared_ptr<named_world> named(std::initializer_list<int> there) {
  domain<hazard_pointers, batch>::options scan_at_once;
  scan_at_once.scheme.scan_at = 1;
  return std::make_shared<named_world>(there, scan_at_once);
}

void freeing_unnamed_leaves(model::scenario& run) {
  const auto w = named({1, 3, 5});
  run.thread([=] {
    w->insert(0, 2);
    w->home.drain();
  });
  run.thread([=] { w->erase(1, 3); });
  run.finally([=] { w->check(); });
}

/// A reader on its way down, while the node that it stands on goes, and what it wants to read next
/// is replaced in the node's successor and freed.
void freeing_below_a_removed_node(model::scenario& run) {
  const auto w = named({1, 3, 5, 7});
  run.thread([=] {
    w->insert(0, 4);
    w->insert(0, 6);
    w->insert(0, 2);
    w->home.drain();
  });
  run.thread(
      [=] { model::check(w->tree->contains(1), "a key that no thread touched is not found"); });
  run.finally([=] { w->check(); });
}

using scenario_of = void (*)(model::scenario&);

/// Of what is right, as much is looked at as there is time for; faults are looked for until they
/// are found, however slow the machine is.
double seconds_for(std::string_view fault) {
  if (!fault.empty()) return 0;
  return test::cut_short ? 0.5 : 5;
}

model::outcome look(scenario_of scenario, int preemptions, const char* fault = "") {
  model::options how;
  how.preemptions = preemptions;
  how.fault = fault;
  how.seconds = seconds_for(fault);
  how.weak_memory = preemptions < 2;
  return model::explore(how, scenario);
}

model::outcome at_random(scenario_of scenario, const char* fault = "") {
  model::options how;
  how.how = model::options::mode::random;
  how.executions = 30'000;
  how.seconds = seconds_for(fault);
  how.fault = fault;
  return model::explore(how, scenario);
}

class AbtreeModel : public testing::TestWithParam<scenario_of> {};

TEST_P(AbtreeModel, is_right_with_one_preemption_and_weak_memory) {
  const auto found = look(GetParam(), 1);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
}

TEST_P(AbtreeModel, is_right_with_two_preemptions) {
  const auto found = look(GetParam(), 2);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
}

TEST_P(AbtreeModel, is_right_at_random) {
  const auto found = at_random(GetParam());
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, AbtreeModel,
                         testing::Values(&splitting, &merging, &merging_against_splitting,
                                         &scanning_down, &same_key, &freeing,
                                         &freeing_unnamed_leaves, &freeing_below_a_removed_node));

TEST(AbtreeModelFaults, updates_of_removed_nodes_are_found) {
  EXPECT_FALSE(at_random(merging_against_splitting, "scx.no_mark").ok);
}

TEST(AbtreeModelFaults, steps_from_removed_nodes_are_found) {
  EXPECT_FALSE(look(&freeing_below_a_removed_node, 2, "abtree.step_from_removed").ok);
}

TEST(AbtreeModelFaults, scans_that_do_not_get_on_are_found) {
  EXPECT_FALSE(look(&scanning_down, 0, "abtree.below_goes_right").ok);
}

TEST(AbtreeModelFaults, removal_of_changed_nodes_is_found) {
  EXPECT_FALSE(at_random(merging_against_splitting, "scx.ignore_frozen").ok);
}

}  // namespace
