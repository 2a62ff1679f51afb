// SPDX-License-Identifier: Apache-2.0
// cuckoo_index.hpp: a concurrent cuckoo table of slots that grows: an index in little memory.
//
// Idea:        shards, each with an array of buckets (cuckoo_array.hpp). A key is in one of two
//              buckets of its shard, a cache line each; an insertion that finds both full moves
//              other entries to their other buckets. An entry is one word. It has a part of the
//              key's hash, so that arrays grow without reading keys; the slot's row tells whether
//              it is the right one. Lookups take no lock. Updates lock their shard. When no
//              position can be made free in an array, it is copied into one half as large again,
//              and retired.
// Beside hash_index.hpp, which is the default: a quarter to a half of its memory, no array that
//              is copied because of gaps. Slower where it matters most, at lookups in tables that
//              the caches do not hold: what was saved there is lost to the second bucket and the
//              row. docs/results.md, "Hash indexes", has the figures.
// Cost:        a lookup: a guard, one cache line or two, and the row's key. An update: a lock, some
//              buckets where there is little room, now and then the copying of a shard, a
//              sixty-fourth of the table, while which that shard's other updates wait; amortized
//              constant.
// Progress:    lookups are lock-free: one that met the key ends at once; one that went through both
//              buckets and did not begins again if an entry of its shard was moved meanwhile.
// Memory:      95 % and more of the positions are used before an array grows, and 63 % then: 9.6 to
//              14.5 bytes a key, and 20 KiB from the first key on. While keys go an eighth at
//              least: with less the array is made smaller, if there is memory to do so.
// Building:    a thread that builds an index which no other thread uses yet writes down keys'
//              hashes and slots, shard by shard. It makes entries of them in the end, in arrays of
//              the right size.
// Why a lookup finds what is there: cuckoo_array.hpp. A lookup in an array that has been replaced
//   meanwhile takes effect at the moment when it read the array's address: nothing changes there.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/index/cuckoo_array.hpp"
#include "db/index/hash_parts.hpp"
#include "db/index/index.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What a shard has apart from its array.
struct cuckoo_rest {
  std::vector<key_note> noted;
};

