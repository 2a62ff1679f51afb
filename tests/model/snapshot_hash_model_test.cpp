// SPDX-License-Identifier: Apache-2.0
// snapshot_hash under the model checker: updates, growth, and snapshots beside them.
#include <spolia/map/snapshot_hash.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <spolia/reclaim/debra.hpp>
#include <spolia/version/dl_rt.hpp>
#include <spolia/version/epoch.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using short_domain = domain<debra, batch>;

/// What makes neighbours of all keys, so that they share buckets: key 0 and 2 part from 1 and 3 at
/// the first division. The table mixes hashes; these four come out so.
struct chosen_hash {
  std::size_t operator()(int key) const noexcept;
};
/// What the table's mixing gives the lower bits of `key`, and the same tag for all.
constexpr std::uint64_t unmixed(std::uint64_t key) noexcept {
  std::uint64_t h = 0;
  while ((detail::map::hash_spread(0).mixed(h) & 0xFF00000000000007ULL) != key) ++h;
  return h;
}
inline std::size_t chosen_hash::operator()(int key) const noexcept {
  static constexpr std::array<std::uint64_t, 4> hashes{unmixed(0), unmixed(1), unmixed(2),
                                                       unmixed(3)};
  return static_cast<std::size_t>(hashes.at(static_cast<std::size_t>(key)));
}

template <class Collector>
struct world {
  using core =
      detail::map::snapshot_hash_core<int, int, Collector, chosen_hash, std::equal_to<int>>;

  /// One bucket, which has 0 and 1; the table has grown already: the next update divides.
  explicit world(bool grown = true)
      : nodes(typename short_domain::options{.scheme = {.scan_every = 1, .min_looks = 1}}),
        versions(nodes, time, {.batch = 1}),
        table(versions, {.base = 0, .load = 1}, {}, {}) {
    insert(0, 0);
    if (grown) insert(1, 1);
  }

  bool insert(int key, int value) { return table.template put<false>(key, value); }
  bool assign(int key, int value) { return table.template put<true>(key, value); }
  /// What a key maps to; -1: nothing.
  int find(int key) {
    auto here = versions.enter();
    const auto* const found = table.find(here, key);
    return found == nullptr ? -1 : found->value();
  }
  int find(const snapshot& then, int key) {
    auto here = versions.enter();
    const auto* const found = table.find_at(here, then.timestamp(), key);
    return found == nullptr ? -1 : found->value();
  }
  /// What 0 and 1 map to at one instant, if that can be told without a snapshot; -1: nothing.
  std::optional<std::array<int, 2>> look_at_both() {
    const std::array<int, 2> keys{0, 1};
    const std::array<const int*, 2> asked{&keys[0], &keys[1]};
    std::array<const int*, 2> found{};
    auto here = versions.enter();
    if (!table.find_each_now(here, time.now(), asked, found.data())) return std::nullopt;
    const auto shown = [](const int* value) { return value == nullptr ? -1 : *value; };
    return std::array<int, 2>{shown(found[0]), shown(found[1])};
  }
  std::optional<std::array<int, 2>> find_both() {
    const auto seen = look_at_both();
    model::check(!seen || ((*seen)[0] >= 0 && (*seen)[1] >= 0), "a key is in neither half");
    return seen;
  }
  /// How many of the keys below `end` a snapshot shows.
  int shown(const snapshot& then, int end) {
    int seen = 0;
    for (const auto& [k, v] : detail::map::snapshot_pairs<core>(table, then.clone())) {
      seen += k < end ? 1 : 0;
    }
    return seen;
  }

  /// What a snapshot must see of 0 and 1 whatever happens to others.
  void look_at_a_snapshot() {
    const snapshot now(time);
    const int zero = find(now, 0);
    model::check(zero >= 0 && find(now, 1) >= 0, "a key is in neither half");
    model::check(shown(now, 2) == 2, "a snapshot's pairs are those that it finds");
    model::check(find(now, 0) == zero, "a snapshot saw two instants");
  }

  /// In `finally`: what hears of threads that end must outlive that.
  void end() {
    versions.collect();
    table.clear();
  }

