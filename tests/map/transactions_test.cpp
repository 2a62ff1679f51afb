// SPDX-License-Identifier: Apache-2.0
// Batches with conditions, and transactions over several maps.
#include <spolia/map/transact.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/snapshot.hpp>

#include "support/faults.hpp"
#include "support/isolation.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using outcome = commit_result::outcome;

using numbers = snapshot_hash<int, long>;
using numbers_tree = snapshot_tree<int, long>;
using words = snapshot_hash<int, std::string>;
using words_tree = snapshot_tree<int, std::string>;

const std::string long_text = "a value that is too long to lie in the string itself";

template <class Map>
void expect_sound_tree(const Map& m) {
  const auto found = m.audit();
  EXPECT_EQ(found.wrong, "");
  EXPECT_EQ(found.vacant, 0U);
  EXPECT_EQ(found.pairs, m.size_approx());
}

/// What is named, then what happens, then the commit; with a change of `log` each time.
template <class Map>
class conditions_of_one_key : public testing::Test {
 protected:
  using names = std::function<void(changes&)>;
  outcome after(const names& named, const std::function<void()>& happens) {
    changes all;
    named(all);
    all.insert(log, ++count, long_text);
    happens();
    const commit_result result = all.commit();
    EXPECT_EQ(log.contains(count), static_cast<bool>(result));
    EXPECT_EQ(all.size() + all.conditions(), 0U);
    EXPECT_EQ(result.condition, 0U);
    return result.is;
  }
  void SetUp() override {
    for (int k = 0; k < 100; ++k) {
      if (k % 10 != 5) under_test.insert(k, typename Map::mapped_type());
    }
  }
  static typename Map::mapped_type value(int i) {
    if constexpr (std::is_same_v<typename Map::mapped_type, std::string>) {
      return long_text + std::to_string(i);
    } else {
      return i;
    }
  }
  Map under_test;
  words log;
  int count = 0;
};
using maps_of_conditions = testing::Types<words, numbers_tree>;
TYPED_TEST_SUITE(conditions_of_one_key, maps_of_conditions);

TYPED_TEST(conditions_of_one_key, hold_or_do_not) {
  auto& map = this->under_test;
  const auto nothing = [] {};
  const auto beside = [&] { map.insert_or_assign(14, this->value(9)); };
  const auto assign = [&] { map.insert_or_assign(13, this->value(8)); };
  const auto insert = [&] { map.insert(15, this->value(8)); };

  const auto read = [&](changes& all) { EXPECT_NE(all.find(map, 13), nullptr); };
  EXPECT_EQ(this->after(read, nothing), outcome::done);
  EXPECT_EQ(this->after(read, beside), outcome::done);
  EXPECT_EQ(this->after(read, assign), outcome::outdated);
  EXPECT_EQ(this->after(read, [&] { map.erase(13); }), outcome::outdated);
  assign();
  const auto missed = [&](changes& all) { EXPECT_FALSE(all.contains(map, 15)); };
  EXPECT_EQ(this->after(missed, beside), outcome::done);
  EXPECT_EQ(this->after(missed, insert), outcome::outdated);
  map.erase(15);

  const auto equal = [&](changes& all) { all.expect(map, 13, this->value(8)); };
  EXPECT_EQ(this->after(equal, assign), outcome::done);  // an equal value
  EXPECT_EQ(this->after(equal, [&] { map.insert_or_assign(13, this->value(7)); }),
            outcome::refused);
  const auto there = [&](changes& all) { all.expect_there(map, 13); };
  EXPECT_EQ(this->after(there, assign), outcome::done);
  EXPECT_EQ(this->after(there, [&] { map.erase(13); }), outcome::refused);
  EXPECT_EQ(this->after(equal, nothing), outcome::refused);
  const auto absent = [&](changes& all) { all.expect_absent(map, 15); };
  EXPECT_EQ(this->after(absent, beside), outcome::done);
  EXPECT_EQ(this->after(absent, insert), outcome::refused);
}

