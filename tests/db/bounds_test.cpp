// SPDX-License-Identifier: Apache-2.0
// Keys and ends of ranges in each form that a program may have them in, and in any two together.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

namespace {

using namespace spolia::db;

class ends_of_keys : public testing::Test {
 protected:
  ends_of_keys() {
    EXPECT_TRUE(base_.transact([&](transaction& tx) {
      for (std::int64_t n = 0; n < 10; ++n)
        EXPECT_TRUE(tx.insert(t_, {n, "n" + std::to_string(n)}));
    }));
  }

  /// Shows the numbers that a scan shows.
  struct shown {
    const table& of;
    std::string& to;
    void operator()(const row& r) const {
      to += std::to_string(r.get(of.column<std::int64_t>("n")));
    }
  };
  /// What `scan(f)` shows, f being what it gives rows to.
  template <class Scan>
  std::string all_of(Scan&& scan) const {
    std::string got;
    scan(shown{t_, got});
    return got;
  }

  static std::vector<value> kept_of(value v) {
    std::vector<value> kept;
    kept.push_back(std::move(v));
    return kept;
  }

  database base_ = database::open();
  table& t_ = base_.create_table({.name = "t",
                                  .columns = {{"n", int64, primary_key}, {"name", text(8)}},
                                  .primary = index_kind::ordered,
                                  .indexes = {{"by_name", {"name"}}}});
  const secondary& by_name_ = t_.index("by_name");
};

/// From 2 to 5, each in each form.
TEST_F(ends_of_keys, may_be_of_any_two_forms) {
  const reader r = base_.snapshot();
  const std::vector<value> from_kept = {2};
  const std::vector<value> to_kept = {5};
  const std::array<argument, 1> from_array = {2};
  const std::array<argument, 1> to_array = {5};
  const std::span<const value> from_span = from_kept;
  const std::span<const value> to_span = to_kept;
  const value two = 2;
  std::vector<std::string> got;
  const auto note = [&](auto&& scan) { got.push_back(all_of(scan)); };
  note([&](auto f) { r.scan(t_, {2}, {5}, f); });
  note([&](auto f) { r.scan(t_, {2}, to_kept, f); });
  note([&](auto f) { r.scan(t_, {2}, to_span, f); });
  note([&](auto f) { r.scan(t_, {2}, to_array, f); });
  note([&](auto f) { r.scan(t_, {2}, values(to_kept), f); });
  note([&](auto f) { r.scan(t_, {2}, 5, f); });
  note([&](auto f) { r.scan(t_, from_kept, {5}, f); });
  note([&](auto f) { r.scan(t_, from_kept, to_kept, f); });
  note([&](auto f) { r.scan(t_, from_kept, to_span, f); });
  note([&](auto f) { r.scan(t_, from_kept, 5, f); });
  note([&](auto f) { r.scan(t_, from_span, {5}, f); });
  note([&](auto f) { r.scan(t_, from_span, to_array, f); });
  note([&](auto f) { r.scan(t_, from_span, 5, f); });
  note([&](auto f) { r.scan(t_, from_array, {5}, f); });
  note([&](auto f) { r.scan(t_, from_array, values(to_span), f); });
  note([&](auto f) { r.scan(t_, {from_kept}, {to_array}, f); });
  note([&](auto f) { r.scan(t_, kept_of(2), kept_of(5), f); });
  note([&](auto f) { r.scan(t_, two, {5}, f); });
  note([&](auto f) { r.scan(t_, 2U, to_kept, f); });
  note([&](auto f) { r.scan(t_, argument(2), to_span, f); });
  note([&](auto f) { r.scan(t_, std::int8_t{2}, std::uint64_t{5}, f); });
  note([&](auto f) { r.scan(t_, std::optional(2), value(5), f); });
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], "2345") << "form " << i;
  EXPECT_EQ(all_of([&](auto f) { r.scan_down(t_, from_kept, 5, f); }), "5432");
  EXPECT_EQ(all_of([&](auto f) { r.scan_down(t_, {2}, to_span, f); }), "5432");
  // No limit is a bound, too.
  EXPECT_EQ(all_of([&](auto f) { r.scan(t_, {}, 3, f); }), "0123");
  EXPECT_EQ(all_of([&](auto f) { r.scan(t_, 7, {}, f); }), "789");
  EXPECT_EQ(all_of([&](auto f) { r.scan(t_, values(), to_kept, f); }), "012345");
  EXPECT_THROW(r.scan(t_, ~std::uint64_t{0}, {}, [](const row&) {}), std::invalid_argument);
}

