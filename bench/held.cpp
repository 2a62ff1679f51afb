// SPDX-License-Identifier: Apache-2.0
#include "held.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spolia/base/counters.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/db.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "held_report.hpp"
#include "held_table.hpp"
#include "machine.hpp"
#include "options.hpp"
#include "own_process.hpp"
#include "random.hpp"
#include "record.hpp"
#include "scratch_folder.hpp"
#include "store.hpp"

namespace bench {
namespace {

namespace db = spolia::db;
using steady = std::chrono::steady_clock;

constexpr std::array<const char*, 4> workload_names = {"queue", "touched", "churn", "report"};
constexpr std::array<const char*, 3> index_names = {"ordered", "hash", "cuckoo"};
constexpr std::uint32_t samples_wanted = 300;
constexpr std::uint32_t samples_a_point = 6;
/// Of what the oldest reader sees, so many rows are read again and again: the first ones; for a
/// report some from everywhere.
constexpr std::size_t old_rows_kept = 1000;
constexpr std::size_t old_rows_of_report = 100000;
/// Reports are taken so often at least, however long that takes, and at most.
constexpr std::uint32_t least_reports = 3;
constexpr std::uint32_t most_reports = 30;
/// So many of the held readers show all rows by the index at the end.
constexpr std::size_t readers_by_index = 16;

/// What differs between the trials of a run.
struct setting {
  std::string workload;
  std::string index;
  std::string durability;
  std::string versions;
  std::uint32_t hold = 0;
  std::uint32_t number = 0;  ///< of the trial
};

/// What a snapshot sees: how many rows, and the sum of all that they have.
struct view {
  std::uint64_t rows = 0;
  std::uint64_t sum = 0;
  void add(std::int64_t number, std::int64_t mark) noexcept {
    ++rows;
    // Products, so that two marks which have changed places make another sum.
    sum += (static_cast<std::uint64_t>(number) + 1) * (2 * static_cast<std::uint64_t>(mark) + 1);
  }
  friend bool operator==(const view&, const view&) = default;
};

/// How long something took, each time.
class samples {
 public:
  void add(std::uint64_t ticks) { ticks_.push_back(ticks); }
  [[nodiscard]] std::size_t count() const noexcept { return ticks_.size(); }
  /// In nanoseconds; null: there is none.
  [[nodiscard]] nlohmann::json quantile(double share) const {
    if (ticks_.empty()) return nullptr;
    std::vector<std::uint64_t> sorted = ticks_;
    std::sort(sorted.begin(), sorted.end());
    const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1));
    return std::round(static_cast<double>(sorted[at]) * spolia::core::ns_per_tick());
  }

 private:
  std::vector<std::uint64_t> ticks_;
};

class trial {
 public:
  trial(const held_options& o, const setting& with)
      : o_(o),
        with_(with),
        shape_{with.workload, with.index, o.rows, o.threads},
        base_(open(o, with, folder_)),
        table_(base_, shape_),
        random_(o.seed + with.number) {
    for (std::uint32_t n = 0; n < o.threads; ++n) {
      const std::uint64_t seed = o.seed + 7919 * with.number + 104729 * (n + 1);
      workers_.push_back(std::make_unique<worker>(table_.share(n, seed)));
    }
    if (shape_.reports()) report_.emplace(base_, table_, o.spoil);
  }

  nlohmann::json run() {
    for (std::uint32_t n = 0; n < o_.threads; ++n) fill(*workers_[n]->share, shape_.share(n));
    if (o_.ballast != 0) add_ballast();
    reset_peak_rss();
    rss_filled_ = rss_bytes();
    if (report_) {
      // Else the old versions that reports go over would grow while they are taken, and the storage
      // with the slowest reports would have the most.
      with_workers([&](const worker_pool& working) { warm_up(working); });
      take_reports();
      with_workers([&](const worker_pool& working) { measure(working); });
    } else {
      with_workers([&](const worker_pool& working) {
        warm_up(working);
        measure(working);
      });
    }
    if (o_.spoil && !held_.empty()) ++held_.front().saw.sum;
    verify();
    return record();
  }

