// SPDX-License-Identifier: Apache-2.0
// command_load.cpp: `spolia load`.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>

#include "commands.hpp"
#include "errors.hpp"
#include "load_notes.hpp"
#include "store.hpp"
#include "text.hpp"

namespace tool {
namespace {

std::string summary(const load_counts& done) {
  std::string s = fmt::format("{} inserted", so_many(done.inserted, "row"));
  if (done.replaced != 0) s += fmt::format(", {} replaced", done.replaced);
  if (done.skipped != 0) s += fmt::format(", {} skipped", done.skipped);
  return s;
}

/// A store that did not exist is there afterwards with all of it, or not at all.
load_counts into_new(const std::filesystem::path& store, load_job& job, const common& c) {
  new_folder folder(store);
  load_counts done;
  db::options o = c.chosen.store;
  o.durability = db::durability_level::none;
  o.open = db::open_mode::must_be_new;
  o.publish_status = false;
  {
    db::database base = open_to_write(folder.place(), o, c.show);
    load_notes notes(base, unfinished::keep);
    job.run(base, notes, done);
    base.checkpoint();
  }
  folder.finish();
  return done;
}

/// All that was loaded is on the disk afterwards.
void settle(db::database& base, const common& c) {
  if (c.chosen.store.durability == db::durability_level::none) {
    base.checkpoint();
  } else if (!base.sync()) {
    throw failure("the log cannot be written: " + base.storage_failure());
  }
}

/// A load of the store that has failed.
class failed_load {
 public:
  failed_load(db::database& base, load_notes& notes, const common& c)
      : base_(base), notes_(notes), common_(c) {}

  /// Sees to what stays of it, and says that behind what went wrong.
  [[noreturn]] void end(const std::string& wrong, const load_counts& done) const {
    std::string said = notes_.how() == unfinished::undo ? undo() : "before that: " + summary(done);
    try {
      settle(base_, common_);
    } catch (const std::runtime_error& why) {
      said += ", maybe not on the disk: " + plain(why);
    }
    throw failure(fmt::format("{} ({}{})", wrong, said, what_next()));
  }

 private:
  [[nodiscard]] std::string undo() const {
    try {
      notes_.fail();
      return "nothing of it stays";
    } catch (const std::exception& why) {
      return "it cannot be undone now: " + plain(why) +
             "; the next spolia load of the store does so";
    }
  }
  [[nodiscard]] std::string what_next() const {
    if (notes_.how() == unfinished::resume) return "; --resume goes on after them";
    if (!notes_.found() || notes_.how() == unfinished::undo) return "";
    return fmt::format("; of {} the store has {} of a load that --resume goes on with",
                       printable(notes_.found()->from), so_many(notes_.found()->rows, "row"));
  }

  db::database& base_;
  load_notes& notes_;
  const common& common_;
};

load_counts into_old(const std::filesystem::path& store, load_job& job, unfinished how,
                     const common& c) {
  load_counts done;
  db::options o = c.chosen.store;
  if (is_store(store)) o.open = db::open_mode::must_exist;  // it may go before it is opened
  db::database base = open_to_write(store, o, c.show);
  load_notes notes(base, how);
  if (notes.undone()) {
    fmt::print("undone: a load that was stopped, of {}\n", so_many(*notes.undone(), "row"));
  }
  try {
    job.run(base, notes, done);
    notes.finish();
  } catch (const usage_error&) {
    throw;
  } catch (const std::runtime_error& e) {
    failed_load(base, notes, c).end(plain(e), done);
  }
  settle(base, c);
  if (notes.passed() != 0) {
    fmt::print("after {} loaded before: ", so_many(notes.passed(), "row"));
  }
  return done;
}

}  // namespace

void run_load(const std::filesystem::path& store, const load_request& r, const common& c) {
  // A new store that is made wholly or not at all has nothing that could be resumed.
  const bool in_place = is_store(store) || r.when_stopped == unfinished::resume;
  load_job job(r);
  const load_counts done =
      in_place ? into_old(store, job, r.when_stopped, c) : into_new(store, job, c);
  fmt::print("{}\n", summary(done));
}

}  // namespace tool
