// SPDX-License-Identifier: Apache-2.0
// A database is in the directory that it was opened in, whatever the name of that leads to now; and
// a directory that has lost its files is no new database.

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include <spolia/base/atomic.hpp>
#include <spolia/db/store_status.hpp>

#include "db/layer_over.hpp"
#include "db/own_place.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class folders : public own_place {};

TEST_F(folders, stay_where_they_are_when_the_process_goes_elsewhere) {
  fs::create_directories("home");
  fs::create_directories("elsewhere");
  fs::current_path(root_ / "home");
  options o = small_segments();
  o.publish_status = true;
  {
    database base = database::open("bank", o);
    commit(base, 1, 3);
    fs::current_path(root_ / "elsewhere");
    {
      database other = database::open("bank", over(nullptr));
      commit(other, 1, 5);
    }
    const auto others = content_of("bank");
    commit(base, 4, 120);
    EXPECT_GT(base.checkpoint().removed_files, 1U);
    commit(base, 121, 125);
    EXPECT_EQ(base.storage_failure(), "");
    EXPECT_EQ(content_of("bank"), others) << "the database of the same name was touched";
    EXPECT_TRUE(read_status(root_ / "home" / "bank"));
    base.backup("copy");
  }
  EXPECT_FALSE(read_status(root_ / "home" / "bank")) << "it goes when the database is closed";
  EXPECT_EQ(commits_at(root_ / "home" / "bank"), 125);
  EXPECT_EQ(commits_at(root_ / "elsewhere" / "bank"), 5);
  EXPECT_EQ(commits_at(root_ / "elsewhere" / "copy"), 125) << "where the process was then";
}

TEST_F(folders, are_named_by_errors_as_they_were_opened) {
  fs::create_directories("elsewhere");
  database base = database::open("bank", small_segments());
  commit(base, 1, 1);
  fs::current_path("elsewhere");
  fs::remove(root_ / "bank" / "SPOLIA");
  try {
    base.checkpoint();
    ADD_FAILURE() << "SPOLIA is gone";
  } catch (const storage_error& e) {
    EXPECT_EQ(e.file(), root_ / "bank");
    EXPECT_NE(std::string(e.what()).find("was removed"), std::string::npos) << e.what();
  }
}

TEST_F(folders, are_gone_on_with_when_they_were_moved) {
  auto base = std::make_unique<database>(database::open("bank", small_segments()));
  commit(*base, 1, 10);
  base->backup("copy");
  fs::rename("bank", "aside");
  fs::copy("copy", "bank");
  database restored = database::open("bank", small_segments());
  commit(restored, 11, 30);
  const auto before = content_of("bank");
  commit(*base, 11, 150);
  base->checkpoint();
  commit(*base, 151, 160);
  EXPECT_EQ(base->storage_failure(), "");
  EXPECT_EQ(content_of("bank"), before) << "the database that was restored was touched";
  EXPECT_NE(refused([] { database::open("aside", over(nullptr)); }), "") << "it is open";
  base.reset();
  EXPECT_EQ(commits_at("aside"), 160);
  commit(restored, 31, 33);
  EXPECT_EQ(commits_in(restored), 33);
}

/// Another database in the same directory: the files are others, and so is the database.
TEST_F(folders, that_have_another_database_now_are_left_alone) {
  options o = small_segments();
  o.publish_status = true;
  auto base = std::make_unique<database>(database::open("bank", o));
  commit(*base, 1, 10);
  base->backup("copy");
  for (const auto& one : fs::directory_iterator("bank")) fs::remove(one.path());
  for (const auto& one : fs::directory_iterator("copy")) fs::copy(one.path(), "bank");
  auto restored = std::make_unique<database>(database::open("bank", o));
  commit(*restored, 11, 13);
  // Begun, and not finished: of the name that the next checkpoint would have.
  std::ofstream("bank/checkpoint-000000000000000d.spl.tmp") << "not yours";
  const auto data = [] {
    auto all = content_of("bank");
    all.erase("status");
    return all;
  };
  const auto before = data();
  const std::string why = refused([&] { base->checkpoint(); });
  EXPECT_NE(why.find((root_ / "bank").string()), std::string::npos) << why;
  EXPECT_NE(why.find("SPOLIA was replaced"), std::string::npos) << why;
  EXPECT_EQ(data(), before);
  base.reset();
  EXPECT_EQ(data(), before);
  EXPECT_TRUE(read_status("bank")) << "that of the other one was removed";
  restored.reset();
  EXPECT_EQ(commits_at("bank"), 13);
}

