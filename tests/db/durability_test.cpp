// SPDX-License-Identifier: Apache-2.0
// The promises of docs/durability.md, one test for each sentence, over files that lose power, fail,
// lie and fill up.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "db/durable.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Commits until one is refused or `most` are made; how many were acknowledged. With a checkpoint
/// in the middle.
struct progress {
  std::int64_t acknowledged = 0;
  std::int64_t attempted = 0;
  bool had_table = false;
};
progress work_until_it_fails(const disk& files, std::int64_t most, options o) {
  progress p;
  try {
    o.files = files;
    database base = database::open(place, o);
    table& ledger = make_ledger(base);
    p.had_table = true;
    for (std::int64_t n = 1; n <= most; ++n) {
      p.attempted = n;
      const status s = write_down(base, ledger, n);
      if (!s) {
        EXPECT_EQ(s, outcome::storage_failed);
        break;
      }
      if (o.durability != durability_level::sync && !base.sync()) break;
      p.acknowledged = n;
      if (n == most / 2) base.checkpoint();
    }
  } catch (const storage_error&) {
    // The power went while there was no commit.
  }
  return p;
}

/// The power goes at each change of the files in turn; what the disk has then is opened.
void lose_power_everywhere(const options& o, bool lies, bool extends = false) {
  constexpr std::int64_t most = 8;
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (std::uint64_t at = 1;; at += steps_apart) {
    SCOPED_TRACE("change " + std::to_string(at) + ", seed " + std::to_string(seed));
    const disk files = new_disk();
    files->fails_at = at;
    files->lies = lies;
    files->extends = extends;
    const progress p = work_until_it_fails(files, most, o);
    for (int image = 0; image < (sanitized ? 2 : 6); ++image) {
      const disk left = files->after_power_loss(random);
      try {
        database base = database::open(place, over(left));
        const auto found = commits_in(base);
        ASSERT_TRUE(found.has_value());
        EXPECT_LE(*found, p.attempted);
        if (!lies) {
          EXPECT_GE(*found, p.acknowledged);
          EXPECT_EQ(!base.tables().empty() || !p.had_table, true);
        }
      } catch (const storage_error& e) {
        EXPECT_TRUE(lies) << e.what();
      }
    }
    if (p.acknowledged == most) break;
  }
}

TEST(durability, what_was_acknowledged_survives_a_loss_of_power) {
  options o = over(nullptr);
  lose_power_everywhere(o, false);
  o.segment_bytes = 4096;
  lose_power_everywhere(o, false, true);
  o.durability = durability_level::async;
  lose_power_everywhere(o, false);
  lose_power_everywhere(o, false, true);
}

/// The next one builds on it, so that it is made durable first.
TEST(durability, what_a_killed_process_has_left_in_memory_is_there_when_more_is_acknowledged) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    files->lies = true;  // the records that follow are in the system's memory alone
    for (std::int64_t n = 4; n <= 5; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  }
  files->lies = false;
  database base = database::open(place, over(files));
  ASSERT_TRUE(write_down(base, base.find_table("ledger"), 6));
  EXPECT_EQ(reopened(files->synced()), 6);
}

TEST(durability, a_disk_that_lies_loses_commits_but_makes_up_none) {
  lose_power_everywhere(over(nullptr), true);
  options o = over(nullptr);
  o.segment_bytes = 4096;
  lose_power_everywhere(o, true, true);
}

TEST(durability, without_a_log_the_last_checkpoint_is_what_is_there) {
  const disk files = new_disk();
  options o = over(files);
  o.durability = durability_level::none;
  {
    database base = database::open(place, o);
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    EXPECT_EQ(base.checkpoint().rows, 4U);
    ASSERT_TRUE(write_down(base, ledger, 4));
  }
  {
    database base = database::open(place, o);
    EXPECT_EQ(commits_in(base), 3);
    ASSERT_TRUE(write_down(base, base.find_table("ledger"), 4));
    base.checkpoint();
  }
  EXPECT_EQ(reopened(files), 4) << "also with a log from here on";
  {
    database base = database::open(place, over(files));
    ASSERT_TRUE(write_down(base, base.find_table("ledger"), 5));
  }
  EXPECT_EQ(reopened(files), 5);
}

