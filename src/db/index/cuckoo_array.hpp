// SPDX-License-Identifier: Apache-2.0
// cuckoo_array.hpp: one shard of cuckoo_index.hpp: buckets of a cache line, two of them for a key.
//
// Idea:        an entry is one word: a slot and a part of the key's hash, its mark. A byte more of
//              the mark lies in the bucket's word of tags, which are all compared at once. Both
//              buckets of an entry follow from its mark alone, so it is moved, and copied into a
//              larger array, without its key. An insertion that finds both buckets full searches
//              for the shortest way, from one entry to the other bucket of it and so on, to a free
//              position. It moves the entries on the way, the last one first.
// Why a lookup finds what is there: an entry is written to its new position, then `moves` is
//   counted up, then its old position is given to another entry. A lookup that found nothing reads
//   `moves` again. If that is as before, then all entries whose moves are counted in it had been
//   copied before the lookup began, and no position was given away while it went on: a lookup that
//   sees another entry in a position, or none, has acquired what its writer did, and so the count.
// Spare buckets: more than 14 keys with one mark find no position, however large the array. Keys
//   have one mark as often only where they were chosen for that. They go into buckets after the
//   others, which all lookups read that find nothing else. Mostly there is none.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>

#include "db/index/index.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// What an entry has of a key's hash.
class cuckoo_mark {
 public:
  static constexpr unsigned bits = 27;
  static cuckoo_mark of_hash(std::uint64_t hash) noexcept {
    return cuckoo_mark(hash & ((std::uint64_t{1} << bits) - 1));
  }
  /// Out of the two parts in which it lies.
  cuckoo_mark(std::uint64_t upper, std::uint64_t tag) noexcept : all_(upper << 8U | tag) {}
  [[nodiscard]] std::uint64_t tag() const noexcept { return all_ & 0xFFU; }
  [[nodiscard]] std::uint64_t upper() const noexcept { return all_ >> 8U; }
  /// Of two buckets or more; larger ones for larger marks, so arrays of two sizes have entries in
  /// much the same order.
  [[nodiscard]] std::uint64_t first(std::uint64_t buckets) const noexcept {
    return (all_ * buckets) >> bits;
  }
  /// Another one than the first.
  [[nodiscard]] std::uint64_t second(std::uint64_t buckets) const noexcept {
    const std::uint64_t mixed = (all_ * 0x9E3779B97F4A7C15U) >> (64U - bits);
    const std::uint64_t at = (mixed * (buckets - 1)) >> bits;
    return at < first(buckets) ? at : at + 1;
  }
  /// That one of the two which is not this.
  [[nodiscard]] std::uint64_t other(std::uint64_t here, std::uint64_t buckets) const noexcept {
    const std::uint64_t one = first(buckets);
    return here == one ? second(buckets) : one;
  }

 private:
  explicit cuckoo_mark(std::uint64_t all) noexcept : all_(all) {}
  std::uint64_t all_;
};

/// A cache line.
struct alignas(64) cuckoo_bucket {
#if defined(SPOLIA_MODEL)
  static constexpr unsigned ways = 1;
#else
  static constexpr unsigned ways = 7;
#endif
  static constexpr unsigned slot_bits = 64 - (cuckoo_mark::bits - 8);
  static constexpr std::uint64_t slot_mask = (std::uint64_t{1} << slot_bits) - 1;

  // Byte n is of entry n; that of a free position may be anything. The last byte has a bit for each
  // position that is taken; only the thread that has the lock uses it.
  atomic<std::uint64_t> tags{0};
  // 0, or one more than the slot, and the upper part of the mark.
  std::array<atomic<std::uint64_t>, ways> entries{};

  static std::uint64_t slot_in(std::uint64_t entry) noexcept { return (entry & slot_mask) - 1; }
  static std::uint64_t entry_of(cuckoo_mark m, std::uint64_t slot) noexcept {
    return m.upper() << slot_bits | (slot + 1);
  }
  /// For a caller that has the lock, and knows that there is an entry.
  [[nodiscard]] cuckoo_mark mark_at(unsigned way) const noexcept {
    return {entries[way].load_relaxed() >> slot_bits, tags.load_relaxed() >> (8 * way) & 0xFFU};
  }
  /// `ways`: there is none.
  [[nodiscard]] unsigned free_way() const noexcept {
    const std::uint64_t taken = tags.load_relaxed() >> 56U;
    return static_cast<unsigned>(std::countr_one(taken));
  }

