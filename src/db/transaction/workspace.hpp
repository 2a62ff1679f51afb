// SPDX-License-Identifier: Apache-2.0
// workspace.hpp: the working memory of sessions: how much it is, how much of it a budget refuses,
// and how much a session keeps from transaction to transaction. Internal.
//
// Counted:     the blocks that a vector or an arena has, not what is put into them. So a call of a
//              transaction counts nothing, unless it needs another block.
// Refused:     a block that would exceed options::budget. Then the call that needs it throws
//              row_budget::exceeded and has changed nothing, and the transaction goes on.
// Kept:        by each of the first 64 sessions, what a usual transaction needs; a thread takes the
//              session of its own number first. By the others, nothing: there are as many sessions
//              as were ever open at one time, and that may have been once.
// Given back:  large blocks give their pages back to the system when they are freed. An allocator
//              may keep such a block between others for the next request of that size: it would be
//              a hole that nothing else fills, and the next transactions may be small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/db/result.hpp>

#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class engine;

/// Counts the memory of a session. Only the session's holder changes it.
class work_account {
 public:
  /// To be called before all else.
  void belongs_to(engine& of) noexcept { of_ = &of; }
  /// Throws row_budget::exceeded.
  void take(std::uint64_t bytes) {
    if (!unrefused_) must_fit(bytes);
    add(bytes);
  }
  /// Throws row_budget::exceeded if there would be no room for `more`.
  void must_fit(std::uint64_t more) const;
  /// The status for that.
  [[nodiscard]] status is_used_up() const noexcept;
  /// Counts memory that is not refused.
  void add(std::uint64_t bytes) noexcept;
  void give(std::uint64_t bytes) noexcept { add(~bytes + 1); }
  /// Notes whether the transaction commits now: then no room is left for a later commit.
  void commits(bool now) noexcept { commits_ = now; }
  /// For any thread.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_.load_relaxed(); }

  /// While such an object lives, nothing is refused; for rollbacks, which must not stop half-way.
  class unrefused {
   public:
    explicit unrefused(work_account& of) noexcept
        : of_(of), outer_(std::exchange(of.unrefused_, true)) {}
    unrefused(const unrefused&) = delete;
    unrefused& operator=(const unrefused&) = delete;
    ~unrefused() { of_.unrefused_ = outer_; }

   private:
    work_account& of_;
    const bool outer_;
  };

 private:
  engine* of_ = nullptr;
  bool unrefused_ = false;
  bool commits_ = false;
  atomic<std::uint64_t> bytes_{0};
};

/// Takes memory on a session's account.
template <class T>
class counted {
 public:
  using value_type = T;

  /// `to`: the account; null: none. `refused`: whether a budget may refuse memory, or it is only
  /// counted.
  explicit counted(work_account* to, bool refused = true) noexcept : to_(to), refused_(refused) {}
  explicit counted(work_account& to, bool refused = true) noexcept : counted(&to, refused) {}
  template <class U>
  explicit counted(const counted<U>& o) noexcept : to_(o.to_), refused_(o.refused_) {}

  /// Throws std::bad_alloc and row_budget::exceeded.
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (to_ != nullptr) refused_ ? to_->take(bytes) : to_->add(bytes);
    try {
      return static_cast<T*>(memory::allocate(bytes, alignof(T)));
    } catch (...) {
      if (to_ != nullptr) to_->give(bytes);
      throw;
    }
  }
  void deallocate(T* first, std::size_t count) noexcept {
    // From this size on glibc's allocator maps each block by itself, until one was freed; then it
    // keeps blocks of that size.
    constexpr std::size_t large = std::size_t{128} << 10U;
    const std::size_t bytes = count * sizeof(T);
    if (bytes >= large) give_pages_back(reinterpret_cast<std::byte*>(first), bytes);
    memory::deallocate(first, bytes, alignof(T));
    if (to_ != nullptr) to_->give(bytes);
  }
  friend bool operator==(const counted& a, const counted& b) noexcept { return a.to_ == b.to_; }

 private:
  template <class U>
  friend class counted;
  work_account* to_;
  bool refused_;
};
template <class T>
using counted_vector = std::vector<T, counted<T>>;

/// What a session keeps for the next transaction.
enum class kept_memory : std::uint8_t {
  much,  ///< what a usual transaction needs
  none
};
inline constexpr std::uint32_t sessions_that_keep_much = 64;

/// Empties the vector. Its memory stays for the next transaction, unless it is too much.
template <class T>
void clear_and_shrink(counted_vector<T>& v, kept_memory keeps = kept_memory::much) noexcept {
  const std::size_t most_bytes_kept = keeps == kept_memory::much ? std::size_t{64} << 10U : 0;
  if (v.capacity() * sizeof(T) > most_bytes_kept) {
    counted_vector<T>(v.get_allocator()).swap(v);
  } else {
    v.clear();
  }
}

