// SPDX-License-Identifier: Apache-2.0
// Public operations of the containers with snapshots while each of their allocations fails in turn,
// by a new thread, so that what a thread's first calls need is among them where no ended thread has
// left it: what the map holds is as before or as afterwards, older snapshots see what they saw, the
// next operation works, and nothing is left.
#include <gtest/gtest.h>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <spolia/map/changes.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/snapshot.hpp>

#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/few_types.hpp"
#include "support/ledger.hpp"
#include "version/all_collectors.hpp"

namespace spolia::test {
namespace {

using counted = spolia::test::tracked;
using contents = std::map<std::uint64_t, std::uint64_t>;

template <class Map, class Instant>
contents of(const Map& m, const Instant& then) {
  contents all;
  const auto note = [&](const auto& key, const auto& value) {
    all.emplace(key.read(), value.read());
  };
  if constexpr (std::same_as<Instant, lease>) {
    m.for_each(then, note);
  } else {
    for (const auto& [key, value] : m.all(then)) note(key, value);
  }
  return all;
}

template <class Map>
void expect_sound(const Map& m) {
  if constexpr (!is_hash<Map>) {
    EXPECT_EQ(m.audit().wrong, "");
  }
}

/// Runs f with each of its allocations failing in turn, and look() by another thread after each
/// failure. Returns how many there were.
template <class F, class Look>
std::uint64_t failures_of(F&& f, Look&& look) {
  std::uint64_t failures = 0;
  on_another_thread([&] {
    failures = for_each_allocation_failure([&] {
      try {
        f();
      } catch (const std::bad_alloc&) {
        on_another_thread(look);
        throw;
      }
    });
  });
  return failures;
}

/// A map beside a plain one.
template <class Map>
class compared {
 public:
  explicit compared(ledger& book) : book_(book), map(time, eager_map<Map>()) {}

  counted number(std::uint64_t n) { return counted(book_, n); }
  contents now() { return of(map, snapshot(time)); }

  /// f changes the map as `change` changes the plain one.
  template <class Change, class F>
  void changes_by(Change&& change, F&& f) {
    const contents before = model;
    change(model);
    const snapshot then(time);
    const auto unharmed = [&] {
      const contents here = now();
      EXPECT_TRUE(here == before || here == model);
      EXPECT_EQ(of(map, then), before);
      expect_sound(map);
    };
    failures += failures_of(f, unharmed);
    EXPECT_EQ(now(), model);
    EXPECT_EQ(of(map, then), before);
    expect_sound(map);
  }
  template <class F>
  void stays_by(F&& f) {
    changes_by([](contents&) {}, std::forward<F>(f));
  }

 private:
  ledger& book_;

 public:
  typename Map::timeline_type time;
  Map map;
  contents model;
  std::uint64_t failures = 0;
};

template <class Map>
class snapshot_maps_errors : public testing::Test {
 protected:
  ~snapshot_maps_errors() override { book.expect_empty(); }

  /// Enough for some divisions, and versions that wait for a snapshot.
  static void fill(compared<Map>& c) {
    for (std::uint64_t i = 0; i < 40; ++i) {
      c.map.insert(c.number(i), c.number(i));
      c.model.emplace(i, i);
    }
  }

