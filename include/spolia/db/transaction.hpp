// SPDX-License-Identifier: Apache-2.0
// transaction.hpp: snapshots of a database, and transactions that change it.
//
// Isolation:   snapshot isolation, unless a transaction asks for more. It sees what was committed
//              when it began, and its own changes. Of two transactions that change the same row at
//              the same time, the first to lock it wins. A transaction gives up if it would change
//              a row that was committed after its snapshot. Write skew is possible, as snapshot
//              isolation allows it: call lock() for rows that are only read. A reader never gives
//              up, never waits, and makes no other thread wait.
// Serializable: a serializable transaction gives up at commit if anything was changed since its
//              snapshot that it has read, looked for without success, or found by a scan.
//              Serializable transactions happen as if one after the other, in the order of their
//              commits, and each snapshot sees a moment between two of them. So one that changes
//              nothing is a snapshot, and never gives up. Transactions under snapshot isolation are
//              seen whole, but may rest on what a serializable one has changed meanwhile.
// Locks:       a row is locked by its first change, until the transaction ends. A transaction that
//              meets a lock gives up at once (no-wait), or, if it was begun so, waits for younger
//              transactions (row_lock.hpp): there are no deadlocks. One that had to wait for the
//              first thing it asked for takes its snapshot after the wait, so that it did not wait
//              for nothing.
// Changes:     lie in the transaction until commit, and are then put in place: see row.hpp and
//              commit.hpp. A snapshot begun after commit() has returned sees them.
// Guards:      each lookup takes one for as long as it runs in an index. None is held while the
//              program's code runs. What holds versions is the announced timestamp alone.
// Scans:       a scan shows what was there when it began, each row once. It shows changes that the
//              transaction made before, and none that the scan's function makes or undoes. In that
//              function find(), and a scan that begins there, see the newest state.
// Rows:        a row that find() or lock() returns has its own memory, as wide as the columns from
//              the first to the last that was asked for, and stays as long as it or a copy of it
//              lives. Its texts and blobs without a stated size stay until the transaction ends;
//              where others may end the transaction, they stay as long as the row. From a row that
//              is gone with its expression, texts and blobs are copied: owned.hpp. What edit()
//              returns stays until the transaction ends; what a scan shows, until its function
//              returns.
// Memory:      the rows that find() and lock() have returned take at most three times the memory of
//              those that are still alive, and four rows more.
// Threads:     one thread at a time uses a transaction; it may be handed to another with a
//              happens-before edge. The checked build variant names two threads that are in one at
//              the same time.
// Moves:       a reader or transaction may be moved; its editors and queries stay with it, wherever
//              the object is. One that was moved from is as if it had ended. Do not move it or
//              assign to it while a scan, a query or on_slow_reader that it has called runs: the
//              checked build variant names the mistake, and nothing happens.
// Errors:      result.hpp. std::bad_alloc out of a change or out of commit() has rolled the
//              transaction back.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/db/result.hpp>
#include <spolia/db/row.hpp>
#include <spolia/db/row_view.hpp>
#include <spolia/db/schema.hpp>
#include <spolia/db/table.hpp>
#include <spolia/db/transaction_options.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class engine;
class catalog;
class query;
class query_run;
class transaction;
class commit_record;
struct session;
struct pending_write;
struct level_mark;
class note;
struct range_read;
struct value_block;

/// A moment of a transaction.
class savepoint {
  friend class transaction;
  std::size_t number_ = 0;
  std::uint64_t id_ = 0;
};

/// A consistent view of the whole database, for as long as you like.
class SPOLIA_EXPORT reader {
 public:
  reader(reader&& from) noexcept;
  /// Ends the reader that is assigned to.
  reader& operator=(reader&& from) noexcept;
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;
  // A transaction is no reader that could be without its changes.
  reader(transaction&&) = delete;
  reader& operator=(transaction&&) = delete;
  ~reader();

  [[nodiscard]] std::uint64_t timestamp() const noexcept { return ticket_.timestamp(); }
  /// Whether its time is over, or the program has ended it. Then find() gives
  /// outcome::ended_by_policy, and scans throw a no_result with that; what they have shown before
  /// is right, but not all.
  [[nodiscard]] bool ended() const noexcept;

