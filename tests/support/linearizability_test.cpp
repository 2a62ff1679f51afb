// SPDX-License-Identifier: Apache-2.0
// linearizability_test.cpp: the map checker accepts exactly the linearizable histories.
#include "support/linearizability.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/brute_force.hpp"
#include "support/sanitized.hpp"

namespace spolia::test {
namespace {

using history = std::vector<map_event>;

map_event op(std::uint32_t thread, std::uint64_t start, std::uint64_t end, map_op what,
             std::uint64_t key, std::uint64_t value, bool ok) {
  return {start, end, key, value, thread, what, ok};
}
map_event insert(std::uint32_t thread, std::uint64_t start, std::uint64_t end, std::uint64_t key,
                 std::uint64_t value, bool ok = true) {
  return op(thread, start, end, map_op::insert, key, value, ok);
}
map_event erase(std::uint32_t thread, std::uint64_t start, std::uint64_t end, std::uint64_t key,
                bool ok = true) {
  return op(thread, start, end, map_op::erase, key, 0, ok);
}
map_event find(std::uint32_t thread, std::uint64_t start, std::uint64_t end, std::uint64_t key,
               std::optional<std::uint64_t> seen) {
  return op(thread, start, end, map_op::find, key, seen.value_or(0), seen.has_value());
}

TEST(map_check, accepts_the_empty_history) { EXPECT_TRUE(accepted(check_map({}))); }

TEST(map_check, accepts_a_sequential_history) {
  const history h{insert(0, 1, 2, 5, 10),
                  insert(1, 3, 4, 5, 11, false),
                  find(0, 5, 6, 5, 10),
                  op(1, 7, 8, map_op::insert_or_assign, 5, 12, false),
                  find(0, 9, 10, 5, 12),
                  op(0, 11, 12, map_op::contains, 5, 0, true),
                  erase(1, 13, 14, 5),
                  erase(0, 15, 16, 5, false),
                  op(1, 17, 18, map_op::contains, 5, 0, false),
                  op(0, 19, 20, map_op::insert_or_assign, 5, 13, true),
                  find(0, 21, 22, 5, 13)};
  EXPECT_TRUE(accepted(check_map(h)));
}

TEST(map_check, accepts_either_order_of_concurrent_operations) {
  for (const bool seen : {false, true}) {
    const history h{insert(0, 1, 10, 5, 7),
                    find(1, 2, 3, 5, seen ? std::optional(7U) : std::nullopt)};
    EXPECT_TRUE(accepted(check_map(h)));
  }
}

TEST(map_check, treats_equal_stamps_as_concurrent) {
  EXPECT_TRUE(accepted(check_map(history{insert(0, 1, 2, 5, 7), find(1, 2, 3, 5, {})})));
  EXPECT_TRUE(refused(check_map(history{insert(0, 1, 2, 5, 7), find(1, 3, 4, 5, {})})));
}

TEST(map_check, refuses_a_lost_insert) {
  const history h{insert(0, 1, 2, 5, 7), find(1, 3, 4, 5, {})};
  EXPECT_TRUE(refused(check_map(h)));
}

TEST(map_check, refuses_a_stale_read) {
  const history h{insert(0, 1, 2, 5, 7), op(0, 3, 4, map_op::insert_or_assign, 5, 8, false),
                  find(1, 5, 6, 5, 7)};
  EXPECT_TRUE(refused(check_map(h)));
}

TEST(map_check, refuses_reads_that_go_back_in_time) {
  const history h{insert(0, 0, 1, 5, 7), op(0, 2, 20, map_op::insert_or_assign, 5, 8, false),
                  find(1, 3, 4, 5, 8), find(2, 5, 6, 5, 7)};
  EXPECT_TRUE(refused(check_map(h)));
}

TEST(map_check, refuses_a_duplicate_erase) {
  const history h{insert(0, 1, 2, 5, 7), erase(0, 3, 9, 5), erase(1, 4, 8, 5)};
  EXPECT_TRUE(refused(check_map(h)));
}

TEST(map_check, refuses_a_duplicate_insert) {
  const history h{insert(0, 1, 9, 5, 7), insert(1, 2, 8, 5, 8)};
  EXPECT_TRUE(refused(check_map(h)));
}

TEST(map_check, refuses_a_value_from_nowhere_and_says_so) {
  const verdict v = check_map(history{insert(0, 1, 2, 5, 7), find(1, 3, 4, 5, 99)});
  EXPECT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("nothing ever wrote 99"), std::string::npos) << v.explanation;
}

TEST(map_check, finds_the_one_bad_key_among_many) {
  history h;
  for (std::uint64_t k = 0; k < 100; ++k) h.push_back(insert(0, 10 * k, 10 * k + 1, k, k));
  EXPECT_TRUE(accepted(check_map(h)));
  h.push_back(erase(1, 2000, 2001, 63, false));
  const verdict v = check_map(h);
  EXPECT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("key 63"), std::string::npos) << v.explanation;
}

