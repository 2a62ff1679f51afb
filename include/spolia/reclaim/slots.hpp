// SPDX-License-Identifier: Apache-2.0
// slots.hpp: the slots in which guards name blocks or eras, and the search through all of them.
//
// Each guard has a row of `guard_slots` slots. A thread's first row lies in its cell; a guard that
// is opened while another one is alive gets a further row, which stays with the thread for later
// guards. Rows are written by their thread and read by every thread that looks for what they name.
//
// Handing a name on: the search reads a row from its highest slot to its lowest. So a block that is
// named in one slot may be named in a LOWER slot of the same guard too, and the first slot then
// used for something else, without the search missing it. The other way round it could: after it
// has passed the higher slot, before it comes to the lower one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/slot_owners.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// A row's size and alignment, so that a slot's address tells where its row begins.
#if defined(SPOLIA_MODEL) || SPOLIA_CHECKS
inline constexpr std::size_t row_bytes = 512;
#else
inline constexpr std::size_t row_bytes = cache_line;
#endif

/// The slots of one guard; null or 0: names nothing.
template <class Name>
struct alignas(row_bytes) basic_slot_row {
  std::array<atomic<Name>, guard_slots> at{};
  atomic<basic_slot_row*> next{nullptr};
  slot_owners owners;  // the thread's own
  // Where slots are handed out by themselves (handed_slots.hpp). Bit i: slot i is out. And of its
  // bundle, in the first row: how many rows have slots that are out.
  atomic<std::uint32_t> out{0};
  atomic<std::uint32_t> rows_out{0};
  std::uint16_t at_in_bundle = 0;
  std::uint16_t bundle = 1;  // how many rows
};

/// How many rows there are, of all threads: a scan reads them, and so many blocks are to wait for
/// one that it pays. Of threads that have ended none are in use, so that after a burst of threads
/// no more wait than before.
class row_count {
 public:
  /// Rows were made, and are in use.
  void make(std::uint64_t n = 1) noexcept {
    made_.add(n);
    use(n);
  }
  /// So many rows that were made before are in use again.
  void use(std::uint64_t n) noexcept { used_.add(n); }
  /// So many are in use no more.
  void leave(std::uint64_t n) noexcept { left_.add(n); }

  /// So far. More were never in use.
  std::uint64_t made() const noexcept { return made_.value(); }
  std::uint64_t in_use() const noexcept {
    const std::uint64_t left = left_.value();
    const std::uint64_t used = used_.value();
    return used > left ? used - left : 0;
  }

 private:
  shared_tally made_;
  shared_tally used_;
  shared_tally left_;
};

/// The rows of one thread.
template <class Name>
class basic_slot_rows {
  using slot_row = basic_slot_row<Name>;

 public:
  basic_slot_rows() = default;
  basic_slot_rows(const basic_slot_rows&) = delete;
  basic_slot_rows& operator=(const basic_slot_rows&) = delete;

  ~basic_slot_rows() {
    for (slot_row* row = first_.next.load_relaxed(); row != nullptr;) {
      slot_row* const after = row->next.load_relaxed();
      row->~slot_row();
      memory::deallocate(row, sizeof(slot_row), alignof(slot_row));
      row = after;
    }
  }

  const slot_row& first() const noexcept { return first_; }
  /// For gather(): whether it is known that nothing is named there; and the next row.
  static bool is_unused(const slot_row&) noexcept { return false; }
  static const slot_row* after(const slot_row& row) noexcept {
    // acquire ← the release in take_further(): we see the row constructed.
    return row.next.load_acquire();
  }

  /// A thread comes: its rows are in use from now on.
  void join(row_count& rows) noexcept {
    if (in_use_) return;
    if (length_ == 0) {
      rows.make();
      length_ = 1;
    } else {
      rows.use(length_);
    }
    in_use_ = true;
  }
  /// It has ended, without a guard.
  void leave(row_count& rows) noexcept {
    if (in_use_) rows.leave(length_);
    in_use_ = false;
  }

  /// A row for a new guard. Throws std::bad_alloc.
  slot_row& take(row_count& rows) {
    if (first_.owners.in_use()) [[unlikely]]
      return take_further(rows);
    first_.owners.guard_begins();
    return first_;
  }

  /// Empties slot i of the row for each bit i of `which`.
  static void clear(slot_row& row, std::uint32_t which) noexcept {
    for (which &= (1U << guard_slots) - 1; which != 0; which &= which - 1) {
      // release → the acquire in gather(): our accesses to the block happen before it is freed.
      auto& slot = row.at[static_cast<std::size_t>(std::countr_zero(which))];
      SPOLIA_FAULT("slots.clear_relaxed") ? slot.store_relaxed(Name{}) : slot.store_release(Name{});
    }
  }

  /// The guard with this row goes; bit i of `used` tells that slot i has been written.
  static void give_back(slot_row& row, std::uint32_t used) noexcept {
    clear(row, used);
    row.owners.guard_ends();
  }

  /// The thread has vanished in a fork, with all its guards.
  void forget() noexcept {
    for (slot_row* row = &first_; row != nullptr; row = row->next.load_relaxed()) {
      for (auto& slot : row->at) slot.store_relaxed(Name{});
      row->owners.forget();
    }
  }

 private:
  SPOLIA_NOINLINE slot_row& take_further(row_count& rows) {
    slot_row* row = &first_;
    while (row->owners.in_use()) {
      slot_row* after = row->next.load_relaxed();
      if (after == nullptr) {
        after = ::new (memory::allocate(sizeof(slot_row), alignof(slot_row))) slot_row;
        rows.make();
        ++length_;
#if SPOLIA_CHECKS
        after->owners.is_after(first_.owners, row->owners);
#endif
        // release → the acquire in gather(): it sees the row constructed. That it sees the row at
        // all, if it matters, follows from the light fence after a slot of it was written.
        row->next.store_release(after);
      }
      row = after;
    }
    row->owners.guard_begins();
    return *row;
  }