  // With a selection (table::select), here and in scans, only its columns are read, and a row shows
  // no others.

  /// The row with this primary key.
  result<row> find(const table& t, values key, const selection& only = {}) const;
  result<row> find(const table& t, std::initializer_list<argument> key,
                   const selection& only = {}) const {
    return find(t, values(key.begin(), key.size()), only);
  }
  /// Of a key that has one column: the same as {key}, here and below.
  template <single_value V>
  result<row> find(const table& t, const V& key, const selection& only = {}) const {
    return find(t, {key}, only);
  }
  /// All rows, in no particular order. `f` returns nothing, or false to stop. What it throws ends
  /// the scan, and the transaction goes on. In a transaction f may change rows, also of this table,
  /// and lead back to a savepoint: this and all scans show what was there when they began. f may
  /// end the transaction, which ends the scan and the row that is shown; the transaction object
  /// must stay until the scan returns. A serializable transaction counts as having read what was
  /// shown if f stops the scan, and else all rows. In a transaction that has ended, this and all
  /// scans throw a no_result with what transaction::state() says.
  template <class F>
  void for_each(const table& t, F&& f, const selection& only = {}) const {
    scan_table(t, visitor(f), only);
  }
  /// The rows whose key is from `from` to `to`, both included, in ascending order of keys. Either
  /// may have fewer columns than the key: then all rows whose key begins with them are included.
  /// With no columns it sets no limit. With key_after(...) as `from`, or key_before(...) as `to`,
  /// all that begin so are left out. Needs an ordered primary key, or a secondary index; of a hash
  /// index, both are one whole key, and its rows come in no particular order. Throws
  /// std::invalid_argument where the index cannot do that, and where key_after() is an end, or
  /// key_before() a begin.
  template <class F>
  void scan(const table& t, const key_bound& from, const key_bound& to, F&& f,
            const selection& only = {}) const {
    scan_primary(t, from, to, {direction::up, only}, visitor(f));
  }
  template <class F>
  void scan(const secondary& i, const key_bound& from, const key_bound& to, F&& f,
            const selection& only = {}) const {
    scan_secondary(i, from, to, {direction::up, only}, visitor(f));
  }
  /// The same rows, in descending order.
  template <class F>
  void scan_down(const table& t, const key_bound& from, const key_bound& to, F&& f,
                 const selection& only = {}) const {
    scan_primary(t, from, to, {direction::down, only}, visitor(f));
  }
  template <class F>
  void scan_down(const secondary& i, const key_bound& from, const key_bound& to, F&& f,
                 const selection& only = {}) const {
    scan_secondary(i, from, to, {direction::down, only}, visitor(f));
  }
  /// Filters, sums and groups over the table, by several threads: query.hpp.
  [[nodiscard]] db::query query(const table& t) const;

 protected:
  friend class engine;
  friend class database;
  friend class query_run;
  friend class storage;
  friend class catalog;
  friend class query;
  enum class direction : std::uint8_t { up, down };
  struct scan_how {
    direction way;
    const selection& only;
  };
  reader(engine& of, std::string_view label);
  reader(engine& of, const reader_options& o, std::string_view label);
  /// Takes everything over, where both are of one kind; else this one has ended.
  reader(reader& from, bool is_transaction) noexcept;

  /// While it lives, what the snapshot sees stays. For everything that reads versions.
  class step {
   public:
    explicit step(const reader& of) noexcept;
    ~step();
    step(const step&) = delete;
    step& operator=(const step&) = delete;
    /// False: the reader was ended.
    explicit operator bool() const noexcept { return open_; }

   private:
    const reader& of_;
    bool open_ = true;
  };
  /// While it lives, no other thread works with this one.
  class alone;
  /// Room for a row's image that is needed no longer than this lives.
  class short_image;
  /// While it lives, a scan runs: reading with its level passes over what was changed since.
  class scanning;
  /// What a scan has shown, for a serializable transaction.
  class scan_note;
  static constexpr std::uint32_t newest = ~std::uint32_t{0};
  /// Throws no_result if it is ended.
  void must_go_on(bool open) const {
    if (!open) [[unlikely]]
      refuse_to_go_on();
  }
  [[noreturn]] void refuse_to_go_on() const;
  /// Why find() has not looked.
  [[nodiscard]] result<row> find_nothing(const table& t, outcome why) const;
  /// Of a transaction, how it has ended, which each later call returns.
  [[nodiscard]] status how_ended() const noexcept;
  /// The table's part in it.
  [[nodiscard]] status said_of(const table& t, outcome why) const noexcept;
  void be_limited(std::chrono::nanoseconds deadline);

