// SPDX-License-Identifier: Apache-2.0
// counting.hpp: what happens at the door to the allocator: a memory resource that counts and times
// each call of free, and knows which thread each block came from.
//
// Only a trial with --count has one, since reading the time twice for each free is not free:
// figures of speed from such a trial mean nothing, counts of events do.
#pragma once

#include <spolia/base/cells.hpp>
#include <spolia/base/counters.hpp>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>

#include "registry.hpp"

namespace bench {

/// Which thread allocated the block at an address: two bytes for each 16 of the address space, of
/// which only what is written takes memory. So no block grows by a header, and none changes its
/// size class.
class owner_table {
 public:
  owner_table() noexcept;
  ~owner_table();
  owner_table(const owner_table&) = delete;
  owner_table& operator=(const owner_table&) = delete;

  bool usable() const noexcept { return table_ != nullptr; }
  void note(const void* block, std::uint32_t thread) noexcept;
  /// Did a thread other than `thread` note it? False if none did.
  bool is_remote(const void* block, std::uint32_t thread) const noexcept;

 private:
  std::uint16_t* table_;
};

class counting_resource final : public std::pmr::memory_resource {
 public:
  /// Calls are counted from now on, or no longer.
  void count(bool on) noexcept { on_.store_relaxed(on); }
  /// For when no thread counts any more.
  free_counts counts() const;

 private:
  struct of_thread {
    spolia::tally frees;
    spolia::tally remote;
    spolia::tally over_100us;
    spolia::tally runs;
    spolia::tally ticks;
    spolia::high_mark longest_run;
    spolia::histogram calls;
    std::uint64_t run = 0;  ///< frees since this thread last allocated
  };

  void* do_allocate(std::size_t bytes, std::size_t align) override;
  void do_deallocate(void* block, std::size_t bytes, std::size_t align) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  spolia::atomic<bool> on_{false};
  owner_table owners_;
  spolia::cells<of_thread> threads_;
};

/// A trace of a trial with --count shows each call of free that took so long, also within batches.
inline constexpr std::uint64_t traced_ns = 10'000;

/// What the allocator itself has counted since the process began; nothing if it does not tell.
/// jemalloc does, by its mallctl.
std::optional<allocator_counts> allocator_counts_now();

}  // namespace bench
