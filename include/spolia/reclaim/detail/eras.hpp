// SPDX-License-Identifier: Apache-2.0
// eras.hpp: what the era schemes share: a clock, the life of a block in eras of that clock, and how
// retired blocks wait until a scan.
//
// A block LIVES in the eras from its birth to its retirement, both included. Its birth is read from
// the clock before another thread knows it. Its retirement is an era that had not ended when it was
// unlinked. A scheme frees a block once no thread announces an era in which it lives. Three facts
// make that sound, whatever the pace of the clock:
//
//   R  A thread that reads from the clock an era later than a block's retirement sees the block
//      unlinked.
//      Retired blocks get their retirement in handfuls, by the fetch_add that ends the era (end()),
//      and so after they were unlinked. It is a release, later eras continue its release sequence,
//      and clocks are read with acquire. (Had each block its retirement from a load of the clock,
//      the load would need a full fence before it: it could be older than the unlinking, and the
//      block would seem to have been dead in an era whose readers still reach it.)
//   B  A thread that finds a block by an acquire load, and the era e on the clock afterwards, knows
//      that it was born in e or before: the maker's look at the clock happens before ours.
//   A  An announcement of e HAS TAKEN EFFECT when, after it and a light fence, the clock is found
//      still in e. From then on, until it is withdrawn, no block that lives in e is freed. For
//      the block's retirement is e or later; so e ended, by R's fetch_add, before the heavy fence
//      of the scan that could free it. Had that fence come before our light one, we would have
//      found a later era. So it comes after it, and the scan sees the announcement.
//
// So a reader that has announced e, then finds a block by a link that was not frozen before the
// announcement, and then the clock still in e, may use it: the block lives in e by B and R, and
// stays by A.
//
// And a search that began at a root, or at a block seen linked after that, may follow frozen links,
// too, while the clock stands at e: of a block that was linked at some time after we read e, each
// link leads to such a block again. (It was linked when the link was read, or when it was frozen.)
//
// Most blocks go without a look at announcements, and without a fence. Each thread says in which
// era its last operation began, and does not take that back (`attendance`). It has read that era
// from the clock, so what was retired in an earlier one is out of its reach for good, by R, and its
// operations before are over. So a handful, no more than an allocator's thread cache takes without
// its locks, is free once all threads have begun an operation in a later era. Only if a thread is
// idle, or stalled, or long in an operation, handfuls pile up for the scheme's own scan.
//
//   Threads idle for long are parked, and not asked. One that comes back in era r reads r by an
//   acquiring read-modify-write, and every era is ended by one too. If a block was retired before
//   r, the thread sees it unlinked. If in r or later, the end of that era comes after the return,
//   and the thread that ended it, or has taken the block over since, finds the thread back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/source.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/detail/parked_mark.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// Numbers of the era schemes.
struct era_options {
  /// Blocks that a thread lets wait before it scans: see hazard_pointers.
  std::uint32_t scan_at = 1024;
  /// Retirements of a thread to each era that it ends. Readers fetch the clock's line anew when it
  /// has moved, so that short eras cost reads; in long ones a reader that has just begun holds up
  /// all that was retired in them. An eighth of a scan loses next to nothing on either side.
  std::uint32_t advance_every = 128;
};

namespace detail::reclaim {

/// No era.
inline constexpr std::uint64_t no_era = 0;

/// What an era scheme keeps in each block. A block that was made without the domain is as old as
/// the world.
struct lifetime {
  plain<std::uint64_t> birth{no_era};
  plain<std::uint64_t> retirement{no_era};

  lifetime() = default;
  lifetime(const lifetime&) noexcept {}
  lifetime& operator=(const lifetime&) noexcept { return *this; }

