// SPDX-License-Identifier: Apache-2.0
// linked_places.hpp: where the whole pieces of a damaged file are, by what they say of the piece
// before them. Internal.
//
// Salvage looks for the piece that names the checksum of a damaged one. There may be as many holes
// as pieces, and a search for each would go over the rest of the file each time: so the file is
// gone over once, and each search is one in an array.
// Memory:      24 bytes for each whole piece.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class linked_places {
 public:
  struct link {
    std::uint64_t sequence = 0;  ///< its number; 0 where pieces have none
    std::uint32_t chain = 0;     ///< the checksum that it names
    std::uint64_t at = 0;
    auto operator<=>(const link&) const = default;
  };

  explicit linked_places(std::vector<link> all) : all_(std::move(all)) {
    std::sort(all_.begin(), all_.end());
  }
  /// Where the first one from wanted.at on is that has this number and names that checksum.
  [[nodiscard]] std::optional<std::uint64_t> find(const link& wanted) const noexcept {
    const auto found = std::lower_bound(all_.begin(), all_.end(), wanted);
    if (found == all_.end() || found->sequence != wanted.sequence || found->chain != wanted.chain) {
      return std::nullopt;
    }
    return found->at;
  }

 private:
  std::vector<link> all_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
