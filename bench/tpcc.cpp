// SPDX-License-Identifier: Apache-2.0
#include "tpcc.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <spolia/base/ticks.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "machine.hpp"
#include "options.hpp"
#include "record.hpp"
#include "store.hpp"
#include "tpcc_check.hpp"
#include "tpcc_client.hpp"

namespace bench {
namespace {

namespace db = spolia::db;

constexpr std::array<tpcc_kind, 5> every_kind = {tpcc_kind::new_order, tpcc_kind::payment,
                                                 tpcc_kind::order_status, tpcc_kind::delivery,
                                                 tpcc_kind::stock_level};

/// The least shares of clause 5.2.3, the rest NewOrder; or the two that write most, as the one-shot
/// paper has them; or as many of the one as of the other, as DBx1000 has them.
tpcc_kind draw_kind(tpcc_random& from, const std::string& mix) {
  const std::int64_t x = from.uniform(1, 100);
  if (mix == "dbx1000") return x <= 50 ? tpcc_kind::new_order : tpcc_kind::payment;
  if (mix != "full") return x <= 51 ? tpcc_kind::new_order : tpcc_kind::payment;
  if (x <= 45) return tpcc_kind::new_order;
  if (x <= 88) return tpcc_kind::payment;
  if (x <= 92) return tpcc_kind::order_status;
  return x <= 96 ? tpcc_kind::delivery : tpcc_kind::stock_level;
}

/// For people who watch; programs need not read it.
void show_progress(double share) {
  if (::isatty(2) == 0) return;
  fmt::print(stderr, "\rloading: {:3.0f} %{}", share * 100, share < 1 ? "" : "\n");
  std::fflush(stderr);
}

class trial {
 public:
  trial(const tpcc_options& o, const std::string& versions, const std::string& index,
        std::uint32_t number)
      : o_(o),
        versions_(versions),
        index_(index),
        number_(number),
        base_(db::database::open(options_of(o, versions, index))),
        world_(base_, scale_of(o), o.seed, work_of(o)) {
    for (std::uint32_t n = 0; n < o.threads; ++n) {
      const std::uint64_t seed = o.seed + 7919 * number + 104729 * (n + 1);
      clients_.push_back(std::make_unique<tpcc_client>(world_, n, seed));
    }
  }

  nlohmann::json run() {
    load();
    std::vector<std::unique_ptr<db::reader>> held;
    for (std::uint32_t i = 0; i < o_.hold; ++i) {
      held.emplace_back(new db::reader(base_.snapshot("held")));
    }
    worker_pool workers;
    working_ = &workers;
    worker_pool scanners;  // ends first, since its threads ask the workers
    for (std::uint32_t i = 0; i < o_.scanners; ++i) scanners.add([&] { scan(scanners); });
    for (const auto& c : clients_) workers.add([&, mine = c.get()] { work(workers, *mine); });
    scanners.begin();
    workers.begin(*o_.warm_up, [&] {
      reset_peak_rss();
      before_ = base_.stats();
    });
    over_time_.watch(
        workers, o_.transactions == 0 ? o_.seconds : 0, 50, [&] { return committed(); },
        [&] { return base_.stats().versions; });
    if (o_.transactions == 0) {
      workers.stop();
    } else {
      workers.wait();
    }
    const double elapsed = workers.seconds();
    // Before the readers go, and what they held with them.
    const db::statistics end = base_.stats();
    scanners.stop();
    held.clear();
    verify();
    return record(elapsed, end);
  }

 private:
  static db::options options_of(const tpcc_options& o, const std::string& versions,
                                const std::string& index) {
    db::options made{.version_budget = o.budget,
                     .partition_transactions = o.partition,
                     .partition_cache_bytes = o.partition_cache,
                     .most_partitions = o.partitions,
                     .hash_indexes = hash_kind_of(index)};
    choose_versions(made, versions, o.changes);
    return made;
  }
  static tpcc_work work_of(const tpcc_options& o) {
    const auto level = o.serializable ? db::isolation::serializable : db::isolation::snapshot;
    return {.inserts = o.mix != "dbx1000",
            .delivery_hint = o.delivery_hint,
            .begin = {.isolation = level}};
  }
  static tpcc_scale scale_of(const tpcc_options& o) {
    return {.warehouses = o.warehouses == 0 ? o.threads : o.warehouses,
            .items = o.items,
            .customers = o.customers};
  }

