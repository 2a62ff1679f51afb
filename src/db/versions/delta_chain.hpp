// SPDX-License-Identifier: Apache-2.0
// delta_chain.hpp: taking versions out of the middle of a row's chain, for storages that let go of
// what no snapshot needs, also between two that are held.
//
// Idea:        a chain and the announced times are both sorted; one walk down both finds the
//              versions that no snapshot sees, and the one in front of them is made to lead past
//              them.
// Cost:        the length of the chain, as far as snapshots go back, or to where the caller knows
//              that there is nothing; twice, where versions have the changed columns only.
// Progress:    wait-free. Bound: none of its own; a version is freed by the thread that cuts it
//              out.
//
// What the caller owes:
//   One at a time shortens a chain. (Two could undo each other: one makes A lead to B, past what
//   lies between, while the other takes B out; then A leads to what is freed.) Writers may push in
//   front meanwhile: the first version of the chain, which a writer has read and is about to lead
//   to, is not cut out but by that writer itself.
//   Every thread walks under a guard, and reads the chain's first link and the scan under it. What
//   was cut out is retired, once it cannot be reached from the row.
//   Versions that ended at or before the oldest snapshot of an installed scan are retired without
//   being cut out (delta.hpp: no snapshot goes there).
// Why no freed version is reached:
//   By a reader at T. A retired version x was either cut out before, so a reader that comes later
//   does not find it; or it ended at or before the oldest snapshot, and so before T: but a reader
//   is led to a version only if that ended after T. This holds over gaps, too: if y leads past
//   others to z, then T < y.since, and T is not between z's end and y.since, for what lies there
//   was cut out because no snapshot was there, and none begins there any more. By the thread that
//   shortens. Each version notes when the one that it leads to ended. The thread goes on only while
//   that is after the oldest snapshot of the scan that it has read under its guard. What was
//   retired by its time before that guard began was so on account of a scan installed before; scans
//   follow each other (scan_board.hpp), so the thread sees that one or a later one, and stops. (The
//   stamp of the version before would not do: over a gap the next one ended earlier.)
// Why no version that is needed is cut out: the scan lists all snapshots below `known`, live or to
//   come, and only what ended at or before that is cut out. It stays true however old the scan is.
//
// Versions of the changed columns only: a snapshot takes back what each version on its way knows,
//   the older the later (delta.hpp). Between two versions that are needed, a reader that passes
//   one passes all, and takes back the older needed one, too. So one of them is cut out if each of
//   its columns is in one after it, as far as to that needed one. Others stay: for each that is
//   needed at most as many as the table has columns, since each is the last to have one. If what is
//   after them is gone, or may be, no reader passes them, and all are cut out.
// Why a reader that is on the way misses nothing: a version never changes, and leads to what was
//   next when it was cut out; what stays in the chain is on every such way.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/version/tracked.hpp>

#include "db/versions/delta_blocks.hpp"
#include "db/versions/delta_walk.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A place in a chain: the version that a handle leads to, and when that ended.
struct chain_link {
  std::uint64_t handle = 0;
  std::uint64_t until = 0;
};

/// What a block has that lies in such a chain.
struct chained {
  plain<std::uint64_t> next_until{};  ///< when the version that this one leads to ended
};

/// At or before every snapshot, live or to come.
inline std::uint64_t oldest_of(const scan_times& scan) noexcept {
  return scan.times.empty() ? scan.known : (std::min)(scan.known, scan.times.front());
}

/// One walk down a chain.
template <class Block>
class chain_walk {
  using blocks = delta_blocks<Block>;

 public:
  chain_walk(const scan_times& scan, bool changes_only) noexcept
      : known_(scan.known),
        freed_(oldest_of(scan)),
        times_(scan),
        in_parts_(changes_only && !SPOLIA_FAULT("chain.columns_not_asked")) {}

  /// Whether the version is certain to be there.
  [[nodiscard]] bool stands(chain_link at) const noexcept {
    return at.handle != 0 && (at.until > freed_ || SPOLIA_FAULT("chain.walks_on"));
  }

