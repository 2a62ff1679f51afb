// SPDX-License-Identifier: Apache-2.0
/// \file
/// The census: which timestamps are in use right now, by snapshots, critical sections,
/// transactions. A thread that wants to drop a version asks it first. (The papers' scanAnnounce.)
///
///     census living;  logical_clock clock;
///     auto mine = living.announce(clock, "report");     // protects the versions seen at...
///     read_versions_at(mine.timestamp());               // ...this time, until the ticket goes
///
///     const auto old = living.oldest(clock);        // what ended at or before old is not needed
///     std::vector<std::uint64_t> times;
///     const auto known = living.scan(clock, times); // of that: but for what lived at one of these
///     living.for_each([](const census::entry& e) { ... });     // which thread holds up what, and
///                                                              // since when
///
/// Thread safety: everything may be called by any thread at any time. A ticket belongs to one
///   thread at a time, may be moved to another and be withdrawn there, and outlives the thread that
///   announced it. The census must outlive its tickets.
/// Errors: announce throws std::bad_alloc and nothing else (then nothing has changed); scan only
///   what growing the caller's vector throws. There is no fixed maximum of tickets or threads.
/// Cost: announce and withdraw write to the thread's own cache lines only: a handful of stores, a
///   light fence, two readings of the clock; a label costs a reading of the processor's counter
///   more. Withdrawing another thread's ticket costs a compare-and-swap. oldest and scan cost a
///   heavy fence (microseconds) and a look at each slot; call them once for many versions.
/// Progress: announce retries when a logical clock moves meanwhile: lock-free; wait-free with a
///   clock that advances alone. Withdrawing one's own ticket is wait-free, another's lock-free.
///   oldest, scan and for_each never wait.
/// Memory: for each thread, slots for the most tickets it ever had at once, rounded up to a chunk;
///   kept until the census goes, and used again by the next thread with that number. Until it comes
///   scans pass by the slots that a thread has left, once all are vacant.
/// Fork: in the child the tickets of threads that were lost stay announced forever.
///
/// Why no ticket is missed
///   announce:  t := clock;  slot := t;  fence::light();  if clock != t, again
///   oldest:    limit := clock;  fence::heavy();  read all slots
/// (Or two full ones, by fence::cost: a heavy one interrupts all threads, which may be too often.)
/// Take a ticket whose slot the scan saw without it. A light and a heavy fence are ordered; were
/// the light one first, the scan would have seen the slot's store. So the heavy one was first, and
/// the announcer's second look at the clock sees no less than the scan's limit. Since it saw t
/// again, t >= limit: the missed ticket needs no version that ended at or before limit. That is why
/// oldest() never returns more than its limit, whatever it finds; the limit must be read first.
///   - Without the second look: the thread sleeps between reading t and storing it, the clock goes
///     on, a scan finds nothing, and what t needs is freed.
///   - Without the heavy fence: the slot's store may still wait in the announcer's store buffer
///     while the second look already happened; the scan misses t although t < limit.
/// A clock that advances alone would never read the same twice. There the slot first holds an open
/// announcement, "a time not before c"; t is read after the fence and replaces it. With a hardware
/// clock a missed ticket may be below a limit read earlier, but by bound() at most: the overloads
/// that take a clock subtract it.
///
/// Why open announcements hold nothing up
/// A thread may be interrupted while its announcement is open. A scan that vouched for nothing that
/// ended after c would then keep everything that ends until the thread goes on. So a scan that has
/// a clock completes the announcement itself, and the announcing thread takes the time that it
/// finds:
///   scan:      sees the slot open;  fence::heavy();  t := clock;  slot := t, if still the same
/// Other scans either missed the announcement or do as this one. Take one that missed it. Its heavy
/// fence was before ours: otherwise, since we saw the slot open before ours, it would have seen it
/// as well. So its limit was read before our t. An open slot holds a number that no other
/// announcement there ever has, so that "the same" means this one; c stands beside it.
/// An announcement that is opened after the scan's own fence gets a time above the scan's limit,
/// whichever thread completes it: the scan may ignore it. (The DISC 2021 tracker copies the clock
/// in one atomic step.)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/detail/census_slots.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class census_draft;

