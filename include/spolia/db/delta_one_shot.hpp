// SPDX-License-Identifier: Apache-2.0
// delta_one_shot.hpp: versions that are made together lie together, and go together: one-shot
// garbage collection.
//
// Source:      Raza, Chrysogelos, Anadiotis, Ailamaki: One-shot Garbage Collection for In-memory
//              OLTP through Temporality-aware Version Storage, SIGMOD 2023, sections 4 and 6.
// Idea:        the storage is a ring of partitions. Transactions register with the current one and
//              put their versions there, one after the other; after so many it is the next one's
//              turn. A partition knows how many are registered with it and the last time at which
//              one of its versions ended. When nobody is registered and the oldest snapshot is not
//              before that time, nobody needs any of its versions: its tag goes up by one, its
//              cursor back to the start. No version is looked at.
// Handles:     tagged pointers: 8 bits partition, 31 bits tag, 25 bits position in words.
// Cost:        a commit: two read-modify-writes to register and deregister and one to count, on the
//              current partition's line; one on its cursor in `slack` bytes. A drop: constant. Once
//              in `transactions` commits: a look at the census and at each partition of the ring.
// Progress:    registration retries when the current partition is just being dropped, and goes on
//              to another one. Nobody waits for a thread that stands still.
// Bound:       with no snapshot older than X and no commit under way that began before X: what the
//              transactions since X have written, and two partitions. While a snapshot is held, all
//              that was written since stays (consolidation is what would drop that).
//              A registered transaction that stands still pins one partition; the ring goes past
//              it.
// Why no reader meets a dropped version: delta.hpp says where readers go: to versions that ended
//   after their T. All versions of a partition ended at or before `last_commit`, which is complete
//   when nobody is registered, for who registers deregisters with its commit timestamp. A drop asks
//   that last_commit <= oldest <= T. Tags are not needed for that; they find mistakes (checked
//   flavour). So a tag may wrap round and come back.
//
// Departures from the paper (the printed Figure 6 is wrong where P is said):
//   D1  P: registration counts first and looks afterwards whether the partition is being dropped;
//       if it is, it takes its count back and goes elsewhere. The lock is taken off by subtraction.
//       (Printed: wait while locked, then count; and unlock by storing 0. A transaction that comes
//       in between is erased from the count, and its partition dropped under it.)
//   D2  P: the last one out sees 1, not 0.
//   D3  P: the largest timestamp is raised by compare-and-swap. (Two could lose the larger one.)
//   D4  The time kept is that of the last commit, known when a writer leaves, since versions end
//       when their transaction commits. (Theirs: the start timestamp, which is their commit's.)
//   D5  P: the oldest snapshot comes from the census, which announces before it draws. A partition
//       is dropped when the next one's turn begins, not only by the last one out, who mostly finds
//       it too young.
//   D6  A transaction is registered while it commits, not while it runs: its versions are made
//   then. D7  The ring grows by a partition when none is free, and a partition by a chunk when it
//   is full;
//       a drop keeps as many chunks as were used, and free partitions beyond two keep one.
//       (Printed: fixed numbers and sizes, and the end of the process when one is full.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/delta_partition.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_one_shot : public delta {
 public:
  struct options {
    std::uint32_t transactions = 1024;  ///< registered with one partition, then the next's turn
    std::uint64_t partition_bytes = 4 << 20;  ///< or when it holds so much
    std::uint32_t slack = 4096;               ///< bytes that a writer takes from the cursor at once
    std::uint32_t most_partitions = 256;      ///< from 2 to 256
    std::uint64_t budget = 0;                 ///< bytes; 0: no limit
  };

  /// Throws std::bad_alloc.
  delta_one_shot(commit_board& board, const options& o) : board_(board), options_(o) {
    // Nobody else knows this object yet.
    delta_partition* const first = add_partition();
    first->begin_turn(o.transactions, o.partition_bytes);
    current_.store_relaxed(first);
  }
  explicit delta_one_shot(commit_board& board) : delta_one_shot(board, options()) {}

  ~delta_one_shot() override {
    for (std::uint32_t i = 0; i < count_.load_relaxed(); ++i) delete ring_[i].load_relaxed();
  }

  bool reserve(std::uint32_t writer, std::span<ask> asks) override;
  void published(std::uint32_t writer, std::uint64_t commit) noexcept override;
  void cancel(std::uint32_t writer) noexcept override;
  void collect() noexcept override;
  [[nodiscard]] delta_stats stats() const noexcept override;

  [[nodiscard]] const version* find(std::uint64_t handle, std::uint64_t /*row*/,
                                    std::uint64_t time) const override {
    return walk(handle, time, [this](std::uint64_t h) { return at(h); });
  }

 protected:
  // What consolidation does otherwise (delta_consolidated.hpp).
  /// A version is about to be put into a partition; may throw std::bad_alloc.
  virtual void joins(const ask&, delta_partition&) {}
  /// Asks the census.
  virtual void look() noexcept;
  /// Drops a locked partition and unlocks it, or only unlocks it because somebody needs it.
  virtual bool drop_or_unlock(delta_partition& p) noexcept;
  [[nodiscard]] delta_partition& partition(std::uint32_t n) const noexcept {
    // acquire ← the release in add_partition(): we see it constructed.
    return *ring_[n].load_acquire();
  }
  std::uint64_t oldest() const noexcept {
    // acquire ← the release in look(): what readers did whose withdrawal was seen is over.
    return oldest_.load_acquire();
  }
  void dropped(std::uint64_t versions, std::uint64_t bytes) noexcept {
    drops_.fetch_add_relaxed(1);
    dropped_.fetch_add_relaxed(versions);
    bytes_.fetch_sub_relaxed(bytes);
  }
  [[nodiscard]] std::uint32_t partitions() const noexcept {
    return count_.load_acquire();  // ← the release in add_partition()
  }

  commit_board& board_;
  const options options_;

 private:
  struct alignas(cache_line) local {
    delta_partition* in = nullptr;     // registered with
    delta_partition* slack = nullptr;  // where next..end are ours
    std::uint64_t generation = 0;      // of that
    std::uint64_t next = 0;
    std::uint64_t end = 0;
    tally made;
  };

  const version* at(std::uint64_t handle) const noexcept {
    const delta_partition& p = partition(tagged::partition_of(handle));
    if (SPOLIA_CHECKS && tagged::tag_of(handle) != tagged::tag(p.generation())) {
      misuse::report("a version was dropped while a snapshot needed it", threads::number());
    }
    return reinterpret_cast<const version*>(p.address(tagged::position_of(handle)));
  }

  delta_partition& enter(local& me) noexcept;
  bool fill(local& me, std::span<ask> asks);
  bool take_slack(local& me, delta_partition& p, std::uint64_t need);
  void leave(local& me) noexcept;
  void pass_on(delta_partition& from) noexcept;
  delta_partition& choose(delta_partition& from) noexcept;
  delta_partition* add_partition();
  bool try_drop(delta_partition& p) noexcept;

  cells<local> locals_;
  std::array<atomic<delta_partition*>, tagged::partitions> ring_{};
  atomic<std::uint32_t> count_{0};
  alignas(cache_line) atomic<delta_partition*> current_{nullptr};
  alignas(cache_line) atomic<bool> passing_on_{false};
  atomic<std::uint64_t> oldest_{0};  // the oldest snapshot, as of the last look
  atomic<std::uint64_t> bytes_{0};   // of all chunks
  atomic<std::uint64_t> drops_{0};
  atomic<std::uint64_t> looks_{0};
  atomic<std::uint64_t> dropped_{0};
};