TYPED_TEST(conditions_of_one_key, are_of_what_was_there_before_the_batch) {
  auto& map = this->under_test;
  changes all;
  all.insert_or_assign(map, 13, this->value(1));
  all.expect(map, 13, this->value(1));
  commit_result result = all.commit();
  EXPECT_EQ(result.is, outcome::refused);
  EXPECT_EQ(map.find(13), typename TypeParam::mapped_type());
  // Twice, and beside changes of the same key, in any order.
  all.expect_absent(map, 15);
  all.insert(map, 15, this->value(1));
  all.expect_absent(map, 15);
  all.insert_or_assign(map, 15, this->value(2));
  all.expect_there(map, 13);
  EXPECT_TRUE(all.commit());
  EXPECT_EQ(map.find(15), this->value(2));
  // Which one fails.
  EXPECT_NE(all.find(map, 13), nullptr);
  EXPECT_EQ(all.find(map, 25), nullptr);
  all.expect_there(map, 25);
  all.expect_there(map, 35);
  all.erase(map, 13);
  result = all.commit();
  EXPECT_EQ(result.is, outcome::refused);
  EXPECT_EQ(result.condition, 2U);
  EXPECT_TRUE(map.contains(13));
  // Without a change.
  all.expect_there(map, 25);
  EXPECT_FALSE(all.commit());
  all.expect_absent(map, 25);
  EXPECT_TRUE(all.commit());
}

/// A read sees what the changes named before it leave, and relies only on what they go by.
TYPED_TEST(conditions_of_one_key, reads_see_changes_of_their_own_batch) {
  auto& map = this->under_test;
  const auto value = [](int i) { return TestFixture::value(i); };
  changes all;
  const auto reads = [&](int key) {
    const auto* const found = all.find(map, key);
    EXPECT_EQ(found != nullptr, all.contains(map, key));
    return found == nullptr ? std::nullopt : std::optional(*found);
  };
  all.insert_or_assign(map, 13, value(1));
  all.insert(map, 13, value(2));
  EXPECT_EQ(reads(13), value(1));
  all.erase(map, 13);
  EXPECT_EQ(reads(13), std::nullopt);
  all.insert(map, 13, value(3));
  all.insert(map, 13, value(4));
  EXPECT_EQ(reads(13), value(3));
  EXPECT_EQ(reads(14), typename TypeParam::mapped_type());
  EXPECT_EQ(all.conditions(), 2U);  // of 14 only
  all.insert(map, 15, value(5));
  EXPECT_EQ(reads(15), value(5));
  EXPECT_EQ(all.conditions(), 4U);  // it is to be absent
  TypeParam other;
  all.insert(other, 16, value(6));
  EXPECT_EQ(reads(16), typename TypeParam::mapped_type());
  map.insert_or_assign(13, value(9));
  EXPECT_TRUE(all.commit());
  EXPECT_EQ(map.find(13), value(3));

  all.insert(map, 25, value(5));
  EXPECT_EQ(reads(25), value(5));
  map.insert(25, value(6));
  EXPECT_EQ(all.commit().is, outcome::outdated);
}

using ages = numbers_tree;

/// Of 200 keys, every third; with the range named by `named`.
outcome after_a_look(const std::function<void(changes&, ages&)>& named,
                     const std::function<void(ages&)>& happens) {
  ages map;
  for (int k = 0; k < 600; k += 3) map.insert(k, k);
  changes all;
  named(all, map);
  all.insert_or_assign(map, -1, 0);
  happens(map);
  const commit_result result = all.commit();
  EXPECT_EQ(map.contains(-1), static_cast<bool>(result));
  expect_sound_tree(map);
  return result.is;
}

