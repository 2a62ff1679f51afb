// SPDX-License-Identifier: Apache-2.0
// bucket.hpp: the immutable versions of a bucket of snapshot_hash.
//
// A version of bucket b with depth d holds all pairs whose hash agrees with b in the lower d bits.
// If it came about by a division, `sibling` is the first version of the other half, which belongs
// into bucket b + 2^(d-1): see snapshot_hash.hpp.
//
// A version that belongs to a batch (map/changes.hpp) has two contents, of which it is one that
// counts: the pairs from before the batch, and behind them those from afterwards.
//
// A version is one block with its pairs behind it, in a few sizes; what is larger lies in a block
// of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/map/detail/batch_state.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// What all sizes share.
template <class Pair, class Collector>
class bucket : public Collector::version {
 public:
  using pairs = std::span<const Pair>;

  /// Both contents, if there are two.
  [[nodiscard]] pairs all() const noexcept {
    memory::note_access(this);
    return {pairs_, count_};
  }
  /// Of a version that belongs to a batch.
  [[nodiscard]] pairs before() const noexcept { return all().first(before_); }
  [[nodiscard]] pairs after() const noexcept { return all().subspan(before_); }
  /// What is in the bucket at time t, while this version is the one for it.
  template <class Timeline>
  [[nodiscard]] pairs at(std::uint64_t t, Timeline& time) const noexcept {
    if (batch == nullptr) [[likely]]
      return all();
    return batch->counts_at(t, time) ? after() : before();
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

  /// Only its maker, before it is published, and as often as there is room.
  void push(const Pair& pair) noexcept { ::new (pairs_ + count_++) Pair(pair); }
  /// What was pushed is from before this batch.
  void join(batch_state& b) noexcept {
    b.hold();
    batch = &b;
    before_ = count_;
  }

  const std::uint32_t depth;
  bucket* sibling = nullptr;     // set by its maker, before it is published
  batch_state* batch = nullptr;  // likewise; it is held

 protected:
  bucket(std::uint32_t d, void* room) noexcept : depth(d), pairs_(static_cast<Pair*>(room)) {}
  ~bucket() = default;

  /// In the destructors, while the room is there.
  void clear() noexcept {
    std::destroy_n(pairs_, count_);
    if (batch != nullptr) batch->drop();
  }

 private:
  std::uint32_t count_ = 0;
  std::uint32_t before_ = 0;
  Pair* const pairs_;
};

/// Room for Size pairs.
template <class Pair, class Collector, std::size_t Size>
class sized_bucket final : public bucket<Pair, Collector> {
  using domain_type = typename Collector::domain_type;

 public:
  explicit sized_bucket(std::uint32_t bits) noexcept : bucket<Pair, Collector>(bits, &room_) {}
  ~sized_bucket() { this->clear(); }
  void retire_by(typename domain_type::guard& g) noexcept override { g.retire(this); }
  void destroy_in(domain_type& nodes) noexcept override { nodes.destroy(this); }
  [[nodiscard]] std::size_t bytes() const noexcept override {
    return sizeof(*this) + this->count() * Pair::extra_bytes;
  }

 private:
  alignas(Pair) std::array<std::byte, Size * sizeof(Pair)> room_;
};

template <std::size_t Bytes, std::size_t Align>
class block {
 public:
  explicit block(std::size_t count)
      : bytes_(count * Bytes), room_(memory::allocate(bytes_, Align)) {}
  block(const block&) = delete;
  block& operator=(const block&) = delete;
  ~block() { memory::deallocate(room_, bytes_, Align); }
  [[nodiscard]] void* room() const noexcept { return room_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  void* room_;
};

/// Room for any number of pairs.
template <class Pair, class Collector>
class wide_bucket final : block<sizeof(Pair), alignof(Pair)>, public bucket<Pair, Collector> {
  using domain_type = typename Collector::domain_type;
  using away = block<sizeof(Pair), alignof(Pair)>;

 public:
  wide_bucket(std::uint32_t bits, std::size_t size)
      : away(size), bucket<Pair, Collector>(bits, away::room()) {}
  ~wide_bucket() { this->clear(); }
  void retire_by(typename domain_type::guard& g) noexcept override { g.retire(this); }
  void destroy_in(domain_type& nodes) noexcept override { nodes.destroy(this); }
  [[nodiscard]] std::size_t bytes() const noexcept override {
    return sizeof(*this) + away::bytes() + this->count() * Pair::extra_bytes;
  }
};

/// Makes empty versions with room for so many pairs.
template <class Pair, class Collector>
class bucket_maker {
 public:
  using version = bucket<Pair, Collector>;
  using domain_type = typename Collector::domain_type;

  /// Throws std::bad_alloc.
  static version* make(domain_type& nodes, std::uint32_t depth, std::size_t size) {
    switch (size) {
      case 0:
      case 1:
        return sized<1>(nodes, depth);
      case 2:
        return sized<2>(nodes, depth);
      case 3:
        return sized<3>(nodes, depth);
      case 4:
        return sized<4>(nodes, depth);
      case 5:
      case 6:
        return sized<6>(nodes, depth);
      default:
        return nodes.template make<wide_bucket<Pair, Collector>>(depth, size);
    }
  }

 private:
  template <std::size_t Size>
  static version* sized(domain_type& nodes, std::uint32_t depth) {
    return nodes.template make<sized_bucket<Pair, Collector, Size>>(depth);
  }
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
