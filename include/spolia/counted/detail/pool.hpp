// SPDX-License-Identifier: Apache-2.0
// pool.hpp: where make_shared and make_thin get small blocks from: free blocks of each thread, and
// of all, by size. What one thread makes and another one ends goes from hand to hand in batches, so
// the allocator is asked seldom, and its locks are not met.
//
// Idea:        Bonwick's magazines ("Magazines and Vmem", USENIX 2001, section 3): a thread has two
//              chains of free blocks for each size, and changes a whole one with the depot of the
//              process when both are empty or full.
// Blocks:      begin at a multiple of 8, are a multiple of 8 apart, and the 8 bytes before each
//              are the block's, too, for a thin object's head (head.hpp). So they lie as malloc's
//              do, with our counts in the place of malloc's size. What has no head, and fits closer
//              together without, is of a size of its own, whose blocks own nothing before them; of
//              40 bytes, for an object of 24 after its counts, they lie three in two cache lines,
//              so that no object lies over two. For
//              an alignment of 16, 32 or 64 blocks are a multiple of that apart, and so lie at
//              multiples of it.
// Errors:      take throws std::bad_alloc; give never fails.
// Cost:        two loads and two stores; a lock once in a batch.
// Bound:       a thread keeps two chains of at most 8 KiB for each size it has used. The process
//              keeps 2 MiB of each size. Where it has more, it keeps free blocks for use at once,
//              256 or as many as are in use, and what is more goes back: a unit of 8 KiB (a page,
//              where that is larger) when none of its blocks is in use or kept. So of n blocks that
//              have ended, in any order, there stay at most 4 MiB (the first slabs, 2 MiB in all,
//              are one unit each) and a unit for each block that is kept, in use, or in a thread's
//              chains, which are 128 at most. By itself, while blocks end; trim() does the same to
//              all that is free.
// Threads:     an ended thread's chains go to the depot. In the child of a fork, chains of threads
//              that are gone, and a depot that one of them was just changing, are lost.
//
// Not used for blocks above 576 bytes, of which a head takes 8, or aligned to more than 64, and not
// where a tool should see each block: under sanitizers and the model checker, or with SPOLIA_POOL
// defined as 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/memory.hpp>

#if !defined(SPOLIA_POOL)
#if defined(SPOLIA_MODEL) || SPOLIA_TSAN || SPOLIA_ASAN
#define SPOLIA_POOL 0
#else
#define SPOLIA_POOL 1
#endif
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

struct free_block {
  free_block* next;
  free_block* next_chain;  // of the first block of a chain, as the next one
  std::size_t count;
};

/// Free blocks of one size that lie in one hand.
struct block_chain {
  free_block* first = nullptr;
  std::size_t count = 0;
};

/// The free blocks of one thread.
class block_cache {
 public:
  static constexpr std::size_t step = 8;
  static constexpr std::size_t smallest = 32;
  static constexpr std::size_t line = 64;  // the first block of each slab lies at a multiple of it
  static constexpr std::size_t largest = 576;
  static constexpr unsigned strides = (largest - smallest) / step + 1;
  static constexpr unsigned sizes = 2 * strides;  // with room for a head, and without
  /// Bytes that the user of a block may have after its begin, and a head before it.
  static constexpr std::size_t most = largest - 8;

  static constexpr unsigned size_for(std::size_t bytes) noexcept { return nearest(bytes + 8); }
  /// Without a head.
  static constexpr unsigned bare_size_for(std::size_t bytes) noexcept {
    const unsigned bare = nearest(bytes);
    // Where it is as large anyway, those with and without heads share their blocks.
    return bytes <= most && bare == size_for(bytes) ? bare : strides + bare;
  }
  /// Whether the 8 bytes before a block are the block's.
  static constexpr bool has_head(unsigned size) noexcept { return size < strides; }
  static constexpr std::size_t stride_of(unsigned size) noexcept {
    return smallest + size % strides * step;
  }
  static constexpr std::size_t batch_of(unsigned size) noexcept {
    const std::size_t fit = 8192 / stride_of(size);
    return fit < 64 ? fit : 64;
  }

  /// Null if there is none.
  SPOLIA_ALWAYS_INLINE void* take(unsigned size) noexcept {
    pair& p = of_[size];
    free_block* const b = p.now.first;
    if (b == nullptr) [[unlikely]]
      return nullptr;
    p.now.first = b->next;
    // The next one may have lain free for long, where other structures ended in any order.
    __builtin_prefetch(b->next, 1);
    --p.now.count;
    return b;
  }
  /// False if there is no room.
  SPOLIA_ALWAYS_INLINE bool give(unsigned size, void* block) noexcept {
    pair& p = of_[size];
    if (p.now.count >= batch_of(size)) [[unlikely]]
      return false;
    auto* const b = static_cast<free_block*>(block);
    b->next = p.now.first;
    p.now.first = b;
    ++p.now.count;
    return true;
  }

