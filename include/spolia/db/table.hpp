// SPDX-License-Identifier: Apache-2.0
// table.hpp: a table: rows in slots, column by column in blocks of 8 rows, and its indexes.
//
// Slots lie in segments of doubling size that are never moved and go with the table. So a slot can
// be read without a guard, whatever has become of its row. The slot of a deleted row is used again
// when no snapshot can see the row. A reader that still has the slot's number from an index finds a
// row there that is newer than its snapshot, or none.
//
// Memory:      32 bytes a row and its columns, in chunks of about 64 KiB. A chunk whose rows are
//              all deleted, and seen by no snapshot, goes back to the system, but each table keeps
//              one. The addresses of a segment stay the table's: at most twice as many as the most
//              slots that were ever in use at once.
// Scans:       pass over chunks that have no row for their snapshot.
// Dropped:     a dropped table stays at its address until its database is closed, and so do its
//              indexes: a caller that has a reference to one gets outcome::dropped. When no
//              snapshot can see the table, all that lies in `parts` goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/kept_status.hpp>
#include <spolia/db/row.hpp>
#include <spolia/db/row_budget.hpp>
#include <spolia/db/row_lock.hpp>
#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class engine;
class note;
class primary_index;
class secondary_index;
class slot_chunks;
class table;

/// When something of the catalogue can be used: by snapshots from one time to another.
class validity {
 public:
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  /// Whether a snapshot of that time may use it, and the reader need do nothing about it.
  [[nodiscard]] bool serves(std::uint64_t time) const noexcept {
    return begun(time) && !ended(time);
  }
  // acquire ← the release in begin(): what was built.
  [[nodiscard]] bool begun(std::uint64_t time) const noexcept {
    return time >= from_.load_acquire();
  }
  // relaxed: a transaction that began at that time or later has read the clock (acquire) after this
  // was stored.
  [[nodiscard]] bool ended(std::uint64_t time) const noexcept {
    return time >= end_.load_relaxed();
  }
  /// Whether it can be used now, and no end of it is set.
  [[nodiscard]] bool open() const noexcept {
    return from_.load_acquire() < unfinished  // as above
           && end_.load_relaxed() == never;
  }
  /// When it was born: before the first thread had it, and after all snapshots of earlier times had
  /// begun. Of what is used from a later time on, until begin().
  [[nodiscard]] std::uint64_t birth() const noexcept { return from_.load_relaxed() & ~unfinished; }
  void build(std::uint64_t birth) noexcept { from_.store_relaxed(birth | unfinished); }
  void begin(std::uint64_t time) noexcept { from_.store_release(time); }  // → begun(), open()
  /// Whether an end of it is set: it is over, or will be for transactions that begin later.
  [[nodiscard]] bool over() const noexcept { return end_.load_relaxed() != never; }
  void end(std::uint64_t time) noexcept { end_.store_relaxed(time); }

 private:
  static constexpr std::uint64_t unfinished = std::uint64_t{1} << 63U;  // above all times
  atomic<std::uint64_t> from_{0};
  atomic<std::uint64_t> end_{never};
};

/// The records of the log from which to which something of the catalogue is in checkpoints. Read
/// and written under the lock of the catalogue.
struct logged_span {
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::uint64_t made = 0;
  std::uint64_t dropped = never;
  /// Whether it is there after this record.
  [[nodiscard]] bool covers(std::uint64_t last) const noexcept {
    return made <= last && last < dropped;
  }
};

