// SPDX-License-Identifier: Apache-2.0
// engine.hpp: the state that the parts of a database share, and the thread records of readers and
// transactions. Internal.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/base/cells.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/database.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/transaction.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/catalog/table_list.hpp"
#include "db/commit/commit_section.hpp"
#include "db/commit/gate.hpp"
#include "db/index/index.hpp"
#include "db/transaction/label.hpp"
#include "db/transaction/passed_over.hpp"
#include "db/transaction/read_set.hpp"
#include "db/transaction/row_images.hpp"
#include "db/transaction/workspace.hpp"
#include "db/upkeep.hpp"
#include "db/versions/value_blocks.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A row that a transaction has locked.
struct pending_write {
  pending_write() = default;
  pending_write(table& t, std::uint64_t* row_image, std::uint32_t on_level) noexcept
      : of(&t), image(row_image), level(on_level) {}

  table* of = nullptr;
  const index_set* indexes = nullptr;  // the indexes to which the changes go
  std::uint64_t slot = 0;
  row_place place;
  std::uint64_t* image = nullptr;  // the row with the changes, in the columns that the image has
  std::uint64_t shape = 0;
  std::uint64_t has = 0;                  // the columns of the image
  std::uint64_t sets = 0;                 // the columns that the transaction has changed
  std::uint64_t birth = born_before_all;  // the value that goes back into the lock: row_lock.hpp
  bool fresh = false;                     // the slot was taken for this row
  bool revives = false;                   // the slot had a deleted row: slot_chunks.hpp
  bool changed = false;
  bool pinned = false;      // its number is known elsewhere, or a clean-up record names its slot
  std::uint32_t level = 0;  // the level of its last change: savepoints.cpp
  std::uint32_t kept = 0;   // 1 + the position of its former state in session::kept; 0: nowhere

  [[nodiscard]] const schema& form() const noexcept { return of->form(); }
  [[nodiscard]] std::uint32_t words() const noexcept { return form().words(); }
  /// Loads these columns into the image, if it lacks them.
  void fetch(std::uint64_t columns) noexcept {
    std::uint64_t missing = columns & ~has;
    if (missing == 0) return;
    has |= columns;
    const schema& s = form();
    if (missing == every_column) return place.load(s.whole().runs, image);
    if (columns == every_column) missing &= s.whole().mask;
    each_column(missing, [&](std::uint32_t c) {
      const column_span span = s.span_of(c);
      place.load(span, image + span.first);
    });
  }
};

/// The state that a write had when a later level began to change it.
struct kept_write {
  std::uint32_t number = 0;
  pending_write was;
};
/// Where a savepoint or a scan began.
struct level_mark {
  std::uint32_t level = 0;
  std::size_t kept = 0;
  std::size_t writes = 0;
  std::uint64_t notes = 0;  // how many clean-up records of entries had been made
  std::uint64_t id = 0;     // a savepoint's, unique in the process
};

// Above these bits a claim has the number of the session that made it plus 1, or 0 if the builder
// of the index made it. At a million claims a second, the first one comes again after a hundred
// days.
inline constexpr unsigned claim_bits = 43;
inline constexpr std::uint64_t claim_mask = (std::uint64_t{1} << claim_bits) - 1;

