// SPDX-License-Identifier: Apache-2.0
// hash_secondary.hpp: a secondary index that finds the rows of one key: hashed, growing online.
//
// Idea:        a hash_index from keys to the sets of their rows. A set is an open-addressed array
//              of (slot, claim, birth). So a row whose key a million other rows have is added and
//              removed as quickly as the only row of a key. The first two positions of the array
//              are in the block of the key.
//              A change takes one of 64 locks, by the key; scans take none. A set whose array is
//              full, or nearly empty, gets another one. When its last row is removed, the set is.
// Scans:       the position of a slot depends on the upper bits of a hash that no other slot has.
//              So a larger array has the slots in the same order, except for neighbours. A scan
//              copies the slots of a range of hashes into a buffer, ends its guard, shows them, and
//              goes on with another range, in the array that there is then: none is skipped, and
//              none comes twice.
// Order:       the ranges come in bit-reversed order, and the snapshot's time gives the first one.
//              So if transactions delete the first rows of a key again and again, or a part of them
//              in one scan, these are spread over all hashes. Later scans do not walk over the gaps
//              of earlier ones, and the rows that are left are no long cluster in a smaller array.
// Cost:        a lookup: two guards and a few cache lines. A change: a lock; amortized constant.
//              Now and then it copies a set, and changes of keys with that lock wait meanwhile.
// Progress:    scans are wait-free, except that sets may be replaced between two ranges.
// Memory:      for each key about 120 bytes and the key, and 22 to 42 in the hash table; for each
//              further row of the key 32 to 96 bytes, a few more while rows are removed.
// Why a scan finds all rows: a position changes from empty to a slot, and then between slots and
//   gaps; never back to empty. So a walk from a slot's first position to the first empty one meets
//   the slot, if it was put there before the walk, or before the array's address was read. A slot
//   that is removed and added again meanwhile may be met twice in one walk: the second is dropped
//   from the buffer.
// Why at least one of two threads that add to the same key sees the other's row: each scans after
//   it has had the key's lock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/index/graveyard.hpp"
#include "db/index/hash_index.hpp"
#include "db/index/index.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// `Table` finds the set of a key's rows: hash_index or cuckoo_index. `Graves` is the domain of the
/// graveyard's nodes.
template <class Domain = region_domain, template <class, class> class Table = hash_index,
          class Graves = domain<>>
class hash_secondary final : public secondary_index {
 public:
  hash_secondary(Domain& nodes, Graves& graves, std::uint32_t words)
      : nodes_(nodes), words_(words), keys_(nodes, words, same_key{words}), dead_(graves) {}
  ~hash_secondary() override {
    keys_.for_each([](std::uint64_t number) { row_set::free_all(row_set::of(number)); });
  }

  index_addition add(const key_words& key, std::uint64_t slot, index_entry e) override {
    tally& mine = bytes_.of(threads::number());
    auto guard = nodes_.enter();
    const key_lock hold(*this, key);
    row_set* const s = find(key);
    if (place* const there = place_in(s, slot)) {
      there->claim.write(e.claim);
      return {there->birth.read(), false};
    }
    put_new(s, key, slot, e, guard, mine);
    return {e.birth, true};
  }

  std::uint64_t add_once(const key_words& key, std::uint64_t slot, index_entry e) override {
    tally& mine = bytes_.of(threads::number());
    auto guard = nodes_.enter();
    const key_lock hold(*this, key);
    row_set* const s = find(key);
    if (const place* const there = place_in(s, slot)) return there->claim.read();
    put_new(s, key, slot, e, guard, mine);
    return e.claim;
  }

  [[nodiscard]] std::uint64_t bytes() const noexcept override {
    std::uint64_t sum = 0;
    bytes_.for_each([&](std::uint32_t, const tally& t) {
      sum += t.value();
      return true;
    });
    return sum + keys_.bytes() + dead_.bytes();
  }

  [[nodiscard]] index_entry entry_of(const key_words& key, std::uint64_t slot) const override {
    const key_lock hold(*this, key);
    const place* const there = place_in(find(key), slot);
    if (there == nullptr) return {};
    return {there->claim.read(), there->birth.read()};
  }

