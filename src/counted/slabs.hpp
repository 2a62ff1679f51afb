// SPDX-License-Identifier: Apache-2.0
// slabs.hpp: the memory that blocks of one size are cut from, and how it goes back.
//
// Idea:        a slab is a row of units, of 8 KiB or a page, whichever is larger, and each unit has
//              a list of its own of free blocks. When all blocks of a unit are there, the system
//              gets its pages back, and the unit waits for being cut again; when all units of a
//              slab have gone so, the allocator gets the slab. Pages, since what ends in random
//              order leaves a block or two in nearly every slab for long, but seldom in every page.
//              Slabs below 2 MiB are one unit.
// Order:       blocks are taken from the unit with the lowest address that has some, so that those
//              above empty.
// Threads:     one at a time; the caller has a lock.
// Errors:      take throws std::bad_alloc, and then nothing has changed; put_back never fails.
// Cost:        take: constant for each block, and a step for each slab of the size, and each unit
//              of one slab. put_back: logarithmic in the number of slabs for each block; one call
//              of the system for each unit that empties.
#pragma once

#include <spolia/base/memory.hpp>
#include <spolia/counted/detail/pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace spolia::core::inline SPOLIA_OF_VERSION {

class slabs {
 public:
  /// At most `wanted`, and one at least.
  block_chain take(unsigned size, std::size_t wanted) {
    block_chain some;
    while (some.count < wanted && listed_ != 0) take_from(lowest_with_some(), some, wanted);
    return some.first != nullptr ? some : carve(size, wanted);
  }

  /// All must have come from here. Says how many bytes have been given back.
  std::size_t put_back(block_chain c) noexcept {
    std::size_t given = 0;
    while (c.first != nullptr) given += put_back(std::exchange(c.first, c.first->next));
    return given;
  }

  /// Bytes that the slabs take, but for the pages that were given back to the system.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t line = block_cache::line;
  static constexpr std::size_t least_slab = std::size_t{8} << 10U;
  static constexpr std::size_t huge_page = std::size_t{2} << 20U;

  struct unit {
    free_block* first = nullptr;
    std::uint32_t listed = 0;  // blocks in that list
    std::uint32_t cut = 0;     // blocks that there are; 0: none yet, or the pages went back
  };
  /// Stands at the begin of its memory. In a small one the first block's head may follow 56 bytes
  /// later; in a huge one its units' figures follow, in the place of the first unit.
  struct alignas(unit) slab {
    std::uint32_t bytes;
    std::uint32_t opened;    // units that have been cut; they begin with `first_unit`
    std::uint32_t returned;  // of these, how many were given back to the system
    std::uint32_t listed;    // blocks in lists
    std::uint32_t lowest;    // no unit below has any

    [[nodiscard]] bool is_huge() const noexcept { return bytes == huge_page; }
    [[nodiscard]] std::uint32_t first_unit() const noexcept { return is_huge() ? 1 : 0; }
    [[nodiscard]] std::uint32_t units() const noexcept {
      return is_huge() ? static_cast<std::uint32_t>(huge_page / unit_bytes()) - 1 : 1;
    }
    [[nodiscard]] std::size_t align() const noexcept { return is_huge() ? huge_page : line; }
    unit& operator[](std::size_t i) noexcept { return reinterpret_cast<unit*>(this + 1)[i]; }
    unsigned char* at(std::size_t offset) noexcept {
      return reinterpret_cast<unsigned char*>(this) + offset;
    }
    std::size_t number_of(const void* block) noexcept {
      if (!is_huge()) return 0;
      return static_cast<std::size_t>(static_cast<const unsigned char*>(block) - at(0)) /
             unit_bytes();
    }
  };
  static_assert(sizeof(slab) + sizeof(unit) <= line - block_cache::step);

  static std::size_t unit_bytes() noexcept {
    static const std::size_t bytes = std::max(std::size_t{8} << 10U, page_bytes());
    return bytes;
  }

