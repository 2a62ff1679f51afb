// SPDX-License-Identifier: Apache-2.0
// storages.hpp: tests that run over every version storage.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <spolia/db.hpp>

namespace spolia::test {

/// A version storage, and what is a version; and which tables hash indexes are.
struct storage_kind {
  db::version_storage storage;
  bool changes_only = false;
  db::hash_kind hashes = db::hash_kind::probing;
  operator db::version_storage() const noexcept { return storage; }  // NOLINT: mostly it is that
};

/// A database with an `items` table: id, a, b, and a text that may be null. Small partitions, so
/// that they are dropped.
class over_storages : public testing::TestWithParam<storage_kind> {
 protected:
  over_storages()
      : base(db::database::open({.versions = GetParam(),
                                 .changes_only = GetParam().changes_only,
                                 .partition_transactions = 16,
                                 .hash_indexes = GetParam().hashes})),
        items(base.create_table({.name = "items",
                                 .columns = {{"id", db::int64, db::primary_key},
                                             {"a", db::int64},
                                             {"b", db::int64},
                                             {"note", db::text(20), db::nullable}},
                                 .primary = db::index_kind::ordered,
                                 .indexes = {{"by_a", {"a"}}, {"by_b", {"b"}, true}}})),
        id(items.column<std::int64_t>("id")),
        a(items.column<std::int64_t>("a")),
        b(items.column<std::int64_t>("b")),
        note(items.column<std::string_view>("note")) {}

  db::status put(std::int64_t key, std::int64_t x) {
    return base.transact(
        [&](db::transaction& tx) { return tx.insert(items, {key, x, key * 10, "new"}); });
  }
  db::status set_a(std::int64_t key, std::int64_t x) {
    return base.transact([&](db::transaction& tx) { return tx.update(items, {key}, {{"a", x}}); });
  }
  /// Whether what lies between two snapshots goes.
  static bool collects_between() { return db::info_of(GetParam()).collects_between; }
  /// -1: there is none.
  std::int64_t a_of(const db::reader& at, std::int64_t key) {
    const auto row = at.find(items, {key});
    return row ? row->get(a) : -1;
  }
  std::int64_t a_now(std::int64_t key) { return a_of(base.snapshot(), key); }

  db::database base;
  db::table& items;
  db::column<std::int64_t> id;
  db::column<std::int64_t> a;
  db::column<std::int64_t> b;
  db::column<std::string_view> note;
};

/// The storages that collect, for tests of what is the same with whole rows and with changes only.
inline auto storages_that_collect() {
  std::vector<db::version_storage> some;
  for (const auto& info : db::version_storages()) {
    if (info.storage != db::version_storage::none) some.push_back(info.storage);
  }
  return testing::ValuesIn(some);
}

inline auto storages_that_collect_between() {
  std::vector<db::version_storage> some;
  for (const auto& info : db::version_storages()) {
    if (info.collects_between) some.push_back(info.storage);
  }
  return testing::ValuesIn(some);
}

/// Each storage; and those that collect and can, with changes only.
inline auto every_storage_kind() {
  std::vector<storage_kind> all;
  for (const auto& info : db::version_storages()) {
    all.push_back({info.storage});
    if (info.storage != db::version_storage::none && !info.keeps_whole_rows) {
      all.push_back({info.storage, true});
    }
  }
  return testing::ValuesIn(all);
}

inline std::string storage_name(const testing::TestParamInfo<storage_kind>& of) {
  return std::string(db::info_of(of.param).name) + (of.param.changes_only ? "_changes" : "");
}

}  // namespace spolia::test

#define SPOLIA_OVER_STORAGES(suite)                                         \
  INSTANTIATE_TEST_SUITE_P(each, suite, spolia::test::every_storage_kind(), \
                           spolia::test::storage_name)

/// And once more where hash indexes are cuckoo tables.
#define SPOLIA_OVER_STORAGES_AND_TABLES(suite)                                            \
  SPOLIA_OVER_STORAGES(suite);                                                            \
  INSTANTIATE_TEST_SUITE_P(cuckoo, suite,                                                 \
                           testing::Values(spolia::test::storage_kind{                    \
                               spolia::db::version_storage::one_shot_consolidated, false, \
                               spolia::db::hash_kind::cuckoo}),                           \
                           spolia::test::storage_name)
