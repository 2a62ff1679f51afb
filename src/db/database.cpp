// SPDX-License-Identifier: Apache-2.0
// database.cpp: opening, the catalogue, figures.
#include <spolia/db/database.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <spolia/base/misuse.hpp>
#include <spolia/base/processors.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/base/unwind.hpp>

#include "db/at_work.hpp"
#include "db/catalog/catalog.hpp"
#include "db/engine.hpp"
#include "db/files/status_file.hpp"
#include "db/files/storage.hpp"
#include "db/log/journal.hpp"
#include "db/versions/large_memory.hpp"
#include "db/versions/storages.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

/// One for each processor, where there are partitions and bytes enough.
std::uint32_t stripes_for(const options& o) {
  std::uint64_t most = std::min<std::uint64_t>(processors(), o.most_partitions / 32);
  if (o.version_budget != 0) most = std::min(most, o.version_budget / (16 * delta_chunks::bytes));
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(most, 1, delta_lanes::most_stripes));
}

/// With a budget that is not much more than short turns take, turns are as long as they may be.
/// Short turns take 2.5 times the cache for each stripe, so 20 times at most. Below 64 times
/// that could be a third of the budget, or more. It is reasoned and not measured.
std::uint64_t cache_bytes_for(const options& o) {
  static_assert(5 * delta_lanes::most_stripes / 2 * 3 <= 64);
  const bool tight = o.version_budget != 0 && o.version_budget / 64 < o.partition_cache_bytes;
  return tight ? ~std::uint64_t{0} : o.partition_cache_bytes;
}

/// A commit that finds the budget used up may have to move a whole partition: so that is a small
/// part of the budget.
std::uint64_t partition_bytes_for(const options& o) {
  if (o.version_budget == 0) return o.partition_bytes;
  const std::uint64_t most = std::max<std::uint64_t>(o.version_budget / 128, delta_chunks::bytes);
  return std::min(o.partition_bytes, most);
}

delta_one_shot::options one_shot_options(const options& o) {
  if (o.most_partitions < 2 || o.most_partitions > 256) {
    throw std::invalid_argument("spolia::db: options::most_partitions is " +
                                std::to_string(o.most_partitions) + ": it is from 2 to 256");
  }
  if (o.partition_transactions == 0 || o.partition_bytes == 0) {
    throw std::invalid_argument(
        "spolia::db: options::partition_transactions and partition_bytes are 1 at least");
  }
  return {.transactions = o.partition_transactions,
          .partition_bytes = partition_bytes_for(o),
          .cache_bytes = cache_bytes_for(o),
          .stripes = stripes_for(o),
          .most_partitions = o.most_partitions,
          .budget = o.version_budget};
}

template <class Storage>
std::unique_ptr<delta> make(commit_board& board, const options& o) {
  if constexpr (std::is_base_of_v<delta_one_shot, Storage>) {
    return std::make_unique<Storage>(board, one_shot_options(o));
  } else if constexpr (requires { typename Storage::options; }) {
    return std::make_unique<Storage>(board, typename Storage::options());
  } else {
    return std::make_unique<Storage>(board);
  }
}
template <class... Storages>
struct makers_of {
  static constexpr std::array all{&make<Storages>...};
};

std::unique_ptr<delta> make_storage(commit_board& board, const options& o) {
  if (o.own_versions) {
    if (auto own = o.own_versions(board)) return own;
    throw std::invalid_argument("spolia::db: options::own_versions has returned no storage");
  }
  const auto which = static_cast<std::size_t>(o.versions);
  if (which >= version_storages().size()) {
    throw std::invalid_argument("spolia::db: options::versions is " + std::to_string(which) +
                                ", which is none of version_storages()");
  }
  const version_storage_info& chosen = info_of(o.versions);
  if (o.changes_only && chosen.keeps_whole_rows) {
    throw std::invalid_argument(
        "spolia::db: options::changes_only does not go with version_storage::" +
        std::string(chosen.name) +
        ", which needs versions that are whole rows: use another storage");
  }
  return every_storage<makers_of>::all[which](board, o);
}