TEST(durability, the_loss_window_is_kept_without_further_commits) {
  const disk files = new_disk();
  options o = over(files);
  o.durability = durability_level::async;
  o.loss_window = std::chrono::milliseconds(5);
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  for (std::int64_t n = 1; n <= 5; ++n) {
    ASSERT_TRUE(write_down(base, ledger, n));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (base.stats().log.durable < base.stats().log.sequence) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const disk killed = files->copy();
    EXPECT_EQ(reopened(killed), n);
  }
}

TEST(durability, sync_makes_what_was_committed_before_durable) {
  const disk files = new_disk();
  std::mt19937_64 random(1);
  options o = over(files);
  o.durability = durability_level::async;
  o.loss_window = std::chrono::hours(1);
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  for (std::int64_t n = 1; n <= 3; ++n) {
    ASSERT_TRUE(write_down(base, ledger, n));
    EXPECT_TRUE(base.sync());
    EXPECT_EQ(reopened(files->after_power_loss(random)), n);
  }
}

TEST(durability, closing_makes_everything_durable) {
  const disk files = new_disk();
  options o = over(files);
  o.durability = durability_level::async;
  o.loss_window = std::chrono::hours(1);
  {
    database base = database::open(place, o);
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 4; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    EXPECT_LT(base.stats().log.durable, base.stats().log.sequence);
  }
  EXPECT_EQ(reopened(files), 4);
}

TEST(durability, a_failed_sync_ends_acknowledgements_and_is_not_tried_again) {
  for (const bool write_fails : {false, true}) {
    const disk files = new_disk();
    database base = database::open(place, over(files));
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    EXPECT_EQ(base.storage_failure(), "");
    if (write_fails) {
      files->fails_at = files->changes + 1;
      files->fails_once = true;
    } else {
      files->sync_fails_at = files->syncs + 1;
    }
    EXPECT_EQ(write_down(base, ledger, 4), outcome::storage_failed);
    const std::uint64_t changes = files->changes;
    EXPECT_EQ(write_down(base, ledger, 5), outcome::storage_failed);
    EXPECT_EQ(base.sync(), outcome::storage_failed);
    EXPECT_THROW(base.checkpoint(), storage_error);
    EXPECT_THROW(base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}}),
                 storage_error);
    EXPECT_EQ(files->changes, changes) << "nothing is written any more";
    EXPECT_TRUE(base.stats().log.failed);
    EXPECT_NE(base.storage_failure().find("log-"), std::string::npos) << base.storage_failure();
    EXPECT_TRUE(base.snapshot().find(ledger, {3})) << "and all can be read";
    EXPECT_FALSE(base.snapshot().find(ledger, {5})) << "what was refused has not happened";
    std::mt19937_64 random(1);
    for (int i = 0; i < 20; ++i) {
      const std::int64_t found = reopened(files->after_power_loss(random));
      EXPECT_TRUE(found == 3 || found == 4) << found;
    }
  }
}

/// The system has forgotten what it could not write, and a process that reads the file still finds
/// it: to sync the file once more does not put it onto the disk.
TEST(durability, what_a_failed_sync_has_left_in_memory_is_written_again_by_the_next_opening) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    files->sync_fails_at = files->syncs + 1;
    ASSERT_EQ(write_down(base, ledger, 4), outcome::storage_failed);
  }
  EXPECT_EQ(reopened(files->synced()), 3) << "it is not on the disk";
  {
    database base = database::open(place, over(files));
    ASSERT_EQ(commits_in(base), 4) << "it is in the system's memory";
    ASSERT_TRUE(write_down(base, base.find_table("ledger"), 5));
  }
  EXPECT_EQ(reopened(files->synced()), 5);
}

