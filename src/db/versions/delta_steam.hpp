// SPDX-License-Identifier: Apache-2.0
// delta_steam.hpp: Steam: each version is a block of its own, and is freed by itself.
//
// Source:      Böttcher et al.: Scalable Garbage Collection for In-Memory MVCC Systems, VLDB 2020
//              (Steam), as the baseline of Raza et al., SIGMOD 2023, section 7.1.
// Idea:        each writer has its ended versions on a list, in the order in which they ended.
//              After a commit it frees those at the front that ended no later than the oldest
//              snapshot began.
// Cost:        an allocation and a free for each version, which reads the version; one scan of the
//              census in `look_every` commits. A commit frees at most twice as many versions as it
//              has made, and `freed_at_once`.
// Progress:    a lock for each writer, which only collect() contends for.
// Bound:       the versions that ended after the oldest snapshot began, and those that ended in the
//              last `look_every` commits of each writer. Unbounded while a snapshot is held; when
//              it has ended, each commit frees some of the versions that it held. Writers that stop
//              leave theirs to collect().
// Handles:     addresses.
//
// Departures from the paper:
//   D1  Chains are not cut: readers do not go where versions are freed (delta.hpp), so freeing one
//       needs neither the row nor its lock. That makes this Steam faster than the published one.
//   D2  The oldest snapshot is the true one, of all threads. The census is scanned once in
//       `look_every` commits instead of after each: a scan needs a barrier in all threads.
//   D3  No eager pruning: versions between two snapshots stay. delta_steam_eager.hpp has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/db/version_storage.hpp>

#include "db/versions/delta_blocks.hpp"
#include "db/versions/delta_walk.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_steam final : public delta {
  /// The header of a version.
  struct block {
    block* next = nullptr;
    std::uint64_t until = 0;
    std::uint32_t words = 0;
  };
  using blocks = delta_blocks<block>;

 public:
  static constexpr version_storage_info info{.storage = version_storage::steam, .name = "steam"};

  struct options {
    std::uint32_t look_every = 64;  ///< commits of a writer between two scans of the census
  };

  delta_steam(commit_board& board, const options& o) : board_(board), options_(o) {}
  explicit delta_steam(commit_board& board) : delta_steam(board, options()) {}

  ~delta_steam() override {
    board_.for_each(locals_, [](local& l) { free_chain(l.first); });
  }

  bool reserve(std::uint32_t writer, std::span<ask> asks, std::uint64_t most) override {
    local& me = locals_.of(writer);
    const std::uint64_t bytes = blocks::bytes(asks);
    if (!has_room(bytes, most)) {
      look();
      board_.for_each(locals_, [&](local& l) {
        while (!has_room(bytes, most) && free_old(l, freed_at_once)) {
        }
      });
      if (!has_room(bytes, most)) return false;
    }
    block* made = nullptr;
    block* last = nullptr;
    try {
      for (ask& a : asks) {
        block* const b = blocks::make(a);
        b->next = made;
        made = b;
        if (last == nullptr) last = b;
      }
    } catch (...) {
      free_chain(made);
      throw;
    }
    me.open = made;
    me.open_last = last;
    me.open_bytes = bytes;
    me.came(asks.size(), bytes);
    return true;
  }

  void published(std::uint32_t writer, std::uint64_t commit) noexcept override {
    local& me = locals_.of(writer);
    std::uint64_t made = 0;
    if (me.open != nullptr) {
      for (block* b = me.open; b != nullptr; b = b->next, ++made) b->until = commit;
      const std::lock_guard hold(me.lock);
      (me.last == nullptr ? me.first : me.last->next) = me.open;
      me.last = me.open_last;
      me.open = nullptr;
    }
    if (++me.commits % options_.look_every == 0) look();
    free_old(me, 2 * made + freed_at_once);
  }

  void cancel(std::uint32_t writer) noexcept override {
    local& me = locals_.of(writer);
    std::uint64_t count = 0;
    for (block* b = me.open; b != nullptr; b = b->next) ++count;
    const std::lock_guard hold(me.lock);
    me.went(count, me.open_bytes);
    free_chain(std::exchange(me.open, nullptr));
  }

  [[nodiscard]] const version* find(const atomic<std::uint64_t>& chain, std::uint64_t /*row*/,
                                    std::uint64_t time,
                                    const taking_back* on_the_way) const override {
    return walk(chain, time, on_the_way, lengths_, version_at);
  }
  void visit(std::span<const old_row> rows, std::uint64_t time, const taking_back* on_the_way,
             version_taker& take) const override {
    if (rows.size() == 1) return delta::visit(rows, time, on_the_way, take);
    visit_together(rows, time, lengths_, version_at, take);
  }
  void fetch(std::span<const old_row> rows, std::uint64_t time) const override {
    fetch_together(rows, time, version_at);
  }

  void collect() noexcept override {
    look();
    board_.for_each(locals_, [&](local& l) { free_old(l, ~std::uint64_t{0}); });
  }

 private:
  [[nodiscard]] delta_stats figures() const noexcept override {
    delta_stats all = sum();
    all.looks = looks_.load_relaxed();
    return all;
  }

  struct alignas(cache_line) local : block_tallies {
    block* open = nullptr;  // of the transaction under way; the writer's
    block* open_last = nullptr;
    std::uint64_t open_bytes = 0;
    std::uint32_t commits = 0;
    spolia::detail::short_lock lock;  // for what follows
    block* first = nullptr;           // ended, the oldest first; and what went
    block* last = nullptr;
  };

  static void free_chain(block* b) noexcept {
    while (b != nullptr) blocks::free(std::exchange(b, b->next));
  }

  void look() noexcept {
    looks_.fetch_add_relaxed(1);
    // Any value that oldest() ever gave stays true: an older one that overtakes a newer one here
    // keeps too much for a while. release → the acquire in free_old().
    oldest_.store_release(board_.living.oldest(board_.clock));
  }

  /// So many at most. False: there were none.
  bool free_old(local& me, std::uint64_t most) noexcept {
    // acquire ← the release in look(): what the readers did whose withdrawal that look has seen
    // happens before the freeing.
    const std::uint64_t oldest =
        SPOLIA_FAULT("steam.minimum_not_asked") ? not_yet : oldest_.load_acquire();
    block* old = nullptr;
    {
      const std::lock_guard hold(me.lock);
      if (me.first == nullptr || me.first->until > oldest) return false;
      old = me.first;
      block* end = old;
      std::uint64_t bytes = blocks::bytes(end->words);
      std::uint64_t count = 1;
      for (; count < most && end->next != nullptr && end->next->until <= oldest; ++count) {
        end = end->next;
        bytes += blocks::bytes(end->words);
      }
      me.first = end->next;
      if (me.first == nullptr) me.last = nullptr;
      end->next = nullptr;
      me.went(count, bytes);
    }
    free_chain(old);
    return true;
  }

  [[nodiscard]] bool has_room(std::uint64_t bytes, std::uint64_t most) const noexcept {
    return most == 0 || sum().bytes + bytes <= most;
  }
  [[nodiscard]] delta_stats sum() const noexcept { return sum_of_blocks(board_, locals_); }

  commit_board& board_;
  const options options_;
  cells<local> locals_;
  alignas(cache_line) atomic<std::uint64_t> oldest_{0};
  atomic<std::uint64_t> looks_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