TEST(map_check, explains_with_the_shortest_window) {
  history h;
  for (std::uint64_t t = 0; t < 1000; ++t) {
    h.push_back(t % 2 == 0 ? insert(0, 10 * t, 10 * t + 1, 5, t) : erase(0, 10 * t, 10 * t + 1, 5));
  }
  h.push_back(find(1, 5003, 5004, 5, 3));  // between insert(500) and erase
  const verdict v = check_map(h);
  ASSERT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("2 of this key's 1001"), std::string::npos) << v.explanation;
  EXPECT_NE(v.explanation.find("insert(5, 500)"), std::string::npos) << v.explanation;
  EXPECT_NE(v.explanation.find("<- no order explains it"), std::string::npos) << v.explanation;
}

TEST(map_check, narrows_a_window_that_was_widened_too_far) {
  history h;
  for (std::uint64_t t = 0; t < 100; ++t) {
    h.push_back(op(0, 10 * t, 10 * t + 1, map_op::insert_or_assign, 5, t, t == 0));
  }
  for (std::uint64_t t = 100; t < 103; ++t) {
    h.push_back(op(0, 10 * t, 10 * t + 1, map_op::contains, 5, 0, true));
  }
  h.push_back(find(1, 2000, 2001, 5, 98));
  const verdict v = check_map(h);
  ASSERT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("5 of this key's 104"), std::string::npos) << v.explanation;
}

TEST(map_check, explains_from_the_empty_map_where_only_that_accuses) {
  const verdict v = check_map(history{find(0, 0, 1, 5, 7)});
  ASSERT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("from the empty map on"), std::string::npos) << v.explanation;
}

TEST(map_check, throws_on_malformed_histories) {
  EXPECT_THROW((void)check_map(history{find(0, 5, 4, 1, {})}), std::invalid_argument);
  EXPECT_THROW((void)check_map(history{find(0, 1, 5, 1, {}), find(0, 4, 6, 2, {})}),
               std::invalid_argument);
  EXPECT_NO_THROW((void)check_map(history{find(0, 1, 5, 1, {}), find(0, 5, 6, 2, {})}));
}

TEST(map_check, gives_up_without_accepting) {
  history h{insert(0, 0, 1, 1, 0)};
  for (std::uint32_t t = 0; t < 25; ++t) {
    h.push_back(op(t, 2, 100, map_op::insert_or_assign, 1, t, false));
  }
  h.push_back(find(40, 101, 102, 1, 77));
  const verdict v = check_map(h, 1000);
  EXPECT_EQ(v.outcome, search_outcome::gave_up);
  EXPECT_FALSE(accepted(v));
  EXPECT_FALSE(refused(v));
}

// ---- against the definition ------------------------------------------------------------------

using model = std::map<std::uint64_t, std::uint64_t>;

