// SPDX-License-Identifier: Apache-2.0
// log.hpp: the log of one thread, to which it writes its copies: segments that are filled one after
// the other, and stay until no copy in them is needed any more.
//
// Source:      MV-RLU, section 3.5, has one ring of fixed size for each thread. It is freed in
//              order, and a thread whose ring is full waits.
// Idea:        the owner fills its open segment. When its section has ended, it puts the segments
//              that it has filled onto a stack. A collector, which is the thread that has made the
//              log `busy`, takes the stack and examines the copies. A segment in which no copy is
//              needed is retired to the domain's reclamation, since a reader may be walking through
//              it. Between two sections the owner shows its open segment, so that copies need not
//              wait until it is full, however long the owner sleeps.
// Open:        owner:      shown := null;  light fence;  busy?  then fill a new segment
//              collector:  busy := true;   heavy fence;  shown?  then look through it
//              By the fences the owner sees that it must leave the segment alone, or the collector
//              sees nothing shown. So no thread writes to a segment that a collector looks through.
//              A sweep may last, if its thread is interrupted. A segment that the owner begins to
//              fill during a sweep is shown with that sweep's number, and that sweep leaves it
//              alone. So the owner may go on with it, and does not begin one for each section.
// Bound:       `cap` bytes in segments. These include the segments that are retired and not yet
//              freed, because a thread was interrupted in the middle of a walk or a sweep. One
//              section may fill all of them.
//
// Departures from the paper:
//   D1  Segments instead of a ring: they are freed in any order, so that one copy that is needed
//       long keeps a segment and not the log; and the log grows and shrinks.
//   D2  A write set has no header. A section remembers where it began.
//   D3  At the cap an append fails, instead of running over the end, and the section can say so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/rlu/detail/segment.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// A thread's log. Its owner and its collector use different fields, but for the atomic ones.
template <class Header>
class log {
 public:
  using piece = segment<Header>;

  log() = default;
  log(const log&) = delete;
  log& operator=(const log&) = delete;

  // -- the owner, inside a section

  /// Comes before the section's first record. A section that writes nothing never calls it.
  void begin() noexcept {
    const changing lists(*this);
    begun_ = true;
    shown_.store_relaxed(nullptr);
    fence::light();  // ↔ the heavy one in a sweep: see "Open"
    // acquire ← the release in end_collect: a collector that has examined the segment has ended.
    const std::uint64_t seen = passes_.load_acquire();
    const std::uint64_t pass = is_busy(seen) ? seen : no_pass;
    const bool looked_at = std::exchange(beside_, pass) != pass && pass != no_pass;
    if (looked_at && !SPOLIA_FAULT("rlu.fills_what_is_read")) close();
    first_ = open_;
    mark_ = open_ == nullptr ? 0 : open_->used.read();
  }

  /// Memory for one record of `size` bytes, which the caller makes there and then appends; null if
  /// that would take the log over its cap.
  /// \throws std::bad_alloc
  void* room(std::uint32_t size, std::uint32_t segment_bytes, std::size_t cap) {
    if (!begun_) begin();
    if (open_ == nullptr || open_->capacity - open_->used.read() < size) [[unlikely]] {
      if (!grow((std::max)(size, room_for_more(segment_bytes)), cap)) return nullptr;
    }
    return open_->at(open_->used.read());
  }
  void append(const record& made) noexcept {
    fence::for_forks();  // a child finds whole records only
    open_->used.write(open_->used.read() + made.bytes);
    fence::for_forks();  // it finds each record that has a lock
    written_.add(made.bytes);
  }

  /// The record at the address that a lock shows; null if this section did not write it.
  record* mine(std::uintptr_t address) noexcept {
    piece* s = section();
    while (s != nullptr && !s->has(address)) s = s->next;
    return s == nullptr ? nullptr : reinterpret_cast<record*>(address);
  }

