// SPDX-License-Identifier: Apache-2.0
// queue.cpp: a table as a queue, without and beside a reader that is held for the whole run. Drawn,
// and not checked: the store does not yet promise that this stays flat.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <spolia/db.hpp>

#include "demo.hpp"

namespace demo {
namespace {

namespace db = spolia::db;
constexpr std::int64_t waiting = 1000;
constexpr double seconds = 2;

/// Returns thousands of jobs a second.
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
      to.check(false, curve + ": a job could not be put");
      return 0;
    }
    ++next;
  }
  const std::unique_ptr<db::reader> report(held ? new db::reader(base.snapshot("a report"))
                                                : nullptr);

  const clock::time_point start = clock::now();
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
  const double rate = static_cast<double>(done) / seconds / 1000;
  to.note(say("%s: %.0f thousand jobs a second, %.1f MB at the end", curve.c_str(), rate,
              resident() - before));
  return rate;
}

}  // namespace

void queue_beside_a_reader(record& to) {
  const double alone = run_queue(to, "without a reader", false);
  const double beside = run_queue(to, "a reader held for the whole run", true);
  to.in_short(say("%.0f thousand jobs a second without a reader, %.0f beside one (not promised)",
                  alone, beside));
}

}  // namespace demo
