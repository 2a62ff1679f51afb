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
/// thread that has the shard's lock changes or replaces it. `Rest` is what else a shard has.
///
/// An index without keys has no shards of its own: it shows those of vacant(), which all indexes of
/// its kind share and no thread changes. The first key makes the shards, and the first key of a
/// shard its array.
template <class Array, class Rest, class Domain>
class hash_shards : public primary_index {
 public:
  /// Throws std::bad_alloc.
  hash_shards(Domain& nodes, std::uint32_t words)
      : nodes_(nodes), words_(words), shards_(&vacant_.all) {}
  ~hash_shards() override {
    shard_list* const all = shards_.load_relaxed();
    if (all == &vacant_.all) return;
    for (shard& s : *all) {
      if (Array* const a = s.now.load_relaxed(); a != vacant_.array) Array::free(a);
    }
    delete all;
  }
  [[nodiscard]] bool ordered() const noexcept override { return false; }
  void scan(const key_words&, const key_words&, std::uint64_t, slot_visitor) const override {}
  void scan_down(const key_words&, const key_words&, std::uint64_t, slot_visitor) const override {}

  /// Of the shards, and of all arrays that are in use.
  [[nodiscard]] std::uint64_t bytes() const noexcept override {
    shard_list& all = all_shards();
    if (&all == &vacant_.all) return 0;
    std::uint64_t sum = sizeof(shard_list);
    for (shard& s : all) {
      const std::lock_guard hold(s.lock);
      const Array* const a = s.now.load_relaxed();
      if (a != vacant_.array) sum += a->bytes();
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

  using shard_list = std::array<shard, shards>;

  /// The shards that the index shows now.
  [[nodiscard]] shard_list& all_shards() const noexcept {
    // acquire ← the release in own_shards(): they are constructed.
    return *shards_.load_acquire();
  }
  shard& shard_of(std::uint64_t hash) const noexcept {
    return all_shards()[part_of_hash(hash, shards)];
  }
  /// Whether no key was ever put in.
  [[nodiscard]] bool is_vacant() const noexcept { return shards_.load_relaxed() == &vacant_.all; }
  [[nodiscard]] bool is_vacant(const Array& a) const noexcept { return &a == vacant_.array; }

  /// The index's own shards, which are made if need be. Throws std::bad_alloc.
  [[nodiscard]] shard_list& own_shards() {
    shard_list& now = all_shards();
    return &now != &vacant_.all ? now : make_shards();
  }
  shard& own_shard_of(std::uint64_t hash) { return own_shards()[part_of_hash(hash, shards)]; }

  /// Gives each shard what its share of the notes is: add(shard, count, note_at).
  template <class Add>
  void deal(std::span<const key_note> notes, Add&& add) {
    const dealt_notes<shards> dealt(notes);
    for (std::size_t n = 0; n < shards; ++n) {
      const std::size_t count = dealt.count(n);
      if (count == 0) continue;
      shard& s = own_shards()[n];
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
    if (is_vacant(*old)) return fresh;
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
    if (!is_vacant(*before)) Array::free(before);
  }

 private:
  /// Shards without keys, all of which show one array without entries.
  struct vacant_shards {
    Array* const array = Array::make_vacant();
    shard_list all;
    vacant_shards() noexcept { show(all); }
    void show(shard_list& in) const noexcept {
      for (shard& s : in) s.now.store_relaxed(array);
    }
#if defined(SPOLIA_MODEL)
    ~vacant_shards() { Array::free(array); }
#endif
  };
#if !defined(SPOLIA_MODEL)
  /// They stay until the process ends, since databases may be closed by static destructors.
  static vacant_shards& vacant() {
    static vacant_shards* const made = new vacant_shards;
    return *made;
  }
#endif

  SPOLIA_NOINLINE shard_list& make_shards() {
    auto made = std::make_unique<shard_list>();
    vacant_.show(*made);
    shard_list* there = &vacant_.all;
    // release → the acquires in all_shards() and here: the shards are constructed.
    if (SPOLIA_FAULT("hash_shards.relaxed_shards")) {
      if (shards_.cas_strong_relaxed(there, made.get())) return *made.release();
    } else if (shards_.cas_strong_acq_rel(there, made.get())) {
      return *made.release();
    }
    return *there;
  }

#if defined(SPOLIA_MODEL)
  vacant_shards vacant_;  // the checker looks at one database at a time
#else
  vacant_shards& vacant_ = vacant();
#endif

 protected:
  Domain& nodes_;
  const std::uint32_t words_;

 private:
  atomic<shard_list*> shards_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
