// SPDX-License-Identifier: Apache-2.0
// main.cpp: spolia-bench.
#include <spolia/base/trace.hpp>
#include <spolia/version.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "announcements.hpp"
#include "guards.hpp"
#include "options.hpp"
#include "record.hpp"
#include "registry.hpp"
#include "rlu.hpp"
#include "snapshots.hpp"

namespace {

using namespace bench;

void list_rivals() {
  fmt::print("\nother libraries, to compare with\n");
  for (const library& l : libraries()) {
    if (!l.built()) {
      fmt::print("  {}: absent; install {} and configure this program anew\n", l.name, l.package);
      continue;
    }
    fmt::print("  {} {}\n", l.name, l.version);
    for (const rival& r : rivals()) {
      if (r.library != l.name) continue;
      fmt::print("    {:<20}{}\n", r.structure, fmt::join(r.schemes, ", "));
    }
  }
}

void list(const std::string& json, bool markdown) {
  if (markdown) {
    fmt::print("{}", scheme_table());
    return;
  }
  if (!json.empty()) {
    line_file(json).write(listing());
    return;
  }
  std::map<std::string, std::map<std::string, std::string>> table;
  for (const cell& c : cells()) {
    if (!c.supported) continue;
    std::string& releases = table[c.structure][c.scheme];
    releases += (releases.empty() ? "" : ", ") + c.release;
  }
  for (const auto& [structure, schemes] : table) {
    fmt::print("{}\n", structure);
    for (const auto& [scheme, releases] : schemes) fmt::print("  {:<22}{}\n", scheme, releases);
  }
  list_rivals();
}

void guards(std::uint32_t rounds, const std::string& json) {
  if (rounds < 1 || rounds > 100000) {
    throw usage_error(fmt::format("--rounds is {}, but must be from 1 to 100000", rounds));
  }
  std::unique_ptr<line_file> out;
  if (!json.empty()) out = std::make_unique<line_file>(json);
  for (const nlohmann::json& r : measure_guards(rounds)) {
    if (out) {
      out->write(r);
      continue;
    }
    fmt::print("{:<22}{:<30}{:8.2f} ns  ({:.2f} to {:.2f})\n", r["scheme"].get<std::string>(),
               r["operation"].get<std::string>(), r["ns"].get<double>(), r["ns_min"].get<double>(),
               r["ns_max"].get<double>());
  }
}

struct announcement_options {
  std::vector<std::uint32_t> threads = {1, 2, 8, 48, 96, 192};
  std::uint32_t operations = 40000;
  std::string json = "-";
};

void announcements(const announcement_options& o) {
  for (const std::uint32_t n : o.threads) {
    if (n < 1 || n > 4096) {
      throw usage_error(fmt::format("--threads has {}, but must be from 1 to 4096", n));
    }
  }
  if (o.operations < 1 || o.operations > 100000000) {
    throw usage_error(
        fmt::format("--operations is {}, but must be from 1 to 100000000", o.operations));
  }
  line_file out(o.json);
  for (const nlohmann::json& r : count_announcements(o.threads, o.operations)) out.write(r);
}

void describe(CLI::App& app, announcement_options& o) {
  app.add_option("--threads", o.threads, "numbers of threads, with commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--operations", o.operations, "of each thread")->capture_default_str();
  app.add_option("--json", o.json, "as JSON lines; -: standard output")->capture_default_str();
}

void snapshots(const snapshot_options& o) {
  check(o);
  line_file out(o.json);
  measure_snapshots(o, [&](const nlohmann::json& record) { out.write(record); });
}

void sets(set_options o) {
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

void rlu(const rlu_options& o) {
  line_file out(o.json);
  for (std::uint32_t trial = 0; trial < o.trials; ++trial) out.write(run_rlu(o, trial));
}

void describe(CLI::App& app, rlu_options& o) {
  app.add_option("--structure", o.structure, "list, hash or tree")->capture_default_str();
  app.add_option("--sync", o.sync,
                 fmt::format("of the list: {}; of the hash: {}; of the tree: {}",
                             fmt::join(rlu_ways("list"), ", "), fmt::join(rlu_ways("hash"), ", "),
                             fmt::join(rlu_ways("tree"), ", ")))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that work")->capture_default_str();
  app.add_option("--keys", o.keys, "keys are uniform in [0, keys); half of them are present")
      ->capture_default_str();
  app.add_option("--buckets", o.buckets, "of the hash table")->capture_default_str();
  app.add_option("--update", o.update, "per cent of updates, half inserting, half erasing")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of a trial, after the filling")
      ->capture_default_str();
  app.add_option("--trials", o.trials, "trials; each gives one record")->capture_default_str();
  app.add_option("--seed", o.seed, "of keys and operations")->capture_default_str();
  app.add_flag("--stall", o.stall, "one more thread sleeps inside a section for the whole run");
  app.add_flag("--check", o.check, "first compare every answer with std::set's, on one thread");
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

void describe(CLI::App& app, set_options& o) {
  const char* const names = "see `spolia-bench list`";
  app.add_option("--structure", o.structure,
                 std::string("ours, or a rival's such as std_map; ") + names)
      ->capture_default_str();
  app.add_option("--scheme", o.scheme, std::string("when blocks are safe; ") + names)
      ->default_str("token, or a rival's first");
  app.add_option("--release", o.release, "how they are freed: batch, amortized or pooled")
      ->default_str("amortized; a rival's own way has the name own");
  app.add_option("--threads", o.threads, "threads that work")->capture_default_str();
  app.add_option("--keys", o.keys, "keys are uniform in [0, keys); half of them are present")
      ->capture_default_str();
  app.add_option("--update", o.update, "per cent of updates, half inserting, half erasing")
      ->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of a trial, after the filling")
      ->capture_default_str();
  app.add_option("--trials", o.trials, "trials; each gives one record")->capture_default_str();
  app.add_option("--seed", o.seed, "of keys and operations")->capture_default_str();
  app.add_option("--batch", o.batch, "blocks freed or proven safe together; 0: the scheme's own")
      ->capture_default_str();
  app.add_option(
         "--turn-us", o.turn_us,
         "microseconds after which threads that are many give their processor away; 0: never")
      ->default_str("the domain's own");
  app.add_option("--time-frees", o.time_frees, "measure one in so many pauses; 1: all; 0: none")
      ->capture_default_str();
  app.add_flag("--stall", o.stall, "park one more thread inside a guard for the whole run");
  app.add_flag("--check", o.check, "first compare every answer with std::set's, on one thread");
  app.add_flag("--count", o.count,
               "count and time each free, and what the allocator does behind it; slower");
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
  app.add_option("--trace", o.trace, "append what happened when here, as JSON lines");
}

void describe(CLI::App& app, snapshot_options& o) {
  app.add_option("--structure", o.structures,
                 "hash, tree; or std_map, under a lock, its snapshots copies; several with commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--collector", o.collectors, "epoch, steam, dl_rt, sl_rt; several with commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads that work")->capture_default_str();
  app.add_option("--keys", o.keys, "keys are uniform in [0, keys); half of them are present")
      ->capture_default_str();
  app.add_option("--update", o.update, "per cent of updates, half inserting, half erasing")
      ->capture_default_str();
  app.add_option("--rtx-share", o.rtx_share, "per cent of read transactions; the rest looks up")
      ->capture_default_str();
  app.add_option("--rtx", o.rtx, "keys that a read transaction looks up at its snapshot")
      ->capture_default_str();
  app.add_flag("--hold", o.hold, "hold one snapshot from before the first update to the end");
  app.add_option("--seconds", o.seconds, "length of a trial, after the filling")
      ->capture_default_str();
  app.add_option("--updates", o.updates, "so many successful updates instead; 0: by time")
      ->capture_default_str();
  app.add_option("--trials", o.trials, "rounds over all that was chosen; each gives one record")
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of keys and operations")->capture_default_str();
  app.add_option("--json", o.json, "append records here; -: standard output")
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Benchmarks of Spolia. Records are JSON lines, one a trial.", "spolia-bench"};
  app.set_version_flag("--version", std::string(SPOLIA_VERSION_STRING));
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& e) {
    return fmt::format("spolia-bench: {} (see --help)\n", e.what());
  });

  std::string list_json;
  CLI::App* const list_command = app.add_subcommand("list", "what can be combined");
  list_command->add_option("--json", list_json, "as JSON, into a file; -: standard output");

  bool list_markdown = false;
  list_command->add_flag("--markdown", list_markdown, "what each scheme promises, as a table");

  set_options options;
  CLI::App* const sets_command = app.add_subcommand(
      "sets", "insert, erase and look up keys in one structure, ours or a rival's");
  describe(*sets_command, options);

  snapshot_options of_snapshots;
  CLI::App* const snapshots_command = app.add_subcommand(
      "snapshots", "maps with snapshots under updates and read transactions, and what they hold");
  describe(*snapshots_command, of_snapshots);

  rlu_options rlu_run;
  CLI::App* const rlu_command = app.add_subcommand(
      "rlu", "the same in structures under read-log-update, and under what else one can use");
  describe(*rlu_command, rlu_run);

  std::uint32_t rounds = 15;
  std::string guards_json;
  CLI::App* const guards_command = app.add_subcommand(
      "guards", "what guards and protect cost, ours and the rivals', uncontended");
  guards_command->add_option("--rounds", rounds, "interleaved measurements of each")
      ->capture_default_str();
  guards_command->add_option("--json", guards_json, "as JSON lines; -: standard output");

  announcement_options counted;
  CLI::App* const announcements_command = app.add_subcommand(
      "announcements", "how many other threads' announcements an operation reads; counted");
  describe(*announcements_command, counted);

  try {
    app.parse(argc, argv);
    if (list_command->parsed()) list(list_json, list_markdown);
    if (sets_command->parsed()) sets(options);
    if (snapshots_command->parsed()) snapshots(of_snapshots);
    if (rlu_command->parsed()) rlu(rlu_run);
    if (guards_command->parsed()) guards(rounds, guards_json);
    if (announcements_command->parsed()) announcements(counted);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const usage_error& e) {
    fmt::print(stderr, "spolia-bench: {}\n", e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "spolia-bench: out of memory; fewer --keys or --threads may help\n");
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "spolia-bench: {}\n", e.what());
    return 1;
  }
  return 0;
}
