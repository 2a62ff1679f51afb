// SPDX-License-Identifier: Apache-2.0
// hash_index.hpp: a concurrent hash table of slots that grows and shrinks: the primary index of
// most tables.
//
// Idea:        shards, each with an open-addressed array of (hash, slot). Keys are not stored: the
//              slot's row has them. But most keys are a few small numbers. What fits into one word
//              is hashed so that it can be told from the hash, and no row is looked at: the rows'
//              key columns would be a cache line each. Lookups take no lock: they walk from the
//              hash's position to the first empty entry. Updates lock their shard. An entry that
//              was taken out stays as a gap until the shard's array is renewed, which copies what
//              is left into an array of the right size and retires the old one.
// Departure:   the host system of the paper on one-shot collection has a cuckoo table, which is
//              cuckoo_index.hpp here. A lookup reads two buckets there, and the row. If it finds
//              nothing, it has to check whether the entry was being moved meanwhile, since
//              insertions move the entries of other keys. Here entries stay where they are until
//              their shard is renewed; in twice to four times the memory. docs/results.md, "Hash
//              indexes", has both in one engine.
// Cost:        a lookup: a guard and, mostly, one cache line; for long keys the row's, too. An
//              update: a lock, and now and then the copying of a shard, a sixty-fourth of the
//              table, while which that shard's other updates wait; amortized constant.
// Progress:    lookups are wait-free: they read each entry of an array once at most.
// Memory:      16 bytes an entry, at least a quarter and at most three quarters of which are used
//              after a renewal: 22 to 42 bytes a key while a table grows. A shard of which less
//              than an eighth is used is renewed when a key goes. The first key makes the shards,
//              8 KiB, and the first one in a shard an array of four entries.
// Building:    a thread that builds an index which no other thread uses yet writes down keys'
//              hashes and slots, shard by shard, in memory that becomes the shards' arrays. It
//              makes entries of them in the end. Otherwise each key would be a miss of the caches.
// Why a lookup finds what is there: entries of one array only go from empty to a slot, and from a
//   slot to a gap, so the walk to an entry is never cut short. A lookup in an array that has been
//   renewed meanwhile takes effect at the moment when it read the array's address.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/index/hash_array.hpp"
#include "db/index/hash_parts.hpp"
#include "db/index/index.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What a shard has apart from its array.
template <class Array>
struct probing_rest {
  std::uint64_t used = 0;  // entries that are not empty
  note_list<Array> noted;
};