  bool remove(const key_words& key, std::uint64_t slot, std::uint64_t claim) noexcept override {
    try {
      tally& mine = bytes_.of(threads::number());
      auto guard = nodes_.enter();
      const key_lock hold(*this, key);
      row_set* const s = find(key);
      place* const there = place_in(s, slot);
      if (there == nullptr || there->claim.read() != claim) return true;
      if (s->live.read() == 1) {
        end(key, *s, guard, mine);
        return true;
      }
      there->slot.store_relaxed(gap);
      s->live.write(s->live.read() - 1);
      shrink(*s, guard, mine);
      return true;
    } catch (const std::bad_alloc&) {  // a thread's first guard
      return false;
    }
  }

  burial bury(const key_words& key, std::uint64_t slot, std::uint64_t claim, std::uint64_t since,
              std::uint64_t until) noexcept override {
    return bury_pair(*this, dead_, grave_of(key, hash_of(slot), until), key, slot, claim, since);
  }
  bool unbury(const key_words& key, std::uint64_t slot, std::uint64_t claim,
              std::uint64_t until) noexcept override {
    return remove(key, slot, claim) && dead_.take(grave_of(key, hash_of(slot), until));
  }

  /// Only if `lo` and `hi` are the same; in no particular order, which is the same at one time
  /// while nothing changes. What is buried with hashes of a range comes after that range of the
  /// index was read and shown.
  void scan(const key_words& lo, const key_words&, std::uint64_t time,
            slot_visitor f) const override {
    buffer found(hash_of(time));
    do {
      const bool early = SPOLIA_FAULT("hash_secondary.asks_too_early") && !dead_.matters(time);
      gather(lo, found);
      f.expect(std::span(found.row_slots).first(found.count));
      for (std::size_t i = 0; i < found.count; ++i) {
        if (!f(found.row_slots[i], lo.data())) return;
      }
      if (!early && dead_.matters(time) && !show_dead(lo, found, time, f)) return;
    } while (found.goes_on());
  }
  void scan_down(const key_words& lo, const key_words& hi, std::uint64_t time,
                 slot_visitor f) const override {
    scan(lo, hi, time, f);
  }

 private:
  static constexpr std::uint64_t empty = 0;
  static constexpr std::uint64_t gap = ~std::uint64_t{0};
  static constexpr std::size_t first_places = 2;
  static constexpr std::size_t per_block = 16;  // about what an allocator adds; blocks are many
#if defined(SPOLIA_MODEL)
  static constexpr std::size_t homes_at_once = 2;
  static constexpr std::size_t locks = 1;
#else
  static constexpr std::size_t homes_at_once = 128;
  static constexpr std::size_t locks = 64;
#endif
  static constexpr std::size_t at_once = 2 * homes_at_once;  // slots

  struct place {
    atomic<std::uint64_t> slot{empty};  // one more than the slot
    plain<std::uint64_t> claim{0};      // under the lock, as is `birth`
    plain<std::uint64_t> birth{0};
  };

  static constexpr std::uint64_t spread = 0x9E3779B97F4A7C15U;
  static constexpr std::uint64_t spread_back = 0xF1DE83E19937733DU;
  static_assert(spread * spread_back == 1);

  /// The hash of a slot, which no other slot has.
  static std::uint64_t hash_of(std::uint64_t slot) noexcept { return slot * spread; }
  static std::uint64_t slot_of(std::uint64_t hash) noexcept { return hash * spread_back; }

  /// The header of an array, whose positions follow.
  struct places : Domain::header {
    unsigned bits;  // there are 2^bits, two at least
    explicit places(unsigned b) noexcept : bits(b) {
      for (std::uint64_t i = 0; i < size(); ++i) ::new (&at(i)) place;
    }
    [[nodiscard]] std::uint64_t size() const noexcept { return std::uint64_t{1} << bits; }
    /// How many positions may be used before the array must grow.
    [[nodiscard]] std::uint64_t most() const noexcept { return size() - size() / 4; }
    place& at(std::uint64_t i) noexcept { return reinterpret_cast<place*>(this + 1)[i]; }
    const place& at(std::uint64_t i) const noexcept {
      return reinterpret_cast<const place*>(this + 1)[i];
    }
    [[nodiscard]] std::uint64_t home(std::uint64_t hash) const noexcept {
      return hash >> (64U - bits);
    }

