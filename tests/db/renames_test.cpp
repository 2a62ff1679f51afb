// SPDX-License-Identifier: Apache-2.0
// Tables that are renamed again and again: nothing of a former name stays.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <spolia/db.hpp>

#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia::db;
using namespace spolia::test;

table_spec of_numbers(const std::string& name) {
  return {.name = name,
          .columns = {{"k", int64, primary_key}, {"v", int64}},
          .indexes = {{.name = "by_v", .columns = {"v"}, .unique = true}}};
}

/// Why a row with the primary key, and one with the value of the unique index, is refused.
std::string reasons(database& base, table& t) {
  const auto of = [&](std::int64_t k, std::int64_t v) {
    return base.transact([&](transaction& tx) { return tx.insert(t, {k, v}); }).reason();
  };
  return of(1, 2) + ", " + of(2, 1);
}

/// Each name has a number, so that none comes again, and is longer than what a string has in
/// itself.
TEST(renames, leave_no_memory) {
  constexpr std::uint64_t most = 4U << 20U;
  const int times = tries(60000);
  database base = database::open();
  table& t = base.create_table(of_numbers("t"));
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 1}); }));
  const auto rename = [&](int n) {
    const std::string name = std::string(100, 'n') + std::to_string(n);
    ASSERT_TRUE(base.rename_table(t, name));
    ASSERT_EQ(t.name(), name);
    ASSERT_EQ(reasons(base, t), "primary key of table " + name + ", index by_v of table " + name);
  };
  for (int n = 0; n < 1000; ++n) rename(n);
  const std::uint64_t before = resident_when_trimmed();
  for (int n = 0; n < times && !HasFailure(); ++n) rename(1000 + n);
  if (sanitized) return;  // what is freed stays for a while
  EXPECT_LT(resident_when_trimmed(), before + most);
}

/// A name is a copy, which stays when the table has another one.
TEST(renames, beside_threads_that_ask_for_the_name) {
  database base = database::open();
  table& t = base.create_table(of_numbers("a table with a name of some length"));
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 1}); }));
  const std::string first = t.name();
  const std::string second = "another name of the same table, as long";
  std::atomic<bool> done{false};
  std::vector<std::thread> all;
  const auto is_one = [&](const std::string& name) { return name == first || name == second; };
  for (int i = 0; i < 2; ++i) {
    all.emplace_back([&] {
      const auto is_said = [&](const std::string& why, const std::string& what) {
        return why == what + first || why == what + second;
      };
      do {
        EXPECT_TRUE(is_one(t.name()));
        EXPECT_TRUE(is_one(t.layout().name()));
        EXPECT_TRUE(is_one(t.spec().name));
        const std::string why =
            base.transact([&](transaction& tx) { return tx.insert(t, {1, 2}); }).reason();
        EXPECT_TRUE(is_said(why, "primary key of table ")) << why;
      } while (!done.load());
    });
  }
  for (int n = 0; n < tries(2000); ++n) {
    EXPECT_TRUE(base.rename_table(t, n % 2 == 0 ? second : first));
  }
  done.store(true);
  for (std::thread& one : all) one.join();
}

}  // namespace
