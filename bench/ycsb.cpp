// SPDX-License-Identifier: Apache-2.0
#include "ycsb.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spolia/base/atomic.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/ticks.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "machine.hpp"
#include "options.hpp"
#include "record.hpp"
#include "scratch_folder.hpp"
#include "store.hpp"
#include "ycsb_engine.hpp"
#include "zipf.hpp"

namespace bench {

std::vector<ycsb_choice>& ycsb_engines() {
  static std::vector<ycsb_choice> all;
  return all;
}

namespace {

/// Engines of other libraries, and what Debian calls what they need.
constexpr std::array<std::pair<const char*, const char*>, 4> rivals = {
    {{"rocksdb-optimistic", "librocksdb-dev"},
     {"rocksdb-pessimistic", "librocksdb-dev"},
     {"lmdb", "liblmdb-dev"},
     {"sqlite", "libsqlite3-dev"}}};

/// A workload: shares of operations in per cent, and what is taken where nothing else was asked.
struct workload {
  const char* name;
  std::uint32_t read, update, insert, scan, modify;
  bool latest;  ///< the newest rows are the likeliest; else some rows, all over the table
  double theta;
  std::uint32_t operations, columns, width;
  std::uint64_t records;
  bool shared;
};

// YCSB's are those of Cooper et al., SoCC 2010, and its files workloada to workloadf.
constexpr std::array<workload, 7> workloads = {{
    {"paper", 50, 50, 0, 0, 0, false, 0.5, 10, 10, 8, 1000, false},
    {"a", 50, 50, 0, 0, 0, false, 0.99, 1, 10, 100, 50000, true},
    {"b", 95, 5, 0, 0, 0, false, 0.99, 1, 10, 100, 50000, true},
    {"c", 100, 0, 0, 0, 0, false, 0.99, 1, 10, 100, 50000, true},
    {"d", 95, 0, 5, 0, 0, true, 0.99, 1, 10, 100, 50000, true},
    {"e", 0, 0, 5, 95, 0, false, 0.99, 1, 10, 100, 50000, true},
    {"f", 50, 0, 0, 0, 50, false, 0.99, 1, 10, 100, 50000, true},
}};
constexpr std::uint32_t longest_scan = 100;

/// The options with the workload's own where nothing was given.
struct plan {
  explicit plan(const ycsb_options& o)
      : asked(o),
        of(*std::find_if(workloads.begin(), workloads.end(),
                         [&](const workload& w) { return w.name == o.workload; })),
        theta(o.theta.value_or(of.theta)),
        operations(o.operations.value_or(of.operations)),
        records(o.records.value_or(of.records)),
        shared(o.shared || (of.shared && !o.own)) {
    if (o.writes) {
      of.update = *o.writes;
      of.read = 100 - *o.writes;
    }
    shape.columns = o.columns.value_or(of.columns);
    shape.width = o.width.value_or(of.width);
    shape.update_all = paper();
    shape.ordered = of.scan != 0;
    shape.rows = records * sharers();
    shape.partition = o.partition;
    shape.partition_cache = o.partition_cache;
    shape.touch = o.touch.value_or(0);
    shape.changes = o.changes;
    shape.directory = o.directory;
  }
  [[nodiscard]] bool paper() const { return asked.workload == "paper"; }
  /// Threads for which there are rows. At least one: a run without workers scans all rows.
  [[nodiscard]] std::uint32_t sharers() const { return std::max(1U, asked.threads); }

  const ycsb_options& asked;
  workload of;
  const double theta;
  const std::uint32_t operations;
  const std::uint64_t records;
  const bool shared;
  ycsb_shape shape;
};

/// Keys that one thread draws from, or all threads do. New rows come after the last key.
struct alignas(64) key_range {
  std::uint64_t first = 0;
  spolia::atomic<std::uint64_t> next{0};   ///< to be inserted, counted from `first`
  spolia::atomic<std::uint64_t> known{0};  ///< below this most are committed
};

class chooser {
 public:
  chooser(const plan& p, const zipf& ranks, key_range& keys, std::uint64_t seed)
      : plan_(p), ranks_(ranks), keys_(keys), random_(seed) {}