    place* find(std::uint64_t slot) noexcept {
      for (std::uint64_t i = home(hash_of(slot)), end = i + size(); i != end; ++i) {
        place& p = at(i & (size() - 1));
        const std::uint64_t there = p.slot.load_relaxed();
        if (there == slot + 1) return &p;
        if (there == empty) break;
      }
      return nullptr;
    }
    /// The position where the slot can be put; null: the array is full.
    place* free_for(std::uint64_t slot) noexcept {
      for (std::uint64_t i = home(hash_of(slot)), end = i + size(); i != end; ++i) {
        place& p = at(i & (size() - 1));
        const std::uint64_t there = p.slot.load_relaxed();
        if (there == empty || there == gap) return &p;
      }
      return nullptr;
    }

    static std::size_t bytes(unsigned bits) noexcept {
      return sizeof(places) + (sizeof(place) << bits);
    }
    static places* make(unsigned bits) {
      return ::new (memory::allocate(bytes(bits), alignof(places))) places(bits);
    }
    static void free(places* p) noexcept {
      const std::size_t all = bytes(p->bits);
      p->~places();
      memory::deallocate(p, all, alignof(places));
    }
  };

  /// The rows of one key. The key's words follow, and then the first array.
  struct row_set : Domain::header {
    atomic<places*> now{nullptr};
    plain<std::uint64_t> live{0};  // how many slots it has; under the lock, as is `used`
    plain<std::uint64_t> used{0};  // how many positions are not empty
    const std::uint32_t words;

    row_set(const key_words& k, std::uint32_t w) : words(w) {
      std::copy_n(k.begin(), w, key());
      now.store_relaxed(::new (&first()) places(std::countr_zero(first_places)));
    }
    std::uint64_t* key() noexcept { return reinterpret_cast<std::uint64_t*>(this + 1); }
    places& first() noexcept { return *reinterpret_cast<places*>(key() + words); }

    static std::size_t bytes(std::uint32_t words) noexcept {
      return sizeof(row_set) + words * sizeof(std::uint64_t) +
             places::bytes(std::countr_zero(first_places));
    }
    static row_set* make(const key_words& k, std::uint32_t words) {
      return ::new (memory::allocate(bytes(words), alignof(row_set))) row_set(k, words);
    }
    static void free(row_set* s) noexcept {
      const std::size_t all = bytes(s->words);
      s->first().~places();
      s->~row_set();
      memory::deallocate(s, all, alignof(row_set));
    }
    static void free_all(row_set* s) noexcept {
      places* const p = s->now.load_relaxed();
      if (p != &s->first()) places::free(p);
      free(s);
    }
    // The table of keys has this number in place of a slot.
    static row_set* of(std::uint64_t number) noexcept {
      return reinterpret_cast<row_set*>(static_cast<std::uintptr_t>(number * alignof(row_set)));
    }
    [[nodiscard]] std::uint64_t number() const noexcept {
      return reinterpret_cast<std::uintptr_t>(this) / alignof(row_set);
    }
  };
  static_assert(alignof(row_set) == alignof(std::uint64_t) &&
                alignof(places) <= alignof(std::uint64_t));

  struct same_key {
    std::uint32_t words;
    bool operator()(std::uint64_t number, const key_words& key) const noexcept {
      return std::equal(key.begin(), key.begin() + words, row_set::of(number)->key());
    }
  };
  struct ending {
    void operator()(places* p) const noexcept { places::free(p); }
    void operator()(row_set* s) const noexcept { row_set::free(s); }
  };
  using domain_guard = typename Domain::guard;

  /// A range of hashes, with both ends.
  struct hash_range {
    std::uint64_t from;
    std::uint64_t last;
  };

  /// The slots that one look at a set has found, the range of these, and how the scan goes on.
  class buffer {
   public:
    /// Begins with the range of this number. After the last range comes the first.
    explicit buffer(std::uint64_t first) noexcept : number_(first) {}

    std::array<std::uint64_t, at_once> row_slots;
    std::size_t count = 0;
    hash_range in{};

    /// To be called by the first look: the set has 2^bits positions. Makes ranges of homes_at_once
    /// first positions each.
    void has_places(unsigned bits) noexcept {
      if (is_begun_) return;
      is_begun_ = true;
      constexpr unsigned bits_at_once = std::countr_zero(homes_at_once);
      bits_ = bits > bits_at_once ? bits - bits_at_once : 0;
      left_ = std::uint64_t{1} << bits_;
      take_next_range();
    }
    /// Goes on with the rest of the range, or with the next one. False: there is none.
    bool goes_on() noexcept {
      if (in.last != last_) {
        in = {in.last + 1, last_};
        return true;
      }
      if (left_ == 0) return false;
      take_next_range();
      return true;
    }

