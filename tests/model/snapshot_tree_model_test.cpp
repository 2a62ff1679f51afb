// SPDX-License-Identifier: Apache-2.0
// The snapshot tree and its snapshots in a whole domain under the model checker.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>

#include <spolia/map/detail/chromatic_tree.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/snapshot.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using short_domain = domain<debra, batch>;

/// A tree made by `there`, one key after the other. At rest it must be sound and balanced.
template <class Collector, std::size_t LeafPairs = 1, std::size_t Shortcuts = 0>
struct world {
  using tree =
      detail::map::chromatic_tree<int, int, Collector, std::less<int>, LeafPairs, Shortcuts>;

  explicit world(std::initializer_list<int> there)
      : nodes({.scheme = {.scan_every = 1, .min_looks = 1}}), versions(nodes, time, options()) {
    m.emplace(versions, std::less<int>());
    for (const int key : there) insert(key);
  }
  static typename Collector::options options() {
    typename Collector::options o;
    o.batch = 1;
    return o;
  }
  bool insert(int key) { return m->template put<false>(key, 10 * key); }
  bool erase(int key) { return m->erase(key); }
  const int* find(const snapshot& then, int key) {
    auto here = versions.enter();
    const auto* const found = m->at_instants().find_at(here, then.timestamp(), key);
    return found == nullptr ? nullptr : &found->value();
  }
  std::size_t size(const snapshot& then) {
    auto here = versions.enter();
    typename tree::past::chunk found;
    const auto& past = m->at_instants();
    past.first_at(here, then.timestamp(), {}, found, tree::past::which::all);
    std::size_t size = 0;
    typename tree::past::limits rest;
    for (unsigned i = 0; i < found.count; ++i) {
      const auto some = past.pairs_of(*found.of[i], then.timestamp(), rest);
      if (some.empty()) continue;
      size += some.size();
      rest = {.lo = &some.back().key(), .open = true};
    }
    return size;
  }
  void run_on(int operations) {
    for (int n = 0; n < operations; ++n) auto guard = nodes.enter();
  }
  /// In `finally`. The collector hears of threads that end, and outlives that.
  void judge(std::initializer_list<int> there) {
    const auto found = m->audit();
    model::check(found.wrong.empty(), "the tree is not sound");
    model::check(found.violations == 0, "a violation is left that no thread repairs");
    model::check(found.pairs == there.size(), "there are other keys than there should be");
    {
      auto here = versions.enter();
      for (const int key : there) {
        const auto* const l = m->find(here, key);
        model::check(l != nullptr && l->value() == 10 * key, "a key is missing");
      }
    }
    m->renew_shortcuts();
    snapshot(time).withdraw();
    versions.collect();
    versions.collect();
    model::check(versions.stats().held() == 0, "what is obsolete goes");
    m.reset();
  }

  short_domain nodes;
  timeline time;
  Collector versions;
  std::optional<tree> m;
};

using dl = world<dl_rt<short_domain>>;
using sl = world<sl_rt<short_domain>>;
using dl_of_four = world<dl_rt<short_domain>, 4>;
using sl_of_four = world<sl_rt<short_domain>, 4>;
using dl_by_shortcuts = world<dl_rt<short_domain>, 1, 64>;
using sl_by_shortcuts = world<sl_rt<short_domain>, 1, 64>;

template <class World>
auto start(std::initializer_list<int> there) {
  return std::make_shared<World>(there);
}

/// Leaves that are neighbours: one parent is removed with a leaf while the other side changes.
template <class World>
void insert_beside_an_erase(model::scenario& run) {
  auto w = start<World>({1, 2});
  run.thread([=] { model::check(w->erase(1), "1 was there"); });
  run.thread([=] { model::check(w->insert(3), "3 was not"); });
  run.finally([=] { w->judge({2, 3}); });
}

template <class World>
void erase_neighbours(model::scenario& run) {
  auto w = start<World>({1, 2});
  run.thread([=] { model::check(w->erase(1), "1 was there"); });
  run.thread([=] { model::check(w->erase(2), "2 was there"); });
  run.finally([=] { w->judge({}); });
}

/// Both make red below red, or would.
template <class World>
void two_grow_one_side(model::scenario& run) {
  auto w = start<World>({1, 2});
  run.thread([=] { w->insert(3); });
  run.thread([=] { w->insert(4); });
  run.finally([=] { w->judge({1, 2, 3, 4}); });
}