/// What a copy waits for: there is one at a time, and each has a record of the log made; and the
/// program's sink may make what waits for the commit that asks.
constexpr unsigned waits_for_copies = at_work::copying | at_work::background | at_work::asking |
                                      at_work::writing | at_work::lengthening;

}  // namespace

std::span<const version_storage_info> version_storages() noexcept {
  return every_storage<infos_of>::all;
}

engine::engine(const options& o) : old(make_storage(board, o)), settings(o) {
  if (o.changes_only) old->keep_changes_only();
}

engine::~engine() {
  const uncancelled whole;
  if (files) files->end_background();  // a checkpoint, which is a reader, and shows how it went
  shown.reset();
  files.reset();
  if (process_ != ::getpid()) return;
  // In both variants: what comes later would read what is gone.
  board.for_each(sessions, [this](const session& s) {
    if (s.record == nullptr || !s.record->taken()) return;
    std::string what = "a database ends before a reader or transaction of it";
    if (const auto label = s.label.text()) what += ", which is called " + *label;
    // The thread that began it can tell where it is, and not the one that closes the database.
    std::uint32_t thread = threads::number();
    board.living.for_each([&](const census::entry& e) {
      if (e.label == s.label.mark()) thread = e.thread;
    });
    core::report_misuse(what.c_str(), thread);
  });
}

database::database(std::unique_ptr<engine> of) noexcept : engine_(std::move(of)) {}
database::database(database&&) noexcept = default;
database& database::operator=(database&& from) noexcept {
  if (this != &from) at_work::close(std::exchange(engine_, std::move(from.engine_)));
  return *this;
}
database::~database() { at_work::close(std::move(engine_)); }

database database::open(const options& o) {
  if (o.read_only) {
    throw std::invalid_argument(
        "spolia::db: a database in memory cannot be read_only, since there is nothing in it yet");
  }
  if (o.open == open_mode::must_exist) {
    throw std::invalid_argument(
        "spolia::db: options::open is must_exist, and a database in memory is always a new one: "
        "name a directory, or leave the option out");
  }
  auto made = std::make_unique<engine>(o);
  made->rows.limit(o.budget);
  return database(std::move(made));
}

table& database::create_table(const table_spec& spec) { return catalog(used()).create_table(spec); }

status database::create_index(table& t, const index_spec& spec) {
  return catalog(used()).create_index(t, spec);
}
status database::drop_index(table& t, std::string_view name) {
  return catalog(used()).drop_index(t, name);
}
status database::rename_table(table& t, std::string_view name) {
  return catalog(used()).rename_table(t, std::string(name));
}
status database::rename_table(std::string_view old_name, std::string_view new_name) {
  return catalog(used()).rename_table(find_table(old_name), std::string(new_name), old_name);
}
status database::drop_table(table& t) { return catalog(used()).drop_table(t); }

table* database::try_find_table(std::string_view name) const {
  const std::lock_guard hold(used().catalog_lock);
  table* const t = used().tables.named(name);
  // A name that it is about to get is not its own yet.
  return t != nullptr && t->when_.open() && t->name() == name ? t : nullptr;
}
table& database::find_table(std::string_view name) const {
  if (table* const t = try_find_table(name)) return *t;
  catalog::refuse_unknown(name);
}

// Openings, checkpoints and backups are no cancellation points: they have threads and files to end
// in destructors, which a cancelled thread cannot unwind through. What else waits for files, as
// commits do, says so where that is.

namespace {

/// What is said where the directory has no database is said where there is no directory, too.
[[noreturn]] void refuse_missing(const storage_error& e) {
  throw storage_error(e.file(), storage_error::nowhere,
                      "there is no database: there is no such directory. options::open is "
                      "must_exist, so none is made",
                      e.reason());
}

/// Whether that is why there is nothing to be opened in it.
bool is_missing(const std::filesystem::path& directory, const storage_error& e) {
  std::error_code none;
  return e.reason() == std::errc::no_such_file_or_directory &&
         (e.file() == directory || e.file() == std::filesystem::absolute(directory, none));
}

}  // namespace