TEST(conditions_of_ranges, see_what_comes_and_goes_in_them_only) {
  const auto middle = [](changes& all, ages& map) {
    int next = 150;
    for (const auto& [key, value] : all.range(map, 150, 451)) {
      EXPECT_EQ(key, std::exchange(next, next + 3));
    }
    EXPECT_EQ(next, 453);
  };
  using what = std::function<void(ages&)>;
  const auto inserts = [](int k) -> what { return [k](ages& map) { map.insert(k, 0); }; };
  const auto erases = [](int k) -> what { return [k](ages& map) { map.erase(k); }; };
  const auto assigns = [](int k) -> what { return [k](ages& map) { map.insert_or_assign(k, 1); }; };
  for (const int inside : {150, 300, 450}) {
    EXPECT_EQ(after_a_look(middle, erases(inside)), outcome::outdated) << inside;
    EXPECT_EQ(after_a_look(middle, assigns(inside)), outcome::outdated) << inside;
  }
  for (const int inside : {151, 299, 449}) {
    EXPECT_EQ(after_a_look(middle, inserts(inside)), outcome::outdated) << inside;
  }
  for (const int outside : {147, 148, 149, 451, 452, 453}) {
    EXPECT_EQ(after_a_look(middle, inserts(outside)), outcome::done) << outside;
    EXPECT_EQ(after_a_look(middle, erases(outside)), outcome::done) << outside;
  }
  // One goes and one comes: as many as before.
  EXPECT_EQ(after_a_look(middle,
                         [](ages& map) {
                           map.erase(300);
                           map.insert(301, 300);
                         }),
            outcome::outdated);
  // All go, and the leaves with them; and all come again.
  const auto all_go = [](ages& map) {
    for (int k = 0; k < 600; k += 3) map.erase(k);
  };
  EXPECT_EQ(after_a_look(middle, all_go), outcome::outdated);
  EXPECT_EQ(after_a_look(middle,
                         [&](ages& map) {
                           all_go(map);
                           for (int k = 0; k < 600; k += 3) map.insert(k, k);
                         }),
            outcome::done);
}

TEST(conditions_of_ranges, have_any_ends) {
  const auto looks = [](const auto& lo, const auto& hi) {
    return [lo, hi](changes& all, ages& map) { all.range(map, lo, hi); };
  };
  const int two = 300;
  const int six = 306;
  const auto erases = [](int k) { return [k](ages& map) { map.erase(k); }; };
  EXPECT_EQ(after_a_look(looks(after(two), six), erases(300)), outcome::done);
  EXPECT_EQ(after_a_look(looks(after(two), six), erases(303)), outcome::outdated);
  EXPECT_EQ(after_a_look(looks(after(two), six), erases(306)), outcome::done);
  EXPECT_EQ(after_a_look(looks(two, upto(six)), erases(306)), outcome::outdated);
  EXPECT_EQ(after_a_look(looks(two, upto(six)), erases(309)), outcome::done);
  EXPECT_EQ(after_a_look(looks(no_limit, no_limit), erases(0)), outcome::outdated);
  EXPECT_EQ(after_a_look(looks(no_limit, six), erases(597)), outcome::done);
  EXPECT_EQ(after_a_look(looks(six, two), erases(303)), outcome::done);  // nothing is in it
  EXPECT_EQ(after_a_look(looks(601, 700), erases(597)), outcome::done);
  EXPECT_EQ(after_a_look(looks(601, 700), [](ages& map) { map.insert(699, 0); }),
            outcome::outdated);
  const auto fills = [](ages& map) {  // more leaves than one
    for (int k = 601; k < 700; ++k) map.insert(k, 0);
  };
  EXPECT_EQ(after_a_look(looks(601, 700), fills), outcome::outdated);
}

TEST(conditions_of_ranges, go_with_changes_within_them) {
  words_tree map;
  for (int k = 0; k < 300; ++k) map.insert(10 * k, long_text);
  changes all;
  all.range(map, 500, 2500);
  for (int k = 60; k < 240; ++k) all.erase(map, 10 * k);
  for (int k = 1; k < 50; ++k) all.insert(map, 1000 + 10 * k + 1, "new");
  EXPECT_TRUE(all.commit());
  EXPECT_EQ(map.size_approx(), 169U);
  all.range(map, 500, 2500);
  all.erase(map, 500);
  map.insert_or_assign(1011, "newer");
  EXPECT_EQ(all.commit().is, outcome::outdated);
  EXPECT_EQ(map.size_approx(), 169U);
  expect_sound_tree(map);
}

