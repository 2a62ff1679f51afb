// SPDX-License-Identifier: Apache-2.0
// Copies of a database whose log has failed, and maybe its disk with it: they have all that memory
// shows, and the report says what of it is in doubt.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "db/memory_files.hpp"

namespace {

using namespace spolia::db;
using namespace spolia::test;

/// While `dead` is set, nothing can be done with segments of a log; copies have none.
struct dying_disk {
  [[nodiscard]] options with(durability_level level = durability_level::sync) const {
    options o;
    o.durability = level;
    o.recovery_threads = 1;
    o.checkpoint_log_bytes = 0;
    o.files = std::make_shared<faulty_files>(files, [fails = dead](const file_step& s) {
      return fails->load_relaxed() && s.name.starts_with("log-") ? EIO : 0;
    });
    return o;
  }
  const disk files = new_disk();
  const std::shared_ptr<spolia::atomic<bool>> dead = std::make_shared<spolia::atomic<bool>>(false);
};

table& make_numbers(database& base) {
  return base.create_table({.name = "numbers", .columns = {{"n", int64, primary_key}}});
}
/// How many there are, all from 1 on.
std::int64_t numbers_in(const database& base) {
  const table& t = base.find_table("numbers");
  std::int64_t count = 0;
  std::int64_t most = 0;
  base.snapshot().for_each(t, [&](const row& r) {
    ++count;
    most = std::max(most, r.get(t.column<std::int64_t>("n")));
  });
  EXPECT_EQ(count, most);
  return count;
}
std::int64_t numbers_of(const disk& files, const char* directory) {
  return numbers_in(database::open(directory, over(files)));
}
status add_number(database& base, std::int64_t n) {
  return base.transact([&](transaction& tx) { return tx.insert(base.find_table("numbers"), {n}); });
}

/// Commits are in doubt; with `async` the callers were told that they are well.
class dead_disk : public testing::TestWithParam<durability_level> {
 protected:
  dead_disk() {
    for (; last_ < 5; ++last_) EXPECT_TRUE(add_number(base_, last_ + 1));
    EXPECT_TRUE(base_.sync());
    disk_.dead->store_relaxed(true);
    while (last_ < 8) {
      transaction tx = base_.begin();
      EXPECT_TRUE(tx.insert(t_, {last_ + 1}));
      static_cast<void>(tx.commit());
      if (tx.commit_time() == 0) break;  // it was refused, as the log has failed
      times_.push_back(tx.commit_time());
      ++last_;
    }
    EXPECT_FALSE(base_.sync());
    EXPECT_TRUE(base_.stats().log.failed);
    EXPECT_EQ(numbers_in(base_), last_);
    EXPECT_FALSE(times_.empty());
  }

  const dying_disk disk_;
  database base_ = database::open(place, disk_.with(GetParam()));
  table& t_ = make_numbers(base_);
  std::vector<std::uint64_t> times_;
  std::int64_t last_ = 0;
};

TEST_P(dead_disk, is_left_with_a_copy_of_all_that_memory_shows) {
  EXPECT_THROW(base_.checkpoint(), storage_error);
  EXPECT_THROW(base_.resume(), storage_error);
  const backup_report report = base_.backup("elsewhere");
  EXPECT_TRUE(report.apart);
  EXPECT_FALSE(report.incremental);
  EXPECT_EQ(report.in_doubt, times_);
  EXPECT_EQ(report.files, 1U);
  EXPECT_NE(report.bytes, 0U);
  EXPECT_EQ(numbers_of(disk_.files->copy(), "elsewhere"), last_);
  // And as a stream.
  std::string stream;
  const backup_report streamed = base_.backup([&](std::span<const std::byte> part) {
    stream.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  EXPECT_TRUE(streamed.apart);
  EXPECT_EQ(streamed.in_doubt, times_);
  std::string_view left = stream;
  database::restore(
      [&](std::span<std::byte> to) {
        const std::size_t some = std::min(left.size(), to.size());
        std::memcpy(to.data(), left.data(), some);
        left.remove_prefix(some);
        return some;
      },
      "streamed", disk_.files);
  EXPECT_EQ(numbers_of(disk_.files->copy(), "streamed"), last_);
}

/// No later backup is added to it, whatever becomes of the database.
TEST_P(dead_disk, has_copies_that_are_databases_of_their_own) {
  base_.backup("elsewhere");
  EXPECT_THROW(base_.backup("elsewhere"), storage_error);
  disk_.dead->store_relaxed(false);
  const resume_report resumed = base_.resume();
  EXPECT_EQ(resumed.durable, times_) << "they are in doubt until then";
  const auto before = disk_.files->copy();
  EXPECT_THROW(base_.backup("elsewhere"), storage_error);
  EXPECT_FALSE(base_.backup("new").apart);
  ASSERT_TRUE(add_number(base_, last_ + 1));
  const backup_report more = base_.backup("new");
  EXPECT_TRUE(more.incremental);
  EXPECT_TRUE(more.in_doubt.empty());
  EXPECT_EQ(numbers_of(disk_.files->copy(), "new"), last_ + 1);
  EXPECT_EQ(numbers_of(before, "elsewhere"), last_);
  EXPECT_EQ(numbers_of(disk_.files->copy(), "elsewhere"), last_);
  EXPECT_EQ(numbers_of(disk_.files->synced(), place), last_ + 1);
}

INSTANTIATE_TEST_SUITE_P(levels, dead_disk,
                         testing::Values(durability_level::sync, durability_level::async));

/// What was copied before is not touched.
TEST(backups_apart, leave_an_earlier_copy_alone) {
  const dying_disk d;
  database base = database::open(place, d.with());
  make_numbers(base);
  ASSERT_TRUE(add_number(base, 1));
  base.backup("copy");
  ASSERT_TRUE(add_number(base, 2));
  d.dead->store_relaxed(true);
  ASSERT_EQ(add_number(base, 3), outcome::storage_failed);
  const disk before = d.files->copy();
  try {
    base.backup("copy");
    ADD_FAILURE();
  } catch (const storage_error& e) {
    EXPECT_NE(std::string(e.what()).find("a backup goes to a new directory"), std::string::npos)
        << e.what();
  }
  for (const std::string& name : before->names()) {
    EXPECT_EQ(d.files->content(name), before->content(name)) << name;
  }
  EXPECT_EQ(d.files->names(), before->names());
}

/// A change of the catalogue that is in doubt was undone, and is in no copy.
TEST(backups_apart, lack_changes_of_the_catalogue_that_are_in_doubt) {
  const dying_disk d;
  database base = database::open(place, d.with());
  make_numbers(base);
  ASSERT_TRUE(add_number(base, 1));
  d.dead->store_relaxed(true);
  EXPECT_THROW(base.create_table({.name = "more", .columns = {{"k", int64, primary_key}}}),
               storage_error);
  EXPECT_EQ(base.drop_table(base.find_table("numbers")), outcome::storage_failed);
  const backup_report report = base.backup("elsewhere");
  EXPECT_TRUE(report.apart);
  EXPECT_TRUE(report.in_doubt.empty());
  const database copy = database::open("elsewhere", over(d.files->copy()));
  ASSERT_EQ(copy.tables().size(), 1U);
  EXPECT_EQ(copy.tables()[0]->name(), "numbers");
}

}  // namespace
