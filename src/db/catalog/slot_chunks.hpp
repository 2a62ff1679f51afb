// SPDX-License-Identifier: Apache-2.0
// slot_chunks.hpp: which slots of a table are taken, chunk by chunk. Internal.
//
// Idea:        the slots of a table are in chunks of about 64 KiB. A chunk counts its taken slots,
//              and those of them whose row has ended and waits for the cleaner. The other taken
//              ones have a row that is not deleted, or is being inserted. The lowest chunk with a
//              free slot is filled first, so that the upper ones become empty. A scan skips a chunk
//              that has no row for its snapshot: so its cost depends on the rows that are left, not
//              on those that were ever there.
// Why a skipped chunk has no row for a snapshot at T. Let a row be visible at T.
//   Its insertion counted its slot before it drew its commit time, which is at or before T. The
//   thread that announced T read the clock after that time was drawn. So the load in may_show()
//   finds that count in `counts`, or a later value; all later changes are read-modify-writes. The
//   slot is given back only when no snapshot is left that sees the row: so it still counts as
//   taken.
//   If the row has ended, at c, then c is after T. Either may_show() does not find its end counted:
//   then more slots are taken than rows have ended, and the chunk is not skipped. Or it does: then
//   the acquire that found it shows c in `last_end`, which was noted before.
// The same holds for a serializable commit that checks all rows of a table again, at the time
//   `drawn`. A row that came after its snapshot was counted before `drawn` was drawn. If the slot
//   is free again, the row's end was before `drawn` (the validation floor, snapshot_list.hpp).
// Memory:      a chunk that becomes empty is given back to the system, but the lowest empty one is
//              kept: so a table whose rows come and go at the edge of a chunk does not give back
//              and take again all the time. Chunks that were given back are used again when no
//              other one has a free slot.
//              A cache line or two for each chunk, and a bit for each slot.
// Cost:        take() and give(): a short lock, and one read-modify-write. The end of a row: one or
//              two.
// Threads:     all functions may run at the same time. take(), give(), gave_back() and kept()
//              exclude each other by one short lock; the others take none.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A set of small numbers, which finds its lowest. It has a bit for each number, and one for each
/// word of such bits.
class number_set {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// Makes room for all numbers below `end`. Throws std::bad_alloc.
  void make_room(std::uint32_t end) {
    words_.resize(std::max<std::size_t>(words_.size(), (std::size_t{end} + 63) / 64));
    groups_.resize((words_.size() + 63) / 64);
  }
  void add(std::uint32_t n) noexcept {
    words_[n / 64] |= bit(n);
    groups_[n / 64 / 64] |= bit(n / 64);
  }
  void remove(std::uint32_t n) noexcept {
    if ((words_[n / 64] &= ~bit(n)) == 0) groups_[n / 64 / 64] &= ~bit(n / 64);
  }
  [[nodiscard]] bool has(std::uint32_t n) const noexcept { return (words_[n / 64] & bit(n)) != 0; }
  [[nodiscard]] std::uint32_t lowest() const noexcept {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g] == 0) continue;
      const std::size_t word = g * 64 + static_cast<std::size_t>(std::countr_zero(groups_[g]));
      return static_cast<std::uint32_t>(word * 64 +
                                        static_cast<std::size_t>(std::countr_zero(words_[word])));
    }
    return none;
  }

 private:
  static constexpr std::uint64_t bit(std::size_t n) noexcept { return std::uint64_t{1} << n % 64; }

  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> groups_;
};

class slot_chunks {
 public:
  static constexpr std::uint32_t none = number_set::none;

  /// `slots`: of a chunk, a power of two. `end` is 0 at first, and outlives this object.
  slot_chunks(std::uint32_t slots, atomic<std::uint64_t>& end) noexcept
      : slots_(slots), shift_(static_cast<unsigned>(std::countr_zero(slots))), end_(end) {}
  slot_chunks(const slot_chunks&) = delete;
  slot_chunks& operator=(const slot_chunks&) = delete;

  // --- for scans ---

