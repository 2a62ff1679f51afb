// SPDX-License-Identifier: Apache-2.0
// scan_check_test.cpp: the scan checker refuses what no weakly consistent scan shows, and only
// that.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "support/brute_force.hpp"
#include "support/linearizability.hpp"
#include "support/sanitized.hpp"

namespace spolia::test {
namespace {

using history = std::vector<map_event>;
using shown = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

map_event insert(std::uint64_t start, std::uint64_t end, std::uint64_t key, std::uint64_t value) {
  return {start, end, key, value, static_cast<std::uint32_t>(start), map_op::insert, true};
}
map_event assign(std::uint64_t start, std::uint64_t end, std::uint64_t key, std::uint64_t value) {
  return {start, end, key, value, static_cast<std::uint32_t>(start), map_op::insert_or_assign,
          false};
}
map_event erase(std::uint64_t start, std::uint64_t end, std::uint64_t key) {
  return {start, end, key, 0, static_cast<std::uint32_t>(start), map_op::erase, true};
}

verdict check(const history& h, std::uint64_t start, std::uint64_t end, const shown& items) {
  const std::vector<scan_event> scans{{start, end, 10, 20, 0, items}};
  return check_scans(h, scans);
}

TEST(scan_check, accepts_an_exact_scan) {
  const history h{insert(0, 1, 12, 120), insert(2, 3, 15, 150), insert(4, 5, 30, 300)};
  EXPECT_TRUE(accepted(check(h, 10, 20, {{12, 120}, {15, 150}})));
}

TEST(scan_check, refuses_a_missed_key) {
  const history h{insert(0, 1, 12, 120), insert(2, 3, 15, 150)};
  const verdict v = check(h, 10, 20, {{12, 120}});
  EXPECT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("key 15 was missed"), std::string::npos) << v.explanation;
}

TEST(scan_check, refuses_a_missed_key_that_was_erased_and_came_back) {
  const history h{insert(0, 1, 12, 120), erase(2, 3, 12), insert(4, 5, 12, 121), erase(30, 31, 12)};
  EXPECT_TRUE(refused(check(h, 10, 20, {})));
}

TEST(scan_check, accepts_both_answers_about_a_key_that_changes_meanwhile) {
  const history inserted{insert(12, 13, 12, 120)};
  const history erased{insert(0, 1, 12, 120), erase(12, 13, 12)};
  for (const history& h : {inserted, erased}) {
    EXPECT_TRUE(accepted(check(h, 10, 20, {})));
    EXPECT_TRUE(accepted(check(h, 10, 20, {{12, 120}})));
  }
}

TEST(scan_check, refuses_a_key_that_was_never_there) {
  EXPECT_TRUE(refused(check({}, 10, 20, {{12, 120}})));
}

TEST(scan_check, refuses_a_key_that_went_before) {
  EXPECT_TRUE(refused(check({insert(0, 1, 12, 120), erase(2, 3, 12)}, 10, 20, {{12, 120}})));
}

TEST(scan_check, refuses_a_key_that_came_after) {
  EXPECT_TRUE(refused(check({insert(30, 31, 12, 120)}, 10, 20, {{12, 120}})));
}

TEST(scan_check, refuses_keys_out_of_order_twice_or_out_of_range) {
  const history h{insert(0, 1, 12, 120), insert(2, 3, 15, 150), insert(4, 5, 30, 300)};
  EXPECT_TRUE(refused(check(h, 10, 20, {{15, 150}, {12, 120}})));
  EXPECT_TRUE(refused(check(h, 10, 20, {{12, 120}, {12, 120}, {15, 150}})));
  EXPECT_TRUE(refused(check(h, 10, 20, {{12, 120}, {15, 150}, {30, 300}})));
}

TEST(scan_check, refuses_values_from_the_past_the_future_and_nowhere) {
  const history h{insert(0, 1, 12, 1), assign(2, 3, 12, 2), assign(15, 16, 12, 3),
                  assign(30, 31, 12, 4)};
  EXPECT_TRUE(refused(check(h, 10, 20, {{12, 1}})));
  EXPECT_TRUE(accepted(check(h, 10, 20, {{12, 2}})));
  EXPECT_TRUE(accepted(check(h, 10, 20, {{12, 3}})));
  EXPECT_TRUE(refused(check(h, 10, 20, {{12, 4}})));
  EXPECT_TRUE(refused(check(h, 10, 20, {{12, 5}})));
}

TEST(scan_check, accepts_a_value_that_was_written_again) {
  const history h{insert(0, 1, 12, 1), assign(2, 3, 12, 2), assign(4, 5, 12, 1)};
  EXPECT_TRUE(accepted(check(h, 10, 20, {{12, 1}})));
  EXPECT_TRUE(refused(check(h, 10, 20, {{12, 2}})));
}

// ---- against the definition ------------------------------------------------------------------

// Whether one key's updates, each at some moment of its interval, let `seen` be its value at some
// moment of [start, end] (std::nullopt: absent). This is linearizability with one find added.
bool possible(history h, std::uint64_t start, std::uint64_t end,
              std::optional<std::uint64_t> seen) {
  h.push_back({start, end, 12, seen.value_or(0), 999, map_op::find, seen.has_value()});
  return some_order<map_event>(h, [&](const std::vector<std::size_t>& order) {
    std::optional<std::uint64_t> value;
    for (const std::size_t i : order) {
      const map_event& e = h[i];
      if (e.op == map_op::find) {
        if (value != seen) return false;
      } else if (e.op == map_op::erase) {
        if (!value) return false;
        value.reset();
      } else {
        if (value.has_value() == e.ok) return false;
        value = e.value;
      }
    }
    return true;
  });
}

history random_updates(std::mt19937_64& random, std::uint32_t threads) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  history h = random_intervals<map_event>(2 + below(4), threads, below);
  std::uint64_t gap = 0;  // equal stamps would make one thread's operations concurrent
  for (map_event& e : h) {
    e.start += ++gap;
    e.end += gap;
    e.key = 12;
    e.value = 1 + below(3);
    e.op = below(5) < 2 ? map_op::erase : below(2) == 0 ? map_op::insert : map_op::insert_or_assign;
    e.ok = e.op != map_op::insert_or_assign || below(2) == 0;
  }
  return h;
}