  /// How many blocks to take at a time: few at first, since many threads need few.
  std::size_t next_batch(unsigned size) noexcept {
    constexpr unsigned doublings = 3;
    const std::size_t now = batch_of(size) >> (doublings - times_[size]);
    if (times_[size] < doublings) ++times_[size];
    return now == 0 ? 1 : now;
  }

  /// The other chain comes to hand.
  void turn(unsigned size) noexcept { std::swap(of_[size].now, of_[size].spare); }
  [[nodiscard]] block_chain& at_hand(unsigned size) noexcept { return of_[size].now; }
  [[nodiscard]] block_chain& spare(unsigned size) noexcept { return of_[size].spare; }

 private:
  static constexpr unsigned nearest(std::size_t bytes) noexcept {
    return bytes <= smallest ? 0 : static_cast<unsigned>((bytes - smallest + step - 1) / step);
  }

  struct pair {
    block_chain now;
    block_chain spare;
  };
  std::array<pair, sizes> of_{};
  std::array<std::uint8_t, sizes> times_{};  // that a batch was asked for; three at most
};

#if !defined(SPOLIA_MODEL)
extern SPOLIA_EXPORT constinit thread_local block_cache* own_blocks SPOLIA_TLS_MODEL;
/// The same as take and give of the thread's cache, if need be through the depot.
SPOLIA_EXPORT void* take_block(unsigned size);
SPOLIA_EXPORT void give_block(unsigned size, void* block) noexcept;
SPOLIA_EXPORT std::size_t trim_blocks() noexcept;
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// What is before a block.
enum class before : std::uint8_t { nothing = 0, head = 8 };

/// Blocks whose stride is a multiple of a power of two up to a cache line lie at multiples of it:
/// so much is to be asked for.
inline constexpr std::size_t with_stride(std::size_t bytes, std::size_t align, before b) noexcept {
  if (align <= core::block_cache::step) return bytes;
  const auto front = static_cast<std::size_t>(b);
  return (bytes + front + align - 1) / align * align - front;
}
inline constexpr bool pooled(std::size_t bytes, std::size_t align, before b) noexcept {
  return SPOLIA_POOL != 0 && align <= core::block_cache::line &&
         with_stride(bytes, align, b) + static_cast<std::size_t>(b) <= core::block_cache::largest;
}
inline constexpr unsigned pool_size(std::size_t bytes, std::size_t align, before b) noexcept {
  const std::size_t asked = with_stride(bytes, align, b);
  return b == before::head ? core::block_cache::size_for(asked)
                           : core::block_cache::bare_size_for(asked);
}

template <std::size_t Align, before Before = before::nothing>
SPOLIA_ALWAYS_INLINE void* allocate_block(std::size_t bytes) {
#if SPOLIA_POOL
  if (pooled(bytes, Align, Before)) {
    const unsigned size = pool_size(bytes, Align, Before);
    if (core::own_blocks != nullptr) [[likely]] {
      if (void* const block = core::own_blocks->take(size)) [[likely]]
        return block;
    }
    return core::take_block(size);
  }
#endif
  return memory::allocate(bytes, Align);
}
template <std::size_t Align, before Before = before::nothing>
SPOLIA_ALWAYS_INLINE void deallocate_block(void* block, std::size_t bytes) noexcept {
#if SPOLIA_POOL
  if (pooled(bytes, Align, Before)) {
    const unsigned size = pool_size(bytes, Align, Before);
    if (core::own_blocks == nullptr || !core::own_blocks->give(size, block)) [[unlikely]] {
      core::give_block(size, block);
    }
    return;
  }
#endif
  memory::deallocate(block, bytes, Align);
}

/// Memory for an object of so many bytes, and before it Front bytes or, in a block of the pool, 8.
template <std::size_t Align, std::size_t Front>
SPOLIA_ALWAYS_INLINE void* allocate_thin(std::size_t bytes) {
  static_assert(Front % Align == 0);
  if (pooled(bytes, Align, before::head)) return allocate_block<Align, before::head>(bytes);
  return static_cast<unsigned char*>(memory::allocate(Front + bytes, Align)) + Front;
}
template <std::size_t Align, std::size_t Front>
SPOLIA_ALWAYS_INLINE void deallocate_thin(void* object, std::size_t bytes) noexcept {
  if (pooled(bytes, Align, before::head)) {
    return deallocate_block<Align, before::head>(object, bytes);
  }
  memory::deallocate(static_cast<unsigned char*>(object) - Front, Front + bytes, Align);
}

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
