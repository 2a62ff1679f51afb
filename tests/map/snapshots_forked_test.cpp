// SPDX-License-Identifier: Apache-2.0
// Maps with snapshots in the child of a fork that caught another thread in the midst of updates,
// snapshots, batches and collections: a snapshot from before still sees its instant, updates and
// batches go on, and what can be collected is.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <spolia/map/changes.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/snapshot.hpp>

#include "support/elsewhere.hpp"
#include "support/few_types.hpp"
#include "version/all_collectors.hpp"

namespace spolia::test {
namespace {

using contents = std::map<std::uint64_t, std::string>;

/// Longer than what a string holds in itself.
std::string text(std::uint64_t n) { return "what the number means: " + std::to_string(n); }

/// Empty if it is not there.
std::string value_in(const contents& all, std::uint64_t key) {
  const auto found = all.find(key);
  return found == all.end() ? "" : found->second;
}

template <class Map>
class subject {
 public:
  static constexpr std::uint64_t keys = 60;    ///< changed one by one
  static constexpr std::uint64_t pairs = 100;  ///< from here on; both have one value, or none
  static constexpr std::uint64_t partner = 50;

  subject() : map_(std::make_unique<Map>(nodes_, time, eager_map<Map>())) {
    for (std::uint64_t k = 0; k < keys; ++k) map_->insert(k, text(k));
  }

  /// Everything that the thread does which is lost.
  void disturb(const std::atomic<bool>& stop) {
    for (std::uint64_t i = 1; !stop.load(); ++i) {
      const std::uint64_t k = i * 7 % keys;
      i % 3 == 0 ? map_->erase(k) : map_->insert_or_assign(k, text(i));
      if (i % 4 == 0) change_pair(i % 10, i);
      if (i % 16 == 0) static_cast<void>(map_->size(snapshot(time, "lost")));
      if (i % 64 == 0) map_->collect();
    }
  }
  void change_pair(std::uint64_t which, std::uint64_t value) {
    const std::uint64_t one = pairs + which;
    changes both;
    for (const std::uint64_t k : {one, one + partner}) {
      if (value % 3 == 0) {
        both.erase(*map_, k);
      } else {
        both.insert_or_assign(*map_, k, text(value));
      }
    }
    both.commit();
  }

  contents at(const snapshot& then) const {
    contents all;
    for (const auto& [k, v] : map_->all(then)) EXPECT_TRUE(all.emplace(k, v).second);
    return all;
  }
  void expect_pairs(const contents& all) const {
    for (std::uint64_t k = pairs; k < pairs + 10; ++k) {
      ASSERT_EQ(value_in(all, k), value_in(all, k + partner)) << k;
    }
  }

  /// In the child, where no other thread is.
  void expect_usable(const snapshot& then, const contents& expected) {
    EXPECT_EQ(at(then), expected);
    // An update that was lost before it had its stamp gets one from the first thread that looks at
    // it.
    for (std::uint64_t k = 0; k < pairs + 2 * partner; ++k) static_cast<void>(map_->contains(k));
    contents known = at(snapshot(time, "at first"));
    expect_pairs(known);
    for (std::uint64_t i = 1000; i < 2000; ++i) {
      const std::uint64_t k = i * 11 % keys;
      if (i % 5 == 0) {
        EXPECT_EQ(map_->erase(k), known.erase(k) == 1);
      } else {
        EXPECT_EQ(map_->insert_or_assign(k, text(i)), known.insert_or_assign(k, text(i)).second);
      }
      if (i % 10 == 0) {
        change_pair(i / 10 % 10, i);
        const snapshot now(time, "the child's");
        const contents all = at(now);
        expect_pairs(all);
        for (std::uint64_t one = 0; one < keys; ++one) {
          ASSERT_EQ(value_in(all, one), value_in(known, one)) << one;
        }
      }
    }
    EXPECT_EQ(at(then), expected);
    map_->collect();
    if (Map::collector_type::info.collects_between) {
      // What `then` sees and a snapshot that was lost, and the lists of the thread that was.
      EXPECT_LE(map_->stats().held(), 700U);
    }
    map_.reset();
  }

 private:
  typename Map::domain_type nodes_;

 public:
  typename Map::timeline_type time;

 private:
  std::unique_ptr<Map> map_;
};

template <class Map>
class forked_maps : public testing::Test {};

template <class Collector>
using hash = snapshot_hash<std::uint64_t, std::string, Collector>;
template <class Collector>
using tree = snapshot_tree<std::uint64_t, std::string, Collector>;
template <class Collector>
using both = testing::Types<hash<Collector>, tree<Collector>>;
using maps =
    with_every_collector<types, 5, both, hash<sl_rt<>>, tree<dl_rt<domain<debra>, on_update>>,
                         hash<bbf<>>, tree<steam<>>, hash<epoch_collector<>>, tree<sl_rt<>>,
                         hash<dl_rt<domain<debra>, on_update>>, tree<bbf<>>, hash<steam<>>,
                         tree<epoch_collector<>>>;
struct map_names {
  template <class Map>
  static std::string GetName(int) {
    return (is_hash<Map> ? "hash_" : "tree_") + std::string(Map::collector_type::info.name);
  }
};
TYPED_TEST_SUITE(forked_maps, maps, map_names);

TYPED_TEST(forked_maps, go_on_where_a_thread_was_lost) {
  subject<TypeParam> s;
  const snapshot then(s.time, "held");
  const contents expected = s.at(then);
  std::atomic<bool> stop{false};
  std::thread lost([&] { s.disturb(stop); });
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(300 * i));
    EXPECT_EQ(status_of_child([&] { s.expect_usable(then, expected); }), 0);
  }
  stop.store(true);
  lost.join();
  EXPECT_EQ(s.at(then), expected);
}

}  // namespace
}  // namespace spolia::test
