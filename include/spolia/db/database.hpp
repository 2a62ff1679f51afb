// SPDX-License-Identifier: Apache-2.0
// database.hpp: an in-memory transactional database inside a program. docs/db.md is the guide.
//
//     auto bank = spolia::db::database::open();
//     auto& accounts = bank.create_table({.name = "accounts",
//                                         .columns = {{"id", int64, primary_key}, {"balance",
//                                         int64}}});
//     const auto balance = accounts.column<std::int64_t>("balance");
//     auto done = bank.transact([&](spolia::db::transaction& tx) -> spolia::db::status {
//       auto from = tx.edit(accounts, {1});
//       if (!from) return from.why();
//       return from->set(balance, from->get(balance) - 10);
//     });
//
// Threads:     any thread may call everything at any time, also create_table while transactions
//              run. Transactions and readers must end before the database does; they go on when it
//              is moved. A database object that was moved from can only be assigned to, or
//              destroyed. The checked build variant reports both mistakes. The native one reports
//              the first, and ends the process.
// Errors:      result.hpp.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/durability.hpp>
#include <spolia/db/files.hpp>
#include <spolia/db/result.hpp>
#include <spolia/db/schema.hpp>
#include <spolia/db/table.hpp>
#include <spolia/db/transaction.hpp>
#include <spolia/db/version_storage.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The reader or transaction that options::on_slow_reader is asked about.
struct slow_reader {
  std::uint64_t timestamp = 0;
  std::uint64_t behind = 0;   ///< commits since it began
  std::string label{};        ///< as given; empty: none
  std::uint32_t thread = 0;   ///< Spolia's number of the thread that began it
  long os_thread = 0;         ///< the system's number of that thread; 0 if it is not known
  std::string thread_name{};  ///< the system's name of it; empty if it is not known
  std::chrono::nanoseconds age{0};
  /// Bytes of all that is kept for snapshots: old versions, out-of-line values that only these
  /// have, deleted rows, index entries.
  std::uint64_t version_bytes = 0;
  std::uint64_t held = 0;  ///< deleted rows and index entries that wait for this one
  /// Which are of version_bytes; and all that tables and indexes have that were dropped.
  std::uint64_t held_bytes = 0;
};
enum class slow_reader_action : std::uint8_t {
  leave,
  end  ///< its next operation is outcome::ended_by_policy
};

/// Whether database::open() of a directory makes a database. If it must not do what it would have
/// to, it throws a storage_error that names the directory, and nothing in it has changed.
enum class open_mode : std::uint8_t {
  create_if_missing,  ///< opens the one that is there, or makes one, and the directory
  must_exist,         ///< makes none: so a mistyped name does not become an empty database
  must_be_new         ///< opens none that is there
};

