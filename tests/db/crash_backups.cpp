// SPDX-License-Identifier: Apache-2.0
// crash_backups.cpp: as crash.cpp, with copies: backups to one directory are killed, and so is the
// process of the database while another one takes them.
//
//     spolia-crash-backups --seconds 10 [--seed N] [--directory D]
//
// Each round one process opens the database and works, as in crash.cpp; backups to one copy are
// taken by a thread of it, by another process, which attaches to the directory again and again, or
// by both, so that one finds the copy taken. Some checkpoints remove the log that the copy would be
// gone on with, so that it is replaced. Both processes are killed, in any order, at any moment or
// at a step of the copy's files, and the next backup goes on with what is there. The copy lies on a
// disk of its own (crash_disk.hpp), the power of which is often lost then.
//
// After each round the copy is opened elsewhere. Once a backup to it has ended with success it
// opens, whatever has come since, with nothing to note and nothing torn, and has all that was
// acknowledged before that backup began, and nothing that no thread has tried. Until then it may
// say that it was not finished, and the next backup makes it whole.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "db/crash_disk.hpp"
#include "db/crash_support.hpp"
#include "db/crash_world.hpp"

namespace {

namespace db = spolia::db;
using namespace spolia::test;
using clock_type = std::chrono::steady_clock;
using count = spolia::atomic<std::uint64_t>;
using numbers = std::array<std::int64_t, threads>;

struct alignas(64) thread_record {
  spolia::atomic<std::int64_t> attempted{0};
  spolia::atomic<std::int64_t> acknowledged{0};
  spolia::atomic<std::int64_t> copied{0};  // acknowledged before a backup that has ended well
};
struct shared_record {
  std::array<thread_record, threads> of;
  spolia::atomic<bool> open{false};    // the opening was over
  spolia::atomic<bool> whole{false};   // a backup to the copy has ended well
  spolia::atomic<bool> within{false};  // a backup is under way
  spolia::atomic<bool> both{false};    // processes take backups
  count commits, checkpoints, kills, kills_at_a_step, kills_within, power_losses;
  count added, made_anew, from_outside, found_taken, found_ahead, unfinished, completed;
};

struct place {
  std::filesystem::path store;
  crash_disk copy;
};

void sleep_up_to(std::mt19937_64& random, std::uint64_t us) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % (us + 1)));
}

void raise(spolia::atomic<std::int64_t>& to, std::int64_t least) {
  std::int64_t now = to.load_relaxed();
  while (now < least && !to.cas_weak_relaxed(now, least)) {
  }
}

/// Files of which those of the copy are on its disk. Half of the processes end at one of its steps.
std::shared_ptr<db::storage_files> files_of(const place& at, shared_record& record,
                                            std::mt19937_64& random) {
  constexpr std::array<std::uint64_t, 3> most{8, 40, 300};
  const std::uint64_t last = random() % 2 == 0 ? 1 + random() % most[random() % most.size()] : 0;
  struct steps {
    std::mutex lock;
    std::uint64_t left = 0;  // 0: it does not end
  };
  const auto kept = std::make_shared<steps>();
  kept->left = last;
  return std::make_shared<disk_files>(at.copy, true, random(), [kept, &record](const file_step&) {
    const std::lock_guard hold(kept->lock);
    if (kept->left != 0 && --kept->left == 0) {
      record.kills_at_a_step.fetch_add_relaxed(1);
      ::kill(::getpid(), SIGKILL);
    }
    return 0;
  });
}

numbers acknowledged(const shared_record& record) {
  numbers all{};
  for (std::size_t t = 0; t < all.size(); ++t) all[t] = record.of[t].acknowledged.load_relaxed();
  return all;
}