/// Commits numbers from `first` on until one is refused. Which one that is.
std::int64_t commit_until_refused(database& base, std::int64_t first, status& why) {
  table& ledger = base.find_table("ledger");
  std::int64_t n = first;
  for (; n < first + 1000; ++n) {
    why = write_down(base, ledger, n);
    if (!why) break;
  }
  return n;
}

/// What the storage is said to fail by, after commits were refused.
std::string said_of(database& base) {
  EXPECT_TRUE(base.stats().log.failed);
  EXPECT_EQ(base.sync(), outcome::storage_failed);
  EXPECT_THROW(base.create_table({.name = "more", .columns = {{"id", int64, primary_key}}}),
               storage_error);
  return base.storage_failure();
}

/// Nothing is acknowledged into files that no directory has.
TEST_F(folders, that_are_gone_end_the_log_at_the_next_segment) {
  struct loss {
    const char* says;
    std::function<void()> happens;
  };
  const loss losses[] = {
      {"SPOLIA was removed", [] { fs::remove_all("bank"); }},
      {"SPOLIA was removed", [] { fs::remove("bank/SPOLIA"); }},
      {"SPOLIA was replaced", [] { fs::rename("copy/SPOLIA", "bank/SPOLIA"); }},
  };
  for (const loss& l : losses) {
    SCOPED_TRACE(l.says);
    fs::remove_all("bank");
    fs::remove_all("copy");
    options o = small_segments();
    o.publish_status = true;
    database base = database::open("bank", o);
    commit(base, 1, 10);
    base.backup("copy");
    l.happens();
    status why;
    const std::int64_t refused_one = commit_until_refused(base, 11, why);
    EXPECT_LT(refused_one, 100) << "a segment of 4 KiB has less";
    EXPECT_EQ(why, outcome::storage_failed);
    EXPECT_NE(said_of(base).find(l.says), std::string::npos) << base.storage_failure();
    const auto shown = read_status("bank");
    EXPECT_EQ(shown.has_value(), fs::exists("bank"));
    if (shown) {
      EXPECT_EQ(shown->storage_failed, 1U);
    }
    EXPECT_NE(refused([&] { base.resume(); }).find(l.says), std::string::npos);
    EXPECT_EQ(write_down(base, base.find_table("ledger"), refused_one + 1),
              outcome::storage_failed);
  }
}

/// Also where no segment comes to its end, and the log is no memory.
TEST_F(folders, that_are_gone_end_the_log_a_second_later) {
  const disk files = new_disk();
  database on_disk = database::open(place, over(files));
  database base = database::open("bank", over(nullptr));
  commit(on_disk, 1, 1);
  commit(base, 1, 1);
  files->put(std::string(place) + "/SPOLIA", files->content(std::string(place) + "/SPOLIA"));
  fs::remove_all("bank");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  for (database* one : {&on_disk, &base}) {
    EXPECT_EQ(write_down(*one, one->find_table("ledger"), 2), outcome::storage_failed);
    EXPECT_NE(said_of(*one).find("SPOLIA was "), std::string::npos) << one->storage_failure();
  }
}

