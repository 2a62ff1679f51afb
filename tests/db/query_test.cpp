// SPDX-License-Identifier: Apache-2.0
// Filters, sums and groups at a snapshot, against what a program makes of the rows one by one.

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "db/storages.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace std::chrono_literals;

constexpr auto least = std::numeric_limits<std::int64_t>::min();
constexpr auto most = std::numeric_limits<std::int64_t>::max();

/// Columns of all types, some of them null.
struct sales {
  struct sale {
    std::int64_t id = 0;
    std::optional<std::int64_t> qty{};
    std::optional<double> price{};
    bool paid = false;
    std::string town{};
    std::optional<std::string> note{};
  };

  explicit sales(std::int64_t count = 0) {
    test::rng random(7);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto small = static_cast<std::int64_t>(random.below(20)) - 10;
      sale s{.id = i,
             .qty = small,
             .price = static_cast<double>(small) / 4,
             .paid = random.chance(1, 2),
             .town = std::string(random.below(12), static_cast<char>('a' + random.below(3))),
             .note = "n" + std::to_string(random.below(4))};
      if (random.chance(1, 5)) s.qty.reset();
      if (random.chance(1, 5)) s.price.reset();
      if (random.chance(1, 2)) s.note.reset();
      put(s);
    }
  }
  void put(const sale& s) {
    const auto of = [](const auto& v) { return v ? value(*v) : value(); };
    ASSERT_TRUE(base.transact([&](transaction& tx) {
      return tx.insert(t, {s.id, of(s.qty), of(s.price), s.paid, s.town, of(s.note)});
    }));
    rows.push_back(s);
  }

  database base = database::open();
  table& t = base.create_table({.name = "sales",
                                .columns = {{"id", int64, primary_key},
                                            {"qty", int64, nullable},
                                            {"price", float64, nullable},
                                            {"paid", boolean},
                                            {"town", text(12)},
                                            {"note", text(30), nullable}}});
  std::vector<sale> rows;
};

bool holds(std::partial_ordering o, comparison how) {
  switch (how) {
    case equal:
      return o == 0;
    case unequal:
      return o != 0;
    case less:
      return o < 0;
    case less_equal:
      return o <= 0;
    case greater:
      return o > 0;
    case greater_equal:
      return o >= 0;
  }
  return false;
}
constexpr comparison every_comparison[] = {equal,      unequal, less,
                                           less_equal, greater, greater_equal};

std::int64_t rows_of(const query& q, const query_options& o = {}) {
  return query(q).aggregate(count()).run(o).value().get<std::int64_t>(0, 0);
}

TEST(queries, filters_do_what_comparisons_do) {
  const sales s(3000);
  const reader now = s.base.snapshot();
  const auto expect = [&](const query& q, auto&& f) {
    const auto wanted = std::count_if(s.rows.begin(), s.rows.end(), f);
    EXPECT_EQ(rows_of(q), wanted);
    EXPECT_EQ(rows_of(q, {.threads = 3, .morsel = 100}), wanted);
  };
  for (const comparison how : every_comparison) {
    for (const std::int64_t x : {-11, -10, 0, 9, 10}) {
      expect(now.query(s.t).where("qty", how, x),
             [&](const auto& r) { return r.qty && holds(*r.qty <=> x, how); });
      const double d = static_cast<double>(x) / 4;
      expect(now.query(s.t).where("price", how, d),
             [&](const auto& r) { return r.price && holds(*r.price <=> d, how); });
    }
    for (const std::int64_t x : {least, most}) {
      expect(now.query(s.t).where("qty", how, x),
             [&](const auto& r) { return r.qty && holds(*r.qty <=> x, how); });
    }
    for (const bool x : {false, true}) {
      expect(now.query(s.t).where("paid", how, x),
             [&](const auto& r) { return holds(r.paid <=> x, how); });
    }
    for (const std::string x : {"", "a", "bbbb", "zz"}) {
      expect(now.query(s.t).where("town", how, x),
             [&](const auto& r) { return holds(r.town <=> x, how); });
    }
  }
  expect(now.query(s.t).where_null("note"), [](const auto& r) { return !r.note; });
  expect(now.query(s.t).where_not_null("qty"), [](const auto& r) { return r.qty.has_value(); });
  expect(now.query(s.t).where_null("town"), [](const auto&) { return false; });
  expect(now.query(s.t)
             .where("qty", greater, 0)
             .where("town", less, "b")
             .where("paid", equal, true)
             .where_null("note"),
         [](const auto& r) { return r.qty && *r.qty > 0 && r.town < "b" && r.paid && !r.note; });
  expect(
      now.query(s.t)
          .where(s.t.column<std::int64_t>("qty"), [](std::int64_t q) { return q % 3 == 0; })
          .where(s.t.column<std::string_view>("town"),
                 [](std::string_view t) { return t.size() % 2 == 1; })
          .where(s.t.column<bool>("paid"), [](bool p) { return !p; }),
      [](const auto& r) { return r.qty && *r.qty % 3 == 0 && r.town.size() % 2 == 1 && !r.paid; });
}

