// SPDX-License-Identifier: Apache-2.0
// Salvage where files are missing, swapped, of another database or history, or cannot be read; and
// what it leaves where it fails.

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "db/durable.hpp"
#include "db/layer_over.hpp"
#include "db/log/salvage_scan.hpp"
#include "db/own_place.hpp"
#include "db/salvaged.hpp"
#include "db/seals.hpp"
#include "support/cost.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

std::string segment(std::uint64_t first) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "log-%016llx.spl",
                static_cast<unsigned long long>(first));
  return std::string(place) + "/" + name.data();
}
const std::string identity = std::string(place) + "/SPOLIA";

/// Commits first..last in a segment of their own.
void commits(const disk& files, std::int64_t first, std::int64_t last) {
  database base = database::open(place, over(files));
  table& ledger = base.tables().empty() ? make_ledger(base) : base.find_table("ledger");
  for (std::int64_t n = first; n <= last; ++n) ASSERT_TRUE(write_down(base, ledger, n));
}
ledger_rows rows_of(std::int64_t last, std::uint64_t lost_from = 0, std::uint64_t lost_to = 0) {
  ledger_model m;
  for (std::int64_t n = 1; n <= last; ++n) {
    const auto record = static_cast<std::uint64_t>(n) + 1;
    if (record < lost_from || record > lost_to) m.commit(n);
  }
  return m.rows;
}

/// Three segments: records 1 to 5 (commits 1 to 4), 6 to 8 (5 to 7), 9 to 11 (8 to 10).
class three_segments : public testing::Test {
 protected:
  three_segments() {
    commits(files_, 1, 4);
    commits(files_, 5, 7);
    commits(files_, 8, 10);
  }
  const disk files_ = new_disk();
};

TEST_F(three_segments, the_middle_one_is_gone) {
  files_->remove(segment(6));
  const auto got = salvage_all(files_);
  SCOPED_TRACE(in_words(got.report));
  EXPECT_EQ(got.rows, rows_of(10, 6, 8));
  EXPECT_EQ(got.report.missing, std::vector({missing_records{6, 8}}));
  EXPECT_TRUE(says_place(got.report, segment(1), files_->content(segment(1)).size()));
  ASSERT_EQ(got.report.tables.size(), 1U);
  const salvaged_table& t = got.report.tables[0];
  ASSERT_EQ(t.older.size(), 1U);
  EXPECT_EQ(t.older[0].than, (missing_records{6, 8}));
  // Rows 1 to 4 without 3, and the counter, of which later commits have set two columns.
  EXPECT_EQ(t.older[0].rows, 5U);
  EXPECT_EQ(t.mixed, 1U);
}

TEST_F(three_segments, the_first_one_is_gone) {
  files_->remove(segment(1));
  const auto got = salvage_all(files_);
  SCOPED_TRACE(in_words(got.report));
  EXPECT_TRUE(got.rows.empty()) << "the definition of the table is gone with it";
  EXPECT_EQ(got.report.missing, std::vector({missing_records{1, 5}}));
  ASSERT_EQ(got.report.lost_tables.size(), 1U);
  EXPECT_EQ(got.report.lost_tables[0].number, 0U);
  EXPECT_EQ(got.report.lost_tables[0].changes, 14U) << "two for each, three where one is erased";
}

TEST_F(three_segments, the_last_one_is_gone) {
  files_->remove(segment(9));
  const auto got = salvage_all(files_);
  EXPECT_EQ(got.rows, rows_of(7));
}

TEST_F(three_segments, two_have_changed_their_names) {
  std::swap(files_->content(segment(1)), files_->content(segment(6)));
  const auto got = salvage_all(files_);
  SCOPED_TRACE(in_words(got.report));
  EXPECT_EQ(got.rows, rows_of(10)) << "their headers say where they belong";
  EXPECT_TRUE(got.report.complete());
}

