// SPDX-License-Identifier: Apache-2.0
// delta_range.hpp: range tracking over rows. Each version has the interval in which it was current,
// and is freed when no announced time is in its interval.
//
// Source:      Ben-David et al.: Space and Time Bounded Multiversion Garbage Collection, DISC 2021,
//              and SL-RT of Wei et al., PPoPP 2023, sections 3 and 5.
// Idea:        version/range_tracker.hpp finds the versions; this file takes them out of their
//              rows' chains. A version that ended before all snapshots began is freed as it is
//              (delta.hpp). For another one, the row's chain is walked down along the announced
//              times, and all versions that no snapshot needs are cut out (delta_chain.hpp). Those
//              of them that the tracker has not found yet cost no walk when it finds them.
// Cost:        on top of an allocation and a free for each version: amortized O(1) in the tracker,
//              spread over the commits; and while snapshots are held, a walk down the row's chain
//              for each version that is found while it is still linked. A reader of an old version:
//              a guard. A commit that finds no room looks at more versions, by how many may go:
//              range_looks.hpp.
// Progress:    as range_tracker.hpp. There is a lock for each of `stripes` parts of all rows. A
//              thread takes it to cut versions out; a commit that cuts nothing out does not, nor
//              does a reader.
// Bound:       with H versions that a snapshot needs, P threads and B = max(512, P log P): 3 H
//              and 5 P B, and (5 P + 3) B where threads have ended (range_tracker.hpp); and one
//              version of each row that was changed since the oldest snapshot began: the newest
//              one, which is not cut out before the row has a newer one. In bytes: as many blocks
//              of a whole row and 104 bytes. With versions of the changed columns only, H counts
//              for each version that a snapshot needs as many more as the row has columns. With no
//              snapshot held: 5 P B. The bound holds for rows that are not changed again, too;
//              collect() leaves only H and the newest ones.
// Why no freed version is reached: delta_chain.hpp. One thread at a time shortens a chain: the one
//   that has the lock of the row's part. It leaves the first version alone: a writer may have read
//   that, and be about to link a new version to it. The tracker gives each version to one caller,
//   once, and that caller retires it: after it was cut out, or because of its time.
// Why the version is in the chain that is walked. It was in it when it ended. Suppose that the slot
//   has gone to another row since, whose chain begins anew. Then no snapshot was left that sees the
//   former row, and row_gone() has marked its versions as cut out. (If it had no memory for a guard
//   it has not: then they are freed because of their times.)
// Handles:     addresses.
//
// Departures from the papers:
//   D1  The first before-image of a row is not cut out (Bound). The papers' lists begin with the
//       current version, which no thread needs to cut out.
//   D2  Compactions of one row exclude each other. In the papers they agree on a scan; here each
//       version that is cut out needs one owner, and a commit does not wait for a compaction.
//   D3  Versions of the changed columns are not merged when one is cut out. A version stays if it
//       alone has a column, and is examined again: delta_chain.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/version_storage.hpp>
#include <spolia/version/range_tracker.hpp>
#include <spolia/version/scan_board.hpp>

