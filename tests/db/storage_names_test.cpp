// SPDX-License-Identifier: Apache-2.0
// Version storages are called what their enumerators are called, and the list has all of them.

#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

namespace {

using namespace spolia::db;

/// The last part of an enumerator's name; of a number that has none, what a compiler shows of it.
template <version_storage Storage>
std::string identifier() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("Storage = ") + 10);
  name = name.substr(0, name.find_first_of(";]"));
  return std::string(name.substr(name.rfind(':') + 1));
}

constexpr std::size_t most = 16;
template <std::size_t... Number>
std::vector<std::string> identifiers(std::index_sequence<Number...>) {
  return {identifier<static_cast<version_storage>(Number)>()...};
}

TEST(storage_names, are_those_of_the_enumerators) {
  EXPECT_EQ(identifier<version_storage::steam>(), "steam");
  const auto names = identifiers(std::make_index_sequence<most>());
  const std::size_t known = version_storages().size();
  ASSERT_LT(known, most);
  for (std::size_t i = 0; i < known; ++i) {
    EXPECT_EQ(names[i], version_storages()[i].name);
    EXPECT_EQ(version_storages()[i].storage, static_cast<version_storage>(i));
    EXPECT_EQ(&info_of(static_cast<version_storage>(i)), &version_storages()[i]);
  }
  EXPECT_NE(names[known].find(')'), std::string::npos)
      << names[known] << " is an enumerator that no storage in the list has";
}

TEST(storage_names, lead_to_storages_that_work) {
  for (const version_storage_info& info : version_storages()) {
    SCOPED_TRACE(info.name);
    const options plain{.versions = info.storage};
    EXPECT_EQ(database::open(plain).stats().versions.versions_made, 0U);
    const options changes{.versions = info.storage, .changes_only = true};
    EXPECT_EQ(keeps_whole_rows(info.storage), info.keeps_whole_rows);
    if (!info.keeps_whole_rows) {
      EXPECT_EQ(database::open(changes).stats().versions.versions_made, 0U);
      continue;
    }
    try {
      database::open(changes);
      ADD_FAILURE() << "keeps whole rows";
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string_view(e.what()).find(info.name), std::string_view::npos) << e.what();
    }
  }
}

TEST(storage_names, of_none_are_refused) {
  const auto next = static_cast<version_storage>(version_storages().size());
  EXPECT_THROW(database::open({.versions = next}), std::invalid_argument);
}

}  // namespace
