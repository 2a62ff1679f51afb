// SPDX-License-Identifier: Apache-2.0
// An opening, a backup or a restoration that is refused leaves everything as it was, and says why;
// the next one says the same.

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "db/faulty_files.hpp"
#include "db/layer_over.hpp"
#include "db/own_place.hpp"
#include "db/seals.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class refused_openings : public own_place {
 protected:
  /// Names, kinds and bytes of all that is there.
  static std::map<std::string, std::string> all_in(const fs::path& at) {
    std::map<std::string, std::string> all;
    for (const auto& one : fs::recursive_directory_iterator(at)) {
      const bool file = one.is_regular_file() && !one.is_symlink();
      all[one.path().string()] = file ? "file: " + text_of(one.path()) : "no file";
    }
    return all;
  }
  /// Twice: both say the same, which has `words`, and change nothing.
  void is_refused(const std::function<void()>& f, std::string_view words) const {
    const auto before = all_in(root_);
    const std::string why = refused(f);
    EXPECT_NE(why.find(words), std::string::npos) << why;
    const bool unchanged = all_in(root_) == before;
    EXPECT_TRUE(unchanged) << words << ": " << why;
    EXPECT_EQ(refused(f), why);
  }
  static std::optional<storage_fault> fault_of(const std::function<void()>& f) {
    try {
      f();
    } catch (const storage_error& e) {
      return e.fault();
    }
    return std::nullopt;
  }
  static void open_it(const fs::path& at, const options& o = small_segments()) {
    const database base = database::open(at, o);
  }
  void is_not_opened(const fs::path& at, std::string_view words,
                     const options& o = over(nullptr)) const {
    is_refused([&] { open_it(at, o); }, words);
  }
  static options to_be_read() {
    options o = over(nullptr);
    o.read_only = true;
    return o;
  }
  static void put(const fs::path& file, std::string_view text) {
    if (file.has_parent_path()) fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  /// One with a checkpoint and a log after it, with a torn end and files that were not finished.
  static void make_bank(const fs::path& at) {
    {
      database base = database::open(at, small_segments());
      commit(base, 1, 60);
      base.checkpoint();
      commit(base, 61, 120);
    }
    std::ofstream(last_segment(at), std::ios::app | std::ios::binary) << "torn";
    put(at / "checkpoint-00000000000000ff.spl.tmp", "unfinished");
    put(at / "status", "of a process that was killed");
  }
  static fs::path last_segment(const fs::path& at) {
    fs::path last;
    for (const auto& one : fs::directory_iterator(at)) {
      if (one.path().filename().string().starts_with("log-")) last = std::max(last, one.path());
    }
    return last;
  }
  static fs::path checkpoint_of(const fs::path& at) {
    for (const auto& one : fs::directory_iterator(at)) {
      const std::string name = one.path().filename().string();
      if (name.starts_with("checkpoint-") && name.ends_with(".spl")) return one.path();
    }
    return {};
  }
  static void spoil(const fs::path& file, std::uint64_t at) {
    std::fstream in(file, std::ios::in | std::ios::out | std::ios::binary);
    in.seekg(static_cast<std::streamoff>(at));
    const auto was = static_cast<char>(in.get());
    in.seekp(static_cast<std::streamoff>(at));
    in.put(static_cast<char>(was ^ 0x55));
  }
};

TEST_F(refused_openings, of_data_files_without_the_file_that_says_whose_they_are) {
  for (const char* name : {"log-0000000000000001.spl", "checkpoint-0000000000000007.spl"}) {
    const fs::path at = std::string("with-") + name;
    put(at / name, "junk");
    is_not_opened(at, name);
    is_not_opened(at, "no file SPOLIA", to_be_read());
    database base = database::open("base", small_segments());
    is_refused([&] { base.backup(at); }, name);
    put(at / "SPOLIA", "");  // as a process leaves it that is killed while it makes a database
    is_not_opened(at, "or an empty one");
  }
}

