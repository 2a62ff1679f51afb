// SPDX-License-Identifier: Apache-2.0
// owner.hpp: nodes with versioned fields, that leave their structure before the collector closes.
//
// A node of a tree, or a table that a larger one has replaced, holds version lists. It leaves the
// structure when a version that names it ends (its parent's field gets another value). From then on
// it may still be reached in two ways: by snapshots, from that older version; and by collectors,
// which hold ended versions of its fields and need their neighbours to unlink them.
//
// Idea:  the node is tracked as a version is, with its own range [since, until): a snapshot that
//        reaches it has a time in there. And it counts: one for itself until that range is needed
//        no more, one for each change of its fields that is under way, and one for each ended
//        version of its fields that a collector holds. The last one retires it, with what is left
//        of its lists.
// Cost:  two read-modify-writes on the owner for each change of its fields. (An owner with many
//        fields can spread them: give the versions of each part an owner of their own, without
//        fields, whose retire_by() drops a hold on the whole.)
//
// The life of an owner (`c` a collector, `here` a prepared session)
//   made       since = c.time().earliest(), before whatever names it is appended. Its fields'
//              first versions get the same
//   changed    hold(), false: it has been retired already, start over. Then try_append. On success
//              c.ended(here, list, old, fresh), which takes the hold over for `old`; else
//              c.let_go(here, owner)
//   died       a version after the one that named it was appended, and stamped `until`; no thread
//              can change its fields any more; and what was appended there has its stamp.
//              c.died(here, owner, until), once
//   expired    no snapshot has a time in its range: its own hold goes
//   retired    the last hold goes, by retire_by(guard)
//
// Why no thread reaches a retired owner.
//   1. A snapshot at time t comes to it by a version that names it, and that a snapshot at t sees,
//      so that since <= t < until. Its own hold goes when no snapshot, alive or to come, has such a
//      time. (A dead node's fields may go on naming a node that was freed: a snapshot that reaches
//      the dead one stops at a version from before its own time, which names a node that was there
//      at its time.)
//   2. An operation on the present comes to it by the newest versions, from the root, under a
//      guard. Each node on its way was in the structure at some moment under that guard: if it was
//      there when its parent's field was read, at that moment; otherwise its parent had died under
//      this guard, and its fields stand still, so that it was there when the parent died. It died
//      later, is retired later still, and the guard keeps it.
//   3. A collector that unlinks a version of its fields has that version from the tracker or has
//      just ended it, and the version's hold is still there.
// Why its lists can be given up with it. At the last hold no thread changes them, and none is
//   unlinking anything in them: all that do have a hold. What is linked then is retired with it.
//   What was unlinked was retired by the thread that unlinked it. So each version is retired once.
//   Readers that came under older guards find the lists as they are: nothing in them is touched.
// Why the last hold comes. A version that ended in an owner's field is needed by no snapshot that
//   does not need the owner: its range lies in the owner's (but for the uncertainty of hardware
//   clocks). So when the owner is obsolete, so are they, and the tracker finds them in time.
//
// A hold is counted before the append and not after it. The thread that has appended may be slow,
// the owner may die and expire meanwhile, and then would have to come back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/version/detail/any_version.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

namespace detail::version {
/// What makes whole cache lines of a block with so many bytes beyond the last one.
template <std::size_t Beyond>
struct filler {};
template <std::size_t Beyond>
  requires(Beyond >= 48)
struct filler<Beyond> {
  std::array<std::byte, 64 - Beyond> unused;
};
}  // namespace detail::version

/// A concrete owner offers retire_by(guard) and destroy_in(nodes), which give up the versions in
/// its fields, too, and ended_left(), if it has fields (owned_field.hpp).
template <class Domain>
class list_owner : public detail::version::any_version<Domain> {
 public:
  [[nodiscard]] list_owner* owner() noexcept final { return this; }

  /// How many ended versions are linked in its fields, at the last hold; for figures.
  [[nodiscard]] virtual std::uint64_t ended_left() const noexcept { return 0; }

  /// Before a change of one of its fields; false: it has been retired, and so the change would
  /// fail. A guard from before the owner was reached must be alive.
  [[nodiscard]] bool hold() noexcept {
    if (SPOLIA_FAULT("owner.uncounted")) return true;
    std::uint64_t now = holds_.load_relaxed();
    // Not from 0: the thread that took the last one is retiring the owner; that is done once.
    while (now != 0 || SPOLIA_FAULT("owner.held_again")) {
      // relaxed: that the owner is not retired meanwhile is a matter of this count alone.
      if (holds_.cas_weak_relaxed(now, now + 1)) return true;
    }
    return false;
  }

  /// True: that was the last one, and the caller retires the owner. For collectors.
  [[nodiscard]] bool drop(std::uint64_t holds = 1) noexcept {
    if (SPOLIA_FAULT("owner.relaxed_drop")) return holds_.fetch_sub_relaxed(holds) == holds;
    // release → acquire: what each of them has unlinked is seen by the last, which walks the lists.
    return holds_.fetch_sub_acq_rel(holds) == holds;
  }

 protected:
  /// `born`: not above the stamp of the version that will publish it.
  explicit list_owner(std::uint64_t born) noexcept { this->since.store_relaxed(born); }
  ~list_owner() = default;

 private:
  // The first word of a cache line, if the rest takes nearly one, as with usual domains: a thread
  // that changes a field writes the count, too, and an owner can put its fields in the same line.
  [[no_unique_address]] detail::version::filler<sizeof(detail::version::any_version<Domain>) % 64>
      unused_;
  atomic<std::uint64_t> holds_{1};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