#include "db/one_at_a_time.hpp"
#include "db/versions/delta_blocks.hpp"
#include "db/versions/delta_chain.hpp"
#include "db/versions/delta_guarded.hpp"
#include "db/versions/range_looks.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_range final : public delta_guarded {
  /// The header of a version.
  struct block : nodes::header, tracked, chained {
    std::uint32_t words = 0;
    plain<bool> is_out{false};  // it was cut out of its chain; under the lock of the row's part
    const atomic<std::uint64_t>* chain = nullptr;
  };
  using blocks = delta_blocks<block>;
  /// What one call has freed.
  struct leavers {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t between = 0;
  };
  auto looker() noexcept {
    return [this](scan_times& found) { look(found); };
  }
  auto expirer(leavers& gone) noexcept {
    return [this, &gone](tracked* t) { return expire(*static_cast<block*>(t), gone); };
  }

 public:
  static constexpr version_storage_info info{
      .storage = version_storage::range, .name = "range", .collects_between = true};

  struct options {
    /// At least so many versions for each scan of the census: a scan needs a barrier in all
    /// threads, and one commit may end many versions.
    range_tracker::options tracker{.least_batch = 512};
    nodes::options reclaim{};  ///< of the domain to which blocks are retired
  };

  /// Throws std::bad_alloc.
  delta_range(commit_board& board, const options& o)
      : delta_guarded(o.reclaim), board_(board), options_(o), scans_(nodes_), tracker_(o.tracker) {}

  ~delta_range() override { close(); }
  /// No other thread uses it any more.
  void close() noexcept {
    tracker_.abandon([](tracked* t) { blocks::free(static_cast<block*>(t)); });
    board_.for_each(locals_, [](local& l) { free_open(l); });
    scans_.close();
  }

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) override {
    local& me = locals_.of(writer);
    const std::uint64_t bytes = blocks::bytes(asks);
    if (!has_room(bytes, most)) {
      make_room([&] { return has_room(bytes, most); });
      if (!has_room(bytes, most)) return false;
    }
    // First, so that neither call can fail later on this thread.
    static_cast<void>(nodes_.enter());
    static_cast<void>(tracker_.mine());
    try {
      for (ask& a : asks) {
        block* const b = blocks::make(a);
        me.open.push(b);
        b->since.store_relaxed(a.since);
        b->next_until.write(a.since);
        b->chain = a.chain;
      }
    } catch (...) {
      free_open(me);
      throw;
    }
    me.open_bytes = bytes;
    me.came(asks.size(), bytes);
    return true;
  }

  void published(std::uint32_t writer, std::uint64_t commit) noexcept override {
    local& me = locals_.of(writer);
    range_tracker::cell& mine = tracker_.mine();
    std::uint64_t ended = 0;
    for (; tracked* const t = me.open.pop(); ++ended) tracker_.deprecate(mine, t, commit);
    leavers gone;
    tracker_.work(mine, looker(), expirer(gone));
    me.went(gone.count, gone.bytes, gone.between);
    me.ended.add(ended);  // last: from the end of this call on they can be found
  }

  void cancel(std::uint32_t writer) noexcept override {
    local& me = locals_.of(writer);
    me.went(me.open.count(), me.open_bytes);
    free_open(me);
  }

  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t /*row*/,
                                    std::uint64_t time,
                                    const taking_back* on_the_way) const override {
    const bool early = SPOLIA_FAULT("range.head_before_guard");
    return walk_guarded(chain, time, on_the_way, early);
  }

  void row_gone(atomic<std::uint64_t>& chain, std::uint64_t until) noexcept override {
    if (chain.load_relaxed() == 0) return;
    try {
      auto guard = nodes_.enter();
      const std::lock_guard hold(stripe_at(&chain).lock);
      const chain_walk<block> walking(*scans_.latest(), changes_only());
      chain_link at{chain.load_relaxed(), until};
      chain.store_relaxed(0);  // no reader goes there any more
      while (walking.stands(at)) {
        block& b = blocks::of(at.handle);
        at = {blocks::in(b).older.load_relaxed(), b.next_until.read()};
        b.is_out.write(true);
      }
    } catch (const std::bad_alloc&) {
      // This thread's first guard: the versions will be freed because of their times.
    }
  }

  void collect() noexcept override {
    const one_at_a_time mine(looking_, backoff());
    try {
      static_cast<void>(nodes_.enter());  // so that later ones of this thread cannot fail
      leavers gone;
      tracker_.collect(tracker_.mine(), looker(), expirer(gone));
      leavers none;
      count_out(gone, none);
      nodes_.drain();                  // frees the memory of what was retired
    } catch (const std::bad_alloc&) {  // this thread's first call: then another time
    }
  }

  /// A thread that cuts versions out may have scanned before the last snapshot ended that saw a
  /// dropped table.
  [[nodiscard]] bool looks_at_rows() const noexcept override { return true; }

 private:
  [[nodiscard]] delta_stats figures() const noexcept override {
    delta_stats all = sum();
    all.looks = looks_.load_relaxed();
    return all;
  }

#if defined(SPOLIA_MODEL)
  static constexpr std::size_t stripes = 1;
#else
  static constexpr std::size_t stripes = 64;
