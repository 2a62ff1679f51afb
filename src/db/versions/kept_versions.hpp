// SPDX-License-Identifier: Apache-2.0
// kept_versions.hpp: the kept versions of a database, by row: copies of the versions that held
// snapshots see, made when their partition is dropped (delta_evacuated.hpp).
//
// Idea:        a hash table leads from a block of rows to one word for each of its rows. The word
//              leads to the row's only kept version, or to a list of them by the time when they
//              ended. The versions of neighbouring rows are found beside each other, as scans need
//              them.
//              Each version hangs at the middle one of the snapshots that see it, and is examined
//              again when that has ended: then it hangs at another one, or is freed.
// Cost:        a look-up: an access to the table and one to the block; with several versions, log2
//              of their number in one array; and the version. A kept version: 24 bytes beside its
//              own if it is the row's only one, else 32 and the spare room of the array. A snapshot
//              that ends: each version that hangs at it is examined.
// Threads:     look-ups by any thread inside a guard of the domain, wait-free. All else by one
//              thread at a time. A version that is taken out is freed through the domain.
// Bound:       a version goes in the first sweeps after its last snapshot has ended.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/db/columns.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/versions/delta_chunks.hpp"
#include "db/versions/delta_one_shot.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class kept_versions {
  using row_word = atomic<std::uint64_t>;

 public:
  using nodes = region_domain;

  /// A block of rows that has versions here, or had some.
  struct block {
    std::uint64_t key = 0;
    std::uint32_t used = 0;  // how many of the words; the one thread's
    std::array<row_word, rows_per_block> rows{};
  };

  /// All bytes count in `memory`.
  kept_versions(nodes& of, delta_chunks& memory) noexcept : nodes_(of), memory_(memory) {}
  kept_versions(const kept_versions&) = delete;
  kept_versions& operator=(const kept_versions&) = delete;
  /// Precondition: no other thread uses it.
  ~kept_versions();

  // Readers, inside a guard.

  /// Prefetches the table's slot for the row's block, and (`fetch_block`) the block; for a later
  /// block_of().
  void fetch_slot(std::uint64_t row) const noexcept {
    const table* const t = table_.load_acquire();  // as in block_of()
    if (t != nullptr) __builtin_prefetch(t->slots() + (first_slot(row / rows_per_block) & t->mask));
  }
  void fetch_block(std::uint64_t row) const noexcept {
    const table* const t = table_.load_acquire();  // as in block_of()
    if (t == nullptr) return;
    // relaxed: the block is not read.
    __builtin_prefetch(t->slots()[first_slot(row / rows_per_block) & t->mask].load_relaxed());
  }
  /// The row's block, or null.
  [[nodiscard]] const block* block_of(std::uint64_t row) const noexcept {
    // acquire ← the release in grow(): the slots are made.
    const table* const t = table_.load_acquire();
    if (t == nullptr) return nullptr;
    const std::uint64_t key = row / rows_per_block;
    for (std::uint64_t i = first_slot(key);; ++i) {
      // acquire ← the release in find_or_make(): the block is made.
      const block* const b = t->slots()[i & t->mask].load_acquire();
      if (b == nullptr || b->key == key) return b;
    }
  }
  /// The only kept version of the row that a snapshot at this time may see; null: there is none.
  /// Does not read the version itself: see is_seen().
  [[nodiscard]] static const version* candidate(const block& b, std::uint64_t row,
                                                std::uint64_t time) noexcept {
    return candidate(word_in(b, row), time);
  }
  /// The same in two steps. The first one reads the word that leads to the row's versions; if that
  /// is a list, it prefetches it.
  [[nodiscard]] static std::uint64_t fetched_word(const block& b, std::uint64_t row) noexcept {
    const std::uint64_t word = word_in(b, row);
    if ((word & many) != 0) {
      __builtin_prefetch(list_of(word));
      __builtin_prefetch(list_of(word)->entries() + (first_room - 1));
    }
    return word;
  }
  [[nodiscard]] static const version* candidate(std::uint64_t word, std::uint64_t time) noexcept {
    if ((word & many) == 0) return only(word);
    const list& l = *list_of(word);
    // acquire ← the release in add(): the entries.
    const std::uint32_t count = l.count.load_acquire();
    const std::uint32_t i = l.after(time, count);
    // acquire ← the release in add(): the version.
    return i == count ? nullptr : l.entries()[i].at.load_acquire();
  }
  /// Whether a snapshot at this time sees the version, which is a kept one.
  [[nodiscard]] static bool is_seen(const version& v, std::uint64_t time) noexcept {
    return v.since.read() <= time && (time < until_of(v) || SPOLIA_FAULT("kept.end_not_asked"));
  }
  [[nodiscard]] const version* find(std::uint64_t row, std::uint64_t time) const noexcept {
    const block* const b = block_of(row);
    const version* const v = b == nullptr ? nullptr : candidate(*b, row, time);
    return v != nullptr && is_seen(*v, time) ? v : nullptr;
  }
  [[nodiscard]] std::uint64_t versions() const noexcept { return versions_.load_relaxed(); }
  /// Whether a sweep would find nothing to do: no version, and nothing that a give_up() without
  /// memory has left.
  [[nodiscard]] bool empty() const noexcept { return versions() == 0 && gone_bytes() == 0; }
  /// Bytes that were taken out and wait for give_up().
  [[nodiscard]] std::uint64_t gone_bytes() const noexcept { return gone_bytes_.load_relaxed(); }
  /// Bytes of all else. For the one thread.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  // One thread at a time.

  /// Keeps a copy of the version, unless there is one. True if it is new. `seers`: the snapshots,
  /// ascending, of which at least one sees it. Throws std::bad_alloc: nothing has changed then.
  bool keep(std::uint64_t row, const version& v, std::uint32_t words, std::uint64_t until,
            const std::vector<std::uint64_t>& seers);
  /// Examines at most `most` versions that hang at snapshots which are not `living`, and frees
  /// those that none of the living ones sees. Throws std::bad_alloc: some are left then.
  void sweep(const std::vector<std::uint64_t>& living, std::uint64_t most);
  /// Whether the last sweep has left versions that are to be examined.
  [[nodiscard]] bool is_behind() const noexcept { return behind_; }
  /// What hangs at each snapshot, ascending. Throws std::bad_alloc.
  [[nodiscard]] std::vector<held_things> held() const {
    std::vector<held_things> all;
    for (const seer& s : seers_) all.push_back({s.time, s.count, s.bytes});
    return all;
  }
  /// What hangs at one snapshot.
  [[nodiscard]] held_things held_at(std::uint64_t time) const noexcept {
    const auto s = place_of(time);
    if (s == seers_.end() || s->time != time) return {.time = time};
    return {s->time, s->count, s->bytes};
  }
  /// The first and the last snapshot at which something hangs; none: (1, 0).
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> held_between() const noexcept {
    if (seers_.empty()) return {1, 0};
    return {seers_.front().time, seers_.back().time};
  }
  /// Retires to the domain what was taken out. Throws std::bad_alloc: then the next call does it.
  void give_up();

 private:
  static constexpr std::uint64_t many = 1;  // bit of a word: it leads to a list
  static constexpr std::uint32_t first_room = 4;
