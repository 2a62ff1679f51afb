// SPDX-License-Identifier: Apache-2.0
// census_slots.hpp: where the announcements of a census stand: slots in chunks, a shelf of chunks
// for each thread number. Slots are taken by the thread that has the number, and put back by any
// thread; chunks stay until the census goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/ticks.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

struct census_chunk;

// What a slot's stamp is: a timestamp, or vacant, or with open_stamp the number of the announcement
// that is open.
inline constexpr std::uint64_t vacant_stamp = ~std::uint64_t{0};
inline constexpr std::uint64_t open_stamp = std::uint64_t{1} << 63U;
#if defined(SPOLIA_MODEL)
inline constexpr std::uint32_t slots_per_chunk = 1;  // so that small scenarios grow
#else
inline constexpr std::uint32_t slots_per_chunk = 13;  // with the chunk's head, two cache lines
#endif

/// All about a ticket but its timestamp, which stands in the chunk's dense array.
struct census_slot {
  census_chunk* home = nullptr;
  atomic<std::uint64_t>* stamp_at = nullptr;  // there: to find it takes a division
  plain<census_slot*> next_free{nullptr};
  atomic<std::uint64_t> turn{0};        // counts the tickets that this slot has served
  atomic<std::uint64_t> not_before{0};  // of an announcement that is open
  atomic<const char*> label{nullptr};
  atomic<std::uint64_t> start{0};

  [[nodiscard]] atomic<std::uint64_t>& stamp() const noexcept { return *stamp_at; }

  /// Owner, while the slot is vacant. True if there is a text.
  bool describe(const char* text) noexcept {
    // Release, each → the acquires in for_each(): a thread that sees the new turn sees the slot
    // vacated before; one that sees the new label, start or stamp sees the new turn when it reads
    // that again. Without them an entry could carry one ticket's label and another's time.
    turn.store_release(turn.load_relaxed() + 1);
    label.store_release(text);
    start.store_release(text == nullptr ? 0 : ticks::read());
    return text != nullptr;
  }
  /// Owner, while no announcement is open here: opens one of a time that is not before `least`.
  /// Returns what the stamp is then.
  std::uint64_t open(atomic<std::uint64_t>& its_stamp, std::uint64_t least) noexcept {
    // release → the acquire in meet(): a thread that sees this sees the slot's last announcement
    // withdrawn.
    not_before.store_release(least);
    // A number of its own, also from a reserved slot that is not described anew. release: see
    // describe().
    const std::uint64_t mine = turn.load_relaxed() + 1;
    turn.store_release(mine);
    its_stamp.store_release(open_stamp | mine);
    return open_stamp | mine;
  }
};

/// What one thread number announces with. Only the thread that has the number takes slots; the
/// number passes on with a happens-before edge (threads.hpp), and the free list with it.
class alignas(cache_line) census_shelf {
 public:
  census_shelf() = default;
  ~census_shelf();
  /// If not, refill() comes first.
  [[nodiscard]] bool has_free() const noexcept { return free_.read() != nullptr; }
  census_slot& take() noexcept {
    census_slot& s = *free_.read();
    free_.write(s.next_free.read());
    return s;
  }
  /// Throws std::bad_alloc.
  void refill(std::uint32_t thread);
  void put(census_slot& s) noexcept {
    s.next_free.write(free_.read());
    free_.write(&s);
  }
  /// Out of line: nearly all tickets go where they were announced.
  SPOLIA_NOINLINE void put_from_elsewhere(census_slot& s) noexcept {
    census_slot* first = returned_.load_relaxed();
    do {
      s.next_free.write(first);
      // release → the acquire in refill(): the owner sees the link, and the stamp vacated. (The
      // owner takes the whole list, so no slot can come back in between and fool the comparison.)
    } while (!returned_.cas_weak_release(first, &s));
  }

  /// No announcement stands here.
  [[nodiscard]] bool is_vacant() const noexcept;
  /// Of a number that no thread has: the next one's first ticket comes to refill().
  void close() noexcept {
    if (!has_free()) return;
    closed_.write(free_.read());
    free_.write(nullptr);
  }

  // acquire ← the release in grow(): we see the chunk constructed.
  const census_chunk* chunks() const noexcept { return chunks_.load_acquire(); }

 private:
  void grow(std::uint32_t thread);

  plain<census_slot*> free_{nullptr};       // the owner's
  plain<census_slot*> closed_{nullptr};     // what was free when the shelf was closed
  atomic<census_slot*> returned_{nullptr};  // vacated elsewhere; the owner takes all at once
  atomic<census_chunk*> chunks_{nullptr};   // the newest first; never shrinks
};

struct alignas(cache_line) census_chunk {
  census_chunk* const older;
  census_shelf& home;
  const std::uint32_t thread;
  atomic<std::uint64_t> stamps[slots_per_chunk];
  census_slot each[slots_per_chunk];

  census_chunk(census_chunk* o, census_shelf& h, std::uint32_t t) noexcept
      : older(o), home(h), thread(t) {
    for (std::uint32_t i = 0; i < slots_per_chunk; ++i) {
      stamps[i].store_relaxed(vacant_stamp);
      each[i].home = this;
      each[i].stamp_at = &stamps[i];
    }
  }
};

inline void census_shelf::refill(std::uint32_t thread) {
  if (closed_.read() != nullptr) {
    free_.write(closed_.read());
    closed_.write(nullptr);
  } else if (returned_.load_relaxed() != nullptr) {
    // acquire ← the release in put_from_elsewhere(): we see the links, and the stamps vacated.
    free_.write(returned_.exchange_acquire(nullptr));
  } else {
    grow(thread);
  }
}

inline bool census_shelf::is_vacant() const noexcept {
  for (const census_chunk* c = chunks(); c != nullptr; c = c->older) {
    for (const atomic<std::uint64_t>& stamp : c->stamps) {
      // acquire ← the releases of a withdrawal: what was read under it.
      if (stamp.load_acquire() != vacant_stamp) return false;
    }
  }
  return true;
}

inline void census_shelf::grow(std::uint32_t thread) {
  void* const block = memory::allocate(sizeof(census_chunk), alignof(census_chunk));
  census_chunk* const made = new (block) census_chunk(chunks_.load_relaxed(), *this, thread);
  for (census_slot& s : made->each) put(s);
  // release → the acquire in chunks(): scans see the chunk constructed.
  chunks_.store_release(made);
}

inline census_shelf::~census_shelf() {
  for (census_chunk* c = chunks_.load_relaxed(); c != nullptr;) {
    for (const atomic<std::uint64_t>& stamp : c->stamps) {
      if (stamp.load_relaxed() != vacant_stamp) {
        misuse::report("a census was destroyed while a ticket of it was live", c->thread);
      }
    }
    census_chunk* const older = c->older;
    c->~census_chunk();
    memory::deallocate(c, sizeof(census_chunk), alignof(census_chunk));
    c = older;
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
