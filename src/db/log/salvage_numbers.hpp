// SPDX-License-Identifier: Apache-2.0
// salvage_numbers.hpp: which numbers tables have whose records are behind a hole in the log.
// Internal.
//
// Tables are numbered in the order in which they were made, and the record of a new one does not
// say its number: where records are missing before it, some of them may have made tables, too.
// Which number it has follows from the changes behind it: they name numbers, those of its number
// have its columns, and none comes before the table. Of all ways to number the tables that this
// allows, the one is taken in which most changes have a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <spolia/db/schema.hpp>

#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class table_numbers {
 public:
  /// So many numbers are known; those from there up to `named` were named by changes already.
  table_numbers(std::uint32_t known, std::uint32_t named)
      : known_(known), end_(std::max(known, named)) {
    for (std::uint32_t n = known; n < named; ++n) first_named_[n] = 0;
  }

  // What the log says, in its order.

  /// After this record so many are missing.
  void hole(std::uint64_t after, std::uint64_t missing);
  void made(std::uint64_t record, const table_spec& spec);
  void change(std::uint64_t record, const change_header& c, bytes_view row);
  /// A change of the catalogue that names a table.
  void catalog_change(std::uint64_t record, std::uint32_t number);

  /// The number of the first table that was made. True: another one would do, too.
  [[nodiscard]] std::pair<std::uint32_t, bool> first() const;

 private:
  struct changes {
    std::uint64_t count = 0;
    bool fit = true;
  };
  struct new_table {
    std::uint64_t record = 0;
    schema layout;
    std::map<std::uint32_t, changes> as;  // those of a number, as if it were this one's
  };
  /// Tables that were made one after the other, and what may have been before them.
  struct group {
    std::uint64_t after = 0;    // the last record before the hole
    std::uint64_t missing = 0;  // tables at most that it has made
    std::vector<new_table> tables;
  };
  /// So many changes have a table; nothing: it cannot be.
  using worth = std::optional<std::uint64_t>;
  [[nodiscard]] worth of_group(const group& g, std::uint32_t from) const;
  [[nodiscard]] std::vector<worth> before(const group& g, const std::vector<worth>& next) const;

  std::uint32_t known_;
  std::uint32_t end_;                                   // no number from here on is named
  std::map<std::uint32_t, std::uint64_t> first_named_;  // by which record
  std::vector<group> groups_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
