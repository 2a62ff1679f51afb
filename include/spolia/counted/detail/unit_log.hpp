// SPDX-License-Identifier: Apache-2.0
// unit_log.hpp: the units that one thread has given up and that are not dropped yet: a queue that
// its thread appends to and the collector takes from, one helper at a time.
//
// Source:      ISMM 2018, section 3.4 (the decrement log).
// Departures:
//   1. The paper's log is a ring; here it is a list of chunks, and so never overflows.
//   2. Taken from in the order of appending. The paper takes the newest first, so that few pile up
//      while a tree ends, and then an old entry may wait forever. Here what ends with an object is
//      not logged again (see collector.hpp), so nothing piles up.
//   3. All that was appended can be captured at any time; no part belongs to the owner alone.
// Each position is one word, so that a fork at any moment leaves a log that can be used; a unit
// that was just being moved is then never dropped in the child.
//
// Errors:      reserve throws std::bad_alloc; append after it never fails.
// Cost:        append: two stores.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/counted/detail/head.hpp>
#include <spolia/counted/detail/word.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// A unit's block or thin head, both of which lie at multiples of 8: with what is to happen to it
/// in the two low bits, and a third that tells which it is.
using entry = std::uintptr_t;
inline constexpr entry task_mask = 3;
inline constexpr entry head_bit = 4;
inline constexpr entry entry_mask = task_mask | head_bit;
static_assert(alignof(control) > entry_mask);
enum class task : entry {
  drop_strong = 0,
  drop_weak = 1,
  end_object = 2,  ///< its last strong unit was dropped
  free_block = 3   ///< its last weak unit was dropped
};
inline entry entry_of(const control* c, task what) noexcept {
  return reinterpret_cast<entry>(c) | static_cast<entry>(what);
}
inline entry entry_of(const head* h, task what) noexcept {
  return reinterpret_cast<entry>(h) | head_bit | static_cast<entry>(what);
}
inline bool is_thin(entry e) noexcept { return (e & head_bit) != 0; }
inline control* block_of_entry(entry e) noexcept {
  return reinterpret_cast<control*>(e & ~entry_mask);
}
inline head* head_of_entry(entry e) noexcept { return reinterpret_cast<head*>(e & ~entry_mask); }
inline const void* address_of_entry(entry e) noexcept {
  return reinterpret_cast<const void*>(e & ~entry_mask);
}
/// As pins name it.
inline name name_of_entry(entry e) noexcept {
  const std::uintptr_t at = e & ~entry_mask;
  return is_thin(e) ? at + sizeof(head) - sizeof(control) : at;
}
inline task task_of(entry e) noexcept { return static_cast<task>(e & task_mask); }

/// Units that a sweep drops together, if they are alike: a location that leads to the same few
/// objects again and again gives up many units of each, and every drop of one is a
/// read-modify-write on a line that others use.
class alike_units {
 public:
  static constexpr std::size_t most = 4;  // that wait to be dropped

  /// Calls drop(entry, n) for those that have to make room.
  template <class Drop>
  void add(entry e, const Drop& drop) {
    some& s = at_[(e >> 4U ^ e >> 10U) % at_.size()];
    if (s.what != e) {
      if (s.n != 0) drop(s.what, s.n);
      s = {e, 0};
    }
    ++s.n;
  }
  template <class Drop>
  void drop_all(const Drop& drop) {
    for (some& s : at_) {
      if (s.n != 0) drop(s.what, std::exchange(s.n, 0));
    }
  }

 private:
  struct some {
    entry what = 0;
    std::uint32_t n = 0;
  };
  std::array<some, most> at_;
};

class unit_log {
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t per_chunk = 2;
#else
  static constexpr std::uint32_t per_chunk = 254;
#endif
  static constexpr std::uint32_t ahead = 8;
  struct chunk {
    atomic<std::uint32_t> filled{0};  // the owner's
    std::uint32_t captured = 0;       // the collector's
    std::uint32_t taken = 0;
    atomic<chunk*> next{nullptr};
    std::array<plain<entry>, per_chunk> at{};
  };

 public:
  unit_log() = default;
  unit_log(const unit_log&) = delete;
  unit_log& operator=(const unit_log&) = delete;
  ~unit_log() {
    chunk* c = head_ != nullptr ? head_ : first_.load_relaxed();
    while (c != nullptr) {
      chunk* const after = c->next.load_relaxed();
      end(c);
      c = after;
    }
  }