  /// All slots that were ever taken are below this.
  [[nodiscard]] std::uint64_t end() const noexcept {
    // acquire ← the release in reach(): the slots are constructed, and so are their chunks.
    return end_.load_acquire();
  }
  /// The first slot from this one on whose chunk may have a row for a snapshot of that time; at or
  /// after `end` if there is none before it. `end` is not above end().
  [[nodiscard]] std::uint64_t next_shown(std::uint64_t slot, std::uint64_t end,
                                         std::uint64_t time) const noexcept {
    while (slot < end && !may_show(number_of(slot), time)) slot = first_of(number_of(slot) + 1);
    return slot;
  }
  /// As next_shown(), for a walk that has checked each chunk at its first slot.
  [[nodiscard]] std::uint64_t step(std::uint64_t slot, std::uint64_t end,
                                   std::uint64_t time) const noexcept {
    ++slot;
    return (slot & (slots_ - 1)) != 0 ? slot : next_shown(slot, end, time);
  }
  /// How many slots are taken; each chunk is counted at a moment of its own.
  [[nodiscard]] std::uint64_t taken() const noexcept {
    std::uint64_t sum = 0;
    const std::uint64_t all = end();
    for (std::uint32_t n = 0; first_of(n) < all; ++n) {
      sum += taken_in(at(n).counts.load_relaxed());
    }
    return sum;
  }

  // --- for changes of rows ---

  /// Counts the end, at that time, of the committed row in the slot. The caller has the row's lock.
  void row_ended(std::uint64_t slot, std::uint64_t time) noexcept {
    chunk& c = of(slot);
    const bool late = SPOLIA_FAULT("slot_chunks.end_noted_late");
    if (!late) note_end(c, time);
    // release → the acquire in may_show(): the end that was noted.
    c.counts.fetch_add_release(one_ended);
    if (late) note_end(c, time);
  }
  /// Takes back the count of a row's end, since the row gets new contents; and counts it again,
  /// since it does not after all. The caller has the row's lock, and the row is not visible.
  void revive(std::uint64_t slot) noexcept { of(slot).counts.fetch_sub_relaxed(one_ended); }
  void revive_no_more(std::uint64_t slot) noexcept { of(slot).counts.fetch_add_relaxed(one_ended); }

  // --- for insertions, and for the cleaner ---

  /// Takes a free slot, to which nothing leads. It counts as taken, with a row that has not ended.
  /// If no chunk has a free slot, again(chunk) gets memory for a chunk that had given it back, or
  /// make(from, end) gets it for the slots from..end, and returns the end of those that have got
  /// it, which may be less. Both are called under the lock. Throws what they throw, and
  /// std::bad_alloc; nothing has changed then.
  template <class Make, class Again>
  std::uint64_t take(Make&& make, Again&& again) {
    const std::lock_guard hold(lock_);
    if (filled_ == nullptr) [[unlikely]]
      open_another(make, again);
    return take_open();
  }
  /// The same if there is a free slot with memory; else returns `otherwise`.
  std::uint64_t take_if_open(std::uint64_t otherwise) noexcept {
    const std::lock_guard hold(lock_);
    return filled_ == nullptr ? otherwise : take_open();
  }

  /// Takes a run of about `count` slots that were never taken before, from a multiple of `block`
  /// on, and returns the first; `count` becomes how many they are. memory(from, end) is as make()
  /// in take(). For a thread that fills a table which no other thread uses yet.
  template <class Memory>
  std::uint64_t take_run(std::uint64_t& count, std::uint64_t block, Memory&& memory) {
    const std::lock_guard hold(lock_);
    const std::uint64_t from = (end_.load_relaxed() + block - 1) / block * block;
    add_chunks(from + count);
    if (ready_ < from + count) grow(memory(ready_, from + count));
    const std::uint64_t end = std::min(from + count, ready_);
    for (std::uint64_t slot = from; slot < end;) {
      const std::uint32_t n = number_of(slot);
      chunk& c = at(n);
      const std::uint64_t stop = std::min(end, first_of(n + 1));
      count_taken(c, n, stop - slot);
      for (; slot < stop; ++slot) c.free[word_of(slot)] &= ~bit_of(slot);
    }
    reach(end);
    count = end - from;
    return from;
  }

