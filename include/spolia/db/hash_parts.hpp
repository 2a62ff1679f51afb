// SPDX-License-Identifier: Apache-2.0
// hash_parts.hpp: what hash indexes have in common: hashes of keys, and notes that are dealt out to
// the shards.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/config.hpp>
#include <spolia/db/index.hpp>

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

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