/// An opening that one sync has failed is followed by one that goes well, and then the power goes.
TEST(durability, whichever_sync_of_an_opening_has_failed_the_next_one_makes_all_durable) {
  constexpr std::uint64_t enough = 8;
  for (std::uint64_t nth = 1; nth <= enough; ++nth) {
    SCOPED_TRACE(nth);
    const disk files = new_disk();
    files->sync_fails_at = nth;
    try {
      database base = database::open(place, over(files));
    } catch (const storage_error&) {
      EXPECT_LT(nth, enough) << "an opening has fewer syncs";
    }
    files->sync_fails_at = 0;
    {
      database base = database::open(place, over(files));
      ASSERT_TRUE(write_down(base, make_ledger(base), 1));
    }
    const disk later = files->synced();
    EXPECT_EQ(reopened(later->copy()), 1);
    for (const std::string& name : later->names()) {
      if (name.find("SPOLIA") == std::string::npos) later->remove(name);
    }
    EXPECT_THROW(database::open(place, over(later)), storage_error) << "it has lost all data";
  }
}

/// What is read of a file may be in the system's memory alone, and gone when it is read again.
TEST(durability, an_opening_that_finds_other_records_when_it_writes_them_again_is_refused) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  }
  const disk as_it_was = files->copy();
  int times = 0;
  files->after_read = [&](const std::string& name, std::span<std::byte> got) {
    if (name.find("log-") == std::string::npos || ++times != 2) return;
    std::fill(got.begin() + static_cast<std::ptrdiff_t>(got.size()) - 8, got.end(), std::byte{0});
  };
  EXPECT_THROW(database::open(place, over(files)), storage_error);
  files->after_read = nullptr;
  EXPECT_EQ(times, 2);
  EXPECT_EQ(files->names(), as_it_was->names());
  EXPECT_EQ(reopened(files), 3);
}

TEST(durability, a_full_disk_is_told_and_what_was_acknowledged_is_there) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const disk files = new_disk();
  std::int64_t acknowledged = 0;
  {
    database base = database::open(place, over(files));
    table& ledger = make_ledger(base);
    files->capacity = 2000;
    status s;
    while ((s = write_down(base, ledger, acknowledged + 1))) ++acknowledged;
    EXPECT_EQ(s, outcome::storage_failed);
    EXPECT_NE(base.storage_failure().find("No space"), std::string::npos) << base.storage_failure();
    EXPECT_TRUE(base.snapshot().find(ledger, {acknowledged}));
  }
  EXPECT_GT(acknowledged, 3);
  files->capacity = ~std::uint64_t{0};
  const std::int64_t found = reopened(files);
  EXPECT_GE(found, acknowledged);
  EXPECT_LE(found, acknowledged + 1);
}

TEST(durability, a_checkpoint_that_does_not_fit_changes_nothing) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  for (std::int64_t n = 1; n <= 30; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  std::uint64_t used = 0;
  for (const std::string& n : files->names()) used += files->content(n).size();
  files->capacity = used + 300;
  EXPECT_THROW(base.checkpoint(), storage_error);
  for (const std::string& n : files->names()) EXPECT_FALSE(n.ends_with(".tmp")) << n;
  files->capacity = ~std::uint64_t{0};
  ASSERT_TRUE(write_down(base, ledger, 31));
  EXPECT_EQ(base.checkpoint().rows, 26U);
  EXPECT_EQ(commits_in(base), 31);
  EXPECT_EQ(reopened(files->copy()), 31);
}

