// SPDX-License-Identifier: Apache-2.0
// upkeep.hpp: the cleaner, which removes rows and index entries when no snapshot sees them.
// Internal.
//
// Source:      the intervals are those of Ben-David et al., DISC 2021 (version/range_tracker.hpp).
//              That a clean-up record hangs at a snapshot is our own.
// Idea:        each row, and each entry of a secondary index, has a life (snapshot_list.hpp). The
//              commit that ends the life leaves a clean-up record here (`note`). One thread at a
//              time works as the cleaner. In a look it lists the announced snapshots; then it
//              examines each record once. If no snapshot is in the life, it removes the row or
//              entry. Otherwise the record hangs at one of the snapshots in the life: it is kept
//              with that snapshot, and examined again when the snapshot has ended. So a snapshot
//              holds the rows and entries that it sees, and no others, however old it is.
// Graveyards:  a row or entry leaves its index, if the index has a graveyard (index/graveyard.hpp),
//              when a snapshot needs it that the look before had found, too. So it is not in the
//              way of other readers. A buried row keeps its slot and its words; its key may get
//              another slot.
// Births:      may be too early, and are never too late. A row's birth is in its lock
//              (row_lock.hpp), an entry's beside its claim (index.hpp). If a row is inserted over a
//              deleted one with the same key, which still waits here, it keeps the first birth; so
//              does an entry that is added again. So snapshots between the two lives hold it, too,
//              although they do not see it. Each of these began while it waited, and so holds no
//              more than what waited when the snapshot began. There is one record for both lives:
//              that of the later end is merged into the one that hangs. Otherwise a key that comes
//              and goes all the time while a reader is open would leave a record each time.
// Dropped:     a dropped table or index has one record, whose life is from its birth to the drop
//              (catalog.hpp). Its rows and entries have no earlier life: a snapshot that is older
//              than the table or index finds none of them.
// Pace:        a commit, or a rollback, examines twice as many records as it has left. Then it goes
//              on with others that are ready, for as long as its session has done other things
//              since, and for a millisecond at most: so while many are ready, commits have half of
//              the time. This comes after its own snapshot has ended. Where there are no commits,
//              readers go on when they begin or end, a millisecond at a time. When a snapshot ends
//              at which many records hang, its thread makes the next look.
// Progress:    one thread at a time examines; other threads go on without waiting, except in
//              collect().
// Memory:      for each row or entry that has ended and was not removed yet, a record: 40 bytes for
//              a row, 56 for an entry whose key is one word. For each record that hangs and is not
//              buried, 11 to 22 bytes more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/schema.hpp>

#include "db/index/index.hpp"
#include "db/snapshot_list.hpp"
#include "db/transaction/workspace.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class table;
class secondary;

/// A clean-up record: names an entry of a secondary index, or a deleted row, that is to be removed.
/// For an entry, its claim and the words of its key follow in the same block of memory.
class note {
 public:
  enum class kind : std::uint8_t {
    added,       ///< an entry that the transaction has made
    taken_back,  ///< an entry that it has made and removed again
    superseded,  ///< a row or entry that it replaces or deletes
    revived,     ///< a deleted row that it gives new contents; needed if these are undone
    built,       ///< an entry that was made to build an index, whose row was changed meanwhile
    dropped      ///< a dropped index or table: no transaction can use it any more
  };
  // These throw std::bad_alloc.
  static note* of_row(table& t, std::uint64_t slot) { return make(&t, slot, 0); }
  static note* of_entry(secondary& i, std::uint64_t slot, const key_words& key,
                        std::uint32_t words) {
    note* const n = make(&i, slot, 1 + words);
    std::copy_n(key.begin(), words, n->tail() + 1);
    return n;
  }
  /// For an index, with all its entries.
  static note* of_index(secondary& i) { return make(&i, 0, 1); }
  static note* of_table(table& t) { return make(&t, 0, 0); }
  static void free(note* n) noexcept { memory::deallocate(n, bytes(n->words_), alignof(note)); }

  [[nodiscard]] bool is_row() const noexcept { return words_ == 0; }
  [[nodiscard]] table& of() const noexcept;
  /// The birth of the table or index: no older snapshot finds the row, or scans the index.
  [[nodiscard]] std::uint64_t first_use() const noexcept;
  /// For an entry only, as are claim() and key().
  [[nodiscard]] secondary& index() const noexcept { return *static_cast<secondary*>(of_); }
  [[nodiscard]] std::uint64_t& claim() noexcept { return *tail(); }
  /// Of an index that was dropped; takes the place of the claim.
  [[nodiscard]] std::uint64_t& dropped_bytes() noexcept { return *tail(); }
  [[nodiscard]] std::uint64_t dropped_bytes() const noexcept { return *tail(); }
  [[nodiscard]] key_words key() const noexcept {
    key_words k{};
    std::copy_n(tail() + 1, words_ - 1U, k.begin());
    return k;
  }
  [[nodiscard]] std::uint64_t slot() const noexcept {
    return std::uint64_t{slot_above_} << 32U | slot_;
  }
  /// The record's own bytes, with those that the allocator adds.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes(words_) + 8; }
  /// The bytes that are freed with the record: its own, a row's slot, a position in a graveyard.
  [[nodiscard]] std::uint64_t weight() const noexcept;
  /// The same, and all bytes of a table or an index that was dropped.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept;
  /// Identifies the row or entry of a record.
  struct subject {
    const void* of = nullptr;  // the index; of a row, the table
    std::uint64_t slot = 0;
    const std::uint64_t* key = nullptr;
    std::uint32_t words = 0;  // of the key; of a row, there is none
    bool is_row = false;