TEST_F(refused_openings, of_directories_that_have_something_else) {
  put("file", "a letter");
  is_not_opened("file", "no directory");
  is_not_opened("file/below", "no directory");
  fs::create_symlink("nowhere", "dangling");
  is_not_opened("dangling", "no directory");
  put("foreign/SPOLIA", "a letter that is as long as it must be, and no file of a database");
  put("foreign/log-0000000000000001.spl", "junk");
  is_not_opened("foreign", "it is damaged");
  fs::create_directories("taken/SPOLIA");
  is_not_opened("taken", "cannot open");
  put("copied/COPY", "");
  is_not_opened("copied", "a copy that was not finished");
  put("half/COPY", "");
  put("half/checkpoint-0000000000000007.spl", "junk");
  is_not_opened("half", "a copy that was not finished");
  is_not_opened("half", "a copy that was not finished", to_be_read());
}

TEST_F(refused_openings, of_what_is_not_there) {
  is_not_opened("", "needs a directory");
  is_not_opened("nothing", "cannot open this directory", to_be_read());
  fs::create_directories("empty");
  is_not_opened("empty", "there is no database", to_be_read());
  is_not_opened(fs::path("above") / "below" / std::string(300, 'n'), "cannot be made");
  EXPECT_FALSE(fs::exists("above"));
}

TEST_F(refused_openings, by_options_that_make_no_sense) {
  options o = over(nullptr);
  o.segment_bytes = 1;
  EXPECT_THROW(open_it("fresh", o), std::invalid_argument);
  o = over(nullptr);
  o.most_partitions = 1;
  EXPECT_THROW(open_it("fresh", o), std::invalid_argument);
  EXPECT_FALSE(fs::exists("fresh"));
}

TEST_F(refused_openings, of_an_unknown_format) {
  make_bank("bank");
  put("bank/COPY", "");
  const std::string was = text_of("bank/SPOLIA");
  std::string other = was;
  other[16 + 7] = '9';
  put("bank/SPOLIA", other);
  is_not_opened("bank", "format");
  is_not_opened("bank", "format", to_be_read());
  other = was;
  other.back() = ' ';
  put("bank/SPOLIA", other);
  is_not_opened("bank", "number of the database");
}

/// Of a data file it says as much as of SPOLIA.
TEST_F(refused_openings, of_a_data_file_of_a_newer_format) {
  make_bank("bank");
  for (const fs::path& file : {last_segment("bank"), checkpoint_of("bank")}) {
    const std::string was = text_of(file);
    bytes head(file_head);
    std::memcpy(head.data(), was.data(), head.size());
    put_at(head, 12, std::uint32_t{77});
    put_at(head, 8, plain_crc(std::span(head).subspan(12)));
    std::string other = was;
    std::memcpy(other.data(), head.data(), head.size());
    put(file, other);
    const std::string words =
        file.filename().string() +
        " at 0: it has a format that this version does not know, 77, which is newer: it knows "
        "1 to ";
    is_not_opened("bank", words);
    is_not_opened("bank", words, to_be_read());
    is_not_opened("bank", "Use the version that wrote it, or a newer one");
    put(file, was);
  }
  open_it("bank");
}

/// Which of the two was there, no program can tell.
TEST_F(refused_openings, where_a_checkpoint_or_the_log_before_is_missing) {
  make_bank("bank");
  const fs::path gone = checkpoint_of("bank");
  fs::rename(gone, "aside");
  for (const options& o : {over(nullptr), to_be_read()}) {
    is_not_opened("bank", "log-0000000000000001.spl: this part of the log is missing, or the", o);
    is_not_opened("bank", ", " + gone.filename().string() + ": put that of the two back", o);
    is_not_opened("bank", "or restore a backup", o);
  }
  fs::rename("aside", gone);
  open_it("bank");
}