/// `Same(slot, key)` tells whether the slot's row has the key. It may be called for slots that
/// other threads are changing: a caller uses the slot only after it has checked the row again.
/// Slots are below 2^45 - 1.
template <class Same, class Domain = region_domain>
class cuckoo_index final
    : public hash_shards<cuckoo_array<typename Domain::header>, cuckoo_rest, Domain> {
  using base = hash_shards<cuckoo_array<typename Domain::header>, cuckoo_rest, Domain>;

 public:
  cuckoo_index(Domain& nodes, std::uint32_t words, Same same) : base(nodes, words), same_(same) {}

  [[nodiscard]] std::uint64_t find(const key_words& key) const override {
    const std::uint64_t hash = hash_of(key);
    auto guard = nodes_.enter();
    const array* const a = guard.protect(shard_of(hash).now).get();
    return a->look(cuckoo_mark::of_hash(hash), is(key));
  }

  std::uint64_t claim(const key_words& key, std::uint64_t slot) override {
    if (slot >= cuckoo_bucket::slot_mask) throw std::bad_alloc();
    const std::uint64_t hash = hash_of(key);
    const cuckoo_mark m = cuckoo_mark::of_hash(hash);
    shard& s = base::own_shard_of(hash);
    auto guard = nodes_.enter();
    const std::lock_guard hold(s.lock);
    array* a = s.now.load_relaxed();
    const std::uint64_t there = a->look(m, is(key));
    if (there != no_slot) return there;
    if (base::is_vacant(*a)) a = &base::replace(s, owned(array::make(least, 0)), guard);
    while (!a->put(m, slot)) a = &base::replace(s, larger(*a, s.live), guard);
    ++s.live;
    return slot;
  }

  bool remove(const key_words& key, std::uint64_t slot) noexcept override {
    const std::uint64_t hash = hash_of(key);
    shard& s = shard_of(hash);
    {
      const std::lock_guard hold(s.lock);
      array& a = *s.now.load_relaxed();
      if (a.take_out(cuckoo_mark::of_hash(hash), slot)) --s.live;
      if (!is_large(a, s.live)) return true;
    }
    shrink(s);
    return true;
  }

  void reserve(std::uint64_t keys) override {
    // Shards do not get equal shares.
    const std::uint64_t share = keys / shards;
    if (share == 0) return;
    for (shard& s : base::own_shards()) s.noted.reserve(share + share / 16);
  }
  bool guess_all(std::span<const key_words> keys, std::uint64_t* row_slots) const override {
    guess(keys.size(), [&](std::size_t i) { return hash_of(keys[i]); }, row_slots);
    return false;
  }
  bool guess_words(std::span<const std::uint64_t> hashes, std::uint64_t* row_slots) const override {
    if (words_ != 1) return primary_index::guess_words(hashes, row_slots);
    guess(hashes.size(), [&](std::size_t i) { return hashes[i]; }, row_slots);
    return false;
  }
  bool note_all(std::span<const key_words> keys, const std::uint64_t* row_slots,
                key_note* to) const override {
    for (const key_words& k : keys) *to++ = {hash_of(k), *row_slots++};
    return true;
  }
  bool note_words(std::span<const std::uint64_t> words, const std::uint64_t* row_slots,
                  key_note* to) const override {
    for (const std::uint64_t w : words) *to++ = {hash_of_word(w), *row_slots++};
    return true;
  }
  /// Each shard's notes go after those that it has.
  void keep(std::span<const key_note> notes) override {
    base::deal(notes, [](shard& s, std::size_t count, const auto& note_at) {
      for (std::size_t i = 0; i < count; ++i) s.noted.push_back(note_at(i));
    });
  }
  bool settle(unsigned part, unsigned parts, const key_reader& key_at) override {
    if (base::is_vacant()) return true;
    for (std::size_t n = shards * part / parts; n < shards * (part + 1) / parts; ++n) {
      shard& s = base::all_shards()[n];
      const std::vector<key_note> notes = std::exchange(s.noted, {});
      if (notes.empty()) continue;
      owned next = copy(*s.now.load_relaxed(), size_for(s.live + notes.size()), 0);
      for (std::size_t i = 0; i < notes.size(); ++i) {
        if (i + fetched < notes.size()) fetch(*next, notes[i + fetched].hash);
        const auto [hash, slot] = notes[i];
        const cuckoo_mark m = cuckoo_mark::of_hash(hash);
        const auto same_key = [&, mine = slot](std::uint64_t other) {
          return same_(other, key_at(mine));
        };
        if (next->look(m, same_key) != no_slot) return false;
        while (!next->put(m, slot)) next = larger(*next, s.live);
        ++s.live;
      }
      base::replace_unused(s, std::move(next));
    }
    return true;
  }

  /// A number that depends on nothing but the key.
  [[nodiscard]] std::uint64_t hash_of(const key_words& key) const noexcept {
    return hash_of_key(key, words_);
  }
  /// Calls f(slot) for each. No other thread uses the index.
  template <class F>
  void for_each(F&& f) const {
    for (const shard& s : base::all_shards()) {
      s.now.load_relaxed()->each([&](cuckoo_mark, std::uint64_t slot) {
        f(slot);
        return true;
      });
    }
  }

 private:
  using base::at_once, base::fetched, base::nodes_, base::shard_of, base::shards, base::words_;
  using typename base::array, typename base::owned, typename base::shard;

#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t least = 4;
#else
  static constexpr std::uint64_t least = 2;
#endif

  [[nodiscard]] auto is(const key_words& key) const noexcept {
    return [this, &key](std::uint64_t slot) { return same_(slot, key); };
  }
  static void fetch(const array& a, std::uint64_t hash) noexcept {
    __builtin_prefetch(&a.at(cuckoo_mark::of_hash(hash).first(a.size)), 1);
  }
  /// For keys whose hashes are hash_at(0) and so on: slots of any that have the same marks.
  template <class HashAt>
  void guess(std::size_t count, HashAt&& hash_at, std::uint64_t* row_slots) const {
    std::array<const array*, at_once> in;
    std::array<std::uint64_t, at_once> hash;
    auto guard = nodes_.enter();
    for (std::size_t done = 0; done < count;) {
      const std::size_t some = (std::min)(at_once, count - done);
      // The misses of the caches run beside each other.
      for (std::size_t i = 0; i < some; ++i) {
        hash[i] = hash_at(done++);
        in[i] = guard.protect(shard_of(hash[i]).now).get();
        fetch(*in[i], hash[i]);
      }
      for (std::size_t i = 0; i < some; ++i) {
        *row_slots++ =
            in[i]->look(cuckoo_mark::of_hash(hash[i]), [](std::uint64_t) { return true; });
      }
    }
  }

  /// Buckets in which so many keys find a position.
  static std::uint64_t size_for(std::uint64_t keys) noexcept {
    return (std::max)(least, (keys + keys / 8) / cuckoo_bucket::ways + 1);
  }
  /// So few are left that most of its memory is for nothing.
  static bool is_large(const array& a, std::uint64_t live) noexcept {
    return a.size > least && live < a.room() / 8;
  }
  /// What `from` has, in an array of that size; with more spare buckets if need be.
  static owned copy(const array& from, std::uint64_t size, std::uint64_t spare) {
    for (;; spare = 2 * spare + 1) {
      owned to(array::make(size, spare));
      const auto put = [&](cuckoo_mark m, std::uint64_t slot) { return to->put(m, slot); };
      if (from.each(put)) return to;
    }
  }
  /// An array with room for more. If half of the positions are free now, more of them do not help.
  static owned larger(const array& a, std::uint64_t live) {
    if (live < a.room() / 2) return copy(a, a.size, 2 * a.spare + 1);
    return copy(a, a.size + std::max<std::uint64_t>(1, a.size / 2), 0);
  }

  void shrink(shard& s) noexcept {
    try {
      auto guard = nodes_.enter();
      const std::lock_guard hold(s.lock);
      const array& a = *s.now.load_relaxed();
      if (is_large(a, s.live)) base::replace(s, copy(a, size_for(2 * s.live), 0), guard);
    } catch (const std::bad_alloc&) {
      // Then the next time.
    }
  }

  const Same same_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
