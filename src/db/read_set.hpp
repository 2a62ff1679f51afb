// SPDX-License-Identifier: Apache-2.0
// read_set.hpp: what a serializable transaction has read, and whether it is still so. Internal.
//
// Idea:        optimistic, as in Silo (Tu et al., SOSP 2013): the transaction reads at its snapshot
//              without a store that anybody else sees, and looks at commit whether everything that
//              it read is as it was. A row is if nobody has committed a version of it after the
//              snapshot. For keys that were not there, and for scans, the index is asked again:
//              each row that it now leads to must not have changed since. So phantoms are found.
// Why not SSI: that gives up only where two rw dependencies follow each other, but needs marks that
//              readers leave for writers in every row and range, kept beyond the transaction's end;
//              here readers store nothing, and a read-only transaction has nothing to look at. What
//              it costs: a transaction that changes something gives up if anything that it read was
//              changed, even where another order would have done.
// Why an entry is there when it matters: who inserts, or changes a key, adds the entry before his
//   marks, and his marks come before he draws his time: see commit.hpp. Entries and slots that our
//   snapshot could need stay while it is announced.
#pragma once

#include <cstdint>
#include <vector>

#include <spolia/db/commit.hpp>
#include <spolia/db/row.hpp>
#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class table;
class secondary;

/// The keys from `lo` to `hi` of an index; null: the primary one.
struct range_read {
  const table* of = nullptr;
  const secondary* index = nullptr;
  key_words lo{};
  key_words hi{};
};

/// Everything may throw std::bad_alloc; then nothing was noted.
struct read_set {
  std::vector<const row_head*> rows;
  std::vector<range_read> ranges;
  std::vector<const table*> tables;  // all of it

  void row(const row_head* r) {
    if (rows.empty() || rows.back() != r) rows.push_back(r);
  }
  void key(const table& t, const key_words& k) { ranges.push_back({&t, nullptr, k, k}); }
  void whole(const table& t) {
    if (tables.empty() || tables.back() != &t) tables.push_back(&t);
  }
  void clear() noexcept {
    rows.clear();
    ranges.clear();
    tables.clear();
  }
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