#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t first_slots = 2;
  static constexpr std::size_t spare = 1;
#else
  static constexpr std::uint64_t first_slots = 64;
  static constexpr std::size_t spare = 8;  // so many empty blocks may stay
#endif

  /// A version that is kept. Its words follow it.
  struct kept {
    plain<std::uint64_t> row{};
    plain<kept*> next{nullptr};  // the next that hangs at the same snapshot
    version seen;
  };
  struct seer {
    std::uint64_t time;
    kept* first;
    std::uint64_t count;
    std::uint64_t bytes;

    void hang(kept& k) noexcept {
      k.next.write(first);
      first = &k;
      ++count;
      bytes += bytes_of(k);
    }
  };
  struct entry {
    plain<std::uint64_t> until{};
    atomic<version*> at{nullptr};  // null: it was taken out
  };
  /// A row's versions by `until`, ascending.
  struct alignas(entry) list {
    std::uint32_t room = 0;
    std::uint32_t left = 0;  // how many were not taken out; the one thread's
    atomic<std::uint32_t> count{0};

    entry* entries() noexcept { return reinterpret_cast<entry*>(this + 1); }
    [[nodiscard]] const entry* entries() const noexcept {
      return reinterpret_cast<const entry*>(this + 1);
    }
    static std::size_t bytes(std::uint32_t room) noexcept {
      return sizeof(list) + room * sizeof(entry);
    }
    /// The first entry that ended after `time`, or `end`.
    [[nodiscard]] std::uint32_t after(std::uint64_t time, std::uint32_t end) const noexcept {
      std::uint32_t first = 0;
      while (first < end) {
        const std::uint32_t middle = first + (end - first) / 2;
        if (entries()[middle].until.read() <= time) {
          first = middle + 1;
        } else {
          end = middle;
        }
      }
      return first;
    }
    /// Null: none is left.
    [[nodiscard]] version* last_left() const noexcept {
      for (std::uint32_t i = count.load_relaxed(); i-- != 0;) {
        version* const v = entries()[i].at.load_relaxed();
        if (v != nullptr) return v;
      }
      return nullptr;
    }
    /// Adds a version that ended after all others.
    void add(std::uint64_t until, version* v) noexcept {
      const std::uint32_t i = count.load_relaxed();
      entries()[i].until.write(until);
      // release → the acquire in candidate(): the copy. (For threads that find the entry by the
      // count, the release of that would do. But sweep() takes the entry out by this word.)
      entries()[i].at.store_release(v);
      // release → the acquire in candidate(): the entry.
      count.store_release(i + 1);
      ++left;
    }
  };
  struct table {
    std::uint64_t mask = 0;

    atomic<block*>* slots() noexcept { return reinterpret_cast<atomic<block*>*>(this + 1); }
    [[nodiscard]] const atomic<block*>* slots() const noexcept {
      return reinterpret_cast<const atomic<block*>*>(this + 1);
    }
    static std::size_t bytes(std::uint64_t slots) noexcept {
      return sizeof(table) + slots * sizeof(atomic<block*>);
    }
  };
  struct piece {
    void* memory;
    std::size_t bytes;
  };
  /// Memory that readers may be reading.
  struct bag : nodes::header {
    explicit bag(delta_chunks& to) noexcept : of(to) {}
    ~bag() {
      of.end_wait(bytes);
      free_all(of, all);
    }
    delta_chunks& of;
    std::vector<piece> all;
    std::uint64_t bytes = 0;
  };

  static std::uint64_t word_in(const block& b, std::uint64_t row) noexcept {
    // acquire ← the releases in put() and take_out(): the version, or the list.
    return b.rows[row % rows_per_block].load_acquire();
  }
  static std::uint64_t first_slot(std::uint64_t key) noexcept {
    return key * 0x9E3779B97F4A7C15U >> 24U;
  }
  // A copy leads to no older version: `older` has its stub's contents.
  static std::uint64_t until_of(const version& v) noexcept {
    return delta_stub::until_in(v.older.load_relaxed());
  }
  static std::size_t bytes_for(std::uint32_t words) noexcept {
    return sizeof(kept) - sizeof(version) + version::bytes(words);
  }
  static std::size_t bytes_of(const kept& k) noexcept {
    return bytes_for(delta_stub::words_in(k.seen.older.load_relaxed()));
  }
  static kept* kept_of(version* v) noexcept {
    return reinterpret_cast<kept*>(reinterpret_cast<std::byte*>(v) - offsetof(kept, seen));
  }
  static version* only(std::uint64_t word) noexcept { return reinterpret_cast<version*>(word); }
  static list* list_of(std::uint64_t word) noexcept {
    return reinterpret_cast<list*>(word & ~many);
  }
  static std::uint64_t word_of(version* v) noexcept { return reinterpret_cast<std::uintptr_t>(v); }
  static std::uint64_t word_of(list* l) noexcept {
    return reinterpret_cast<std::uintptr_t>(l) | many;
  }
  /// The middle one of the snapshots that see a version, or null.
  static const std::uint64_t* middle(const std::vector<std::uint64_t>& times, std::uint64_t since,
                                     std::uint64_t until) noexcept {
    const auto first = std::lower_bound(times.begin(), times.end(), since);
    const auto end = std::lower_bound(first, times.end(), until);
    return first == end ? nullptr : &*(first + (end - first) / 2);
  }
  static void free_all(delta_chunks& of, const std::vector<piece>& all) noexcept {
    for (const piece& p : all) {
      of.uncount(p.bytes + beside);
      memory::deallocate(p.memory, p.bytes, alignment);
      small_blocks::freed();
    }
  }

  static constexpr std::size_t alignment = alignof(std::max_align_t);
  static constexpr std::size_t beside = 12;  // what an allocator takes for a block, on average
  void* take(std::size_t bytes) {
    void* const made = memory::allocate(bytes, alignment);
    small_blocks::taken();
    memory_.count(bytes + beside);
    bytes_ += bytes + beside;
    return made;
  }
  void free(void* memory, std::size_t bytes) noexcept {
    bytes_ -= bytes + beside;
    memory_.uncount(bytes + beside);
    memory::deallocate(memory, bytes, alignment);
  }
  /// Reserves room for so many pieces in gone_.
  void make_room(std::size_t pieces) {
    if (gone_.capacity() - gone_.size() >= pieces) return;
    gone_.reserve((std::max)(gone_.size() + pieces, 2 * gone_.capacity()));
  }
  /// Puts memory into gone_, since readers may still be reading it. There is room (make_room).
  void let_go(void* memory, std::size_t bytes) noexcept {
    gone_.push_back({memory, bytes});
    gone_bytes_.store_relaxed(gone_bytes_.load_relaxed() + bytes + beside);
    bytes_ -= bytes + beside;
  }

  [[nodiscard]] std::vector<seer>::const_iterator place_of(std::uint64_t time) const noexcept {
    return std::lower_bound(seers_.begin(), seers_.end(), time,
                            [](const seer& s, std::uint64_t t) { return s.time < t; });
  }
  kept* copy(std::uint64_t row, const version& v, std::uint32_t words, std::uint64_t until);
  seer& at(std::uint64_t time);
  static bool is_there(std::uint64_t word, std::uint64_t until) noexcept;
  void put(row_word& place, version* made, std::uint64_t until);
  block& find_or_make(std::uint64_t row);
  void grow(std::uint64_t slots);
  void put_in(table& t, block* b) noexcept;
  list* list_with(const list* old, std::uint64_t until, version* v);
  bool pass_on(kept& k, const std::vector<std::uint64_t>& living);
  void take_out(kept& k);
  void forget_empty_blocks();

  nodes& nodes_;
  delta_chunks& memory_;
  atomic<table*> table_{nullptr};
  atomic<std::uint64_t> versions_{0};
  // Of the one thread:
  std::vector<seer> seers_;  // ascending
  bool behind_ = false;
  std::uint64_t bytes_ = 0;
  std::vector<block*> all_;
  std::size_t empty_ = 0;                // how many of all_ have no version
  std::vector<piece> gone_;              // taken out, and not retired to the domain yet
  atomic<std::uint64_t> gone_bytes_{0};  // bytes in gone_
};

