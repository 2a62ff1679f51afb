// SPDX-License-Identifier: Apache-2.0
// pair_block.hpp: immutable pairs after a header of any kind: the versions of a bucket
// (bucket.hpp), the leaves of a tree (chromatic_nodes.hpp).
//
// A block that a batch changes (map/changes.hpp) has two contents: the pairs from before the batch,
// and after them those from after it. One of the two counts. A block that batches rely on has one
// content, like all others (batch_mark.hpp).
//
// A batch may change a bucket or leaf more than once. Each time it replaces its own earlier block
// by a new one; before that it notes in the earlier one that it changes again. Suppose that a
// thread has found such an earlier block, and then learns from the batch that the batch counts. It
// had found the block before the batch was ready, since the next block was not there yet. So it
// takes the pairs from before the batch, which were the current ones when it found the block. The
// other pairs are an intermediate state of the batch, which no snapshot sees.
//
// A block is one piece of memory with its pairs after the header, in a few sizes. If it needs more
// room, its pairs are in a piece of their own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/map/detail/batch_mark.hpp>
#include <spolia/map/detail/batch_state.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// The common part of blocks of all sizes; `Base` is the header.
template <class Base, class Pair>
class pair_block : public Base {
  // The first and the last member are half a word each, as are the members before and after them:
  // so there is no padding.
  std::uint32_t count_ = 0;

 public:
  batch_mark batch;  // the block's maker sets it before the block is published

  using pairs = std::span<const Pair>;

  /// Both contents, if there are two.
  [[nodiscard]] pairs all() const noexcept {
    memory::note_access(this);
    return {pairs_, count_};
  }
  /// The two contents of a block that a batch changes.
  [[nodiscard]] pairs before() const noexcept { return all().first(cut()); }
  [[nodiscard]] pairs after() const noexcept { return all().subspan(cut()); }
  /// Notes that the batch is about to replace this block by another one of its own. Only for the
  /// thread that makes the batch.
  void changes_again() noexcept {
    // relaxed → counts(): this comes before the batch gets ready.
    cut_.store_relaxed(cut_.load_relaxed() | again);
  }
  /// Prefetches the block's cache lines all at once; otherwise the pairs would wait for the header.
  void prefetch() const noexcept { prefetch_at(this); }
  /// The same for a block that may have been freed.
  static void prefetch_at(const void* block) noexcept {
    const auto* const at = static_cast<const char*>(block);
    for (std::size_t line = 0; line < 6; ++line) __builtin_prefetch(at + 64 * line);
  }
  /// The pairs that count at time t. Precondition: this block is the version for t.
  template <class Timeline>
  [[nodiscard]] pairs at(std::uint64_t t, Timeline& time) const noexcept {
    if (!batch.has_two()) [[likely]]
      return all();
    return counts(t, time) ? after() : before();
  }
  template <class Timeline>
  [[nodiscard]] pairs current(Timeline& time) const noexcept {
    return at(batch_state::latest, time);
  }
  /// Whether a block that replaces this one may be made of `seen`, which was current. The result
  /// stays true: a batch that is not ready by now never takes effect.
  template <class Timeline>
  [[nodiscard]] bool stands(pairs seen, Timeline& time) const noexcept {
    if (batch.is_none()) [[likely]]
      return true;
    return still_stands(seen, time);
  }
  /// The same for a block that repeats the pairs: batches that rely on them are not disturbed.
  template <class Timeline>
  [[nodiscard]] bool may_be_relied_on(pairs seen, Timeline& time) const noexcept {
    return !batch.has_two() || stands(seen, time);
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// The bytes of the pairs that are not in the block.
  [[nodiscard]] std::size_t bytes_beside() const noexcept {
    std::size_t sum = 0;
    if constexpr (Pair::extra_bytes != 0) {
      for (const Pair& p : all()) sum += p.bytes_beside();
    }
    return sum;
  }

  /// Adds pairs. Only for the block's maker, before it is published, and while there is room.
  void push(const Pair& pair) noexcept { ::new (pairs_ + count_++) Pair(pair); }
  void push(pairs some) noexcept {
    std::uninitialized_copy(some.begin(), some.end(), pairs_ + count_);
    count_ += static_cast<std::uint32_t>(some.size());
  }
  /// Marks the pairs that were pushed so far as those from before this batch.
  void join(batch_state& b) noexcept {
    batch.change(b);
    cut_.store_relaxed(count_);
  }
  /// Notes that the batch relies on the pairs that were pushed, which repeat those of `from`.
  /// Throws std::bad_alloc.
  template <class Timeline>
  void rely(batch_state& b, const pair_block& from, Timeline& time) {
    batch.rely(b, from.batch, time);
  }

 protected:
  template <class... Arguments>
  explicit pair_block(void* room, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), pairs_(static_cast<Pair*>(room)) {}
  ~pair_block() = default;

  /// Ends the pairs. For the destructors of derived classes, while these still have the room.
  void clear() noexcept {
    std::destroy_n(pairs_, count_);
    batch.drop();
  }

 private:
  static constexpr std::uint32_t again = std::uint32_t{1} << 31U;

  [[nodiscard]] std::uint32_t cut() const noexcept { return cut_.load_relaxed() & ~again; }
  template <class Timeline>
  [[nodiscard]] SPOLIA_NOINLINE bool still_stands(pairs seen, Timeline& time) const noexcept {
    if (!SPOLIA_FAULT("batch.not_undone")) batch.decide(time);
    const pairs now = current(time);
    return now.data() == seen.data() && now.size() == seen.size();
  }
  template <class Timeline>
  [[nodiscard]] bool counts(std::uint64_t t, Timeline& time) const noexcept {
    if (!batch.changer().counts_at(t, time)) return false;
    // relaxed: the batch was ready, which we have learned by an acquire.
    return (cut_.load_relaxed() & again) == 0 || SPOLIA_FAULT("batch.shows_its_midst");
  }

  Pair* const pairs_;
  atomic<std::uint32_t> cut_{0};  // how many pairs are from before the batch; and the bit `again`
};

/// A block with room for Size pairs.
template <class Block, class Domain, class Pair, std::size_t Size>
class sized_block final : public Block {
 public:
  template <class... Arguments>
  explicit sized_block(Arguments&&... arguments)
      : Block(&room_, std::forward<Arguments>(arguments)...) {}
  ~sized_block() { this->clear(); }
  void retire_by(typename Domain::guard& g) noexcept override {
    g.retire(this, weight{this->bytes_beside()});
  }
  void destroy_in(Domain& nodes) noexcept override { nodes.destroy(this); }
  [[nodiscard]] std::size_t bytes() const noexcept override {
    return sizeof(*this) + this->bytes_beside();
  }

