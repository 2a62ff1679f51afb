// SPDX-License-Identifier: Apache-2.0
/// \file
/// What one thread sees of a map.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "map/subjects.hpp"
#include "support/all_domains.hpp"
#include "support/ledger.hpp"
#include "support/stress.hpp"

namespace spolia::test {

template <class Subject>
class map_of_one_thread : public testing::Test {
 protected:
  using domain_type = typename Subject::domain_type;
  template <class Key, class Value, class Compare = std::less<Key>>
  using map_of = typename Subject::template of<Key, Value, Compare>;
  using numbers = map_of<std::uint64_t, std::uint64_t>;
  using pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  static pairs everything(const numbers& m) {
    pairs all;
    m.for_each([&](std::uint64_t k, std::uint64_t v) { all.emplace_back(k, v); });
    if (!is_ordered<numbers>) std::sort(all.begin(), all.end());
    return all;
  }
  template <class Map>
  static pairs between(const Map& m, std::uint64_t lo, std::uint64_t hi) {
    pairs all;
    m.range(lo, hi, [&](std::uint64_t k, std::uint64_t v) { all.emplace_back(k, v); });
    return all;
  }
};
TYPED_TEST_SUITE_P(map_of_one_thread);

TYPED_TEST_P(map_of_one_thread, answers_like_std_map) {
  typename TestFixture::domain_type d(eager<typename TestFixture::domain_type>());
  typename TestFixture::numbers m(d);
  std::map<std::uint64_t, std::uint64_t> model;
  rng random(seed_for(0));
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t key = random.below(150);
    const std::uint64_t value = random();
    switch (random.below(6)) {
      case 0:
        ASSERT_EQ(m.insert(key, value), model.emplace(key, value).second);
        break;
      case 1:
        ASSERT_EQ(m.insert_or_assign(key, value), model.insert_or_assign(key, value).second);
        break;
      case 2:
        ASSERT_EQ(m.erase(key), model.erase(key) == 1);
        break;
      case 3: {
        const auto expected = model.find(key);
        const auto found = m.find(key);
        ASSERT_EQ(found.has_value(), expected != model.end());
        if (found.has_value()) {
          ASSERT_EQ(*found, expected->second);
        }
        break;
      }
      case 4:
        ASSERT_EQ(m.contains(key), model.contains(key));
        break;
      default: {
        const auto expected = model.find(key);
        std::optional<std::uint64_t> seen;
        ASSERT_EQ(m.visit(key, [&](std::uint64_t v) { seen = v; }), expected != model.end());
        ASSERT_EQ(seen.has_value(), expected != model.end());
        if (seen.has_value()) {
          ASSERT_EQ(*seen, expected->second);
        }
      }
    }
    ASSERT_EQ(m.size_approx(), model.size());
    ASSERT_EQ(m.empty_approx(), model.empty());
  }
  const typename TestFixture::pairs expected(model.begin(), model.end());
  EXPECT_EQ(this->everything(m), expected);
  expect_sound(m);
}

TYPED_TEST_P(map_of_one_thread, ranges_are_half_open_and_cross_batches) {
  typename TestFixture::domain_type d;
  typename TestFixture::numbers m(d);
  EXPECT_TRUE(this->everything(m).empty());
  for (std::uint64_t k = 10; k <= 3000; k += 10) m.insert(k, k + 1);
  EXPECT_EQ(this->everything(m).size(), 300U);
  if constexpr (is_ordered<typename TestFixture::numbers>) {
    const typename TestFixture::numbers none;
    EXPECT_TRUE(this->between(none, 0, ~std::uint64_t{0}).empty());
    for (const auto& [lo, hi] : {std::pair<std::uint64_t, std::uint64_t>{0, 5000},
                                 {10, 3000},
                                 {11, 2999},
                                 {640, 1280},
                                 {645, 645},
                                 {650, 650},
                                 {3000, 4000},
                                 {3001, 4000},
                                 {0, 9},
                                 {700, 600}}) {
      typename TestFixture::pairs expected;
      for (std::uint64_t k = 10; k <= 3000; k += 10) {
        if (lo <= k && k < hi) expected.emplace_back(k, k + 1);
      }
      EXPECT_EQ(this->between(m, lo, hi), expected) << lo << " to " << hi;
    }
  }
}

TYPED_TEST_P(map_of_one_thread, a_range_can_be_stopped_and_may_change_the_map) {
  typename TestFixture::domain_type d(eager<typename TestFixture::domain_type>());
  typename TestFixture::numbers m(d);
  for (std::uint64_t k = 1; k <= 300; ++k) m.insert(k, 0);
  std::uint64_t calls = 0;
  m.for_each([&](std::uint64_t k, std::uint64_t) {
    ++calls;
    return is_ordered<typename TestFixture::numbers> ? k < 100 : calls < 100;
  });
  EXPECT_EQ(calls, 100U);
  // No guard is held: what the function does may be freed while the range goes on.
  std::uint64_t sum = 0;
  m.for_each([&](std::uint64_t k, std::uint64_t) {
    sum += k;
    EXPECT_TRUE(m.erase(k));
    if (k % 50 == 0) {
      EXPECT_TRUE(drain_all(d));
    }
  });
  EXPECT_EQ(sum, 300U * 301U / 2U);
  EXPECT_TRUE(m.empty_approx());
  EXPECT_TRUE(this->everything(m).empty());
}

