// SPDX-License-Identifier: Apache-2.0
// Copies of databases: as of a commit, added to, read only, as streams, and never by halves.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "db/durable.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

TEST(backups, a_backup_is_a_database_as_of_a_commit) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  const auto opened_copy = [&] {
    database copy = database::open("copy", over(files->copy()));
    return commits_in(copy).value_or(-1);
  };
  for (std::int64_t n = 1; n <= 5; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  EXPECT_FALSE(base.backup("copy").incremental);
  EXPECT_EQ(opened_copy(), 5);
  EXPECT_TRUE(base.backup("copy").incremental) << "nothing has been changed since";
  EXPECT_EQ(opened_copy(), 5);
  for (std::int64_t n = 6; n <= 7; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  EXPECT_EQ(opened_copy(), 5);
  EXPECT_TRUE(base.backup("copy").incremental);
  EXPECT_EQ(opened_copy(), 7);
  base.checkpoint();
  ASSERT_TRUE(write_down(base, ledger, 8));
  EXPECT_FALSE(base.backup("copy").incremental) << "the log behind the copy is gone";
  EXPECT_EQ(opened_copy(), 8);
  ASSERT_TRUE(write_down(base, ledger, 9));
  {
    database copy = database::open("copy", over(files));
    ASSERT_TRUE(write_down(copy, copy.find_table("ledger"), 9));
    EXPECT_THROW(base.backup("copy"), storage_error) << "it is open";
  }
  ASSERT_TRUE(write_down(base, ledger, 10));
  EXPECT_THROW(base.backup("copy"), storage_error) << "it has gone its own way";
  database other = database::open("other", over(files));
  EXPECT_THROW(other.backup(place), storage_error);
  EXPECT_THROW(database::open().backup("copy"), std::invalid_argument);
}

TEST(backups, what_killed_ones_have_left_goes_with_the_next) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  base.backup("copy");
  for (const bool incremental : {true, false}) {
    SCOPED_TRACE(incremental);
    for (const char* left : {"copy/checkpoint-0000000000000099.spl.tmp",
                             "copy/log-0000000000000001.spl.tmp", "copy/letter.tmp"}) {
      files->put(left, bytes(100));
    }
    ASSERT_TRUE(write_down(base, ledger, incremental ? 1 : 2));
    if (!incremental) base.checkpoint();
    EXPECT_EQ(base.backup("copy").incremental, incremental);
    for (const std::string& name : files->names()) {
      EXPECT_FALSE(name.starts_with("copy/") && name.ends_with(".spl.tmp")) << name;
    }
    EXPECT_TRUE(files->has("copy/letter.tmp")) << "it is nothing of a database";
  }
}