inline kept_versions::~kept_versions() {
  for (block* const b : all_) {
    for (const row_word& r : b->rows) {
      const std::uint64_t word = r.load_relaxed();
      if ((word & many) == 0) {
        if (word != 0) free(kept_of(only(word)), bytes_of(*kept_of(only(word))));
        continue;
      }
      list* const l = list_of(word);
      for (std::uint32_t i = 0; i < l->count.load_relaxed(); ++i) {
        version* const v = l->entries()[i].at.load_relaxed();
        if (v != nullptr) free(kept_of(v), bytes_of(*kept_of(v)));
      }
      free(l, list::bytes(l->room));
    }
    free(b, sizeof(block));
  }
  if (table* const t = table_.load_relaxed(); t != nullptr) free(t, table::bytes(t->mask + 1));
  free_all(memory_, gone_);
}

inline kept_versions::kept* kept_versions::copy(std::uint64_t row, const version& v,
                                                std::uint32_t words, std::uint64_t until) {
  auto* const made = ::new (take(bytes_for(words))) kept;
  made->row.write(row);
  version& to = made->seen;
  to.since.write(v.since.read());
  to.older.store_relaxed(delta_stub::packed(words, until));
  to.shape.write(v.shape.read());
  to.columns.write(v.columns.read());
  for (std::uint32_t i = 0; i < words; ++i) to.put(i, v.words()[i].read());
  return made;
}

