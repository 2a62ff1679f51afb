// SPDX-License-Identifier: Apache-2.0
// commands.hpp: the sub-commands of spolia-bench. Each adds itself, and runs when it is chosen; bad
// input ends as usage_error.
#pragma once

#include <CLI/CLI.hpp>

namespace bench {

void add_announcements(CLI::App&);
void add_counted(CLI::App&);
void add_guards(CLI::App&);
void add_list(CLI::App&);
void add_rlu(CLI::App&);
void add_sets(CLI::App&);
void add_snapshots(CLI::App&);
void add_ycsb(CLI::App&);

}  // namespace bench
