// SPDX-License-Identifier: Apache-2.0
// What ordered maps show in order: ranges with all kinds of ends, both ways, and the pair next to a
// key; alone, and beside threads that put keys in and take them out.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>

#include "support/linearizability.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using key_and_value = std::pair<std::uint64_t, std::uint64_t>;
using some_pairs = std::vector<key_and_value>;
using maybe_pair = std::optional<key_and_value>;
using model_map = std::map<std::uint64_t, std::uint64_t>;

template <class Map>
concept goes_down = requires(const Map& m) { m.last(); };

maybe_pair there(const model_map& m, model_map::const_iterator at) {
  return at == m.end() ? std::nullopt : maybe_pair(*at);
}
maybe_pair before(const model_map& m, model_map::const_iterator at) {
  return at == m.begin() ? std::nullopt : maybe_pair(*std::prev(at));
}

/// Of a map, or of one at an instant.
template <class Map, class... Then>
void expect_neighbours(const Map& m, const model_map& model, std::uint64_t key, Then&... then) {
  ASSERT_EQ(maybe_pair(m.first(then...)), there(model, model.begin()));
  if constexpr (goes_down<Map>) {
    ASSERT_EQ(maybe_pair(m.last(then...)), before(model, model.end()));
    ASSERT_EQ(maybe_pair(m.lower_bound(then..., key)), there(model, model.lower_bound(key)));
    ASSERT_EQ(maybe_pair(m.upper_bound(then..., key)), there(model, model.upper_bound(key)));
    ASSERT_EQ(maybe_pair(m.last_before(then..., key)), before(model, model.lower_bound(key)));
    ASSERT_EQ(maybe_pair(m.last_upto(then..., key)), before(model, model.upper_bound(key)));
  }
}

template <class Map>
class expect_range {
 public:
  expect_range(const Map& m, const model_map& model) : m_(m), model_(model) {}

  void between(std::uint64_t lo, std::uint64_t hi) const {
    const auto at = [&](std::uint64_t k) { return model_.lower_bound(k); };
    const auto behind = [&](std::uint64_t k) { return model_.upper_bound(k); };
    compare(lo, hi, at(lo), lo < hi ? at(hi) : at(lo));
    compare(after(lo), hi, behind(lo), lo < hi ? at(hi) : behind(lo));
    compare(lo, upto(hi), at(lo), lo <= hi ? behind(hi) : at(lo));
    compare(after(lo), upto(hi), behind(lo), lo < hi ? behind(hi) : behind(lo));
    compare(no_limit, upto(hi), model_.begin(), behind(hi));
    compare(after(lo), no_limit, behind(lo), model_.end());
    compare(no_limit, no_limit, model_.begin(), model_.end());
  }

 private:
  template <class Lo, class Hi>
  void compare(const Lo& lo, const Hi& hi, model_map::const_iterator from,
               model_map::const_iterator to) const {
    some_pairs expected(from, to);
    some_pairs shown;
    const auto take = [&shown](std::uint64_t k, std::uint64_t v) { shown.emplace_back(k, v); };
    m_.range(lo, hi, take);
    ASSERT_EQ(shown, expected);
    if constexpr (goes_down<Map>) {
      shown.clear();
      m_.range_down(lo, hi, take);
      std::ranges::reverse(expected);
      ASSERT_EQ(shown, expected);
    }
  }

  const Map& m_;
  const model_map& model_;
};

/// What is found of few keys, and of several batches, leaves and levels.
template <class Map>
void answers_in_order_like_std_map() {
  SCOPED_TRACE(__PRETTY_FUNCTION__);
  for (const std::uint64_t keys : {6U, 200U}) {
    Map m;
    model_map model;
    rng random(seed_for(0));
    ASSERT_NO_FATAL_FAILURE(expect_neighbours(m, model, 1));
    for (std::uint64_t i = 0; i < 2 * keys; ++i) {
      const std::uint64_t key = 1 + random.below(keys);
      if (random.chance(2, 3)) {
        m.insert(key, i);
        model.emplace(key, i);
      } else {
        m.erase(key);
        model.erase(key);
      }
      const std::uint64_t lo = random.below(keys + 2);
      ASSERT_NO_FATAL_FAILURE(expect_neighbours(m, model, lo)) << "key " << lo;
      if (i % (keys / 5) != 0) continue;
      const expect_range all(m, model);
      for (const std::uint64_t hi : {lo, lo + 1, random.below(keys + 2)}) {
        ASSERT_NO_FATAL_FAILURE(all.between(lo, hi)) << lo << " to " << hi;
      }
    }
  }
}

template <class Key, class Value>
using bst_of_pointers = external_bst<Key, Value, domain<hazard_pointers>>;

TEST(ordered_reads, answer_like_std_map) {
  using n = std::uint64_t;
  answers_in_order_like_std_map<abtree<n, n>>();
  answers_in_order_like_std_map<avl<n, n>>();
  answers_in_order_like_std_map<bst_of_pointers<n, n>>();
  answers_in_order_like_std_map<list<n, n>>();
  answers_in_order_like_std_map<snapshot_tree<n, n>>();
  answers_in_order_like_std_map<counted_bst<n, n>>();
  answers_in_order_like_std_map<counted_btree<n, n>>();
  answers_in_order_like_std_map<counted_tree<n, n>>();
  answers_in_order_like_std_map<counted_btree_locked<n, n>>();
  answers_in_order_like_std_map<rlu_bst<n, n>>();
  answers_in_order_like_std_map<rlu_list<n, n>>();
}