   private:
    /// Takes the range with the next number, of 2^bits_ ranges in bit-reversed order.
    void take_next_range() noexcept {
      std::uint64_t from = 0;
      for (unsigned i = 0; i < bits_; ++i) from |= (number_ >> i & 1) << (63 - i);
      last_ = from + (~std::uint64_t{0} >> bits_);
      in = {from, last_};
      ++number_;
      --left_;
    }

    std::uint64_t number_;
    std::uint64_t left_ = 0;  // how many ranges come after this one
    std::uint64_t last_ = 0;  // the last hash of this one
    unsigned bits_ = 0;
    bool is_begun_ = false;
  };

  class key_lock {
   public:
    key_lock(const hash_secondary& of, const key_words& key) noexcept
        : lock_(of.locks_[of.keys_.hash_of(key) % locks]) {
      if (!unlocked_) lock_.lock();
    }
    ~key_lock() {
      if (!unlocked_) lock_.unlock();
    }
    key_lock(const key_lock&) = delete;
    key_lock& operator=(const key_lock&) = delete;

   private:
    spolia::detail::short_lock& lock_;
    const bool unlocked_ = SPOLIA_FAULT("hash_secondary.unlocked");
  };

  /// The key's set, or null. For a caller that has the key's lock, or a guard.
  [[nodiscard]] row_set* find(const key_words& key) const {
    const std::uint64_t number = keys_.find(key);
    return number == no_slot ? nullptr : row_set::of(number);
  }

  static void put(row_set& s, place& to, std::uint64_t slot, index_entry e) noexcept {
    if (to.slot.load_relaxed() == empty) s.used.write(s.used.read() + 1);
    s.live.write(s.live.read() + 1);
    to.claim.write(e.claim);
    to.birth.write(e.birth);
    // release → the acquire in walk(): the memory of the slot's row.
    to.slot.store_release(slot + 1);
  }

  // These three for a caller that has the key's lock. `s` is the key's set; null: it has none.

  static place* place_in(row_set* s, std::uint64_t slot) noexcept {
    return s == nullptr ? nullptr : s->now.load_relaxed()->find(slot);
  }
  /// Adds a pair that is not there.
  void put_new(row_set* s, const key_words& key, std::uint64_t slot, index_entry e,
               domain_guard& guard, tally& mine) {
    if (s == nullptr) return begin(key, slot, e, mine);
    places* p = s->now.load_relaxed();
    place* to = p->free_for(slot);
    const bool fresh = to == nullptr || to->slot.load_relaxed() == empty;
    if (fresh && s->used.read() == p->most()) {
      p = &renew(*s, *p, s->live.read() + 1, guard, mine);
      to = p->free_for(slot);
    }
    put(*s, *to, slot, e);
  }
  void begin(const key_words& key, std::uint64_t slot, index_entry e, tally& mine) {
    row_set* const s = row_set::make(key, words_);
    put(*s, *s->first().free_for(slot), slot, e);
    try {
      keys_.claim(key, s->number());
    } catch (...) {
      row_set::free(s);
      throw;
    }
    mine.add(row_set::bytes(words_) + per_block);
  }
  /// Ends a set whose last row is removed.
  void end(const key_words& key, row_set& s, domain_guard& g, tally& mine) noexcept {
    keys_.remove(key, s.number());
    places* const p = s.now.load_relaxed();
    if (p != &s.first()) end(*p, g, mine);
    mine.add(0 - row_set::bytes(words_) - per_block);
    if (SPOLIA_FAULT("hash_secondary.free_at_once")) {
      row_set::free(&s);
    } else {
      g.retire(&s, ending{});
    }
  }