TEST_F(three_segments, one_is_there_twice) {
  files_->put(segment(0x20), files_->content(segment(6)));
  const auto got = salvage_all(files_);
  SCOPED_TRACE(in_words(got.report));
  EXPECT_EQ(got.rows, rows_of(10));
  EXPECT_TRUE(says_place(got.report, segment(0x20), 0));
  EXPECT_EQ(got.report.unused_records, 0U) << "they are used where they belong";
}

TEST_F(three_segments, one_is_of_another_database) {
  const disk other = new_disk();
  commits(other, 1, 4);
  commits(other, 5, 7);
  files_->content(segment(6)) = other->content(segment(6));
  auto got = salvage_all(files_->copy());
  EXPECT_EQ(got.rows, rows_of(10, 6, 8)) << in_words(got.report);
  EXPECT_TRUE(says_place(got.report, segment(6), 0));
  // The same without SPOLIA: most files say whose they are.
  files_->remove(identity);
  got = salvage_all(files_);
  EXPECT_EQ(got.rows, rows_of(10, 6, 8)) << in_words(got.report);
  EXPECT_TRUE(says_place(got.report, identity, 0));
}

TEST_F(three_segments, one_is_of_another_history) {
  // Both have the same id, and records 6 to 8 that are whole.
  const disk other = new_disk();
  for (const std::string& name : files_->names()) {
    if (name == segment(1) || name == identity) other->put(name, files_->content(name));
  }
  {
    database base = database::open(place, over(other));
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(base.transact([&](transaction& tx) {
        return tx.insert(base.find_table("ledger"), {1000 + i, 1, nullptr, true, nullptr});
      }));
    }
  }
  files_->content(segment(6)) = other->content(segment(6));
  const auto got = salvage_all(files_);
  SCOPED_TRACE(in_words(got.report));
  for (const auto& [id, row] : got.rows) {
    const bool made_up = id >= 1000 && got.rows.contains(8);
    EXPECT_FALSE(made_up) << "no state had rows of both";
  }
  EXPECT_FALSE(got.report.complete());
  EXPECT_EQ(got.report.unused_records, 3U);
}

TEST_F(three_segments, one_has_zeros_from_a_place_on) {
  const auto records = records_of(files_->content(segment(6)));
  bytes& middle = files_->content(segment(6));
  std::fill(middle.begin() + static_cast<std::ptrdiff_t>(records[1].begin), middle.end(),
            std::byte{0});
  const auto got = salvage_all(files_);
  SCOPED_TRACE(in_words(got.report));
  EXPECT_EQ(got.rows, rows_of(10, 7, 8));
  EXPECT_EQ(got.report.missing, std::vector({missing_records{7, 8}}));
  EXPECT_TRUE(says_place(got.report, segment(6), records[1].begin));
}

TEST_F(three_segments, one_was_overwritten) {
  for (const std::uint64_t which : {1U, 6U, 9U}) {
    const disk damaged = files_->copy();
    bytes& all = damaged->content(segment(which));
    std::fill(all.begin(), all.end(), std::byte{0xAA});
    const auto got = salvage_all(damaged);
    SCOPED_TRACE(in_words(got.report));
    EXPECT_FALSE(got.report.complete());
    EXPECT_TRUE(says_place(got.report, segment(which), 100));
    if (which == 6) {
      EXPECT_EQ(got.rows, rows_of(10, 6, 8));
    }
    if (which == 9) {
      EXPECT_EQ(got.rows, rows_of(7));
    }
  }
}

TEST_F(three_segments, all_data_files_are_gone) {
  for (const std::uint64_t s : {1U, 6U, 9U}) files_->remove(segment(s));
  const salvage_report r = salvage(place, "new", into(files_));
  EXPECT_FALSE(r.complete());
  EXPECT_EQ(r.missing, std::vector({missing_records{1, 0}}));
  ASSERT_FALSE(r.damage.empty());
  EXPECT_NE(r.damage.back().what.find("SPOLIA says that there were some"), std::string::npos);
  files_->content(identity)[23] = std::byte{'4'};  // it cannot tell
  const salvage_report alone = salvage(place, "alone", into(files_));
  EXPECT_FALSE(alone.complete());
  EXPECT_EQ(alone.missing, r.missing);
  ASSERT_FALSE(alone.damage.empty());
  EXPECT_NE(alone.damage.back().what.find("does not say whether"), std::string::npos);
  files_->remove(identity);
  EXPECT_THROW(salvage(place, "other", into(files_)), storage_error);
}

