// SPDX-License-Identifier: Apache-2.0
// The store, used by thousands of threads, one after the other, that commit little each.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <spolia/db.hpp>

#include "db/storages.hpp"
#include "support/resident.hpp"
#include "support/short_lives.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

class short_lives_store : public testing::TestWithParam<db::version_storage> {};
INSTANTIATE_TEST_SUITE_P(storages, short_lives_store, spolia::test::storages_that_collect());

TEST_P(short_lives_store, commits) {
  if (SPOLIA_ASAN || SPOLIA_TSAN) GTEST_SKIP() << "memory is kept back";
  db::options o;
  o.versions = GetParam();
  o.partition_transactions = 64;
  o.partition_bytes = 64U << 10U;
  o.partition_cache_bytes = 64U << 10U;
  db::database base = db::database::open(o);
  db::table& rows = base.create_table(
      {.name = "rows",
       .columns = {
           {"id", db::int64, db::primary_key}, {"text", db::text(500)}, {"apart", db::text()}}});
  const std::string words(500, 'x');
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(base.transact(
        [&](db::transaction& tx) { return tx.insert(rows, {i, words.c_str(), words.c_str()}); }));
  }
  const auto text = rows.column<std::string_view>("text");
  const auto apart = rows.column<std::string_view>("apart");
  const auto update = [&](int i) {
    EXPECT_TRUE(base.transact([&](db::transaction& tx) -> db::status {
      auto row = tx.edit(rows, {i % 100});
      if (!row) return row.why();
      if (auto s = row->set(text, words); !s) return s;
      return row->set(apart, words);
    }));
  };
  for (const int each : updates) {
    live_shortly(100, each, update);
    const std::uint64_t before = resident_bytes();
    live_shortly(4000 / (each + 3), each, update);
    EXPECT_LT(resident_bytes() - std::min(before, resident_bytes()), 2U << 20U)
        << "threads with " << each << " updates each";
  }
}

}  // namespace