/// Also with nothing to be written, and at once.
TEST_F(folders, that_are_gone_have_sync_fail) {
  const auto ends = [](database& base, const std::string& says) {
    for (int again = 0; again < 2; ++again) EXPECT_EQ(base.sync(), outcome::storage_failed);
    EXPECT_NE(said_of(base).find(says), std::string::npos) << base.storage_failure();
    EXPECT_TRUE(base.stats().log.failed);
    EXPECT_EQ(write_down(base, base.find_table("ledger"), 2), outcome::storage_failed);
  };
  for (const durability_level level : {durability_level::sync, durability_level::async}) {
    SCOPED_TRACE(static_cast<int>(level));
    const disk files = new_disk();
    options o = over(files);
    o.durability = level;
    database on_disk = database::open(place, o);
    o = over(nullptr);
    o.durability = level;
    database base = database::open("bank", o);
    database alone = database::open("alone", o);
    for (database* const one : {&on_disk, &base, &alone}) {
      commit(*one, 1, 1);
      EXPECT_TRUE(one->sync());
      EXPECT_TRUE(one->sync());
    }
    files->put(std::string(place) + "/SPOLIA", files->content(std::string(place) + "/SPOLIA"));
    ends(on_disk, "SPOLIA was replaced");
    fs::rename("bank", "moved");
    EXPECT_TRUE(base.sync()) << "it is where it was, by another name";
    fs::remove_all("moved");
    ends(base, "SPOLIA was removed");
    fs::rename("alone/log-0000000000000001.spl", "aside");
    ends(alone, "log-0000000000000001.spl");
    fs::rename("aside", "alone/log-0000000000000001.spl");
    EXPECT_EQ(alone.sync(), outcome::storage_failed) << "it has failed until resume()";
    alone.resume();
    EXPECT_TRUE(alone.sync());
    fs::remove_all("alone");
  }
}

/// What the message advises.
TEST_F(folders, that_lose_their_name_are_advised_to_what_works) {
  database base = database::open("bank", small_segments());
  commit(base, 1, 10);
  fs::rename("bank/SPOLIA", "aside");
  EXPECT_EQ(base.sync(), outcome::storage_failed);
  const std::string why = base.storage_failure();
  EXPECT_NE(why.find("Put the same file back (not a copy of it) and call resume()"), why.npos)
      << why;
  EXPECT_NE(why.find("or call backup() with another directory"), why.npos) << why;
  base.backup("elsewhere");
  EXPECT_EQ(commits_at("elsewhere"), 10);
  fs::copy("aside", "bank/SPOLIA");
  EXPECT_NE(refused([&] { base.resume(); }).find("SPOLIA was replaced"), std::string::npos);
  fs::rename("aside", "bank/SPOLIA");
  base.resume();
  commit(base, 11, 20);
}

TEST_F(folders, that_come_back_are_gone_on_with_by_resume) {
  {
    database base = database::open("bank", small_segments());
    commit(base, 1, 10);
    fs::rename("bank/SPOLIA", "aside");
    status why;
    const std::int64_t n = commit_until_refused(base, 11, why);
    EXPECT_NE(refused([&] { base.resume(); }), "");
    fs::rename("aside", "bank/SPOLIA");
    EXPECT_EQ(base.resume().durable.size(), 1U) << "the one that was refused is visible";
    EXPECT_EQ(base.storage_failure(), "");
    commit(base, n + 1, 200);
  }
  EXPECT_EQ(commits_at("bank"), 200);
}

/// What a segment has is acknowledged: the one that is written to must be there, too.
TEST_F(folders, that_lose_the_segment_are_gone_on_with_by_resume) {
  for (const bool replaced : {false, true}) {
    SCOPED_TRACE(replaced);
    fs::remove_all("bank");
    {
      database base = database::open("bank", small_segments());
      commit(base, 1, 1);
      const fs::path segment = "bank/log-0000000000000001.spl";
      ASSERT_TRUE(fs::exists(segment));
      if (replaced) fs::copy(segment, "bank/other");
      fs::remove(segment);
      if (replaced) fs::rename("bank/other", segment);
      status why;
      const std::int64_t n = commit_until_refused(base, 2, why);
      EXPECT_EQ(why, outcome::storage_failed);
      const std::string said = said_of(base);
      EXPECT_NE(said.find(segment.filename().string()), std::string::npos) << said;
      EXPECT_NE(said.find(replaced ? "was replaced" : "was removed"), std::string::npos) << said;
      base.resume();
      commit(base, n + 1, 150);
    }
    EXPECT_EQ(commits_at("bank"), 150);
  }
}

