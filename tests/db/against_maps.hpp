// SPDX-License-Identifier: Apache-2.0
// against_maps.hpp: a table with indexes of all kinds, and whether it shows what a plain map says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "db/storages.hpp"
#include "support/stress.hpp"

namespace spolia::test {

using key = std::tuple<std::int64_t, std::string>;

struct content {
  std::int64_t one = 0;  // a unique index has it
  double number = 0;
  std::string word;
  std::optional<std::int64_t> maybe;
  std::string free;
  auto operator<=>(const content&) const = default;
};

using table_content = std::map<key, content>;
using shown = std::vector<std::pair<key, content>>;

/// A database with such a table. Its keys and values are few, so that they meet.
class items_like_maps {
 public:
  static db::table_spec spec() {
    return {.name = "items",
            .columns = {{"id", db::int64, db::primary_key},
                        {"part", db::text(6), db::primary_key},
                        {"one", db::int64},
                        {"number", db::float64},
                        {"word", db::text(6)},
                        {"maybe", db::int64, db::nullable},
                        {"free", db::text(), db::nullable}},
            .primary = db::index_kind::ordered,
            .indexes = {{"by_one", {"one"}, true},
                        {"by_number", {"number", "word"}},
                        {.name = "by_word", .columns = {"word"}, .kind = db::index_kind::hash}}};
  }
  items_like_maps(db::database&& made, std::uint64_t seed)
      : random(seed),
        base(std::move(made)),
        items(base.tables().empty() ? base.create_table(spec()) : base.find_table("items")) {}

  std::pair<key, content> of(const db::row& r) const {
    content c{r.get(one), r.get(number), std::string(r.get(word)), {}, std::string(r.get(free))};
    if (!r.null(maybe)) c.maybe = r.get(maybe);
    return {key(r.get(id), std::string(r.get(part))), c};
  }
  key any_key() {
    static constexpr const char* parts[] = {"", "a", "ab"};
    return {static_cast<std::int64_t>(random.below(4)) - 2, parts[random.below(3)]};
  }
  std::int64_t any_one() { return static_cast<std::int64_t>(random.below(16)) - 8; }
  double any_number() {
    static constexpr double numbers[] = {-std::numeric_limits<double>::infinity(), -1.5, 0, 2,
                                         1e300};
    return numbers[random.below(5)];
  }
  std::string any_word() {
    static const std::string words[] = {"", std::string(1, '\0'), "x", "xy", "\xff"};
    return words[random.below(5)];
  }
  content any_content() {
    content c{any_one(), any_number(), any_word(), {}, {}};
    if (random.chance(1, 2)) c.maybe = any_one();
    c.free = std::string(random.below(3) * 20, static_cast<char>('a' + random.below(26)));
    return c;
  }

  /// All ways to look.
  void look(const db::reader& at, const table_content& in) {
    for (int i = 0; i < 3; ++i) {
      const key k = any_key();
      const auto& [a, b] = k;
      const auto found = at.find(items, {a, b});
      ASSERT_EQ(static_cast<bool>(found), in.contains(k));
      if (!found) continue;
      ASSERT_EQ(of(*found), std::pair(k, in.at(k)));
    }
    shown all_rows;
    at.for_each(items, [&](const db::row& r) { all_rows.push_back(of(r)); });
    std::sort(all_rows.begin(), all_rows.end());
    ASSERT_EQ(all_rows, shown(in.begin(), in.end()));
    look_at_ranges(at, in);
    look_at_numbers(at, in);
    look_at_ones(at, in);
    look_at_words(at, in);
  }
  void look_at_ranges(const db::reader& at, const table_content& in) {
    const auto [from, from_part] = any_key();
    const auto [to, to_part] = any_key();
    shown seen;
    shown expected;
    at.scan(items, {from, from_part}, {to}, [&](const db::row& r) { seen.push_back(of(r)); });
    for (const auto& e : in) {
      if (e.first >= key(from, from_part) && std::get<0>(e.first) <= to) expected.push_back(e);
    }
    ASSERT_EQ(seen, expected);
    seen.clear();
    at.scan_down(items, {from}, {to, to_part}, [&](const db::row& r) { seen.push_back(of(r)); });
    expected.clear();
    for (const auto& e : in) {
      if (std::get<0>(e.first) >= from && e.first <= key(to, to_part)) expected.push_back(e);
    }
    std::reverse(expected.begin(), expected.end());
    ASSERT_EQ(seen, expected);
  }
  template <class F>
  static shown some_of(const table_content& in, const F& wanted) {
    shown some;
    std::copy_if(in.begin(), in.end(), std::back_inserter(some), wanted);
    return some;
  }
  /// Rows of one key come in any order.
  void look_at_numbers(const db::reader& at, const table_content& in) {
    const auto sort_of = [](const auto& r) { return std::tie(r.second.number, r.second.word); };
    const auto less = [&](const auto& x, const auto& y) { return sort_of(x) < sort_of(y); };
    const double lowest = any_number();
    const std::string w = any_word();
    shown seen;
    at.scan(items.index("by_number"), {lowest, w}, {},
            [&](const db::row& r) { seen.push_back(of(r)); });
    ASSERT_TRUE(std::is_sorted(seen.begin(), seen.end(), less));
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen, some_of(in, [&](const auto& r) { return sort_of(r) >= std::tie(lowest, w); }));
  }
  void look_at_ones(const db::reader& at, const table_content& in) {
    const std::int64_t least = any_one();
    shown seen;
    at.scan_down(items.index("by_one"), {}, {least},
                 [&](const db::row& r) { seen.push_back(of(r)); });
    shown expected = some_of(in, [&](const auto& r) { return r.second.one <= least; });
    std::sort(expected.begin(), expected.end(),
              [](const auto& x, const auto& y) { return x.second.one > y.second.one; });
    ASSERT_EQ(seen, expected);
  }
  void look_at_words(const db::reader& at, const table_content& in) {
    const std::string w = any_word();
    shown seen;
    at.scan(items.index("by_word"), {w}, {w}, [&](const db::row& r) { seen.push_back(of(r)); });
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen, some_of(in, [&](const auto& r) { return r.second.word == w; }));
  }

  rng random;
  db::database base;
  db::table& items;
  db::column<std::int64_t> id = items.column<std::int64_t>("id");
  db::column<std::string_view> part = items.column<std::string_view>("part");
  db::column<std::int64_t> one = items.column<std::int64_t>("one");
  db::column<double> number = items.column<double>("number");
  db::column<std::string_view> word = items.column<std::string_view>("word");
  db::column<std::int64_t> maybe = items.column<std::int64_t>("maybe");
  db::column<std::string_view> free = items.column<std::string_view>("free");
};

}  // namespace spolia::test