  template <class F>
  static row_visitor visitor(F& f) {
    return [&f](const row& r) { return detail::shown_to(f, r); };
  }
  [[nodiscard]] bool is_old() const noexcept;
  void fetch_versions(const table& t, std::span<const std::uint64_t> row_slots) const;
  void scan_table(const table& t, const row_visitor& f, const selection& only = {}) const;
  void scan_primary(const table& t, const key_bound& from, const key_bound& to, const scan_how& how,
                    const row_visitor& f) const;
  void scan_secondary(const secondary& i, const key_bound& from, const key_bound& to,
                      const scan_how& how, const row_visitor& f) const;
  struct index_range;
  /// Where a scan of an ordered index begins, and what it passes over before its first row.
  class passing;
  template <class Entries, class IsOf>
  void show_entries(const Entries& entries, const index_range& of, const row_visitor& f,
                    IsOf&& is_of) const;
  column_set columns_of(const table& t, const selection& only) const;
  void must_be_open() const;
  void must_exist(const table& t) const;
  /// For a table, or one with an index, that may be younger than the snapshot, or have ended.
  [[nodiscard]] outcome enter(const table& t) const;
  [[nodiscard]] bool is_elder_in(const table& t) const noexcept;
  void leave_younger() const noexcept;
  void must_serve(const secondary& i) const;
  void must_have_own_changes(const secondary& i) const;
  /// Columns of the row in the slot, own changes from before this level first; its shape, 0 if
  /// there is none.
  std::uint64_t read(const table& t, std::uint64_t slot, const column_set& wanted,
                     std::uint64_t* out, std::uint32_t level = newest) const;
  row row_in(const table& t, std::uint64_t slot, const column_set& wanted, column_span part) const;
  row row_with_values(const table& t, std::uint64_t slot, const column_set& wanted,
                      column_span part) const;
  result<row> find_buried(const table& t, const key_words& wanted, const selection& only) const;
  std::uint64_t read_step(const table& t, std::uint64_t slot, const column_set& wanted,
                          std::uint64_t* out, std::uint32_t level = newest) const;
  [[nodiscard]] pending_write* own(const row_head& r) const noexcept;
  [[nodiscard]] pending_write* own_before(pending_write* w, std::uint32_t level) const noexcept;
  std::uint64_t* room_for(const table& t) const;
  void keep_apart(const table& t, std::uint64_t columns, std::uint64_t* words) const;
  /// Whether it has gone on with what ended snapshots have left.
  bool end(outcome how = outcome::ended) noexcept;
  static bool may_move(const reader& r) noexcept;
  static bool may_move(const reader& to, const reader& from) noexcept;
  void note_row(const table& t, std::uint64_t slot) const;
  void note_key(const table& t, const key_words& key) const;

  engine& engine_;
  session* session_;
  bool notes_reads_ = false;  // serializable
  bool gated_ = false;        // may be ended by others
  bool is_transaction_ = false;
  mutable std::uint32_t in_use_ = 0;       // by what it has called, which calls the program
  mutable atomic<std::uint32_t> user_{0};  // one more than the number of the thread that is in it
  census::ticket ticket_;
};

struct assignment {
  std::string_view column;
  value to;
};

