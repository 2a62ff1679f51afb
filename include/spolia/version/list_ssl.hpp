// SPDX-License-Identifier: Apache-2.0
// list_ssl.hpp: SSL, the singly linked version list: compact() cuts out all versions that no
// snapshot needs, in one walk.
//
// Source:      Wei et al.: Practically and Theoretically Efficient Garbage Collection for
//              Multiversioning, PPoPP 2023, section 5 and algorithm 3.
// Idea:        the list and the announced times are both sorted; one walk down both finds the runs
//              that no snapshot needs, and a compare-and-swap cuts each run off.
// Cost:        try_append: O(1). find: the versions newer than the one wanted. compact: O(L log S)
//              with L versions in the list and S announced times; where it ends early, L are those
//              that are newer, and those that it cuts off.
// Progress:    all wait-free: a walk goes to older versions only.
// Bound:       when compact(h, scan) has returned, of the versions appended before h those are
//              linked that scan needs, and no others. With L versions appended, R found not to be
//              needed by a compaction that has returned, and P compactions under way: L - R + P.
// Memory:      two words a version: left, and the list with a flag in it.
// Needs:       a guard of region protection around each call, as in list_pdl.hpp; and scans that
//              agree: scan_board.hpp, whose compact() is how lists are compacted.
//
// A compaction that ends early is one that is interrupted there and never goes on: what is said
// above of one that has returned holds for the versions that it has passed.
//
// A scan needs a version if its stamp is above `known`; or if it is the newest with a stamp not
// above `known`, or not above one of the announced times.
//
// Precondition of compact. Scans follow each other: what an earlier scan does not need, of versions
// that ended at or before its `known`, no later scan needs. And h was the head when the scan was
// still the latest one. scan_board.hpp sees to both.
//
// Why no retired version is reached. A compaction cuts p.left from a to b; b is needed by its scan.
//   1. Two compactions with the same scan agree about which versions are needed, so what one cuts
//      off the other never links to: it links to needed versions only.
//   2. An earlier scan E and a later one T. T may cut off a b that E needs. Could E then still link
//      some p to b? Its compare-and-swap wants to find p.left = a, where the walk from a led to b.
//      T's compaction reached b over a version that it kept, q, and made q.left skip b. If q is p
//      or left of a, the compare-and-swap fails or the walk did not lead to b. Left over is a q
//      between p and b, that E cuts off: T stood on a version that E does not need. It stands on
//      versions that T needs, which E needs as well; and on its h. But h was the head when T was
//      the latest scan already, so a compaction that uses E has read its own head before, and that
//      is not newer than h: E does not come to cut h off.
//   3. So each version is cut off for good, by one compare-and-swap or by a few that stand on
//      versions which were themselves cut off. All of them tell `cut`, and the flag lets one win.
//      The winner may retire the version: it is out of reach for every thread that comes later, and
//      one that is there already has a guard.
//
// Departures from the paper:
//   D1  No sentinel at the old end; the oldest needed version links to null.
//   D2  The versions cut off are handed to the caller, each exactly once: in Java that need not be
//       known.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/version/detail/chain.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

#pragma GCC diagnostic push
// Bases may have virtual functions; a domain ends each node by the type that it was made with.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
template <class Base>
struct ssl_node : Base {
  using Base::Base;
  atomic<ssl_node*> left{this};
  /// The address of its list, which stays (0: it was not placed), and whether it was cut off.
  atomic<std::uintptr_t> in{0};
};
#pragma GCC diagnostic pop

template <class Base>
class ssl_list : public detail::version::version_chain<ssl_node<Base>> {
 public:
  using node = ssl_node<Base>;

  ssl_list() noexcept = default;
  explicit ssl_list(node* first) noexcept : detail::version::version_chain<node>(first) {}

  /// For compact(), if nothing is to be done for what is cut off but to flag it, and others see to
  /// what is older than every announced time: that stays linked, and may be gone.
  struct flagged_only {
    void operator()(node*) const noexcept {}
  };

  bool try_append(node* x, node* y) noexcept { return this->advance(x, y); }