TEST(backups, a_backup_of_a_directory_that_is_read_adds_its_log) {
  const disk files = new_disk();
  options look = over(files);
  look.read_only = true;
  const auto work = [&](std::int64_t first, std::int64_t end) {
    database base = database::open(place, over(files));
    table& ledger = first == 1 ? make_ledger(base) : base.find_table("ledger");
    for (std::int64_t n = first; n < end; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  };
  const auto back_up = [&] { return database::open(place, look).backup("copy"); };
  const auto in_copy = [&] {
    database copy = database::open("copy", over(files->copy()));
    return commits_in(copy).value_or(-1);
  };
  work(1, 4);
  EXPECT_FALSE(back_up().incremental);
  EXPECT_EQ(in_copy(), 3);
  EXPECT_EQ(back_up().files, 0U) << "there is nothing new";
  EXPECT_EQ(in_copy(), 3);
  work(4, 6);
  EXPECT_TRUE(back_up().incremental);
  EXPECT_EQ(in_copy(), 5);
  work(6, 8);
  // The last process has died in the midst of a record.
  std::string last;
  for (const std::string& n : files->names()) {
    if (n.starts_with(std::string(place) + "/log-")) last = n;
  }
  const auto half = files->content(last).size() - 10;
  files->content(last).resize(half);
  EXPECT_TRUE(back_up().incremental);
  EXPECT_EQ(in_copy(), 6);
  EXPECT_EQ(files->content(last).size(), half) << "who reads changes nothing";
  work(7, 8);
  EXPECT_TRUE(back_up().incremental);
  EXPECT_EQ(in_copy(), 7);
}

TEST(backups, a_copy_that_is_ahead_is_left_alone) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  const disk old = files->copy();
  for (std::int64_t n = 2; n <= 4; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  base.backup("copy");
  for (const std::string& n : files->names()) {
    if (n.starts_with("copy/")) old->put(n, files->content(n));
  }
  EXPECT_THROW(database::open(place, over(old)).backup("copy"), storage_error);
  database copy = database::open("copy", over(old));
  EXPECT_EQ(commits_in(copy), 4);
}

TEST(backups, a_copy_of_another_history_is_left_alone) {
  for (const bool read_only : {false, true}) {
    SCOPED_TRACE(read_only);
    const disk files = new_disk();
    {
      database base = database::open(place, over(files));
      ASSERT_TRUE(write_down(base, make_ledger(base), 1));
    }
    const disk twin = files->copy();  // restored, say: it has the same number
    const auto go_on = [](const disk& of, std::int64_t erased) {
      database base = database::open(place, over(of));
      return base.transact(
          [&](transaction& tx) { return tx.erase(base.find_table("ledger"), {erased}); });
    };
    ASSERT_TRUE(go_on(files, 0));
    ASSERT_TRUE(go_on(twin, 1));
    const auto back_up = [&](const disk& of) {
      options o = over(of);
      o.read_only = read_only;
      return database::open(place, o).backup("copy");
    };
    back_up(files);
    for (const std::string& n : files->names()) {
      if (n.starts_with("copy/")) twin->put(n, files->content(n));
    }
    try {
      const backup_report made = back_up(twin);
      ADD_FAILURE() << "it was taken for a copy of this one: " << made.files << " files";
    } catch (const storage_error& e) {
      EXPECT_NE(std::string(e.what()).find("does not match"), std::string::npos) << e.what();
    }
  }
}

TEST(backups, without_a_log_a_copy_that_is_ahead_is_left_alone) {
  const disk files = new_disk();
  options o = over(files);
  o.durability = durability_level::none;
  {
    database base = database::open(place, o);
    table& ledger = make_ledger(base);
    ASSERT_TRUE(write_down(base, ledger, 1));
    base.checkpoint();
    ASSERT_TRUE(write_down(base, ledger, 2));
    for (int i = 0; i < 3; ++i) base.backup("copy");
  }
  database base = database::open(place, o);
  EXPECT_EQ(commits_in(base), 1) << "the second was never in a checkpoint";
  EXPECT_THROW(base.backup("copy"), storage_error);
  {
    const disk left = files->copy();
    database copy = database::open("copy", over(left));
    EXPECT_EQ(commits_in(copy), 2);
  }
  for (int i = 0; i < 9; ++i) base.checkpoint();
  EXPECT_THROW(base.backup("copy"), storage_error) << "it has the second all the same";
  EXPECT_FALSE(base.backup("another").incremental);
  database another = database::open("another", over(files));
  EXPECT_EQ(commits_in(another), 1);
}

TEST(backups, a_backup_as_a_stream) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  for (std::int64_t n = 1; n <= 5; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  bytes stream;
  const backup_report made = base.backup([&](std::span<const std::byte> part) {
    stream.insert(stream.end(), part.begin(), part.end());
  });
  EXPECT_EQ(made.bytes, stream.size());
  EXPECT_FALSE(made.incremental);
  const auto restored = [&](const std::string& to, std::size_t size) {
    std::size_t at = 0;
    const auto give = [&](std::span<std::byte> room) {
      const std::size_t n = std::min({room.size(), size - at, std::size_t{100}});
      std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), n, room.begin());
      at += n;
      return n;
    };
    database::restore(give, to, files);
    database copy = database::open(to, over(files));
    return commits_in(copy);
  };
  EXPECT_EQ(restored("whole", stream.size()), 5);
  EXPECT_THROW(restored(place, stream.size()), storage_error) << "it is open";
  EXPECT_THROW(restored("whole", stream.size()), storage_error) << "there is a database";
  for (std::size_t size = 0; size < stream.size(); size += 7) {
    EXPECT_THROW(restored("cut" + std::to_string(size), size), storage_error);
  }
  ASSERT_TRUE(write_down(base, ledger, 6));
  EXPECT_THROW(base.backup([](std::span<const std::byte>) { throw std::runtime_error("enough"); }),
               std::runtime_error);
  ASSERT_TRUE(write_down(base, ledger, 7)) << "and nothing has changed";
}

