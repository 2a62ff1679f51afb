// SPDX-License-Identifier: Apache-2.0
// command_copy.cpp: `spolia backup` and `spolia restore`.
#include <fmt/format.h>

#include <cstdio>

#include "bytes.hpp"
#include "commands.hpp"
#include "errors.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

/// A whole copy in a folder that is made, read once more before it gets its name.
void copy_whole(const copy_request& r, const common& c) {
  new_folder folder(r.to);
  db::backup_report made;
  {
    db::database base = open_to_read(r.from, c.chosen.store, c.show);
    made = base.backup(folder.place());
  }
  open_to_read(folder.place(), c.chosen.store, c.show);
  folder.finish();
  fmt::print("{}: {}B, up to change {}\n", r.to.string(), short_count(made.bytes), made.sequence);
}

}  // namespace

void run_backup(const copy_request& r, const common& c) {
  if (!is_store(r.to)) {
    copy_whole(r, c);
    return;
  }
  db::database base = open_to_read(r.from, c.chosen.store, c.show);
  const db::backup_report made = base.backup(r.to);
  fmt::print("{}: {}B more, up to change {}\n", r.to.string(), short_count(made.bytes),
             made.sequence);
}

void run_restore(const copy_request& r, const common& c) { copy_whole(r, c); }

}  // namespace tool
