// SPDX-License-Identifier: Apache-2.0
// hash_parts.hpp: what hash indexes have in common: hashes of keys, notes that are dealt out to the
// shards, and shards with an array each that is replaced as a whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>

#include "db/index/index.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Of a key of one word it is hash_of_word().
inline std::uint64_t hash_of_key(const key_words& key, std::uint32_t words) noexcept {
  std::uint64_t h = no_words_hash;
  for (std::uint32_t i = 0; i < words; ++i) h = hash_with(h, key[i]);
  return hash_of_all(h);
}

/// Notes, most_notes at most, by the shards that they belong to.
template <std::size_t Shards>
class dealt_notes {
 public:
  explicit dealt_notes(std::span<const key_note> notes) noexcept : notes_(notes) {
    for (const key_note& n : notes) ++begin_[part_of_hash(n.hash, Shards) + 1];
    for (std::size_t n = 1; n < begin_.size(); ++n) begin_[n] += begin_[n - 1];
    auto next = begin_;
    for (std::size_t i = 0; i < notes.size(); ++i) {
      order_[next[part_of_hash(notes[i].hash, Shards)]++] = static_cast<std::uint16_t>(i);
    }
  }
  [[nodiscard]] std::size_t count(std::size_t shard) const noexcept {
    return begin_[shard + 1] - begin_[shard];
  }
  /// Note i of a shard's.
  [[nodiscard]] const key_note& at(std::size_t shard, std::size_t i) const noexcept {
    return notes_[order_[begin_[shard] + i]];
  }

 private:
  std::span<const key_note> notes_;
  std::array<std::uint16_t, most_notes> order_;
  std::array<std::size_t, Shards + 1> begin_{};
};

/// Shards of (hash, slot) entries in an `Array` each. Lookups reach it under a guard of `Domain`. A
/// thread that has the shard's lock changes or replaces it. `Rest` is what a shard has besides.
template <class Array, class Rest, class Domain>
class hash_shards : public primary_index {
 public:
  hash_shards(Domain& nodes, std::uint32_t words) noexcept : nodes_(nodes), words_(words) {}
  ~hash_shards() override {
    for (shard& s : shards_) {
      if (Array* const a = s.now.load_relaxed()) Array::free(a);
    }
  }
  [[nodiscard]] bool ordered() const noexcept override { return false; }
  void scan(const key_words&, const key_words&, std::uint64_t, slot_visitor) const override {}
  void scan_down(const key_words&, const key_words&, std::uint64_t, slot_visitor) const override {}

  /// Of all arrays that are in use.
  [[nodiscard]] std::uint64_t bytes() const noexcept override {
    std::uint64_t sum = 0;
    for (shard& s : shards_) {
      const std::lock_guard hold(s.lock);
      sum += s.now.load_relaxed()->bytes();
    }
    return sum;
  }

 protected:
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t shards = 1;
#else
  static constexpr std::size_t shards = hash_parts;
#endif
  static constexpr std::size_t at_once = 64;  // keys
  static constexpr std::size_t fetched = 16;  // positions of notes that come next

  using array = Array;
  using ending = typename Array::ending;
  using owned = std::unique_ptr<Array, ending>;

  struct alignas(cache_line) shard : Rest {
    spolia::detail::short_lock lock;
    atomic<Array*> now{nullptr};
    std::uint64_t live = 0;
  };

  shard& shard_of(std::uint64_t hash) const noexcept { return shards_[part_of_hash(hash, shards)]; }

  /// Gives each shard what its share of the notes is: add(shard, count, note_at).
  template <class Add>
  void deal(std::span<const key_note> notes, Add&& add) {
    const dealt_notes<shards> dealt(notes);
    for (std::size_t n = 0; n < shards; ++n) {
      const std::size_t count = dealt.count(n);
      if (count == 0) continue;
      shard& s = shards_[n];
      const std::lock_guard hold(s.lock);
      add(s, count, [&](std::size_t i) -> const key_note& { return dealt.at(n, i); });
    }
  }
  /// Puts `with` where the shard has its array, while other threads look things up.
  Array& replace(shard& s, owned with, typename Domain::guard& guard) noexcept {
    Array* const old = s.now.load_relaxed();
    Array& fresh = *with.release();
    // release → the acquire in protect(): the entries.
    if (SPOLIA_FAULT("hash_shards.relaxed_array")) {
      s.now.store_relaxed(&fresh);
    } else {
      s.now.store_release(&fresh);
    }
    if (SPOLIA_FAULT("hash_shards.free_at_once")) {
      Array::free(old);
    } else {
      guard.retire(old, ending{});
    }
    return fresh;
  }
  /// The same while no other thread uses the index.
  void replace_unused(shard& s, owned with) noexcept {
    Array* const before = s.now.load_relaxed();
    // release → the acquire in protect(), of the threads that use the index from now on: the
    // entries.
    s.now.store_release(with.release());
    Array::free(before);
  }

  Domain& nodes_;
  const std::uint32_t words_;
  mutable std::array<shard, shards> shards_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