/// A row that the transaction changes, wherever the transaction is moved to. Precondition of all
/// members: the database is there. When the transaction has ended, set() returns how it ended, or
/// outcome::ended if another one has taken its place since. get() and null() must not be called
/// then: the checked build variant names the mistake, and they say that the row has nothing.
class SPOLIA_EXPORT editor {
 public:
  /// The value. For texts and blobs it is a copy, an owned_text or owned_blob, since set()
  /// overwrites what is there; making it may throw std::bad_alloc.
  template <class T>
  [[nodiscard]] typename owned<T>::type get(column<T> c) const noexcept(in_one_word<T>) {
    if (is_over()) return {};
    if constexpr (in_one_word<T>) {
      if constexpr (SPOLIA_CHECKS) is_of(c.of);
      const std::uint64_t w = word(c.number, c.first);
      return value_in(c, &w);
    } else {
      return typename owned<T>::type(shown(c));
    }
  }
  /// Calls f with what get() would copy: for texts and blobs a view, which is good until f returns.
  /// Returns what f returns, but to return the view itself does not compile. f must not change the
  /// row, which would overwrite what the view shows: the checked build variant names the mistake.
  template <class T, std::invocable<T> F>
  decltype(auto) visit(column<T> c, F&& f) const {
    static_assert(
        in_one_word<T> || !std::same_as<std::remove_cvref_t<std::invoke_result_t<F, T>>, T>,
        "spolia::db: a function of editor::visit() returns a view, which is good until it returns: "
        "return what is needed of it, and texts as std::string");
    [[maybe_unused]] const visiting now_shown(*this);
    if (is_over()) return std::invoke(std::forward<F>(f), T{});
    return std::invoke(std::forward<F>(f), shown(c));
  }
  template <class T>
  [[nodiscard]] bool null(column<T> c) const noexcept {
    return is_over() || now(0).null(c);
  }
  /// duplicate_key: a unique index has the value; too_long; limit; not_found: the row was erased
  /// since. Then nothing has changed. After a conflict over a value of a unique index, or
  /// ended_by_policy, the transaction has ended. Throws std::invalid_argument for columns of the
  /// primary key, and of other tables.
  template <class T>
  status set(column<T> c, const argument& v) {
    return set_column(c.number, c.of, v);
  }
  template <std::integral Int>
    requires(!std::same_as<Int, bool>)
  status set(column<std::int64_t> c, Int v) {
    if (set_word(c, static_cast<std::uint64_t>(as_integer(v)))) return outcome::ok;
    return set_column(c.number, c.of, v);
  }
  status set(column<double> c, std::same_as<double> auto v) {
    if (set_word(c, double_word(v))) return outcome::ok;
    return set_column(c.number, c.of, v);
  }
  [[nodiscard]] value get(const column_layout& c) const {
    if (is_over()) return {};
    return now(std::uint64_t{1} << c.number).get(c);
  }
  status set(const column_layout& c, const argument& v) { return set_column(c.number, c.of, v); }
  /// Sets several columns as one change, as transaction::update() does: a unique index over them is
  /// checked only for the row with all of them set. Several calls of set() check each row in
  /// between, too, which the index may refuse. If it fails, nothing has changed. Throws as update()
  /// does.
  status set(std::span<const assignment> changes);
  status set(std::initializer_list<assignment> changes) {
    return set(std::span(changes.begin(), changes.size()));
  }

 private:
  friend class transaction;
  editor(session& of, std::uint32_t number) noexcept;
  [[nodiscard]] row now(std::uint64_t columns) const noexcept;
  /// What now() has in the column, until that is set.
  template <class T>
  [[nodiscard]] T shown(column<T> c) const noexcept {
    if constexpr (SPOLIA_CHECKS) {
      const row checked = now(std::uint64_t{1} << c.number);
      return checked.get(c);
    } else {
      return value_in(c, words(c.number, c.first));
    }
  }
  [[nodiscard]] const std::uint64_t* words(std::uint32_t number,
                                           std::uint32_t first) const noexcept;
  /// The same of a column of one word.
  [[nodiscard]] std::uint64_t word(std::uint32_t number, std::uint32_t first) const noexcept;
  template <class T>
  bool set_word(column<T> c, std::uint64_t word) noexcept {
    return set_word(c.number, c.first, c.of, word);
  }
  bool set_word(std::uint32_t number, std::uint32_t first, std::uint32_t table,
                std::uint64_t word) noexcept;
  status set_column(std::uint32_t number, std::uint32_t table, const argument& v);
  void is_of(std::uint32_t table) const noexcept;
  /// In the checked build variant. The native one does not check, and says no.
  [[nodiscard]] bool is_over() const noexcept {
    if constexpr (SPOLIA_CHECKS) return has_ended();
    return false;
  }
  [[nodiscard]] bool has_ended() const noexcept;
  /// While visit() shows the row. Returns what was shown before.
  std::uint32_t show(std::uint32_t number) const noexcept;
  class visiting {
   public:
    explicit visiting(const editor& of) noexcept : of_(of) {
      if constexpr (SPOLIA_CHECKS) before_ = of.show(of.number_);
    }
    ~visiting() {
      if constexpr (SPOLIA_CHECKS) of_.show(before_);
    }
    visiting(const visiting&) = delete;
    visiting& operator=(const visiting&) = delete;

