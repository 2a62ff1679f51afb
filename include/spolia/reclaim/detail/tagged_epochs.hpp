// SPDX-License-Identifier: Apache-2.0
// tagged_epochs.hpp: the common part of the schemes that tag blocks with an epoch, and free the
// blocks whose tag is below everything that threads have announced.
//
// When `scan_at` blocks of a thread wait, it makes a cut: it ends the epoch e by a
// read-modify-write of the global counter, and tags with e all blocks that it retired since its
// last cut. So one word has the epoch of many blocks, and blocks have no tag of their own. The
// clock ticks once for so many blocks of a thread, however many threads there are.
//
// Why the tag is never stale. The blocks were unlinked before the cut, by its thread or by one
// whose blocks it had adopted. The counter changes by read-modify-writes only. So a thread that
// reads a value above e by an acquire load reads from the release sequence of the cut: every
// unlinking of a block with tag e happens before that load, and nothing that the thread begins to
// read later can lead to one of these blocks. No fence is needed for this, neither at retirement
// nor at the readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/trace.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/region_reads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Retired blocks of one thread, by tags: a bag without a tag, and two bags with one. While readers
/// keep both bags from being freed, further cuts go to the newer one and raise its tag: a tag that
/// is too high is safe, and only delays the blocks.
class tagged_bags {
 public:
  void put(retired* block) noexcept { fresh_.push(block); }

  /// Gives the blocks that were put in since the last cut this tag, which is higher than all
  /// before.
  void cut(std::uint64_t tag) noexcept {
    if (older_.empty()) {
      older_.append(newer_);
      older_tag_ = newer_tag_;
    }
    newer_.append(fresh_);
    newer_tag_ = tag;
  }

  /// Moves the blocks with a tag below `limit` to `safe`.
  void take_below(std::uint64_t limit, limbo& safe) noexcept {
    if (SPOLIA_FAULT("epochs.tag_itself_is_enough")) ++limit;
    if (older_tag_ < limit) safe.append(older_);
    if (newer_tag_ < limit) safe.append(newer_);
  }

  /// Takes over another thread's blocks, which get their tag at the next cut here.
  void adopt(tagged_bags& other) noexcept { other.abandon(fresh_); }

  void abandon(limbo& all) noexcept {
    all.append(older_);
    all.append(newer_);
    all.append(fresh_);
  }

  /// Calls f(list) for each list.
  template <class F>
  void lists(F&& f) {
    f(older_);
    f(newer_);
    f(fresh_);
  }

  /// Blocks that no cut has tagged.
  std::size_t fresh() const noexcept { return fresh_.count(); }
  std::size_t count() const noexcept { return fresh() + newer_.count() + older_.count(); }

  /// Whether some blocks have waited for longer than from one cut to the next: those with the tag
  /// `oldest_tag()` have.
  bool lags() const noexcept { return !older_.empty(); }
  std::uint64_t oldest_tag() const noexcept { return older_tag_; }

 private:
  limbo fresh_;
  limbo newer_;
  limbo older_;
  std::uint64_t newer_tag_ = 0;
  std::uint64_t older_tag_ = 0;
};

/// The base of such schemes. Each thread announces one word. The derived `Scheme` decides what the
/// word means, and when it is read. It has scan(me, peers, sink), which is due between two
/// operations, and `refusal`, the error text for options that make no sense.
template <class Scheme>
class tagged_epochs : public region_reads {
 public:
  struct options {
    /// Blocks that a thread retires between two scans. 512 make the look at all threads, and the
    /// heavy fence where one is needed (a few microseconds), cost nanoseconds a block.
    std::uint32_t scan_at = 512;
  };

  struct local {
    std::int64_t room = 0;  // blocks that may still be retired before a scan
    tagged_bags bags;
    atomic<std::uint64_t> announced{nothing_announced};  // only the owner writes it
  };

  static const char* what_is_wrong(const options& o) noexcept {
    return o.scan_at >= 1 && o.scan_at <= 1U << 30U ? nullptr : Scheme::refusal;
  }

  template <class Peers>
  void join(local& me, std::uint32_t, Peers) noexcept {
    make_room(me);
  }

  bool due(local& me) const noexcept { return me.room <= 0; }

  template <class Peers, class Sink>
  void tick(local& me, Peers peers, Sink sink) noexcept {
    if (due(me)) static_cast<Scheme*>(this)->scan(me, peers, sink);
  }

