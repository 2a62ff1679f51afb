// SPDX-License-Identifier: Apache-2.0
// cells.hpp: one cell for each thread number, made on first use and kept until the whole goes.
//
// A cell outlives its thread: the next thread with the same number finds it as it was left, and any
// thread may walk over all of them. Cells sit in segments of doubling size that are never moved.
//
// Errors:      of(n) may throw std::bad_alloc, and whatever Cell's constructor throws; then nothing
//              has changed.
// Cost:        of(n): a bit scan and two loads. for_each: linear in the highest thread number.
// Progress:    lock-free: two threads that need the same segment both make one, and one wins.
// Memory:      two cells for the first two numbers, then as many again as there are numbers below:
//              2 n + 2 at most, n the highest number that has one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Cell>
class cells {
 public:
  cells() = default;
  cells(const cells&) = delete;
  cells& operator=(const cells&) = delete;

  ~cells() {
    for (unsigned k = 0; k < segments; ++k) {
      if (Cell* const s = segment_[k].load_relaxed()) destroy_segment(s, size_of(k));
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

 private:
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t first_size = 4;  // few locations make many executions
  static constexpr unsigned segments = 2;
#else
  static constexpr std::uint32_t first_size = 2;  // most wholes are used by few threads
  static constexpr unsigned segments = 31;        // 2 · 2^30 numbers: more threads than Linux has
#endif

  static constexpr unsigned segment_number(std::uint32_t n) noexcept {
    return static_cast<unsigned>(std::bit_width(n | (first_size - 1)) -
                                 std::bit_width(first_size - 1));
  }
  static constexpr std::uint32_t base_of(unsigned k) noexcept {
    return k == 0 ? 0 : (first_size << k) / 2;
  }
  static constexpr std::uint32_t size_of(unsigned k) noexcept {
    return k == 0 ? first_size : (first_size << k) / 2;
  }

  static void destroy_segment(Cell* s, std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) s[i].~Cell();
    ::operator delete(s, std::align_val_t{alignof(Cell)});
  }

  SPOLIA_NOINLINE Cell* make_segment(unsigned k) {
    const std::uint32_t count = size_of(k);
    void* const raw = ::operator new(sizeof(Cell) * count, std::align_val_t{alignof(Cell)});
    Cell* const made = static_cast<Cell*>(raw);
    std::uint32_t done = 0;
    try {
      for (; done < count; ++done) new (&made[done]) Cell();
    } catch (...) {
      destroy_segment(made, done);
      throw;
    }
    Cell* winner = nullptr;
    // release → the acquires in of, find, for_each: they see constructed cells. acquire on failure:
    // so do we, of the other thread's.
    if (segment_[k].cas_strong_acq_rel(winner, made)) return made;
    destroy_segment(made, count);
    return winner;
  }

  mutable std::array<atomic<Cell*>, segments> segment_{};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