   private:
    const editor& of_;
    std::uint32_t before_ = 0;
  };

  session* of_;
  std::uint64_t turn_;  // of the transaction, in the session
  std::uint32_t number_;
};

/// What transaction::put() has come to.
class [[nodiscard]] put_status : public status {
 public:
  put_status(status why) noexcept : status(std::move(why)) {}  // NOLINT: nothing is inserted
  put_status(outcome why) noexcept : status(why) {}            // NOLINT: the same
  put_status(status why, bool inserted) noexcept
      : status(std::move(why)), inserted_(inserted && *this) {}

  /// Whether the row is a new one; else there was one with its key, which has its values now, or
  /// put() has failed.
  [[nodiscard]] bool inserted() const noexcept { return inserted_; }

 private:
  bool inserted_ = false;
};

class SPOLIA_EXPORT transaction : public reader {
 public:
  transaction(transaction&& from) noexcept;
  /// Rolls back the transaction that is assigned to, unless it has ended.
  transaction& operator=(transaction&& from) noexcept;
  /// Rolls back what was not committed.
  ~transaction();

  /// Values for all columns, in their order.
  status insert(table& t, std::initializer_list<argument> v) {
    return insert(t, values(v.begin(), v.size()));
  }
  status insert(table& t, values v);
  /// Inserts the row; or, if there is a row with its key, sets all other columns of that one.
  /// put_status::inserted() says which of the two it did. So duplicate_key is about a unique index,
  /// and then nothing has changed. Throws as insert does.
  put_status put(table& t, std::initializer_list<argument> v) {
    return put(t, values(v.begin(), v.size()));
  }
  put_status put(table& t, values v);
  /// The row with this key, to be changed. Locks it.
  result<editor> edit(table& t, std::initializer_list<argument> key) {
    return edit(t, values(key.begin(), key.size()));
  }
  result<editor> edit(table& t, values key);
  template <single_value V>
  result<editor> edit(table& t, const V& key) {
    return edit(t, {key});
  }
  /// Sets the columns together: all, or, unless it returns ok, none of them. std::invalid_argument
  /// out of it has changed nothing, either.
  status update(table& t, std::initializer_list<argument> key,
                std::initializer_list<assignment> changes) {
    return update(t, values(key.begin(), key.size()), std::span(changes.begin(), changes.size()));
  }
  status update(table& t, values key, std::initializer_list<assignment> changes) {
    return update(t, key, std::span(changes.begin(), changes.size()));
  }
  status update(table& t, std::initializer_list<argument> key,
                std::span<const assignment> changes) {
    return update(t, values(key.begin(), key.size()), changes);
  }
  status update(table& t, values key, std::span<const assignment> changes);
  template <single_value V>
  status update(table& t, const V& key, std::initializer_list<assignment> changes) {
    return update(t, {key}, changes);
  }
  template <single_value V>
  status update(table& t, const V& key, std::span<const assignment> changes) {
    return update(t, {key}, changes);
  }
  status erase(table& t, std::initializer_list<argument> key) {
    return erase(t, values(key.begin(), key.size()));
  }
  status erase(table& t, values key);
  template <single_value V>
  status erase(table& t, const V& key) {
    return erase(t, {key});
  }
  /// Reads the row, and makes sure that no other transaction changes it before this one ends. So a
  /// decision that rests on the row still holds when it is committed.
  result<row> lock(table& t, std::initializer_list<argument> key) {
    return lock(t, values(key.begin(), key.size()));
  }
  result<row> lock(table& t, values key);
  template <single_value V>
  result<row> lock(table& t, const V& key) {
    return lock(t, {key});
  }

