// SPDX-License-Identifier: Apache-2.0
// index.hpp: the interface of a table's indexes, which lead from keys to slots.
//
// An index knows no versions. An entry is there before the row that it leads to is committed, and
// until no snapshot can see a version with that key. A reader that follows an entry of a secondary
// index compares the key with that of the version that it sees. A reader that follows an entry of a
// primary index need not do that: a slot goes to another key only when no snapshot sees the former
// row, and the new row is committed later than every snapshot that has found the old entry.
//
// A primary index has one slot for a key. A secondary one has two numbers for each pair of key and
// slot, a claim and a birth. The claim tells the last need of the entry from earlier ones, so that
// the cleaner, when it cleans up after an earlier need, does not remove the entry. The birth is a
// time before which no snapshot needs the entry: one more than the snapshot of the transaction that
// added it. An entry that is added again while it is there keeps its birth, since a snapshot that
// needed it before may still need it.
//
// Errors:      all but remove throw std::bad_alloc; nothing has changed then.
// Threads:     all operations may run at the same time. All are linearizable but scan, which shows
//              the keys that are there all the time, and none that is never there.
// Locks:       the caller of claim, of add, and of a primary index's remove has the lock of the
//              slot's row, or opens the database. The caller of add_once does not have it, and the
//              others need not.
// Visitors:    may run user code, which may change the index: so they are called outside of guards,
//              and without locks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/db/schema.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/region_domain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

inline constexpr std::uint64_t no_slot = ~std::uint64_t{0};

/// A reference to a function that takes a slot and the words of the key that led to it, and returns
/// false to stop. And perhaps to a second one that is told in advance which slots come next, so
/// that it can prefetch their rows together. Some of these may not come, and others may come in
/// between.
class slot_visitor {
 public:
  template <class F, class Expect>
  slot_visitor(F& f, Expect& expect) noexcept
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* o, std::uint64_t slot, const std::uint64_t* key) {
          return (*static_cast<F*>(o))(slot, key);
        }),
        expecting_(const_cast<void*>(static_cast<const void*>(std::addressof(expect)))),
        expect_([](void* o, std::span<const std::uint64_t> row_slots) {
          (*static_cast<Expect*>(o))(row_slots);
        }) {}
  template <class F>
    requires(!std::is_same_v<std::remove_const_t<F>, slot_visitor>)
  explicit slot_visitor(F& f) noexcept : slot_visitor(f, expects_nothing) {
    expect_ = nullptr;
  }
  bool operator()(std::uint64_t slot, const std::uint64_t* key) const {
    return call_(object_, slot, key);
  }
  /// Whether there is a second function, which is told what comes next.
  [[nodiscard]] bool expects() const noexcept { return expect_ != nullptr; }
  void expect(std::span<const std::uint64_t> row_slots) const {
    if (expects() && row_slots.size() > 1) expect_(expecting_, row_slots);
  }

 private:
  static constexpr auto expects_nothing = [](std::span<const std::uint64_t>) {};

  void* object_;
  bool (*call_)(void*, std::uint64_t, const std::uint64_t*);
  void* expecting_;
  void (*expect_)(void*, std::span<const std::uint64_t>);
};

// The hash of keys, word by word. Each step is invertible, so no two single words have the same
// hash.
inline constexpr std::uint64_t no_words_hash = 0x9E3779B97F4A7C15U;
inline std::uint64_t hash_with(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0xD6E8FEB86659FD93U;
  return hash ^ hash >> 32U;
}
inline std::uint64_t hash_of_all(std::uint64_t hash) noexcept {
  hash *= 0xD6E8FEB86659FD93U;
  return hash ^ hash >> 29U;
}
inline std::uint64_t hash_of_word(std::uint64_t word) noexcept {
  return hash_of_all(hash_with(no_words_hash, word));
}
/// The part for a hash, by the upper bits: the lower ones give the position in the part.
inline std::size_t part_of_hash(std::uint64_t hash, std::size_t parts) noexcept {
  return (hash >> 32U) % parts;
}
inline constexpr std::size_t hash_parts = 64;