/// What a snapshot sees is one instant, and stays: 1 was always there, and 3 came before 2 went.
template <class World>
void a_snapshot_meets_updates(model::scenario& run) {
  auto w = start<World>({1, 2});
  run.thread([=] {
    const snapshot now(w->time);
    const int* const one = w->find(now, 1);
    model::check(one != nullptr, "1 is there all the time");
    const bool two = w->find(now, 2) != nullptr;
    const bool three = w->find(now, 3) != nullptr;
    model::check(two || three, "a snapshot saw two instants");
    model::check(*one == 10, "what was found stays");
  });
  run.thread([=] {
    w->insert(3);
    w->erase(2);
    w->versions.collect();
    w->run_on(3);
  });
  run.finally([=] { w->judge({1, 3}); });
}

/// A snapshot from before goes into nodes that have been removed since.
template <class World>
void a_snapshot_of_the_past(model::scenario& run) {
  auto w = start<World>({1, 2});
  auto then = std::make_shared<std::optional<snapshot>>();
  then->emplace(w->time);
  run.thread([=] {
    const int* const two = w->find(**then, 2);
    model::check(two != nullptr && w->size(**then) == 2, "2 was there then");
    w->run_on(1);
    model::check(*two == 20, "what was found stays");
    then->reset();
  });
  run.thread([=] {
    w->erase(2);
    w->erase(1);
    w->versions.collect();
    w->run_on(6);
  });
  run.finally([=] { w->judge({}); });
}

/// Reads at a lease, while one thread ends it and another one lets go of what it held.
template <class World>
void a_lease_ends_while_it_is_read(model::scenario& run) {
  auto w = start<World>({1});
  snapshot(w->time).withdraw();
  auto mine = std::make_shared<std::optional<lease>>();
  mine->emplace(w->time, std::chrono::nanoseconds(0));
  w->erase(1);
  run.thread([=] {
    try {
      auto here = w->versions.enter();
      const auto* const found = w->m->at_instants().find_at(here, **mine, 1);
      model::check(found != nullptr && found->value() == 10, "a lease lost what it saw");
    } catch (const snapshot_expired&) {
    }
  });
  run.thread([=] {
    w->time.leases().end_overdue();
    w->versions.collect();
    w->run_on(8);
  });
  run.finally([=] {
    mine->reset();
    w->judge({});
  });
}

/// A leaf is divided while a pair of it goes.
template <class World>
void divide_beside_an_erase(model::scenario& run) {
  auto w = start<World>({1, 2, 3, 4});
  run.thread([=] { model::check(w->insert(5), "5 was not there"); });
  run.thread([=] { model::check(w->erase(1), "1 was there"); });
  run.finally([=] { w->judge({2, 3, 4, 5}); });
}

/// What is left of a leaf goes into its sibling, while that changes.
template <class World>
void fold_beside(model::scenario& run, bool insert) {
  auto w = start<World>({1, 2, 3, 4, 5});
  w->erase(5);
  run.thread([=] {
    model::check(w->erase(2), "2 was there");
    w->versions.collect();
    w->run_on(3);
  });
  run.thread([=] {
    model::check(insert ? w->insert(6) : w->erase(3), "3 was there, and 6 was not");
    const snapshot now(w->time);
    const int* const one = w->find(now, 1);
    model::check(one != nullptr && *one == 10, "1 is there all the time");
  });
  run.finally([=] { insert ? w->judge({1, 3, 4, 6}) : w->judge({1, 4}); });
}
template <class World>
void fold_beside_an_erase(model::scenario& run) {
  fold_beside<World>(run, false);
}
template <class World>
void fold_beside_an_insertion(model::scenario& run) {
  fold_beside<World>(run, true);
}

/// A tree with two shortcuts, to the parents of its leaves, and one above them to the root.
template <class World>
auto start_by_shortcut() {
  auto w = start<World>({1, 2, 3, 4});
  w->m->renew_shortcuts();
  return w;
}

