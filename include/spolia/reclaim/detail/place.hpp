// SPDX-License-Identifier: Apache-2.0
// place.hpp: what an object of the standard faces carries, and how it becomes a block of a domain.
//
// The default domains exist once in a process, in the compiled library, whichever build variant
// each of its users is. So what passes between the two is the same in both: the user's side says
// where the object is and how it ends; the library makes its own kind of block in the space kept
// for that. Nothing is written there before the object is retired.
#pragma once

#include <cstddef>
#include <new>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

struct place {
#if defined(SPOLIA_MODEL)
  alignas(void*) unsigned char links[128];
#else
  alignas(void*) unsigned char links[2 * sizeof(void*)];
#endif
  /// The object as its readers know it, from its retirement on. A copy of a retired object names
  /// the other one, and is not retired.
  const void* object = nullptr;
  /// Ends the object, this place with it.
  void (*end)(place*) noexcept = nullptr;
};

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Places as blocks.
struct placed {
  using block = stamped<nothing>;
  static_assert(sizeof(block) <= sizeof(core::place::links) &&
                alignof(block) <= alignof(core::place) && offsetof(core::place, links) == 0);

  static core::place* place_of(retired* r) noexcept {
    return std::launder(reinterpret_cast<core::place*>(static_cast<block*>(r)));
  }
  static const void* address(const retired* r) noexcept {
    return std::launder(reinterpret_cast<const core::place*>(static_cast<const block*>(r)))->object;
  }
  static void dispose(retired* r) noexcept {
    core::place* const p = place_of(r);
    static_cast<block*>(r)->~block();
    p->end(p);
  }
  SPOLIA_OWN_COPY static constexpr disposer how{&dispose, &address, nullptr, 0, alignof(block)};
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