/// What an index notes of a key and its slot while it is built.
struct key_note {
  std::uint64_t hash = 0;
  std::uint64_t what = 0;
};
inline constexpr std::size_t most_notes = 4096;
/// Returns the key of the row in a slot.
using key_reader = std::function<key_words(std::uint64_t slot)>;

/// The outcome of moving an entry that only old snapshots need from the index to its graveyard
/// (graveyard.hpp).
enum class burial : std::uint8_t {
  done,
  not_there,  ///< the entry has a later need, or is gone
  no_memory,
  never  ///< the index has no graveyard
};

/// About how many bytes an entry takes in a graveyard where an entry has so many words: those of
/// its key, and one or two.
constexpr std::uint64_t buried_bytes(std::uint64_t words) noexcept { return 28 + 12 * words; }

class primary_index {
 public:
  virtual ~primary_index() = default;
  /// The key's slot; no_slot: it has none.
  [[nodiscard]] virtual std::uint64_t find(const key_words& key) const = 0;
  /// Gives the key this slot, unless it has one. Returns the slot that it has now.
  virtual std::uint64_t claim(const key_words& key, std::uint64_t slot) = 0;
  /// False: there was no memory to do it.
  virtual bool remove(const key_words& key, std::uint64_t slot) noexcept = 0;
  [[nodiscard]] virtual bool ordered() const noexcept = 0;
  /// Its bytes with those of its graveyard, without those retired to domains; approximate while it
  /// is changed.
  [[nodiscard]] virtual std::uint64_t bytes() const noexcept = 0;
  /// Shows the slots of the keys from `lo` to `hi`, both included, in ascending order; of buried
  /// entries only those that a snapshot of that time may need. Only if ordered.
  virtual void scan(const key_words& lo, const key_words& hi, std::uint64_t time,
                    slot_visitor f) const = 0;
  /// The same, in descending order.
  virtual void scan_down(const key_words& lo, const key_words& hi, std::uint64_t time,
                         slot_visitor f) const = 0;

  /// The slot of a buried row with this key that a snapshot of that time may see; no_slot: there is
  /// none. To be asked after find(), which did not lead to a row that the snapshot sees.
  [[nodiscard]] virtual std::uint64_t find_buried(const key_words& /*key*/,
                                                  std::uint64_t /*time*/) const {
    return no_slot;
  }
  /// Moves the entry of a row that lived from `since` to `until` to the graveyard: then the key can
  /// get another slot. The caller holds the row's lock.
  virtual burial bury(const key_words& /*key*/, std::uint64_t /*slot*/, std::uint64_t /*since*/,
                      std::uint64_t /*until*/) noexcept {
    return burial::never;
  }
  /// Removes a buried entry that no snapshot needs any more. False: there was no memory to do it.
  virtual bool unbury(const key_words& /*key*/, std::uint64_t /*slot*/,
                      std::uint64_t /*until*/) noexcept {
    return true;
  }

  // For callers that have many keys at once.

  /// Guesses each key's slot: the result may be another slot, or no_slot. True: the results are
  /// those of find(). Reads no row.
  virtual bool guess_all(std::span<const key_words> keys, std::uint64_t* row_slots) const {
    std::fill_n(row_slots, keys.size(), no_slot);
    return false;
  }

  /// The same for keys of one word, by hash_of_word(). Quicker some time after expect_words().
  virtual bool guess_words(std::span<const std::uint64_t> hashes, std::uint64_t* row_slots) const {
    std::fill_n(row_slots, hashes.size(), no_slot);
    return false;
  }

  virtual void expect_words(std::span<const std::uint64_t> /*hashes*/) const {}

  // To build an index that no other thread uses yet, maybe with several threads. Keys that were
  // noted and kept are found after settle() was called for each part. If one of these throws
  // std::bad_alloc, the index cannot be used any more.