TEST_F(three_segments, no_file_says_which_database_it_is) {
  for (const std::string text : {"", "spolia database\nformat 6\nid 12", "a letter"}) {
    const disk damaged = files_->copy();
    const auto content = std::as_bytes(std::span(text));
    damaged->put(identity, bytes(content.begin(), content.end()));
    const auto got = salvage_all(damaged);
    EXPECT_EQ(got.rows, rows_of(10)) << in_words(got.report);
    EXPECT_TRUE(got.report.complete());
    EXPECT_TRUE(says_place(got.report, identity, 0));
  }
}

TEST_F(three_segments, the_file_that_says_which_database_it_is_says_another) {
  files_->content(identity)[40] ^= std::byte{1};
  const auto got = salvage_all(files_);
  EXPECT_EQ(got.rows, rows_of(10)) << in_words(got.report);
  EXPECT_TRUE(got.report.complete());
  EXPECT_TRUE(says_place(got.report, identity, 0));
}

/// Gives a whole header another format.
void change_format(bytes& file, std::uint32_t format) {
  put_at(file, 12, format);
  put_at(file, 8, plain_crc(std::span(file).subspan(12, 52)));
}

/// Nothing is brought out, and all files stay as they are. Returns what is said.
std::string refused_salvage(const disk& files) {
  const auto before = files->copy();
  salvage_options dry = into(files);
  dry.dry_run = true;
  std::string said;
  for (const salvage_options& o : {into(files), dry}) {
    try {
      salvage(place, "new", o);
      ADD_FAILURE() << "it should be refused";
    } catch (const storage_error& e) {
      said = e.what();
    }
    EXPECT_EQ(files->names(), before->names());
    for (const std::string& name : before->names()) {
      EXPECT_EQ(files->content(name), before->content(name)) << name;
    }
  }
  return said;
}

/// One newer file is enough: what this version makes of the others is not what the store has.
TEST_F(three_segments, a_newer_format_is_named_as_such_and_refused) {
  const std::string newer = "does not know, 9, which is newer: it knows 1 to 6";
  for (const std::uint64_t s : {1U, 6U, 9U}) {
    const disk later = files_->copy();
    change_format(later->content(segment(s)), 9);
    for (const bool magic : {true, false}) {
      if (!magic) later->content(segment(s))[0] ^= std::byte{1};
      const std::string said = refused_salvage(later);
      EXPECT_NE(said.find(segment(s)), std::string::npos) << said;
      EXPECT_NE(said.find(newer), std::string::npos) << said;
    }
  }
}

/// In the text that says which database it is.
void say_format(bytes& text, const std::string& format) {
  const auto digits = std::as_bytes(std::span(format));
  const auto at = text.erase(text.begin() + 23);
  text.insert(at, digits.begin(), digits.end());
}

/// One bit of it makes a 7 of the 6. The headers of the other files have checksums.
TEST_F(three_segments, a_newer_format_in_the_file_that_says_which_database_it_is_alone_is_damage) {
  for (const std::string format : {"7", "9", "12"}) {
    const disk later = files_->copy();
    say_format(later->content(identity), format);
    const salvaged all = salvage_all(later);
    EXPECT_EQ(all.rows, rows_of(10));
    EXPECT_NE(in_words(all.report).find("newer than those of all other files"), std::string::npos)
        << in_words(all.report);
    for (const std::uint64_t s : {1U, 6U, 9U}) later->remove(segment(s));
    const std::string said = refused_salvage(later);
    EXPECT_NE(said.find(identity), std::string::npos) << said;
    EXPECT_NE(said.find(format + ", which is newer: it knows 1 to 6"), std::string::npos) << said;
  }
}