  // ---- lists

  slab& lowest_with_some() noexcept {
    while (slabs_[low_]->listed == 0) ++low_;
    return *slabs_[low_];
  }
  void take_from(slab& s, block_chain& some, std::size_t wanted) noexcept {
    while (s[s.lowest].listed == 0) ++s.lowest;
    unit& u = s[s.lowest];
    for (; some.count < wanted && u.listed != 0; ++some.count) {
      free_block* const b = std::exchange(u.first, u.first->next);
      b->next = std::exchange(some.first, b);
      --u.listed;
      --s.listed;
      --listed_;
    }
  }

  std::size_t put_back(free_block* b) noexcept {
    const auto above =
        std::upper_bound(slabs_.begin(), slabs_.end(), b, [](const void* at, const slab* s) {
          return std::less<>()(at, static_cast<const void*>(s));
        });
    const auto i = static_cast<std::size_t>(above - slabs_.begin()) - 1;
    slab& s = *slabs_[i];
    const std::size_t number = s.number_of(b);
    unit& u = s[number];
    b->next = std::exchange(u.first, b);
    ++u.listed;
    ++s.listed;
    ++listed_;
    low_ = std::min(low_, i);
    s.lowest = std::min(s.lowest, static_cast<std::uint32_t>(number));
    return u.listed == u.cut && &u != cutting_ ? give_back(i, number) : 0;
  }

  // ---- units that nothing is left of

  std::size_t give_back(std::size_t i, std::size_t number) noexcept {
    slab& s = *slabs_[i];
    unit& u = s[number];
    s.listed -= u.listed;
    listed_ -= u.listed;
    u = {};
    ++s.returned;
    if (s.returned == s.units()) return end_slab(i);  // so all have been opened
    ++returned_;
    // Else the system would fill the gap by a huge page again.
    if (s.returned == 1) advise_huge(s, false);
    forget_pages(s.at(number * unit_bytes()), unit_bytes());
    bytes_ -= unit_bytes();
    return unit_bytes();
  }
  std::size_t end_slab(std::size_t i) noexcept {
    slab* const s = slabs_[i];
    const std::size_t others = s->returned - 1;
    const std::size_t left = s->bytes - others * (s->is_huge() ? unit_bytes() : 0);
    returned_ -= others;
    bytes_ -= left;
    slabs_.erase(slabs_.begin() + static_cast<std::ptrdiff_t>(i));
    low_ = 0;
    if (fresh_ == s) fresh_ = nullptr;
    memory::deallocate(s, s->bytes, s->align());
    return left;
  }