/// The thread record of a reader or transaction: its working memory and state. It belongs to the
/// holder of the board's record with the same number.
struct alignas(cache_line) session {
  work_account work;
  commit_board::record* record = nullptr;
  reader* owner = nullptr;  // the reader or transaction that has the record, where it is now
  owned_label label;        // the owner's
  // All bits but the last eight count the owners. The last eight have the outcome by which the
  // owner before has ended. Editors and queries of an earlier owner may look here at any time.
  atomic<std::uint64_t> turn{0};
  arena images{work, false};  // of rows that are shown, or read for a moment
  row_images results{work};   // of rows that find() and lock() have returned
  image_store changes{work};  // of locked rows
  counted_vector<pending_write> writes{counted<pending_write>(work)};
  counted_vector<ask> asks{counted<ask>(work)};
  read_set reads{work};  // a serializable transaction's
  passed_over passed{work};
  // For these five see savepoints.cpp. No budget refuses a savepoint.
  counted_vector<kept_write> kept{counted<kept_write>(work)};
  counted_vector<level_mark> savepoints{counted<level_mark>(work, false)};
  counted_vector<const table*> younger{counted<const table*>(work, false)};  // table::parts::elders
  std::uint32_t level = 0;
  std::uint32_t levels = 0;
  std::uint32_t scan = 0;  // the level of the innermost scan that runs now; 0: there is none
  bool asked = false;      // a query runs
  // In the checked build variant: the innermost write whose row editor::visit() shows.
  std::uint32_t visited = ~std::uint32_t{0};
  atomic<std::uint64_t> age{never_waits};  // the transaction's
  atomic<bool> by_transact{false};         // transact() runs it, in the thread that has begun it
  gate way;
  value_list made;      // out-of-line values that the transaction has made
  value_list replaced;  // those that its commit takes out of their rows
  commit_section section;
  bool looked = false;  // the owner has read something at its snapshot
  // The last reason of an outcome that named a table.
  struct {
    const table* of = nullptr;
    std::uint32_t renames = 0;
    const char* what = nullptr;
    status why{};
  } last_said;
  // The unique index that has refused the row of the call that runs; null: none has.
  const secondary* taken = nullptr;
  note* notes = nullptr;  // clean-up records, the newest first
  std::uint64_t note_count = 0;
  std::uint64_t note_bytes = 0;
  std::uint64_t counted_note_bytes = 0;   // how many of these bytes are on the account
  kept_notes known{&work};                // finds these records, once they are many
  std::uint64_t notes_made = 0;           // how many were made for entries that it has added
  std::uint64_t level_notes = 0;          // how many of these when its level began
  std::uint64_t taken_back = 0;           // records of entries that are not there any more
  std::uint64_t claims = 0;               // how many this session's transactions have made
  atomic<std::uint64_t> ended_claims{0};  // how many of these are of transactions that are over
  tally commits;
  tally conflicts;
  tally limits;
  // See upkeep::after_commit(), which a holder calls after it has given the session back.
  atomic<std::uint64_t> rested{0};
  atomic<std::uintptr_t> snapshot{0};  // census::ticket::id(); 0: none has it