/// The router where a search would begin is removed, and what hung on it freed.
template <class World>
void a_shortcut_is_removed(model::scenario& run) {
  auto w = start_by_shortcut<World>();
  run.thread([=] {
    auto here = w->versions.enter();
    const auto* const four = w->m->find(here, 4);
    model::check(four != nullptr && four->value() == 40, "4 is there all the time");
  });
  run.thread([=] {
    for (const int key : {1, 2, 3}) w->erase(key);
    w->versions.collect();
    w->run_on(8);
  });
  run.finally([=] { w->judge({4}); });
}

template <class World>
void shortcuts_are_renewed(model::scenario& run) {
  auto w = start_by_shortcut<World>();
  run.thread([=] {
    auto here = w->versions.enter();
    model::check(w->m->find(here, 1) != nullptr, "1 is there all the time");
  });
  run.thread([=] {
    w->m->renew_shortcuts();
    w->run_on(8);
  });
  run.finally([=] { w->judge({1, 2, 3, 4}); });
}

/// What was changed by a shortcut is in snapshots taken afterwards, and in the tree.
template <class World>
void a_shortcut_to_an_update(model::scenario& run) {
  auto w = start_by_shortcut<World>();
  run.thread([=] {
    model::check(w->insert(5), "5 was not there");
    const snapshot now(w->time);
    const int* const five = w->find(now, 5);
    model::check(five != nullptr && *five == 50, "a snapshot missed what was there");
    model::check(w->find(now, 4) != nullptr, "4 is there all the time");
  });
  run.thread([=] {
    w->erase(1);
    w->erase(2);
  });
  run.finally([=] { w->judge({3, 4, 5}); });
}

/// A shortcut's router is removed when a snapshot is taken, before or after: that sees one of the
/// two, always the same.
template <class World>
void a_snapshot_by_a_shortcut(model::scenario& run) {
  auto w = start_by_shortcut<World>();
  run.thread([=] {
    const snapshot now(w->time);
    const bool one = w->find(now, 1) != nullptr;
    model::check((w->find(now, 1) != nullptr) == one, "a snapshot saw two instants");
    const bool two = w->find(now, 2) != nullptr;
    model::check(one || !two, "2 went first");
    model::check(w->size(now) == 2U + (one ? 1U : 0U) + (two ? 1U : 0U), "a scan saw another");
  });
  run.thread([=] {
    w->erase(2);
    w->erase(1);
  });
  run.finally([=] { w->judge({3, 4}); });
}

/// Snapshots from before and after a shortcut's router is removed, and a table is made.
template <class World>
void snapshots_and_younger_shortcuts(model::scenario& run) {
  auto w = start_by_shortcut<World>();
  run.thread([=] {
    const snapshot then(w->time);
    w->erase(2);
    w->erase(1);
    const snapshot now(w->time);
    model::check(w->find(now, 1) == nullptr && w->size(now) == 2, "1 and 2 are gone");
    for (const int key : {5, 6, 7}) w->insert(key);
    w->m->renew_shortcuts();
    const snapshot last(w->time);
    for (const int key : {1, 2, 3, 4}) {
      model::check(w->find(then, key) != nullptr, "a key is missing that was there");
      model::check((w->find(now, key) != nullptr) == (key > 2), "another instant was seen");
    }
    model::check(w->find(now, 5) == nullptr && w->find(last, 5) != nullptr, "5 came later");
    model::check(w->size(then) == 4 && w->size(now) == 2 && w->size(last) == 5, "a scan's number");
  });
  run.finally([=] { w->judge({3, 4, 5, 6, 7}); });
}

template <class World>
class snapshot_tree_model : public testing::Test {};
using worlds = testing::Types<sl, dl>;
TYPED_TEST_SUITE(snapshot_tree_model, worlds);