  /// The version, which no other thread knows yet, will be in this list or nowhere: list_of() says
  /// so.
  void place(node& x) noexcept {
    // relaxed: published with the version.
    x.in.store_relaxed(reinterpret_cast<std::uintptr_t>(this));
  }
  static ssl_list& list_of(const node& x) noexcept {
    // relaxed: every thread that stores here stores the same address.
    return *reinterpret_cast<ssl_list*>(x.in.load_relaxed() & ~cut_off);
  }

  /// Has the version been cut off, for good?
  static bool is_unlinked(const node* x) noexcept {
    // acquire ← the releases in flag() and claim(): the cutting happens before the retirement.
    return (x->in.load_acquire() & cut_off) != 0;
  }

  /// Cuts off what `scan` does not need, from h (a head with its stamp set) to the old end. Calls
  /// cut(version) for each version cut off by this call or by one that lost against it. Returns how
  /// many versions it has come to. It may end early: past what has a stamp of `down_to` or more;
  /// or, if a compaction by this scan has come to the end before, at what that one has left.
  template <class Cut>
  static std::uint64_t compact(node* h, const scan_times& scan, Cut&& cut,
                               std::uint64_t down_to = 0, bool again = false) {
    std::uint64_t passed = 1;
    // The first version that a scan up to `known` may not need is left of this one.
    node* cur = detail::version::version_chain<node>::find(h, scan.known, [&] { ++passed; });
    time_cursor times(scan);
    while (cur != nullptr && stamp_of(cur) >= down_to) {
      const bool any_older = times.pass(stamp_of(cur));
      if constexpr (std::same_as<std::remove_reference_t<Cut>, const flagged_only>) {
        if (!any_older && !SPOLIA_FAULT("ssl.walks_on")) break;
      }
      node* const next = left_of(cur);
      if (next == nullptr) break;
      ++passed;
      if (times.any_from(stamp_of(next))) {
        if (again) break;
        cur = next;
        continue;
      }
      node* needed = left_of(next);
      while (needed != nullptr && !times.any_from(stamp_of(needed))) {
        needed = left_of(needed);
        ++passed;
      }
      splice(cur, next, needed, cut);
      if (again) break;
      cur = left_of(cur);
    }
    return passed;
  }

 private:
  static constexpr std::uintptr_t cut_off = 1;  // of ssl_node::in
  static_assert(alignof(atomic<node*>) > cut_off);

  static node* left_of(const node* n) noexcept {
    // acquire ← the releases in advance() and splice(): we look into what it names.
    return n->left.load_acquire();
  }

  /// Makes cur.left skip what lies between it and `needed`, unless others have or do better.
  template <class Cut>
  static void splice(node* cur, node* next, node* needed, Cut& cut) {
    for (;;) {
      node* seen = next;
      // release → the acquires of left pointers. The versions skipped remain as they are, for
      // threads that stand on them.
      if (cur->left.cas_strong_acq_rel(seen, needed)) break;
      next = seen;
      if (next == nullptr || (needed != nullptr && stamp_of(next) <= stamp_of(needed))) return;
    }
    node* x = next;
    while (x != nullptr && x != needed && (needed == nullptr || stamp_of(x) > stamp_of(needed))) {
      node* const older = left_of(x);
      if constexpr (std::same_as<Cut, const flagged_only>) {
        flag(x);
      } else if (claim(x)) {
        cut(x);
      }
      x = older;
    }
  }

  /// With the flag. relaxed: all else in that word was there when the version was published.
  static std::uintptr_t flagged(const node* x) noexcept { return x->in.load_relaxed() | cut_off; }
  static void flag(node* x) noexcept {
    if (SPOLIA_FAULT("ssl.flagged_relaxed")) return x->in.store_relaxed(flagged(x));
    // release → is_unlinked(). A thread that comes second says the same, and has cut it off as
    // well.
    x->in.store_release(flagged(x));
  }
  static bool claim(node* x) noexcept {
    // acq_rel: release → is_unlinked(); one caller finds no flag and has won.
    return (x->in.exchange_acq_rel(flagged(x)) & cut_off) == 0;
  }

  /// relaxed: stamps are set before the version is passed, see chain.hpp.
  static std::uint64_t stamp_of(const node* n) noexcept { return n->since.load_relaxed(); }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
