// SPDX-License-Identifier: Apache-2.0
// workspace.hpp: how much sessions keep from transaction to transaction. Internal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Forgets what is in there. The memory stays for the next transaction, unless it is much.
template <class T>
void clear_and_shrink(std::vector<T>& v) noexcept {
  constexpr std::size_t most_bytes_kept = std::size_t{64} << 10U;
  if (v.capacity() * sizeof(T) > most_bytes_kept) {
    std::vector<T>().swap(v);
  } else {
    v.clear();
  }
}

/// Room for row images, which go all together, or from a mark on. Used again from transaction to
/// transaction.
class arena {
 public:
  struct mark {
    std::size_t block = 0;
    std::size_t used = 0;
  };
  std::uint64_t* take(std::size_t words) {
    if (at_.block < blocks_.size()) [[likely]] {
      const block& b = blocks_[at_.block];
      if (b.size - at_.used >= words) [[likely]] {
        std::uint64_t* const found = b.words.get() + at_.used;
        at_.used += words;
        return found;
      }
    }
    return take_elsewhere(words);
  }
  [[nodiscard]] mark here() const noexcept { return at_; }
  void rewind(mark m) noexcept { at_ = m; }
  /// True: it had become large, and is not any more.
  bool clear() noexcept {
    at_ = {};
    if (!large_ && blocks_.size() <= most_blocks) return false;
    shrink();
    return true;
  }

 private:
  struct block {
    std::unique_ptr<std::uint64_t[]> words;
    std::size_t size = 0;
  };
  /// In a later block, or in a new one. Not inlined, so that take() is.
  SPOLIA_NOINLINE std::uint64_t* take_elsewhere(std::size_t words) {
    for (; at_.block < blocks_.size(); at_ = {at_.block + 1, 0}) {
      const block& b = blocks_[at_.block];
      if (b.size - at_.used < words) continue;
      at_.used += words;
      return b.words.get() + at_.used - words;
    }
    const std::size_t size = std::max<std::size_t>(words, 2048);
    large_ = large_ || size > most_kept;
    blocks_.push_back({std::make_unique_for_overwrite<std::uint64_t[]>(size), size});
    at_ = {blocks_.size() - 1, words};
    return blocks_.back().words.get();
  }
  SPOLIA_NOINLINE void shrink() noexcept {
    large_ = false;
    std::vector<block> left;
    try {
      left.reserve(most_blocks);
    } catch (const std::bad_alloc&) {  // then without them
    }
    for (block& b : blocks_) {
      if (left.size() < left.capacity() && b.size <= most_kept) left.push_back(std::move(b));
    }
    blocks_.swap(left);
  }

  static constexpr std::size_t most_blocks = 4;
  static constexpr std::size_t most_kept = 8192;  // words of a block
  std::vector<block> blocks_;
  mark at_;
  bool large_ = false;  // one is larger than that
};

/// Row images that go all together, or one by one: then they are used again for rows of their
/// width.
class image_store {
 public:
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
  /// Each leads to the next one. Without memory to note its width, it goes with all others.
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
