// SPDX-License-Identifier: Apache-2.0
// value_blocks.hpp: where variable texts and blobs lie, apart from their rows, and until when.
//
// Source:      the rule that a version is needed by the snapshots between its beginning and its end
//              is that of Steam's precise collection (Boettcher et al., VLDB 2019) and of range
//              tracking (Ben-David et al., DISC 2021); the census finds the snapshots.
// Idea:        a value is a block that never changes. The row has its address, and so has each
//              before-image of the row: several versions of a row share it, as long as the value is
//              the same. So a block is not one version's, and no version storage can tell when it
//              may go. It belongs to the row. It knows the commit that has put it there; the commit
//              that replaces it, or deletes the row, gives it to a queue together with its own
//              time. From there it is freed when no announced snapshot lies in between.
// Protects:    who has announced T, and has a handle out of the version of a row that was current
//              at T, copied and validated as row.hpp has it: the block was there at T. Handles out
//              of words that were not validated must not be followed.
// Why no snapshot is missed: a snapshot T needs a block with since <= T < ended. When the block
//   comes into the queue, `ended` is a time that the clock has shown. census::scan() lists all that
//   is announced below the time that it returns, or will ever be; a block that ended later than
//   that waits for the next scan.
// Why the fields need no atomics: `since` is written and read by who holds the row's lock. The
//   others are written by that one before the block is in the queue, and read by who takes it out:
//   the queue has a lock.
// Cost:        a commit that replaces values: a short lock. Each collection, after as many blocks
//              or bytes came in as were left by the last one and some: a look at the census.
// Progress:    readers do nothing. One thread collects at a time; others go on without.
// Bound:       what waits is at most twice what announced snapshots could see at the last
//              collection, and `most_waiting` blocks or `most_bytes`, whichever is reached first;
//              and what one commit replaces.
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

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class schema;
struct row_place;

/// The value's bytes follow it.
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

/// Blocks that are linked.
struct value_list {
  value_block* first = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;

  void add(value_block* b) noexcept {
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
  /// All rows are gone, and so are all who read.
  ~value_blocks() { free_all(waiting_); }

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
    b->size.write(bytes.size());
    std::memcpy(b->bytes(), bytes.data(), bytes.size());
    held_.fetch_add_relaxed(all);
    return b;
  }
  /// No reader has seen it, or those that have are gone.
  void free(value_block* b) noexcept {
    const std::uint64_t all = b->memory();
    b->~value_block();
    memory::deallocate(b, all, alignof(value_block));
    held_.fetch_sub_relaxed(all);
    budget_.give(all);
  }
  void free_all(value_list& all) noexcept {
    while (all.first != nullptr) free(all.take());
  }

  /// Those that a row has in these columns, which exists, and will not be looked at any more.
  void free_row(const schema& s, const row_place& place, std::uint64_t columns) noexcept;

  /// Values which the commit at this time has taken out of their rows. The rows may be locked yet.
  void retire(value_list& all, std::uint64_t commit) noexcept {
    if (all.first == nullptr) return;
    for (value_block* b = all.first; b != nullptr; b = b->next.read()) b->ended.write(commit);
    put_back(std::exchange(all, {}));
    if (count_.load_relaxed() > enough_blocks_.load_relaxed() ||
        waiting_bytes() > enough_bytes_.load_relaxed()) {
      collect();
    }
  }
  /// Frees what no snapshot sees, unless another thread is at it.
  void collect() noexcept {
    // acquire ← the release below: the vector.
    if (busy_.load_relaxed() || busy_.exchange_acquire(true)) return;
    const std::uint64_t known = look();
    value_list kept;
    value_list all = take_all();
    while (all.first != nullptr) {
      value_block* const b = all.take();
      if (needed(*b, known)) {
        kept.add(b);
      } else {
        free(b);
      }
    }
    enough_blocks_.store_relaxed(2 * kept.count + most_waiting);
    enough_bytes_.store_relaxed(2 * kept.bytes + most_bytes);
    put_back(kept);
    busy_.store_release(false);  // → the acquire above
  }

  /// Bytes of all blocks.
  [[nodiscard]] std::uint64_t held() const noexcept { return held_.load_relaxed(); }
  /// Of those that are in no row any more.
  [[nodiscard]] std::uint64_t waiting_bytes() const noexcept { return bytes_.load_relaxed(); }

 private:
  /// Lists the snapshots. Without memory for that, the oldest one is a list: what ended before it
  /// is not needed, and more is not known.
  std::uint64_t look() noexcept {
    try {
      return board_.living.scan(board_.clock, snapshots_);
    } catch (const std::bad_alloc&) {
      snapshots_.clear();
      return board_.living.oldest(board_.clock);
    }
  }
  /// Whether a snapshot may see it.
  [[nodiscard]] bool needed(const value_block& b, std::uint64_t known) const noexcept {
    const std::uint64_t ended = b.ended.read();
    if (ended > known && !SPOLIA_FAULT("values.known_not_asked")) return true;
    // The first one that began when the value was there, or later.
    const std::uint64_t since = b.since.read() + (SPOLIA_FAULT("values.first_moment_lost") ? 1 : 0);
    const auto first = std::lower_bound(snapshots_.begin(), snapshots_.end(), since);
    return first != snapshots_.end() && *first < ended && !SPOLIA_FAULT("values.nobody_asked");
  }
  value_list take_all() noexcept {
    const std::lock_guard hold(lock_);
    bytes_.fetch_sub_relaxed(waiting_.bytes);
    count_.fetch_sub_relaxed(waiting_.count);
    return std::exchange(waiting_, {});
  }
  void put_back(value_list all) noexcept {
    if (all.first == nullptr) return;
    value_block* last = all.first;
    while (last->next.read() != nullptr) last = last->next.read();
    const std::lock_guard hold(lock_);
    last->next.write(waiting_.first);
    waiting_.first = all.first;
    waiting_.bytes += all.bytes;
    waiting_.count += all.count;
    bytes_.fetch_add_relaxed(all.bytes);
    count_.fetch_add_relaxed(all.count);
  }

  commit_board& board_;
  row_budget& budget_;
  atomic<std::uint64_t> held_{0};
  spolia::detail::short_lock lock_;
  value_list waiting_;
  atomic<std::uint64_t> bytes_{0};  // of it, for who has not the lock
  atomic<std::uint64_t> count_{0};
  atomic<bool> busy_{false};
  std::vector<std::uint64_t> snapshots_;  // of who is busy
  atomic<std::uint64_t> enough_blocks_{most_waiting};
  atomic<std::uint64_t> enough_bytes_{most_bytes};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
