// SPDX-License-Identifier: Apache-2.0
#include "snapshots.hpp"

#include <spolia/map/changes.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/snapshot.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>

#include "options.hpp"
#include "record.hpp"
#include "snapshots_trial.hpp"

namespace bench {
namespace {

/// One of ours.
template <class Map>
class our_map {
 public:
  using instant = spolia::snapshot;

  explicit our_map(std::uint64_t)
      : nodes_({.memory = &weight_}), map_(nodes_, time_), other_(nodes_, time_) {}

  bool insert(std::uint64_t key) { return map_.insert(key, key); }
  bool erase(std::uint64_t key) { return map_.erase(key); }
  bool contains(std::uint64_t key) const { return map_.contains(key); }
  template <class Keys>
  void change_together(std::uint32_t n, Keys&& keys) {
    spolia::changes all;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint64_t key = keys();
      Map& map = i % 2 == 0 ? map_ : other_;
      if (keys() % 2 == 0) {
        all.insert_or_assign(map, key, key);
      } else {
        all.erase(map, key);
      }
    }
    all.commit();
  }
  instant snapshot(const char* label) { return instant(time_, label); }
  bool at(const instant& then, std::uint64_t key) const { return map_.find(then, key) != nullptr; }

  spolia::collector_stats stats() const {
    spolia::collector_stats both = map_.stats();
    const auto its = other_.stats();
    both.ended += its.ended;
    both.retired += its.retired;
    both.cuts += its.cuts;
    both.passed += its.passed;
    return both;
  }
  std::uint64_t bytes() const { return weight_.bytes(); }
  void look(snapshot_result& r) {
    const auto all = map_.account();
    const auto its = other_.account();
    ++r.stills;
    r.versions_needed_peak =
        std::max(r.versions_needed_peak, all.current + all.needed + its.current + its.needed);
    r.versions_excess_peak = std::max(r.versions_excess_peak, all.obsolete + its.obsolete);
  }
  void finish(snapshot_result& r) {
    r.bytes_waiting = nodes_.stats().garbage_bytes();
    for (Map* const map : {&map_, &other_}) {
      const auto all = map->account();
      r.versions_current += all.current;
      r.versions_needed += all.current + all.needed;
      r.bytes_needed += all.current_bytes + all.needed_bytes;
    }
  }

 private:
  weighing_resource weight_;
  typename Map::domain_type nodes_;
  typename Map::timeline_type time_;
  Map map_;
  Map other_;  // with batches only; empty otherwise
};

/// What one does without a library: a map under a lock, whose snapshots are copies, made by the
/// first update after one was taken.
class copied_map {
  using map = std::pmr::map<std::uint64_t, std::uint64_t>;

 public:
  using instant = std::shared_ptr<const map>;

  explicit copied_map(std::uint64_t) : map_(fresh()) {}

  bool insert(std::uint64_t key) {
    const std::scoped_lock here(lock_);
    return !map_->contains(key) && own().emplace(key, key).second;
  }
  bool erase(std::uint64_t key) {
    const std::scoped_lock here(lock_);
    return map_->contains(key) && own().erase(key) != 0;
  }
  bool contains(std::uint64_t key) const {
    const std::scoped_lock here(lock_);
    return map_->contains(key);
  }
  instant snapshot(const char*) {
    const std::scoped_lock here(lock_);
    return map_;
  }
  static bool at(const instant& then, std::uint64_t key) { return then->contains(key); }

  static spolia::collector_stats stats() { return {}; }
  std::uint64_t bytes() const { return weight_.bytes(); }
  static void finish(snapshot_result&) {}

 private:
  std::shared_ptr<map> fresh() { return std::make_shared<map>(&weight_); }
  map& own() {
    if (map_.use_count() != 1) {
      auto mine = fresh();
      *mine = *map_;
      map_ = std::move(mine);
    }
    return *map_;
  }

  weighing_resource weight_;
  mutable std::mutex lock_;
  std::shared_ptr<map> map_;
};

template <class Collector>
using hash = our_map<spolia::snapshot_hash<std::uint64_t, std::uint64_t, Collector>>;

template <class Collector>
using tree = our_map<spolia::snapshot_tree<std::uint64_t, std::uint64_t, Collector>>;

template <class... Collectors>
struct each_of {
  static std::vector<std::string> names() { return {std::string(Collectors::info.name)...}; }

