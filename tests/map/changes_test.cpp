// SPDX-License-Identifier: Apache-2.0
// Batches of changes: all at one instant or none, in several maps.
#include <spolia/map/changes.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/snapshot.hpp>

#include "support/faults.hpp"
#include "support/few_types.hpp"
#include "support/ledger.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using counted = spolia::test::tracked;

/// Two kinds of maps, which may be one.
template <class Collector, template <class, class, class, class...> class One,
          template <class, class, class, class...> class Other>
struct kinds {
  using collector = Collector;
  template <class Key, class Value>
  using one = One<Key, Value, Collector>;
  template <class Key, class Value>
  using other = Other<Key, Value, Collector>;
};
template <class Key, class Value, class Collector, class...>
using hash = snapshot_hash<Key, Value, Collector>;
template <class Key, class Value, class Collector, class...>
using tree = snapshot_tree<Key, Value, Collector>;

template <class Map>
auto options_for(std::uint64_t buckets, std::uint32_t load) {
  typename Map::options o;
  o.collector = eager_options<typename Map::collector_type>();
  if constexpr (is_hash<Map>) {
    o.buckets = buckets;
    o.load = load;
  }
  return o;
}

/// Of a map at rest.
template <class Map>
void expect_sound(const Map& m) {
  if constexpr (!is_hash<Map>) {
    const auto found = m.audit();
    EXPECT_EQ(found.wrong, "");
    EXPECT_EQ(found.violations, 0U);
    EXPECT_EQ(found.vacant, 0U);
    EXPECT_EQ(found.pairs, m.size_approx());
  }
}

template <class Kinds>
class batches : public testing::Test {
 protected:
  using words_map = typename Kinds::template other<std::string, std::string>;
  using numbers_map = typename Kinds::template one<std::uint64_t, std::int64_t>;
  using other_map = typename Kinds::template other<std::uint64_t, std::int64_t>;
  using collector = typename Kinds::collector;

  void SetUp() override {
    if (!usable<collector>()) GTEST_SKIP() << "this machine has no such clock";
  }
  template <class Map>
  static auto small(std::uint64_t buckets = 16, std::uint32_t load = 2) {
    return options_for<Map>(buckets, load);
  }
  typename collector::timeline_type time;
};
struct kind_names {
  template <class Kinds>
  static std::string GetName(int i) {
    return collector_names::GetName<typename Kinds::collector>(i);
  }
};
using collectors =
    types<2, kinds<sl_rt<>, hash, hash>, kinds<dl_rt<domain<debra>, on_update>, tree, tree>,
          kinds<bbf<>, hash, tree>, kinds<steam<domain<qsbr>, by_hardware>, tree, hash>>;
TYPED_TEST_SUITE(batches, collectors, kind_names);

TYPED_TEST(batches, happen_at_one_instant) {
  using words = typename TestFixture::words_map;
  using numbers = typename TestFixture::numbers_map;
  words names(this->time, this->template small<words>());
  numbers counts(this->time, this->template small<numbers>());
  names.insert("a", "old");
  counts.insert(1, 10);
  const snapshot before(this->time);
  changes all;
  all.insert_or_assign(names, "a", "new");
  all.insert(names, "b", "new");
  all.erase(counts, 1U);
  all.insert(counts, 2U, 20);
  EXPECT_EQ(names.find("a"), "old");
  all.commit();
  EXPECT_EQ(all.size(), 0U);
  EXPECT_EQ(names.find("a"), "new");
  EXPECT_EQ(names.find("b"), "new");
  EXPECT_FALSE(counts.contains(1));
  EXPECT_EQ(counts.find(2), 20);
  EXPECT_EQ(names.size_approx(), 2U);
  EXPECT_EQ(counts.size_approx(), 1U);
  EXPECT_EQ(*names.find(before, "a"), "old");
  EXPECT_EQ(names.find(before, "b"), nullptr);
  EXPECT_EQ(*counts.find(before, 1), 10);
  EXPECT_EQ(counts.size(before), 1U);
  const snapshot after(this->time);
  EXPECT_EQ(names.size(after), 2U);
  EXPECT_EQ(counts.size(after), 1U);
  for (const auto& [key, value] : counts.all(after)) EXPECT_EQ(key, 2U);
  expect_sound(names);
  expect_sound(counts);
}

