// SPDX-License-Identifier: Apache-2.0
// delta_chunks.hpp: the memory of one-shot partitions: chunks of one size, used again and again.
//
// Idea:        a partition that is dropped gives its chunks to the next one that grows. Only unused
//              chunks beyond `most_free` are given back to the system: new memory costs a page
//              fault for every 4 KiB, which is more than all the rest of collecting. To give back
//              what a transaction of a million rows has left takes 10 ms, so it is done in parts.
// Cost:        a short lock for each chunk, that is, for hundreds of versions.
// Fork:        in the child, free chunks are lost if a lost thread was just taking one.
// Memory:      `held()` is all that was taken from the system; `waiting()` is the part of it that
//              will be free when readers that may be walking over it have gone on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/base/threads.hpp>

#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class delta_chunks : private threads::listener {
 public:
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t bytes = 1024;
#else
  static constexpr std::size_t bytes = std::size_t{1} << 17U;
#endif
  static constexpr std::uint64_t most_free = 64;

  delta_chunks() { threads::listen(*this); }
  delta_chunks(const delta_chunks&) = delete;
  delta_chunks& operator=(const delta_chunks&) = delete;
  ~delta_chunks() {
    threads::unlisten(*this);
    trim();
  }

  /// Throws std::bad_alloc.
  std::byte* take() {
    if (std::byte* const c = take_free()) return c;
    void* const made = memory::allocate(bytes, align);
    count(bytes);
    return static_cast<std::byte*>(made);
  }
  void give(std::byte* chunk) noexcept {
#if defined(SPOLIA_MODEL)
    release(chunk);  // so that a use after this is found
#else
    const std::lock_guard hold(lock_);
    first_ = ::new (chunk) free_chunk{first_};
    free_.store_relaxed(free_.load_relaxed() + 1);
#endif
  }
  /// Gives some unused chunks back to the system, in a millisecond at most.
  void release_some() noexcept {
    for (std::uint64_t n = 0; n < most_at_once && free_.load_relaxed() > most_free; ++n) {
      std::byte* const c = take_free();
      if (c == nullptr) return;
      release(c);
    }
  }
  /// Gives all free chunks back to the system.
  void trim() noexcept {
    while (std::byte* const c = take_free()) release(c);
  }
  /// The same while there are more than `most` bytes; 0: gives nothing back.
  void shrink_to(std::uint64_t most) noexcept {
    while (over(most)) {
      std::byte* const c = take_free();
      if (c == nullptr) return;
      release(c);
    }
  }

  /// Count other memory of the partitions that was taken, or given back.
  void count(std::uint64_t more) noexcept { held_.fetch_add_relaxed(more); }
  void uncount(std::uint64_t less) noexcept { held_.fetch_sub_relaxed(less); }
  /// Count memory that begins to wait for readers, or has ended to wait.
  void begin_wait(std::uint64_t of) noexcept { waiting_.fetch_add_relaxed(of); }
  void end_wait(std::uint64_t of) noexcept { waiting_.fetch_sub_relaxed(of); }

  [[nodiscard]] std::uint64_t held() const noexcept { return held_.load_relaxed(); }
  [[nodiscard]] std::uint64_t waiting() const noexcept { return waiting_.load_relaxed(); }
  /// The bytes held, without those that wait.
  [[nodiscard]] std::uint64_t in_use() const noexcept {
    const std::uint64_t all = held_.load_relaxed();
    const std::uint64_t waiting = waiting_.load_relaxed();
    return all - (std::min)(all, waiting);
  }
  /// Whether another chunk would exceed `most` bytes, without those that wait. 0: no limit.
  [[nodiscard]] bool too_dear(std::uint64_t most) const noexcept {
    return free_.load_relaxed() == 0 && passes(most, bytes);
  }
  /// Whether there is more than that already.
  [[nodiscard]] bool over(std::uint64_t most) const noexcept { return passes(most, 0); }

 private:
  static constexpr std::size_t align = 64;
  static constexpr std::uint64_t most_at_once = 32;
  struct free_chunk {
    free_chunk* next;
  };

  /// Takes a free chunk; null: there is none.
  std::byte* take_free() noexcept {
    const std::lock_guard hold(lock_);
    free_chunk* const c = first_;
    if (c == nullptr) return nullptr;
    first_ = c->next;
    free_.store_relaxed(free_.load_relaxed() - 1);
    return reinterpret_cast<std::byte*>(c);
  }
  [[nodiscard]] bool passes(std::uint64_t most, std::uint64_t more) const noexcept {
    return most != 0 && in_use() + more > most;
  }
  void thread_left(std::uint32_t /*number*/) noexcept override {}
  void thread_lost(std::uint32_t /*number*/) noexcept override {}
  /// In the child of a fork, forgets a list that a lost thread was just changing: the child may end
  /// by exit(), which destroys the store.
  void forked() noexcept override {
    if (!lock_.reset()) return;
    first_ = nullptr;
    free_.store_relaxed(0);
  }
  /// Frees a chunk. Gives its pages back first: an allocator may keep the chunk, and the memory of
  /// copies of versions, which are small, would come on top of it.
  void release(std::byte* chunk) noexcept {
    give_pages_back(chunk, bytes);
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
