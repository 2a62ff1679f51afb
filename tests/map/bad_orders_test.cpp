// SPDX-License-Identifier: Apache-2.0
// Comparisons that are no order: which key an operation touches is not promised then, but it ends,
// lets go of its guard, and breaks nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <ranges>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/snapshot.hpp>

#include "support/few_types.hpp"

namespace {

using namespace spolia;

/// Ends the program if an operation does not end, since nothing else would.
class watchdog {
 public:
  explicit watchdog(std::string what) : what_(std::move(what)), watcher_([this] { watch(); }) {}
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;
  ~watchdog() {
    over_ = true;
    watcher_.join();
  }
  /// Something has ended.
  void tick() noexcept { ticks_.fetch_add(1); }

 private:
  static constexpr std::chrono::milliseconds step{5};
  static constexpr int steps = 12'000;

  void watch() {
    std::uint64_t seen = 0;
    for (int still = 0; !over_; ++still) {
      if (const std::uint64_t now = ticks_; now != seen) {
        seen = now;
        still = 0;
      }
      if (still > steps) {
        std::fprintf(stderr, "%s: an operation does not end\n", what_.c_str());
        std::abort();
      }
      std::this_thread::sleep_for(step);
    }
  }

  const std::string what_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> ticks_{0};
  std::thread watcher_;
};

// Comparisons: each with its key, what makes a key of a random number, and the ways in which it is
// no order. The way is chosen while the program runs, since each type is a dozen maps to compile.

struct of_numbers {
  using key = int;
  enum class way { not_above, wrapping, circles, at_random, always };
  [[maybe_unused]] static constexpr std::array ways{way::not_above, way::wrapping, way::circles,
                                                    way::at_random, way::always};
  [[maybe_unused]] static inline way chosen =
      way::not_above;  // changes only while no other thread runs

  static key of(std::uint32_t r) {
    switch (chosen) {
      case way::wrapping:
        return static_cast<std::uint16_t>(r);
      case way::circles:
        return static_cast<int>(r % 97);
      default:
        return static_cast<int>(r % 300);
    }
  }
  bool operator()(key a, key b) const {
    switch (chosen) {
      case way::wrapping:  // as sequence numbers that begin anew
        return static_cast<std::int16_t>(static_cast<std::uint16_t>(a - b)) < 0;
      case way::circles:  // as sequence numbers of few bits: many circles
        return (b - a + 97) % 97 - 1 < 48;
      case way::at_random:
        return at_random() ? a > b : a < b;
      case way::always:
        return true;
      default:
        return a <= b;
    }
  }