  /// A moment that rollback_to() leads back to, any number of times. If nothing was changed since
  /// the last savepoint, this is the same one. If it throws std::bad_alloc, nothing has changed.
  db::savepoint savepoint();
  /// Undoes all changes since the savepoint. Locks of rows that are there stay, and so does what a
  /// serializable transaction has read. Savepoints made since are gone. Throws
  /// std::invalid_argument for a savepoint that is gone, and for one of another transaction, or of
  /// an earlier try of this one. Called by the function of a scan that began after the savepoint,
  /// it may throw std::bad_alloc, and has rolled the transaction back then.
  status rollback_to(const db::savepoint& to);

  /// Makes the changes permanent and visible, together. If it fails, nothing was changed, with one
  /// exception: storage_failed with a commit_time(), which the reason names. Then the commit is
  /// visible, and in doubt. With transaction_options::durable_reads it returns ok only when all
  /// that the transaction can have seen is durable, too; then storage_failed means that the log has
  /// failed, and what was seen may be lost.
  status commit();
  /// When its changes became visible, in the timestamps of readers. 0: they did not, because they
  /// were not committed, or there were none. After storage_failed, 0 says that nothing has
  /// happened; any other time says that the commit is in doubt until database::resume() names it.
  [[nodiscard]] std::uint64_t commit_time() const noexcept { return commit_time_; }
  /// Throws std::invalid_argument out of a condition of its query and out of an on_slow_reader that
  /// is asked for it, as changes do; the transaction goes on then.
  void rollback();
  /// ok while the transaction can go on; after that, how it has ended. It is conflict,
  /// schema_changed, limit, storage_failed or the like if a call has ended it, with that call's
  /// reason; ended if it was committed, rolled back or moved from. Each later call of any member
  /// returns the same, scans throw a no_result with it, and a query's answer has it: so a conflict
  /// stays a conflict. (An editor knows the outcome without its reason; if another transaction has
  /// taken the place of its own, it says ended.)
  [[nodiscard]] status state() const noexcept { return state_; }
  /// Its rank among transactions that wait for locks: the smaller, the older. Give it to the next
  /// try if this one ends in a conflict.
  [[nodiscard]] std::uint64_t age() const noexcept { return age_; }

 private:
  friend class reader;
  friend class database;
  friend class editor;
  transaction(engine& of, const transaction_options& o, std::string_view label, std::uint64_t age);

  /// Of one of the transaction's writes; or why there is none.
  class write_number {
   public:
    write_number(std::uint32_t number) noexcept : number_(number) {}  // NOLINT: as a result is
    write_number(outcome why) noexcept : why_(why) {}                 // NOLINT
    explicit operator bool() const noexcept { return why_ == outcome::ok; }
    [[nodiscard]] std::uint32_t operator*() const noexcept { return number_; }
    [[nodiscard]] outcome why() const noexcept { return why_; }