/// `before`: what was acknowledged before the database was opened, or before the call.
void back_up(db::database& base, const place& at, shared_record& record, const numbers& before,
             bool attached) {
  db::backup_report made;
  record.within.store_relaxed(true);
  try {
    made = base.backup(at.copy.base());
  } catch (const db::storage_error& e) {
    const std::string why = e.what();
    const bool taken = why.find("the database is open elsewhere") != std::string::npos;
    // By the other process, since this one has attached.
    const bool ahead = why.find("what it has more would be lost") != std::string::npos;
    const bool both = record.both.load_relaxed();
    if (!both || !(taken || (attached && ahead))) wrong("a backup: " + why);
    (taken ? record.found_taken : record.found_ahead).fetch_add_relaxed(1);
    return;
  }
  record.within.store_relaxed(false);
  for (std::size_t t = 0; t < before.size(); ++t) raise(record.of[t].copied, before[t]);
  record.whole.store_relaxed(true);
  (made.incremental ? record.added : record.made_anew).fetch_add_relaxed(1);
}

void commit_for_ever(world& w, shared_record& record, std::int64_t thread, bool sync,
                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  thread_record& mine = record.of[static_cast<std::size_t>(thread)];
  for (std::int64_t n = mine.acknowledged.load_relaxed() + 1;; ++n) {
    mine.attempted.store_relaxed(n);
    const auto from = static_cast<std::int64_t>(random() % accounts);
    const auto to = static_cast<std::int64_t>(random() % accounts);
    // A thread that has a row may be kept off the processor for longer than the usual tries take.
    const db::status s =
        w.base.transact([&](db::transaction& tx) { return write(w, tx, {thread, n, from, to}); },
                        {.tries = 1000000});
    if (!s) wrong("a commit: " + std::string(s.message()) + " " + w.base.storage_failure());
    record.commits.fetch_add_relaxed(1);
    if (sync || (n % 32 == 0 && w.base.sync())) mine.acknowledged.store_relaxed(n);
    sleep_up_to(random, 300);
  }
}

/// The process of the database. Works until it is killed.
[[noreturn]] void work(const place& at, shared_record& record, std::uint64_t seed, bool copies) {
  std::mt19937_64 random(seed);
  db::options o;
  o.segment_bytes = 4096U << random() % 6;
  o.checkpoint_log_bytes = random() % 2 == 0 ? 0 : 100000;
  const bool sync = random() % 4 != 0;
  o.durability = sync ? db::durability_level::sync : db::durability_level::async;
  o.files = files_of(at, record, random);
  const bool checkpoints = random() % 3 == 0;
  try {
    world w(at.store, o);
    w.make();
    if (!w.base.sync()) wrong("a database cannot be synced: " + w.base.storage_failure());
    record.open.store_relaxed(true);
    std::vector<std::thread> all;
    for (std::int64_t t = 0; t < threads; ++t) {
      all.emplace_back(
          [&, t, seed_of_it = random()] { commit_for_ever(w, record, t, sync, seed_of_it); });
    }
    for (;;) {
      if (copies) back_up(w.base, at, record, acknowledged(record), false);
      if (checkpoints && random() % 4 == 0) {
        w.base.checkpoint();
        record.checkpoints.fetch_add_relaxed(1);
      }
      sleep_up_to(random, 3000);
    }
  } catch (const std::exception& e) {
    wrong(e.what());
  }
}

db::options to_attach() {
  db::options o;
  o.read_only = o.attach = true;
  return o;
}

/// The other process. Takes one backup after the other until it is killed.
[[noreturn]] void back_up_for_ever(const place& at, shared_record& record, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  db::options o = to_attach();
  o.files = files_of(at, record, random);
  for (;;) {
    const numbers before = acknowledged(record);
    try {
      db::database base = db::database::open(at.store, o);
      for (const auto& note : base.recovered().notes) wrong("attached, and told: " + note.text);
      back_up(base, at, record, before, true);
      record.from_outside.fetch_add_relaxed(1);
    } catch (const db::storage_error& e) {
      const std::string why = e.what();
      if (why.find("try again later") == std::string::npos) wrong("attached: " + why);
    }
    sleep_up_to(random, 3000);
  }
}

