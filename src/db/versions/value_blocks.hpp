// SPDX-License-Identifier: Apache-2.0
// value_blocks.hpp: the out-of-line values, which are variable texts and blobs: where they are, and
// how long.
//
// Source:      the rule that a version is needed by the snapshots between its beginning and its end
//              is that of Steam's precise collection (Boettcher et al., VLDB 2019) and of range
//              tracking (Ben-David et al., DISC 2021); the census finds the snapshots.
// Idea:        a value is a block that never changes. The row has its address, and so has each
//              before-image of the row: several versions of a row share the block as long as the
//              value is the same. So a block is not of one version, and no version storage can tell
//              when it may go. It belongs to the row, and knows the commit that has put it there.
//              The commit that replaces it, or deletes the row, gives it to a queue together with
//              the time of that commit. One thread at a time lists the announced snapshots, and
//              then examines each block once: if no snapshot is between the two commits, the block
//              is freed. Otherwise it hangs at one of the snapshots in between, and is examined
//              again when that has ended.
// Protects:    a reader that has announced T, and has a handle from the version of a row that was
//              current at T, copied and validated as row.hpp says: the block was there at T.
//              Handles from words that were not validated must not be followed.
// Why no snapshot is missed: a snapshot T needs a block with since <= T < ended. When the block
//   comes into the queue, `ended` is a time that the clock has shown. The list of snapshots vouches
//   for ends at or before its time (snapshot_list.hpp); a block that ended later waits for the next
//   list.
// Why the fields need no atomics: a thread writes or reads `since` while it holds the row's lock.
//   That thread also writes the other fields, before the block is in the queue; the thread that
//   takes the block from the queue reads them. The queue has a lock.
// Cost:        a commit that replaces values: a short lock. While values wait, a scan of the census
//              for each `most_waiting` commits or blocks, or `most_bytes`.
// Pace:        a commit examines twice as many blocks as have come since the last commit did, and
//              `most_waiting` of the others that are ready, or `most_bytes`. It does that after its
//              own snapshot has ended. Where there are no commits, readers go on when they begin or
//              end, a millisecond at a time. When more than `most_waiting` blocks, or `most_bytes`,
//              hang at snapshots that have ended since the last look, the next look is made at
//              once.
// Progress:    one thread examines at a time; other threads go on without waiting.
// Bound:       the blocks that wait are those that announced snapshots see; those that ended
//              snapshots saw, until the steps above have come to them; `most_waiting` blocks or
//              `most_bytes`, whichever is reached first; and those that one commit replaces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/row_budget.hpp>

#include "db/one_at_a_time.hpp"
#include "db/snapshot_list.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class schema;
struct row_place;

/// The header of a value, whose bytes follow.
struct value_block {
  plain<std::uint64_t> since{};  ///< the commit that has put it there; 0: none yet, or opening
  plain<std::uint64_t> ended{};  ///< the commit that has taken it out
  plain<value_block*> next{};
  plain<std::uint64_t> size{};

  [[nodiscard]] char* bytes() noexcept { return reinterpret_cast<char*>(this + 1); }
  /// The block whose bytes begin here.
  static value_block* of(std::uint64_t address) noexcept {
    return reinterpret_cast<value_block*>(static_cast<std::uintptr_t>(address)) - 1;
  }
  [[nodiscard]] std::uint64_t address() noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes());
  }
  [[nodiscard]] std::uint64_t memory() const noexcept { return sizeof(value_block) + size.read(); }
};

/// A list of blocks.
struct value_list {
  value_block* first = nullptr;
  value_block* last = nullptr;  // means nothing if `first` is null
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;

  void add(value_block* b) noexcept {
    if (first == nullptr) last = b;
    b->next.write(first);
    first = b;
    bytes += b->memory();
    ++count;
  }
  value_block* take() noexcept {
    value_block* const b = first;
    first = b->next.read();
    bytes -= b->memory();
    --count;
    return b;
  }
  /// Takes the other's blocks, and leaves it without any.
  void append(value_list& more) noexcept {
    if (more.first == nullptr) return;
    if (first == nullptr) {
      last = more.last;
    } else {
      more.last->next.write(first);
    }
    first = more.first;
    bytes += more.bytes;
    count += more.count;
    more = {};
  }
};

class value_blocks {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t most_waiting = 0;
#else
  static constexpr std::uint64_t most_waiting = 64;
#endif
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 20U;

  value_blocks(commit_board& board, row_budget& budget) noexcept : board_(board), budget_(budget) {}
  value_blocks(const value_blocks&) = delete;
  value_blocks& operator=(const value_blocks&) = delete;
  /// Precondition: there are no rows and no readers any more.
  ~value_blocks() {
    for (holder& h : held_at_) todo_.append(h.blocks);
    todo_.append(queue_);
    free_all(todo_);
  }