// The sequential map by its documented meaning, independent of map_spec.
bool explains(model& m, const map_event& e) {
  const auto at = m.find(e.key);
  const bool there = at != m.end();
  switch (e.op) {
    case map_op::insert:
      if (!there) m[e.key] = e.value;
      return e.ok == !there;
    case map_op::insert_or_assign:
      m[e.key] = e.value;
      return e.ok == !there;
    case map_op::erase:
      m.erase(e.key);
      return e.ok == there;
    case map_op::contains:
      return e.ok == there;
    case map_op::find:
      return e.ok == there && (!there || at->second == e.value);
    case map_op::replace:
      if (e.ok && !(there && at->second == e.before)) return false;
      if (e.ok) at->second = e.value;
      return e.ok == there;
    case map_op::take:
      if (e.ok && !(there && at->second == e.value)) return false;
      m.erase(e.key);
      return e.ok == there;
  }
  return false;
}

bool linearizable(const history& h) {
  return some_order<map_event>(h, [&](const std::vector<std::size_t>& order) {
    model m;
    for (const std::size_t i : order) {
      if (!explains(m, h[i])) return false;
    }
    return true;
  });
}

class random_histories {
 public:
  explicit random_histories(std::uint64_t seed) : random_(seed) {}

  history next() {
    history h =
        random_intervals<map_event>(3 + below(5), 3, [this](std::uint64_t n) { return below(n); });
    for (map_event& e : h) {
      e.op = static_cast<map_op>(below(7));
      e.key = below(2);
      e.value = 1 + below(3);
      e.before = 1 + below(3);
      e.ok = below(2) == 0;
    }
    if (below(4) != 0) answer_truthfully(h);
    if (below(2) == 0) h[below(h.size())].ok ^= true;
    return h;
  }

