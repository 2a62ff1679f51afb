// SPDX-License-Identifier: Apache-2.0
// row_images.hpp: where find() and lock() get memory for the rows that they return. Internal.
//
// Idea:   images whose sizes have as many binary digits lie on one shelf, and are as wide as the
//         widest row that was asked of it. A row that goes says in its image that no row has it
//         (row_image.hpp), and reaches for nothing else; mostly that is the image that was taken
//         last. Otherwise a look over all images of the shelf finds those that are free. The next
//         look comes when half as many images as there are were taken. So there are at most three
//         times as many as rows have, and 4, and looks cost each of them two steps. Very large
//         images are not used again, unless for the same size, and a look frees them.
// At the end of the reader: a few images stay for the next one, of the first sessions
//         (workspace.hpp), and the others go. Those that rows have yet go to a list of the process,
//         since the rows may outlive the database as well: it is looked over whenever it has
//         doubled, and by collect().
// Account: an image counts as what its reader works with, and is never refused; on that list it is
//         the program's.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/row_image.hpp>

#include "db/transaction/workspace.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class row_images {
 public:
  explicit row_images(work_account& to) noexcept : account_(to) {}
  row_images(const row_images&) = delete;
  row_images& operator=(const row_images&) = delete;
  ~row_images();

  /// Room for so many words, that no row has: the same again until one has. Throws std::bad_alloc.
  row_image& take(std::size_t words) {
    const auto number = bit_length(words);
    if (number >= large) [[unlikely]]
      return take_elsewhere(large, words);
    row_image* const last = shelves_[number].last;
    // acquire ← the release in image_share: the row has been read.
    if (last != nullptr && last->rows.load_acquire() == 0 && last->room >= words) [[likely]] {
      used_ |= std::uint64_t{1} << number;
      return *last;
    }
    return take_elsewhere(number, words);
  }
  /// The reader has ended.
  void clear(kept_memory keeps) noexcept {
    for (std::uint64_t rest = std::exchange(used_, 0); rest != 0; rest &= rest - 1) {
      const auto number = static_cast<unsigned>(std::countr_zero(rest));
      const shelf& s = shelves_[number];
      // acquire: as in take().
      const bool goes = number == large || keeps == kept_memory::none;
      if (s.count != 1 || goes || s.all->rows.load_acquire() != 0) put_away(number, keeps);
    }
  }
  /// Frees images that no row has any more, of readers that have ended.
  static void collect() noexcept;

 private:
  struct shelf {
    row_image* last = nullptr;  // that was taken; of large ones, none
    row_image* free = nullptr;
    row_image* all = nullptr;
    std::uint32_t count = 0;
    std::uint32_t taken = 0;  // since the last look
    std::size_t room = 0;     // of the next image, in words
  };
  static constexpr unsigned large = 13;  // the shelf of images of 4096 words and more

  row_image& take_elsewhere(unsigned number, std::size_t words);
  row_image* make(std::size_t words);
  void free(row_image* i) noexcept;
  void look(shelf& s) noexcept;
  void put_away(unsigned number, kept_memory keeps) noexcept;

  work_account& account_;
  std::array<shelf, large + 1> shelves_{};
  std::uint64_t used_ = 0;  // shelves from which this reader has taken
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
