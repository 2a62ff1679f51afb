// SPDX-License-Identifier: Apache-2.0
// bag_check_test.cpp: the queue and the stack checker accept exactly the linearizable histories.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "support/brute_force.hpp"
#include "support/linearizability.hpp"
#include "support/sanitized.hpp"

namespace spolia::test {
namespace {

using history = std::vector<bag_event>;

bag_event put(std::uint32_t thread, std::uint64_t start, std::uint64_t end, std::uint64_t value) {
  return {start, end, value, thread, bag_op::put, true};
}
bag_event take(std::uint32_t thread, std::uint64_t start, std::uint64_t end,
               std::optional<std::uint64_t> value) {
  return {start, end, value.value_or(0), thread, bag_op::take, value.has_value()};
}

struct queue_rules {
  static verdict check(const history& h) { return check_queue(h); }
  static std::uint64_t take_from(std::deque<std::uint64_t>& content) {
    const std::uint64_t v = content.front();
    content.pop_front();
    return v;
  }
};
struct stack_rules {
  static verdict check(const history& h) { return check_stack(h); }
  static std::uint64_t take_from(std::deque<std::uint64_t>& content) {
    const std::uint64_t v = content.back();
    content.pop_back();
    return v;
  }
};

template <class Rules>
class bag_check : public testing::Test {};
using both = testing::Types<queue_rules, stack_rules>;
TYPED_TEST_SUITE(bag_check, both);

TYPED_TEST(bag_check, accepts_the_empty_history) { EXPECT_TRUE(accepted(TypeParam::check({}))); }

TYPED_TEST(bag_check, accepts_one_value_and_empty_takes_around_it) {
  EXPECT_TRUE(accepted(
      TypeParam::check({take(0, 0, 1, {}), put(0, 2, 3, 7), take(1, 4, 5, 7), take(0, 6, 7, {})})));
}

TYPED_TEST(bag_check, accepts_an_empty_take_during_a_put) {
  EXPECT_TRUE(accepted(TypeParam::check({put(0, 0, 10, 7), take(1, 2, 3, {}), take(1, 4, 5, 7)})));
}

TYPED_TEST(bag_check, refuses_a_value_from_nowhere) {
  EXPECT_TRUE(refused(TypeParam::check({put(0, 0, 1, 7), take(0, 2, 3, 8)})));
}

TYPED_TEST(bag_check, refuses_a_value_taken_twice) {
  EXPECT_TRUE(refused(TypeParam::check({put(0, 0, 1, 7), take(0, 2, 3, 7), take(1, 2, 3, 7)})));
}

TYPED_TEST(bag_check, refuses_a_value_taken_before_it_was_put) {
  EXPECT_TRUE(refused(TypeParam::check({take(1, 0, 1, 7), put(0, 2, 3, 7)})));
}

TYPED_TEST(bag_check, refuses_an_empty_take_while_a_value_is_there) {
  EXPECT_TRUE(refused(TypeParam::check({put(0, 0, 1, 7), take(1, 2, 3, {}), take(0, 4, 5, 7)})));
  EXPECT_TRUE(refused(TypeParam::check({put(0, 0, 1, 7), take(1, 2, 3, {})})));
}

TYPED_TEST(bag_check, refuses_an_empty_take_covered_by_values_in_turn) {
  const verdict v =
      TypeParam::check({put(0, 0, 1, 1), put(0, 4, 5, 2), take(1, 6, 7, 1), put(0, 8, 9, 3),
                        take(1, 10, 11, 2), take(2, 2, 10, {}), take(1, 12, 13, 3)});
  EXPECT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("empty"), std::string::npos) << v.explanation;
}

TYPED_TEST(bag_check, throws_if_a_value_is_put_twice) {
  EXPECT_THROW((void)TypeParam::check({put(0, 0, 1, 7), put(0, 2, 3, 7)}), std::invalid_argument);
}

TYPED_TEST(bag_check, throws_on_overlap_in_one_thread) {
  EXPECT_THROW((void)TypeParam::check({put(0, 0, 5, 7), put(0, 2, 6, 8)}), std::invalid_argument);
}

TEST(queue_check, refuses_a_reordered_queue) {
  EXPECT_TRUE(refused(
      check_queue(history{put(0, 0, 1, 1), put(0, 2, 3, 2), take(1, 4, 5, 2), take(1, 6, 7, 1)})));
}

TEST(queue_check, refuses_a_value_that_stays_behind_a_later_one) {
  EXPECT_TRUE(refused(check_queue(history{put(0, 0, 1, 1), put(0, 2, 3, 2), take(1, 4, 5, 2)})));
}

TEST(queue_check, accepts_either_order_of_concurrent_puts) {
  EXPECT_TRUE(accepted(
      check_queue(history{put(0, 0, 5, 1), put(1, 2, 3, 2), take(0, 6, 7, 2), take(0, 8, 9, 1)})));
  EXPECT_TRUE(accepted(
      check_queue(history{put(0, 0, 5, 1), put(1, 2, 3, 2), take(0, 6, 7, 1), take(0, 8, 9, 2)})));
}

TEST(stack_check, refuses_a_lifo_violation) {
  const verdict v =
      check_stack(history{put(0, 0, 1, 1), put(0, 2, 3, 2), take(1, 4, 5, 1), take(1, 6, 7, 2)});
  EXPECT_TRUE(refused(v));
  EXPECT_NE(v.explanation.find("pop()"), std::string::npos) << v.explanation;
}

TEST(stack_check, accepts_nesting) {
  EXPECT_TRUE(accepted(
      check_stack(history{put(0, 0, 1, 1), put(0, 2, 3, 2), take(1, 4, 5, 2), put(0, 6, 7, 3),
                          take(1, 8, 9, 3), take(1, 10, 11, 1), take(1, 12, 13, {})})));
}

TEST(stack_check, accepts_a_value_that_stays_below) {
  EXPECT_TRUE(accepted(check_stack(history{put(0, 0, 1, 1), put(0, 2, 3, 2), take(1, 4, 5, 2)})));
  EXPECT_TRUE(refused(check_stack(history{put(0, 0, 1, 1), put(0, 2, 3, 2), take(1, 4, 5, 1)})));
}

// Value 1 might be on the stack while value 2 comes and goes, but it is not certain before time
// 100.
TEST(stack_check, keeps_a_long_push_apart_from_what_happens_during_it) {
  EXPECT_TRUE(refused(
      check_stack(history{put(0, 0, 100, 1), put(1, 1, 2, 2), take(1, 5, 6, 2), put(1, 101, 102, 3),
                          take(1, 103, 104, 1), take(1, 105, 106, 3)})));
}

TEST(stack_check, shows_few_of_many_operations) {
  history h;
  for (std::uint64_t v = 0; v < 500; ++v) h.push_back(put(0, 10 * v, 10 * v + 1, v));
  for (std::uint64_t v = 500; v-- > 0;) h.push_back(take(0, 20000 - 10 * v, 20001 - 10 * v, v));
  EXPECT_TRUE(accepted(check_stack(h)));
  std::swap(h[700].value, h[701].value);
  const verdict v = check_stack(h);
  ASSERT_TRUE(refused(v));
  EXPECT_LT(std::count(v.explanation.begin(), v.explanation.end(), '\n'), 8) << v.explanation;
}

// ---- against the definition ------------------------------------------------------------------

// Whether the container, given `e` next, would have answered as recorded.
template <class Rules>
bool explains(std::deque<std::uint64_t>& content, const bag_event& e) {
  if (e.op == bag_op::put) {
    content.push_back(e.value);
    return true;
  }
  if (!e.ok || content.empty()) return !e.ok && content.empty();
  return Rules::take_from(content) == e.value;
}

template <class Rules>
bool linearizable(const history& h) {
  return some_order<bag_event>(h, [&](const std::vector<std::size_t>& order) {
    std::deque<std::uint64_t> content;
    return std::all_of(order.begin(), order.end(),
                       [&](std::size_t i) { return explains<Rules>(content, h[i]); });
  });
}

template <class Rules>
class random_histories {
 public:
  explicit random_histories(std::uint64_t seed) : random_(seed) {}

