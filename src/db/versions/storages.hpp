// SPDX-License-Identifier: Apache-2.0
// storages.hpp: all version storages, once. A new one adds its header and its class here, and its
// enumerator in db/version_storage.hpp: opening, the tool, the benchmark, the tests over every
// storage and the check of the guide's table follow this list.
#pragma once

#include <array>
#include <cstddef>

#include <spolia/db/version_storage.hpp>

#include "db/versions/delta_consolidated.hpp"
#include "db/versions/delta_evacuated.hpp"
#include "db/versions/delta_none.hpp"
#include "db/versions/delta_one_shot.hpp"
#include "db/versions/delta_range.hpp"
#include "db/versions/delta_steam.hpp"
#include "db/versions/delta_steam_eager.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// `every_storage<List>` is List<delta_one_shot, ...>, in the order of the enumerators.
template <template <class...> class List>
using every_storage = List<delta_one_shot, delta_consolidated, delta_steam, delta_steam_eager,
                           delta_range, delta_none, delta_evacuated>;

template <class... Storages>
struct infos_of {
  static constexpr std::array<version_storage_info, sizeof...(Storages)> all{Storages::info...};

  static constexpr bool in_order() noexcept {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (static_cast<std::size_t>(all[i].storage) != i) return false;
    }
    return true;
  }
};
static_assert(every_storage<infos_of>::in_order(), "the list has the order of the enumerators");

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