 private:
  static bool at_random() {
    static thread_local std::uint32_t r = 1;
    r = r * 1664525 + 1013904223;
    return (r >> 20U) % 4 == 0;
  }
};
/// With keys that do not lie in nodes.
struct of_words {
  using key = std::string;
  enum class way { not_above };
  [[maybe_unused]] static constexpr std::array ways{way::not_above};
  [[maybe_unused]] static inline way chosen = way::not_above;
  static key of(std::uint32_t r) { return std::to_string(r % 300); }
  bool operator()(const key& a, const key& b) const { return a <= b; }
};
/// NaN is neither above nor below nor beside anything.
struct of_fractions {
  using key = double;
  enum class way { arithmetic };
  [[maybe_unused]] static constexpr std::array ways{way::arithmetic};
  [[maybe_unused]] static inline way chosen = way::arithmetic;
  static key of(std::uint32_t r) {
    return r % 8 == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(r % 300);
  }
  bool operator()(key a, key b) const { return a < b; }
};

template <class M>
using key_of = typename M::key_type;

/// f(...) as often as it is asked for pairs: no walk shows so many.
inline constexpr std::size_t too_many = 1'000'000;
struct counting {
  std::size_t n = 0;
  template <class... Pair>
  bool operator()(const Pair&...) {
    return ++n < too_many;
  }
};

template <class M>
void walk_live(const M& m, const key_of<M>& a, const key_of<M>& b) {
  const auto few = [&](auto walk) {
    counting seen;
    walk(seen);
    EXPECT_LT(seen.n, too_many);
  };
  if constexpr (requires(counting& f) { m.for_each(f); }) {
    few([&](counting& f) { m.for_each(f); });
  }
  if constexpr (requires(counting& f) { m.range(a, b, f); }) {
    few([&](counting& f) { m.range(a, b, f); });
    few([&](counting& f) { m.range(b, a, f); });
  }
  if constexpr (requires(counting& f) { m.for_each_down(f); }) {
    few([&](counting& f) { m.for_each_down(f); });
    few([&](counting& f) { m.range_down(a, b, f); });
  }
}
template <class M>
void walk_past(M& m, const key_of<M>& a, const key_of<M>& b) {
  const snapshot now;
  const auto few = [&](auto&& pairs) {
    std::size_t n = 0;
    for (const auto& [key, value] : pairs) {
      static_cast<void>(value);
      static_cast<void>(key);
      if (++n == too_many) break;
    }
    EXPECT_LT(n, too_many);
  };
  few(m.all(now));
  if constexpr (requires { m.range(now, a, b); }) {
    few(m.range(now, a, b));
    few(m.all(now) | std::views::reverse);
    few(m.range(now, a, b) | std::views::reverse);
    few(m.range(now, b, a) | std::views::reverse);
  }
  static_cast<void>(m.find(now, a));
  const std::vector<key_of<M>> keys{a, b};
  static_cast<void>(m.find_all(now, keys));
  const lease from(std::chrono::hours(1));
  static_cast<void>(m.find(from, a));
  counting seen;
  m.for_each(from, seen);
  EXPECT_LT(seen.n, too_many);
  m.collect();
  changes some;
  some.erase(m, a);
  some.insert(m, a, 1);
  some.insert_or_assign(m, b, 2);
  some.insert_or_assign(m, a, 3);
  some.commit();
}

template <class M, class Of>
void hammer(M& m, std::uint32_t seed, int operations, watchdog& dog, Of of) {
  std::mt19937 random(seed);
  const auto next = [&] { return of(static_cast<std::uint32_t>(random())); };
  for (int i = 0; i < operations; ++i, dog.tick()) {
    const auto key = next();
    switch (random() % 6) {
      case 0:
        m.erase(key);
        break;
      case 1:
        m.insert_or_assign(key, i);
        break;
      case 2:
        static_cast<void>(m.find(key));
        break;
      case 3:
        static_cast<void>(m.contains(key));
        break;
      default:
        m.insert(key, i);
    }
    if (i % 200 != 199) continue;
    const auto other = next();
    walk_live(m, key, other);
    if constexpr (requires { m.time(); }) walk_past(m, key, other);
  }
}

template <class M, class Of>
void hammer_all(const std::string& name, Of of, const std::function<std::unique_ptr<M>()>& make) {
  watchdog dog(name);
  {
    const auto alone = make();
    hammer(*alone, 1, 3000, dog, of);
  }
  const auto shared = make();
  std::thread other([&] { hammer(*shared, 2, 1500, dog, of); });
  hammer(*shared, 3, 1500, dog, of);
  other.join();
  if constexpr (requires { shared->domain().drain(); }) shared->domain().drain();
}

struct all_meet {
  template <class Key>
  std::size_t operator()(const Key&) const noexcept {
    return 1;
  }
};

template <class Order>
struct bad_order : testing::Test {
  template <class M>
  static void expect_end(const char* name) {
    for (const auto way : Order::ways) {
      Order::chosen = way;
      const std::string what = std::string(name) + ", way " + std::to_string(static_cast<int>(way));
      hammer_all<M>(what, Order::of, [] {
        if constexpr (std::is_default_constructible_v<M>) {
          return std::make_unique<M>();
        } else {
          return std::make_unique<M>(8U);
        }
      });
    }
  }
};
using orders = spolia::test::parted<1, of_words, of_numbers, of_fractions>;
TYPED_TEST_SUITE(bad_order, orders);

TYPED_TEST(bad_order, ends_in_lock_free_maps) {
  using key = typename TypeParam::key;
  this->template expect_end<abtree<key, int, domain<>, TypeParam>>("abtree");
  this->template expect_end<abtree<key, int, domain<>, TypeParam, 4>>("abtree of degree 4");
  this->template expect_end<external_bst<key, int, domain<>, TypeParam>>("external_bst");
  this->template expect_end<list<key, int, domain<>, TypeParam>>("list");
}
#if !SPOLIA_TEST_FEW_TYPES
// Where all keys have one hash, they are the list above, and go the same long ways.
TYPED_TEST(bad_order, ends_in_lists_of_one_hash) {
  using key = typename TypeParam::key;
  using one_hash = michael_hash<key, int, domain<>, all_meet, TypeParam>;
  this->template expect_end<one_hash>("michael_hash");
  using split = split_ordered_hash<key, int, domain<>, all_meet, TypeParam>;
  this->template expect_end<split>("split_ordered_hash");
}
#endif
TYPED_TEST(bad_order, ends_in_maps_with_locks) {
  using key = typename TypeParam::key;
  this->template expect_end<avl<key, int, region_domain, TypeParam>>("avl");
  this->template expect_end<counted_bst<key, int, thin_family, TypeParam>>("counted_bst");
  this->template expect_end<counted_btree<key, int, thin_family, TypeParam>>("counted_btree");
  this->template expect_end<counted_tree<key, int, thin_family, TypeParam>>("counted_tree");
  this->template expect_end<counted_btree_locked<key, int, thin_family, TypeParam>>(
      "counted_btree_locked");
}
TYPED_TEST(bad_order, ends_in_maps_with_a_past) {
  using key = typename TypeParam::key;
  this->template expect_end<snapshot_tree<key, int, sl_rt<>, TypeParam>>("snapshot_tree");
  this->template expect_end<snapshot_tree<key, int, sl_rt<>, TypeParam, 2>>("snapshot_tree of two");
}
TYPED_TEST(bad_order, ends_under_read_log_update) {
  using key = typename TypeParam::key;
  this->template expect_end<rlu_bst<key, int, rlu::domain, TypeParam>>("rlu_bst");
  this->template expect_end<rlu_list<key, int, rlu::domain, TypeParam>>("rlu_list");
  using table = rlu_hash<key, int, rlu::domain, default_hash<key>, TypeParam>;
  this->template expect_end<table>("rlu_hash");
}

/// Another hash each time, and an equality that is not one.
struct any_hash {
  std::size_t operator()(int) const {
    static thread_local std::size_t next = 0;
    return next++ * 0x9E3779B9U;
  }
};
struct never_equal {
  bool operator()(int, int) const { return false; }
};
TEST(bad_hashes, end) {
  const auto of = [](std::uint32_t r) { return static_cast<int>(r % 300); };
  using hash = snapshot_hash<int, int, sl_rt<>, any_hash>;
  hammer_all<hash>("snapshot_hash", of, [] { return std::make_unique<hash>(); });
  using unequal = snapshot_hash<int, int, sl_rt<>, std::hash<int>, never_equal>;
  hammer_all<unequal>("snapshot_hash without equality", of,
                      [] { return std::make_unique<unequal>(); });
  using split = split_ordered_hash<int, int, domain<>, any_hash>;
  hammer_all<split>("split_ordered_hash", of, [] { return std::make_unique<split>(); });
  using counted = counted_hash<int, int, thin_family, any_hash>;
  hammer_all<counted>("counted_hash", of, [] { return std::make_unique<counted>(); });
}

/// What a walk shows of a sound map is not cut short by the watch over its progress.
TEST(bad_orders, do_not_shorten_walks_by_good_ones) {
  abtree<int, int> tree;
  external_bst<int, int> outside;
  avl<int, int> balanced;
  list<int, int> chain;
  snapshot_tree<int, int> past;
  const auto everywhere = [&](auto&& f) { f(tree), f(outside), f(balanced), f(chain), f(past); };
  for (int i = 0; i < 3000; ++i) {
    const int key = i * 1009 % 3001;
    everywhere([&](auto& m) { m.insert(key, key); });
  }
  const snapshot now;
  everywhere([&](auto& m) {
    int expected = 0;
    m.for_each([&](int key, int) { EXPECT_EQ(key, expected++ + (key > 1991 ? 1 : 0)); });
    EXPECT_EQ(expected, 3000);
  });
  int left = 3000;
  tree.for_each_down([&](int, int) { --left; });
  EXPECT_EQ(left, 0);
  for ([[maybe_unused]] const auto& pair : past.all(now) | std::views::reverse) ++left;
  EXPECT_EQ(left, 3000);
}

}  // namespace
