// SPDX-License-Identifier: Apache-2.0
// settings.hpp: what a file of options says. The command line says more, and wins.
#pragma once

#include <filesystem>

#include <spolia/db.hpp>

#include "load.hpp"

namespace tool {

struct settings {
  db::options store;
  load_options load;
  double interval = 1;  ///< of top, in seconds
};

/// Reads a TOML file. Throws usage_error, with the place, for a key that is not known or a value
/// that does not fit.
settings read_settings(const std::filesystem::path& file);

/// Throws std::invalid_argument, which says what there is.
db::durability_level durability_of(const std::string& name);
on_conflict conflict_of(const std::string& name);

}  // namespace tool
