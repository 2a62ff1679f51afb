// SPDX-License-Identifier: Apache-2.0
// delta_shortcuts.hpp: for the readers of one snapshot, the forwarding entries by row: where the
// chain of each row goes on for them. delta_consolidated.hpp says when they are made.
//
// Idea:        a reader that meets a dead link looks the row up in one block of entries after the
//              other, and there may be a hundred blocks. So when readers of a snapshot have looked
//              into as many blocks as there are entries, one thread goes over all entries that may
//              lead to what the snapshot sees, and notes for each row the one that does. Rows of
//              one table have consecutive numbers, so 64 of them are in one page. Pages are in the
//              order of rows, as are the lookups of a scan.
// Cost:        9 bytes for each row if most rows of a page have an entry; half a kilobyte for a row
//              that is the only one of its page. While they are made, each row's word has the
//              entry's address, so that no other memory of that size is needed: memory that is new
//              to a process costs more time than all the rest.
// Threads:     an object never changes. The domain that protects entries protects it, too.
// Missing rows: a row that is not there, or whose handle leads to a version that was dropped
//              meanwhile, is looked for as if there were no shortcuts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
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
#if defined(SPOLIA_MODEL)
  static constexpr unsigned row_bits = 1;
#else
  static constexpr unsigned row_bits = 6;  // bits of a row's number: its position in a page
#endif
  static constexpr std::size_t rows_a_page = std::size_t{1} << row_bits;
  static constexpr std::size_t align = alignof(std::max_align_t);

  struct page {
    std::array<plain<std::uint64_t>, rows_a_page> heads;  // handles; 0: not known
  };
  struct freed {
    void operator()(page* p) const noexcept { memory::deallocate(p, sizeof(page), align); }
  };
  struct numbered {
    std::uint64_t number = 0;
    page* where = nullptr;
  };

 public:
  using entry = delta_bridge::entry;

  /// Makes shortcuts for snapshots of one time.
  class builder {
   public:
    builder(delta_chunks& of, std::uint64_t time)
        : made_(::new(memory::allocate(sizeof(delta_shortcuts), align)) delta_shortcuts(of, time)) {
    }
    /// Adds an entry whose version ended after that time, and that stays until finish(). Of a row's
    /// entries, the one that ended first counts: what the snapshot sees is in its piece, or in an
    /// older one. Throws std::bad_alloc.
    void add(const entry& e) {
      const std::uint64_t row = e.row.read();
      plain<std::uint64_t>& is = find(page_of(row)).heads[place_of(row)];
      const entry* const was = entry_in(is);
      if (was != nullptr && was->until.read() <= e.until.read()) return;
      is.write(reinterpret_cast<std::uintptr_t>(&e));
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return made_->bytes(); }
    delta_shortcuts* finish() noexcept {
      for (const numbered& p : made_->pages_) {
        for (plain<std::uint64_t>& is : p.where->heads) {
          const entry* const known = entry_in(is);
          if (known != nullptr) is.write(known->head.load_relaxed());
        }
      }
      std::sort(made_->pages_.begin(), made_->pages_.end(),
                [](const numbered& a, const numbered& b) { return a.number < b.number; });
      made_->of_.count(made_->bytes());
      return made_.release();
    }

   private:
    struct discard {
      void operator()(delta_shortcuts* s) const noexcept { delta_shortcuts::destroy(s); }
    };

    static const entry* entry_in(const plain<std::uint64_t>& place) noexcept {
      return reinterpret_cast<const entry*>(static_cast<std::uintptr_t>(place.read()));
    }
    page& find(std::uint64_t number) {
      if (2 * made_->pages_.size() >= index_.size()) grow();
      numbered& at = look_for(number);
      if (at.where == nullptr) at = made_->append(number);
      return *at.where;
    }
    numbered& look_for(std::uint64_t number) noexcept {
      const std::size_t mask = index_.size() - 1;
      std::size_t at = number * 0x9E3779B97F4A7C15U >> 32U & mask;
      while (index_[at].where != nullptr && index_[at].number != number) at = (at + 1) & mask;
      return index_[at];
    }
    void grow() {
      constexpr std::size_t first = 64;
      index_ = std::vector<numbered>((std::max)(first, 4 * index_.size()));
      for (const numbered& p : made_->pages_) look_for(p.number) = p;
    }

    std::unique_ptr<delta_shortcuts, discard> made_;
    std::vector<numbered> index_;  // a hash table; its size is a power of two
  };

  /// How many bytes shortcuts for so many entries take, if most rows of a page have one.
  static constexpr std::size_t usual_bytes(std::size_t entries) noexcept { return 9 * entries; }
  [[nodiscard]] std::uint64_t time() const noexcept { return time_; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return sizeof(delta_shortcuts) + pages_.size() * (sizeof(page) + sizeof(numbered));
  }

  /// The handle at which the row's chain goes on; 0: it is not known. `near`: the page in which the
  /// last row was looked for, or 0.
  [[nodiscard]] std::uint64_t head_of(std::uint64_t row, std::size_t& near) const noexcept {
    const std::uint64_t number = page_of(row);
    if (!is_at(near, number) && !is_at(++near, number)) near = position_of(number);
    return is_at(near, number) ? pages_[near].where->heads[place_of(row)].read() : 0;
  }

  static void free(delta_shortcuts* s) noexcept {
    s->of_.uncount(s->bytes());
    destroy(s);
  }
  /// The deleter for a domain. The bytes were counted as waiting.
  struct ending {
    void operator()(delta_shortcuts* s) const noexcept {
      s->of_.end_wait(s->bytes());
      free(s);
    }
  };

 private:
  static std::uint64_t page_of(std::uint64_t row) noexcept { return row >> row_bits; }
  static std::size_t place_of(std::uint64_t row) noexcept { return row & (rows_a_page - 1); }

  delta_shortcuts(delta_chunks& of, std::uint64_t time) noexcept : of_(of), time_(time) {}

  numbered append(std::uint64_t number) {
    std::unique_ptr<page, freed> made(::new (memory::allocate(sizeof(page), align)) page);
    pages_.push_back({number, made.get()});
    made.release();
    return pages_.back();
  }
  static void destroy(delta_shortcuts* s) noexcept {
    for (const numbered& p : s->pages_) freed()(p.where);
    s->~delta_shortcuts();
    memory::deallocate(s, sizeof(delta_shortcuts), align);
  }
  [[nodiscard]] bool is_at(std::size_t n, std::uint64_t number) const noexcept {
    return n < pages_.size() && pages_[n].number == number;
  }
  /// The position of the first page that is not below this one.
  [[nodiscard]] std::size_t position_of(std::uint64_t number) const noexcept {
    const auto found =
        std::lower_bound(pages_.begin(), pages_.end(), number,
                         [](const numbered& p, std::uint64_t n) { return p.number < n; });
    return static_cast<std::size_t>(found - pages_.begin());
  }

  delta_chunks& of_;
  const std::uint64_t time_;
  std::vector<numbered> pages_;  // in the order of their rows
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