  static lifetime& of(retired* block) noexcept {
    return static_cast<stamped<lifetime>*>(block)->stamp;
  }
};

/// Counts eras, from 1 on. 64 bits do not run out.
class era_clock {
 public:
  std::uint64_t now() const noexcept {
    // acquire ← the release in end(): R above. Relaxed, a reader could announce an era and yet find
    // a block that was retired before it.
    return SPOLIA_FAULT("eras.read_relaxed") ? now_.load_relaxed() : now_.load_acquire();
  }

  /// Reads a pointer, then the clock. The other way round, the block might be born, and retired,
  /// after the look at the clock, which would prove nothing about it.
  template <class Source>
  std::uint64_t now_after(const Source& source, source_value<Source>& seen) const noexcept {
    const bool first = SPOLIA_FAULT("eras.clock_first");
    const std::uint64_t before = first ? now() : no_era;
    // acquire ← the release that published the pointer: B above, and the block is whole.
    seen = source_traits<Source>::load_acquire(source);
    return first ? before : now();
  }

  /// The birth of a block that no other thread knows yet. Coherence is enough for B above:
  /// publishing and finding the block orders our look before the finder's.
  std::uint64_t birth() const noexcept { return now_.load_relaxed(); }

  /// Ends the era, and tells which it was: the retirement of every block that the thread has
  /// unlinked, or was given, before.
  std::uint64_t end() noexcept {
    if (SPOLIA_FAULT("eras.retired_by_a_load")) {
      const std::uint64_t stale = now_.load_relaxed();
      now_.fetch_add_relaxed(1);
      return stale;
    }
    const std::uint64_t now = trace::on() ? trace::ticks() : 0;
    trace::record(trace::event::epoch_advanced, now, now, 1);
    // release → the acquire in now(): R above. acquire ← the release in take_back(): a thread that
    // comes back in this era or an earlier one is found to be there.
    return now_.fetch_add_acq_rel(1);
  }

  /// A thread that was parked is there again.
  void take_back(parked_mark& mark) noexcept { mark.come_back(now_); }

  std::uint64_t ended() const noexcept { return now_.load_relaxed() - 1; }

 private:
  alignas(cache_line) atomic<std::uint64_t> now_{1};
};

/// What a thread says to threads that free without a look at announcements: see above.
struct attendance {
  atomic<std::uint64_t> began{no_era};  // when its last outermost guard did
  parked_mark parked;
};

/// The waiting blocks of one thread.
class era_bags {
 public:
  void put(retired* block) noexcept { undated_.push(block); }

  /// How many have no retirement yet.
  std::size_t undated() const noexcept { return undated_.count(); }
  /// How many have, and were in no scan yet.
  std::size_t fresh() const noexcept { return fresh_.count() + latest_.count(); }
  std::size_t count() const noexcept { return undated() + fresh() + pinned_.count(); }

  /// Gives the undated blocks `era` as their retirement.
  void date(std::uint64_t era) noexcept {
    write_dates();
    latest_.append(undated_);
    latest_era_ = era;
  }

  /// Moves what was retired before `era` to `safe`: by whole lists, so that no block need be looked
  /// at.
  void take_before(std::uint64_t era, limbo& safe) noexcept {
    if (pinned_until_ < era) safe.append(pinned_);
    if (fresh_until_ < era) safe.append(fresh_);
    if (latest_era_ < era) safe.append(latest_);
  }

  /// The blocks that a scan looks at: the fresh ones; and those that an earlier one found pinned,
  /// but only when as many others have been looked at since (or `all` are wanted). So blocks that
  /// are pinned for long cost each retirement no more than one look, however many they are.
  limbo for_scan(bool all) noexcept {
    write_dates();
    pinned_until_ = (std::max)(pinned_until_, fresh_until_);
    limbo bag;
    looked_at_ += fresh_.count();
    if (all || looked_at_ >= pinned_.count()) {
      bag.append(pinned_);
      looked_at_ = 0;
    }
    bag.append(fresh_);
    return bag;
  }
  /// Where the scan puts what it may not free.
  limbo& pinned() noexcept { return pinned_; }

