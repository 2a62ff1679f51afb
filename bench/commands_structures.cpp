// SPDX-License-Identifier: Apache-2.0
// commands_structures.cpp: the sub-commands that work on sets and maps.
#include <spolia/base/trace.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "commands.hpp"
#include "options.hpp"
#include "record.hpp"
#include "registry.hpp"
#include "rlu.hpp"
#include "snapshots.hpp"

namespace bench {
namespace {

void sets(const set_options& given) {
  set_options o = given;
  const runner run = settle(o);
  check(o);
  line_file out(o.json);
  std::unique_ptr<line_file> trace_out;
  if (!o.trace.empty()) trace_out = std::make_unique<line_file>(o.trace);
  for (std::uint32_t trial = 0; trial < o.trials; ++trial) {
    const trial_result r = run(o, trial);
    if (trace_out && !spolia::trace::write(trace_out->handle())) {
      throw usage_error("cannot write to " + o.trace);
    }
    out.write(record_of(o, trial, r));
  }
}

void snapshots(const snapshot_options& given) {
  snapshot_options o = given;
  settle(o);
  line_file out(o.json);
  measure_snapshots(o, [&](const nlohmann::json& record) { out.write(record); });
}

void rlu(const rlu_options& given) {
  rlu_options o = given;
  settle(o);
  line_file out(o.json);
  for (std::uint32_t trial = 0; trial < o.trials; ++trial) out.write(run_rlu(o, trial));
}

void describe_warm_up(CLI::App& app, set_options& o) {
  app.add_option("--warm-up", o.warm_up, "seconds of the same work before the measured time")
      ->capture_default_str();
}

void describe_paper_size(CLI::App& app, bool& to, const char* sizes) {
  app.add_flag("--paper-size", to,
               fmt::format("the paper's sizes, where no other is given: {}", sizes));
}

/// The options that all these commands have.
template <class Options>
void describe_work(CLI::App& app, Options& o) {
  app.add_option("--threads", o.threads, "threads that work")->capture_default_str();
  app.add_option("--keys", o.keys,
                 "keys are from 0 to this, exclusive; half of them are there at first")
      ->capture_default_str();
  app.add_option("--update", o.update, "per cent of updates, half inserting, half erasing")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of a trial, once the structure is filled")
      ->capture_default_str();
  app.add_option("--trials", o.trials, "trials of each combination; each gives one record")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "seed of the random keys and operations")->capture_default_str();
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

void describe(CLI::App& app, set_options& o) {
  const char* const names = "see `spolia-bench list`";
  app.add_option("--structure", o.structure,
                 std::string("one of ours, or a rival's, such as std_map; ") + names)
      ->capture_default_str();
  app.add_option("--scheme", o.scheme, std::string("the rule by which blocks are safe; ") + names)
      ->default_str("token; of a rival: its first");
  app.add_option("--release", o.release, "how safe blocks are freed: batch, amortized or pooled")
      ->default_str("amortized; of a rival: own");
  describe_work(app, o);
  app.add_option("--batch", o.batch,
                 "safe blocks that pile up before they are freed, at once or a few at a time; 0: "
                 "none pile up")
      ->capture_default_str();
  app.add_option("--turn-us", o.turn_us,
                 "microseconds after which a thread yields, where there are more threads than "
                 "processors; 0: never")
      ->default_str("the domain's own");
  describe_warm_up(app, o);
  describe_paper_size(app, o.paper_size,
                      "20000000 keys, or 2000000 in external_bst, and 192 threads");
  app.add_option("--time-frees", o.time_frees, "measure one pause in so many; 1: all; 0: none")
      ->capture_default_str();
  app.add_flag("--stall", o.stall, "park one more thread inside a guard for the whole run");
  app.add_flag("--check", o.check, "first compare every answer with std::set's, on one thread");
  app.add_flag("--count", o.count,
               "count and time each free, and what the allocator does for it; slower");
  app.add_option("--trace", o.trace,
                 "append a trace of what happened when to this file, as JSON lines");
}

void describe(CLI::App& app, snapshot_options& o) {
  app.add_option("--structure", o.structures,
                 "comma-separated: hash, tree; std_map, under a lock, whose snapshots are copies; "
                 "tbb_hash_map, with oneTBB, which has no snapshots: its reads see what is there")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--collector", o.collectors,
                 fmt::format("comma-separated: {}", fmt::join(collector_names(), ", ")))
      ->delimiter(',')
      ->capture_default_str();
  describe_work(app, o);
  add_order(app, o.order);
  app.add_option("--readers", o.readers, "further threads that make read transactions only")
      ->capture_default_str();
  app.add_option("--small-readers", o.small_readers,
                 "further threads, whose read transactions look up 16 keys")
      ->capture_default_str();
  app.add_option("--warm-up", o.warm_up,
                 "seconds of the same work before the measured time; none with --updates")
      ->default_str(fmt::format("{}", usual_warm_up));
  describe_paper_size(app, o.paper_size,
                      "200000 keys and 120 threads; with --readers or --small-readers 40 of each");
  app.add_option("--theta", o.theta, "skew of Zipf's distribution of keys; 0: uniform")
      ->capture_default_str();
  app.add_option("--rtx-share", o.rtx_share,
                 "per cent of read transactions; what neither this nor --update takes are look-ups")
      ->capture_default_str();
  app.add_option("--rtx", o.rtx, "keys that a read transaction looks up at its snapshot")
      ->capture_default_str();
  app.add_option("--rtx-most", o.rtx_most,
                 "if not 0: a read transaction looks up any number of keys from --rtx to this")
      ->capture_default_str();
  app.add_option("--batch", o.batch,
                 "if not 0: each update of hash or tree is a batch of so many changes that happen "
                 "at one instant, by turns in this map and in a second one")
      ->capture_default_str();
  app.add_flag("--hold", o.hold, "hold one snapshot from before the first update to the end");
  app.add_option("--updates", o.updates, "end after so many successful updates; 0: end by time")
      ->capture_default_str();
  app.add_option("--still-every", o.still_every,
                 "if not 0: all threads stand still every so many milliseconds, in the middle of "
                 "their read transactions, while the versions that are needed are counted, and "
                 "the others dropped")
      ->capture_default_str();
}

void describe(CLI::App& app, spolia::rlu::options& o) {
  app.add_option("--segment", o.segment_bytes, "bytes by which a log of mvrlu grows")
      ->capture_default_str();
  app.add_option("--low", o.low_watermark, "bytes that a thread writes before it sweeps its log")
      ->capture_default_str();
  app.add_option("--high", o.high_watermark,
                 "bytes of a log from which on other threads sweep it, too")
      ->capture_default_str();
  app.add_option("--walks", o.walk_watermark, "reads of copies before a thread sweeps its log")
      ->capture_default_str();
  app.add_option("--turn-us", o.turn_us,
                 "microseconds after which a thread yields to interrupted ones; 0: never")
      ->capture_default_str();
  app.add_option("--in-place", o.in_place, "0: a thread in exclusive mode writes copies, too")
      ->capture_default_str();
}

void describe(CLI::App& app, rlu_options& o) {
  app.add_option("--structure", o.structure,
                 "list, hash, tree, or cache (of strings, with a tree in each bucket)")
      ->capture_default_str();
  app.add_option("--sync", o.sync,
                 fmt::format("of the list: {}; of the hash: {}; of the tree: {}; of the cache: {}",
                             fmt::join(rlu_ways("list"), ", "), fmt::join(rlu_ways("hash"), ", "),
                             fmt::join(rlu_ways("tree"), ", "), fmt::join(rlu_ways("cache"), ", ")))
      ->capture_default_str();
  describe_work(app, o);
  app.add_option("--theta", o.theta, "skew of Zipf's distribution of keys; 0: uniform")
      ->capture_default_str();
  describe_warm_up(app, o);
  app.add_option("--buckets", o.buckets, "buckets of the hash table or the cache")
      ->capture_default_str();
  app.add_flag("--stall", o.stall, "one more thread sleeps inside a section for the whole run");
  app.add_flag("--check", o.check, "first compare every answer with std::set's, on one thread");
  app.add_flag("--over-time", o.over_time,
               "every 5 ms record logs, write-backs, sweeps, conflicts and chains of versions");
  describe(app, o.domain);
  app.add_option("--together", o.together,
                 "how many sections of a thread rlu-deferred writes back together, at most")
      ->capture_default_str();
  app.add_flag("--detector", o.detector, "one more thread sweeps the logs of mvrlu");
  describe_paper_size(app, o.paper_size, "20000 keys, 1000 buckets, 448 threads");
}

}  // namespace

void add_sets(CLI::App& app) {
  add_command<set_options>(app, "sets",
                           "inserts, erases and looks up keys in one structure, ours or a rival's",
                           describe, sets);
}

void add_snapshots(CLI::App& app) {
  add_command<snapshot_options>(
      app, "snapshots",
      "runs updates and read transactions over maps with snapshots, and sees what these hold",
      describe, snapshots);
}

void add_rlu(CLI::App& app) {
  add_command<rlu_options>(
      app, "rlu",
      "does the same in structures under read-log-update, and under what else one can use",
      describe, rlu);
}

}  // namespace bench