/// No version has written these.
TEST_F(three_segments, a_format_that_never_was_is_damage) {
  for (const std::string format : {"0", "05", "x"}) {
    const disk damaged = files_->copy();
    say_format(damaged->content(identity), format);
    const auto got = salvage_all(damaged);
    EXPECT_EQ(got.rows, rows_of(10)) << in_words(got.report);
    EXPECT_TRUE(says_place(got.report, identity, 0));
  }
}

/// The name of the only checkpoint, and the record that it says it goes up to.
std::pair<std::string, std::uint64_t> checkpoint_in(const disk& files) {
  const std::string begin = std::string(place) + "/checkpoint-";
  for (const std::string& name : files->names()) {
    if (name.starts_with(begin)) {
      return {name, std::stoull(name.substr(begin.size(), 16), nullptr, 16)};
    }
  }
  return {};
}

/// Records 1 to 5 (commits 1 to 4) in a segment, and a checkpoint of more.
class old_log_beside_checkpoint : public testing::Test {
 protected:
  old_log_beside_checkpoint() {
    commits(files_, 1, 4);
    const bytes log = files_->content(segment(1));
    commits(files_, 5, 7);
    database::open(place, over(files_)).checkpoint();
    for (const std::string& name : files_->names()) {
      if (name.find("/log-") != std::string::npos) files_->remove(name);
    }
    files_->put(segment(1), log);
  }
  const disk files_ = new_disk();
};

/// It has got its name when it was whole: so it proves that there was more than the log has.
TEST_F(old_log_beside_checkpoint, says_how_far_the_log_went_when_nothing_of_it_is_left) {
  const auto [name, last] = checkpoint_in(files_);
  ASSERT_GT(last, 8U);
  for (const std::size_t left : {64U, 6U, 0U}) {
    SCOPED_TRACE(left);
    const disk damaged = files_->copy();
    damaged->shorten(name, left);
    const auto got = salvage_all(damaged);
    SCOPED_TRACE(in_words(got.report));
    EXPECT_EQ(got.rows, rows_of(4));
    EXPECT_FALSE(got.report.complete());
    EXPECT_EQ(got.report.missing, std::vector({missing_records{6, last}, {last + 1, 0}}));
    EXPECT_TRUE(says_place(got.report, name, 0));
    ASSERT_EQ(got.report.tables.size(), 1U);
    ASSERT_EQ(got.report.tables[0].older.size(), 1U);
    EXPECT_EQ(got.report.tables[0].older[0].than, (missing_records{6, last}));
    EXPECT_EQ(got.report.tables[0].older[0].rows, got.rows.size());
  }
}

/// As a segment behind it that cannot be read does.
TEST_F(old_log_beside_checkpoint, says_it_beside_a_segment_that_is_damaged) {
  const auto [name, last] = checkpoint_in(files_);
  files_->shorten(name, 0);
  files_->put(segment(last + 1), bytes(100));
  const auto got = salvage_all(files_);
  EXPECT_EQ(got.report.missing, std::vector({missing_records{6, last}, {last + 1, 0}}))
      << in_words(got.report);
}

/// Also where only its first block proves that its header is whole.
TEST_F(old_log_beside_checkpoint, is_refused_if_the_checkpoint_is_of_a_newer_format) {
  const std::string name = checkpoint_in(files_).first;
  bytes& all = files_->content(name);
  change_format(all, 7);
  const std::uint32_t sum = plain_crc(std::span(all).subspan(12, 52));
  for (const bool proven_by_block : {false, true}) {
    if (proven_by_block) {
      put_at(all, file_header::bytes + 12, sum);
      const auto length = from_little<std::uint32_t>(all.data() + file_header::bytes + 8);
      put_at(all, file_header::bytes + 4,
             plain_crc(std::span(all).subspan(file_header::bytes + 8, 24 + length)));
      all[8] ^= std::byte{1};
    }
    const std::string said = refused_salvage(files_);
    EXPECT_NE(said.find("does not know, 7, which is newer"), std::string::npos) << said;
  }
}

