// SPDX-License-Identifier: Apache-2.0
// log.hpp: where a thread writes its copies: segments that fill up, one after the other, and wait
// until nothing in them is needed any more.
//
// Source:      MV-RLU, section 3.5, has one ring of fixed size for each thread, taken back in
// order,
//              and a thread whose ring is full waits.
// Idea:        the owner fills its open segment. What it has filled it puts onto a stack when its
//              section has ended. A collector, which is whoever has the log's `busy` flag, takes
//              the stack and looks at the copies; a segment of which nothing is needed is retired
//              to the domain's reclamation, since a reader may be walking through it.
// Bound:       `cap` bytes in segments that are not retired. One section may fill all of them.
//
// Departures from the paper:
//   D1  Segments instead of a ring: they go back in any order, so that one copy that is needed long
//       keeps a segment and not the log; and the log grows and shrinks.
//   D2  A write set has no header. A section remembers where it began.
//   D3  At the cap an append fails, and the section can say so, instead of running over the end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// A piece of a log. `Header` is what the reclamation domain wants in front.
template <class Header>
struct alignas(record) segment : Header {
  explicit segment(std::uint32_t room) noexcept : capacity(room) {}

  static segment* make(std::uint32_t room) {
    void* const place = memory::allocate(sizeof(segment) + room, align());
    return ::new (place) segment(room);
  }
  static void end(segment* s) noexcept {
    const std::size_t bytes = s->bytes();
    s->~segment();
    memory::deallocate(s, bytes, align());
  }

  static constexpr std::size_t align() noexcept { return alignof(segment); }
  [[nodiscard]] std::size_t bytes() const noexcept { return sizeof(segment) + capacity; }

  char* at(std::uint32_t offset) noexcept { return reinterpret_cast<char*>(this + 1) + offset; }
  bool has(std::uintptr_t address) noexcept {
    return address - reinterpret_cast<std::uintptr_t>(at(0)) < capacity;
  }

  /// Calls f(record) for each from `offset` on, in the order of writing.
  template <class F>
  void for_each(std::uint32_t offset, F&& f) {
    while (offset < used) {
      record& r = *std::launder(reinterpret_cast<record*>(at(offset)));
      offset += r.bytes;
      f(r);
    }
  }

  const std::uint32_t capacity;
  std::uint32_t used = 0;
  std::uint32_t records = 0;
  std::uint64_t held_by = 0;  // the oldest section at the last full look
  std::uint32_t looks = 0;
  std::uint32_t waiting = 0;  // records that are not done; the collector's
  bool counted = false;       // `waiting` is set
  bool detached = false;      // has copies that were written back in this pass
  segment* next = nullptr;    // in the section, on the stack, or among the held
};

/// A thread's log. What the owner may touch and what a collector may are apart.
template <class Header>
class log {
 public:
  using piece = segment<Header>;

  log() = default;
  log(const log&) = delete;
  log& operator=(const log&) = delete;

  // -- the owner, inside a section

  void begin() noexcept {
    first_ = open_;
    mark_ = open_ == nullptr ? 0 : open_->used;
  }

  /// Room for one record of `size` bytes; null if that would take the log over its cap.
  /// \throws std::bad_alloc
  void* append(std::uint32_t size, std::uint32_t segment_bytes, std::size_t cap) {
    if (open_ == nullptr || open_->capacity - open_->used < size) [[unlikely]] {
      if (!grow(std::max(size, segment_bytes), cap)) return nullptr;
    }
    void* const place = open_->at(open_->used);
    open_->used += size;
    return place;
  }

  /// A record that this section wrote, by the address that a lock shows; null if it is not one.
  record* mine(std::uintptr_t address) noexcept {
    for (piece* s = section(); s != nullptr; s = s->next) {
      if (s->has(address)) return reinterpret_cast<record*>(address);
    }
    return nullptr;
  }

  /// Calls f(record) for each that this section wrote.
  template <class F>
  void for_each_written(F&& f) {
    std::uint32_t from = mark_;
    for (piece* s = section(); s != nullptr; s = s->next) {
      s->for_each(from, f);
      from = 0;
    }
  }
  [[nodiscard]] bool wrote() const noexcept {
    return open_ != first_ || (open_ != nullptr && open_->used != mark_);
  }

  /// The section has committed: what it filled is for the collector.
  void end() noexcept {
    piece* s = section();
    while (s != nullptr && s != open_) {
      piece* const after = s->next;
      push(s);
      s = after;
    }
    chain_ = nullptr;
  }

  /// The section has changed nothing: forgets what it wrote. Nobody else has looked at it.
  void roll_back() noexcept {
    piece* drop =
        first_ == nullptr ? std::exchange(chain_, nullptr) : std::exchange(first_->next, nullptr);
    while (drop != nullptr) {
      piece* const after = drop->next;
      bytes_.fetch_sub_relaxed(drop->bytes());
      piece::end(drop);
      drop = after;
    }
    open_ = first_;
    if (open_ != nullptr) open_->used = mark_;
    chain_ = nullptr;
  }