/// What the database has, which is whole: corrects the record by it.
void check_store(const place& at, shared_record& record) {
  try {
    const world w(at.store, {});
    const db::reader now = w.base.snapshot();
    if (w.bank == nullptr || !check_bank(w, now)) return;
    for (std::int64_t t = 0; t < threads; ++t) {
      thread_record& r = record.of[static_cast<std::size_t>(t)];
      const std::int64_t last =
          check_rows(w, now, t, r.acknowledged.load_relaxed(), r.attempted.load_relaxed());
      r.acknowledged.store_relaxed(last);
    }
  } catch (const std::exception& e) {
    wrong(std::string("opening: ") + e.what());
  }
}

/// Whether there is a copy that opens. If there has to be one, it has what it has to have.
bool check_copy(const place& at, shared_record& record) {
  // Elsewhere, to be opened as one that is restored: it is none any more then.
  const auto opened = at.store.parent_path() / "opened";
  std::filesystem::remove_all(opened);
  std::filesystem::create_directory(opened);
  const bool must_open = record.whole.load_relaxed();
  if (std::filesystem::exists(at.copy.base())) std::filesystem::copy(at.copy.base(), opened);
  try {
    const world w(opened, {});
    const db::recovery_report& found = w.base.recovered();
    for (const auto& note : found.notes) wrong("the copy opened, and told: " + note.text);
    if (found.cut_bytes != 0) wrong("the copy has a torn end: " + found.cut_why);
    if (w.bank == nullptr && !must_open) return false;  // the directory was empty
    if (w.bank == nullptr) wrong("the copy has lost its tables");
    const db::reader now = w.base.snapshot();
    if (!check_bank(w, now)) wrong("the copy has lost its accounts");
    for (std::int64_t t = 0; t < threads; ++t) {
      const thread_record& r = record.of[static_cast<std::size_t>(t)];
      check_rows(w, now, t, r.copied.load_relaxed(), r.attempted.load_relaxed());
    }
    return true;
  } catch (const db::storage_error& e) {
    const std::string why = e.what();
    if (must_open) wrong("the copy was whole, and does not open: " + why);
    if (why.find("this is a copy that was not finished") == std::string::npos) {
      wrong("a copy that was not finished does not say so: " + why);
    }
    return false;
  }
}

/// Nothing is killed now: the copy has all then.
void complete(const place& at, shared_record& record, std::mt19937_64& random) {
  db::options o;
  if (random() % 2 == 0) o = to_attach();
  o.files =
      std::make_shared<disk_files>(at.copy, true, random(), [](const file_step&) { return 0; });
  try {
    db::database base = db::database::open(at.store, o);
    back_up(base, at, record, acknowledged(record), o.attach);
  } catch (const std::exception& e) {
    wrong(std::string("to complete a copy: ") + e.what());
  }
  if (!check_copy(at, record)) wrong("the copy was completed, and is not there");
}

void kill_one(pid_t child, shared_record& record) {
  if (record.within.load_relaxed()) record.kills_within.fetch_add_relaxed(1);
  ::kill(child, SIGKILL);
  int how = 0;
  ::waitpid(child, &how, 0);
  if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGKILL) wrong("a process has ended by itself");
  record.kills.fetch_add_relaxed(1);
}

