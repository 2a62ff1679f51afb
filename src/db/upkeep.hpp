// SPDX-License-Identifier: Apache-2.0
// upkeep.hpp: taking rows and index entries away when no snapshot sees them. Internal.
//
// Source:      the intervals are those of Ben-David et al., DISC 2021 (version/range_tracker.hpp);
//              that what is needed hangs at a snapshot that needs it is our own.
// Idea:        each row, and each entry of a secondary index, has a life (snapshot_list.hpp). The
//              commit that ends one leaves a note of it here. One thread at a time looks at the
//              notes: it lists the announced snapshots, and then examines each note once. If no
//              snapshot is in the life, what the note names is taken away. Otherwise the note is
//              kept with one of the snapshots in the life (it hangs at that snapshot), and is
//              examined again when that one has ended. So a snapshot holds what it sees and nothing
//              else, however old it is.
// Graveyards:  what a snapshot needs that was there at the look before, too, leaves its index,
//              where that has a graveyard (index/graveyard.hpp): so what such a snapshot sees is
//              not in the way of others. A buried row keeps its slot and its words; its key may get
//              another slot.
// Births:      may be too early, and are never too late. A row's stands in its lock (row_lock.hpp),
//              an entry's beside its claim (index.hpp). A row that is inserted over a deleted one
//              with its key, which waits here, keeps the first birth; so does an entry that is
//              added again. So snapshots between the two lives hold it, too, though they see
//              nothing; each began while it waited, so each holds at most what waited when it
//              began. Such a thing has one note: that of a later end goes into the one that hangs.
//              Otherwise a key that comes and goes all the time beside a reader would leave a note
//              each time.
// Dropped:     a table, or an index, has one note, whose life is from its birth to the drop
//              (catalog.hpp). What lies in it has no life before it: no snapshot from before finds
//              it there.
// Pace:        a commit, or a rollback, examines twice as many notes as it has left; then, of what
//              else is ready, for as long as its session has done other things since, and for a
//              millisecond at most: so while much is ready, commits have half of the time. That
//              comes after its own snapshot has ended. Where there are no commits, readers
//              that begin or end go on, a millisecond at a time. A snapshot at which more than a
//              few notes hang has the next look made when it ends.
// Progress:    one thread at a time examines; others go on without waiting, but for collect().
// Memory:      for each thing that has ended and has not been taken away, a note: 40 bytes of a
//              row, 56 of an entry whose key is one word. For each note that hangs and is not
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

/// Something to take away: an entry of a secondary index, or a deleted row. In a block of memory
/// that is as long as what it names needs: of an entry, its claim and the words of its key follow.
class note {
 public:
  enum class kind : std::uint8_t {
    added,       ///< an entry that the transaction has made
    taken_back,  ///< one that it has taken out again
    superseded,  ///< what it replaces or deletes
    revived,     ///< a deleted row that it gives new contents; of use if these are taken back
    built,       ///< an entry of an index that is built, for a row that was changed meanwhile
    dropped      ///< the index, or without one the table, that no transaction can use any more
  };
  // These throw std::bad_alloc.
  static note* of_row(table& t, std::uint64_t slot) { return make(&t, slot, 0); }
  static note* of_entry(secondary& i, std::uint64_t slot, const key_words& key,
                        std::uint32_t words) {
    note* const n = make(&i, slot, 1 + words);
    std::copy_n(key.begin(), words, n->tail() + 1);
    return n;
  }
  /// Of all its entries.
  static note* of_index(secondary& i) { return make(&i, 0, 1); }
  static note* of_table(table& t) { return make(&t, 0, 0); }
  static void free(note* n) noexcept { memory::deallocate(n, bytes(n->words_), alignof(note)); }

  [[nodiscard]] bool is_row() const noexcept { return words_ == 0; }
  [[nodiscard]] table& of() const noexcept;
  /// No snapshot from before that finds the row, or scans the index.
  [[nodiscard]] std::uint64_t first_use() const noexcept;
  /// Of an entry only, as the next two.
  [[nodiscard]] secondary& index() const noexcept { return *static_cast<secondary*>(of_); }
  [[nodiscard]] std::uint64_t& claim() noexcept { return *tail(); }
  /// In the place of the claim, of an index that was dropped.
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
  /// What it takes itself, with what the allocator adds.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes(words_) + 8; }
  /// What would be free without it: the note, the slot of a row, and a place in a graveyard.
  [[nodiscard]] std::uint64_t weight() const noexcept;
  /// The same, and of a table or an index that was dropped all that it has.
  [[nodiscard]] std::uint64_t held_bytes() const noexcept;
  /// The row or entry that a note is about.
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
  std::uint64_t since = 0;  // its life
  // While its transaction goes on: of an entry that this has added, which of its notes it is.
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
  const std::uint8_t slot_above_;  // its bits from the 32nd on
  const std::uint8_t words_;       // that follow; of a row, none