  /// Announces about so many keys.
  virtual void reserve(std::uint64_t /*keys*/) {}
  /// False: it takes no notes.
  virtual bool note_all(std::span<const key_words> /*keys*/, const std::uint64_t* /*row_slots*/,
                        key_note* /*to*/) const {
    return false;
  }
  /// The same for an index whose keys are one word.
  virtual bool note_words(std::span<const std::uint64_t> /*words*/,
                          const std::uint64_t* /*row_slots*/, key_note* /*to*/) const {
    return false;
  }
  virtual void keep(std::span<const key_note> /*notes*/) {}  ///< most_notes at most
  /// Builds one part of the index, from 0 on. False: two slots have the same key.
  virtual bool settle(unsigned /*part*/, unsigned /*parts*/, const key_reader& /*key_at*/) {
    return true;
  }
};

/// The entry of a secondary index for a pair of key and slot. Trivial: leaves have arrays of
/// entries, of which the unused ones are not set.
struct index_entry {
  std::uint64_t claim;  ///< 0: the pair is not there
  std::uint64_t birth;
};

/// What secondary_index::add() has done.
struct index_addition {
  std::uint64_t birth;  ///< the pair's birth, which may be an earlier one
  bool made;            ///< the pair was not there before
};

class secondary_index {
 public:
  virtual ~secondary_index() = default;
  /// Adds the pair, or gives it another claim.
  virtual index_addition add(const key_words& key, std::uint64_t slot, index_entry e) = 0;
  /// Adds the pair, unless it is there. Returns the claim that it has then. For callers that have
  /// not locked the row: they must not change a claim on which a transaction with the lock relies.
  virtual std::uint64_t add_once(const key_words& key, std::uint64_t slot, index_entry e) = 0;
  [[nodiscard]] virtual index_entry entry_of(const key_words& key, std::uint64_t slot) const = 0;
  /// Removes the pair if its claim is still this one. False: there was no memory to do it.
  virtual bool remove(const key_words& key, std::uint64_t slot, std::uint64_t claim) noexcept = 0;
  /// As bytes() of a primary index.
  [[nodiscard]] virtual std::uint64_t bytes() const noexcept = 0;
  /// As of a primary index; slots of one key ascend. A slot may come twice, under two keys. For a
  /// hash index, `lo` and `hi` are the same key, whose slots come in any order.
  virtual void scan(const key_words& lo, const key_words& hi, std::uint64_t time,
                    slot_visitor f) const = 0;
  virtual void scan_down(const key_words& lo, const key_words& hi, std::uint64_t time,
                         slot_visitor f) const = 0;
  /// The same, but from this slot of the first key on. Only if ordered.
  virtual void scan_from(const key_words& first, std::uint64_t /*slot*/, const key_words& hi,
                         std::uint64_t time, slot_visitor f) const {
    scan(first, hi, time, f);
  }
  virtual void scan_down_from(const key_words& first, std::uint64_t /*slot*/, const key_words& lo,
                              std::uint64_t time, slot_visitor f) const {
    scan_down(lo, first, time, f);
  }

  /// As of a primary index, for the pair, if its claim is still this one.
  virtual burial bury(const key_words& /*key*/, std::uint64_t /*slot*/, std::uint64_t /*claim*/,
                      std::uint64_t /*since*/, std::uint64_t /*until*/) noexcept {
    return burial::never;
  }
  virtual bool unbury(const key_words& /*key*/, std::uint64_t /*slot*/, std::uint64_t /*claim*/,
                      std::uint64_t /*until*/) noexcept {
    return true;
  }
};

/// Make an index for keys of so many words. Its nodes are retired to `nodes`, and those of a hash
/// index's graveyard to `graves`.
std::unique_ptr<primary_index> make_ordered_primary(std::uint32_t words, domain<>& nodes);
std::unique_ptr<secondary_index> make_ordered_secondary(std::uint32_t words, domain<>& nodes);
std::unique_ptr<secondary_index> make_hash_secondary(std::uint32_t words, region_domain& nodes,
                                                     domain<>& graves, hash_kind kind);

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
