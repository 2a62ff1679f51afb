// SPDX-License-Identifier: Apache-2.0
// graveyard.hpp: the entries of an index that only old snapshots see. Internal.
//
// Source:      Alhomssi and Leis: Scalable and Robust Snapshot Isolation for High-Performance
//              Storage Engines, VLDB 2023: the graveyard index.
// Idea:        an entry whose life is over, and that a held snapshot needs, is moved from its index
//              to here, with the time when it ended. Newer snapshots walk over the index alone,
//              however many entries are buried; older ones walk over both, in order.
// Why a walk misses nothing: an entry is put here before it is taken out of the index. A walk calls
//   matters() and looks here after it has read that part of the index. If it did not find the entry
//   there, the entry was taken out before. So matters() is true, and the entry is here: it is
//   removed only when no snapshot is left in its life.
// Memory:      buried_bytes() an entry (index.hpp); nothing before the first one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include <spolia/base/atomic.hpp>

#include "db/index/index.hpp"
#include "db/index/tree_keys.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A graveyard of entries with so many words. The index decides what they are; word `UntilAt` is
/// the time of the end.
template <std::uint32_t Words, std::uint32_t UntilAt, class Domain = domain<>>
class graveyard {
 public:
  using place = tree_key<Words>;

  explicit graveyard(Domain& nodes) noexcept : nodes_(nodes) {}
  ~graveyard() { delete places_.load_relaxed(); }
  graveyard(const graveyard&) = delete;
  graveyard& operator=(const graveyard&) = delete;

  /// Whether a snapshot of this time may see an entry here.
  // relaxed: the values were raised before an entry was taken out of its index; a walk that does
  // not find the entry there sees them.
  [[nodiscard]] bool matters(std::uint64_t time) const noexcept {
    return last_end_.load_relaxed() > time && count_.load_relaxed() != 0;
  }
  /// Buries an entry whose life began at `since`. Throws std::bad_alloc.
  void put(const place& p, std::uint64_t since) {
    const std::uint64_t until = p.words[UntilAt];
    count_.fetch_add_relaxed(1);
    std::uint64_t was = last_end_.load_relaxed();
    while (was < until && !last_end_.cas_weak_relaxed(was, until)) {
    }
    try {
      if (!places().insert(p, since)) count_.fetch_sub_relaxed(1);
    } catch (...) {
      count_.fetch_sub_relaxed(1);
      throw;
    }
  }
  /// Removes an entry. False: there was no memory.
  bool take(const place& p) noexcept {
    tree* const all = made();
    if (all == nullptr) return true;
    try {
      if (all->erase(p)) count_.fetch_sub_relaxed(1);
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept {
    const tree* const all = made();
    return all == nullptr ? 0 : all->bytes_approx();
  }

  /// Calls f(place) for those from `lo` on and before `hi` in whose life the time is, while f
  /// returns true.
  template <class F>
  void up(const place& lo, const place& hi, std::uint64_t time, F&& f) const {
    const tree* const all = made();
    if (all == nullptr) return;
    all->range(lo, hi, [&](const place& p, std::uint64_t since) {
      return p.words[UntilAt] <= time || time < since || f(p);
    });
  }
  /// The same in descending order.
  template <class F>
  void down(const place& lo, const place& hi, std::uint64_t time, F&& f) const {
    const tree* const all = made();
    if (all == nullptr) return;
    all->range_down(lo, hi, [&](const place& p, std::uint64_t since) {
      return p.words[UntilAt] <= time || time < since || f(p);
    });
  }

 private:
  using tree = tree_of<Words, std::uint64_t, Domain>;

  /// Null: nothing was ever buried here.
  [[nodiscard]] tree* made() const noexcept {
    return places_.load_acquire();  // ← the release in places()
  }
  tree& places() {
    if (tree* const all = made()) return *all;
    auto fresh = std::make_unique<tree>(nodes_);
    tree* there = nullptr;
    // release → the acquires in made() and here: the tree is constructed.
    return places_.cas_strong_acq_rel(there, fresh.get()) ? *fresh.release() : *there;
  }

  Domain& nodes_;
  atomic<tree*> places_{nullptr};  // with the time when the life began
  atomic<std::uint64_t> last_end_{0};
  atomic<std::uint64_t> count_{0};
};

/// secondary_index::bury(), for an index of that type and what it has for a graveyard.
template <class Index, class Dead>
burial bury_pair(Index& index, Dead& dead, const typename Dead::place& to, const key_words& key,
                 std::uint64_t slot, std::uint64_t claim, std::uint64_t since) noexcept {
  try {
    if (index.entry_of(key, slot).claim != claim) return burial::not_there;
    if (SPOLIA_FAULT("graveyard.removes_first")) static_cast<void>(index.remove(key, slot, claim));
    dead.put(to, since);
  } catch (const std::bad_alloc&) {
    return burial::no_memory;
  }
  static_cast<void>(index.remove(key, slot, claim));  // else unbury() does it
  return burial::done;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
