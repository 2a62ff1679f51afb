// SPDX-License-Identifier: Apache-2.0
// salvage_scan.hpp: finding whole records in the bytes of a segment that is damaged. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "db/log/checksum.hpp"
#include "db/log/linked_places.hpp"
#include "db/log/log_format.hpp"
#include "db/log/salvage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Where a record is broken, the next one is looked for in this order: where the broken one ends
/// as its header says; one that names the checksum of the broken one; any whose number fits. So
/// bytes in a row that look like a record are met only where a header says nothing any more.
class segment_scan {
 public:
  /// Adds pieces of this file to `to`. `header`: null if it is not whole.
  segment_scan(bytes_view all, const file_header* header, std::size_t file,
               std::vector<log_piece>& to)
      : all_(all), header_(header), file_(file), to_(to), begin_(to.size()) {}
  void run();

 private:
  /// A header that may be damaged, and what in it is as it should be.
  struct broken {
    record_header says;
    bool placed = false;  // number, epoch and chain are those that come next
  };

  [[nodiscard]] bool whole_at(std::size_t at, record_header& out) const noexcept;
  [[nodiscard]] const log_piece* open() const noexcept {
    return to_.size() == begin_ ? nullptr : &to_.back();
  }
  [[nodiscard]] std::optional<broken> header_at(std::size_t at) const noexcept;
  [[nodiscard]] bool can_be(std::size_t at, const record_header& h) const;
  [[nodiscard]] bool no_table(std::size_t at, std::size_t end) const;
  void take(std::size_t at, const record_header& h);
  std::size_t find_linked(const linked_places::link& wanted);
  std::size_t next_after(std::size_t hole);
  template <class Wanted>
  std::size_t find(std::size_t from, Wanted&& wanted) const;

  bytes_view all_;
  std::optional<part_checksums> sums_;  // since the first hole
  std::optional<linked_places> links_;  // of all whole records, since the first that needs it
  const file_header* header_;
  std::size_t file_;
  std::vector<log_piece>& to_;
  std::size_t begin_;
  bool no_table_lost_ = false;  // by the record before the next one
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