 private:
  struct worker {
    explicit worker(std::unique_ptr<held_share> rows) : share(std::move(rows)) {}
    std::unique_ptr<held_share> share;
    spolia::histogram ticks;
    spolia::tally transactions;
  };
  struct held_reader {
    std::unique_ptr<db::reader> at;
    view saw;
  };
  struct moment {
    double seconds = 0;
    double cpu_seconds = 0;
    std::uint64_t transactions = 0;
  };

  static db::database open(const held_options& o, const setting& with,
                           std::optional<scratch_folder>& folder) {
    db::options made;
    choose_versions(made, with.versions, false);
    made.hash_indexes = hash_kind_of(with.index == "cuckoo" ? "cuckoo" : "probing");
    if (with.durability == "memory") return db::database::open(made);
    made.durability = durability_of(with.durability);
    made.checkpoint_log_bytes = 0;
    folder.emplace(o.directory);
    return db::database::open(folder->path(), made);
  }

  void fill(held_share& rows, std::uint64_t count) {
    constexpr std::uint64_t together = 100;
    for (std::uint64_t from = 0; from < count; from += together) {
      const std::uint64_t end = std::min(from + together, count);
      must(base_.transact([&](db::transaction& tx) -> db::status {
        for (std::uint64_t i = from; i < end; ++i) {
          if (const db::status s = rows.fill(tx, i); !s) return s;
        }
        return db::outcome::ok;
      }));
    }
  }

  void add_ballast() {
    db::table& rows = base_.create_table(
        {.name = "ballast",
         .columns = {{"id", db::int64, db::primary_key}, {"text", db::text(100)}}});
    const std::string text(100, 'b');
    constexpr std::uint64_t together = 1000;
    for (std::uint64_t from = 0; from < o_.ballast; from += together) {
      const std::uint64_t end = std::min(from + together, o_.ballast);
      must(base_.transact([&](db::transaction& tx) -> db::status {
        for (std::uint64_t i = from; i < end; ++i) {
          const auto id = static_cast<std::int64_t>(i);
          if (const db::status s = tx.insert(rows, {id, text}); !s) return s;
        }
        return db::outcome::ok;
      }));
    }
  }

  static void must(db::status s) {
    if (!s) throw std::runtime_error(fmt::format("a transaction has ended: {}", s.message()));
  }

  /// While transactions are made.
  template <class F>
  void with_workers(F&& f) {
    worker_pool working;
    for (const auto& w : workers_) working.add([&, mine = w.get()] { work(working, *mine); });
    if (o_.checkpoint) working.add([&] { take_checkpoints(working); });
    working.begin();
    f(working);
    working.stop();
  }

  void work(const worker_pool& working, worker& mine) {
    auto change = with_conflicts([&](db::transaction& tx) { return mine.share->change(tx); });
    while (!working.stopped()) {
      const std::uint64_t begin = spolia::ticks::read();
      must(base_.transact(change));
      if (measuring_.load_relaxed()) mine.ticks.record(spolia::ticks::read() - begin);
      mine.share->committed();
      mine.transactions.add();
    }
  }

  void take_checkpoints(const worker_pool& working) {
    while (!working.stopped()) {
      base_.checkpoint();
      if (measuring_.load_relaxed()) checkpoints_.add();
    }
  }