TEST_F(old_log_beside_checkpoint, says_nothing_if_it_is_of_another_database) {
  const disk other = new_disk();
  commits(other, 1, 4);
  database::open(place, over(other)).checkpoint();
  files_->content(checkpoint_in(files_).first) = other->content(checkpoint_in(other).first);
  const auto got = salvage_all(files_);
  EXPECT_EQ(got.rows, rows_of(4));
  EXPECT_TRUE(got.report.complete()) << in_words(got.report);
}

/// Bytes that look like a part of a log, in a row whose record is damaged.
TEST(salvage, a_log_in_a_row_is_not_taken_for_the_log) {
  const disk other = new_disk();
  {
    database base = database::open(place, over(other));
    table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
    for (std::int64_t k = 1; k <= 40; ++k) {
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {k}); }));
    }
  }
  const bytes& inner = other->content(segment(1));
  const std::string_view as_text(reinterpret_cast<const char*>(inner.data()), inner.size());
  for (const std::int64_t before : {2, 10}) {
    for (const std::int64_t after : {1, 3, 30}) {
      const disk files = new_disk();
      {
        database base = database::open(place, over(files));
        table& t = base.create_table(
            {.name = "t", .columns = {{"k", int64, primary_key}, {"inner", blob(), nullable}}});
        for (std::int64_t k = 1; k <= before; ++k) {
          ASSERT_TRUE(
              base.transact([&](transaction& tx) { return tx.insert(t, {1000 + k, nullptr}); }));
        }
        ASSERT_TRUE(base.transact(
            [&](transaction& tx) { return tx.insert(t, {2000, blob_view(as_text)}); }));
        for (std::int64_t k = 1; k <= after; ++k) {
          ASSERT_TRUE(
              base.transact([&](transaction& tx) { return tx.insert(t, {3000 + k, nullptr}); }));
        }
      }
      const auto records = records_of(files->content(segment(1)));
      const record_place hit = records[static_cast<std::size_t>(before) + 1];
      for (std::size_t at = hit.begin; at < hit.begin + 60; ++at) {
        SCOPED_TRACE(std::to_string(before) + ", " + std::to_string(after) + ", " +
                     std::to_string(at - hit.begin));
        const disk damaged = files->copy();
        damaged->content(segment(1))[at] ^= std::byte{0x20};
        const salvage_report r = salvage(place, "new", into(damaged));
        SCOPED_TRACE(in_words(r));
        const database base = database::open("new", over(damaged));
        const table& t = base.find_table("t");
        std::vector<std::int64_t> keys;
        base.snapshot().for_each(
            t, [&](const row& x) { keys.push_back(x.get(t.column<std::int64_t>("k"))); });
        ASSERT_EQ(keys.size(), static_cast<std::size_t>(before + after));
        ASSERT_EQ(std::count_if(keys.begin(), keys.end(), [](auto k) { return k < 1000; }), 0);
        ASSERT_EQ(r.missing, std::vector({missing_records{hit.number, hit.number}}));
      }
    }
  }
}

