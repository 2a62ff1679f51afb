// SPDX-License-Identifier: Apache-2.0
// delta_one_shot.hpp: one-shot garbage collection: versions that are made together are stored
// together, in a partition, and dropped together.
//
// Source:      Raza, Chrysogelos, Anadiotis, Ailamaki: One-shot Garbage Collection for In-memory
//              OLTP through Temporality-aware Version Storage, SIGMOD 2023, sections 4 and 6.
// Idea:        the storage is a ring of partitions. Transactions register with a current partition
//              and put their versions there, one after the other. After so many transactions its
//              allocation period ends, and another partition becomes current. (The code calls the
//              period a turn. delta_one_shot_tuning.hpp says how long it is, and why there is more
//              than one current partition.)
//              A partition knows how many transactions are registered with it, and the last time at
//              which one of its versions ended. When none is registered and the oldest snapshot is
//              not before that time, no snapshot needs any of its versions: its tag goes up by one,
//              and its cursor back to the start. No version is looked at.
// Handles:     tagged pointers: 8 bits partition, 31 bits tag, 25 bits position in words.
// Cost:        a commit: two read-modify-writes to register and deregister and one to count, on the
//              current partition's line; one on its cursor in `slack` bytes. A drop: constant. Once
//              in `transactions` commits, or `cache_bytes` of a stripe: a look at the census and at
//              each partition of the ring.
// Progress:    registration retries when the current partition is just being dropped, and goes on
//              to another one. No thread waits for a stalled one.
// Bound:       with no snapshot older than X and no commit under way that began before X: the
//              versions that the transactions since X have written, and two partitions. While a
//              snapshot is held, all versions that were written since stay (consolidation would
//              drop them). A registered transaction that stalls pins one partition; the ring goes
//              past it.
// Why no reader meets a dropped version: a reader goes only to versions that ended after its T
//   (delta.hpp). All versions of a partition ended at or before `last_commit`. That is complete
//   when no transaction is registered, for each deregisters with its commit timestamp. A partition
//   is dropped only if last_commit <= oldest <= T. Tags are not needed for that; they find mistakes
//   (checked build variant). So a tag may wrap round and come back.
//
// The paper's names, in its order:
//   delta partition, circular buffer   delta_partition, delta_ring
//   n_active_txn, max_active_txn       its gate_, its last_commit_ (D4)
//   min_version_ts, tag, cursor        its first_began_, generation_, cursor_
//   tagged pointer                     tagged
//   incremental assignment, M          pass_on(), options::transactions
//   register_txn                       enter(): delta_partition::admit() and, later, ended()
//   deregister_txn                     leave(): dismiss()
//   version chain traversal            find()
//   allocation, record update          reserve(), fill(), take_slack(): delta_partition::take()
//   oneShotGC                          try_drop(): lock_if_idle(), drop_or_unlock()
//   global_minActiveTxn                look() asks the census, oldest() is what it said
//   chain consolidation                delta_consolidated.hpp, by the virtual functions
//
// Departures from the paper (the printed Figure 6 is wrong where P is said):
//   D1  P: registration counts first, and then checks whether the partition is being dropped; if it
//       is, the transaction takes its count back and registers elsewhere. The lock is released by
//       subtraction. (Printed: wait while locked, then count; and unlock by storing 0. A
//       transaction that comes in between is erased from the count, and its partition dropped under
//       it.)
//   D2  P: the last transaction that deregisters sees 1, not 0.
//   D3  P: the largest timestamp is raised by compare-and-swap. (With plain stores, two threads
//       could lose the larger one.)
//   D4  The time that is noted is that of the last commit, known when a writer deregisters, since
//       versions end when their transaction commits. (The paper's: the start timestamp, which is
//       also that of the commit there.)
//   D5  P: the oldest snapshot comes from the census, which announces before it draws. A partition
//       is also dropped when another one's period begins, not only by the last transaction that
//       deregisters, which mostly finds it too young.
//   D6  A transaction is registered while it commits, not while it runs: its versions are made
//       then.
//   D7  The ring grows by a partition when none is free, and a partition by a chunk when it is
//       full. A drop keeps the memory that one period takes. Two free partitions keep all of that;
//       as many as come round in short periods keep a chunk, or what such a period takes; others
//       keep nothing. (Printed: fixed numbers and sizes, and the process ends when one is full.)
//   D8  A transaction may put its versions into several partitions: delta_lanes. (Without
//       consolidation there is one allocation stream.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/version_storage.hpp>