/// `Same(slot, key)` tells whether the slot's row has the key. It may be called for slots that
/// other threads are changing: a caller uses the slot only after it has checked the row again.
template <class Same, class Domain = region_domain>
class hash_index final
    : public hash_shards<hash_array<typename Domain::header>,
                         probing_rest<hash_array<typename Domain::header>>, Domain> {
  using base = hash_shards<hash_array<typename Domain::header>,
                           probing_rest<hash_array<typename Domain::header>>, Domain>;

 public:
  hash_index(Domain& nodes, std::uint32_t words, Same same)
      : base(nodes, words), packed_bits_(64U / words), same_(same) {}

  [[nodiscard]] std::uint64_t find(const key_words& key) const override {
    const position at = position_of(key);
    const shard& s = shard_of(at.hash);
    auto guard = nodes_.enter();
    const array* const a = guard.protect(s.now).get();
    return slot_of(*a, at, key);
  }

  std::uint64_t claim(const key_words& key, std::uint64_t slot) override {
    const position at = position_of(key);
    shard& s = base::own_shard_of(at.hash);
    auto guard = nodes_.enter();
    const std::lock_guard hold(s.lock);
    array* a = s.now.load_relaxed();
    const std::uint64_t there = slot_of(*a, at, key);
    if (there != no_slot) return there;
    if ((s.used + 1) * 4 > a->size * 3) a = &renew(s, *a, guard);
    put(*a, at.hash, (slot + 1) | at.flag);
    ++s.used;
    ++s.live;
    return slot;
  }

  bool remove(const key_words& key, std::uint64_t slot) noexcept override {
    const position at = position_of(key);
    shard& s = shard_of(at.hash);
    {
      const std::lock_guard hold(s.lock);
      array& a = *s.now.load_relaxed();
      for (std::uint64_t i = at.hash;; ++i) {
        entry& e = a.at(i & (a.size - 1));
        const std::uint64_t seen = e.slot.load_relaxed();
        if (seen == empty) return true;
        if (seen == ((slot + 1) | at.flag)) {
          e.slot.store_relaxed(gap);
          break;
        }
      }
      --s.live;
      if (!is_large(a, s)) return true;
    }
    shrink(s);
    return true;
  }

  void reserve(std::uint64_t keys) override {
    // Shards do not get equal shares.
    const std::uint64_t share = keys / shards;
    if (share == 0) return;
    for (shard& s : base::own_shards()) s.noted.with_room(share + share / 16);
  }
  bool guess_all(std::span<const key_words> keys, std::uint64_t* row_slots) const override {
    std::array<const array*, at_once> in;
    std::array<position, at_once> at;
    bool right = true;
    auto guard = nodes_.enter();
    for (std::size_t done = 0; done < keys.size();) {
      const std::size_t some = (std::min)(at_once, keys.size() - done);
      // The misses of the caches run beside each other.
      for (std::size_t i = 0; i < some; ++i) {
        at[i] = position_of(keys[done++]);
        right = right && at[i].flag == 0;
        in[i] = guard.protect(shard_of(at[i].hash).now).get();
        expect(*in[i], at[i].hash);
      }
      for (std::size_t i = 0; i < some; ++i) *row_slots++ = slot_of(*in[i], at[i], anything);
    }
    return right;
  }
  bool guess_words(std::span<const std::uint64_t> hashes, std::uint64_t* row_slots) const override {
    if (words_ != 1) return primary_index::guess_words(hashes, row_slots);
    auto guard = nodes_.enter();
    for (const std::uint64_t h : hashes) {
      const array* const in = guard.protect(shard_of(h).now).get();
      *row_slots++ = slot_of(*in, position{h, 0}, anything);
    }
    return true;
  }
  void expect_words(std::span<const std::uint64_t> hashes) const override {
    if (words_ != 1) return;
    auto guard = nodes_.enter();
    for (const std::uint64_t h : hashes) expect(*guard.protect(shard_of(h).now), h);
  }
  bool note_all(std::span<const key_words> keys, const std::uint64_t* row_slots,
                key_note* to) const override {
    for (const key_words& k : keys) {
      const position at = position_of(k);
      *to++ = {at.hash, (*row_slots++ + 1) | at.flag};
    }
    return true;
  }
  bool note_words(std::span<const std::uint64_t> words, const std::uint64_t* row_slots,
                  key_note* to) const override {
    for (const std::uint64_t w : words) *to++ = {hash_of_word(w), *row_slots++ + 1};
    return true;
  }
  /// Each shard's notes go after those that it has.
  void keep(std::span<const key_note> notes) override {
    base::deal(notes, [](shard& s, std::size_t count, const auto& note_at) {
      note_list<array>& all = s.noted;
      key_note* const to = all.with_room(all.count + count).notes() + all.count;
      for (std::size_t i = 0; i < count; ++i) to[i] = note_at(i);
      all.count += count;
    });
  }
  /// Shard after shard, so that its array is in the caches. The memory of its notes is that of the
  /// next shard's array.
  bool settle(unsigned part, unsigned parts, const key_reader& key_at) override {
    if (base::is_vacant()) return true;
    owned next;
    for (std::size_t n = shards * part / parts; n < shards * (part + 1) / parts; ++n) {
      shard& s = base::all_shards()[n];
      if (s.noted.count == 0) {
        s.noted.in.reset();
        continue;
      }
      const std::uint64_t size = (std::max)(least, array::room_for(s.live + s.noted.count));
      if (next == nullptr || next->size != size) next.reset();
      if (next == nullptr) next.reset(array::make_bare(size));
      next->clear();
      copy_live(*s.now.load_relaxed(), *next);
      if (!fill(*next, {s.noted.in->notes(), s.noted.count}, key_at)) return false;
      s.used = s.live += std::exchange(s.noted.count, 0);
      base::replace_unused(s, std::move(next));
      next = std::move(s.noted.in);
    }
    return true;
  }

  /// A number that depends on nothing but the key.
  [[nodiscard]] std::uint64_t hash_of(const key_words& key) const noexcept {
    return position_of(key).hash;
  }
  /// Calls f(slot) for each. No other thread uses the index.
  template <class F>
  void for_each(F&& f) const {
    for (const shard& s : base::all_shards()) {
      const array& a = *s.now.load_relaxed();
      for (std::uint64_t i = 0; i < a.size; ++i) {
        const std::uint64_t seen = a.at(i).slot.load_relaxed();
        if (seen != empty && seen != gap) f((seen & ~long_key) - 1);
      }
    }
  }

 private:
  using base::at_once, base::fetched, base::nodes_, base::shard_of, base::shards, base::words_;
  using typename base::array, typename base::owned, typename base::shard;
  using entry = hash_entry;

  static constexpr std::uint64_t empty = 0;
  static constexpr std::uint64_t gap = ~std::uint64_t{0};
  static constexpr std::uint64_t long_key = std::uint64_t{1} << 62U;
#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t least = 2;
#else
  static constexpr std::uint64_t least = 4;
#endif

  /// Where to look for a key, and what its entry has beside the slot: long_key, or nothing if the
  /// hash is that of no other such key.
  struct position {
    std::uint64_t hash;
    std::uint64_t flag;
  };

  [[nodiscard]] SPOLIA_ALWAYS_INLINE position position_of(const key_words& key) const noexcept {
    std::uint64_t packed = key[0];
    if (words_ == 1 || pack(key, packed)) return {hash_of_word(packed), 0};
    return {hash_of_key(key, words_), long_key};
  }
  static constexpr auto anything = [](std::uint64_t) { return true; };
  static void expect(const array& in, std::uint64_t hash) noexcept {
    __builtin_prefetch(&in.at(hash & (in.size - 1)));
  }
  /// Packs up to four numbers that are neither negative nor large into one word, one after the
  /// other; they lie in keys with the first bit set.
  bool pack(const key_words& key, std::uint64_t& all) const noexcept {
    if (words_ > 4) return false;
    std::uint64_t packed = 0;
    for (std::uint32_t i = 0; i < words_; ++i) {
      const std::uint64_t number = key[i] ^ std::uint64_t{1} << 63U;
      if (number >> packed_bits_ != 0) return false;
      packed = packed << packed_bits_ | number;
    }
    all = packed;
    return true;
  }

  std::uint64_t slot_of(const array& a, position of, const key_words& key) const {
    return slot_of(a, of, [&](std::uint64_t slot) { return of.flag == 0 || same_(slot, key); });
  }
  template <std::predicate<std::uint64_t> Right>
  static std::uint64_t slot_of(const array& a, position of, Right&& right) {
    for (std::uint64_t i = of.hash, end = of.hash + a.size; i != end; ++i) {
      const std::uint64_t at = i & (a.size - 1);
      // acquire ← the release in put(): the hash, and the row's key.
      const std::uint64_t seen = a.at(at).slot.load_acquire();
      if (seen == empty) return no_slot;
      if ((seen & long_key) != of.flag || a.at(at).hash.load_relaxed() != of.hash) continue;
      if (seen == gap) continue;
      const std::uint64_t slot = (seen & ~long_key) - 1;
      if (right(slot)) return slot;
    }
    return no_slot;
  }

  static void put(array& a, std::uint64_t hash, std::uint64_t what) noexcept {
    std::uint64_t i = hash & (a.size - 1);
    while (a.at(i).slot.load_relaxed() != empty) i = (i + 1) & (a.size - 1);
    a.at(i).hash.store_relaxed(hash);
    // release → the acquire in slot_of().
    a.at(i).slot.store_release(what);
  }

  /// Makes entries of notes. False: a key comes twice.
  bool fill(array& a, std::span<const key_note> notes, const key_reader& key_at) const {
    for (std::size_t i = 0; i < notes.size(); ++i) {
      if (i + fetched < notes.size()) {
        __builtin_prefetch(&a.at(notes[i + fetched].hash & (a.size - 1)), 1);
      }
      if (!fill_in(a, notes[i], key_at)) return false;
    }
    return true;
  }
  /// Into an array that no other thread sees yet, and which has no gaps: one walk looks for the key
  /// and finds the position.
  bool fill_in(array& a, key_note n, const key_reader& key_at) const {
    std::uint64_t i = n.hash & (a.size - 1);
    for (std::uint64_t seen; (seen = a.at(i).slot.load_relaxed()) != empty;
         i = (i + 1) & (a.size - 1)) {
      if (a.at(i).hash.load_relaxed() != n.hash || ((seen ^ n.what) & long_key) != 0) continue;
      const bool known = (n.what & long_key) == 0;
      if (known || same_((seen & ~long_key) - 1, key_at((n.what & ~long_key) - 1))) return false;
    }
    a.at(i).hash.store_relaxed(n.hash);
    a.at(i).slot.store_relaxed(n.what);
    return true;
  }

  static void copy_live(const array& from, array& to) noexcept {
    for (std::uint64_t i = 0; i < from.size; ++i) {
      const std::uint64_t seen = from.at(i).slot.load_relaxed();
      if (seen != empty && seen != gap) put(to, from.at(i).hash.load_relaxed(), seen);
    }
  }

  static bool is_large(const array& a, const shard& s) noexcept {
    return s.live * 8 < a.size && a.size > least;
  }
  /// After the lock was left: a thread's first guard may fail.
  SPOLIA_NOINLINE void shrink(shard& s) noexcept {
    try {
      auto guard = nodes_.enter();
      const std::lock_guard hold(s.lock);
      const array& a = *s.now.load_relaxed();
      if (is_large(a, s)) renew(s, a, guard);
    } catch (const std::bad_alloc&) {
      // Then the next time.
    }
  }
  /// With twice the room that is needed now, at least.
  array& renew(shard& s, const array& old, typename Domain::guard& guard) {
    owned fresh(array::make((std::max)(least, std::bit_ceil((s.live + 1) * 2))));
    copy_live(old, *fresh);
    s.used = s.live;
    return base::replace(s, std::move(fresh), guard);
  }

  const unsigned packed_bits_;  // of each word, where more than one is packed
  const Same same_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