/// Threads that are inside for a moment, and one that is alone. Each sees the others by this word
/// alone, so no thread waits.
class visits {
 public:
  /// False: a thread is alone.
  [[nodiscard]] bool enter() noexcept {
    // acquire ← the release in leave_alone(): what was freed.
    if ((word_.fetch_add_acquire(2) & 1U) == 0) return true;
    leave();
    return false;
  }
  void leave() noexcept {
    // release → the acquire in enter_alone(): what was read, or taken out.
    word_.fetch_sub_release(2);
  }
  [[nodiscard]] bool enter_alone() noexcept {
    std::uint32_t idle = 0;
    if (SPOLIA_FAULT("visits.not_alone")) return true;
    return word_.cas_strong_acquire(idle, 1);  // ← the releases in leave(), leave_alone()
  }
  void leave_alone() noexcept {
    // release → the acquires in enter() and enter_alone().
    word_.fetch_sub_release(1);
  }
  /// Whether no thread is inside. One that enters later sees what the caller has stored before.
  [[nodiscard]] bool empty() noexcept {
    // acquire ← the releases in leave(). release → the acquire in enter(). It changes the word to
    // what that was: a thread enters before this, and is seen, or after it.
    if (SPOLIA_FAULT("visits.looked_at")) return word_.load_acquire() == 0;
    return word_.fetch_add_acq_rel(0) == 0;
  }
  /// Whether a thread is alone.
  [[nodiscard]] bool closed() const noexcept { return (word_.load_relaxed() & 1U) != 0; }

 private:
  atomic<std::uint32_t> word_{0};
};

/// An index over some columns of a table: for scans, or to find equal keys. Of one that was dropped
/// the entries go; its name and all else goes with those of a table that was dropped.
class SPOLIA_EXPORT secondary {
 public:
  explicit secondary(table& of);
  ~secondary();
  secondary(const secondary&) = delete;
  secondary& operator=(const secondary&) = delete;

  [[nodiscard]] const table& of() const noexcept { return *of_; }
  // Of a table that was dropped, and that no snapshot sees any more, these throw no_result with
  // outcome::dropped. The name stays until then.
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] bool unique() const;
  [[nodiscard]] index_kind kind() const;

 private:
  friend class table;
  friend class reader;
  friend class transaction;
  friend class note;
  friend class upkeep;
  friend class loader;
  friend class nan_rows;
  friend class catalog;
  friend class storage;
  struct parts {
    std::string name;
    std::vector<std::uint32_t> columns;
    std::uint32_t key_length = 0;  // in words
    std::uint64_t mask = 0;        // the same
    bool unique = false;
    index_kind kind = index_kind::ordered;
    std::uint64_t birth = 0;  // when changes began to go to it; 0: with its table
    logged_span logged;
    kept_status taken;  // what of a unique one refuses a row
  };
  /// The key that the row in place has; for the thread that has its lock.
  [[nodiscard]] key_words key_at(const row_place& row) const noexcept;
  /// Of an entry with such a key. Throws std::bad_alloc.
  [[nodiscard]] note* note_of(std::uint64_t slot, const key_words& key);
  [[nodiscard]] index_spec spec() const;

  table* const of_;
  validity when_;
  std::unique_ptr<parts> parts_;              // null: as table::parts_
  std::unique_ptr<secondary_index> entries_;  // null: no snapshot can use it any more
};

/// The indexes that changes of a table go to; never changes itself.
struct index_set {
  std::vector<secondary*> all;
  std::uint64_t columns = 0;  ///< that some of them has
  std::uint64_t birth = 0;    ///< of the youngest of them; 0: that of the table
  bool closed = false;        ///< nothing of the table may be changed any more
};

/// Some columns of a table, so that no more is read than is wanted.
class selection {
 public:
  /// All columns, of whatever table.
  selection() = default;

 private:
  friend class table;
  friend class reader;
  friend class transaction;
  friend class catalog;
  selection(const schema& of, std::uint64_t columns)
      : of_(of.tag()), columns_(columns), runs_(of.runs_of(columns)) {
    if (runs_.empty()) return;
    const column_run& last = runs_.back();
    part_.first = runs_.front().first;
    part_.words = last.first + last.count * last.width - part_.first;
  }
  [[nodiscard]] column_set in(const schema& s) const noexcept {
    if (of_ == 0) return s.whole();
    return {columns_, runs_, s.whole().all};
  }

  /// The words of a row from the first of these columns to the last one.
  [[nodiscard]] column_span part(const schema& s) const noexcept {
    return of_ == 0 ? column_span{0, s.words()} : part_;
  }

  std::uint32_t of_ = 0;  // schema::tag()
  std::uint64_t columns_ = 0;
  std::vector<column_run> runs_;
  column_span part_;
};

class SPOLIA_EXPORT table {
 public:
  table(const table_spec& spec, engine& of);
  ~table();
  table(const table&) = delete;
  table& operator=(const table&) = delete;