  history next(std::uint64_t least, std::uint64_t most, std::uint64_t most_values) {
    history h = random_intervals<bag_event>(least + below(most - least + 1), 4,
                                            [this](std::uint64_t n) { return below(n); });
    std::uint64_t values = 0;
    for (bag_event& e : h) {
      e.op = values < most_values && below(5) < 3 ? bag_op::put : bag_op::take;
      if (e.op == bag_op::put) e.value = ++values;
    }
    answer_truthfully(h);
    for (std::uint64_t n = below(4); n > 0; --n) spoil(h);
    return h;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void answer_truthfully(history& h) {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (std::size_t i = 0; i < h.size(); ++i) {
      order.emplace_back(h[i].start + below(h[i].end - h[i].start + 1), i);
    }
    std::sort(order.begin(), order.end());
    std::deque<std::uint64_t> content;
    for (const auto& [moment, i] : order) {
      bag_event& e = h[i];
      if (e.op == bag_op::put) {
        content.push_back(e.value);
      } else {
        e.ok = !content.empty();
        if (e.ok) e.value = Rules::take_from(content);
      }
    }
  }

  // Exchanges the answers of two takes, or moves one operation in time.
  void spoil(history& h) {
    bag_event& a = h[below(h.size())];
    bag_event& b = h[below(h.size())];
    if (a.op == bag_op::take && b.op == bag_op::take) {
      std::swap(a.value, b.value);
      std::swap(a.ok, b.ok);
    } else {
      a.thread = new_thread_++;
      a.start += below(8);
      a.end = a.start + below(4);
    }
  }

  std::mt19937_64 random_;
  std::uint32_t new_thread_ = 100;
};

TYPED_TEST(bag_check, agrees_with_trying_all_orders) {
  random_histories<TypeParam> random(20260102);
  int good = 0;
  int bad = 0;
  for (int i = 0; i < tries(8000); ++i) {
    const history h = random.next(4, 7, 4);
    const bool expected = linearizable<TypeParam>(h);
    ++(expected ? good : bad);
    const verdict v = TypeParam::check(h);
    ASSERT_EQ(static_cast<bool>(v), expected) << "history " << i << '\n' << v.explanation;
  }
  EXPECT_GT(good, tries(1000));
  EXPECT_GT(bad, tries(1000));
}

// The same container for the general search, which copes with more operations than 8.
template <class Rules>
struct bag_spec {
  using operation = bag_event;
  using state = std::deque<std::uint64_t>;
  static bool apply(state& content, const bag_event& e) { return explains<Rules>(content, e); }
  static digest128 digest(const state& content) {
    digest128 d = digest_of(content.size());
    for (const std::uint64_t v : content) d = combine(d, digest_of(v));
    return d;
  }
};

TYPED_TEST(bag_check, agrees_with_the_general_search_on_longer_histories) {
  random_histories<TypeParam> random(20260104);
  linearization_search<bag_spec<TypeParam>> search;
  int good = 0;
  int bad = 0;
  for (int i = 0; i < tries(1500); ++i) {
    history h = random.next(9, 24, 12);
    std::sort(h.begin(), h.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
    const bool expected = search.run(h, {}).outcome == search_outcome::accepted;
    ++(expected ? good : bad);
    const verdict v = TypeParam::check(h);
    ASSERT_EQ(static_cast<bool>(v), expected) << "history " << i << '\n' << v.explanation;
  }
  EXPECT_GT(good, tries(200));
  EXPECT_GT(bad, tries(200));
}

}  // namespace
}  // namespace spolia::test
