// SPDX-License-Identifier: Apache-2.0
/// \file
/// The one door to the allocator. Algorithms that hand memory from thread to thread allocate here,
/// so that the model checker can watch every block: there, freed blocks stay in quarantine until
/// the execution ends, and touching one through spolia::atomic or spolia::plain is reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/hooks.hpp>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {
/// How many blocks of a size the thread cache of the allocator behind operator new takes at once,
/// with room to spare, by what is known of it: jemalloc's holds 20 at least, and gives half of them
/// back when it is full; tcmalloc's grows with use, so that fewer and larger groups cost less.
SPOLIA_EXPORT std::uint32_t frees_together() noexcept;
/// Gives the pages to the system that lie whole in there; they stay addresses of memory, and what
/// is in them is then zero, or what it was.
SPOLIA_EXPORT void forget_pages(void* at, std::size_t bytes) noexcept;
/// The same, if all of them are zero.
SPOLIA_EXPORT void forget_zero_pages(void* at, std::size_t bytes) noexcept;
SPOLIA_EXPORT std::size_t page_bytes() noexcept;
}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace memory {

/// `bytes` of memory aligned to `align` (a power of two). Thread-safe.
/// \throws std::bad_alloc
[[nodiscard]] inline void* allocate(std::size_t bytes, std::size_t align) {
#if defined(SPOLIA_MODEL)
  return model::allocate(bytes, align);
#else
  if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    return ::operator new(bytes, std::align_val_t{align});
  }
  return ::operator new(bytes);
#endif
}

/// Gives back what allocate(bytes, align) returned; null is allowed. Thread-safe.
inline void deallocate(void* block, [[maybe_unused]] std::size_t bytes,
                       std::size_t align) noexcept {
#if defined(SPOLIA_MODEL)
  model::deallocate(block, bytes, align);
#elif !defined(__cpp_sized_deallocation)
  // clang before 19, and any compiler by -fno-sized-deallocation.
  if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    ::operator delete(block, std::align_val_t{align});
  } else {
    ::operator delete(block);
  }
#else
  if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
    ::operator delete(block, bytes, std::align_val_t{align});
  } else {
    ::operator delete(block, bytes);
  }
#endif
}

/// As above; of the model checker's own memory, which takes all, the smaller number.
[[nodiscard]] inline std::uint32_t frees_together() noexcept {
#if defined(SPOLIA_MODEL)
  return 16;
#else
  return core::frees_together();
#endif
}

/// The system may have the pages that lie whole in there if all of them are zero: reading them
/// finds the same as before, also beside this, and writing takes memory again. Not before other
/// threads have ended to write there.
inline void forget_zeros([[maybe_unused]] void* at, [[maybe_unused]] std::size_t bytes) noexcept {
#if !defined(SPOLIA_MODEL)
  core::forget_zero_pages(at, bytes);
#endif
}

/// Where blocks come from and go to: a memory resource, or, without one, allocate and deallocate
/// above.
class origin {
 public:
  constexpr origin() noexcept = default;
  constexpr explicit origin(std::pmr::memory_resource* from) noexcept : from_(from) {}

  /// \throws std::bad_alloc, or what the resource throws
  [[nodiscard]] SPOLIA_ALWAYS_INLINE void* allocate(std::size_t bytes, std::size_t align) const {
    return from_ == nullptr ? memory::allocate(bytes, align) : from_->allocate(bytes, align);
  }
  SPOLIA_ALWAYS_INLINE void deallocate(void* block, std::size_t bytes,
                                       std::size_t align) const noexcept {
    if (from_ == nullptr) {
      memory::deallocate(block, bytes, align);
    } else if (block != nullptr) {
      from_->deallocate(block, bytes, align);
    }
  }

 private:
  std::pmr::memory_resource* from_ = nullptr;
};

/// Says that the calling thread is about to touch ordinary fields at this address. The model
/// checker then verifies that the block is alive and remembers the access, so that a free without
/// a happens-before edge from it is reported; elsewhere it is nothing.
SPOLIA_ALWAYS_INLINE void note_access([[maybe_unused]] const void* address) noexcept {
#if defined(SPOLIA_MODEL)
  model::note_access(address);
#endif
}

}  // namespace memory
}  // namespace spolia::inline SPOLIA_FLAVOUR
