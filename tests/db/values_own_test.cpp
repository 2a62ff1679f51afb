// SPDX-License-Identifier: Apache-2.0
// A value that is kept owns the text or blob of a temporary that it was made of, and so do its
// copies; of what has a name it is a view, and nothing is copied.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <spolia/db.hpp>

namespace {

using namespace spolia::db;

std::string long_text(char of) { return std::string(64, of); }
std::string_view text_of(const value& v) { return std::get<std::string_view>(v.what()); }

TEST(values_own, the_text_of_a_temporary) {
  const value v = long_text('a');
  const value small = std::string("b");
  const std::string filler = long_text('x');  // where a text that was given back would lie
  EXPECT_EQ(text_of(v), long_text('a'));
  EXPECT_EQ(text_of(small), "b");
}

TEST(values_own, nothing_of_what_has_a_name) {
  const std::string named = long_text('a');
  std::string changing = long_text('b');
  const value v = named;
  const value w = changing;
  const value copy = v;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(text_of(v).data(), named.data());
  EXPECT_EQ(text_of(w).data(), changing.data());
  EXPECT_EQ(text_of(copy).data(), named.data());
}

TEST(values_own, and_their_copies_their_own) {
  std::optional<value> first(long_text('a'));
  const value copy = *first;
  value assigned;
  assigned = *first;
  first.reset();
  EXPECT_EQ(text_of(copy), long_text('a'));
  EXPECT_EQ(text_of(assigned), long_text('a'));
  const value& same = assigned;
  assigned = same;
  EXPECT_EQ(text_of(assigned), long_text('a'));
  assigned = 7;
  EXPECT_EQ(std::get<std::int64_t>(assigned.what()), 7);
}

TEST(values_own, what_was_moved_is_null) {
  value from = std::string("short");
  const value to = std::move(from);
  EXPECT_TRUE(from.null());  // NOLINT(bugprone-use-after-move): said so
  EXPECT_EQ(text_of(to), "short");
}

TEST(values_own, in_vectors_that_grow) {
  std::vector<value> many;
  for (char c = 'a'; c <= 'z'; ++c) many.emplace_back(long_text(c));
  const std::vector<value> all = many;
  many.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(text_of(all[i]), long_text(static_cast<char>('a' + static_cast<int>(i))));
  }
}

TEST(values_own, a_copy_on_request) {
  std::string named = long_text('a');
  const value kept = value(named).owned();
  const value blob = value(blob_view(named)).owned();
  named.assign(named.size(), 'z');
  EXPECT_EQ(std::get<blob_view>(blob.what()).chars(), long_text('a'));
  EXPECT_EQ(text_of(kept), long_text('a'));
  EXPECT_TRUE(value().owned().null());
  EXPECT_EQ(std::get<std::int64_t>(value(3).owned().what()), 3);
}

TEST(values_own, bytes_of_a_temporary) {
  const std::vector<std::byte> named(64, std::byte{'a'});
  const value v = named;
  const value w = std::vector<std::byte>(64, std::byte{'b'});
  const value x = std::span<const std::byte>(named);
  EXPECT_EQ(std::get<blob_view>(v.what()).data(), named.data());
  EXPECT_EQ(std::get<blob_view>(x.what()).data(), named.data());
  EXPECT_EQ(std::get<blob_view>(w.what()).chars(), long_text('b'));
}

TEST(values_own, what_may_be_missing) {
  EXPECT_TRUE(value(std::nullopt).null());
  EXPECT_TRUE(value(std::monostate()).null());
  EXPECT_TRUE(value(static_cast<const char*>(nullptr)).null());
  EXPECT_TRUE(value(std::optional<std::int64_t>()).null());
  EXPECT_TRUE(value(std::optional<std::string>()).null());
  EXPECT_EQ(std::get<std::int64_t>(value(std::optional<int>(3)).what()), 3);
  EXPECT_EQ(std::get<bool>(value(std::optional<bool>(true)).what()), true);
  const std::optional<std::string> named = long_text('a');
  const value v = named;
  const value w = std::optional<std::string>(long_text('b'));
  EXPECT_EQ(text_of(v).data(), named->data());
  EXPECT_EQ(text_of(w), long_text('b'));
}

// A pointer is no bool.
static_assert(!std::is_constructible_v<value, const bool*>);
static_assert(!std::is_constructible_v<value, const unsigned char*>);
static_assert(!std::is_constructible_v<value, std::optional<void*>>);