TYPED_TEST(snapshot_tree_model, updates_are_made_at_one_instant) {
  expect_clean(insert_beside_an_erase<TypeParam>, at_most_in_order(2));
  expect_clean(erase_neighbours<TypeParam>, at_most_in_order(2));
  expect_clean(two_grow_one_side<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(snapshot_tree_model, snapshots_are_instants) {
  expect_clean(a_snapshot_meets_updates<TypeParam>, at_most_in_order(2));
  expect_clean(a_snapshot_of_the_past<TypeParam>, at_most_in_order(1));
}

TEST(snapshot_tree_leaves, are_divided_and_folded_at_one_instant) {
  expect_clean(divide_beside_an_erase<dl_of_four>, at_most_in_order(2));
  expect_clean(fold_beside_an_erase<sl_of_four>, at_most_in_order(1));
  expect_clean(fold_beside_an_insertion<dl_of_four>, at_most_in_order(1));
}
TEST(snapshot_tree_leaves_faults, a_sibling_that_changed_must_be_seen) {
  expect_found(fold_beside_an_insertion<sl_of_four>, "scx.ignore_frozen", at_most_in_order(2),
               "there are other keys than there should be");
}

TEST(snapshot_tree_model_faults, a_removed_router_must_be_frozen) {
  expect_found(insert_beside_an_erase<sl>, "scx.ignore_frozen", at_most_in_order(2),
               "there are other keys than there should be");
  expect_found(insert_beside_an_erase<sl>, "scx.no_mark", at_most_in_order(2),
               "there are other keys than there should be");
}
TEST(snapshot_tree_model_faults, violations_must_be_repaired) {
  expect_found(two_grow_one_side<sl>, "chromatic.no_repair", at_most_in_order(2),
               "a violation is left that no thread repairs");
}
TEST(snapshot_tree_model_faults, a_version_gets_its_right_end_from_each_thread_that_ends_it) {
  expect_found(two_grow_one_side<dl>, "pdl.append_unfinished", at_most_in_order(2),
               "nothing ended");
}
TEST(snapshot_tree_model_faults, removed_nodes_stay_for_snapshots) {
  expect_found(a_snapshot_of_the_past<sl>, "owner.no_range", at_most_in_order(2),
               "what was found stays");
  expect_found(a_snapshot_of_the_past<dl>, "owner.no_range", at_most_in_order(2),
               "what was found stays");
}

TEST(snapshot_tree_shortcuts, lead_into_the_tree) {
  expect_clean(a_shortcut_is_removed<dl_by_shortcuts>, at_most_in_order(2));
  expect_clean(a_shortcut_is_removed<sl_by_shortcuts>, at_most_in_order(1));
  expect_clean(shortcuts_are_renewed<dl_by_shortcuts>, at_most_in_order(2));
  expect_clean(a_shortcut_to_an_update<sl_by_shortcuts>, at_most_in_order(1));
}
TEST(snapshot_tree_shortcuts, lead_snapshots_into_the_tree) {
  expect_clean(a_snapshot_by_a_shortcut<dl_by_shortcuts>, at_most_in_order(1));
  expect_clean(a_snapshot_by_a_shortcut<sl_by_shortcuts>, at_most_in_order(1));
  expect_clean(snapshots_and_younger_shortcuts<sl_by_shortcuts>, at_most_in_order(1));
}
TEST(snapshot_tree_shortcuts_faults, snapshots_must_see_what_was_removed) {
  expect_found(snapshots_and_younger_shortcuts<sl_by_shortcuts>, "shortcuts.removed_then",
               at_most_in_order(1), "1 and 2 are gone");
}
TEST(snapshot_tree_shortcuts_faults, a_table_is_for_snapshots_that_are_younger) {
  expect_found(snapshots_and_younger_shortcuts<sl_by_shortcuts>, "shortcuts.any_time",
               at_most_in_order(1), "is missing");
}
TEST(snapshot_tree_shortcuts_faults, removed_routers_must_be_seen_and_held) {
  expect_found(a_shortcut_is_removed<dl_by_shortcuts>, "shortcuts.removed", at_most_in_order(2),
               "more than max_steps operations");
  expect_found(a_shortcut_is_removed<dl_by_shortcuts>, "shortcuts.not_held", at_most_in_order(2),
               "use after free");
}
TEST(snapshot_tree_shortcuts_faults, a_table_stays_for_who_reads_it) {
  expect_found(shortcuts_are_renewed<dl_by_shortcuts>, "shortcuts.freed_at_once",
               at_most_in_order(2), "races with an access");
}

TEST(snapshot_tree_leases, end_without_harm) {
  expect_clean(a_lease_ends_while_it_is_read<dl>, at_most_in_order(2));
  expect_clean(a_lease_ends_while_it_is_read<sl>, at_most_in_order(1));
}
TEST(snapshot_tree_leases, must_be_looked_at_behind_each_link) {
  expect_found(a_lease_ends_while_it_is_read<dl>, "lease.no_second_look", at_most_in_order(2),
               "a lease lost what it saw");
}

}  // namespace
