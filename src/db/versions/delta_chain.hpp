// SPDX-License-Identifier: Apache-2.0
// delta_chain.hpp: cutting versions out of the middle of a row's chain, for storages that free
// versions which no snapshot needs, also between two held snapshots.
//
// Idea:        a chain and the announced times are both sorted. One walk down both finds the
//              versions that no snapshot sees, and links the version before them to the one after
//              them.
// Cost:        the length of the chain, as far as snapshots go back, or to where the caller knows
//              that nothing can go; twice that, where versions have the changed columns only.
// Progress:    wait-free. Bound: none of its own; the thread that cuts a version out frees it.
//
// What the caller owes:
//   One thread at a time shortens a chain. (Two could undo each other: one links A to B, past the
//   versions in between, while the other cuts B out; then A leads to a freed version.) Writers may
//   prepend versions meanwhile. So only a writer cuts out the first version of a chain: another
//   writer could have read it, and be about to link to it.
//   Every thread walks under a guard, and reads the chain's first link and the scan under it. A
//   version that was cut out is retired when it cannot be reached from the row any more.
//   Versions that ended at or before the oldest snapshot of an installed scan are retired without
//   being cut out (delta.hpp: no snapshot goes there).
// Why no freed version is reached:
//   By a reader at T. Either a retired version x was cut out before, and a reader that comes later
//   does not find it. Or x ended at or before the oldest snapshot, and so not after T; but a chain
//   leads a reader to a version only if that ended after T. This holds over gaps, too: let y lead
//   past others to z, and the reader go on from y, so that T < y.since. T is not between z's end
//   and y.since: the versions there were cut out because no snapshot was there, and none begins
//   there any more. So z ended after T.
//   By the thread that shortens. Each version notes when the one that it leads to ended. The thread
//   goes on only while that is after the oldest snapshot of the scan that it has read under its
//   guard. If a version was retired because of its time before that guard began, then by a scan
//   that was installed before. Scans follow each other (scan_board.hpp), so the thread sees that
//   scan or a later one, and stops. (The stamp of the version before would not do: over a gap the
//   next one ended earlier.)
// Why no version that is needed is cut out: the scan lists all snapshots below `known`, live or to
//   come, and only versions that ended at or before `known` are cut out. That stays true however
//   old the scan is.
//
// Versions of the changed columns only: a snapshot undoes the changes of all versions on its way,
//   the newest first (delta.hpp). Between two versions that are needed, a reader that passes one
//   version passes all, and also undoes the older needed one. So one of them is cut out if each of
//   its columns is in a version after it, down to that needed one. The others stay. For each needed
//   version these are at most as many as the table has columns, since each is the last to have one.
//   If the versions after them are gone, or may be, no reader passes them, and all are cut out.
// Why a reader that is on the way misses nothing: a version never changes, and leads to what was
//   next when it was cut out. The versions that stay in the chain are on every such way.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/version/tracked.hpp>

#include "db/versions/delta_blocks.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A position in a chain: the version that a handle leads to, and when that ended.
struct chain_link {
  std::uint64_t handle = 0;
  std::uint64_t until = 0;
};

/// The part of a block by which it is linked into such a chain.
struct chained {
  plain<std::uint64_t> next_until{};  ///< when the version that this one leads to ended
};

/// A time at or before every snapshot, live or to come.
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

  /// Whether the version certainly was not freed.
  [[nodiscard]] bool stands(chain_link at) const noexcept {
    return at.handle != 0 && (at.until > freed_ || SPOLIA_FAULT("chain.walks_on"));
  }

  /// The first version from `at` on that is needed, or may be gone, or alone has one of its
  /// columns. Calls cut(block, until) for those before it. The next call begins after that version.
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

  /// Cuts out the versions after the one at `at` that no snapshot needs, as far down as to
  /// `examined`: what ended at or before that was examined before.
  template <class Cut>
  void shorten(chain_link at, std::uint64_t examined, Cut&& cut) {
    while (stands(at) && at.until > examined) {
      Block& b = blocks::of(at.handle);
      const chain_link was = next_of(b);
      at = skip(was, cut);
      if (at.handle == was.handle) continue;
      b.next_until.write(at.until);
      // relaxed: the version that it leads to was there before this version was.
      blocks::in(b).older.store_relaxed(at.handle);
    }
  }

 private:
  static chain_link next_of(Block& b) noexcept {
    return {blocks::in(b).older.load_relaxed(), b.next_until.read()};
  }

  /// Counts the versions from `at` on that no snapshot sees, up to the first that is needed, and
  /// notes for each column the last version that has it. Where versions are whole rows, one step
  /// ahead is enough.
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
  // Of the versions that were looked at ahead:
  std::uint64_t left_ = 0;                        // how many were not passed yet
  std::uint64_t depth_ = 0;                       // of the last that was passed, from 1
  bool nobody_passes_ = false;                    // no reader passes them
  std::uint64_t last_whole_ = 0;                  // the depth of the last whole row; 0: none
  std::array<std::uint64_t, most_columns> last_;  // the depth of the last that has each column
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
