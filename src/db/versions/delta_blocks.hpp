// SPDX-License-Identifier: Apache-2.0
// delta_blocks.hpp: versions that are blocks of their own: how they are made, named and counted.
//
// Handles:     the address of the version; the block's own fields lie in front of it. A Block has
//              `words`, how many the version after it has, and nothing that needs a destructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/db/commit.hpp>
#include <spolia/db/delta.hpp>

#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// How many versions that a snapshot has held a commit frees, on top of twice its own: half a
/// millisecond of work, so that the first commit after the snapshot's end does not pay for all.
inline constexpr std::uint64_t freed_at_once = 4096;

inline version* version_at(std::uint64_t handle) noexcept {
  return reinterpret_cast<version*>(static_cast<std::uintptr_t>(handle));
}

template <class Block>
struct delta_blocks {
  static constexpr std::size_t bytes(std::uint32_t words) noexcept {
    return sizeof(Block) + version::bytes(words);
  }
  static std::uint64_t bytes(std::span<const ask> asks) noexcept {
    std::uint64_t sum = 0;
    for (const ask& a : asks) sum += bytes(a.words);
    return sum;
  }
  /// The place for a version. Throws std::bad_alloc.
  static Block* make(ask& a) {
    auto* const b = ::new (memory::allocate(bytes(a.words), alignof(Block))) Block;
    small_blocks::taken();
    b->words = a.words;
    a.place = version::make(b + 1);
    a.handle = reinterpret_cast<std::uintptr_t>(a.place);
    return b;
  }
  static void free(Block* b) noexcept {
    memory::deallocate(b, bytes(b->words), alignof(Block));
    small_blocks::freed();
  }
  /// For a domain.
  struct freeing {
    void operator()(Block* b) const noexcept { free(b); }
  };

  static version& in(Block& b) noexcept { return *reinterpret_cast<version*>(&b + 1); }
  static Block& of(std::uint64_t handle) noexcept {
    return *(reinterpret_cast<Block*>(static_cast<std::uintptr_t>(handle)) - 1);
  }
};

/// What has come and gone. Each pair is written by one thread at a time.
struct block_tallies {
  tally made;
  tally bytes_made;
  tally dropped;
  tally between;  // of these
  tally bytes_freed;

  void came(std::uint64_t count, std::uint64_t bytes) noexcept {
    made.add(count);
    bytes_made.add(bytes);
  }
  void went(std::uint64_t count, std::uint64_t bytes, std::uint64_t from_between = 0) noexcept {
    dropped.add(count);
    between.add(from_between);
    bytes_freed.add(bytes);
  }
};

/// The sums of all writers' tallies.
template <class Cells>
delta_stats sum_of_blocks(const commit_board& board, const Cells& writers) noexcept {
  delta_stats sum;
  std::uint64_t freed = 0;
  std::uint64_t made = 0;
  board.for_each(writers, [&](const block_tallies& t) {
    freed += t.bytes_freed.value();
    sum.versions_dropped += t.dropped.value();
    sum.dropped_between += t.between.value();
    made += t.bytes_made.value();
    sum.versions_made += t.made.value();
  });
  sum.bytes = made > freed ? made - freed : 0;
  return sum;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