inline void kept_versions::put_in(table& t, block* b) noexcept {
  std::uint64_t i = first_slot(b->key);
  while (t.slots()[i & t.mask].load_relaxed() != nullptr) ++i;
  // release → the acquire in block_of(): the block is made.
  t.slots()[i & t.mask].store_release(b);
}

/// Makes a table of so many slots, with all blocks in it.
inline void kept_versions::grow(std::uint64_t slots) {
  make_room(1);
  auto* const made = ::new (take(table::bytes(slots))) table;
  made->mask = slots - 1;
  for (std::uint64_t i = 0; i < slots; ++i) ::new (made->slots() + i) atomic<block*>(nullptr);
  for (block* const b : all_) put_in(*made, b);
  table* const old = table_.load_relaxed();
  // release → the acquire in block_of(): the slots.
  table_.store_release(made);
  if (old != nullptr) let_go(old, table::bytes(old->mask + 1));
}

inline kept_versions::block& kept_versions::find_or_make(std::uint64_t row) {
  if (const block* const there = block_of(row); there != nullptr) return const_cast<block&>(*there);
  const table* const t = table_.load_relaxed();
  if (t == nullptr || (all_.size() + 1) * 2 > t->mask) {
    grow(t == nullptr ? first_slots : 2 * (t->mask + 1));
  }
  if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 8);
  auto* const made = ::new (take(sizeof(block))) block;
  made->key = row / rows_per_block;
  all_.push_back(made);
  ++empty_;
  put_in(*table_.load_relaxed(), made);
  return *made;
}

