// SPDX-License-Identifier: Apache-2.0
// handed_slots.hpp: slots that are handed out one by one, and may pass from thread to thread.
//
// Idea:        the slots lie in rows of eight, in one list for all threads that only ever grows. A
//              bit for each slot of a row tells whether it is handed out. A thread keeps the slots
//              that it was given back last, and takes and gives whole handfuls, so that most of the
//              time no word is shared. Where a slot lies says nothing about which thread has it: it
//              may be taken by one thread and given back by another, when the first has long ended.
//              Rows are made in bundles, the larger the more there are, and a bundle tells how many
//              of its rows have slots that are out: scans skip those of which none has, as most are
//              after a burst of threads.
// Cost:        take, give_back: a load, a store and a count; one read-modify-write for each handful
//              of slots, or for each slot that goes to a thread which only gives back.
// Progress:    lock-free. A take looks at every row when none of them has a free slot.
// Memory:      a row of 128 bytes for each eight slots in use at one time, and as many again; never
//              given back; each thread may keep `kept` slots to itself.
// Errors:      take may throw std::bad_alloc; then nothing has changed.
// Fork:        every word is atomic, so that nothing is half-written in the child. The slots that
//              other threads had stay handed out, with what they name.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

class handed_slots {
 public:
  using slot = atomic<const void*>;

  /// What a thread keeps for itself.
  struct handful {
#if defined(SPOLIA_MODEL)
    static constexpr std::uint32_t kept = guard_slots;
#else
    static constexpr std::uint32_t kept = 2 * guard_slots;
#endif
    std::array<slot*, kept> at{};
    std::uint32_t count = 0;
  };

  handed_slots() = default;
  handed_slots(const handed_slots&) = delete;
  handed_slots& operator=(const handed_slots&) = delete;

  ~handed_slots() {
    for (slot_row* first = rows.head.next.load_relaxed(); first != nullptr;) {
      const std::uint16_t length = first->bundle;
      slot_row* const after = first[length - 1].next.load_relaxed();
      for (std::uint16_t i = 0; i < length; ++i) first[i].~slot_row();
      memory::deallocate(first, length * sizeof(slot_row), alignof(slot_row));
      first = after;
    }
  }

  /// A slot that names nothing. `count` counts the rows. Throws std::bad_alloc.
  SPOLIA_ALWAYS_INLINE slot& take(handful& mine, row_count& count) {
    if (mine.count == 0) [[unlikely]]
      refill(mine, count);
    return *mine.at[--mine.count];
  }

  /// The slot names nothing from now on, and may be taken again.
  SPOLIA_ALWAYS_INLINE void give_back(handful& mine, slot& s, row_count& count) noexcept {
    clear(s);
    if (mine.count == handful::kept) [[unlikely]]
      give_back_down_to(mine, handful::kept / 2, count);
    mine.at[mine.count++] = &s;
  }

  /// The same for a thread that has no handful.
  static void give_back(slot& s, row_count& count) noexcept {
    clear(s);
    release(s, count);
  }

  static void give_back_down_to(handful& mine, std::uint32_t rest, row_count& count) noexcept {
    while (mine.count > rest) release(*mine.at[--mine.count], count);
  }

  static void clear(slot& s) noexcept {
    // release → the acquire in gather(): our accesses to the block happen before it is freed.
    if (SPOLIA_FAULT("handed.clear_relaxed")) return s.store_relaxed(nullptr);
    s.store_release(nullptr);
  }

  /// For gather(): every slot is in here, also one that a thread has.
  struct chain {
    const slot_row& first() const noexcept { return head; }
    /// No slot of it is handed out. A thread that takes one does so before it names anything, and
    /// so before its light fence: as with names, the scan sees that, or the thread the unlinking.
    // acquire ← the releases in release().
    static bool is_unused(const slot_row& row) noexcept { return row.out.load_acquire() == 0; }
    /// The next row, but for bundles in which no slot is handed out. A thread counts its row before
    /// it names anything: see is_unused().
    static const slot_row* after(const slot_row& row) noexcept {
      // acquire ← the release in add_rows(): we see the rows constructed.
      const slot_row* next = row.next.load_acquire();
      // acquire ← the releases in release().
      while (next != nullptr && next->at_in_bundle == 0 && next->rows_out.load_acquire() == 0) {
        next = next[next->bundle - 1].next.load_acquire();  // ← as above
      }
      return next;
    }
    slot_row head;
  } rows;