struct texts_and_blobs {
  database base = database::open();
  table& t = base.create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}, {"s", text(100)}, {"b", blob()}}});
  column<std::string_view> s = t.column<std::string_view>("s");
  column<blob_view> b = t.column<blob_view>("b");

  texts_and_blobs() {
    const std::string bytes = long_text('c');
    const status done = base.transact(
        [&](transaction& tx) { return tx.insert(t, {1, long_text('a'), blob_view(bytes)}); });
    EXPECT_TRUE(done);
  }
};

TEST(values_own, what_rows_without_a_name_gave) {
  texts_and_blobs f;
  const value name = f.base.snapshot().find(f.t, {1})->get(f.s);
  const value blob = f.base.snapshot().find(f.t, {1})->get(f.b);
  const value by_layout = f.base.snapshot().find(f.t, {1})->get(f.t.layout().columns()[1]);
  const std::string filler = long_text('x');
  EXPECT_EQ(text_of(name), long_text('a'));
  EXPECT_EQ(std::get<blob_view>(blob.what()).chars(), long_text('c'));
  EXPECT_EQ(text_of(by_layout), long_text('a'));
}

TEST(values_own, of_one_row_into_another) {
  texts_and_blobs f;
  const status done = f.base.transact([&](transaction& tx) {
    return tx.insert(f.t, {2, tx.find(f.t, {1})->get(f.s), tx.find(f.t, {1})->get(f.b)});
  });
  ASSERT_TRUE(done);
  const reader now = f.base.snapshot();
  const auto found = now.find(f.t, {2});
  EXPECT_EQ(found->get(f.s), long_text('a'));
  EXPECT_EQ(found->get(f.b).chars(), long_text('c'));
}

/// In braces, kept one by one, or in a vector, an array or a span.
TEST(values_own, in_every_kind_of_call) {
  texts_and_blobs f;
  const auto bytes = [] { return std::vector<std::byte>(3); };
  const std::vector<value> kept = {20, long_text('k'), bytes()};
  const std::array<value, 3> fixed = {21, long_text('f'), bytes()};
  const value text = long_text('o');
  ASSERT_TRUE(f.base.transact([&](transaction& tx) {
    EXPECT_TRUE(tx.insert(f.t, kept));
    EXPECT_TRUE(tx.insert(f.t, fixed));
    EXPECT_TRUE(tx.insert(f.t, {22, text, bytes()}));
    EXPECT_TRUE(tx.insert(f.t, {23, std::optional(long_text('t')), bytes()}));
  }));
  const reader now = f.base.snapshot();
  std::int64_t k = 20;
  for (const char c : {'k', 'f', 'o', 't'}) {
    const auto found = now.find(f.t, values(std::vector<value>{k++}));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->get(f.s), long_text(c));
    EXPECT_EQ(found->get(f.b).size(), 3U);
  }
  const values all(kept);
  EXPECT_EQ(all.size(), 3U);
  EXPECT_EQ(&*all.begin(), static_cast<const argument*>(kept.data()));
  EXPECT_EQ(std::distance(all.begin(), all.end()), 3);
  EXPECT_TRUE(values().empty());
}

/// A value is longer than an argument: where there are several, each is found.
TEST(values_own, that_lie_one_after_the_other) {
  texts_and_blobs f;
  const std::vector<value> kept = {30, long_text('k'), blob_view()};
  const std::vector<argument> many = {31, "many", blob_view()};
  const std::array<argument, 3> fixed = {32, "fixed", blob_view()};
  const argument plain[] = {33, "plain", blob_view()};  // NOLINT(modernize-avoid-c-arrays)
  ASSERT_TRUE(f.base.transact([&](transaction& tx) {
    EXPECT_TRUE(tx.insert(f.t, values(kept.data(), kept.size())));
    EXPECT_TRUE(tx.insert(f.t, many));
    EXPECT_TRUE(tx.insert(f.t, fixed));
    EXPECT_TRUE(tx.insert(f.t, plain));
    EXPECT_EQ(tx.insert(f.t, std::span<const argument>(fixed)), outcome::duplicate_key);
  }));
  std::vector<std::string> found;
  f.base.snapshot().for_each(f.t, [&](const row& r) { found.emplace_back(r.get(f.s)); });
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, std::vector({long_text('a'), std::string("fixed"), long_text('k'),
                                std::string("many"), std::string("plain")}));
}