  /// Gives the set another array, with room for twice as many slots.
  places& renew(row_set& s, places& old, std::uint64_t row_slots, domain_guard& g, tally& mine) {
    places* const fresh = places::make(bit_length(2 * row_slots - 1));
    mine.add(places::bytes(fresh->bits));
    for (std::uint64_t i = 0; i < old.size(); ++i) {
      const std::uint64_t there = old.at(i).slot.load_relaxed();
      if (there == empty || there == gap) continue;
      place& to = *fresh->free_for(there - 1);
      to.claim.write(old.at(i).claim.read());
      to.birth.write(old.at(i).birth.read());
      to.slot.store_relaxed(there);
    }
    s.used.write(s.live.read());
    // release → the acquire of protect() in gather(): the places.
    if (SPOLIA_FAULT("hash_secondary.relaxed_places")) {
      s.now.store_relaxed(fresh);
    } else {
      s.now.store_release(fresh);
    }
    if (&old != &s.first()) end(old, g, mine);
    return *fresh;
  }
  static void end(places& p, domain_guard& g, tally& mine) noexcept {
    mine.add(0 - places::bytes(p.bits));
    g.retire(&p, ending{});
  }
  void shrink(row_set& s, domain_guard& g, tally& mine) noexcept {
    places& p = *s.now.load_relaxed();
    if (p.size() < 32 || s.live.read() * 8 > p.size()) return;
    try {
      renew(s, p, s.live.read(), g, mine);
    } catch (const std::bad_alloc&) {
      // The next removal tries again.
    }
  }

  /// Reads the slots of the range found.in, or of a first part of it: then it shortens found.in.
  void gather(const key_words& key, buffer& found) const {
    auto guard = nodes_.enter();
    found.count = 0;
    const row_set* const s = find(key);
    if (s == nullptr) return found.has_places(0);
    const places& p = *guard.protect(s->now);
    found.has_places(p.bits);
    const std::uint64_t from = found.in.from;
    std::uint64_t& last = found.in.last;
    if (p.home(last) - p.home(from) >= homes_at_once) {  // the set has grown meanwhile
      last = ((p.home(from) + homes_at_once) << (64U - p.bits)) - 1;
    }
    // Rarely there are too many slots for the buffer: then a smaller part.
    while (!walk(p, from, last, found) && last != from) last = from + (last - from) / 2;
    std::uint64_t* const begin = found.row_slots.data();
    std::sort(begin, begin + found.count);
    if (!SPOLIA_FAULT("hash_secondary.twice")) {
      found.count = static_cast<std::size_t>(std::unique(begin, begin + found.count) - begin);
    }
  }
  /// Collects the slots whose hashes are from `from` to `last`. False: they are too many.
  static bool walk(const places& p, std::uint64_t from, std::uint64_t last, buffer& found) {
    const std::uint64_t homes = p.home(last) - p.home(from);
    found.count = 0;
    for (std::uint64_t i = 0; i < p.size(); ++i) {
      // acquire ← the release in put().
      const std::uint64_t there = p.at((p.home(from) + i) & (p.size() - 1)).slot.load_acquire();
      if (there == empty) {
        if (i >= homes) break;
        continue;
      }
      const std::uint64_t hash = hash_of(there - 1);
      if (there == gap || hash < from || hash > last) continue;
      if (found.count == found.row_slots.size()) return false;
      found.row_slots[found.count++] = there - 1;
    }
    return true;
  }

  /// The graveyard's entries: hash of the key, hash of the slot, end. It does not distinguish keys
  /// with the same hash. Readers check the key of the row; and of one slot, at most one key ends at
  /// one time.
  using buried = graveyard<3, 2, Graves>;
  using grave = typename buried::place;

  [[nodiscard]] grave grave_of(const key_words& key, std::uint64_t hash,
                               std::uint64_t until) const noexcept {
    return {{keys_.hash_of(key), hash, until}};
  }
  /// Shows the buried slots with hashes in the range of `found`, except those that it has found.
  /// False: the visitor has stopped.
  bool show_dead(const key_words& key, const buffer& found, std::uint64_t time,
                 slot_visitor f) const {
    const std::uint64_t* const begin = found.row_slots.data();
    std::uint64_t before = no_slot;
    bool more = true;
    dead_.up(grave_of(key, found.in.from, 0), grave_of(key, found.in.last, no_slot), time,
             [&](const grave& g) {
               const std::uint64_t slot = slot_of(g.words[1]);
               // A slot may have several lives here: the row tells which one the snapshot sees.
               if (std::exchange(before, slot) == slot) return true;
               if (std::binary_search(begin, begin + found.count, slot)) return true;
               return more = f(slot, key.data());
             });
    return more;
  }

  Domain& nodes_;
  const std::uint32_t words_;
  Table<same_key, Domain> keys_;
  buried dead_;
  // For each thread, the bytes of sets that it has made, less those that it has ended.
  cells<tally> bytes_;
  mutable std::array<spolia::detail::short_lock, locks> locks_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