TEST(queries, groups_are_those_of_a_map) {
  const sales s(4000);
  struct sums {
    std::int64_t rows = 0, present = 0, sum = 0;
    std::optional<double> low, high;
    std::optional<std::string> first, last;
  };
  std::map<std::pair<std::string, std::optional<std::int64_t>>, sums> wanted;
  for (const auto& r : s.rows) {
    sums& g = wanted[{r.town, r.qty}];
    ++g.rows;
    g.sum += r.qty.value_or(0);
    if (r.price) {
      ++g.present;
      g.low = std::min(g.low.value_or(*r.price), *r.price);
      g.high = std::max(g.high.value_or(*r.price), *r.price);
    }
    if (r.note) {
      g.first = std::min(g.first.value_or(*r.note), *r.note);
      g.last = std::max(g.last.value_or(*r.note), *r.note);
    }
  }
  const reader now = s.base.snapshot();
  const query q = now.query(s.t)
                      .group_by("town", s.t.column<std::int64_t>("qty"))
                      .aggregate(count(), count("price"), sum("qty"), min("price"), max("price"))
                      .aggregate(min("note"), max("note"), avg("price"));
  for (const std::uint32_t threads : {1U, 4U}) {
    const answer a = q.run({.threads = threads, .morsel = 64}).value();
    ASSERT_EQ(a.size(), wanted.size());
    ASSERT_EQ(a.columns(), 10U);
    EXPECT_EQ(a.name(1), "qty");
    EXPECT_EQ(a.name(9), "avg(price)");
    std::size_t i = 0;
    for (const auto& [key, g] : wanted) {  // ascending, as the answer is
      EXPECT_EQ(a.get<std::string_view>(i, 0), key.first);
      EXPECT_EQ(a.null(i, 1), !key.second);
      EXPECT_EQ(a.get<std::int64_t>(i, 1), key.second.value_or(0));
      EXPECT_EQ(a.get<std::int64_t>(i, 2), g.rows);
      EXPECT_EQ(a.get<std::int64_t>(i, 3), g.present);
      EXPECT_EQ(a.null(i, 4), !key.second) << "a sum of nulls";
      EXPECT_EQ(a.get<std::int64_t>(i, 4), g.sum);
      EXPECT_EQ(a.null(i, 5), !g.low);
      EXPECT_EQ(a.get<double>(i, 5), g.low.value_or(0));
      EXPECT_EQ(a.get<double>(i, 6), g.high.value_or(0));
      EXPECT_EQ(a.get<std::string_view>(i, 7), g.first.value_or(""));
      EXPECT_EQ(a.get<std::string_view>(i, 8), g.last.value_or(""));
      EXPECT_EQ(a.null(i, 9), g.present == 0);
      ++i;
    }
  }
}

TEST(queries, many_groups) {
  sales s;
  constexpr std::int64_t keys = 20000;
  for (std::int64_t from = 0; from < keys; from += 1000) {
    ASSERT_TRUE(s.base.transact([&](transaction& tx) -> status {
      for (std::int64_t i = from; i < from + 1000; ++i) {
        if (const status done = tx.insert(s.t, {i * 7919 % keys, i, nullptr, true, "", nullptr});
            !done) {
          return done;
        }
      }
      return outcome::ok;
    }));
  }
  const reader now = s.base.snapshot();
  const auto a =
      now.query(s.t).group_by("id").aggregate(sum("qty")).run({.threads = 3, .morsel = 1000});
  ASSERT_EQ(a->size(), std::size_t{keys});
  for (std::int64_t i = 0; i < keys; ++i) {
    ASSERT_EQ(a->get<std::int64_t>(static_cast<std::size_t>(i), 0), i);
  }
  EXPECT_EQ(a->figures().rows, std::uint64_t{keys});
}