  short_domain nodes;
  typename Collector::timeline_type time;
  Collector versions;
  core table;
};

using dl = world<dl_rt<short_domain>>;
using sl = world<sl_rt<short_domain>>;
using ebr = world<epoch_collector<short_domain>>;

/// Updates of both halves meet in a bucket that is to be divided; nothing is lost.
template <class World>
void two_updates_divide(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->assign(1, 10); });
  run.thread([=] { w->insert(3, 30); });
  run.finally([=] {
    model::check(w->find(0) == 0, "what no thread changed stays");
    model::check(w->find(1) == 10, "an update is lost");
    model::check(w->find(3) == 30, "an update is lost");
    w->end();
  });
}

/// A thread that changes one half of what another thread is dividing finds the other half.
template <class World>
void an_update_covers_a_division(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->assign(0, 5); });
  run.thread([=] {
    w->assign(0, 6);
    model::check(w->find(1) == 1, "a key is in neither half");
  });
  run.finally([=] { w->end(); });
}

/// A reader of what is there while the bucket is divided, and changed again.
template <class World>
void a_reader_meets_a_division(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { model::check(w->find(1) >= 0, "a key is in neither half"); });
  run.thread([=] {
    w->assign(0, 5);
    w->assign(0, 6);
  });
  run.finally([=] { w->end(); });
}

template <class World>
void a_snapshot_meets_a_division(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->look_at_a_snapshot(); });
  run.thread([=] { w->assign(0, 5); });
  run.finally([=] { w->end(); });
}

/// The last pair of some buckets goes, and one comes: a look at all pairs shows what is found.
template <class World>
void a_snapshot_meets_empty_buckets(model::scenario& run) {
  auto w = std::make_shared<World>(false);
  run.thread([=] {
    w->table.erase(0);
    w->insert(0, 1);
  });
  run.thread([=] {
    const snapshot now(w->time);
    const int found = w->find(now, 0);
    model::check(w->shown(now, 1) == (found < 0 ? 0 : 1), "a pair was passed");
  });
  run.finally([=] { w->end(); });
}

/// The only bucket becomes empty, and gives its version up, beside a snapshot, its pairs and an
/// update.
void a_snapshot_meets_a_bucket_that_shrinks(model::scenario& run) {
  auto w = std::make_shared<sl>(false);
  run.thread([=] {
    w->table.erase(0);
    w->table.shrink();
  });
  run.thread([=] {
    const snapshot now(w->time);
    const int found = w->find(now, 0);
    model::check(w->shown(now, 1) == (found < 0 ? 0 : 1), "a pair was passed");
    model::check(w->find(now, 0) == found, "a snapshot saw two instants");
  });
  run.finally([=] { w->end(); });
}
void updates_meet_a_bucket_that_shrinks(model::scenario& run) {
  auto w = std::make_shared<sl>(false);
  auto inserted = std::make_shared<bool>(false);
  run.thread([=] {
    w->table.erase(0);
    w->table.shrink();
  });
  run.thread([=] {
    *inserted = w->insert(0, 1);
    const int found = w->find(0);
    model::check(found == (*inserted ? 1 : -1) || (!*inserted && found == 0), "a key was lost");
  });
  run.finally([=] {
    model::check(w->find(0) == (*inserted ? 1 : -1), "an update is lost");
    w->end();
  });
}
/// One key changes, then the other one goes and its bucket with it.
void a_look_at_two_keys_of_which_one_goes(model::scenario& run) {
  auto w = std::make_shared<sl>();
  w->assign(1, 1);  // divides
  {
    const snapshot moves_the_clock(w->time);
  }
  run.thread([=] {
    w->assign(0, 10);
    w->table.erase(1);
  });
  run.thread([=] {
    const auto seen = w->look_at_both();
    model::check(!seen || (*seen)[1] >= 0 || (*seen)[0] == 10, "two instants were seen as one");
  });
  run.finally([=] { w->end(); });
}