TEST(durability, a_checkpoint_shortens_the_log) {
  const disk files = new_disk();
  options o = over(files);
  o.segment_bytes = 4096;
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  for (std::int64_t n = 1; n <= 100; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  EXPECT_GT(files->names().size(), 3U) << "the log is in segments";
  const checkpoint_report r = base.checkpoint();
  EXPECT_EQ(r.rows, 81U);
  EXPECT_GE(r.removed_files, 2U);
  EXPECT_EQ(files->names().size(), 4U)
      << "the checkpoint, the log behind it, SPOLIA, and the reserve";
  EXPECT_LT(base.stats().log.since_checkpoint, 100U);
  ASSERT_TRUE(write_down(base, ledger, 101));
  database again = database::open(place, over(files->copy()));
  EXPECT_EQ(commits_in(again), 101);
  EXPECT_EQ(again.recovered().checkpoint_rows, 81U);
  EXPECT_EQ(again.recovered().log_records, 1U);
}

TEST(durability, the_length_of_the_log_starts_a_checkpoint) {
  const disk files = new_disk();
  options o = over(files);
  o.checkpoint_log_bytes = 8192;
  o.checkpoint_share = 100;
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  std::int64_t n = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (base.stats().log.checkpoints < 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    ASSERT_TRUE(write_down(base, ledger, ++n));
    if (n % 50 == 0) std::this_thread::yield();
  }
  EXPECT_EQ(base.stats().log.failed_checkpoints, 0U);
  EXPECT_EQ(reopened(files->copy()), n);
}

TEST(durability, checkpoints_beside_writers) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    table& t =
        base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
    for (std::int64_t k = 0; k < 8; ++k) {
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {k, 100}); }));
    }
    const auto v = t.column<std::int64_t>("v");
    std::vector<std::thread> threads;
    for (std::int64_t n = 0; n < 3; ++n) {
      threads.emplace_back([&, n] {
        for (std::int64_t i = 0; i < 300; ++i) {
          const status s = base.transact([&](transaction& tx) -> status {
            auto from = tx.edit(t, {(i + n) % 8});
            if (!from) return from.why();
            auto to = tx.edit(t, {(i * 3 + n + 1) % 8});
            if (!to) return to.why();
            if (auto done = from->set(v, from->get(v) - 1); !done) return done;
            return to->set(v, to->get(v) + 1);
          });
          EXPECT_TRUE(s);
        }
      });
    }
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(base.checkpoint().rows, 8U);
      database now = database::open(place, over(files->copy()));
      std::int64_t sum = 0;
      now.snapshot().for_each(now.find_table("t"), [&](const row& r) {
        sum += r.get(now.find_table("t").column<std::int64_t>("v"));
      });
      EXPECT_EQ(sum, 800);
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(durability, tables_are_logged) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    base.create_table({.name = "first",
                       .columns = {{"a", text(10), primary_key},
                                   {"b", float64, primary_key},
                                   {"c", boolean},
                                   {"d", timestamp, nullable}},
                       .primary = index_kind::ordered,
                       .indexes = {{"by_c_a", {"c", "a"}}, {"by_a", {"a"}, true}}});
    base.checkpoint();
    base.create_table({.name = "second", .columns = {{"k", int64, primary_key}}});
  }
  database base = database::open(place, over(files->copy()));
  ASSERT_EQ(base.tables().size(), 2U);
  const table_spec s = base.find_table("first").spec();
  EXPECT_EQ(s.primary, index_kind::ordered);
  ASSERT_EQ(s.columns.size(), 4U);
  EXPECT_EQ(s.columns[0].type, text(10));
  EXPECT_EQ(s.columns[1].role, primary_key);
  EXPECT_EQ(s.columns[3].role, nullable);
  ASSERT_EQ(s.indexes.size(), 2U);
  EXPECT_EQ(s.indexes[0].columns, (std::vector<std::string>{"c", "a"}));
  EXPECT_TRUE(s.indexes[1].unique);
  table& t = base.find_table("first");
  EXPECT_TRUE(
      base.transact([&](transaction& tx) { return tx.insert(t, {"x", -1.5, true, nullptr}); }));
  EXPECT_EQ(
      base.transact([&](transaction& tx) { return tx.insert(t, {"x", 2.0, true, instant_at(1)}); }),
      outcome::duplicate_key)
      << "by_a is unique";
}