TEST_F(ends_of_keys, may_be_texts_of_any_kind) {
  const reader r = base_.snapshot();
  const std::string text = "n3";
  const std::string_view view = text;
  const std::vector<value> kept = {"n5"};
  EXPECT_EQ(all_of([&](auto f) { r.scan(by_name_, "n3", {"n5"}, f); }), "345");
  EXPECT_EQ(all_of([&](auto f) { r.scan(by_name_, text, kept, f); }), "345");
  EXPECT_EQ(all_of([&](auto f) { r.scan(by_name_, view, std::string("n5"), f); }), "345");
  EXPECT_EQ(all_of([&](auto f) { r.scan(by_name_, {text}, std::span(kept), f); }), "345");
  EXPECT_EQ(all_of([&](auto f) { r.scan_down(by_name_, value("n3"), kept, f); }), "543");
  EXPECT_EQ(all_of([&](auto f) { r.scan_down(by_name_, std::string("n3"), {"n5"}, f); }), "543");
}

TEST_F(ends_of_keys, and_keys_may_be_single_values) {
  const reader r = base_.snapshot();
  const std::vector<value> kept = {4};
  const std::vector<assignment> changes = {{"name", "new"}};
  const selection numbers = t_.select({"n"});
  EXPECT_TRUE(r.find(t_, 4));
  EXPECT_TRUE(r.find(t_, value(4), numbers));
  EXPECT_TRUE(r.find(t_, kept));
  EXPECT_TRUE(r.find(t_, {4}, numbers));
  EXPECT_TRUE(r.find(t_, std::span(kept)));
  EXPECT_EQ(r.find(t_, 40).why(), outcome::not_found);
  transaction tx = base_.begin();
  EXPECT_TRUE(tx.lock(t_, 4));
  EXPECT_TRUE(tx.lock(t_, kept));
  EXPECT_TRUE(tx.edit(t_, 4)->set(t_.column<std::string_view>("name"), "four"));
  EXPECT_TRUE(tx.update(t_, 4, {{"name", "4"}}));
  EXPECT_TRUE(tx.update(t_, 4, changes));
  EXPECT_TRUE(tx.update(t_, {4}, changes));
  EXPECT_TRUE(tx.update(t_, kept, {{"name", "four"}}));
  EXPECT_TRUE(tx.update(t_, std::span(kept), changes));
  EXPECT_EQ(tx.find(t_, 4)->get(t_.column<std::string_view>("name")), "new");
  EXPECT_TRUE(tx.erase(t_, 4));
  EXPECT_EQ(tx.erase(t_, kept), outcome::not_found);
  EXPECT_TRUE(tx.erase(t_, value(5)));
  EXPECT_FALSE(tx.find(t_, 5));
}

/// A text takes as many words of a key as its column has, and what comes after it counts.
TEST_F(ends_of_keys, of_several_columns_have_room_for_each) {
  for (const index_kind kind : {index_kind::ordered, index_kind::hash}) {
    table& of = base_.create_table({.name = kind == index_kind::hash ? "hashed" : "ordered",
                                    .columns = {{"word", text(24), primary_key},
                                                {"n", int64, primary_key},
                                                {"end", text(10), primary_key},
                                                {"v", int64}},
                                    .primary = kind,
                                    .indexes = {{"back", {"end", "word"}, true}}});
    const std::vector<std::string> words = {"a", "the same beginning 1", "the same beginning 2"};
    const std::vector<std::string> ends = {"", "longer 0123"};
    std::int64_t v = 0;
    for (const std::string& w : words) {
      const std::string e = ends[static_cast<std::size_t>(v % 2)].substr(0, 10);
      ASSERT_TRUE(base_.transact([&](transaction& tx) { return tx.insert(of, {w, v, e, v}); }));
      ++v;
    }
    const reader r = base_.snapshot();
    for (std::int64_t i = 0; i < v; ++i) {
      const std::string& w = words[static_cast<std::size_t>(i)];
      const std::string e = ends[static_cast<std::size_t>(i % 2)].substr(0, 10);
      const auto found = r.find(of, {w, i, e});
      ASSERT_TRUE(found) << w;
      EXPECT_EQ(found->get(of.column<std::int64_t>("v")), i);
      EXPECT_FALSE(r.find(of, {w, i + 1, e}));
      EXPECT_FALSE(r.find(of, {w, i, "other"}));
      int rows = 0;
      r.scan(of.index("back"), {e, w}, {e, w}, [&](const row&) { ++rows; });
      EXPECT_EQ(rows, 1) << w;
      if (kind == index_kind::ordered) {
        rows = 0;
        r.scan(of, {w, i}, w, [&](const row&) { ++rows; });
        EXPECT_EQ(rows, 1) << w;
      }
    }
  }
}

}  // namespace