  slot_row first_;
  std::uint32_t length_ = 0;  // how many there are, once the first thread has joined
  bool in_use_ = false;
};

using slot_row = basic_slot_row<const void*>;
using slot_rows = basic_slot_rows<const void*>;

/// A buffer that can be asked for more room and never throws. What it held is lost when it grows.
template <class T>
class scratch {
 public:
  scratch() = default;
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() { memory::deallocate(data_, capacity_ * sizeof(T), alignof(T)); }

  /// Room for `n`; where memory is short, what was there before.
  std::span<T> reserve(std::size_t n) noexcept {
    if (n > capacity_) {
      try {
        void* const more = memory::allocate(n * sizeof(T), alignof(T));
        memory::deallocate(data_, capacity_ * sizeof(T), alignof(T));
        data_ = static_cast<T*>(more);
        capacity_ = n;
      } catch (const std::bad_alloc&) {
        return {data_, capacity_};
      }
    }
    return {data_, capacity_};
  }

  /// Gives the buffer up: a fork may have caught it while it grew.
  void forget() noexcept {
    data_ = nullptr;
    capacity_ = 0;
  }

 private:
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

/// How far a search has come: everything before this was read.
template <class Name>
struct slot_position {
  std::uint32_t thread = 0;
  const basic_slot_row<Name>* row = nullptr;  // null: the thread's first
  std::size_t slot_count = guard_slots;       // so many of the row are left
};

inline constexpr std::uint32_t no_thread = ~std::uint32_t{0};

/// Reads slots from `at` on, and puts what they name into `names`. Returns how many names there
/// are; `at` tells where to go on, and its thread is `no_thread` when every slot has been read.
template <class Name, class Peers>
std::size_t gather(Peers peers, slot_position<Name>& at, std::span<Name> names) noexcept {
  std::size_t found = 0;
  slot_position<Name> next{no_thread, nullptr, 0};
  peers.for_each([&](std::uint32_t number, const auto& local) {
    if (number < at.thread) return true;
    const bool resumed = number == at.thread && at.row != nullptr;
    const basic_slot_row<Name>* row = resumed ? at.row : &local.rows.first();
    std::size_t slot_count = resumed ? at.slot_count : guard_slots;
    while (row != nullptr) {
      if (local.rows.is_unused(*row)) slot_count = 0;
      for (; slot_count > 0; --slot_count) {
        const std::size_t i =
            SPOLIA_FAULT("slots.upwards") ? guard_slots - slot_count : slot_count - 1;
        // acquire ← the releases that write slots: what the thread did with the block that it named
        // here before happens before we free that block. Relaxed would need an acquire fence, which
        // the race detector does not see.
        const Name name = SPOLIA_FAULT("slots.read_relaxed") ? row->at[i].load_relaxed()
                                                             : row->at[i].load_acquire();
        if (name == Name{}) continue;
        if (found == names.size()) {
          next = {number, row, slot_count};
          return false;
        }
        names[found++] = name;
      }
      row = local.rows.after(*row);
      slot_count = guard_slots;
    }
    return true;
  });
  at = next;
  return found;
}

/// So many names find room on the stack.
inline constexpr std::size_t few_names = 64;

/// Room for what so many slots name: to be made before the moment in which they are read.
template <class Name>
std::span<Name> room_for(std::uint64_t slot_count, scratch<Name>& names) noexcept {
  return slot_count <= few_names ? std::span<Name>{} : names.reserve(slot_count);
}

/// Moves each block of `bag` that is held by something to `held`. `some(room)` brings what may hold
/// blocks, as much as finds room, and says how much that is; less than the room: that was all.
/// `holds(found, block)` judges. If not all finds room in `room` or on the stack, this goes over
/// the blocks once for each roomful. Never fails.
template <class Name, class Some, class Holds>
void separate(limbo& bag, limbo& held, std::span<Name> room, Some some, Holds holds) noexcept {
  std::array<Name, few_names> few;
  if (room.size() < few.size()) room = few;
  for (bool more = true; more;) {
    const std::span<Name> found = room.first(some(room));
    more = found.size() == room.size();
    if (found.empty()) return;
    limbo rest;
    while (retired* const block = bag.pop()) (holds(found, block) ? held : rest).push(block);
    bag.append(rest);
  }
}

/// Does one of the names, which are sorted, lead into the object? That of a base or a member may be
/// another address than the object's.
inline bool is_named(std::span<const void* const> names, const retired& block) noexcept {
  const char* const begin = static_cast<const char*>(block.address());
  const auto at = std::lower_bound(names.begin(), names.end(), block.address(), std::less<>{});
  return at != names.end() &&
         std::less<>{}(*at, begin + (std::max)(block.object_bytes(), std::size_t{1}));
}

/// Moves each block of `bag` that some slot names to `named`. The caller has ordered the reading of
/// the slots after the unlinking of the blocks. Takes O(slots + blocks · log names).
template <class Peers>
void separate(limbo& bag, limbo& named, Peers peers, std::span<const void*> room) noexcept {
  slot_position<const void*> at;
  const auto some = [&](std::span<const void*> names) {
    const std::size_t found = gather(peers, at, names);
    std::sort(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(found), std::less<>{});
    return found;
  };
  separate(bag, named, room, some, [](std::span<const void*> names, const retired* block) {
    return is_named(names, *block);
  });
}

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