/// A list with the entries of `old` that were not taken out, and with this version, if there is
/// one.
inline kept_versions::list* kept_versions::list_with(const list* old, std::uint64_t until,
                                                     version* v) {
  const std::uint32_t left = old == nullptr ? 0 : old->left;
  const std::uint32_t room = (std::max)(first_room, left + left / 2 + 1);
  auto* const made = ::new (take(list::bytes(room))) list;
  made->room = room;
  for (std::uint32_t i = 0; i < room; ++i) ::new (made->entries() + i) entry;
  bool put = v == nullptr;
  for (std::uint32_t i = 0; old != nullptr && i < old->count.load_relaxed(); ++i) {
    version* const there = old->entries()[i].at.load_relaxed();
    if (there == nullptr) continue;
    const std::uint64_t ended = old->entries()[i].until.read();
    if (!put && until < ended) {
      made->add(until, v);
      put = true;
    }
    made->add(ended, there);
  }
  if (!put) made->add(until, v);
  return made;
}

/// The versions that hang at a snapshot; adds it if it is not there.
inline kept_versions::seer& kept_versions::at(std::uint64_t time) {
  const auto place = seers_.begin() + (place_of(time) - seers_.cbegin());
  if (place != seers_.end() && place->time == time) return *place;
  return *seers_.insert(place, {time, nullptr, 0, 0});
}

inline bool kept_versions::is_there(std::uint64_t word, std::uint64_t until) noexcept {
  if (word == 0) return false;
  if ((word & many) == 0) return until_of(*only(word)) == until;
  const list& l = *list_of(word);
  const std::uint32_t count = l.count.load_relaxed();
  const std::uint32_t i = l.after(until - 1, count);
  return i != count && l.entries()[i].until.read() == until &&
         l.entries()[i].at.load_relaxed() != nullptr;
}

inline bool kept_versions::keep(std::uint64_t row, const version& v, std::uint32_t words,
                                std::uint64_t until, const std::vector<std::uint64_t>& seers) {
  block& b = find_or_make(row);
  row_word& place = b.rows[row % rows_per_block];
  if (is_there(place.load_relaxed(), until)) return false;
  make_room(1);
  seer& s = at(*middle(seers, v.since.read(), until));
  kept* const made = copy(row, v, words, until);
  if (place.load_relaxed() == 0 && b.used++ == 0) --empty_;
  try {
    put(place, &made->seen, until);
  } catch (...) {  // only if the row has other versions: so the block's `used` is unchanged
    free(made, bytes_of(*made));
    throw;
  }
  s.hang(*made);
  versions_.store_relaxed(versions_.load_relaxed() + 1);
  return true;
}