struct options {
  version_storage versions = version_storage::one_shot_evacuated;
  /// Makes a version storage of your own, which is used instead of `versions`: delta.hpp says what
  /// it must do. It is destroyed before the board.
  std::function<std::unique_ptr<delta>(commit_board&)> own_versions{};
  /// Versions hold the columns that were changed, not the whole row: there is less to write and to
  /// keep, and more to do for a reader of an old one. Not for storages that keep whole rows, as the
  /// default does: keeps_whole_rows().
  bool changes_only = false;
  /// Bytes of what is kept for snapshots: old versions, replaced out-of-line values, deleted rows
  /// and index entries that wait (statistics::cleaning_bytes); 0: no limit. If the versions of a
  /// commit do not fit even after everything that can be was collected, the commit is refused with
  /// outcome::limit. Reads and insertions go on. So do commits that only delete rows: they have a
  /// reserve of their own beyond the budget, a quarter of it, and at least 512 KiB.
  std::uint64_t version_budget = 0;
  /// Bytes of rows, variable texts, blobs, indexes, what is kept for snapshots, and what
  /// transactions work with; 0: no limit. An insertion that needs more room for rows is refused
  /// with outcome::limit. So is a variable text or blob that does not fit, and a call for which the
  /// transaction needs more memory to work with than there is. (In a serializable one that may also
  /// be find(); a scan throws a no_result.) The transaction goes on. Deleted rows make room. Before
  /// a refusal, readers whose time is over are ended, on_slow_reader is asked, and all that can be
  /// is collected: at most every 10 ms, and whenever the time of a reader is over. version_budget,
  /// but at most half of this budget, is set aside: so rows can be changed when there is no room
  /// for more of them. With a version_budget of half or less, resident memory grows at most to this
  /// budget plus a tenth of it plus 16 MB.
  std::uint64_t budget = 0;
  /// Commits ask it, on their threads, about the oldest reader or transaction but their own, when
  /// their versions do not fit. Unless slow_after is 0, they also ask about each one that has lived
  /// for `slow_after`, and again after as long. Insertions and changes ask it when `budget` has no
  /// room for them, and commits while that is used up and a sixteenth of it is kept for snapshots.
  /// For want of room in either budget, all threads together ask it at most every 10 ms, and again
  /// at once when it has said `end`; what is refused in between is refused without asking. It must
  /// not use the reader or transaction that asks. If it calls create_index, drop_index, drop_table,
  /// rename_table, checkpoint, backup, resume or verify, these throw std::invalid_argument: they
  /// may wait for the commit that asks. What it throws comes out of commit(), which then has not
  /// happened, or out of the change; the transaction goes on.
  std::function<slow_reader_action(const slow_reader&)> on_slow_reader{};
  std::chrono::nanoseconds slow_after{0};
  /// One-shot: how many transactions share a partition, and when it is full. With a version_budget
  /// it is full at the latest when it has a 128th of that, or 128 KiB.
  std::uint32_t partition_transactions = 1024;
  std::uint64_t partition_bytes = 4U << 20U;
  /// One-shot: while few partitions are in use, allocation periods are so short that the partitions
  /// which a processor writes again and again take so many bytes together. About the size of its
  /// second cache is good: then they stay there.
  std::uint64_t partition_cache_bytes = 1U << 20U;
  /// One-shot: partitions at most, from 2 to 256.
  std::uint32_t most_partitions = 256;
  /// The kind of all hash indexes. It is in no file: each opening may choose another one.
  hash_kind hash_indexes = hash_kind::probing;

  // Of a database in a directory:

  /// With read_only no database is made in any case, and must_be_new is refused.
  open_mode open = open_mode::create_if_missing;
  durability_level durability = durability_level::sync;
  /// transaction_options::durable_reads for all transactions.
  bool durable_reads = false;
  /// durability_level::async: what was acknowledged is on its way to the disk after so long. A
  /// millisecond at least; more than 24 hours count as 24.
  std::chrono::milliseconds loss_window{10};
  /// The size of the log's segments, about.
  std::uint64_t segment_bytes = 64U << 20U;
  /// So many bytes of log start a checkpoint, on a thread that lives for as long as the checkpoint
  /// takes; 0: never.
  std::uint64_t checkpoint_log_bytes = 256U << 20U;
  /// How much of one processor a checkpoint or a backup may take, in per cent, while others commit
  /// and their versions take at most half of their budget.
  std::uint32_t checkpoint_share = 15;
  /// Nothing is changed, neither rows nor files: transactions may change rows for themselves, and
  /// their commit() returns outcome::read_only. In memory: std::invalid_argument.
  bool read_only = false;
  /// With read_only: also where another process has the directory, or takes it meanwhile. Shows the
  /// database as it was at a moment of the opening: all that was durable when that began. Nothing
  /// that a loss of power could take back is shown, but where it cannot be synced: then
  /// recovered().notes says so. The other process is neither stopped nor kept from opening; the
  /// files that are read stay, on the disk too, until this one is closed.
  bool attach = false;
  /// Threads that put rows in place while it is opened; 0: as many as there are processors, 16 at
  /// most. More than 64 count as 64.
  std::uint32_t recovery_threads = 0;
  /// Called while it is opened, by the thread that does so.
  recovery_listener on_recovery{};
  /// The files that it uses; null: the system's.
  std::shared_ptr<storage_files> files{};
  /// True: the directory is opened even where the file system has no locks, and nothing else can
  /// tell whether another process has it. Two processes that have it at one time destroy it, so the
  /// caller must make sure that there is only one.
  bool allow_without_lock = false;
  /// Lets other processes see what the database does: store_status.hpp. Not if it is read_only, nor
  /// if it is in memory.
  bool publish_status = false;
};

