// SPDX-License-Identifier: Apache-2.0
// delta_bridge.hpp: the forwarding entries of a partition: where rows' chains went on when they
// left it, for readers that meet a dead link. delta_consolidated.hpp says what they are for.
//
// Idea:        a block has entries and as many buckets. Many threads add entries at the same time.
//              When it is full, one twice as large comes before it. All blocks are freed with their
//              partition. Most rows that are looked for in a block have no entry there. So each
//              bucket has a few bits, of which each row of its entries sets one: a row whose bit is
//              not set has no entry.
// Protects:    a domain: entries are made and looked for inside its guards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/db/delta.hpp>
#include <spolia/reclaim/region_domain.hpp>

#include "db/versions/delta_chunks.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

struct delta_bridge : region_domain::header {
  struct entry {
    plain<std::uint64_t> row{};
    atomic<std::uint64_t> head{0};  // handle of the newest version of the piece; 0: not filled yet
    plain<std::uint64_t> until{};   // when that version ended
    plain<std::uint32_t> next{};    // one more than the next entry of the bucket
  };

  delta_bridge* older = nullptr;
  delta_chunks* of = nullptr;  // in which its bytes count
  std::uint32_t size = 0;      // a power of two
  atomic<std::uint32_t> used{0};

  /// Makes an entry for the row of `a`, whose next version will be in another partition. `bridges`
  /// are those of the partition that the chain leaves. Throws std::bad_alloc.
  static void enter_into(atomic<delta_bridge*>& bridges, delta_chunks& memory, const ask& a) {
    for (;;) {
      // acquire ← the release below: the block is made.
      delta_bridge* const b = bridges.load_acquire();
      if (b != nullptr && b->used.load_relaxed() < b->size) {
        const std::uint32_t i = b->used.fetch_add_relaxed(1);
        if (i >= b->size) continue;
        return b->fill(i, a);
      }
      const std::uint32_t size = b == nullptr ? first : (std::min)(2 * b->size, longest);
      delta_bridge* const made = make(memory, size);
      made->older = b;
      delta_bridge* was = b;
      // release → the acquires here, in newest() and in take().
      if (!bridges.cas_strong_release(was, made)) free(made);
    }
  }
  static const delta_bridge* newest(const atomic<delta_bridge*>& bridges) noexcept {
    return bridges.load_acquire();  // ← the release in enter_into(): the block is made
  }
  /// Prefetches the bucket of the row.
  void fetch_bucket(std::uint64_t row) const noexcept { __builtin_prefetch(&bucket(row)); }
  /// The first entry of the row's bucket, which is prefetched; null: the row has no entry.
  [[nodiscard]] const entry* first_for(std::uint64_t row) const noexcept {
    // acquire ← the release in fill(): the entry is filled.
    const std::uint32_t word = bucket(row).load_acquire();
    return (word & mark_of(row)) == 0 ? nullptr : fetched(word & all_entries);
  }
  [[nodiscard]] const entry* after(const entry& e) const noexcept { return fetched(e.next.read()); }
  /// Whether the entry is of a piece of the row that ended after `time`.
  static bool leads(const entry& e, std::uint64_t row, std::uint64_t time) noexcept {
    const bool late = e.until.read() > time || SPOLIA_FAULT("consolidated.first_readable");
    return e.row.read() == row && late;
  }
  /// The piece of a row that ended first, of those that ended after some time.
  struct nearest {
    std::uint64_t until = ~std::uint64_t{0};
    std::uint64_t head = 0;  // 0: there is none

    void look_at(const entry& e, std::uint64_t row, std::uint64_t time) noexcept {
      if (!leads(e, row, time) || e.until.read() >= until) return;
      until = e.until.read();
      head = e.head.load_relaxed();
    }
  };
  static void look_for(nearest& of, const atomic<delta_bridge*>& bridges, std::uint64_t row,
                       std::uint64_t time) noexcept {
    for (const delta_bridge* b = newest(bridges); b != nullptr; b = b->older) {
      for (const entry* e = b->first_for(row); e != nullptr; e = b->after(*e)) {
        of.look_at(*e, row, time);
      }
    }
  }
  [[nodiscard]] std::uint32_t entries_used() const noexcept {
    return (std::min)(used.load_relaxed(), size);
  }
  /// Calls f(entry) for all filled entries, in the order of memory.
  template <class F>
  static void each_entry(const atomic<delta_bridge*>& bridges, F&& f) {
    for (const delta_bridge* b = newest(bridges); b != nullptr; b = b->older) {
      for (std::uint32_t i = 0, end = b->entries_used(); i < end; ++i) {
        const entry& e = b->entries()[i];
        // acquire ← the release in fill(): the entry.
        if (e.head.load_acquire() != 0) f(e);
      }
    }
  }
  static delta_bridge* take(atomic<delta_bridge*>& bridges) noexcept {
    return bridges.exchange_acquire(nullptr);  // ← the release in enter_into()
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(size); }
  static void free(delta_bridge* b) noexcept {
    const std::size_t all = b->bytes();
    b->of->uncount(all);
    b->~delta_bridge();
    memory::deallocate(b, all, alignof(delta_bridge));
  }
  /// The deleter for a domain. The bytes were counted as waiting.
  struct ending {
    void operator()(delta_bridge* b) const noexcept {
      b->of->end_wait(b->bytes());
      free(b);
    }
  };

