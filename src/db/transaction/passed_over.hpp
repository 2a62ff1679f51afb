// SPDX-License-Identifier: Apache-2.0
// passed_over.hpp: notes parts of ordered indexes in which a transaction sees no row, so that its
// next scans skip them. Internal.
//
// Idea:        suppose that a transaction takes the first row of a range, erases it, and scans
//              again. Each scan would visit all entries that it has erased before. So a scan that
//              has visited some entries without a row before its first row notes the position of
//              that row, and the next scan of the same range begins there. So each entry is visited
//              a few times, however many there are.
// Why no row is missed: a row that a snapshot does not see it never sees, whatever others commit.
//              The transaction's own rows that it does not see come back only in two ways: it adds
//              an entry to the index, which ends the noted part at that entry; or it rolls back to
//              a savepoint, which ends all parts. An insertion that is refused does no more than
//              that. A scan shows what was there when it began. So entries that it visits after the
//              first call of its function, which may have changed rows, are not noted.
// Memory:      a few parts for each session, of the ranges that were scanned last. If there is no
//              memory for them, scans are slower, and nothing fails.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/config.hpp>
#include <spolia/db/schema.hpp>

#include "db/transaction/workspace.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A position in an ordered index. In a primary index, whose keys have one slot each, the slot is
/// 0.
struct index_position {
  key_words key{};  // zeros after the words of the key
  std::uint64_t slot = 0;

  friend bool operator==(const index_position&, const index_position&) = default;
  friend auto operator<=>(const index_position&, const index_position&) = default;
};

/// From `first` on, in the scan's direction, the transaction sees no row before `edge`.
struct passed_part {
  const void* index;  // the table of a primary one
  bool down;
  index_position first;
  index_position edge;

  [[nodiscard]] bool before(const index_position& a, const index_position& b) const noexcept {
    return down ? b < a : a < b;
  }
  /// Whether `position` is in the part, or at its edge.
  [[nodiscard]] bool reaches(const index_position& position) const noexcept {
    return !before(position, first) && !before(edge, position);
  }
};

class passed_over {
 public:
  /// A scan that visits fewer entries without a row notes no part: so most scans note none.
  static constexpr std::uint32_t few = 16;

  explicit passed_over(work_account& to) : parts_(counted<passed_part>(to, false)) {}

  [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
  /// The position at which a scan from `first` on may begin.
  [[nodiscard]] index_position begin_at(const void* index, bool down,
                                        const index_position& first) const noexcept {
    for (const passed_part& p : parts_) {
      if (p.index == index && p.down == down && p.reaches(first)) return p.edge;
    }
    return first;
  }
  /// Notes a part in which the transaction sees no row. Merges it with a noted one that it meets.
  void add(const passed_part& part) noexcept {
    const auto same = std::find_if(parts_.begin(), parts_.end(), [&](const passed_part& p) {
      return p.index == part.index && p.down == part.down &&
             (p.reaches(part.first) || part.reaches(p.first));
    });
    if (same != parts_.end()) {
      if (part.before(part.first, same->first)) same->first = part.first;
      if (part.before(same->edge, part.edge)) same->edge = part.edge;
      return;
    }
    if (parts_.size() == most) return void(parts_[next_++ % most] = part);
    try {
      parts_.push_back(part);
    } catch (const std::bad_alloc&) {
      return;  // the next scan visits these entries again
    }
  }
  /// To be called when the transaction adds an entry there, at which it may see a row.
  void show_at(const void* index, const index_position& position) noexcept {
    for (passed_part& p : parts_) {
      if (p.index == index && p.reaches(position)) p.edge = position;
    }
  }
  /// Forgets all parts: any row may be seen again.
  void forget() noexcept { parts_.clear(); }
  void keep_nothing() noexcept { clear_and_shrink(parts_, kept_memory::none); }

 private:
  static constexpr std::size_t most = 4;

  counted_vector<passed_part> parts_;
  std::size_t next_ = 0;  // the part that is replaced next, counted on
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