options to_read(const disk& files) {
  options o = over(files);
  o.read_only = true;
  return o;
}

/// Without a log, two histories that part come to the same numbers.
TEST(backups, a_copy_of_a_history_that_was_lost_is_left_alone) {
  const disk files = new_disk();
  options o = over(files);
  const auto session = [&](durability_level level, std::int64_t n, auto&& then) {
    o.durability = level;
    database base = database::open(place, o);
    if (base.tables().empty()) make_ledger(base);
    ASSERT_TRUE(write_down(base, base.find_table("ledger"), n));
    then(base);
  };
  session(durability_level::sync, 1, [](database&) {});
  session(durability_level::none, 2, [](database& base) { base.backup("copy"); });
  session(durability_level::none, 2, [](database& base) { base.checkpoint(); });
  session(durability_level::sync, 3, [](database& base) {
    EXPECT_THROW(base.backup("copy"), storage_error);
    EXPECT_FALSE(base.backup("another").incremental);
  });
  session(durability_level::sync, 4, [](database& base) {
    EXPECT_TRUE(base.backup("another").incremental) << "that one goes on";
  });
  database another = database::open("another", over(files));
  EXPECT_EQ(commits_in(another), 4);
}

TEST(backups, nothing_in_memory_can_only_be_read) {
  EXPECT_THROW(database::open({.read_only = true}), std::invalid_argument);
}

TEST(backups, a_backup_that_was_not_finished_is_none) {
  for (std::uint64_t at = 1;; ++at) {
    SCOPED_TRACE(at);
    const disk files = new_disk();
    database base = database::open(place, over(files));
    table& ledger = make_ledger(base);
    for (std::int64_t n = 1; n <= 2; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    files->fails_at = files->changes + at;
    bool done = false;
    try {
      base.backup("copy");
      done = true;
    } catch (const storage_error&) {
      files->fails_at = 0;
    }
    files->fails_at = 0;
    const disk left = files->copy();
    bool finished = left->has("copy/COPY");
    // Before that there is an empty file in an empty directory, of which a new database is made.
    if (finished) try {
        database copy = database::open("copy", over(left));
        EXPECT_FALSE(left->has("copy/COPY"));
        EXPECT_EQ(copy.tables().size(), 1U) << "a copy that was not finished was opened as empty";
        EXPECT_EQ(commits_in(copy), 2);
      } catch (const storage_error& e) {
        EXPECT_NE(e.problem().find("a copy that was not finished"), std::string::npos);
        finished = false;
      }
    if (left->has("copy/COPY") && !finished) {
      try {
        database::open("copy", to_read(left));
        ADD_FAILURE() << "it was opened to be read";
      } catch (const storage_error& e) {
        EXPECT_NE(e.problem().find("a copy that was not finished"), std::string::npos);
      }
    }
    if (done) {
      EXPECT_TRUE(finished);
      break;
    }
    if (base.stats().log.failed) continue;
    base.backup("copy");
    database copy = database::open("copy", over(files));
    EXPECT_EQ(commits_in(copy), 2) << "the next one is whole";
  }
}

/// The process that has the directory removes the log before its checkpoint when the other one has
/// listed the files.
TEST(backups, one_that_attaches_while_the_log_is_removed_makes_a_new_copy) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  base.backup("copy");
  ASSERT_TRUE(write_down(base, ledger, 2));
  const auto of_place = [](const std::string& name) {
    return name.starts_with(std::string(place) + "/log-");
  };
  std::vector<std::string> gone;
  for (const std::string& name : files->names()) {
    if (of_place(name)) gone.push_back(name.substr(std::string(place).size() + 1));
  }
  base.checkpoint();
  for (const std::string& name : gone) ASSERT_FALSE(files->has(place + ("/" + name)));
  ASSERT_TRUE(write_down(base, ledger, 3));
  options o = to_read(files);
  o.attach = true;
  files->after_list = [&](std::vector<std::string>& names) {
    const bool copy = std::find(names.begin(), names.end(), "COPY") != names.end();
    if (!copy) names.insert(names.end(), gone.begin(), gone.end());
  };
  EXPECT_FALSE(database::open(place, o).backup("copy").incremental);
  files->after_list = nullptr;
  database copy = database::open("copy", over(files));
  EXPECT_EQ(commits_in(copy), 3);
}

