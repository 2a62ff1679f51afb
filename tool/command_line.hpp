// SPDX-License-Identifier: Apache-2.0
// command_line.hpp: the words after `spolia`.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace tool {

/// Adds all commands. The one that is chosen puts what is to be done into `run`.
void add_commands(CLI::App& app, std::function<void()>& run);

}  // namespace tool
