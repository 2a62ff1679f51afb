// SPDX-License-Identifier: Apache-2.0
// crash_failures.cpp: as crash.cpp, with a disk that fails: the process that writes calls resume()
// and goes on, others attach to the database meanwhile, and salvage() brings it out.
//
//     spolia-crash-failures --seconds 10 [--seed N] [--directory D]
//
// Each round one process opens the database and works, as in crash.cpp, while steps of its files
// fail: any step, also writes and syncs of what was published. A thread of it calls resume() again
// and again until that succeeds. A commit that was told that it is in doubt must be named by
// resume(); so must each commit that it names have been made; and all that memory shows is durable
// from then on. Another process attaches to the directory all the time, through many such rounds:
// what it sees is whole, and has all that was durable before.
//
// Then the process is killed, at any moment or within resume(). Often the power is lost, too
// (crash_disk.hpp): what was not synced goes then, or stays in part. What is there afterwards is
// checked as in crash.cpp: it has what was acknowledged, what resume() has named, and what an
// attached process has shown. Before that, salvage() has brought the same rows out of the
// directory, or was killed amid that. Out of a copy that is damaged then it brings nothing that was
// never there, and each row that a whole record has; and it changes no byte of the copy.
//
// What was met is printed at the end. A run of a minute or more that has not met each kind of it
// fails: it has not tested what it is for.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/db.hpp>
#include <spolia/db/salvage.hpp>

#include "db/crash_disk.hpp"
#include "db/crash_failures.hpp"
#include "db/crash_support.hpp"
#include "db/crash_world.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

namespace db = spolia::db;
using namespace spolia::test;
using clock_type = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{60};  // for what needs a processor and no more

/// Where a run works, and whether its disk is one that loses what was not synced. Without that the
/// log's memory may be its file.
struct place {
  crash_disk disk;
  bool tracked = true;
  [[nodiscard]] std::shared_ptr<db::storage_files> files(
      std::uint64_t seed, disk_files::chooser choose = [](const file_step&) { return 0; }) const {
    return std::make_shared<disk_files>(disk, tracked, seed, std::move(choose));
  }
};

void sleep_up_to(std::mt19937_64& random, std::uint64_t us) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % (us + 1)));
}

/// The process that works until it is killed.
class writer {
 public:
  writer(const place& at, shared_record& record, std::uint64_t seed)
      : at_(at), record_(record), random_(seed), fails_(record, seed + 1) {}

  [[noreturn]] void run() {
    open();
    std::vector<std::thread> all;
    for (std::int64_t t = 0; t < threads; ++t) {
      all.emplace_back([this, t, seed = random_()] { commit_for_ever(t, seed); });
    }
    all.emplace_back([this, seed = random_()] { change_catalog_for_ever(seed); });
    if (record_.next.load_relaxed() == plan::anything && random_() % 3 == 0) {
      all.emplace_back([this, seed = random_()] { checkpoint_for_ever(seed); });
    }
    resume_for_ever();
  }

 private:
  /// A few times while steps fail, and then without that.
  void open() {
    db::options o;
    o.segment_bytes = 4096U << random_() % 6;
    const plan how = record_.next.load_relaxed();
    o.checkpoint_log_bytes = how != plan::anything || random_() % 3 != 0 ? 0 : 100000;
    o.checkpoint_share = random_() % 2 == 0 ? 100 : 20;
    sync_ = random_() % 4 != 0;
    o.durability = sync_ ? db::durability_level::sync : db::durability_level::async;
    o.loss_window = std::chrono::milliseconds(1 + random_() % 10);
    o.files = at_.files(random_(), [this](const file_step& s) { return fails_(s); });
    const bool with_failures = how == plan::anything ? random_() % 8 != 0 : how == plan::to_fail;
    for (int tries = 0; w_ == nullptr; ++tries) {
      const std::uint64_t failed = record_.failed_syncs.load_relaxed();
      fails_.turn(with_failures && tries < 4);
      try {
        w_ = std::make_unique<world>(at_.disk.base(), o);
        record_.settled_syncs.store_relaxed(failed);
      } catch (const db::storage_error& e) {
        if (!with_failures || tries >= 4) wrong(std::string("opening to write: ") + e.what());
        record_.seen.openings_failed.fetch_add_relaxed(1);
      }
    }
    fails_.turn(false);
    if (failed()) resume();
    w_->make();
    if (!w_->base.sync()) wrong("a database cannot be synced: " + w_->base.storage_failure());
    fails_.turn(with_failures);
    record_.resumes.store_relaxed(how != plan::to_fail && random_() % 8 != 0);
    record_.open.store_relaxed(true);
  }