  const std::vector<ycsb_op>& next() {
    ops_.clear();
    for (std::uint32_t i = 0; i < plan_.operations; ++i) {
      ycsb_op op{.what = what(i)};
      if (op.what == ycsb_action::insert) {
        op.key = keys_.first + keys_.next.fetch_add_relaxed(1);
      } else {
        do {
          op.key = key();
        } while (known(op.key));
      }
      if (op.what == ycsb_action::scan) {
        op.count = 1 + static_cast<std::uint32_t>(random_.below(longest_scan));
      }
      op.column = static_cast<std::uint32_t>(random_.below(plan_.shape.touched()));
      ops_.push_back(op);
    }
    return ops_;
  }
  void committed() {
    for (const ycsb_op& op : ops_) {
      if (op.what != ycsb_action::insert) continue;
      const std::uint64_t end = op.key - keys_.first + 1;
      std::uint64_t before = keys_.known.load_relaxed();
      while (before < end && !keys_.known.cas_weak_relaxed(before, end)) {
      }
    }
  }

 private:
  ycsb_action what(std::uint32_t place) {
    const workload& w = plan_.of;
    if (plan_.paper()) {
      // The last ones are the writes.
      const std::uint32_t writes = (plan_.operations * w.update + 50) / 100;
      return place + writes < plan_.operations ? ycsb_action::read : ycsb_action::update;
    }
    auto x = static_cast<std::uint32_t>(random_.below(100));
    if (x < w.read) return ycsb_action::read;
    x -= w.read;
    if (x < w.update) return ycsb_action::update;
    x -= w.update;
    if (x < w.insert) return ycsb_action::insert;
    x -= w.insert;
    return x < w.scan ? ycsb_action::scan : ycsb_action::modify;
  }
  std::uint64_t key() {
    const std::uint64_t rank = ranks_.draw(random_);
    if (plan_.paper()) return keys_.first + rank;
    const std::uint64_t rows = keys_.known.load_relaxed();
    if (plan_.of.latest) return keys_.first + (rows - 1 - std::min(rank, rows - 1));
    // The likely ones lie all over the table, and stay the same as it grows.
    return keys_.first + random_source(rank).next() % plan_.shape.rows % rows;
  }
  [[nodiscard]] bool known(std::uint64_t key) const {
    return std::any_of(ops_.begin(), ops_.end(), [&](const ycsb_op& op) { return op.key == key; });
  }

  const plan& plan_;
  const zipf& ranks_;
  key_range& keys_;
  random_source random_;
  std::vector<ycsb_op> ops_;
};

class trial {
 public:
  /// Of the store: `versions` and `index`.
  trial(const plan& p, const ycsb_choice& with, const std::string& versions,
        const std::string& index, const std::string& durability, std::uint32_t number)
      : plan_(p),
        o_(p.asked),
        name_(with.name),
        number_(number),
        shape_(p.shape),
        ranks_(p.shared ? p.shape.rows : p.records, p.theta),
        ranges_(p.shared ? 1 : p.sharers()) {
    shape_.versions = versions;
    shape_.index = index;
    shape_.durability = durability;
    engine_ = with.make(shape_);
  }

  nlohmann::json run() {
    const auto begin = std::chrono::steady_clock::now();
    fill();
    fill_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (std::uint32_t i = 0; i < o_.hold; ++i) engine_->hold();
    for (std::uint32_t n = 0; n < o_.threads; ++n) workers_.push_back(std::make_unique<worker>());
    worker_pool working;
    for (std::uint32_t n = 0; n < o_.threads; ++n) working.add([&, n] { work(working, n); });
    if (o_.checkpoint) working.add([&] { take_checkpoint(working); });
    if (!o_.scan.empty()) working.add([&] { scan(working); });
    working.begin(*o_.warm_up, [&] {
      reset_peak_rss();
      before_ = engine_->versions().value_or(spolia::db::delta_stats{});
    });
    over_time_.watch(
        working, o_.transactions == 0 ? o_.seconds : 0, 50, [&] { return done(); },
        [&] { return engine_->versions(); });
    if (o_.transactions == 0) {
      working.stop();
    } else {
      working.wait();
    }
    return record(working.seconds());
  }

