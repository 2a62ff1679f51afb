// SPDX-License-Identifier: Apache-2.0
// bucket.hpp: the immutable versions of a bucket of snapshot_hash.
//
// A version of bucket b with depth d holds all pairs whose hash agrees with b in the lower d bits.
// If it was made by a split, `sibling` is the first version of the other half, which belongs into
// bucket b + 2^(d-1): see snapshot_hash.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/hash_tags.hpp>
#include <spolia/map/detail/kept_pair.hpp>
#include <spolia/map/detail/pair_block.hpp>
#include <spolia/version/told_stamp.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// A collector's version, and one byte right after it.
#pragma GCC diagnostic push
// See list_ssl.hpp: a domain ends each version by the type that it was made with.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
template <class Collector>
struct bucket_head : Collector::version {
  explicit bucket_head(std::uint8_t d) noexcept : depth(d) {}
  const std::uint8_t depth;

 protected:
  ~bucket_head() = default;
};
#pragma GCC diagnostic pop

/// With sl_rt, and blocks at multiples of 64, a look-up reads one cache line, from `left` of the
/// version to `stamp`, and the line of the pair, if there is one with that tag.
template <class Pair, class Collector>
class bucket : public pair_block<bucket_head<Collector>, Pair> {
 public:
  using typename pair_block<bucket_head<Collector>, Pair>::pairs;

  hash_tags tags{};  // the pairs', if no batch changes them; set by the version's maker
  detail::version::told_stamp stamp;
  bucket* sibling = nullptr;  // set by the version's maker, before it is published

  /// A change of the pairs that were seen in a bucket: `without` is removed, or `with`, which has
  /// the hash h, is added, or both.
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
  /// Gives this version, which has no pairs yet, the changed pairs of `from`, and their tags. Calls
  /// hash(pair) now and then, and throws what that throws.
  template <class Hash>
  void follow(const bucket& from, const edit& e, Hash&& hash) {
    if (!from.batch.has_two()) [[likely]] {
      tag_edited(from.tags, e, hash);
    } else {
      tag_all(e, hash);
    }
    push_edited(e);
  }
  /// Gives it all the pairs seen, unchanged.
  template <class Hash>
  void repeat(const bucket& from, pairs seen, Hash&& hash) {
    if (!from.batch.has_two()) {
      tags = from.tags;
    } else {
      std::size_t at = 0;
      for (const Pair& p : seen) tags.put(at++, hash(p));
    }
    this->push(seen);
  }
  /// The added pair gets the position of the removed one, or else the first: so pairs that are
  /// often added and removed are at the beginning. A search finds them in the cache line that it
  /// has prefetched together with the tags, and need not fetch one more from the processor that has
  /// changed them.
  void push_edited(const edit& e) noexcept {
    const std::size_t hole = e.without != nullptr ? e.hole() : 0;
    this->push(e.seen.first(hole));
    if (e.with != nullptr) this->push(*e.with);
    this->push(e.seen.subspan(e.without != nullptr ? hole + 1 : 0));
  }

  /// The positions of pairs that may have that hash, among those with tags. Precondition: no batch
  /// changes the pairs.
  [[nodiscard]] hash_tags::places like(std::uint64_t h) const noexcept {
    return tags.like(h, std::min<std::size_t>(this->count(), hash_tags::most));
  }

  /// Prefetches the line with which a look-up begins, which is not the first one, and the first
  /// pairs.
  void prefetch() const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(this) + 64);
    prefetch_pairs();
  }
  /// Prefetches the first pairs, while stamp and tags are still on their way. No more of them: each
  /// line that is read here costs another processor a request when it writes.
  void prefetch_pairs() const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(this) + 128);
  }
  /// Prefetches the pairs after these, for a caller that may be about to copy all.
  void prefetch_more_pairs() const noexcept {
    __builtin_prefetch(reinterpret_cast<const char*>(this) + 192);
  }
  /// For a caller that is about to put another version before this one, in the list at `head`.
  /// Prefetches for writing what will be written: the head, and all lines of this version, which
  /// ends, and whose memory becomes a new one. Otherwise each line would be requested, when it is
  /// written, from another processor that has read or made it, and the next locked operation would
  /// wait for all of them. Not to be called before it is known that there is something to change:
  /// others may go on reading here.
  void prefetch_to_replace(const void* head) const noexcept {
    __builtin_prefetch(head, 1);
    const pairs all = this->all();
    if (all.empty()) return;  // other buckets may share it: empty_versions.hpp
    const auto* const at = reinterpret_cast<const char*>(this);
    for (std::size_t line = 0; line < 3; ++line) __builtin_prefetch(at + 64 * line, 1);
    // Nothing after the last pair: that memory is another version's.
    const auto* const first = reinterpret_cast<const char*>(all.data());
    const std::size_t bytes = std::min<std::size_t>(all.size_bytes(), 512);
    for (std::size_t i = 64; i <= bytes; i += 64) __builtin_prefetch(first + i, 1);
  }

 protected:
  bucket(void* room, std::uint8_t d) noexcept : pair_block<bucket_head<Collector>, Pair>(room, d) {}
  ~bucket() = default;

 private:
  /// `seen`: the tags of the pairs that were seen.
  template <class Hash>
  void tag_edited(const hash_tags& seen, const edit& e, Hash& hash) {
    if (e.without == nullptr) return tags.put_first(seen, e.h);
    if (e.with != nullptr) {
      tags = seen;
      return tags.put(e.hole(), e.h);
    }
    tags.put_without(seen, e.hole());
    if (e.hole() < hash_tags::most && e.seen.size() > hash_tags::most) [[unlikely]]
      tags.put(hash_tags::most - 1, hash(e.seen[hash_tags::most]));
  }
  template <class Hash>
  SPOLIA_NOINLINE void tag_all(const edit& e, Hash& hash) {
    hash_tags seen;
    std::size_t at = 0;
    for (const Pair& p : e.seen) seen.put(at++, hash(p));
    tag_edited(seen, e, hash);
  }
};

/// How many pairs a bucket has on average when the table doubles, unless the user sets it. If pairs
/// are copied as bytes: 256 bytes, twice the header of a version, so that the pairs are at least as
/// large as the header when the table has doubled. With fewer pairs, the caches would be full of
/// headers. If pairs are counted blocks, fewer, since each copy changes a count, and each
/// comparison reads a block.
template <class Key, class Value>
inline constexpr std::uint32_t usual_bucket_pairs =
    kept_pair<Key, Value>::extra_bytes != 0
        ? 2
        : std::clamp<std::uint32_t>(256 / sizeof(kept_pair<Key, Value>), 4, 16);

/// The sizes are such that, with pairs of two words, blocks are just below multiples of a cache
/// line.
template <class Pair, class Collector>
using bucket_maker = block_maker<bucket<Pair, Collector>, typename Collector::domain_type, Pair, 3,
                                 7, 11, 15, 19, 23>;

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
