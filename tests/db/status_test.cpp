// SPDX-License-Identifier: Apache-2.0
// What a database in a directory shows to other processes.

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <spolia/db.hpp>
#include <spolia/db/store_status.hpp>

#include "db/faulty_files.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::faulty_files;
using spolia::test::file_step;
namespace fs = std::filesystem;

class store_status_test : public testing::Test {
 protected:
  store_status_test() {
    std::string name = (fs::temp_directory_path() / "spolia-status-XXXXXX").string();
    here = ::mkdtemp(name.data());
  }
  ~store_status_test() override { fs::remove_all(here); }
  [[nodiscard]] database open(durability_level d = durability_level::none) const {
    return database::open(here, {.durability = d, .publish_status = true});
  }
  static status put(database& base, table& t, std::int64_t key) {
    return base.transact([&](transaction& tx) { return tx.insert(t, {key, key}); });
  }
  static table_spec spec() {
    return {.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}};
  }

  fs::path here;
};

TEST_F(store_status_test, is_there_while_the_database_is) {
  EXPECT_FALSE(read_status(here));
  {
    database base = open();
    const auto first = read_status(here);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->process, static_cast<std::uint64_t>(::getpid()));
    EXPECT_EQ(first->commits, 0U);
    table& t = base.create_table(spec());
    const reader held = base.snapshot("a label that is rather longer than forty characters");
    const reader other = base.snapshot();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(put(base, t, i));
    base.publish_status();
    const auto s = read_status(here);
    ASSERT_TRUE(s);
    EXPECT_EQ(s->opened, first->opened);
    EXPECT_GE(s->written, first->written);
    EXPECT_EQ(s->commits, 3U);
    EXPECT_EQ(s->tables, 1U);
    EXPECT_EQ(s->row_slots, 3U);
    EXPECT_GT(s->table_bytes, 0U);
    EXPECT_EQ(s->readers, 2U);
    EXPECT_EQ(s->oldest[0].behind, 3U);
    EXPECT_STREQ(s->oldest[0].label.data(), "a label that is rather longer than fort");
    EXPECT_GT(s->oldest[0].age_ns, 0U);
    EXPECT_EQ(s->oldest[0].os_thread, static_cast<std::uint64_t>(::getpid())) << "the first one";
    EXPECT_STREQ(s->oldest[2].label.data(), "");
  }
  EXPECT_FALSE(read_status(here)) << "it goes with the database";
}

TEST_F(store_status_test, is_written_by_commits_now_and_then) {
  database base = open();
  table& t = base.create_table(spec());
  using clock = std::chrono::steady_clock;
  std::int64_t commits = 0;
  std::uint64_t seen = 0;
  for (auto begin = clock::time_point(); clock::now() - begin > std::chrono::milliseconds(90);) {
    // Again where the machine was so busy that the next writing was due.
    begin = clock::now();
    base.publish_status();
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(put(base, t, ++commits));
    seen = read_status(here)->commits;
  }
  EXPECT_EQ(seen, static_cast<std::uint64_t>(commits - 2)) << "not by each commit";
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  ASSERT_TRUE(put(base, t, ++commits));
  EXPECT_EQ(read_status(here)->commits, static_cast<std::uint64_t>(commits));
}

/// As on a full disk.
class full_log {
 public:
  explicit full_log(const char* name)
      : files(std::make_shared<faulty_files>(real_files(), [this, name](const file_step& s) {
          const bool takes = s.what == file_step::kind::reserve ||
                             (s.what == file_step::kind::write && s.name.starts_with("check"));
          if (!full || !takes || !s.name.starts_with(name)) return 0;
          while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return ENOSPC;
        })) {}
  std::atomic<bool> full{false};
  std::atomic<bool> held{false};  // what fails comes to that no sooner
  std::shared_ptr<storage_files> files;
};

TEST_F(store_status_test, is_renewed_by_what_memory_has_no_room_for) {
  database base = database::open(
      here, {.budget = 1U << 20U, .durability = durability_level::none, .publish_status = true});
  table& t =
      base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", text(1000)}}});
  const std::string v(1000, 'x');
  const auto add = [&](std::int64_t key) {
    return base.transact([&](transaction& tx) { return tx.insert(t, {key, v}); });
  };
  std::int64_t key = 0;
  while (key < 100'000 && add(key)) ++key;
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  EXPECT_EQ(add(key), outcome::limit);
  const auto s = read_status(here);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->limits, base.stats().limits) << "no commit comes that would show it";
  EXPECT_EQ(s->storage_refusals, 0U);
  EXPECT_STREQ(s->storage_failure.data(), "");
}