  enum class what : std::uint8_t {
    no_row,    ///< no snapshot can have seen a row in it
    ended_row  ///< the end of its row was counted, and no snapshot sees it
  };
  /// Gives the slot back. Returns `none`, or a chunk that is empty now and whose memory the caller
  /// is to give back: its slots are not taken until the caller has called gave_back() or kept().
  SPOLIA_ALWAYS_INLINE std::uint32_t give(std::uint64_t slot, what was) noexcept {
    const std::lock_guard hold(lock_);
    chunk& c = of(slot);
    const std::uint32_t word = word_of(slot);
    c.free[word] |= bit_of(slot);
    if (word < c.first) c.first = word;
    // relaxed: no snapshot is left that sees the slot's last row.
    const std::uint64_t less = was == what::ended_row ? one_ended + 1 : 1;
    const std::uint64_t before = taken_in(c.counts.fetch_sub_relaxed(less));
    const bool neither = before != c.ready && before != 1;
    return neither ? none : was_full_or_is_empty(number_of(slot), before);
  }
  /// The chunk's memory was given back: the chunk has none until take() gets it again.
  void gave_back(std::uint32_t n) noexcept {
    const std::lock_guard hold(lock_);
    without_memory_.add(n);
  }
  /// The chunk's memory was not given back.
  void kept(std::uint32_t n) noexcept {
    const std::lock_guard hold(lock_);
    open(at(n), n);
  }