 private:
#if defined(SPOLIA_MODEL)
  static constexpr std::uint32_t first = 2;
  static constexpr std::uint32_t longest = 4;
#else
  static constexpr std::uint32_t first = 512;
  static constexpr std::uint32_t longest = 1U << 18U;
#endif
  // The lower bits of a bucket's word are one more than its first entry. The others are the rows'
  // bits.
  static constexpr std::uint32_t entry_bits = 19;
  static constexpr std::uint32_t all_entries = (1U << entry_bits) - 1;
  static_assert(longest <= all_entries);

  [[nodiscard]] const entry* fetched(std::uint32_t i) const noexcept {
    if (i == 0) return nullptr;
    const entry* const e = entries() + (i - 1);
    __builtin_prefetch(e);
    return e;
  }
  entry* entries() noexcept { return reinterpret_cast<entry*>(this + 1); }
  const entry* entries() const noexcept { return reinterpret_cast<const entry*>(this + 1); }
  atomic<std::uint32_t>& bucket(std::uint64_t row) noexcept {
    return reinterpret_cast<atomic<std::uint32_t>*>(entries() + size)[bucket_of(row)];
  }
  const atomic<std::uint32_t>& bucket(std::uint64_t row) const noexcept {
    return reinterpret_cast<const atomic<std::uint32_t>*>(entries() + size)[bucket_of(row)];
  }
  static std::uint64_t hash_of(std::uint64_t row) noexcept { return row * 0x9E3779B97F4A7C15U; }
  /// The row's bit in the word of its bucket.
  static std::uint32_t mark_of(std::uint64_t row) noexcept {
    const auto some = static_cast<std::uint32_t>(hash_of(row) >> 24U & 0xFFFFU);
    return std::uint32_t{1} << (entry_bits + (some * (32 - entry_bits) >> 16U));
  }
  [[nodiscard]] std::size_t bucket_of(std::uint64_t row) const noexcept {
    return hash_of(row) >> 40U & (size - 1);
  }
  static constexpr std::size_t bytes_of(std::uint32_t size) noexcept {
    return sizeof(delta_bridge) + size * (sizeof(entry) + sizeof(atomic<std::uint32_t>));
  }

  static delta_bridge* make(delta_chunks& of, std::uint32_t size) {
    auto* const b = ::new (memory::allocate(bytes_of(size), alignof(delta_bridge))) delta_bridge;
    of.count(bytes_of(size));
    b->of = &of;
    b->size = size;
    for (std::uint32_t i = 0; i < size; ++i) ::new (b->entries() + i) entry;
    auto* const buckets = reinterpret_cast<std::byte*>(b->entries() + size);
    for (std::uint32_t i = 0; i < size; ++i) {
      ::new (buckets + i * sizeof(atomic<std::uint32_t>)) atomic<std::uint32_t>{0};
    }
    return b;
  }
  void fill(std::uint32_t i, const ask& a) noexcept {
    entry& e = entries()[i];
    e.row.write(a.row);
    e.until.write(a.since);
    // release → the acquire in each_entry(): the entry's other fields.
    e.head.store_release(a.older);
    atomic<std::uint32_t>& begin = bucket(a.row);
    std::uint32_t was = begin.load_relaxed();
    std::uint32_t word = 0;
    do {
      e.next.write(was & all_entries);
      word = (was & ~all_entries) | mark_of(a.row) | (i + 1);
      // release → the acquire in first_for(): this entry, and those before it in the bucket, whose
      // release sequences this continues.
    } while (!begin.cas_weak_release(was, word));
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