  /// The way of an entry with this mark for which right(slot); `ways`: there is none.
  template <std::predicate<std::uint64_t> Right>
  [[nodiscard]] unsigned find(cuckoo_mark m, std::uint64_t& slot, Right&& right) const {
    // acquire ← the release in write(): what was counted before.
    for (std::uint64_t like = like_tag(tags.load_acquire(), m.tag()); like != 0; like &= like - 1) {
      const auto way = static_cast<unsigned>(std::countr_zero(like)) / 8;
      // acquire ← the releases in write() and clear(): the row's key, and what was counted.
      const std::uint64_t seen = entries[way].load_acquire();
      if (seen >> slot_bits != m.upper() || (seen & slot_mask) == 0) continue;
      slot = slot_in(seen);
      if (right(slot)) return way;
    }
    return ways;
  }
  /// The tag comes first: a lookup that finds the entry has found its tag, and so does every lookup
  /// after it.
  void write(unsigned way, cuckoo_mark m, std::uint64_t entry) noexcept {
    const std::uint64_t others = tags.load_relaxed() & ~(std::uint64_t{0xFF} << (8 * way));
    // release → the acquires in find().
    tags.store_release(others | m.tag() << (8 * way) | taken(way));
    entries[way].store_release(entry);
  }
  void clear(unsigned way) noexcept {
    // release → the acquire in find(): that an entry which was here before has been moved.
    entries[way].store_release(0);
    tags.store_release(tags.load_relaxed() & ~taken(way));  // as in write()
  }

 private:
  static std::uint64_t taken(unsigned way) noexcept { return std::uint64_t{1} << (56U + way); }
  /// Bit 8 n + 7 for each way n whose tag this is.
  static std::uint64_t like_tag(std::uint64_t all, std::uint64_t tag) noexcept {
    constexpr std::uint64_t each = ~std::uint64_t{0} >> (64 - 8 * ways) & 0x0101010101010101U;
    constexpr std::uint64_t low = each * 0x7F;
    const std::uint64_t differ = all ^ tag * each;
    return ~(((differ & low) + low) | differ) & each << 7U;
  }
};
#if !defined(SPOLIA_MODEL)
static_assert(sizeof(cuckoo_bucket) == 64);
#endif

/// `Header` is what the reclamation domain wants at the beginning. The buckets follow it. All but
/// look() is for the thread that has the shard's lock.
template <class Header>
struct alignas(64) cuckoo_array : Header {
  using bucket = cuckoo_bucket;
  struct ending {
    void operator()(cuckoo_array* a) const noexcept { cuckoo_array::free(a); }
  };
  const std::uint64_t size;   // buckets, two at least
  const std::uint64_t spare;  // buckets after them
  atomic<std::uint64_t> moves{0};

  /// Throws std::bad_alloc.
  static cuckoo_array* make(std::uint64_t size, std::uint64_t spare) {
    return ::new (large_memory(bytes_of(size + spare))) cuckoo_array(size, spare);
  }
  /// For lookups that find nothing.
  static cuckoo_array* make_vacant() { return make(2, 0); }
  static void free(cuckoo_array* a) noexcept {
    const std::size_t all = a->bytes();
    a->~cuckoo_array();
    memory::deallocate(a, all, large_align(all));
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(size + spare); }
  [[nodiscard]] std::uint64_t room() const noexcept { return size * bucket::ways; }
  bucket& at(std::uint64_t i) noexcept { return reinterpret_cast<bucket*>(this + 1)[i]; }
  [[nodiscard]] const bucket& at(std::uint64_t i) const noexcept {
    return reinterpret_cast<const bucket*>(this + 1)[i];
  }

  /// The slot of an entry with this mark for which right(slot); no_slot.
  template <std::predicate<std::uint64_t> Right>
  [[nodiscard]] std::uint64_t look(cuckoo_mark m, Right&& right) const {
    for (;;) {
      // acquire ← the release in move(): what was counted is in its new position.
      const std::uint64_t before = moves.load_acquire();
      std::uint64_t slot = no_slot;
      if (at(m.first(size)).find(m, slot, right) != bucket::ways) return slot;
      if (at(m.second(size)).find(m, slot, right) != bucket::ways) return slot;
      for (std::uint64_t i = size; i < size + spare; ++i) {
        if (at(i).find(m, slot, right) != bucket::ways) return slot;
      }
      if (SPOLIA_FAULT("cuckoo_index.no_second_look")) return no_slot;
      if (moves.load_relaxed() == before) return no_slot;
    }
  }