TEST(conditions_of_ranges, are_refused_behind_changes_within_them) {
  words_tree map;
  words_tree other;
  changes all;
  all.insert(map, 5, long_text);
  all.insert(other, 15, long_text);
  EXPECT_THROW(all.range(map, 5, 6), std::logic_error);
  EXPECT_THROW(all.range(map, no_limit, upto(5)), std::logic_error);
  all.range(map, 0, 5);
  all.range(map, after(5), 20);
  EXPECT_EQ(all.conditions(), 2U);
  EXPECT_TRUE(all.commit());
}

TEST(transactions, run_again_until_nothing_came_between) {
  numbers one;
  numbers_tree two;
  one.insert(1, 10);
  int runs = 0;
  const commit_result result = transact([&](changes& all) {
    const long had = *all.find(one, 1);
    if (++runs < 4) one.update(1, [](long& n) { ++n; });  // comes between
    all.insert_or_assign(two, 1, had);
    return true;
  });
  EXPECT_TRUE(result);
  EXPECT_EQ(result.retries, 3U);
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(two.find(1), 13);
}

TEST(transactions, say_why_they_have_not_taken_effect) {
  numbers one;
  one.insert(1, 10);
  int runs = 0;
  const auto disturbed = [&](changes& all) {
    all.find(one, 1);
    all.erase(one, 1);
    one.insert_or_assign(1, ++runs);
  };
  commit_result result = transact(disturbed, 5);
  EXPECT_EQ(result.is, outcome::outdated);
  EXPECT_EQ(result.retries, 5U);
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(transact(disturbed).retries, usual_retries);
  result = transact([&](changes& all) {
    all.erase(one, 1);
    return false;
  });
  EXPECT_EQ(result.is, outcome::declined);
  runs = 0;
  result = transact([&](changes& all) {
    ++runs;
    all.expect(one, 1, -7);
    all.erase(one, 1);
  });
  EXPECT_EQ(result.is, outcome::refused);  // at once
  EXPECT_EQ(runs, 1);
  EXPECT_THROW(transact([&](changes& all) {
                 all.erase(one, 1);
                 throw std::runtime_error("no");
               }),
               std::runtime_error);
  EXPECT_TRUE(one.contains(1));
}

/// It has forgotten what it was to do, so to commit it once more would be `done` with nothing made.
TEST(transactions, one_that_was_not_done_is_not_committed_again) {
  snapshot_hash<int, int> m;
  m.insert(1, 10);
  changes all;
  const auto name = [&](int key) {
    all.expect_absent(m, key);
    all.insert(m, key, 20);
  };
  name(1);
  EXPECT_EQ(all.commit().is, commit_result::outcome::refused);
  EXPECT_THROW(all.commit(), std::logic_error);
  EXPECT_THROW(all.commit(), std::logic_error) << "not only once";
  name(2);
  EXPECT_TRUE(all.commit());
  EXPECT_EQ(m.find(2), 20);
  EXPECT_TRUE(all.commit()) << "nothing to be made";
  name(1);
  EXPECT_FALSE(all.commit());
  all.clear();
  EXPECT_TRUE(all.commit());
  EXPECT_EQ(m.find(1), 10);
}

/// The second run of the function finds that there is nothing to do.
TEST(transactions, a_function_may_name_nothing_when_it_runs_again) {
  snapshot_hash<int, int> m;
  m.insert(1, 10);
  int runs = 0;
  const commit_result result = transact([&](changes& all) {
    if (runs++ > 0) return true;
    all.insert_or_assign(m, 1, *all.find(m, 1) + 1);
    m.insert_or_assign(1, 5);  // what was read is out of date
    return true;
  });
  EXPECT_TRUE(result);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(m.find(1), 5);
}