  /// Calls f(record) for each that this section wrote.
  template <class F>
  void for_each_written(F&& f) {
    std::uint32_t from = mark_;
    for (piece* s = section(); s != nullptr; s = s->next) s->for_each(std::exchange(from, 0U), f);
  }
  [[nodiscard]] bool wrote() const noexcept {
    return begun_ && (open_ != first_ || (open_ != nullptr && open_->used.read() != mark_));
  }

  /// The section has ended: hands the segments that it has filled to the collector.
  void end() noexcept {
    if (!begun_) return;
    const changing lists(*this);
    begun_ = false;
    piece* s = section();
    while (s != nullptr && s != open_) {
      piece* const after = s->next;
      push(s);
      s = after;
    }
    first_ = chain_ = nullptr;
    shown_during_.store_relaxed(
        beside_);  // first: a collector that finds the segment finds this or a later one
    shown_.store_release(open_);  // → the acquire in shown(): what we have written to it
  }

  /// The section has changed nothing: forgets the records that it wrote. No other thread has looked
  /// at them.
  void roll_back() noexcept {
    if (!begun_) return;
    const changing lists(*this);
    piece* drop =
        first_ == nullptr ? std::exchange(chain_, nullptr) : std::exchange(first_->next, nullptr);
    while (drop != nullptr) {
      piece* const after = drop->next;
      bytes_.fetch_sub_relaxed(drop->bytes());
      piece::end(drop);
      drop = after;
    }
    open_ = first_;
    if (open_ != nullptr) open_->used.write(mark_);
    chain_ = nullptr;
  }

  /// The same for a section whose changes are all in the masters. The segment in which it began
  /// stays open for the next section, or the one after it, if that is full: else each section would
  /// go on to a segment of its own. Returns how many bytes the section had written.
  std::uint64_t take_back() noexcept {
    const changing lists(*this);
    std::uint64_t bytes = 0;
    for (const piece* s = section(); s != nullptr; s = s->next) bytes += s->used.read();
    bytes -= mark_;
    if (first_ == nullptr) first_ = std::exchange(chain_, nullptr);
    if (mark_ != 0 && first_->next != nullptr) {
      first_->used.write(std::exchange(mark_, 0));
      push(std::exchange(first_, first_->next));
    }
    roll_back();
    return bytes;
  }

  /// Hands over the open segment, too: no segment stays open.
  void close() noexcept {
    const changing lists(*this);
    shown_.store_relaxed(nullptr);
    if (piece* const last = std::exchange(open_, nullptr)) push(last);
    first_ = chain_ = nullptr;
    mark_ = 0;
  }

  /// A section that has committed freed objects of so many bytes, with what they own.
  void holds_more(std::size_t bytes) noexcept { held_bytes_.fetch_add_relaxed(bytes); }

