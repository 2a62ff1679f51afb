// SPDX-License-Identifier: Apache-2.0
// version_storage.hpp: the ways in which old versions of rows are kept and collected, by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Where old versions live: how they are collected.
enum class version_storage : std::uint8_t {
  one_shot,               ///< in partitions that are dropped whole
  one_shot_consolidated,  ///< the same, also between snapshots that are held
  steam,                  ///< each on its own
  steam_eager,        ///< the same, and a change of a row removes what no snapshot sees of that row
  range,              ///< each on its own, also between snapshots that are held
  none,               ///< never: to measure what collecting costs
  one_shot_evacuated  ///< as one_shot; what held snapshots see is moved out of partitions first
};

/// What a version storage says of itself.
struct version_storage_info {
  version_storage storage;
  std::string_view name;          ///< the enumerator's; settings and options write - for _
  bool collects_between = false;  ///< versions that lie between two snapshots which are held
  bool keeps_whole_rows = false;  ///< so it cannot have options::changes_only
};

/// All of them, in the order of the enumerators. Any thread may call it at any time.
[[nodiscard]] SPOLIA_EXPORT std::span<const version_storage_info> version_storages() noexcept;

/// Precondition: `s` is one of the enumerators.
[[nodiscard]] inline const version_storage_info& info_of(version_storage s) noexcept {
  return version_storages()[static_cast<std::size_t>(s)];
}

/// Whether it cannot have options::changes_only.
[[nodiscard]] inline bool keeps_whole_rows(version_storage s) noexcept {
  return info_of(s).keeps_whole_rows;
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
