// SPDX-License-Identifier: Apache-2.0
// delta_between.hpp: the common part of the one-shot storages that also drop partitions between two
// held snapshots: links that may be dead, drops over which readers may be walking, and the times of
// all snapshots. Which partitions may be dropped so, and how a reader gets over the gap, is for the
// storages: delta_consolidated.hpp, delta_evacuated.hpp.
//
// Why a version that a reader reads is whole: memory of versions that ended after the reader's T is
//   given away only through the domain, under whose guard it walks. The reader takes the address of
//   a chunk first, and checks the tag afterwards; a drop takes the chunks out, and changes the tag
//   before a new chunk comes.
// Why a tag does not come back while a reader has it (tags wrap round). Only snapshots older than
//   the last commit of one life of a partition follow a link into that life. After each quarter of
//   all tags a partition notes the time, and is not dropped again before the snapshots from before
//   the last note have ended. So none of them meets the same tag again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/versions/delta_one_shot.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_between : public delta_one_shot {
 protected:
  using nodes = region_domain;

  delta_between(commit_board& board, const options& o, unsigned lanes, bool walked = false)
      : delta_one_shot(board, o, lanes, walked), nodes_(impatient()) {}

  /// Up to one part in so many of all partitions, and of the budget, may be in use without hurry.
  static constexpr unsigned share = 2;
  /// How many bytes of dropped partitions may wait for readers before the domain is drained.
  [[nodiscard]] std::uint64_t most_waiting() const noexcept {
    constexpr std::uint64_t most = std::uint64_t{4} << 20U;
    return options_.budget == 0 ? most : (std::min)(most, options_.budget / 16);
  }

  /// The memory of a partition over which readers may be walking.
  struct gap : nodes::header {
    gap(delta_chunks& to, std::size_t chunks) : of(to) { memory_of.reserve(chunks); }
    ~gap() {
      of.end_wait(memory_of.size() * delta_chunks::bytes);
      for (std::byte* const c : memory_of) of.give(c);
    }
    /// Takes one chunk of it; the other function takes all.
    void take(delta_partition& p, std::uint64_t chunk) noexcept {
      memory_of.push_back(p.take_piece(chunk));
      of.begin_wait(delta_chunks::bytes);
    }
    void take(delta_partition& p) noexcept {
      p.move_out(memory_of);
      of.begin_wait(memory_of.size() * delta_chunks::bytes);
    }
    delta_chunks& of;
    std::vector<std::byte*> memory_of;
  };

  [[nodiscard]] delta_stats figures() const noexcept override {
    delta_stats all = delta_one_shot::figures();
    all.dropped_between = dropped_between_.value();
    return all;
  }

  /// The version, or null if its partition was dropped since. Under a guard, or by a writer that is
  /// registered there.
  const version* alive(std::uint64_t handle) const noexcept {
    const delta_partition& p = ring_.at(tagged::partition_of(handle));
    const std::uint64_t position = tagged::position_of(handle);
    const bool early = SPOLIA_FAULT("between.tag_before_address") && tag_is_right(p, handle);
    // The address before the tag: see "Why a version that a reader reads is whole".
    const std::byte* const place = p.address_or_null(position);
    const bool alive = early || SPOLIA_FAULT("between.tag_not_asked") || tag_is_right(p, handle);
    return alive ? reinterpret_cast<const version*>(place) : nullptr;
  }
  static bool tag_is_right(const delta_partition& p, std::uint64_t handle) noexcept {
    return tagged::tag_of(handle) == tagged::tag(p.generation());
  }

  /// Walks down from `handle` to the version for `time`. Null: then `handle` is 0 (the end of the
  /// chain), or a dead link, or `most` versions were looked at. Adds the number of these to
  /// `length`.
  const version* descend(std::uint64_t& handle, std::uint64_t time, std::uint64_t& length,
                         std::uint64_t most = ~std::uint64_t{0}) const noexcept {
    for (; handle != 0 && most != 0; --most) {
      const version* const v = alive(handle);
      if (v == nullptr) return nullptr;
      ++length;
      if (v->since.read() <= time) return v;
      const std::uint64_t from = std::exchange(handle, v->older.load_relaxed());
      if (SPOLIA_FAULT("between.stays_in_the_piece") &&
          tagged::partition_of(from) != tagged::partition_of(handle)) {
        return nullptr;
      }
    }
    return nullptr;
  }

  void look() noexcept override {
    try {
      // Not under the lock: a scan takes so long that its thread may be interrupted.
      std::vector<std::uint64_t> times;
      times.reserve(64);
      const std::uint64_t known = board_.living.scan(board_.clock, times);
      const std::uint64_t oldest = times.empty() ? known : (std::min)(known, times.front());
      const std::lock_guard hold(times_lock_);
      if (known < known_) return;  // another thread has looked later
      known_ = known;
      times_.swap(times);
      looked(oldest);
    } catch (const std::bad_alloc&) {
      forget_times();
      delta_one_shot::look();
    }
  }
  /// Forgets the snapshots: no partition between two of them is dropped until the next look.
  void forget_times() noexcept {
    const std::lock_guard hold(times_lock_);
    known_ = 0;
  }
  /// Whether one of the snapshots is at or after `from` and before `end`. Under the lock.
  [[nodiscard]] bool any_snapshot(std::uint64_t from, std::uint64_t end) const noexcept {
    return any_in(times_, from, end);
  }
  /// The same for any ascending times.
  static bool any_in(const std::vector<std::uint64_t>& times, std::uint64_t from,
                     std::uint64_t end) noexcept {
    const auto first = std::lower_bound(times.begin(), times.end(), from);
    return first != times.end() && *first < end;
  }

  /// Drains the domain. Drops are rare, and so are guards while no reader goes over gaps: without
  /// this the domain would free the memory only after many periods.
  void drain() noexcept {
    try {
      nodes_.drain();
    } catch (const std::bad_alloc&) {
      return;  // the next period does it
    }
  }
  /// Whether so much is in use that partitions are to be dropped in a hurry. `others`: other bytes
  /// that count in the budget.
  bool much_in_use(std::uint64_t others = 0) const noexcept {
    if (options_.budget != 0 && memory_.held() + others > options_.budget / share) return true;
    std::uint32_t used = 0;
    for (std::uint32_t i = 0, end = ring_.count(); i < end; ++i) {
      if (!ring_.at(i).empty() && !lanes_.has(ring_.at(i))) ++used;
    }
    return used > options_.most_partitions / share;
  }

  mutable nodes nodes_;
  // Taken by commits and readers, of which a fork's child has none, and by no destructor.
  spolia::detail::short_lock times_lock_;
  std::vector<std::uint64_t> times_;
  std::uint64_t known_ = 0;
  shared_tally dropped_between_;  // versions

 private:
  /// Blocks that are retired here have megabytes each, and are rare: a thousand must not wait.
  static nodes::options impatient() {
    nodes::options o;
    o.scheme.patience = 2;
    return o;
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
