// SPDX-License-Identifier: Apache-2.0
// cells.hpp: one cell for each thread number, made on first use and kept until the whole goes.
//
// A cell outlives its thread: the next thread with the same number finds it as it was left, and any
// thread may walk over all of them. Cells sit in segments of doubling size that are never moved.
//
// After many threads have come and gone most cells have nothing in them. So a user may say which
// are occupied, by a bit for each, and walk over these alone. The bit is set by the thread that has
// the number, before it uses the cell; it is cleared when nothing is left in the cell and no thread
// has the number, under the lock under which numbers are given out (threads::if_free). So the two
// never meet, and each walk is as one over all cells:
//   A walk that misses a cell which was just occupied is one that came before its thread, as where
//   the cell is not made yet. What orders the two is what orders the walk and the thread's first
//   announcement: a fence, or a read-modify-write of one word, on both sides. The bit is set before
//   the thread's side of that.
//   A walk that finds a bit cleared sees all that the cell's threads did before they ended.
//
// Errors:      of(n) may throw std::bad_alloc, and whatever Cell's constructor throws; then nothing
//              has changed.
// Cost:        of(n): a bit scan and two loads. for_each: linear in the highest thread number so
//              far; for_each_occupied: in the occupied cells, and a load for 64 of the others.
// Progress:    lock-free: two threads that need the same segment both make one, and one wins.
// Memory:      one cell for the first number, one for the second, then as many again as there are
//              numbers below: 2 n at most, n the highest number that has one, and one at least; and
//              a bit for each.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

#if defined(SPOLIA_MODEL)
/// Scenarios say whether cells are to be occupied one by one. If not, all are, from the start: bits
/// that each thread sets would multiply the executions of all other scenarios.
inline bool scenario_occupies_cells = false;
inline bool cells_are_occupied() noexcept { return scenario_occupies_cells; }
#else
constexpr bool cells_are_occupied() noexcept { return true; }
#endif

/// Which walks over cells vacate those that threads have left, as well: one in some dozens, or in
/// some hundreds as long as there are none. To ask whether a number is free takes a lock.
class vacating_walks {
 public:
  [[nodiscard]] bool is_next() noexcept {
    if (!cells_are_occupied()) return false;
    // relaxed, and not in one step: where two threads count at one time, a walk more or less is
    // the next.
    const std::uint32_t left = until_next_.load_relaxed();
    until_next_.store_relaxed(left == 0 ? step_.load_relaxed() : left - 1);
    return left == 0;
  }
  /// The next one. `close` is called of each that is vacated, while no thread can get its number.
  template <class Cells, class IsVacant, class Close>
  SPOLIA_NOINLINE void vacate(Cells& all, const IsVacant& is_vacant, const Close& close) noexcept {
    bool any = false;
    all.for_each_occupied([&](std::uint32_t n, auto& cell) {
      any |= is_vacant(cell) && all.vacate_if_left(n, cell, [&](auto& still) {
        if (!is_vacant(still)) return false;
        close(still);
        return true;
      });
      return true;
    });
    const std::uint32_t step = any ? least : (std::min)(2 * step_.load_relaxed(), most);
    step_.store_relaxed(step);
    until_next_.store_relaxed(step);
  }

 private:
  static constexpr std::uint32_t least = 16;
  static constexpr std::uint32_t most = 256;
  atomic<std::uint32_t> until_next_{least};
  atomic<std::uint32_t> step_{least};
};

template <class Cell>
class cells {
  using bits = atomic<std::uint64_t>;

 public:
  cells() = default;
  cells(const cells&) = delete;
  cells& operator=(const cells&) = delete;

  ~cells() {
    for (unsigned k = 0; k < segments; ++k) {
      if (Cell* const s = segment_[k].load_relaxed()) destroy_segment(s, size_of(k), words_of(k));
    }
  }

  /// The cell of thread `n`; made if need be.
  Cell& of(std::uint32_t n) {
    const unsigned k = segment_number(n);
    // acquire ← the release in make_segment: we see the cells constructed.
    Cell* s = segment_[k].load_acquire();
    if (s == nullptr) [[unlikely]]
      s = make_segment(k);
    return s[n - base_of(k)];
  }