#include "db/versions/delta_chunks.hpp"
#include "db/versions/delta_one_shot_tuning.hpp"
#include "db/versions/delta_partition.hpp"
#include "db/versions/delta_walk.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The storage: transactions register with a partition, put their versions there, and deregister. A
/// partition is dropped when no snapshot needs it.
class delta_one_shot : public delta {
  auto by_handle() const noexcept {
    return [this](std::uint64_t handle) { return at(handle); };
  }

 public:
  static constexpr version_storage_info info{.storage = version_storage::one_shot,
                                             .name = "one_shot"};

  struct options {
    std::uint32_t transactions = 1024;        ///< after so many registrations, the period ends
    std::uint64_t partition_bytes = 4 << 20;  ///< or when the partition has so many bytes
    std::uint64_t cache_bytes = 4 << 20;      ///< for partitions in use together: delta_turns
    std::uint32_t stripes = 1;                ///< current partitions, from 1 to 8: delta_lanes
    std::uint32_t slack = 4096;  ///< about how many bytes a writer takes from the cursor at once
    std::uint32_t most_partitions = 256;  ///< from 2 to 256
    std::uint64_t budget = 0;             ///< the bytes that callers of reserve() allow at most
  };

  /// Throws std::bad_alloc.
  delta_one_shot(commit_board& board, const options& o) : delta_one_shot(board, o, 1) {}
  explicit delta_one_shot(commit_board& board) : delta_one_shot(board, options()) {}

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) override;
  void published(std::uint32_t writer, std::uint64_t commit) noexcept override {
    each_place(locals_.of(writer), [&](delta_place& at) {
      at.in->ended(commit);
      at.versions_ended(commit);
      leave(at);
    });
  }
  void cancel(std::uint32_t writer) noexcept override { leave_all(locals_.of(writer)); }
  void step() noexcept override { memory_.release_some(); }
  void collect() noexcept override {
    gather(0);
    memory_.trim();
  }
  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t /*row*/,
                                    std::uint64_t time,
                                    const taking_back* on_the_way) const override {
    return walk(chain, time, on_the_way, lengths_, by_handle());
  }
  void visit(std::span<const old_row> rows, std::uint64_t time, const taking_back* on_the_way,
             version_taker& take) const override {
    if (rows.size() == 1) return delta::visit(rows, time, on_the_way, take);
    visit_together(rows, time, lengths_, by_handle(), take);
  }
  void fetch(std::span<const old_row> rows, std::uint64_t time) const override {
    fetch_together(rows, time, by_handle());
  }

 protected:
  /// `walked`: partitions are to be walked over.
  delta_one_shot(commit_board& board, const options& o, unsigned lanes, bool walked = false)
      : board_(board),
        options_(o),
        walked_(walked),
        lanes_(lanes, o.stripes),
        turns_(o.transactions, o.partition_bytes, o.cache_bytes, o.most_partitions, o.stripes) {
    // No other thread knows this object yet.
    for (unsigned s = 0; s < o.stripes; ++s) {
      delta_partition* const first = ring_.add(memory_);
      first->begin_turn(turns_.next(0));
      first->home = s;
      lanes_.turn(0, first, s);
    }
  }

  // Functions that derived storages override.
  /// Drops all partitions that can be dropped, or, if `most` is not 0, as many as it takes until
  /// there is room within `most` bytes. Keeps their memory for new versions.
  virtual void gather(std::uint64_t most) noexcept;
  /// A version is about to be put into a partition; may throw std::bad_alloc.
  virtual void joins(const ask&, delta_partition&) {}
  /// Asks the census.
  virtual void look() noexcept { looked(board_.living.oldest(board_.clock)); }
  /// After a look: gives held snapshots allocation streams, and takes away those of ended ones.
  /// `turn`: a new period begins. By one thread at a time.
  virtual void arrange(bool /*turn*/) noexcept {}
  /// Whether no snapshot needs the partition, as of the last look, if no transaction adds to it.
  [[nodiscard]] virtual bool can_go(const delta_partition& p) noexcept {
    return p.last_commit() <= oldest();
  }
  /// Drops a locked partition and unlocks it, or only unlocks it because a snapshot needs it.
  virtual bool drop_or_unlock(delta_partition& p) noexcept;
  /// Goes on with a partition of which pieces were dropped. True: now all of it is.
  virtual bool drop_rest(delta_partition&) noexcept { return false; }
  /// Tries to drop all partitions in use, the oldest first.
  void drop_by_age() noexcept;
  /// A free partition for an allocation stream, preferably one of this stripe. Null: there is none.
  /// By one thread at a time.
  delta_partition* choose(unsigned stripe) noexcept {
    std::uint32_t used = 0;
    return choose(stripe, used);
  }
  std::uint64_t oldest() const noexcept {
    // acquire ← the release in looked(): readers whose withdrawal the look has seen are done.
    return oldest_.load_acquire();
  }
  void looked(std::uint64_t oldest) noexcept {
    looks_.fetch_add_relaxed(1);
    // An older result stays true, so threads may overwrite each other's. release → the acquire in
    // oldest().
    oldest_.store_release(oldest);
  }
  void dropped(std::uint64_t versions) noexcept {
    drops_.fetch_add_relaxed(1);
    dropped_.fetch_add_relaxed(versions);
  }
  [[nodiscard]] delta_stats figures() const noexcept override;

  commit_board& board_;
  const options options_;
  const bool walked_;
  mutable delta_chunks memory_;  // destroyed after the ring; readers take some for shortcuts
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
  /// How many units a writer takes at once, for a version that needs so many. Units that it does
  /// not fill are lost: so where versions are long, it is a multiple of their size.
  [[nodiscard]] std::uint64_t part_for(std::uint64_t need) const noexcept {
    constexpr std::uint64_t many = 8;
    const std::uint64_t usual = options_.slack / tagged::unit;
    const std::uint64_t head = walked_ ? units_of<delta_part_head> : 0;
    if (many * need <= usual) return usual;
    return head + std::max<std::uint64_t>(1, (usual + need / 2) / need) * need;
  }
  bool take_slack(delta_place& at, std::uint64_t need, std::uint64_t most);
  template <class F>
  static void each_place(local& me, F&& f) {
    for (delta_place& at : me.places) {
      if (at.in != nullptr) f(at);
    }
  }
  /// Deregisters a transaction of which no version was linked.
  void leave_all(local& me) noexcept {
    each_place(me, [this](delta_place& at) {
      at.versions_ended(0);
      leave(at);
    });
  }
  /// Ends the registration (deregister_txn). The last transaction that leaves a partition whose
  /// period is over tries to drop it.
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
    if (p.in_pieces()) return drop_rest(p);
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

