// SPDX-License-Identifier: Apache-2.0
// Readers that are held for a while, beside threads that change rows and clean up: each shows one
// content, by whatever index and how often it is asked.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "db/storages.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::reader;
using db::status;
using db::transaction;

constexpr std::int64_t keys = 64;
constexpr std::int64_t values = 8;
constexpr std::chrono::milliseconds long_enough{spolia::test::quick_tests ? 100 : 400};

class held_readers_stress
    : public testing::TestWithParam<std::tuple<db::version_storage, db::index_kind>> {
 protected:
  using content = std::map<std::int64_t, std::int64_t>;

  held_readers_stress()
      : base(db::database::open(
            {.versions = std::get<0>(GetParam()), .partition_transactions = 16})),
        rows(base.create_table(
            {.name = "rows",
             .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}},
             .primary = std::get<1>(GetParam()),
             .indexes = {{"by_v", {"v"}}, {"hash_v", {"v"}, false, db::index_kind::hash}}})),
        k(rows.column<std::int64_t>("k")),
        v(rows.column<std::int64_t>("v")) {}

  /// Deletes a row and inserts another one in its stead, or changes one: there are always as many.
  status change(transaction& tx, std::mt19937_64& random) const {
    const auto key = static_cast<std::int64_t>(random() % keys);
    const auto value = static_cast<std::int64_t>(random() % values);
    if (random() % 2 == 0) {
      const status s = tx.update(rows, {key}, {{"v", value}});
      return s == db::outcome::not_found ? status() : s;
    }
    // One of the two is there.
    const status first = tx.erase(rows, {key});
    if (first) return tx.insert(rows, {key + keys, value});
    if (first != db::outcome::not_found) return first;
    const status second = tx.erase(rows, {key + keys});
    return second ? tx.insert(rows, {key, value}) : second;
  }

  void write(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!stop.load_relaxed()) {
      transaction tx = base.begin(
          {.isolation = random() % 2 == 0 ? db::isolation::serializable : db::isolation::snapshot});
      status s;
      for (int n = 0; s && n < 3; ++n) s = change(tx, random);
      if (!s) continue;  // a conflict has ended it
      if (random() % 8 == 0) {
        tx.rollback();
      } else {
        static_cast<void>(tx.commit());
      }
      if (random() % 64 == 0) base.collect();
    }
  }
  void read(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!stop.load_relaxed()) {
      const reader at = base.snapshot();
      const content first = all(at);
      EXPECT_EQ(first.size(), static_cast<std::size_t>(keys));
      const std::uint64_t times = random() % 20;
      for (std::uint64_t n = 0; n < times && !stop.load_relaxed(); ++n) {
        EXPECT_EQ(all(at), first) << "rows in no order";
        EXPECT_EQ(by_index(at, "by_v"), first) << "by an ordered index";
        EXPECT_EQ(by_index(at, "hash_v"), first) << "by a hash index";
        for (const bool down : {false, true}) {
          EXPECT_EQ(in_order(at, rows.index("by_v"), down), first) << "by an ordered index";
          if (std::get<1>(GetParam()) != db::index_kind::ordered) continue;
          EXPECT_EQ(in_order(at, rows, down), first) << "by the primary key";
        }
        for (const auto& [key, value] : first) {
          const auto r = at.find(rows, {key});
          EXPECT_TRUE(r && r->get(v) == value) << "key " << key;
        }
        if (HasFailure()) return stop.store_relaxed(true);
      }
    }
  }

  db::database base;
  db::table& rows;
  db::column<std::int64_t> k;
  db::column<std::int64_t> v;
  atomic<bool> stop{false};

 private:
  template <class Of>
  [[nodiscard]] content in_order(const reader& at, const Of& of, bool down) const {
    content found;
    const auto note = [&](const db::row& r) {
      EXPECT_TRUE(found.emplace(r.get(k), r.get(v)).second) << "a row twice";
    };
    if (down) {
      at.scan_down(of, {}, {}, note);
    } else {
      at.scan(of, {}, {}, note);
    }
    return found;
  }
  [[nodiscard]] content all(const reader& at) const {
    content found;
    at.for_each(rows, [&](const db::row& r) {
      EXPECT_TRUE(found.emplace(r.get(k), r.get(v)).second) << "a row twice";
    });
    return found;
  }
  [[nodiscard]] content by_index(const reader& at, const char* index) const {
    content found;
    for (std::int64_t n = 0; n < values; ++n) {
      at.scan(rows.index(index), {n}, {n}, [&](const db::row& r) {
        EXPECT_EQ(r.get(v), n);
        EXPECT_TRUE(found.emplace(r.get(k), r.get(v)).second) << "a row twice";
      });
    }
    return found;
  }
};

TEST_P(held_readers_stress, show_one_content) {
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    for (std::int64_t n = 0; n < keys; ++n) {
      if (const status s = tx.insert(rows, {n, n % values}); !s) return s;
    }
    return {};
  }));
  std::vector<std::thread> all;
  for (std::uint64_t n = 0; n < 2; ++n) {
    all.emplace_back([this, n] { write(n); });
    all.emplace_back([this, n] { read(n); });
  }
  const auto end = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < end && !stop.load_relaxed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop.store_relaxed(true);
  for (std::thread& t : all) t.join();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

/// A key that comes and goes, and is buried, beside transactions that find it, and are refused its
/// insertion: what they see of it is there for all that they do. (A refused insertion may have the
/// key in the index by then.)
TEST_P(held_readers_stress, a_refused_insertion_hides_no_row) {
  constexpr std::int64_t key = 7;
  std::thread others([&] {
    for (std::int64_t n = 0; !stop.load_relaxed(); ++n) {
      static_cast<void>(base.transact([&](transaction& tx) -> status {
        const status s = tx.erase(rows, {key});
        return s == db::outcome::not_found ? tx.insert(rows, {key, n % values}) : s;
      }));
    }
  });
  std::thread collects([&] {
    while (!stop.load_relaxed()) base.collect();
  });
  const auto end = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    transaction tx = base.begin();
    if (!tx.find(rows, {key})) continue;
    if (tx.insert(rows, {key, 0}) != db::outcome::duplicate_key) continue;  // a conflict
    EXPECT_NE(tx.edit(rows, {key}).code(), db::outcome::not_found) << "it has found the row";
    if (tx.state()) {
      EXPECT_TRUE(tx.find(rows, {key}));
    }
  }
  stop.store_relaxed(true);
  others.join();
  collects.join();
}

INSTANTIATE_TEST_SUITE_P(
    each, held_readers_stress,
    testing::Combine(testing::Values(db::version_storage::one_shot,
                                     db::version_storage::one_shot_consolidated,
                                     db::version_storage::steam_eager, db::version_storage::range),
                     testing::Values(db::index_kind::ordered, db::index_kind::hash)),
    [](const auto& of) {
      const bool ordered = std::get<1>(of.param) == db::index_kind::ordered;
      return storage_name({{std::get<0>(of.param)}, 0}) + (ordered ? "_ordered" : "_hash");
    });

}  // namespace