/// As programs of the earlier formats have left it.
void make_older(const fs::path& directory, char format) {
  std::fstream file(directory / "SPOLIA", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(16 + 7);
  file.put(format);
}

/// Another file, of the same content, as a restoration puts it there.
void replace_identity(const fs::path& directory) {
  fs::copy(directory / "SPOLIA", directory / "new");
  fs::rename(directory / "new", directory / "SPOLIA");
}

/// After its SPOLIA was opened: the lock would be on a file that is not there any more.
TEST_F(folders, that_are_replaced_before_they_are_locked_are_refused) {
  {
    database base = database::open("bank", over(nullptr));
    commit(base, 1, 2);
  }
  layer_faults faults;
  faults.before_lock = [] { replace_identity("bank"); };
  options o = over(std::make_shared<layer_over>(faults));
  for (const bool read_only : {false, true}) {
    o.read_only = read_only;
    const std::string why = refused([&] { database::open("bank", o); });
    EXPECT_NE(why.find("SPOLIA was replaced"), std::string::npos) << why;
  }
  EXPECT_EQ(commits_at("bank"), 2);
}

TEST_F(folders, without_a_log_are_left_alone_as_well) {
  options o = over(nullptr);
  o.durability = durability_level::none;
  database base = database::open("bank", o);
  commit(base, 1, 3);
  base.checkpoint();
  base.backup("copy");
  for (const auto& one : fs::directory_iterator("bank")) fs::remove(one.path());
  for (const auto& one : fs::directory_iterator("copy")) fs::copy(one.path(), "bank");
  const auto before = content_of("bank");
  EXPECT_NE(refused([&] { base.checkpoint(); }).find("replaced"), std::string::npos);
  EXPECT_EQ(content_of("bank"), before);
}

TEST_F(folders, a_copy_that_becomes_another_one_meanwhile_is_left_alone) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  commit(base, 1, 5);
  base.backup("copy");
  base.checkpoint();
  commit(base, 6, 6);
  base.checkpoint();  // so that the copy is written anew
  files->before_write = [&] {
    bool begun = false;
    for (const std::string& n : files->names())
      begun |= n.starts_with("copy/") && n.ends_with("tmp");
    if (!begun) return;
    files->before_write = nullptr;
    files->put("copy/SPOLIA", files->content("copy/SPOLIA"));  // the same text in another file
  };
  const std::string why = refused([&] { base.backup("copy"); });
  EXPECT_NE(why.find("SPOLIA was replaced"), std::string::npos) << why;
  database copy = database::open("copy", over(files));
  EXPECT_EQ(commits_in(copy), 5);
}

/// When its data are there, and its SPOLIA does not say so yet.
TEST_F(folders, copies_that_are_replaced_at_their_end_are_refused) {
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    fs::remove_all("bank");
    fs::remove_all("copy");
    bool copies = false;
    std::size_t had = 0;
    layer_faults faults;
    faults.before_change = [&] {
      if (!copies || data_files("copy") == had) return;
      copies = false;
      replace_identity("copy");
    };
    database base = database::open("bank", over(std::make_shared<layer_over>(faults)));
    commit(base, 1, 2);
    if (again) {
      base.backup("copy");
      make_older("copy", '4');  // which does not tell whether there are data
      commit(base, 3, 4);
    }
    had = data_files("copy");
    copies = true;
    const std::string why = refused([&] { base.backup("copy"); });
    EXPECT_NE(why.find("SPOLIA was replaced"), std::string::npos) << why;
  }
}

