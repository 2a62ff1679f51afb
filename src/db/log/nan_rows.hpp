// SPDX-License-Identifier: Apache-2.0
// nan_rows.hpp: makes one not-a-number of all that older stores have. Internal.
//
// Stores once kept each NaN as it came, so that NaNs with other bits were other keys, and other
// values of a unique index. Now there is one. What is loaded therefore comes in as it was written,
// since each change of the log is about the key that it names, and is made one when all is there:
// - a NaN that is in no key is replaced;
// - of rows that then have the same primary key, or the same value of a unique index, the first
//   stays, in the order that the index had; the others become lines of JSON in a file beside the
//   log, as `spolia dump` writes them;
// - those, and rows whose own key is replaced, are erased and put again by a record of the log,
//   which comes after the file: so what the log says later fits to the keys that are there now.
// Files of format 5 have one NaN. So the columns of doubles are looked through only where a file of
// an older format was read: until the first checkpoint after the store was opened to be changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/engine.hpp"
#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class nan_rows {
 public:
  /// Rows of one table that are left out, as lines.
  struct left_out {
    const table* of = nullptr;
    std::uint32_t number = 0;  // of the table
    std::uint64_t rows = 0;
    std::string lines;
  };

  /// Precondition: secondary indexes are not built yet, and no transaction uses the tables. Throws
  /// std::bad_alloc.
  void unify(engine& of);
  [[nodiscard]] const std::vector<left_out>& out() const noexcept { return out_; }
  /// The changes of one record: empty if no key has changed.
  [[nodiscard]] bytes_view changes() const noexcept { return changes_; }

 private:
  class work;

  std::vector<left_out> out_;
  byte_buffer changes_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
