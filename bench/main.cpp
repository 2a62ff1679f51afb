// SPDX-License-Identifier: Apache-2.0
// main.cpp: spolia-bench.
#include <spolia/map/hash_seeds.hpp>
#include <spolia/version.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "commands.hpp"
#include "options.hpp"

int main(int argc, char** argv) {
  using namespace bench;
  spolia::fix_hash_seeds(1);  // each trial does the same
  CLI::App app{"Benchmarks of Spolia. Each trial gives one record, a line of JSON.",
               "spolia-bench"};
  app.set_version_flag("--version", std::string(SPOLIA_VERSION_STRING));
  app.require_subcommand(1);
  app.failure_message([&](const CLI::App* of, const CLI::Error& e) {
    const auto called = [&](const CLI::App* one) { return one->check_name(argv[1]); };
    if (argc > 1 && argv[1][0] != '-' && of->get_subcommands(called).empty()) {
      return fmt::format("spolia-bench: there is no command '{}' (see --help)\n", argv[1]);
    }
    return fmt::format("spolia-bench: {} (see --help)\n", e.what());
  });
  add_list(app);
  add_sets(app);
  add_snapshots(app);
  add_recovery(app);
  add_rlu(app);
  add_ycsb(app);
  add_tpcc(app);
  add_held(app);
  add_reports(app);
  add_counted(app);
  add_guards(app);
  add_announcements(app);
  try {
    app.parse(argc, argv);
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