TEST(transactions, maps_of_two_timelines_are_refused) {
  timeline time;
  timeline other;
  numbers one(time);
  numbers_tree two(other);
  changes all;
  EXPECT_EQ(all.find(one, 1), nullptr);
  EXPECT_THROW(all.find(two, 1), std::invalid_argument);
  EXPECT_THROW(all.range(two, 1, 2), std::invalid_argument);
  EXPECT_THROW(all.expect_absent(two, 1), std::invalid_argument);
  EXPECT_THROW(all.insert(two, 1, 1), std::invalid_argument);
  all.insert(one, 1, 1);
  EXPECT_TRUE(all.commit());
  EXPECT_EQ(all.find(two, 1), nullptr);  // it is empty
  all.insert(two, 1, 1);
  EXPECT_TRUE(all.commit());
}

TEST(transactions, lose_nothing_without_memory) {
  timeline time;
  words one(time);
  numbers_tree two(time);
  one.insert(1, "old");
  for (int k = 10; k < 100; ++k) two.insert(k, k);
  const std::uint64_t failures = for_each_allocation_failure([&] {
    try {
      const commit_result result = transact([&](changes& all) {
        EXPECT_NE(all.find(one, 1), nullptr);
        all.range(two, 20, 80);
        all.expect_absent(one, 2);
        all.insert_or_assign(one, 2, long_text);
        all.insert(two, 1, 1);
        all.erase(two, 50);
      });
      EXPECT_TRUE(result);
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(one.size_approx(), 1U);
      EXPECT_TRUE(two.contains(50));
      EXPECT_FALSE(two.contains(1));
      EXPECT_EQ(two.size(snapshot(time)), 90U);
      throw;
    }
  });
  EXPECT_GE(failures, 20U);
  EXPECT_EQ(one.find(2), long_text);
  EXPECT_FALSE(two.contains(50));
  expect_sound_tree(two);
}

TEST(transactions, leave_no_memory_behind) {
  words one;
  words_tree two;
  const auto rounds = [&](int n) {
    for (int i = 0; i < n; ++i) {
      changes all;
      all.find(one, i % 8);
      all.range(two, 0, 8);
      if (i % 4 == 0) one.insert_or_assign(i % 8, long_text);
      if (i % 4 == 1) two.insert_or_assign(i % 7, long_text);
      if (i % 4 == 2) all.erase(two, i % 7);
      all.insert_or_assign(one, 100 + i % 3, long_text);
      EXPECT_EQ(static_cast<bool>(all.commit()), i % 4 > 1);
    }
    for (int i = 0; i < 3; ++i) {
      one.collect();
      two.collect();
      one.domain().drain();
      two.domain().drain();
    }
    return live_allocations();
  };
  const std::int64_t few = rounds(300);
  EXPECT_LE(rounds(3000), few + 200);
}

/// Compares, and at some moment lets something else happen: `what`, or now and then other threads.
struct breaks_off {
  bool operator()(int a, int b) const {
    static thread_local unsigned compared = 0;
    if (what == nullptr) {
      if (++compared % 32 == 0) std::this_thread::yield();
    } else if (*what) {
      std::exchange(*what, nullptr)();
    }
    return a < b;
  }
  std::function<void()>* what = nullptr;
};
using stopping_tree = snapshot_tree<int, long, sl_rt<>, breaks_off>;

/// A batch that has stopped in the midst of its commit, at its second condition, keeps nothing
/// else from going on.
class stopped_batch : public testing::Test {
 protected:
  stopped_batch() {
    map.insert(0, 1);
    for (int k = 0; k < 8; ++k) last.insert(k, 0);
    for (int k = 0; k < 400; k += 2) ranged.insert(k, 0);
  }
  commit_result commit_while(std::function<void()> happens) {
    changes all;
    all.expect(map, 0, 1);
    all.range(ranged, 100, 300);
    all.expect_there(last, 5);
    all.insert(log, 0, 0);
    what = [&, happens = std::move(happens)] {
      ++met;
      happens();
    };
    const commit_result result = all.commit();
    EXPECT_EQ(met, 1U);
    EXPECT_EQ(log.contains(0), static_cast<bool>(result));
    return result;
  }
  std::function<void()> what;
  unsigned met = 0;
  numbers map;
  numbers log;
  numbers other_log;
  numbers_tree ranged;
  stopping_tree last{typename stopping_tree::options(), breaks_off{&what}};
};