/// A snapshot that is held while the table grows.
template <class World>
void growth_under_a_snapshot(model::scenario& run) {
  auto w = std::make_shared<World>(false);
  run.thread([=] {
    const snapshot then(w->time);
    model::check(w->find(then, 0) == 0, "a snapshot lost what it saw");
    model::check(w->shown(then, 1) == 1, "a snapshot lost what it saw");
  });
  run.thread([=] {
    w->insert(1, 1);
    w->insert(3, 3);
  });
  run.finally([=] {
    model::check(w->table.buckets() >= 2, "the table has grown");
    w->end();
  });
}

/// A value that must be whole while it is looked at.
struct whole {
  explicit whole(int) {}
  whole(const whole& other) {
    model::check(other.alive.read(), "a value was copied after its end");
  }
  ~whole() { alive.write(false); }
  plain<bool> alive{true};
};

/// Reads at a lease, while one thread ends it and another one lets go of what it held: beside an
/// older snapshot, which sees nothing yet, that is cut out of its list.
template <class Collector, bool Older = false>
void a_lease_ends_while_it_is_read(model::scenario& run) {
  struct values {
    using core =
        detail::map::snapshot_hash_core<int, whole, Collector, chosen_hash, std::equal_to<int>>;
    short_domain nodes{typename short_domain::options{.scheme = {.scan_every = 1, .min_looks = 1}}};
    timeline time;
    Collector versions{nodes, time, {.batch = 1}};
    core table{versions, {.base = 0, .load = 100}, {}, {}};
    std::optional<snapshot> older;
  };
  auto w = std::make_shared<values>();
  if (Older) w->older.emplace(w->time);
  w->table.template put<true>(0, 0);
  auto mine = std::make_shared<std::optional<lease>>();
  mine->emplace(w->time, std::chrono::nanoseconds(0));
  w->table.template put<true>(0, 1);
  run.thread([=] {
    try {
      auto here = w->versions.enter();
      const auto* const found =
          (*mine)->look([&] { return w->table.find_at(here, (*mine)->timestamp(), 0); });
      model::check(found != nullptr && found->value().alive.read(), "a lease lost what it saw");
    } catch (const snapshot_expired&) {
    }
  });
  run.thread([=] { w->time.leases().end_overdue(); });
  run.thread([=] {
    w->versions.collect();
    for (int n = 0; n < 16; ++n) auto guard = w->nodes.enter();
  });
  run.finally([=] {
    mine->reset();
    w->older.reset();
    w->table.clear();
  });
}
using epochs = epoch_collector<short_domain>;
using compacting = sl_rt<short_domain>;

/// Two keys in buckets of their own change one after the other, and another thread moves the clock.
template <class World>
void a_look_at_two_keys(model::scenario& run) {
  auto w = std::make_shared<World>();
  w->assign(1, 1);  // divides
  {
    const snapshot moves_the_clock(w->time);
  }
  model::check(w->find_both().has_value(), "a snapshot is wanted though nothing has changed");
  run.thread([=] {
    w->assign(0, 10);
    w->assign(1, 11);
  });
  run.thread([=] {
    const auto seen = w->find_both();
    if (!seen) return;
    model::check((*seen)[1] != 11 || (*seen)[0] == 10, "two instants were seen as one");
  });
  run.thread([=] { const snapshot moves_the_clock(w->time); });
  run.finally([=] {
    model::check(w->find(0) == 10 && w->find(1) == 11, "an update was lost");
    w->end();
  });
}

template <class World>
class snapshot_hash_model : public testing::Test {};
using worlds = testing::Types<dl, sl, ebr>;
TYPED_TEST_SUITE(snapshot_hash_model, worlds);