class census {
  using slot = detail::census_slot;
  using chunk = detail::census_chunk;
  using shelf = detail::census_shelf;

 public:
  /// One live announcement, for accounting.
  struct entry {
    std::uint64_t timestamp;    ///< if not `settled`, the one to come is not below it
    bool settled;               ///< false for a moment, with clocks that advance alone
    const char* label;          ///< as given to announce; null if none was
    std::uint32_t thread;       ///< the number of the thread that announced it; it may have ended
    std::uint64_t start_ticks;  ///< ticks::read() when it was announced; 0 if there is no label
    std::uintptr_t id;          ///< ticket::id()
  };

  /// Keeps one timestamp announced while it lives.
  class ticket {
   public:
    ticket() noexcept = default;
    ticket(ticket&& from) noexcept
        : slot_(std::exchange(from.slot_, nullptr)), timestamp_(from.timestamp_) {}
    ticket& operator=(ticket&& from) noexcept {
      if (this != &from) {
        withdraw();
        slot_ = std::exchange(from.slot_, nullptr);
        timestamp_ = from.timestamp_;
      }
      return *this;
    }
    ~ticket() { withdraw(); }

    /// Ends the protection; nothing happens if the ticket is empty. What its holder read happens
    /// before everything that follows a scan which no longer finds it.
    void withdraw() noexcept {
      if (slot_ != nullptr) release(*std::exchange(slot_, nullptr));
    }

    [[nodiscard]] explicit operator bool() const noexcept { return slot_ != nullptr; }
    [[nodiscard]] std::uint64_t timestamp() const noexcept { return timestamp_; }
    /// No other ticket has it at the same time; 0: it is empty.
    [[nodiscard]] std::uintptr_t id() const noexcept {
      return reinterpret_cast<std::uintptr_t>(slot_);
    }
    /// The number of the thread that announced a ticket with this id. That may have been withdrawn
    /// since, but the census must be there, and the announcement must happen before.
    [[nodiscard]] static std::uint32_t thread_of(std::uintptr_t id) noexcept {
      return reinterpret_cast<const slot*>(id)->home->thread;
    }

   private:
    friend class census;
    friend class census_draft;
    ticket(slot* s, std::uint64_t t) noexcept : slot_(s), timestamp_(t) {}

    slot* slot_ = nullptr;
    std::uint64_t timestamp_ = 0;
  };

  /// A slot that is kept for a thread that announces again and again: cheaper than tickets, because
  /// nothing is looked up. It belongs to the thread that reserved it, or to the next one with its
  /// number.
  class reserved_slot {
   public:
    reserved_slot() noexcept = default;

    /// As census::announce; the last announcement must have been withdrawn.
    template <timestamp_clock Clock>
    std::uint64_t announce(const Clock& clock, const char* label = nullptr) noexcept {
      if (label != nullptr || labelled_) [[unlikely]]
        labelled_ = slot_->describe(label);  // else it is described already
      return complete(*slot_, *stamp_, clock, order_);
    }
    /// As ticket::withdraw.
    void withdraw() noexcept {
      // Release → the acquire in visit(): what the holder read, it read before the scan went on.
      stamp_->store_release(vacant);
    }

    /// For other threads, which it may reach late: the time that is announced, or vacant_stamp.
    // acquire ← the releases in complete() and withdraw().
    [[nodiscard]] std::uint64_t announced() const noexcept { return stamp_->load_acquire(); }
    [[nodiscard]] explicit operator bool() const noexcept { return slot_ != nullptr; }

   private:
    friend class census;
    reserved_slot(slot& s, fence::cost order) noexcept
        : slot_(&s), stamp_(&s.stamp()), order_(order) {}

    slot* slot_ = nullptr;
    atomic<std::uint64_t>* stamp_ = nullptr;
    fence::frequent order_{};
    bool labelled_ = true;  // the slot may be, by its last holder at first
  };

