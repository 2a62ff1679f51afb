// SPDX-License-Identifier: Apache-2.0
// delta_chunks.hpp: the memory of one-shot partitions: chunks of one size, used again and again.
//
// Idea:        a partition that is dropped gives its chunks to the next one that grows. Only what
//              lies unused beyond `most_free` goes back to the system: fresh memory costs a page
//              fault for every 4 KiB, which is more than all the rest of collecting.
// Cost:        a short lock for each chunk, that is, for hundreds of versions.
// Memory:      `held()` is all that was taken from the system; `waiting()` the part of it that will
//              be free when readers who may be walking over it have gone on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/short_lock.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_chunks {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t bytes = 1024;
  static constexpr std::uint64_t most_free = 0;  // so that who uses one of them too late is found
#else
  static constexpr std::size_t bytes = std::size_t{1} << 17U;
  static constexpr std::uint64_t most_free = 64;
#endif

  delta_chunks() = default;
  delta_chunks(const delta_chunks&) = delete;
  delta_chunks& operator=(const delta_chunks&) = delete;
  ~delta_chunks() { trim(); }

  /// Throws std::bad_alloc.
  std::byte* take() {
    {
      const std::lock_guard hold(lock_);
      if (first_ != nullptr) {
        free_chunk* const c = first_;
        first_ = c->next;
        free_.store_relaxed(free_.load_relaxed() - 1);
        return reinterpret_cast<std::byte*>(c);
      }
    }
    void* const made = memory::allocate(bytes, align);
    count(bytes);
    return static_cast<std::byte*>(made);
  }
  void give(std::byte* chunk) noexcept {
    {
      const std::lock_guard hold(lock_);
      if (free_.load_relaxed() < most_free) {
        first_ = ::new (chunk) free_chunk{first_};
        free_.store_relaxed(free_.load_relaxed() + 1);
        return;
      }
    }
    release(chunk);
  }
  /// Gives what is free back to the system.
  void trim() noexcept {
    free_chunk* all = nullptr;
    {
      const std::lock_guard hold(lock_);
      all = first_;
      first_ = nullptr;
      free_.store_relaxed(0);
    }
    while (all != nullptr) {
      free_chunk* const next = all->next;
      release(reinterpret_cast<std::byte*>(all));
      all = next;
    }
  }

  /// Something else was taken that belongs to the partitions, or given back.
  void count(std::uint64_t more) noexcept { held_.fetch_add_relaxed(more); }
  void uncount(std::uint64_t less) noexcept { held_.fetch_sub_relaxed(less); }
  /// Something begins to wait for readers, or has waited long enough.
  void begin_wait(std::uint64_t of) noexcept { waiting_.fetch_add_relaxed(of); }
  void end_wait(std::uint64_t of) noexcept { waiting_.fetch_sub_relaxed(of); }

  [[nodiscard]] std::uint64_t held() const noexcept { return held_.load_relaxed(); }
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_.load_relaxed(); }
  /// Whether another chunk would pass `most` bytes; what waits does not count. 0: no limit.
  [[nodiscard]] bool too_dear(std::uint64_t most) const noexcept {
    return free_.load_relaxed() == 0 && passes(most, bytes);
  }
  /// Whether there is more than that already.
  [[nodiscard]] bool over(std::uint64_t most) const noexcept { return passes(most, 0); }

 private:
  static constexpr std::size_t align = 64;
  struct free_chunk {
    free_chunk* next;
  };

  [[nodiscard]] bool passes(std::uint64_t most, std::uint64_t more) const noexcept {
    if (most == 0) return false;
    const std::uint64_t all = held_.load_relaxed() + more;
    const std::uint64_t waiting = waiting_.load_relaxed();
    return all > waiting && all - waiting > most;
  }
  void release(std::byte* chunk) noexcept {
    memory::deallocate(chunk, bytes, align);
    uncount(bytes);
  }

  spolia::detail::short_lock lock_;
  free_chunk* first_ = nullptr;
  atomic<std::uint64_t> free_{0};  // written under the lock
  atomic<std::uint64_t> held_{0};
  atomic<std::uint64_t> waiting_{0};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
