// SPDX-License-Identifier: Apache-2.0
// bucket.hpp: the immutable versions of a bucket of snapshot_hash.
//
// A version of bucket b with depth d holds all pairs whose hash agrees with b in the lower d bits.
// If it came about by a division, `sibling` is the first version of the other half, which belongs
// into bucket b + 2^(d-1): see snapshot_hash.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/hash_tags.hpp>
#include <spolia/map/detail/kept_pair.hpp>
#include <spolia/map/detail/pair_block.hpp>
#include <spolia/version/detail/told_stamp.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// A byte, behind that with which a version ends.
template <class Collector>
struct bucket_head : Collector::version {
  explicit bucket_head(std::uint8_t d) noexcept : depth(d) {}
  const std::uint8_t depth;
};

/// With sl_rt, and blocks at multiples of 64, a look-up reads one line, from `left` of the version
/// to `sibling`, and that of the pair.
template <class Pair, class Collector>
class bucket : public pair_block<bucket_head<Collector>, Pair> {
 public:
  using typename pair_block<bucket_head<Collector>, Pair>::pairs;

  hash_tags tags{};  // of the pairs, if there is no batch; set by its maker
  told_stamp stamp;
  bucket* sibling = nullptr;  // set by its maker, before it is published

  /// Whether all pairs have tags.
  [[nodiscard]] bool is_tagged() const noexcept {
    return this->batch == nullptr && this->count() <= hash_tags::most;
  }

  /// What is to become of pairs that were seen in a bucket: one of them goes, or one with the hash
  /// h comes, or both.
  struct edit {
    pairs seen;
    const Pair* without;
    const Pair* with;
    std::uint64_t h;
    [[nodiscard]] std::size_t size() const noexcept {
      return seen.size() + (with != nullptr ? 1U : 0U) - (without != nullptr ? 1U : 0U);
    }
    [[nodiscard]] std::size_t hole() const noexcept {
      return static_cast<std::size_t>(without - seen.data());
    }
  };
  /// The tags of what comes of pairs seen here. Now and then hash(pair) is asked for, and what that
  /// throws is thrown.
  template <class Hash>
  [[nodiscard]] hash_tags tags_after(const edit& e, Hash&& hash) const {
    if (!is_tagged()) [[unlikely]]
      return made_tags(e, hash);
    hash_tags made = tags;
    if (e.without != nullptr) made.take_out(e.hole());
    if (e.with != nullptr) made.put(e.size() - 1, e.h);
    return made;
  }
  void push_edited(const edit& e) noexcept {
    if (e.without == nullptr) {
      this->push(e.seen);
    } else {
      this->push(e.seen.first(e.hole()));
      this->push(e.seen.subspan(e.hole() + 1));
    }
    if (e.with != nullptr) this->push(*e.with);
  }

  /// Fetches all that a look-up needs; the first line is the collector's.
  void prefetch() const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(this) + 64);
    prefetch_pairs();
  }
  /// Fetches what lies behind the cache line that one looks at first.
  void prefetch_pairs() const noexcept {
    const auto* const at = reinterpret_cast<const char*>(this);
    __builtin_prefetch(at + 128);
    __builtin_prefetch(at + 192);
  }

 protected:
  bucket(void* room, std::uint8_t d) noexcept : pair_block<bucket_head<Collector>, Pair>(room, d) {}
  ~bucket() = default;

 private:
  template <class Hash>
  SPOLIA_NOINLINE static hash_tags made_tags(const edit& e, Hash&& hash) {
    hash_tags made;
    if (e.size() > hash_tags::most) return made;  // which nobody will ask
    std::size_t at = 0;
    for (const Pair& p : e.seen) {
      if (&p != e.without) made.put(at++, hash(p));
    }
    if (e.with != nullptr) made.put(at, e.h);
    return made;
  }
};

/// How many pairs a bucket has on average when the table doubles, unless one says so: 128 bytes of
/// what copying bytes copies, as much as the header of a version. With fewer, what a look-up finds
/// in no cache is headers. Of counted blocks less, since each copy counts, and each comparison
/// looks into a block.
template <class Key, class Value>
inline constexpr std::uint32_t usual_bucket_pairs =
    kept_pair<Key, Value>::extra_bytes != 0
        ? 2
        : std::clamp<std::uint32_t>(128 / sizeof(kept_pair<Key, Value>), 4, 8);

/// With pairs of two words, multiples of a cache line.
template <class Pair, class Collector>
using bucket_maker =
    block_maker<bucket<Pair, Collector>, typename Collector::domain_type, Pair, 4, 8, 12, 16>;

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