  template <template <class> class Structure>
  static void add(std::vector<snapshot_contender>& to, const char* structure) {
    (to.push_back({structure, Collectors::info.name.data(),
                   run_snapshot_trial<Structure<Collectors>>, true}),
     ...);
  }
};
using collectors = spolia::every_collector<each_of>;

std::vector<snapshot_contender>& contenders() {
  static std::vector<snapshot_contender> all = [] {
    std::vector<snapshot_contender> made;
    collectors::add<hash>(made, "hash");
    collectors::add<tree>(made, "tree");
    made.push_back({"std_map", "copies", run_snapshot_trial<copied_map>});
    return made;
  }();
  return all;
}

/// Those that were asked for; rivals have one way only.
std::vector<snapshot_contender> chosen(const snapshot_options& o) {
  std::vector<snapshot_contender> some;
  for (const snapshot_contender& c : contenders()) {
    const auto named = [](const std::vector<std::string>& names, const char* name) {
      return std::ranges::find(names, name) != names.end();
    };
    if (named(o.structures, c.structure) && (!c.has_versions || named(o.collectors, c.collector))) {
      some.push_back(c);
    }
  }
  return some;
}

nlohmann::json options_in_force(const snapshot_options& o, const snapshot_contender& c) {
  return {{"structure", c.structure},
          {"collector", c.collector},
          {"keys", o.keys},
          {"update", o.update},
          {"rtx", o.rtx},
          {"rtx_most", o.rtx_most == 0 ? o.rtx : o.rtx_most},
          {"rtx_share", o.rtx_share},
          {"batch", o.batch},
          {"readers", o.readers},
          {"small_readers", o.small_readers},
          {"theta", o.theta},
          {"hold", o.hold},
          {"still_every", o.still_every},
          {"updates_asked", o.updates == 0 ? nlohmann::json(nullptr) : nlohmann::json(o.updates)},
          {"paper_size", o.paper_size},
          {"trials", o.trials},
          {"seed", o.seed}};
}

nlohmann::json record_of(const snapshot_options& o, const snapshot_contender& c,
                         std::uint32_t trial, const snapshot_result& r) {
  const auto told = [&](std::uint64_t n) {
    return c.has_versions ? nlohmann::json(n) : nlohmann::json(nullptr);
  };
  const auto seen_in_stills = [&](std::uint64_t n) {
    return r.stills != 0 ? nlohmann::json(n) : nlohmann::json(nullptr);
  };
  nlohmann::json over_time = nlohmann::json::array();
  const std::size_t every = r.bytes_over_time.size() / 400 + 1;
  for (std::size_t i = 0; i < r.bytes_over_time.size(); i += every) {
    over_time.push_back({r.bytes_over_time[i].first, r.bytes_over_time[i].second});
  }
  const nlohmann::json results = {
      {"elapsed_s", r.elapsed_s},
      {"operations", r.operations},
      {"ops_per_s", static_cast<double>(r.operations) / r.elapsed_s},
      {"updates", r.updates},
      {"updates_per_s", static_cast<double>(r.updates) / r.elapsed_s},
      {"lookups", r.lookups},
      {"rtxs", r.rtxs},
      {"rtx_keys_per_s", static_cast<double>(r.rtx_keys) / r.elapsed_s},
      {"small_rtx_keys_per_s", static_cast<double>(r.small_rtx_keys) / r.elapsed_s},
      {"size_end", o.batch == 0 ? nlohmann::json(r.size_end) : nlohmann::json(nullptr)},
      {"versions_current", told(r.versions_current)},
      {"versions_live", told(r.versions_live)},
      {"versions_needed", told(r.versions_needed)},
      {"versions_peak", told(r.versions_peak)},
      {"stills", r.stills},
      {"versions_needed_peak", seen_in_stills(r.versions_needed_peak)},
      {"versions_excess_peak", seen_in_stills(r.versions_excess_peak)},
      {"cuts", told(r.cuts)},
      {"passed_per_cut",
       c.has_versions && r.cuts != 0
           ? nlohmann::json(static_cast<double>(r.passed) / static_cast<double>(r.cuts))
           : nlohmann::json(nullptr)},
      {"bytes", r.bytes},
      {"bytes_peak", r.bytes_peak},
      {"bytes_needed", told(r.bytes_needed)},
      {"bytes_waiting", told(r.bytes_waiting)},
      {"peak_rss_bytes", r.peak_rss_bytes},
      {"bytes_over_time", std::move(over_time)}};
  const nlohmann::json seconds =
      o.updates == 0 ? nlohmann::json(o.seconds) : nlohmann::json(nullptr);
  return make_record("snapshots", trial,
                     {.threads = o.threads, .seconds = seconds, .warm_up_s = *o.warm_up},
                     options_in_force(o, c), results);
}

/// What was chosen is measured in turn; an option is refused where none of it could honour it.
void check_words(const snapshot_options& o) {
  const auto some = chosen(o);
  const std::string structures = fmt::format("--structure {}", fmt::join(o.structures, ","));
  if (std::ranges::none_of(some, &snapshot_contender::has_versions)) {
    refuse(o.given, {"--collector", "--still-every"}, structures, "--structure hash and tree");
  }
  if (o.batch != 0 && !std::ranges::all_of(some, &snapshot_contender::has_versions)) {
    throw usage_error(fmt::format("--batch with {}: --batch is for hash and tree", structures));
  }
  if (o.updates != 0) refuse(o.given, {"--seconds"}, "--updates", "trials that end by time");
}

/// As large as in the paper: 40 threads that update, beside 40 and 40 that read, or as many that do
/// all. (Wei et al., PPoPP 2023, section 6)
void enlarge(snapshot_options& o) {
  const auto unless_given = [&](const char* option, auto& field, auto value) {
    if (!o.given.contains(option)) field = value;
  };
  const bool apart = o.readers != 0 || o.small_readers != 0;
  unless_given("--keys", o.keys, 200000U);  // half of them are there
  unless_given("--threads", o.threads, apart ? 40U : 120U);
  if (!apart) return;
  unless_given("--readers", o.readers, 40U);
  unless_given("--small-readers", o.small_readers, 40U);
}

}  // namespace

