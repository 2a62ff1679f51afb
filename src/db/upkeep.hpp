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
// Pace:        a commit examines twice as many notes as it has left; then, of what else is ready,
//              for as long as has passed since its session last did, and for a millisecond at most.
//              That comes after its own snapshot has ended. Where there are no commits, readers
//              that begin or end go on, a millisecond at a time. A snapshot at which more than a
//              few notes hang has the next look made when it ends.
// Progress:    one thread at a time examines; others go on without waiting, but for collect().
// Memory:      a note of 144 bytes for each thing that has ended and has not been taken away, and
//              8 to 16 for each that hangs.
#pragma once

#include <cstdint>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/schema.hpp>

#include "db/index/index.hpp"
#include "db/snapshot_list.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class table;
class secondary;

/// Something to take away: an entry of a secondary index, or, without an index, a deleted row.
struct note {
  enum class kind : std::uint8_t {
    added,       ///< an entry that the transaction has made
    superseded,  ///< what it replaces or deletes
    revived,     ///< a deleted row that it gives new contents; of use if these are taken back
    built,       ///< an entry of an index that is built, for a row that was changed meanwhile
    dropped      ///< the index, or without one the table, that no transaction can use any more
  };
  note* next = nullptr;
  table* of = nullptr;
  secondary* index = nullptr;
  kind what = kind::added;
  std::uint64_t slot = 0;
  std::uint64_t claim = 0;
  std::uint64_t since = 0;  // its life
  std::uint64_t until = 0;
  note* next_kept = nullptr;  // of a chain of kept_notes, if it is kept
  bool kept = false;
  bool buried = false;
  key_words key{};

  /// Whether it is about the same row or entry.
  [[nodiscard]] bool same(const note& other) const noexcept {
    return slot == other.slot && of == other.of && index == other.index &&
           (index == nullptr || key == other.key);
  }
};

/// Throws std::bad_alloc.
inline note* new_note(table& of, secondary* index, std::uint64_t slot) {
  auto* const n = ::new (memory::allocate(sizeof(note), alignof(note))) note;
  n->of = &of;
  n->index = index;
  n->slot = slot;
  return n;
}
inline void free_note(note* n) noexcept { memory::deallocate(n, sizeof(note), alignof(note)); }

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
  /// Takes the other's notes.
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
  /// Null: there is none.
  [[nodiscard]] note* find(const note& like) const noexcept;
  void put(note& n) noexcept;
  void take(note& n) noexcept;

 private:
  [[nodiscard]] std::size_t place_of(const note& n) const noexcept;
  void grow() noexcept;

  std::vector<note*> chains_;  // a power of two
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
  /// A transaction that has left so many notes is over, and so is its snapshot. `last`: when notes
  /// were last examined here for its session, in ticks.
  void after_commit(std::uint64_t left, atomic<std::uint64_t>& last) noexcept {
    if (waiting() != 0) work(left, last);
  }
  /// A snapshot of this time has ended.
  void after_snapshot(std::uint64_t time) noexcept {
    // Not in between, mostly: then nothing hangs at it.
    if (first_held_.load_relaxed() <= time && time <= last_held_.load_relaxed())
      snapshot_ended(time);
  }
  /// For readers that begin or end: a transaction goes on when it commits.
  void step() noexcept {
    if (ready_.load_relaxed() != 0) go_on();
  }
  /// Of use when something large has ended.
  void look_now() noexcept;
  /// Takes away all that can go. Waits for a thread that examines.
  void collect() noexcept;
  /// How many notes there are.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_.load_relaxed(); }

 private:
  /// What hangs at the snapshots of one time.
  struct holder {
    std::uint64_t time = 0;
    note_queue young;  // to be buried, if the snapshot is there at the next look
    note_queue rest;
  };
  class turn;

  void work(std::uint64_t left, atomic<std::uint64_t>& last) noexcept;
  void snapshot_ended(std::uint64_t time) noexcept;
  void go_on() noexcept;
  // For the thread whose turn it is:
  void look() noexcept;
  void examine_some(std::uint64_t most) noexcept;
  void examine_until(std::uint64_t end) noexcept;
  void examine(note* n) noexcept;
  std::vector<holder>::iterator holder_at(std::uint64_t time) noexcept;
  void hold(note* n, snapshot_list::need need) noexcept;
  bool merge(note& n) noexcept;
  static burial bury(note& n) noexcept;
  static burial bury_row(note& n) noexcept;
  void forget(note* n) noexcept;
  bool done(note& n) noexcept;
  static bool remove_row(note& n) noexcept;
  static bool remove_buried_row(note& n) noexcept;
  bool remove_built(note& n) noexcept;
  static bool free_dropped(note& n) noexcept;

  commit_board& board_;
  spolia::detail::short_lock lock_;
  note_queue queue_;  // under the lock: to be examined after the next look
  atomic<std::uint64_t> queued_{0};
  atomic<std::uint64_t> waiting_{0};
  atomic<std::uint64_t> ready_{0};  // notes of todo_, as the last turn has left them
  atomic<std::uint32_t> calls_{0};
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