TEST_F(store_status_test, is_renewed_by_what_the_disk_has_no_room_for) {
  full_log disk("log-");
  database base =
      database::open(here, {.segment_bytes = 4096, .files = disk.files, .publish_status = true});
  table& t = base.create_table(spec());
  disk.full = true;
  std::int64_t key = 0;
  while (key < 100'000 && put(base, t, key)) ++key;
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  EXPECT_EQ(put(base, t, key), outcome::storage_failed);
  const auto s = read_status(here);
  ASSERT_TRUE(s);
  EXPECT_GE(s->storage_refusals, 2U) << "no commit comes that would show it";
  EXPECT_EQ(s->storage_refusals, base.stats().storage_refusals);
  const std::string why = s->storage_failure.data();
  EXPECT_NE(why, "");
  EXPECT_NE(base.storage_failure().find(why), std::string::npos) << why;
  EXPECT_EQ(s->storage_failed, 0U) << "nothing is in doubt";
  EXPECT_FALSE(base.stats().log.failed);
  disk.full = false;
  ASSERT_TRUE(put(base, t, key));
  base.publish_status();
  EXPECT_STREQ(read_status(here)->storage_failure.data(), "");
}

TEST_F(store_status_test, is_renewed_by_a_checkpoint_that_fails) {
  full_log disk("checkpoint-");
  database base = database::open(
      here, {.checkpoint_log_bytes = 256, .files = disk.files, .publish_status = true});
  table& t = base.create_table(spec());
  disk.full = disk.held = true;
  for (std::int64_t key = 0; key < 20; ++key) ASSERT_TRUE(put(base, t, key));
  base.publish_status();
  EXPECT_EQ(read_status(here)->failed_checkpoints, 0U);
  disk.held = false;  // no commit comes any more
  for (int i = 0; i < 60'000 && read_status(here)->failed_checkpoints == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto s = read_status(here);
  ASSERT_GE(s->failed_checkpoints, 1U);
  const std::string why = s->checkpoint_failure.data();
  EXPECT_NE(why.find("told to fail"), std::string::npos) << why;
  EXPECT_STREQ(s->storage_failure.data(), "") << "commits go on";
}

TEST_F(store_status_test, is_not_there_unless_asked_for) {
  database base = database::open(here, {.durability = durability_level::none});
  base.publish_status();
  EXPECT_FALSE(read_status(here));
  database memory = database::open({.publish_status = true});
  memory.publish_status();
}

TEST_F(store_status_test, of_a_process_that_was_killed_goes_with_the_next_that_writes) {
  std::string page;
  const fs::path file = here / "status";
  {
    database base = open();
    std::ifstream in(file, std::ios::binary);
    page.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::ofstream(file, std::ios::binary) << page;
  {
    database looks = database::open(here, {.read_only = true});
  }
  ASSERT_TRUE(read_status(here)) << "who reads changes no file";
  database base = database::open(here, {.durability = durability_level::none});
  EXPECT_FALSE(read_status(here)) << "it would pass for what this process does";
}

TEST_F(store_status_test, shows_the_readers_that_are_furthest_behind) {
  database base = open();
  table& t = base.create_table(spec());
  static constexpr const char* names[] = {"r0", "r1", "r2", "r3", "r4",
                                          "r5", "r6", "r7", "r8", "r9"};
  const auto with = [&](auto& self, int n) -> void {
    if (n == 20) {
      base.publish_status();
      const auto s = read_status(here);
      ASSERT_TRUE(s);
      EXPECT_EQ(s->readers, 20U);
      for (std::size_t i = 0; i < store_status::most_readers; ++i) {
        EXPECT_EQ(s->oldest[i].behind, 20U - i);
        EXPECT_STREQ(s->oldest[i].label.data(), i < 10 ? names[i] : "");
      }
      return;
    }
    const reader r = base.snapshot(n < 10 ? names[n] : nullptr);
    ASSERT_TRUE(put(base, t, n));
    self(self, n + 1);
  };
  with(with, 0);
}

TEST_F(store_status_test, counts_readers_that_were_ended) {
  database base = open();
  table& t = base.create_table(spec());
  const reader late = base.snapshot({.label = "late", .deadline = std::chrono::nanoseconds(1)});
  const reader patient = base.snapshot("patient");
  ASSERT_TRUE(put(base, t, 1));
  base.collect();
  ASSERT_TRUE(late.ended());
  base.publish_status();
  const auto s = read_status(here);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ended_by_policy, 1U);
  EXPECT_EQ(s->readers, 1U);
  EXPECT_STREQ(s->oldest[0].label.data(), "patient");
}

TEST_F(store_status_test, shows_what_waits_for_readers) {
  database base = open();
  table& t = base.create_table(spec());
  constexpr std::int64_t count = 100;
  for (std::int64_t i = 0; i < count; ++i) ASSERT_TRUE(put(base, t, i));
  const reader held = base.snapshot();
  const reader twin = base.snapshot();
  const auto change = [&](std::int64_t i) {
    return base.transact([&](transaction& tx) { return tx.update(t, {i % count}, {{"v", -i}}); });
  };
  // Some allocation periods, so that the readers count as held.
  for (std::int64_t i = 0; i < 100 * count; ++i) ASSERT_TRUE(change(i));
  for (std::int64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(t, {i}); }));
  }
  base.collect();
  const reader_info known = base.readers().front();
  EXPECT_EQ(known.held_versions, std::uint64_t{count});
  EXPECT_GE(known.held, 10U);
  base.publish_status();
  const auto s = read_status(here);
  ASSERT_TRUE(s);
  const store_status::reader& first = s->oldest[0];
  EXPECT_EQ(first.timestamp, known.timestamp);
  EXPECT_EQ(first.held, known.held);
  EXPECT_EQ(first.held_bytes, known.held_bytes);
  EXPECT_EQ(first.held_versions, known.held_versions);
  EXPECT_EQ(first.held_version_bytes, known.held_version_bytes);
  EXPECT_EQ(s->oldest[1].timestamp, known.timestamp);
  EXPECT_EQ(s->oldest[1].held, 0U) << "it is told once";
  EXPECT_EQ(s->oldest[1].held_versions, 0U) << "it is told once";
}