TYPED_TEST_P(map_of_one_thread, the_order_is_the_comparators) {
  using map = typename TestFixture::template map_of<std::string, int, std::greater<>>;
  map m;
  for (const char* word : {"token", "epoch", "limbo", "bag"}) m.insert(word, 1);
  EXPECT_TRUE(m.contains(std::string("epoch")));
  if constexpr (is_ordered<map>) {
    std::string order;
    m.for_each([&](const std::string& k, int) { order += k + " "; });
    EXPECT_EQ(order, "token limbo epoch bag ");
    order.clear();
    m.range("limbo", "epoch", [&](const std::string& k, int) { order += k + " "; });
    EXPECT_EQ(order, "limbo ");
  }
}

TYPED_TEST_P(map_of_one_thread, strings_are_keys_and_values) {
  typename TestFixture::domain_type d(eager<typename TestFixture::domain_type>());
  typename TestFixture::template map_of<std::string, std::string> m(d);
  const std::string text(100, 'x');  // too long to lie in the object
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(m.insert(text + std::to_string(i), std::to_string(i)));
    EXPECT_FALSE(m.insert_or_assign(text + std::to_string(i), text + std::to_string(-i)));
  }
  for (int i = 0; i < 100; i += 2) EXPECT_TRUE(m.erase(text + std::to_string(i)));
  EXPECT_EQ(m.find(text + "7"), text + "-7");
  EXPECT_EQ(m.find(text + "8"), std::nullopt);
  EXPECT_EQ(m.size_approx(), 50U);
}

TYPED_TEST_P(map_of_one_thread, values_may_be_unmovable_to_anywhere_but_the_node) {
  typename TestFixture::domain_type d(eager<typename TestFixture::domain_type>());
  typename TestFixture::template map_of<int, std::unique_ptr<int>> m(d);
  auto refused = std::make_unique<int>(2);
  EXPECT_TRUE(m.insert(1, std::make_unique<int>(1)));
  EXPECT_FALSE(m.insert(1, std::move(refused)));
  EXPECT_NE(refused, nullptr) << "taken though nothing was inserted";
  EXPECT_FALSE(m.insert_or_assign(1, std::move(refused)));
  EXPECT_EQ(refused, nullptr);
  int seen = 0;
  EXPECT_TRUE(m.visit(1, [&](const std::unique_ptr<int>& p) { seen = *p; }));
  EXPECT_EQ(seen, 2);
  EXPECT_TRUE(m.erase(1));
  EXPECT_FALSE(m.visit(1, [](const auto&) { FAIL(); }));
}

TYPED_TEST_P(map_of_one_thread, several_maps_share_a_domain) {
  typename TestFixture::domain_type d(eager<typename TestFixture::domain_type>());
  std::vector<std::unique_ptr<typename TestFixture::numbers>> buckets;
  for (int i = 0; i < 8; ++i) {
    buckets.push_back(std::make_unique<typename TestFixture::numbers>(d));
  }
  for (std::uint64_t k = 0; k < 400; ++k) buckets[k % 8]->insert(k, k);
  for (std::uint64_t k = 0; k < 400; k += 3) buckets[k % 8]->erase(k);
  std::size_t left = 0;
  for (const auto& bucket : buckets) left += bucket->size_approx();
  EXPECT_EQ(left, 400U - 134U);
  buckets.clear();
  EXPECT_TRUE(drain_all(d));
}

TYPED_TEST_P(map_of_one_thread, elements_end_once) {
  ledger book;
  {
    typename TestFixture::template map_of<tracked, tracked> m;
    for (std::uint64_t i = 0; i < 50; ++i) {
      m.insert(tracked(book, i), tracked(book, i));
      m.insert_or_assign(tracked(book, i / 2), tracked(book, i));
      if (i % 3 == 0) m.erase(tracked(book, i));
    }
    m.for_each([](const tracked& k, const tracked&) { EXPECT_LT(k.read(), 50U); });
  }
  book.expect_empty();
}

TYPED_TEST_P(map_of_one_thread, keys_in_ascending_and_descending_order) {
  typename TestFixture::numbers m;
  for (std::uint64_t k = 1000; k < 2000; ++k) ASSERT_TRUE(m.insert(k, k));
  for (std::uint64_t k = 1000; k-- > 0;) ASSERT_TRUE(m.insert(k, k));
  expect_sound(m);
  for (std::uint64_t k = 0; k < 2000; k += 2) ASSERT_TRUE(m.erase(k));
  expect_sound(m);
  EXPECT_EQ(this->everything(m).size(), 1000U);
  for (std::uint64_t k = 1; k < 2000; k += 2) ASSERT_TRUE(m.erase(k));
  expect_sound(m);
  EXPECT_TRUE(m.empty_approx());
}

REGISTER_TYPED_TEST_SUITE_P(map_of_one_thread, answers_like_std_map,
                            ranges_are_half_open_and_cross_batches,
                            a_range_can_be_stopped_and_may_change_the_map,
                            the_order_is_the_comparators, strings_are_keys_and_values,
                            values_may_be_unmovable_to_anywhere_but_the_node,
                            several_maps_share_a_domain, elements_end_once,
                            keys_in_ascending_and_descending_order);

}  // namespace spolia::test
