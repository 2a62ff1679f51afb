// SPDX-License-Identifier: Apache-2.0
// query_plan.hpp: what a query is to do, in numbers of columns and words. Internal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <spolia/db/query.hpp>
#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// How values of a type compare; unseen: of out-of-line values, which have
/// conditions and no more.
enum class word_order : std::uint8_t { number, real, bytes, unseen };

/// What a comparison of bytes has come to.
inline bool holds_for_bytes(int compared, comparison how) noexcept {
  switch (how) {
    case comparison::equal:
      return compared == 0;
    case comparison::unequal:
      return compared != 0;
    case comparison::less:
      return compared < 0;
    case comparison::less_equal:
      return compared <= 0;
    case comparison::greater:
      return compared > 0;
    case comparison::greater_equal:
      return compared >= 0;
  }
  return false;
}

/// Unsigned numbers that compare as the values of one word do.
inline std::uint64_t number_key(std::uint64_t word) noexcept {
  return word ^ std::uint64_t{1} << 63U;
}
inline std::uint64_t real_key(std::uint64_t word) noexcept {
  return (word >> 63U) != 0 ? ~word : word | std::uint64_t{1} << 63U;
}
inline std::uint64_t real_of_key(std::uint64_t key) noexcept {
  return (key >> 63U) != 0 ? key ^ std::uint64_t{1} << 63U : ~key;
}

/// A column that the query looks at.
struct query_input {
  column_layout column;
  word_order order = word_order::number;
  [[nodiscard]] std::uint64_t null_bit() const noexcept {
    return column.role == column_role::nullable ? std::uint64_t{1} << column.number : 0;
  }
};

struct query_filter {
  enum class kind : std::uint8_t {
    within,   ///< keys from lo to hi
    outside,  ///< other keys
    bytes,    ///< as `how` says of `words`
    null,
    not_null,
    program  ///< asks holds()
  };
  kind what = kind::within;
  std::uint32_t input = 0;
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  comparison how = comparison::equal;
  std::vector<std::uint64_t> words{};
  std::function<bool(const std::uint64_t*)> holds{};
};

/// A measure, and where its state is among those of a group.
struct query_fold {
  measure::kind what = measure::kind::rows;
  std::uint32_t input = 0;  // of all but kind::rows
  std::uint32_t at = 0;     // word
  std::uint32_t words = 0;
};

/// A group is an entry of words: a hash, which key columns are null, these, and the states.
struct query_plan {
  std::vector<query_input> inputs{};
  std::vector<query_filter> filters{};
  std::vector<std::uint32_t> keys{};  // inputs
  std::vector<query_fold> folds{};
  std::vector<std::string> names{};  // of the answer's columns: the keys, then the folds
  std::uint32_t key_words = 1;       // with the word of nulls
  std::uint32_t state_words = 0;

  static constexpr std::uint32_t hash_words = 1;
  [[nodiscard]] std::uint32_t stride() const noexcept {
    return hash_words + key_words + state_words;
  }
  [[nodiscard]] bool grouped() const noexcept { return !keys.empty(); }
  /// The number that a column has among the inputs; it is one afterwards.
  std::uint32_t input(const column_layout& c);
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