  /// A block with these bytes. `beside` is as for row_budget::take. Throws std::bad_alloc, and
  /// row_budget::exceeded; nothing has changed then.
  value_block* make(std::string_view bytes, std::uint64_t beside) {
    const std::uint64_t all = sizeof(value_block) + bytes.size();
    budget_.take(all, beside);
    void* place = nullptr;
    try {
      place = memory::allocate(all, alignof(value_block));
    } catch (...) {
      budget_.give(all);
      throw;
    }
    auto* const b = ::new (place) value_block;
    small_blocks::taken();
    b->size.write(bytes.size());
    std::memcpy(b->bytes(), bytes.data(), bytes.size());
    held_.fetch_add_relaxed(all);
    return b;
  }
  /// Precondition: no reader has seen the block, or those that have are gone.
  void free(value_block* b) noexcept {
    const std::uint64_t all = b->memory();
    b->~value_block();
    memory::deallocate(b, all, alignof(value_block));
    small_blocks::freed();
    held_.fetch_sub_relaxed(all);
    budget_.give(all);
  }
  void free_all(value_list& all) noexcept {
    while (all.first != nullptr) free(all.take());
  }

  /// Frees the values that a row has in these columns. The row exists, and no thread will read it
  /// any more.
  void free_row(const schema& s, const row_place& place, std::uint64_t columns) noexcept;

  /// Takes over values that the commit at this time has taken out of their rows. The rows may still
  /// be locked.
  void retire(value_list& all, std::uint64_t commit) noexcept {
    if (all.first == nullptr) return;
    for (value_block* b = all.first; b != nullptr; b = b->next.read()) b->ended.write(commit);
    waiting_bytes_.fetch_add_relaxed(all.bytes);
    put(all);
  }
  /// To be called when a commit is over, and its snapshot has ended.
  void after_commit() noexcept {
    if (waiting_bytes() != 0) work();
  }
  /// To be called when a snapshot of this time has ended. `spent`: leaves the blocks that it has
  /// held to later steps. True: blocks were examined.
  bool after_snapshot(std::uint64_t time, bool spent) noexcept {
    // Mostly it is not in between: then nothing hangs at it.
    return first_held_.load_relaxed() <= time && time <= last_held_.load_relaxed() &&
           snapshot_ended(time, spent);
  }
  /// Examines blocks for a millisecond at most; for readers that begin or end. False: there was
  /// nothing to do, or another thread is at it.
  bool step() noexcept { return ready_.load_relaxed() != 0 && go_on(); }
  /// Frees all blocks that no snapshot sees, unless another thread is at it.
  void collect() noexcept {
    const turn mine(*this);
    if (!mine) return;
    look();
    come_ = 0;
    examine_some(todo_.count);
  }

  /// Bytes of all blocks.
  [[nodiscard]] std::uint64_t held() const noexcept { return held_.load_relaxed(); }
  /// Bytes of the blocks that are in no row any more.
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept {
    return waiting_bytes_.load_relaxed();
  }

 private:
  /// A look goes over all listed snapshots: so there is one look for each block that comes for so
  /// many of them.
  static constexpr std::uint64_t snapshots_a_block = 16;

  /// The blocks that hang at the snapshots of one time.
  struct holder {
    std::uint64_t time = 0;
    value_list blocks;
  };
  /// The right to examine blocks, which one thread at a time has.
  class turn {
   public:
    /// The object is false after that if another thread has its turn.
    explicit turn(value_blocks& of) noexcept : of_(of), mine_(of.busy_) {}
    ~turn() {
      if (!mine_) return;
      of_.ready_.store_relaxed(of_.todo_.count);
      const bool none = of_.held_at_.empty();
      of_.first_held_.store_relaxed(none ? 1 : of_.held_at_.front().time);
      of_.last_held_.store_relaxed(none ? 0 : of_.held_at_.back().time);
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;
    explicit operator bool() const noexcept { return static_cast<bool>(mine_); }

   private:
    value_blocks& of_;
    const one_at_a_time mine_;
  };

  static bool are_many(std::uint64_t blocks, std::uint64_t bytes) noexcept {
    return blocks > most_waiting || bytes > most_bytes;
  }
  /// Not inline, so that commits of databases without such values save no registers for it.
  SPOLIA_NOINLINE void work() noexcept {
    const std::uint64_t every = look_every_.load_relaxed();
    const bool due = queued_.load_relaxed() > every || queued_bytes_.load_relaxed() > most_bytes ||
                     calls_.fetch_add_relaxed(1) % (every + 1) == every;
    if (!due && ready_.load_relaxed() == 0) return;
    const turn mine(*this);
    if (!mine) return;
    if (due) look();
    examine_some(2 * std::exchange(come_, 0));
    std::uint64_t bytes = 0;
    for (std::uint64_t n = 0; n < most_waiting && bytes < most_bytes && todo_.count != 0; ++n) {
      bytes += todo_.first->memory();
      examine_some(1);
    }
  }
  bool snapshot_ended(std::uint64_t time, bool spent) noexcept;
  bool go_on() noexcept;