struct tally {
  int right = 0;
  int wrong = 0;
  int wrong_but_passed = 0;
};

// Each random history is scanned at a random time with each possible answer.
tally compare_with_all_orders(std::uint32_t threads) {
  std::mt19937_64 random(20260103);
  tally count;
  for (int i = 0; i < tries(60000) && count.right < tries(5000); ++i) {
    const history h = random_updates(random, threads);
    const std::uint64_t start = random() % 12;
    const std::uint64_t end = start + random() % 4;
    if (!check_map(h)) continue;
    for (std::uint64_t value = 0; value <= 3; ++value) {
      const bool absent = value == 0;
      const bool right = possible(h, start, end, absent ? std::nullopt : std::optional(value));
      const verdict v = check(h, start, end, absent ? shown{} : shown{{12, value}});
      ++(right ? count.right : count.wrong);
      EXPECT_TRUE(!right || accepted(v));
      if (!right && v) ++count.wrong_but_passed;
    }
  }
  EXPECT_GT(count.right, tries(2000));
  EXPECT_GT(count.wrong, tries(2000));
  return count;
}

TEST(scan_check, is_exact_for_updates_one_after_the_other) {
  EXPECT_EQ(compare_with_all_orders(1).wrong_but_passed, 0);
}

TEST(scan_check, refuses_nothing_right_and_nearly_all_wrong_among_concurrent_updates) {
  const tally count = compare_with_all_orders(3);
  EXPECT_LT(count.wrong_but_passed * 10, count.wrong);
}

}  // namespace
}  // namespace spolia::test
