// SPDX-License-Identifier: Apache-2.0
// What the memory of found rows counts as, and how much of it stays for the next reader.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

namespace {

using namespace spolia::db;

/// A row of a text whose image has about so many words.
class image_bytes : public testing::Test {
 protected:
  static constexpr std::int64_t count = 40;
  using kept_rows = std::vector<result<row>>;

  table& make(std::uint32_t bytes) {
    table& t = base_.create_table(
        {.name = "t" + std::to_string(bytes),
         .columns = {
             {"k", int64, primary_key}, {"half", text(bytes / 2)}, {"rest", text(bytes / 2)}}});
    EXPECT_TRUE(base_.transact([&](transaction& tx) {
      for (std::int64_t k = 0; k < count; ++k) {
        const std::string half(bytes / 2, static_cast<char>('a' + k % 26));
        const std::string rest(bytes / 2, static_cast<char>('A' + k % 26));
        EXPECT_TRUE(tx.insert(t, {k, half, rest}));
      }
    }));
    return t;
  }
  [[nodiscard]] std::int64_t bytes() const {
    return static_cast<std::int64_t>(base_.stats().work_bytes);
  }
  /// By how much that is more after `f` than before.
  template <class F>
  std::int64_t grows(F&& f) const {
    const std::int64_t before = bytes();
    f();
    return bytes() - before;
  }
  static kept_rows find(const reader& by, const table& t, std::int64_t rows,
                        const selection& only = {}) {
    kept_rows all;
    for (std::int64_t k = 0; k < rows; ++k) all.push_back(by.find(t, k, only));
    return all;
  }
  static void expect_texts(const kept_rows& rows, const table& t, std::uint32_t bytes) {
    for (std::size_t k = 0; k < rows.size(); ++k) {
      EXPECT_EQ(rows[k]->get(t.column<std::string_view>("half")),
                std::string(bytes / 2, static_cast<char>('a' + k % 26)));
      EXPECT_EQ(rows[k]->get(t.column<std::string_view>("rest")),
                std::string(bytes / 2, static_cast<char>('A' + k % 26)));
    }
  }

  database base_ = database::open();
};

/// Of images of up to 256 words four, of wider ones one, of very wide ones none.
TEST_F(image_bytes, that_stay_for_the_next_reader_are_few) {
  struct one {
    std::uint32_t bytes;
    std::int64_t stay;
  };
  for (const one& c : {one{1000, 4}, {6000, 1}, {60'000, 0}}) {
    SCOPED_TRACE(c.bytes);
    const table& t = make(c.bytes);
    const std::int64_t image = c.bytes + 8;  // and more; what they have less than two
    {
      const reader warm = base_.snapshot();  // has the thread's record made
    }
    const std::int64_t stays = grows([&] {
      const reader now = base_.snapshot();
      kept_rows rows;
      EXPECT_GE(grows([&] { rows = find(now, t, 20); }), 20 * image);
      expect_texts(rows, t, c.bytes);
      EXPECT_EQ(grows([&] { rows.clear(); }), 0) << "they stay for the reader";
      const std::int64_t more = grows([&] {
        for (int round = 0; round < 50; ++round) find(now, t, 4);
      });
      EXPECT_LE(more, 12 * image * 5 / 4) << "which uses them again";
    });
    EXPECT_GE(stays, c.stay * image);
    EXPECT_LE(stays, c.stay * image * 2) << "of all others the memory is gone";
    // The next reader has no more of them than it needs.
    EXPECT_EQ(grows([&] {
                const reader now = base_.snapshot();
                find(now, t, c.stay);
              }),
              0);
  }
}

/// They are the program's then, and their memory goes when they do, and the process looks.
TEST_F(image_bytes, of_rows_that_outlive_their_reader_are_not_its_own) {
  const table& t = make(1000);
  kept_rows rows;
  const std::int64_t stays = grows([&] {
    const reader now = base_.snapshot();
    rows = find(now, t, 30);
  });
  EXPECT_EQ(stays, 0);
  expect_texts(rows, t, 1000);
  // The next reader takes others.
  {
    const reader now = base_.snapshot();
    expect_texts(find(now, t, 30), t, 1000);
  }
  expect_texts(rows, t, 1000);
}

/// Rows of other widths on one shelf: each has room for what it shows, and the narrow images that
/// wider rows have made useless go.
TEST_F(image_bytes, are_as_wide_as_the_widest_needs) {
  table& t = base_.create_table(
      {.name = "two", .columns = {{"k", int64, primary_key}, {"a", text(1100)}, {"b", text(800)}}});
  const auto a_of = [](std::size_t k) {
    return std::string(1100, static_cast<char>('a' + k % 26));
  };
  const auto b_of = [](std::size_t k) { return std::string(800, static_cast<char>('A' + k % 26)); };
  ASSERT_TRUE(base_.transact([&](transaction& tx) {
    for (std::size_t k = 0; k < count; ++k) EXPECT_TRUE(tx.insert(t, {k, a_of(k), b_of(k)}));
  }));
  const auto a = t.column<std::string_view>("a");
  const auto b = t.column<std::string_view>("b");
  const selection part = t.select({"a"});
  const reader now = base_.snapshot();
  for (const std::int64_t rows : {count, count, std::int64_t{5}}) find(now, t, rows, part);
  EXPECT_LT(grows([&] {
              const kept_rows wide = find(now, t, 10);  // the narrow ones are known to be free
              for (std::size_t k = 0; k < wide.size(); ++k) EXPECT_EQ(wide[k]->get(b), b_of(k));
              for (int round = 0; round < 100; ++round) find(now, t, 2);
            }),
            0);
  for (int round = 0; round < 3; ++round) {
    for (int more = 0; more < 3; ++more) find(now, t, 30, part);
    const kept_rows narrow = find(now, t, 10, part);  // and others of its width are free
    const kept_rows wide = find(now, t, 10);
    const kept_rows again = find(now, t, 10, part);
    for (std::size_t k = 0; k < 10; ++k) {
      EXPECT_EQ(narrow[k]->get(a), a_of(k));
      EXPECT_EQ(wide[k]->get(a), a_of(k));
      EXPECT_EQ(wide[k]->get(b), b_of(k));
      EXPECT_EQ(again[k]->get(a), a_of(k));
    }
  }
}

/// A row that is kept has no more than it needs, whatever was read before it.
TEST_F(image_bytes, of_large_rows_are_as_wide_as_their_row) {
  const table& widest = make(60'000);
  const table& wide = make(36'000);
  const reader now = base_.snapshot();
  find(now, widest, 2);
  kept_rows rows;
  EXPECT_LE(grows([&] { rows = find(now, wide, 20); }), 20 * 40'000);
  expect_texts(rows, wide, 36'000);
}

}  // namespace
