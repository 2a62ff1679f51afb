// SPDX-License-Identifier: Apache-2.0
// command_line.hpp: the words after `spolia`.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace tool {

/// Adds all commands. The one that is chosen puts what is to be done into `run`.
void add_commands(CLI::App& app, std::function<void()>& run);

/// What is wrong with the words after `spolia`, and what would be right.
std::string what_is_wrong(const CLI::App& app, const CLI::Error& e,
                          const std::vector<std::string>& words);

/// Throws usage_error for a command that there is not, also where its help is asked for.
void refuse_unknown(const CLI::App& app, const std::vector<std::string>& words);

/// `help` and `help COMMAND` as `--help` and `COMMAND --help`.
std::vector<std::string> with_help(std::vector<std::string> words);

}  // namespace tool
