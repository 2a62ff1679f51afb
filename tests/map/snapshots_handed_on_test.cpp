// SPDX-License-Identifier: Apache-2.0
// Snapshots that outlive the threads that made them, over the timelines that are not the usual one:
// of a hardware clock, and such as updates advance. Others use them, on threads that may have their
// makers' numbers, and end them, while maps are changed: they see their instant, and what they held
// up is freed afterwards.
#include <gtest/gtest.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/snapshot.hpp>

#include "support/elsewhere.hpp"
#include "support/few_types.hpp"
#include "support/ledger.hpp"
#include "support/soon.hpp"
#include "version/all_collectors.hpp"

namespace spolia::test {
namespace {

using counted = spolia::test::tracked;
using contents = std::map<std::uint64_t, std::uint64_t>;
using by_hardware_on_update = basic_timeline<hardware_clock, stamping::on_update>;

/// The value at a key; a number that no test uses if it is not there.
std::uint64_t value_in(const contents& all, std::uint64_t key) {
  const auto found = all.find(key);
  return found == all.end() ? ~std::uint64_t{0} : found->second;
}

/// A map that collects as soon as it can, changed by threads at the same time.
template <class Map>
class subject {
 public:
  static constexpr std::uint64_t keys = 40;
  /// Written one after the other, each time with the same number.
  static constexpr std::uint64_t earlier = 7;
  static constexpr std::uint64_t later = 23;

  explicit subject(ledger& book) : book_(book), map_(nodes_, time, eager_map<Map>()) {
    assign_all(0);
  }

  void assign(std::uint64_t key, std::uint64_t value) {
    map_.insert_or_assign(counted(book_, key), counted(book_, value));
  }
  void assign_all(std::uint64_t value) {
    for (std::uint64_t k = 0; k < keys; ++k) assign(k, value);
  }
  /// One change of everything: some keys go, or come back.
  void change(std::uint64_t value) {
    begun.store(value);
    assign(earlier, value);
    assign(later, value);
    done.store(value);
    for (std::uint64_t k = keys; k < 2 * keys; k += 3) {
      if (value % 2 == 0) {
        map_.erase(counted(book_, k));
      } else {
        assign(k, value);
      }
    }
  }

  contents at(const snapshot& then) const {
    contents all;
    for (const auto& [k, v] : map_.all(then)) EXPECT_TRUE(all.emplace(k.read(), v.read()).second);
    return all;
  }
  /// What a snapshot sees, asked for one by one, too.
  void expect_seen(const snapshot& then, const contents& expected) const {
    EXPECT_EQ(at(then), expected);
    EXPECT_EQ(map_.size(then), expected.size());
    for (std::uint64_t k = 0; k < 2 * keys; k += 5) {
      const auto found = map_.find(then, counted(book_, k));
      const auto wanted = expected.find(k);
      ASSERT_EQ(static_cast<bool>(found), wanted != expected.end()) << k;
      EXPECT_TRUE(!found || found->read() == wanted->second) << k;
    }
  }

  /// No other thread is there, and no snapshot: nothing but what is in the map is left.
  void expect_freed() {
    time.living().for_each([](const census::entry&) { ADD_FAILURE() << "still announced"; });
    change(done.load() + 1);
    map_.collect();
    constexpr bool all_goes = Map::collector_type::info.reaches_idle_lists;
    if constexpr (all_goes && Map::timeline_type::clock_type::advances_alone) {
      // What ended within the clock's bound is still needed, as far as the clock tells: that is
      // longer where the machine was busy when the clocks of its processors were compared.
      EXPECT_TRUE(soon([&] { return map_.collect(), map_.stats().held() == 0; }));
    }
    EXPECT_TRUE(nodes_.drain());
    if constexpr (all_goes) {
      EXPECT_EQ(map_.stats().held(), 0U);
      const auto size = static_cast<std::int64_t>(map_.size_approx());
      // Keys, values, and of a tree the keys on the way.
      EXPECT_LE(book_.live(), is_hash<Map> ? 2 * size : 3 * size);
    }
  }

 private:
  ledger& book_;
  typename Map::domain_type nodes_;

 public:
  typename Map::timeline_type time;
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> done{0};

 private:
  mutable Map map_;
};

template <class Map>
class snapshots_handed_on : public testing::Test {
 protected:
  void SetUp() override {
    if (!usable<typename Map::collector_type>()) GTEST_SKIP() << hardware_clock::reason();
  }
  ~snapshots_handed_on() override { book.expect_empty(); }

