// SPDX-License-Identifier: Apache-2.0
// commands.hpp: the sub-commands of spolia-bench. Each adds itself, and runs when it is chosen; bad
// input ends as usage_error.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <memory>

namespace bench {

/// Adds one whose options `describe` puts on the command line, and that `run` runs with them. What
/// was given goes to Options::given, if there is such a member.
template <class Options>
void add_command(CLI::App& app, const char* name, const char* help,
                 void (*describe)(CLI::App&, Options&), void (*run)(const Options&)) {
  CLI::App& command = *app.add_subcommand(name, help);
  const auto chosen = std::make_shared<Options>();
  describe(command, *chosen);
  command.callback([&command, chosen, run] {
    if constexpr (requires { chosen->given; }) {
      for (const CLI::Option* const o : command.get_options()) {
        if (o->count() != 0) chosen->given.insert(o->get_name());
      }
    }
    run(*chosen);
  });
}

/// --order, of those that measure several in turn: in_order.
inline void add_order(CLI::App& app, std::uint32_t& to) {
  app.add_option("--order", to,
                 "the order in which what is compared takes turns; 0: as it is named, other "
                 "numbers: other orders")
      ->capture_default_str();
}

void add_announcements(CLI::App&);
void add_counted(CLI::App&);
void add_guards(CLI::App&);
void add_held(CLI::App&);
void add_list(CLI::App&);
void add_recovery(CLI::App&);
void add_reports(CLI::App&);
void add_rlu(CLI::App&);
void add_sets(CLI::App&);
void add_snapshots(CLI::App&);
void add_tpcc(CLI::App&);
void add_ycsb(CLI::App&);

}  // namespace bench
