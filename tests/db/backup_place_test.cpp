// SPDX-License-Identifier: Apache-2.0
// Where a backup may not go: to the directory of the database, into it, or above it.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "db/own_place.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

class backup_places : public own_place {
 protected:
  backup_places() {
    fs::create_directories("stores");
    database base = database::open("stores/base");
    EXPECT_TRUE(write_down(base, make_ledger(base), 1));
    fs::create_directory_symlink("stores/base", "link");
    fs::create_directory_symlink("stores", "above");
  }
  /// What the backup says that is refused. Nothing is made by that.
  static std::string refusal(database& of, const fs::path& to) {
    const auto before = names();
    std::string why = "nothing";
    try {
      of.backup(to);
    } catch (const storage_error& e) {
      why = e.what();
      EXPECT_EQ(e.file(), to);
    }
    EXPECT_EQ(names(), before);
    return why;
  }
  static std::set<std::string> names() {
    std::set<std::string> all;
    for (const auto& one : fs::recursive_directory_iterator(".")) all.insert(one.path().string());
    return all;
  }
  static void expect(const std::string& why, const std::string& where) {
    EXPECT_NE(why.find(where), std::string::npos) << why;
    EXPECT_NE(why.find("is not that of the database, nor in it, nor above it. Use one beside"),
              std::string::npos)
        << why;
  }
};

TEST_F(backup_places, neither_the_store_nor_what_is_in_it_nor_what_is_above) {
  for (const bool looks : {false, true}) {
    SCOPED_TRACE(looks);
    database base =
        database::open(looks ? "link" : "stores/base", {.read_only = looks, .attach = looks});
    const fs::path whole = fs::current_path();
    for (const fs::path& to :
         {fs::path("stores/base"), fs::path("stores/base/"), fs::path("./stores/../stores/base"),
          fs::path("link"), fs::path("above/base"), whole / "stores/base"}) {
      expect(refusal(base, to), to.string() + ": this is the directory of the database itself");
    }
    for (const fs::path& to :
         {fs::path("stores/base/copy"), fs::path("stores/base/more/copy/"), fs::path("link/copy"),
          fs::path("above/base/copy"), whole / "stores/base/copy"}) {
      expect(refusal(base, to), to.string() + ": it lies in the directory of the database, " +
                                    fs::canonical("stores/base").string());
    }
    for (const fs::path& to : {fs::path("stores"), fs::path("above"), fs::path("."), whole,
                               fs::path("stores/base/..")}) {
      expect(refusal(base, to), to.string() + ": the directory of the database lies in it, " +
                                    fs::canonical("stores/base").string());
    }
    fs::current_path("stores");  // a relative path leads elsewhere now
    fs::create_directories("stores");
    EXPECT_NO_THROW(base.backup(looks ? "stores/base" : "stores/basement"));
    fs::current_path("..");
  }
}

TEST_F(backup_places, a_copy_is_none_of_itself) {
  database::open("stores/base").backup("stores/copy");
  const auto before = content_of("stores/copy");
  database copy = database::open("stores/copy", {.read_only = true, .attach = true});
  expect(refusal(copy, "stores/copy"), "this is the directory of the database itself");
  // It has another name now, and its former one leads to another directory.
  fs::rename("stores/copy", "stores/moved");
  fs::create_directory("stores/copy");
  try {
    copy.backup("stores/moved");
    ADD_FAILURE() << "a copy was added to itself";
  } catch (const storage_error& e) {
    expect(e.what(), "this is the directory of the database itself");
  }
  EXPECT_EQ(content_of("stores/moved"), before);
}

}  // namespace