  /// Takes the readers, at even distances in time.
  void warm_up(const worker_pool& working) {
    for (std::uint32_t n = 0; n < with_.hold && !working.stopped(); ++n) {
      sleep_until(working, o_.warm_up * n / with_.hold);
      hold(n == 0);
    }
    sleep_until(working, o_.warm_up);
    while (report_ && !held_.empty() && !working.stopped() && age() < o_.age) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// Updates a row since the oldest reader began.
  [[nodiscard]] double age() const {
    return 2 * static_cast<double>(transactions() - held_at_) / static_cast<double>(o_.rows);
  }
  static void sleep_until(const worker_pool& working, double seconds) {
    const double left = seconds - working.seconds();
    if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
  }

  void hold(bool oldest) {
    held_reader& r = held_.emplace_back();
    r.at.reset(new db::reader(base_.snapshot("held")));
    if (oldest) held_at_ = transactions();
    const std::size_t most = report_ ? old_rows_of_report : old_rows_kept;
    const std::uint64_t apart = report_ ? o_.rows / most + 1 : 1;
    table_.each(*r.at, [&](std::int64_t number, std::int64_t mark) {
      r.saw.add(number, mark);
      if (oldest && old_rows_.size() < most && r.saw.rows % apart == 0) {
        old_rows_.emplace_back(number, mark);
      }
    });
    if (r.saw.rows != o_.rows) {
      throw std::runtime_error(fmt::format("{}: a new reader sees {} rows, but there are {}",
                                           in_words(), r.saw.rows, o_.rows));
    }
  }

  /// While no transaction is made.
  void take_reports() {
    const auto start = steady::now();
    const auto took = [&] { return std::chrono::duration<double>(steady::now() - start).count(); };
    if (!held_.empty()) reported_age_ = age();
    for (std::uint32_t n = 0; n < least_reports || (n < most_reports && took() < o_.seconds); ++n) {
      report_->sample(held_.empty() ? nullptr : held_.front().at.get(), old_rows_);
    }
  }

  void measure(const worker_pool& working) {
    measuring_.store_relaxed(true);
    const moment begin = now(working);
    moment last = begin;
    const double pause = o_.seconds / samples_wanted;
    for (std::uint32_t n = 1; !working.stopped() && last.seconds - begin.seconds < o_.seconds;
         ++n) {
      const double took = sample();
      // So that samples take little of what there is, however long each of them takes.
      std::this_thread::sleep_for(std::chrono::duration<double>(std::max(pause, 9 * took)));
      const moment at = now(working);
      if (n % samples_a_point == 0) note(begin, at);
      last = at;
    }
    note(begin, last);
    measured_ = {last.seconds - begin.seconds, last.cpu_seconds - begin.cpu_seconds,
                 last.transactions - begin.transactions};
    rss_end_ = rss_bytes();
    end_ = base_.stats();
  }

  /// Times two short reads; how many seconds both took. And checks a report at a new snapshot.
  double sample() {
    const auto start = steady::now();
    const std::uint64_t begin = spolia::ticks::read();
    {
      const db::reader fresh = base_.snapshot("sample");
      const bool found = table_.first_row(fresh, random_);
      first_row_.add(spolia::ticks::read() - begin);
      // In a hash index the key that is looked for may have no row at that time.
      if (!found && !shape_.hashed()) {
        throw std::runtime_error(in_words() + ": a new reader has found no first row");
      }
    }
    if (!held_.empty()) {
      const auto& [number, mark] = old_rows_[random_.below(old_rows_.size())];
      const std::uint64_t again = spolia::ticks::read();
      const auto found = table_.find(*held_.front().at, number);
      old_read_.add(spolia::ticks::read() - again);
      if (found != mark) {
        throw std::runtime_error(
            fmt::format("{}: the oldest reader has lost row {}", in_words(), number));
      }
    }
    if (report_) report_->check_new();
    return std::chrono::duration<double>(steady::now() - start).count();
  }

  [[nodiscard]] moment now(const worker_pool& working) const {
    return {working.seconds(), static_cast<double>(std::clock()) / CLOCKS_PER_SEC, transactions()};
  }
  [[nodiscard]] std::uint64_t transactions() const {
    std::uint64_t sum = 0;
    for (const auto& w : workers_) sum += w->transactions.value();
    return sum;
  }

  /// A point of over_time.
  void note(const moment& begin, const moment& at) {
    const db::statistics s = base_.stats();
    const double ms = std::round((at.seconds - begin.seconds) * 10000) / 10;
    const double since = at.seconds - noted_.value_or(begin).seconds;
    if (since <= 0) return;
    const std::uint64_t done = at.transactions - noted_.value_or(begin).transactions;
    over_time_.push_back({ms, std::round(static_cast<double>(done) / since), rss_bytes(),
                          s.cleaning, s.versions.bytes});
    waiting_peak_ = std::max(waiting_peak_, s.cleaning);
    version_bytes_peak_ = std::max(version_bytes_peak_, s.versions.bytes);
    noted_ = at;
  }

  /// All held readers by the table, and some of them, of all ages, by the index.
  void verify() {
    const std::size_t apart = held_.size() / readers_by_index + 1;
    for (std::size_t n = 0; n < held_.size(); ++n) {
      const held_reader& r = held_[n];
      view by_table;
      table_.each(*r.at, [&](auto number, auto mark) { by_table.add(number, mark); });
      compare(r, "table", by_table);
      if (n % apart != 0) continue;
      view by_index;
      const std::uint64_t begin = spolia::ticks::read();
      table_.by_index(*r.at, [&](auto number, auto mark) { by_index.add(number, mark); });
      old_scan_.add(spolia::ticks::read() - begin);
      compare(r, "index", by_index);
    }
  }
  void compare(const held_reader& r, const char* way, const view& sees) const {
    if (sees == r.saw) return;
    throw std::runtime_error(
        fmt::format("{}: a held reader saw {} rows with sum {} when it began, and now by the {} "
                    "it sees {} with sum {}",
                    in_words(), r.saw.rows, r.saw.sum, way, sees.rows, sees.sum));
  }

  [[nodiscard]] std::string in_words() const {
    return fmt::format("{} with index {} under {}", with_.workload, with_.index, with_.versions);
  }

  [[nodiscard]] nlohmann::json record() const {
    spolia::histogram_snapshot ticks;
    for (const auto& w : workers_) ticks.merge(w->ticks);
    const nlohmann::json ns = latencies(ticks);
    const auto done = static_cast<double>(measured_.transactions);
    nlohmann::json results = {
        {"elapsed_s", measured_.seconds},
        {"transactions", measured_.transactions},
        {"tx_per_s", done / measured_.seconds},
        {"tx_per_cpu_s", done / measured_.cpu_seconds},
        {"conflicts", end_.conflicts},
        {"latency_ns_p50", ns["p50"]},
        {"latency_ns_p99", ns["p99"]},
        {"latency_ns_p999", ns["p999"]},
        {"latency_ns_max", ns["max"]},
        {"samples", first_row_.count()},
        {"first_row_ns_p50", first_row_.quantile(0.5)},
        {"first_row_ns_max", first_row_.quantile(1)},
        {"old_read_ns_p50", old_read_.quantile(0.5)},
        {"old_read_ns_max", old_read_.quantile(1)},
        {"old_scan_ns_p50", old_scan_.quantile(0.5)},
        {"old_scan_ns_max", old_scan_.quantile(1)},
        {"rss_filled_bytes", rss_filled_},
        {"rss_growth_bytes", static_cast<std::int64_t>(rss_end_ - rss_filled_)},
        {"report_age", reported_age_ ? nlohmann::json(*reported_age_) : nullptr},
        {"waiting_end", end_.cleaning},
        {"waiting_peak", waiting_peak_},
        {"over_time", over_time_},
        {"version_bytes_peak", version_bytes_peak_},
        {"table_bytes", end_.table_bytes},
        {"checkpoints", checkpoints_.value()},
        {"log_bytes", folder_ ? nlohmann::json(end_.log.bytes) : nullptr},
        {"peak_rss_bytes", peak_rss_bytes()}};
    results.update(report_ ? report_->record() : held_report::no_record());
    results.update(version_figures(end_.versions));
    return make_record("held", with_.number,
                       {.threads = o_.threads, .seconds = o_.seconds, .warm_up_s = o_.warm_up},
                       configuration(), results);
  }

  [[nodiscard]] nlohmann::json configuration() const {
    const bool lasts = with_.durability != "memory";
    return {{"workload", with_.workload},
            {"index", with_.index},
            {"versions", with_.versions},
            {"hold", with_.hold},
            {"rows", o_.rows},
            {"durability", with_.durability},
            {"directory", lasts ? nlohmann::json(scratch_folder::place(o_.directory).string())
                                : nlohmann::json(nullptr)},
            {"checkpoint", o_.checkpoint},
            {"ballast", o_.ballast},
            {"age", shape_.reports() ? nlohmann::json(o_.age) : nlohmann::json(nullptr)},
            {"seed", o_.seed},
            {"trials", o_.trials}};
  }

  const held_options& o_;
  const setting& with_;
  const held_shape shape_;
  std::optional<scratch_folder> folder_;
  db::database base_;
  held_table table_;
  random_source random_;
  std::vector<std::unique_ptr<worker>> workers_;
  std::vector<held_reader> held_;      // the oldest first
  std::uint64_t held_at_ = 0;          // so many transactions, when that began
  std::vector<held_row> old_rows_;     // as that one sees them
  std::optional<held_report> report_;  // of the workload `report`
  std::optional<double> reported_age_;
  spolia::atomic<bool> measuring_{false};
  spolia::tally checkpoints_;
  samples first_row_;
  samples old_read_;
  samples old_scan_;
  moment measured_;
  std::optional<moment> noted_;
  db::statistics end_;
  std::uint64_t rss_filled_ = 0;
  std::uint64_t rss_end_ = 0;
  std::uint64_t waiting_peak_ = 0;
  std::uint64_t version_bytes_peak_ = 0;
  nlohmann::json over_time_ = nlohmann::json::array();
};

/// In the order in which they are run: those that differ in what is held alone come together.
std::vector<setting> settings_of(const held_options& o) {
  const auto storages =
      in_order(o.versions.empty() ? version_storage_names() : o.versions, o.order);
  const auto holds = in_order(o.holds, o.order);
  std::vector<setting> all;
  for (std::uint32_t n = 0; n < o.trials; ++n) {
    for (const std::string& w : in_order(o.workloads, o.order)) {
      for (const std::string& i : in_order(o.indexes, o.order)) {
        for (const std::string& d : in_order(o.durability, o.order)) {
          for (const std::string& v : storages) {
            for (const std::uint32_t hold : holds) all.push_back({w, i, d, v, hold, n});
          }
        }
      }
    }
  }
  return all;
}

template <class Names>
void check_names(const char* option, const std::vector<std::string>& given, const Names& known) {
  for (const std::string& name : given) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw usage_error(
          fmt::format("--{} has {}; there are {}", option, name, fmt::join(known, ", ")));
    }
  }
}

}  // namespace

