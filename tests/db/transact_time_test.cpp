// SPDX-License-Identifier: Apache-2.0
// The transaction is gone when transact() returns: it tells the time of its commit, by which
// resume() names those that were in doubt.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "db/memory_files.hpp"

namespace {

using namespace spolia::db;
using namespace spolia::test;

TEST(transact_time, is_told) {
  bool fails = false;
  const disk files = new_disk();
  options o = over(std::make_shared<faulty_files>(files, [&fails](const file_step& s) {
    return fails && s.what == file_step::kind::sync && s.is_segment() ? EIO : 0;
  }));
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  std::uint64_t time = 1;
  const retries tell{.commit_time = &time};
  const auto set_to = [&](std::int64_t n) {
    return base.transact([&](transaction& tx) { return tx.update(ledger, {0}, {{"n", n}}); }, tell);
  };
  ASSERT_TRUE(set_to(7));
  EXPECT_EQ(time, base.snapshot().timestamp());
  EXPECT_TRUE(base.transact([&](transaction& tx) { (void)tx.find(ledger, {0}); }, tell));
  EXPECT_EQ(time, 0U) << "it has changed nothing";
  fails = true;
  EXPECT_EQ(set_to(8), outcome::storage_failed);
  fails = false;
  EXPECT_EQ(base.resume().durable, std::vector<std::uint64_t>{time});
  EXPECT_THROW((void)base.transact([](transaction&) { throw std::range_error("mine"); }, tell),
               std::range_error);
  EXPECT_EQ(time, 0U);
}

}  // namespace
