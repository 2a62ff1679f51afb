// SPDX-License-Identifier: Apache-2.0
// The containers over read-log-update: beside std::map, as one instant, and as parts of sections.

#include <gtest/gtest.h>

#include <spolia/map/concepts.hpp>
#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/linearizability.hpp"
#include "support/recorded_operation.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct list_kind {
  template <class K, class V>
  using of = rlu_list<K, V>;
};
struct tree_kind {
  template <class K, class V>
  using of = rlu_bst<K, V>;
};
struct hash_kind {
  template <class K, class V>
  using of = rlu_hash<K, V>;
};

static_assert(concurrent_map<rlu_list<int, int>> && concurrent_map<rlu_bst<int, int>>);

/// A map, in a domain that it shares with others.
template <class Kind, class Value, class Key = int>
struct in_home {
  using map_type = typename Kind::template of<Key, Value>;
  explicit in_home(rlu::domain& home) : map(make(home)) {}

  static map_type make(rlu::domain& home) {
    if constexpr (std::is_same_v<Kind, hash_kind>) {
      return map_type(home, 4);
    } else {
      return map_type(home);
    }
  }
  map_type map;
};

template <class M>
std::map<int, std::string> contents(const M& m) {
  std::map<int, std::string> all;
  m.for_each([&](int key, const std::string& value) {
    EXPECT_TRUE(all.emplace(key, value).second) << key << " came twice";
  });
  return all;
}

template <class Kind>
class rlu_maps : public testing::Test {
 protected:
  rlu::domain home{{.segment_bytes = 1024}};
  in_home<Kind, std::string> made{home};
  typename Kind::template of<int, std::string>& map = made.map;
};
using all_kinds = testing::Types<list_kind, tree_kind, hash_kind>;
struct kind_names {
  template <class K>
  static std::string GetName(int i) {
    return std::array{"list", "bst", "hash"}[static_cast<std::size_t>(i)];
  }
};
TYPED_TEST_SUITE(rlu_maps, all_kinds, kind_names);

TYPED_TEST(rlu_maps, do_what_std_map_does) {
  rng random(seed_for(0));
  std::map<int, std::string> model;
  const auto step = [&] {
    const int key = static_cast<int>(random.below(40));
    const std::string value = std::to_string(random.below(1000));
    switch (random.below(4)) {
      case 0:
        EXPECT_EQ(this->map.insert(key, value), model.emplace(key, value).second);
        break;
      case 1:
        EXPECT_EQ(this->map.insert_or_assign(key, value),
                  model.insert_or_assign(key, value).second);
        break;
      case 2:
        EXPECT_EQ(this->map.erase(key), model.erase(key) == 1);
        break;
      default: {
        const auto found = this->map.find(key);
        const auto expected = model.find(key);
        ASSERT_EQ(found.has_value(), expected != model.end());
        EXPECT_EQ(this->map.contains(key), found.has_value());
        if (found) {
          EXPECT_EQ(*found, expected->second);
        }
      }
    }
  };
  for (int i = 0; i < 3000; ++i) {
    // One by one, and several in a section.
    if (i % 2 == 0) {
      step();
    } else {
      this->home.update([&](auto&) {
        for (int n = 0; n < 4; ++n) step();
      });
    }
    EXPECT_EQ(this->map.size_approx(), model.size());
  }
  EXPECT_EQ(contents(this->map), model);
}

TYPED_TEST(rlu_maps, several_operations_are_one) {
  this->map.insert(1, "one");
  EXPECT_FALSE(this->home.update([&](auto& in) {
    EXPECT_TRUE(this->map.erase(1));
    EXPECT_TRUE(this->map.insert(2, "two"));
    EXPECT_TRUE(this->map.contains(2));
    EXPECT_FALSE(this->map.erase(1)) << "an update sees what its own section has done";
    EXPECT_FALSE(this->map.insert(2, "again"));
    in.cancel();
  }));
  EXPECT_EQ(contents(this->map), (std::map<int, std::string>{{1, "one"}}));
  EXPECT_EQ(this->map.size_approx(), 1U) << "what was cancelled is not counted";
}

TYPED_TEST(rlu_maps, take_values_that_can_only_be_moved) {
  in_home<TypeParam, std::unique_ptr<int>> other(this->home);
  EXPECT_TRUE(other.map.insert(1, std::make_unique<int>(7)));
  auto second = std::make_unique<int>(8);
  EXPECT_FALSE(other.map.insert(1, std::move(second)));
  EXPECT_NE(second, nullptr) << "moved from although the key was there";
  EXPECT_TRUE(other.map.visit(1, [](const std::unique_ptr<int>& v) { EXPECT_EQ(*v, 7); }));
}

