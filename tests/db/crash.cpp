// SPDX-License-Identifier: Apache-2.0
// crash.cpp: kills a process that writes to a database, again and again, and looks at what is there
// afterwards.
//
//     spolia-crash --seconds 10 [--seed N] [--directory D]
//
// Each round one process opens the database and works: threads that commit rows, move money between
// accounts, and make tables; one that makes, renames and drops a table that all of them write to,
// another one that takes its names, and indexes; one that takes checkpoints; and the log's own.
// What was attempted and what was acknowledged stands in memory that all processes share. A kill -9
// comes at a random moment, which may be within the opening. In half of the rounds steps of files
// fail now and then, for want of room or of descriptors or otherwise: files that cannot be made,
// made longer, renamed or removed, and directories that cannot be synced. That is told, and tried
// again; nothing else may come of it. Another process then opens the database, and checks that each
// thread's commits are there up to one that is not before the last acknowledged and not after the
// last attempted, nothing in between missing, and the sum of all accounts as ever; and that there
// are the tables and the indexes of the last change that was acknowledged, or of the next, each
// table by one name alone. A copy of the directory without its data must be refused once the
// opening was over. Some rounds begin with nothing, some with a directory as a program of an
// earlier format leaves it.
//
// A process that worked on after the end of the run would spoil the next one in the same directory:
// so a child is killed when its parent ends, whatever ended that, and a directory has one run at a
// time.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "db/crash_support.hpp"
#include "db/crash_world.hpp"
#include "db/faulty_files.hpp"