TEST_F(folders, that_have_lost_all_data_are_refused) {
  for (const durability_level level : {durability_level::sync, durability_level::none}) {
    SCOPED_TRACE(static_cast<int>(level));
    fs::remove_all("bank");
    options o = over(nullptr);
    o.durability = level;
    {
      database base = database::open("bank", o);
      commit(base, 1, 2);
      if (level == durability_level::none) base.checkpoint();
    }
    remove_data("bank");
    std::ofstream("bank/log-0000000000000001.spl.tmp") << "somebody's last hope";
    const auto before = content_of("bank");
    for (const bool read_only : {true, false}) {
      o.read_only = read_only;
      const std::string why = refused([&] { database::open("bank", o); });
      EXPECT_NE(why.find("data files of the database are missing"), std::string::npos) << why;
      EXPECT_NE(why.find("restore a backup"), std::string::npos) << why;
      EXPECT_EQ(content_of("bank"), before) << "and nothing is changed";
    }
  }
}

/// While the process has it: its first commit was acknowledged, and another one opens what is left.
TEST_F(folders, that_lose_all_data_after_the_first_commit_are_refused) {
  database base = database::open("bank", over(nullptr));
  EXPECT_TRUE(text_of("bank/SPOLIA").find("format 6\n") != std::string::npos);
  commit(base, 1, 1);
  fs::create_directory("taken");
  fs::copy("bank/SPOLIA", "taken");
  EXPECT_NE(refused([] { database::open("taken", over(nullptr)); }), "");
}

/// A name that was mistyped makes no database, where the program says so.
TEST_F(folders, are_opened_or_made_as_the_program_says) {
  options must = over(nullptr);
  must.open = open_mode::must_exist;
  options fresh = over(nullptr);
  fresh.open = open_mode::must_be_new;
  const auto names_it = [](const options& o, const std::string& path) {
    const std::string why = refused([&] { database::open(path, o); });
    EXPECT_NE(why.find(path), std::string::npos) << why;
    return why;
  };
  const std::string missing = names_it(must, "bnak");
  EXPECT_NE(missing.find("there is no database"), std::string::npos) << missing;
  EXPECT_NE(missing.find("must_exist, so none is made"), std::string::npos) << missing;
  EXPECT_FALSE(fs::exists("bnak"));
  fs::create_directory("empty");
  EXPECT_NE(names_it(must, "empty").find("must_exist"), std::string::npos);
  std::ofstream("empty/SPOLIA").flush();  // as a process leaves it that died while it made one
  EXPECT_NE(names_it(must, "empty").find("must_exist"), std::string::npos);
  EXPECT_EQ(content_of("empty").size(), 1U) << "nothing has changed";
  EXPECT_EQ(refused([&] { database::open("empty", fresh); }), "");
  EXPECT_EQ(refused([&] { database::open("bank", fresh); }), "");
  const auto before = content_of("bank");
  EXPECT_NE(names_it(fresh, "bank").find("must_be_new"), std::string::npos);
  EXPECT_EQ(content_of("bank"), before);
  EXPECT_EQ(refused([&] { database::open("bank", must); }), "");
  fresh.read_only = true;
  EXPECT_THROW(database::open("bank", fresh), std::invalid_argument);
  EXPECT_THROW(database::open({.open = open_mode::must_exist}), std::invalid_argument);
}

TEST_F(folders, that_never_had_data_are_new) {
  options o = over(nullptr);
  o.durability = durability_level::none;
  for (int i = 0; i < 2; ++i) {
    database base = database::open("bank", o);
    EXPECT_TRUE(base.tables().empty());
    commit(base, 1, 2);
  }
  EXPECT_TRUE(text_of("bank/SPOLIA").find("format 4\n") != std::string::npos);
}

