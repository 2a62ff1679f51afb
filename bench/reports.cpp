// SPDX-License-Identifier: Apache-2.0
#include "reports.hpp"

#include <fmt/format.h>
#include <spolia/base/counters.hpp>
#include <spolia/db.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "lineitem.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "own_process.hpp"
#include "random.hpp"
#include "record.hpp"
#include "store.hpp"

namespace bench {
namespace {

namespace db = spolia::db;
using steady = std::chrono::steady_clock;

constexpr std::uint32_t least_samples = 3;
constexpr std::uint32_t most_samples = 30;
constexpr std::size_t ways = 2 * std::tuple_size_v<decltype(lineitem::reports)>;

double since(steady::time_point start) {
  return std::chrono::duration<double>(steady::now() - start).count();
}

nlohmann::json median(std::vector<double> of) {
  if (of.empty()) return nullptr;
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return std::round(*middle * 100) / 100;
}

/// Those by a query first.
std::string name_of(std::size_t way) {
  constexpr std::size_t count = ways / 2;
  const std::string name = lineitem::reports[way % count].name;
  return way < count ? name : name + "_rows";
}

/// Processor time and time by the clock, in nanoseconds a row.
struct cost {
  double processor = 0;
  double clock = 0;
};

class trial {
 public:
  trial(const reports_options& o, const std::string& versions, std::uint32_t number)
      : o_(o), versions_(versions), number_(number), base_(open(versions)), table_(base_) {}

  nlohmann::json run() {
    fill();
    const std::unique_ptr<db::reader> old(new db::reader(base_.snapshot("the old one")));
    for (std::size_t way = 0; way < ways; ++way) expected_.push_back(found(way, *old));
    compare_ways(expected_, "the old snapshot, when it begins,");
    expected_.push_back(table_.twenty(*old));
    if (o_.spoil) ++expected_.front().front();
    const std::uint64_t wanted = o_.age * o_.rows;
    with_workers([&](const worker_pool& working) {
      while (!working.stopped() && transactions() < wanted) pause();
    });
    age_ = static_cast<double>(transactions()) / static_cast<double>(o_.rows);
    take_samples(*old);
    if (o_.load > 0) {
      with_workers([&](const worker_pool& working) { take_under_load(working, *old); });
    }
    return record();
  }

 private:
  static db::database open(const std::string& versions) {
    db::options made;
    choose_versions(made, versions, false);
    return db::database::open(made);
  }

