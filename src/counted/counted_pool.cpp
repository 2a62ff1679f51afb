// SPDX-License-Identifier: Apache-2.0
// counted_pool.cpp: the process's free blocks of counted objects.
#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/made_once.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/pool.hpp>

#include "counted/slabs.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace spolia::core::inline SPOLIA_OF_VERSION {

constinit thread_local SPOLIA_TLS_MODEL block_cache* own_blocks = nullptr;

namespace {

/// Free blocks of one size that no thread has at hand.
class depot {
 public:
  /// Some that have come back together, or so many others. Throws std::bad_alloc.
  block_chain take(unsigned size, std::size_t others) {
    const hold lock(*this);
    const block_chain some = chains_ != nullptr ? pop() : slabs_.take(size, others);
    out_ += some.count;
    return some;
  }

  void give(block_chain c) noexcept {
    if (c.first == nullptr) return;
    const hold lock(*this);
    out_ -= c.count;
    if (!are_too_many(kept_ + c.count)) return push(c);
    // And some more, since fewer are to be kept while fewer are in use.
    slabs_.put_back(c);
    for (int i = 0; i < 2 && chains_ != nullptr; ++i) slabs_.put_back(pop());
  }

  /// Gives back all that has no block in use or in a thread's hand, and says how many bytes. Others
  /// go on meanwhile: a few chains at a time.
  std::size_t trim() noexcept {
    constexpr int together = 16;
    std::size_t given = 0;
    for (bool more = true; more;) {
      const hold lock(*this);
      if (lost_) return 0;
      for (int i = 0; i < together && chains_ != nullptr; ++i) given += slabs_.put_back(pop());
      more = chains_ != nullptr;
    }
    return given;
  }

  /// In a forked child: a thread that holds the lock is gone, and may have been in the middle of a
  /// change.
  void recover() noexcept {
    if (!busy_.load_relaxed()) return;
    chains_ = nullptr;
    kept_ = 0;
    ::new (&slabs_) slabs;  // the old ones' blocks may be in use
    lost_ = true;
    busy_.store_relaxed(false);
  }

 private:
  static constexpr std::size_t bytes_to_keep = std::size_t{2} << 20U;
  static constexpr std::size_t blocks_to_keep = 256;

  class hold {
   public:
    explicit hold(depot& d) noexcept : depot_(d) {
      backoff wait;
      // acquire ← the release below: what the depot holds, and the links in its blocks.
      while (depot_.busy_.exchange_acquire(true)) wait.pause();
    }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;
    ~hold() { depot_.busy_.store_release(false); }  // release → the acquire above

   private:
    depot& depot_;
  };

  void push(block_chain c) noexcept {
    c.first->count = c.count;
    c.first->next_chain = std::exchange(chains_, c.first);
    kept_ += c.count;
  }
  block_chain pop() noexcept {
    free_block* const first = std::exchange(chains_, chains_->next_chain);
    kept_ -= first->count;
    return {first, first->count};
  }

  /// As many as are in use, since destruction comes in batches, and what takes the place of what
  /// has ended is made afterwards: of a table that grows, all that is in it.
  [[nodiscard]] bool are_too_many(std::size_t free) const noexcept {
    return slabs_.bytes() > bytes_to_keep && free > std::max(blocks_to_keep, out_) && !lost_;
  }

  atomic<bool> busy_{false};
  bool lost_ = false;             // some blocks in use are of slabs that are not known any more
  free_block* chains_ = nullptr;  // kept for use at once
  std::size_t kept_ = 0;          // blocks in these
  std::size_t out_ = 0;           // blocks that threads have
  slabs slabs_;
};

class block_pool final : listener {
 public:
  block_pool() { threads::listen(*this); }
  block_pool(const block_pool&) = delete;
  block_pool& operator=(const block_pool&) = delete;

  void* take(unsigned size) {
    block_cache& mine = cache();
    mine.turn(size);
    if (mine.at_hand(size).first == nullptr) {
      mine.at_hand(size) = depots_[size].take(size, mine.next_batch(size));
    }
    return mine.take(size);
  }

  void give(unsigned size, void* block) noexcept {
    block_cache* const mine = known_cache();
    if (mine == nullptr) {
      auto* const alone = ::new (block) free_block{nullptr, nullptr, 0};
      return depots_[size].give({alone, 1});
    }
    if (mine->give(size, block)) return;
    mine->turn(size);
    if (mine->at_hand(size).first != nullptr) {
      depots_[size].give(std::exchange(mine->at_hand(size), {}));
    }
    mine->give(size, block);
  }

  std::size_t trim() noexcept {
    std::size_t given = 0;
    if (block_cache* const mine = known_cache()) leave(*mine);
    for (depot& d : depots_) given += d.trim();
    return given;
  }

 private:
  ~block_pool() = default;  // never called: blocks may be given back after static destructors

  block_cache& cache() {
    if (own_blocks != nullptr) return *own_blocks;
    block_cache*& mine = caches_.of(threads::number()).of_thread;
    if (mine == nullptr) {
      mine = ::new (memory::allocate(sizeof(block_cache), alignof(block_cache))) block_cache;
    }
    return *(own_blocks = mine);
  }
  /// Null for a thread that has left, or if there is no memory for a cache.
  block_cache* known_cache() noexcept {
    if (own_blocks != nullptr) return own_blocks;
    if (here.number_plus_one == 0) return nullptr;
    try {
      return &cache();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  void thread_left(std::uint32_t number) noexcept override {
    own_blocks = nullptr;
    kept* const left = caches_.find(number);
    if (left == nullptr || left->of_thread == nullptr) return;
    leave(*left->of_thread);
    end(*left);
  }
  void leave(block_cache& all) noexcept {
    for (unsigned size = 0; size < block_cache::sizes; ++size) {
      depots_[size].give(std::exchange(all.at_hand(size), {}));
      depots_[size].give(std::exchange(all.spare(size), {}));
    }
  }
  void thread_lost(std::uint32_t number) noexcept override {
    kept* const lost = caches_.find(number);
    if (lost != nullptr && lost->of_thread != nullptr) *lost->of_thread = {};
  }
  /// A thread that trims, or has no memory for a cache, need not have a number.
  void forked() noexcept override {
    for (depot& d : depots_) d.recover();
  }

  /// A thread's cache has room for blocks of each size, four kilobytes, and goes with the thread.
  struct kept {
    block_cache* of_thread = nullptr;
  };
  static void end(kept& k) noexcept {
    memory::deallocate(std::exchange(k.of_thread, nullptr), sizeof(block_cache),
                       alignof(block_cache));
  }

  cells<kept> caches_;
  std::array<depot, block_cache::sizes> depots_;
};

block_pool& pool() {
  static constinit made_once<block_pool> it;
  return it.get();
}

}  // namespace

void* take_block(unsigned size) { return pool().take(size); }
void give_block(unsigned size, void* block) noexcept { pool().give(size, block); }
std::size_t trim_blocks() noexcept { return pool().trim(); }

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
