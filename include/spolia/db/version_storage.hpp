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

/// Where old versions of rows lie, and how they are collected.
/// docs/reference/store-version-storages.md compares them.
enum class version_storage : std::uint8_t {
  /// In partitions, by the time of their commits. A partition is dropped whole, when each snapshot
  /// began after all that is in it was replaced.
  one_shot,
  /// The same; and while older snapshots are held, partitions are dropped that no snapshot sees
  /// anything of.
  one_shot_consolidated,
  /// Each on its own, when each snapshot began after it was replaced.
  steam,
  /// The same; and a change of a row removes what no snapshot sees of that row.
  steam_eager,
  /// Each on its own, when no snapshot falls into the time in which it was current.
  range,
  /// Never: to measure what collecting costs.
  none,
  /// The default. As one_shot; and while snapshots are held, what they see of a partition is copied
  /// out of it, to a table by row, and the partition is dropped.
  one_shot_evacuated
};

/// What a version storage says of itself.
struct version_storage_info {
  version_storage storage;
  std::string_view name;  ///< the enumerator's; settings and options write - for _
  /// While a snapshot is held, it also frees what was written since and no snapshot sees.
  bool collects_between = false;
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