database database::open(const std::filesystem::path& directory, const options& o) {
  const uncancelled whole;
  auto made = std::make_unique<engine>(o);
  made->read_only = o.read_only;
  try {
    made->files = std::make_unique<storage>(*made, directory, o);
  } catch (const storage_error& e) {
    if (o.open == open_mode::must_exist && is_missing(directory, e)) refuse_missing(e);
    throw;
  }
  made->log = made->files->log();
  made->rows.limit(o.budget);  // what was there is in
  if (o.publish_status && !o.read_only) {
    made->shown = std::make_unique<status_file>(*made, made->files->where());
  } else if (!o.read_only) {
    status_file::remove(made->files->where());
  }
  return database(std::move(made));
}

storage& database::files_of(engine& e) {
  if (e.files == nullptr) {
    throw std::invalid_argument(
        "spolia::db: the database is in memory only: it has no checkpoints, no backups and no "
        "report "
        "of its opening. One that database::open(directory) makes has them");
  }
  return *e.files;
}

status database::sync() {
  at_work::must_not_wait(used(), at_work::writing | at_work::lengthening, "sync()");
  if (used().log == nullptr || used().log->sync_and_look()) return outcome::ok;
  return used().log_refuses();
}

// What they call may close the database: it ends with `now` then, after all else.
checkpoint_report database::checkpoint(checkpoint_pace how) {
  const uncancelled whole;
  engine& of = used();
  at_work::must_not_wait(of, waits_for_copies, "checkpoint()");
  const at_work now(of, at_work::copying, "checkpoint()");
  return files_of(of).checkpoint(how);
}
resume_report database::resume() {
  const uncancelled whole;
  engine& of = used();
  at_work::must_not_wait(of, waits_for_copies, "resume()");
  const at_work now(of, at_work::copying, "resume()");
  resume_report report = files_of(of).resume();
  if (of.shown) of.shown->publish();
  return report;
}
backup_report database::backup(const std::filesystem::path& to) {
  const uncancelled whole;
  engine& of = used();
  at_work::must_not_wait(of, waits_for_copies, "backup()");
  const at_work now(of, at_work::copying, "backup()");
  return files_of(of).backup(to);
}
backup_report database::backup(const byte_sink& to) {
  engine& of = used();
  at_work::must_not_wait(of, waits_for_copies, "backup()");
  const at_work now(of, at_work::copying, "backup()");
  return files_of(of).backup(to);
}
verify_report database::verify(const verify_options& how) const {
  const uncancelled whole;
  engine& of = used();
  at_work::must_not_wait(of, waits_for_copies, "verify()");
  return files_of(of).verify(how);
}
void database::restore(const byte_source& from, const std::filesystem::path& directory,
                       const std::shared_ptr<storage_files>& files) {
  storage::restore(files != nullptr ? *files : *real_files(), from, directory);
}
const recovery_report& database::recovered() const { return files_of(used()).recovered(); }
std::string database::storage_failure() const {
  return used().files != nullptr ? used().files->failure() : std::string();
}
std::string database::checkpoint_failure() const {
  return used().files != nullptr ? used().files->checkpoint_failure() : std::string();
}

std::vector<table*> database::tables() const {
  const std::lock_guard hold(used().catalog_lock);
  std::vector<table*> all;
  for (const auto& [number, t] : used().tables.by_number()) {
    if (t->when_.open()) all.push_back(t);
  }
  return all;
}

transaction database::begin(std::string_view label) { return {used(), {}, label, 0}; }
transaction database::begin(const transaction_options& o) { return {used(), o, o.label, o.age}; }
transaction database::begin(const transaction_options& o, std::uint64_t age) {
  transaction made(used(), o, o.label, age);
  made.session_->by_transact.store_relaxed(true);
  return made;
}
reader database::snapshot(std::string_view label) const { return {used(), {}, label}; }
reader database::snapshot(const reader_options& o) const { return {used(), o, o.label}; }

void database::collect() {
  used().end_slow(nullptr, false);
  used().collect();
  count_tables();
  give_free_memory_back();
}

void engine::show_refusal() noexcept {
  if (shown) shown->after_commit();
}

void engine::collect() {
  cleaner.collect();  // first: versions of rows that it takes away can go then
  old->collect();
  values.collect();
  row_images::collect();
}