  /// The owner's thread ends: nothing stays open.
  void close() noexcept {
    if (piece* const last = std::exchange(open_, nullptr)) push(last);
    first_ = chain_ = nullptr;
    mark_ = 0;
  }

  // -- anybody

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load_relaxed(); }
  [[nodiscard]] std::uint32_t filled() const noexcept { return filled_count_.load_relaxed(); }

  /// Becomes the log's collector, for the length of f().
  template <class F>
  bool collect(F&& f) {
    bool expected = false;
    // acquire ← the release below: we see the lists as the last collector left them.
    if (busy_.load_relaxed() || !busy_.cas_strong_acquire(expected, true)) return false;
    f();
    busy_.store_release(false);  // → the acquire above
    return true;
  }

  // -- the collector

  void take_filled() noexcept {
    // acquire ← the release in push: we see the segments' contents.
    piece* s = filled_.exchange_acquire(nullptr);
    while (s != nullptr) {
      piece* const after = s->next;
      s->next = held_;
      held_ = s;
      filled_count_.fetch_sub_relaxed(1);
      s = after;
    }
  }
  piece*& held() noexcept { return held_; }
  /// Room for a copy that moves here from another segment; null if there is no memory or the log
  /// is at its cap.
  void* shelter(std::uint32_t size, std::uint32_t segment_bytes, std::size_t cap) noexcept {
    if (shelter_ == nullptr || shelter_->capacity - shelter_->used < size) {
      const std::uint32_t room = std::max(size, segment_bytes);
      if (bytes() + sizeof(piece) + room > cap) return nullptr;
      try {
        shelter_ = piece::make(room);
      } catch (const std::bad_alloc&) {
        shelter_ = nullptr;
        return nullptr;
      }
      bytes_.fetch_add_relaxed(shelter_->bytes());
      shelter_->counted = true;
      shelter_->next = held_;
      held_ = shelter_;
    }
    void* const place = shelter_->at(shelter_->used);
    shelter_->used += size;
    ++shelter_->records;
    ++shelter_->waiting;
    return place;
  }
  [[nodiscard]] bool is_shelter(const piece& s) const noexcept { return &s == shelter_; }

  /// A segment has left the list of the held.
  void left(const piece& s) noexcept {
    if (is_shelter(s)) shelter_ = nullptr;
    bytes_.fetch_sub_relaxed(s.bytes());
  }

  /// With no other thread about: gives every segment to f, which ends it.
  template <class F>
  void abandon(F&& f) {
    close();
    take_filled();
    while (held_ != nullptr) {
      piece* const s = held_;
      held_ = s->next;
      f(*s);
    }
  }
  /// After a fork: what a lost thread was collecting may be half-written, and is left alone.
  void evict() noexcept {
    if (!busy_.load_relaxed()) return;
    held_ = shelter_ = nullptr;
    busy_.store_relaxed(false);
  }
  /// After a fork, of a lost thread's log.
  void forget() noexcept {
    open_ = first_ = chain_ = held_ = shelter_ = nullptr;
    mark_ = 0;
    filled_.store_relaxed(nullptr);
    filled_count_.store_relaxed(0);
    busy_.store_relaxed(false);
  }

 private:
  /// The segment in which the section began to write.
  piece* section() const noexcept { return first_ == nullptr ? chain_ : first_; }

  SPOLIA_NOINLINE bool grow(std::uint32_t room, std::size_t cap) {
    if (bytes() + sizeof(piece) + room > cap) return false;
    piece* const made = piece::make(room);
    bytes_.fetch_add_relaxed(made->bytes());
    if (open_ == nullptr) {
      chain_ = made;
    } else {
      open_->next = made;
    }
    open_ = made;
    return true;
  }

  void push(piece* s) noexcept {
    filled_count_.fetch_add_relaxed(1);
    piece* top = filled_.load_relaxed();
    do {
      s->next = top;
      // release → the acquire in take_filled. The collector takes all, so nothing comes back.
    } while (!filled_.cas_weak_release(top, s));
  }

  piece* open_ = nullptr;   // the last of the section's segments
  piece* first_ = nullptr;  // that was open when the section began; null if none was
  piece* chain_ = nullptr;  // the section's first segment if none was open
  std::uint32_t mark_ = 0;  // how much of first_ was used

  atomic<piece*> filled_{nullptr};
  atomic<std::uint32_t> filled_count_{0};
  atomic<std::size_t> bytes_{0};
  atomic<bool> busy_{false};
  piece* held_ = nullptr;
  piece* shelter_ = nullptr;  // the one of the held that copies move to
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