  [[nodiscard]] std::uint32_t number_of(std::uint64_t slot) const noexcept {
    return static_cast<std::uint32_t>(slot >> shift_);
  }
  [[nodiscard]] std::uint64_t first_of(std::uint32_t n) const noexcept {
    return std::uint64_t{n} << shift_;
  }
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }

 private:
  struct alignas(cache_line) chunk {
    atomic<std::uint64_t> counts{0};    // taken slots; in the upper half, rows that have ended
    atomic<std::uint64_t> last_end{0};  // the latest end of a row
    // Under the lock:
    std::unique_ptr<std::uint64_t[]> free;  // a bit for each slot
    std::uint32_t first = 0;                // no word of `free` before this one has a bit set
    std::uint32_t ready = 0;                // how many slots have had memory
  };

  static constexpr unsigned ended_at = 32;
  static constexpr std::uint64_t one_ended = std::uint64_t{1} << ended_at;
  static constexpr std::uint64_t taken_in(std::uint64_t counts) noexcept {
    return counts & (one_ended - 1);
  }

  [[nodiscard]] std::uint32_t word_of(std::uint64_t slot) const noexcept {
    return (static_cast<std::uint32_t>(slot) & (slots_ - 1)) / 64;
  }
  [[nodiscard]] std::uint64_t bit_of(std::uint64_t slot) const noexcept {
    return std::uint64_t{1} << (slot & 63U);
  }
  [[nodiscard]] chunk& of(std::uint64_t slot) const noexcept { return at(number_of(slot)); }
  [[nodiscard]] chunk& at(std::uint32_t n) const noexcept {
    // acquire ← the release in add_segment(): the chunk is constructed.
    return *reinterpret_cast<chunk*>(segments_[segment_of(n)].load_acquire() + n * sizeof(chunk));
  }
  /// The segment of a chunk. The first one has 8 chunks, each other as many as those before it.
  static constexpr unsigned segment_of(std::uint32_t n) noexcept { return bit_length(n | 7U) - 3; }
  [[nodiscard]] bool may_show(std::uint32_t n, std::uint64_t time) const noexcept {
    const chunk& c = at(n);
    // acquire ← the release in row_ended(): the end that was noted.
    const std::uint64_t counts = c.counts.load_acquire();
    const std::uint64_t taken = taken_in(counts);
    if (taken == 0) return false;
    const bool lives = taken != counts >> ended_at;
    return lives ||
           (c.last_end.load_relaxed() > time && !SPOLIA_FAULT("slot_chunks.end_not_asked"));
  }
  static void note_end(chunk& c, std::uint64_t time) noexcept {
    std::uint64_t last = c.last_end.load_relaxed();
    while (last < time && !c.last_end.cas_weak_relaxed(last, time)) {
    }
  }
  void reach(std::uint64_t end) noexcept {
    // release → the acquires in end() and table::row_slots().
    if (end_.load_relaxed() < end) end_.store_release(end);
  }

  // Under the lock:

  std::uint64_t take_open() noexcept {
    chunk& c = *filled_;
    while (c.free[c.first] == 0) ++c.first;
    std::uint64_t& word = c.free[c.first];
    const std::uint64_t slot = (first_of(filled_number_) & ~std::uint64_t{63}) + c.first * 64 +
                               static_cast<unsigned>(std::countr_zero(word));
    word &= word - 1;
    count_taken(c, filled_number_, 1);
    reach(slot + 1);
    return slot;
  }
  void count_taken(chunk& c, std::uint32_t n, std::uint64_t more) noexcept {
    // relaxed: the commit that makes a row visible there comes later, and is released.
    const std::uint64_t before = taken_in(c.counts.fetch_add_relaxed(more));
    if (before + more == c.ready) close(n);
    if (before == 0 && spare_ == n) spare_ = none;
  }
  /// Notes that the chunk has a free slot.
  void open(chunk& c, std::uint32_t n) noexcept {
    open_.add(n);
    if (filled_ != nullptr && filled_number_ < n) return;
    filled_ = &c;
    filled_number_ = n;
  }
  /// Notes that the chunk has no free slot, or none that may be taken.
  void close(std::uint32_t n) noexcept {
    open_.remove(n);
    if (filled_ == nullptr || filled_number_ != n) return;
    filled_number_ = open_.lowest();
    filled_ = filled_number_ == none ? nullptr : &at(filled_number_);
  }
  SPOLIA_NOINLINE std::uint32_t was_full_or_is_empty(std::uint32_t n,
                                                     std::uint64_t before) noexcept {
    chunk& c = at(n);
    if (before == c.ready) open(c, n);
    if (before != 1 || c.ready != slots_) return none;  // the last chunk may still grow
    if (spare_ == none) {
      spare_ = n;
      return none;
    }
    const std::uint32_t upper = std::max(n, spare_);
    spare_ = std::min(n, spare_);
    if (!SPOLIA_FAULT("slot_chunks.left_open")) close(upper);
    return upper;
  }

  template <class Make, class Again>
  SPOLIA_NOINLINE void open_another(Make& make, Again& again) {
    const std::uint32_t n = without_memory_.lowest();
    if (n != none) {
      again(n);
      without_memory_.remove(n);
      return open(at(n), n);
    }
    add_chunks(ready_ + 1);
    grow(make(ready_, first_of(number_of(ready_) + 1)));
  }
  /// Makes chunks for all slots below `end`. Throws std::bad_alloc.
  void add_chunks(std::uint64_t end) {
    const std::uint32_t last = number_of(end - 1);
    open_.make_room(last + 1);
    without_memory_.make_room(last + 1);
    for (; made_ <= last; ++made_) {
      if (made_ == chunks_in_all()) add_segment();
      at(made_).free = std::make_unique<std::uint64_t[]>((slots_ + 63) / 64);
    }
  }
  [[nodiscard]] std::uint64_t chunks_in_all() const noexcept {
    return owned_.empty() ? 0 : std::uint64_t{4} << owned_.size();
  }
  void add_segment() {
    const std::uint64_t before = chunks_in_all();
    owned_.push_back(std::make_unique<chunk[]>(before == 0 ? 8 : before));
    // So that adding a chunk's number gives its address. release → the acquire in at().
    segments_[owned_.size() - 1].store_release(
        reinterpret_cast<std::uintptr_t>(owned_.back().get()) - before * sizeof(chunk));
  }
  /// Notes that the slots below this one have memory now.
  void grow(std::uint64_t ready) noexcept {
    while (ready_ < ready) {
      const std::uint32_t n = number_of(ready_);
      chunk& c = at(n);
      const std::uint64_t stop = std::min(ready, first_of(n + 1));
      for (; ready_ < stop; ++ready_) c.free[word_of(ready_)] |= bit_of(ready_);
      c.first = 0;
      c.ready = static_cast<std::uint32_t>(stop - first_of(n));
      open(c, n);
    }
  }

  const std::uint32_t slots_;
  const unsigned shift_;
  atomic<std::uint64_t>& end_;  // written under the lock
  // For each segment, the address at which chunk 0 would be if all chunks before it were in it,
  // too.
  std::array<atomic<std::uintptr_t>, 30> segments_{};
  spolia::detail::short_lock lock_;
  // Under the lock:
  std::uint64_t ready_ = 0;                      // slots below this have had memory
  std::uint32_t made_ = 0;                       // how many chunks there are
  std::vector<std::unique_ptr<chunk[]>> owned_;  // the segments
  number_set open_;                              // chunks with a free slot that may be taken
  chunk* filled_ = nullptr;                      // the lowest of these; null: there is none
  std::uint32_t filled_number_ = none;
  std::uint32_t spare_ = none;  // the lowest empty chunk, which keeps its memory
  number_set without_memory_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
