// SPDX-License-Identifier: Apache-2.0
// snapshot_hash under the model checker: updates, growth, and snapshots beside them.
#include <spolia/map/snapshot_hash.hpp>

#include <gtest/gtest.h>

#include <cstddef>
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
/// The inverse of the table's mixing, so that it arrives at `wanted`.
constexpr std::uint64_t unmixed(std::uint64_t wanted) noexcept {
  const auto unshift = [](std::uint64_t x, unsigned by) {
    std::uint64_t y = x;
    for (unsigned bits = by; bits < 64; bits += by) y = x ^ (y >> by);
    return y;
  };
  const auto inverse = [](std::uint64_t odd) {
    std::uint64_t i = odd;
    for (int n = 0; n < 6; ++n) i *= 2 - odd * i;
    return i;
  };
  std::uint64_t h = unshift(wanted, 31);
  h = unshift(h * inverse(0x94D049BB133111EBULL), 27);
  return unshift(h * inverse(0xBF58476D1CE4E5B9ULL), 30);
}
inline std::size_t chosen_hash::operator()(int key) const noexcept {
  return static_cast<std::size_t>(unmixed(static_cast<std::uint64_t>(key)));
}

template <class Collector>
struct world {
  using map = snapshot_hash<int, int, Collector, chosen_hash>;

  /// One bucket, which has 0 and 1; the table has grown already: the next update divides.
  explicit world(bool grown = true)
      : nodes(short_domain::options{.scheme = {.scan_every = 1, .min_looks = 1}}) {
    typename map::options o{.buckets = 1, .load = 1};
    if constexpr (requires { o.collector.batch; }) {
      o.collector.batch = 1;
    } else {
      o.collector.scan_period = {};
    }
    table.emplace(nodes, time, o);
    table->insert(0, 0);
    if (grown) table->insert(1, 1);
  }

  /// What a snapshot must see of 0 and 1 whatever happens to others.
  void look_at_a_snapshot() {
    const snapshot now(time);
    const int* const zero = table->find(now, 0);
    const int* const one = table->find(now, 1);
    model::check(zero != nullptr && one != nullptr, "a key is in neither half");
    int seen = 0;
    for (const auto& [k, v] : table->all(now)) seen += k < 2 ? 1 : 0;
    model::check(seen == 2, "a snapshot's pairs are those that it finds");
  }

  void end() {
    table->collect();
    table.reset();
  }

  short_domain nodes;
  typename Collector::timeline_type time;
  std::optional<map> table;
};

using dl = world<dl_rt<short_domain>>;
using sl = world<sl_rt<short_domain>>;
using ebr = world<epoch_collector<short_domain>>;

/// Updates of both halves meet in a bucket that is to be divided; nothing is lost.
template <class World>
void two_updates_divide(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->table->insert_or_assign(1, 10); });
  run.thread([=] { w->table->insert(3, 30); });
  run.finally([=] {
    model::check(w->table->find(0) == 0, "what nobody changed stays");
    model::check(w->table->find(1) == 10, "an update is lost");
    model::check(w->table->find(3) == 30, "an update is lost");
    w->end();
  });
}

/// A reader of what is there while the bucket is divided, and changed again.
template <class World>
void a_reader_meets_a_division(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { model::check(w->table->contains(1), "a key is in neither half"); });
  run.thread([=] {
    w->table->insert_or_assign(0, 5);
    w->table->insert_or_assign(0, 6);
  });
  run.finally([=] { w->end(); });
}

template <class World>
void a_snapshot_meets_a_division(model::scenario& run) {
  auto w = std::make_shared<World>();
  run.thread([=] { w->look_at_a_snapshot(); });
  run.thread([=] { w->table->insert_or_assign(0, 5); });
  run.finally([=] { w->end(); });
}

/// A snapshot that is held while the table grows.
template <class World>
void growth_under_a_snapshot(model::scenario& run) {
  auto w = std::make_shared<World>(false);
  run.thread([=] {
    const snapshot then(w->time);
    const int* const found = w->table->find(then, 0);
    model::check(found != nullptr && *found == 0, "a snapshot lost what it saw");
    int seen = 0;
    for (const auto& [k, v] : w->table->all(then)) seen += k == 0 ? 1 : 0;
    model::check(seen == 1, "a snapshot lost what it saw");
    model::check(w->table->find(then, 0) == found, "a snapshot saw two instants");
  });
  run.thread([=] {
    w->table->insert(1, 1);
    w->table->insert(3, 3);
  });
  run.finally([=] {
    model::check(w->table->buckets() >= 2, "the table has grown");
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
TYPED_TEST(snapshot_hash_model, readers_find_what_is_there) {
  expect_clean(a_reader_meets_a_division<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(snapshot_hash_model, snapshots_are_instants) {
  expect_clean(a_snapshot_meets_a_division<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(snapshot_hash_model, snapshots_outlast_growth) {
  expect_clean(growth_under_a_snapshot<TypeParam>, at_most_in_order(1));
}

TEST(snapshot_hash_faults, divisions_must_be_finished_before_they_are_covered) {
  expect_found(two_updates_divide<dl>, "hash.covers_division", at_most_in_order(2), "");
}
TEST(snapshot_hash_faults, updates_must_look_whether_a_bucket_was_divided) {
  expect_found(two_updates_divide<dl>, "hash.wrong_half", at_most_in_order(2), "");
}
TEST(snapshot_hash_faults, both_halves_begin_at_one_time) {
  expect_found(a_snapshot_meets_a_division<dl>, "hash.later_stamp", at_most_in_order(2),
               "a key is in neither half");
}
TEST(snapshot_hash_faults, a_bucket_that_has_not_begun_needs_two_looks) {
  expect_found(a_snapshot_meets_a_division<dl>, "hash.one_look", at_most_in_order(2), "");
}

}  // namespace