// Transaction registration, and memory for its versions.

/// Registers with the stream's current partition (register_txn), or, if it has none, with that of
/// stream 0, unless the transaction is registered there already. Returns the stream's number.
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
    if (p->turn_is_over()) pass_on(*p, lane, me.stripe);  // registered transactions stay
    return lane;
  }
}

inline bool delta_one_shot::reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) {
  // Over the budget, not even room in the chunks is used: it is for commits that may have more.
  if (memory_.over(most)) {
    gather(most);
    memory_.shrink_to(most);
    if (memory_.over(most)) return false;
  }
  local& me = locals_.of(writer);
  me.stripe = writer % options_.stripes;
  bool poor = false;
  for (std::uint32_t tries = 0; tries <= options_.most_partitions; ++tries) {
    unsigned lane = 0;
    try {
      lane = fill(me, asks, most);
    } catch (...) {
      leave_all(me);
      throw;
    }
    if (lane == delta_lanes::most) {
      each_place(me, [](delta_place& at) { at.in->count(at.filled); });
      me.made.add(asks.size());
      return true;
    }
    delta_partition& p = *me.places[lane].in;
    leave_all(me);
    // Over the budget. One more try: this partition could not be dropped while we were registered.
    if (!p.full() && std::exchange(poor, true)) return false;
    pass_on(p, lane, me.stripe);
  }
  return false;
}