TEST(values_own, bytes_of_every_kind) {
  std::array<std::byte, 3> fixed = {std::byte{1}, std::byte{2}, std::byte{3}};
  const std::vector<std::byte> many(50, std::byte{4});
  const auto bytes_of = [](const argument& a) {
    const blob_view shown = std::get<blob_view>(a.what());
    return std::vector<std::byte>(shown.data(), shown.data() + shown.size());
  };
  EXPECT_EQ(bytes_of(fixed), std::vector<std::byte>(fixed.begin(), fixed.end()));
  EXPECT_EQ(bytes_of(std::span(fixed).subspan(1)), std::vector({fixed[1], fixed[2]}));
  EXPECT_EQ(bytes_of(many), many);
  const value named = fixed;
  const value of_span = std::span(fixed);
  const value owned = std::array(fixed);
  const value owned_too = std::vector(many);
  fixed[0] = std::byte{9};
  EXPECT_EQ(bytes_of(named)[0], std::byte{9});
  EXPECT_EQ(bytes_of(of_span)[0], std::byte{9});
  EXPECT_EQ(bytes_of(owned)[0], std::byte{1});
  EXPECT_EQ(bytes_of(owned_too), many);
}

TEST(values_own, instants_in_larger_units) {
  using namespace std::chrono;
  const auto is = [](const argument& a) { return std::get<instant>(a.what()); };
  const sys_days day = 2026y / November / 28;
  EXPECT_EQ(to_text(is(day)), "2026-11-28T00:00:00Z");
  EXPECT_EQ(is(day + 3s), instant_of("2026-11-28T00:00:03Z"));
  EXPECT_EQ(is(std::optional(day + 3ms)), instant_of("2026-11-28T00:00:00.003Z"));
  static_assert(!std::is_constructible_v<argument, sys_time<nanoseconds>>, "it would be rounded");
}

/// Else the old text would become the new one under the view.
TEST(values_own, what_an_editor_says) {
  texts_and_blobs f;
  const status done = f.base.transact([&](transaction& tx) -> status {
    auto e = tx.edit(f.t, {1});
    if (!e) return e.why();
    const auto name = e->get(f.s);
    const value by_layout = e->get(f.t.layout().columns()[1]);
    static_assert(!std::is_convertible_v<decltype(e->get(f.s)), std::string_view>);
    if (status s = e->set(f.s, "another one"); !s) return s;
    EXPECT_EQ(name, long_text('a'));
    EXPECT_EQ(text_of(by_layout), long_text('a'));
    EXPECT_EQ(e->get(f.s), "another one");
    return tx.insert(f.t, {2, name, e->get(f.b)});
  });
  ASSERT_TRUE(done);
  EXPECT_EQ(f.base.snapshot().find(f.t, {2})->get(f.s), long_text('a'));
}

/// Without a copy, and what the function returns comes back.
TEST(values_own, what_an_editor_shows) {
  texts_and_blobs f;
  transaction tx = f.base.begin();
  auto e = tx.edit(f.t, {1});
  ASSERT_TRUE(e);
  const auto first = [](std::string_view text) -> const char& { return text.front(); };
  static_assert(std::is_same_v<decltype(e->visit(f.s, first)), const char&>);
  EXPECT_EQ(e->visit(f.s, first), 'a');
  EXPECT_EQ(&e->visit(f.s, first), &e->visit(f.s, first)) << "no copy";
  const std::size_t bytes = e->visit(f.b, [](blob_view b) { return b.size(); });
  EXPECT_EQ(bytes, e->get(f.b).size());
  ASSERT_TRUE(e->set(f.s, "another one"));
  e->visit(f.s, [&](std::string_view text) {
    for (std::int64_t k = 10; k < 1000; ++k) {
      ASSERT_TRUE(tx.insert(f.t, {k, text, blob_view()}));  // which leave the row where it is
    }
    EXPECT_EQ(text, "another one");
  });
  EXPECT_EQ(tx.find(f.t, {999})->get(f.s), "another one");
}

TEST(results, that_are_ok_have_a_value) {
  texts_and_blobs f;
  EXPECT_THROW((void)result<int>(outcome::ok), std::invalid_argument);
  EXPECT_THROW((void)result<int>(status()), std::invalid_argument);
  EXPECT_THROW((void)f.base.transact([&](transaction& tx) -> result<int> {
    auto e = tx.edit(f.t, {1});
    if (!e) return e.why();
    return e->set(f.s, "written");  // the value was forgotten
  }),
               std::invalid_argument);
  EXPECT_EQ(f.base.snapshot().find(f.t, {1})->get(f.s), long_text('a'));
}

}  // namespace