  /// The cell of thread `n`, or null if no cell near it was ever made.
  Cell* find(std::uint32_t n) const noexcept {
    const unsigned k = segment_number(n);
    // acquire ← the release in make_segment: we see the cells constructed.
    Cell* const s = segment_[k].load_acquire();
    return s == nullptr ? nullptr : &s[n - base_of(k)];
  }

  /// The same, for the thread that has the number: the cell is occupied from now on.
  Cell& occupy(std::uint32_t n) {
    Cell& mine = of(n);
    occupy_made(n);
    return mine;
  }
  /// The same of a cell that was made.
  void occupy_made(std::uint32_t n) noexcept {
    if (!cells_are_occupied()) return;
    bits& word = word_of(n);
    // release → the acquires in for_each_occupied() and occupied_end(): they find the segment.
    if ((word.load_relaxed() & bit_of(n)) == 0) word.fetch_or_release(bit_of(n));
  }

  /// Nothing is left in the cell of a number that no thread has, or whose thread is just leaving.
  /// To be called inside threads::if_free(), or by a listener's thread_left().
  void vacate(std::uint32_t n) noexcept {
    if (!cells_are_occupied()) return;
    // release → the acquires in for_each_occupied() and occupied_end(): what the cell's threads
    // accessed happens before what is freed because they are not found.
    if (SPOLIA_FAULT("cells.vacated_relaxed")) {
      word_of(n).fetch_and_relaxed(~bit_of(n));
    } else {
      word_of(n).fetch_and_release(~bit_of(n));
    }
  }

  /// The same from anywhere, if no thread has the number and is_empty(cell) then. True if so.
  template <class Empty>
  bool vacate_if_left(std::uint32_t n, Cell& left, const Empty& is_empty) noexcept {
    bool vacated = false;
    threads::if_free(n, [&] {
      if (!is_empty(left)) return;
      vacate(n);
      vacated = true;
    });
    return vacated;
  }

  [[nodiscard]] bool is_occupied(std::uint32_t n) const noexcept {
    if (!cells_are_occupied()) return true;
    // acquire ← the release in vacate().
    return find(n) != nullptr && (word_of(n).load_acquire() & bit_of(n)) != 0;
  }

  /// All occupied cells have numbers below this.
  [[nodiscard]] std::uint32_t occupied_end() const noexcept {
    if (!cells_are_occupied()) return threads::high_water();
    // relaxed: a thread makes its segment before it occupies its cell, see the head of this file.
    for (unsigned k = last_with_words_.load_relaxed(); k >= first_with_words; --k) {
      // acquire ← the release in make_segment: we see the words constructed.
      const Cell* const s = segment_[k].load_acquire();
      for (std::uint32_t w = s == nullptr ? 0 : words_of(k); w-- > 0;) {
        // acquire ← the releases in occupy() and vacate().
        const std::uint64_t word = words(s, k)[w].load_acquire();
        if (word == 0) continue;
        return base_of(k) + w * 64 + bit_length(word);
      }
    }
    // acquire ← the same.
    return bit_length(first_word_.load_acquire());
  }

  /// Calls f(number, cell) for each cell that was made, in ascending order of numbers; stops early
  /// when f returns false. A segment made meanwhile may be missed: order that with fences.
  template <class F>
  void for_each(F&& f) const {
    const std::uint32_t end = threads::high_water();
    for (unsigned k = 0; k < segments && base_of(k) < end; ++k) {
      // acquire ← the release in make_segment: we see the cells constructed.
      Cell* const s = segment_[k].load_acquire();
      if (s == nullptr) continue;
      for (std::uint32_t i = 0; i < size_of(k); ++i) {
        if (!f(base_of(k) + i, s[i])) return;
      }
    }
  }

  /// The same for each cell that is occupied. One that is occupied meanwhile may be missed: order
  /// that with fences.
  template <class F>
  void for_each_occupied(F&& f) const {
    if (!cells_are_occupied()) return for_each(f);
    // acquire ← the releases in occupy() and vacate().
    if (!visit(0, first_word_.load_acquire(), f)) return;
    // relaxed: as in occupied_end().
    const unsigned last = last_with_words_.load_relaxed();
    for (unsigned k = first_with_words; k <= last; ++k) {
      // acquire ← the release in make_segment: we see the words constructed.
      const Cell* const s = segment_[k].load_acquire();
      if (s == nullptr) continue;
      for (std::uint32_t w = 0; w < words_of(k); ++w) {
        // acquire ← as above.
        if (!visit(base_of(k) + w * 64, words(s, k)[w].load_acquire(), f)) return;
      }
    }
  }