TEST(queries, nothing_in_it) {
  sales s;
  const reader now = s.base.snapshot();
  const auto a = now.query(s.t).aggregate(count(), sum("qty"), min("town"), avg("price")).run();
  ASSERT_EQ(a->size(), 1U);
  EXPECT_EQ(a->get<std::int64_t>(0, 0), 0);
  for (std::size_t c = 1; c < 4; ++c) EXPECT_TRUE(a->null(0, c));
  EXPECT_TRUE(a->at(0, 1).null());
  EXPECT_EQ(now.query(s.t).group_by("town").aggregate(count()).run()->size(), 0U);
}

TEST(queries, sums_that_do_not_fit) {
  sales s;
  for (std::int64_t i = 0; i < 40; ++i) {
    s.put({.id = i, .qty = i % 2 == 0 ? most : i < 20 ? most : least, .price = {}, .paid = true});
  }
  const reader now = s.base.snapshot();
  const auto all = now.query(s.t).aggregate(sum("qty"), avg("qty")).run();
  EXPECT_THROW(static_cast<void>(all->get<std::int64_t>(0, 0)), std::overflow_error);
  EXPECT_THROW(static_cast<void>(all->at(0, 0)), std::overflow_error);
  EXPECT_DOUBLE_EQ(all->get<double>(0, 0), 20 * 9223372036854775807.0);
  EXPECT_DOUBLE_EQ(all->get<double>(0, 1), 9223372036854775807.0 / 2);
  // Too much on the way, and not in the end.
  const auto some = now.query(s.t).where("id", greater_equal, 20).aggregate(sum("qty")).run();
  EXPECT_EQ(some->get<std::int64_t>(0, 0), -10);
  const auto low = now.query(s.t).where("qty", equal, least).aggregate(sum("qty")).run();
  EXPECT_THROW(static_cast<void>(low->get<std::int64_t>(0, 0)), std::overflow_error);
  EXPECT_DOUBLE_EQ(low->get<double>(0, 0), -10 * 9223372036854775808.0);
}

TEST(queries, sums_of_doubles) {
  sales s;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < 3000; ++i) {
    s.put({.id = i, .qty = i / 1000, .price = i % 3 == 0 ? 1e16 : i % 3 == 1 ? 0.1 : -1e16});
  }
  s.put({.id = 5000, .qty = 7, .price = infinity});
  s.put({.id = 5001, .qty = 7, .price = 1});
  s.put({.id = 5002, .qty = 8, .price = -std::nan("")});
  s.put({.id = 5003, .qty = 8, .price = -infinity});
  s.put({.id = 5004, .qty = 9, .price = std::nan("")});
  s.put({.id = 5005, .qty = 9, .price = infinity});
  const reader now = s.base.snapshot();
  for (const std::uint32_t threads : {1U, 3U}) {
    const query_options o{.threads = threads, .morsel = 8};
    const auto plain = now.query(s.t).where("qty", less, 3).aggregate(sum("price")).run(o);
    EXPECT_NEAR(plain->get<double>(0, 0), 100, 1e-9) << "nothing is lost beside 1e16";
    const auto odd = now.query(s.t)
                         .where("qty", greater, 3)
                         .group_by("qty")
                         .aggregate(sum("price"), min("price"), max("price"))
                         .run(o);
    ASSERT_EQ(odd->size(), 3U);
    EXPECT_EQ(odd->get<double>(0, 1), infinity);
    EXPECT_EQ(odd->get<double>(0, 2), 1);
    EXPECT_EQ(odd->get<double>(1, 2), -infinity);
    EXPECT_TRUE(std::isnan(odd->get<double>(1, 3))) << "above all, whatever its sign";
    EXPECT_EQ(odd->get<double>(2, 2), infinity);
    EXPECT_TRUE(std::isnan(odd->get<double>(2, 3)));
  }
}