/// Adds it to the row's versions. May throw std::bad_alloc if the row has another one.
inline void kept_versions::put(row_word& place, version* made, std::uint64_t until) {
  const std::uint64_t word = place.load_relaxed();
  if (word == 0) {
    place.store_release(word_of(made));  // → the acquire in candidate(): the copy
    return;
  }
  if ((word & many) == 0) {
    const std::uint64_t other = until_of(*only(word));
    list* const next =
        list_with(nullptr, (std::min)(other, until), other < until ? only(word) : made);
    next->add((std::max)(other, until), other < until ? made : only(word));
    place.store_release(word_of(next));  // → the acquire in candidate(): the list
    return;
  }
  list* const old = list_of(word);
  const std::uint32_t count = old->count.load_relaxed();
  if (count < old->room && old->entries()[count - 1].until.read() < until) {
    return old->add(until, made);
  }
  list* const next = list_with(old, until, made);
  place.store_release(word_of(next));  // as above
  let_go(old, list::bytes(old->room));
}

inline void kept_versions::sweep(const std::vector<std::uint64_t>& living, std::uint64_t most) {
  behind_ = false;
  for (std::size_t i = 0; i < seers_.size();) {
    const std::uint64_t time = seers_[i].time;
    if (std::binary_search(living.begin(), living.end(), time)) {
      ++i;
      continue;
    }
    while (kept* const k = at(time).first) {
      behind_ = most-- == 0;
      if (behind_) return;
      kept* const next = k->next.read();
      const std::uint64_t bytes = bytes_of(*k);
      if (!pass_on(*k, living)) take_out(*k);
      seer& s = at(time);
      s.first = next;
      --s.count;
      s.bytes -= bytes;
    }
    i = static_cast<std::size_t>(&at(time) - seers_.data());
    seers_.erase(seers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if (empty_ > spare && empty_ > all_.size() / 2) forget_empty_blocks();
}

/// Makes it hang at a living snapshot that sees it, if there is one. The caller takes it off the
/// one at which it hung.
inline bool kept_versions::pass_on(kept& k, const std::vector<std::uint64_t>& living) {
  const std::uint64_t* const other = middle(living, k.seen.since.read(), until_of(k.seen));
  if (other == nullptr || SPOLIA_FAULT("kept.living_not_asked")) return false;
  at(*other).hang(k);
  return true;
}

/// Takes a version out, to be retired. Throws std::bad_alloc: nothing has changed then.
inline void kept_versions::take_out(kept& k) {
  make_room(2);
  const std::uint64_t row = k.row.read();
  block& b = const_cast<block&>(*block_of(row));
  row_word& place = b.rows[row % rows_per_block];
  const std::uint64_t word = place.load_relaxed();
  std::uint64_t left = 0;
  if ((word & many) != 0) {
    list& l = *list_of(word);
    entry& e = l.entries()[l.after(until_of(k.seen) - 1, l.count.load_relaxed())];
    const bool shrinks = l.left - 1 <= l.room / 4;  // at the latest when one is left
    e.at.store_relaxed(nullptr);
    --l.left;
    left = word;
    if (shrinks) {
      try {
        left = l.left <= 1 ? word_of(l.last_left()) : word_of(list_with(&l, 0, nullptr));
      } catch (...) {
        e.at.store_relaxed(&k.seen);
        ++l.left;
        throw;
      }
      let_go(&l, list::bytes(l.room));
    }
  }
  if (left != word) place.store_release(left);  // → the acquire in candidate(): the list
  if (left == 0 && --b.used == 0) ++empty_;
  let_go(&k, bytes_of(k));
  versions_.store_relaxed(versions_.load_relaxed() - 1);
}

inline void kept_versions::forget_empty_blocks() {
  const auto is_used = [](const block* b) { return b->used != 0; };
  make_room(empty_ + 1);
  std::vector<block*> left;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(left), is_used);
  left.swap(all_);
  std::uint64_t slots = first_slots;
  while (slots < 4 * (all_.size() + 1)) slots *= 2;
  try {
    grow(slots);
  } catch (...) {
    left.swap(all_);
    throw;
  }
  empty_ = 0;
  for (block* const b : left) {
    if (!is_used(b)) let_go(b, sizeof(block));
  }
}

inline void kept_versions::give_up() {
  if (gone_.empty()) return;
  auto guard = nodes_.enter();
  bag* const b = nodes_.make<bag>(memory_);
  b->all.swap(gone_);
  b->bytes = gone_bytes_.load_relaxed();
  gone_bytes_.store_relaxed(0);
  memory_.begin_wait(b->bytes);
  guard.retire(b);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
