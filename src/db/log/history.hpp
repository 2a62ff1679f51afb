// SPDX-License-Identifier: Apache-2.0
// history.hpp: which openings have written the changes that led to a database's state. Internal.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <spolia/base/config.hpp>

#include "db/log/log_format.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Each opening that may write, and each try to resume, has a random number: the origin of the
/// changes that it makes. Two histories of a database that part have other origins from there on,
/// though numbers of changes and epochs may be the same. So a copy that ends at a change is of this
/// history if that change has the same origin here, also where no log is left to compare.
class history {
 public:
  /// Of older changes the origin is forgotten: a checkpoint has this list.
  static constexpr std::size_t most_parts = 4096;

  /// 0: not known, as that of what an older version has written.
  [[nodiscard]] static std::uint64_t new_origin();

  /// What follows, up to change `last`, is of this origin.
  void reach(std::uint64_t last, std::uint64_t origin);
  [[nodiscard]] std::uint64_t last() const noexcept {
    return parts_.empty() ? 0 : parts_.back().last;
  }
  /// Of the last change.
  [[nodiscard]] std::uint64_t origin() const noexcept {
    return parts_.empty() ? 0 : parts_.back().origin;
  }
  /// Proves that the change of this number is the one of that origin.
  [[nodiscard]] bool has(std::uint64_t sequence, std::uint64_t origin) const noexcept;

  void put(byte_buffer& to) const;
  /// Throws malformed, unless it leads up to `last`. Nothing: an older version has written none.
  static history read(bytes_view from, std::uint64_t last);

 private:
  struct part {
    std::uint64_t last = 0;
    std::uint64_t origin = 0;
  };
  std::vector<part> parts_;  // in ascending order
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
