// SPDX-License-Identifier: Apache-2.0
// snapshot_tree: how the shortcut for a key is found, and what trees do that are large enough to
// have many.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory_resource>
#include <type_traits>
#include <vector>

#include <spolia/map/snapshot_tree.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>

#include "support/elsewhere.hpp"
#include "support/few_types.hpp"
#include "support/parked_thread.hpp"
#include "support/stress.hpp"

namespace spolia::test {
namespace {

template <class Key>
class ways : public testing::Test {
 protected:
  using all = detail::map::chromatic_ways<Key, int, std::less<Key>>;
  using entry = typename all::entry;

  /// Looks for each of the keys, and for what lies beside it, as a plain search does.
  static void expect_found(std::vector<Key> keys) {
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<entry> some{{Key(), nullptr}};
    for (const Key& key : keys) some.push_back({key, nullptr});
    const all found(some);
    const auto expect = [&](const Key& key) {
      const auto behind = std::ranges::upper_bound(keys, key);
      ASSERT_EQ(found.place_of(key, {}), static_cast<std::size_t>(behind - keys.begin())) << key;
    };
    for (const Key& key : keys) {
      expect(key);
      if (key != std::numeric_limits<Key>::max()) expect(static_cast<Key>(key + 1));
      if (key != std::numeric_limits<Key>::lowest()) expect(static_cast<Key>(key - 1));
    }
    expect(std::numeric_limits<Key>::max());
    expect(std::numeric_limits<Key>::lowest());
  }
};
using key_types = few_or_all<5, std::uint64_t, std::int64_t, std::int32_t, std::uint8_t, double>;
TYPED_TEST_SUITE(ways, key_types);

TYPED_TEST(ways, are_found_as_by_a_plain_search) {
  using key = TypeParam;
  const auto any = [](rng& random) { return static_cast<key>(random()); };
  rng random(seed_for(0));
  this->expect_found({});
  this->expect_found({static_cast<key>(7)});
  this->expect_found({std::numeric_limits<key>::lowest(), std::numeric_limits<key>::max()});
  for (const int count : {2, 3, 5, 100, 3000}) {
    std::vector<key> even;
    std::vector<key> crowded;  // all but one in a part of the space that leading bits don't divide
    for (int i = 0; i < count; ++i) {
      even.push_back(any(random));
      crowded.push_back(static_cast<key>(random.below(static_cast<std::uint64_t>(count))));
    }
    crowded.push_back(std::numeric_limits<key>::max());
    this->expect_found(even);
    this->expect_found(crowded);
    crowded.push_back(std::numeric_limits<key>::lowest());
    this->expect_found(crowded);
  }
}

/// A tree with thousands of shortcuts whose routers come and go, against a std::map: scans step
/// from one shortcut to the next, also over those that were removed since the table was made.
TEST(large_snapshot_tree, is_scanned_and_searched_by_its_shortcuts) {
  constexpr std::int64_t keys = 20000;
  timeline time;
  snapshot_tree<std::int64_t, std::int64_t, sl_rt<>, std::less<std::int64_t>, 4> m(time);
  std::map<std::int64_t, std::int64_t> model;
  rng random(seed_for(0));
  const auto some_key = [&] {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(keys))) - keys / 2;
  };
  const auto expect_same = [&](std::int64_t lo, std::int64_t hi) {
    const snapshot now(time);
    auto expected = model.lower_bound(lo);
    for (const auto& [key, value] : m.range(now, lo, hi)) {
      ASSERT_NE(expected, model.end());
      ASSERT_EQ(key, expected->first);
      ASSERT_EQ(value, expected->second);
      ++expected;
    }
    ASSERT_EQ(expected, model.lower_bound(hi));
  };
  for (int round = 0; round < 300; ++round) {
    // Erasing a stretch of keys removes the routers of many shortcuts before there is a new table.
    const std::int64_t from = some_key();
    for (std::int64_t key = from; key < from + 300; ++key) {
      ASSERT_EQ(m.erase(key), model.erase(key) == 1);
    }
    for (int i = 0; i < 300; ++i) {
      const std::int64_t key = some_key();
      ASSERT_EQ(m.insert(key, round), model.emplace(key, round).second);
      ASSERT_TRUE(m.contains(key));
    }
    if (round % 10 == 0) expect_same(-keys, keys);
    expect_same(from - 50, from + 350);
    const std::int64_t lo = some_key();
    expect_same(lo, lo + 100);
  }
  for (std::int64_t key = -keys; key < keys; ++key) {
    ASSERT_EQ(m.contains(key), model.contains(key));
  }
  const auto found = m.audit();
  EXPECT_EQ(found.wrong, "");
  EXPECT_EQ(found.violations, 0U);
  EXPECT_EQ(found.pairs, model.size());
}

