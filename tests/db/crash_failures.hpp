// SPDX-License-Identifier: Apache-2.0
/// \file
/// What crash_failures.cpp knows besides what its processes know, and which steps of files it makes
/// fail.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/base/atomic.hpp>

#include "db/crash_world.hpp"
#include "db/faulty_files.hpp"

namespace spolia::test {

using count = spolia::atomic<std::uint64_t>;

inline constexpr std::array<int, 3> failure_reasons{ENOSPC, EMFILE, EIO};
inline constexpr std::array<const char*, 3> reason_names{"ENOSPC", "EMFILE", "EIO"};
inline constexpr std::array<const char*, 11> step_names{
    "open_directory", "open",     "list",   "read",   "write",         "sync",
    "reserve",        "truncate", "rename", "remove", "sync_directory"};

/// What the outside knows of one thread.
struct alignas(64) thread_record {
  spolia::atomic<std::int64_t> attempted{0};
  spolia::atomic<std::int64_t> acknowledged{0};  // durable
  spolia::atomic<std::int64_t> shown{0};         // by an attached process, as durable
};

/// What was met. In a run that is long enough each of these is.
struct met {
  std::array<std::array<count, failure_reasons.size()>, step_names.size()> failed;
  count short_writes;
  count commits, in_doubt, checkpoints, changes;
  count kills, kills_at_a_step, kills_in_opening, kills_in_resume, power_losses;
  count openings_failed, resumes, resumes_failed, told_durable, undone;
  count attaches, attaches_beside_commits, attaches_told_to_wait, stopped_while_attaching;
  count salvages, salvages_torn, salvages_killed, salvages_of_damage, whole_records_beside_damage;
};

/// What salvage has said of a store that is not damaged.
enum class salvaged : std::uint8_t {
  nothing,
  all,
  all_but_the_end,  ///< which is torn
  more              ///< beyond what is torn there are whole records, which an opening cuts off
};

/// What the next process is for.
enum class plan : std::uint8_t {
  anything,
  to_fail,       ///< is killed when its log has failed, which is not resumed
  to_go_on_well  ///< nothing fails, and no checkpoint replaces the log that it has found
};

struct shared_record {
  std::array<thread_record, threads> of;
  spolia::atomic<bool> open{false};  // the opening was over
  spolia::atomic<plan> next{plan::anything};
  spolia::atomic<bool> resumes{false};    // else a kill finds a log that has failed
  spolia::atomic<bool> resuming{false};   // within resume()
  spolia::atomic<bool> salvaging{false};  // within salvage()
  spolia::atomic<bool> stop{false};       // the process that attaches is to stop in the middle
  spolia::atomic<std::uint64_t> changes_attempted{0};
  spolia::atomic<std::uint64_t> changes_acknowledged{0};
  /// Syncs of segments that have failed; and how many of those are of no matter any more, since the
  /// database was opened again or has been resumed. In between an attached process may show what
  /// the disk has forgotten.
  count failed_syncs;
  count settled_syncs;
  spolia::atomic<salvaged> salvage{salvaged::nothing};
  spolia::atomic<std::uint64_t> salvaged_sum{0};  // of all rows
  spolia::atomic<std::uint64_t> half_sum{0};      // of those of one that was killed; 0: none
  met seen;

  /// For a database that begins with nothing.
  void forget() {
    for (thread_record& t : of) {
      t.attempted.store_relaxed(0);
      t.acknowledged.store_relaxed(0);
      t.shown.store_relaxed(0);
    }
    changes_attempted.store_relaxed(0);
    changes_acknowledged.store_relaxed(0);
    settled_syncs.store_relaxed(failed_syncs.load_relaxed());
  }
};

inline void raise(spolia::atomic<std::int64_t>& to, std::int64_t least) {
  std::int64_t now = to.load_relaxed();
  while (now < least && !to.cas_weak_relaxed(now, least)) {
  }
}

/// Makes steps fail: one in so many, and sometimes all for some milliseconds. Of some processes it
/// ends one at a step: between two steps of files there is often less time than a kill from outside
/// would hit.
class failing_steps {
 public:
  failing_steps(shared_record& record, std::uint64_t seed) : record_(record), random_(seed) {
    constexpr std::array<std::uint64_t, 4> rates{20, 60, 200, 1000};
    one_in_ = rates[random_() % rates.size()];
    counts_ = static_cast<counted>(random_() % 3);
    constexpr std::array<std::uint64_t, 3> most{400, 400, 20};
    if (random_() % 2 == 0) {
      last_ = 1 + random_() % (random_() % 2 == 0 ? 20 : most[static_cast<std::size_t>(counts_)]);
    }
  }
  int operator()(const file_step& s) {
    using kind = file_step::kind;
    const std::lock_guard hold(lock_);
    if (last_ != 0 && does_count(s.what) && --last_ == 0) {
      record_.seen.kills_at_a_step.fetch_add_relaxed(1);
      ::kill(::getpid(), SIGKILL);
    }
    if (!on_ || s.what == kind::open_directory) return 0;
    const auto now = std::chrono::steady_clock::now();
    if (now >= all_until_) {
      // Nothing comes of these but another try, so they are seldom.
      const std::uint64_t seldom = s.what == kind::read || s.what == kind::list ? 3 : 1;
      if (random_() % (one_in_ * seldom) != 0) return 0;
      if (random_() % 16 == 0) all_until_ = now + std::chrono::microseconds(random_() % 10000);
    }
    if (s.what == kind::sync && s.is_segment()) record_.failed_syncs.fetch_add_relaxed(1);
    if (s.what == kind::write) record_.seen.short_writes.fetch_add_relaxed(1);
    const std::size_t reason = random_() % failure_reasons.size();
    record_.seen.failed[static_cast<std::size_t>(s.what)][reason].fetch_add_relaxed(1);
    return failure_reasons[reason];
  }
  void turn(bool on) {
    const std::lock_guard hold(lock_);
    on_ = on;
  }