  static void must(db::status s) {
    if (!s) throw std::runtime_error(fmt::format("a transaction has ended: {}", s.message()));
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  void fill() {
    constexpr std::uint64_t together = 100;
    random_source random(o_.seed);
    for (std::uint64_t from = 0; from < o_.rows; from += together) {
      const std::uint64_t end = std::min(from + together, o_.rows);
      must(base_.transact([&](db::transaction& tx) -> db::status {
        for (std::uint64_t n = from; n < end; ++n) {
          if (const db::status s = table_.fill(tx, n, random); !s) return s;
        }
        return db::outcome::ok;
      }));
    }
  }

  /// While each thread updates rows of its own, one a transaction.
  template <class F>
  void with_workers(F&& f) {
    worker_pool working;
    for (std::uint64_t n = 0; n < o_.threads; ++n) {
      const std::uint64_t seed = o_.seed + 7919 * (++begun_) + 104729 * number_;
      working.add([this, &working, n, seed] {
        random_source random(seed);
        while (!working.stopped()) {
          const std::uint64_t row = random.below(o_.rows / o_.threads) * o_.threads + n;
          must(base_.transact([&](db::transaction& tx) { return table_.change(tx, row, random); }));
          done_.add();
        }
      });
    }
    working.begin();
    f(working);
    working.stop();
  }
  [[nodiscard]] std::uint64_t transactions() const { return done_.value(); }

  [[nodiscard]] report_figures found(std::size_t way, const db::reader& at) const {
    const lineitem::report& r = lineitem::reports[way % lineitem::reports.size()];
    return (table_.*(way < lineitem::reports.size() ? r.by_query : r.by_rows))(at);
  }
  static void compare_ways(const std::vector<report_figures>& all, const char* where) {
    for (std::size_t i = 0; i < ways / 2; ++i) {
      if (all[i] == all[i + ways / 2]) continue;
      throw std::runtime_error(
          fmt::format("{} at {} is not the same by a query and by rows", name_of(i), where));
    }
  }
  void compare_old(const report_figures& now, std::size_t way) const {
    if (now == expected_[way]) return;
    throw std::runtime_error(
        fmt::format("{} at the old snapshot under {} is not what it was when that began",
                    way == ways ? "a report of twenty queries" : name_of(way), versions_));
  }

  template <class F>
  [[nodiscard]] cost time(F&& report) const {
    const std::uint64_t begin = processor_ns();
    const auto start = steady::now();
    report();
    const auto rows = static_cast<double>(o_.rows);
    return {static_cast<double>(processor_ns() - begin) / rows, since(start) * 1e9 / rows};
  }

  /// While no transaction is made.
  void take_samples(const db::reader& old) {
    const auto start = steady::now();
    for (std::uint32_t n = 0; n < least_samples || (n < most_samples && since(start) < o_.seconds);
         ++n) {
      const db::reader fresh = base_.snapshot("a new one");
      std::vector<report_figures> seen(ways);
      for (std::size_t way = 0; way < ways; ++way) {
        report_figures before;
        new_[way].push_back(time([&] { seen[way] = found(way, fresh); }).processor);
        old_[way].push_back(time([&] { before = found(way, old); }).processor);
        compare_old(before, way);
      }
      compare_ways(seen, "a new snapshot");
    }
  }

  /// Reports of twenty queries at the old snapshot and at new ones, by turns, in parts.
  void take_under_load(const worker_pool& working, const db::reader& old) {
    for (std::uint32_t part = 1; part <= o_.parts && !working.stopped(); ++part) {
      std::array<std::vector<double>, 4> taken;
      const std::uint64_t before = transactions();
      const double begin = working.seconds();
      const double end = o_.load * part / o_.parts;
      do {
        report_figures now;
        const cost then = time([&] { now = table_.twenty(old); });
        compare_old(now, ways);
        const db::reader fresh = base_.snapshot("a new one");
        const cost fresh_one = time([&] { now = table_.twenty(fresh); });
        taken[0].push_back(then.processor);
        taken[1].push_back(then.clock);
        taken[2].push_back(fresh_one.processor);
        taken[3].push_back(fresh_one.clock);
      } while (!working.stopped() && working.seconds() < end);
      const double lasted = working.seconds() - begin;
      over_time_.push_back({std::round(working.seconds() * 1000), median(taken[0]),
                            median(taken[1]), median(taken[2]), median(taken[3]), taken[0].size(),
                            std::round(static_cast<double>(transactions() - before) / lasted),
                            base_.stats().versions.bytes, rss_bytes()});
    }
  }

  [[nodiscard]] nlohmann::json record() const {
    nlohmann::json made = {{"report_age", age_}, {"transactions", transactions()}};
    for (std::size_t way = 0; way < ways; ++way) {
      made[fmt::format("old_{}_ns", name_of(way))] = median(old_[way]);
      made[fmt::format("new_{}_ns", name_of(way))] = median(new_[way]);
    }
    made["reports_over_time"] = over_time_;
    made["last_to_first"] = nullptr;
    if (over_time_.size() > 1) {
      const double last = over_time_.back()[1];
      const double first = over_time_.front()[1];
      made["last_to_first"] = std::round(last / first * 1000) / 1000;
    }
    made["peak_rss_bytes"] = peak_rss_bytes();
    made.update(version_figures(base_.stats().versions));
    const bool beside = o_.load > 0;
    return make_record("reports", number_,
                       {.threads = o_.threads, .seconds = o_.seconds, .warm_up_s = 0},
                       {{"engine", "spolia"},
                        {"versions", versions_},
                        {"rows", o_.rows},
                        {"age", o_.age},
                        {"load", o_.load},
                        {"parts", beside ? nlohmann::json(o_.parts) : nlohmann::json(nullptr)},
                        {"seed", o_.seed},
                        {"trials", o_.trials}},
                       made);
  }

  const reports_options& o_;
  const std::string versions_;
  const std::uint32_t number_;
  db::database base_;
  lineitem table_;
  std::uint64_t begun_ = 0;  // threads, until now
  spolia::tally done_;
  double age_ = 0;
  std::vector<report_figures> expected_;  // at the old snapshot, by way; then the twenty queries
  std::array<std::vector<double>, ways> old_;
  std::array<std::vector<double>, ways> new_;
  nlohmann::json over_time_ = nlohmann::json::array();
};

}  // namespace

void check(const reports_options& o) {
  check_versions(o.versions, true);
  within<std::uint32_t>("threads", o.threads, 1, 1024);
  // Sums of products of three numbers have 63 bits.
  within<std::uint64_t>("rows", o.rows, o.threads, 10000000);
  within<std::uint32_t>("age", o.age, 0, 1000000);
  within("seconds", o.seconds, 0.01, 86400.0);
  within("load", o.load, 0.0, 86400.0);
  within<std::uint32_t>("parts", o.parts, 1, 10000);
  if (o.load == 0) refuse(o.given, {"--parts"}, "no --load", "--load");
  within<std::uint32_t>("trials", o.trials, 1, 10000);
}

void run_reports(const reports_options& o, const std::function<void(const nlohmann::json&)>& take) {
  const auto storages =
      in_order(o.versions.empty() ? version_storage_names() : o.versions, o.order);
  for (std::uint32_t n = 0; n < o.trials; ++n) {
    for (const std::string& versions : storages) {
      take(in_own_process([&] { return trial(o, versions, n).run(); }));
    }
  }
}

}  // namespace bench