 public:
  kind what = kind::added;
  bool kept : 1 = false;
  bool buried : 1 = false;
  bool made : 1 = false;  // of an entry that was added: that is there for its transaction alone
};
static_assert(sizeof(note) == 5 * sizeof(std::uint64_t));

/// Notes, the first of which goes first.
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

/// Finds a note that hangs, or has hung, by what it is about.
class kept_notes {
 public:
  /// Null: its memory is on no session's account.
  explicit kept_notes(work_account* of = nullptr) : places_(counted<note*>(of)) {}

  /// Null: there is none.
  [[nodiscard]] note* find(const note::subject& what) const noexcept;
  void put(note& n) noexcept;
  void take(note& n) noexcept;
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Leaves `kept` of the notes as it is.
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

  /// Takes the notes over, whose `until` is known.
  void add(note_queue& notes) noexcept;
  /// A transaction, committed or not, that has left so many notes is over, and so is its snapshot.
  /// `rested`: when its session has done for itself as long as it last examined notes here, in
  /// ticks.
  void after_commit(std::uint64_t left, atomic<std::uint64_t>& rested) noexcept {
    if (waiting() != 0) work(left, rested);
  }
  /// A snapshot of this time has ended. True: it has gone on for a step.
  bool after_snapshot(std::uint64_t time) noexcept {
    // Not in between, mostly: then nothing hangs at it.
    return first_held_.load_relaxed() <= time && time <= last_held_.load_relaxed() &&
           snapshot_ended(time);
  }
  /// For readers that begin or end: a transaction goes on when it commits. False: nothing was to be
  /// done, or another thread is at it.
  bool step() noexcept { return ready_.load_relaxed() != 0 && go_on(); }
  /// Of use when something large has ended.
  void look_now() noexcept;
  /// Takes away all that can go. Waits for a thread that examines.
  void collect() noexcept;
  /// How many notes there are.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_.load_relaxed(); }
  /// What they, and what they name, take; and they alone.
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept {
    return waiting_bytes_.load_relaxed();
  }
  [[nodiscard]] std::uint64_t note_bytes() const noexcept { return note_bytes_.load_relaxed(); }
  /// What hangs at which snapshots, by time. What many snapshots need hangs at one of them. Waits
  /// for a thread that examines. Throws std::bad_alloc.
  [[nodiscard]] std::vector<held_things> held();
  /// What hangs at the snapshots of this time. None: it would have to wait.
  [[nodiscard]] std::optional<held_things> held_at(std::uint64_t time) noexcept;

 private:
  /// From one look to the next; and one for so many snapshots that were listed, since a look goes
  /// over them. What ends between two looks is in the way of scans: that of a queue walks over it.
  static constexpr std::uint64_t least_notes = 64;
  static constexpr std::uint64_t snapshots_a_note = 16;

  struct pile : note_queue {
    std::uint64_t bytes = 0;
  };
  /// What hangs at the snapshots of one time.
  struct holder {
    std::uint64_t time = 0;
    pile young;  // to be buried, if the snapshot is there at the next look
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
  note_queue queue_;  // under the lock: to be examined after the next look
  atomic<std::uint64_t> queued_{0};
  atomic<std::uint64_t> waiting_{0};
  atomic<std::uint64_t> waiting_bytes_{0};
  atomic<std::uint64_t> note_bytes_{0};
  atomic<std::uint64_t> ready_{0};  // notes of todo_, as the last turn has left them
  atomic<std::uint32_t> calls_{0};
  atomic<std::uint64_t> look_every_{least_notes};  // notes, or calls
  // Times of holders are between them, or the first is above the second.
  atomic<std::uint64_t> first_held_{1};
  atomic<std::uint64_t> last_held_{0};
  atomic<bool> busy_{false};
  // Of the thread whose turn it is:
  note_queue todo_;           // to be examined by the last look
  snapshot_list snapshots_;   // which that has listed
  std::vector<holder> held_;  // by time
  kept_notes kept_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