TEST_F(stopped_batch, is_undone_by_an_update_of_what_it_relies_on) {
  const commit_result result = commit_while([&] {
    EXPECT_FALSE(log.contains(0));
    EXPECT_FALSE(log.contains(snapshot(), 0));
    map.insert_or_assign(0, 7);
    EXPECT_EQ(map.find(0), 7);
  });
  EXPECT_EQ(result.is, outcome::refused);
  EXPECT_EQ(result.condition, 0U);
  EXPECT_EQ(result.retries, 1U);
}

TEST_F(stopped_batch, is_undone_by_what_comes_into_its_range) {
  const commit_result result = commit_while([&] { EXPECT_TRUE(ranged.insert(201, 0)); });
  EXPECT_EQ(result.is, outcome::outdated);
  EXPECT_EQ(result.condition, 1U);
}

TEST_F(stopped_batch, goes_on_beside_what_comes_outside_of_its_range) {
  EXPECT_TRUE(commit_while([&] { EXPECT_TRUE(ranged.insert(399, 0)); }));
}

/// Of those that rely on one place none is forgotten.
TEST_F(stopped_batch, is_undone_when_others_have_relied_on_the_same_since) {
  const commit_result result = commit_while([&] {
    changes other;
    other.expect(map, 0, 1);
    other.range(ranged, 0, 400);
    other.insert(other_log, 0, 0);
    EXPECT_TRUE(other.commit());
    map.insert_or_assign(0, 7);
  });
  EXPECT_EQ(result.is, outcome::refused);
  EXPECT_EQ(result.condition, 0U);
}

TEST_F(stopped_batch, and_another_are_undone_by_one_update_of_what_both_rely_on) {
  const commit_result first = commit_while([&] {
    changes other;
    other.expect(map, 0, 1);
    other.expect_there(last, 5);
    other.insert(other_log, 0, 0);
    what = [&] { map.insert_or_assign(0, 7); };
    const commit_result second = other.commit();
    EXPECT_EQ(second.is, outcome::refused);
    EXPECT_EQ(second.retries, 1U);
    EXPECT_FALSE(other_log.contains(0));
  });
  EXPECT_EQ(first.is, outcome::refused);
  EXPECT_EQ(first.retries, 1U);
}

/// The first run is undone once, and then out of date; the second has one retry left.
TEST_F(stopped_batch, within_a_transaction_uses_up_the_budget_of_all_runs) {
  int runs = 0;
  std::function<void()> disturb = [&] {
    map.insert_or_assign(0, 1);
    other_log.insert(1, 0);
    what = disturb;
  };
  const commit_result result = transact(
      [&](changes& all) {
        ++runs;
        all.expect(map, 0, 1);
        all.find(other_log, 1);
        all.expect_there(last, 5);
        all.insert(log, 0, 0);
        what = disturb;
      },
      3);
  what = nullptr;
  EXPECT_EQ(result.is, outcome::disturbed);
  EXPECT_EQ(result.retries, 3U);
  EXPECT_EQ(runs, 2);
}

/// Compares, and once lets something else happen before.
struct comes_between {
  bool operator==(const comes_between& other) const {
    if (*what) std::exchange(*what, nullptr)();
    return number == other.number;
  }
  long number;
  std::function<void()>* what;
};