/// Allocates the versions. Returns delta_lanes::most if all is done, or the stream in which there
/// was no room.
inline unsigned delta_one_shot::fill(local& me, std::span<ask> asks, std::uint64_t most) {
  for (ask& a : asks) {
    const unsigned lane = enter(me, lanes_.lane_of(a.since));
    delta_place& at = me.places[lane];
    const std::uint64_t need = version::bytes(a.words) / tagged::unit;
    const std::uint64_t all = need + (walked_ ? units_of<delta_stub> : 0);
    if (!at.has_room(all)) {
      if (!take_slack(at, all, most)) return lane;
      if (at.in->turn_ends_at(at.end)) pass_on(*at.in, lane, me.stripe);
    }
    joins(a, *at.in);
    if (walked_) at.put_stub(a);
    at.put(a, need);
    if (walked_) at.end_part();
  }
  return delta_lanes::most;
}

/// Takes the next part of the partition. False: it is full, or there is no memory for more.
inline bool delta_one_shot::take_slack(delta_place& at, std::uint64_t need, std::uint64_t most) {
  delta_partition& p = *at.in;
  const std::uint64_t want = part_for(need);
  if (walked_) need += units_of<delta_part_head>;
  for (;;) {
    const auto got = p.take(want, need);
    if (got.first == got.end) {
      if (p.full()) return false;
      continue;  // the rest of the chunk was too short
    }
    if (!p.has_chunk(got.first)) {
      if (memory_.too_dear(most)) {
        gather(most);
        if (memory_.too_dear(most)) return false;
      }
      p.add_chunk(got.first);
    }
    at.got(got);
    if (walked_) at.begin_part();
    return true;
  }
}

// Garbage collection.

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

/// The oldest first: the chains that go through a partition lead to older ones. If it were dropped
/// before them, the versions there that snapshots need would have to be copied, too
/// (delta_evacuated.hpp).
inline void delta_one_shot::drop_by_age() noexcept {
  std::array<std::pair<std::uint64_t, std::uint32_t>, tagged::partitions> all;
  std::uint32_t count = 0;
  for (std::uint32_t i = 0, end = ring_.count(); i < end; ++i) {
    if (!ring_.at(i).empty()) all[count++] = {ring_.at(i).last_commit(), i};
  }
  std::sort(all.begin(), all.begin() + count);
  for (std::uint32_t i = 0; i < count; ++i) try_drop(ring_.at(all[i].second));
}