void check(const held_options& o) {
  check_names("workload", o.workloads, workload_names);
  check_names("index", o.indexes, index_names);
  check_versions(o.versions, true);
  for (const std::string& d : o.durability) {
    if (d != "memory") {
      durability_of(d);
    } else if (o.checkpoint) {
      throw usage_error("--checkpoint is not for --durability memory, but none, async or sync");
    }
  }
  for (const std::uint32_t n : o.holds) within<std::uint32_t>("hold", n, 0, 10000);
  within<std::uint32_t>("threads", o.threads, 1, 1024);
  within<std::uint64_t>("rows", o.rows, o.threads, 100000000);
  within<std::uint64_t>("ballast", o.ballast, 0, 100000000);
  within("warm-up", o.warm_up, 0.0, 86400.0);
  within<std::uint32_t>("age", o.age, 0, 1000000);
  within("seconds", o.seconds, 0.01, 86400.0);
  within<std::uint32_t>("trials", o.trials, 1, 10000);
  if (std::ranges::find(o.workloads, "report") == o.workloads.end()) {
    refuse(o.given, {"--age"}, fmt::format("--workload {}", fmt::join(o.workloads, ",")),
           "--workload report");
  }
  if (std::ranges::all_of(o.durability, [](const auto& d) { return d == "memory"; })) {
    refuse(o.given, {"--directory"}, "--durability memory", "--durability none, async and sync");
  }
  if (o.spoil && std::find(o.holds.begin(), o.holds.end(), 0) != o.holds.end()) {
    throw usage_error("--spoil changes what is noted of a held reader: not for --hold 0");
  }
}

void run_held(const held_options& o, const std::function<void(const nlohmann::json&)>& take) {
  for (const setting& with : settings_of(o)) {
    take(in_own_process([&] { return trial(o, with).run(); }));
  }
}

}  // namespace bench