  void adopt(era_bags& other) noexcept {
    undated_.append(other.undated_);
    other.write_dates();
    fresh_.append(other.fresh_);
    fresh_until_ = (std::max)(fresh_until_, other.fresh_until_);
    pinned_until_ = (std::max)(pinned_until_, other.pinned_until_);
    pinned_.append(other.pinned_);
  }

  void abandon(limbo& all) noexcept {
    all.append(pinned_);
    all.append(fresh_);
    all.append(latest_);
    all.append(undated_);
  }

  /// f(list) for each list.
  template <class F>
  void lists(F&& f) {
    f(undated_);
    f(latest_);
    f(fresh_);
    f(pinned_);
  }

 private:
  /// Most handfuls go before any thread asks for the date of one block.
  void write_dates() noexcept {
    if (latest_.empty()) return;
    fresh_until_ = (std::max)(fresh_until_, latest_era_);
    while (retired* const block = latest_.pop()) {
      lifetime::of(block).retirement.write(latest_era_);
      fresh_.push(block);
    }
  }

  limbo undated_;
  limbo latest_;  // retired in latest_era_, which the blocks do not say yet
  limbo fresh_;   // none later than fresh_until_
  std::uint64_t latest_era_ = no_era;
  std::uint64_t fresh_until_ = no_era;
  std::uint64_t pinned_until_ = no_era;
  limbo pinned_;               // none later than pinned_until_
  std::size_t looked_at_ = 0;  // since the pinned ones were
};

/// Moves each block of `bag` that lives in an era which some slot names to `pinned`. The caller has
/// ordered the reading of the slots after the ends of the blocks' last eras.
template <class Peers>
void separate_living(limbo& bag, limbo& pinned, Peers peers,
                     std::span<std::uint64_t> room) noexcept {
  slot_position<std::uint64_t> at;
  const auto some = [&](std::span<std::uint64_t> eras) {
    const std::size_t found = gather(peers, at, eras);
    std::sort(eras.begin(), eras.begin() + static_cast<std::ptrdiff_t>(found));
    return found;
  };
  separate(bag, pinned, room, some, [](std::span<const std::uint64_t> eras, retired* block) {
    const lifetime& life = lifetime::of(block);
    const auto first = std::lower_bound(eras.begin(), eras.end(), life.birth.read());
    return first != eras.end() && *first <= life.retirement.read();
  });
}

/// Eras that some thread announces, both ends included.
struct era_interval {
  std::uint64_t lower;
  std::uint64_t upper;  // when sorted: the highest of all up to here
};

/// Prepares for meets().
inline void sort_intervals(std::span<era_interval> found) noexcept {
  std::sort(found.begin(), found.end(),
            [](const era_interval& a, const era_interval& b) { return a.lower < b.lower; });
  for (std::size_t i = 1; i < found.size(); ++i) {
    found[i].upper = (std::max)(found[i].upper, found[i - 1].upper);
  }
}

/// Does the block live in an era of one of the intervals?
inline bool meets(std::span<const era_interval> found, retired* block) noexcept {
  const lifetime& life = lifetime::of(block);
  const auto later =
      std::upper_bound(found.begin(), found.end(), life.retirement.read(),
                       [](std::uint64_t era, const era_interval& i) { return era < i.lower; });
  return later != found.begin() && std::prev(later)->upper >= life.birth.read();
}

/// The retiring half of an era scheme. `Scheme` says how many blocks it wants to scan at once,
/// limit(), and scans, scan(me, all, peers, sink); its `local` has a part `bags`.
template <class Scheme>
class retiring_by_era {
 public:
  using options = era_options;
  using stamp = lifetime;

  static const char* what_is_wrong(const options& o) noexcept {
    if (o.scan_at == 0 || o.scan_at > 1U << 30U) {
      return "eras: scan_at must be between 1 and 2^30";
    }
    if (o.advance_every == 0 || o.advance_every > 1U << 30U) {
      return "eras: advance_every must be between 1 and 2^30";
    }
    return nullptr;
  }