/// Registers with the current partition (register_txn).
inline delta_partition& delta_one_shot::enter(local& me) noexcept {
  for (;;) {
    // acquire ← the release in pass_on(): the partition is constructed.
    delta_partition& p = *current_.load_acquire();
    const admission got = p.admit();
    if (got == admission::closed) {
      pass_on(p);
      spin_wait();
      continue;
    }
    me.in = &p;
    if (p.turn_is_over()) pass_on(p);  // whoever is in stays in
    return p;
  }
}

/// Ends the registration (deregister_txn); the last one out of a partition that has had its turn
/// tries to drop it.
inline void delta_one_shot::leave(local& me) noexcept {
  delta_partition& p = *std::exchange(me.in, nullptr);
  if (p.dismiss() && &p != current_.load_relaxed()) try_drop(p);
}

inline bool delta_one_shot::reserve(std::uint32_t writer, std::span<ask> asks) {
  local& me = locals_.of(writer);
  if (asks.empty()) return true;
  bool poor = false;
  for (std::uint32_t tries = 0; tries <= options_.most_partitions; ++tries) {
    delta_partition& p = enter(me);
    try {
      if (fill(me, asks)) {
        p.count(asks.size());
        me.made.add(asks.size());
        return true;
      }
    } catch (...) {
      leave(me);
      throw;
    }
    leave(me);
    // Over the budget. Once more: this partition could not be dropped while we were in it.
    if (!p.full() && std::exchange(poor, true)) return false;
    pass_on(p);
  }
  return false;
}

inline bool delta_one_shot::fill(local& me, std::span<ask> asks) {
  delta_partition& p = *me.in;
  for (ask& a : asks) {
    const std::uint64_t need = version::bytes(a.words) / tagged::unit;
    const bool room = me.slack == &p && me.generation == p.generation() && me.end - me.next >= need;
    if (!room && !take_slack(me, p, need)) return false;
    joins(a, p);
    a.place = version::make(p.address(me.next), a.words);
    a.handle = tagged::pointer(p.number, p.generation(), me.next);
    me.next += need;
  }
  return true;
}