/// Stands in for a tree of routers: counts looks at them.
struct routers {
  struct internal;
  struct link {
    internal* to;
    bool to_leaf;
  };
  struct version {
    link value;
  };
  struct field {
    version current;
    const version* newest(int&) const { return &current; }
  };
  struct flag {
    bool set = false;
    [[nodiscard]] bool load_relaxed() const { return set; }
  };
  struct internal {
    int key = 0;
    std::array<field, 2> children{};
    flag marked{};
    int holds = 0;
    static inline int looks = 0;
    field& child(unsigned side) {
      ++looks;
      return children[side];
    }
    bool hold() {
      ++holds;
      return true;
    }
    void prefetch() const {}
  };
  using key_type = int;
  static internal* as_internal(internal* i) { return i; }

  int now = 0;
  int& time() { return now; }

  /// All with keys before `end` and from `from` on, at the distance of one; the root.
  internal* grow(int from, int end) {
    if (end - from < 2) return nullptr;
    internal* const i = &all.emplace_back();
    i->key = from + (end - from) / 2;
    i->children[0].current.value = {grow(from, i->key), i->key - from < 2};
    i->children[1].current.value = {grow(i->key, end), end - i->key < 2};
    return i;
  }
  std::deque<internal> all;
};

/// Of trees with fewer routers than there is room for, with more, and with far more: a piece at a
/// time, evenly, in order, and nothing below what was removed meanwhile.
TEST(chosen_shortcuts, are_chosen_a_few_at_a_time) {
  using way = detail::map::chromatic_ways<int, routers::internal, std::less<int>>::entry;
  constexpr std::size_t most = 1024;
  for (const int leaves : {1, 2, 3, 100, 1000, 3000, 100000}) {
    SCOPED_TRACE(leaves);
    routers tree;
    routers::internal entry;
    entry.children[0].current.value = {tree.grow(0, leaves), leaves < 2};
    detail::map::chromatic_chooser<routers, routers, way, most> chosen(tree, entry);
    routers::internal* gone = nullptr;
    for (bool more = true; more;) {
      routers::internal::looks = 0;
      std::size_t looks = 40;
      more = chosen.go_on(looks);
      // Two for each, and what is chosen at once.
      EXPECT_LE(routers::internal::looks, 1 + 2 * (40 + 2 * 16 * 2));
      if (more) {
        gone = chosen.high.back().at;
        gone->marked.set = true;
      }
    }
    if (gone != nullptr) {
      EXPECT_EQ(chosen.low.back().from, chosen.high.back().from);
      EXPECT_EQ(chosen.low.back().at, nullptr);
    }
    EXPECT_LE(chosen.low.size(), most);
    const auto there = static_cast<std::size_t>(leaves);
    EXPECT_GE(chosen.low.size(), std::min(there / 4, most * 9 / 10));
    int from = 0;
    for (const auto* const some : {&chosen.low, &chosen.high}) {
      from = 0;
      for (const way& w : *some) {
        EXPECT_GE(w.from, from);
        from = w.from + 1;
        if (w.at != nullptr) --w.at->holds;
      }
    }
    for (const auto& i : tree.all) EXPECT_EQ(i.holds, 0);
  }
}

/// Counts blocks of one size that are taken from it, and stops a thread that takes one and is to be
/// stopped.
class parking_memory final : public std::pmr::memory_resource {
 public:
  static inline thread_local parking_spot* spot = nullptr;
  /// 0: that of the first that is taken from now on.
  std::atomic<std::size_t> size{~std::size_t{0}};
  std::atomic<int> taken{0};

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    if (size.load() == 0) size.store(bytes);
    if (size.load() == bytes) {
      taken.fetch_add(1);
      if (spot != nullptr) spot->park();
    }
    return std::pmr::new_delete_resource()->allocate(bytes, align);
  }
  void do_deallocate(void* at, std::size_t bytes, std::size_t align) override {
    std::pmr::new_delete_resource()->deallocate(at, bytes, align);
  }
  [[nodiscard]] bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
};

TEST(large_snapshot_tree, has_new_shortcuts_where_a_fork_caught_another_thread_making_some) {
  parking_memory memory;
  domain<token> d({.memory = &memory});
  timeline time;
  snapshot_tree<int, int, sl_rt<domain<token>>> m(d, time);
  for (int key = 0; key < 3000; ++key) m.insert(key, key);
  const auto makes_shortcuts = [&] {
    const int before = memory.taken.load();
    m.collect();
    return memory.taken.load() != before;
  };
  memory.size = 0;  // the table of shortcuts is what collect() takes first
  ASSERT_TRUE(makes_shortcuts());
  parked_thread maker([&](parking_spot& spot) {
    parking_memory::spot = &spot;
    m.collect();
    parking_memory::spot = nullptr;
  });
  EXPECT_FALSE(makes_shortcuts()) << "another thread does";
  EXPECT_EQ(status_of_child([&] {
              EXPECT_TRUE(makes_shortcuts());
              EXPECT_TRUE(makes_shortcuts());
              for (int key = 0; key < 3000; ++key) EXPECT_TRUE(m.contains(key));
            }),
            0);
  maker.release();
  EXPECT_TRUE(makes_shortcuts());
}

}  // namespace
}  // namespace spolia::test
