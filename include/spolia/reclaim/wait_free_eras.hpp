// SPDX-License-Identifier: Apache-2.0
// wait_free_eras.hpp: hazard eras in which no thread reads a pointer again and again forever: a
// thread that wants to move the clock first helps those that cannot keep up with it.
//
// Source:      Nikolaev, Ravindran: Universal Wait-Free Memory Reclamation, PPoPP 2020 (WFE).
// Idea:        protect() under hazard eras begins anew whenever the clock has moved. After
//              `attempts` times a thread asks: it publishes a request that says where it reads.
//              Every thread that wants to end an era answers all requests first: it announces an
//              era itself, reads the pointer, and if the clock still stands there it hands both
//              over. So while a request is pending, the clock moves at most once for each thread
//              that had already made sure that no thread asks.
// Protects:    era, exactly as hazard_eras. What a guard reads pointers from, if it is in no block
//              of the domain, has to be there until the guard ends, since helpers may be reading
//              it.
// Cost:        as hazard_eras; and a look at one shared word for each era ended. A request costs
//              two updates of that word, and a heavy fence at the end of its guard.
// Progress:    protect and step are wait-free: bounded by `attempts` and the number of threads. Not
//              wait-free is the end of a guard in which a request was made: it waits for helpers
//              that are just then reading for it, which are a few instructions, unless they are
//              interrupted in them (D3). Scans are wait-free; so is retire, but for what the
//              release policy does.
// Bound:       as hazard_eras. Besides, an answer that was not fetched keeps what was alive in its
//              era, and a guard with requests what was alive between the eras of its thread's
//              slots. If a helper has no memory for its record (one for each pair of threads that
//              helped), no era ends then, and blocks wait.
//
// Why it is sound: facts A, B and R of eras.hpp, and hazard_eras. What is new:
//   * The helper's announcement, `kept`, takes effect by A like any other: it finds the clock in
//   its
//     era after it has read the pointer. The pointer was read after the request was made, so that
//     the looks that protect's caller makes hold for it as if the caller had read it.
//   * The answer is handed over: the asking thread writes the era into its slot, and then empties
//     `kept`. A scan reads all `kept` first, and all slots afterwards, so it finds one of them.
//   * The helper reads from a source that belongs to the other thread: a block that this protects,
//     or something that is there as long as its guard. So the asking thread keeps it: until its
//     guard ends, it announces the interval (`floor` to `ceiling`) of all eras in its slots at the
//     time of the request, and then waits for the helpers that are `reading`. A helper says that it
//     reads, and then looks whether the request is still pending; the light fence in between, and
//     the heavy one before the wait, make sure that either the helper sees that it comes too late,
//     or the asking thread sees it reading. A scan reads the intervals after the slots: a slot that
//     was used anew was written after the interval.
//   * Which thread may write a record: its helper while the request is pending, or until it has
//     seen that it is not; if it has won, the asking thread, until the next request. Requests are
//     numbered.
//
// Departures from the paper:
//   D1  No double-width compare-and-swap: the paper swaps {pointer, era} and {era, number} as one.
//       Here each helper has a record of its own in the asking thread's part, and one word of 64
//       bits says which record is the answer. The asking thread moves the era to its slot itself.
//   D2  One request for each thread, not for each slot: a thread reads one pointer at a time.
//   D3  The helper does not protect the block of the source, so that protect() needs no `parent`,
//       and sources outside of blocks need not live forever. The price is the wait at the end of
//       the guard. In the paper the roots of structures must outlive all helpers.
//   D4  Departures of hazard_eras.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/era_requests.hpp>
#include <spolia/reclaim/detail/era_slots.hpp>
#include <spolia/reclaim/detail/eras.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/slots.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class wait_free_eras : public detail::reclaim::era_slots<wait_free_eras> {
 public:
  static constexpr scheme_info info{
      .name = "wait_free_eras",
      .title = "wait-free eras",
      .source = "Nikolaev, Ravindran, PPoPP 2020, without double-width compare-and-swap",
      .protects = protection::era,
      .robust = true,
      .cost = "as hazard_eras; a look at a shared word for each era ended",
      .progress = "protect and scans wait-free; a guard that had to ask for help may end late",
      .bound = "as hazard_eras, and what was alive in the eras of answers not fetched"};

  struct options : era_options {
    /// Times that protect() tries by itself before it asks. The paper's number. 0: it always asks.
    std::uint32_t attempts = 16;
  };

  struct local {
    detail::reclaim::era_rows rows;
    detail::reclaim::era_bags bags;
    detail::reclaim::scratch<detail::reclaim::era_interval> found;
    detail::reclaim::era_request request;
    std::uint32_t number = 0;
  };

  explicit wait_free_eras(const options& o) noexcept : era_slots(o), attempts_(o.attempts) {}

  template <class Peers>
  void join(local& me, std::uint32_t number, Peers peers) noexcept {
    era_slots::join(me, number, peers);
    me.number = number;
  }

  void close(local& me, hold& h) noexcept {
    if (me.request.unsettled()) [[unlikely]]
      me.request.settle();
    give_back(h);
  }

  template <class Source>
  source_value<Source> protect(local& me, hold& h, unsigned slot, const Source& source) noexcept {
    slot = checked(slot);
    std::uint64_t announced = h.row->at[slot].load_relaxed();
    for (std::uint32_t n = 0; n < attempts_; ++n) {
      source_value<Source> seen;
      const std::uint64_t now = clock_.now_after(source, seen);
      if (now == announced) return seen;
      put(h, slot, now);
      announced = now;
    }
    return ask(me, h, slot, source);
  }

  template <class Peers>
  void forked(local& lost, Peers peers) noexcept {
    if (lost.request.forget()) asking_.fetch_sub_relaxed(1);
    lost.rows.forget();
    lost.found.forget();
    peers.for_each([&](std::uint32_t, local& other) {
      other.request.forget_helper(lost.number);
      return true;
    });
  }

 private:
  friend retiring_by_era;
  friend era_slots;

  /// As protect(), with the help of others. Ends when the clock stands still, which it does when
  /// every thread that ended an era has seen the request, or when one of them has answered it.
  template <class Source>
  SPOLIA_NOINLINE source_value<Source> ask(local& me, hold& h, unsigned slot,
                                           const Source& source) noexcept {
    asking_.fetch_add_relaxed(1);
    const std::uint64_t asked = me.request.ask(me.rows, source);
    source_value<Source> seen;
    for (std::uint64_t announced = h.row->at[slot].load_relaxed();;) {
      const std::uint64_t now = clock_.now_after(source, seen);
      if (now == announced) {
        if (!me.request.take_back(asked)) seen = fetch<source_value<Source>>(me, h, slot);
        break;
      }
      if (me.request.answered(asked)) {
        seen = fetch<source_value<Source>>(me, h, slot);
        break;
      }
      put(h, slot, now);
      announced = now;
    }
    asking_.fetch_sub_relaxed(1);
    return seen;
  }

  /// Takes the answer over: the era into the slot, and only then out of the helper's record.
  template <class Value>
  static Value fetch(local& me, hold& h, unsigned slot) noexcept {
    detail::reclaim::era_answer& answer = me.request.answer();
    const std::uint64_t bits = answer.value.load_relaxed();
    if (SPOLIA_FAULT("wfe.emptied_first")) answer.kept.store_relaxed(detail::reclaim::no_era);
    put(h, slot, answer.era.load_relaxed());
    // release → the acquire in announcements(): a scan that finds it empty finds the slot.
    answer.kept.store_release(detail::reclaim::no_era);
    me.request.end();
    Value value;
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    return value;
  }

  /// Helps first. A thread that asks just now may be missed: that is one step of the clock.
  template <class Peers>
  void end_era(local& me, Peers peers) noexcept {
    bool all = true;
    if (asking_.load_relaxed() != 0) {
      peers.for_each([&](std::uint32_t, local& other) {
        all = other.request.help(me.number, clock_) && all;
        return true;
      });
    }
    if (all) era_slots::end_era(me, peers);
  }

  template <class Peers, class Sink>
  void scan(local& me, bool all, Peers peers, Sink sink) noexcept {
    limbo bag = me.bags.for_scan(all);
    const auto room = detail::reclaim::room_for(slot_count() + peers.high_water(), me.found);
    // heavy → the light fences in put() and in era_request::help(): orders the end of each block's
    // last era before the reading of the announcements.
    if (!SPOLIA_FAULT("wfe.no_heavy")) fence::heavy();
    std::size_t from = 0;
    const auto some = [&](std::span<detail::reclaim::era_interval> found) {
      return gather(peers, from, found);
    };
    detail::reclaim::separate(bag, me.bags.pinned(), room, some, &detail::reclaim::meets);
    // Last: deleters may open guards, retire, and so come back here.
    if (!bag.empty()) sink(bag);
  }

  /// Reads the announcements from the `from`-th on, as many as find room, and sorts them. Rows and
  /// records are never taken away, so that what is not read yet can only move to a higher place.
  template <class Peers>
  static std::size_t gather(Peers peers, std::size_t& from,
                            std::span<detail::reclaim::era_interval> found) noexcept {
    std::size_t count = 0;
    std::size_t at = 0;
    announcements(peers, [&](std::uint64_t lower, const auto& upper) {
      if (at >= from && lower != detail::reclaim::no_era) {
        if (count == found.size()) return false;
        found[count++] = {lower, upper()};
      }
      ++at;
      return true;
    });
    from = at;
    detail::reclaim::sort_intervals(found.first(count));
    return count;
  }

  /// Calls visit(lower, upper()) for all that is announced, in the order in which eras are handed
  /// over, until it returns false.
  template <class Peers, class Visit>
  static void announcements(Peers peers, Visit visit) noexcept {
    bool more = true;
    const auto slot = [&](const atomic<std::uint64_t>& place) {
      // acquire ← the releases that write slots and records, for the accesses under the eras
      // before, and for the slot to which an answer went.
      const std::uint64_t era = place.load_acquire();
      return more = visit(era, [&] { return era; });
    };
    const auto kept = [&](std::uint32_t, const local& of) {
      of.request.for_each_answer(
          [&](const detail::reclaim::era_answer& a) { return slot(a.kept); });
      return more;
    };
    const auto look_at_slots = [&](std::uint32_t, const local& of) {
      // acquire ← the release in take_further(): we see the row constructed.
      for (auto* row = &of.rows.first(); row != nullptr && more; row = row->next.load_acquire()) {
        for (std::size_t i = guard_slots; i > 0 && more; --i) slot(row->at[i - 1]);
      }
      return more;
    };
    const auto floors = [&](std::uint32_t, const local& of) {
      const std::uint64_t floor = of.request.floor();
      return more = visit(floor, [&] { return of.request.ceiling(); });
    };
    if (SPOLIA_FAULT("wfe.slots_first")) peers.for_each(look_at_slots);
    if (more) peers.for_each(kept);
    if (more && !SPOLIA_FAULT("wfe.slots_first")) peers.for_each(look_at_slots);
    if (more) peers.for_each(floors);
  }

  const std::uint32_t attempts_;
  alignas(cache_line) atomic<std::uint32_t> asking_{0};  // so many requests
};

static_assert(scheme<wait_free_eras> && protects_eras<wait_free_eras> && robust<wait_free_eras>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
