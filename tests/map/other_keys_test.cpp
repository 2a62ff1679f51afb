// SPDX-License-Identifier: Apache-2.0
// Keys of other types than the map's, of which no key is made.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <spolia/map.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>

namespace {

using namespace spolia;
using namespace std::literals;

/// A key of which no other can be made by itself.
struct name {
  explicit name(std::string_view t) : text(t) {}
  std::string text;
};
struct name_order {
  using is_transparent = void;
  static std::string_view text_of(const name& n) { return n.text; }
  static std::string_view text_of(std::string_view s) { return s; }
  bool operator()(const auto& a, const auto& b) const { return text_of(a) < text_of(b); }
};
struct name_hash {
  using is_transparent = void;
  std::size_t operator()(const auto& a) const {
    return std::hash<std::string_view>()(name_order::text_of(a));
  }
};
struct name_equal {
  using is_transparent = void;
  bool operator()(const auto& a, const auto& b) const {
    return name_order::text_of(a) == name_order::text_of(b);
  }
};
[[maybe_unused]] bool operator==(const name& a, std::string_view b) { return a.text == b; }
[[maybe_unused]] bool operator==(const name& a, const name& b) { return a.text == b.text; }

/// "bag" and "limbo" are there before and afterwards.
template <class Map>
void updates_them(Map& m) {
  const auto count = [](std::size_t& n) { ++n; };
  EXPECT_EQ(m.update("token"sv, count), update_result::absent);
  EXPECT_EQ(m.update("bag"sv, count), update_result::updated);
  EXPECT_EQ(m.upsert("bag"sv, count, 1U), update_result::updated);
  EXPECT_EQ(m.compare_exchange("bag"sv, 5U, 3U), update_result::updated);
  EXPECT_EQ(m.upsert("token"sv, count, 1U), update_result::inserted);
  EXPECT_EQ(m.extract("token"sv), 1U);
  EXPECT_EQ(m.extract("token"sv), std::nullopt);
  EXPECT_TRUE(m.get_or_insert("token"sv, 7U).inserted);
  EXPECT_EQ(m.get_or_insert("token"sv, 8U).value, 7U);
  EXPECT_EQ(m.erase_if("token"sv, [](std::size_t n) { return n == 8; }), update_result::unchanged);
  EXPECT_EQ(m.erase_if("token"sv, [](std::size_t n) { return n == 7; }), update_result::erased);
  EXPECT_FALSE(m.contains("token"sv));
}

template <class Map>
void finds_them(Map&& m) {
  SCOPED_TRACE(__PRETTY_FUNCTION__);
  for (const auto word : {"bag"sv, "epoch"sv, "limbo"sv}) m.insert(name(word), word.size());
  EXPECT_EQ(m.find("epoch"sv), 5U);
  EXPECT_FALSE(m.contains("token"sv));
  EXPECT_TRUE(m.erase("epoch"sv));
  EXPECT_FALSE(m.erase("epoch"sv));
  EXPECT_FALSE(m.contains(name("epoch")));
  updates_them(m);
  if constexpr (requires { m.last(); }) {
    EXPECT_EQ(m.lower_bound("c"sv)->first.text, "limbo");
    EXPECT_EQ(m.last_upto("c"sv)->first.text, "bag");
  }
}
template <class Map>
void finds_them_at_instants(Map&& m) {
  finds_them(m);
  const snapshot then;
  const lease of(std::chrono::hours(1));
  m.erase("bag"sv);
  EXPECT_EQ(*m.find(then, "bag"sv), 3U);
  EXPECT_EQ(m.find(of, "bag"sv), 3U);
  EXPECT_FALSE(m.contains("bag"sv));
  if constexpr (requires { m.last(); }) {
    EXPECT_EQ(m.lower_bound(then, "a"sv)->first.text, "bag");
    EXPECT_EQ(m.upper_bound(of, "bag"sv)->first.text, "limbo");
    EXPECT_EQ(m.count(then, after("bag"sv), no_limit), 1U);
  }
}

TEST(other_keys, are_found_erased_and_stood_beside) {
  using n = std::size_t;
  finds_them(abtree<name, n, domain<>, name_order>());
  finds_them(avl<name, n, region_domain, name_order>());
  finds_them(external_bst<name, n, domain<>, name_order>());
  finds_them(list<name, n, domain<>, name_order>());
  finds_them(michael_hash<name, n, domain<>, name_hash, name_order>(8));
  finds_them(split_ordered_hash<name, n, domain<>, name_hash, name_order>());
  finds_them(counted_hash<name, n, thin_family, name_hash>());
  finds_them(counted_bst<name, n, thin_family, name_order>());
  finds_them(counted_btree<name, n, thin_family, name_order>());
  finds_them(counted_tree<name, n, thin_family, name_order>());
  finds_them(counted_btree_locked<name, n, thin_family, name_order>());
  finds_them(rlu_bst<name, n, rlu::domain, name_order>());
  finds_them(rlu_list<name, n, rlu::domain, name_order>());
  finds_them(rlu_hash<name, n, rlu::domain, name_hash, name_order>(8));
  finds_them_at_instants(snapshot_tree<name, n, sl_rt<>, name_order>());
  finds_them_at_instants(snapshot_hash<name, n, sl_rt<>, name_hash, name_equal>());
}

/// A key that counts how many were made of text, and how many of other keys.
struct counting {
  static inline int made = 0;
  static inline int copied = 0;
  explicit counting(std::string_view t) : text(t) { ++made; }
  counting(const counting& r) : text(r.text) { ++copied; }
  counting(counting&& r) noexcept : text(std::move(r.text)) { ++copied; }
  counting& operator=(const counting&) = default;
  counting& operator=(counting&&) = default;
  ~counting() = default;
  friend bool operator==(const counting& a, std::string_view b) { return a.text == b; }
  friend bool operator==(const counting& a, const counting& b) { return a.text == b.text; }
  std::string text;
};
struct counting_order {
  using is_transparent = void;
  static std::string_view text_of(const counting& c) { return c.text; }
  static std::string_view text_of(std::string_view s) { return s; }
  bool operator()(const auto& a, const auto& b) const { return text_of(a) < text_of(b); }
};
struct counting_hash {
  using is_transparent = void;
  std::size_t operator()(const auto& a) const {
    return std::hash<std::string_view>()(counting_order::text_of(a));
  }
};

/// How many keys an update of "epoch" makes of the text, and how many it copies.
template <class Update>
void expect_keys(int made, int most_copied, const Update& update) {
  counting::made = counting::copied = 0;
  EXPECT_TRUE(update());
  EXPECT_EQ(counting::made, made);
  EXPECT_LE(counting::copied, most_copied);
}
/// An update that replaces copies `most` keys in a map of three.
template <class Map>
void makes_keys_where_they_are_absent(Map&& m, int most) {
  SCOPED_TRACE(__PRETTY_FUNCTION__);
  constexpr int any = 1000;
  for (const auto word : {"bag"sv, "epoch"sv, "limbo"sv}) m.insert(counting(word), 1U);
  const auto more = [](std::size_t& n) { ++n; };
  const auto twice = [](const std::size_t& n) { return 2 * n; };
  expect_keys(0, most, [&] { return m.update("epoch"sv, more); });
  expect_keys(0, most, [&] { return m.update("epoch"sv, twice); });
  expect_keys(0, most, [&] { return m.upsert("epoch"sv, more, 1U); });
  expect_keys(0, most, [&] { return m.compare_exchange("epoch"sv, 5U, 6U); });
  expect_keys(0, 0, [&] { return !m.compare_exchange("epoch"sv, 5U, 6U); });
  expect_keys(0, 0, [&] { return !m.get_or_insert("epoch"sv, 5U).inserted; });
  expect_keys(0, 0, [&] { return !m.update("token"sv, more); });
  expect_keys(0, 0, [&] { return !m.compare_exchange("token"sv, 5U, 6U); });
  expect_keys(0, any, [&] { return m.erase_if("epoch"sv, [](std::size_t n) { return n == 6; }); });
  expect_keys(1, any, [&] { return m.upsert("epoch"sv, more, 1U); });
  expect_keys(1, any, [&] { return m.get_or_insert("token"sv, 1U).inserted; });
  // A key of the map's own is copied as seldom.
  const counting own("limbo"sv);
  expect_keys(0, most + 1, [&] { return m.update(own, more); });
}

TEST(other_keys, are_made_into_keys_only_where_they_are_absent) {
  using n = std::size_t;
  using k = counting;
  using less = counting_order;
  makes_keys_where_they_are_absent(abtree<k, n, domain<>, less>(), 1);
  makes_keys_where_they_are_absent(avl<k, n, region_domain, less>(), 0);
  makes_keys_where_they_are_absent(external_bst<k, n, domain<>, less>(), 1);
  makes_keys_where_they_are_absent(list<k, n, domain<>, less>(), 1);
  makes_keys_where_they_are_absent(michael_hash<k, n, domain<>, counting_hash, less>(8), 1);
  makes_keys_where_they_are_absent(split_ordered_hash<k, n, domain<>, counting_hash, less>(), 1);
  makes_keys_where_they_are_absent(counted_hash<k, n, thin_family, counting_hash>(), 1);
  makes_keys_where_they_are_absent(counted_bst<k, n, thin_family, less>(), 1);
  makes_keys_where_they_are_absent(counted_btree<k, n, thin_family, less>(), 4);
  makes_keys_where_they_are_absent(counted_tree<k, n, thin_family, less>(), 1);
  makes_keys_where_they_are_absent(counted_btree_locked<k, n, thin_family, less>(), 4);
  makes_keys_where_they_are_absent(rlu_bst<k, n, rlu::domain, less>(), 2);
  makes_keys_where_they_are_absent(rlu_list<k, n, rlu::domain, less>(), 2);
  makes_keys_where_they_are_absent(rlu_hash<k, n, rlu::domain, counting_hash, less>(8), 2);
  makes_keys_where_they_are_absent(snapshot_tree<k, n, sl_rt<>, less>(), 4);
  makes_keys_where_they_are_absent(snapshot_hash<k, n, sl_rt<>, counting_hash, std::equal_to<>>(),
                                   4);
}

/// Nor is it said that one could be made.
struct part_of_a_key {
  std::string_view text;
};
struct part_order {
  using is_transparent = void;
  static std::string_view text_of(const std::string& s) { return s; }
  static std::string_view text_of(const part_of_a_key& p) { return p.text; }
  bool operator()(const auto& a, const auto& b) const { return text_of(a) < text_of(b); }
};
TEST(other_keys, of_which_none_can_be_made_update_what_is_there) {
  abtree<std::string, int, domain<>, part_order> m;
  counted_btree_locked<std::string, int, thin_family, part_order> counted;
  const auto updates = [](auto& in) {
    in.insert("bag"s, 1);
    EXPECT_EQ(in.update(part_of_a_key{"bag"}, [](int& n) { ++n; }), update_result::updated);
    EXPECT_EQ(in.compare_exchange(part_of_a_key{"bag"}, 2, 3), update_result::updated);
    EXPECT_EQ(in.find("bag"s), 3);
  };
  updates(m);
  updates(counted);
}

TEST(other_keys, are_text_of_any_type) {
  snapshot_hash<std::string, int, sl_rt<>, string_hash, std::equal_to<>> m;
  counted_hash<std::string, int, thin_family, string_hash> counted;
  EXPECT_TRUE(m.upsert("bag"sv, [](int& n) { ++n; }, 1));
  EXPECT_TRUE(counted.upsert("bag"sv, [](int& n) { ++n; }, 1));
  const char* const word = "bag";
  EXPECT_EQ(m.find(word), 1);
  EXPECT_EQ(counted.find("bag"s), 1);
  EXPECT_FALSE(m.compare_exchange(word, 2, 3));
  EXPECT_TRUE(m.erase_if("bag", [](int n) { return n == 1; }));
}

TEST(other_keys, bound_ranges_and_may_be_arrays) {
  abtree<std::string, int, domain<>, std::less<>> m;
  for (const char* const word : {"bag", "epoch", "limbo", "token"}) m.insert(word, 1);
  std::string shown;
  const auto take = [&](const std::string& k, int) { shown += k + " "; };
  m.range("c", "m", take);  // as addresses they would have another order
  m.range("m", "c", take);
  m.range_down(after("bag"sv), upto("limbo"sv), take);
  EXPECT_EQ(shown, "epoch limbo limbo epoch ");
}

TEST(other_keys, are_numbers_as_the_comparison_takes_them) {
  abtree<int, int, domain<>, std::less<>> m;
  for (int i = 0; i < 100; ++i) m.insert(i, i);
  EXPECT_EQ(m.find(short{7}), 7);
  EXPECT_EQ(m.find(7.0), 7);
  EXPECT_EQ(m.find(7.5), std::nullopt);
  EXPECT_EQ(m.lower_bound(7.5)->first, 8);
  EXPECT_TRUE(m.erase(99.0));
  EXPECT_EQ(m.last()->first, 98);
}

}  // namespace