/// Takes the next part of the partition. False: it is full, or the budget is used up.
inline bool delta_one_shot::take_slack(local& me, delta_partition& p, std::uint64_t need) {
  const std::uint64_t want = std::max<std::uint64_t>(need, options_.slack / tagged::unit);
  for (;;) {
    const auto got = p.take(want, need);
    if (got.first == got.end) {
      if (p.full()) return false;
      continue;  // the rest of a chunk was too short
    }
    if (!p.has_chunk(got.first)) {
      const bool dear = options_.budget != 0 &&
                        bytes_.load_relaxed() + delta_partition::chunk_bytes > options_.budget;
      if (dear) {
        collect();
        if (bytes_.load_relaxed() + delta_partition::chunk_bytes > options_.budget) return false;
      }
      bytes_.fetch_add_relaxed(p.add_chunk(got.first));
    }
    me.slack = &p;
    me.generation = p.generation();
    me.next = got.first;
    me.end = got.end;
    return true;
  }
}

inline void delta_one_shot::published(std::uint32_t writer, std::uint64_t commit) noexcept {
  local& me = locals_.of(writer);
  if (me.in == nullptr) return;
  me.in->ended(commit);
  leave(me);
}

inline void delta_one_shot::cancel(std::uint32_t writer) noexcept {
  local& me = locals_.of(writer);
  if (me.in != nullptr) leave(me);
}

/// Gives the turn to another partition, unless somebody else has, or is at it.
inline void delta_one_shot::pass_on(delta_partition& from) noexcept {
  // acquire ← the release below: one at a time.
  if (passing_on_.load_relaxed() || passing_on_.exchange_acquire(true)) return;
  if (current_.load_relaxed() == &from) {
    look();
    delta_partition& next = choose(from);
    next.begin_turn(options_.transactions, options_.partition_bytes);
    // release → the acquires in enter().
    current_.store_release(&next);
  }
  // release → the acquire above.
  passing_on_.store_release(false);
}

/// Drops what can be dropped, and finds a free partition, or makes one, or takes the next one.
inline delta_partition& delta_one_shot::choose(delta_partition& from) noexcept {
  const std::uint32_t count = count_.load_relaxed();
  delta_partition* found = nullptr;
  std::uint32_t free = 0;
  for (std::uint32_t i = 1; i < count; ++i) {
    delta_partition& p = *ring_[(from.number + i) % count].load_relaxed();
    try_drop(p);
    if (!p.empty()) continue;
    if (found == nullptr) found = &p;
    if (++free > 2 && p.lock_if_empty()) {
      bytes_.fetch_sub_relaxed(p.shrink(1));
      p.unlock();
    }
  }
  if (found != nullptr) return *found;
  if (count < options_.most_partitions) {
    try {
      return *add_partition();
    } catch (const std::bad_alloc&) {
      // the next one, then
    }
  }
  return *ring_[(from.number + 1) % count].load_relaxed();
}

/// In the constructor, or by the one that passes on.
inline delta_partition* delta_one_shot::add_partition() {
  const std::uint32_t n = count_.load_relaxed();
  auto* const made = new delta_partition(n);
  // release → the acquire in at(): who has a handle into it sees it constructed.
  ring_[n].store_release(made);
  // release → the acquires of collect() and stats(): they see all of the ring.
  count_.store_release(n + 1);
  return made;
}

inline void delta_one_shot::look() noexcept {
  looks_.fetch_add_relaxed(1);
  // A value that oldest() gave stays true. release → the acquire in try_drop().
  oldest_.store_release(board_.living.oldest(board_.clock));
}

/// oneShotGC of Figure 6.
inline bool delta_one_shot::try_drop(delta_partition& p) noexcept {
  if (!p.lock_if_idle()) return false;
  if (&p != current_.load_relaxed()) return drop_or_unlock(p);
  p.unlock();
  return false;
}

inline bool delta_one_shot::drop_or_unlock(delta_partition& p) noexcept {
  if (p.last_commit() > oldest() && !SPOLIA_FAULT("one_shot.minimum_not_asked")) {
    p.unlock();
    return false;
  }
  const std::uint64_t versions = p.counted();
  dropped(versions, p.drop_and_unlock());
  return true;
}

inline void delta_one_shot::collect() noexcept {
  look();
  // acquire ← the release in add_partition().
  for (std::uint32_t i = 0; i < count_.load_acquire(); ++i) {
    delta_partition& p = *ring_[i].load_relaxed();
    if (&p == current_.load_relaxed() && !p.empty()) pass_on(p);
    try_drop(p);
    if (&p != current_.load_relaxed() && p.lock_if_empty()) {
      bytes_.fetch_sub_relaxed(p.shrink(0));
      p.unlock();
    }
  }
}

inline delta_stats delta_one_shot::stats() const noexcept {
  delta_stats sum;
  sum.versions_dropped = dropped_.load_relaxed();
  board_.for_each(locals_, [&](const local& l) { sum.versions_made += l.made.value(); });
  // acquire ← the release in add_partition().
  sum.partitions = count_.load_acquire();
  for (std::uint32_t i = 0; i < sum.partitions; ++i) {
    if (!ring_[i].load_relaxed()->empty()) ++sum.partitions_used;
  }
  sum.bytes = bytes_.load_relaxed();
  sum.drops = drops_.load_relaxed();
  sum.looks = looks_.load_relaxed();
  return sum;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