  /// The first version from `at` on that is needed, or may be gone, or alone has one of its
  /// columns. Calls cut(block, until) for those before it. What it is called with next is after
  /// that.
  template <class Cut>
  chain_link skip(chain_link at, Cut&& cut) {
    for (;;) {
      if (left_ == 0) look_ahead(at);
      if (left_ == 0) return at;
      --left_;
      ++depth_;
      Block& b = blocks::of(at.handle);
      if (in_parts_ && !nobody_passes_ && !is_covered(blocks::in(b).columns.read())) return at;
      const chain_link next = next_of(b);
      cut(b, at.until);
      at = next;
    }
  }

  /// Cuts out what no snapshot needs after the version at `at`, of what ended after `examined`.
  template <class Cut>
  void shorten(chain_link at, std::uint64_t examined, Cut&& cut) {
    while (stands(at) && at.until > examined) {
      Block& b = blocks::of(at.handle);
      const chain_link was = next_of(b);
      at = skip(was, cut);
      if (at.handle == was.handle) continue;
      b.next_until.write(at.until);
      // relaxed: what it leads to was there before this version was.
      blocks::in(b).older.store_relaxed(at.handle);
    }
  }

 private:
  static chain_link next_of(Block& b) noexcept {
    return {blocks::in(b).older.load_relaxed(), b.next_until.read()};
  }

  /// Counts the versions from `at` on that no snapshot sees, up to the first that is needed, and
  /// notes which is the last to have each column. Of whole rows one will do.
  void look_ahead(chain_link at) noexcept {
    depth_ = 0;
    last_whole_ = 0;
    while (stands(at) && at.until <= known_) {
      Block& b = blocks::of(at.handle);
      times_.pass(at.until);
      if (in_parts_) note(blocks::in(b).columns.read(), left_ + 1);
      if (times_.any_from(blocks::in(b).since.read()) && !SPOLIA_FAULT("chain.times_not_asked")) {
        break;
      }
      at = next_of(b);
      ++left_;
      if (!in_parts_) return;
    }
    nobody_passes_ = !stands(at);
  }
  void note(std::uint64_t columns, std::uint64_t depth) noexcept {
    if (columns == every_column) {
      last_whole_ = depth;
    } else {
      each_column(columns, [&](std::uint32_t c) { last_[c] = depth; });
    }
  }
  /// Whether versions after the one at `depth_` have all of its columns.
  [[nodiscard]] bool is_covered(std::uint64_t columns) const noexcept {
    if (last_whole_ > depth_) return true;
    if (columns == every_column) return false;
    bool all = true;
    each_column(columns, [&](std::uint32_t c) { all = all && last_[c] > depth_; });
    return all;
  }

  const std::uint64_t known_;
  const std::uint64_t freed_;
  time_cursor times_;
  const bool in_parts_;
  // Of those that were looked at ahead:
  std::uint64_t left_ = 0;   // not passed yet
  std::uint64_t depth_ = 0;  // of the last that was passed, from 1
  bool nobody_passes_ = false;
  std::uint64_t last_whole_ = 0;                  // the depth of the last whole row; 0: none
  std::array<std::uint64_t, most_columns> last_;  // of the last that has a column, if one has
};

/// walk() for readers: inside a guard, entered before it is read where the chain begins, or after
/// that, which is the fault `early`. Throws std::bad_alloc.
template <class Nodes, class At>
const version* walk_guarded(Nodes& nodes, const atomic<std::uint64_t>& chain, std::uint64_t time,
                            const taking_back* on_the_way, chain_lengths& lengths, At&& at,
                            bool early) {
  if (early) {
    const atomic<std::uint64_t> begin(chain.load_acquire());  // as in walk()
    auto late = nodes.enter();
    return walk(begin, time, on_the_way, lengths, at);
  }
  auto guard = nodes.enter();
  return walk(chain, time, on_the_way, lengths, at);
}

/// visit_together() and fetch_together() for such readers.
template <class Nodes, class At>
void visit_guarded(Nodes& nodes, std::span<const old_row> rows, std::uint64_t time,
                   chain_lengths& lengths, At&& at, version_taker& take) {
  if (SPOLIA_FAULT("chain.visits_without_guard")) {
    return visit_together(rows, time, lengths, at, take);
  }
  auto guard = nodes.enter();
  visit_together(rows, time, lengths, at, take);
}
template <class Nodes, class At>
void fetch_guarded(Nodes& nodes, std::span<const old_row> rows, std::uint64_t time, At&& at) {
  if (SPOLIA_FAULT("chain.fetches_without_guard")) return fetch_together(rows, time, at);
  auto guard = nodes.enter();
  fetch_together(rows, time, at);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