namespace {

namespace db = spolia::db;
using namespace spolia::test;

constexpr std::int64_t most_tables = 2000;  // of a thread, besides the common ones

/// What the outside knows of one thread.
struct alignas(64) account_of_work {
  spolia::atomic<std::int64_t> attempted{0};
  spolia::atomic<std::int64_t> acknowledged{0};
  spolia::atomic<std::int64_t> tables_attempted{0};
  spolia::atomic<std::int64_t> tables_acknowledged{0};
  std::array<spolia::atomic<bool>, most_tables> filled{};  // acknowledged: the table has its row
};
struct shared_record {
  std::array<account_of_work, threads> of;
  spolia::atomic<bool> open{false};  // the opening was over
  spolia::atomic<std::uint64_t> commits{0};
  spolia::atomic<std::uint64_t> checkpoints{0};
  spolia::atomic<std::uint64_t> faults{0};             // steps of files that were made to fail
  spolia::atomic<std::uint64_t> changes_attempted{0};  // of tables and indexes
  spolia::atomic<std::uint64_t> changes_acknowledged{0};
};

/// Whether it is worth another try: a step of files has failed, and nothing came of it.
bool only_refused(const db::database& base) { return !base.stats().log.failed; }

void change_catalog_for_ever(world& w, shared_record& record, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t longest = random() % 2 == 0 ? 500 : 20000;
  for (;;) {
    const std::uint64_t n = record.changes_acknowledged.load_relaxed();
    record.changes_attempted.store_relaxed(n + 1);
    const db::status s = change_catalog_once(w, n);
    if (s == db::outcome::storage_failed && only_refused(w.base)) continue;
    if (!s) wrong("a change of the catalogue: " + std::string(s.message()));
    record.changes_acknowledged.store_relaxed(n + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
  }
}

db::status commit_one(world& w, std::int64_t thread, std::int64_t n, std::mt19937_64& random) {
  const auto from = static_cast<std::int64_t>(random() % accounts);
  const auto to = static_cast<std::int64_t>(random() % accounts);
  // A thread that has a row may be kept off the processor for longer than the usual tries take.
  return w.base.transact([&](db::transaction& tx) { return write(w, tx, {thread, n, from, to}); },
                         {.tries = 1000000});
}

std::string table_name(std::int64_t thread, std::int64_t n) {
  return "t" + std::to_string(thread) + "_" + std::to_string(n);
}

/// A table, or none if it was refused.
db::table* try_to_make(world& w, const db::table_spec& spec) {
  try {
    return &w.base.create_table(spec);
  } catch (const db::storage_error& e) {
    if (!only_refused(w.base)) wrong(std::string("a new table: ") + e.what());
    return nullptr;
  }
}

/// One more table of the thread's own, with a row that has its number.
void make_table(world& w, account_of_work& mine, std::int64_t thread, bool sync) {
  const std::int64_t n = mine.tables_acknowledged.load_relaxed() + 1;
  if (n >= most_tables) return;
  mine.tables_attempted.store_relaxed(n);
  db::table* const made =
      try_to_make(w, {.name = table_name(thread, n),
                      .columns = {{"k", db::int64, db::primary_key}},
                      .primary = n % 2 == 0 ? db::index_kind::ordered : db::index_kind::hash});
  if (made == nullptr) return;
  mine.tables_acknowledged.store_relaxed(n);
  db::status s;
  do {
    s = w.base.transact([&](db::transaction& tx) { return tx.insert(*made, {n}); });
  } while (s == db::outcome::storage_failed && only_refused(w.base));
  if (!s) wrong("a row of a new table: " + std::string(s.message()));
  if (sync || w.base.sync()) mine.filled[static_cast<std::size_t>(n)].store_relaxed(true);
}

void run_thread(world& w, shared_record& record, std::int64_t thread, bool sync,
                std::uint64_t seed) {
  std::mt19937_64 random(seed + static_cast<std::uint64_t>(thread));
  account_of_work& mine = record.of[static_cast<std::size_t>(thread)];
  for (std::int64_t n = mine.acknowledged.load_relaxed() + 1;; ++n) {
    mine.attempted.store_relaxed(n);
    db::status s;
    do {
      s = commit_one(w, thread, n, random);
    } while (s == db::outcome::dropped || s == db::outcome::schema_changed ||
             (s == db::outcome::storage_failed && only_refused(w.base)));
    if (!s) wrong("a commit: " + std::string(s.message()) + " " + w.base.storage_failure());
    record.commits.fetch_add_relaxed(1);
    if (sync || (n % 32 == 0 && w.base.sync())) mine.acknowledged.store_relaxed(n);
    if (random() % 500 == 0) make_table(w, mine, thread, sync);
  }
}

/// Opened while steps fail, or else without that.
std::unique_ptr<world> open_world(const std::filesystem::path& directory, const db::options& o,
                                  fault_maker& faults) {
  try {
    return std::make_unique<world>(directory, o);
  } catch (const db::storage_error&) {
    faults.turn(false);
    return std::make_unique<world>(directory, o);
  }
}

void checkpoint_once(world& w, shared_record& record) {
  try {
    w.base.checkpoint();
    record.checkpoints.fetch_add_relaxed(1);
  } catch (const db::storage_error& e) {
    if (!only_refused(w.base)) wrong(std::string("a checkpoint: ") + e.what());
  }
}

/// Works until it is killed.
[[noreturn]] void work(const std::filesystem::path& directory, shared_record& record,
                       std::uint64_t seed) {
  std::mt19937_64 random(seed);
  db::options o;
  o.segment_bytes = 4096U << random() % 6;
  o.checkpoint_log_bytes = random() % 2 == 0 ? 0 : 100000;
  o.checkpoint_share = random() % 2 == 0 ? 100 : 20;
  const bool sync = random() % 4 != 0;
  o.durability = sync ? db::durability_level::sync : db::durability_level::async;
  o.loss_window = std::chrono::milliseconds(1 + random() % 10);
  o.hash_indexes = random() % 2 == 0 ? db::hash_kind::probing : db::hash_kind::cuckoo;
  const bool explicit_checkpoints = random() % 2 == 0;
  const auto faults = std::make_shared<fault_maker>(record.faults, random());
  const bool with_faults = random() % 2 == 0;
  if (with_faults) {
    o.files = std::make_shared<faulty_files>(db::real_files(),
                                             [faults](const file_step& s) { return (*faults)(s); });
    faults->turn(random() % 2 == 0);
  }
  try {
    const std::unique_ptr<world> opened = open_world(directory, o, *faults);
    world& w = *opened;
    faults->turn(false);
    w.make();
    faults->turn(with_faults);
    record.open.store_relaxed(true);
    std::vector<std::thread> all;
    for (std::int64_t t = 0; t < threads; ++t) {
      all.emplace_back([&, t] { run_thread(w, record, t, sync, seed); });
    }
    all.emplace_back([&] { change_catalog_for_ever(w, record, seed); });
    for (;;) {
      if (explicit_checkpoints) checkpoint_once(w, record);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const std::exception& e) {
    wrong(e.what());
  }
}

std::int64_t tables_of(const world& w, std::int64_t thread) {
  std::int64_t sum = 0;
  for (const db::table* const t : w.base.tables()) {
    if (t->name().starts_with("t" + std::to_string(thread) + "_")) ++sum;
  }
  return sum;
}

void check_thread(const world& w, const db::reader& now, std::int64_t thread,
                  const account_of_work& known) {
  const auto name = "thread " + std::to_string(thread) + ": ";
  const std::int64_t tables = tables_of(w, thread);
  for (std::int64_t n = 1; n <= tables; ++n) {
    const bool there = static_cast<bool>(now.find(w.base.find_table(table_name(thread, n)), {n}));
    if (!there && known.filled[static_cast<std::size_t>(n)].load_relaxed()) {
      wrong(name + "the row of table " + std::to_string(n) + " is missing");
    }
  }
  if (tables < known.tables_acknowledged.load_relaxed() ||
      tables > known.tables_attempted.load_relaxed()) {
    wrong(name + "tables are missing, or made up");
  }
}

/// Tables and indexes, and the entries of these.
void check_catalog(const world& w, const db::reader& now, shared_record& record) {
  const std::uint64_t known = record.changes_acknowledged.load_relaxed();
  const std::uint64_t tried = record.changes_attempted.load_relaxed();
  const catalog_state found = state_of(w);
  if (found == state_after(tried)) {
    record.changes_acknowledged.store_relaxed(tried);
  } else if (found != state_after(known)) {
    wrong("the catalogue is not as change " + std::to_string(known) + " has left it");
  }
  if (found.index_of_rows) check_index(w, now);
}

/// Looks at what is there, and corrects the record by it.
void check(const std::filesystem::path& directory, shared_record& record, bool read_only) {
  db::options o;
  o.read_only = read_only;
  o.hash_indexes = read_only ? db::hash_kind::cuckoo : db::hash_kind::probing;
  try {
    const world w(directory, o);
    if (w.bank == nullptr) {
      for (const account_of_work& a : record.of) {
        if (a.acknowledged.load_relaxed() != 0) wrong("all tables are gone");
      }
      return;
    }
    const db::reader now = w.base.snapshot();
    check_catalog(w, now, record);
    if (!check_bank(w, now)) return;
    for (std::int64_t t = 0; t < threads; ++t) {
      account_of_work& a = record.of[static_cast<std::size_t>(t)];
      const std::int64_t last =
          check_rows(w, now, t, a.acknowledged.load_relaxed(), a.attempted.load_relaxed());
      check_thread(w, now, t, a);
      check_coming(w, now, t, last);
      if (read_only) continue;
      a.acknowledged.store_relaxed(last);
      a.tables_acknowledged.store_relaxed(tables_of(w, t));
    }
  } catch (const std::exception& e) {
    wrong(std::string("opening: ") + e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  have_alone(a.directory);
  const std::filesystem::path base = a.directory / "base";
  std::printf("seed %llu, in %s\n", static_cast<unsigned long long>(a.seed), a.directory.c_str());
  std::fflush(stdout);
  void* const memory = ::mmap(nullptr, sizeof(shared_record), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) wrong("no shared memory");
  auto* record = ::new (memory) shared_record;
  std::filesystem::remove_all(base);
  std::mt19937_64 random(a.seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(a.seconds);
  std::uint64_t kills = 0;
  std::uint64_t early = 0;
  std::uint64_t changes = 0;  // of tables and indexes
  while (std::chrono::steady_clock::now() < end) {
    if (has_identity(base) && random() % 4 == 0) make_older(base);
    if (random() % 16 == 0) {  // from nothing again
      std::filesystem::remove_all(base);
      const std::uint64_t commits = record->commits.load_relaxed();
      const std::uint64_t checkpoints = record->checkpoints.load_relaxed();
      const std::uint64_t faults = record->faults.load_relaxed();
      changes += record->changes_acknowledged.load_relaxed();
      record = ::new (memory) shared_record;
      record->commits.store_relaxed(commits);
      record->checkpoints.store_relaxed(checkpoints);
      record->faults.store_relaxed(faults);
    }
    const std::uint64_t seed = random();
    record->open.store_relaxed(false);
    const pid_t worker = in_child([&] { work(base, *record, seed); });
    const std::uint64_t longest = random() % 4 == 0 ? 5000 : 100000;
    // Where processors are scarce, all kills would hit the opening.
    for (int ms = 0; longest > 5000 && ms < 2000 && !record->open.load_relaxed(); ++ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
    ::kill(worker, SIGKILL);
    int how = 0;
    ::waitpid(worker, &how, 0);
    if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGKILL)
      wrong("a worker has ended by itself, with seed " + std::to_string(a.seed));
    ++kills;
    if (!record->open.load_relaxed()) ++early;
    if (record->open.load_relaxed() && !went_well(in_child([&] { check_lost(base); }))) {
      wrong("after kill " + std::to_string(kills) + ", seed " + std::to_string(a.seed));
    }
    // Sometimes to be read first, which must find the same and repair nothing.
    if (has_identity(base) && random() % 4 == 0 &&
        !went_well(in_child([&] { check(base, *record, true); }))) {
      wrong("after kill " + std::to_string(kills) + ", read only, seed " + std::to_string(a.seed));
    }
    if (!went_well(in_child([&] { check(base, *record, false); }))) {
      wrong("after kill " + std::to_string(kills) + ", seed " + std::to_string(a.seed));
    }
  }
  std::printf(
      "%llu kills, %llu of them while it was opened; %llu commits, %llu checkpoints, %llu changes "
      "of tables and indexes, %llu steps of files that failed: nothing lost\n",
      static_cast<unsigned long long>(kills), static_cast<unsigned long long>(early),
      static_cast<unsigned long long>(record->commits.load_relaxed()),
      static_cast<unsigned long long>(record->checkpoints.load_relaxed()),
      static_cast<unsigned long long>(changes + record->changes_acknowledged.load_relaxed()),
      static_cast<unsigned long long>(record->faults.load_relaxed()));
  std::filesystem::remove_all(base);
  std::filesystem::remove_all(a.directory / "lost");
  std::error_code in_use;  // by something else that lies there
  std::filesystem::remove(a.directory, in_use);
}