  /// Its name now: a copy, since database::rename_table() may give it another one at any time.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::string name() const {
    const std::lock_guard hold(name_lock_);
    return name_;
  }

  // Once the table was dropped, and no snapshot sees it any more, the functions from here to
  // select() throw no_result with outcome::dropped, and so does spec().

  /// There until then. A caller that keeps it beside a thread that drops the table has a snapshot
  /// that began before that, and after the table was made, or with which it has used the table.
  [[nodiscard]] const schema& layout() const {
    if (described_.closed()) refuse_dropped();
    return form();
  }
  /// A column by name. Throws std::invalid_argument if there is none of that name and type. T is
  /// std::int64_t, double, bool, std::string_view, blob_view, decimal_number or instant.
  template <class T>
  [[nodiscard]] db::column<T> column(std::string_view name) const;
  /// Throws std::invalid_argument if there is none.
  [[nodiscard]] const secondary& index(std::string_view name) const;
  /// Null if there is none.
  [[nodiscard]] const secondary* try_index(std::string_view name) const;
  /// Columns by their names. Throws std::invalid_argument if there is none of a name.
  template <class Names = std::initializer_list<std::string_view>>
  [[nodiscard]] selection select(const Names& names) const {
    const visit here(*this);
    std::uint64_t columns = 0;
    for (const std::string_view n : names) columns |= std::uint64_t{1} << form().column(n).number;
    return {form(), columns};
  }
  /// Slots in use or waiting to be used again.
  [[nodiscard]] std::uint64_t row_slots() const noexcept {
    // acquire ← the release in slot_chunks: these slots are constructed.
    return slots_end_.load_acquire();
  }
// Qt has a macro of this name, which must not be seen here and stays what it was.
#pragma push_macro("slots")
#undef slots
  [[deprecated("it is called row_slots()")]] [[nodiscard]] std::uint64_t slots() const noexcept {
    return row_slots();
  }
