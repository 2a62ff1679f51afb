// SPDX-License-Identifier: Apache-2.0
// Databases in directories when allocations fail: a commit happens and is logged, or neither.

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "support/faults.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// A directory of the system's: files in memory would fail, too.
class durable_errors : public testing::TestWithParam<durability_level> {
 protected:
  durable_errors()
      : root_(std::filesystem::temp_directory_path() /
              ("spolia-durable-errors-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(root_);
  }
  ~durable_errors() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  options chosen() const {
    options o = over(nullptr);
    o.durability = GetParam();
    return o;
  }

  const std::filesystem::path root_;
};

TEST_P(durable_errors, commits_without_memory) {
  options o = chosen();
  o.segment_bytes = 4096;  // so that many begin in the midst
  o.checkpoint_log_bytes = 20000;
  std::int64_t done = 0;
  {
    database base = database::open(root_, o);
    table& ledger = make_ledger(base);
    for (int round = 0; round < 5; ++round) {
      const std::uint64_t failures = for_each_allocation_failure([&] {
        try {
          if (!write_down(base, ledger, done + 1)) throw std::logic_error(base.storage_failure());
        } catch (const std::bad_alloc&) {
          EXPECT_EQ(commits_in(base), done);
          throw;
        }
        ++done;
      });
      EXPECT_GT(failures, 1U);
    }
    EXPECT_EQ(commits_in(base), done);
    EXPECT_EQ(base.storage_failure(), "");
  }
  database again = database::open(root_, o);
  EXPECT_EQ(commits_in(again), done);
}

TEST_P(durable_errors, tables_and_copies_without_memory) {
  std::uint64_t tables = 0;
  std::int64_t commits = 0;
  {
    database base = database::open(root_, chosen());
    table& ledger = make_ledger(base);
    ASSERT_TRUE(write_down(base, ledger, 1));
    for_each_allocation_failure([&] {
      base.create_table({.name = std::string("t").append(std::to_string(tables)),
                         .columns = {{"k", int64, primary_key}}});
      ++tables;
    });
    EXPECT_EQ(base.tables().size(), tables + 1);
    for_each_allocation_failure([&] {
      if (!base.create_index(ledger, {.name = "more", .columns = {"n"}})) {
        throw std::logic_error("create_index");
      }
    });
    for_each_allocation_failure([&] {
      if (!base.drop_index(ledger, "by_n")) throw std::logic_error("drop_index");
    });
    ASSERT_TRUE(base.create_index(ledger, {.name = "by_n", .columns = {"n"}}));
    table& gone = base.find_table("t0");
    for_each_allocation_failure([&] {
      if (!base.drop_table(gone)) throw std::logic_error("drop_table");
    });
    --tables;
    EXPECT_EQ(base.tables().size(), tables + 1);
    // A copy cuts the log. If there is no memory for the next segment, the next record begins it.
    commits = 1;
    for_each_allocation_failure([&] {
      try {
        base.backup([](std::span<const std::byte>) {});
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(write_down(base, ledger, ++commits));
        EXPECT_TRUE(base.sync());
        throw;
      }
    });
    EXPECT_GT(commits, 5);
  }
  database again = database::open(root_, chosen());
  EXPECT_EQ(again.tables().size(), tables + 1);
  EXPECT_EQ(again.find_table("ledger").spec().indexes.size(), 2U);
  EXPECT_EQ(commits_in(again), commits);
}

TEST_P(durable_errors, opening_without_memory) {
  {
    database base = database::open(root_, chosen());
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    base.checkpoint();
    ASSERT_TRUE(write_down(base, ledger, 4));
  }
  for_each_allocation_failure([&] { database base = database::open(root_, chosen()); });
  database again = database::open(root_, chosen());
  EXPECT_EQ(commits_in(again), 4);
}

TEST_P(durable_errors, resuming_without_memory) {
  bool fails = false;
  options o = chosen();
  o.files = std::make_shared<faulty_files>(real_files(), [&](const file_step& s) {
    const bool is_sync = s.what == file_step::kind::sync || s.what == file_step::kind::write;
    return fails && is_sync && s.is_segment() ? EIO : 0;
  });
  {
    database base = database::open(root_, o);
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    ASSERT_TRUE(base.sync());
    fails = true;
    static_cast<void>(write_down(base, ledger, 4));
    ASSERT_EQ(base.sync(), outcome::storage_failed);
    fails = false;
    resume_report report;
    const std::uint64_t failures = for_each_allocation_failure([&] {
      try {
        resume_report now = base.resume();  // nothing to do where the last one has done it
        if (now.checkpoint.sequence != 0) report = std::move(now);
      } catch (const std::exception&) {  // of a write for which there is no memory: storage_error
        EXPECT_TRUE(base.stats().log.failed);
        throw std::bad_alloc();
      }
    });
    EXPECT_GT(failures, 5U);
    EXPECT_EQ(report.durable.size(), 1U);
    EXPECT_FALSE(base.stats().log.failed);
    EXPECT_TRUE(write_down(base, ledger, 5));
  }
  database again = database::open(root_, chosen());
  EXPECT_EQ(commits_in(again), 5);
}

/// With rows of so many bytes.
std::int64_t memory_of_a_checkpoint(database& base, std::size_t bytes, std::int64_t rows) {
  table& big = base.create_table({.name = "rows of " + std::to_string(bytes),
                                  .columns = {{"k", int64, primary_key}, {"words", text()}}});
  const std::string words(bytes, 'x');
  EXPECT_TRUE(base.transact([&](transaction& tx) -> status {
    for (std::int64_t k = 0; k < rows; ++k) {
      if (const status s = tx.insert(big, {k, words}); !s) return s;
    }
    return outcome::ok;
  }));
  EXPECT_TRUE(base.sync());  // what waits for the log is no part of it
  const bytes_taken here;
  EXPECT_GT(base.checkpoint().bytes, bytes * static_cast<std::uint64_t>(rows));
  return here.most();
}

TEST_P(durable_errors, a_checkpoint_takes_memory_for_one_block_and_one_row) {
  database base = database::open(root_, chosen());
  constexpr std::int64_t block = 256 << 10;
  constexpr std::int64_t longest_in_place = 64 << 10;
  constexpr std::int64_t else_taken = 32 << 10;
  EXPECT_LT(memory_of_a_checkpoint(base, 100, 6000), block + longest_in_place + else_taken);
  // While a long row comes, what is before it lies in the block as it was, too.
  constexpr std::int64_t row = 3 << 20;
  EXPECT_LT(memory_of_a_checkpoint(base, row, 8),
            2 * (block + longest_in_place) + row + else_taken);
}

INSTANTIATE_TEST_SUITE_P(each, durable_errors,
                         testing::Values(durability_level::sync, durability_level::async),
                         [](const auto& of) {
                           return of.param == durability_level::sync ? "sync" : "async";
                         });

}  // namespace
