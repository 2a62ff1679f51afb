// SPDX-License-Identifier: Apache-2.0
#include "ycsb.hpp"

#include <fmt/format.h>
#include <spolia/base/atomic.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/db.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "machine.hpp"
#include "options.hpp"
#include "random.hpp"
#include "record.hpp"
#include "zipf.hpp"

namespace bench {
namespace {

namespace db = spolia::db;
using steady = std::chrono::steady_clock;

const std::map<std::string, db::version_storage>& storages() {
  static const std::map<std::string, db::version_storage> all = {
      {"none", db::version_storage::none},
      {"one-shot", db::version_storage::one_shot},
      {"one-shot-consolidated", db::version_storage::one_shot_consolidated},
      {"steam", db::version_storage::steam}};
  return all;
}

class trial {
 public:
  trial(const ycsb_options& o, const std::string& versions, std::uint32_t number)
      : o_(o),
        versions_(versions),
        number_(number),
        base_(db::database::open(
            {.versions = storages().at(versions), .partition_transactions = o.partition})),
        table_(base_.create_table(spec(o))),
        keys_(o.shared ? o.records * o.threads : o.records, o.theta) {
    for (std::uint32_t c = 0; c < o.columns; ++c) {
      columns_.push_back(table_.column<std::int64_t>(fmt::format("f{}", c)));
    }
  }

  nlohmann::json run() {
    fill();
    reset_peak_rss();
    std::vector<std::unique_ptr<db::reader>> held;
    for (std::uint32_t i = 0; i < o_.hold; ++i) {
      held.emplace_back(new db::reader(base_.snapshot("held")));
    }
    std::vector<std::unique_ptr<worker_result>> results;
    std::vector<std::thread> threads;
    for (std::uint32_t n = 0; n < o_.threads; ++n) {
      results.push_back(std::make_unique<worker_result>());
      threads.emplace_back([this, n, r = results.back().get()] { work(n, *r); });
    }
    const auto start = steady::now();
    go_.store_release(true);  // → the acquire in work(): what was filled
    sample(start);
    stop_.store_relaxed(true);
    for (std::thread& t : threads) t.join();
    const std::chrono::duration<double> took = steady::now() - start;
    return record(took.count(), results);
  }

 private:
  struct worker_result {
    spolia::histogram ticks;
    std::uint64_t transactions = 0;
    std::int64_t sum = 0;  // so that reads are not left out
  };

  static db::table_spec spec(const ycsb_options& o) {
    db::table_spec s{.name = "usertable", .columns = {{"k", db::int64, db::primary_key}}};
    for (std::uint32_t c = 0; c < o.columns; ++c) {
      s.columns.push_back({fmt::format("f{}", c), db::int64});
    }
    return s;
  }

  void fill() {
    std::vector<db::value> row(o_.columns + 1, db::value(0));
    const std::uint64_t all = o_.records * o_.threads;
    for (std::uint64_t k = 0; k < all;) {
      const db::status s = base_.transact([&](db::transaction& tx) -> db::status {
        for (std::uint32_t i = 0; i < 500 && k < all; ++i, ++k) {
          row[0] = db::value(k);
          if (const db::status done = tx.insert(table_, row); !done) return done;
        }
        return db::outcome::ok;
      });
      if (!s) throw std::runtime_error(std::string(s.message()));
    }
    filled_ = base_.stats();
  }

  void work(std::uint32_t n, worker_result& mine) {
    random_source random(o_.seed + 7919 * number_ + 104729 * (n + 1));
    const std::uint64_t first = o_.shared ? 0 : n * o_.records;
    std::vector<std::uint64_t> chosen;
    const std::uint32_t writes = (o_.operations * o_.writes + 50) / 100;
    while (!go_.load_acquire()) spolia::cpu_relax();
    while (!stop_.load_relaxed()) {
      chosen.clear();
      while (chosen.size() < o_.operations) {
        const std::uint64_t k = first + keys_.draw(random);
        if (std::find(chosen.begin(), chosen.end(), k) == chosen.end()) chosen.push_back(k);
      }
      const std::uint64_t begin = spolia::ticks::read();
      const db::status s = base_.transact([&](db::transaction& tx) -> db::status {
        for (std::uint32_t i = 0; i < o_.operations; ++i) {
          // The last ones are the writes.
          if (i + writes < o_.operations) {
            const auto r = tx.find(table_, {chosen[i]});
            if (!r) return r.why();
            for (const auto& c : columns_) mine.sum += r->get(c);
          } else {
            auto e = tx.edit(table_, {chosen[i]});
            if (!e) return e.why();
            for (const auto& c : columns_) {
              if (const db::status done = e->set(c, e->get(c) + 1); !done) return done;
            }
          }
        }
        return db::outcome::ok;
      });
      if (!s) continue;  // after a thousand tries; counted as conflicts
      mine.ticks.record(spolia::ticks::read() - begin);
      ++mine.transactions;
    }
  }