  explicit census(fence::cost order = fence::cost::seldom) noexcept : order_(order) {}
  census(const census&) = delete;
  census& operator=(const census&) = delete;

  /// Announces the present time of `clock`. All tickets of a census must come from one clock.
  /// \param label for for_each; must live as long as the ticket (a string literal)
  /// \throws std::bad_alloc
  template <timestamp_clock Clock>
  [[nodiscard]] ticket announce(const Clock& clock, const char* label = nullptr) {
    slot& s = take();
    s.describe(label);
    return ticket(&s, complete(s, s.stamp(), clock, fence::frequent(order_)));
  }

  static void withdraw(ticket t) noexcept { t.withdraw(); }

  using seat [[deprecated("it is called reserved_slot")]] = reserved_slot;
  /// A slot for the calling thread. \throws std::bad_alloc
  [[nodiscard]] reserved_slot reserve() { return reserved_slot(take(), order_); }
  /// Before the first announcement of a thread that has come by the slot with its number, which an
  /// earlier thread had: scans pass by what ended threads have left vacant.
  void take_over([[maybe_unused]] const reserved_slot& left) noexcept {
    shelves_.occupy_made(threads::number());
  }

  /// A time at or before every live announcement, those included that begin while this runs, and at
  /// or before the clock. Completes what is open.
  /// \param looked_at if not null, becomes how many slots were looked at, in use or not
  template <timestamp_clock Clock>
  [[nodiscard]] std::uint64_t oldest(const Clock& clock,
                                     std::size_t* looked_at = nullptr) const noexcept {
    return oldest(limit_of(clock), helper<Clock>{clock}, looked_at);
  }
  /// The same at or before `limit`, which must have been read from the clock (less its bound)
  /// before; what is open holds it up.
  [[nodiscard]] std::uint64_t oldest(std::uint64_t limit) const noexcept {
    return oldest(limit, no_help{}, nullptr);
  }

  /// Fills `out` with the complete announcements, ascending, each value once. Returns a time known,
  /// at or before the clock (`limit`): every announcement below it, live now or to come, is in the
  /// list. So of the versions that ended at or before it, those are needed that were current at a
  /// listed time, and no others; versions that ended later must be kept.
  ///
  /// With a logical clock a listed value may be one that its thread is about to replace by a newer.
  /// That keeps too much, for a moment. A caller that needs a later scan to be no stricter than an
  /// earlier one must drop values below the earlier scan's `known` that were not in its list.
  /// \param looked_at as for oldest()
  /// \throws whatever growing `out` throws; its content is unspecified then
  template <timestamp_clock Clock>
  std::uint64_t scan(const Clock& clock, std::vector<std::uint64_t>& out,
                     std::size_t* looked_at = nullptr) const {
    return scan(limit_of(clock), out, helper<Clock>{clock}, looked_at);
  }
  /// The same without a clock: what is open holds it up.
  std::uint64_t scan(std::uint64_t limit, std::vector<std::uint64_t>& out) const {
    return scan(limit, out, no_help{}, nullptr);
  }

  /// Calls f(entry) once for each ticket that is live all the time, and perhaps for some that come
  /// or go meanwhile. Needs no heavy fence, so tickets announced a moment ago may be missing: for
  /// accounting only. f may announce and withdraw.
  template <class F>
  void for_each(F&& f) const;

  /// How many slots oldest() and scan() look at, in use or not.
  [[nodiscard]] std::size_t capacity() const noexcept {
    std::size_t count = 0;
    for_each_chunk([&](const chunk&) { count += detail::slots_per_chunk; });
    return count;
  }

 private:
  friend class census_draft;  // census_draft.hpp: announces in several steps

  static constexpr std::uint64_t vacant = detail::vacant_stamp;
  static constexpr std::uint64_t open_flag = detail::open_stamp;

  /// What a scan does about an announcement that it finds open.
  struct no_help {
    static constexpr bool helps = false;
  };
  template <class Clock>
  struct helper {
    static constexpr bool helps = Clock::advances_alone;
    const Clock& clock;
  };

