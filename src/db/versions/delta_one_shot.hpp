// SPDX-License-Identifier: Apache-2.0
// delta_one_shot.hpp: versions that are made together lie together, and go together: one-shot
// garbage collection.
//
// Source:      Raza, Chrysogelos, Anadiotis, Ailamaki: One-shot Garbage Collection for In-memory
//              OLTP through Temporality-aware Version Storage, SIGMOD 2023, sections 4 and 6.
// Idea:        the storage is a ring of partitions. Transactions register with a current one and
//              put their versions there, one after the other; after so many it is the next one's
//              turn (delta_turns.hpp). Each processor has its current one (delta_lanes.hpp).
//              A partition knows how many are registered with it and the last time at which one of
//              its versions ended. When nobody is registered and the oldest snapshot is not before
//              that time, nobody needs any of its versions: its tag goes up by one, its cursor back
//              to the start. No version is looked at.
// Handles:     tagged pointers: 8 bits partition, 31 bits tag, 25 bits position in words.
// Cost:        a commit: two read-modify-writes to register and deregister and one to count, on the
//              current partition's line; one on its cursor in `slack` bytes. A drop: constant. Once
//              in `transactions` commits, or `cache_bytes` of a stripe: a look at the census and at
//              each partition of the ring.
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
//       then.
//   D7  The ring grows by a partition when none is free, and a partition by a chunk when it is
//       full; a drop keeps what a turn takes, two free partitions all of that, as many as come
//       round in short turns a chunk or what such a turn takes, and others nothing. (Printed:
//       fixed numbers and sizes, and the end of the process when one is full.)
//   D8  A transaction may put its versions into several partitions: delta_lanes.hpp. (Without
//       consolidation there is one lane.)
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db/delta.hpp>

