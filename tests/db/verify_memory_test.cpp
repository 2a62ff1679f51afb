// SPDX-License-Identifier: Apache-2.0
// What verify() takes beside the database, by the system's own account, and what writers notice.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "db/own_place.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class verified_memory : public own_place {
 protected:
  static constexpr std::int64_t rows = sanitized ? 5'000 : 200'000;
  static constexpr std::uint64_t megabyte = 1U << 20U;

  void fill() {
    before_ = resident_when_trimmed();
    base_ = database::open("store");
    table_ = &base_.create_table({.name = "texts",
                                  .columns = {{"k", int64, primary_key},
                                              {"n", int64},
                                              {"short", text(20)},
                                              {"long", text()}},
                                  .indexes = {{"by_n", {"n"}, true}}});
    for (std::int64_t k = 0; k < rows; k += 1000) {
      ASSERT_TRUE(base_.transact([&](transaction& tx) {
        status s;
        for (std::int64_t i = k; i < k + 1000 && s; ++i) {
          s = tx.insert(*table_, {i, -i, "twenty bytes at most", std::string(60, 'x')});
        }
        return s;
      }));
    }
    base_.collect();
    full_ = resident_when_trimmed();
  }

  database base_ = database::open();
  table* table_ = nullptr;
  std::uint64_t before_ = 0;
  std::uint64_t full_ = 0;
};

/// Of the log, of a checkpoint, and beside a writer: once more what the database itself takes, and
/// it goes when the report is there.
TEST_F(verified_memory, is_that_of_a_second_copy_and_goes) {
  fill();
  for (const bool checkpoint : {false, true}) {
    SCOPED_TRACE(checkpoint ? "checkpoint" : "log");
    if (checkpoint) base_.checkpoint();
    static_cast<void>(resident_when_trimmed());
    peak_resident most;
    const verify_report r = base_.verify();
    most.look();
    EXPECT_TRUE(r.equal()) << r.text();
    EXPECT_EQ(r.rows, static_cast<std::uint64_t>(rows));
    if (sanitized) continue;
    EXPECT_LE(most.bytes() - full_, (full_ - before_) * 5 / 4 + 16 * megabyte)
        << "beside " << full_ - before_;
    EXPECT_LE(resident_when_trimmed(), full_ + 4 * megabyte);
  }
}

TEST_F(verified_memory, is_as_much_beside_a_writer) {
  fill();
  const column<std::int64_t> n = table_->column<std::int64_t>("n");
  std::atomic<bool> stop{false};
  std::atomic<std::int64_t> done{0};
  std::thread writer([&] {
    for (std::int64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      ASSERT_TRUE(base_.transact([&](transaction& tx) {
        auto found = tx.edit(*table_, {i % rows});
        return found ? found->set(n, -i % rows - rows * (i / rows % 2)) : found.why();
      }));
      done.fetch_add(1, std::memory_order_relaxed);
    }
  });
  peak_resident most;
  for (int round = 0; round < 3; ++round) {
    const std::int64_t first = done.load(std::memory_order_relaxed);
    const verify_report r = base_.verify();
    EXPECT_TRUE(r.equal()) << r.text();
    EXPECT_GT(done.load(std::memory_order_relaxed), first) << "the writer went on";
  }
  most.look();
  stop.store(true, std::memory_order_relaxed);
  writer.join();
  if (!sanitized) {
    // And old rows, of all that are, once each.
    EXPECT_LE(most.bytes() - full_, (full_ - before_) * 9 / 4 + 16 * megabyte)
        << "beside " << full_ - before_;
  }
  EXPECT_TRUE(base_.readers().empty());
}

}  // namespace