TEST(durability, one_writer_or_any_number_of_readers) {
  const disk files = new_disk();
  options look = over(files);
  look.read_only = true;
  EXPECT_THROW(database::open(place, look), storage_error) << "there is none yet";
  {
    database base = database::open(place, over(files));
    ASSERT_TRUE(write_down(base, make_ledger(base), 1));
    EXPECT_THROW(database::open(place, over(files)), storage_error);
    EXPECT_THROW(database::open(place, look), storage_error);
  }
  const std::uint64_t changes = files->changes;
  database one = database::open(place, look);
  database two = database::open(place, look);
  EXPECT_EQ(commits_in(one), 1);
  EXPECT_EQ(commits_in(two), 1);
  EXPECT_EQ(write_down(one, one.find_table("ledger"), 2), outcome::read_only);
  EXPECT_EQ(commits_in(one), 1);
  EXPECT_THROW(make_ledger(one), std::invalid_argument);
  EXPECT_THROW(one.checkpoint(), std::invalid_argument);
  EXPECT_EQ(files->changes, changes);
  EXPECT_THROW(database::open(place, over(files)), storage_error);
}

/// Rows come and go in transactions that all read many rows first. So their validation takes long,
/// and many are undone, while the log is cut again and again. Each checkpoint is opened with the
/// log after it: a commit that is in both, or in neither, shows when the row that it erases is not
/// there. In the end the files say what the tables said.
TEST(durability, serializable_commits_and_checkpoints_are_one_history) {
  constexpr std::int64_t rows = 64;
  const disk files = new_disk();
  const auto content = [](database& base) {
    std::vector<std::int64_t> all(rows, -1);
    const table& t = base.find_table("rows");
    const auto id = t.column<std::int64_t>("id");
    const auto n = t.column<std::int64_t>("n");
    base.snapshot().for_each(
        t, [&](const row& r) { all.at(static_cast<std::size_t>(r.get(id))) = r.get(n); });
    return all;
  };
  std::vector<std::int64_t> last;
  std::uint64_t conflicts = 0;
  {
    options o = over(files);
    o.durability = durability_level::async;
    database base = database::open(place, o);
    table& t = base.create_table(
        {.name = "rows", .columns = {{"id", db::int64, db::primary_key}, {"n", db::int64}}});
    std::atomic<bool> stop{false};
    const auto work = [&](std::uint32_t seed) {
      std::mt19937_64 random(seed);
      for (std::int64_t n = 0; !stop.load(); ++n) {
        const auto one = static_cast<std::int64_t>(random() % rows);
        const status s = base.transact(
            [&](transaction& tx) -> status {
              for (std::int64_t k = one % 16; k < rows; k += 16) static_cast<void>(tx.find(t, {k}));
              if (tx.find(t, {one})) return tx.erase(t, {one});
              return tx.insert(t, {one, n});
            },
            {.begin = {.isolation = isolation::serializable}});
        EXPECT_TRUE(s || s == outcome::conflict);
      }
    };
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < 3; ++i) threads.emplace_back(work, i);
    const auto start = std::chrono::steady_clock::now();
    const auto before = [&](int seconds) {
      return std::chrono::steady_clock::now() - start < std::chrono::seconds(seconds) &&
             !testing::Test::HasFailure();
    };
    int checkpoints = 0;
    do {
      base.checkpoint();
      ++checkpoints;
      EXPECT_NO_THROW(database::open(place, over(files->copy())));
      conflicts = base.stats().conflicts;
    } while ((checkpoints < 1500 && before(1)) ||
             ((base.stats().commits < 1000 || conflicts < 10) && before(20)) ||
             (conflicts == 0 && before(120)));
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    last = content(base);
  }
  EXPECT_GT(conflicts, 0U);
  database again = database::open(place, over(files));
  EXPECT_EQ(content(again), last);
}

TEST(durability, opening_tells_how_far_it_is) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 3; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    base.checkpoint();
    ASSERT_TRUE(write_down(base, ledger, 4));
  }
  std::vector<std::string> stages;
  options o = over(files);
  o.on_recovery = [&](const recovery_progress& p) {
    EXPECT_LE(p.done, p.of);
    if (stages.empty() || stages.back() != p.stage) stages.emplace_back(p.stage);
  };
  database base = database::open(place, o);
  EXPECT_EQ(stages, (std::vector<std::string>{"checkpoint", "log", "indexes"}));
  const recovery_report& r = base.recovered();
  EXPECT_EQ(r.epoch, 2U);
  EXPECT_EQ(r.sequence, 6U) << "the table, four commits, and the cut of the checkpoint";
  EXPECT_EQ(r.checkpoint_sequence, 5U);
  EXPECT_EQ(r.log_records, 1U);
  EXPECT_EQ(r.cut_bytes, 0U);
}