/// As of a disk that is mounted to be read.
TEST_F(refused_openings, where_nothing_may_be_written_it_says_how_to_read) {
  make_bank("bank");
  for (const int reason : {EROFS, EACCES, EPERM}) {
    const options o = over(std::make_shared<faulty_files>(real_files(), [&](const file_step& s) {
      return s.what == file_step::kind::open && s.name == "SPOLIA" ? reason : 0;
    }));
    is_not_opened("bank", "options::read_only opens it to be read", o);
    is_not_opened("bank", "give this process the right to write", o);
    const std::string none = refused([&] { database::open("none", o); });
    EXPECT_EQ(none.find("read_only"), std::string::npos) << none;
    EXPECT_NE(none.find("the right to write there, or use another directory"), std::string::npos)
        << none;
    EXPECT_EQ(fault_of([&] { database::open("bank", o); }), storage_fault::not_writable);
  }
}

/// A file of another one is no damage of its own.
TEST_F(refused_openings, of_a_segment_of_another_database) {
  make_bank("bank");
  make_bank("other");
  const fs::path last = last_segment("bank");
  fs::copy_file(last_segment("other"), last, fs::copy_options::overwrite_existing);
  is_not_opened("bank", "belongs to another database");
  EXPECT_EQ(fault_of([&] { open_it("bank"); }), storage_fault::another_database);
}

TEST_F(refused_openings, of_what_is_open) {
  make_bank("bank");
  const database base = database::open("bank", small_segments());
  is_not_opened("bank", "open elsewhere: in this process");
  is_not_opened("bank", "open elsewhere: in this process", to_be_read());
}

/// The error names the process.
TEST_F(refused_openings, of_what_another_process_has) {
  make_bank("bank");
  std::array<int, 2> opened{};
  std::array<int, 2> over{};
  ASSERT_TRUE(::pipe(opened.data()) == 0 && ::pipe(over.data()) == 0);
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    const database base = database::open("bank", small_segments());
    if (::write(opened[1], &byte, 1) == 1) static_cast<void>(::read(over[0], &byte, 1));
    ::_exit(0);
  }
  ASSERT_EQ(::read(opened[0], &byte, 1), 1);
  is_not_opened("bank", "open elsewhere: in process " + std::to_string(child) + " (");
  is_not_opened("bank", "open elsewhere: in process " + std::to_string(child) + " (", to_be_read());
  ASSERT_EQ(::write(over[1], &byte, 1), 1);
  int how = 0;
  EXPECT_EQ(::waitpid(child, &how, 0), child);
  for (const int end : {opened[0], opened[1], over[0], over[1]}) ::close(end);
}

/// Also of a copy: it would not be one any more.
TEST_F(refused_openings, of_damaged_or_lost_data_files) {
  make_bank("bank");
  put("bank/COPY", "");
  options o = over(nullptr);
  o.publish_status = true;
  const auto with = [&](const char* what, const std::function<void(const fs::path&)>& change,
                        std::string_view words) {
    SCOPED_TRACE(what);
    const fs::path at = std::string("bank ") + what;
    fs::copy(fs::path("bank"), at);
    change(at);
    is_not_opened(at, words, o);
    is_not_opened(at, words, to_be_read());
  };
  with("all gone", [](const fs::path& at) { remove_data(at); }, "missing");
  with("checkpoint gone", [](const fs::path& at) { fs::remove(checkpoint_of(at)); }, "missing");
  with(
      "log gone",
      [](const fs::path& at) {
        while (!last_segment(at).empty()) fs::remove(last_segment(at));
      },
      "missing");
  with(
      "checkpoint spoilt", [](const fs::path& at) { spoil(checkpoint_of(at), 200); },
      "checkpoint-");
  with(
      "of another database",
      [](const fs::path& at) {
        open_it("other");
        fs::copy(last_segment("other"), at, fs::copy_options::overwrite_existing);
        fs::copy_file("other/SPOLIA", at / "SPOLIA", fs::copy_options::overwrite_existing);
      },
      "another database");
}