 private:
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t first_size = 4;  // few locations make many executions
  static constexpr unsigned segments = 2;
#else
  static constexpr std::uint32_t first_size = 1;  // most wholes are used by one thread
  static constexpr unsigned segments = 24;        // 2^23 numbers: more threads than Linux has
#endif

  static constexpr unsigned segment_number(std::uint32_t n) noexcept {
    // Twice as large, so that the logarithm is never that of 0, which needs a branch.
    return bit_length(2 * n | (2 * first_size - 1)) - bit_length(2 * first_size - 1);
  }
  static constexpr std::uint32_t base_of(unsigned k) noexcept {
    return k == 0 ? 0 : (first_size << k) / 2;
  }
  static constexpr std::uint32_t size_of(unsigned k) noexcept {
    return k == 0 ? first_size : (first_size << k) / 2;
  }

  // The bits of the first 64 numbers stand in the whole; those of a later segment after its cells,
  // of which there are 64 or a multiple.
  static constexpr unsigned first_with_words = bit_length(64U) - bit_length(first_size - 1);
  static constexpr std::align_val_t alignment{(std::max)(alignof(Cell), alignof(bits))};
  static constexpr std::uint32_t words_of(unsigned k) noexcept {
    return k < first_with_words ? 0 : size_of(k) / 64;
  }
  static constexpr std::uint64_t bit_of(std::uint32_t n) noexcept {
    return std::uint64_t{1} << n % 64;
  }
  static bits* words(const Cell* s, unsigned k) noexcept {
    return const_cast<bits*>(reinterpret_cast<const bits*>(s + size_of(k)));
  }
  /// Of a number whose cell was made.
  bits& word_of(std::uint32_t n) const noexcept {
    const unsigned k = segment_number(n);
    if (k < first_with_words) return first_word_;
    // acquire ← the release in make_segment: we see the words constructed.
    return words(segment_[k].load_acquire(), k)[(n - base_of(k)) / 64];
  }
  template <class F>
  bool visit(std::uint32_t first, std::uint64_t word, F& f) const {
    for (; word != 0; word &= word - 1) {
      const std::uint32_t n = first + static_cast<std::uint32_t>(std::countr_zero(word));
      Cell* const occupied = find(n);
      if (occupied != nullptr && !f(n, *occupied)) return false;
    }
    return true;
  }

  static void destroy_segment(Cell* s, std::uint32_t count, std::uint32_t words) noexcept {
    for (std::uint32_t w = 0; w < words; ++w) reinterpret_cast<bits*>(s + count)[w].~bits();
    for (std::uint32_t i = 0; i < count; ++i) s[i].~Cell();
    ::operator delete(s, alignment);
  }

  SPOLIA_NOINLINE Cell* make_segment(unsigned k) {
    const std::uint32_t count = size_of(k);
    const std::size_t bytes = sizeof(Cell) * count + sizeof(bits) * words_of(k);
    void* const raw = ::operator new(bytes, alignment);
    Cell* const made = static_cast<Cell*>(raw);
    std::uint32_t done = 0;
    try {
      for (; done < count; ++done) new (&made[done]) Cell();
    } catch (...) {
      destroy_segment(made, done, 0);
      throw;
    }
    for (std::uint32_t w = 0; w < words_of(k); ++w) new (words(made, k) + w) bits(0);
    note_segment(k);  // first: a thread that finds the segment may occupy a cell of it
    Cell* winner = nullptr;
    // release → the acquires in of, find, for_each: they see constructed cells. acquire on failure:
    // so do we, of the other thread's.
    if (segment_[k].cas_strong_acq_rel(winner, made)) return made;
    destroy_segment(made, count, words_of(k));
    return winner;
  }

  void note_segment(unsigned k) noexcept {
    unsigned last = last_with_words_.load_relaxed();
    while (k >= first_with_words && k > last && !last_with_words_.cas_weak_relaxed(last, k)) {
    }
  }

  mutable bits first_word_{0};
  atomic<unsigned> last_with_words_{0};
  mutable std::array<atomic<Cell*>, segments> segment_{};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