TYPED_TEST(batches, take_effect_in_order) {
  using numbers = typename TestFixture::numbers_map;
  numbers m(this->time, this->template small<numbers>(1, 100));
  m.insert(1, 1);
  changes all;
  all.insert(m, 1U, 5);  // it is there
  all.insert_or_assign(m, 2U, 2);
  all.erase(m, 1U);
  all.insert(m, 1U, 7);
  all.erase(m, 2U);
  all.erase(m, 2U);
  all.insert_or_assign(m, 3U, 3);
  all.insert_or_assign(m, 3U, 4);
  all.commit();
  EXPECT_EQ(m.find(1), 7);
  EXPECT_FALSE(m.contains(2));
  EXPECT_EQ(m.find(3), 4);
  EXPECT_EQ(m.size_approx(), 2U);
  all.commit();  // nothing
  m.insert_or_assign(3, 9);
  m.erase(1);
  EXPECT_EQ(m.find(3), 9);
  EXPECT_EQ(m.size_approx(), 1U);
  expect_sound(m);
}

TYPED_TEST(batches, outlast_growth) {
  using numbers = typename TestFixture::numbers_map;
  numbers m(this->time, this->template small<numbers>(1, 1));
  std::vector<snapshot> then;
  for (std::uint64_t round = 0; round < 40; ++round) {
    changes all;
    for (std::uint64_t k = 0; k < 10; ++k) {
      all.insert_or_assign(m, round * 5 + k, static_cast<std::int64_t>(round));
    }
    all.commit();
    then.emplace_back(this->time);
  }
  if constexpr (is_hash<numbers>) {
    EXPECT_GE(m.buckets(), 64U);
  }
  expect_sound(m);
  EXPECT_EQ(m.size_approx(), 205U);
  for (std::uint64_t round = 0; round < 40; ++round) {
    EXPECT_EQ(m.size(then[round]), round * 5 + 10);
    EXPECT_EQ(*m.find(then[round], round * 5 + 9), static_cast<std::int64_t>(round));
  }
}

TYPED_TEST(batches, end_what_they_held_once) {
  using map = typename TypeParam::template one<std::uint64_t, counted>;
  ledger book;
  {
    map m(this->time, this->template small<map>());
    for (std::uint64_t i = 0; i < 300; ++i) {
      changes all;
      for (std::uint64_t k = 0; k < 3; ++k) {
        all.insert_or_assign(m, (i + k) % 20, counted(book, i));
      }
      all.erase(m, (i + 7) % 20);
      if (i % 5 != 0) all.commit();
    }
  }
  book.expect_empty();
}

/// Sums of two maps stay what they are, for snapshots, while amounts go to and fro; and other
/// updates of the same buckets come between.
/// Leaves that a batch leaves without a pair are taken out, as those are that one change does.
TYPED_TEST(batches, leave_no_empty_leaves) {
  using numbers = typename TestFixture::numbers_map;
  numbers map(this->time, this->template small<numbers>());
  constexpr std::uint64_t keys = 400;
  for (std::uint64_t k = 0; k < keys; ++k) map.insert(k, 0);
  changes some;
  for (std::uint64_t k = 10; k < keys; ++k) some.erase(map, k);
  some.commit();
  EXPECT_EQ(map.size_approx(), 10U);
  expect_sound(map);
}