 private:
  /// Which steps count until the process ends.
  enum class counted : std::uint8_t { all, names, removes };
  [[nodiscard]] bool does_count(file_step::kind what) const {
    using kind = file_step::kind;
    const bool remove = what == kind::remove || what == kind::sync_directory;
    if (counts_ == counted::removes) return remove;
    return counts_ == counted::all || remove || what == kind::rename || what == kind::open;
  }

  shared_record& record_;
  std::mutex lock_;
  std::mt19937_64 random_;
  std::uint64_t one_in_;
  counted counts_;
  std::uint64_t last_ = 0;  // so many are left; 0: it does not end
  bool on_ = false;
  std::chrono::steady_clock::time_point all_until_{};
};

/// Of all rows of all tables, whatever their order.
inline std::uint64_t sum_of_rows(const world& w) {
  std::uint64_t sum = 1;
  const auto add = [&](std::uint64_t table, std::int64_t k, std::int64_t v, std::string_view text) {
    std::uint64_t h = std::hash<std::string_view>()(text) + table;
    for (const std::int64_t part : {k, v}) {
      h = (h ^ static_cast<std::uint64_t>(part)) * 0x9E3779B97F4A7C15U;
      h ^= h >> 29U;
    }
    sum += h;
  };
  const db::reader now = w.base.snapshot();
  std::uint64_t number = 0;
  for (db::table* const t : {w.rows, w.counters, w.bank, coming_table(w)}) {
    ++number;
    if (t == nullptr) continue;
    sum += number << 50U;
    now.for_each(*t, [&](const db::row& r) {
      const auto k = r.get(t->column<std::int64_t>("k"));
      const auto v = r.get(t->column<std::int64_t>("v"));
      if (t != w.rows || r.null(t->column<std::string_view>("text"))) return add(number, k, v, "");
      add(number, k, v, r.get(t->column<std::string_view>("text")));
    });
  }
  return sum;
}

/// Prints what was met; returns what was not.
inline std::vector<std::string> tell(const met& m) {
  std::vector<std::string> never;
  const auto one = [&](const char* what, const count& of) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(of.load_relaxed()), what);
    if (of.load_relaxed() == 0) never.emplace_back(what);
  };
  one("commits", m.commits);
  one("commits that were in doubt", m.in_doubt);
  one("checkpoints", m.checkpoints);
  one("changes of tables and indexes", m.changes);
  one("kills", m.kills);
  one("kills at a step of a file", m.kills_at_a_step);
  one("kills within an opening", m.kills_in_opening);
  one("kills within resume()", m.kills_in_resume);
  one("losses of power", m.power_losses);
  one("openings that failed", m.openings_failed);
  one("times resumed", m.resumes);
  one("tries to resume that failed", m.resumes_failed);
  one("commits that resume() has named", m.told_durable);
  one("changes of tables and indexes that it has undone", m.undone);
  one("times attached", m.attaches);
  one("of these, while others committed", m.attaches_beside_commits);
  one("times that a process which attached was stopped, and commits went on",
      m.stopped_while_attaching);
  one("stores salvaged", m.salvages);
  one("of these, with a torn end", m.salvages_torn);
  one("kills within salvage()", m.salvages_killed);
  one("damaged stores salvaged", m.salvages_of_damage);
  one("whole rows found beside damage", m.whole_records_beside_damage);
  one("writes cut short", m.short_writes);
  std::printf("%12llu attaches told to try again later\n",
              static_cast<unsigned long long>(m.attaches_told_to_wait.load_relaxed()));
  for (std::size_t s = 1; s < step_names.size(); ++s) {
    for (std::size_t r = 0; r < reason_names.size(); ++r) {
      const std::string what = std::string(step_names[s]) + " failed with " + reason_names[r];
      one(what.c_str(), m.failed[s][r]);
    }
  }
  return never;
}

}  // namespace spolia::test