TEST_F(refused_openings, by_who_listens) {
  make_bank("bank");
  put("bank/COPY", "");
  options o = over(nullptr);
  for (const char* at : {"checkpoint", "log", "indexes"}) {
    o.on_recovery = [&](const recovery_progress& p) {
      if (p.stage == at) throw storage_error("bank", storage_error::nowhere, "not today");
    };
    is_not_opened("bank", "not today", o);
  }
}

TEST_F(refused_openings, where_the_file_system_has_no_locks) {
  layer_faults faults;
  faults.no_locks = true;
  const options without = over(std::make_shared<layer_over>(faults));
  make_bank("bank");
  {
    const database base = database::open("bank", without);
  }
  // Of another machine: whether its process lives is not known here.
  const auto number = fs::directory_entry("bank/SPOLIA").hard_link_count();
  ASSERT_EQ(number, 1U);
  struct stat is{};
  ASSERT_EQ(::stat("bank/SPOLIA", &is), 0);
  std::ostringstream name;
  name << "bank/LOCK-" << std::hex << is.st_ino << "-1-2-3-4-5-6";
  put(name.str(), "");
  put("bank/LOCK-1-2-3-4-5-6-7", "");  // of a directory that this was copied from
  is_not_opened("bank", "made on another machine", without);
}

/// Neither of a new database nor of one that is there: the file system has no room.
TEST_F(refused_openings, without_room) {
  const auto full = [](const file_step& s) {
    const bool takes_room = s.what == file_step::kind::write || s.what == file_step::kind::reserve;
    return takes_room && s.name.starts_with("log-") ? ENOSPC : 0;
  };
  const options o = over(std::make_shared<faulty_files>(real_files(), full));
  is_not_opened("fresh/below", "no room", o);
  EXPECT_FALSE(fs::exists("fresh"));
  make_bank("bank");
  fs::remove("bank/reserve.spl");
  fs::remove(
      "bank/checkpoint-00000000000000ff.spl.tmp");  // goes first: it may be what is in the way
  put("bank/COPY", "");
  is_not_opened("bank", "no room", o);
}

TEST_F(refused_openings, with_a_status_that_cannot_be_made) {
  make_bank("bank");
  fs::remove("bank/status");
  fs::remove("bank/checkpoint-00000000000000ff.spl.tmp");
  fs::create_directories("bank/status/in the way");
  put("bank/COPY", "");
  options o = over(nullptr);
  o.publish_status = true;
  is_not_opened("bank", "status", o);
}

/// What was done until then is taken back.
TEST_F(refused_openings, where_the_last_steps_fail) {
  make_bank("torn");
  put("torn/COPY", "");
  fs::remove("torn/checkpoint-00000000000000ff.spl.tmp");
  fs::copy(fs::path("torn"), "bank");
  open_it("bank");
  fs::remove("bank/status");
  put("bank/COPY", "");
  using kind = file_step::kind;
  const auto with = [&](const char* at, kind what, const std::string& name) {
    SCOPED_TRACE(name);
    const auto choose = [&](const file_step& s) {
      return s.what == what && s.name == name ? EIO : 0;
    };
    options o = over(std::make_shared<faulty_files>(real_files(), choose));
    o.publish_status = true;
    is_not_opened(at, "told to fail", o);
    o.durability = durability_level::none;
    if (!name.ends_with(".tmp")) is_not_opened(at, "told to fail", o);
  };
  fs::remove("torn/status");
  with("torn", kind::truncate, last_segment("torn").filename().string());
  put("torn/status", "of a process that was killed");
  with("torn", kind::open, "status.spl.tmp");
  with("torn", kind::rename, "status.spl.tmp");
  with("bank", kind::sync, last_segment("bank").filename().string());
  with("bank", kind::remove, "COPY");
  const auto end = [](const fs::path& at) { return last_segment(at).filename().string(); };
  with("bank", kind::rename, end("bank") + ".tmp");  // it has no record, and is replaced
  with("fresh/below", kind::open, "status.spl.tmp");
  EXPECT_FALSE(fs::exists("fresh"));
  EXPECT_EQ(commits_at("torn"), 120);
  EXPECT_EQ(commits_at("bank"), 120);
}