TEST(salvage, rows_that_a_lost_commit_would_have_kept_apart_stay) {
  for (const index_kind kind : {index_kind::ordered, index_kind::hash}) {
    const disk files = new_disk();
    {
      database base = database::open(place, over(files));
      table& t = base.create_table({.name = "people",
                                    .columns = {{"id", int64, primary_key}, {"badge", int64}},
                                    .indexes = {{"by_badge", {"badge"}, true, kind}}});
      const auto put = [&](std::int64_t id) {
        ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {id, 7}); }));
      };
      put(1);
      ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(t, {1}); }));
      put(2);
    }
    const auto records = records_of(files->content(segment(1)));
    files->content(segment(1))[records[2].end - 1] ^= std::byte{1};
    const salvage_report r = salvage(place, "new", into(files));
    const database base = database::open("new", over(files));
    const table& t = base.find_table("people");
    std::int64_t rows = 0;
    base.snapshot().scan(t.index("by_badge"), {7}, {7}, [&](const row&) { ++rows; });
    EXPECT_EQ(rows, 2);
    EXPECT_FALSE(t.index("by_badge").unique());
    ASSERT_EQ(r.tables.size(), 1U);
    EXPECT_EQ(r.tables[0].not_unique, std::vector<std::string>({"by_badge"}));
    EXPECT_EQ(r.tables[0].older.at(0).rows, 1U) << "the first one may have been deleted";
  }
}

/// On the system's files.
class salvage_place : public own_place {
 protected:
  salvage_place() {
    database base = database::open("bank", over(nullptr));
    commit(base, 1, 3);
    base.checkpoint();
    commit(base, 4, 9);
  }
  static fs::path last_log() {
    fs::path last;
    for (const auto& one : fs::directory_iterator("bank")) {
      const bool log = one.path().filename().string().starts_with("log-");
      if (log && one.path() > last) last = one.path();
    }
    return last;
  }
  /// Names, bytes and times.
  static std::map<std::string, std::pair<std::string, std::int64_t>> state() {
    std::map<std::string, std::pair<std::string, std::int64_t>> all;
    for (const auto& [name, text] : content_of("bank")) {
      struct stat s{};
      EXPECT_EQ(::stat(("bank/" + name).c_str(), &s), 0);
      all[name] = {text, std::int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec};
    }
    struct stat s{};
    EXPECT_EQ(::stat("bank", &s), 0);
    all["."] = {"", std::int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec};
    return all;
  }
};

