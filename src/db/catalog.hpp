// SPDX-License-Identifier: Apache-2.0
// catalog.hpp: indexes and tables that come and go while transactions run. Internal.
//
// An index is built in three steps. First it is shown to those who change rows: from then on all
//   changes go to it, too; a transaction that has changed rows before does not happen, and is tried
//   again. When the commits that were under way are over (commit_section.hpp), a snapshot is begun:
//   whatever it does not see has an entry, and what it sees gets one now, row by row.
// Unique:      while it is built, two rows may get the same key, if one of them has no entry yet.
// Who
//              comes second, the writer or the builder, sees the entry of the first: the writer
//              then gives up, the builder takes the key down. At the end the index is shown once
//              more, so that all who have looked too early give up, and then the keys that were
//              taken down are counted.
// Changed rows: an entry that the builder adds for a version that was replaced meanwhile was not
//              there when the writer asked who is to take it out. So the builder looks, after
//              adding, whether the row is locked or changed, and has the cleaner look at the entry
//              later. Either the writer finds the entry, or the builder the writer's lock.
// Dropping:    no change goes to it any more; snapshots of before can go on; when the last of them
//              has ended, the cleaner frees it. The names are left, some hundred bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class catalog {
 public:
  explicit catalog(engine& of) noexcept : engine_(of) {}

  status create_index(table& t, const index_spec& spec);
  status drop_index(table& t, std::string_view name);
  status drop_table(table& t);

 private:
  struct building;
  void refuse() const;
  void show(table& t, std::unique_ptr<const index_set> next) const;
  void fill(const reader& at, building& b) const;
  void add(const reader& at, building& b, std::uint64_t slot, const key_words& key) const;
  static bool twice(const reader& at, const building& b, const key_words& key);
  bool build(building& b) const;
  void give_up(building& b, std::unique_ptr<const index_set> before, note* last) const noexcept;
  std::uint64_t end(validity& v) const noexcept;
  void drop_later(note* n, std::uint64_t until) const noexcept;

  engine& engine_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
