// SPDX-License-Identifier: Apache-2.0
#include "store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spolia/base/ticks.hpp>

#include <algorithm>
#include <cmath>

#include "floor_storage.hpp"
#include "options.hpp"

namespace bench {

namespace db = spolia::db;
using steady = std::chrono::steady_clock;

std::vector<std::pair<std::string, db::version_storage>> version_storages() {
  std::vector<std::pair<std::string, db::version_storage>> all;
  for (const auto& info : db::version_storages()) {
    std::string name(info.name);
    std::ranges::replace(name, '_', '-');
    all.emplace_back(std::move(name), info.storage);
  }
  return all;
}

std::vector<std::string> version_storage_names() {
  std::vector<std::string> names;
  for (auto& [name, storage] : version_storages()) names.push_back(std::move(name));
  return names;
}

void choose_versions(db::options& o, const std::string& name, bool changes) {
  if (name == floor_name) {
    o.own_versions = [](db::commit_board&) { return std::make_unique<floor_storage>(); };
    o.changes_only = changes;
    return;
  }
  for (const auto& [known, storage] : version_storages()) {
    if (known != name) continue;
    o.versions = storage;
    o.changes_only = changes && !db::keeps_whole_rows(storage);
    return;
  }
  throw usage_error(fmt::format("--versions has {}; there are {}, {}", name,
                                fmt::join(version_storage_names(), ", "), floor_name));
}

void check_versions(const std::vector<std::string>& names, bool old_are_read) {
  for (const std::string& name : names) {
    db::options o;
    choose_versions(o, name, false);
    if (name == floor_name && old_are_read) {
      throw usage_error(
          "--versions floor keeps no versions: not for --hold, scans, the full mix and held");
    }
  }
}

bool keeps_changes(const std::string& name) {
  db::options o;
  choose_versions(o, name, true);
  return o.changes_only;
}

std::vector<std::string> versions_or_all(const std::vector<std::string>& names) {
  return names.empty() ? version_storage_names() : names;
}

bool any_one_shot(const std::vector<std::string>& names) {
  const auto all = versions_or_all(names);
  return std::ranges::any_of(all, [](const auto& name) { return name.starts_with("one-shot"); });
}

db::hash_kind hash_kind_of(const std::string& name) {
  if (name == "probing") return db::hash_kind::probing;
  if (name == "cuckoo") return db::hash_kind::cuckoo;
  throw usage_error(fmt::format("--index has {}; there are probing, cuckoo", name));
}

db::durability_level durability_of(const std::string& name) {
  if (name == "none") return db::durability_level::none;
  if (name == "async") return db::durability_level::async;
  if (name == "sync") return db::durability_level::sync;
  throw usage_error(fmt::format("--durability has {}; there are memory, none, async, sync", name));
}

void worker_pool::add(std::function<void()> work) {
  working_.fetch_add_relaxed(1);
  threads_.emplace_back([this, does = std::move(work)] {
    // acquire ← the release in begin(): what was loaded.
    while (!go_.load_acquire()) std::this_thread::yield();
    try {
      does();
    } catch (...) {
      // The first one's is kept; end() reads it when all have ended.
      if (!failing_.exchange_relaxed(true)) failed_ = std::current_exception();
      stop_.store_relaxed(true);
    }
    working_.fetch_sub_relaxed(1);
  });
}

void worker_pool::begin(double warm_up, const std::function<void()>& measured) {
  const auto count_from_now = [&] {
    if (measured) measured();
    start_ = steady::now();
    warm_.store_relaxed(true);
  };
  if (warm_up <= 0) count_from_now();  // so the first thing that a thread does counts, too
  const auto until = steady::now() + std::chrono::duration<double>(warm_up);
  go_.store_release(true);  // → the acquire in add()
  if (warm_up <= 0) return;
  while (!stopped() && steady::now() < until) {
    std::this_thread::sleep_for(std::min(std::chrono::duration<double>(until - steady::now()),
                                         std::chrono::duration<double>(0.01)));
  }
  count_from_now();
}

void worker_pool::end() noexcept {
  stop_.store_relaxed(true);
  go_.store_release(true);  // → the acquire in add()
  for (std::thread& t : threads_) {
    if (t.joinable()) t.join();
  }
}

void worker_pool::stop() {
  end();
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
}

void worker_pool::wait() {
  for (std::thread& t : threads_) t.join();
  stop();
}

double worker_pool::seconds() const noexcept {
  return std::chrono::duration<double>(steady::now() - start_).count();
}

void history::watch(const worker_pool& working, double seconds, std::uint32_t looks,
                    const std::function<std::uint64_t()>& transactions,
                    const std::function<std::optional<db::delta_stats>()>& versions) {
  const double pause = seconds > 0 ? seconds / looks : 0.01;
  double before = 0;
  std::uint64_t done = 0;
  while (!working.stopped() && working.working() != 0 &&
         (seconds == 0 || working.seconds() < seconds)) {
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    const double now = working.seconds();
    const std::uint64_t all = transactions();
    const double at = std::round(now * 10000) / 10;
    nlohmann::json point = {at, std::round(static_cast<double>(all - done) / (now - before)),
                            nullptr, nullptr, nullptr};
    if (const auto v = versions()) {
      most_bytes_ = std::max(most_bytes_, v->bytes);
      bytes_.push_back({at, v->bytes});
      point[2] = v->bytes;
      point[3] = v->versions_made - std::min(v->versions_made, v->versions_dropped);
      point[4] = v->partitions_used;
    }
    points_.push_back(std::move(point));
    before = now;
    done = all;
  }
}

nlohmann::json latencies(const spolia::histogram_snapshot& ticks) {
  const auto ns = [](std::uint64_t t) {
    return std::round(static_cast<double>(t) * spolia::core::ns_per_tick());
  };
  nlohmann::json curve = nlohmann::json::array();
  for (const double share : {0.01, 0.05, 0.1,  0.2,  0.3,   0.4,   0.5,    0.6,    0.7,     0.8,
                             0.9,  0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 1.0}) {
    curve.push_back({share, ns(ticks.quantile(share))});
  }
  return {{"p50", ns(ticks.quantile(0.5))},
          {"p99", ns(ticks.quantile(0.99))},
          {"p999", ns(ticks.quantile(0.999))},
          {"max", ns(ticks.max())},
          {"distribution", curve}};
}

nlohmann::json version_figures(const db::delta_stats& now, const db::delta_stats& before) {
  std::uint64_t reads = 0;
  nlohmann::json lengths = nlohmann::json::array();
  for (std::size_t i = 0; i < now.reads.size(); ++i) {
    const std::uint64_t some = now.reads[i] - before.reads[i];
    reads += some;
    if (some != 0) lengths.push_back({std::uint64_t{1} << i, some});
  }
  const auto looked_at = static_cast<double>(now.versions_looked_at - before.versions_looked_at);
  return {{"versions_made", now.versions_made - before.versions_made},
          {"versions_dropped", now.versions_dropped - before.versions_dropped},
          {"versions_dropped_between", now.dropped_between - before.dropped_between},
          {"version_reads", reads},
          {"chain_length_mean", reads == 0 ? 0.0 : looked_at / static_cast<double>(reads)},
          {"chain_lengths", lengths},
          {"versions_alive", now.versions_made - std::min(now.versions_made, now.versions_dropped)},
          {"version_bytes_end", now.bytes},
          {"partitions", now.partitions},
          {"partition_drops", now.drops - before.drops},
          {"census_looks", now.looks - before.looks}};
}

}  // namespace bench