TEST(ordered_reads, find_what_a_snapshot_and_a_lease_see) {
  snapshot_tree<std::uint64_t, std::uint64_t> m;
  model_map model;
  rng random(seed_for(0));
  const auto change = [&](auto& map) {
    for (int i = 0; i < 3000; ++i) {
      const std::uint64_t key = random.below(5000);
      map.erase(random.below(5000));
      map.erase(key);
      map.insert({key, key + 1});
    }
  };
  struct both {
    void erase(std::uint64_t k) { m.erase(k), model.erase(k); }
    void insert(key_and_value p) { m.insert(p.first, p.second), model.insert(p); }
    snapshot_tree<std::uint64_t, std::uint64_t>& m;
    model_map& model;
  } now{m, model};
  change(now);
  const snapshot then;
  const lease of(std::chrono::hours(1));
  const model_map old = model;
  change(now);
  for (std::uint64_t key = 0; key < 5002; key += 13) {
    ASSERT_NO_FATAL_FAILURE(expect_neighbours(m, model, key));
    ASSERT_NO_FATAL_FAILURE(expect_neighbours(m, old, key, then));
    ASSERT_NO_FATAL_FAILURE(expect_neighbours(m, old, key, of));
  }
  const auto found = *m.lower_bound(then, 0);
  m.erase(found.first);
  EXPECT_EQ(found.second, old.begin()->second) << "it stays while the snapshot does";

  const std::uint64_t lo = old.begin()->first;
  const std::uint64_t hi = std::next(old.begin(), 100)->first;
  const some_pairs expected(std::next(old.begin()), std::next(old.begin(), 101));
  some_pairs shown;
  for (const auto& [k, v] : m.range(then, after(lo), upto(hi)) | std::views::reverse) {
    shown.emplace_back(k, v);
  }
  EXPECT_TRUE(std::equal(shown.rbegin(), shown.rend(), expected.begin(), expected.end()));
  EXPECT_EQ(m.count(then, after(lo), upto(hi)), 100U);
  EXPECT_EQ(m.count(then, after(lo), no_limit), old.size() - 1);
  EXPECT_EQ(m.count(then, after(lo), upto(lo)), 0U);
  shown.clear();
  m.range(of, after(lo), upto(hi), [&](auto& k, auto& v) { shown.emplace_back(k, v); });
  EXPECT_EQ(shown, expected);
}

TEST(ordered_reads, copy_what_they_find_and_take_ends_of_other_types) {
  abtree<std::string, std::string> m;
  for (const char* word : {"bag", "epoch", "limbo", "token"}) m.insert(word, std::string(30, 'x'));
  EXPECT_EQ(m.lower_bound("f")->first, "limbo");
  EXPECT_EQ(m.last()->second, std::string(30, 'x'));
  std::string shown;
  const auto take = [&](const std::string& k, const std::string&) { shown += k + " "; };
  m.range_down(after("bag"), upto("limbo"), take);
  m.range("f", no_limit, take);
  EXPECT_EQ(shown, "limbo epoch limbo token ");

  abtree<double, int> ranks;
  for (const double x : {-1.0, 0.0, 2.0}) ranks.insert(x, 1);
  EXPECT_EQ(ranks.last_before(2)->first, 0.0);
  EXPECT_EQ(ranks.upper_bound(-1)->first, 0.0);
}

/// A pair is what a scan that ends at it would have shown.
template <class Map>
void neighbours_beside_writers() {
  SCOPED_TRACE(__PRETTY_FUNCTION__);
  constexpr std::uint64_t keys = 40;  // of three leaves, or so
  constexpr std::uint64_t most = ~std::uint64_t{0};
  constexpr std::size_t operations = 8000;
  map_recorder record(3, operations, operations);
  Map m;
  run_stress({.threads = 3, .share = 0.05}, [&](stress_thread& self) {
    auto& lane = record.of(self.index());
    for (std::uint64_t i = 0; self.running() && i < operations; ++i) {
      const std::uint64_t key = self.random().below(keys);
      if (self.index() != 0) {
        if (self.random().chance(1, 2)) {
          lane.insert(key, 3 * i + self.index(),
                      [&] { return m.insert(key, 3 * i + self.index()); });
        } else {
          lane.erase(key, [&] { return m.erase(key); });
        }
        continue;
      }
      switch (self.random().below(5)) {
        case 0:
          lane.nearest_up(0, [&] { return m.first(); });
          break;
        case 1:
          lane.nearest_down(most, [&] { return m.last(); });
          break;
        case 2:
          lane.nearest_up(key, [&] { return m.lower_bound(key); });
          break;
        case 3:
          lane.nearest_up(key + 1, [&] { return m.upper_bound(key); });
          break;
        default:
          lane.nearest_down(key, [&] { return m.last_upto(key); });
      }
    }
  });
  EXPECT_TRUE(accepted(check_scans(record.events(), record.scans())));
}

TEST(ordered_reads, are_right_beside_writers) {
  using n = std::uint64_t;
  neighbours_beside_writers<abtree<n, n>>();
  neighbours_beside_writers<avl<n, n>>();
  neighbours_beside_writers<bst_of_pointers<n, n>>();
  neighbours_beside_writers<snapshot_tree<n, n>>();
}

}  // namespace