  void load() {
    const auto start = std::chrono::steady_clock::now();
    const std::uint32_t threads = std::max(1U, std::thread::hardware_concurrency());
    load_tpcc(base_, world_.tables, world_.scale, o_.seed, threads, show_progress);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    load_s_ = took.count();
  }

  void work(const worker_pool& working, tpcc_client& mine) {
    for (std::uint64_t n = 0; !working.stopped(); ++n) {
      if (o_.transactions != 0 && n == o_.transactions) return;
      if (working.warm()) mine.count();
      mine.run(draw_kind(mine.random(), o_.mix));
    }
  }

  /// The paper's long reader: adds up columns of a whole table at one snapshot, again and again.
  void scan(const worker_pool& scanning) {
    const tpcc_stock& t = world_.tables.stock;
    std::int64_t sum = 0;
    while (!scanning.stopped()) {
      const bool warm = working_->warm();
      const db::reader now = base_.snapshot("scan");
      std::uint64_t rows = 0;
      const auto add = [&](const db::row& r) {
        sum += r.get(t.quantity) + r.get(t.ytd) + r.get(t.orders) + r.get(t.remote);
        ++rows;
        return !scanning.stopped();
      };
      now.for_each(t.rows, add, t.counts);
      if (warm) scanned_.fetch_add_relaxed(rows);
    }
    sum_.fetch_add_relaxed(static_cast<std::uint64_t>(sum));
  }

  [[nodiscard]] std::uint64_t committed() const {
    std::uint64_t sum = 0;
    for (const auto& c : clients_) {
      for (const tpcc_kind k : every_kind) sum += c->of(k).committed.value();
    }
    return sum;
  }

  void verify() {
    if (o_.spoil != 0) spoil_tpcc(base_, world_.tables, o_.spoil);
    std::vector<tpcc_done> done(world_.oldest.size());
    for (const auto& c : clients_) {
      for (std::size_t d = 0; d < done.size(); ++d) done[d] += c->done(d);
    }
    const auto wrong = check_tpcc(base_.snapshot(), world_.tables, world_.scale, done);
    if (wrong.empty()) return;
    std::string told = fmt::format("TPC-C under {}: the tables are not consistent", versions_);
    for (const std::string& w : wrong) told += "\n  " + w;
    throw std::runtime_error(told);
  }

  [[nodiscard]] nlohmann::json kinds() const {
    nlohmann::json made;
    for (const tpcc_kind k : every_kind) {
      spolia::histogram_snapshot ticks;
      std::array<std::uint64_t, 5> sums{};
      for (const auto& c : clients_) {
        const tpcc_tally& t = c->of(k);
        ticks.merge(t.ticks);
        std::size_t i = 0;
        for (const auto* const of :
             {&t.committed, &t.rolled_back, &t.conflicts, &t.given_up, &t.limits}) {
          sums[i++] += of->value();
        }
      }
      made[tpcc_kinds[static_cast<std::size_t>(k)]] = {
          {"committed", sums[0]}, {"rolled_back", sums[1]}, {"conflicts", sums[2]},
          {"given_up", sums[3]},  {"limits", sums[4]},      {"latency_ns", latencies(ticks)}};
    }
    return made;
  }

  [[nodiscard]] nlohmann::json configuration() const {
    const auto told = [](bool there, const auto& value) {
      return there ? nlohmann::json(value) : nlohmann::json(nullptr);
    };
    const bool one_shot = any_one_shot({versions_});
    return {{"versions", versions_},
            {"index", index_},
            {"warehouses", world_.scale.warehouses},
            {"items", o_.items},
            {"customers", o_.customers},
            {"mix", o_.mix},
            {"serializable", o_.serializable},
            {"delivery_hint", o_.delivery_hint},
            {"hold", o_.hold},
            {"scanners", o_.scanners},
            {"partition", told(one_shot, o_.partition)},
            {"partition_cache", told(one_shot, o_.partition_cache)},
            {"partitions_most", told(one_shot, o_.partitions)},
            {"changes_only", o_.changes && keeps_changes(versions_)},
            {"budget", o_.budget},
            {"transactions_asked", told(o_.transactions != 0, o_.transactions)},
            {"paper_size", o_.paper_size},
            {"seed", o_.seed},
            {"trials", o_.trials}};
  }

