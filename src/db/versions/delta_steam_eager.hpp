// SPDX-License-Identifier: Apache-2.0
// delta_steam_eager.hpp: Steam with eager pruning: a transaction that changes a row cuts those
// versions out of the row's chain that no snapshot needs.
//
// Source:      Böttcher et al.: Scalable Garbage Collection for In-Memory MVCC Systems, VLDB 2020,
//              section 4.3 (eager pruning of obsolete versions); as the baseline of Raza et al.,
//              SIGMOD 2023, section 7.
// Idea:        as delta_steam.hpp: each writer has its versions on a list, in the order in which
//              they end, and frees those at the front that ended before all snapshots began. Also,
//              a thread that is about to prepend a version to a row's chain walks down the chain
//              along the announced times, and cuts out the versions between them (delta_chain.hpp).
//              It holds the row's lock, so no other thread shortens the chain.
// Cost:        on top of Steam's: a commit, for each version, a walk down the row's chain to where
//              it was examined before, or further, if snapshots have ended since that were not the
//              oldest, to what these have seen. For each version that is cut out, the lock of the
//              writer on whose list it is. Blocks are retired to the domain, and a reader of an old
//              version takes a guard. In `look_every` commits of a writer, one scan of the census,
//              which all writers share. As with Steam, each commit frees some versions that are
//              older than all snapshots.
// Progress:    a lock for each writer, for a few stores. Readers do not wait.
// Bound:       when a row has been changed, its chain has the versions that the snapshots of the
//              last scan see, and those that ended after that scan: at most `look_every` commits of
//              each writer. A row that is not changed again keeps what it had until that is older
//              than all snapshots: with S of them, at most S versions, and those that had ended
//              since the scan when the row was changed last.
//              In bytes: as many blocks of a whole row and 104 bytes. With versions of the changed
//              columns only, for each version that a snapshot sees as many more as the row has
//              columns.
// Why no freed version is reached, by a reader or by a thread that cuts: delta_chain.hpp. If the
//   first versions of the chain can go, the new version leads past them. They are retired when the
//   new version is in place, in published(): until then the row leads to them.
// Which thread frees a version: the one that takes it off its writer's list, under the lock of that
//   list.
// Handles:     addresses.
//
// Departures from the paper and its systems:
//   D1  The times are those of the announced snapshots. (The one-shot paper's system prunes by the
//       last finished transaction of each thread, and so may free versions that a running one
//       needs.)
//   D2  The census is scanned once in `look_every` commits, not at each change: a scan needs a
//       barrier in all threads. Versions that ended since the scan stay, so a stale scan cuts out
//       less, never too much.
//   D3  Versions of the changed columns are not merged when one is cut out. A version stays if it
//       alone has a column: delta_chain.hpp. (The paper's prune moves what is missing.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/version_storage.hpp>
#include <spolia/version/scan_board.hpp>

