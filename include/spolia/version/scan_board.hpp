// SPDX-License-Identifier: Apache-2.0
// scan_board.hpp: the latest scan of the census, shared by all threads that compact lists, so that
// they agree about what is needed.
//
// Source:      Wei et al., PPoPP 2023, section 5 and algorithm 3 (scanAnnounce, GlobalAnnScan).
// Idea:        scans are installed one after the other by compare-and-swap, and a thread that fails
//              twice uses what others have installed meanwhile. So the times at which scans look do
//              not overlap, and each knows the one before.
// Cost:        latest(): a load. renew(): one or two scans of the census, and a walk over what the
//              last one has found. compact(): see list_ssl.hpp.
// Progress:    wait-free, but for pairing head and scan, which is lock-free: it is tried again when
//              a scan was installed meanwhile.
// Memory:      one scan; replaced ones are retired to the domain.
// Errors:      running out of memory leaves the older scan in force, which is sound forever.
//
// Each scan follows the one before: it promises no less (`known` does not fall), and of what the
// earlier one has not listed below its `known` it lists nothing either. A slot of the census may
// show for a moment a time that was read and never confirmed: the earlier scan did not find it, the
// later one does, and a version between would be needed again after it was cut off and freed. Such
// a time protects no snapshot, since every snapshot below `known` is in the earlier list. (The
// paper's pseudocode does not have this filter; without it a retired version can come back.)
// So what an earlier scan has found to be needed, and what has not ended before all snapshots, can
// go only on account of a snapshot that has ended since: `ended` says how far back that reaches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Domain>
class scan_board {
 public:
  struct scan : Domain::header, scan_times {
    std::uint64_t number = 1;  ///< of one after the other
  };
  using guard = typename Domain::guard;

  /// Throws std::bad_alloc.
  explicit scan_board(Domain& d) : domain_(d), latest_(d.template make<scan>()) {}
  ~scan_board() { close(); }
  scan_board(const scan_board&) = delete;
  scan_board& operator=(const scan_board&) = delete;

  /// No thread uses the board any more: gives its scan back. Nothing else may be called then.
  void close() noexcept { domain_.destroy(latest_.exchange_relaxed(nullptr)); }

  /// The scan in force; it stays while the caller's guard lives.
  ///
  /// seq_cst ↔ the heads of lists, see compact(). Also an acquire ← the installation in renew().
  [[nodiscard]] const scan* latest() const noexcept { return latest_.load_seq_cst(); }

  /// Puts a scan in force that looked after this call began; or leaves what is there, if there is
  /// no memory. `look(times)` scans the census and may throw std::bad_alloc. A guard must be alive.
  template <class Look>
  void renew(guard& g, Look&& look) noexcept {
    scan* fresh = nullptr;
    try {
      fresh = domain_.template make<scan>();
      for (int tries = 0; tries < 2; ++tries) {
        scan* before = latest_.load_seq_cst();  // as in latest()
        look(static_cast<scan_times&>(*fresh));
        follow(*before, *fresh);
        fresh->number = before->number + 1;
        // seq_cst ↔ latest() and the heads of lists, see compact(). Release: the scan is whole.
        if (latest_.cas_strong_seq_cst(before, fresh)) return g.retire(before);
      }
      // The thread that made us fail the second time began to look after our first failure.
    } catch (const std::bad_alloc&) {  // then with the older one
    }
    domain_.destroy(fresh);
  }

  /// Compacts a list with the scan in force. `settle(head)` sees to it that the head's stamp is
  /// set; `cut`, `down_to` and what is returned as in list_ssl.hpp. A guard must be alive.
  template <class List, class Settle, class Cut>
  std::uint64_t compact(const List& list, Settle&& settle, Cut&& cut, std::uint64_t down_to = 0) {
    const auto [s, h] = scan_and_head(list);
    settle(h);
    return List::compact(h, *s, cut, down_to);
  }

  /// The same for a list in which the version that began at `since` has ended a moment ago, and
  /// whose `compacted_by` says by which scan it was last compacted to its end. What that one has
  /// left is needed by the scan still, so another compaction by it comes to what has ended
  /// since, and no further.
  template <class List, class Settle, class Cut>
  std::uint64_t compact_further(List& list, std::uint64_t since, Settle&& settle, Cut&& cut) {
    const auto [s, h] = scan_and_head(list);
    // relaxed: it says how far to walk, and guards nothing. Where two threads note one after the
    // other, the older number brings one more walk on.
    const bool again = list.compacted_by.load_relaxed() >= s->number;
    if (again && since > s->known) return 0;  // so all that ended since is needed
    settle(h);
    const std::uint64_t passed = List::compact(h, *s, cut, 0, again);
    if (!again) list.compacted_by.store_relaxed(s->number);
    return passed;
  }

 private:
  template <class List>
  auto scan_and_head(const List& list) const noexcept {
    const scan* s = latest();
    auto* h = list.head();
    // The head must have been read while s was in force. All four accesses are seq_cst: if a newer
    // scan is in force and its user has read an older head than ours, we see the newer scan here.
    for (const scan* again = latest(); again != s && !SPOLIA_FAULT("board.head_by_itself");
         again = latest()) {
      s = again;
      h = list.head();
    }
    return std::pair(s, h);
  }

  static void follow(const scan_times& before, scan_times& fresh) noexcept {
    fresh.known = (std::max)(fresh.known, before.known);
    auto earlier = before.times.begin();
    std::erase_if(fresh.times, [&](std::uint64_t t) {  // both ascend
      if (t >= fresh.known) return true;  // the newest version up to `known` stays anyway
      if (t >= before.known || SPOLIA_FAULT("board.no_filter")) return false;
      while (earlier != before.times.end() && *earlier < t) ++earlier;
      return earlier == before.times.end() || *earlier != t;
    });
    fresh.ended = before.ended;
    const std::uint64_t oldest = fresh.least();
    auto living = fresh.times.rbegin();
    for (auto t = before.times.rbegin(); t != before.times.rend() && *t > oldest; ++t) {
      while (living != fresh.times.rend() && *living > *t) ++living;
      const bool lives = living != fresh.times.rend() && *living == *t;
      if (!lives) fresh.ended.note(fresh.known, *t);
    }
  }

  Domain& domain_;
  atomic<scan*> latest_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
