// SPDX-License-Identifier: Apache-2.0
// load.hpp: rows of a file into tables, a batch at a time; each batch all or nothing.
#pragma once

#include <cstdint>
#include <functional>

#include "load_notes.hpp"
#include "record.hpp"

namespace tool {

/// What happens to a row whose key the table has.
enum class on_conflict : std::uint8_t {
  fail,    ///< the batch is not loaded, and the command fails
  skip,    ///< the table's row stays; so it does if a unique index has the value
  replace  ///< the file's row takes its place
};

struct load_options {
  on_conflict conflict = on_conflict::fail;
  std::uint64_t batch = 1000;  ///< rows of a transaction; 0: all
};

struct load_counts {
  std::uint64_t inserted = 0;
  std::uint64_t replaced = 0;
  std::uint64_t skipped = 0;
  [[nodiscard]] std::uint64_t rows() const noexcept { return inserted + replaced + skipped; }
};

/// Adds to `done` what each batch did after it was committed, and passes over what was loaded
/// before, as `notes` say. `tell` is called for each row. Throws failure; what `done` says is in
/// the tables then, and nothing else.
void load_rows(db::database& base, row_source& rows, const load_options& o, load_notes& notes,
               load_counts& done, const std::function<void(const row_source&)>& tell);

}  // namespace tool