#include "db/versions/delta_chunks.hpp"
#include "db/versions/delta_lanes.hpp"
#include "db/versions/delta_partition.hpp"
#include "db/versions/delta_ring.hpp"
#include "db/versions/delta_turns.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_one_shot : public delta {
 public:
  struct options {
    std::uint32_t transactions = 1024;  ///< registered with one partition, then the next's turn
    std::uint64_t partition_bytes = 4 << 20;  ///< or when it holds so much
    std::uint64_t cache_bytes = 4 << 20;      ///< for what is in use together: delta_turns.hpp
    std::uint32_t stripes = 1;                ///< current partitions, to 8: delta_lanes.hpp
    std::uint32_t slack = 4096;               ///< bytes that a writer takes from the cursor at once
    std::uint32_t most_partitions = 256;      ///< from 2 to 256
    std::uint64_t budget = 0;  ///< bytes there are to be at most, by what reserve() is told
  };

  /// Throws std::bad_alloc.
  delta_one_shot(commit_board& board, const options& o) : delta_one_shot(board, o, 1) {}
  explicit delta_one_shot(commit_board& board) : delta_one_shot(board, options()) {}

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) override;
  void published(std::uint32_t writer, std::uint64_t commit) noexcept override {
    each_place(locals_.of(writer), [&](delta_place& at) {
      at.in->ended(commit);
      leave(at);
    });
  }
  void cancel(std::uint32_t writer) noexcept override {
    each_place(locals_.of(writer), [this](delta_place& at) { leave(at); });
  }
  void collect() noexcept override;
  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t /*row*/,
                                    std::uint64_t time,
                                    const taking_back* on_the_way) const override {
    return walk(chain, time, on_the_way, lengths_, [this](std::uint64_t h) { return at(h); });
  }

 protected:
  delta_one_shot(commit_board& board, const options& o, unsigned lanes)
      : board_(board),
        options_(o),
        lanes_(lanes, o.stripes),
        turns_(o.transactions, o.partition_bytes, o.cache_bytes, o.most_partitions, o.stripes) {
    // Nobody else knows this object yet.
    for (unsigned s = 0; s < o.stripes; ++s) {
      delta_partition* const first = ring_.add(memory_);
      turns_.next(*first, 0);
      first->home = s;
      lanes_.turn(0, first, s);
    }
  }

  // What consolidation does otherwise (delta_consolidated.hpp).
  /// A version is about to be put into a partition; may throw std::bad_alloc.
  virtual void joins(const ask&, delta_partition&) {}
  /// Asks the census.
  virtual void look() noexcept { looked(board_.living.oldest(board_.clock)); }
  /// After a look: gives held snapshots lanes, and takes them away. `turn`: a new one begins. By
  /// one at a time.
  virtual void arrange(bool /*turn*/) noexcept {}
  /// Whether nobody needs it, as of the last look, if nobody adds to it.
  [[nodiscard]] virtual bool can_go(const delta_partition& p) noexcept {
    return p.last_commit() <= oldest();
  }
  /// Drops a locked partition and unlocks it, or only unlocks it because somebody needs it.
  virtual bool drop_or_unlock(delta_partition& p) noexcept;
  /// A partition for a lane, one from this stripe if there is. Null: all are taken. By one at a
  /// time.
  delta_partition* choose(unsigned stripe) noexcept {
    std::uint32_t used = 0;
    return choose(stripe, used);
  }
  std::uint64_t oldest() const noexcept {
    // acquire ← the release in look(): what readers did whose withdrawal was seen is over.
    return oldest_.load_acquire();
  }
  void looked(std::uint64_t oldest) noexcept {
    looks_.fetch_add_relaxed(1);
    // What was the oldest stays true. release → the acquire in oldest().
    oldest_.store_release(oldest);
  }
  void dropped(std::uint64_t versions) noexcept {
    drops_.fetch_add_relaxed(1);
    dropped_.fetch_add_relaxed(versions);
  }
  [[nodiscard]] delta_stats figures() const noexcept override;

  commit_board& board_;
  const options options_;
  delta_chunks memory_;  // goes after the ring
  delta_ring ring_;
  delta_lanes lanes_;
  delta_turns turns_;

 private:
  struct alignas(cache_line) local {
    unsigned stripe = 0;
    std::array<delta_place, delta_lanes::most> places;
    tally made;
  };

  const version* at(std::uint64_t handle) const noexcept {
    const delta_partition& p = ring_.at(tagged::partition_of(handle));
    if (SPOLIA_CHECKS && tagged::tag_of(handle) != tagged::tag(p.generation())) {
      misuse::report("a version was dropped while a snapshot needed it", threads::number());
    }
    return reinterpret_cast<const version*>(p.address(tagged::position_of(handle)));
  }

  unsigned enter(local& me, unsigned lane) noexcept;
  unsigned fill(local& me, std::span<ask> asks, std::uint64_t most);
  bool take_slack(delta_place& at, std::uint64_t need, std::uint64_t most);
  template <class F>
  static void each_place(local& me, F&& f) {
    for (delta_place& at : me.places) {
      if (at.in != nullptr) f(at);
    }
  }
  /// Ends the registration (deregister_txn); the last one out of a partition that has had its turn
  /// tries to drop it.
  void leave(delta_place& at) noexcept {
    delta_partition& p = *std::exchange(at.in, nullptr);
    at.filled = 0;
    if (p.dismiss()) try_drop(p);
  }
  void pass_on(delta_partition& from, unsigned lane, unsigned stripe) noexcept;
  delta_partition& next_of(delta_partition& from, unsigned lane, unsigned stripe) noexcept;
  delta_partition* choose(unsigned stripe, std::uint32_t& used) noexcept;
  delta_partition* at_hand(unsigned stripe) noexcept;
  delta_partition* more() noexcept;
  /// oneShotGC of Figure 6.
  bool try_drop(delta_partition& p) noexcept {
    if (lanes_.has(p) || !p.lock_if_idle()) return false;
    if (!lanes_.has(p)) return drop_or_unlock(p);
    p.unlock();
    return false;
  }

  cells<local> locals_;
  alignas(cache_line) atomic<std::uint64_t> oldest_{0};  // the oldest snapshot, as of the last look
  atomic<std::uint64_t> drops_{0};
  atomic<std::uint64_t> looks_{0};
  atomic<std::uint64_t> dropped_{0};
};

/// Registers with the lane's current partition (register_txn), or, if it has none, with that of
/// lane 0; unless we are. Returns the lane.
inline unsigned delta_one_shot::enter(local& me, unsigned lane) noexcept {
  for (backoff dropped;;) {
    delta_place& at = me.places[lane];
    if (at.in != nullptr) return lane;
    delta_partition* const p = lanes_.current(lane, me.stripe);
    if (p == nullptr) {
      lane = 0;
      continue;
    }
    if (p->admit() == admission::closed) {
      pass_on(*p, lane, me.stripe);
      dropped.pause();
      continue;
    }
    at.in = p;
    if (p->turn_is_over()) pass_on(*p, lane, me.stripe);  // whoever is in stays in
    return lane;
  }
}

