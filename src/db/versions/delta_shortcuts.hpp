// SPDX-License-Identifier: Apache-2.0
// delta_shortcuts.hpp: what one snapshot's readers have found out about dead links: where the chain
// of each row goes on for them. delta_consolidated.hpp says when they are made.
//
// Idea:        a reader that meets a dead link looks the row up in one block of entries after the
//              other, and there may be a hundred of them. So when readers of a snapshot have looked
//              into as many as there are entries, all entries that may lead to what the snapshot
//              sees are put into one array, by row. A scan comes to the rows in that order: it goes
//              over the array once.
// Cost:        16 bytes for each row; while it is made, 48 bytes more for each entry.
// Threads:     it does not change. Protected by the domain that bridges are protected by.
// Right or wrong: a row that is not there, or whose handle leads to what was dropped meanwhile, is
//              looked for as if there were no shortcuts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/versions/delta_bridge.hpp"
#include "db/versions/delta_chunks.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_shortcuts : public region_domain::header {
 public:
  struct entry {
    std::uint64_t row;
    std::uint64_t until;  ///< when the version at `head` ended
    std::uint64_t head;   ///< a handle
  };

  /// For snapshots of this time only, of what ended after it. Throws std::bad_alloc.
  static delta_shortcuts* make(delta_chunks& of, std::uint64_t time, std::vector<entry>& all) {
    sort_by_row(all);
    std::size_t rows = 0;
    for (const entry& e : all) {
      if (rows == 0 || all[rows - 1].row != e.row) {
        all[rows++] = e;
      } else if (e.until < all[rows - 1].until) {
        all[rows - 1] = e;  // what the snapshot sees is in the oldest of these pieces, or before it
      }
    }
    all.resize(rows);
    const std::size_t bytes = bytes_for(all.size());
    auto* const made = ::new (memory::allocate(bytes, align)) delta_shortcuts(of, time, all.size());
    of.count(bytes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      (::new (made->rows() + i) plain<std::uint64_t>)->write(all[i].row);
      (::new (made->heads() + i) plain<std::uint64_t>)->write(all[i].head);
    }
    return made;
  }
  [[nodiscard]] std::uint64_t time() const noexcept { return time_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_for(count_); }
  static constexpr std::size_t bytes_for(std::size_t rows) noexcept {
    return sizeof(delta_shortcuts) + rows * 2 * sizeof(plain<std::uint64_t>);
  }

  /// Where the row's chain goes on; 0: it is not known. `near` is where the row before it was
  /// looked for, or 0.
  [[nodiscard]] std::uint64_t head_of(std::uint64_t row, std::size_t& near) const noexcept {
    constexpr std::size_t few = 8;
    const std::size_t begin = near;
    if (begin < count_ && rows()[begin].read() <= row) {
      const std::size_t end = (std::min)(count_, begin + few);
      while (near < end && rows()[near].read() < row) ++near;
      if (near == end && near != count_) near = position_of(row);
    } else {
      near = position_of(row);
    }
    return near < count_ && rows()[near].read() == row ? heads()[near].read() : 0;
  }

  static void free(delta_shortcuts* s) noexcept {
    const std::size_t all = s->bytes();
    s->of_.uncount(all);
    s->~delta_shortcuts();
    memory::deallocate(s, all, align);
  }
  /// For a domain; the bytes were said to wait.
  struct ending {
    void operator()(delta_shortcuts* s) const noexcept {
      s->of_.end_wait(s->bytes());
      free(s);
    }
  };

 private:
  static constexpr std::size_t align = alignof(std::max_align_t);

  delta_shortcuts(delta_chunks& of, std::uint64_t time, std::size_t count) noexcept
      : of_(of), time_(time), count_(count) {}

  /// Goes over all of them once for each 11 bits in which their rows differ: those of one table do
  /// in few.
  static void sort_by_row(std::vector<entry>& all) {
    constexpr unsigned bits = 11;
    constexpr std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::uint64_t differ = 0;
    for (const entry& e : all) differ |= e.row ^ all.front().row;
    std::vector<entry> sorted(all.size());
    for (unsigned shift = 0; shift < 64; shift += bits) {
      if ((differ >> shift & mask) == 0) continue;
      std::array<std::size_t, mask + 1> next{};  // where the next one goes that has these bits
      for (const entry& e : all) ++next[e.row >> shift & mask];
      std::size_t sum = 0;
      for (std::size_t& n : next) sum += std::exchange(n, sum);
      for (const entry& e : all) sorted[next[e.row >> shift & mask]++] = e;
      all.swap(sorted);
    }
  }
  plain<std::uint64_t>* rows() noexcept {
    return reinterpret_cast<plain<std::uint64_t>*>(this + 1);
  }
  [[nodiscard]] const plain<std::uint64_t>* rows() const noexcept {
    return reinterpret_cast<const plain<std::uint64_t>*>(this + 1);
  }
  plain<std::uint64_t>* heads() noexcept { return rows() + count_; }
  [[nodiscard]] const plain<std::uint64_t>* heads() const noexcept { return rows() + count_; }
  /// Of the first that is not below the row.
  [[nodiscard]] std::size_t position_of(std::uint64_t row) const noexcept {
    std::size_t first = 0;
    std::size_t end = count_;
    while (first < end) {
      const std::size_t middle = first + (end - first) / 2;
      if (rows()[middle].read() < row) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    return first;
  }

  delta_chunks& of_;
  const std::uint64_t time_;
  const std::size_t count_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