  bool due(auto&) const noexcept { return false; }
  void tick(auto&, auto, auto) noexcept {}

  void born(auto&, stamp& s) const noexcept { s.birth.write(clock_.birth()); }

  void retire(auto& me, retired* block, auto peers, auto sink) noexcept {
    me.bags.put(block);
    if (me.bags.undated() >= options_.advance_every) [[unlikely]]
      look_after(me, peers, sink);
  }

  void collect(auto& me, auto peers, auto sink) noexcept {
    self().end_era(me, peers);
    self().scan(me, true, peers, sink);
  }

  void adopt(auto& me, auto& other) noexcept { me.bags.adopt(other.bags); }

  /// So that lists that pass from hand to hand do not grow.
  void adopted(auto& me, auto peers, auto sink) noexcept { look_after(me, peers, sink); }

  void abandon(auto& me, limbo& all) noexcept { me.bags.abandon(all); }
  static void lists(auto& of, auto&& f) { of.bags.lists(f); }
  void exited(auto&, auto) noexcept {}  // its guards have withdrawn what they announced

  /// Has this thread begun no operation for so long that the gate should be closed? Only a hint.
  bool idle(const auto& other) const noexcept
    requires requires { other.attends; }
  {
    return !other.attends.parked.looks_set() &&
           other.attends.began.load_relaxed() + park_after <= clock_.ended();
  }
  /// Its gate is closed: until it comes back, it is between two operations.
  void park(auto& other) noexcept
    requires requires { other.attends; }
  {
    other.attends.parked.set();
  }
  /// The thread is back.
  void unpark(auto& me) noexcept
    requires requires { me.attends; }
  {
    clock_.take_back(me.attends.parked);
  }

  std::size_t waiting(const auto& me) const noexcept { return me.bags.count(); }
  std::uint64_t epochs() const noexcept { return clock_.ended(); }

  /// What was alive in an era may be as much as memory holds.
  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }

 protected:
  explicit retiring_by_era(const options& o) noexcept : options_(o) {}

  SPOLIA_NOINLINE void look_after(auto& me, auto peers, auto sink) noexcept {
    limbo safe;
    if constexpr (requires { me.attends; }) {  // also if blocks were just taken over
      me.bags.take_before(all_began(peers), safe);
    }
    if (me.bags.undated() >= options_.advance_every) self().end_era(me, peers);
    if (me.bags.fresh() >= self().limit(peers)) self().scan(me, false, peers, sink);
    // Last: deleters may open guards, retire, and so come back here.
    if (!safe.empty()) sink(safe);
  }

  /// The thread begins an outermost guard in era `now`, which it has just read from the clock.
  static void note_begin(auto& me, std::uint64_t now) noexcept {
    // release → the acquire in all_began(): our operations before happen before what was retired
    // earlier is freed.
    SPOLIA_FAULT("eras.begun_relaxed") ? me.attends.began.store_relaxed(now)
                                       : me.attends.began.store_release(now);
  }

  /// An era in which, or later, all threads have begun their last operations, or will begin one.
  static std::uint64_t all_began(auto peers) noexcept {
    std::uint64_t era = ~std::uint64_t{0};
    peers.for_each([&](std::uint32_t, const auto& other) {
      if (other.attends.parked.is_set()) return true;
      // acquire ← the release in note_begin(), as said there.
      era = (std::min)(era, other.attends.began.load_acquire());
      return true;
    });
    return SPOLIA_FAULT("eras.one_era_too_soon") ? era + 1 : era;
  }

  /// The thread's blocks get their retirement.
  void end_era(auto& me, auto) noexcept { me.bags.date(clock_.end()); }

  options options_;
  era_clock clock_;

 private:
  /// So many eras without an operation: in some the thread may just have had nothing to do.
  static constexpr std::uint64_t park_after = 8;

  Scheme& self() noexcept { return static_cast<Scheme&>(*this); }
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