  template <class Clock>
  static std::uint64_t complete(slot& s, atomic<std::uint64_t>& stamp, const Clock& clock,
                                fence::frequent order) noexcept;
  static void release(slot& s) noexcept;

  template <class Clock>
  static std::uint64_t limit_of(const Clock& clock) noexcept {
    const std::uint64_t now = clock.now();
    return now - (std::min)(now, clock.bound());
  }

  slot& take() {
    const std::uint32_t thread = threads::number();
    shelf& mine = shelves_.of(thread);
    if (!mine.has_free()) [[unlikely]]
      open_shelf(mine, thread);
    return mine.take();
  }
  /// Before the fence of an announcement, so that a scan which finds the shelf closed is one that
  /// misses the announcement: see "Why no ticket is missed".
  SPOLIA_NOINLINE void open_shelf(shelf& mine, std::uint32_t thread) {
    if (!SPOLIA_FAULT("census.shelf_stays_closed")) shelves_.occupy_made(thread);
    mine.refill(thread);
  }
  template <class F>
  void for_each_chunk(F&& f) const {
    shelves_.for_each_occupied([&](std::uint32_t, const shelf& s) {
      for (const chunk* c = s.chunks(); c != nullptr; c = c->older) f(*c);
      return true;
    });
  }

  template <class Help>
  std::uint64_t oldest(std::uint64_t limit, const Help& help,
                       std::size_t* looked_at) const noexcept {
    std::uint64_t least = limit;
    const std::uint64_t known =
        visit(limit, help, looked_at, [&](std::uint64_t t) { least = (std::min)(least, t); });
    return (std::min)(least, known);
  }
  template <class Help>
  std::uint64_t scan(std::uint64_t limit, std::vector<std::uint64_t>& out, const Help& help,
                     std::size_t* looked_at) const;

  /// Calls f(timestamp) for each complete announcement that stands, and returns the least of
  /// `limit` and of what may become of those that are open and cannot be helped.
  template <class Help, class F>
  std::uint64_t visit(std::uint64_t limit, const Help& help, std::size_t* looked_at, F&& f) const;
  /// What has become of announcement `opened` in slot s, whose time matters below `limit`: its
  /// timestamp; or vacant if it does not matter; or if it is still open, and cannot be helped,
  /// open_flag and what its time is not before.
  template <class Help>
  std::uint64_t meet(const slot& s, std::uint64_t opened, std::uint64_t limit,
                     const Help& help) const noexcept;

  const fence::cost order_{};
  mutable cells<shelf> shelves_;
  mutable vacating_walks walks_;
};

template <class Clock>
std::uint64_t census::complete([[maybe_unused]] slot& s, atomic<std::uint64_t>& stamp,
                               const Clock& clock, fence::frequent order) noexcept {
  // All stores to a stamp are release → the acquires in visit() and for_each(): a scan that sees
  // this ticket, or none, in a slot also has what the slot's earlier holders did under it; without
  // that, memory they read could be freed while, by the language's rules, they still read it.
  if constexpr (Clock::advances_alone) {
    const std::uint64_t not_before = clock.now();
    std::uint64_t seen = s.open(stamp, not_before);
    order();  // ↔ the one in visit(): see "Why no ticket is missed"
    const std::uint64_t t =
        SPOLIA_FAULT("census.no_validation") ? not_before : (std::max)(not_before, clock.now());
    if (SPOLIA_FAULT("census.completes_blindly")) return stamp.store_release(t), t;
    // acquire ← the release in meet(): what was done before the time that the helper read.
    return stamp.cas_strong_acq_rel(seen, t) ? t : seen;
  } else {
    for (;;) {
      const std::uint64_t t = clock.now();
      stamp.store_release(t);
      order();  // ↔ the one in visit(): see "Why no ticket is missed"
      if (SPOLIA_FAULT("census.no_validation") || clock.now() == t) return t;
    }
  }
}