TEST_F(refused_openings, of_copies_leave_nothing) {
  database base = database::open("base", small_segments());
  commit(base, 1, 5);
  const auto full = [](const file_step& s) {
    return s.what == file_step::kind::write && s.name.starts_with("checkpoint-") ? ENOSPC : 0;
  };
  is_refused([&] { base.backup("base"); }, "the directory of the database itself");
  options o = small_segments();
  o.files = std::make_shared<faulty_files>(real_files(), full);
  database narrow = database::open("narrow", o);
  commit(narrow, 1, 5);
  EXPECT_NE(refused([&] { narrow.backup("deep/copy"); }), "");
  EXPECT_FALSE(fs::exists("deep"));
  put("beside/letter", "dear");
  EXPECT_NE(refused([&] { narrow.backup("beside"); }), "");
  EXPECT_EQ(all_in("beside").size(), 1U);
  open_it("other");
  is_refused([&] { base.backup("other"); }, "another database");
  const auto junk = [](std::span<std::byte>) -> std::size_t { return 0; };
  is_refused([&] { database::restore(junk, "restored"); }, "the stream");
  std::string stream;
  base.backup([&](std::span<const std::byte> part) {
    stream.append(reinterpret_cast<const char*>(part.data()), part.size());
  });
  const auto broken = [&, at = std::size_t{0}](std::span<std::byte> to) mutable -> std::size_t {
    if (at != 0) throw storage_error("the line", storage_error::nowhere, "was cut");
    std::memcpy(to.data(), stream.data(), to.size());
    return at = to.size();
  };
  is_refused([&] { database::restore(broken, "deep/restored"); }, "was cut");
  EXPECT_FALSE(fs::exists("deep"));
}

struct what_is_opened {
  int commits;
  bool checkpoint;
  int openings;  // after the first one, the last segment has no record
};

class each_step : public refused_openings, public testing::WithParamInterface<what_is_opened> {
 protected:
  static void make(const fs::path& at) {
    for (int n = 0; n < GetParam().openings; ++n) {
      database base = database::open(at, small_segments());
      if (n == 0 && GetParam().commits != 0) commit(base, 1, GetParam().commits);
      if (n == 0 && GetParam().checkpoint) base.checkpoint();
    }
  }
  /// Fails that step of an opening, or all from it on. False: there are not so many.
  static bool fails(const fs::path& at, int step, bool for_good) {
    int done = 0;
    const auto choose = [&](const file_step&) {
      ++done;
      return done == step || (for_good && done > step) ? EIO : 0;
    };
    const auto files = std::make_shared<faulty_files>(real_files(), choose);
    (void)refused([&] { open_it(at, over(files)); });
    return done >= step;
  }
};