  nlohmann::json record(double elapsed, const db::statistics& end) {
    const std::uint64_t all = committed();
    nlohmann::json results = {
        {"elapsed_s", elapsed},
        {"load_s", load_s_},
        {"transactions", all},
        {"tx_per_s", static_cast<double>(all) / elapsed},
        {"by_kind", kinds()},
        {"conflicts", end.conflicts - before_.conflicts},
        {"limits", end.limits - before_.limits},
        {"rows_scanned_per_s", std::round(static_cast<double>(scanned_.load_relaxed()) / elapsed)},
        {"version_bytes_peak", over_time_.most_bytes()},
        {"over_time", over_time_.points()},
        {"table_bytes", end.table_bytes},
        {"peak_rss_bytes", peak_rss_bytes()},
        {"conditions_held", tpcc_conditions - (world_.work.inserts ? 0 : 1)}};
    results.update(version_figures(end.versions, before_.versions));
    const bool by_time = o_.transactions == 0;
    return make_record("tpcc", number_,
                       {.threads = o_.threads,
                        .seconds = by_time ? nlohmann::json(o_.seconds) : nlohmann::json(nullptr),
                        .warm_up_s = *o_.warm_up},
                       configuration(), results);
  }

  const tpcc_options& o_;
  const std::string versions_;
  const std::string index_;
  const std::uint32_t number_;
  db::database base_;
  tpcc_world world_;
  std::vector<std::unique_ptr<tpcc_client>> clients_;
  const worker_pool* working_ = nullptr;  // while run() lasts
  db::statistics before_;                 // when the measured time began
  double load_s_ = 0;
  history over_time_;
  spolia::atomic<std::uint64_t> scanned_{0};
  spolia::atomic<std::uint64_t> sum_{0};  // so that scans are not left out
};

}  // namespace

void settle(tpcc_options& o) {
  if (o.paper_size) {
    // SIGMOD 2023, section 7.1: the specification's sizes, and a warehouse for each thread.
    const auto unless_given = [&](const char* option, std::uint32_t& field, std::uint32_t value) {
      if (!o.given.contains(option)) field = value;
    };
    unless_given("--items", o.items, 100000);
    unless_given("--customers", o.customers, 3000);
    unless_given("--threads", o.threads, 28);
    unless_given("--warehouses", o.warehouses, 0);
  }
  o.warm_up = warm_up_of(o.warm_up, o.transactions == 0, "--transactions");
  check_versions(o.versions, o.hold != 0 || o.scanners != 0 || o.mix == "full");
  for (const std::string& i : o.indexes) hash_kind_of(i);
  within<std::uint64_t>("threads", o.threads, 1, 1024);
  within<std::uint64_t>("warehouses", o.warehouses, 0, 10000);
  within<std::uint64_t>("items", o.items, 100, 100000);
  within<std::uint64_t>("customers", o.customers, 10, 3000);
  within<std::uint64_t>("hold", o.hold, 0, 1000);
  within<std::uint64_t>("scanners", o.scanners, 0, 1000);
  within<std::uint64_t>("partition", o.partition, 1, 1U << 30U);
  within<std::uint64_t>("partitions", o.partitions, 2, 256);
  within("seconds", o.seconds, 0.01, 86400.0);
  within<std::uint64_t>("trials", o.trials, 1, 10000);
  within<std::uint64_t>("spoil", o.spoil, 0, tpcc_conditions);
  if (o.mix != "full" && o.mix != "neworder-payment" && o.mix != "dbx1000") {
    throw usage_error(
        fmt::format("--mix is {}, but must be full, neworder-payment or dbx1000", o.mix));
  }
  if (o.mix != "full") refuse(o.given, {"--delivery-hint"}, "--mix " + o.mix, "--mix full");
  if (!any_one_shot(o.versions)) {
    refuse(o.given, {"--partition", "--partition-cache", "--partitions"},
           fmt::format("--versions {}", fmt::join(o.versions, ",")), "the one-shot storages");
  }
  if (o.transactions != 0) {
    refuse(o.given, {"--seconds"}, "--transactions", "trials that end by time");
  }
}

void run_tpcc(const tpcc_options& o, const std::function<void(const nlohmann::json&)>& take) {
  const auto storages = in_order(versions_or_all(o.versions), o.order);
  const auto indexes = in_order(o.indexes, o.order);
  for (std::uint32_t n = 0; n < o.trials; ++n) {
    for (const std::string& v : storages) {
      for (const std::string& i : indexes) take(trial(o, v, i, n).run());
    }
  }
}

}  // namespace bench
