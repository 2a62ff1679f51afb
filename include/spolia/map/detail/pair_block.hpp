// SPDX-License-Identifier: Apache-2.0
// pair_block.hpp: immutable pairs after a header of any kind: the versions of a bucket
// (bucket.hpp), the leaves of a tree (chromatic_nodes.hpp).
//
// A block that a batch changes (map/changes.hpp) has two contents, of which it is one that counts:
// the pairs from before the batch, and after them those from afterwards. One that batches rely on
// has its pairs like all others (batch_mark.hpp).
//
// A batch may change a place more than once. Each time it puts a block in the place of its own one
// from before, and tells that first. A thread that finds such a block and hears from the batch that
// it counts has met the block before the batch was ready, for the next one was not there yet. So
// what it sees is the pairs from before the batch, which were the place's when it met the block.
// Those from afterwards are the midst of the batch, and no snapshot's.
//
// A block is one piece with its pairs after the header, in a few sizes; what is larger lies in a
// piece of its own.
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

/// What all sizes share; `Base` is the header.
template <class Base, class Pair>
class pair_block : public Base {
  // The first and the last of the members are half a word each, as is what lies before them and
  // after them: so nothing is left empty.
  std::uint32_t count_ = 0;

 public:
  batch_mark batch;  // set by its maker, before it is published

  using pairs = std::span<const Pair>;

  /// Both contents, if there are two.
  [[nodiscard]] pairs all() const noexcept {
    memory::note_access(this);
    return {pairs_, count_};
  }
  /// Of a block that a batch changes.
  [[nodiscard]] pairs before() const noexcept { return all().first(cut()); }
  [[nodiscard]] pairs after() const noexcept { return all().subspan(cut()); }
  /// Only by the thread that makes the batch: it is about to change this place once more.
  void changes_again() noexcept {
    // relaxed → counts(): this is before the batch gets ready.
    cut_.store_relaxed(cut_.load_relaxed() | again);
  }
  /// Fetches its cache lines all at once; otherwise the pairs wait for the header.
  void prefetch() const noexcept { prefetch_at(this); }
  /// The same of one that may be gone.
  static void prefetch_at(const void* block) noexcept {
    const auto* const at = static_cast<const char*>(block);
    for (std::size_t line = 0; line < 6; ++line) __builtin_prefetch(at + 64 * line);
  }
  /// What counts at time t, while this block is the one for it.
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
  /// Whether what comes after this block may go by `seen`, which was current. From now on that
  /// stays: what a batch has not got ready by now never takes effect.
  template <class Timeline>
  [[nodiscard]] bool stands(pairs seen, Timeline& time) const noexcept {
    if (batch.is_none()) [[likely]]
      return true;
    return still_stands(seen, time);
  }
  /// The same for what leaves the pairs as they are: others may go on relying on them.
  template <class Timeline>
  [[nodiscard]] bool may_be_relied_on(pairs seen, Timeline& time) const noexcept {
    return !batch.has_two() || stands(seen, time);
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// What the pairs take that does not lie in the block.
  [[nodiscard]] std::size_t bytes_beside() const noexcept {
    std::size_t sum = 0;
    if constexpr (Pair::extra_bytes != 0) {
      for (const Pair& p : all()) sum += p.bytes_beside();
    }
    return sum;
  }

  /// Only its maker, before it is published, and as often as there is room.
  void push(const Pair& pair) noexcept { ::new (pairs_ + count_++) Pair(pair); }
  void push(pairs some) noexcept {
    std::uninitialized_copy(some.begin(), some.end(), pairs_ + count_);
    count_ += static_cast<std::uint32_t>(some.size());
  }
  /// What was pushed is from before this batch.
  void join(batch_state& b) noexcept {
    batch.change(b);
    cut_.store_relaxed(count_);
  }
  /// The batch relies on what was pushed, which repeats the pairs of `from`. Throws std::bad_alloc.
  template <class Timeline>
  void rely(batch_state& b, const pair_block& from, Timeline& time) {
    batch.rely(b, from.batch, time);
  }

 protected:
  template <class... Arguments>
  explicit pair_block(void* room, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), pairs_(static_cast<Pair*>(room)) {}
  ~pair_block() = default;

  /// In the destructors, while the room is there.
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
    // relaxed: the batch was ready, which we have heard by an acquire.
    return (cut_.load_relaxed() & again) == 0 || SPOLIA_FAULT("batch.shows_its_midst");
  }

  Pair* const pairs_;
  atomic<std::uint32_t> cut_{0};  // how many are from before the batch; and `again`
};

/// Room for Size pairs.
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

/// Room for any number of pairs.
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

/// Makes blocks without pairs, with room for so many; in pieces of these sizes, if they suffice.
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