/// What the power leaves of a backup when its step `at` has failed, or, and then it is done, when
/// it has ended. By a database that only reads: these files have one list of names, and to begin a
/// log would make it durable.
disk cut_short(const disk& files, std::uint64_t at, std::uint64_t seed, bool& done) {
  auto base = std::make_unique<database>(database::open(place, to_read(files)));
  files->fails_at = files->changes + at;
  try {
    base->backup("copy");
    done = true;
  } catch (const storage_error&) {
  }
  std::mt19937_64 random(seed);
  disk left = files->after_power_loss(random);
  files->fails_at = 0;
  return left;
}

/// Names that are not durable yet stay in any combination.
TEST(backups, one_that_the_power_has_ended_is_gone_on_with) {
  for (std::uint64_t at = 1;; at += steps_apart) {
    bool done = false;
    for (std::uint64_t seed = 1; seed <= (sanitized ? 6 : 16); ++seed) {
      SCOPED_TRACE(std::to_string(at) + ", seed " + std::to_string(seed));
      const disk files = new_disk();
      {
        database base = database::open(place, over(files));
        table& ledger = make_ledger(base);
        for (std::int64_t n = 1; n <= 2; ++n) ASSERT_TRUE(write_down(base, ledger, n));
      }
      const disk left = cut_short(files, at, seed, done);
      database again = database::open(place, over(left));
      again.backup("copy");
      database copy = database::open("copy", over(left));
      EXPECT_EQ(commits_in(copy), 2);
    }
    if (done) break;
  }
}

/// A store of two segments, of which the copy has the first commits of the first.
struct store_and_copy {
  store_and_copy() {
    const auto write = [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t n = first; n < end; ++n) {
        ASSERT_TRUE(write_down(*base, base->find_table("ledger"), n));
      }
    };
    make_ledger(*base);
    write(1, 3);
    base->backup("copy");
    write(3, 5);
    base->backup("copy");
    write(5, 7);
    base.reset();
    base = std::make_unique<database>(database::open(place, over(files)));
    write(7, 9);
  }
  [[nodiscard]] std::string last_segment(const std::string& in) const {
    std::string last;
    for (const std::string& n : files->names()) {
      if (n.starts_with(in + "/log-")) last = n;
    }
    return last;
  }
  /// What the backup says that is refused. The copy is as it was.
  [[nodiscard]] std::string refusal() const {
    const disk before = files->copy();
    std::string why = "nothing";
    try {
      base->backup("copy");
    } catch (const storage_error& e) {
      why = e.what();
    }
    for (const std::string& n : files->names()) {
      if (!n.starts_with("copy/")) continue;
      EXPECT_TRUE(before->has(n) && files->content(n) == before->content(n)) << n;
    }
    return why;
  }
  /// The copy opens, to be read and to be changed, and nothing of it is torn.
  void expect_whole(std::int64_t commits) const {
    for (const bool read_only : {true, false}) {
      options o = over(files->copy());
      o.read_only = read_only;
      database copy = database::open("copy", o);
      EXPECT_EQ(commits_in(copy), commits);
      EXPECT_EQ(copy.recovered().cut_bytes, 0U);
    }
  }

  const disk files = new_disk();
  std::unique_ptr<database> base = std::make_unique<database>(database::open(place, over(files)));
};

