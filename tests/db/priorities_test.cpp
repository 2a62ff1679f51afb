// SPDX-License-Identifier: Apache-2.0
// Every public operation by two threads of different real-time priorities on one processor:
// whatever one waits for, it sleeps in the end, so that the other one gets on. Here: the store.

#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <spolia/db.hpp>

#include "db/storages.hpp"
#include "support/two_priorities.hpp"

namespace {

using namespace spolia;
using spolia::test::both_get_on;

struct store_use {
  explicit store_use(db::database opened)
      : base(std::move(opened)),
        items(base.create_table({.name = "items",
                                 .columns = {{"id", db::int64, db::primary_key}, {"a", db::int64}},
                                 .indexes = {{"by_a", {"a"}}}})) {}
  db::database base;
  db::table& items;

  void use(unsigned who, unsigned i) {
    const std::int64_t key = (i + who) % 8;
    static_cast<void>(base.transact([&](db::transaction& tx) -> db::status {
      if (tx.find(items, {key})) return tx.update(items, {key}, {{"a", std::int64_t{i}}});
      return tx.insert(items, {key, std::int64_t{i}});
    }));
    static_cast<void>(base.transact([&](db::transaction& tx) { return tx.erase(items, {key}); },
                                    {.begin = {.isolation = db::isolation::serializable,
                                               .longest_wait = std::chrono::milliseconds(2)}}));
    base.snapshot().scan(items.index("by_a"), {}, {}, [](const db::row&) {});
    if (i % 64 == 1) base.collect();
    if (i % 64 == 2) static_cast<void>(base.readers());
    if (i % 64 == 3) static_cast<void>(base.stats());
  }
};

/// What the child that is made next opens.
struct store_choice {
  db::options options;
  std::filesystem::path folder;
};
store_choice& choice() {
  static store_choice it;
  return it;
}

struct store_in_memory : store_use {
  store_in_memory() : store_use(db::database::open(choice().options)) {}
};

class priorities_store : public testing::TestWithParam<db::version_storage> {};
INSTANTIATE_TEST_SUITE_P(storages, priorities_store, spolia::test::storages_that_collect());
TEST_P(priorities_store, high_and_low_get_on) {
  choice().options = {.versions = GetParam()};
  both_get_on<store_in_memory>();
}

struct durable_store : store_use {
  durable_store() : store_use(db::database::open(choice().folder, choice().options)) {}
  void use(unsigned who, unsigned i) {
    store_use::use(who, i);
    if (i % 64 == 5) static_cast<void>(base.sync());
    if (i % 256 == 6) base.checkpoint();
  }
};

/// Where a file is memory if the system has that, so that threads use as much of the processor as
/// they can.
void durable_ones_get_on(db::durability_level level) {
  const std::string shared = "/dev/shm/";
  std::string name = access(shared.c_str(), W_OK) == 0 ? shared : testing::TempDir();
  name += "spolia-priorities-XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  choice() = {.options = {.durability = level, .publish_status = true}, .folder = name};
  both_get_on<durable_store>();
  std::filesystem::remove_all(name);
}
TEST(priorities, durable_store_at_once) { durable_ones_get_on(db::durability_level::sync); }
TEST(priorities, durable_store_later) { durable_ones_get_on(db::durability_level::async); }

}  // namespace
