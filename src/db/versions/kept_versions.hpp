// SPDX-License-Identifier: Apache-2.0
// kept_versions.hpp: versions that held snapshots see, by row: where a partition's survivors go
// (delta_evacuated.hpp).
//
// Idea:        a hash table leads from a block of rows to one word for each of its rows. That leads
//              to the row's only version that is kept, or to a list of them by the time when they
//              ended. The neighbours of a row are found beside it, as scans want them.
// Cost:        a look-up: a look at the table, one at the block, with several versions log2 of
//              their number in one array, and the version. A version that is kept: 8 bytes beside
//              itself if it is the row's only one, else 16 and what the array has spare.
// Threads:     look-ups by any thread inside a guard of the domain, wait-free. All else by one
//              thread at a time. What is taken out is freed through the domain.
// Bound:       a version is freed by the first sweep after the last snapshot that sees it has been
//              found to have ended; a sweep costs a look at each row that has versions here.
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

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class kept_versions {
  using row_word = atomic<std::uint64_t>;

 public:
  using nodes = region_domain;

  /// A block of rows that has versions here, or had some.
  struct block {
    std::uint64_t key = 0;
    std::array<row_word, rows_per_block> rows{};
  };

  /// Its bytes count in `memory`.
  kept_versions(nodes& of, delta_chunks& memory) noexcept : nodes_(of), memory_(memory) {}
  kept_versions(const kept_versions&) = delete;
  kept_versions& operator=(const kept_versions&) = delete;
  /// Precondition: no other thread uses it.
  ~kept_versions();

  // Readers, inside a guard.

  /// Has what leads to the row's block fetched, and then the block; for block_of() later.
  void fetch_slot(std::uint64_t row) const noexcept {
    const table* const t = table_.load_acquire();  // as in block_of()
    if (t != nullptr) __builtin_prefetch(t->slots() + (first_slot(row / rows_per_block) & t->mask));
  }
  void fetch_block(std::uint64_t row) const noexcept {
    const table* const t = table_.load_acquire();  // as in block_of()
    if (t == nullptr) return;
    // relaxed: it is not looked into.
    __builtin_prefetch(t->slots()[first_slot(row / rows_per_block) & t->mask].load_relaxed());
  }
  static void fetch_version(const version* v) noexcept {
    __builtin_prefetch(v);
    __builtin_prefetch(reinterpret_cast<const std::byte*>(v) + sizeof(version));
  }
  /// The words of the row's block, or null.
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
  /// The row's version of which alone a snapshot at this time may be one that sees it; null: none
  /// is here. Without a look at the version itself.
  [[nodiscard]] static const version* candidate(const block& b, std::uint64_t row,
                                                std::uint64_t time) noexcept {
    // acquire ← the releases in keep() and sweep(): the version, or the list.
    const std::uint64_t word = b.rows[row % rows_per_block].load_acquire();
    if ((word & many) == 0) return only(word);
    const list& l = *list_of(word);
    // acquire ← the release in add(): the entries.
    const std::uint32_t count = l.count.load_acquire();
    const std::uint32_t i = l.after(time, count);
    // acquire ← the release in add(): the version.
    return i == count ? nullptr : l.entries()[i].at.load_acquire();
  }
  /// Whether a snapshot at this time sees the version, which is one of here.
  [[nodiscard]] static bool is_seen(const version& v, std::uint64_t time) noexcept {
    return v.since.read() <= time && (time < until_of(v) || SPOLIA_FAULT("kept.end_not_asked"));
  }
  [[nodiscard]] const version* find(std::uint64_t row, std::uint64_t time) const noexcept {
    const block* const b = block_of(row);
    const version* const v = b == nullptr ? nullptr : candidate(*b, row, time);
    return v != nullptr && is_seen(*v, time) ? v : nullptr;
  }
  [[nodiscard]] std::uint64_t versions() const noexcept { return versions_.load_relaxed(); }

  // One thread at a time.

  /// Keeps a copy, unless there is one; whether it is new. Throws std::bad_alloc: nothing has
  /// changed then.
  bool keep(std::uint64_t row, const version& v, std::uint32_t words, std::uint64_t until);
  /// Frees what one of the snapshots saw that have `ended` and none of the living ones sees; how
  /// many versions. Throws std::bad_alloc: some are left then.
  std::uint64_t sweep(const std::vector<std::uint64_t>& living,
                      const std::vector<std::uint64_t>& ended);
  /// Gives what was taken out to the domain. Throws std::bad_alloc: it is for the next call then.
  void give_up();

 private:
  static constexpr std::uint64_t many = 1;  // bit of a word: it leads to a list
  static constexpr std::uint32_t first_room = 4;
  static constexpr std::size_t few = 8;  // snapshots: for more, all versions of a row are looked at
#if defined(SPOLIA_MODEL)
  static constexpr std::uint64_t first_slots = 2;
#else
  static constexpr std::uint64_t first_slots = 64;
#endif

  struct entry {
    plain<std::uint64_t> until{};
    atomic<version*> at{nullptr};  // null: it was taken out
  };
  /// By `until`, ascending.
  struct list {
    std::uint32_t room = 0;
    std::uint32_t left = 0;  // not taken out; of the one thread
    atomic<std::uint32_t> count{0};

    entry* entries() noexcept { return reinterpret_cast<entry*>(this + 1); }
    [[nodiscard]] const entry* entries() const noexcept {
      return reinterpret_cast<const entry*>(this + 1);
    }
    static std::size_t bytes(std::uint32_t room) noexcept {
      return sizeof(list) + room * sizeof(entry);
    }
    /// The first that ended after `time`, or `end`.
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
    /// Behind all others.
    void add(std::uint64_t until, version* v) noexcept {
      const std::uint32_t i = count.load_relaxed();
      entries()[i].until.write(until);
      // release → the acquires in candidate(): the copy. (For those that see the entry by the count
      // that would do; sweep() takes it out by this word.)
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

  static std::uint64_t first_slot(std::uint64_t key) noexcept {
    return key * 0x9E3779B97F4A7C15U >> 24U;
  }
  // Copies lead nowhere: when one ended is there, and its words, and one, above that.
  static std::uint64_t until_of(const version& v) noexcept {
    return v.older.load_relaxed() & ((std::uint64_t{1} << delta_stub::until_bits) - 1);
  }
  static std::size_t bytes_of(const version& v) noexcept {
    return version::bytes(
        static_cast<std::uint32_t>(v.older.load_relaxed() >> delta_stub::until_bits) - 1);
  }
  static version* only(std::uint64_t word) noexcept { return reinterpret_cast<version*>(word); }
  static list* list_of(std::uint64_t word) noexcept {
    return reinterpret_cast<list*>(word & ~many);
  }
  static std::uint64_t word_of(version* v) noexcept { return reinterpret_cast<std::uintptr_t>(v); }
  static std::uint64_t word_of(list* l) noexcept {
    return reinterpret_cast<std::uintptr_t>(l) | many;
  }
  static bool any_in(const std::vector<std::uint64_t>& times, std::uint64_t from,
                     std::uint64_t end) noexcept {
    const auto first = std::lower_bound(times.begin(), times.end(), from);
    return first != times.end() && *first < end;
  }
  static void free_all(delta_chunks& of, const std::vector<piece>& all) noexcept {
    for (const piece& p : all) {
      of.uncount(p.bytes);
      memory::deallocate(p.memory, p.bytes, alignment);
    }
  }

  static constexpr std::size_t alignment = alignof(std::max_align_t);
  void* take(std::size_t bytes) {
    void* const made = memory::allocate(bytes, alignment);
    memory_.count(bytes);
    return made;
  }
  void free(void* memory, std::size_t bytes) noexcept {
    memory_.uncount(bytes);
    memory::deallocate(memory, bytes, alignment);
  }
  /// Readers may be reading it: there is room.
  void let_go(void* memory, std::size_t bytes) noexcept {
    gone_.push_back({memory, bytes});
    gone_bytes_ += bytes;
  }
  void let_go(version* v) noexcept { let_go(v, bytes_of(*v)); }

  version* copy(const version& v, std::uint32_t words, std::uint64_t until);
  block& find_or_make(std::uint64_t row);
  void grow(std::uint64_t slots);
  void put_in(table& t, block* b) noexcept;
  list* list_with(const list* old, std::uint64_t until, version* v);
  std::uint64_t sweep_row(row_word& row, const std::vector<std::uint64_t>& living,
                          const std::vector<std::uint64_t>& ended);
  void forget_empty_blocks();

  nodes& nodes_;
  delta_chunks& memory_;
  atomic<table*> table_{nullptr};
  atomic<std::uint64_t> versions_{0};
  // Of the one thread:
  std::vector<block*> all_;
  std::vector<piece> gone_;  // taken out, and not given to the domain yet
  std::uint64_t gone_bytes_ = 0;
};

inline kept_versions::~kept_versions() {
  for (block* const b : all_) {
    for (const row_word& r : b->rows) {
      const std::uint64_t word = r.load_relaxed();
      if ((word & many) == 0) {
        if (word != 0) free(only(word), bytes_of(*only(word)));
        continue;
      }
      list* const l = list_of(word);
      for (std::uint32_t i = 0; i < l->count.load_relaxed(); ++i) {
        version* const v = l->entries()[i].at.load_relaxed();
        if (v != nullptr) free(v, bytes_of(*v));
      }
      free(l, list::bytes(l->room));
    }
    free(b, sizeof(block));
  }
  if (table* const t = table_.load_relaxed(); t != nullptr) free(t, table::bytes(t->mask + 1));
  free_all(memory_, gone_);
}

inline version* kept_versions::copy(const version& v, std::uint32_t words, std::uint64_t until) {
  version* const made = version::make(take(version::bytes(words)));
  made->since.write(v.since.read());
  made->older.store_relaxed((std::uint64_t{words} + 1) << delta_stub::until_bits | until);
  made->shape.write(v.shape.read());
  made->columns.write(v.columns.read());
  for (std::uint32_t i = 0; i < words; ++i) made->put(i, v.words()[i].read());
  return made;
}

inline void kept_versions::put_in(table& t, block* b) noexcept {
  std::uint64_t i = first_slot(b->key);
  while (t.slots()[i & t.mask].load_relaxed() != nullptr) ++i;
  // release → the acquire in block_of(): the block is made.
  t.slots()[i & t.mask].store_release(b);
}

/// A table of so many slots, with all blocks.
inline void kept_versions::grow(std::uint64_t slots) {
  gone_.reserve(gone_.size() + 1);
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
  put_in(*table_.load_relaxed(), made);
  return *made;
}

/// The entries of `old` that are left, and this one in its place.
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

inline bool kept_versions::keep(std::uint64_t row, const version& v, std::uint32_t words,
                                std::uint64_t until) {
  row_word& place = find_or_make(row).rows[row % rows_per_block];
  const std::uint64_t word = place.load_relaxed();
  list* old = nullptr;
  if ((word & many) != 0) {
    old = list_of(word);
    const std::uint32_t count = old->count.load_relaxed();
    const std::uint32_t i = old->after(until - 1, count);
    if (i != count && old->entries()[i].until.read() == until) {
      if (old->entries()[i].at.load_relaxed() != nullptr) return false;
    }
  } else if (word != 0 && until_of(*only(word)) == until) {
    return false;
  }
  gone_.reserve(gone_.size() + 1);
  version* const made = copy(v, words, until);
  try {
    if (word == 0) {
      place.store_release(word_of(made));  // → the acquire in candidate(): the copy
    } else if (old != nullptr && old->count.load_relaxed() < old->room &&
               old->entries()[old->count.load_relaxed() - 1].until.read() < until) {
      old->add(until, made);
    } else if (old != nullptr) {
      list* const next = list_with(old, until, made);
      place.store_release(word_of(next));  // → the acquire in candidate(): the list
      let_go(old, list::bytes(old->room));
    } else {
      list* const next = list_with(nullptr, until_of(*only(word)), only(word));
      if (until_of(*only(word)) < until) {
        next->add(until, made);
      } else {
        next->count.store_relaxed(0);
        next->left = 0;
        next->add(until, made);
        next->add(until_of(*only(word)), only(word));
      }
      place.store_release(word_of(next));  // as above
    }
  } catch (...) {
    free(made, bytes_of(*made));
    throw;
  }
  versions_.store_relaxed(versions_.load_relaxed() + 1);
  return true;
}

inline std::uint64_t kept_versions::sweep(const std::vector<std::uint64_t>& living,
                                          const std::vector<std::uint64_t>& ended) {
  std::uint64_t freed = 0;
  std::size_t empty = 0;
  for (block* const b : all_) {
    bool any = false;
    for (row_word& r : b->rows) {
      if (r.load_relaxed() == 0) continue;
      freed += sweep_row(r, living, ended);
      any = any || r.load_relaxed() != 0;
    }
    empty += any ? 0U : 1U;
  }
  if (empty > 8 && empty > all_.size() / 2) forget_empty_blocks();
  return freed;
}

inline std::uint64_t kept_versions::sweep_row(row_word& row,
                                              const std::vector<std::uint64_t>& living,
                                              const std::vector<std::uint64_t>& ended) {
  const std::uint64_t word = row.load_relaxed();
  const auto is_seen_by_any = [&](const version& v) {
    return any_in(living, v.since.read(), until_of(v)) && !SPOLIA_FAULT("kept.living_not_asked");
  };
  if ((word & many) == 0) {
    version* const v = only(word);
    if (is_seen_by_any(*v)) return 0;
    gone_.reserve(gone_.size() + 1);
    row.store_relaxed(0);
    let_go(v);
    versions_.store_relaxed(versions_.load_relaxed() - 1);
    return 1;
  }
  list& l = *list_of(word);
  std::uint64_t freed = 0;
  const std::uint32_t count = l.count.load_relaxed();
  const auto look_at = [&](entry& e, std::uint64_t time) {
    version* const v = e.at.load_relaxed();
    if (v == nullptr || v->since.read() > time || is_seen_by_any(*v)) return;
    gone_.reserve(gone_.size() + 1);
    e.at.store_relaxed(nullptr);
    let_go(v);
    --l.left;
    ++freed;
    versions_.store_relaxed(versions_.load_relaxed() - 1);
  };
  if (ended.size() > few) {
    for (std::uint32_t i = 0; i < count; ++i) look_at(l.entries()[i], ended.back());
  } else {
    for (const std::uint64_t t : ended) {
      if (const std::uint32_t i = l.after(t, count); i != count) look_at(l.entries()[i], t);
    }
  }
  if (l.left > l.room / 4) return freed;
  gone_.reserve(gone_.size() + 1);
  std::uint64_t next = 0;
  if (l.left != 0) next = word_of(list_with(&l, 0, nullptr));
  row.store_release(next);  // → the acquire in candidate(): the list
  let_go(&l, list::bytes(l.room));
  return freed;
}

inline void kept_versions::forget_empty_blocks() {
  const auto is_empty = [](const block* b) {
    return std::all_of(b->rows.begin(), b->rows.end(),
                       [](const row_word& r) { return r.load_relaxed() == 0; });
  };
  gone_.reserve(gone_.size() + all_.size() + 1);
  std::vector<block*> left;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(left),
               [&](const block* b) { return !is_empty(b); });
  left.swap(all_);
  std::uint64_t slots = first_slots;
  while (slots < 4 * (all_.size() + 1)) slots *= 2;
  try {
    grow(slots);
  } catch (...) {
    left.swap(all_);
    throw;
  }
  for (block* const b : left) {
    if (is_empty(b)) let_go(b, sizeof(block));
  }
}

inline void kept_versions::give_up() {
  if (gone_.empty()) return;
  auto guard = nodes_.enter();
  bag* const b = nodes_.make<bag>(memory_);
  b->all.swap(gone_);
  b->bytes = std::exchange(gone_bytes_, 0);
  memory_.begin_wait(b->bytes);
  guard.retire(b);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