void make_newer(bytes& content) {
  put_at(content, 12, std::uint32_t{9});
  put_at(content, 8, plain_crc(std::span(content).subspan(12, file_head - 12)));
}

TEST(backups, a_copy_of_a_newer_format_is_said_to_be_that) {
  for (const char* begins : {"copy/log-", "copy/checkpoint-"}) {
    SCOPED_TRACE(begins);
    const store_and_copy has;
    for (const std::string& n : has.files->names()) {
      if (n.starts_with(begins)) make_newer(has.files->content(n));
    }
    const std::string why = has.refusal();
    EXPECT_NE(why.find("9, which is newer: it knows 1 to"), std::string::npos) << why;
    EXPECT_NE(why.find(begins), std::string::npos) << why;
  }
}

TEST(backups, a_stream_of_a_newer_format_is_said_to_be_that) {
  const store_and_copy has;
  bytes stream;
  has.base->backup([&](std::span<const std::byte> part) {
    stream.insert(stream.end(), part.begin(), part.end());
  });
  make_newer(stream);
  const auto from = [&, at = std::size_t{0}](std::span<std::byte> to) mutable {
    const std::size_t got = std::min(to.size(), stream.size() - at);
    std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), got, to.begin());
    at += got;
    return got;
  };
  try {
    database::restore(from, "new", has.files);
    ADD_FAILURE() << "it was restored";
  } catch (const storage_error& e) {
    EXPECT_NE(e.problem().find("9, which is newer: it knows 1 to"), std::string::npos) << e.what();
  }
}

TEST(backups, the_records_of_a_copy_follow_each_other) {
  const store_and_copy has;
  bytes& content = has.files->content(has.last_segment("copy"));
  const record_place first = records_of(content).front();
  const bytes again(content.begin() + static_cast<std::ptrdiff_t>(first.begin),
                    content.begin() + static_cast<std::ptrdiff_t>(first.end));
  content.insert(content.end(), again.begin(), again.end());
  const std::string why = has.refusal();
  EXPECT_NE(why.find("a record does not follow the one before it"), std::string::npos) << why;
  EXPECT_NE(why.find(has.last_segment("copy")), std::string::npos) << why;
}

/// As of a copy that was itself copied, and the copying was stopped.
TEST(backups, a_copy_with_a_torn_end_is_gone_on_with) {
  for (std::size_t end = 0;; end += sanitized ? 37 : 5) {
    for (const bool zeros : {false, true}) {
      SCOPED_TRACE(std::to_string(end) + (zeros ? ", zeros" : ""));
      const store_and_copy has;
      bytes& content = has.files->content(has.last_segment("copy"));
      const std::size_t whole = content.size();
      if (end > whole) return;
      content.resize(end);
      if (zeros) content.resize(whole);
      EXPECT_TRUE(has.base->backup("copy").incremental);
      has.expect_whole(8);
      ASSERT_TRUE(write_down(*has.base, has.base->find_table("ledger"), 9));
      has.base->backup("copy");
      has.expect_whole(9);
    }
  }
}

/// What a copy has whose last segment was cut. Nothing: an opening refuses that one, since it has
/// no header.
std::optional<std::int64_t> in_cut_copy(const disk& files, bool header) {
  try {
    database copy = database::open("copy", to_read(files));
    return commits_in(copy).value_or(-1);
  } catch (const storage_error& e) {
    EXPECT_TRUE(header) << e.what();
    return std::nullopt;
  }
}