/// For transact(): how often to try, how long to wait in between at most, and what kind of
/// transaction to begin.
///
/// Pauses are random, and each is at most twice as long as the one before. So a transaction waits
/// in proportion to how long it has waited already. The longest pause matters where hundreds of
/// threads want one row: if all of them try again more often than the processors can serve, the
/// thread that has the row hardly runs.
struct retries {
  std::uint32_t tries = 1000;
  std::chrono::microseconds longest_pause{100000};
  transaction_options begin{};
  /// Null, or where transact() writes the time of its commit when it returns, as
  /// transaction::commit_time() has it; 0 if there was no commit, or if it throws. So a program
  /// knows which commit is in doubt.
  std::uint64_t* commit_time = nullptr;
};

/// Sums over all threads; approximate while these work.
struct statistics {
  std::uint64_t commits = 0;          ///< of transactions that changed something
  std::uint64_t conflicts = 0;        ///< transactions that gave up
  std::uint64_t ended_by_policy = 0;  ///< readers and transactions
  /// Commits that ended in outcome::limit, whatever had no room, and insertions and other changes
  /// that were refused with it while the transaction went on. Not look-ups, scans, create_index.
  std::uint64_t limits = 0;
  /// Commits that ended in outcome::storage_failed: database::storage_failure() says why the last
  /// one did.
  std::uint64_t storage_refusals = 0;
  std::uint64_t table_bytes = 0;
  std::uint64_t value_bytes = 0;          ///< of variable texts and blobs
  std::uint64_t value_bytes_waiting = 0;  ///< of these, in no row any more: old snapshots see them
  std::uint64_t index_bytes = 0;          ///< with what waits: entries, indexes that were dropped
  /// Deleted rows and index entries that wait until no snapshot sees them.
  std::uint64_t cleaning = 0;
  /// Of these rows, of entries in graveyards, and of clean-up records.
  std::uint64_t cleaning_bytes = 0;
  /// What readers and transactions work with (reader_info::work_bytes), and what is kept of it for
  /// the next ones.
  std::uint64_t work_bytes = 0;
  delta_stats versions{};
  log_stats log{};

  /// Of rows, their out-of-line values, and indexes.
  [[nodiscard]] std::uint64_t data_bytes() const noexcept {
    return table_bytes + value_bytes + index_bytes;
  }
};

/// An open reader or transaction, which holds versions.
struct reader_info {
  std::uint64_t timestamp = 0;
  std::uint64_t behind = 0;   ///< commits since it began
  std::string label{};        ///< as given; empty: none
  std::uint32_t thread = 0;   ///< Spolia's number of the thread that began it
  long os_thread = 0;         ///< the system's number of that thread; 0 if it is not known
  std::string thread_name{};  ///< the system's name of it; empty if it is not known
  std::chrono::nanoseconds age{0};
  /// Deleted rows and index entries that wait for it, and tables and indexes that were dropped.
  /// What several of them need is counted for one.
  std::uint64_t held = 0;
  std::uint64_t held_bytes = 0;
  /// Old versions that were moved out of partitions for it (version_storage::one_shot_evacuated;
  /// the other storages do not know). Versions that several snapshots see count for one of them.
  std::uint64_t held_versions = 0;
  std::uint64_t held_version_bytes = 0;
  /// Bytes that it works with: rows that it has locked, with their new values, and what savepoints
  /// need of them; the clean-up records of its index entries; if it is serializable, notes of what
  /// it has read. Room that an ended transaction has left to it counts, too.
  std::uint64_t work_bytes = 0;
};

class storage;

/// What database::transact() returns for a function that returns an R.
template <class R>
struct transacted_as {
  static_assert(!std::same_as<R, row> && !std::same_as<R, editor> && !std::same_as<R, savepoint> &&
                    !std::same_as<R, std::string_view> && !std::same_as<R, blob_view> &&
                    !std::same_as<R, value>,
                "spolia::db: a function of transact() returns what is gone with the transaction: "
                "return the numbers that are needed, and texts as std::string");
  using type = result<R>;
};
template <class T>
struct transacted_as<result<T>> : transacted_as<T> {};
template <>
struct transacted_as<status> {
  using type = status;
};
template <>
struct transacted_as<outcome> : transacted_as<status> {};
template <>
struct transacted_as<put_status> : transacted_as<status> {};
template <>
struct transacted_as<void> : transacted_as<status> {};
template <class F>
using transacted =
    typename transacted_as<std::remove_cvref_t<std::invoke_result_t<F&, transaction&>>>::type;