  [[nodiscard]] bool failed() const { return w_->base.stats().log.failed; }

  /// Until the log works, and resume() is over.
  void wait_until_resumed() {
    for (;;) {
      {
        const std::lock_guard hold(lock_);
        if (!resuming_ && !failed()) return;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  void commit_for_ever(std::int64_t thread, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    thread_record& mine = record_.of[static_cast<std::size_t>(thread)];
    for (std::int64_t n = mine.acknowledged.load_relaxed() + 1;; ++n) {
      mine.attempted.store_relaxed(n);
      const auto from = static_cast<std::int64_t>(random() % accounts);
      const auto to = static_cast<std::int64_t>(random() % accounts);
      const bool durable = commit({thread, n, from, to});
      record_.seen.commits.fetch_add_relaxed(1);
      if (durable || (n % 32 == 0 && w_->base.sync())) raise(mine.acknowledged, n);
      if (random() % 64 == 0) sleep_up_to(random, 300);
    }
  }

  /// Until it is made. True: it is durable.
  bool commit(const one_commit& c) {
    for (;;) {
      db::transaction tx = w_->base.begin();
      db::status s = write(*w_, tx, c);
      if (s) s = tx.commit();
      const std::uint64_t time = tx.commit_time();
      if (time != 0) note(time, c);
      if (s) return sync_;
      if (s == db::outcome::storage_failed && time != 0) {
        record_.seen.in_doubt.fetch_add_relaxed(1);
        wait_until_told(time);
        return true;
      }
      if (s == db::outcome::storage_failed) {
        wait_until_resumed();
      } else if (s != db::outcome::conflict && s != db::outcome::dropped &&
                 s != db::outcome::schema_changed) {
        wrong("a commit: " + std::string(s.message()) + " " + w_->base.storage_failure());
      }
      std::this_thread::yield();
    }
  }

  void note(std::uint64_t time, const one_commit& c) {
    const std::lock_guard hold(lock_);
    made_.insert(time);
    shown_[static_cast<std::size_t>(c.thread)] = c.n;
  }

  void wait_until_told(std::uint64_t time) {
    for (;;) {
      {
        const std::lock_guard hold(lock_);
        if (told_.contains(time)) return;
        if (!resuming_ && !failed()) wrong("resume() has not named a commit that was in doubt");
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  void change_catalog_for_ever(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const std::uint64_t longest = random() % 2 == 0 ? 500 : 20000;
    for (;;) {
      const std::uint64_t n = record_.changes_acknowledged.load_relaxed();
      record_.changes_attempted.store_relaxed(n + 1);
      const db::status s = change_catalog_once(*w_, n);
      if (s == db::outcome::storage_failed) {
        // It has not happened, and after resume() no opening finds it.
        wait_until_resumed();
        record_.changes_attempted.store_relaxed(n);
      } else if (!s) {
        wrong("a change of the catalogue: " + std::string(s.message()));
      } else {
        record_.changes_acknowledged.store_relaxed(n + 1);
        record_.seen.changes.fetch_add_relaxed(1);
      }
      sleep_up_to(random, longest);
    }
  }

  void checkpoint_for_ever(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (;;) {
      try {
        w_->base.checkpoint();
        record_.seen.checkpoints.fetch_add_relaxed(1);
      } catch (const db::storage_error&) {
        // It is tried again, whatever has failed.
      }
      sleep_up_to(random, 3000);
    }
  }

  [[noreturn]] void resume_for_ever() {
    for (;;) {
      if (record_.resumes.load_relaxed() && failed()) {
        sleep_up_to(random_, 1000);
        resume();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  void resume() {
    std::array<std::int64_t, threads> shown{};
    {
      const std::lock_guard hold(lock_);
      resuming_ = true;
      shown = shown_;
    }
    const std::uint64_t failed_before = record_.failed_syncs.load_relaxed();
    std::optional<db::resume_report> report;
    record_.resuming.store_relaxed(true);
    try {
      report = w_->base.resume();
    } catch (const db::storage_error&) {
      record_.seen.resumes_failed.fetch_add_relaxed(1);
    }
    record_.resuming.store_relaxed(false);
    if (report) {
      record_.settled_syncs.store_relaxed(failed_before);
      // What memory has shown before it began is durable.
      for (std::size_t t = 0; t < shown.size(); ++t) raise(record_.of[t].acknowledged, shown[t]);
    }
    {
      const std::lock_guard hold(lock_);
      resuming_ = false;
      if (report) told_.insert(report->durable.begin(), report->durable.end());
    }
    if (report) check_report(*report);
  }

  void check_report(const db::resume_report& report) {
    record_.seen.resumes.fetch_add_relaxed(1);
    record_.seen.undone.fetch_add_relaxed(report.undone);
    record_.seen.told_durable.fetch_add_relaxed(report.durable.size());
    if (!std::is_sorted(report.durable.begin(), report.durable.end())) {
      wrong("resume() names commits in no order");
    }
    // Each was made by a thread, which may not have come back from it yet.
    const auto end = clock_type::now() + patience;
    for (const std::uint64_t time : report.durable) {
      while (!was_made(time)) {
        if (clock_type::now() > end) wrong("resume() names a commit that no thread has made");
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  }
  bool was_made(std::uint64_t time) {
    const std::lock_guard hold(lock_);
    return made_.contains(time);
  }

  const place& at_;
  shared_record& record_;
  std::mt19937_64 random_;
  failing_steps fails_;
  bool sync_ = true;
  std::unique_ptr<world> w_;
  std::mutex lock_;
  bool resuming_ = false;
  std::set<std::uint64_t> made_;  // times of commits
  std::set<std::uint64_t> told_;  // of those that resume() has named
  std::array<std::int64_t, threads> shown_{};
};

/// What is seen by one who attaches: whole, with all that was durable before.
void attach_once(const place& at, shared_record& record) {
  db::options o;
  o.read_only = o.attach = true;
  o.files = at.files(1);
  // Here it holds no lock of the disk.
  o.on_recovery = [&](const db::recovery_progress&) {
    if (record.stop.load_relaxed() && record.stop.exchange_relaxed(false)) ::raise(SIGSTOP);
  };
  std::array<std::int64_t, threads> before{};
  for (std::size_t t = 0; t < before.size(); ++t) {
    before[t] = record.of[t].acknowledged.load_relaxed();
  }
  const std::uint64_t failed = record.failed_syncs.load_relaxed();
  const bool settled = record.settled_syncs.load_relaxed() == failed;
  const std::uint64_t commits = record.seen.commits.load_relaxed();
  try {
    const world w(at.disk.base(), o);
    if (record.seen.commits.load_relaxed() > commits) {
      record.seen.attaches_beside_commits.fetch_add_relaxed(1);
    }
    record.seen.attaches.fetch_add_relaxed(1);
    if (!w.base.recovered().notes.empty()) {
      wrong("attached, and told: " + w.base.recovered().notes.front().text);
    }
    const db::reader now = w.base.snapshot();
    if (w.bank == nullptr || !check_bank(w, now)) {
      for (const std::int64_t n : before) {
        if (n != 0) wrong("attached, and found nothing");
      }
      return;
    }
    std::array<std::int64_t, threads> last{};
    for (std::int64_t t = 0; t < threads; ++t) {
      const auto i = static_cast<std::size_t>(t);
      last[i] = check_rows(w, now, t, before[i], record.of[i].attempted.load_relaxed());
      check_coming(w, now, t, last[i]);
    }
    if (state_of(w).index_of_rows) check_index(w, now);
    if (!settled || record.failed_syncs.load_relaxed() != failed) return;
    for (std::size_t t = 0; t < last.size(); ++t) raise(record.of[t].shown, last[t]);
  } catch (const db::storage_error& e) {
    const std::string why = e.what();
    if (why.find("try again later") != std::string::npos) {
      record.seen.attaches_told_to_wait.fetch_add_relaxed(1);
      return;
    }
    for (const std::int64_t n : before) {
      if (n != 0) wrong("attached: " + why);
    }
  }
}

[[noreturn]] void attach_for_ever(const place& at, shared_record& record, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    if (has_identity(at.disk.base())) attach_once(at, record);
    sleep_up_to(random, 2000);
  }
}

/// What salvage has made of the same files.
void check_salvaged(const world& w, shared_record& record) {
  const salvaged how = record.salvage.load_relaxed();
  if (how == salvaged::nothing) return;
  const bool torn = w.base.recovered().cut_bytes != 0;
  if (how != salvaged::all && !torn) {
    wrong("salvage says that something is missing in a store that is whole");
  }
  if (torn) record.seen.salvages_torn.fetch_add_relaxed(1);
  if (how != salvaged::more && record.salvaged_sum.load_relaxed() != sum_of_rows(w)) {
    wrong("salvage has other rows than an opening");
  }
}

/// Looks at what is there, and corrects the record by it.
void check(const place& at, shared_record& record, std::uint64_t seed) {
  db::options o;
  o.files = at.files(seed);
  o.durability = seed % 4 == 0 ? db::durability_level::async : db::durability_level::sync;
  const std::uint64_t failed = record.failed_syncs.load_relaxed();
  try {
    const world w(at.disk.base(), o);
    record.settled_syncs.store_relaxed(failed);
    const db::recovery_report found = w.base.recovered();
    for (const auto& note : found.notes) wrong("opened, and told: " + note.text);
    check_salvaged(w, record);
    const db::reader now = w.base.snapshot();
    if (w.bank == nullptr || !check_bank(w, now)) {
      for (const thread_record& t : record.of) {
        if (t.acknowledged.load_relaxed() != 0) wrong("all rows are gone");
      }
      return;
    }
    for (std::int64_t t = 0; t < threads; ++t) {
      thread_record& r = record.of[static_cast<std::size_t>(t)];
      const std::int64_t last =
          check_rows(w, now, t, std::max(r.acknowledged.load_relaxed(), r.shown.load_relaxed()),
                     r.attempted.load_relaxed());
      check_coming(w, now, t, last);
      r.acknowledged.store_relaxed(last);
    }
    const catalog_state is = state_of(w);
    if (is == state_after(record.changes_attempted.load_relaxed())) {
      record.changes_acknowledged.store_relaxed(record.changes_attempted.load_relaxed());
    } else if (is != state_after(record.changes_acknowledged.load_relaxed())) {
      wrong("the catalogue is not as change " +
            std::to_string(record.changes_acknowledged.load_relaxed()) + " has left it");
    }
    if (is.index_of_rows) check_index(w, now);
  } catch (const std::exception& e) {
    wrong(std::string("opening: ") + e.what());
  }
}

bytes content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  bytes all(std::filesystem::file_size(file));
  in.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(all.size()));
  return all;
}
using directory_content = std::map<std::string, bytes>;
directory_content contents_of(const std::filesystem::path& directory) {
  directory_content all;
  for (const auto& one : std::filesystem::directory_iterator(directory)) {
    all[one.path().filename().string()] = content_of(one.path());
  }
  return all;
}

/// Rows that a whole record of the log inserts, or deletes.
struct told_rows {
  bool tables_are_known = true;  // no record that makes or drops one is hit
  std::set<std::int64_t> inserted;
  std::set<std::int64_t> erased;
};
/// See docs/durability.md. Moves `at` on.
std::uint64_t packed_number(const bytes& from, std::size_t& at) {
  const auto first = static_cast<unsigned char>(from[at]);
  std::uint64_t v = 0;
  if (first == 0) {
    v = number_at<std::uint64_t>(from, at + 1);
    at += 9;
    return v;
  }
  const int more = std::countr_zero(first);
  for (int i = more; i >= 0; --i) {
    v = v << 8U | static_cast<std::uint64_t>(from[at + static_cast<std::size_t>(i)]);
  }
  at += static_cast<std::size_t>(more) + 1;
  return v >> (static_cast<unsigned>(more) + 1);
}
/// Rows of the first table that a record inserts, or deletes.
void read_changes(const bytes& log, const record_place& record, told_rows& to) {
  if (record.kind != 1) return;
  for (std::size_t at = record.begin + record_head; at < record.end;) {
    const auto what = static_cast<unsigned>(log[at++]);
    if (what == 3) {  // a row that is changed
      packed_number(log, at);
      const std::uint64_t length = packed_number(log, at);
      at += length;
      continue;
    }
    const auto table = number_at<std::uint32_t>(log, at);
    const auto length = number_at<std::uint32_t>(log, at + 4);
    const auto key = number_at<std::int64_t>(log, at + 8);
    if (table == 0) (what == 1 ? to.inserted : to.erased).insert(key);
    at += 8 + length;
  }
}

/// A segment of which some bytes are lost: what its other records say.
void damage_segment(bytes& log, std::mt19937_64& random, std::uint64_t after, told_rows& intact) {
  const std::size_t room = log.size() - file_head;
  const std::size_t from = file_head + random() % room;
  const std::size_t length = 1 + random() % std::min<std::size_t>(room, 300);
  const std::size_t to = std::min(from + length, log.size());
  for (const record_place& r : records_of(log)) {
    const bool hit = r.begin < to && from < r.end;
    if (r.number <= after) continue;
    if (!hit) {
      read_changes(log, r, intact);
    } else if (r.kind != 1 && r.kind != 3) {
      intact.tables_are_known = false;
    }
  }
  for (std::size_t i = from; i < to; ++i) {
    log[i] ^= static_cast<std::byte>(1 + random() % 255);
  }
}

/// Damage anywhere.
void damage_anything(bytes& file, std::mt19937_64& random) {
  if (file.empty()) return;
  const std::size_t from = random() % file.size();
  const std::size_t to = std::min<std::size_t>(file.size(), from + 1 + random() % 5000);
  if (random() % 4 == 0) return file.resize(from);
  const bool zeros = random() % 2 == 0;
  for (std::size_t i = from; i < to; ++i) {
    file[i] = zeros ? std::byte{0} : static_cast<std::byte>(random());
  }
}

/// Nothing was made up: each row is one that a thread has tried to commit, with what it has put
/// there. Returns the keys.
std::set<std::int64_t> keys_that_are_true(const world& w, const shared_record& record) {
  std::set<std::int64_t> keys;
  const auto thread_of = [&](std::int64_t k) -> const thread_record& {
    if (k >> 40 < 0 || k >> 40 >= threads) wrong("salvage has made up a key");
    return record.of[static_cast<std::size_t>(k >> 40)];
  };
  const db::reader now = w.base.snapshot();
  if (w.rows != nullptr) {
    now.for_each(*w.rows, [&](const db::row& r) {
      const auto k = r.get(w.rows->column<std::int64_t>("k"));
      const std::int64_t n = k - key_of(k >> 40, 0);
      const bool known = n > 0 && n <= thread_of(k).attempted.load_relaxed();
      if (!known || r.get(w.rows->column<std::int64_t>("v")) != n ||
          r.get(w.rows->column<std::string_view>("text")) != text_of(n)) {
        wrong("salvage has made up a row");
      }
      keys.insert(k);
    });
  }
  if (w.counters != nullptr) {
    now.for_each(*w.counters, [&](const db::row& r) {
      const auto t = r.get(w.counters->column<std::int64_t>("k"));
      const auto n = r.get(w.counters->column<std::int64_t>("v"));
      if (n < 0 || n > thread_of(t << 40).attempted.load_relaxed()) {
        wrong("salvage has made up a counter");
      }
    });
  }
  if (db::table* const t = coming_table(w)) {
    now.for_each(*t, [&](const db::row& r) {
      const auto k = r.get(t->column<std::int64_t>("k"));
      const std::int64_t key = k < 0 ? -k : k;
      const std::int64_t n = key - key_of(key >> 40, 0);
      if (n <= 0 || n > thread_of(key).attempted.load_relaxed() ||
          r.get(t->column<std::int64_t>("v")) != k) {
        wrong("salvage has made up a row of the table that comes and goes");
      }
    });
  }
  return keys;
}

/// Of the rows of a store that salvage has made; 0: its tables are not all there.
std::uint64_t sum_of_salvaged(const world& w, const shared_record& record) {
  keys_that_are_true(w, record);
  const bool all = w.bank != nullptr && w.rows != nullptr && w.counters != nullptr;
  return all ? sum_of_rows(w) : 0;
}

/// What salvage makes of the store; nothing of that is damaged.
void salvage_whole(const place& at, shared_record& record, const std::filesystem::path& to) {
  try {
    record.salvaging.store_relaxed(true);
    const db::salvage_report report = db::salvage(at.disk.base(), to);
    record.salvaging.store_relaxed(false);
    const bool hole = std::any_of(report.missing.begin(), report.missing.end(),
                                  [](const db::missing_records& m) { return m.last != 0; });
    for (const db::salvaged_table& t : report.tables) {
      if (hole || !(t.doubtful || t.in_part != 0 || t.incomplete || !t.not_unique.empty()))
        continue;
      wrong("salvage doubts table " + t.name + " of a store that is whole");
    }
    const world w(to, {});
    const std::uint64_t sum = sum_of_salvaged(w, record);
    const std::uint64_t half = record.half_sum.exchange_relaxed(0);
    if (half != 0 && half != sum) wrong("a salvage that was killed has left other rows");
    if (sum == 0) return;
    record.salvaged_sum.store_relaxed(sum);
    record.salvage.store_relaxed(report.complete() ? salvaged::all
                                 : hole            ? salvaged::more
                                                   : salvaged::all_but_the_end);
  } catch (const std::exception& e) {
    wrong(std::string("salvage: ") + e.what());
  }
}

/// One that was killed has left nothing, or what is refused, or all.
void check_half_salvaged(shared_record& record, const std::filesystem::path& there) {
  db::options o;
  o.read_only = true;
  try {
    const world w(there, o);
    record.half_sum.store_relaxed(sum_of_salvaged(w, record));
  } catch (const db::storage_error&) {
    return;
  }
}

/// A copy with damage in it, or in one of its segments alone: then it is known what is whole.
void salvage_damage(const place& at, shared_record& record, const std::filesystem::path& beside,
                    std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto from = beside / "damaged";
  const auto to = beside / "mended";
  std::filesystem::remove_all(from);
  std::filesystem::remove_all(to);
  std::filesystem::create_directory(from);
  directory_content files = contents_of(at.disk.base());
  std::uint64_t checkpoint = 0;
  std::vector<std::string> segments;
  for (const auto& [name, content] : files) {
    if (name.starts_with("checkpoint-") && name.ends_with(".spl")) {
      checkpoint = std::max(checkpoint, number_at<std::uint64_t>(content, 32));
    }
    if (name.starts_with("log-") && name.ends_with(".spl")) segments.push_back(name);
  }
  told_rows intact;
  const bool in_log = random() % 4 != 0 && !segments.empty();
  const std::string hit = in_log ? segments[random() % segments.size()] : std::string();
  for (auto& [name, content] : files) {
    const bool whole_log = name.starts_with("log-") && name.ends_with(".spl");
    if (name == hit && content.size() > file_head) {
      damage_segment(content, random, checkpoint, intact);
    } else if (in_log && whole_log) {
      for (const record_place& r : records_of(content)) {
        if (r.number > checkpoint) read_changes(content, r, intact);
      }
    } else if (!in_log && random() % files.size() < 2) {
      damage_anything(content, random);
    }
    std::ofstream out(from / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
  }
  const directory_content before = contents_of(from);
  try {
    db::salvage(from, to);
    if (contents_of(from) != before) wrong("salvage has changed the damaged store");
    db::options o;
    o.read_only = true;
    const world w(to, o);
    const std::set<std::int64_t> keys = keys_that_are_true(w, record);
    for (const std::int64_t k : intact.inserted) {
      if (intact.erased.contains(k) || !intact.tables_are_known) continue;
      if (!keys.contains(k)) wrong("salvage has left out a row that a whole record has");
      record.seen.whole_records_beside_damage.fetch_add_relaxed(1);
    }
    record.seen.salvages_of_damage.fetch_add_relaxed(1);
  } catch (const std::exception& e) {
    wrong(std::string("salvage of damage: ") + e.what());
  }
}

/// The rounds of one run.
class rounds {
 public:
  rounds(const arguments& a, shared_record& record)
      : beside_(a.directory),
        seed_(a.seed),
        record_(record),
        random_(a.seed),
        at_{.disk = crash_disk(a.directory)} {}

  void run(std::chrono::duration<double> how_long) {
    const auto end = clock_type::now() + how_long;
    begin_life();
    while (clock_type::now() < end) {
      if (random_() % 12 == 0) begin_life();
      if (attacher_ == 0 && random_() % 2 == 0) begin_attaching();
      record_.next.store_relaxed(next_plan());
      const std::uint64_t at_steps = record_.seen.kills_at_a_step.load_relaxed();
      work_and_kill();
      const bool at_step = record_.seen.kills_at_a_step.load_relaxed() != at_steps;
      if (at_.tracked && loses_power(at_step)) {
        end_attaching();
        at_.disk.lose_power(random_);
        record_.seen.power_losses.fetch_add_relaxed(1);
      }
      if (random_() % 3 == 0) salvage();
      in_process("the check", [&, seed = random_()] { check(at_, record_, seed); });
      record_.salvage.store_relaxed(salvaged::nothing);
      if (random_() % 3 == 0 && has_identity(at_.disk.base())) {
        in_process("the salvage of damage",
                   [&, seed = random_()] { salvage_damage(at_, record_, beside_, seed); });
      }
      look_at_attacher();
    }
    end_attaching();
    for (const char* name : {"base", "disk", "salvaged", "damaged", "mended"}) {
      std::filesystem::remove_all(beside_ / name);
    }
  }

 private:
  void begin_life() {
    end_attaching();
    at_.disk.begin();
    at_.tracked = random_() % 8 != 0;
    record_.forget();
  }

  /// One that has failed is followed by one that goes on well, and then the power goes.
  plan next_plan() {
    const plan before = record_.next.load_relaxed();
    if (before == plan::to_fail) return plan::to_go_on_well;
    return random_() % 8 == 0 ? plan::to_fail : plan::anything;
  }
  bool loses_power(bool at_step) {
    const plan now = record_.next.load_relaxed();
    if (now != plan::anything) return now == plan::to_go_on_well;
    return random_() % 6 < (at_step ? 4 : 2);
  }

  void begin_attaching() {
    attacher_ = in_child([this, seed = random_()] { attach_for_ever(at_, record_, seed); });
  }
  void end_attaching() {
    if (attacher_ == 0) return;
    look_at_attacher();
    ::kill(attacher_, SIGKILL);
    ::waitpid(std::exchange(attacher_, 0), nullptr, 0);
  }
  void look_at_attacher() {
    if (attacher_ != 0 && ::waitpid(attacher_, nullptr, WNOHANG) != 0) fail("one who attaches");
  }

  void work_and_kill() {
    record_.open.store_relaxed(false);
    record_.resuming.store_relaxed(false);
    const pid_t worker = in_child([this, seed = random_()] { writer(at_, record_, seed).run(); });
    // A database that is new is killed within its first opening, too.
    const bool young = !has_identity(at_.disk.base()) && random_() % 2 == 0;
    const std::uint64_t longest = young ? 3000 : random_() % 4 == 0 ? 5000 : 150000;
    // Where processors are scarce, all kills would hit the opening.
    if (longest > 5000) wait_for(record_.open, std::chrono::seconds(4), worker);
    if (longest > 5000 && random_() % 4 == 0) stop_attacher(worker);
    wait_for_end(worker, std::chrono::microseconds(random_() % longest));
    if (random_() % 3 == 0 && wait_for(record_.resuming, std::chrono::milliseconds(30), worker)) {
      sleep_up_to(random_, 1500);
    }
    const bool within = record_.resuming.load_relaxed();
    ::kill(worker, SIGKILL);
    int how = 0;
    ::waitpid(worker, &how, 0);
    if (!WIFSIGNALED(how) || WTERMSIG(how) != SIGKILL) fail("a process that works");
    record_.seen.kills.fetch_add_relaxed(1);
    if (within) record_.seen.kills_in_resume.fetch_add_relaxed(1);
    if (!record_.open.load_relaxed()) record_.seen.kills_in_opening.fetch_add_relaxed(1);
  }

  /// Amid an opening that attaches: the process that writes goes on.
  void stop_attacher(pid_t worker) {
    if (attacher_ == 0 || !record_.resumes.load_relaxed()) return;
    record_.stop.store_relaxed(true);
    const auto soon = clock_type::now() + std::chrono::milliseconds(200);
    while (record_.stop.load_relaxed() && clock_type::now() < soon) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    if (record_.stop.exchange_relaxed(false)) return;  // it attaches to nothing yet
    ::waitpid(attacher_, nullptr, WUNTRACED);
    const std::uint64_t before = record_.seen.commits.load_relaxed();
    const auto end = clock_type::now() + patience;
    while (record_.seen.commits.load_relaxed() < before + 2) {
      if (clock_type::now() > end) fail("one who attaches has stopped commits");
      if (has_ended(worker)) break;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    ::kill(attacher_, SIGCONT);
    if (has_ended(worker)) return;
    record_.seen.stopped_while_attaching.fetch_add_relaxed(1);
  }

  void salvage() {
    const auto to = beside_ / "salvaged";
    std::filesystem::remove_all(to);
    if (!has_identity(at_.disk.base())) return;
    if (random_() % 3 == 0) {
      record_.salvaging.store_relaxed(false);
      const pid_t child = in_child([&] { salvage_whole(at_, record_, to); });
      wait_for(record_.salvaging, std::chrono::seconds(4), child);
      sleep_up_to(random_, 2000);
      ::kill(child, SIGKILL);
      int how = 0;
      ::waitpid(child, &how, 0);
      if (WIFEXITED(how) && WEXITSTATUS(how) != 0) fail("salvage");
      if (WIFSIGNALED(how) && WTERMSIG(how) != SIGKILL) fail("salvage");
      if (WIFSIGNALED(how) && record_.salvaging.load_relaxed()) {
        record_.seen.salvages_killed.fetch_add_relaxed(1);
        record_.salvage.store_relaxed(salvaged::nothing);
        in_process("half of a salvage", [&] { check_half_salvaged(record_, to); });
      }
      std::filesystem::remove_all(to);
      if (record_.salvage.load_relaxed() != salvaged::nothing) return;
    }
    in_process("salvage", [&] { salvage_whole(at_, record_, to); });
    record_.seen.salvages.fetch_add_relaxed(1);
  }

  template <class F>
  void in_process(const char* what, F&& f) {
    if (!went_well(in_child(std::forward<F>(f)))) fail(what);
  }
  /// It can be waited for all the same.
  static bool has_ended(pid_t process) {
    siginfo_t how{};
    return ::waitid(P_PID, static_cast<id_t>(process), &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           how.si_pid == process;
  }
  static void wait_for_end(pid_t process, clock_type::duration at_most) {
    const auto end = clock_type::now() + at_most;
    while (clock_type::now() < end && !has_ended(process)) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  static bool wait_for(const spolia::atomic<bool>& what, clock_type::duration at_most,
                       pid_t process) {
    const auto end = clock_type::now() + at_most;
    while (!what.load_relaxed()) {
      if (clock_type::now() > end || has_ended(process)) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    wrong(what + ": after kill " + std::to_string(record_.seen.kills.load_relaxed()) + ", seed " +
          std::to_string(seed_) + ", in " + beside_.string());
  }

  const std::filesystem::path beside_;
  const std::uint64_t seed_;
  shared_record& record_;
  std::mt19937_64 random_;
  place at_;
  pid_t attacher_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  have_alone(a.directory);
  std::printf("seed %llu, in %s\n", static_cast<unsigned long long>(a.seed), a.directory.c_str());
  std::fflush(stdout);
  void* const memory = ::mmap(nullptr, sizeof(shared_record), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) wrong("no shared memory");
  auto* const record = ::new (memory) shared_record;
  rounds(a, *record).run(std::chrono::duration<double>(a.seconds));
  const std::vector<std::string> never = tell(record->seen);
  constexpr double long_enough = sanitized ? 600 : 60;
  for (const std::string& what : never) std::printf("never met: %s\n", what.c_str());
  std::fflush(stdout);     // wrong() ends the process at once
  std::error_code in_use;  // by something else that lies there
  std::filesystem::remove(a.directory, in_use);
  if (!never.empty() && a.seconds >= long_enough) wrong("a long run has not met all");
}