/// Neither marks of several batches nor blocks for which another thread came first stay.
TEST_F(stopped_batch, leaves_no_memory_behind) {
  snapshot_hash<int, comes_between> compared;
  const comes_between one{1, &what};
  compared.insert(0, one);
  const auto rounds = [&](int n) {
    for (int i = 0; i < n; ++i) {
      changes all;
      all.expect(map, 0, 1);
      all.expect_there(last, 5);
      all.insert(log, 0, 0);
      what = [&] {
        changes other;
        other.expect(map, 0, 1);
        other.insert_or_assign(other_log, 0, 0);
        EXPECT_TRUE(other.commit());
        map.insert_or_assign(0, 1);
      };
      EXPECT_EQ(all.commit().retries, 1U);
      all.expect(compared, 0, one);
      what = [&] { compared.insert_or_assign(0, one); };
      EXPECT_TRUE(all.commit());
    }
    const auto settle = [](auto&... maps) {
      for (int i = 0; i < 3; ++i) ((maps.collect(), maps.domain().drain()), ...);
    };
    settle(map, last, log, other_log, compared);
    return live_allocations();
  };
  const std::int64_t few = rounds(100);
  EXPECT_LE(rounds(600), few + 200);
}

TEST_F(stopped_batch, goes_on_beside_others_that_rely_on_the_same) {
  const commit_result result = commit_while([&] {
    for (int i = 0; i < 100; ++i) {
      changes other;
      other.expect(map, 0, 1);
      other.range(ranged, 0, 400);
      other.insert(other_log, i, 0);
      EXPECT_EQ(other.commit().retries, 0U);
    }
  });
  EXPECT_TRUE(result);
  EXPECT_EQ(result.retries, 0U);
}

TEST_F(stopped_batch, is_before_or_after_another_that_crosses_it) {
  const commit_result result = commit_while([&] {
    changes other;
    other.expect_absent(log, 0);
    other.insert_or_assign(map, 0, 2);
    EXPECT_TRUE(other.commit());
  });
  EXPECT_EQ(result.is, outcome::refused);
}

TEST_F(stopped_batch, holds_no_snapshot) {
  changes all;
  all.find(map, 0);
  EXPECT_EQ(std::string(map.account().snapshots.at(0).label), "changes");
  all.clear();
  EXPECT_TRUE(map.account().snapshots.empty());
  commit_while([&] { EXPECT_TRUE(map.account().snapshots.empty()); });
}

// Histories of threads.

/// Two maps of versions: keys of the tree come into ranges, once each, and others change in both.
class history_of_maps {
 public:
  static constexpr int changing = 4;  // keys in each map
  static constexpr int first_coming = 1000;

  history_of_maps() {
    for (int k = 0; k < changing; ++k) {
      one_.insert(k, 0);
      two_.insert(k, 0);
    }
  }
  void run(stress_thread& self) {
    auto& mine = logs_[self.index()];
    while (self.running() && mine.size() < 1500) {
      transaction_log log;
      const long made = (self.index() + 1L) * 1'000'000 + static_cast<long>(mine.size()) + 1;
      const std::uint64_t kind = self.random().below(4);
      const auto result = transact([&](changes& all) {
        log = {.thread = self.index()};
        if (kind == 0) return comes_into_a_range(all, self.random(), made, log);
        if (kind == 1) {
          reads_all(all, log);
        } else {
          changes_some(all, self.random(), made, kind == 2, log);
        }
        return true;
      });
      ASSERT_NE(result.is, commit_result::outcome::refused);
      if (result) mine.push_back(std::move(log));
    }
  }
  [[nodiscard]] std::vector<transaction_log> all() const {
    std::vector<transaction_log> some;
    for (const auto& one : logs_) some.insert(some.end(), one.begin(), one.end());
    return some;
  }
  [[nodiscard]] std::string tree_is_wrong() const { return two_.audit().wrong; }