class SPOLIA_EXPORT database {
 public:
  /// An empty database in memory. Throws std::invalid_argument, also for open_mode::must_exist;
  /// std::bad_alloc.
  static database open(const options& o = {});
  /// Opens the database in a directory, with all that was committed to it. Makes it if it does not
  /// exist, unless options::open says otherwise. No other process, and no other database object,
  /// can open it meanwhile, unless all open it read_only. Throws storage_error,
  /// std::invalid_argument, std::bad_alloc.
  static database open(const std::filesystem::path& directory, const options& o = {});
  database(database&&) noexcept;
  database& operator=(database&&) noexcept;
  ~database();

  /// Throws std::invalid_argument if the name is taken or the columns make no sense; in a
  /// directory, storage_error if the log fails: then there is no table.
  table& create_table(const table_spec& spec);
  // These run beside transactions; docs/reference/store-catalogue.md says what transactions see.
  // outcome::dropped: the table was dropped before. In a directory they are durable when they
  // return ok, also with durability_level::async; with none the next checkpoint() has them.
  // storage_failed: the log has failed or has no room, and nothing was changed.
  // std::invalid_argument: the database was opened to be read, the table is another database's, or
  // it is on_slow_reader that calls.

  /// Builds an index over what is in the table. duplicate_key: the index was to be unique, and two
  /// rows have the same key; limit: options::budget has no room for it. In both cases there is no
  /// index. Throws std::invalid_argument if the name is taken or the columns make no sense.
  status create_index(table& t, const index_spec& spec);
  /// From then on a scan of it throws outcome::dropped, unless its snapshot is older. Throws
  /// std::invalid_argument if there is none.
  status drop_index(table& t, std::string_view name);
  /// Drops the table; its name can be taken again. Older snapshots see its rows, which go when the
  /// last of them has ended. The table& stays good to ask for its name.
  status drop_table(table& t);
  /// Gives the table another name; the table& stays good, and so do columns, readers and
  /// transactions that use it, which need not be tried again. find_table() finds it by the new name
  /// when this returns ok, and then another table can have the old one. If the table has the name
  /// already, nothing is done. Throws std::invalid_argument if another table has it, or if it is
  /// empty or longer than 65535 bytes: nothing has changed. Nothing of the old name stays.
  status rename_table(table& t, std::string_view name);
  /// The same; throws std::invalid_argument if there is no table with the old name.
  status rename_table(std::string_view old_name, std::string_view new_name);
  /// Throws std::invalid_argument if there is none.
  [[nodiscard]] table& find_table(std::string_view name) const;
  /// Null if there is none. Constant time, as find_table().
  [[nodiscard]] table* try_find_table(std::string_view name) const;
  /// All, in the order in which they were made.
  [[nodiscard]] std::vector<table*> tables() const;

  /// A transaction that the caller commits. The label, which is copied, shows in readers().
  [[nodiscard]] transaction begin(std::string_view label = {});
  [[nodiscard]] transaction begin(const char* label) { return begin(text_of(label)); }
  [[nodiscard]] transaction begin(const transaction_options& o);
  /// A consistent view of all tables, until it goes.
  [[nodiscard]] reader snapshot(std::string_view label = {}) const;
  [[nodiscard]] reader snapshot(const char* label) const { return snapshot(text_of(label)); }
  [[nodiscard]] reader snapshot(const reader_options& o) const;