inline void census::release(slot& s) noexcept {
  const chunk& home = *s.home;
  // Release → the acquire in visit(): what the holder read, it read before the scan went on.
  s.stamp().store_release(vacant);
  // A thread that has no number owns no slots, and is given none for this.
  if (threads::is_this(home.thread)) return home.home.put(s);
  home.home.put_from_elsewhere(s);
}

template <class Help, class F>
std::uint64_t census::visit(std::uint64_t limit, const Help& help, std::size_t* looked_at,
                            F&& f) const {
  std::uint64_t known = limit;
  std::size_t chunks = 0;
  if (!SPOLIA_FAULT("census.no_heavy")) fence::seldom(order_);  // ↔ the ones in complete()
  for_each_chunk([&](const chunk& c) {
    ++chunks;
    for (std::uint32_t i = 0; i < detail::slots_per_chunk; ++i) {
      // acquire ← the releases in complete(), meet() and release(); see complete().
      std::uint64_t seen = c.stamps[i].load_acquire();
      if (seen != vacant && (seen & open_flag) != 0) seen = meet(c.each[i], seen, limit, help);
      if (seen == vacant) continue;
      if ((seen & open_flag) != 0) {
        known = (std::min)(known, seen & ~open_flag);
      } else {
        f(seen);
      }
    }
  });
  if (looked_at != nullptr) *looked_at = chunks * detail::slots_per_chunk;
  // Scans pass by a shelf that an ended thread has left vacant, until the number's next thread
  // takes a slot of it.
  if (walks_.is_next()) {
    walks_.vacate(
        shelves_, [](const shelf& s) { return s.is_vacant(); }, [](shelf& s) { s.close(); });
  }
  return known;
}

template <class Help>
std::uint64_t census::meet(const slot& s, std::uint64_t opened, std::uint64_t limit,
                           const Help& help) const noexcept {
  // acquire ← the release in complete(): if this is a later announcement's, then the stamp below is
  // no longer what it was.
  const std::uint64_t not_before = s.not_before.load_acquire();
  // acquire, here and when the exchange fails ← the releases in complete() and release(), as in
  // visit().
  std::uint64_t seen = s.stamp().load_acquire();
  if (seen == opened) {
    if (not_before >= limit) return vacant;
    if constexpr (Help::helps) {
      // ↔ that of a scan that missed it: see "Why open announcements hold nothing up".
      if (!SPOLIA_FAULT("census.helps_unfenced")) fence::seldom(order_);
      const std::uint64_t t = (std::max)(not_before, help.clock.now());
      // release → the acquire in complete().
      if (s.stamp().cas_strong_acq_rel(seen, t)) return t;
    } else {
      return open_flag | not_before;
    }
  }
  // Another one that is open came after our fence.
  return (seen & open_flag) != 0 ? vacant : seen;
}

template <class Help>
std::uint64_t census::scan(std::uint64_t limit, std::vector<std::uint64_t>& out, const Help& help,
                           std::size_t* looked_at) const {
  out.clear();
  const std::uint64_t known =
      visit(limit, help, looked_at, [&](std::uint64_t t) { out.push_back(t); });
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return known;
}

template <class F>
void census::for_each(F&& f) const {
  for_each_chunk([&](const chunk& c) {
    for (const slot& s : c.each) {
      // acquire, each ← the releases in describe(), complete() and release(): see describe(). The
      // stamp comes before the label, so that a new stamp brings its own label.
      const std::uint64_t turn = s.turn.load_acquire();
      const std::uint64_t stamp = s.stamp().load_acquire();
      const std::uint64_t not_before = s.not_before.load_acquire();
      const char* const label = s.label.load_acquire();
      const std::uint64_t start = s.start.load_acquire();
      if (stamp == vacant || s.turn.load_relaxed() != turn) continue;
      const bool settled = (stamp & open_flag) == 0;
      f(entry{settled ? stamp : not_before, settled, label, c.thread, start,
              reinterpret_cast<std::uintptr_t>(&s)});
    }
  });
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