  /// Makes room for one entry. The owner's, like append. Throws std::bad_alloc; then nothing has
  /// changed.
  SPOLIA_ALWAYS_INLINE void reserve() {
    if (!has_room()) [[unlikely]]
      grow();
  }
  [[nodiscard]] bool has_room() const noexcept {
    return tail_ != nullptr && tail_->filled.load_relaxed() != per_chunk;
  }
  [[nodiscard]] bool try_reserve() noexcept {
    try {
      reserve();
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  SPOLIA_ALWAYS_INLINE void append(entry e) noexcept {
    const std::uint32_t n = tail_->filled.load_relaxed();
    tail_->at[n].write(e);
    appended_.add();
    // release → the acquire in capture: the helper sees the entry; and that the unit was taken out
    // of its location happens before the heavy fence there.
    SPOLIA_FAULT("counted.append_relaxed") ? tail_->filled.store_relaxed(n + 1)
                                           : tail_->filled.store_release(n + 1);
  }

  [[nodiscard]] std::uint64_t appended() const noexcept { return appended_.value(); }
  /// How many wait here, as far as the calling thread knows. The owner's.
  [[nodiscard]] std::uint64_t backlog() const noexcept {
    return appended_.value() - taken_.value();
  }

  /// What follows belongs to one helper at a time.

  /// Everything appended so far may be taken. Returns how much is to be taken.
  std::uint64_t capture() noexcept {
    if (head_ == nullptr) {
      // acquire ← the release in grow: we see the chunk constructed.
      head_ = mark_ = first_.load_acquire();
      if (head_ == nullptr) return 0;
    }
    for (;;) {
      // acquire ← the release in append.
      const std::uint32_t filled = mark_->filled.load_acquire();
      waiting_ += filled - mark_->captured;
      mark_->captured = filled;
      if (filled < per_chunk) break;
      // acquire ← the release in grow: we see the chunk constructed.
      chunk* const after = mark_->next.load_acquire();
      if (after == nullptr) break;
      mark_ = after;
    }
    return waiting_;
  }

  /// Of what was captured and not yet taken.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_; }

  /// Asks the processor for the counts of a unit that is to be taken soon: what was given up some
  /// thousand changes ago is in no near cache any more.
  void fetch_ahead() const noexcept {
    const std::uint32_t soon = head_->taken + ahead;
    if (soon < head_->captured) __builtin_prefetch(address_of_entry(head_->at[soon].read()), 1);
  }

  entry take() noexcept {
    if (head_->taken == per_chunk) {
      // A chunk follows, since something is waiting. acquire ← the release in grow.
      chunk* const after = head_->next.load_acquire();
      chunk* const done = head_;
      if (mark_ == done) mark_ = after;
      head_ = after;
      end(done);
    }
    --waiting_;
    taken_.add();
    return head_->at[head_->taken++].read();
  }

  /// Gives back the memory of a log from which all was taken, and whose owner has ended.
  void give_up_memory() noexcept {
    if (waiting_ != 0 || head_ == nullptr || head_ != tail_) return;
    end(std::exchange(head_, nullptr));
    mark_ = tail_ = nullptr;
    first_.store_relaxed(nullptr);  // the next owner comes after us, and so do later helpers
  }

  /// All that is in it, when no other thread is about.
  [[nodiscard]] std::uint64_t entries() const noexcept {
    std::uint64_t sum = 0;
    const chunk* c = head_ != nullptr ? head_ : first_.load_relaxed();
    for (; c != nullptr; c = c->next.load_relaxed()) sum += c->filled.load_relaxed() - c->taken;
    return sum;
  }

  /// After a fork that lost the helper which was at work here, and perhaps the owner.
  void recount() noexcept {
    // The owner may have put a chunk after the last one, and not have gone on to it.
    if (tail_ == nullptr) tail_ = first_.load_relaxed();
    while (tail_ != nullptr && tail_->next.load_relaxed() != nullptr) {
      tail_ = tail_->next.load_relaxed();
    }
    waiting_ = 0;
    for (const chunk* c = head_; c != nullptr; c = c->next.load_relaxed()) {
      waiting_ += c->captured - c->taken;
    }
    mark_ = head_;
  }

 private:
  SPOLIA_NOINLINE void grow() {
    chunk* const fresh = ::new (memory::allocate(sizeof(chunk), alignof(chunk))) chunk;
    // release → the acquires in capture and take: they see the chunk constructed. From here on the
    // collector may end the chunk before.
    (tail_ == nullptr ? first_ : tail_->next).store_release(fresh);
    tail_ = fresh;
  }

  static void end(chunk* c) noexcept {
    c->~chunk();
    memory::deallocate(c, sizeof(chunk), alignof(chunk));
  }

  chunk* tail_ = nullptr;
  tally appended_;
  atomic<chunk*> first_{nullptr};
  // The collector's.
  alignas(cache_line) chunk* head_ = nullptr;
  chunk* mark_ = nullptr;
  std::uint64_t waiting_ = 0;
  tally taken_;
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