/// Updates move pairs from key to key so that the number of pairs and the sum of values never
/// change; each instant must show it.
TYPED_TEST(rlu_maps, scans_show_one_instant) {
  constexpr int keys = 24;
  constexpr int present = keys / 2;
  for (int i = 0; i < present; ++i) this->map.insert(i * 2, std::to_string(i));
  std::atomic<int> scans{0};
  run_stress({.threads = 3, .share = 0.4}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.index() == 0) {
        int number = 0;
        int sum = 0;
        this->map.for_each([&](int, const std::string& v) {
          ++number;
          sum += std::stoi(v);
        });
        ASSERT_EQ(number, present);
        ASSERT_EQ(sum, present * (present - 1) / 2);
        scans.fetch_add(1);
        continue;
      }
      const int from = static_cast<int>(self.random().below(keys));
      const int to = static_cast<int>(self.random().below(keys));
      this->home.update([&](auto& in) {
        const auto moving = this->map.find(from);
        if (!moving || this->map.contains(to)) return in.cancel();
        this->map.erase(from);
        if (!in.doomed()) this->map.insert(to, *moving);
      });
    }
  });
  EXPECT_GT(scans.load(), 0);
}

TYPED_TEST(rlu_maps, histories_are_linearizable) {
  for (const unsigned threads : {2U, 8U}) {
    map_recorder record(threads, 20'000, 0);
    in_home<TypeParam, std::uint64_t, std::uint64_t> numbers(this->home);
    run_stress({.threads = threads, .share = 0.2, .stream = threads}, [&](stress_thread& self) {
      auto& lane = record.of(self.index());
      std::uint64_t value = self.index();
      while (self.running() && !lane.full()) {
        operate(numbers.map, lane, self.random(), self.random().below(2 * threads),
                value += threads);
      }
    });
    EXPECT_TRUE(accepted(check_map(record.events())));
    std::size_t left = 0;
    numbers.map.for_each([&](std::uint64_t, std::uint64_t) { ++left; });
    EXPECT_EQ(numbers.map.size_approx(), left);
  }
}

/// Maps come and go in a domain in which others work, and collect all logs.
TYPED_TEST(rlu_maps, end_beside_others) {
  run_stress({.threads = 3, .share = 0.3}, [&](stress_thread& self) {
    while (self.running()) {
      in_home<TypeParam, std::string> own(this->home);
      for (int i = 0; i < 20; ++i) {
        const int key = static_cast<int>(self.random().below(30));
        own.map.insert_or_assign(key, std::to_string(i));
        own.map.erase(key / 2);
        this->map.insert_or_assign(key, "shared");
      }
      if (self.random().chance(1, 4)) this->home.collect();
    }
  });
}

TEST(rlu_weights, what_freed_values_own_is_told_until_they_have_ended) {
  constexpr std::size_t megabyte = std::size_t{1} << 20U;
  rlu::domain home;
  rlu_list<int, std::string> m(home);
  for (int i = 0; i < 5; ++i) m.insert(i, std::string(megabyte, 'x'));
  std::atomic<int> stage{0};
  std::thread sleeper([&] {
    home.read([&](auto&) {
      stage = 1;
      stage.notify_all();
      stage.wait(1);
    });
  });
  stage.wait(0);
  for (int i = 0; i < 5; ++i) m.insert_or_assign(i, "small");
  m.insert_or_assign(1, "and weighs nothing");
  EXPECT_GE(home.stats().freed_bytes, 5 * megabyte);
  EXPECT_LE(home.stats().freed_bytes, 6 * megabyte);
  stage = 2;
  stage.notify_all();
  sleeper.join();
  for (int i = 0; i < 3; ++i) home.collect();
  EXPECT_EQ(home.stats().freed_bytes, 0U);
}

TEST(rlu_bst_shape, is_torn_down_however_deep) {
  rlu_bst<int, int> m;
  for (int i = 3000; i > 0; --i) m.insert(i, i);
  int last = 0;
  m.range(10, 20, [&](int key, int) { last = key; });
  EXPECT_EQ(last, 19);
}

TEST(rlu_hash_errors, needs_a_bucket) {
  EXPECT_THROW((rlu_hash<int, int>(std::size_t{0})), std::invalid_argument);
}

}  // namespace