  /// Walks through large structures miss fewer translations by huge pages. Where there are none: no
  /// matter.
  static void advise_huge([[maybe_unused]] slab& s, [[maybe_unused]] bool wanted) noexcept {
#if defined(MADV_HUGEPAGE)
    (void)madvise(&s, s.bytes, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  }

  // ---- cutting

  /// How much is to be left out before a block at `at`, so that its object lies in one line. Only
  /// objects of three words after counts of two: one in four would lie over two lines, and three
  /// blocks in two lines take 1/15 more room. Others would take a third more, or fit anyway.
  static std::size_t gap(unsigned size, const unsigned char* at) noexcept {
    constexpr std::size_t counts = 16;
    constexpr std::size_t object = 24;
    if (size != block_cache::bare_size_for(counts + object)) return 0;
    const std::size_t begin = (reinterpret_cast<std::uintptr_t>(at) + counts) % line;
    return begin + object <= line ? 0 : line - begin;
  }
  /// Where the first block of a unit begins, so that blocks lie at multiples of a cache line, or of
  /// what their stride allows, after their heads.
  static std::size_t front_of(unsigned size) noexcept {
    const std::size_t stride = block_cache::stride_of(size);
    return block_cache::has_head(size) ? std::min(line, stride & (~stride + 1)) : 0;
  }

  /// Whether the unit that is just being cut has room for one block more.
  [[nodiscard]] bool fits(unsigned size) const noexcept {
    return static_cast<std::size_t>(end_ - next_) >=
           gap(size, next_) + block_cache::stride_of(size);
  }

  block_chain carve(unsigned size, std::size_t wanted) {
    if (!fits(size)) open_unit(size);
    block_chain made;
    free_block** link = &made.first;
    for (; made.count < wanted && fits(size); ++made.count) {
      next_ += gap(size, next_);
      *link = ::new (static_cast<void*>(next_)) free_block{nullptr, nullptr, 0};
      link = &(*link)->next;
      next_ += block_cache::stride_of(size);
    }
    cutting_->cut += static_cast<std::uint32_t>(made.count);
    return made;
  }

  void open_unit(unsigned size) {
    if (returned_ != 0) return reopen_unit(size);
    if (fresh_ == nullptr || fresh_->opened == fresh_->units()) fresh_ = &add_slab();
    cut_from(*fresh_, fresh_->first_unit() + fresh_->opened++, size);
  }
  void reopen_unit(unsigned size) noexcept {
    std::size_t i = 0;
    while (slabs_[i]->returned == 0) ++i;
    slab& s = *slabs_[i];
    std::size_t number = s.first_unit();
    while (s[number].cut != 0) ++number;
    --returned_;
    if (--s.returned == 0) advise_huge(s, true);
    bytes_ += unit_bytes();
    cut_from(s, number, size);
  }
  void cut_from(slab& s, std::size_t number, unsigned size) noexcept {
    cutting_ = &s[number];
    if (s.is_huge()) {
      unsigned char* const begin = s.at(number * unit_bytes());
      next_ = begin + front_of(size);
      // The head of the block that would follow is the next unit's.
      end_ = begin + unit_bytes() + (block_cache::has_head(size) ? block_cache::step : 0);
    } else {
      next_ = s.at(line);
      end_ = s.at(s.bytes);
    }
  }

  slab& add_slab() {
    if (slabs_.size() == slabs_.capacity()) slabs_.reserve(2 * slabs_.size() + 8);
    // Where a large slab cannot be made, a smaller one may be.
    void* at = nullptr;
    std::size_t align = 0;
    for (;; slab_ /= 2) {
      align = slab_ == huge_page ? huge_page : line;
      at = ::operator new(slab_, std::align_val_t{align}, std::nothrow);
      if (at != nullptr) break;
      if (slab_ == least_slab) throw std::bad_alloc();
    }
    auto* const made = ::new (at) slab{static_cast<std::uint32_t>(slab_), 0, 0, 0, 0};
    made->lowest = made->first_unit();
    for (std::size_t i = 0; i < made->first_unit() + made->units(); ++i) {
      ::new (static_cast<void*>(&(*made)[i])) unit;
    }
    // After the first page has been written: else the system makes a huge page at once, for which
    // it may have to move others together, and the thread waits for milliseconds. Now it does so
    // later, beside us.
    if (made->is_huge()) advise_huge(*made, true);
    slabs_.insert(std::upper_bound(slabs_.begin(), slabs_.end(), made, std::less<>()), made);
    low_ = 0;
    bytes_ += slab_;
    slab_ = std::min(2 * slab_, huge_page);
    return *made;
  }

  std::vector<slab*> slabs_;  // by address
  std::size_t low_ = 0;       // slabs before it have no block in a list
  std::size_t listed_ = 0;    // blocks in lists
  std::size_t returned_ = 0;  // units, of the slabs that there are
  std::size_t bytes_ = 0;
  slab* fresh_ = nullptr;  // that has units which were never cut, if any has
  unit* cutting_ = nullptr;
  unsigned char* next_ = nullptr;  // in that unit
  unsigned char* end_ = nullptr;
  std::size_t slab_ = least_slab;
};

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