   private:
    std::uint32_t number_ = 0;
    outcome why_ = outcome::ok;
  };
  [[nodiscard]] bool goes_on() const noexcept { return bool(state_); }
  status fail(status why) noexcept;
  status fail_by_others() noexcept;
  void roll_back(status how = {outcome::ended, cause::rolled_back}) noexcept;
  template <class F>
  auto change(F&& f) -> decltype(f());
  status told(const table& t, outcome s) noexcept;
  status told_why(const table& t, outcome s) noexcept;
  outcome lose_row(const table& t, const char* how) noexcept;
  class new_row;
  outcome insert_row(table& t, new_row& made);
  status insert_told(table& t, new_row& made);
  void make_apart(std::uint64_t* words);
  void replace_apart(const pending_write& w, std::uint64_t columns) noexcept;
  void settle_apart(std::uint64_t commit) noexcept;
  void drop_apart(const value_block* down_to) noexcept;
  class new_image;
  class new_values;
  class short_images;
  std::optional<outcome> take_over(table& t, std::uint64_t slot, const key_words& key,
                                   new_image& image, std::uint64_t shape);
  std::uint64_t claim_slot(table& t, const key_words& key, std::uint64_t* image,
                           std::uint64_t shape);
  static constexpr std::uint32_t slot_is_gone = ~std::uint32_t{0};  // no write has this number
  write_number lock_row(table& t, std::uint64_t slot, const row_place& place, const key_words& key);
  template <class HasSlot>
  bool wait_for_lock(row_head& row, std::uint32_t number, HasSlot&& has_slot);
  [[nodiscard]] bool sees_buried(const table& t, const key_words& key) const;
  [[nodiscard]] bool is_locked_by_caller(const row_head& row) const noexcept;
  [[nodiscard]] static bool is_caller(const session& of) noexcept;
  outcome lose_lock(const table& t, const row_head& row);
  outcome lose_to_caller(const session& caller, const table& t, const secondary* i);
  bool begins_late(const table& t, row_head& row);
  write_number lock_key(table& t, values key);
  write_number lock_key(table& t, const key_words& wanted);
  outcome index_row(std::uint32_t number, std::uint64_t changed);
  outcome add_entries(std::uint32_t number, std::uint64_t changed);
  static bool takes_entry_out(note& n) noexcept;
  void take_entry_back(note& n) noexcept;
  void take_back_since(std::uint64_t notes) noexcept;
  void take_back_former(pending_write& w, std::uint64_t* then, std::uint64_t columns) noexcept;
  void give_up_last_rows() noexcept;
  [[nodiscard]] outcome unique_in(const pending_write& w, const secondary& i, const key_words& key);
  [[nodiscard]] bool has_now(const secondary& i, std::uint64_t slot, const key_words& key) const;
  pending_write& touch(std::uint32_t number);
  static void forget_changes(pending_write& w) noexcept;
  void change_back(const level_mark& to);
  void no_query_runs() const;
  [[noreturn]] static void refuse_in_query();
  struct column_value {
    const column_layout* column = nullptr;
    const argument* to = nullptr;
  };
  void encode_changes(std::span<const column_value> changes, const std::uint64_t* image,
                      std::uint64_t* to);
  outcome assign(std::uint32_t number, std::span<const column_value> changes,
                 const std::uint64_t* image = nullptr);
  status set(std::uint32_t number, const column_value& to);
  status set(std::uint32_t number, std::span<const assignment> changes);
  static std::span<const column_value> in_columns(const table& t,
                                                  std::span<const assignment> changes,
                                                  column_value* to);
  [[nodiscard]] bool has_key(const note& n, bool committed) noexcept;
  void prepare();
  void make_room_for_asks();
  bool reserve();
  void ask_about_what_is_kept();
  bool end_slow(bool pressed);
  void look_after_slow_readers();
  bool look_for_memory();
  [[nodiscard]] bool changes() const noexcept;
  [[nodiscard]] bool deletes_only() const noexcept;
  [[nodiscard]] bool indexes_hold() const noexcept;
  outcome may_change(const table& t);
  [[nodiscard]] const index_set& indexes_of(const table& t) const noexcept;
  [[nodiscard]] bool unchanged(const row_head& row) const noexcept;
  [[nodiscard]] verdict reads_hold(std::uint64_t drawn) const;
  [[nodiscard]] verdict slot_holds(const range_read& r, std::uint64_t slot, std::uint64_t drawn,
                                   census::ticket& now) const;
  void note_seen() noexcept;
  [[nodiscard]] status seen_is_durable() const;
  status change_nothing();
  status only_read();
  bool settle(commit_record& record, std::uint64_t& commit) noexcept;
  status withdraw(std::uint64_t mark) noexcept;
  [[nodiscard]] status in_doubt() const noexcept;
  std::uint64_t finish(std::uint64_t commit) noexcept;
  [[nodiscard]] bool is_done(const note& n, bool committed) noexcept;
  void undo(pending_write& w) noexcept;

  std::uint64_t age_ = 0;
  std::chrono::microseconds longest_wait_{0};
  status state_;
  bool durable_reads_ = false;
  std::uint64_t seen_ = 0;  // record of the log up to which it sees; 0: it does not ask
  std::uint64_t commit_time_ = 0;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