/// Memory for row images, which are freed all together, or from a mark on. The blocks are used
/// again by the next transaction.
class arena {
 public:
  /// `refused`: as for counted.
  explicit arena(work_account& to, bool refused = true) noexcept : memory_(to, refused) {}
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena() {
    for (const block& b : blocks_) memory_.deallocate(b.words, b.size);
  }

  struct mark {
    std::size_t block = 0;
    std::size_t used = 0;
  };
  std::uint64_t* take(std::size_t words) {
    if (at_.block < blocks_.size()) [[likely]] {
      const block& b = blocks_[at_.block];
      if (b.size - at_.used >= words) [[likely]] {
        std::uint64_t* const found = b.words + at_.used;
        at_.used += words;
        return found;
      }
    }
    return take_elsewhere(words);
  }
  [[nodiscard]] mark here() const noexcept { return at_; }
  void rewind(mark m) noexcept { at_ = m; }
  /// Frees all images. True: the arena had become large, and is not any more.
  bool clear() noexcept {
    at_ = {};
    if (!large_ && blocks_.size() <= most_blocks) return false;
    shrink();
    return true;
  }
  /// Frees all blocks; to be called after clear().
  void keep_nothing() noexcept {
    for (const block& b : blocks_) memory_.deallocate(b.words, b.size);
    std::vector<block>().swap(blocks_);
  }

 private:
  struct block {
    std::uint64_t* words = nullptr;
    std::size_t size = 0;
  };
  /// Takes memory in a later block, or in a new one. Not inlined, so that take() is.
  SPOLIA_NOINLINE std::uint64_t* take_elsewhere(std::size_t words) {
    for (; at_.block < blocks_.size(); at_ = {at_.block + 1, 0}) {
      const block& b = blocks_[at_.block];
      if (b.size - at_.used < words) continue;
      at_.used += words;
      return b.words + at_.used - words;
    }
    const std::size_t size = std::max(words, size_of_next());
    large_ = large_ || size > most_kept;
    blocks_.push_back({});
    try {
      blocks_.back() = {memory_.allocate(size), size};
    } catch (...) {
      blocks_.pop_back();
      throw;
    }
    at_ = {blocks_.size() - 1, words};
    return blocks_.back().words;
  }
  /// The first block is small: it is enough for most, and each unused session has one. If there are
  /// many blocks, the next ones are large, so that their pages can be given back.
  [[nodiscard]] std::size_t size_of_next() const noexcept {
    if (blocks_.empty()) return first_size;
    return blocks_.size() < 2 * most_blocks ? usual_size : 16 * usual_size;
  }
  SPOLIA_NOINLINE void shrink() noexcept {
    large_ = false;
    std::vector<block> left;
    try {
      left.reserve(most_blocks);
    } catch (const std::bad_alloc&) {  // then it keeps none
    }
    for (const block& b : blocks_) {
      if (left.size() < left.capacity() && b.size <= most_kept) {
        left.push_back(b);
      } else {
        memory_.deallocate(b.words, b.size);
      }
    }
    blocks_.swap(left);
  }

  static constexpr std::size_t most_blocks = 4;
  static constexpr std::size_t first_size = 256;  // words of a block
  static constexpr std::size_t usual_size = 2048;
  static constexpr std::size_t most_kept = 8192;
  counted<std::uint64_t> memory_;
  std::vector<block> blocks_;
  mark at_;
  bool large_ = false;  // a block is larger than most_kept
};

/// Memory for row images, which are freed all together, or one by one: then they are used again for
/// rows of the same width.
class image_store {
 public:
  explicit image_store(work_account& to) noexcept : room_(to) {}

  /// Throws std::bad_alloc.
  std::uint64_t* take(std::size_t words) {
    if (!given_back_.empty()) [[unlikely]] {
      for (auto& [width, first] : given_back_) {
        if (width == words && first != nullptr) {
          return std::exchange(first, reinterpret_cast<std::uint64_t*>(*first));
        }
      }
    }
    return room_.take(words);
  }
  /// Gives an image back: it is linked to the others of its width. If there is no memory to note
  /// the width, it is freed with all others.
  void give(std::uint64_t* image, std::size_t words) noexcept {
    auto same = std::find_if(given_back_.begin(), given_back_.end(),
                             [&](const chain& c) { return c.words == words; });
    if (same == given_back_.end()) {
      try {
        same = given_back_.insert(same, chain{words, nullptr});
      } catch (const std::bad_alloc&) {
        return;
      }
    }
    *image = reinterpret_cast<std::uintptr_t>(std::exchange(same->first, image));
  }
  /// As arena's.
  bool clear() noexcept {
    given_back_.clear();
    return room_.clear();
  }
  void keep_nothing() noexcept {
    std::vector<chain>().swap(given_back_);
    room_.keep_nothing();
  }

 private:
  struct chain {
    std::size_t words;
    std::uint64_t* first;
  };

  arena room_;
  std::vector<chain> given_back_;  // one for each width
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