  template <class Peers, class Sink>
  void retire(local& me, retired* block, Peers, Sink) noexcept {
    me.bags.put(block);
    --me.room;
  }

  void adopt(local& me, local& other) noexcept {
    me.bags.adopt(other.bags);
    // Not the other's room: its `due` reads that outside of the gate. So it scans too early, once.
    make_room(me);
  }

  void abandon(local& me, limbo& all) noexcept { me.bags.abandon(all); }

  template <class Peers>
  void forked(local& lost, Peers) noexcept {
    lost.announced.store_relaxed(nothing_announced);
    lost.room = 0;
  }
  template <class F>
  static void lists(local& of, F&& f) {
    of.bags.lists(f);
  }

  std::size_t waiting(const local& me) const noexcept { return me.bags.count(); }
  std::uint64_t epochs() const noexcept { return epoch_.load_relaxed() - first; }
  std::optional<std::uint64_t> bound(std::size_t) const noexcept { return std::nullopt; }

 protected:
  static constexpr std::uint64_t first = 1;  // below it: no tag
  /// Above every epoch, also above one that is shifted left by a bit; and even.
  static constexpr std::uint64_t nothing_announced = ~std::uint64_t{1};

  explicit tagged_epochs(const options& o) noexcept : options_(o) {}

  static void announce(local& me, std::uint64_t word, bool planted_fault) noexcept {
    // release → the acquire in look_at_others(): our earlier operations happen before what a thread
    // that reads this does next. Without it a block could be freed while our last load of it is
    // under way.
    if (planted_fault) {
      me.announced.store_relaxed(word);
    } else {
      me.announced.store_release(word);
    }
  }

  /// Calls look(word) with the word that each other thread announces. The caller itself scans
  /// between two operations, and so protects no block.
  template <class Peers, class Look>
  static void look_at_others(const local& me, Peers peers, Look look) noexcept {
    peers.for_each([&](std::uint32_t, const local& other) {
      // acquire ← the release in announce(): the accesses of operations that are over happen before
      // we free.
      if (&other != &me) look(other.announced.load_acquire());
      return true;
    });
  }

  /// Moves the blocks with a tag below `limit` to `safe`, and makes a cut. The caller has found
  /// `limit` after a fence that comes after all unlinkings. The cut comes after the move: so blocks
  /// of earlier cuts keep a tag of their own. The new tag is not below the limit, unless that is
  /// above every epoch: then there was no thread that could hold anything.
  void take_and_cut(local& me, std::uint64_t limit, limbo& safe) noexcept {
    me.bags.take_below(limit, safe);
    cut(me);
    me.bags.take_below(limit, safe);
  }

  /// The current epoch, to be announced.
  std::uint64_t now() const noexcept {
    // acquire ← the release in cut(): a thread that announces an epoch above a tag cannot find a
    // block with that tag afterwards. Without it, its next reads could still lead there.
    return SPOLIA_FAULT("epochs.now_relaxed") ? epoch_.load_relaxed() : epoch_.load_acquire();
  }

  /// Hands safe blocks to the release policy. To be called last, since deleters may retire blocks,
  /// and begin operations.
  template <class Sink>
  static void hand_over(limbo& safe, Sink sink) noexcept {
    if (!safe.empty()) sink(safe);
  }

  void make_room(local& me) const noexcept {
    me.room =
        static_cast<std::int64_t>(options_.scan_at) - static_cast<std::int64_t>(me.bags.fresh());
  }

 private:
  /// Ends an epoch, and tags with it the blocks that have no tag yet.
  void cut(local& me) noexcept {
    if (me.bags.fresh() != 0) {
      // release → the acquire in now(): our unlinkings (see "Why the tag is never stale"). Without
      // it a thread could announce an epoch above the tag, and still find the block linked.
      const std::uint64_t ended = SPOLIA_FAULT("epochs.cut_relaxed") ? epoch_.fetch_add_relaxed(1)
                                                                     : epoch_.fetch_add_release(1);
      me.bags.cut(ended);
      const std::uint64_t at = trace::on() ? trace::ticks() : 0;
      trace::record(trace::event::epoch_advanced, at, at, 1);
    }
    make_room(me);
  }

  options options_;
  alignas(cache_line) atomic<std::uint64_t> epoch_{first};
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