void one_round(const place& at, shared_record& record, std::mt19937_64& random) {
  const std::uint64_t who = random() % 4;
  record.open.store_relaxed(false);
  record.within.store_relaxed(false);
  record.both.store_relaxed(who == 1);
  const std::uint64_t seed = random();
  std::vector<pid_t> all{in_child([&] { work(at, record, seed, who != 0); })};
  // Where processors are scarce, all kills would hit the opening.
  for (int ms = 0; ms < 10000 && !record.open.load_relaxed(); ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (who < 2 && record.open.load_relaxed()) {
    all.push_back(in_child([&] { back_up_for_ever(at, record, seed + 1); }));
  }
  sleep_up_to(random, random() % 4 == 0 ? 5000 : 150000);
  if (random() % 2 == 0) std::swap(all.front(), all.back());
  for (const pid_t child : all) {
    kill_one(child, record);
    sleep_up_to(random, 20000);
  }
}

/// Ends with 0 if it was all right, and with 1 after words to that.
void check_round(const place& at, shared_record& record, std::mt19937_64& random) {
  check_store(at, record);
  const bool there = check_copy(at, record);
  if (!there) record.unfinished.fetch_add_relaxed(1);
  if (!there || random() % 4 == 0) {
    complete(at, record, random);
    if (!there) record.completed.fetch_add_relaxed(1);
  }
}

void begin_anew(const place& at, shared_record& record, bool store) {
  std::filesystem::create_directories(at.copy.base().parent_path());
  at.copy.begin();
  if (store) std::filesystem::remove_all(at.store);
  record.whole.store_relaxed(false);
  for (thread_record& t : record.of) {
    t.copied.store_relaxed(0);
    if (!store) continue;
    t.attempted.store_relaxed(0);
    t.acknowledged.store_relaxed(0);
  }
}

/// Prints what was met; in a run that is long enough each of these is. Returns what was not.
std::vector<std::string> tell(const shared_record& r) {
  std::vector<std::string> never;
  const auto one = [&](const char* what, const count& of) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(of.load_relaxed()), what);
    if (of.load_relaxed() == 0) never.emplace_back(what);
  };
  one("commits", r.commits);
  one("checkpoints", r.checkpoints);
  one("kills", r.kills);
  one("kills at a step of the copy's files", r.kills_at_a_step);
  one("kills while a backup was under way", r.kills_within);
  one("losses of the copy's power", r.power_losses);
  one("backups that have added to the copy", r.added);
  one("backups that have made it, or made it anew", r.made_anew);
  one("backups by a process that attached", r.from_outside);
  one("backups that found the copy taken", r.found_taken);
  one("backups that found it further than what they had attached to", r.found_ahead);
  one("copies that were not finished", r.unfinished);
  one("of these, completed by the next backup", r.completed);
  return never;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  have_alone(a.directory);
  const place at{a.directory / "store", crash_disk(a.directory / "copy")};
  std::printf("seed %llu, in %s\n", static_cast<unsigned long long>(a.seed), a.directory.c_str());
  std::fflush(stdout);
  void* const memory = ::mmap(nullptr, sizeof(shared_record), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) wrong("no shared memory");
  auto& record = *::new (memory) shared_record;
  std::mt19937_64 random(a.seed);
  begin_anew(at, record, true);
  const auto end = clock_type::now() + std::chrono::duration<double>(a.seconds);
  while (clock_type::now() < end) {
    if (random() % 6 == 0) begin_anew(at, record, random() % 3 == 0);
    one_round(at, record, random);
    if (random() % 2 == 0) {
      at.copy.lose_power(random);
      record.power_losses.fetch_add_relaxed(1);
    }
    const std::uint64_t seed = random();
    const bool well = went_well(in_child([&] {
      std::mt19937_64 of_it(seed);
      check_round(at, record, of_it);
    }));
    if (!well) {
      wrong("after kill " + std::to_string(record.kills.load_relaxed()) + ", seed " +
            std::to_string(a.seed));
    }
  }
  const std::vector<std::string> never = tell(record);
  for (const char* const one : {"store", "copy", "opened"}) {
    std::filesystem::remove_all(a.directory / one);
  }
  std::error_code in_use;  // by something else that lies there
  std::filesystem::remove(a.directory, in_use);
  if (a.seconds < 60) return 0;
  for (const std::string& what : never) std::fprintf(stderr, "never met: %s\n", what.c_str());
  return never.empty() ? 0 : 1;
}