    [[nodiscard]] bool operator==(const subject& other) const noexcept {
      return slot == other.slot && of == other.of && words == other.words &&
             is_row == other.is_row && std::equal(key, key + words, other.key);
    }
    [[nodiscard]] std::uint64_t hash() const noexcept {
      std::uint64_t h = hash_with(no_words_hash, slot);
      h = hash_with(h, reinterpret_cast<std::uintptr_t>(of));
      for (std::uint32_t i = 0; i < words; ++i) h = hash_with(h, key[i]);
      return hash_of_all(h);
    }
  };
  [[nodiscard]] subject about() const noexcept {
    if (is_row()) return {.of = of_, .slot = slot(), .is_row = true};
    return {.of = of_, .slot = slot(), .key = tail() + 1, .words = words_ - 1U};
  }

  note* next = nullptr;
  std::uint64_t since = 0;  // the life: from here to `until`
  // While the transaction is open, of an entry that it has added: the record's number among its
  // own.
  std::uint64_t until = 0;

 private:
  note(void* of, std::uint64_t slot, std::uint32_t words) noexcept
      : of_(of),
        slot_(static_cast<std::uint32_t>(slot)),
        slot_above_(static_cast<std::uint8_t>(slot >> 32U)),
        words_(static_cast<std::uint8_t>(words)) {}
  static note* make(void* of, std::uint64_t slot, std::uint32_t words) {
    small_blocks::taken();
    return ::new (memory::allocate(bytes(words), alignof(note))) note(of, slot, words);
  }
  static std::size_t bytes(std::uint32_t words) noexcept {
    return sizeof(note) + words * sizeof(std::uint64_t);
  }
  [[nodiscard]] std::uint64_t* tail() noexcept {
    return reinterpret_cast<std::uint64_t*>(this + 1);
  }
  [[nodiscard]] const std::uint64_t* tail() const noexcept {
    return reinterpret_cast<const std::uint64_t*>(this + 1);
  }

  void* const of_;  // the index; of a row, the table
  const std::uint32_t slot_;
  const std::uint8_t slot_above_;  // the slot's bits from the 32nd on
  const std::uint8_t words_;       // how many words follow; for a row, none

 public:
  kind what = kind::added;
  bool kept : 1 = false;
  bool buried : 1 = false;
  bool made : 1 = false;  // of an added entry: it is there for its transaction alone
};
static_assert(sizeof(note) == 5 * sizeof(std::uint64_t));

/// Records, first in, first out.
struct note_queue {
  note* first = nullptr;
  note* last = nullptr;
  std::uint64_t count = 0;

  void push(note* n) noexcept {
    n->next = nullptr;
    (first == nullptr ? first : last->next) = n;
    last = n;
    ++count;
  }
  /// Null: there is none.
  note* pop() noexcept {
    note* const n = first;
    if (n == nullptr) return nullptr;
    first = n->next;
    if (first == nullptr) last = nullptr;
    --count;
    return n;
  }
  /// Takes the other's notes, and leaves it without any.
  void append(note_queue& more) noexcept {
    if (more.first == nullptr) return;
    (first == nullptr ? first : last->next) = more.first;
    last = more.last;
    count += more.count;
    more = {};
  }
};

/// Finds a record that hangs, or has hung, by its row or entry.
class kept_notes {
 public:
  /// `of`: the session's account on which the memory counts; null: on none.
  explicit kept_notes(work_account* of = nullptr) : places_(counted<note*>(of)) {}

  /// Null: there is none.
  [[nodiscard]] note* find(const note::subject& what) const noexcept;
  void put(note& n) noexcept;
  void take(note& n) noexcept;
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Does not change the records' `kept`.
  void clear() noexcept {
    counted_vector<note*>(places_.get_allocator()).swap(places_);
    count_ = 0;
  }

 private:
  [[nodiscard]] std::size_t mask() const noexcept { return places_.size() - 1; }
  [[nodiscard]] std::size_t free_for(const note& n) const noexcept;
  bool grow() noexcept;

  counted_vector<note*> places_;  // a power of two, open-addressed, by the lower bits of the hash
  std::size_t count_ = 0;
};