/// Says what it is told to say of a snapshot.
class telling final : public delta {
 public:
  explicit telling(const std::optional<held_things>& said) : said_(said) {}
  bool reserve(std::uint32_t, std::span<ask> asks, std::uint64_t) override { return asks.empty(); }
  void published(std::uint32_t, std::uint64_t) noexcept override {}
  void cancel(std::uint32_t) noexcept override {}
  [[nodiscard]] const version* find(const atomic<std::uint64_t>&, std::uint64_t, std::uint64_t,
                                    const taking_back*) const override {
    throw no_result(outcome::conflict);
  }
  [[nodiscard]] std::optional<held_things> held_at(std::uint64_t) const noexcept override {
    return said_;
  }
  void collect() noexcept override {}

 private:
  [[nodiscard]] delta_stats figures() const noexcept override { return {}; }
  const std::optional<held_things>& said_;
};

TEST_F(store_status_test, keeps_what_was_known_where_the_storage_would_have_to_wait) {
  std::optional<held_things> said;
  const auto shown = [&] { return read_status(here)->oldest[0]; };
  options o{.durability = durability_level::none, .publish_status = true};
  o.own_versions = [&](commit_board&) { return std::make_unique<telling>(said); };
  database base = database::open(here, o);
  const reader held = base.snapshot();
  base.publish_status();
  EXPECT_EQ(shown().held_versions, 0U);
  said = {.count = 7, .bytes = 700};
  base.publish_status();
  EXPECT_EQ(shown().held_versions, 7U);
  said.reset();
  base.publish_status();
  EXPECT_EQ(shown().held_versions, 7U);
  EXPECT_EQ(shown().held_version_bytes, 700U);
}

TEST_F(store_status_test, that_is_spoilt_is_refused_and_harms_no_database) {
  database base = open();
  table& t = base.create_table(spec());
  const fs::path file = here / "status";
  fs::resize_file(file, 10);
  EXPECT_THROW(read_status(here), storage_error);
  base.publish_status();
  EXPECT_TRUE(read_status(here));
  {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(200);
    f.put('x');
  }
  EXPECT_THROW(read_status(here), storage_error);
  std::ofstream(file) << "something else that is long enough";
  EXPECT_THROW(read_status(here), storage_error);
  ASSERT_TRUE(put(base, t, 1));
  base.publish_status();
  EXPECT_EQ(read_status(here)->commits, 1U);
}

TEST_F(store_status_test, is_whole_while_others_commit) {
  database base = open();
  table& t = base.create_table(spec());
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (std::int64_t i = 0; !over; ++i) {
      EXPECT_TRUE(put(base, t, i));
      base.publish_status();
    }
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto s = read_status(here);
    ASSERT_TRUE(s);
    EXPECT_GE(s->commits, last);
    last = s->commits;
  }
  over = true;
  writer.join();
}

}  // namespace
