// SPDX-License-Identifier: Apache-2.0
#include "heap.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace spolia::model {
namespace {

// The same place in every process if it is free, for the sake of readable and repeatable traces.
void* reserve(std::size_t bytes, std::uintptr_t wish) {
  void* memory = mmap(reinterpret_cast<void*>(wish), bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

constexpr std::uintptr_t arena_wish = std::uintptr_t{0x5000} << 28;
constexpr std::uintptr_t table_wish = arena_wish + (std::uintptr_t{1} << 30);

}  // namespace

heap::heap()
    : base_(reinterpret_cast<std::uintptr_t>(reserve(arena_bytes, arena_wish))),
      block_at_(static_cast<std::uint32_t*>(
          reserve(arena_bytes / granule * sizeof(std::uint32_t), table_wish))) {}

heap::~heap() {
  munmap(reinterpret_cast<void*>(base_), arena_bytes);
  munmap(block_at_, arena_bytes / granule * sizeof(std::uint32_t));
}

void heap::begin() {
  std::memset(block_at_, 0, used_ / granule * sizeof(std::uint32_t));
  used_ = 0;
  live_ = 0;
  blocks_.clear();
}

void* heap::allocate(std::size_t bytes, std::size_t align) {
  const std::size_t step = std::max(align, granule);
  const std::size_t start = (used_ + step - 1) / step * step;
  // One granule stays free after each block, to tell an access past its end from one to the next.
  const std::size_t granules = std::max<std::size_t>(1, (bytes + granule - 1) / granule);
  const std::size_t end = start + (granules + 1) * granule;
  if (bytes > arena_bytes || end > arena_bytes) return nullptr;
  used_ = end;
  blocks_.push_back({start, bytes, false, 0, {}});
  ++live_;
  std::fill_n(block_at_ + start / granule, granules, static_cast<std::uint32_t>(blocks_.size()));
  return reinterpret_cast<void*>(base_ + start);
}

block* heap::find(const void* address) {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) - base_;
  const std::uint32_t entry = block_at_[offset / granule];
  return entry == 0 ? nullptr : &blocks_[entry - 1];
}

void heap::free(block& which, std::uint32_t thread) {
  which.freed = true;
  which.freed_by = thread;
  --live_;
  std::memset(reinterpret_cast<void*>(base_ + which.offset), 0xdd, which.bytes);
}

const block* heap::first_live() const {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [](const block& each) { return !each.freed; });
  return found == blocks_.end() ? nullptr : &*found;
}

}  // namespace spolia::model