 private:
  static_assert(sizeof(slot_row) == alignof(slot_row), "row_of() goes down to the next multiple");
  static constexpr std::uint32_t all = (1U << guard_slots) - 1;
  static constexpr std::uint64_t most_in_bundle = 32;

  static slot_row& row_of(slot& s) noexcept {
    return *reinterpret_cast<slot_row*>(reinterpret_cast<std::uintptr_t>(&s) &
                                        ~std::uintptr_t{alignof(slot_row) - 1});
  }

  static void release(slot& s, row_count& count) noexcept {
    slot_row& row = row_of(s);
    const std::uint32_t bit = 1U << (&s - row.at.data());
    // release → the acquire in refill(): what we did with the blocks that were named here happens
    // before the next owner's first name, which hides ours from the scans. Without it a block could
    // be freed while our last load of it is under way. And → the acquires in is_unused() and
    // after(), for the same.
    const std::uint32_t was = SPOLIA_FAULT("handed.release_relaxed")
                                  ? row.out.fetch_and_relaxed(~bit)
                                  : row.out.fetch_and_release(~bit);
    if (was != bit) return;
    first_of(row).rows_out.fetch_sub_release(1);  // → the acquire in after()
    count.leave(1);
  }
  static slot_row& first_of(slot_row& row) noexcept { return *(&row - row.at_in_bundle); }

  /// Takes every free slot of one row.
  SPOLIA_NOINLINE void refill(handful& mine, row_count& count) {
    // acquire ← the release in add_rows(): we see the rows constructed.
    for (slot_row* row = &rows.head; row != nullptr; row = row->next.load_acquire()) {
      std::uint32_t out = row->out.load_relaxed();
      while (out != all) {
        // acquire ← the release in release(), see there.
        if (!row->out.cas_weak_acquire(out, all)) continue;
        if (out == 0) {
          // Before anything is named: see chain::after(). Of a row that another thread is just
          // giving back this may come before it has counted that, and then there are two for once.
          first_of(*row).rows_out.fetch_add_relaxed(1);
          count.use(1);
        }
        return put(mine, *row, all & ~out);
      }
    }
    put(mine, add_rows(count), all);
  }

  static void put(handful& mine, slot_row& row, std::uint32_t which) noexcept {
    for (; which != 0; which &= which - 1) {
      mine.at[mine.count++] = &row.at[static_cast<std::size_t>(std::countr_zero(which))];
    }
  }

  /// As many as there are, 32 at most; the first one's slots are handed out.
  slot_row& add_rows(row_count& count) {
    const auto length =
        static_cast<std::uint16_t>(std::clamp<std::uint64_t>(count.made(), 1, most_in_bundle));
    void* const raw = memory::allocate(length * sizeof(slot_row), alignof(slot_row));
    auto* const first = static_cast<slot_row*>(raw);
    for (std::uint16_t i = 0; i < length; ++i) {
      slot_row* const row = ::new (first + i) slot_row;
      row->at_in_bundle = i;
      row->bundle = length;
    }
    for (std::uint16_t i = 1; i < length; ++i) first[i - 1].next.store_relaxed(first + i);
    first->out.store_relaxed(all);
    first->rows_out.store_relaxed(1);
    slot_row* after = rows.head.next.load_relaxed();
    do {
      first[length - 1].next.store_relaxed(after);
      // release → the acquires in after() and refill(): they see the rows constructed, and those
      // after them too, since each insertion continues the release sequences of the earlier ones.
      // That a scan sees the rows at all, if it matters, follows from the light fence after a slot
      // of them was written.
    } while (!rows.head.next.cas_weak_release(after, first));
    count.make(length);
    count.leave(length - std::uint64_t{1});
    return *first;
  }
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