TYPED_TEST(snapshot_hash_model, no_update_is_lost) {
  expect_clean(two_updates_divide<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(snapshot_hash_model, divisions_are_finished_first) {
  expect_clean(an_update_covers_a_division<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(snapshot_hash_model, readers_find_what_is_there) {
  expect_clean(a_reader_meets_a_division<TypeParam>, at_most(1));
}
TYPED_TEST(snapshot_hash_model, snapshots_are_instants) {
  expect_clean(a_snapshot_meets_a_division<TypeParam>, at_most(1));
}
TEST(snapshot_hash_empty_buckets, are_passed_by_snapshots_that_see_no_pairs) {
  expect_clean(a_snapshot_meets_empty_buckets<dl>, at_most_in_order(2));
  for (const char* const fault : {"hash.counted_late", "hash.empty_ever"}) {
    expect_found(a_snapshot_meets_empty_buckets<dl>, fault, at_most_in_order(2),
                 "a pair was passed");
  }
}
TEST(snapshot_hash_empty_buckets, let_go_of_what_no_snapshot_sees) {
  expect_clean(a_snapshot_meets_a_bucket_that_shrinks, at_most_in_order(2));
  expect_clean(updates_meet_a_bucket_that_shrinks, at_most_in_order(1));
  expect_found(a_snapshot_meets_a_bucket_that_shrinks, "sl_rt.forgets_what_is_seen",
               at_most_in_order(2), "a snapshot saw two instants");
}
TEST(snapshot_hash_empty_buckets, are_not_taken_for_older_than_they_are) {
  expect_clean(a_look_at_two_keys_of_which_one_goes, at_most_in_order(2));
  expect_found(a_look_at_two_keys_of_which_one_goes, "hash.forgets_since_when", at_most_in_order(2),
               "two instants were seen as one");
}
TYPED_TEST(snapshot_hash_model, snapshots_outlast_growth) {
  expect_clean(growth_under_a_snapshot<TypeParam>, at_most(1));
}

TYPED_TEST(snapshot_hash_model, several_keys_are_found_at_one_instant) {
  expect_clean(a_look_at_two_keys<TypeParam>, at_most_in_order(2));
}

TEST(leases_model, end_without_harm) {
  expect_clean(a_lease_ends_while_it_is_read<epochs>, at_most_in_order(1));
  expect_clean(a_lease_ends_while_it_is_read<compacting>, at_most_in_order(1));
  expect_clean(a_lease_ends_while_it_is_read<compacting, true>, at_most_in_order(1));
}
TEST(leases_model, readers_must_look_before) {
  expect_found(a_lease_ends_while_it_is_read<epochs>, "lease.no_first_look", at_most_in_order(2),
               "use after free");
  expect_found(a_lease_ends_while_it_is_read<compacting>, "lease.no_first_look",
               at_most_in_order(2), "use after free");
}
TEST(leases_model, readers_must_look_afterwards) {
  expect_found(a_lease_ends_while_it_is_read<compacting, true>, "lease.no_second_look",
               at_most_in_order(2), "a lease lost what it saw");
}
TEST(leases_model, ends_must_be_said_before_the_announcement_goes) {
  expect_found(a_lease_ends_while_it_is_read<epochs>, "lease.withdrawn_first", at_most_in_order(2),
               "use after free");
}

TEST(snapshot_hash_faults, divisions_must_be_finished_before_they_are_covered) {
  expect_found(an_update_covers_a_division<dl>, "hash.covers_division", at_most_in_order(2),
               "more than max_steps operations");  // a search for the key goes round forever
}
TEST(snapshot_hash_faults, updates_must_look_whether_a_bucket_was_divided) {
  expect_found(two_updates_divide<dl>, "hash.wrong_half", at_most_in_order(2), "an update is lost");
}
TEST(snapshot_hash_faults, both_halves_begin_at_one_time) {
  expect_found(a_snapshot_meets_a_division<dl>, "hash.later_stamp", at_most_in_order(2),
               "a key is in neither half");
}
TEST(snapshot_hash_faults, a_bucket_that_has_not_begun_needs_two_looks) {
  expect_found(a_snapshot_meets_a_division<dl>, "hash.one_look", at_most_in_order(2),
               "a key is in neither half");
}

TEST(snapshot_hash_faults, several_keys_must_be_older_than_the_clock) {
  expect_found(a_look_at_two_keys<dl>, "hash.any_stamp", at_most_in_order(2),
               "two instants were seen as one");
}
TEST(snapshot_hash_faults, the_clock_is_read_in_front_of_the_keys) {
  expect_found(a_look_at_two_keys<dl>, "hash.late_clock", at_most_in_order(2),
               "two instants were seen as one");
}

}  // namespace