TEST(queries, mistakes_are_told) {
  sales s(10);
  const reader now = s.base.snapshot();
  query q = now.query(s.t);
  const auto wrong = [](auto&& f) { EXPECT_THROW(f(), std::invalid_argument); };
  wrong([&] { q.where("nothing", equal, 1); });
  wrong([&] { q.where("qty", equal, "text"); });
  wrong([&] { q.where("qty", equal, nullptr); });
  EXPECT_THROW(q.where("town", equal, std::string(13, 'x')), no_result);
  wrong([&] { q.group_by("nothing"); });
  wrong([&] { q.aggregate(sum("town")); });
  wrong([&] { q.aggregate(avg("paid")); });
  wrong([&] { static_cast<void>(q.run()); });
  table& other = s.base.create_table(
      {.name = "other", .columns = {{"k", text(8), primary_key}, {"x", text(90)}}});
  wrong([&] { q.where_null(other.column<std::string_view>("x")); });
  q.aggregate(count(), min("town"));
  wrong([&] { static_cast<void>(q.run({.morsel = 0})); });
  const auto a = q.run();
  wrong([&] { static_cast<void>(a->get<std::string_view>(0, 0)); });
  wrong([&] { static_cast<void>(a->get<double>(0, 0)); });
  wrong([&] { static_cast<void>(a->at(1, 0)); });
  wrong([&] { static_cast<void>(a->at(0, 2)); });
  EXPECT_EQ(a->get<std::int64_t>(0, 0), 10) << "what was refused has changed nothing";
}

TEST(queries, a_column_that_is_read_as_another_type_says_its_own) {
  sales s(10);
  const reader now = s.base.snapshot();
  const auto a = now.query(s.t).group_by("town").aggregate(count(), sum("id"), avg("id")).run();
  const auto said = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const std::string other = " It is read as another: at() gives any";
  EXPECT_EQ(said([&] { static_cast<void>(a->get<double>(0, 1)); }),
            "spolia::db: column count of the answer has type std::int64_t." + other);
  EXPECT_EQ(said([&] { static_cast<void>(a->get<bool>(0, 2)); }),
            "spolia::db: column sum(id) of the answer has type std::int64_t, and may be read as "
            "double." +
                other);
  EXPECT_EQ(said([&] { static_cast<void>(a->get<std::int64_t>(0, 3)); }),
            "spolia::db: column avg(id) of the answer has type double." + other);
  EXPECT_EQ(said([&] { static_cast<void>(a->get<double>(0, 2)); }), "");
}

TEST(queries, what_a_condition_throws_comes_out) {
  sales s(300);
  const reader now = s.base.snapshot();
  const auto f = [](std::int64_t id) -> bool {
    if (id == 200) throw std::out_of_range("200");
    return true;
  };
  const query q = now.query(s.t).where(s.t.column<std::int64_t>("id"), f).aggregate(count());
  for (const std::uint32_t threads : {1U, 4U}) {
    EXPECT_THROW(static_cast<void>(q.run({.threads = threads, .morsel = 8})), std::out_of_range);
  }
  EXPECT_EQ(rows_of(now.query(s.t)), 300);
}

/// Others read what would be changed.
TEST(queries, a_condition_does_not_change_or_end_the_transaction_that_asks) {
  sales s(300);
  transaction tx = s.base.begin();
  ASSERT_TRUE(tx.erase(s.t, {7}));
  int calls = 0;
  const auto refused = [&](auto&& f) { EXPECT_THROW(f(), std::invalid_argument); };
  const auto f = [&](std::int64_t) {
    if (calls++ != 0) return true;
    refused([&] { static_cast<void>(tx.erase(s.t, {8})); });
    refused([&] { static_cast<void>(tx.commit()); });
    refused([&] { tx.rollback(); });
    return true;
  };
  const query q = tx.query(s.t).where(s.t.column<std::int64_t>("id"), f).aggregate(count());
  EXPECT_EQ(q.run({.threads = 1})->get<std::int64_t>(0, 0), 299);
  EXPECT_EQ(calls, 299);
  EXPECT_TRUE(tx.commit()) << "it goes on";
  EXPECT_EQ(rows_of(s.base.snapshot().query(s.t)), 299);
}