inline bool delta_one_shot::reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) {
  // Then what is left of the chunks is for those who may have more.
  if (memory_.over(most)) {
    collect();
    if (memory_.over(most)) return false;
  }
  local& me = locals_.of(writer);
  me.stripe = writer % options_.stripes;
  const auto leave_all = [&] { each_place(me, [this](delta_place& at) { leave(at); }); };
  bool poor = false;
  for (std::uint32_t tries = 0; tries <= options_.most_partitions; ++tries) {
    unsigned lane = 0;
    try {
      lane = fill(me, asks, most);
    } catch (...) {
      leave_all();
      throw;
    }
    if (lane == delta_lanes::most) {
      each_place(me, [](delta_place& at) { at.in->count(at.filled); });
      me.made.add(asks.size());
      return true;
    }
    delta_partition& p = *me.places[lane].in;
    leave_all();
    // Over the budget. Once more: this partition could not be dropped while we were in it.
    if (!p.full() && std::exchange(poor, true)) return false;
    pass_on(p, lane, me.stripe);
  }
  return false;
}

/// Returns the lane in which there was no room; delta_lanes::most: it is done.
inline unsigned delta_one_shot::fill(local& me, std::span<ask> asks, std::uint64_t most) {
  for (ask& a : asks) {
    const unsigned lane = enter(me, lanes_.lane_of(a.since));
    delta_place& at = me.places[lane];
    const std::uint64_t need = version::bytes(a.words) / tagged::unit;
    if (!at.has_room(need)) {
      if (!take_slack(at, need, most)) return lane;
      if (at.in->turn_ends_at(at.end)) pass_on(*at.in, lane, me.stripe);
    }
    joins(a, *at.in);
    at.put(a, need);
  }
  return delta_lanes::most;
}

/// Takes the next part of the partition. False: it is full, or there is no memory for more.
inline bool delta_one_shot::take_slack(delta_place& at, std::uint64_t need, std::uint64_t most) {
  delta_partition& p = *at.in;
  const std::uint64_t want = std::max<std::uint64_t>(need, options_.slack / tagged::unit);
  for (;;) {
    const auto got = p.take(want, need);
    if (got.first == got.end) {
      if (p.full()) return false;
      continue;  // the rest of a chunk was too short
    }
    if (!p.has_chunk(got.first)) {
      if (memory_.too_dear(most)) {
        collect();
        if (memory_.too_dear(most)) return false;
      }
      p.add_chunk(got.first);
    }
    at.got(got);
    return true;
  }
}

inline bool delta_one_shot::drop_or_unlock(delta_partition& p) noexcept {
  if (p.last_commit() > oldest() && !SPOLIA_FAULT("one_shot.minimum_not_asked")) {
    p.unlock();
    return false;
  }
  const std::uint64_t versions = p.counted();
  p.drop_and_unlock(delta_partition::chunks_for(options_.partition_bytes));
  dropped(versions);
  return true;
}

inline void delta_one_shot::collect() noexcept {
  look();
  if (turns_.begin()) {
    arrange(false);
    turns_.end();
  }
  for (std::uint32_t i = 0; i < ring_.count(); ++i) {
    delta_partition& p = ring_.at(i);
    // Else who collects in vain, again and again, would leave a chunk behind each time.
    // And where nothing has ended yet, the next one's turn would keep its memory from the caller.
    const bool worth = (p.last_commit() != 0 && can_go(p)) || p.used_bytes() >= delta_chunks::bytes;
    const unsigned stripe = lanes_.stripe_of(p);
    if (stripe < options_.stripes && !p.empty() && worth) pass_on(p, 0, stripe);
    try_drop(p);
    if (!lanes_.has(p) && p.lock_if_empty()) {
      p.shrink(0);
      p.unlock();
    }
  }
  memory_.trim();
}

inline delta_stats delta_one_shot::figures() const noexcept {
  delta_stats sum;
  sum.versions_dropped = dropped_.load_relaxed();
  board_.for_each(locals_, [&](const local& l) { sum.versions_made += l.made.value(); });
  sum.partitions = ring_.count();
  for (std::uint32_t i = 0; i < sum.partitions; ++i) {
    if (!ring_.at(i).empty()) ++sum.partitions_used;
  }
  sum.bytes = memory_.held();
  sum.drops = drops_.load_relaxed();
  sum.looks = looks_.load_relaxed();
  return sum;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR

#include "db/versions/delta_passing.hpp"