#endif

  struct alignas(cache_line) local : block_tallies {
    tracked_list open;  // the versions of the transaction under way
    std::uint64_t open_bytes = 0;
    tally ended;
  };
  struct alignas(cache_line) stripe {
    spolia::detail::short_lock lock;
  };

  static void free_open(local& l) noexcept {
    while (tracked* const t = l.open.pop()) blocks::free(static_cast<block*>(t));
  }

  /// Looks for versions that can go, as far as that is worthwhile: range_looks.hpp. Does nothing
  /// while another thread looks: that one finds them.
  template <class HasRoom>
  void make_room(HasRoom&& has_room) noexcept {
    const one_at_a_time mine(looking_);
    if (!mine) return;
    try {
      static_cast<void>(nodes_.enter());  // so that later ones of this thread cannot fail
      range_tracker::cell& me = tracker_.mine();
      for (bool again = true; again && !has_room();) {
        const bool goes_on = looks_at_all_.under_way();
        look(now_);
        const std::uint64_t threads = tracker_.ended_threads();
        const range_look how =
            looks_at_all_.next(now_, ended(), threads, [this] { return tracker_.lists(); });
        look_as_far_as(how, me, has_room);
        // Versions that the round had passed before may be free to go by now.
        again = how == range_look::all && goes_on && !looks_at_all_.under_way();
      }
    } catch (const std::bad_alloc&) {  // another time
    }
  }
  template <class HasRoom>
  void look_as_far_as(range_look how, range_tracker::cell& me, HasRoom&& has_room) noexcept {
    if (how == range_look::none) return;
    constexpr std::uint64_t no_end = ~std::uint64_t{0};
    std::uint64_t left = how == range_look::all ? no_end : range_looks::at_once;
    leavers gone;
    leavers counted;
    bool looked = false;
    bool stopped = false;
    waiting_versions& waits = looks_at_all_.waits();
    const auto look_around = [&](scan_times& found) {
      look(found);
      if (how != range_look::own) waits.looks_with(found);
      looked = true;
    };
    const auto stays = [&](const tracked* t) {
      if (looked && how != range_look::own) waits.add(*t);
    };
    const auto enough = [&](std::uint64_t steps) {
      count_out(gone, counted);
      left -= left == no_end ? 0 : (std::min)(left, steps);
      stopped = left == 0 || (gone.count >= freed_at_once && has_room());
      return stopped;
    };
    std::uint64_t none = 0;
    std::uint64_t& lists = how == range_look::own ? none : looks_at_all_.lists();
    tracker_.collect_some(me, lists, look_around, expirer(gone), stays, enough);
    count_out(gone, counted);
    if (how != range_look::own && looked && !stopped) looks_at_all_.end_round();
  }
  /// How many versions have ended and can be found.
  [[nodiscard]] std::uint64_t ended() const noexcept {
    std::uint64_t sum = 0;
    board_.for_each(locals_, [&](const local& l) { sum += l.ended.value(); });
    return sum;
  }
  /// Counts what has gone since `counted`.
  void count_out(const leavers& gone, leavers& counted) noexcept {
    const std::lock_guard hold(collected_lock_);
    collected_.went(gone.count - counted.count, gone.bytes - counted.bytes,
                    gone.between - counted.between);
    counted = gone;
  }
  /// Throws std::bad_alloc.
  void look(scan_times& found) {
    looks_.fetch_add_relaxed(1);
    auto guard = nodes_.enter();
    scans_.renew(guard, [this](scan_times& fresh) {
      fresh.known = board_.living.scan(board_.clock, fresh.times);
    });
    found = *scans_.latest();
  }

  /// Cuts out and retires a version that no snapshot needs. False: that has to be tried again.
  bool expire(block& b, leavers& gone) noexcept {
    if (!may_go(b, gone) && !SPOLIA_FAULT("range.first_goes_too")) return false;
    ++gone.count;
    gone.bytes += blocks::bytes(b.words);
    if (SPOLIA_FAULT("range.frees_at_once")) {
      blocks::free(&b);
    } else {
      nodes_.enter().retire(&b, blocks::freeing{});
    }
    return true;
  }
  /// Whether the version may be retired: it is out of its chain, or ended before all snapshots
  /// began. Cuts it out if it can.
  bool may_go(block& b, leavers& gone) noexcept {
    {
      auto guard = nodes_.enter();
      if (is_old(b, *scans_.latest())) return true;
    }
    spolia::detail::short_lock none;
    const std::lock_guard hold(SPOLIA_FAULT("range.two_at_a_time") ? none : stripe_of(b).lock);
    if (b.is_out.read()) {
      ++gone.between;
      return true;
    }
    auto guard = nodes_.enter();
    const scan_times& scan = *scans_.latest();
    if (is_old(b, scan)) return true;
    // acquire ← the release in install(): the first version is filled. It was not freed: it is `b`
    // itself, or ended after `b`, also if `b` is of a row that had the slot before.
    const std::uint64_t first = b.chain->load_acquire();
    // No further down than to `b`: the tracker will find the others that may go.
    chain_walk<block>(scan, changes_only())
        .shorten({first, not_yet}, b.until.read() - 1,
                 [](block& x, std::uint64_t) { x.is_out.write(true); });
    if (!b.is_out.read()) return false;
    ++gone.between;
    return true;
  }
  static bool is_old(const block& b, const scan_times& scan) noexcept {
    return b.until.read() <= oldest_of(scan);
  }
  stripe& stripe_of(const block& b) noexcept { return stripe_at(b.chain); }
  stripe& stripe_at(const atomic<std::uint64_t>* chain) noexcept {
    const auto place = reinterpret_cast<std::uintptr_t>(chain);
    return stripes_[(place * 0x9E3779B97F4A7C15U >> 40U) % stripes];
  }

  [[nodiscard]] bool has_room(std::uint64_t bytes, std::uint64_t most) const noexcept {
    return most == 0 || sum().bytes + bytes <= most;
  }
  [[nodiscard]] delta_stats sum() const noexcept {
    delta_stats all = sum_of_blocks(board_, locals_);
    all.versions_dropped += collected_.dropped.value();
    all.dropped_between += collected_.between.value();
    const std::uint64_t freed = collected_.bytes_freed.value();
    all.bytes -= (std::min)(all.bytes, freed);
    return all;
  }

  commit_board& board_;
  const options options_;
  scan_board<nodes> scans_;
  range_tracker tracker_;
  cells<local> locals_;
  std::array<stripe, stripes> stripes_;
  atomic<bool> looking_{false};  // a thread looks for room, or collects: one at a time
  range_looks looks_at_all_;     // that thread's, as is now_
  scan_times now_;
  spolia::detail::short_lock collected_lock_;
  block_tallies collected_;  // by collect()
  alignas(cache_line) atomic<std::uint64_t> looks_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
