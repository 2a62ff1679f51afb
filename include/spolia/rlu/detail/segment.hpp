// SPDX-License-Identifier: Apache-2.0
// segment.hpp: a piece of a log, with the records in it, and the graveyard in which pieces end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// Segments that no thread looks at any more, and with which objects end. They wait here for a
/// thread that is between two sections, since the objects' destructors may begin sections.
template <class Segment>
class graveyard {
 public:
  graveyard() = default;
  graveyard(const graveyard&) = delete;
  graveyard& operator=(const graveyard&) = delete;
  ~graveyard() { clear(); }

  void bury(Segment& s) noexcept {
    Segment* top = first_.load_relaxed();
    do {
      s.next = top;
      // release → the acquire in clear. No ABA: that takes the whole stack.
    } while (!first_.cas_weak_release(top, &s));
  }

  void clear() noexcept {
    if (first_.load_relaxed() == nullptr) return;
    // acquire ← the release in bury: we see the segments as they were left.
    Segment* s = first_.exchange_acquire(nullptr);
    while (s != nullptr) {
      Segment* const after = s->next;
      s->for_each(0, [](record& r) {
        if (r.state.load_relaxed() == record_state::last) r.how->destroy(*r.of);
      });
      Segment::end(s);
      s = after;
    }
  }

 private:
  atomic<Segment*> first_{nullptr};
};

/// What a collector has found when it examined a segment.
struct findings {
  void note(const record& r) noexcept {
    ++waiting;
    waiting_bytes += r.bytes;
    note_if_gone(r);
  }
  void note_if_gone(const record& r) noexcept {
    if (r.ended.load_relaxed() != detached) return;
    ++gone;
    gone_bytes += r.bytes;
    gone_since = (std::min)(gone_since, r.since.load_relaxed());
  }

  std::uint32_t waiting = 0;        // records that are not done
  std::uint32_t waiting_bytes = 0;  // of these records
  // Those of them that are detached. Only sections whose time is from gone_since on and below the
  // segment's detached_at may have found one.
  std::uint32_t gone = 0;
  std::uint32_t gone_bytes = 0;
  std::uint64_t gone_since = ~std::uint64_t{0};
};

/// A piece of a log. `Header` is the reclamation domain's header of a block.
template <class Header>
struct alignas(record) segment : Header {
  /// Counts the bytes of retired segments, which wait for readers in the middle of a walk, and of
  /// the objects that end with them.
  class retired {
   public:
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load_relaxed(); }
    [[nodiscard]] std::size_t buried_bytes() const noexcept { return buried_.load_relaxed(); }
    void add(segment& s) noexcept {
      bytes_.fetch_add_relaxed(s.bytes());
      if (s.buried_bytes != 0) buried_.fetch_add_relaxed(s.buried_bytes);
      s.retired_in = this;
      s.retired_life = life_;
    }
    void subtract(const segment& s) noexcept {
      if (s.retired_life != life_) return;
      bytes_.fetch_sub_relaxed(s.bytes());
      if (s.buried_bytes != 0) buried_.fetch_sub_relaxed(s.buried_bytes);
    }
    /// In the child of a fork: counts anew, since no thread may ever free the segments of before.
    void start_over() noexcept {
      ++life_;
      bytes_.store_relaxed(0);
      buried_.store_relaxed(0);
    }

   private:
    atomic<std::size_t> bytes_{0};
    atomic<std::size_t> buried_{0};
    std::uint32_t life_ = 0;
  };

  explicit segment(std::uint32_t room) noexcept : capacity(room) {}

  static segment* make(std::uint32_t room) {
    void* const place = memory::allocate(bytes_with(room), align());
    return ::new (place) segment(room);
  }
  static void end(segment* s) noexcept {
    const std::size_t bytes = s->bytes();
    if (s->retired_in != nullptr) s->retired_in->subtract(*s);
    s->~segment();
    memory::deallocate(s, bytes, align());
  }

  /// Frees the segment, or moves it to the graveyard: this must not run code of users. No thread
  /// looks at the segment any more.
  static void release(segment* s) noexcept {
    if (s->buries) {
      s->grave->bury(*s);
    } else {
      end(s);
    }
  }

  static constexpr std::size_t align() noexcept { return alignof(segment); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_with(capacity); }
  static constexpr std::size_t bytes_with(std::uint32_t room) noexcept {
    return sizeof(segment) + (record_line - align()) + room;
  }

  /// Forgets what collectors have found in the segment.
  void forget_looks() noexcept {
    done_to = gone_to = looks = 0;
    last = {};
    held_by = 0;
  }

  char* at(std::uint32_t offset) noexcept { return first + offset; }
  bool has(std::uintptr_t address) noexcept {
    return address - reinterpret_cast<std::uintptr_t>(at(0)) < capacity;
  }

  /// Calls f(record) for each from `offset` on, in the order of writing.
  template <class F>
  void for_each(std::uint32_t offset, F&& f) {
    while (offset < used.read()) {
      record& r = *std::launder(reinterpret_cast<record*>(at(offset)));
      offset += r.bytes;
      f(r);
    }
  }

  char* const first = reinterpret_cast<char*>(
      (reinterpret_cast<std::uintptr_t>(this + 1) + record_line - 1) / record_line * record_line);
  const std::uint32_t capacity;
  plain<std::uint32_t> used{0};
  segment* next = nullptr;  // in the section, on the stack, or among the collector's
  // The collector's:
  std::uint32_t done_to = 0;  // all records before this offset are done
  std::uint32_t gone_to = 0;  // those before this one are done or detached, as of the last look
  std::uint32_t looks = 0;    // how many sweeps have examined the segment
  findings last;              // of the last look
  // The instant that holds each record that waits, whatever is written later; 0: there is none.
  std::uint64_t held_by = 0;
  bool detached = false;          // this sweep has detached copies of it
  std::uint64_t detached_at = 0;  // from this time on no section finds a detached copy of it
  bool charged = true;            // counts in its log's cap; false if a lost thread has left it
  bool buries = false;            // objects end with it
  std::size_t buried_bytes = 0;   // of those objects, if they are weighed
  graveyard<segment>* grave = nullptr;
  retired* retired_in = nullptr;
  std::uint32_t retired_life = 0;  // of retired_in when it was added there
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
