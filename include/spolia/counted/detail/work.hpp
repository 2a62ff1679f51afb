// SPDX-License-Identifier: Apache-2.0
// work.hpp: objects that are to end, and units that ended with an object: a stack that its thread
// works off from the top, and a place where threads leave what they have no time for.
//
// From the top: so a tree ends depth first, and what waits is at most its branching times its
// depth, not the width of a level.
//
// Errors:      push returns false only if memory has run out and the small reserve is full.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/counted/detail/unit_log.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

struct work_chunk {
  static constexpr std::uint32_t capacity = 61;
  work_chunk* next = nullptr;
  std::uint32_t count = 0;
  std::array<entry, capacity> at;

  static work_chunk* make() noexcept {
    try {
      return ::new (memory::allocate(sizeof(work_chunk), alignof(work_chunk))) work_chunk;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  static std::uint64_t entries(const work_chunk* chain) noexcept {
    std::uint64_t sum = 0;
    for (; chain != nullptr; chain = chain->next) sum += chain->count;
    return sum;
  }
  static void end(work_chunk* c) noexcept {
    c->~work_chunk();
    memory::deallocate(c, sizeof(work_chunk), alignof(work_chunk));
  }
};

/// Where any thread finds work that another one has left. Everything is taken at once, so no thread
/// can be fooled by a chunk that comes back.
class left_work {
 public:
  left_work() = default;
  left_work(const left_work&) = delete;
  left_work& operator=(const left_work&) = delete;
  ~left_work() {
    for (work_chunk* c = first_.load_relaxed(); c != nullptr;) {
      work_chunk* const after = c->next;
      work_chunk::end(c);
      c = after;
    }
  }

  [[nodiscard]] bool empty() const noexcept { return first_.load_relaxed() == nullptr; }

  void leave(work_chunk* chain) noexcept {
    work_chunk* last = chain;
    while (last->next != nullptr) last = last->next;
    work_chunk* seen = first_.load_relaxed();
    do {
      last->next = seen;
      // release → the acquire in take: the entries, and what happened to their objects before.
    } while (!first_.cas_weak_release(seen, chain));
  }

  /// When no other thread is about.
  [[nodiscard]] std::uint64_t entries() const noexcept {
    return work_chunk::entries(first_.load_relaxed());
  }

  work_chunk* take() noexcept {
    if (empty()) return nullptr;
    // acquire ← the release in leave.
    return first_.exchange_acquire(nullptr);
  }

 private:
  atomic<work_chunk*> first_{nullptr};
};

class work_stack {
 public:
  work_stack() = default;
  work_stack(const work_stack&) = delete;
  work_stack& operator=(const work_stack&) = delete;
  ~work_stack() {
    while (top_ != nullptr) pop_chunk();
    if (spare_ != nullptr) work_chunk::end(spare_);
  }

  [[nodiscard]] bool empty() const noexcept { return reserved_ == 0 && top_ == nullptr; }

  /// The same as push where the chunk on top has room. False: it has none.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE bool push_into_chunk(entry e) noexcept {
    if (top_ == nullptr || top_->count == work_chunk::capacity) return false;
    top_->at[top_->count++] = e;
    return true;
  }

  [[nodiscard]] bool push(entry e) noexcept {
    if (top_ == nullptr || top_->count == work_chunk::capacity) {
      work_chunk* const fresh = spare_ != nullptr ? spare_ : work_chunk::make();
      if (fresh == nullptr) {
        if (reserved_ == reserve_.size()) return false;
        reserve_[reserved_++] = e;
        return true;
      }
      spare_ = nullptr;
      fresh->next = top_;
      top_ = fresh;
    }
    top_->at[top_->count++] = e;
    return true;
  }

  /// Whether n pushes will succeed.
  [[nodiscard]] bool has_room(std::size_t n) noexcept {
    std::size_t room = reserve_.size() - reserved_;
    if (top_ != nullptr) room += work_chunk::capacity - top_->count;
    if (room < n && spare_ == nullptr) spare_ = work_chunk::make();
    if (spare_ != nullptr) room += work_chunk::capacity;
    return room >= n;
  }

  /// Not to be called when empty.
  entry pop() noexcept {
    if (reserved_ > 0) return reserve_[--reserved_];
    const entry e = top_->at[--top_->count];
    if (top_->count == 0) pop_chunk();
    return e;
  }

  /// Leaves everything to others, but for what stands in the reserve.
  void leave_to(left_work& others) noexcept {
    if (top_ == nullptr) return;
    others.leave(top_);
    top_ = nullptr;
  }

  /// Takes one chunk of what others have left, if this stack is empty.
  bool take_from(left_work& others) noexcept {
    work_chunk* const chain = others.take();
    if (chain == nullptr) return false;
    if (chain->next != nullptr) others.leave(chain->next);
    chain->next = nullptr;
    top_ = chain;
    return true;
  }

  /// Of a thread that has ended: the chunk that is kept for later goes.
  void give_up_memory() noexcept {
    if (spare_ != nullptr) work_chunk::end(std::exchange(spare_, nullptr));
  }

  [[nodiscard]] std::uint64_t entries() const noexcept {
    return reserved_ + work_chunk::entries(top_);
  }

  /// The thread has vanished in a fork, perhaps in the middle of a change.
  void forget() noexcept {
    top_ = spare_ = nullptr;
    reserved_ = 0;
  }

 private:
  void pop_chunk() noexcept {
    work_chunk* const empty = top_;
    top_ = empty->next;
    if (spare_ == nullptr) {
      empty->count = 0;
      spare_ = empty;
    } else {
      work_chunk::end(empty);
    }
  }

  work_chunk* top_ = nullptr;
  work_chunk* spare_ = nullptr;
  std::uint32_t reserved_ = 0;
  std::array<entry, 16> reserve_{};
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