#pragma pop_macro("slots")
  /// Of the memory that its rows have now: what was given back to the system does not count.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// What its indexes take, with what waits in them, as it was last counted: when the table became
  /// larger, by database::stats() or database::collect(), or, now and then, by a commit.
  [[nodiscard]] std::uint64_t index_bytes() const noexcept;
  /// Bytes that a row takes beside its out-of-line values and its entries in indexes.
  [[nodiscard]] std::uint64_t row_bytes() const noexcept { return block_bytes_ / rows_per_block; }
  /// What it was made with.
  [[nodiscard]] table_spec spec() const;

 private:
  friend class reader;
  friend class secondary;
  friend class transaction;
  friend class editor;
  friend class note;
  friend class upkeep;
  friend class loader;
  friend class nan_rows;
  friend class storage;
  friend class query_run;
  friend class commit_record;
  friend class database;
  friend class catalog;
  friend class status_file;
  friend class table_list;
  friend struct pending_write;
  friend struct session;

  static constexpr std::uint64_t first_segment = rows_per_block;
  static constexpr unsigned most_segments = 39;  // more slots than row_place::id tells apart

  /// What a table has until no snapshot can see it.
  struct parts {
    parts(const table_spec& spec, atomic<std::uint64_t>& slots_end);
    ~parts();
    const schema layout;
    const std::uint64_t id;  // no other table of the process has it
    const index_kind primary_kind;
    std::uint64_t expected = 0;  // about so many rows will come, while it is filled
    std::array<atomic<std::byte*>, most_segments> segments{};
    std::array<atomic<std::int64_t>, most_segments> without_memory{};  // chunks of each
    std::unique_ptr<slot_chunks> chunks;
    atomic<std::uint64_t> bytes{0};
    atomic<std::uint64_t> index_bytes{0};
    atomic<std::uint64_t> dropped_index_bytes{0};  // of those that are not in indexes() any more
    logged_span logged;
    kept_status taken;  // what refuses a row for its primary key
    // Readers and transactions that are older than the table, or than an index of it, are inside
    // from when they first use it until they end. When no snapshot from its time is left, what was
    // dropped is freed if none of them is inside; with the table, the thread that frees it stays
    // alone.
    visits elders;
    // What indexes() was, and is no more because of a drop_table() that may be under way.
    atomic<const index_set*> closed{nullptr};
    // All that ever were. Both are changed under engine::changing; the latter also under
    // engine::catalog_lock.
    std::vector<std::unique_ptr<const index_set>> index_sets;
    std::vector<secondary*> secondaries;
    table* next_gone = nullptr;  // table_list::gone_
  };

  /// While it lives, the parts stay, whether the table is dropped or not. Throws no_result.
  class visit {
   public:
    explicit visit(const table& t) : of_(t) {
      if (!t.described_.enter()) t.refuse_dropped();
    }
    ~visit() { of_.described_.leave(); }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

   private:
    const table& of_;
  };
  /// For a caller whose snapshot sees the table, that is in a visit, or that is alone.
  [[nodiscard]] const schema& form() const noexcept { return parts_->layout; }
  [[noreturn]] void refuse_dropped() const;

  [[nodiscard]] SPOLIA_ALWAYS_INLINE row_place at(std::uint64_t slot) const noexcept {
    const unsigned k = segment_of(slot);
    const std::uint64_t in = slot - start_of(k);
    // acquire ← the release in make_segment().
    const parts& all = *parts_;
    std::byte* const block = all.segments[k].load_acquire() + in / rows_per_block * block_bytes_;
    const std::uint64_t row = in % rows_per_block;
    auto* const words = block + rows_per_block * sizeof(row_head);
    return {reinterpret_cast<row_head*>(block) + row,
            reinterpret_cast<atomic<std::uint64_t>*>(words), static_cast<std::uint32_t>(row),
            all.id << 40U | slot};
  }

  static unsigned segment_of(std::uint64_t slot) noexcept {
    return bit_length(slot / first_segment);
  }
  static std::uint64_t start_of(unsigned k) noexcept {
    return k == 0 ? 0 : first_segment << (k - 1);
  }
  static std::uint64_t size_of(unsigned k) noexcept {
    return k == 0 ? first_segment : first_segment << (k - 1);
  }

  /// A slot without a row, locked with `lock`. Throws std::bad_alloc, row_budget::exceeded.
  std::uint64_t take_slot(std::uint64_t lock);
  /// One that has memory already; no_slot: there is none.
  std::uint64_t take_free(std::uint64_t lock) noexcept;
  /// The caller holds the lock of a slot to which no index leads, in which no snapshot sees a row.
  void give_slot(std::uint64_t slot) noexcept;
  /// The same where a row has ended that no snapshot sees any more.
  void give_ended(std::uint64_t slot, row_head& head) noexcept;
  /// Gives the memory of a chunk back that is empty.
  void give_back(std::uint32_t chunk) noexcept;
  [[nodiscard]] std::size_t chunk_bytes() const noexcept;
  /// Makes the slots from..end of a chunk zeros, which they are for the system's memory, too.
  void clear_slots(std::uint64_t from, std::uint64_t end) const noexcept;
  /// Counts chunks of a segment that have no memory, and tells the system whether it is worth huge
  /// pages.
  void count_without_memory(unsigned segment, std::int64_t more) noexcept;
  /// Makes a segment, of memory that no thread has touched yet, unless it is there.
  void make_segment(unsigned k);
  [[nodiscard]] std::size_t bytes_of(unsigned k) const noexcept {
    return (size_of(k) + rows_per_block - 1) / rows_per_block * block_bytes_;
  }
  [[nodiscard]] std::size_t align_of(unsigned k) const noexcept;
  /// Slots of one chunk from the first of a block on, whole blocks and not beyond the segment, and
  /// not too many at once; where it ended. Throws std::bad_alloc, row_budget::exceeded.
  std::uint64_t construct(std::uint64_t from, std::uint64_t end);
  /// The same without the constructing, of as many as the segment has.
  std::uint64_t take_room(std::uint64_t from, std::uint64_t end);
  /// Throws row_budget::exceeded.
  void charge(std::size_t bytes);
  /// The block that begins with this slot.
  void construct_block(std::uint64_t slot) const noexcept;
  /// Takes about `count` slots that follow each other, whole blocks, and sets it to how many they
  /// are; returns the first. The caller constructs them. No other thread uses the table until all
  /// are constructed: it is being loaded.
  std::uint64_t take_bare(std::uint64_t& count);
  [[nodiscard]] bool key_is(std::uint64_t slot, const key_words& key) const noexcept;
  /// What the row in place has in these columns, as a key; for the thread that has its lock.
  [[nodiscard]] key_words key_at(const row_place& row,
                                 const std::vector<std::uint32_t>& columns) const noexcept;
  [[nodiscard]] key_words key_at(const row_place& row) const noexcept {
    return key_at(row, form().key());
  }
  // acquire ← the release in show(): the indexes.
  [[nodiscard]] const index_set& indexes() const noexcept { return *indexes_.load_acquire(); }
  void make_indexes(const std::vector<index_spec>& all);
  void unmake_indexes() noexcept;
  /// Not among them yet. What is not kept is for table_list::unmake().
  secondary& make_index(const index_spec& i);
  /// As it is called from now on. Under the lock of the catalogue.
  void show_name(std::string next) noexcept;
  /// As it was made, but without indexes.
  [[nodiscard]] table_spec bare_spec(const std::string& name) const;
  /// As it is after a record of the log. Under the lock of the catalogue, and so is the next.
  [[nodiscard]] table_spec spec_after(std::uint64_t last) const;
  /// The indexes that the description has, in its order.
  [[nodiscard]] std::vector<const secondary*> indexes_after(std::uint64_t last) const;
  /// From now on these are the indexes.
  void show(std::unique_ptr<const index_set> next);
  /// From now on nothing of the table may be changed; older snapshots find its indexes.
  void close() noexcept;
  /// Those of indexes(), or those that it had when it was closed.
  [[nodiscard]] const index_set& known_indexes() const noexcept;
  /// No snapshot sees it any more. False: a thread looks at it.
  bool strip() noexcept;

  /// Whether it is that database's: what is done to another one's table would go to the wrong log,
  /// and by the wrong clock.
  [[nodiscard]] bool is_of(const engine& e) const noexcept { return &engine_ == &e; }
  /// Throws std::invalid_argument.
  [[noreturn]] void refuse_stranger() const;
  [[nodiscard]] std::string names_of_indexes() const;
  /// One of its indexes.
  [[nodiscard]] std::string in_words(const std::string& index) const {
    return "index " + index + " of table " + name();
  }
  /// Counts what the indexes take.
  void count_indexes() noexcept;
  void say_indexes_take(std::uint64_t bytes) noexcept;

  /// No snapshot sees a version of its rows.
  void let_versions_go() noexcept;
  void free_rows() noexcept;

  engine& engine_;
  std::unique_ptr<parts> parts_;  // null: the table was dropped, and no snapshot can read it
  // null: the same, and the parts may be there yet.
  std::unique_ptr<primary_index> primary_;
  atomic<std::uint64_t> slots_end_{0};  // all slots that were ever taken are below this
  atomic<const index_set*> indexes_{nullptr};
  validity when_;
  // These stay where they are, while what lies in the parts goes.
  std::string name_;
  mutable spolia::detail::short_lock name_lock_;
  atomic<std::uint32_t> renames_{0};  // stored under name_lock_
  std::uint32_t number_ = 0;          // in the catalogue of its database
  const std::uint32_t block_bytes_;
  // Threads that take entries and rows out are inside; one that frees them is alone.
  mutable visits cleaning_;
  // Threads that look at the parts are inside; one that has freed them is alone forever.
  mutable visits described_;
};

template <class T>
db::column<T> table::column(std::string_view wanted) const {
  const visit here(*this);
  const column_layout& c = form().column(wanted);
  static_assert(base_of<T>,
                "a column is read as std::int64_t, double, bool, std::string_view, blob_view, "
                "decimal_number or instant");
  const bool long_text = std::same_as<T, std::string_view> && c.type.base == base_type::long_text;
  if (c.type.base != *base_of<T> && !long_text) {
    refuse_to_read(c, *base_of<T>);
  }
  if constexpr (std::same_as<T, decimal_number>) {
    return {c.number, c.first, c.type.digits, c.of};
  } else {
    return {c.number, c.first, long_text ? 0 : c.words, c.of};
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
