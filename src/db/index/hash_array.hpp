// SPDX-License-Identifier: Apache-2.0
// hash_array.hpp: the memory of a shard of hash_index.hpp: entries, and the notes that come before
// them while an index is built. They are of one size, so what held notes becomes an array.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>

#include "db/index/index.hpp"
#include "db/versions/large_memory.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

struct hash_entry {
  atomic<std::uint64_t> hash{0};
  atomic<std::uint64_t> slot{0};  // one more than the slot; and a flag, or not
};

/// `Header` is what the reclamation domain wants at the beginning. The entries follow it.
template <class Header>
struct hash_array : Header {
  using entry = hash_entry;
  struct ending {
    void operator()(hash_array* a) const noexcept { hash_array::free(a); }
  };
  std::uint64_t size = 0;  // a power of two

  entry& at(std::uint64_t i) noexcept { return reinterpret_cast<entry*>(this + 1)[i]; }
  const entry& at(std::uint64_t i) const noexcept {
    return reinterpret_cast<const entry*>(this + 1)[i];
  }
  /// Where entries would lie.
  static_assert(sizeof(key_note) <= sizeof(entry));
  key_note* notes() noexcept { return reinterpret_cast<key_note*>(this + 1); }

  static hash_array* make(std::uint64_t size) {
    hash_array* const a = make_bare(size);
    a->clear();
    return a;
  }
  /// For lookups that find nothing: with no room for any key.
  static hash_array* make_vacant() { return make(1); }
  /// Without entries.
  static hash_array* make_bare(std::uint64_t size) {
    auto* const a = ::new (large_memory(bytes_of(size))) hash_array;
    a->size = size;
    return a;
  }
  void clear() noexcept {
    for (std::uint64_t i = 0; i < size; ++i) ::new (&at(i)) entry;
  }
  static void free(hash_array* a) noexcept {
    const std::size_t all = a->bytes();
    a->~hash_array();
    memory::deallocate(a, all, large_align(all));
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_of(size); }
  /// Entries that are needed for so many keys.
  static std::uint64_t room_for(std::uint64_t keys) noexcept {
    return std::bit_ceil(keys + keys / 3 + 1);
  }

 private:
  static std::size_t bytes_of(std::uint64_t entries) noexcept {
    return sizeof(hash_array) + entries * sizeof(entry);
  }
};

/// Keys that have no entries yet.
template <class Array>
struct note_list {
  std::unique_ptr<Array, typename Array::ending> in;
  std::uint64_t count = 0;

  /// So that there is room for so many.
  Array& with_room(std::uint64_t notes) {
    if (in != nullptr && notes <= in->size) return *in;
    std::unique_ptr<Array, typename Array::ending> longer(Array::make_bare(Array::room_for(notes)));
    if (in != nullptr) std::copy_n(in->notes(), count, longer->notes());
    in = std::move(longer);
    return *in;
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
