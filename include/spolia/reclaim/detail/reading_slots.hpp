// SPDX-License-Identifier: Apache-2.0
// reading_slots.hpp: where threads name the values that they read (live.hpp).
//
// Idea:        each thread has a row of slots, and more rows where it reads more values at once. A
//              slot that is null is free. Only its thread takes a slot; any thread may free it, by
//              a store, so that what is read may be handed to another thread.
// Cost:        a thread-local load and a test for the row; a load and a test for the slot.
// Memory:      a row of 128 bytes for each thread number, and for each eight values more that one
//              thread reads at one time; never given back.
// Fork:        slots that other threads had taken stay as they are in the child: what they name was
//              perhaps handed to the thread that is left.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {
#if !defined(SPOLIA_MODEL)
/// The process's one detail::reclaim::reading_slots. All that is done with it is done by inline
/// code, so that a program under a race detector sees it whole.
SPOLIA_EXPORT void* all_readings() noexcept;
#endif
}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

struct alignas(cache_line) reading_row {
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t length = 2;
#else
  static constexpr std::size_t length = 8;
#endif
  using slot = atomic<const void*>;

  reading_row() = default;
  reading_row(const reading_row&) = delete;
  reading_row& operator=(const reading_row&) = delete;
  ~reading_row() {
    for (reading_row* row = next.load_relaxed(); row != nullptr;) {
      reading_row* const after = row->next.exchange_relaxed(nullptr);
      row->~reading_row();
      memory::deallocate(row, sizeof(reading_row), alignof(reading_row));
      row = after;
    }
  }

  /// A free slot, for the thread whose row this is. Throws std::bad_alloc.
  SPOLIA_ALWAYS_INLINE slot& take() {
    if (is_free(at[0])) [[likely]]
      return at[0];
    return take_further();
  }

  static bool is_free(const slot& s) noexcept {
    // acquire ← the release in clear(), of whichever thread: its reads of what was named here
    // happen before our next name, and so before a scan that finds that one.
    const void* const named =
        SPOLIA_FAULT("live.take_relaxed") ? s.load_relaxed() : s.load_acquire();
    return named == nullptr;
  }

  static void clear(slot& s) noexcept {
    // release → the acquires in names() and is_free(): our reads happen before the value ends.
    SPOLIA_FAULT("live.clear_relaxed") ? s.store_relaxed(nullptr) : s.store_release(nullptr);
  }

  /// Calls f(name) for each slot that names something, in this row and those after it.
  template <class F>
  void each(F&& f) const {
    for (const reading_row* row = this; row != nullptr;) {
      for (const slot& s : row->at) {
        // acquire ← the releases that write slots: what a thread did with the value that it named
        // here before happens before we end that value.
        const void* const name =
            SPOLIA_FAULT("live.scan_relaxed") ? s.load_relaxed() : s.load_acquire();
        if (name != nullptr) f(name);
      }
      // acquire ← the release in take_further(): we see the row constructed.
      row = row->next.load_acquire();
    }
  }

  std::array<slot, length> at{};
  atomic<reading_row*> next{nullptr};
  latest<long> os_thread;  // of the thread that had the number last

 private:
  SPOLIA_NOINLINE slot& take_further() {
    for (reading_row* row = this;;) {
      for (slot& s : row->at) {
        if (is_free(s)) return s;
      }
      reading_row* after = row->next.load_relaxed();
      if (after == nullptr) {
        after = ::new (memory::allocate(sizeof(reading_row), alignof(reading_row))) reading_row;
        // release → the acquire in names(): it sees the row constructed. That it sees the row at
        // all, if it matters, follows from the light fence after a slot of it was written.
        row->next.store_release(after);
      }
      row = after;
    }
  }
};

class reading_slots {
 public:
  /// For the thread itself, before it names anything: then walks find it. (What orders the two is
  /// what orders a walk and a name, the fences in live_core.hpp.)
  reading_row& of(std::uint32_t thread) { return rows_.occupy(thread); }

  /// Calls f(names) for what the slots name, as often as it takes, with some at a time.
  template <class F>
  void names(F&& f) const noexcept {
    std::array<const void*, at_once> found;
    std::size_t count = 0;
    each([&](std::uint32_t, const reading_row&, const void* name) {
      if (count == found.size()) {
        f(std::span<const void*>(found));
        count = 0;
      }
      found[count++] = name;
    });
    if (count != 0) f(std::span<const void*>(found.data(), count));
    if (walks_.is_next()) walks_.vacate(rows_, is_vacant, [](const reading_row&) {});
  }

  /// Calls f(thread, its first row, name) for each slot that names something.
  template <class F>
  void each(F&& f) const {
    rows_.for_each_occupied([&](std::uint32_t thread, const reading_row& first) {
      first.each([&](const void* name) { f(thread, first, name); });
      return true;
    });
  }

 private:
  /// No thread reads by what an ended one has left, nor by what that one had handed to it.
  static bool is_vacant(const reading_row& first) {
    bool vacant = true;
    first.each([&](const void*) { vacant = false; });
    return vacant;
  }

#if defined(SPOLIA_MODEL)
  static constexpr std::size_t at_once = 2;
#else
  static constexpr std::size_t at_once = 256;
#endif

  mutable cells<reading_row> rows_;
  mutable vacating_walks walks_;
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