 private:
  struct sums {
    std::uint64_t conflict = 0;
    std::uint64_t limit = 0;
    std::uint64_t no_history = 0;
    std::uint64_t given_up = 0;
    std::uint64_t missed = 0;
  };
  struct worker {
    spolia::histogram ticks;
    spolia::tally transactions;
    std::unique_ptr<ycsb_session> session;
    sums before;  ///< of its session, when it was warm

    [[nodiscard]] sums now() const {
      const ycsb_aborts& a = session->aborts;
      return {a.conflict.value(), a.limit.value(), a.no_history.value(), a.given_up.value(),
              session->missed.value()};
    }
  };

  void fill() {
    const auto session = engine_->open();
    std::vector<ycsb_op> ops;
    const std::uint64_t rows = shape_.rows / ranges_.size();
    for (std::size_t n = 0; n < ranges_.size(); ++n) {
      key_range& range = ranges_[n];
      range.first = std::uint64_t{n} << 40U;
      range.next.store_relaxed(rows);
      range.known.store_relaxed(rows);
      for (std::uint64_t k = 0; k < rows;) {
        ops.clear();
        for (std::uint32_t i = 0; i < 500 && k < rows; ++i, ++k) {
          ops.push_back({.what = ycsb_action::insert, .key = range.first + k});
        }
        if (!session->run(ops)) throw std::runtime_error(name_ + " could not insert the rows");
      }
    }
  }

  void work(const worker_pool& working, std::uint32_t n) {
    worker& mine = *workers_[n];
    // By its own thread: some engines tie a connection to it.
    mine.session = engine_->open();
    chooser choose(plan_, ranks_, ranges_[n % ranges_.size()],
                   o_.seed + 7919 * number_ + 104729 * (n + 1));
    bool warm = false;
    for (std::uint64_t i = 0; !working.stopped(); ++i) {
      if (o_.transactions != 0 && i == o_.transactions) return;
      if (!warm && working.warm()) {
        warm = true;
        mine.before = mine.now();
      }
      const auto& ops = choose.next();
      const std::uint64_t begin = spolia::ticks::read();
      if (!mine.session->run(ops)) continue;
      if (plan_.of.insert != 0) choose.committed();
      if (!warm) continue;
      mine.ticks.record(spolia::ticks::read() - begin);
      mine.transactions.add();
    }
    if (!warm) mine.before = mine.now();  // it had no processor in the measured time
  }

  void scan(const worker_pool& working) {
    const std::uint32_t threads = o_.scan == "query" ? o_.scan_threads : 0;
    while (!working.stopped()) {
      const bool warm = working.warm();
      const auto rows = engine_->scan(threads);
      if (!warm) continue;
      scanned_.add(*rows);
      scans_.add();
    }
  }

