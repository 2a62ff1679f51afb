// SPDX-License-Identifier: Apache-2.0
#include "rlu.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spolia/map/external_bst.hpp>
#include <spolia/map/list.hpp>
#include <spolia/map/michael_hash.hpp>
#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>
#include <spolia/map/split_ordered_hash.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/rlu/detector.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "citrus.hpp"
#include "numbered_cache.hpp"
#include "plain_sets.hpp"
#include "plain_subject.hpp"
#include "record.hpp"
#include "rlu_single.hpp"
#include "trial.hpp"

namespace bench {
namespace {

using key = std::uint64_t;

/// What all subjects here have in common.
template <class Set>
struct subject_base {
  struct worker {
    explicit worker(subject_base& s) : set(*s.set) {}
    bool insert(key k) { return set.insert(k, k); }
    bool erase(key k) { return set.erase(k); }
    bool contains(key k) { return set.contains(k); }
    Set& set;
  };
  std::unique_ptr<Set> set;
};

template <class Domain>
inline constexpr bool has_options = std::is_constructible_v<Domain, spolia::rlu::options>;
struct no_detector {};
constexpr const char* deferred = "rlu-deferred";

// What subject::look gives, after the milliseconds. The first four are sums.
constexpr std::array single_looks = {"ms", "written_back", "passes", "commits", "conflicts"};
constexpr std::array many_looks = {"ms",         "written_back", "passes",  "commits",
                                   "conflicts",  "log_bytes",    "waiting", "objects",
                                   "chain_mean", "chain_most"};

/// One of the containers over read-log-update.
template <class Map>
struct rlu_subject : subject_base<Map> {
  using domain = typename Map::domain_type;

  explicit rlu_subject(const set_options& o) {
    if constexpr (std::is_constructible_v<domain, spolia::clock_kind>) {
      home = std::make_unique<domain>(spolia::clock_kind::hardware, ours(o).domain);
    } else if constexpr (has_options<domain>) {
      home = std::make_unique<domain>(ours(o).domain);
    } else {
      home = std::make_unique<domain>(ours(o).sync == deferred ? ours(o).together : 1);
    }
    if constexpr (std::is_constructible_v<Map, domain&, std::size_t>) {
      this->set = std::make_unique<Map>(*home, static_cast<std::size_t>(ours(o).buckets));
    } else {
      this->set = std::make_unique<Map>(*home);
    }
    if constexpr (has_options<domain>) {
      if (ours(o).detector) upkeep.emplace(*home);
    }
  }
  ~rlu_subject() {
    upkeep.reset();
    this->set.reset();
  }

  template <class Park>
  void stall(Park&& park) {
    home->read("stalled", [&](auto&) { park(); });
  }
  sums counted() const {
    const auto s = home->stats();
    return {
        .retired = {}, .freed = {}, .epochs = {}, .commits = s.commits, .conflicts = s.conflicts};
  }
  std::optional<std::uint64_t> garbage() const { return home->stats().log_bytes; }
  std::vector<double> look() {
    const auto s = home->stats();
    const auto all = [](auto... of) { return std::vector{static_cast<double>(of)...}; };
    if constexpr (has_options<domain>) {
      std::size_t objects = 0;
      std::size_t copies = 0;
      std::size_t most = 0;
      home->for_each_chain([&](std::size_t n) {
        ++objects;
        copies += n;
        most = std::max(most, n);
      });
      const double mean = static_cast<double>(copies) / std::max(1.0, static_cast<double>(objects));
      return all(s.written_back, s.passes, s.commits, s.conflicts, s.log_bytes, s.waiting, objects,
                 mean, most);
    } else {
      return all(s.written_back, s.passes, s.commits, s.conflicts);
    }
  }
  void describe(trial_result& r, std::size_t) { r.retired = home->stats().written_back; }