  /// Waits for the end, and looks now and then at what versions hold.
  void sample(steady::time_point start) {
    const auto end = start + std::chrono::duration<double>(o_.seconds);
    while (steady::now() < end) {
      std::this_thread::sleep_for(std::chrono::duration<double>(o_.seconds / 50));
      const std::chrono::duration<double, std::milli> at = steady::now() - start;
      const std::uint64_t bytes = base_.stats().versions.bytes;
      most_bytes_ = std::max(most_bytes_, bytes);
      over_time_.push_back({std::round(at.count() * 10) / 10, bytes});
    }
  }

  nlohmann::json record(double elapsed, const std::vector<std::unique_ptr<worker_result>>& all) {
    spolia::histogram_snapshot ticks;
    std::uint64_t transactions = 0;
    for (const auto& r : all) {
      ticks.merge(r->ticks);
      transactions += r->transactions;
    }
    const auto ns = [&](double q) {
      return std::round(static_cast<double>(ticks.quantile(q)) * spolia::core::ns_per_tick());
    };
    const db::statistics s = base_.stats();
    const db::delta_stats& v = s.versions;
    nlohmann::json made = {{"kind", "ycsb"},
                           {"versions", versions_},
                           {"threads", o_.threads},
                           {"writes", o_.writes},
                           {"theta", o_.theta},
                           {"columns", o_.columns},
                           {"operations", o_.operations},
                           {"records", o_.records},
                           {"shared", o_.shared},
                           {"hold", o_.hold},
                           {"partition", o_.partition},
                           {"seconds", o_.seconds},
                           {"seed", o_.seed},
                           {"trial", number_},
                           {"trials", o_.trials},
                           {"elapsed_s", elapsed},
                           {"transactions", transactions},
                           {"tx_per_s", static_cast<double>(transactions) / elapsed},
                           {"conflicts", s.conflicts - filled_.conflicts},
                           {"latency_ns_p50", ns(0.5)},
                           {"latency_ns_p99", ns(0.99)},
                           {"latency_ns_p999", ns(0.999)},
                           {"versions_made", v.versions_made},
                           {"versions_dropped", v.versions_dropped},
                           {"version_bytes_peak", most_bytes_},
                           {"version_bytes_end", v.bytes},
                           {"version_bytes_over_time", over_time_},
                           {"partitions", v.partitions},
                           {"partition_drops", v.drops},
                           {"census_looks", v.looks},
                           {"table_bytes", s.table_bytes},
                           {"peak_rss_bytes", peak_rss_bytes()}};
    made.update(circumstances());
    return made;
  }

  const ycsb_options& o_;
  const std::string versions_;
  const std::uint32_t number_;
  db::database base_;
  db::table& table_;
  const zipf keys_;
  std::vector<db::column<std::int64_t>> columns_;
  db::statistics filled_;
  spolia::atomic<bool> go_{false};
  spolia::atomic<bool> stop_{false};
  std::uint64_t most_bytes_ = 0;
  std::vector<std::pair<double, std::uint64_t>> over_time_;
};

template <class T>
void within(const char* option, T value, T least, T most) {
  if (value < least || value > most) {
    throw usage_error(
        fmt::format("{} is {}, but must be from {} to {}", option, value, least, most));
  }
}

}  // namespace

void check(const ycsb_options& o) {
  for (const std::string& v : o.versions) {
    if (!storages().contains(v)) {
      throw usage_error(fmt::format(
          "--versions has {}; there are none, one-shot, one-shot-consolidated, steam", v));
    }
  }
  within<std::uint32_t>("--threads", o.threads, 1, 1024);
  within<std::uint32_t>("--writes", o.writes, 0, 100);
  within("--theta", o.theta, 0.0, 0.999);
  within<std::uint32_t>("--columns", o.columns, 1, 61);
  within<std::uint32_t>("--operations", o.operations, 1, 1000);
  within<std::uint64_t>("--records", o.records, o.operations, 100000000);
  within<std::uint32_t>("--hold", o.hold, 0, 1000);
  within<std::uint32_t>("--partition", o.partition, 1, 1U << 30U);
  within("--seconds", o.seconds, 0.01, 86400.0);
  within<std::uint32_t>("--trials", o.trials, 1, 10000);
}

void run_ycsb(const ycsb_options& o, const std::function<void(const nlohmann::json&)>& take) {
  check(o);
  for (std::uint32_t n = 0; n < o.trials; ++n) {
    for (const std::string& v : o.versions) take(trial(o, v, n).run());
  }
}

}  // namespace bench