  // One key, unique values above 0, and each thread always busy.
  history long_and_right(std::size_t operations, std::uint32_t threads) {
    history h = random_intervals<map_event>(operations, threads,
                                            [this](std::uint64_t n) { return below(n); });
    std::uint64_t value = 0;
    for (map_event& e : h) {
      e.op = static_cast<map_op>(below(7));
      e.value = ++value;
    }
    answer_truthfully(h);
    return h;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  // Runs the operations one after the other at random moments of their intervals.
  void answer_truthfully(history& h) {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (std::size_t i = 0; i < h.size(); ++i) {
      order.emplace_back(h[i].start + below(h[i].end - h[i].start + 1), i);
    }
    std::sort(order.begin(), order.end());
    model m;
    for (const auto& [moment, i] : order) {
      map_event& e = h[i];
      if (m.contains(e.key)) {
        if (e.op == map_op::find || e.op == map_op::take) e.value = m[e.key];
        if (e.op == map_op::replace) e.before = m[e.key];
      }
      model before = m;
      e.ok = true;
      if (explains(m, e)) continue;
      m = std::move(before);
      e.ok = false;
      EXPECT_TRUE(explains(m, e));
    }
  }

  std::mt19937_64 random_;
};

TEST(map_check, agrees_with_trying_all_orders) {
  random_histories random(20260101);
  int good = 0;
  int bad = 0;
  for (int i = 0; i < tries(6000); ++i) {
    const history h = random.next();
    const bool expected = linearizable(h);
    ++(expected ? good : bad);
    const verdict v = check_map(h);
    ASSERT_EQ(static_cast<bool>(v), expected) << "history " << i << '\n' << v.explanation;
  }
  EXPECT_GT(good, tries(1000));
  EXPECT_GT(bad, tries(1000));
}

TEST(map_check, decides_a_hot_key_with_a_violation_late_in_a_long_history) {
  random_histories random(20260105);
  history h = random.long_and_right(20'000, 12);
  EXPECT_TRUE(accepted(check_map(h)));
  const auto culprit = std::find_if(
      h.begin() + 15'000, h.end(), [](const map_event& e) { return e.op == map_op::find && e.ok; });
  culprit->value = 0;
  const verdict v = check_map(h, 100'000);
  EXPECT_TRUE(refused(v));
  EXPECT_LT(v.explanation.size(), 4000U);
}

// ---- the search's other parts ----------------------------------------------------------------

TEST(linearization_search, lets_operations_at_the_edges_happen_outside) {
  linearization_search<map_spec> search;
  const history alone{insert(1, 11, 13, 5, 1), insert(2, 14, 15, 5, 2)};
  EXPECT_EQ(search.run(alone, {}, {10, 20}).outcome, search_outcome::refused);
  const history late{insert(1, 11, 13, 5, 1), erase(0, 12, 40, 5), insert(2, 14, 15, 5, 2)};
  EXPECT_EQ(search.run(late, {}, {10, 20}).outcome, search_outcome::accepted);
  const history never{insert(1, 11, 13, 5, 1), erase(0, 12, 40, 5), find(2, 14, 15, 5, 1)};
  EXPECT_EQ(search.run(never, {}, {10, 20}).outcome, search_outcome::accepted);
  const history outside{insert(1, 11, 13, 5, 1), insert(0, 12, 40, 5, 9), find(2, 14, 15, 5, 1)};
  EXPECT_EQ(search.run(outside, {}, {10, 20}).outcome, search_outcome::accepted);
  // It began before the window and ended in it, so it cannot explain what began after its end.
  const history early{erase(0, 5, 12, 5), insert(1, 13, 14, 5, 1), insert(2, 15, 16, 5, 2)};
  EXPECT_EQ(search.run(early, {}, {10, 20}).outcome, search_outcome::refused);
  const history skipped{erase(0, 5, 12, 5), find(1, 11, 13, 5, {}), insert(2, 14, 15, 5, 2)};
  EXPECT_EQ(search.run(skipped, {}, {10, 20}).outcome, search_outcome::accepted);
}

TEST(linearization_search, names_the_operation_that_cannot_be_reached) {
  linearization_search<map_spec> search;
  const history h{insert(0, 1, 2, 5, 1), find(0, 3, 4, 5, 2), find(1, 10, 11, 5, 3)};
  const search_result r = search.run(h, {});
  EXPECT_EQ(r.outcome, search_outcome::refused);
  EXPECT_EQ(r.stuck, 1U);
}

TEST(linearization_search, names_the_same_operation_after_taking_back_choices) {
  linearization_search<map_spec> search;
  const history h{insert(0, 0, 1, 5, 1), op(0, 2, 9, map_op::insert_or_assign, 5, 2, false),
                  op(1, 2, 10, map_op::insert_or_assign, 5, 3, false), find(0, 11, 12, 5, 3),
                  find(0, 13, 14, 5, 9)};
  const search_result r = search.run(h, {});
  EXPECT_EQ(r.outcome, search_outcome::refused);
  EXPECT_EQ(r.stuck, 4U);
}

TEST(digest_set, remembers_what_it_was_given_across_growth_and_reset) {
  digest_set set;
  for (int round = 0; round < 2; ++round) {
    set.reset(4);
    EXPECT_EQ(set.size(), 0U);
    for (std::uint64_t i = 0; i < 5000; ++i) EXPECT_TRUE(set.insert(digest_of(i)));
    for (std::uint64_t i = 0; i < 5000; ++i) EXPECT_FALSE(set.insert(digest_of(i)));
    EXPECT_EQ(set.size(), 5000U);
  }
  EXPECT_TRUE(set.insert({0, 0}));
  EXPECT_FALSE(set.insert({0, 0}));
}

TEST(digest_set, tells_digests_apart_that_differ_in_one_half) {
  digest_set set;
  EXPECT_TRUE(set.insert({7, 1}));
  EXPECT_TRUE(set.insert({7, 2}));
  EXPECT_TRUE(set.insert({8, 1}));
  EXPECT_FALSE(set.insert({7, 2}));
}

}  // namespace
}  // namespace spolia::test