TYPED_TEST(batches, keep_sums) {
  using numbers = typename TestFixture::numbers_map;
  using other_numbers = typename TestFixture::other_map;
  constexpr std::uint64_t keys = 16;
  constexpr std::int64_t each = 1000;
  numbers cellar(this->time, this->template small<numbers>(4, 4));
  other_numbers shop(this->time, this->template small<other_numbers>(4, 4));
  for (std::uint64_t k = 0; k < keys; ++k) {
    cellar.insert(k, each);
    shop.insert(k, each);
  }
  const auto sum_of_all = [](const auto& m, const snapshot& now) {
    std::int64_t sum = 0;
    for (const auto& [k, v] : m.all(now)) sum += v;
    return sum;
  };
  const auto sum_of_each = [](const auto& m, const snapshot& now) {
    std::int64_t sum = 0;
    for (std::uint64_t k = 0; k < keys; ++k) {
      const std::int64_t* const found = m.find(now, k);
      if (found != nullptr) sum += *found;
    }
    return sum;
  };
  run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
    const std::uint64_t first = self.index() * keys / 4;  // each thread's own keys, in any bucket
    while (self.running()) {
      const std::uint64_t from = first + self.random().below(keys / 4);
      const std::uint64_t to = first + self.random().below(keys / 4);
      changes move;
      const auto left = cellar.find(from);
      const auto there = shop.find(to);
      if (left && *left > 990 && self.random().chance(1, 4)) {  // all of it
        move.erase(cellar, from);
        move.insert_or_assign(shop, to, there.value_or(0) + *left);
      } else {
        move.insert_or_assign(cellar, from, left.value_or(0) - 1);
        move.insert_or_assign(shop, to, there.value_or(0) + 1);
      }
      move.commit();
      if (self.random().chance(1, 4)) cellar.insert(100 + self.index(), 0);
      if (self.random().chance(1, 4)) cellar.erase(100 + self.index());
      const snapshot now(this->time);
      ASSERT_EQ(sum_of_all(cellar, now) + sum_of_all(shop, now),
                static_cast<std::int64_t>(2 * keys) * each);
      ASSERT_EQ(sum_of_each(cellar, now) + sum_of_each(shop, now),
                static_cast<std::int64_t>(2 * keys) * each);
    }
  });
  expect_sound(cellar);
  expect_sound(shop);
}

/// A clock at which a thread may stop: after a version is in its place and before it has a stamp,
/// and between a reader's finding of such a version and its question what that shows.
class stopping_clock : public logical_clock {
 public:
  static inline thread_local std::function<void()> at_look;
  [[nodiscard]] std::uint64_t now() const noexcept {
    if (at_look) at_look();
    return logical_clock::now();
  }
};
using stopping = sl_rt<region_domain, basic_timeline<stopping_clock>>;

/// Commits, and lets another thread read when the commit looks at the clock for the `at`-th time.
/// The reader stops at its own `stop`-th look until the commit has ended. False: no look was the
/// `at`-th.
bool read_in_the_midst(changes& some, unsigned at, unsigned stop,
                       const std::function<void()>& read) {
  std::atomic<bool> stopped{false};
  std::atomic<bool> committed{false};
  const auto go_on = [&] {
    stopped.store(true);
    stopped.notify_one();
  };
  std::thread reader;
  unsigned looks = 0;
  stopping_clock::at_look = [&] {
    if (looks++ != at) return;
    reader = std::thread([&] {
      unsigned mine = 0;
      stopping_clock::at_look = [&] {
        if (mine++ != stop) return;
        go_on();
        committed.wait(false);
      };
      read();
      go_on();
    });
    stopped.wait(false);
  };
  some.commit();
  stopping_clock::at_look = nullptr;
  committed.store(true);
  committed.notify_one();
  if (!reader.joinable()) return false;
  reader.join();
  return true;
}

/// A batch that changes one key twice: no read of what is current shows what its first change
/// leaves, and no update answers by that.
template <class Map>
class midst_of_a_batch : public testing::Test {
 protected:
  static constexpr int assigned = 1;  // is `never` in between
  static constexpr int replaced = 2;  // is not there in between
  static constexpr int passing = 3;   // is there in between only
  static constexpr int never = -1;

  struct world {
    world() {
      map.insert(assigned, 0);
      map.insert(replaced, 0);
    }
    typename Map::collector_type::timeline_type time{};
    Map map{time, options_for<Map>(1, 100)};
  };
  static void name_twice(changes& some, Map& map, int key, int n) {
    if (key == assigned) some.insert_or_assign(map, key, never);
    if (key == replaced) some.erase(map, key);
    if (key == passing) {
      some.insert(map, key, never);
      some.erase(map, key);
    } else {
      some.insert_or_assign(map, key, n);
    }
  }
  using read = std::function<void(Map&)>;
  static std::vector<read> reads() {
    std::vector<read> all;
    all.emplace_back([](Map& map) { EXPECT_GE(map.find(assigned).value_or(never), 0); });
    all.emplace_back([](Map& map) { EXPECT_GE(map.find(replaced).value_or(never), 0); });
    all.emplace_back([](Map& map) { EXPECT_EQ(map.find(passing), std::nullopt); });
    all.emplace_back([](Map& map) { EXPECT_TRUE(map.contains(replaced)); });
    all.emplace_back([](Map& map) { EXPECT_FALSE(map.contains(passing)); });
    all.emplace_back(
        [](Map& map) { EXPECT_TRUE(map.visit(assigned, [](int n) { EXPECT_NE(n, never); })); });
    if constexpr (is_hash<Map>) {
      all.emplace_back([](Map& map) {
        int key = 0;
        map.visit_all(std::vector<int>{assigned, replaced, passing}, [&](const int* n) {
          EXPECT_EQ(n != nullptr, ++key < passing);
          if (n != nullptr) {
            EXPECT_NE(*n, never);
          }
        });
      });
    }
    return all;
  }
};
using kinds_of_maps = testing::Types<snapshot_hash<int, int>, snapshot_tree<int, int>>;
TYPED_TEST_SUITE(midst_of_a_batch, kinds_of_maps);

