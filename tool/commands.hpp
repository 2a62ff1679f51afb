// SPDX-License-Identifier: Apache-2.0
// commands.hpp: what `spolia` can do, and what each wants to know. What goes wrong is thrown:
// errors.hpp, and what the library throws.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dump.hpp"
#include "load_from.hpp"
#include "progress.hpp"
#include "settings.hpp"
#include "store.hpp"

namespace tool {

/// For all commands.
struct common {
  settings chosen;
  progress_mode show = progress_mode::automatic;
  int nice = 0;  ///< of commands that look at a store which a program may have open
};

struct info_request {
  std::filesystem::path store;
  bool hash = false;  ///< read all rows, too
  bool json = false;
};
void run_info(const info_request& r, const common& c);

struct check_request {
  std::filesystem::path store;
};
void run_check(const check_request& r, const common& c);
/// What there is to say of bytes behind the last record that are none.
std::string torn_text(const db::recovery_report& found, bool copy);

struct dump_request {
  std::filesystem::path store;
  std::filesystem::path to;  ///< a folder to be made; standard output
  text_format format = text_format::json;
  std::vector<std::string> tables;  ///< none: all
};
void run_dump(const dump_request& r, const common& c);

void run_load(const std::filesystem::path& store, const load_request& r, const common& c);

struct copy_request {
  std::filesystem::path from;
  std::filesystem::path to;
};
void run_backup(const copy_request& r, const common& c);
void run_restore(const copy_request& r, const common& c);

struct salvage_request {
  std::filesystem::path store;
  std::filesystem::path to;  ///< a folder to be made, or an empty one
  bool dry_run = false;      ///< the report alone
  bool json = false;
};
/// Throws something_is_missing when it has said what.
void run_salvage(const salvage_request& r, const common& c);

struct top_request {
  std::filesystem::path store;
  std::uint64_t times = 0;  ///< 0: until stopped
  bool json = false;
};
void run_top(const top_request& r, const common& c);

}  // namespace tool
