// SPDX-License-Identifier: Apache-2.0
// Scans of a table beside threads that insert and delete many rows at once, so that its chunks fill
// up, become empty and are given back: each snapshot shows as many rows as it must.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "db/storages.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::reader;
using db::status;
using db::transaction;

constexpr std::int64_t writers = 2;
constexpr std::int64_t of_a_writer = 150;  // rows that are there, in one transaction's place
constexpr std::int64_t burst = 1500;       // rows that come and go together
constexpr std::uint64_t chunk_bytes = 256 * 496;
constexpr std::chrono::milliseconds long_enough{400};

class deletion_stress : public testing::TestWithParam<db::version_storage> {
 protected:
  deletion_stress()
      : base(db::database::open({.versions = GetParam(), .partition_transactions = 16})),
        rows(base.create_table({.name = "rows",
                                .columns = {{"k", db::int64, db::primary_key},
                                            {"v", db::int64},
                                            // Half a KiB a row.
                                            {"t1", db::text(62)},
                                            {"t2", db::text(62)},
                                            {"t3", db::text(62)},
                                            {"t4", db::text(62)},
                                            {"t5", db::text(62)},
                                            {"t6", db::text(62)},
                                            {"t7", db::text(62)}}})),
        k(rows.column<std::int64_t>("k")),
        v(rows.column<std::int64_t>("v")) {}

  status insert(transaction& tx, std::int64_t first, std::int64_t count) {
    status s;
    for (std::int64_t n = first; n < first + count && s; ++n) {
      s = tx.insert(rows, {n, 1, "", "", "", "", "", "", "the last"});
    }
    return s;
  }
  status erase(transaction& tx, std::int64_t first, std::int64_t count) {
    status s;
    for (std::int64_t n = first; n < first + count && s; ++n) s = tx.erase(rows, {n});
    return s;
  }
  static constexpr std::int64_t place_of(std::int64_t writer, std::int64_t turn) {
    return writer * 1'000'000 + turn % 2 * 1000;
  }

  void fill() {
    for (std::int64_t w = 0; w < writers; ++w) {
      ASSERT_TRUE(
          base.transact([&](transaction& tx) { return insert(tx, place_of(w, 0), of_a_writer); }));
    }
  }
  /// There are always as many: one transaction deletes all of its rows, and inserts others.
  void move_rows(std::int64_t writer) {
    for (std::int64_t turn = 0; !stop.load_relaxed(); ++turn) {
      const status s = base.transact([&](transaction& tx) {
        const status gone = erase(tx, place_of(writer, turn), of_a_writer);
        return gone ? insert(tx, place_of(writer, turn + 1), of_a_writer) : gone;
      });
      if (!s) ++failures;
    }
  }
  void come_and_go() {
    const std::int64_t first = place_of(writers, 0);
    while (!stop.load_relaxed()) {
      if (!base.transact([&](transaction& tx) { return insert(tx, first, burst); })) ++failures;
      if (!base.transact([&](transaction& tx) { return erase(tx, first, burst); })) ++failures;
    }
  }
  static bool is_right(std::int64_t count) {
    return count == writers * of_a_writer || count == writers * of_a_writer + burst;
  }
  std::int64_t count(const reader& at) const {
    std::int64_t sum = 0;
    at.for_each(rows, [&](const db::row& r) { sum += r.get(v); });
    return sum;
  }
  std::int64_t count_by_query(const reader& at) const {
    return at.query(rows)
        .aggregate(db::count())
        .run({.threads = 1})
        .value()
        .get<std::int64_t>(0, 0);
  }
  void look() {
    while (!stop.load_relaxed()) {
      const reader at = base.snapshot();
      const std::int64_t found = count(at);
      if (!is_right(found) || count_by_query(at) != found || count(at) != found) ++failures;
    }
  }
  /// A reader that is held sees the same keys again and again.
  void look_for_long() {
    while (!stop.load_relaxed()) {
      const reader at = base.snapshot();
      const auto keys = [&] {
        std::set<std::int64_t> all;
        at.for_each(rows, [&](const db::row& r) { all.insert(r.get(k)); });
        return all;
      };
      const auto first = keys();
      if (!is_right(static_cast<std::int64_t>(first.size()))) ++failures;
      for (int n = 0; n < 20; ++n) {
        if (keys() != first) ++failures;
      }
    }
  }
  /// Notes the number of rows, which no transaction with another number may come before.
  void look_and_write(db::table& numbers) {
    for (std::int64_t n = 0; !stop.load_relaxed(); ++n) {
      transaction tx = base.begin({.isolation = db::isolation::serializable});
      const std::int64_t found = count(tx);
      if (!is_right(found)) ++failures;
      if (!tx.insert(numbers, {n, found})) ++failures;
      static_cast<void>(tx.commit());
    }
  }

  db::database base;
  db::table& rows;
  const db::column<std::int64_t> k;
  const db::column<std::int64_t> v;
  atomic<bool> stop{false};
  std::atomic<int> failures{0};
};

TEST_P(deletion_stress, scans_beside_it_show_what_is_there) {
  fill();
  db::table& numbers = base.create_table(
      {.name = "numbers", .columns = {{"n", db::int64, db::primary_key}, {"rows", db::int64}}});
  {
    std::vector<std::jthread> all;
    for (std::int64_t w = 0; w < writers; ++w) all.emplace_back([this, w] { move_rows(w); });
    all.emplace_back([this] { come_and_go(); });
    all.emplace_back([this] { look(); });
    all.emplace_back([this] { look_for_long(); });
    all.emplace_back([&] { look_and_write(numbers); });
    std::this_thread::sleep_for(long_enough);
    stop.store_relaxed(true);
  }
  EXPECT_EQ(failures.load(), 0);
  base.collect();
  EXPECT_EQ(count(base.snapshot()), writers * of_a_writer);
  ASSERT_TRUE(base.transact([&](transaction& tx) {
    std::vector<std::int64_t> all;
    tx.for_each(rows, [&](const db::row& r) { all.push_back(r.get(k)); });
    status s;
    for (const std::int64_t key : all) s = s ? tx.erase(rows, {key}) : s;
    return s;
  }));
  base.collect();
  EXPECT_LE(rows.bytes(), 2 * chunk_bytes) << "one that is kept, and the last one, which grows yet";
}
INSTANTIATE_TEST_SUITE_P(each, deletion_stress, storages_that_collect(),
                         [](const auto& of) { return std::string(db::info_of(of.param).name); });

}  // namespace
