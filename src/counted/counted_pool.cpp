// SPDX-License-Identifier: Apache-2.0
// counted_pool.cpp: the process's free blocks of counted objects.
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/made_once.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/pool.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace spolia::core {

constinit thread_local block_cache* own_blocks = nullptr;

namespace {

/// Stands at the begin of the memory that blocks are cut from; the first block's head may follow 56
/// bytes later.
struct slab {
  slab* next;
  std::size_t bytes;
  std::size_t align;
  std::size_t cut;   // blocks
  std::size_t free;  // of these; counted when it matters
};
static_assert(sizeof(slab) <= 56);

/// Free blocks of one size that no thread has at hand.
class depot {
 public:
  /// Some that have come back together, or so many fresh ones. Throws std::bad_alloc.
  block_chain take(unsigned size, std::size_t fresh) {
    const hold lock(*this);
    if (chains_ != nullptr) {
      free_block* const first = std::exchange(chains_, chains_->next_chain);
      return {first, first->count};
    }
    return carve(size, fresh);
  }

  void give(block_chain c) noexcept {
    if (c.first == nullptr) return;
    const hold lock(*this);
    c.first->count = c.count;
    c.first->next_chain = chains_;
    chains_ = c.first;
  }

  /// Gives slabs back to the allocator whose blocks have all come back, and says how many bytes.
  /// Others go on meanwhile: what is looked at is taken out of the depot.
  std::size_t trim() {
    content mine = take_all();
    std::vector<slab*> slabs;
    try {
      for (slab* s = mine.slabs; s != nullptr; s = s->next) slabs.push_back(s);
    } catch (const std::bad_alloc&) {
      put_all(mine);
      return 0;
    }
    std::sort(slabs.begin(), slabs.end(), std::less<>());
    // Null: a block of the slab that is just being cut.
    const auto slab_of = [&](const void* block) -> slab* {
      const auto above =
          std::upper_bound(slabs.begin(), slabs.end(), block, [](const void* b, const slab* s) {
            return std::less<>()(b, static_cast<const void*>(s));
          });
      if (above == slabs.begin()) return nullptr;
      slab* const s = *(above - 1);
      return std::less<>()(block, static_cast<const void*>(bytes_of(s) + s->bytes)) ? s : nullptr;
    };
    for (slab* s : slabs) s->free = 0;
    for_each_block(mine.chains, [&](free_block* b) {
      if (slab* const s = slab_of(b)) ++s->free;
    });
    content rest;
    for_each_block(mine.chains, [&](free_block* b) {
      const slab* const s = slab_of(b);
      if (s == nullptr || s->free != s->cut) rest.add(b);
    });
    std::size_t given = 0;
    for (slab* s : slabs) {
      if (s->free == s->cut) {
        given += s->bytes;
        memory::deallocate(s, s->bytes, s->align);
      } else {
        s->next = std::exchange(rest.slabs, s);
      }
    }
    put_all(rest);
    return given;
  }

  /// In a forked child: a thread that holds the lock is gone, and may have been in the midst of a
  /// change.
  void recover() noexcept {
    if (!busy_.load(std::memory_order_relaxed)) return;
    chains_ = nullptr;
    slabs_ = nullptr;
    next_ = end_ = nullptr;
    busy_.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t line = block_cache::line;
  static constexpr std::size_t least_slab = std::size_t{8} << 10U;
  static constexpr std::size_t huge_page = std::size_t{2} << 20U;

  class hold {
   public:
    explicit hold(depot& d) noexcept : depot_(d) {
      backoff wait;
      // acquire ← the release below: what the depot holds, and the links in its blocks.
      while (depot_.busy_.exchange(true, std::memory_order_acquire)) wait.pause();
    }
    hold(const hold&) = delete;
    hold& operator=(const hold&) = delete;
    ~hold() {
      depot_.busy_.store(false, std::memory_order_release);
    }  // release → the acquire above

   private:
    depot& depot_;
  };

  struct content {
    free_block* chains = nullptr;
    slab* slabs = nullptr;

    /// In chains as others are.
    void add(free_block* b) noexcept {
      if (chains == nullptr || chains->count == most_in_chain) {
        *b = {nullptr, chains, 0};
        chains = b;
      } else {
        b->next = std::exchange(chains->next, b);
      }
      ++chains->count;
    }
    static constexpr std::size_t most_in_chain = 14;  // a batch of the largest blocks
  };

  /// All but the slab that is just being cut.
  content take_all() noexcept {
    const hold lock(*this);
    return {std::exchange(chains_, nullptr),
            slabs_ != nullptr ? std::exchange(slabs_->next, nullptr) : nullptr};
  }
  void put_all(const content& c) noexcept {
    const hold lock(*this);
    free_block** last = &chains_;
    while (*last != nullptr) last = &(*last)->next_chain;
    *last = c.chains;
    slab** end = &slabs_;
    while (*end != nullptr) end = &(*end)->next;
    *end = c.slabs;
  }
  /// f may change the block.
  template <class F>
  static void for_each_block(free_block* chains, F f) {
    while (chains != nullptr) {
      free_block* b = std::exchange(chains, chains->next_chain);
      while (b != nullptr) f(std::exchange(b, b->next));
    }
  }
  static unsigned char* bytes_of(slab* s) noexcept { return reinterpret_cast<unsigned char*>(s); }

  /// How much is to be left out before a block at `at`, so that its object lies in one line. Only
  /// objects of three words after counts of two: one in four would lie over two lines, and three
  /// blocks in two lines take 1/15 more room. Others would take a third more, or fit anyway.
  static std::size_t gap(unsigned size, const unsigned char* at) noexcept {
    constexpr std::size_t counts = 16;
    constexpr std::size_t object = 24;
    if (size != block_cache::bare_size_for(counts + object)) return 0;
    const std::size_t begin = (reinterpret_cast<std::uintptr_t>(at) + counts) % line;
    return begin + object <= line ? 0 : line - begin;
  }

  /// Whether the slab that is just being cut has room for one block more.
  [[nodiscard]] bool fits(unsigned size) const noexcept {
    return static_cast<std::size_t>(end_ - next_) >=
           gap(size, next_) + block_cache::stride_of(size);
  }

  [[nodiscard]] std::size_t align_of_slab() const noexcept {
    return slab_ == huge_page ? huge_page : line;
  }

  block_chain carve(unsigned size, std::size_t wanted) {
    const std::size_t stride = block_cache::stride_of(size);
    if (!fits(size)) {
      // Where a large slab is not to be had, a smaller one may be.
      void* at = nullptr;
      while ((at = ::operator new(slab_, std::align_val_t{align_of_slab()}, std::nothrow)) ==
             nullptr) {
        if (slab_ == least_slab) throw std::bad_alloc();
        slab_ /= 2;
      }
      const std::size_t bytes = slab_;
      const std::size_t align = align_of_slab();
      slabs_ = ::new (at) slab{slabs_, bytes, align, 0, 0};
#if defined(MADV_HUGEPAGE)
      // Walks through large structures miss fewer translations so. Not to be had: no matter. Only
      // after the first page has been written: else the system makes a huge page at once, for which
      // it may have to move others together, and the thread waits for milliseconds. Now it does so
      // later, beside us.
      if (bytes == huge_page) (void)madvise(at, bytes, MADV_HUGEPAGE);
#endif
      // Begins of blocks lie at multiples of a cache line where the stride allows it.
      next_ = static_cast<unsigned char*>(at) + line;
      end_ = next_ + (bytes - line);
      slab_ = std::min(2 * slab_, huge_page);
    }
    block_chain made;
    free_block** link = &made.first;
    for (; made.count < wanted && fits(size); ++made.count) {
      next_ += gap(size, next_);
      *link = ::new (static_cast<void*>(next_)) free_block{nullptr, nullptr, 0};
      link = &(*link)->next;
      next_ += stride;
    }
    slabs_->cut += made.count;
    return made;
  }

  std::atomic<bool> busy_{false};
  free_block* chains_ = nullptr;
  slab* slabs_ = nullptr;  // the first is the one that is just being cut
  unsigned char* next_ = nullptr;
  unsigned char* end_ = nullptr;
  std::size_t slab_ = least_slab;
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

  std::size_t trim() {
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

}  // namespace spolia::core