TEST_F(folders, a_copy_that_has_lost_its_data_is_written_anew) {
  database base = database::open("bank", over(nullptr));
  commit(base, 1, 2);
  base.backup("copy");
  remove_data("copy");
  {
    fs::copy("copy", "opened");
    EXPECT_NE(refused([] { database::open("opened", over(nullptr)); }), "");
  }
  EXPECT_FALSE(base.backup("copy").incremental);
  EXPECT_EQ(commits_at("copy"), 2);
}

TEST_F(folders, of_older_formats_become_the_new_one_when_they_are_written) {
  for (const char format : {'1', '2', '3', '4'}) {
    fs::remove_all("bank");
    fs::remove_all("copy");
    {
      database base = database::open("bank", over(nullptr));
      commit(base, 1, 2);
      base.backup("copy");
    }
    make_older("bank", format);
    make_older("copy", format);
    options o = over(nullptr);
    o.read_only = true;
    const auto before = content_of("bank");
    {
      database base = database::open("bank", o);
      EXPECT_EQ(commits_in(base), 2);
      EXPECT_EQ(base.recovered().guard, directory_guard::lock);
      EXPECT_TRUE(base.recovered().durable_names);
    }
    EXPECT_EQ(content_of("bank"), before);
    o.read_only = false;
    o.durability = durability_level::none;
    {
      database base = database::open("bank", o);
      EXPECT_EQ(content_of("bank"), before) << "nothing was written yet";
      base.checkpoint();
      EXPECT_NE(text_of("bank/SPOLIA").find("format 6\n"), std::string::npos);
    }
    make_older("bank", format);
    {
      database base = database::open("bank", over(nullptr));
      EXPECT_NE(text_of("bank/SPOLIA").find("format 6\n"), std::string::npos);
      EXPECT_EQ(text_of("copy/SPOLIA").find("format 6\n"), std::string::npos);
      commit(base, 3, 3);
      base.backup("copy");
      EXPECT_NE(text_of("copy/SPOLIA").find("format 6\n"), std::string::npos);
    }
    EXPECT_EQ(commits_at("copy"), 3);
    // Of an older format it cannot be told.
    make_older("bank", format);
    remove_data("bank");
    database base = database::open("bank", over(nullptr));
    EXPECT_TRUE(base.tables().empty());
  }
}

/// What older programs look at before anything else: a text of this length, and its format.
TEST_F(folders, have_a_file_that_older_programs_read_and_refuse) {
  database base = database::open("bank", over(nullptr));
  const std::string text = text_of("bank/SPOLIA");
  EXPECT_EQ(text.size(), 61U);
  EXPECT_EQ(text.substr(0, 28), "spolia database\nformat 6\nid ");
}

/// Each format from 5 on that is known says that there were data, not the newest one alone.
TEST_F(folders, say_by_each_later_format_that_there_were_data) {
  {
    database base = database::open("bank", over(nullptr));
    commit(base, 1, 1);
  }
  remove_data("bank");
  const std::string text = text_of("bank/SPOLIA");
  const auto opened_with = [&](char format) {
    std::string other = text;
    other[23] = format;
    std::ofstream("bank/SPOLIA", std::ios::binary) << other;
    return refused([] { database::open("bank", over(nullptr)); });
  };
  const std::string unknown = ": it knows 1 to ";
  const std::string at_zero = opened_with('0');
  const std::size_t at = at_zero.find("a format that this version does not know, 0" + unknown);
  ASSERT_NE(at, std::string::npos) << at_zero;
  const char newest = at_zero[at_zero.find(unknown) + unknown.size()];
  EXPECT_EQ(newest, text[23]) << "which is what it writes";
  for (char format = '5'; format <= newest; ++format) {
    const std::string why = opened_with(format);
    EXPECT_NE(why.find("data files of the database are missing"), std::string::npos) << why;
  }
  const std::string later = opened_with(static_cast<char>(newest + 1));
  EXPECT_NE(later.find("a format that this version does not know"), std::string::npos) << later;
}

/// What a process has told before it was killed.
struct told {
  spolia::atomic<std::int64_t> acknowledged{0};
  spolia::atomic<bool> done{false};
};