  std::unique_ptr<domain> home;
  std::optional<std::conditional_t<has_options<domain>, spolia::rlu::detector<domain>, no_detector>>
      upkeep;
};

/// One of the library's lock-free containers.
template <class Map>
struct lock_free_subject : subject_base<Map> {
  explicit lock_free_subject(const set_options& o) {
    if constexpr (std::is_constructible_v<Map, std::size_t>) {
      this->set = std::make_unique<Map>(static_cast<std::size_t>(ours(o).buckets));
    } else if constexpr (std::is_constructible_v<Map, spolia::split_ordered_options>) {
      // To begin with: it grows.
      this->set = std::make_unique<Map>(spolia::split_ordered_options{.buckets = ours(o).buckets});
    } else {
      this->set = std::make_unique<Map>();
    }
  }
  template <class Park>
  void stall(Park&& park) {
    auto guard = this->set->domain().enter();
    park();
  }
  sums counted() const { return {}; }
  std::optional<std::uint64_t> garbage() const { return this->set->domain().garbage(); }
  void describe(trial_result&, std::size_t) {}
};

using hardware = spolia::rlu::hardware_domain;
using hazards = spolia::domain<spolia::hazard_pointers, spolia::amortized>;
using epochs = spolia::domain<spolia::debra, spolia::amortized>;

template <class Domain>
using michael = spolia::michael_hash<key, key, Domain>;
template <class Domain>
using split_ordered = spolia::split_ordered_hash<key, key, Domain>;

/// Of the library's own, and of the standard library.
std::vector<rlu_way> own_ways() {
  return {
      {"list", "mvrlu", run_trial<rlu_subject<spolia::rlu_list<key, key>>>},
      {"list", "mvrlu-hardware", run_trial<rlu_subject<spolia::rlu_list<key, key, hardware>>>},
      {"list", "rlu", run_trial<rlu_subject<spolia::rlu_list<key, key, rlu_single>>>},
      {"list", deferred, run_trial<rlu_subject<spolia::rlu_list<key, key, rlu_single>>>},
      {"list", "rcu", run_trial<plain_subject<rcu_chains>>},
      {"list", "rwlock", run_trial<plain_subject<locked_chains>>},
      {"list", "harris-michael-hp", run_trial<lock_free_subject<spolia::list<key, key, hazards>>>},
      {"hash", "mvrlu", run_trial<rlu_subject<spolia::rlu_hash<key, key>>>},
      {"hash", "mvrlu-hardware", run_trial<rlu_subject<spolia::rlu_hash<key, key, hardware>>>},
      {"hash", "rlu", run_trial<rlu_subject<spolia::rlu_hash<key, key, rlu_single>>>},
      {"hash", deferred, run_trial<rlu_subject<spolia::rlu_hash<key, key, rlu_single>>>},
      {"hash", "rcu", run_trial<plain_subject<rcu_chains>>},
      {"hash", "rwlock", run_trial<plain_subject<locked_chains>>},
      {"hash", "michael-hp", run_trial<lock_free_subject<michael<hazards>>>},
      {"hash", "michael", run_trial<lock_free_subject<michael<epochs>>>},
      {"hash", "split-ordered-hp", run_trial<lock_free_subject<split_ordered<hazards>>>},
      {"hash", "split-ordered", run_trial<lock_free_subject<split_ordered<epochs>>>},
      {"tree", "mvrlu", run_trial<rlu_subject<spolia::rlu_bst<key, key>>>},
      {"tree", "mvrlu-hardware", run_trial<rlu_subject<spolia::rlu_bst<key, key, hardware>>>},
      {"tree", "rlu", run_trial<rlu_subject<spolia::rlu_bst<key, key, rlu_single>>>},
      {"tree", deferred, run_trial<rlu_subject<spolia::rlu_bst<key, key, rlu_single>>>},
      {"tree", "lock-free", run_trial<lock_free_subject<spolia::external_bst<key, key, epochs>>>},
      {"tree", "rcu", run_trial<plain_subject<rcu_tree>>},
      {"tree", "citrus", run_trial<plain_subject<citrus_tree>>},
      {"tree", "rwlock", run_trial<plain_subject<locked_tree>>},
      {"cache", "mvrlu", run_trial<rlu_subject<numbered_rlu_cache<>>>},
      {"cache", "rlu", run_trial<rlu_subject<numbered_rlu_cache<rlu_single>>>},
      {"cache", deferred, run_trial<rlu_subject<numbered_rlu_cache<rlu_single>>>},
      {"cache", "rwlock", run_trial<plain_subject<numbered_cache<locked_cache>>>},
  };
}

runner find(const rlu_options& o) {
  for (const rlu_way& w : all_rlu_ways()) {
    if (o.structure == w.structure && o.sync == w.sync) return w.run;
  }
  const auto allowed = rlu_ways(o.structure);
  if (allowed.empty()) {
    throw usage_error(
        fmt::format("--structure {} is none of list, hash, tree and cache", o.structure));
  }
  throw usage_error(fmt::format("--structure {} has no --sync {}; it has {}", o.structure, o.sync,
                                fmt::join(allowed, ", ")));
}

}  // namespace

std::vector<rlu_way>& all_rlu_ways() {
  static std::vector<rlu_way> all = own_ways();
  return all;
}

std::vector<std::string> rlu_ways(const std::string& structure) {
  std::vector<std::string> found;
  for (const rlu_way& w : all_rlu_ways()) {
    if (structure == w.structure) found.emplace_back(w.sync);
  }
  return found;
}

namespace {

/// Where an update waits for a thread that reads: Citrus for its grace period, where a node has two
/// children; libitm before it frees memory.
constexpr std::array<std::string_view, 4> waits_for_readers = {"rwlock", "kyotocabinet", "citrus",
                                                               "stm"};

bool has_versions(const rlu_options& o) { return o.sync.starts_with("mvrlu"); }

void check_words(const rlu_options& o) {
  const std::string sync = "--sync " + o.sync;
  const std::string structure = "--structure " + o.structure;
  if (!has_versions(o)) {
    refuse(o.given,
           {"--segment", "--low", "--high", "--walks", "--turn-us", "--in-place", "--detector"},
           sync, "--sync mvrlu and mvrlu-hardware");
  }
  if (o.sync != deferred) refuse(o.given, {"--together"}, sync, "--sync rlu-deferred");
  if (!has_buckets(o)) {
    refuse(o.given, {"--buckets"}, structure, "--structure hash and cache");
  } else if (o.structure == "cache") {
    refuse(o.given, {"--paper-size"}, structure,
           "--structure list, hash and tree: of the cache the paper names the bytes, not the keys");
  }
  if (o.over_time && !has_versions(o) && !o.sync.starts_with("rlu")) {
    throw usage_error("--over-time with " + sync + ": it is for read-log-update");
  }
  if (o.stall && std::ranges::find(waits_for_readers, o.sync) != waits_for_readers.end()) {
    throw usage_error("--stall with " + sync + ": no thread could go on beside one that reads");
  }
}

nlohmann::json options_in_force(const rlu_options& o) {
  const auto of_logs = [&](const auto& value) {
    return has_versions(o) ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  return {{"structure", o.structure},
          {"sync", o.sync},
          {"keys", o.keys},
          {"buckets", buckets_of(o)},
          {"update", o.update},
          {"theta", o.theta},
          {"together", o.sync == deferred ? o.together : 1},
          {"stall", o.stall},
          {"check", o.check},
          {"over_time_asked", o.over_time},
          {"paper_size", o.paper_size},
          {"detector", o.detector},
          {"low_watermark", of_logs(o.domain.low_watermark)},
          {"high_watermark", of_logs(o.domain.high_watermark)},
          {"walk_watermark", of_logs(o.domain.walk_watermark)},
          {"segment_bytes", of_logs(o.domain.segment_bytes)},
          {"turn_us", of_logs(o.domain.turn_us)},
          {"in_place", of_logs(o.domain.in_place)},
          {"trials", o.trials},
          {"seed", o.seed}};
}

nlohmann::json results_of(const rlu_options& o, const trial_result& r) {
  nlohmann::json made = {{"elapsed_s", r.elapsed_s},
                         {"operations", r.operations},
                         {"mops", static_cast<double>(r.operations) / r.elapsed_s / 1e6},
                         {"size_end", r.size_end},
                         {"peak_rss_bytes", r.peak_rss_bytes}};
  // Bytes in logs with mvrlu, else blocks that wait to be freed.
  if (r.garbage_peak) made[has_versions(o) ? "log_bytes_peak" : "garbage_peak"] = *r.garbage_peak;
  if (r.commits && r.conflicts) {
    const std::uint64_t tries = *r.commits + *r.conflicts;
    made["commits"] = *r.commits;
    made["conflicts"] = *r.conflicts;
    made["abort_ratio"] =
        tries == 0 ? 0.0 : static_cast<double>(*r.conflicts) / static_cast<double>(tries);
  }
  if (o.over_time) {
    if (has_versions(o)) {
      made["over_time_columns"] = many_looks;
    } else {
      made["over_time_columns"] = single_looks;
    }
    made["over_time"] = r.looks;
  }
  return made;
}

}  // namespace

void settle(rlu_options& o) {
  if (o.paper_size) {
    // Half of the keys are there: its 10 000 items, in 1000 buckets. (ASPLOS 2019, section 6)
    if (!o.given.contains("--keys")) o.keys = 20000;
    if (!o.given.contains("--buckets")) o.buckets = 1000;
    if (!o.given.contains("--threads")) o.threads = 448;
  }
  find(o);
  check(o);
  within<std::uint64_t>("buckets", o.buckets, 1, 100000000);
  within<std::uint32_t>("together", o.together, 1, 1000000);
  check_words(o);
}

nlohmann::json run_rlu(const rlu_options& o, std::uint32_t trial) {
  const trial_result r = find(o)(o, trial);
  return make_record("rlu", trial,
                     {.threads = o.threads, .seconds = o.seconds, .warm_up_s = o.warm_up},
                     options_in_force(o), results_of(o, r));
}

}  // namespace bench
