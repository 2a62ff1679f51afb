// SPDX-License-Identifier: Apache-2.0
// passed_over.hpp: where a transaction's scans of ordered indexes begin that would first pass over
// rows which it does not see. Internal.
//
// Idea:        a transaction that takes the first row of a range, erases it, and looks again meets
//              each time all entries that it has erased before. So a scan that has passed over some
//              before its first row leaves where that row is, and the next one of the same range
//              begins there: each entry is passed over a few times, however many there are.
// Why nothing is left out: what a snapshot does not see it never does, whatever others commit. What
//              the transaction does not see of its own it sees again only when it adds an entry to
//              the index, which ends the part that is passed over there, or when it goes back to a
//              savepoint, which ends all of them. An insertion that is refused has done no more
//              than that. A scan shows what was there when it began: so what it has met after its
//              function was called first, which may have changed rows, is of no use here.
// What it takes: a few parts for each session, of the ranges that were scanned last. Where there is
//              no memory for them, scans are slower and nothing fails.
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

/// A position in an ordered index. Of a primary one, whose keys have one slot each, the slot is 0.
struct index_position {
  key_words key{};  // zeros after the words of the key
  std::uint64_t slot = 0;

  friend bool operator==(const index_position&, const index_position&) = default;
  friend auto operator<=>(const index_position&, const index_position&) = default;
};

/// From `first` on, in the way of the scan, the transaction sees nothing before `edge`.
struct passed_part {
  const void* index;  // the table of a primary one
  bool down;
  index_position first;
  index_position edge;

  [[nodiscard]] bool before(const index_position& a, const index_position& b) const noexcept {
    return down ? b < a : a < b;
  }
  /// What `position` is in it, or at its edge.
  [[nodiscard]] bool reaches(const index_position& position) const noexcept {
    return !before(position, first) && !before(edge, position);
  }
};

class passed_over {
 public:
  /// A scan that passes over fewer leaves nothing: most do.
  static constexpr std::uint32_t few = 16;

  explicit passed_over(work_account& to) : parts_(counted<passed_part>(to, false)) {}

  [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
  /// Where a scan from there may begin.
  [[nodiscard]] index_position begin_at(const void* index, bool down,
                                        const index_position& first) const noexcept {
    for (const passed_part& p : parts_) {
      if (p.index == index && p.down == down && p.reaches(first)) return p.edge;
    }
    return first;
  }
  /// The transaction sees nothing there. What it knew of a part that this one meets is in it.
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
      return;  // the next scan passes over it again
    }
  }
  /// The transaction adds an entry: there it may see a row.
  void show_at(const void* index, const index_position& position) noexcept {
    for (passed_part& p : parts_) {
      if (p.index == index && p.reaches(position)) p.edge = position;
    }
  }
  /// Any row may be seen again.
  void forget() noexcept { parts_.clear(); }
  void keep_nothing() noexcept { clear_and_shrink(parts_, kept_memory::none); }

 private:
  static constexpr std::size_t most = 4;

  counted_vector<passed_part> parts_;
  std::size_t next_ = 0;  // to be replaced
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