  /// Runs f(transaction&) and commits, again and again while it ends in a conflict, with growing
  /// pauses. f returns a status or nothing: this returns a status. Or f returns a T, or a
  /// result<T>: then this returns a result<T>, which has f's T if that was committed. An f that
  /// returns nothing or a T commits whatever its calls said, unless one has ended the transaction:
  /// an f with several changes returns a status. If what f returns is not ok, nothing is committed:
  /// refused() is for reasons of the program's own, and is not tried again. What f throws comes
  /// out, after a rollback. One exception does not: a no_result that says conflict or
  /// schema_changed, or that comes after a conflict, as from a scan that f begins then. It is as if
  /// f had returned that outcome, which is tried again. If f itself ends the transaction, by
  /// commit() or rollback(), and returns ok, the result is outcome::ended; what f has done stays
  /// done.
  /// A T that refers to the ended transaction, as rows, editors and views of texts do, does not
  /// compile. Inside another type, such as an optional or a vector, or as a const char*, it
  /// compiles, and must not be used.
  template <std::invocable<transaction&> F>
  transacted<F> transact(F&& f, const retries& how = {});

  /// Lets go of all versions, rows and index entries that no snapshot needs now. Commits do that
  /// anyway, a little at a time.
  /// Also makes the allocator give unused memory back to the system: glibc's, or a shared library
  /// of jemalloc, tcmalloc or mimalloc. That may walk over all memory of the process, and
  /// allocations of other threads wait now and then.
  /// Also ends readers whose time is over. Throws what on_slow_reader throws.
  void collect();
  [[nodiscard]] statistics stats() const noexcept;
  /// The open readers and transactions: how long each has been open, and what waits for it. Waits
  /// for a thread that cleans up. Throws std::bad_alloc.
  [[nodiscard]] std::vector<reader_info> readers() const;

  // Of a database in a directory; docs/durability.md. Those that return a report throw
  // storage_error, std::bad_alloc, and std::invalid_argument for a database that is only in memory.

  /// Waits until all that was committed before is durable. Also right for what a reader has seen; a
  /// transaction can ask for that with transaction_options::durable_reads. storage_failed: the log
  /// has failed, or its directory does not have it any more, which is looked at each time. Throws
  /// std::invalid_argument out of a layer of files that the log writes through.
  status sync();
  /// Writes all rows as of now into a file, while all other threads go on; then removes the log
  /// that is not needed any more. Throws std::invalid_argument also if the database was opened to
  /// be read; and, as backup() does, out of on_slow_reader, out of a sink of backup() and out of a
  /// layer of files.
  checkpoint_report checkpoint(checkpoint_pace how = checkpoint_pace::shared);
  /// After a write or a sync of the log has failed (stats().log.failed): writes all that memory
  /// shows into a checkpoint, begins another segment of the log, and lets commits go on when both
  /// are durable. What has failed is not tried again: the files that it was about are left, and
  /// removed then. While this runs, all can be read, commits end in storage_failed as before, and
  /// changes of tables and indexes wait. Throws storage_error or std::bad_alloc if it cannot be
  /// done: then the log has failed as it had, and it can be called again. Does nothing if the log
  /// has not failed. Throws std::invalid_argument where there is no log, and where checkpoint()
  /// does.
  resume_report resume();
  /// Writes a copy as of now into another directory, while all other threads go on. The copy can be
  /// opened like any database. If an earlier copy is there, adds what was logged since. When the
  /// log has failed (stats().log.failed), the copy goes to a new directory, or an empty one, has
  /// all that memory shows, and is a database of its own: backup_report::apart.
  backup_report backup(const std::filesystem::path& to);
  /// The same as a stream of bytes, which restore() makes a database of. Out of `to`, checkpoint(),
  /// backup(), resume() and verify() of this database throw std::invalid_argument; if it closes the
  /// database, that ends when this returns.
  backup_report backup(const byte_sink& to);
  /// Makes a database in a directory that has none of what backup() has given. Whether it was whole
  /// tells the opening of the database. Null: the system's files. Throws storage_error.
  static void restore(const byte_source& from, const std::filesystem::path& directory,
                      const std::shared_ptr<storage_files>& files = nullptr);
  /// Compares what memory shows at one snapshot with what an opening would make of the files, while
  /// all other threads go on: tables with their numbers, columns and indexes; rows by their keys,
  /// both ways; and whether memory's indexes lead to all rows. It makes durable what was committed
  /// before it was called, opens the files that lead up to there, and reads them into a second
  /// copy of the database; checkpoints and backups wait only until the files are open. The copy
  /// takes as much memory as tables and indexes do, beside options::budget, and for a while the
  /// distinct keys of one hash index; the report is bounded. Takes a processor for as long as an
  /// opening, and two look-ups for each row and index entry. The snapshot holds versions meanwhile
  /// as that of any reader does. Several threads may call it at once.
  /// Throws storage_error for files that an opening would refuse, and if the log has failed;
  /// no_result with outcome::ended_by_policy if its snapshot was ended; std::bad_alloc; and
  /// std::invalid_argument for a database that is only in memory, or has durability_level::none,
  /// and where checkpoint() does. A database that is read_only is compared with the files that it
  /// was read from.
  /// In brackets, since <AssertMacros.h> of macOS makes a macro of this name with one argument.
  [[nodiscard]] verify_report(verify)(const verify_options& how = {}) const;
  /// What opening it has found.
  [[nodiscard]] const recovery_report& recovered() const;
  /// Shows what it does now, if options::publish_status was set. Commits do so now and then.
  void publish_status() noexcept;
  /// Why commits end in storage_failed; empty: all is well. If stats().log.failed, nothing is
  /// acknowledged until resume() has returned; else there was no room in the log for the last
  /// record that needed more than it had, and that is tried again by each such commit.
  [[nodiscard]] std::string storage_failure() const;
  /// Why the last checkpoint that the length of the log has started did not succeed; empty: it did.
  [[nodiscard]] std::string checkpoint_failure() const;