TYPED_TEST(midst_of_a_batch, is_not_shown_to_threads_that_go_on) {
  typename TestFixture::world w;
  const auto reads = this->reads();
  run_stress({.threads = 4, .share = 0.5}, [&](stress_thread& self) {
    for (int n = 1; self.running() && !this->HasFailure(); ++n) {
      if (self.index() != 0) {
        for (const auto& one : reads) one(w.map);
      } else {
        changes some;
        this->name_twice(some, w.map, 1 + static_cast<int>(self.random().below(3)), n);
        some.commit();
      }
    }
  });
  expect_sound(w.map);
}

template <class Map>
using midst_at_each_look = midst_of_a_batch<Map>;
using maps_that_stop =
    testing::Types<snapshot_hash<int, int, stopping>, snapshot_tree<int, int, stopping>>;
TYPED_TEST_SUITE(midst_at_each_look, maps_that_stop);

TYPED_TEST(midst_at_each_look, is_not_shown_to_a_thread_that_stops) {
  auto reads = this->reads();
  // Updates answer by what they find, too.
  reads.emplace_back([](TypeParam& map) { EXPECT_TRUE(map.erase(2)); });
  reads.emplace_back([](TypeParam& map) { EXPECT_TRUE(map.insert(3, 0)); });
  unsigned met = 0;
  for (int key = 1; key <= 3; ++key) {
    for (std::size_t r = 0; r < reads.size(); ++r) {
      for (unsigned stop = 0; stop < 3; ++stop) {
        bool looks = true;
        for (unsigned at = 0; looks && !this->HasFailure(); ++at) {
          typename TestFixture::world w;
          changes some;
          this->name_twice(some, w.map, key, 1);
          SCOPED_TRACE("key " + std::to_string(key) + ", read " + std::to_string(r) + " at look " +
                       std::to_string(at));
          looks = read_in_the_midst(some, at, stop, [&] { reads[r](w.map); });
          met += looks ? 1U : 0U;
        }
      }
    }
  }
  if (!this->HasFailure()) {
    EXPECT_GT(met, 100U);
  }
}

/// Compares, and at some moment lets another thread do something.
struct interrupted {
  bool operator()(int a, int b) const {
    if (comings != nullptr && *comings) std::exchange(*comings, nullptr)();
    return a < b;
  }
  std::function<void()>* comings = nullptr;
};

/// Two batches move a key to where it is not from where it is not either, one in the midst of the
/// other. Each relies on what it has found.
TEST(batches_in_each_other, are_one_after_the_other) {
  timeline time;
  std::function<void()> comings;
  snapshot_tree<int, int> from(time);
  snapshot_tree<int, int, sl_rt<>, interrupted> to(time, {}, interrupted{&comings});
  to.insert(1, 1);  // to be compared with
  const auto move = [](auto& out, auto& in) {
    changes all;
    all.erase(out, 7);
    all.insert_or_assign(in, 7, 7);
    all.commit();
  };
  comings = [&] { move(to, from); };
  move(from, to);
  EXPECT_FALSE(comings);
  EXPECT_FALSE(from.contains(7));
  EXPECT_TRUE(to.contains(7));
  expect_sound(from);
}