TEST_F(salvage_place, leaves_the_old_database_as_it_was) {
  std::string log = text_of(last_log());
  log[70] = static_cast<char>(log[70] ^ 1);
  std::ofstream(last_log(), std::ios::binary) << log;
  const auto before = state();
  salvage_options o;
  o.dry_run = true;
  EXPECT_FALSE(salvage("bank", "", o).complete());
  EXPECT_FALSE(fs::exists("new"));
  EXPECT_FALSE(salvage("bank", "new").complete());
  EXPECT_EQ(state(), before);
  fs::permissions("bank", fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_FALSE(salvage("bank", "new2").complete());
  fs::permissions("bank", fs::perms::owner_all);
}

TEST_F(salvage_place, makes_a_database_of_its_own) {
  fs::create_directory("empty");
  EXPECT_TRUE(salvage("bank", "empty").complete());
  EXPECT_TRUE(salvage("bank", "above/new").complete());
  for (const char* name : {"empty", "above/new"}) {
    database base = database::open(name, over(nullptr));
    EXPECT_EQ(commits_in(base), 9);
  }
  EXPECT_NE(text_of("empty/SPOLIA"), text_of("bank/SPOLIA")) << "it is another history";
}

TEST_F(salvage_place, is_refused) {
  const auto refused = [&](const fs::path& from, const fs::path& to, std::string_view why) {
    try {
      salvage(from, to);
      ADD_FAILURE() << "it is done";
    } catch (const storage_error& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  fs::create_directory("full");
  std::ofstream("full/letter") << "a letter";
  const auto before = state();
  refused("bank", "full", "something in it");
  refused("bank", "bank", "something in it");
  refused("nothing", "new", "cannot open");
  refused("full", "new", "no database");
  EXPECT_EQ(state(), before);
  EXPECT_EQ(text_of("full/letter"), "a letter");
  {
    const database base = database::open("bank", over(nullptr));
    refused("bank", "new", "open elsewhere");
    refused("bank", "new", "copy");
  }
  EXPECT_FALSE(fs::exists("new"));
}

/// What this process may not read may be whole, and another one may have it.
TEST_F(salvage_place, is_refused_what_it_may_not_read) {
  const std::string log = last_log().filename().string();
  std::string checkpoint;
  for (const auto& one : fs::directory_iterator("bank")) {
    const std::string name = one.path().filename().string();
    if (name.starts_with("checkpoint-")) checkpoint = name;
  }
  for (const int reason : {EACCES, EPERM, EMFILE, ENFILE, ENOMEM, EIO}) {
    for (const std::string& name : {std::string("SPOLIA"), log, checkpoint}) {
      for (const bool opened : {true, false}) {
        if (opened && name == "SPOLIA") continue;
        SCOPED_TRACE(name + " " + std::to_string(reason) + (opened ? " read" : " opened"));
        const auto refuse = [=](const std::string& file) {
          if (!file.starts_with(name)) return;
          throw storage_error(file, 0, "no", std::error_code(reason, std::system_category()));
        };
        layer_faults faults;
        if (opened) {
          faults.before_read = [=](const std::string& file, std::uint64_t, std::size_t) {
            refuse(file);
          };
        } else {
          faults.before_open = refuse;
        }
        salvage_options o;
        o.dry_run = true;
        o.store.files = std::make_shared<layer_over>(std::move(faults));
        if (reason == EIO) {
          EXPECT_FALSE(salvage("bank", "", o).damage.empty()) << "a disk that fails is damage";
          continue;
        }
        try {
          salvage("bank", "", o);
          ADD_FAILURE() << "it is done";
        } catch (const storage_error& e) {
          EXPECT_EQ(e.reason().value(), reason);
        }
      }
    }
  }
}

TEST_F(salvage_place, that_fails_leaves_nothing) {
  const auto before = state();
  for (int step = 1;; ++step) {
    int steps = 0;
    layer_faults faults;
    faults.before_change = [&] {
      if (++steps == step) {
        throw storage_error("new", 0, "no", std::error_code(EIO, std::system_category()));
      }
    };
    salvage_options o;
    o.store.files = std::make_shared<layer_over>(std::move(faults));
    bool done = false;
    try {
      salvage("bank", "new", o);
      done = true;
    } catch (const storage_error&) {
      EXPECT_FALSE(fs::exists("new")) << step;
    }
    EXPECT_EQ(state(), before);
    fs::remove_all("new");
    if (done && steps < step) break;
    ASSERT_LT(step, 200);
  }
}

TEST_F(salvage_place, ends_where_its_listener_throws) {
  struct enough {};
  for (const std::string_view stage : {"scan", "rows", "indexes", "write"}) {
    salvage_options o;
    bool met = false;
    o.on_progress = [&](const recovery_progress& p) {
      EXPECT_LE(p.done, p.of);
      if (p.stage != stage) return;
      met = true;
      throw enough();
    };
    EXPECT_THROW(salvage("bank", "new", o), enough);
    EXPECT_TRUE(met) << stage;
    EXPECT_FALSE(fs::exists("new"));
  }
}

TEST_F(salvage_place, goes_on_where_a_disk_does_not_give_its_bytes) {
  // A row in a page of its own, and rows around it.
  fs::remove_all("bank");
  {
    database base = database::open("bank", over(nullptr));
    table& t =
        base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"text", text()}}});
    for (std::int64_t k = 0; k < 40; ++k) {
      ASSERT_TRUE(base.transact(
          [&](transaction& tx) { return tx.insert(t, {k, std::string(1000, 'x')}); }));
    }
  }
  constexpr std::uint64_t bad = 3 * 4096;
  const std::string name = last_log().filename().string();
  layer_faults faults;
  faults.before_read = [&](const std::string& file, std::uint64_t at, std::size_t count) {
    if (file == name && at < bad + 4096 && bad < at + count) {
      throw storage_error(file, at, "cannot read", std::error_code(EIO, std::system_category()));
    }
  };
  salvage_options o;
  o.store.files = std::make_shared<layer_over>(std::move(faults));
  const salvage_report r = salvage("bank", "new", o);
  SCOPED_TRACE(in_words(r));
  std::uint64_t lost = 0;
  const std::string log = text_of("bank/" + name);
  const auto as_bytes_of = std::as_bytes(std::span(log));
  for (const record_place& p : records_of(bytes(as_bytes_of.begin(), as_bytes_of.end()))) {
    if (p.begin < bad + 4096 && bad < p.end) ++lost;
  }
  EXPECT_GT(lost, 2U);
  ASSERT_EQ(r.tables.size(), 1U);
  EXPECT_EQ(r.tables[0].rows, 40 - lost);
  EXPECT_NE(in_words(r).find("does not give"), std::string::npos);
}