class upkeep {
 public:
  explicit upkeep(commit_board& board) : board_(board) {}
  ~upkeep();
  upkeep(const upkeep&) = delete;
  upkeep& operator=(const upkeep&) = delete;

  /// Takes over records whose `until` is known.
  void add(note_queue& notes) noexcept;
  /// To be called when a transaction has ended, committed or not, and its snapshot has, too;
  /// `left`: how many records it has left. `rested`: the time, in ticks, from which on its session
  /// will have worked for itself as long as it last examined records here.
  void after_commit(std::uint64_t left, atomic<std::uint64_t>& rested) noexcept {
    if (waiting() != 0) work(left, rested);
  }
  /// To be called when a snapshot of this time has ended. True: records were examined.
  bool after_snapshot(std::uint64_t time) noexcept {
    // Mostly it is not in between: then nothing hangs at it.
    return first_held_.load_relaxed() <= time && time <= last_held_.load_relaxed() &&
           snapshot_ended(time);
  }
  /// Examines records for a millisecond at most. For readers that begin or end; transactions call
  /// after_commit(). False: there was nothing to do, or another thread is at it.
  bool step() noexcept { return ready_.load_relaxed() != 0 && go_on(); }
  /// Looks and examines at once; for when something large has ended.
  void look_now() noexcept;
  /// Removes all that can go. Waits for a thread that examines.
  void collect() noexcept;
  /// How many records there are.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_.load_relaxed(); }
  /// The bytes of the records and of what they name; and (`note_bytes`) of the records alone.
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept {
    return waiting_bytes_.load_relaxed();
  }
  [[nodiscard]] std::uint64_t note_bytes() const noexcept { return note_bytes_.load_relaxed(); }
  /// What hangs at each snapshot, by time. A record that several snapshots need hangs at one of
  /// them. Waits for a thread that examines. Throws std::bad_alloc.
  [[nodiscard]] std::vector<held_things> held();
  /// What hangs at the snapshots of this time; none if the call would have to wait.
  [[nodiscard]] std::optional<held_things> held_at(std::uint64_t time) noexcept;

 private:
  /// The next look is due after so many records, or after one for each `snapshots_a_note` snapshots
  /// of the last list, since a look goes over them all. Looks must not be rare: rows that have
  /// ended since the last one are in the way of scans, of a queue's scans above all.
  static constexpr std::uint64_t least_notes = 64;
  static constexpr std::uint64_t snapshots_a_note = 16;

  struct pile : note_queue {
    std::uint64_t bytes = 0;
  };
  /// The records that hang at the snapshots of one time.
  struct holder {
    std::uint64_t time = 0;
    pile young;  // to be buried if the snapshot is still there at the next look
    pile rest;
    [[nodiscard]] held_things sum() const noexcept {
      return {time, young.count + rest.count, young.bytes + rest.bytes};
    }
  };
  class turn;

  void work(std::uint64_t left, atomic<std::uint64_t>& rested) noexcept;
  bool snapshot_ended(std::uint64_t time) noexcept;
  bool go_on() noexcept;
  // For the thread whose turn it is:
  void look() noexcept;
  void examine_some(std::uint64_t most) noexcept;
  void examine_until(std::uint64_t end) noexcept;
  void examine(note* n) noexcept;
  std::vector<holder>::iterator holder_at(std::uint64_t time) noexcept;
  void hold(note* n, snapshot_list::need need) noexcept;
  void hang(note* n, std::uint64_t time, bool young) noexcept;
  void let_go(pile& p) noexcept;
  bool merge(note& n) noexcept;
  static burial bury(note& n) noexcept;
  static burial bury_row(note& n) noexcept;
  void forget(note* n) noexcept;
  bool done(note& n) noexcept;
  static bool is_there(const note& n) noexcept;
  static bool remove_row(note& n) noexcept;
  static void give_back(table& t, const note& n) noexcept;
  bool remove_entry(note& n) noexcept;
  bool remove_built(note& n) noexcept;
  static bool free_dropped(note& n) noexcept;

  commit_board& board_;
  spolia::detail::short_lock lock_;
  note_queue queue_;  // under the lock: records to be examined after the next look
  atomic<std::uint64_t> queued_{0};
  atomic<std::uint64_t> waiting_{0};
  atomic<std::uint64_t> waiting_bytes_{0};
  atomic<std::uint64_t> note_bytes_{0};
  atomic<std::uint64_t> ready_{0};  // how many records the last turn has left in todo_
  atomic<std::uint32_t> calls_{0};
  atomic<std::uint64_t> look_every_{least_notes};  // so many records, or calls
  // The first and the last time at which records hang; (1, 0) if none does.
  atomic<std::uint64_t> first_held_{1};
  atomic<std::uint64_t> last_held_{0};
  atomic<bool> busy_{false};
  // Of the thread whose turn it is:
  note_queue todo_;           // records to be examined by the list of the last look
  snapshot_list snapshots_;   // that list
  std::vector<holder> held_;  // by time
  kept_notes kept_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