 private:
  static std::uint64_t number(long n) { return static_cast<std::uint64_t>(n); }
  static int below(rng& random, int n) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
  }
  template <class Map>
  static long read(changes& all, Map& map, int key, int name, transaction_log& log) {
    const long* const found = all.find(map, key);
    const long version = found == nullptr ? 0 : *found;
    log.reads.push_back({number(name), number(version)});
    return version;
  }
  /// Of one snapshot.
  void reads_all(changes& all, transaction_log& log) {
    for (int k = 0; k < changing; ++k) {
      read(all, one_, k, k, log);
      read(all, two_, k, 100 + k, log);
    }
  }
  /// Reads two and changes one of these.
  void changes_some(changes& all, rng& random, long made, bool crossed, transaction_log& log) {
    const int a = below(random, changing);
    const int b = below(random, changing);
    const long in_one = read(all, one_, a, a, log);
    const long in_two = read(all, two_, b, 100 + b, log);
    if (crossed) {
      all.insert_or_assign(two_, b, made);
      log.writes.push_back({number(100 + b), number(in_two), number(made)});
    } else {
      all.insert_or_assign(one_, a, made);
      log.writes.push_back({number(a), number(in_one), number(made)});
    }
  }
  /// Looks through one of two ranges, and puts into the other what is not there.
  bool comes_into_a_range(changes& all, rng& random, long made, transaction_log& log) {
    const int block = first_coming + below(random, 40) * 8;
    const int side = below(random, 2) * 4;
    int next = block + side;
    const int end = next + 4;
    for (const auto& [key, version] : all.range(two_, next, end)) {
      for (; next < key; ++next) log.reads.push_back({number(next), 0});
      log.reads.push_back({number(next++), number(version)});
    }
    for (; next < end; ++next) log.reads.push_back({number(next), 0});
    const int key = block + 4 - side + below(random, 4);
    if (read(all, two_, key, key, log) != 0) return false;
    all.insert(two_, key, made);
    log.writes.push_back({number(key), 0, number(made)});
    return true;
  }

  numbers one_;
  stopping_tree two_;  // so that others come between, also on one processor
  std::array<std::vector<transaction_log>, 3> logs_;
};

TEST(transactions_of_threads, have_serializable_histories) {
  history_of_maps maps;
  // On a busy machine it takes more than one round.
  for (int round = 0; round < 10 && maps.all().size() <= 100; ++round) {
    run_stress({.threads = 3, .share = 0.5}, [&](stress_thread& self) { maps.run(self); });
  }
  const auto all = maps.all();
  EXPECT_EQ(serializability_broken(all), "") << all.size() << " transactions";
  EXPECT_GT(all.size(), 100U);
  EXPECT_EQ(maps.tree_is_wrong(), "");
}

/// Amounts go between two maps, never below nothing and none lost, while another thread counts, and
/// updates come and go beside them.
TEST(transactions_of_threads, keep_sums) {
  constexpr int keys = 4;
  numbers one;
  numbers_tree two;
  for (int k = 0; k < keys; ++k) {
    one.insert(k, 20);
    two.insert(k, 20);
  }
  std::array<std::uint64_t, 3> moved{};
  run_stress({.threads = 3, .share = 0.3}, [&](stress_thread& self) {
    const auto transfer = [&](auto& from, auto& to) {
      const int a = static_cast<int>(self.random().below(keys));
      const int b = static_cast<int>(self.random().below(keys));
      const auto result = transact([&](changes& all) {
        const long left = *all.find(from, a);
        if (left == 0) return false;
        all.insert_or_assign(from, a, left - 1);
        all.insert_or_assign(to, b, *all.find(to, b) + 1);
        return true;
      });
      moved.at(self.index()) += result ? 1U : 0U;
    };
    while (self.running()) {
      if (self.random().chance(1, 2)) {
        transfer(one, two);
      } else {
        transfer(two, one);
      }
      const int beside = 100 + static_cast<int>(self.random().below(8));
      if (self.index() == 0) two.insert(beside, 0);
      if (self.index() == 1) two.erase(beside);
      const snapshot now;
      long sum = 0;
      for (const auto& [key, value] : one.all(now)) {
        EXPECT_GE(value, 0);
        sum += value;
      }
      for (const auto& [key, value] : two.all(now)) {
        EXPECT_GE(value, 0);
        sum += value;
      }
      ASSERT_EQ(sum, 2 * keys * 20);
    }
  });
  for (const std::uint64_t n : moved) EXPECT_GT(n, 0U);
  expect_sound_tree(two);
}

}  // namespace