inline void delta_one_shot::gather(std::uint64_t /*most*/) noexcept {
  look();
  if (turns_.begin()) {
    arrange(false);
    turns_.end();
  }
  // Each stripe once: where no partition is free, more would go round the ring.
  for (unsigned stripe = 0; stripe < options_.stripes; ++stripe) {
    delta_partition& p = *lanes_.current(0, stripe);
    // Otherwise a caller that collects again and again, without success, would leave a chunk unused
    // each time. And where no version has ended yet, the next partition would take memory that the
    // caller needs.
    const bool worth = (p.last_commit() != 0 && can_go(p)) || p.used_bytes() >= delta_chunks::bytes;
    if (!p.empty() && worth) pass_on(p, 0, stripe);
  }
  drop_by_age();
  for (std::uint32_t i = 0; i < ring_.count(); ++i) {
    delta_partition& p = ring_.at(i);
    if (!lanes_.has(p) && p.lock_if_empty()) {
      p.shrink(0);
      p.unlock();
    }
  }
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

// The assignment of transactions to partitions: allocation periods (paper, sections 4 and 6).

/// Incremental assignment: makes another partition the stream's current one, unless another thread
/// has done it, or is doing it.
inline void delta_one_shot::pass_on(delta_partition& from, unsigned lane,
                                    unsigned stripe) noexcept {
  if (!turns_.begin()) return;
  memory_.release_some();
  if (lanes_.current(lane, stripe) == &from) {
    delta_partition* next = nullptr;
    if (lane == 0) {
      const bool whole = turns_.over(from.admitted(), from.used_bytes());
      if (!whole && turns_.on(stripe)) next = at_hand(stripe);
      if (next != nullptr) {
        next->home = stripe;
        next->begin_turn(turns_.next(0));
      } else {
        look();
        turns_.looked();
        arrange(whole);
      }
    }
    if (next == nullptr) next = &next_of(from, lane, stripe);
    lanes_.turn(lane, next, stripe);
  }
  turns_.end();
}

/// The partition that comes after `from`. Stream 0 is to have many partitions, which are dropped
/// one by one; the streams of held snapshots have few large ones.
inline delta_partition& delta_one_shot::next_of(delta_partition& from, unsigned lane,
                                                unsigned stripe) noexcept {
  std::uint32_t used = 0;
  delta_partition* next = choose(stripe, used);
  if (next == nullptr && lane == 0) {
    // None is free: the next partition in use that has room, or else the same one.
    for (std::uint32_t i = 1; i < ring_.count() && next == nullptr; ++i) {
      delta_partition& p = ring_.after(from, i);
      if (!lanes_.has(p) && !p.full() && !p.in_pieces()) next = &p;
    }
  }
  if (next == nullptr) next = from.full() ? lanes_.current(0, stripe) : &from;
  if (lane == 0) {
    next->home = stripe;
    next->begin_turn(turns_.next(used));
  } else {
    std::uint64_t& filled = lanes_.filled(lane);
    filled += from.used_bytes();
    next->begin_turn(
        {delta_partition::any_number, (std::max)(options_.partition_bytes, filled / 8)});
  }
  return *next;
}

/// Drops all partitions that can be dropped, and finds a free one, or makes one. `used` becomes the
/// number of those in use.
inline delta_partition* delta_one_shot::choose(unsigned stripe, std::uint32_t& used) noexcept {
  const delta_partition& from = *lanes_.current(0, stripe);
  delta_partition* found = nullptr;
  std::uint32_t free = 0;
  drop_by_age();
  for (std::uint32_t i = 1; i < ring_.count(); ++i) {
    delta_partition& p = ring_.after(from, i);
    if (lanes_.has(p)) continue;
    if (!p.empty()) {
      ++used;
      continue;
    }
    if (found == nullptr || (p.home == stripe && found->home != stripe)) found = &p;
    const std::uint64_t bytes = turns_.bytes_of_free(++free);
    const std::uint64_t keeps = bytes == 0 ? 0 : delta_partition::chunks_for(bytes);
    if (p.chunks() > keeps && p.lock_if_empty()) {
      p.shrink(keeps);
      p.unlock();
    }
  }
  return found != nullptr || ring_.count() >= options_.most_partitions ? found : more();
}

inline delta_partition* delta_one_shot::more() noexcept {
  try {
    return ring_.add(memory_);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

/// A partition for a short period, found without checking which others can be dropped: a free one
/// that this stripe had before, with its memory; or one without memory; or a new one.
inline delta_partition* delta_one_shot::at_hand(unsigned stripe) noexcept {
  const delta_partition& from = *lanes_.current(0, stripe);
  delta_partition* cold = nullptr;
  for (std::uint32_t i = 1; i < ring_.count(); ++i) {
    delta_partition& p = ring_.after(from, i);
    if (!p.empty() || lanes_.has(p)) continue;
    if (p.home == stripe && p.chunks() != 0) return &p;
    if (p.chunks() == 0) cold = &p;
  }
  return cold == nullptr && ring_.count() < turns_.most_at_hand() ? more() : cold;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
