// SPDX-License-Identifier: Apache-2.0
// too_long.hpp: data that its column has no room for. Internal.
#pragma once

#include <cstddef>
#include <string>

#include <spolia/base/config.hpp>
#include <spolia/db/result.hpp>
#include <spolia/db/schema.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Comes out of scans and conditions of queries; all other operations return what it says.
class too_long final : public no_result {
 public:
  too_long(const column_layout& c, std::size_t bytes, const std::string& allowed)
      : no_result({outcome::too_long, c.in_words() + " takes at most " + allowed + ", got " +
                                          std::to_string(bytes)}) {}
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
