// SPDX-License-Identifier: Apache-2.0
#include "ycsb.hpp"

#include <fmt/format.h>
#include <spolia/base/atomic.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/db.hpp>

#include <unistd.h>
#include <algorithm>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "machine.hpp"
#include "options.hpp"
#include "random.hpp"
#include "record.hpp"

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

const std::map<std::string, db::durability_level>& levels() {
  static const std::map<std::string, db::durability_level> all = {
      {"none", db::durability_level::none},
      {"async", db::durability_level::async},
      {"sync", db::durability_level::sync}};
  return all;
}

/// A directory for one trial.
class scratch {
 public:
  explicit scratch(const ycsb_options& o) : name_(o.directory) {
    if (!name_.empty()) {
      if (std::filesystem::exists(name_)) throw usage_error(name_.string() + " exists");
      return;
    }
    const std::filesystem::path quick = "/dev/shm";
    name_ =
        (std::filesystem::is_directory(quick) ? quick : std::filesystem::temp_directory_path()) /
        fmt::format("spolia-bench-{}", ::getpid());
  }
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  [[nodiscard]] const std::filesystem::path& name() const { return name_; }

 private:
  std::filesystem::path name_;
};

/// Ranks from 0 to n - 1, the first the likeliest, after Gray et al.: Quickly Generating
/// Billion-Record Synthetic Databases, SIGMOD 1994, as YCSB has it.
class zipf {
 public:
  zipf(std::uint64_t n, double theta) : n_(n), theta_(theta) {
    double sum = 0;
    for (std::uint64_t i = 1; i <= n; ++i) sum += 1 / std::pow(static_cast<double>(i), theta);
    zeta_ = sum;
    const double two = 1 + std::pow(0.5, theta);
    alpha_ = 1 / (1 - theta);
    eta_ = (1 - std::pow(2.0 / static_cast<double>(n), 1 - theta)) / (1 - two / sum);
  }
  std::uint64_t draw(random_source& from) const {
    if (theta_ == 0) return from.below(n_);
    const double u = static_cast<double>(from.next() >> 11U) * 0x1.0p-53;
    const double scaled = u * zeta_;
    if (scaled < 1) return 0;
    if (scaled < 1 + std::pow(0.5, theta_)) return 1;
    const auto rank =
        static_cast<std::uint64_t>(static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1, alpha_));
    return std::min(rank, n_ - 1);
  }

 private:
  std::uint64_t n_;
  double theta_;
  double zeta_;
  double alpha_;
  double eta_;
};

class trial {
 public:
  trial(const ycsb_options& o, const std::string& versions, const std::string& durability,
        std::uint32_t number)
      : o_(o),
        versions_(versions),
        durability_(durability),
        number_(number),
        place_(o),
        base_(open(o, versions, durability, place_)),
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

  static db::database open(const ycsb_options& o, const std::string& versions,
                           const std::string& durability, const scratch& place) {
    db::options how;
    how.versions = storages().at(versions);
    how.partition_transactions = o.partition;
    how.checkpoint_log_bytes = 0;
    if (durability == "memory") return db::database::open(how);
    how.durability = levels().at(durability);
    return db::database::open(place.name(), how);
  }

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
    bool checkpoint = o_.checkpoint && durability_ != "memory";
    while (steady::now() < end) {
      if (checkpoint && steady::now() - start > std::chrono::duration<double>(o_.seconds / 4)) {
        checkpoint = false;
        checkpoint_ = base_.checkpoint();
      }
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
                           {"durability", durability_},
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
                           {"latency_ns_max", ns(1)},
                           {"versions_made", v.versions_made},
                           {"versions_dropped", v.versions_dropped},
                           {"version_bytes_peak", most_bytes_},
                           {"version_bytes_end", v.bytes},
                           {"version_bytes_over_time", over_time_},
                           {"partitions", v.partitions},
                           {"partition_drops", v.drops},
                           {"census_looks", v.looks},
                           {"table_bytes", s.table_bytes},
                           {"log_bytes", s.log.bytes},
                           {"log_flushes", s.log.flushes},
                           {"longest_flush_ns", s.log.longest_flush.count()},
                           {"checkpoint_s", static_cast<double>(checkpoint_.took.count()) / 1e9},
                           {"checkpoint_bytes", checkpoint_.bytes},
                           {"peak_rss_bytes", peak_rss_bytes()}};
    made.update(circumstances());
    return made;
  }

  const ycsb_options& o_;
  const std::string versions_;
  const std::string durability_;
  const std::uint32_t number_;
  const scratch place_;
  db::database base_;
  db::table& table_;
  const zipf keys_;
  std::vector<db::column<std::int64_t>> columns_;
  db::statistics filled_;
  spolia::atomic<bool> go_{false};
  spolia::atomic<bool> stop_{false};
  std::uint64_t most_bytes_ = 0;
  db::checkpoint_report checkpoint_;
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
  for (const std::string& d : o.durability) {
    if (d != "memory" && !levels().contains(d)) {
      throw usage_error(fmt::format("--durability has {}; there are memory, none, async, sync", d));
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
    for (const std::string& v : o.versions) {
      for (const std::string& d : o.durability) take(trial(o, v, d, n).run());
    }
  }
}

}  // namespace bench
