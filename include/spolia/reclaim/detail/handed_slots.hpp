// SPDX-License-Identifier: Apache-2.0
// handed_slots.hpp: slots that are handed out one by one, and may pass from thread to thread.
//
// Idea:        the slots lie in rows of eight, in one list for all threads that only ever grows. A
//              bit for each slot of a row tells whether it is handed out. A thread keeps the slots
//              that it was given back last, and takes and gives whole handfuls, so that most of the
//              time no word is shared. Where a slot lies says nothing about which thread has it: it
//              may be taken by one thread and given back by another, when the first has long ended.
// Cost:        take, give_back: a load, a store and a count; one read-modify-write for each handful
//              of slots, or for each slot that goes to a thread which only gives back.
// Progress:    lock-free. A take looks at every row when none of them has a free slot.
// Memory:      a row of 128 bytes for each eight slots in use at one time, never given back; each
//              thread may keep `kept` slots to itself.
// Errors:      take may throw std::bad_alloc; then nothing has changed.
// Fork:        every word is atomic, so that nothing is half-written in the child. The slots that
//              other threads had stay handed out, with what they name.
#pragma once

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
    for (slot_row* row = rows.head.next.load_relaxed(); row != nullptr;) {
      slot_row* const after = row->next.load_relaxed();
      row->~slot_row();
      memory::deallocate(row, sizeof(slot_row), alignof(slot_row));
      row = after;
    }
  }

  /// A slot that names nothing. `made` counts the rows. Throws std::bad_alloc.
  SPOLIA_ALWAYS_INLINE slot& take(handful& mine, atomic<std::uint64_t>& made) {
    if (mine.count == 0) [[unlikely]]
      refill(mine, made);
    return *mine.at[--mine.count];
  }

  /// The slot names nothing from now on, and may be taken again.
  SPOLIA_ALWAYS_INLINE void give_back(handful& mine, slot& s) noexcept {
    clear(s);
    if (mine.count == handful::kept) [[unlikely]]
      give_back_down_to(mine, handful::kept / 2);
    mine.at[mine.count++] = &s;
  }

  /// The same for a thread that has no handful.
  static void give_back(slot& s) noexcept {
    clear(s);
    release(s);
  }

  static void give_back_down_to(handful& mine, std::uint32_t rest) noexcept {
    while (mine.count > rest) release(*mine.at[--mine.count]);
  }

  static void clear(slot& s) noexcept {
    // release → the acquire in gather(): our accesses to the block happen before it is freed.
    if (SPOLIA_FAULT("handed.clear_relaxed")) return s.store_relaxed(nullptr);
    s.store_release(nullptr);
  }

  /// For gather(): every slot is in here, also one that a thread has.
  struct chain {
    const slot_row& first() const noexcept { return head; }
    slot_row head;
  } rows;

 private:
  static_assert(sizeof(slot_row) == alignof(slot_row), "row_of() goes down to the next multiple");
  static constexpr std::uint32_t all = (1U << guard_slots) - 1;

  static slot_row& row_of(slot& s) noexcept {
    return *reinterpret_cast<slot_row*>(reinterpret_cast<std::uintptr_t>(&s) &
                                        ~std::uintptr_t{alignof(slot_row) - 1});
  }

  static void release(slot& s) noexcept {
    slot_row& row = row_of(s);
    const std::uint32_t bit = 1U << (&s - row.at.data());
    // release → the acquire in refill(): what we did with the blocks that were named here happens
    // before the next owner's first name, which hides ours from the scans. Without it a block could
    // be freed while our last load of it is under way.
    if (SPOLIA_FAULT("handed.release_relaxed")) {
      row.out.fetch_and_relaxed(~bit);
    } else {
      row.out.fetch_and_release(~bit);
    }
  }

  /// Takes every free slot of one row.
  SPOLIA_NOINLINE void refill(handful& mine, atomic<std::uint64_t>& made) {
    // acquire ← the release in add_row(): we see the row constructed.
    for (slot_row* row = &rows.head; row != nullptr; row = row->next.load_acquire()) {
      std::uint32_t out = row->out.load_relaxed();
      while (out != all) {
        // acquire ← the release in release(), see there.
        if (row->out.cas_weak_acquire(out, all)) return put(mine, *row, all & ~out);
      }
    }
    put(mine, add_row(made), all);
  }

  static void put(handful& mine, slot_row& row, std::uint32_t which) noexcept {
    for (; which != 0; which &= which - 1) {
      mine.at[mine.count++] = &row.at[static_cast<std::size_t>(std::countr_zero(which))];
    }
  }

  slot_row& add_row(atomic<std::uint64_t>& made) {
    slot_row* const row = ::new (memory::allocate(sizeof(slot_row), alignof(slot_row))) slot_row;
    row->out.store_relaxed(all);
    slot_row* after = rows.head.next.load_relaxed();
    do {
      row->next.store_relaxed(after);
      // release → the acquires in gather() and refill(): they see the row constructed, and those
      // after it too, since each insertion continues the release sequences of the earlier ones.
      // That a scan sees the row at all, if it matters, follows from the light fence after a slot
      // of it was written.
    } while (!rows.head.next.cas_weak_release(after, row));
    made.fetch_add_relaxed(1);
    return *row;
  }
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