  static constexpr std::uint64_t turn_step = 256;
  // relaxed: an editor or a query checks whether its owner still has the session. It learns of the
  // owner's end in the same thread, or after an edge of the program's.
  void end_turn(outcome how) noexcept {
    turn.store_relaxed((turn.load_relaxed() | (turn_step - 1)) + 1 + static_cast<unsigned>(how));
  }
  /// How the owner of that turn has ended; just that it has, if other owners have ended since.
  [[nodiscard]] outcome end_of(std::uint64_t its_turn) const noexcept {
    const std::uint64_t now = turn.load_relaxed();
    if (now == its_turn) return outcome::ok;
    const bool last = now / turn_step == its_turn / turn_step + 1;
    return last ? static_cast<outcome>(now % turn_step) : outcome::ended;
  }
  /// The outcome with `before`, the table's name and `what` as its reason. Each `what` goes with
  /// one `before`.
  status say(outcome o, const char* before, const table& of, const char* what) noexcept {
    // Before the name: if that is newer, the status is only made once more.
    const std::uint32_t renames = of.renames_.load_relaxed();
    if (last_said.of == &of && last_said.renames == renames && last_said.what == what)
      return last_said.why;
    try {
      last_said.why = status(o, before + of.name() + what);
      last_said.of = &of;
      last_said.renames = renames;
      last_said.what = what;
      return last_said.why;
    } catch (const std::bad_alloc&) {
      return o;
    }
  }
  void is_not_visited(std::uint32_t number) const noexcept {
    if (visited == number) {
      misuse::report("a row is changed while editor::visit() shows it", threads::number());
    }
  }
  [[nodiscard]] std::uint64_t lock_word(std::size_t number) const noexcept {
    return lock_word_of(record->number(), number);
  }
  /// A claim for an entry that the transaction adds to a secondary index; no other one has it.
  std::uint64_t next_claim() noexcept {
    claims = (claims + 1) & claim_mask;
    return (std::uint64_t{record->number()} + 1) << claim_bits | claims;
  }
  /// To be called when the records were freed or handed over.
  void forget_notes() noexcept {
    notes = nullptr;
    note_count = 0;
    note_bytes = 0;
    notes_made = level_notes = taken_back = 0;
    if (counted_note_bytes != 0) work.give(std::exchange(counted_note_bytes, 0));
    if (!known.empty()) known.clear();
  }
  /// Whether this thread has begun the owner.
  [[nodiscard]] bool is_begun_here() const noexcept {
    // acquire ← the releases in the reader's constructor and in begins_late(): the announcement.
    const std::uintptr_t its = snapshot.load_acquire();
    return its != 0 && threads::is_this(census::ticket::thread_of(its));
  }
  /// To be called when the transaction is over: committed and restamped, or rolled back.
  void end_claims() noexcept {
    // release → the acquire in engine::is_open(): the transaction's changes of rows.
    if (ended_claims.load_relaxed() != claims) ended_claims.store_release(claims);
  }
  /// Clears the session for its next owner. `noted`: the last one has noted what it read.
  void clear(bool noted) noexcept {
    const bool first = record->number() < sessions_that_keep_much;
    const kept_memory keeps = first ? kept_memory::much : kept_memory::none;
    images.clear();
    results.clear(keeps);
    // Each write, each allocation request, and each kept state of a write has an image there. So
    // the images tell whether these are many.
    if (changes.clear()) {
      clear_and_shrink(writes);
      clear_and_shrink(asks);
      clear_and_shrink(kept);
    }
    if (noted) reads.clear(keeps);
    if (!passed.empty()) passed.forget();
    kept.clear();
    if (levels != 0) clear_and_shrink(savepoints);
    if (!first) [[unlikely]]
      keep_nothing();
    level = levels = scan = 0;
    asked = false;
    looked = false;
    by_transact.store_relaxed(false);
    work.commits(false);
  }
  SPOLIA_NOINLINE void keep_nothing() noexcept {
    images.keep_nothing();
    changes.keep_nothing();
    passed.keep_nothing();
    clear_and_shrink(writes, kept_memory::none);
    clear_and_shrink(asks, kept_memory::none);
    clear_and_shrink(kept, kept_memory::none);
    clear_and_shrink(savepoints, kept_memory::none);
    clear_and_shrink(younger, kept_memory::none);
  }
  note& add(note* n) noexcept {
    n->next = notes;
    notes = n;
    ++note_count;
    note_bytes += n->bytes();
    return *n;
  }
  /// To be called before a record is made: puts the bytes of some dozens of records together on the
  /// account. True if it did that now. Throws row_budget::exceeded.
  bool count_notes() {
    constexpr std::uint64_t at_once = 4096;
    const std::uint64_t more = note_bytes - counted_note_bytes;
    if (more < at_once) [[likely]]
      return false;
    work.take(more);
    counted_note_bytes = note_bytes;
    return true;
  }
  /// Adds the record, or frees it, if the transaction has many and one of the same entry: then that
  /// one stays.
  note& add_once(note* n) noexcept;
  /// The record of an entry that the transaction has added; null: there is none.
  [[nodiscard]] note* note_about(const note::subject& what) noexcept;
  [[nodiscard]] bool goes_to_former(note& n) noexcept;
  /// To be called when the transaction has removed the record's entry again.
  void takes_back(note& n) noexcept;
  void free_taken_back() noexcept;
};