 private:
  alignas(Pair) std::array<std::byte, Size * sizeof(Pair)> room_;
};

template <std::size_t Bytes, std::size_t Align>
class room_apart {
 public:
  explicit room_apart(std::size_t count)
      : bytes_(count * Bytes), room_(memory::allocate(bytes_, Align)) {}
  room_apart(const room_apart&) = delete;
  room_apart& operator=(const room_apart&) = delete;
  ~room_apart() { memory::deallocate(room_, bytes_, Align); }
  [[nodiscard]] void* room() const noexcept { return room_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  void* room_;
};

/// A block with room for any number of pairs, in a piece of its own.
template <class Block, class Domain, class Pair>
class wide_block final : room_apart<sizeof(Pair), alignof(Pair)>, public Block {
  using away = room_apart<sizeof(Pair), alignof(Pair)>;

 public:
  template <class... Arguments>
  explicit wide_block(std::size_t size, Arguments&&... arguments)
      : away(size), Block(away::room(), std::forward<Arguments>(arguments)...) {}
  ~wide_block() { this->clear(); }
  void retire_by(typename Domain::guard& g) noexcept override {
    g.retire(this, weight{away::bytes() + this->bytes_beside()});
  }
  void destroy_in(Domain& nodes) noexcept override { nodes.destroy(this); }
  [[nodiscard]] std::size_t bytes() const noexcept override {
    return sizeof(*this) + away::bytes() + this->bytes_beside();
  }
};

/// Makes blocks without pairs, with room for so many. They are of these sizes, if that is enough.
template <class Block, class Domain, class Pair, std::size_t... Sizes>
class block_maker {
 public:
  /// Throws std::bad_alloc.
  template <class... Arguments>
  static Block* make(Domain& nodes, std::size_t size, Arguments... arguments) {
    Block* made = nullptr;
    const auto try_size = [&]<std::size_t Size>() {
      if (size > Size) return false;
      made = nodes.template make<sized_block<Block, Domain, Pair, Size>>(arguments...);
      return true;
    };
    if ((try_size.template operator()<Sizes>() || ...)) return made;
    return nodes.template make<wide_block<Block, Domain, Pair>>(size, arguments...);
  }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
