// SPDX-License-Identifier: Apache-2.0
// Rows that find() and lock() return: how long they stay, and what memory they take.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::isolation;
using db::outcome;
using found = db::result<db::row>;

constexpr std::int64_t count = 1000;
constexpr std::int64_t times = sanitized ? 5000 : 100'000;
constexpr std::uint64_t most_growth = 1U << 20U;
constexpr std::size_t width = 1000;  // of the texts, in bytes

std::string text_of(std::int64_t k) { return std::string(width, static_cast<char>('a' + k % 26)); }
std::string long_text_of(std::int64_t k) { return text_of(k) + text_of(k + 1); }

class found_rows : public testing::Test {
 protected:
  found_rows() {
    EXPECT_TRUE(base->transact([&](db::transaction& tx) -> db::status {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::string t = text_of(k);
        const std::string a = long_text_of(k);
        if (const db::status s = tx.insert(rows, {k, t, k * 3, a}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  /// How much more is resident after f was called so often than after a few calls.
  template <class F>
  static void takes_no_more(F&& f) {
    for (std::int64_t n = 0; n < count; ++n) f(n % count);
    const std::uint64_t before = resident_bytes();
    for (std::int64_t n = 0; n < times; ++n) f(n % count);
    const std::uint64_t after = resident_bytes();
    // The address sanitizer keeps what was freed for a while.
    EXPECT_LE(after, before + (sanitized ? ~std::uint64_t{0} / 2 : most_growth));
  }
  void is_row(const db::row& r, std::int64_t k) const {
    ASSERT_EQ(r.get(key), k);
    ASSERT_EQ(r.get(text), text_of(k));
    ASSERT_EQ(r.get(v), k * 3);
  }

  std::optional<db::database> base{db::database::open()};
  db::table& rows = base->create_table({.name = "rows",
                                        .columns = {{"k", db::int64, db::primary_key},
                                                    {"t", db::text(width)},
                                                    {"v", db::int64},
                                                    {"apart", db::text()}}});
  db::column<std::int64_t> key = rows.column<std::int64_t>("k");
  db::column<std::string_view> text = rows.column<std::string_view>("t");
  db::column<std::int64_t> v = rows.column<std::int64_t>("v");
  db::column<std::string_view> apart = rows.column<std::string_view>("apart");
};

TEST_F(found_rows, take_no_memory_when_they_have_gone) {
  const db::reader now = base->snapshot();
  takes_no_more([&](std::int64_t k) { is_row(*now.find(rows, {k}), k); });
}

TEST_F(found_rows, take_no_memory_when_they_have_gone_with_their_expression) {
  const db::reader now = base->snapshot();
  takes_no_more([&](std::int64_t k) {
    ASSERT_EQ(now.find(rows, {k})->get(text).size(), width);
    ASSERT_EQ(now.find(rows, {k}).value().get(v), k * 3);
    ASSERT_EQ(now.find(rows, {k + count}).code(), outcome::not_found);
  });
}

TEST_F(found_rows, take_no_memory_beside_a_row_that_stays) {
  const db::reader now = base->snapshot();
  found before = now.find(rows, {0});
  takes_no_more([&](std::int64_t k) {
    found next = now.find(rows, {k});
    ASSERT_EQ(before->get(text), text_of(before->get(key)));
    before = std::move(next);
  });
}

TEST_F(found_rows, take_no_memory_in_a_scan_and_in_a_transaction_that_locks_them) {
  db::transaction tx = base->begin({.isolation = isolation::serializable});
  takes_no_more([&](std::int64_t k) {
    is_row(*tx.lock(rows, {k}), k);
    ASSERT_TRUE(tx.edit(rows, {k})->set(v, k * 3));
    is_row(*tx.find(rows, {k}), k);
  });
  tx.for_each(rows, [&](const db::row&) {
    takes_no_more([&](std::int64_t k) { is_row(*tx.find(rows, {k}), k); });
    return false;
  });
}

TEST_F(found_rows, of_a_reader_that_may_be_ended_have_their_texts) {
  const db::reader_options limited{.deadline = std::chrono::hours(1)};
  std::unique_ptr<db::reader> now(new db::reader(base->snapshot(limited)));
  takes_no_more(
      [&](std::int64_t k) { ASSERT_EQ(now->find(rows, {k})->get(apart), long_text_of(k)); });
  const found stays = now->find(rows, {7}, rows.select({"v", "apart"}));
  now.reset();
  ASSERT_TRUE(base->transact([&](db::transaction& tx) { return tx.erase(rows, {7}); }));
  base->collect();
  EXPECT_EQ(stays->get(apart), long_text_of(7));
  EXPECT_EQ(stays->get(v), 21);
}

TEST_F(found_rows, are_as_wide_as_what_was_selected) {
  const db::reader now = base->snapshot();
  const db::selection two = rows.select({"v"});
  const db::selection none = rows.select(std::vector<std::string>{});
  std::vector<found> kept;
  kept.reserve(static_cast<std::size_t>(2 * times));
  const std::uint64_t before = resident_bytes();
  for (std::int64_t n = 0; n < times; ++n) {
    kept.push_back(now.find(rows, {n % count}, two));
    kept.push_back(now.find(rows, {n % count}, none));
  }
  const std::uint64_t after = resident_bytes();
  // Of each the result itself, and at most 80 bytes.
  const std::uint64_t most = kept.size() * (sizeof(found) + 80) + most_growth;
  EXPECT_LE(after, before + (sanitized ? ~std::uint64_t{0} / 2 : most));
  for (std::int64_t n = 0; n < times; ++n) {
    ASSERT_EQ(kept[static_cast<std::size_t>(2 * n)]->get(v), n % count * 3);
    ASSERT_TRUE(kept[static_cast<std::size_t>(2 * n + 1)]);
  }
}

TEST_F(found_rows, stay_when_all_else_has_gone) {
  std::vector<found> kept;
  std::optional<db::row> copy;
  {
    const db::reader now = base->snapshot();
    for (std::int64_t k = 0; k < 100; ++k) kept.push_back(now.find(rows, {k}));
    copy = *now.find(rows, {500});
  }
  {
    const db::reader later = base->snapshot();
    for (std::int64_t k = 100; k < 200; ++k) is_row(*later.find(rows, {k}), k);
  }
  base.reset();
  for (std::int64_t k = 0; k < 100; ++k) is_row(*kept[static_cast<std::size_t>(k)], k);
  is_row(*copy, 500);
}

TEST_F(found_rows, give_back_their_memory_after_the_end_of_their_reader) {
  std::vector<found> kept;
  const auto fill = [&] {
    kept.clear();
    const db::reader now = base->snapshot();
    for (std::int64_t k = 0; k < count; ++k) kept.push_back(now.find(rows, {k}));
  };
  fill();
  fill();
  fill();
  fill();
  const std::uint64_t before = resident_bytes();
  for (int round = 0; round < (sanitized ? 5 : 100); ++round) fill();
  const std::uint64_t after = resident_bytes();
  EXPECT_LE(after, before + (sanitized ? ~std::uint64_t{0} / 2 : 2 * most_growth));
  kept.clear();
  base->collect();
  const std::uint64_t in_the_end = resident_bytes();
  EXPECT_LE(in_the_end, sanitized ? ~std::uint64_t{0} : after - count * width / 2);
}

TEST_F(found_rows, are_right_in_any_order_and_at_most_three_times_as_many_are_there) {
  const std::vector<db::selection> parts = [&] {
    std::vector<db::selection> made;
    made.push_back(rows.select({"k", "t", "v"}));
    made.push_back(rows.select({"k", "v"}));
    made.emplace_back();
    return made;
  }();
  std::mt19937_64 random(7);
  const db::reader now = base->snapshot();
  std::vector<std::pair<found, std::int64_t>> kept;
  const auto step = [&](std::size_t most) {
    const auto k = static_cast<std::int64_t>(random() % count);
    kept.emplace_back(now.find(rows, {k}, parts[random() % parts.size()]), k);
    while (kept.size() > most) {
      const std::size_t at = random() % kept.size();
      ASSERT_EQ(kept[at].first->get(key), kept[at].second);
      ASSERT_EQ(kept[at].first->get(v), kept[at].second * 3);
      std::swap(kept[at], kept.back());
      kept.pop_back();
    }
  };
  const std::uint64_t before = resident_bytes();
  for (std::int64_t n = 0; n < times; ++n) step(n / 1000 % 2 == 0 ? 1000 : 10);
  const std::uint64_t after = resident_bytes();
  const std::uint64_t most = 1000 * 3 * (width + 300) + most_growth;
  EXPECT_LE(after, before + (sanitized ? ~std::uint64_t{0} / 2 : most));
}

TEST_F(found_rows, stay_as_long_as_a_copy_does) {
  const db::reader now = base->snapshot();
  for (std::int64_t k = 0; k + 2 < count; ++k) {
    std::optional<db::row> first(*now.find(rows, {k}));
    const db::row second = *first;
    db::row third;
    third = second;
    first.reset();
    is_row(*now.find(rows, {k + 1}), k + 1);
    first = second;
    third = db::row();
    first = *now.find(rows, {k + 2});
    is_row(second, k);
    is_row(*first, k + 2);
  }
}

TEST_F(found_rows, may_go_on_other_threads) {
  const db::reader now = base->snapshot();
  for (std::int64_t n = 0; n < (sanitized ? 200 : 2000); ++n) {
    const std::int64_t k = n % count;
    found mine = now.find(rows, {k});
    std::thread other([theirs = mine, k, this] {
      const db::row copy = *theirs;
      is_row(copy, k);
    });
    if (n % 2 == 0) mine = now.find(rows, {k + 1 == count ? 0 : k + 1});
    static_cast<void>(now.find(rows, {n * 7 % count}));
    if (n % 3 == 0) mine = outcome::not_found;
    other.join();
  }
}

TEST_F(found_rows, without_a_name_give_copies_of_texts) {
  static_assert(!std::is_convertible_v<db::owned_text, std::string_view>);
  static_assert(std::is_convertible_v<const db::owned_text&, std::string_view>);
  static_assert(!std::is_convertible_v<db::owned_blob, db::blob_view>);
  static_assert(std::is_same_v<decltype(std::declval<found&>()->get(text)), std::string_view>);
  db::transaction tx = base->begin();
  const auto name = tx.find(rows, {1})->get(text);
  const std::string same = tx.find(rows, {1})->get(text);
  const auto far = (*tx.find(rows, {1})).get(apart);
  for (std::int64_t k = 2; k < 100; ++k) static_cast<void>(tx.find(rows, {k}));
  ASSERT_TRUE(tx.commit());
  EXPECT_EQ(name, text_of(1));
  EXPECT_EQ(name, same);
  EXPECT_EQ(far, long_text_of(1));
  EXPECT_TRUE(base->snapshot().find(rows, {1})->get(text) == std::string_view(same));
  EXPECT_EQ(base->snapshot().find(rows, {1})->get(text) + "x", same + "x");
}

}  // namespace
