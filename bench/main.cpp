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
#include "counted.hpp"
#include "guards.hpp"
#include "options.hpp"
#include "record.hpp"
#include "registry.hpp"

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

void announcements(const std::vector<std::uint32_t>& threads, std::uint32_t operations,
                   const std::string& json) {
  for (const std::uint32_t n : threads) {
    if (n < 1 || n > 4096) {
      throw usage_error(fmt::format("--threads has {}, but must be from 1 to 4096", n));
    }
  }
  if (operations < 1 || operations > 100000000) {
    throw usage_error(
        fmt::format("--operations is {}, but must be from 1 to 100000000", operations));
  }
  line_file out(json);
  for (const nlohmann::json& r : count_announcements(threads, operations)) out.write(r);
}

void counted(const counted_options& o, const std::string& json) {
  line_file out(json);
  measure_counted(o, [&](const nlohmann::json& r) { out.write(r); });
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

void add_counted(CLI::App& program, counted_options& o, std::string& json) {
  CLI::App& app = *program.add_subcommand(
      "counted", "shared pointers, ours and the rivals': contention, setting, allocation, reading");
  app.callback([&] { counted(o, json); });
  app.add_option("--test", o.test, "contention, set, allocate, read or route")
      ->capture_default_str();
  app.add_option("--pointers", o.pointers,
                 "with commas: raw, private, atomic, shared, std-plain, std, std-atomic, "
                 "boost-atomic; default: all that have the test")
      ->delimiter(',');
  app.add_option("--threads", o.threads, "numbers of threads, with commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--keys", o.keys, "of the tree that is read")->capture_default_str();
  app.add_option("--seconds", o.seconds, "length of a trial")->capture_default_str();
  app.add_option("--trials", o.trials, "of each pointer; the pointers take turns")
      ->capture_default_str();
  app.add_option("--json", json, "append records here; -: standard output")->capture_default_str();
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

  std::uint32_t rounds = 15;
  std::string guards_json;
  CLI::App* const guards_command = app.add_subcommand(
      "guards", "what guards and protect cost, ours and the rivals', uncontended");
  guards_command->add_option("--rounds", rounds, "interleaved measurements of each")
      ->capture_default_str();
  guards_command->add_option("--json", guards_json, "as JSON lines; -: standard output");

  std::vector<std::uint32_t> counted_threads = {1, 2, 8, 48, 96, 192};
  std::uint32_t counted_operations = 40000;
  std::string announcements_json = "-";
  CLI::App* const announcements_command = app.add_subcommand(
      "announcements", "how many other threads' announcements an operation reads; counted");
  announcements_command->add_option("--threads", counted_threads, "numbers of threads, with commas")
      ->delimiter(',')
      ->capture_default_str();
  announcements_command->add_option("--operations", counted_operations, "of each thread")
      ->capture_default_str();
  announcements_command
      ->add_option("--json", announcements_json, "as JSON lines; -: standard output")
      ->capture_default_str();

  counted_options pointers;
  std::string pointers_json = "-";
  add_counted(app, pointers, pointers_json);

  try {
    app.parse(argc, argv);
    if (list_command->parsed()) list(list_json, list_markdown);
    if (sets_command->parsed()) sets(options);
    if (guards_command->parsed()) guards(rounds, guards_json);
    if (announcements_command->parsed()) {
      announcements(counted_threads, counted_operations, announcements_json);
    }
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