  // For the thread whose turn it is:

  /// Lists the snapshots. Blocks that hung at snapshots which have ended are to be examined again,
  /// and so are those that have come since the last look.
  void look() noexcept {
    if (list_snapshots()) {
      snapshot_list::walk listed = snapshots_.from_first();
      std::erase_if(held_at_, [&](holder& h) {  // ascending by time, as the list is
        const bool ended = !listed.has(h.time);
        if (ended) todo_.append(h.blocks);
        return ended;
      });
    }
    ended_blocks_ = ended_bytes_ = 0;
    const std::lock_guard hold(lock_);
    queued_.store_relaxed(0);
    queued_bytes_.store_relaxed(0);
    come_ += queue_.count;
    todo_.append(queue_);
  }
  /// Lists the snapshots, and reserves room for a holder of each. False: there was no memory.
  bool list_snapshots() noexcept {
    if (!snapshots_.look(board_)) return false;
    look_every_.store_relaxed(
        std::max<std::uint64_t>(most_waiting, snapshots_.size() / snapshots_a_block));
    try {
      held_at_.reserve(snapshots_.size());
      return true;
    } catch (const std::bad_alloc&) {
      snapshots_.list_none();
      return false;
    }
  }
  void examine_some(std::uint64_t most) noexcept {
    for (; most != 0 && todo_.first != nullptr; --most) examine(todo_.take());
  }
  void examine_for_a_while() noexcept;
  void examine(value_block* b) noexcept {
    const std::uint64_t ended = b->ended.read();
    if (!snapshots_.vouches_for(ended) && !SPOLIA_FAULT("values.known_not_asked")) {
      value_list one;
      one.add(b);
      return put(one);
    }
    const std::uint64_t since =
        b->since.read() + (SPOLIA_FAULT("values.first_moment_lost") ? 1 : 0);
    const std::uint64_t* const by = snapshots_.needed_by(since, ended).by;
    if (by != nullptr && !SPOLIA_FAULT("values.nobody_asked")) return hang(b, *by);
    waiting_bytes_.fetch_sub_relaxed(b->memory());
    free(b);
  }
  void hang(value_block* b, std::uint64_t time) noexcept {
    auto at = holder_at(time);
    if (at == held_at_.end() || at->time != time) {
      // There is room: list_snapshots() has reserved it for one holder of each listed time.
      at = held_at_.insert(at, holder{time, {}});
    }
    at->blocks.add(b);
  }
  /// The first holder that is not before that time.
  std::vector<holder>::iterator holder_at(std::uint64_t time) noexcept {
    return std::lower_bound(held_at_.begin(), held_at_.end(), time,
                            [](const holder& h, std::uint64_t t) { return h.time < t; });
  }

  /// Puts blocks into the queue, to be examined after the next look.
  void put(value_list& all) noexcept {
    const std::lock_guard hold(lock_);
    queued_.fetch_add_relaxed(all.count);
    queued_bytes_.fetch_add_relaxed(all.bytes);
    queue_.append(all);
  }

  commit_board& board_;
  row_budget& budget_;
  atomic<std::uint64_t> held_{0};
  atomic<std::uint64_t> waiting_bytes_{0};
  spolia::detail::short_lock lock_;
  value_list queue_;  // under the lock
  atomic<std::uint64_t> queued_{0};
  atomic<std::uint64_t> queued_bytes_{0};
  atomic<std::uint64_t> ready_{0};  // how many blocks the last turn has left in todo_
  atomic<std::uint32_t> calls_{0};
  atomic<std::uint64_t> look_every_{most_waiting};  // so many blocks, or calls
  // The first and the last time at which blocks hang; (1, 0) if none does.
  atomic<std::uint64_t> first_held_{1};
  atomic<std::uint64_t> last_held_{0};
  atomic<bool> busy_{false};
  // Of the thread whose turn it is:
  value_list todo_;                 // blocks to be examined by the list of the last look
  std::uint64_t come_ = 0;          // how many came into it since a commit has examined any
  std::uint64_t ended_blocks_ = 0;  // how many hang at snapshots that ended since the last look
  std::uint64_t ended_bytes_ = 0;
  snapshot_list snapshots_;      // the list of the last look
  std::vector<holder> held_at_;  // by time
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
