// SPDX-License-Identifier: Apache-2.0
// queue.cpp: a table as a queue, without and beside a reader that is held for the whole run. The
// reader sees the jobs of its beginning; memory stays flat, and so does the speed.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>

#include <spolia/db.hpp>

#include "demo.hpp"

namespace demo {
namespace {

namespace db = spolia::db;
constexpr std::int64_t waiting = 1000;
constexpr double seconds = 2;
/// The least share of the speed without a reader. The store's own goal is 0.85; the machine may be
/// busy.
constexpr double least_share = 0.6;

/// How many jobs the snapshot sees, if they are the first ones of the table.
std::int64_t first_jobs(const db::reader& at, const db::table& jobs, db::column<std::int64_t> id) {
  std::int64_t seen = 0;
  at.scan(jobs, {}, {}, [&](const db::row& r) { seen += r.get(id) == seen ? 1 : 0; });
  return seen;
}

/// Returns thousands of jobs a second of processor time.
double run_queue(record& to, const std::string& curve, bool held) {
  const double before = resident_after_trim();
  db::database base = db::database::open();
  db::table& jobs =
      base.create_table({.name = "jobs",
                         .columns = {{"id", db::int64, db::primary_key}, {"payload", db::int64}},
                         .primary = db::index_kind::ordered});
  const auto id = jobs.column<std::int64_t>("id");
  std::int64_t next = 0;
  const auto put = [&](db::transaction& tx) { return tx.insert(jobs, {next, next}); };
  while (next < waiting) {
    if (!base.transact(put)) {
      to.check(false, curve + ": a job could not be inserted");
      return 0;
    }
    ++next;
  }
  const std::unique_ptr<db::reader> report(held ? new db::reader(base.snapshot("a report"))
                                                : nullptr);

  const clock::time_point start = clock::now();
  const std::clock_t worked = std::clock();
  double shown = 0;
  std::uint64_t done = 0;
  while (since(start) < seconds) {
    const db::status s = base.transact([&](db::transaction& tx) -> db::status {
      std::int64_t head = -1;
      tx.scan(jobs, {}, {}, [&](const db::row& r) {
        head = r.get(id);
        return false;
      });
      if (const db::status e = tx.erase(jobs, {head}); !e) return e;
      return put(tx);
    });
    if (!s) {
      to.check(false, curve + ": " + std::string(s.message()));
      return 0;
    }
    ++next;
    ++done;
    if (since(start) >= shown) {
      to.point(curve, since(start), std::max(resident() - before, 0.0));
      shown += seconds / 100;
    }
  }
  const double rate = static_cast<double>(done) * CLOCKS_PER_SEC /
                      static_cast<double>(std::clock() - worked) / 1000;
  const double grown = resident() - before;
  to.note(say("%s: %.0f thousand jobs a second of processor time, %.1f MB at the end",
              curve.c_str(), rate, grown));
  to.check(grown < slack_megabytes, say("%s: memory has grown by %.1f MB; %.0f MB are allowed for "
                                        "pages of the allocator and of code",
                                        curve.c_str(), grown, slack_megabytes));
  if (report) {
    const std::int64_t seen = first_jobs(*report, jobs, id);
    to.check(seen == waiting,
             say("the held reader sees %lld of the %lld jobs that there were when it began",
                 static_cast<long long>(seen), static_cast<long long>(waiting)));
  }
  return rate;
}

}  // namespace

void queue_beside_a_reader(record& to) {
  const double alone = run_queue(to, "without a reader", false);
  const double beside = run_queue(to, "a reader held for the whole run", true);
  to.check(
      beside > least_share * alone,
      say("beside the reader: %.2f times the jobs a second of processor time", beside / alone));
  to.in_short(say("%.0f thousand jobs a second without a reader, %.0f beside one", alone, beside));
}

}  // namespace demo