 private:
  explicit database(std::unique_ptr<engine> of) noexcept;
  /// For transact(): of that age, whatever the options say.
  [[nodiscard]] transaction begin(const transaction_options& o, std::uint64_t age);
  /// A null is none.
  static std::string_view text_of(const char* label) noexcept {
    return label != nullptr ? std::string_view(label) : std::string_view();
  }
  static bool try_again(outcome o) noexcept {
    return o == outcome::conflict || o == outcome::schema_changed;
  }
  static void pause(std::uint32_t tries, const retries& how);
  template <class F>
  static status try_once(F& f, transaction& tx);
  template <class F>
  status try_until_done(F& f, const retries& how);
  std::uint64_t count_tables() const noexcept;
  static storage& files_of(engine& e);
  [[nodiscard]] engine& used() const noexcept {
    if (SPOLIA_CHECKS && engine_ == nullptr) {
      misuse::report("a database is used that was moved from", threads::number());
    }
    return *engine_;
  }

  std::unique_ptr<engine> engine_;
};

/// Runs f, which returns a status, and commits.
template <class F>
status database::try_once(F& f, transaction& tx) {
  const status s = [&]() -> status {
    try {
      return f(tx);
    } catch (const no_result& e) {
      if (try_again(tx.state_.code())) return tx.state_;
      // The same as if f had returned it: it may be another transaction's, or f's own.
      if (try_again(e.code())) return e.why();
      throw;
    }
  }();
  // A function that overlooks a conflict must not commit half of the work.
  if (try_again(tx.state_.code())) return tx.state_;
  return s ? tx.commit() : s;
}

template <class F>
status database::try_until_done(F& f, const retries& how) {
  std::uint64_t age = how.begin.age;
  if (how.commit_time != nullptr) *how.commit_time = 0;
  for (std::uint32_t n = 1;; ++n) {
    status s = [&] {
      transaction tx = begin(how.begin, age);
      age = tx.age();  // so that each becomes the oldest at some time
      status done = try_once(f, tx);
      if (how.commit_time != nullptr) *how.commit_time = tx.commit_time();
      return done;
    }();
    if (!try_again(s.code()) || n >= how.tries) return s;
    pause(n, how);
  }
}

template <std::invocable<transaction&> F>
transacted<F> database::transact(F&& f, const retries& how) {
  using returned = std::remove_cvref_t<std::invoke_result_t<F&, transaction&>>;
  if constexpr (std::is_void_v<returned>) {
    const auto run = [&](transaction& tx) -> status {
      f(tx);
      return outcome::ok;
    };
    return try_until_done(run, how);
  } else if constexpr (std::same_as<transacted<F>, status>) {
    return try_until_done(f, how);
  } else {
    transacted<F> made = outcome::ended;
    const auto run = [&](transaction& tx) -> status {
      made = f(tx);
      return made ? status() : made.why();
    };
    if (status s = try_until_done(run, how); !s) return s;
    return made;
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