  /// False: there is no position.
  bool put(cuckoo_mark m, std::uint64_t slot) noexcept {
    const position to = position_for(m);
    if (to.way == bucket::ways) return false;
    at(to.bucket).write(to.way, m, bucket::entry_of(m, slot));
    return true;
  }
  /// False: it is not there.
  bool take_out(cuckoo_mark m, std::uint64_t slot) noexcept {
    const auto clear_in = [&](std::uint64_t i) {
      std::uint64_t seen = no_slot;
      const unsigned way = at(i).find(m, seen, [&](std::uint64_t s) { return s == slot; });
      if (way == bucket::ways) return false;
      at(i).clear(way);
      return true;
    };
    if (clear_in(m.first(size)) || clear_in(m.second(size))) return true;
    std::uint64_t i = size;
    while (i < size + spare && !clear_in(i)) ++i;
    return i < size + spare;
  }
  /// Calls f(mark, slot) for each, while it says true.
  template <class F>
  bool each(F&& f) const {
    for (std::uint64_t i = 0; i < size + spare; ++i) {
      const bucket& b = at(i);
      for (unsigned way = 0; way < bucket::ways; ++way) {
        const std::uint64_t seen = b.entries[way].load_relaxed();
        if (seen != 0 && !f(b.mark_at(way), bucket::slot_in(seen))) return false;
      }
    }
    return true;
  }

 private:
#if defined(SPOLIA_MODEL)
  static constexpr unsigned most_steps = 5;
#else
  static constexpr unsigned most_steps = 128;  // buckets
#endif
  static constexpr unsigned roots = 2;

  struct position {
    std::uint64_t bucket;
    unsigned way;
  };
  /// A bucket, and how it is reached: by moving what lies in the `way` of an earlier one, `from`.
  struct step {
    std::uint64_t bucket;
    unsigned from;
    unsigned way;
  };

  cuckoo_array(std::uint64_t s, std::uint64_t more) noexcept : size(s), spare(more) {
    for (std::uint64_t i = 0; i < s + more; ++i) ::new (&at(i)) bucket;
  }
  static std::size_t bytes_of(std::uint64_t buckets) noexcept {
    return sizeof(cuckoo_array) + buckets * sizeof(bucket);
  }

  /// A position for an entry. Another entry may have had it, which is then in another position,
  /// too. Way `ways`: there is none.
  position position_for(cuckoo_mark m) noexcept {
    std::array<step, most_steps> steps;
    unsigned known = 0;
    unsigned free = bucket::ways;
    const auto comes_to_free = [&](step next) {
      steps[known++] = next;
      free = at(next.bucket).free_way();
      return free != bucket::ways;
    };
    if (comes_to_free({m.first(size), 0, 0}) || comes_to_free({m.second(size), 0, 0})) {
      return {steps[known - 1].bucket, free};
    }
    for (unsigned n = 0; known < most_steps; ++n) {
      const bucket& b = at(steps[n].bucket);
      for (unsigned w = 0; w < bucket::ways && known < most_steps; ++w) {
        if (comes_to_free({b.mark_at(w).other(steps[n].bucket, size), n, w})) {
          return clear_way(steps.data(), known - 1, free);
        }
      }
    }
    for (std::uint64_t i = size; i < size + spare; ++i) {
      const unsigned way = at(i).free_way();
      if (way != bucket::ways) return {i, way};
    }
    return {0, bucket::ways};
  }
  /// Moves entries from this free position back to a root. The way is the shortest: no bucket is on
  /// it twice.
  position clear_way(const step* steps, unsigned n, unsigned free) noexcept {
    position to{steps[n].bucket, free};
    while (n >= roots) {
      const position from{steps[steps[n].from].bucket, steps[n].way};
      move(from, to);
      to = from;
      n = steps[n].from;
    }
    return to;
  }
  /// What is in `from` is in both then; the next write to `from` takes it away there.
  void move(position from, position to) noexcept {
    bucket& b = at(from.bucket);
    const cuckoo_mark m = b.mark_at(from.way);
    const std::uint64_t entry = b.entries[from.way].load_relaxed();
    if (SPOLIA_FAULT("cuckoo_index.clear_first")) b.clear(from.way);
    const std::uint64_t count = moves.load_relaxed() + 1;
    if (SPOLIA_FAULT("cuckoo_index.count_first")) moves.store_relaxed(count);
    at(to.bucket).write(to.way, m, entry);
    // release → the acquire in look(): what was written.
    moves.store_release(count);
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