/// The note, in the read set, of a scan or query that runs. While this object lives, only it
/// changes the note.
template <class Note>
class running_note {
 public:
  /// `of` becomes null when the transaction has ended, and then nothing is noted any more.
  running_note(session* const& of, scan_notes<Note> read_set::* kind) noexcept
      : of_(of), kind_(kind) {}
  running_note(const running_note&) = delete;
  running_note& operator=(const running_note&) = delete;
  ~running_note() {
    if (number_ != none && of_ != nullptr) notes().fix(outer_);
  }

  [[nodiscard]] bool begun() const noexcept { return number_ != none; }
  /// Throws std::bad_alloc; no_result, if the budget has no room for another note.
  void begin(const Note& first) try {
    number_ = notes().add(first);
    outer_ = notes().fix(number_ + 1);
  } catch (const row_budget::exceeded&) {
    throw no_result(of_->work.is_used_up());
  }
  [[nodiscard]] Note& now() noexcept { return notes()[number_]; }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  [[nodiscard]] scan_notes<Note>& notes() noexcept { return of_->reads.*kind_; }

  session* const& of_;
  scan_notes<Note> read_set::* const kind_;
  std::size_t number_ = none;
  std::size_t outer_ = 0;
};

/// The transaction's write of this row; null: it has none.
inline pending_write* reader::own(const row_head& r) const noexcept {
  if (session_->writes.empty()) return nullptr;
  // relaxed: we see a lock of our own, since we have stored it. Any other value, however old, is of
  // another transaction, or of none.
  const std::uint64_t lock = r.lock.load_relaxed();
  if (lock >> 32U != session_->lock_word(0) >> 32U) return nullptr;
  return &session_->writes[static_cast<std::uint32_t>(lock)];
}

/// Throws std::invalid_argument if it is called from a condition that a query evaluates for each
/// row: other threads of the query may read what the call would change.
inline void transaction::no_query_runs() const {
  if (session_->asked) [[unlikely]]
    refuse_in_query();
}

// Inlined, and with the check for a gate first: most readers have none.
inline reader::step::step(const reader& of) noexcept : of_(of) {
  if (of.gated_) [[unlikely]]
    open_ = of.session_->way.enter();
}
inline reader::step::~step() {
  if (of_.gated_ && open_ && of_.session_ != nullptr) [[unlikely]]
    of_.session_->way.leave();
}

/// While this object lives, its thread works with the reader. The checked build variant reports
/// another thread that does so at the same time.
class reader::alone {
 public:
  explicit alone([[maybe_unused]] const reader& of) noexcept {
    if constexpr (SPOLIA_CHECKS) {
      // relaxed: it orders nothing. A thread that the reader was moved on to, by an edge of the
      // program's, sees that the one before it has left.
      const std::uint32_t me = threads::number() + 1;
      std::uint32_t there = 0;
      if (of.user_.cas_strong_relaxed(there, me)) {
        of_ = &of;
      } else if (there != me) {
        misuse::report("two threads use one reader or transaction at the same time", me - 1);
      }
    }
  }
  ~alone() {
    if constexpr (SPOLIA_CHECKS) {
      if (of_ != nullptr) of_->user_.store_relaxed(0);
    }
  }
  alone(const alone&) = delete;
  alone& operator=(const alone&) = delete;

 private:
  const reader* of_ = nullptr;
};

class reader::short_image {
 public:
  /// Throws std::bad_alloc.
  short_image(const reader& of, const table& t)
      : images_(of.session_->images), before_(images_.here()), words_(of.room_for(t)) {}
  short_image(const short_image&) = delete;
  short_image& operator=(const short_image&) = delete;
  ~short_image() { images_.rewind(before_); }
  [[nodiscard]] std::uint64_t* words() const noexcept { return words_; }

 private:
  arena& images_;
  const arena::mark before_;
  std::uint64_t* const words_;
};