std::vector<std::string> collector_names() { return collectors::names(); }

void settle(snapshot_options& o) {
  if (o.paper_size) enlarge(o);
  o.warm_up = warm_up_of(o.warm_up, o.updates == 0, "--updates");
  const auto wrong = [](const std::string& why) { throw usage_error(why); };
  const auto known = [&](const char* what, const std::vector<std::string>& names,
                         const char* snapshot_contender::* field) {
    for (const std::string& name : names) {
      const bool there = std::ranges::any_of(
          contenders(), [&](const snapshot_contender& c) { return name == c.*field; });
      if (there) continue;
      std::vector<std::string> all;
      for (const snapshot_contender& c : contenders()) {
        if (std::ranges::find(all, c.*field) == all.end()) all.emplace_back(c.*field);
      }
      wrong(fmt::format("--{} {} is unknown; there are {}", what, name, fmt::join(all, ", ")));
    }
  };
  known("structure", o.structures, &snapshot_contender::structure);
  known("collector", o.collectors, &snapshot_contender::collector);
  if (chosen(o).empty()) wrong("none of these structures has such a collector");
  if (o.batch > 65536) wrong("--batch must be at most 65536");
  check_words(o);
  if (o.threads < 1 || o.threads > 4096) wrong("--threads must be from 1 to 4096");
  if (o.keys < 2 || o.keys > 4294967296) wrong("--keys must be from 2 to 2^32");
  if (o.update < 0 || o.rtx_share < 0 || !(o.update + o.rtx_share <= 100)) {
    wrong("--update and --rtx-share are per cent, and at most 100 together");
  }
  if (o.readers > 4096 || o.small_readers > 4096)
    wrong("--readers and --small-readers must be at most 4096");
  if (o.theta < 0 || !(o.theta < 1)) wrong("--theta must be from 0 to below 1");
  if (o.rtx < 1) wrong("--rtx must be at least 1");
  if (o.rtx_most != 0 && o.rtx_most < o.rtx) wrong("--rtx-most must not be below --rtx");
  if (o.updates != 0 && o.update <= 0) wrong("--updates without --update would never end");
  if (!(o.seconds > 0) || o.seconds > 86400) wrong("--seconds must be above 0 and at most 86400");
  if (o.trials < 1) wrong("--trials must be at least 1");
}

bool add_snapshot_rival(const snapshot_contender& c) {
  contenders().push_back(c);
  return true;
}

void measure_snapshots(const snapshot_options& o,
                       const std::function<void(const nlohmann::json&)>& write) {
  for (std::uint32_t trial = 0; trial < o.trials; ++trial) {
    for (const snapshot_contender& c : in_order(chosen(o), o.order)) {
      write(record_of(o, c, trial, c.run(o, trial)));
    }
  }
}

}  // namespace bench
