// SPDX-License-Identifier: Apache-2.0
// commands_schemes.cpp: the sub-commands about what there is, and what schemes cost by themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "announcements.hpp"
#include "commands.hpp"
#include "guards.hpp"
#include "record.hpp"
#include "registry.hpp"
#include "store.hpp"
#include "ycsb.hpp"

namespace bench {
namespace {

void list_rivals() {
  fmt::print("\nother libraries, for comparison\n");
  for (const library& l : libraries()) {
    if (!l.built()) {
      fmt::print("  {}: absent; install {} and configure this program again\n", l.name, l.package);
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
  fmt::print("\nversion storages of the store: {}\nengines for ycsb: {}\n",
             fmt::join(version_storage_names(), ", "), fmt::join(ycsb_engine_names(), ", "));
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

}  // namespace

void add_list(CLI::App& app) {
  struct choice {
    std::string json;
    bool markdown = false;
  };
  CLI::App& command = *app.add_subcommand("list", "shows what can be combined");
  const auto chosen = std::make_shared<choice>();
  command.add_option("--json", chosen->json,
                     "append the list to this file, as JSON; -: standard output");
  command.add_flag("--markdown", chosen->markdown, "show what each scheme promises, as a table");
  command.callback([chosen] { list(chosen->json, chosen->markdown); });
}

void add_guards(CLI::App& app) {
  struct choice {
    std::uint32_t rounds = 15;
    std::string json;
  };
  CLI::App& command = *app.add_subcommand(
      "guards", "measures what guards and protect cost without contention, ours and the rivals'");
  const auto chosen = std::make_shared<choice>();
  command
      .add_option("--rounds", chosen->rounds, "measurements of each operation, which take turns")
      ->capture_default_str();
  command.add_option("--json", chosen->json,
                     "append records here, as JSON lines; -: standard output");
  command.callback([chosen] { guards(chosen->rounds, chosen->json); });
}

void add_announcements(CLI::App& app) {
  struct choice {
    std::vector<std::uint32_t> threads = {1, 2, 8, 48, 96, 192};
    std::uint32_t operations = 40000;
    std::string json = "-";
  };
  CLI::App& command = *app.add_subcommand(
      "announcements", "counts how many announcements of other threads an operation reads");
  const auto chosen = std::make_shared<choice>();
  command.add_option("--threads", chosen->threads, "numbers of threads, comma-separated")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--operations", chosen->operations, "operations of each thread")
      ->capture_default_str();
  command
      .add_option("--json", chosen->json, "append records here, as JSON lines; -: standard output")
      ->capture_default_str();
  command.callback([chosen] { announcements(chosen->threads, chosen->operations, chosen->json); });
}

}  // namespace bench