/// A process that is killed before its n-th step works at `directory`.
template <class F>
void killed_at(std::uint64_t n, told& by, F&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint64_t step = 0;
    layer_faults faults;
    faults.before_change = [&step, n] {
      if (++step == n) ::kill(::getpid(), SIGKILL);
    };
    options o = over(std::make_shared<layer_over>(faults));
    work(o, by);
    by.done.store_relaxed(true);
    ::_exit(0);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
}

void work_a_little(options o, told& by) {
  database base = database::open("bank", o);
  const bool is_new = base.tables().empty();
  table& ledger = is_new ? make_ledger(base) : base.find_table("ledger");
  const std::int64_t first = is_new ? 1 : commits_in(base).value_or(0) + 1;
  for (std::int64_t n = first; n < first + 2; ++n) {
    if (write_down(base, ledger, n)) by.acknowledged.store_relaxed(n);
  }
  base.checkpoint();
  if (write_down(base, ledger, first + 2)) by.acknowledged.store_relaxed(first + 2);
  base.backup("copy");
}

/// A process that makes a directory may end before the directory's name is durable. The one that
/// goes on with it sees to that before anything is acknowledged.
TEST_F(folders, that_were_left_half_made_get_a_durable_name) {
  for (std::uint64_t n = 1;; n += 1) {
    SCOPED_TRACE("step " + std::to_string(n));
    fs::remove_all("bank");
    bool durable_name = false;
    std::uint64_t step = 0;
    layer_faults faults;
    faults.after_own_name = [&] { durable_name = true; };
    const pid_t child = ::fork();
    if (child == 0) {
      faults.before_change = [&] {
        if (++step == n || durable_name) ::kill(::getpid(), SIGKILL);
      };
      const database base = database::open("bank", over(std::make_shared<layer_over>(faults)));
      ::_exit(0);
    }
    int how = 0;
    ASSERT_EQ(::waitpid(child, &how, 0), child);
    database base = database::open("bank", over(std::make_shared<layer_over>(faults)));
    commit(base, 1, 1);
    EXPECT_TRUE(durable_name);
    if (n > 12) break;
  }
}

class killed : public folders, public testing::WithParamInterface<char> {};

/// At each step of making a database, or of going on with one of an older format: what is whole is
/// opened, and what has lost its files is refused as soon as something was acknowledged.
TEST_P(killed, at_each_step) {
  void* const memory =
      ::mmap(nullptr, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  for (std::uint64_t n = 1;; n += steps_apart) {
    SCOPED_TRACE("step " + std::to_string(n));
    auto* const by = ::new (memory) told;
    fs::remove_all("bank");
    fs::remove_all("copy");
    std::int64_t before = 0;
    if (GetParam() != '0') {
      database base = database::open("bank", over(nullptr));
      commit(base, 1, before = 2);
    }
    if (GetParam() != '0') make_older("bank", GetParam());
    killed_at(n, *by, work_a_little);
    const std::int64_t acknowledged = std::max(before, by->acknowledged.load_relaxed());
    if (fs::exists("bank")) {
      fs::copy("bank", "lost");
      remove_data("lost");
      const std::string why = refused([] { database::open("lost", over(nullptr)); });
      if (by->acknowledged.load_relaxed() != 0) {
        EXPECT_NE(why.find("are missing"), std::string::npos) << why;
      }
      fs::remove_all("lost");
    }
    EXPECT_GE(commits_at("bank"), acknowledged);
    if (fs::exists("copy/SPOLIA") && fs::file_size("copy/SPOLIA") != 0) {
      EXPECT_EQ(commits_at("copy"), acknowledged);
    }
    if (by->done.load_relaxed()) break;
    ASSERT_LT(n, 500U);
  }
  ::munmap(memory, sizeof(told));
}

INSTANTIATE_TEST_SUITE_P(formats, killed, testing::Values('0', '1'));

}  // namespace
