// SPDX-License-Identifier: Apache-2.0
// allocator_resource.hpp: any standard allocator as the memory resource of a domain.
//
//     spolia::allocator_resource memory(my_allocator);
//     spolia::domain<> nodes({.memory = &memory});
//
// Threads:     as safe as the allocator's copies: a domain allocates and deallocates on every
//              thread.
// Errors:      allocate throws what the allocator throws.
#pragma once

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <utility>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Allocator>
class allocator_resource final : public std::pmr::memory_resource {
  /// What is allocated: as much as malloc aligns. More alignment is made from a longer piece.
  struct alignas(std::max_align_t) unit {
    std::byte bytes[alignof(std::max_align_t)];
  };
  using traits = typename std::allocator_traits<Allocator>::template rebind_traits<unit>;
  using pieces = typename traits::allocator_type;
  static_assert(std::is_same_v<typename traits::pointer, unit*>,
                "allocator_resource: the allocator must hand out plain pointers");

 public:
  explicit allocator_resource(const Allocator& from = Allocator()) : from_(from) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    pieces mine(from_);
    unit* const piece = traits::allocate(mine, units(bytes, align));
    if (align <= alignof(unit)) return piece;
    // The piece's beginning is kept before the aligned block.
    void* at = piece + 1;
    std::size_t room = bytes + align;
    void* const aligned = std::align(align, bytes, at, room);
    static_cast<unit**>(aligned)[-1] = piece;
    return aligned;
  }

  void do_deallocate(void* block, std::size_t bytes, std::size_t align) override {
    pieces mine(from_);
    unit* const piece =
        align <= alignof(unit) ? static_cast<unit*>(block) : static_cast<unit**>(block)[-1];
    traits::deallocate(mine, piece, units(bytes, align));
  }

  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  static std::size_t units(std::size_t bytes, std::size_t align) noexcept {
    const std::size_t all = align <= alignof(unit) ? bytes : bytes + align + sizeof(unit);
    return (all + sizeof(unit) - 1) / sizeof(unit);
  }

  Allocator from_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