TEST(batches_errors, leave_nothing_behind) {
  timeline time;
  snapshot_hash<std::string, std::string> one(time);
  snapshot_tree<int, int> two(time);
  one.insert("a", "old");
  const std::uint64_t failures = for_each_allocation_failure([&] {
    changes all;
    try {
      all.insert_or_assign(one, "a", "a value that is too long to lie in the string itself");
      all.insert(two, 1, 1);
      all.erase(one, "b");
      all.insert(two, 2, 2);
      all.commit();
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(one.find("a"), "old");
      EXPECT_FALSE(two.contains(1));
      EXPECT_EQ(two.audit().wrong, "");
      const snapshot now(time);
      EXPECT_EQ(one.size(now), 1U);
      EXPECT_EQ(two.size(now), 0U);
      throw;
    }
  });
  EXPECT_GE(failures, 10U);
  EXPECT_EQ(two.find(1), 1);
  expect_sound(two);
}

TEST(batches_errors, maps_of_two_timelines_are_refused) {
  timeline time;
  timeline other;
  snapshot_hash<int, int> one(time);
  snapshot_tree<int, int> two(other);
  changes all;
  all.insert(one, 1, 1);
  EXPECT_THROW(all.insert(two, 1, 1), std::invalid_argument);
  EXPECT_THROW(all.erase(two, 1), std::invalid_argument);
  EXPECT_EQ(all.size(), 1U);
  all.clear();
  all.insert(two, 1, 1);
  all.commit();
  EXPECT_TRUE(two.contains(1));
  EXPECT_FALSE(one.contains(1));
}

/// The clock of a processor that is ahead of others by as much as one sets, below its bound.
class skewed_clock {
 public:
  static constexpr bool advances_alone = true;
  static inline std::uint64_t ahead = 0;

  [[nodiscard]] std::uint64_t now() const noexcept { return ++count_ + ahead; }
  std::uint64_t tick() noexcept { return later_than(now()); }
  void pass(std::uint64_t t) noexcept { later_than(t); }
  [[nodiscard]] static std::uint64_t bound() noexcept { return 1000; }
  [[nodiscard]] static bool after(std::uint64_t x, std::uint64_t y) noexcept {
    return x > y + bound();
  }
  [[nodiscard]] static time_order compare(std::uint64_t x, std::uint64_t y) noexcept {
    if (after(y, x)) return time_order::less;
    return after(x, y) ? time_order::greater : time_order::uncertain;
  }

 private:
  std::uint64_t later_than(std::uint64_t t) noexcept {
    std::uint64_t read = now();
    while (!after(read, t)) read = now();
    return read;
  }
  mutable std::uint64_t count_ = 2000;
};
using skewed = sl_rt<region_domain, basic_timeline<skewed_clock>>;

/// Compares keys, and goes on on another processor.
struct moves_on {
  std::uint64_t ahead = 0;
  bool operator()(int a, int b) const noexcept {
    skewed_clock::ahead = ahead;
    return a == b;
  }
};
struct same_bucket {
  std::size_t operator()(int) const noexcept { return 0; }
};

TEST(batches_by_skewed_clocks, later_changes_have_later_stamps) {
  basic_timeline<skewed_clock> time;
  using map = snapshot_hash<int, int, skewed, same_bucket>;
  map one(time);
  map two(time);
  skewed_clock::ahead = 600;
  changes both;
  both.insert(one, 0, 2);
  both.insert(two, 0, 2);
  both.commit();
  skewed_clock::ahead = 0;
  one.insert(1, 1);  // after the batch, by a thread whose clock is slow
  skewed_clock::ahead = 300;
  const snapshot now(time);
  EXPECT_EQ(one.contains(now, 0), two.contains(now, 0));
  skewed_clock::ahead = 0;
}

TEST(batches_by_skewed_clocks, a_batch_has_a_later_stamp_than_its_versions) {
  basic_timeline<skewed_clock> time;
  using map = snapshot_hash<int, int, skewed, same_bucket, moves_on>;
  map one(time, {}, {}, moves_on{600});
  map two(time, {}, {}, moves_on{0});
  one.insert(5, 5);  // so that there is something to compare with
  two.insert(5, 5);
  changes both;
  both.insert(one, 0, 2);
  both.insert(two, 0, 2);
  both.commit();  // ends on the processor whose counter is slow
  skewed_clock::ahead = 100;
  const snapshot now(time);
  EXPECT_EQ(one.find(now, 0) != nullptr, two.find(now, 0) != nullptr);
  skewed_clock::ahead = 0;
}

}  // namespace