  /// After a quarter of the measured time.
  void take_checkpoint(const worker_pool& working) {
    using clock = std::chrono::steady_clock;
    while (!working.warm() && !working.stopped()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const auto then = clock::now() + std::chrono::duration<double>(o_.seconds / 4);
    while (clock::now() < then && !working.stopped()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::uint64_t before = done();
    const auto begin = clock::now();
    checkpoint_ = engine_->checkpoint();
    inside_s_ = std::chrono::duration<double>(clock::now() - begin).count();
    inside_ = done() - before;
    whole_ = !working.stopped();
  }

  [[nodiscard]] std::uint64_t done() const {
    std::uint64_t sum = 0;
    for (const auto& w : workers_) sum += w->transactions.value();
    return sum;
  }

  nlohmann::json record(double elapsed) const {
    const bool by_time = o_.transactions == 0;
    return make_record("ycsb", number_,
                       {.threads = o_.threads,
                        .seconds = by_time ? nlohmann::json(o_.seconds) : nlohmann::json(nullptr),
                        .warm_up_s = *o_.warm_up},
                       configuration(), results(elapsed));
  }

  [[nodiscard]] nlohmann::json results(double elapsed) const {
    spolia::histogram_snapshot ticks;
    sums all;
    for (const auto& w : workers_) {
      ticks.merge(w->ticks);
      const sums end = w->now();
      for (const auto field :
           {&sums::conflict, &sums::limit, &sums::no_history, &sums::given_up, &sums::missed}) {
        all.*field += end.*field - w->before.*field;
      }
    }
    const nlohmann::json ns = latencies(ticks);
    nlohmann::json made = {
        {"fill_s", fill_s_},
        {"elapsed_s", elapsed},
        {"transactions", done()},
        {"tx_per_s", static_cast<double>(done()) / elapsed},
        {"conflicts", all.conflict},
        {"aborts",
         {{"conflict", all.conflict},
          {"limit", all.limit},
          {"no_history", all.no_history},
          {"given_up", all.given_up}}},
        {"missed", all.missed},
        {"scans", scans_.value()},
        {"rows_scanned_per_s", std::round(static_cast<double>(scanned_.value()) / elapsed)},
        {"latency_ns_p50", ns["p50"]},
        {"latency_ns_p99", ns["p99"]},
        {"latency_ns_p999", ns["p999"]},
        {"latency_ns_max", ns["max"]},
        {"latency_ns_distribution", ns["distribution"]},
        {"over_time", over_time_.points()},
        {"table_bytes", nullptr},
        {"peak_rss_bytes", peak_rss_bytes()}};
    if (const auto bytes = engine_->table_bytes()) made["table_bytes"] = *bytes;
    const auto versions = engine_->versions();
    nlohmann::json figures = version_figures(versions.value_or(spolia::db::delta_stats{}), before_);
    figures["version_bytes_peak"] = over_time_.most_bytes();
    figures["version_bytes_over_time"] = over_time_.bytes();
    for (const auto& [field, value] : figures.items()) {
      made[field] = versions ? value : nlohmann::json(nullptr);
    }
    made.update(log_figures(elapsed));
    return made;
  }

  /// Of the log and of the checkpoint; nulls where there was none.
  [[nodiscard]] nlohmann::json log_figures(double elapsed) const {
    nlohmann::json made = {{"log_bytes", nullptr},
                           {"log_flushes", nullptr},
                           {"longest_flush_ns", nullptr},
                           {"checkpoint_s", nullptr},
                           {"checkpoint_throughput", nullptr},
                           {"checkpoint_bytes", nullptr}};
    if (const auto log = engine_->log()) {
      made["log_bytes"] = log->bytes;
      made["log_flushes"] = log->flushes;
      made["longest_flush_ns"] = log->longest_flush.count();
    }
    if (checkpoint_) {
      made["checkpoint_s"] = std::chrono::duration<double>(checkpoint_->took).count();
      made["checkpoint_bytes"] = checkpoint_->bytes;
      // Of that of the rest of the trial, if it was over before that was.
      const double rest = static_cast<double>(done() - inside_) / (elapsed - inside_s_);
      if (whole_) made["checkpoint_throughput"] = static_cast<double>(inside_) / inside_s_ / rest;
    }
    return made;
  }

  /// Null: the engine, the storage or the workload has no such thing.
  [[nodiscard]] nlohmann::json configuration() const {
    const auto told = [](bool there, const auto& value) {
      return there ? nlohmann::json(value) : nlohmann::json(nullptr);
    };
    const bool ours = !shape_.versions.empty();
    const bool one_shot = ours && any_one_shot({shape_.versions});
    return {{"engine", name_},
            {"versions", told(ours, shape_.versions)},
            {"index", told(ours && !shape_.ordered, shape_.index)},
            {"durability", shape_.durability},
            {"directory",
             told(shape_.durability != "memory", scratch_folder::place(o_.directory).string())},
            {"checkpoint", o_.checkpoint},
            {"workload", o_.workload},
            {"writes", plan_.of.update},
            {"theta", plan_.theta},
            {"columns", shape_.columns},
            {"width", shape_.width},
            {"touch", shape_.touched()},
            {"changes_only", shape_.changes && ours && keeps_changes(shape_.versions)},
            {"operations", plan_.operations},
            {"records", plan_.records},
            {"shared", plan_.shared},
            {"hold", o_.hold},
            {"scan", told(!o_.scan.empty(), o_.scan)},
            {"scan_threads", told(o_.scan == "query", o_.scan_threads)},
            {"partition", told(one_shot, o_.partition)},
            {"partition_cache", told(one_shot, o_.partition_cache)},
            {"transactions_asked", told(o_.transactions != 0, o_.transactions)},
            {"paper_size", o_.paper_size},
            {"seed", o_.seed},
            {"trials", o_.trials}};
  }

  const plan& plan_;
  const ycsb_options& o_;
  const std::string name_;
  const std::uint32_t number_;
  ycsb_shape shape_;
  const zipf ranks_;
  std::vector<key_range> ranges_;
  std::unique_ptr<ycsb_engine> engine_;
  std::vector<std::unique_ptr<worker>> workers_;  // before the engine goes
  double fill_s_ = 0;
  std::optional<spolia::db::checkpoint_report> checkpoint_;
  double inside_s_ = 0;       // while it was taken
  std::uint64_t inside_ = 0;  // transactions then
  bool whole_ = false;
  history over_time_;
  spolia::db::delta_stats before_;  // when the measured time began
  spolia::tally scans_;
  spolia::tally scanned_;  // rows
};

const ycsb_choice& engine_of(const std::string& name) {
  for (const ycsb_choice& c : ycsb_engines()) {
    if (c.name == name) return c;
  }
  for (const auto& [rival, package] : rivals) {
    if (rival == name) {
      throw usage_error(fmt::format("--engine {}: built without it; install {}", name, package));
    }
  }
  throw usage_error(
      fmt::format("--engine has {}; there are {}", name, fmt::join(ycsb_engine_names(), ", ")));
}

/// What nothing of what was chosen could honour.
void check_words(const ycsb_options& o) {
  const std::string engines = fmt::format("--engine {}", fmt::join(o.engines, ","));
  if (std::ranges::find(o.engines, "spolia") == o.engines.end()) {
    refuse(o.given, {"--versions", "--index", "--changes", "--partition", "--partition-cache"},
           engines, "--engine spolia");
  }
  if (!any_one_shot(o.versions)) {
    refuse(o.given, {"--partition", "--partition-cache"},
           fmt::format("--versions {}", fmt::join(o.versions, ",")), "the one-shot storages");
  }
  if (std::ranges::all_of(o.durability, [](const auto& d) { return d == "memory"; })) {
    refuse(o.given, {"--directory", "--checkpoint"}, "--durability memory",
           "--durability none, async and sync");
  }
  if (o.scan != "query") {
    refuse(o.given, {"--scan-threads"}, o.scan.empty() ? "no --scan" : "--scan " + o.scan,
           "--scan query");
  }
  if (o.transactions != 0) {
    refuse(o.given, {"--seconds"}, "--transactions", "trials that end by time");
  }
  if (o.workload != "paper") {
    refuse(o.given, {"--paper-size"}, "--workload " + o.workload, "--workload paper");
  }
}

void check_scan(const ycsb_options& o) {
  if (o.scan.empty()) return;
  if (std::find(ycsb_scans.begin(), ycsb_scans.end(), o.scan) == ycsb_scans.end()) {
    throw usage_error(
        fmt::format("--scan has {}; there are {}", o.scan, fmt::join(ycsb_scans, ", ")));
  }
  if (o.transactions != 0) throw usage_error("--scan goes on for --seconds, not --transactions");
  for (const std::string& e : o.engines) {
    if (e != "spolia") refuse(o.given, {"--scan"}, "--engine " + e, "--engine spolia");
  }
  within<std::uint32_t>("scan-threads", o.scan_threads, 1, 1024);
}

}  // namespace

std::vector<std::string> ycsb_engine_names() {
  std::vector<std::string> names;
  for (const ycsb_choice& c : ycsb_engines()) names.push_back(c.name);
  return names;
}

void settle(ycsb_options& o) {
  // SIGMOD 2023, section 7.1; its rows, columns and operations are the workload's own.
  if (o.paper_size && !o.given.contains("--threads")) o.threads = 28;
  o.warm_up = warm_up_of(o.warm_up, o.transactions == 0, "--transactions");
  check_versions(o.versions, o.hold != 0 || !o.scan.empty());
  for (const std::string& i : o.indexes) hash_kind_of(i);
  for (const std::string& d : o.durability) {
    if (d != "memory") durability_of(d);
  }
  for (const std::string& e : o.engines) engine_of(e);
  const bool known = std::any_of(workloads.begin(), workloads.end(),
                                 [&](const workload& w) { return w.name == o.workload; });
  if (!known)
    throw usage_error(fmt::format("--workload is {}, but must be paper, or a to f", o.workload));
  if (o.writes && (o.workload == "d" || o.workload == "e" || o.workload == "f")) {
    throw usage_error("--writes is for the workloads paper, a, b and c");
  }
  const bool lasting = std::any_of(o.durability.begin(), o.durability.end(),
                                   [](const std::string& d) { return d != "memory"; });
  for (const std::string& e : o.engines) {
    if (lasting && (e == "lmdb" || e == "sqlite")) {
      throw usage_error(fmt::format("--engine {} has no --durability here: only memory", e));
    }
  }
  for (const std::string& e : o.engines) {
    if ((lasting || o.workload == "d" || o.workload == "e") && !engine_of(e).grows) {
      throw usage_error(fmt::format(
          "--engine {} has a fixed set of rows in memory: not for --durability, workloads d and e",
          e));
    }
  }
  if (o.shared && o.own) throw usage_error("--shared and --own exclude each other");
  check_words(o);
  check_scan(o);
  const plan p(o);
  within<std::uint32_t>("threads", o.threads, o.scan.empty() ? 1 : 0, 1024);
  within<std::uint32_t>("writes", p.of.update, 0, 100);
  within("theta", p.theta, 0.0, 0.999);
  within<std::uint32_t>("columns", p.shape.columns, 1, 61);
  within<std::uint32_t>("width", p.shape.width, 8, 1000);
  within<std::uint32_t>("touch", p.shape.touched(), 1, p.shape.columns);
  within<std::uint32_t>("operations", p.operations, 1, 1000);
  within<std::uint64_t>("records", p.records, p.operations, 100000000);
  within<std::uint32_t>("hold", o.hold, 0, 1000);
  within<std::uint32_t>("partition", o.partition, 1, 1U << 30U);
  within("seconds", o.seconds, 0.01, 86400.0);
  within<std::uint32_t>("trials", o.trials, 1, 10000);
}

void run_ycsb(const ycsb_options& o, const std::function<void(const nlohmann::json&)>& take) {
  const plan p(o);
  const auto storages = in_order(versions_or_all(o.versions), o.order);
  const auto engines = in_order(o.engines, o.order);
  const auto indexes = in_order(o.indexes, o.order);
  const auto levels = in_order(o.durability, o.order);
  for (std::uint32_t n = 0; n < o.trials; ++n) {
    for (const std::string& name : engines) {
      const ycsb_choice& engine = engine_of(name);
      for (const std::string& d : levels) {
        if (name != "spolia") {
          take(trial(p, engine, "", "", d, n).run());
          continue;
        }
        for (const std::string& v : storages) {
          for (const std::string& i : indexes) take(trial(p, engine, v, i, d, n).run());
        }
      }
    }
  }
}

}  // namespace bench