  ledger book;
};

template <class Collector>
using hash = snapshot_hash<counted, counted, Collector>;
template <class Collector>
using tree = snapshot_tree<counted, counted, Collector>;
template <template <class, class> class Collector, class Timeline>
using with = Collector<region_domain, Timeline>;
template <class Collector>
using both = testing::Types<hash<Collector>, tree<Collector>>;
using maps =
    with_every_collector<types_where_cheap, 4, both, hash<with<sl_rt, by_hardware>>,
                         hash<with<dl_rt, on_update>>, tree<with<sl_rt, by_hardware>>,
                         tree<with<dl_rt, on_update>>, hash<with<sl_rt, on_update>>,
                         hash<with<dl_rt, by_hardware_on_update>>, hash<with<bbf, by_hardware>>,
                         hash<with<epoch_collector, by_hardware>>, hash<with<steam, on_update>>,
                         tree<with<sl_rt, on_update>>, tree<with<dl_rt, by_hardware_on_update>>,
                         tree<with<bbf, by_hardware>>, tree<with<epoch_collector, by_hardware>>,
                         tree<with<steam, on_update>>>;
struct map_names {
  template <class Map>
  static std::string GetName(int) {
    using time = typename Map::timeline_type;
    const bool hardware = std::same_as<typename time::clock_type, hardware_clock>;
    return std::string(is_hash<Map> ? "hash_" : "tree_") +
           std::string(Map::collector_type::info.name) + (hardware ? "_by_hardware" : "") +
           (time::advances == stamping::on_update ? "_on_update" : "");
  }
};
TYPED_TEST_SUITE(snapshots_handed_on, maps, map_names);

/// The thread that comes next has the number of the maker, its place in the census, and snapshots
/// of its own there.
TYPED_TEST(snapshots_handed_on, to_threads_with_their_makers_numbers) {
  subject<TypeParam> s(this->book);
  std::uint64_t value = 0;
  std::size_t places = 0;
  for (int round = 0; round < 20; ++round) {
    auto made = snapshot::none();
    contents expected;
    on_another_thread([&] {
      s.change(++value);
      made = snapshot(s.time, "handed on");
      expected = s.at(made);
    });
    EXPECT_EQ(value_in(expected, s.earlier), value);
    EXPECT_EQ(value_in(expected, s.later), value);
    for (int i = 0; i < 3; ++i) {
      on_another_thread([&] {
        const snapshot own(s.time, "own");
        s.change(++value);
        EXPECT_EQ(value_in(s.at(own), s.earlier), value - 1);
        s.assign_all(++value);
        s.expect_seen(made, expected);
      });
    }
    const auto own = snapshot(s.time, "own");
    if (round % 4 == 0) {
      on_another_thread([&, mine = std::move(made)] { s.expect_seen(mine, expected); });
    } else {
      s.expect_seen(made, expected);
      made.withdraw();
    }
    std::uint64_t announced = 0;
    s.time.living().for_each([&](const census::entry& e) {
      EXPECT_STREQ(e.label, "own");
      ++announced;
    });
    EXPECT_EQ(announced, 1U);
    EXPECT_EQ(value_in(s.at(own), s.earlier), value);
    if (round == 0) places = s.time.living().capacity();
  }
  EXPECT_EQ(s.time.living().capacity(), places) << "the makers' places are used again";
  s.expect_freed();
}

/// Makers that end at once, while others change the map.
TYPED_TEST(snapshots_handed_on, while_maps_are_changed) {
  subject<TypeParam> s(this->book);
  std::atomic<bool> stop{false};
  std::thread updater([&] {
    for (std::uint64_t i = 1; !stop.load(); ++i) s.change(i);
  });
  auto before = snapshot::none();
  contents seen_before;
  for (int round = 0; round < 40; ++round) {
    const std::uint64_t done = s.done.load();
    auto made = snapshot::none();
    on_another_thread([&] { made = snapshot(s.time, "handed on"); });
    const std::uint64_t begun = s.begun.load();
    contents seen;
    on_another_thread([&] {
      const snapshot own(s.time, "own");
      seen = s.at(made);
      s.expect_seen(made, seen);
    });
    const std::uint64_t later = value_in(seen, s.later);
    EXPECT_GE(later, done);
    EXPECT_LE(value_in(seen, s.earlier), begun);
    EXPECT_LE(value_in(seen, s.earlier) - later, 1U);
    if (before) {
      on_another_thread([&, mine = std::move(before)] { s.expect_seen(mine, seen_before); });
    }
    before = std::move(made);
    seen_before = std::move(seen);
  }
  stop.store(true);
  updater.join();
  on_another_thread([&, mine = std::move(before)] { s.expect_seen(mine, seen_before); });
  s.expect_freed();
}

}  // namespace
}  // namespace spolia::test