/// The next opening, without faults, finds everything.
TEST_P(each_step, that_fails_loses_nothing) {
  for (const bool for_good : {false, true}) {
    bool failed = true;
    for (int step = 1; failed; ++step) {
      SCOPED_TRACE(std::to_string(step) + (for_good ? " and all later" : ""));
      const fs::path at = root_ / "base";
      make(at);
      failed = fails(at, step, for_good);
      const bool empty = GetParam().commits == 0;
      const auto open = [&] {
        if (empty) return open_it(at);
        EXPECT_EQ(commits_at(at), GetParam().commits);
      };
      EXPECT_EQ(refused(open), "");
      fs::remove_all(at);
      ASSERT_LT(step, 200);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(of_openings, each_step,
                         testing::Values(what_is_opened{0, false, 0}, what_is_opened{0, false, 1},
                                         what_is_opened{0, false, 2}, what_is_opened{20, false, 1},
                                         what_is_opened{20, false, 2}, what_is_opened{20, true, 1},
                                         what_is_opened{20, true, 2}));

/// That of a program which was killed.
TEST_F(refused_openings, what_is_left_of_files_that_were_not_finished_goes_with_one_that_is_not) {
  const fs::path base = root_ / "base";
  open_it(base);
  const fs::path left = base / "checkpoint-0000000000000001.spl.tmp";
  put(left, "half of it");
  {
    const database d = database::open(base, to_be_read());
  }
  EXPECT_TRUE(fs::exists(left)) << "it was only read";
  open_it(base);
  EXPECT_FALSE(fs::exists(left));
}

/// It would be taken for a name that nothing has: what is made there would be made elsewhere, or
/// the link be lost.
TEST_F(refused_openings, of_links_to_what_is_not_there) {
  const fs::path bank = root_ / "bank";
  make_bank(bank);
  fs::create_directories("elsewhere");
  options o = over(nullptr);
  o.publish_status = true;
  const auto instead_of = [&](const std::string& name, bool is_read) {
    SCOPED_TRACE(name);
    const fs::path at = bank / name;
    const bool was_there = fs::exists(at);
    if (was_there) fs::rename(at, root_ / "kept");
    fs::create_symlink(root_ / "elsewhere" / name, at);
    is_not_opened(bank, name + ": is a symbolic link", o);
    if (is_read) is_not_opened(bank, name + ": is a symbolic link", to_be_read());
    fs::remove(at);
    if (was_there) fs::rename(root_ / "kept", at);
  };
  instead_of("SPOLIA", true);
  instead_of(last_segment(bank).filename().string(), true);
  instead_of(checkpoint_of(bank).filename().string(), true);
  instead_of("COPY", false);
  instead_of("status", false);
  instead_of("reserve.spl", false);
  fs::create_directories("empty");
  fs::create_symlink("../elsewhere/SPOLIA", "empty/SPOLIA");
  is_not_opened("empty", "SPOLIA: is a symbolic link");
  is_not_opened("empty", "SPOLIA: is a symbolic link", to_be_read());
  EXPECT_EQ(commits_at(bank), 120);
}

/// Nor is a file made through such a link that comes later, or has another name.
TEST_F(refused_openings, no_file_is_made_through_a_link) {
  fs::create_directories("elsewhere");
  fs::create_directories("here");
  fs::create_symlink("../elsewhere/file", "here/file");
  const auto here = real_files()->open_directory("here", directory_mode::existing);
  for (const auto how : {file_mode::read, file_mode::write, file_mode::fresh}) {
    is_refused([&] { here->open("file", how); }, "file: is a symbolic link");
  }
  put("elsewhere/file", "a letter");
  EXPECT_EQ(here->open("file", file_mode::write)->size(), 8U);
  EXPECT_EQ(here->open("file", file_mode::fresh)->size(), 0U);
  EXPECT_TRUE(fs::is_symlink("here/file"));
}

/// One that leads somewhere is as good as the file.
TEST_F(refused_openings, are_none_for_links_to_files) {
  make_bank("bank");
  fs::create_directories("elsewhere");
  for (const fs::path& file : {fs::path("SPOLIA"), last_segment("bank").filename()}) {
    fs::rename("bank" / file, "elsewhere" / file);
    fs::create_symlink(".." / ("elsewhere" / file), "bank" / file);
  }
  EXPECT_EQ(commits_at("bank"), 120);
}

/// An opening would wait for a program at the other end.
TEST_F(refused_openings, a_fifo_is_not_a_file_of_a_database) {
  const fs::path base = root_ / "base";
  open_it(base);
  std::string segment;
  for (const auto& one : fs::directory_iterator(base)) {
    const std::string name = one.path().filename().string();
    if (name.starts_with("log-")) segment = name;
  }
  for (const std::string& name : {std::string("SPOLIA"), segment}) {
    const fs::path file = base / name;
    fs::rename(file, root_ / "kept");
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    is_not_opened(base, name);
    is_not_opened(base, name, to_be_read());
    fs::remove(file);
    fs::rename(root_ / "kept", file);
  }
  open_it(base);
}

}  // namespace
