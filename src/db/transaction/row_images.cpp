// SPDX-License-Identifier: Apache-2.0
#include "db/transaction/row_images.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <spolia/base/short_lock.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint32_t few_images = 4;  // images, for which no look pays

std::size_t bytes_of(std::size_t words) noexcept {
  return sizeof(row_image) + words * sizeof(std::uint64_t);
}

void free_image(row_image* i) noexcept {
  std::destroy_at(i);
  ::operator delete(i);
}

// acquire ← the release in image_share: the row has been read.
bool is_free(const row_image& i) noexcept { return i.rows.load_acquire() == 0; }

/// Images of readers that have ended, which rows have yet. Nothing destroys it: rows may go after
/// all static objects have.
struct left_images {
  void add(row_image* i) noexcept {
    const std::lock_guard<detail::short_lock> hold(lock);
    i->next = std::exchange(first, i);
    if (++count >= next_look) look();
  }
  void look() noexcept {
    for (row_image** at = &first; *at != nullptr;) {
      if (!is_free(**at)) {
        at = &(*at)->next;
        continue;
      }
      free_image(std::exchange(*at, (*at)->next));
      --count;
    }
    next_look = 2 * count + few_images;
  }

  detail::short_lock lock;
  row_image* first = nullptr;
  std::uint64_t count = 0;
  std::uint64_t next_look = few_images;
};
constinit left_images images_left;

}  // namespace

row_images::~row_images() {
  clear(kept_memory::much);
  for (const shelf& s : shelves_) {
    for (row_image* i = s.all; i != nullptr;) free(std::exchange(i, i->next));
  }
}

row_image* row_images::make(std::size_t words) {
  void* const memory = ::operator new(bytes_of(words));
  account_.add(bytes_of(words));
  row_image* const made = std::construct_at(static_cast<row_image*>(memory));
  made->room = static_cast<std::uint32_t>(words);
  return made;
}

void row_images::free(row_image* i) noexcept {
  account_.give(bytes_of(i->room));
  free_image(i);
}

void row_images::collect() noexcept {
  const std::lock_guard<detail::short_lock> hold(images_left.lock);
  images_left.look();
}

row_image& row_images::take_elsewhere(unsigned number, std::size_t words) {
  shelf& s = shelves_[number];
  s.last = nullptr;
  if (words > s.room || (number == large && words != s.room)) {
    s.room = words;
    s.free = nullptr;  // the next look frees those
  }
  if (s.free == nullptr && s.taken >= std::max(few_images, s.count / 2)) look(s);
  row_image* taken = s.free;
  if (taken != nullptr) {
    s.free = taken->next_free;
  } else {
    taken = make(s.room);
    taken->next = std::exchange(s.all, taken);
    ++s.count;
  }
  if (number != large) s.last = taken;
  ++s.taken;
  used_ |= std::uint64_t{1} << number;
  return *taken;
}

/// Finds those which are free, and frees those of another size.
void row_images::look(shelf& s) noexcept {
  s.taken = 0;
  for (row_image** at = &s.all; *at != nullptr;) {
    row_image* const i = *at;
    if (is_free(*i)) {
      if (i->room != s.room) {
        *at = i->next;
        free(i);
        --s.count;
        continue;
      }
      i->next_free = std::exchange(s.free, i);
    }
    at = &i->next;
  }
}

/// What rows have is left to them, and the rest goes but for what the next reader begins with.
void row_images::put_away(unsigned number, kept_memory keeps) noexcept {
  constexpr unsigned of_256_words = 9;
  const bool none = number == large || keeps == kept_memory::none;
  const std::uint32_t most = none ? 0 : number <= of_256_words ? few_images : 1;
  shelf& s = shelves_[number];
  row_image* all = std::exchange(s, shelf{.room = s.room}).all;
  while (all != nullptr) {
    row_image* const i = std::exchange(all, all->next);
    if (!is_free(*i)) {
      account_.give(bytes_of(i->room));
      images_left.add(i);
    } else if (s.count == most || i->room != s.room) {
      free(i);
    } else {
      i->next = std::exchange(s.all, i);
      i->next_free = std::exchange(s.free, i);
      ++s.count;
    }
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
