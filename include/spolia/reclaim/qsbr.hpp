// SPDX-License-Identifier: Apache-2.0
// qsbr.hpp: quiescent-state-based reclamation: threads say how far they are when an operation
// ends, when they hold nothing.
//
// Source:      McKenney, Slingwine: Read-Copy Update, PDCS 1998; Hart, McKenney, Demke Brown,
//              Walpole: Performance of memory reclamation for lockless synchronization, JPDC
//              67(12), 2007.
// Idea:        at the end of each operation a thread reports the epoch. Blocks that were cut from
//              the list of waiting ones when epoch e ended have the tag e, and are free once every
//              thread has reported more than e: each has been between two operations since then.
// Protects:    region.
// Cost:        enter: one store; leave: a load of a shared word that changes once for `scan_at`
//              blocks of a thread, one store. No fence while all threads run. A scan reads one word
//              of each thread; it costs a membarrier, at most once in two scans, if a thread idles.
// Progress:    wait-free for operations and scans. A thread asleep inside a guard stops all freeing
//              of what is retired from then on.
// Bound:       none when a thread stalls inside a guard. Otherwise about 2 · scan_at blocks a
//              thread, if its operations are short against the time between two of its scans.
//
// Departures from the papers, so that threads may come, go, idle, block and be descheduled:
//   D1  A thread also says, in the lowest bit of its report, whether it is inside an operation. One
//       that has not reported for long, and is between two operations, is taken for offline without
//       its doing. For this the announcement has to be ordered before the operation's loads: by the
//       domain's light fence, against a heavy one of the thread that takes it for offline. A scan
//       does so only for blocks that the reports alone have not freed in a whole period between two
//       scans.
//   D2  A thread is online from its first operation on, with a report that frees nothing. It says
//       so after a heavy fence, against a light one in each look at the reports: a thread that
//       finds it offline still has unlinked its blocks so early that this one cannot find them.
//   D3  The epoch is advanced by scans; see tagged_epochs.hpp for tags.
//
// Why it is safe. Let a block have the tag e. A thread that has reported more than e read the epoch
// after the block was unlinked, and between two operations: its earlier operations are over, and
// its later ones cannot find the block. A thread found between two operations after a heavy fence
// has ended those that could find the block, and its next one sees the unlinking by that fence.
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

class qsbr : public detail::reclaim::tagged_epochs<qsbr> {
  friend tagged_epochs;

 public:
  static constexpr scheme_info info{
      .name = "qsbr",
      .title = "quiescent states",
      .source =
          "Hart, McKenney, Demke Brown, Walpole, JPDC 67(12), 2007, with departures for real life",
      .protects = protection::region,
      .robust = false,
      .cost = "a shared load and two plain stores an operation; no fence while all threads run",
      .progress = "wait-free; blocks wait for threads inside a guard",
      .bound = "none if a thread stalls inside a guard"};

  explicit qsbr(const options& o) noexcept : tagged_epochs(o) {}

  /// The thread comes online, with a report below every tag.
  template <class Peers>
  void join(local& me, std::uint32_t, Peers) noexcept {
    make_room(me);
    if (SPOLIA_FAULT("qsbr.offline_start")) return;
    // A release, as in exited(): for the thread that had this number before.
    announce(me, 0, SPOLIA_FAULT("qsbr.join_relaxed"));
    // heavy → the light fence in scan() (D2). Without it a scan could take us for offline while our
    // first operation follows what the scan frees.
    if (!SPOLIA_FAULT("qsbr.join_unfenced")) fence::heavy();
  }

  void enter(local& me) noexcept {
    // A release: a thread that sees us inside sees that our earlier operations are over. Ordered
    // before our loads by the domain's light fence, see scan().
    announce(me, me.announced.load_relaxed() | inside, SPOLIA_FAULT("qsbr.enter_relaxed"));
  }

  void leave(local& me) noexcept {
    // A release: our accesses happen before what we saw last is freed.
    announce(me, now() << 1U, SPOLIA_FAULT("qsbr.leave_relaxed"));
  }

  /// What no thread inside a guard can reach.
  template <class Peers, class Sink>
  void collect(local& me, Peers peers, Sink sink) noexcept {
    limbo safe;
    take_and_cut(me, inside_now(me, peers), safe);
    hand_over(safe, sink);
  }

  template <class Peers>
  void exited(local& me, Peers) noexcept {
    // A release: a thread that finds us offline sees our operations ended.
    announce(me, offline, SPOLIA_FAULT("qsbr.exit_relaxed"));
  }

 private:
  static constexpr const char* refusal = "qsbr: scan_at must be between 1 and 2^30";

  // A report: epoch << 1 | inside an operation; or `offline`.
  static constexpr std::uint64_t inside = 1;
  static constexpr std::uint64_t offline = nothing_announced;

  /// What the reports say: all are `all` at least; of the threads inside an operation, `inside`.
  struct reports {
    std::uint64_t all = offline;
    std::uint64_t inside = offline;
  };

  template <class Peers, class Sink>
  SPOLIA_NOINLINE void scan(local& me, Peers peers, Sink sink) noexcept {
    limbo safe;
    // light → the heavy fence in join() (D2).
    if (!SPOLIA_FAULT("qsbr.no_light")) fence::light();
    const reports seen = look(me, peers);
    take_and_cut(me, seen.all, safe);
    // Else not worth a fence: a thread inside holds them.
    if (me.bags.lags() && me.bags.oldest_tag() < seen.inside) {
      me.bags.take_below(inside_now(me, peers), safe);
    }
    hand_over(safe, sink);
  }

  /// What the threads inside an operation have reported: takes the others for offline (D1).
  template <class Peers>
  static std::uint64_t inside_now(const local& me, Peers peers) noexcept {
    // heavy → the domain's light fence in each operation. Either we see below that a thread is
    // inside, or its operation sees the unlinking of all that waits here.
    if (!SPOLIA_FAULT("qsbr.no_heavy")) fence::heavy();
    return look(me, peers).inside;
  }

  template <class Peers>
  static reports look(const local& me, Peers peers) noexcept {
    reports seen;
    look_at_others(me, peers, [&](std::uint64_t report) {
      seen.all = (std::min)(seen.all, report >> 1U);
      if ((report & inside) != 0) seen.inside = (std::min)(seen.inside, report >> 1U);
    });
    return seen;
  }
};

static_assert(scheme<qsbr>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