  // -- any thread

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load_relaxed(); }
  /// Bytes of segments that are retired and not yet freed.
  [[nodiscard]] std::size_t retired_bytes() const noexcept { return retired_.bytes(); }
  /// Bytes of weighed objects that were freed, with what they own: as long as a section may need
  /// the objects, and (`buried_bytes`) after that until they have ended.
  [[nodiscard]] std::size_t held_bytes() const noexcept { return held_bytes_.load_relaxed(); }
  [[nodiscard]] std::size_t buried_bytes() const noexcept { return retired_.buried_bytes(); }
  /// Bytes that were ever written.
  [[nodiscard]] std::uint64_t written() const noexcept { return written_.value(); }
  /// Records that the last sweep had to leave.
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_.value(); }
  /// Changes whenever a sweep of the log begins or ends.
  [[nodiscard]] std::uint64_t passes() const noexcept { return passes_.load_relaxed(); }
  /// Whether a thread is the log's collector. If not, what collectors have done happens before what
  /// the caller does next.
  [[nodiscard]] bool is_looked_through() const noexcept {
    return is_busy(passes_.load_acquire());  // ← the release in end_collect
  }
  /// Whether a sweep might find something to do.
  [[nodiscard]] bool has_work() const noexcept {
    return waiting() != 0 || written() != looked_at_.value();
  }

  /// Whether it might find that, or a segment to retire.
  [[nodiscard]] bool has_left() const noexcept {
    return has_work() || filled_.load_relaxed() != nullptr;
  }

  /// Becomes the log's collector. The thread has a number.
  bool try_collect() noexcept {
    std::uint64_t seen = passes_.load_relaxed();
    // acquire ← the release in end_collect: we see the lists as the last collector left them.
    if (is_busy(seen) || !passes_.cas_strong_acquire(seen, seen + 1)) return false;
    by_ = threads::number();
    return true;
  }
  void end_collect() noexcept {
    by_ = no_thread;
    // → the acquires in begin, is_looked_through, try_collect and wait_for_collector
    passes_.store_release(passes_.load_relaxed() + 1);
  }

  /// Waits until a sweep that is under way has ended. Each sweep that begins later sees what the
  /// caller did before a full fence, by the heavy fence at the sweep's beginning.
  void wait_for_collector() const noexcept {
    // acquire, both ← the release in end_collect: what the sweep did happens before what follows.
    const std::uint64_t seen = passes_.load_acquire();
    for (backoff busy; is_busy(seen) && passes_.load_acquire() == seen;) busy.pause();
  }

  /// Whether the log, whose thread has ended, has no segment, and no thread is its collector.
  [[nodiscard]] bool is_left_empty() noexcept {
    if (!try_collect()) return false;
    const bool empty = open_ == nullptr && held_ == nullptr && old_ == nullptr &&
                       filled_.load_relaxed() == nullptr;
    end_collect();
    return empty;
  }

  // -- the collector, after a heavy fence

  /// Notes the object whose lock the collector has, or is about to take; null: none.
  void at(object* o) noexcept { at_ = o; }

  /// The owner's open segment, if the owner is between two sections, and did not begin the segment
  /// during this very sweep.
  piece* shown() const noexcept {
    piece* const s = shown_.load_acquire();  // ← the release in end
    const bool avoids_us = shown_during_.load_relaxed() == passes_.load_relaxed();
    return avoids_us && !SPOLIA_FAULT("rlu.looks_where_it_is_avoided") ? nullptr : s;
  }
  void take_filled() noexcept {
    looked_at_.set(written());
    // acquire ← the release in push: we see the segments' contents.
    piece* s = filled_.exchange_acquire(nullptr);
    while (s != nullptr) {
      piece* const after = s->next;
      s->next = held_;
      held_ = s;
      s = after;
    }
  }
  /// Calls f(record) for each record of the shown segment and of those that collectors have taken;
  /// not for the done records at a segment's beginning.
  template <class F>
  void for_each_held(F&& f) {
    if (piece* const s = shown()) s->for_each(s->done_to, f);
    for (piece* const list : {held_, old_}) {
      for (piece* s = list; s != nullptr; s = s->next) s->for_each(s->done_to, f);
    }
  }
  piece*& held() noexcept { return held_; }
  /// The old segments: several sweeps had to leave them, and they are swept less often.
  piece*& old() noexcept { return old_; }
  /// Whether a sweep is to examine the old segments. Is called once in each sweep, so that it also
  /// becomes true where the owner of the log sleeps: when, since the old segments were last
  /// examined, twice as many sweeps have come as there are old segments, or half as many segments
  /// have become old, or a part of both. So there are not more old segments than needed ones by
  /// more than a factor, and each costs a few looks in all. A segment whose records one instant
  /// holds is skipped, and counts as 1 / skips_a_look of a segment.
  [[nodiscard]] bool is_turn_of_old() noexcept { return ++turns_skipped_ >= 2 * old_looks_; }
  void end_turn_of_old() noexcept {
    turns_skipped_ = 0;
    waiting_in_old_ = 0;
    std::uint64_t skips = 0;
    for (const piece* s = old_; s != nullptr; s = s->next) {
      waiting_in_old_ += s->last.waiting;
      skips += s->held_by == 0 ? skips_a_look : 1;
    }
    old_looks_ = skips / skips_a_look;
  }
  void grows_old(piece& s) noexcept {
    s.next = old_;
    old_ = &s;
    ++old_looks_;
    turns_skipped_ += passes_a_segment;
    waiting_in_old_ += s.last.waiting;
  }
  /// Memory for a record that moves to a survivor space from another segment; null if there is no
  /// memory or the log is at its cap. Tombstones and copies have survivor spaces of their own. A
  /// tombstone gets no successor, but a copy may, and then go. So a space of tombstones may have
  /// one instant that holds all its records, and sweeps can skip it.
  void* survivor_space(record_kind kind, std::uint32_t size, std::uint32_t segment_bytes,
                       std::size_t cap) noexcept {
    piece*& to = kind == record_kind::tombstone ? graves_ : survivors_;
    if (to == nullptr || to->capacity - to->used.read() < size) {
      try {
        to = make((std::max)(size, segment_bytes), cap);
      } catch (const std::bad_alloc&) {
        to = nullptr;
      }
      if (to == nullptr) return nullptr;
      to->next = held_;
      held_ = to;
    }
    const std::uint32_t offset = to->used.read();
    to->used.write(offset + size);
    ++to->last.waiting;  // this sweep may have examined the segment before
    to->last.waiting_bytes += size;
    to->held_by = 0;
    return to->at(offset);
  }
  [[nodiscard]] bool is_survivor_space(const piece& s) const noexcept {
    return &s == survivors_ || &s == graves_;
  }

  /// After a sweep: `in_open` records wait in the open segment.
  void set_waiting(std::uint32_t in_open) noexcept {
    std::uint64_t all = in_open + waiting_in_old_;
    for (const piece* s = held_; s != nullptr; s = s->next) all += s->last.waiting;
    waiting_.set(all);
  }
  /// A segment in which no record is needed has left its list.
  void left(piece& s) noexcept {
    if (&s == survivors_) survivors_ = nullptr;
    if (&s == graves_) graves_ = nullptr;
    if (s.charged) {
      retired_.add(s);
      bytes_.fetch_sub_relaxed(s.bytes());
    }
    if (s.buried_bytes != 0) held_bytes_.fetch_sub_relaxed(s.buried_bytes);
  }

  /// Gives every segment to f, which ends it. Precondition: no other thread uses the log.
  template <class F>
  void abandon(F&& f) {
    close();
    take_filled();
    for (piece** const list : {&held_, &old_}) {
      while (piece* const s = *list) {
        *list = s->next;
        f(*s);
      }
    }
  }
  /// After a fork, of a lost thread's log: true if that thread was not just changing the lists.
  [[nodiscard]] bool is_whole() const noexcept { return whole_; }
  /// After a fork, for a log that is not whole: no thread collects it any more.
  void forget() noexcept {
    begun_ = false;
    whole_ = true;
    open_ = first_ = chain_ = nullptr;
    mark_ = 0;
    give_up_taken();
    waiting_.set(0);
    bytes_.store_relaxed(0);
    held_bytes_.store_relaxed(0);
    filled_.store_relaxed(nullptr);
    shown_.store_relaxed(nullptr);
  }

 private:
  template <class>
  friend class log_after_fork;

  static constexpr std::uint32_t no_thread = ~std::uint32_t{0} - 1;  // no thread's number
  static constexpr std::uint64_t no_pass = 0;                        // sweeps are odd
  static constexpr std::uint64_t skips_a_look = 64;
  static constexpr std::uint64_t passes_a_segment = 4;  // sweeps for which one grown old counts
  static constexpr bool is_busy(std::uint64_t passes) noexcept { return (passes & 1U) != 0; }

  /// While the owner has one of these, its lists are half changed. They may nest. The first that
  /// ends, an inner one, marks the lists as whole: the code that follows it inside the outer one
  /// changes none of them.
  class changing {
   public:
    explicit changing(log& of) noexcept : of_(of) {
      of_.whole_ = false;
      fence::for_forks();
    }
    changing(const changing&) = delete;
    changing& operator=(const changing&) = delete;
    ~changing() {
      fence::for_forks();
      of_.whole_ = true;
    }

   private:
    log& of_;
  };

  /// The segment in which the section began to write.
  piece* section() const noexcept { return first_ == nullptr ? chain_ : first_; }

  /// A segment; null if it would take the log over its cap. The owner and its collector may make
  /// segments at the same time.
  /// \throws std::bad_alloc
  piece* make(std::uint32_t room, std::size_t cap) {
    const std::size_t size = piece::bytes_with(room);
    piece* made = nullptr;
    if (bytes_.fetch_add_relaxed(size) + size + retired_bytes() <= cap) {
      try {
        made = piece::make(room);
      } catch (...) {
        bytes_.fetch_sub_relaxed(size);
        throw;
      }
    }
    if (made == nullptr) bytes_.fetch_sub_relaxed(size);
    return made;
  }

  /// The size of the next segment: as much as the log has already, so that the log of a thread that
  /// writes little stays small.
  [[nodiscard]] std::uint32_t room_for_more(std::uint32_t segment_bytes) const noexcept {
    constexpr std::uint64_t first = 1024;
    const std::uint64_t so_far = (std::max)(first, std::uint64_t{bytes_.load_relaxed()});
    return static_cast<std::uint32_t>((std::min<std::uint64_t>)(segment_bytes, so_far));
  }
  SPOLIA_NOINLINE bool grow(std::uint32_t room, std::size_t cap) {
    piece* const made = make(room, cap);
    if (made == nullptr) return false;
    (open_ == nullptr ? chain_ : open_->next) = made;
    fence::for_forks();  // a child finds the segment in the section, and no record in it
    open_ = made;
    return true;
  }

  void give_up_taken() noexcept {
    held_ = old_ = survivors_ = graves_ = nullptr;
    old_looks_ = waiting_in_old_ = turns_skipped_ = 0;
  }

  void push(piece* s) noexcept {
    piece* top = filled_.load_relaxed();
    do {
      s->next = top;
      // release → the acquire in take_filled. No ABA: the collector takes the whole stack.
    } while (!filled_.cas_weak_release(top, s));
  }

  bool begun_ = false;      // the section has begun to write
  bool whole_ = true;       // the owner's lists are not half changed
  piece* open_ = nullptr;   // the last of the section's segments
  piece* first_ = nullptr;  // the segment that was open when the section began; null if none was
  piece* chain_ = nullptr;  // the section's first segment if none was open
  std::uint32_t mark_ = 0;  // how much of first_ was used when the section began

  std::uint64_t beside_ = no_pass;  // the sweep during which the last section began to write

  tally written_;

  atomic<piece*> shown_{nullptr};
  atomic<std::uint64_t> shown_during_{no_pass};
  atomic<std::uint64_t> passes_{0};  // begun and ended: odd while one is under way
  atomic<piece*> filled_{nullptr};
  atomic<std::size_t> bytes_{0};
  atomic<std::size_t> held_bytes_{0};
  typename piece::retired retired_;
  latest<std::uint64_t> waiting_;
  latest<std::uint64_t> looked_at_;  // bytes that had been written when the last sweep began
  piece* held_ = nullptr;
  piece* old_ = nullptr;
  std::uint64_t old_looks_ = 0;       // how many looks it takes to examine the old segments
  std::uint64_t waiting_in_old_ = 0;  // records that wait in them
  std::uint64_t turns_skipped_ = 0;   // sweeps since, and passes_a_segment for each grown old
  piece* survivors_ = nullptr;        // the survivor space for copies
  piece* graves_ = nullptr;           // and the one for tombstones
  object* at_ = nullptr;
  std::uint32_t by_ = no_thread;  // the collector's number, while it is one
};

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
