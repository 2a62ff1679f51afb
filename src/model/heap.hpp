// SPDX-License-Identifier: Apache-2.0
// The heap of one execution: hands out memory from one arena, never reuses it before the execution
// ends, and remembers for each block which thread touched it last. Addresses repeat from execution
// to execution, so decisions that depend on them do too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "views.hpp"

namespace spolia::model {

struct block {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  bool freed = false;
  std::uint32_t freed_by = 0;
  clock touched{};  // per thread, the time of its last access
};

class heap {
 public:
  heap();
  ~heap();
  heap(const heap&) = delete;
  heap& operator=(const heap&) = delete;

  void begin();

  // Null when the arena is full.
  void* allocate(std::size_t bytes, std::size_t align);

  bool owns(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - base_ < arena_bytes;
  }
  // The block around an address of the arena, dead or alive; null for the gaps between blocks.
  block* find(const void* address);
  std::size_t number(const block& which) const {
    return static_cast<std::size_t>(&which - blocks_.data());
  }
  std::uintptr_t address(const block& which) const { return base_ + which.offset; }

  // Overwrites the block's content, so that code which reads it through ordinary variables and
  // goes unnoticed here at least does not find what it hopes for.
  void free(block& which, std::uint32_t thread);

  std::size_t live() const { return live_; }
  const block* first_live() const;

 private:
  static constexpr std::size_t granule = 16;
  static constexpr std::size_t arena_bytes = std::size_t{64} << 20;

  std::uintptr_t base_ = 0;
  std::uint32_t* block_at_ = nullptr;  // per granule: 1 + number of the block, 0 for none
  std::size_t used_ = 0;
  std::size_t live_ = 0;
  std::vector<block> blocks_;
};

}  // namespace spolia::model