#include "db/versions/delta_blocks.hpp"
#include "db/versions/delta_chain.hpp"
#include "db/versions/delta_guarded.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_steam_eager final : public delta_guarded {
  /// The header of a version.
  struct block : nodes::header, chained {
    std::uint32_t words = 0;
    std::uint32_t keeper = 0;  // the number of the writer whose version it is
    bool kept = false;         // it is on that writer's list; as the next three, under its lock
    block* before = nullptr;
    block* next = nullptr;  // on that list, or on a list of versions to be retired
    std::uint64_t until = not_yet;
    // What the scan knew by which the chain was examined when this version was prepended. Under the
    // row's lock.
    plain<std::uint64_t> known{0};
  };
  using blocks = delta_blocks<block>;

 public:
  static constexpr version_storage_info info{
      .storage = version_storage::steam_eager, .name = "steam_eager", .collects_between = true};

  struct options {
    std::uint32_t look_every = 64;  ///< commits of a writer between two scans of the census
    nodes::options reclaim{};       ///< of the domain to which blocks are retired
  };

  /// Throws std::bad_alloc.
  delta_steam_eager(commit_board& board, const options& o)
      : delta_guarded(o.reclaim), board_(board), options_(o), scans_(nodes_) {}

  ~delta_steam_eager() override { close(); }
  /// No other thread uses it any more.
  void close() noexcept {
    board_.for_each(locals_, [](local& l) {
      free_all(std::exchange(l.first, nullptr));
      free_all(std::exchange(l.passed, nullptr));
    });
    scans_.close();
  }

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) override {
    local& me = locals_.of(writer);
    const std::uint64_t bytes = blocks::bytes(asks);
    auto guard = nodes_.enter();  // first, so that this thread's next ones cannot fail
    if (!has_room(bytes, most)) {
      look(guard);
      board_.for_each(locals_, [&](local& l) {
        while (!has_room(bytes, most) && free_old(l, freed_at_once, guard)) {
        }
      });
      if (!has_room(bytes, most)) return false;
    }
    block* made = nullptr;
    try {
      for (ask& a : asks) push(made, *blocks::make(a));
    } catch (...) {
      free_all(made);
      throw;
    }
    me.came(asks.size(), bytes);
    const scan_times& scan = *scans_.latest();
    block* gone = nullptr;
    for (ask& a : asks) prune(a, scan, me.passed, gone);
    let_go(me, gone, guard, true);
    const std::lock_guard hold(me.lock);
    while (made != nullptr) {
      block& b = pop(made);
      b.keeper = writer;
      me.append(b);
    }
    return true;
  }

  void published(std::uint32_t writer, std::uint64_t commit) noexcept override {
    local& me = locals_.of(writer);
    std::uint64_t made = 0;
    {
      const std::lock_guard hold(me.lock);
      for (block* b = me.last; b != nullptr && b->until == not_yet; b = b->before, ++made) {
        b->until = commit;
      }
    }
    auto guard = nodes_.enter();
    if (!SPOLIA_FAULT("eager.passed_go_early")) {
      let_go(me, std::exchange(me.passed, nullptr), guard, true);
    }
    if (++me.commits % options_.look_every == 0) look(guard);
    free_old(me, 2 * made + freed_at_once, guard);
  }

  void cancel(std::uint32_t writer) noexcept override {
    local& me = locals_.of(writer);
    while (me.passed != nullptr) {
      block& b = pop(me.passed);
      local& of = *locals_.find(b.keeper);
      const std::lock_guard hold(of.lock);
      of.prepend(b);
    }
    block* made = nullptr;
    {
      const std::lock_guard hold(me.lock);
      while (me.last != nullptr && me.last->until == not_yet) push(made, me.take_off(*me.last));
      me.count_out(made);
    }
    free_all(made);  // at once: no chain led a reader there
  }

  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t /*row*/,
                                    std::uint64_t time,
                                    const taking_back* on_the_way) const override {
    const bool early = SPOLIA_FAULT("eager.head_before_guard");
    return walk_guarded(chain, time, on_the_way, early);
  }

  void row_gone(atomic<std::uint64_t>& chain, std::uint64_t until) noexcept override {
    if (chain.load_relaxed() == 0) return;
    try {
      auto guard = nodes_.enter();
      const chain_walk<block> walking(*scans_.latest(), changes_only());
      chain_link at{chain.load_relaxed(), until};
      chain.store_relaxed(0);  // no reader goes there any more
      while (walking.stands(at)) {
        block& b = blocks::of(at.handle);
        const std::uint64_t ended = at.until;
        at = {blocks::in(b).older.load_relaxed(), b.next_until.read()};
        local& keeper = *locals_.find(b.keeper);
        block* gone = nullptr;
        if (claim(b, ended)) push(gone, b);
        let_go(keeper, gone, guard, true);
      }
    } catch (const std::bad_alloc&) {
      // This thread's first guard: the versions will be freed because of their times.
    }
  }

  [[nodiscard]] bool wants_rows_of_tables() const noexcept override { return true; }

  void collect() noexcept override {
    try {
      {
        auto guard = nodes_.enter();
        look(guard);
        board_.for_each(locals_, [&](local& l) { free_old(l, ~std::uint64_t{0}, guard); });
      }
      nodes_.drain();                  // frees the memory of what was retired
    } catch (const std::bad_alloc&) {  // this thread's first guard: then another time
    }
  }

 private:
  [[nodiscard]] delta_stats figures() const noexcept override {
    delta_stats all = sum();
    all.looks = looks_.load_relaxed();
    return all;
  }

  struct alignas(cache_line) local : block_tallies {
    block* passed = nullptr;  // by the transaction under way: off the lists, to be retired
    std::uint32_t commits = 0;
    spolia::detail::short_lock lock;  // for the list, and the counts of what went
    block* first = nullptr;           // the list, ascending by `until`; not_yet comes last
    block* last = nullptr;

    void append(block& b) noexcept {
      b.kept = true;
      b.before = last;
      b.next = nullptr;
      (last == nullptr ? first : last->next) = &b;
      last = &b;
    }
    void prepend(block& b) noexcept {
      b.kept = true;
      b.before = nullptr;
      b.next = first;
      (first == nullptr ? last : first->before) = &b;
      first = &b;
    }
    block& take_off(block& b) noexcept {
      b.kept = false;
      (b.before == nullptr ? first : b.before->next) = b.next;
      (b.next == nullptr ? last : b.next->before) = b.before;
      return b;
    }
    void count_out(const block* list, bool from_between = false) noexcept {
      for (; list != nullptr; list = list->next) {
        went(1, blocks::bytes(list->words), from_between ? 1 : 0);
      }
    }
  };

  // Lists of versions that are on no writer's list.
  static void push(block*& list, block& b) noexcept { b.next = std::exchange(list, &b); }
  static block& pop(block*& list) noexcept { return *std::exchange(list, list->next); }
  static void free_all(block* list) noexcept {
    while (list != nullptr) blocks::free(&pop(list));
  }

  /// Links the new version for `a` to the first version that a snapshot needs; the ones before it
  /// go to `passed`. Cuts those that no snapshot needs out of the rest of the chain; they go to
  /// `gone`. The caller holds the row's lock, and has a guard under which it has read the scan.
  void prune(ask& a, const scan_times& scan, block*& passed, block*& gone) noexcept {
    chain_walk<block> walking(scan, changes_only());
    const std::uint64_t examined = examined_to({a.older, a.since}, walking, scan);
    const auto onto = [this](block*& list) {
      return [this, &list](block& b, std::uint64_t until) {
        if (claim(b, until)) push(list, b);
      };
    };
    const bool early = SPOLIA_FAULT("eager.passed_go_early");
    const chain_link next = walking.skip({a.older, a.since}, onto(early ? gone : passed));
    a.older = next.handle;
    block& made = blocks::of(a.handle);
    made.next_until.write(next.until);
    made.known.write(scan.known);
    walking.shorten(next, examined, onto(gone));
  }
  /// The time down to which the chain that begins at `at` has to be examined: by this scan no
  /// version can go that ended at or before it and that the last look at the chain has left.
  static std::uint64_t examined_to(chain_link at, const chain_walk<block>& walking,
                                   const scan_times& scan) noexcept {
    if (!walking.stands(at)) return 0;
    const std::uint64_t known = blocks::of(at.handle).known.read();
    return (std::min)(known, scan.ended.oldest_since(known));
  }
  /// Takes the version off its writer's list. False: the writer was faster.
  bool claim(block& b, std::uint64_t until) noexcept {
    local& of = *locals_.find(b.keeper);
    const std::lock_guard hold(of.lock);
    if (!b.kept) return false;
    of.take_off(b).until = until;
    return true;
  }

  /// Retires the versions of `list`, which are on no writer's list any more.
  void let_go(local& me, block* list, nodes::guard& guard, bool between = false) noexcept {
    if (list == nullptr) return;
    {
      const std::lock_guard hold(me.lock);
      me.count_out(list, between);
    }
    while (list != nullptr) {
      block& b = pop(list);
      if (SPOLIA_FAULT("eager.frees_at_once")) {
        blocks::free(&b);
      } else {
        guard.retire(&b, blocks::freeing{});
      }
    }
  }
  /// Frees at most so many versions of a writer that are older than all snapshots. False: there
  /// were none.
  bool free_old(local& l, std::uint64_t most, nodes::guard& guard) noexcept {
    const std::uint64_t oldest = oldest_of(*scans_.latest());
    block* old = nullptr;
    {
      const std::lock_guard hold(l.lock);
      for (; most != 0 && l.first != nullptr && l.first->until <= oldest; --most) {
        push(old, l.take_off(*l.first));
      }
    }
    const bool any = old != nullptr;
    let_go(l, old, guard);
    return any;
  }

  void look(nodes::guard& guard) noexcept {
    looks_.fetch_add_relaxed(1);
    scans_.renew(guard, [this](scan_times& found) {
      found.known = board_.living.scan(board_.clock, found.times);
    });
  }
  [[nodiscard]] bool has_room(std::uint64_t bytes, std::uint64_t most) const noexcept {
    return most == 0 || sum().bytes + bytes <= most;
  }
  [[nodiscard]] delta_stats sum() const noexcept { return sum_of_blocks(board_, locals_); }

  commit_board& board_;
  const options options_;
  scan_board<nodes> scans_;
  cells<local> locals_;
  alignas(cache_line) atomic<std::uint64_t> looks_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
