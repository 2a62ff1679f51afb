// SPDX-License-Identifier: Apache-2.0
// reservations.hpp: each operation reserves the epoch in which it begins; what was retired before
// the oldest reservation is free.
//
// Source:      Fraser: Practical lock-freedom, PhD thesis, Cambridge 2004, section 5.2.3 (epochs
//              that operations announce); with a minimum over the announcements instead of bags for
//              three epochs, as "RCU" in Wen, Izraelevitz, Cai, Beadle, Scott: Interval-based
//              memory reclamation, PPoPP 2018. It is not the read-copy update of rcu.hpp.
// Idea:        an operation writes the epoch down when it begins, and withdraws that when it ends.
//              Blocks that were cut from the list of waiting ones when epoch e ended have the tag
//              e, and are free once no operation reserves e or less.
// Protects:    region.
// Cost:        enter: a load of a shared word that changes once for `scan_at` blocks of a thread,
//              one store; leave: one store. A scan costs a membarrier and reads one word of each
//              thread.
// Progress:    wait-free for operations and scans. A thread asleep inside a guard keeps what is cut
//              from then on.
// Bound:       none when a thread stalls inside a guard. Otherwise about 2 · scan_at blocks a
//              thread, if operations are short against the time between two scans.
//
// Departures from the source:
//   D1  The fence between a reservation and the operation's loads is the domain's light one; the
//       scan pays with a heavy one.
//   D2  The epoch is advanced by scans, not by allocations; see tagged_epochs.hpp for tags.
//   D3  Scans happen between operations, so a thread's own reservation keeps nothing.
//   D4  Threads that were never seen have no reservation, so threads come and go.
//
// Why it is safe. Let a block have the tag e, and a scan find no reservation of e or less after its
// heavy fence, which follows the unlinking. An operation with a reservation above e read the epoch
// after the block was unlinked, and cannot find it. One whose reservation the scan did not see has
// ended, or sees the unlinking by the fences. A reservation may be older than the epoch in which it
// became visible, if the thread was interrupted in between: that keeps more than needed, never
// less.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/detail/tagged_epochs.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class reservations : public detail::reclaim::tagged_epochs<reservations> {
  friend tagged_epochs;

 public:
  static constexpr scheme_info info{
      .name = "reservations",
      .title = "epoch reservations",
      .source = "Fraser, 2004, section 5.2.3, as RCU in Wen et al., PPoPP 2018",
      .protects = protection::region,
      .robust = false,
      .cost = "a shared load and two plain stores an operation; one membarrier a scan",
      .progress = "wait-free; blocks wait for threads inside a guard",
      .bound = "none if a thread stalls inside a guard"};

  explicit reservations(const options& o) noexcept : tagged_epochs(o) {}

  void enter(local& me) noexcept {
    // A release: a thread that sees this reservation sees our earlier operations ended. Ordered
    // before our loads by the domain's light fence, see scan().
    announce(me, now(), SPOLIA_FAULT("rcu.enter_relaxed"));
  }

  void leave(local& me) noexcept {
    // A release: our accesses happen before what we could see is freed.
    announce(me, no_epoch, SPOLIA_FAULT("rcu.leave_relaxed"));
  }

  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    scan(me, peers, sink);
  }

  template <class Peers>
  void exited(local&, Peers) noexcept {}  // its operations have withdrawn their reservations

 private:
  static constexpr const char* refusal = "reservations: scan_at must be between 1 and 2^30";
  /// What a thread announces otherwise: the epoch in which its operation began.
  static constexpr std::uint64_t no_epoch = nothing_announced;

  template <class Peers, class Sink>
  SPOLIA_NOINLINE void scan(local& me, Peers peers, Sink sink) noexcept {
    limbo safe;
    // heavy → the domain's light fence in each operation. Either we see its reservation below, or
    // the operation sees the unlinking of all that waits here (D1).
    if (!SPOLIA_FAULT("rcu.no_heavy")) fence::heavy();
    take_and_cut(me, oldest(me, peers), safe);
    hand_over(safe, sink);
  }

  /// The lowest reservation of the others (D3).
  template <class Peers>
  static std::uint64_t oldest(const local& me, Peers peers) noexcept {
    std::uint64_t lowest = no_epoch;
    look_at_others(me, peers,
                   [&](std::uint64_t reserved) { lowest = (std::min)(lowest, reserved); });
    return lowest;
  }
};

static_assert(scheme<reservations>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