TEST(queries, threads_that_do_not_come) {
  sales s(1000);
  const reader now = s.base.snapshot();
  const query q = now.query(s.t).aggregate(sum("id"));
  const auto sum_with = [&](auto&& lend) {
    const result<answer> a = q.run({.threads = 4, .lend = lend, .morsel = 8});
    EXPECT_EQ(a->get<std::int64_t>(0, 0), 1000 * 999 / 2);
    return a->figures().threads;
  };
  int asked = 0;
  EXPECT_EQ(
      sum_with([&](std::function<void()>) {
        ++asked;
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
      }),
      1U);
  EXPECT_EQ(asked, 1) << "it is not asked again";
  std::vector<std::function<void()>> late;
  EXPECT_EQ(sum_with([&](std::function<void()> f) { late.push_back(std::move(f)); }), 1U);
  ASSERT_EQ(late.size(), 3U);
  for (auto& f : late) f();  // the query is over: nothing happens
  std::vector<std::thread> mine;
  EXPECT_GE(sum_with([&](std::function<void()> f) { mine.emplace_back(std::move(f)); }), 1U);
  for (std::thread& t : mine) t.join();
  EXPECT_GE(sum_with(nullptr), 1U);
}

TEST(queries, are_stopped) {
  sales s(2000);
  const reader now = s.base.snapshot();
  stop_source source;
  const auto id = s.t.column<std::int64_t>("id");
  const query told = now.query(s.t).aggregate(count()).where(id, [&](std::int64_t i) {
    if (i == 500) source.request_stop();
    return true;
  });
  EXPECT_EQ(told.run({.threads = 2, .stop = source.get_token(), .morsel = 8}).code(),
            outcome::stopped);
  const query slow = now.query(s.t).aggregate(count()).where(id, [](std::int64_t i) {
    if (i % 64 == 0) std::this_thread::sleep_for(1ms);
    return true;
  });
  EXPECT_EQ(slow.run({.threads = 2, .longest = 3ms, .morsel = 8}).code(), outcome::stopped);
  EXPECT_TRUE(slow.run({.longest = 1min})) << "the reader goes on";
}

/// Ended in the midst of the query, by a collection that does not wait for it.
TEST(queries, the_reader_is_ended) {
  sales s(2000);
  const reader now = s.base.snapshot({.label = "report", .deadline = 1ms});
  ASSERT_EQ(s.base.readers().size(), 1U);
  EXPECT_EQ(s.base.readers()[0].label, "report");
  const auto id = s.t.column<std::int64_t>("id");
  const query q = now.query(s.t).aggregate(count()).where(id, [&](std::int64_t i) {
    if (i == 1000) {
      std::this_thread::sleep_for(3ms);
      s.base.collect();
    }
    return true;
  });
  EXPECT_EQ(q.run({.threads = 1, .morsel = 8}).code(), outcome::ended_by_policy);
  EXPECT_TRUE(now.ended());
  EXPECT_EQ(rows_of(s.base.snapshot().query(s.t)), 2000);
}

TEST(queries, transactions_see_their_own_changes) {
  sales s(100);
  transaction tx = s.base.begin({.isolation = isolation::serializable});
  ASSERT_TRUE(tx.erase(s.t, {1}));
  ASSERT_TRUE(tx.update(s.t, {2}, {{"town", "here"}}));
  ASSERT_TRUE(tx.insert(s.t, {1000, 1, nullptr, true, "here", nullptr}));
  ASSERT_TRUE(tx.insert(s.t, {1001, 1, nullptr, true, "here", nullptr}));
  const query q = tx.query(s.t).where("town", equal, "here");
  EXPECT_EQ(rows_of(tx.query(s.t), {.threads = 3, .morsel = 8}), 101);
  EXPECT_EQ(rows_of(q), 3);
  EXPECT_EQ(rows_of(s.base.snapshot().query(s.t)), 100);
  // It has read the whole table, so any later change of that is a conflict.
  ASSERT_TRUE(s.base.transact([&](transaction& other) { return other.erase(s.t, {50}); }));
  EXPECT_EQ(tx.commit(), outcome::conflict);
  EXPECT_EQ(query(q).aggregate(count()).run().code(), outcome::conflict);
}