/// A segment of nothing but records. Every second one says neither where the next one is, nor what
/// that has to name, but has the place that it should have.
bytes every_second_damaged(std::size_t records) {
  bytes all(records * record_header::bytes);
  record_header h{.epoch = 1};
  for (std::size_t i = 0; i < records; ++i) {
    const auto here = std::span(all).subspan(i * record_header::bytes, record_header::bytes);
    h.sequence = i + 1;
    h.chain = seal_record(here, h);
    if (i % 2 == 0) continue;
    here[4] ^= std::byte{1};   // the checksum
    here[8] ^= std::byte{13};  // the length
  }
  return all;
}

TEST(salvage_scan, takes_time_in_proportion_to_a_segment_full_of_holes) {
  constexpr std::size_t records = 50000 / fewer * 2;
  const bytes all = every_second_damaged(records);
  std::vector<log_piece> pieces;
  const double took = cost_of([&] { segment_scan(all, nullptr, 0, pieces).run(); });
  ASSERT_EQ(pieces.size(), records / 2);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    ASSERT_EQ(pieces[i].first, 2 * i + 1);
    ASSERT_EQ(pieces[i].last, 2 * i + 1);
    ASSERT_EQ(pieces[i].begin, 2 * i * record_header::bytes);
  }
  // A look over the rest of the segment for each hole takes half a minute.
  if (!sanitized) {
    EXPECT_LT(took, 5);
  }
}

/// A checkpoint of nothing but blocks. Every second one says neither where the next one is, nor
/// what that has to name, but names the one before it.
bytes every_second_block_damaged(std::size_t blocks) {
  bytes all(file_header::bytes + blocks * block_header::bytes);
  const auto header = write_header(file_kind::checkpoint, {.sequence = 100});
  std::copy(header.begin(), header.end(), all.begin());
  std::uint32_t chain = header_checksum(header);
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto here =
        std::span(all).subspan(file_header::bytes + i * block_header::bytes, block_header::bytes);
    chain = seal_block(here, {.chain = chain});
    if (i % 2 == 0) continue;
    here[4] ^= std::byte{1};   // the checksum
    here[8] ^= std::byte{13};  // the length
  }
  return all;
}

TEST(salvage_scan, takes_time_in_proportion_to_a_checkpoint_full_of_holes) {
  constexpr std::size_t blocks = 20000 / fewer * 2;
  const disk files = new_disk();
  commits(files, 1, 1);
  const std::string name = std::string(place) + "/checkpoint-0000000000000064.spl";
  files->put(name, every_second_block_damaged(blocks));
  folder in(*files, place, {.damaged = true});
  const double before = thread_seconds();
  const salvaged_checkpoint found(in, 100, [](std::uint64_t) {});
  const double took = thread_seconds() - before;
  ASSERT_EQ(found.blocks().size(), blocks / 2);
  for (std::size_t i = 0; i < blocks / 2; ++i) {
    ASSERT_EQ(found.blocks()[i].begin, file_header::bytes + 2 * i * block_header::bytes);
  }
  EXPECT_EQ(found.gaps().size(), blocks / 2);
  // A look over the rest of the file for each hole takes half a minute.
  if (!sanitized) {
    EXPECT_LT(took, 5);
  }
}

}  // namespace
