// SPDX-License-Identifier: Apache-2.0
// tagged_epochs.hpp: what the schemes have in common that tag blocks with an epoch, and free what
// is tagged below everything that threads have announced.
//
// A thread that has let `scan_at` blocks wait cuts them: it ends the epoch e by a read-modify-write
// of the global counter and tags with e all that it retired since its last cut. So one word tells
// the epoch of many blocks, blocks carry no tag of their own, and the clock ticks once for so many
// blocks of a thread, however many threads there are.
//
// Why the tag is never stale. The blocks were unlinked before the cut, by its thread or by one
// whose blocks it had adopted. The counter changes by read-modify-writes only, so a thread that
// reads a value above e by an acquire load reads from the release sequence of the cut: every
// unlinking of a block with tag e happens before that load, and what the thread begins to read
// later cannot lead to one of these blocks. No fence is needed for this, neither at retirement nor
// at the readers.
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

/// Retired blocks of one thread, by tags: what has none yet, and two bags that have. Where readers
/// lag behind, further cuts go to the newer bag and raise its tag: too high a tag is safe, and
/// costs no more than time.
class tagged_bags {
 public:
  void put(retired* block) noexcept { fresh_.push(block); }

  /// What was put in since the last cut gets this tag, higher than those before.
  void cut(std::uint64_t tag) noexcept {
    if (older_.empty()) {
      older_.append(newer_);
      older_tag_ = newer_tag_;
    }
    newer_.append(fresh_);
    newer_tag_ = tag;
  }

  /// Moves what is tagged below `limit` to `safe`.
  void take_below(std::uint64_t limit, limbo& safe) noexcept {
    if (SPOLIA_FAULT("epochs.tag_itself_is_enough")) ++limit;
    if (older_tag_ < limit) safe.append(older_);
    if (newer_tag_ < limit) safe.append(newer_);
  }

  /// Another thread's blocks await the next cut here.
  void adopt(tagged_bags& other) noexcept { other.abandon(fresh_); }

  void abandon(limbo& all) noexcept {
    all.append(older_);
    all.append(newer_);
    all.append(fresh_);
  }

  /// f(list) for each list.
  template <class F>
  void lists(F&& f) {
    f(older_);
    f(newer_);
    f(fresh_);
  }

  /// Blocks that no cut has tagged.
  std::size_t fresh() const noexcept { return fresh_.count(); }
  std::size_t count() const noexcept { return fresh() + newer_.count() + older_.count(); }

  /// Is there something that has waited for longer than from one cut to the next? What was tagged
  /// with `oldest_tag()` has.
  bool lags() const noexcept { return !older_.empty(); }
  std::uint64_t oldest_tag() const noexcept { return older_tag_; }

 private:
  limbo fresh_;
  limbo newer_;
  limbo older_;
  std::uint64_t newer_tag_ = 0;
  std::uint64_t older_tag_ = 0;
};

/// The base of such schemes. Each thread announces one word; what it says, and when it is looked
/// at, is theirs: `Scheme` derives from this, and has scan(me, peers, sink), which is due between
/// two operations, and `refusal`, what to say of options that make no sense.
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
    atomic<std::uint64_t> announced{nothing_announced};  // written by the owner only
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
    make_room(me);  // not other's: `due` reads that outside of the gate. It scans early once.
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
  /// Above every epoch, also when it is shifted by a bit, and even.
  static constexpr std::uint64_t nothing_announced = ~std::uint64_t{1};

  explicit tagged_epochs(const options& o) noexcept : options_(o) {}

  static void announce(local& me, std::uint64_t word, bool planted_fault) noexcept {
    // release → the acquire in look_at_others(): a thread that reads this sees that our earlier
    // operations are over. Without it a block could be freed while our last load of it is under
    // way.
    if (planted_fault) {
      me.announced.store_relaxed(word);
    } else {
      me.announced.store_release(word);
    }
  }

  /// Calls look(word) with what each other thread announces. The caller itself scans between two
  /// operations, and so holds nothing.
  template <class Peers, class Look>
  static void look_at_others(const local& me, Peers peers, Look look) noexcept {
    peers.for_each([&](std::uint32_t, const local& other) {
      // acquire ← the release in announce(): the accesses of the operations that are over happen
      // before we free.
      if (&other != &me) look(other.announced.load_acquire());
      return true;
    });
  }

  /// Moves what is tagged below `limit` to `safe`, and cuts. The caller has found `limit` after a
  /// fence that comes after all unlinkings. Cutting after the look leaves what was cut before its
  /// own tag. What is cut here is not below the limit, unless that is above every epoch: there was
  /// no
  /// thread that could hold anything.
  void take_and_cut(local& me, std::uint64_t limit, limbo& safe) noexcept {
    me.bags.take_below(limit, safe);
    cut(me);
    me.bags.take_below(limit, safe);
  }

  /// The epoch, to be announced.
  std::uint64_t now() const noexcept {
    // acquire ← the release in cut(): a thread that announces an epoch above a tag cannot find a
    // block with that tag afterwards. Without it, what it reads next could still lead there.
    return SPOLIA_FAULT("epochs.now_relaxed") ? epoch_.load_relaxed() : epoch_.load_acquire();
  }

  /// Last in its caller, since deleters may retire, and begin operations.
  template <class Sink>
  static void hand_over(limbo& safe, Sink sink) noexcept {
    if (!safe.empty()) sink(safe);
  }

  void make_room(local& me) const noexcept {
    me.room =
        static_cast<std::int64_t>(options_.scan_at) - static_cast<std::int64_t>(me.bags.fresh());
  }

 private:
  /// Tags what has no tag yet with the epoch that ends here.
  void cut(local& me) noexcept {
    if (me.bags.fresh() != 0) {
      // release → the acquire in now(): our unlinkings, as said above. Without it a thread could
      // announce an epoch above the tag, and still find the block linked.
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