TEST(queries, decimals_times_and_long_values) {
  database base = database::open();
  table& bills = base.create_table({.name = "bills",
                                    .columns = {{"id", int64, primary_key},
                                                {"sum", decimal(2)},
                                                {"at", timestamp},
                                                {"letter", text(), nullable}}});
  const auto put = [&](std::int64_t id, const char* amount, std::int64_t at, const value& letter) {
    return base.transact([&](transaction& tx) {
      return tx.insert(bills, {id, decimal_number(amount), instant_at(at), letter});
    });
  };
  const std::string letter(1000, 'x');
  ASSERT_TRUE(put(1, "0.10", 5, letter));
  ASSERT_TRUE(put(2, "0.20", -7, nullptr));
  ASSERT_TRUE(put(3, "-1.05", 6, letter));
  const reader now = base.snapshot();
  const auto all = now.query(bills)
                       .aggregate(sum("sum"), avg("sum"), min("at"), max("sum"), count("letter"))
                       .run();
  ASSERT_TRUE(all);
  EXPECT_EQ(all->get<decimal_number>(0, 0), decimal_number("-0.75"));
  EXPECT_DOUBLE_EQ(all->get<double>(0, 0), -0.75);
  EXPECT_DOUBLE_EQ(all->get<double>(0, 1), -0.25);
  EXPECT_EQ(all->get<instant>(0, 2), instant_at(-7));
  EXPECT_EQ(all->get<decimal_number>(0, 3), decimal_number("0.2"));
  EXPECT_EQ(all->get<std::int64_t>(0, 4), 2);
  EXPECT_EQ(rows_of(now.query(bills).where("sum", less, decimal_number("0.15"))), 2);
  EXPECT_EQ(rows_of(now.query(bills).where("at", greater, instant_at(0))), 2);
  EXPECT_EQ(rows_of(now.query(bills).where_null("letter")), 1);
  const column<decimal_number> paid = bills.column<decimal_number>("sum");
  EXPECT_EQ(rows_of(now.query(bills).where(
                paid, [](decimal_number d) { return d < decimal_number("0"); })),
            1);
  query q = now.query(bills);
  EXPECT_THROW(q.group_by("letter"), std::invalid_argument);
  EXPECT_THROW(q.aggregate(max("letter")), std::invalid_argument);
  EXPECT_THROW(q.aggregate(sum("at")), std::invalid_argument);
}

TEST(queries, a_dropped_table_is_there_for_older_snapshots) {
  sales s(100);
  const reader before = s.base.snapshot();
  ASSERT_TRUE(s.base.drop_table(s.t));
  EXPECT_EQ(rows_of(before.query(s.t)), 100);
  EXPECT_EQ(s.base.snapshot().query(s.t).aggregate(count()).run().code(), outcome::dropped);
}

TEST(query_cancel, a_thread_that_ends_in_a_condition_leaves_the_query) {
  sales s(5000);
  for (const std::uint32_t threads : {1U, 3U}) {
    std::atomic<bool> asked{false};
    pthread_t thread{};
    const auto body = [&] {
      const reader now = s.base.snapshot();
      const pthread_t self = pthread_self();
      const auto holds = [&asked, self](std::int64_t) {
        if (pthread_equal(pthread_self(), self) != 0 && !asked.exchange(true)) {
          pthread_cancel(self);
          pthread_testcancel();
        }
        return true;
      };
      static_cast<void>(now.query(s.t)
                            .where(s.t.column<std::int64_t>("id"), holds)
                            .aggregate(count())
                            .run({.threads = threads}));
    };
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void* of) -> void* {
                    (*static_cast<decltype(body)*>(of))();
                    return nullptr;
                  },
                  const_cast<void*>(static_cast<const void*>(&body))),
              0);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, asked ? PTHREAD_CANCELED : nullptr);  // helpers may have had all rows
    EXPECT_TRUE(asked || threads > 1);
    EXPECT_EQ(rows_of(s.base.snapshot().query(s.t)), 5000);
  }
}

}  // namespace