/// Whatever the power leaves of such a backup.
TEST(backups, no_segment_comes_behind_a_torn_end) {
  for (const bool header : {false, true}) {
    for (std::uint64_t at = 1;; at += steps_apart) {
      bool done = false;
      for (std::uint64_t seed = 1; seed <= (sanitized ? 2 : 8); ++seed) {
        SCOPED_TRACE((header ? "header, " : "record, ") + std::to_string(at) + ", seed " +
                     std::to_string(seed));
        store_and_copy has;
        has.base.reset();
        bytes& content = has.files->content(has.last_segment("copy"));
        content.resize(header ? file_head - 20 : content.size() - 3);
        const disk files = has.files->copy();
        const disk left = cut_short(files, at, seed, done);
        const std::optional<std::int64_t> found = in_cut_copy(left, header);
        EXPECT_TRUE(found == 8 || !done);
        if (found) {
          EXPECT_TRUE(*found >= 2 && *found <= 8) << *found;
        }
        database again = database::open(place, over(left));
        again.backup("copy");
        database copy = database::open("copy", over(left));
        EXPECT_EQ(commits_in(copy), 8);
      }
      if (done) break;
    }
  }
}

/// Not the last segment.
TEST(backups, a_segment_without_a_header_has_none_after_it) {
  store_and_copy has;
  has.base->backup("copy");
  const auto expect_refused = [&](const char* said) {
    ASSERT_TRUE(write_down(*has.base, has.base->find_table("ledger"), 9));
    const std::string why = has.refusal();
    EXPECT_NE(why.find(said), std::string::npos) << why;
    EXPECT_NE(why.find("the copy is damaged: make a new one"), std::string::npos) << why;
  };
  std::vector<std::string> segments;
  for (const std::string& n : has.files->names()) {
    if (n.starts_with("copy/log-")) segments.push_back(n);
  }
  ASSERT_GE(segments.size(), 3U);
  has.files->content(segments.back()).resize(file_head - 20);
  bytes& before = has.files->content(segments[segments.size() - 2]);
  const bytes whole = before;
  before.resize(whole.size() - 3);
  expect_refused("the file ends within a record");
}

TEST(backups, a_copy_with_a_torn_end_is_replaced_where_the_log_is_gone) {
  const store_and_copy has;
  bytes& content = has.files->content(has.last_segment("copy"));
  content.resize(content.size() - 3);
  has.base->checkpoint();
  EXPECT_FALSE(has.base->backup("copy").incremental);
  has.expect_whole(8);
}

TEST(backups, a_torn_end_stays_that_the_database_does_not_have_whole) {
  store_and_copy has;
  has.base.reset();
  has.base = std::make_unique<database>(database::open(place, to_read(has.files)));
  has.base->backup("copy");
  bytes& content = has.files->content(has.last_segment("copy"));
  const record_place first = records_of(content).front();
  const bytes half(content.begin() + static_cast<std::ptrdiff_t>(first.begin),
                   content.begin() + static_cast<std::ptrdiff_t>(first.end) - 3);
  content.insert(content.end(), half.begin(), half.end());
  const std::string why = has.refusal();
  EXPECT_NE(why.find("the file ends within a record; the copy is damaged: make a new one"),
            std::string::npos)
      << why;
}

/// Its last record alone is wrong, which proves nothing of those before.
TEST(backups, a_flipped_bit_is_no_torn_end) {
  const store_and_copy has;
  has.files->content(has.last_segment("copy")).back() ^= std::byte{1};
  const std::string why = has.refusal();
  EXPECT_NE(why.find("the checksum of a record is wrong; the copy is damaged"), std::string::npos)
      << why;
}

TEST(backups, what_is_damaged_in_a_copy_has_advice) {
  for (const bool header : {false, true}) {
    SCOPED_TRACE(header);
    const store_and_copy has;
    bytes& content = has.files->content(has.last_segment("copy"));
    if (header) {
      content[20] ^= std::byte{1};
    } else {
      content[records_of(content).front().begin + record_head] ^= std::byte{1};
    }
    const std::string why = has.refusal();
    EXPECT_NE(why.find(header ? "the checksum of the header is wrong; the copy is damaged: make"
                              : "the checksum of a record is wrong; the copy is damaged: make"),
              std::string::npos)
        << why;
  }
}