/// Begins a level for a scan, as a savepoint does, so that the state of a row before its next
/// change is kept. When the scan ends, the level ends, and what was kept for it alone is freed.
class reader::scanning {
 public:
  explicit scanning(const reader& of) noexcept : of_(of), now_(of), outer_(of.session_->scan) {
    ++of.in_use_;
    session& s = *of.session_;
    before_ = {s.level, s.kept.size(), s.writes.size(), s.level_notes};
    s.level_notes = s.notes_made;
    level_ = s.scan = s.level = ++s.levels;
  }
  ~scanning() {
    --of_.in_use_;
    // If null, the transaction has ended, and the session may be another one's.
    if (of_.session_ != nullptr) end(*of_.session_);
  }
  scanning(const scanning&) = delete;
  scanning& operator=(const scanning&) = delete;

  [[nodiscard]] std::uint32_t level() const noexcept { return level_; }

 private:
  void end(session& s) const noexcept {
    s.scan = outer_;
    // If a savepoint was made in the scan, or rolled back to, there are later levels: it stays.
    if (s.level != level_) return;
    s.level = before_.level;
    s.level_notes = before_.notes;
    if (s.levels == level_) --s.levels;
    if (s.writes.size() != before_.writes || s.kept.size() != before_.kept)
      give_changes_to_outer(s);
  }
  void give_changes_to_outer(session& s) const noexcept;

  const reader& of_;
  const alone now_;
  level_mark before_;
  std::uint32_t level_ = 0;
  std::uint32_t outer_;
};

class storage;
class journal;
class status_file;

class engine {
 public:
  explicit engine(const options& o);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  bool end_slow(const gate* but, bool pressed);
  /// Shows other processes that a commit or a change has ended in outcome::limit or storage_failed.
  /// The caller holds no lock.
  void show_refusal() noexcept;
  /// Frees all that no snapshot needs.
  void collect();
  /// The same, of the memory beside versions that options::version_budget bounds. True: something
  /// was freed.
  bool collect_beside_versions() noexcept;
  bool may_look_for_memory() noexcept;
  /// Whether it is time to ask keeps_too_much(), which is done once in a while.
  bool may_look_at_what_is_kept() noexcept;
  /// Whether options::budget is used up, and readers hold at least a sixteenth of it.
  [[nodiscard]] bool keeps_too_much() const noexcept;
  /// The statistics without those of the catalogue. Waits for no thread.
  [[nodiscard]] statistics sums() const noexcept;
  /// The bytes that options::budget bounds beside rows and their values. Room for versions is set
  /// aside, so that rows can be changed when there is no room for more rows. The working memory of
  /// transactions shares this room, since the versions come when that memory is freed.
  [[nodiscard]] std::uint64_t beside_rows() const noexcept { return beside_rows_with(0); }
  /// The same, if so much `more` working memory is taken.
  [[nodiscard]] std::uint64_t beside_rows_with(std::uint64_t more) const noexcept {
    const std::uint64_t aside = std::min(settings.version_budget, settings.budget / 2);
    const std::uint64_t there = old->stats().bytes + work_bytes.load_relaxed() + more;
    return index_bytes.load_relaxed() + cleaner.note_bytes() + std::max(there, aside);
  }
  /// outcome::limit, by options::budget or by options::version_budget.
  [[nodiscard]] status budget_is_used_up() noexcept;
  [[nodiscard]] status versions_do_not_fit() noexcept;
  /// outcome::storage_failed, with the reason that the log gives.
  [[nodiscard]] status log_refuses() noexcept;
  /// Whether options::budget allows no more rows.
  [[nodiscard]] bool is_full() const noexcept { return rows.over(beside_rows()); }
  /// Whether a session that works with `own` bytes may have `more`. A transaction that is to commit
  /// later leaves room for its commit: half as much again, for versions and records of the log.
  [[nodiscard]] bool may_work_with(std::uint64_t own, std::uint64_t more,
                                   bool commits_later) const noexcept;
  /// Calls f(census::ticket::id(), bytes that it works with) for each reader and transaction.
  template <class F>
  void for_each_work(F&& f) const noexcept {
    board.for_each(sessions, [&](const session& s) {
      // relaxed: figures.
      const std::uintptr_t ticket = s.snapshot.load_relaxed();
      if (ticket != 0) f(ticket, s.work.bytes());
    });
  }
  /// How many bytes options::version_budget allows for all versions together, if `replaced` bytes
  /// of values are to wait with them; 0: any amount. With or without the reserve, which is for
  /// commits that only delete.
  [[nodiscard]] std::uint64_t most_for_versions(std::uint64_t replaced,
                                                bool with_reserve) const noexcept;
  /// A number that no other transaction has as its age; also a claim for entries that no
  /// transaction makes.
  std::uint64_t next_claim() noexcept { return claims_.fetch_add_relaxed(1) + 1; }
  /// Whether the transaction that made the claim is still open.
  [[nodiscard]] bool is_open(std::uint64_t claim) const noexcept {
    const std::uint64_t maker = claim >> claim_bits;
    if (maker == 0) return false;
    const session* const of = sessions.find(static_cast<std::uint32_t>(maker - 1));
    // acquire ← the release in end_claims(): the transaction's changes of rows.
    const std::uint64_t ahead = (claim - of->ended_claims.load_acquire()) & claim_mask;
    return ahead - 1 < claim_mask / 2;
  }