  ledger book;
};

template <class Collector>
using hash = snapshot_hash<counted, counted, Collector>;
template <class Collector>
using tree = snapshot_tree<counted, counted, Collector>;
template <class Collector>
using both = testing::Types<hash<Collector>, tree<Collector>>;
using maps =
    with_every_collector<types, 5, both, hash<epoch_collector<>>, tree<bbf<>>, hash<dl_rt<>>,
                         tree<sl_rt<>>, hash<steam<>>, tree<epoch_collector<>>, hash<bbf<>>,
                         tree<dl_rt<>>, hash<sl_rt<>>, tree<steam<>>>;
struct map_names {
  template <class Map>
  static std::string GetName(int) {
    return std::string(is_hash<Map> ? "hash_" : "tree_") +
           std::string(Map::collector_type::info.name);
  }
};
TYPED_TEST_SUITE(snapshot_maps_errors, maps, map_names);

TYPED_TEST(snapshot_maps_errors, updates) {
  compared<TypeParam> c(this->book);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::uint64_t k = i * 7 % 40;
    c.changes_by([&](contents& m) { m.emplace(k, i); },
                 [&] { c.map.insert(c.number(k), c.number(i)); });
    c.changes_by([&](contents& m) { m[k + 1] = i; },
                 [&] { c.map.insert_or_assign(c.number(k + 1), c.number(i)); });
    c.changes_by([&](contents& m) { m.erase(k / 2); }, [&] { c.map.erase(c.number(k / 2)); });
  }
  EXPECT_GE(c.failures, 180U);
  EXPECT_EQ(c.map.size_approx(), c.model.size());
}

TYPED_TEST(snapshot_maps_errors, looks_at_the_map_as_it_is) {
  compared<TypeParam> c(this->book);
  this->fill(c);
  c.stays_by([&] { EXPECT_EQ(c.map.find(c.number(7))->read(), 7U); });
  c.stays_by([&] { EXPECT_TRUE(c.map.contains(c.number(8))); });
  c.stays_by([&] { EXPECT_FALSE(c.map.visit(c.number(50), [](const counted&) {})); });
  c.stays_by([&] {
    std::uint64_t sum = 0;
    c.map.for_each([&](const counted&, const counted& v) { sum += v.read(); });
    EXPECT_EQ(sum, 780U);
  });
  EXPECT_GE(c.failures, 1U);
}

TYPED_TEST(snapshot_maps_errors, looks_at_a_snapshot) {
  compared<TypeParam> c(this->book);
  this->fill(c);
  const snapshot then(c.time);
  c.changes_by([](contents& m) { m.erase(7); }, [&] { c.map.erase(c.number(7)); });
  const std::vector<counted> keys{c.number(7), c.number(50), c.number(9)};
  c.stays_by([&] { EXPECT_EQ(c.map.find(then, keys[0])->read(), 7U); });
  c.stays_by([&] { EXPECT_FALSE(c.map.contains(then, keys[1])); });
  c.stays_by([&] {
    const auto all = c.map.find_all(then, keys);
    EXPECT_EQ(all[0]->read() + all[2]->read(), 16U);
  });
  c.stays_by([&] { EXPECT_EQ(of(c.map, then).size(), 40U); });
  c.stays_by([&] { EXPECT_EQ(of(c.map, then.clone()).size(), 40U); });
  c.stays_by([&] { EXPECT_EQ(c.map.size(then), 40U); });
  if constexpr (!is_hash<TypeParam>) {
    c.stays_by([&] { EXPECT_EQ(c.map.count(then, keys[0], keys[2]), 2U); });
  }
  EXPECT_GE(c.failures, 50U);
}

TYPED_TEST(snapshot_maps_errors, leases) {
  compared<TypeParam> c(this->book);
  this->fill(c);
  c.stays_by([&] { EXPECT_EQ(of(c.map, lease(c.time, std::chrono::hours(1))).size(), 40U); });
  const lease then(c.time, std::chrono::hours(1));
  c.changes_by([](contents& m) { m.erase(7); }, [&] { c.map.erase(c.number(7)); });
  c.stays_by([&] { EXPECT_EQ(c.map.find(then, c.number(7))->read(), 7U); });
  c.stays_by([&] { EXPECT_FALSE(c.map.contains(then, c.number(50))); });
  c.stays_by([&] { EXPECT_EQ(of(c.map, then).size(), 40U); });
  EXPECT_GE(c.failures, 40U);
}

TYPED_TEST(snapshot_maps_errors, accounts_and_upkeep) {
  compared<TypeParam> c(this->book);
  this->fill(c);
  const snapshot then(c.time, "held");
  for (std::uint64_t i = 0; i < 20; ++i) {
    c.map.erase(c.number(i));
    c.model.erase(i);
  }
  c.stays_by([&] { EXPECT_EQ(c.map.account().snapshots.size(), 2U); });  // stays_by has one
  c.stays_by([&] { c.map.check_snapshots(); });
  c.stays_by([&] { c.map.collect(); });
  EXPECT_GE(c.failures, 3U);
}

/// What a batch has put in place before it failed shows what was there before.
TYPED_TEST(snapshot_maps_errors, batches) {
  compared<TypeParam> c(this->book);
  for (std::uint64_t i = 0; i < 30; ++i) {
    const std::uint64_t k = i * 7 % 40;
    const auto change = [&](contents& m) {
      m[k] = i;
      m.erase(k + 1);
      m.emplace(k + 2, i);
    };
    c.changes_by(change, [&] {
      changes all;
      all.insert_or_assign(c.map, c.number(k), c.number(i));
      all.erase(c.map, c.number(k + 1));
      all.insert(c.map, c.number(k + 2), c.number(i));
      all.commit();
    });
  }
  EXPECT_GE(c.failures, 300U);
}

/// Its maker has ended, and another thread uses it, and then ends it.
TYPED_TEST(snapshot_maps_errors, a_snapshot_outlives_its_makers_thread) {
  compared<TypeParam> c(this->book);
  this->fill(c);
  const contents before = c.model;
  for (int round = 0; round < 20; ++round) {
    auto made = snapshot::none();
    on_another_thread([&] { made = snapshot(c.time, "handed on"); });
    on_another_thread([&] {
      for (std::uint64_t i = 0; i < 40; ++i) {
        c.map.insert_or_assign(c.number(i), c.number(100 + i));
      }
    });
    on_another_thread([&, mine = std::move(made)] {
      EXPECT_EQ(of(c.map, mine), before);
      EXPECT_EQ(c.map.find(mine, c.number(7))->read(), 7U);
    });
    c.time.living().for_each([](const census::entry&) { ADD_FAILURE() << "still announced"; });
    for (std::uint64_t i = 0; i < 40; ++i) c.map.insert_or_assign(c.number(i), c.number(i));
  }
  c.map.collect();
  if constexpr (TypeParam::collector_type::info.reaches_idle_lists) {
    EXPECT_EQ(c.map.stats().held(), 0U);
  }
}

/// Maps with any two collectors, changed at one instant.
TYPED_TEST(snapshot_maps_errors, batches_over_maps_with_different_collectors) {
  compared<TypeParam> c(this->book);
  hash<dl_rt<>> other(c.time, eager_map<hash<dl_rt<>>>());
  tree<bbf<>> third(c.time, eager_map<tree<bbf<>>>());
  std::vector<std::pair<snapshot, std::uint64_t>> kept;
  for (std::uint64_t i = 1; i <= 60; ++i) {
    const counted key = c.number(i % 5);
    // Sums stay the same: what one gets, the other two lose.
    c.changes_by([&](contents& m) { m[i % 5] = 2 * i; },
                 [&] {
                   changes all;
                   all.insert_or_assign(c.map, key, c.number(2 * i));
                   all.insert_or_assign(other, key, c.number(1000 - i));
                   all.insert_or_assign(third, key, c.number(1000 - i));
                   all.commit();
                 });
    kept.emplace_back(snapshot(c.time), i);
    for (const auto& [then, last] : kept) {
      const counted k = c.number(last % 5);
      EXPECT_EQ(c.map.find(then, k)->read(), 2 * last);
      EXPECT_EQ(other.find(then, k)->read(), 1000 - last);
      EXPECT_EQ(third.find(then, k)->read(), 1000 - last);
    }
    if (i % 3 == 0) kept.erase(kept.begin(), kept.begin() + 2);
  }
  EXPECT_GE(c.failures, 600U);
}

}  // namespace
}  // namespace spolia::test