/// What is copied whole is what it is called.
TEST(backups, no_segment_is_copied_that_has_another_header) {
  const store_and_copy has;
  const std::string name = has.last_segment(place);
  bytes& content = has.files->content(name);
  const bytes header(content.begin(), content.begin() + file_head);
  // So that the copy lacks this segment alone.
  content[40] ^= std::byte{1};
  EXPECT_THROW(has.base->backup("copy"), storage_error);
  for (const bool damaged : {true, false}) {
    SCOPED_TRACE(damaged);
    std::copy(header.begin(), header.end(), content.begin());
    if (damaged) {
      content[40] ^= std::byte{1};
    } else {
      put_at(content, 32, number_at<std::uint64_t>(content, 32) + 1);
      put_at(content, 8, plain_crc(std::span(content).subspan(12, file_head - 12)));
    }
    const std::string why = has.refusal();
    EXPECT_NE(why.find(damaged ? "the checksum of the header is wrong"
                               : "its name is not that of its content"),
              std::string::npos)
        << why;
    EXPECT_NE(why.find(name), std::string::npos) << why;
  }
  std::copy(header.begin(), header.end(), content.begin());
  has.base->backup("copy");
  database copy = database::open("copy", over(has.files));
  EXPECT_EQ(commits_in(copy), 8);
}

/// What a copy that holds three commits has when an attempt to bring it to eight meets a disk that
/// fails at its n-th change, and what the power leaves of it.
struct interrupted {
  interrupted(std::uint64_t at, bool anew, std::uint64_t seed) {
    const disk files = new_disk();
    options o = over(files);
    o.segment_bytes = 4096;
    auto base = std::make_unique<database>(database::open(place, o));
    make_ledger(*base);
    const auto write = [&](std::int64_t n) {
      EXPECT_TRUE(write_down(*base, base->find_table("ledger"), n));
    };
    std::int64_t n = 1;
    for (; n <= 3; ++n) write(n);
    base->backup("copy");
    for (; n <= 6; ++n) write(n);
    base->backup("copy");  // and one segment of log
    if (anew) base->checkpoint();
    for (; n <= 8; ++n) {
      base.reset();  // each in a segment of its own
      base = std::make_unique<database>(database::open(place, o));
      write(n);
    }
    files->fails_at = files->changes + at;
    try {
      const backup_report made = base->backup("copy");
      EXPECT_EQ(made.incremental, !anew);
      done = true;
    } catch (const storage_error&) {
    }
    files->fails_at = 0;
    std::mt19937_64 random(seed);
    for (const disk& left : {files->copy(), files->after_power_loss(random)}) {
      database copy = database::open("copy", over(left));
      has.push_back(commits_in(copy).value_or(-1));
    }
    if (base->stats().log.failed) return;
    base->backup("copy");
    database copy = database::open("copy", over(files));
    EXPECT_EQ(commits_in(copy), 8) << "the next one is whole";
  }
  bool done = false;
  std::vector<std::int64_t> has;
};

TEST(backups, a_copy_stays_whole_when_it_is_not_brought_up_to_date) {
  for (const bool anew : {false, true}) {
    for (std::uint64_t at = 1;; at += steps_apart) {
      bool done = false;
      for (std::uint64_t seed = 1; seed <= (sanitized ? 2 : 6); ++seed) {
        SCOPED_TRACE(std::string(anew ? "anew, " : "more, ") + std::to_string(at));
        const interrupted one(at, anew, seed);
        done = one.done;
        for (const std::int64_t n : one.has) {
          EXPECT_TRUE(n == 8 || (n >= 6 && n <= 8 && !done)) << n;
        }
      }
      if (done) break;
    }
  }
}

}  // namespace
