// SPDX-License-Identifier: Apache-2.0
// row_image.hpp: the memory of a row that find() or lock() has returned.
//
// Each image belongs to the reader or transaction that made it, which uses it again when no row has
// it any more. A row that ends only notes that in the image, and touches nothing else. So rows may
// outlive their reader, and may end on any thread. row_images.hpp says what that reader does then.
#pragma once

#include <cstdint>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Followed by its words.
struct row_image {
  atomic<std::uint32_t> rows{0};  // that have it
  std::uint32_t room = 0;         // words
  row_image* next = nullptr;      // of all of its shelf
  row_image* next_free = nullptr;

  [[nodiscard]] std::uint64_t* words() noexcept {
    return reinterpret_cast<std::uint64_t*>(this + 1);
  }
};

/// A row's hold on its image, or on none.
class image_share {
 public:
  image_share() = default;
  /// Of an image that no row has.
  explicit image_share(row_image& of) noexcept : of_(&of) { of.rows.store_relaxed(1); }
  image_share(const image_share& other) noexcept : of_(other.of_) {
    // relaxed: the other one keeps the image.
    if (of_ != nullptr) of_->rows.fetch_add_relaxed(1);
  }
  image_share(image_share&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  image_share& operator=(image_share other) noexcept {
    std::swap(of_, other.of_);
    return *this;
  }
  ~image_share() {
    if (of_ != nullptr) give_up();
  }

 private:
  void give_up() noexcept {
    // acquire ← the release of rows that went before, on other threads; with the release → the
    // acquire in row_images: all have read the words before they are written again. Where this row
    // is the only one, no other thread changes the number.
    if (of_->rows.load_acquire() == 1) return of_->rows.store_release(0);
    of_->rows.fetch_sub_release(1);
  }

  row_image* of_ = nullptr;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
