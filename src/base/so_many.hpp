// SPDX-License-Identifier: Apache-2.0
// so_many.hpp: a number of things, in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// "1 row", "3 rows"; for things whose plural ends in s. Throws std::bad_alloc.
inline std::string so_many(std::uint64_t n, std::string_view thing) {
  std::string words = std::to_string(n);
  words += ' ';
  words += thing;
  if (n != 1) words += 's';
  return words;
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
