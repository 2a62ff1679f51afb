// SPDX-License-Identifier: Apache-2.0
// word.hpp: a shared pointer in one word, as atomic locations hold it.
//
// A shared pointer is two words: where the object is, and the block that counts. Most often one
// tells the other. The two low bits of the word say how:
//   0   the object's address; its block's head lies just before it (made together), or null
//   1   the block of a pointer that was taken over; the object's address is in it
//   2   an alias: a counted block of its own that holds the address and a unit of the owner. For
//       everything else: pointers to members, to bases that are not at the object's begin, and
//       those without an owner.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/counted/detail/control.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

using word = std::uintptr_t;

inline constexpr word tag_mask = 3;
inline constexpr word tag_pointer = 1;
inline constexpr word tag_alias = 2;

/// What scans compare: the address of a word's block. For an object that was made for thin
/// pointers it is where a block would begin: one that is alive does not begin there, for it would
/// lie over the object's head.
using name = std::uintptr_t;

inline name name_of(word w) noexcept {
  return (w & tag_mask) == 0 ? w - sizeof(control) : w & ~tag_mask;
}

/// The block that a word's unit belongs to; null for null. Not for words of thin pointers.
inline control* block_of(word w) noexcept {
  if (w == 0) return nullptr;
  return reinterpret_cast<control*>(name_of(w));
}

/// Where the object is. The word's block must be alive.
inline void* address_of(word w) noexcept {
  if ((w & tag_mask) == 0) [[likely]]
    return reinterpret_cast<void*>(w);
  return static_cast<pointer_control*>(block_of(w))->object;
}

template <class T>
T* object_of(word w) noexcept {
  return static_cast<T*>(address_of(w));
}

/// A pointer and its owner, of which either may be null.
struct pair {
  void* object = nullptr;
  control* owner = nullptr;
  friend bool operator==(const pair&, const pair&) = default;
};

/// What an alias keeps of its owner.
enum class keeping : std::uint8_t { object, block };

struct alias_control : pointer_control {
  alias_control(const control_ops& o, const pair& p) noexcept
      : pointer_control(o, p.object), owner(p.owner) {}
  control* const owner;
};

inline pair pair_of(word w) noexcept {
  control* const block = block_of(w);
  if ((w & tag_mask) == tag_alias) {
    return {static_cast<alias_control*>(block)->object, static_cast<alias_control*>(block)->owner};
  }
  return {address_of(w), block};
}

/// The word for p if it needs no alias; else 0, and p is not empty.
inline word plain_word(const pair& p) noexcept {
  if (p.owner == nullptr) return 0;
  if (static_cast<char*>(p.object) == reinterpret_cast<char*>(p.owner) + sizeof(control)) {
    return reinterpret_cast<word>(p.object);
  }
  if (p.owner->ops().holds_pointer && static_cast<pointer_control*>(p.owner)->object == p.object) {
    return reinterpret_cast<word>(p.owner) | tag_pointer;
  }
  return 0;
}

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