  /// To be called when a reader begins, or has ended: does one step of cleaning up.
  void go_on() noexcept {
    if (!cleaner.step() && !values.step()) old->step();
  }
  /// To be called when a snapshot of this time has ended. True: something that it held was
  /// examined.
  bool snapshot_ended(std::uint64_t time) noexcept {
    const bool cleaned = cleaner.after_snapshot(time);
    const bool freed = values.after_snapshot(time, cleaned);
    old->snapshot_ended(time);
    return cleaned || freed;
  }

  commit_board board;
  region_domain arrays;
  domain<> nodes;
  cells<session> sessions;
  row_budget rows;
  value_blocks values{board, rows};
  mutable std::mutex catalog_lock;
  std::mutex changing;  // one long change of the catalogue at a time; before catalog_lock
  // Held shared while a change of the catalogue has its position in the log, and it is not known
  // yet whether it holds; held alone while the log begins again. After `changing`, before
  // catalog_lock.
  std::shared_mutex unsettled;
  const index_set no_changes{.all = {}, .columns = 0, .closed = true};  // of closed tables
  table_list tables;                // with dropped ones, and those that are not there yet
  std::uint32_t table_numbers = 0;  // how many were given since the database was made
  std::unique_ptr<delta> old;
  upkeep cleaner{board};
  gate_board gates;
  const options settings;
  atomic<std::uint64_t> ended_by_policy{0};
  atomic<std::uint64_t> storage_refusals{0};  // statistics::storage_refusals
  atomic<std::uint64_t> index_bytes{0};       // of all tables, at the last count
  atomic<std::uint64_t> work_bytes{0};        // of all sessions
  bool read_only = false;
  std::unique_ptr<storage> files;      // null: only in memory
  journal* log = nullptr;              // null: nothing is logged
  std::unique_ptr<status_file> shown;  // null: not shown to other processes

 private:
  const ::pid_t process_ = ::getpid();  // in a child, open transactions are the parent's
  std::uint64_t ask_about_slow(const gate* but, bool pressed);

  kept_status budget_used_up_;
  kept_status too_many_versions_;
  atomic<std::uint64_t> asked_about_slow_{0};   // in ticks
  atomic<std::uint64_t> looked_for_memory_{0};  // the same
  atomic<std::uint64_t> looked_at_kept_{0};     // the same
  alignas(cache_line) atomic<std::uint64_t> claims_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