/// Counts what all indexes take; what all rows do.
std::uint64_t database::count_tables() const noexcept {
  std::uint64_t bytes = 0;
  const std::lock_guard hold(used().catalog_lock);
  used().tables.strip_gone();
  for (const auto& [number, t] : used().tables.by_number()) {
    t->count_indexes();
    bytes += t->parts_->bytes.load_relaxed();
  }
  return bytes;
}

void database::publish_status() noexcept {
  if (used().shown) used().shown->publish();
}

statistics engine::sums() const noexcept {
  statistics sum;
  board.for_each(sessions, [&](const session& s) {
    sum.commits += s.commits.value();
    sum.conflicts += s.conflicts.value();
    sum.limits += s.limits.value();
  });
  sum.ended_by_policy = ended_by_policy.load_relaxed();
  sum.storage_refusals = storage_refusals.load_relaxed();
  sum.cleaning = cleaner.waiting();
  sum.cleaning_bytes = cleaner.waiting_bytes();
  sum.work_bytes = work_bytes.load_relaxed();
  sum.index_bytes = index_bytes.load_relaxed();
  sum.versions = old->stats();
  sum.value_bytes = values.held();
  sum.value_bytes_waiting = values.waiting_bytes();
  if (files) files->fill(sum.log);
  return sum;
}

statistics database::stats() const noexcept {
  const std::uint64_t table_bytes = count_tables();
  statistics sum = used().sums();
  sum.table_bytes = table_bytes;
  return sum;
}

std::vector<reader_info> database::readers() const {
  std::vector<reader_info> all;
  std::map<std::uintptr_t, std::uint64_t> work;
  used().for_each_work([&](std::uintptr_t ticket, std::uint64_t bytes) { work[ticket] = bytes; });
  const std::uint64_t now = used().board.clock.now();
  const double ns = core::ns_per_tick();
  used().board.living.for_each([&](const census::entry& e) {
    if (e.label == nullptr) return;  // of a transaction that looks at another time for a moment
    const auto label = owned_label::of(e.label).text_at(e.timestamp);
    // Counters of two processors may differ by a little.
    const auto ticks = static_cast<std::int64_t>(ticks::read() - e.start_ticks);
    const double age = static_cast<double>(std::max<std::int64_t>(0, ticks)) * ns;
    reader_info r{.timestamp = e.timestamp,
                  .behind = now > e.timestamp ? now - e.timestamp : 0,
                  .label = label != nullptr ? *label : std::string(),
                  .thread = e.thread,
                  .os_thread = threads::os_id_of(e.thread),
                  .age = std::chrono::nanoseconds(static_cast<std::int64_t>(age))};
    if (const auto w = work.find(e.id); w != work.end()) r.work_bytes = w->second;
    all.push_back(std::move(r));
  });
  for (reader_info& r : all) r.thread_name = threads::os_name(r.os_thread);
  std::sort(all.begin(), all.end(),
            [](const reader_info& a, const reader_info& b) { return a.timestamp < b.timestamp; });
  // Of readers of one time, the first is told what hangs at them.
  const auto tell = [&](const auto& held, auto count, auto bytes) {
    auto r = all.begin();
    for (const auto& h : held) {
      r = std::lower_bound(r, all.end(), h.time, [](const reader_info& a, std::uint64_t time) {
        return a.timestamp < time;
      });
      if (r == all.end()) break;
      if (r->timestamp != h.time) continue;
      (*r).*count = h.count;
      (*r).*bytes = h.bytes;
    }
  };
  tell(used().cleaner.held(), &reader_info::held, &reader_info::held_bytes);
  tell(used().old->held(), &reader_info::held_versions, &reader_info::held_version_bytes);
  return all;
}

/// Random, so that two that met do not meet again; and at most twice as long each time. At least a
/// microsecond, so that a thread of a lower real-time priority gets on.
void database::pause(std::uint32_t tries, const retries& how) {
  if (tries < 3) {
    std::this_thread::yield();
    return;
  }
  const auto longest =
      std::min<std::uint64_t>(std::uint64_t{1} << std::min(tries, 20U),
                              static_cast<std::uint64_t>(how.longest_pause.count()));
  const std::uint64_t mixed = ticks::read() * 0x9E3779B97F4A7C15U >> 33U;
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::max<std::uint64_t>(1, mixed % (longest + 1))));
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
