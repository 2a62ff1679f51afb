// SPDX-License-Identifier: Apache-2.0
// query_groups.hpp: the groups that one thread of a query has found, and what it knows of each.
// Internal.
//
// A hash table of numbers of entries, open addressing, at most two thirds full; the entries lie one
// after the other. A query without groups has one entry, without key columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <spolia/db/query.hpp>

#include "db/query/query_plan.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Some hundred rows: the columns that a query looks at, and which rows are left.
struct query_batch {
  std::uint32_t count = 0;            // rows that were copied
  std::uint32_t left = 0;             // of which so many are left
  std::vector<std::uint16_t> rows;    // these, ascending
  std::vector<std::uint32_t> groups;  // and whose they are
  std::vector<std::uint64_t> shapes;
  std::vector<column_span> inputs;   // `first`: where the column begins
  std::vector<std::uint64_t> words;  // column by column

  [[nodiscard]] const std::uint64_t* column(std::uint32_t input) const noexcept {
    return words.data() + inputs[input].first;
  }
};

class query_groups {
 public:
  /// Throws std::bad_alloc, as do add() and take_in().
  explicit query_groups(const query_plan& p);

  /// Adds what is left of the batch.
  void add(query_batch& b);
  /// Adds what another thread has found.
  void take_in(const query_groups& other);

  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  /// Numbers of entries, in the order of their keys.
  [[nodiscard]] std::vector<std::uint32_t> sorted() const;
  [[nodiscard]] const std::uint64_t* entry(std::uint32_t number) const noexcept {
    return entries_.data() + std::size_t{number} * stride_;
  }

  // Of an entry:

  [[nodiscard]] bool null_key(const std::uint64_t* e, std::size_t key) const noexcept {
    return (keys_of(e)[0] >> key & 1U) != 0;
  }
  [[nodiscard]] value key(const std::uint64_t* e, std::size_t key) const noexcept;
  [[nodiscard]] bool null_measure(const std::uint64_t* e, std::size_t fold) const noexcept;
  [[nodiscard]] value measured(const std::uint64_t* e, std::size_t fold) const;
  /// As a double, of whatever numbers.
  [[nodiscard]] double sum(const std::uint64_t* e, std::size_t fold) const noexcept;

 private:
  [[nodiscard]] static const std::uint64_t* keys_of(const std::uint64_t* e) noexcept {
    return e + query_plan::hash_words;
  }
  [[nodiscard]] const std::uint64_t* state(const std::uint64_t* e,
                                           std::size_t fold) const noexcept {
    return keys_of(e) + plan_->key_words + plan_->folds[fold].at;
  }
  std::uint32_t find_or_add(const std::uint64_t* key, std::uint64_t hash);
  void grow();
  void place(std::uint64_t hash, std::uint32_t number) noexcept;
  void find_groups(query_batch& b);
  void fold(const query_batch& b, const query_fold& f);
  [[nodiscard]] bool before(std::uint32_t x, std::uint32_t y) const noexcept;

  const query_plan* plan_;
  std::size_t stride_;
  std::uint32_t count_ = 0;
  std::vector<std::uint64_t> entries_;
  std::vector<std::uint32_t> index_;  // one more than a number; 0: none
  std::vector<std::uint64_t> key_;    // that is being looked for
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
