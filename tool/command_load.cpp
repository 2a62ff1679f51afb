// SPDX-License-Identifier: Apache-2.0
// command_load.cpp: `spolia load`.
#include <fmt/format.h>

#include <cstdio>
#include <optional>
#include <stdexcept>

#include "commands.hpp"
#include "errors.hpp"
#include "store.hpp"

namespace tool {
namespace {

std::string summary(const load_counts& done) {
  std::string s = fmt::format("{} rows inserted", done.inserted);
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
  o.publish_status = false;
  {
    db::database base = open_to_write(folder.place(), o, c.show);
    job.run(base, done);
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

load_counts into_old(const std::filesystem::path& store, load_job& job, const common& c) {
  load_counts done;
  db::database base = open_to_write(store, c.chosen.store, c.show);
  try {
    job.run(base, done);
  } catch (const usage_error&) {
    throw;
  } catch (const std::runtime_error& e) {
    const std::string wrong = fmt::format("{} (before that: {}", plain(e), summary(done));
    try {
      settle(base, c);
    } catch (const std::runtime_error& why) {
      throw failure(fmt::format("{}, maybe not on the disk: {})", wrong, plain(why)));
    }
    throw failure(wrong + ")");
  }
  settle(base, c);
  return done;
}

}  // namespace

void run_load(const std::filesystem::path& store, const load_request& r, const common& c) {
  const bool old = is_store(store);
  load_job job(r);
  const load_counts done = old ? into_old(store, job, c) : into_new(store, job, c);
  fmt::print("{}\n", summary(done));
}

}  // namespace tool
