// SPDX-License-Identifier: Apache-2.0
// storages.hpp: tests that run over every version storage.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

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
  static bool collects_between() {
    const db::version_storage s = GetParam();
    return s == db::version_storage::one_shot_consolidated ||
           s == db::version_storage::steam_eager || s == db::version_storage::range;
  }
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
  return testing::Values(db::version_storage::one_shot, db::version_storage::one_shot_consolidated,
                         db::version_storage::steam, db::version_storage::steam_eager,
                         db::version_storage::range);
}

inline std::string storage_name(const testing::TestParamInfo<storage_kind>& of) {
  if (of.param.changes_only) return storage_name({{of.param.storage}, 0}) + "_changes";
  switch (of.param.storage) {
    case db::version_storage::one_shot:
      return "one_shot";
    case db::version_storage::one_shot_consolidated:
      return "one_shot_consolidated";
    case db::version_storage::steam:
      return "steam";
    case db::version_storage::steam_eager:
      return "steam_eager";
    case db::version_storage::range:
      return "range";
    case db::version_storage::none:
      return "none";
  }
  return "unknown";
}

}  // namespace spolia::test

#define SPOLIA_OVER_STORAGES(suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(                                                               \
      each, suite,                                                                        \
      testing::Values(                                                                    \
          spolia::test::storage_kind{spolia::db::version_storage::one_shot},              \
          spolia::test::storage_kind{spolia::db::version_storage::one_shot, true},        \
          spolia::test::storage_kind{spolia::db::version_storage::one_shot_consolidated}, \
          spolia::test::storage_kind{spolia::db::version_storage::steam},                 \
          spolia::test::storage_kind{spolia::db::version_storage::steam, true},           \
          spolia::test::storage_kind{spolia::db::version_storage::steam_eager},           \
          spolia::test::storage_kind{spolia::db::version_storage::steam_eager, true},     \
          spolia::test::storage_kind{spolia::db::version_storage::range},                 \
          spolia::test::storage_kind{spolia::db::version_storage::range, true},           \
          spolia::test::storage_kind{spolia::db::version_storage::none}),                 \
      spolia::test::storage_name)

/// And once more where hash indexes are cuckoo tables.
#define SPOLIA_OVER_STORAGES_AND_TABLES(suite)                                            \
  SPOLIA_OVER_STORAGES(suite);                                                            \
  INSTANTIATE_TEST_SUITE_P(cuckoo, suite,                                                 \
                           testing::Values(spolia::test::storage_kind{                    \
                               spolia::db::version_storage::one_shot_consolidated, false, \
                               spolia::db::hash_kind::cuckoo}),                           \
                           spolia::test::storage_name)