/// What a key of this type is for row k.
value key_of(const column_type& type, std::int64_t k, std::string& text) {
  if (type == int64) return k;
  text = "row " + std::to_string(k);
  return text;
}

/// Rows of words lie in the file as in memory, some with nulls do not; texts are keys that an index
/// cannot tell by their hashes.
TEST(durability, each_row_of_a_checkpoint_of_many_blocks_is_found) {
  constexpr std::int64_t rows = 10000;
  for (const column_type& type : {int64, text(12)}) {
    const disk files = new_disk();
    std::string text;
    {
      database base = database::open(place, over(files));
      table& t = base.create_table(
          {.name = "rows",
           .columns = {{"k", type, primary_key}, {"a", int64}, {"b", int64, nullable}}});
      for (std::int64_t first = 0; first < rows; first += 1000) {
        ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
          for (std::int64_t k = first; k < first + 1000; ++k) {
            const value b = k % 70 == 0 ? value(nullptr) : value(k * 3);
            if (auto s = tx.insert(t, {key_of(type, k, text), k * 2, b}); !s) return s;
          }
          return tx.erase(t, {key_of(type, first + 500, text)});
        }));
      }
      base.checkpoint();
    }
    for (const std::uint32_t threads : {1U, 2U, 3U, 4U}) {
      options o = over(files);
      o.recovery_threads = threads;
      o.hash_indexes = threads % 2 == 0 ? hash_kind::cuckoo : hash_kind::probing;
      database base = database::open(place, o);
      EXPECT_EQ(base.recovered().checkpoint_rows, rows - rows / 1000);
      const table& t = base.find_table("rows");
      const auto a = t.column<std::int64_t>("a");
      const auto b = t.column<std::int64_t>("b");
      const reader now = base.snapshot();
      std::int64_t wrong = 0;
      for (std::int64_t k = 0; k < rows + 10; ++k) {
        const auto row = now.find(t, {key_of(type, k, text)});
        const bool there = k < rows && k % 1000 != 500;
        const bool right = row && row->get(a) == k * 2 && row->null(b) == (k % 70 == 0) &&
                           (row->null(b) || row->get(b) == k * 3);
        if (there ? !right : static_cast<bool>(row)) ++wrong;
      }
      EXPECT_EQ(wrong, 0) << threads << " threads";
    }
  }
}

/// Of this process. One that has ended may be seen a little longer.
bool has_threads(std::ptrdiff_t wanted) {
  for (int tries = 0; tries < 5000; ++tries) {
    const std::filesystem::directory_iterator all("/proc/self/task");
    if (std::distance(begin(all), end(all)) == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(durability, the_database_has_the_threads_that_the_guide_says) {
  const std::filesystem::directory_iterator all("/proc/self/task");
  const std::ptrdiff_t before = std::distance(begin(all), end(all));
  const auto open_with = [&](durability_level level, std::ptrdiff_t more) {
    options o = over(new_disk());
    o.durability = level;
    o.recovery_threads = 3;  // they end with the opening
    {
      database base = database::open(place, o);
      EXPECT_TRUE(write_down(base, make_ledger(base), 1));
      EXPECT_TRUE(has_threads(before + more));
    }
    EXPECT_TRUE(has_threads(before));
  };
  open_with(durability_level::sync, 0);
  open_with(durability_level::async, 1);
  open_with(durability_level::none, 0);
}

TEST(durability, options_are_checked) {
  options o = over(new_disk());
  o.segment_bytes = 10;
  EXPECT_THROW(database::open(place, o), std::invalid_argument);
  o = over(new_disk());
  o.loss_window = std::chrono::milliseconds(0);
  EXPECT_THROW(database::open(place, o), std::invalid_argument);
  o = over(new_disk());
  o.checkpoint_share = 0;
  EXPECT_THROW(database::open(place, o), std::invalid_argument);
}

}  // namespace
