// SPDX-License-Identifier: Apache-2.0
/// \file
/// A directory of the test's own, in which the process is, and what lies in a directory.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>

#include <spolia/db.hpp>

#include "db/durable.hpp"

namespace spolia::test {

namespace fs = std::filesystem;

inline std::size_t data_files(const fs::path& directory) {
  if (!fs::exists(directory)) return 0;
  const fs::directory_iterator all(directory);
  return static_cast<std::size_t>(std::count_if(
      begin(all), end(all), [](const auto& one) { return one.path().extension() == ".spl"; }));
}

class own_place : public testing::Test {
 protected:
  own_place() {
    // In memory, where there is such a place: a sync takes no time there.
    const fs::path quick = "/dev/shm";
    std::string name =
        ((fs::is_directory(quick) ? quick : fs::temp_directory_path()) / "spolia-place-XXXXXX")
            .string();
    root_ = ::mkdtemp(name.data());
    fs::current_path(root_);
  }
  ~own_place() override {
    fs::current_path("/");
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  static std::map<std::string, std::string> content_of(const fs::path& directory) {
    std::map<std::string, std::string> all;
    for (const auto& one : fs::directory_iterator(directory)) {
      if (!one.is_regular_file()) continue;
      std::ifstream in(one.path(), std::ios::binary);
      all[one.path().filename().string()].assign(std::istreambuf_iterator<char>(in), {});
    }
    return all;
  }
  static std::string text_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Commits numbers first to last.
  static void commit(db::database& base, std::int64_t first, std::int64_t last) {
    db::table& ledger = first == 1 ? make_ledger(base) : base.find_table("ledger");
    for (std::int64_t n = first; n <= last; ++n) ASSERT_TRUE(write_down(base, ledger, n)) << n;
  }
  static db::options small_segments() {
    db::options o = over(nullptr);
    o.segment_bytes = 4096;
    return o;
  }
  static std::int64_t commits_at(const fs::path& directory) {
    db::database base = db::database::open(directory, over(nullptr));
    return commits_in(base).value_or(-1);
  }
  /// What the error says that it ends in.
  static std::string refused(const std::function<void()>& f) {
    try {
      f();
    } catch (const db::storage_error& e) {
      return e.what();
    }
    return {};
  }
  static void remove_data(const fs::path& directory) {
    for (const auto& one : fs::directory_iterator(directory)) {
      if (one.path().extension() == ".spl") fs::remove(one.path());
    }
  }

  fs::path root_;
};

/// A database with a ledger (durable.hpp) in files that are memory.
class growing_ledger : public own_place {
 protected:
  /// Commits up to this one.
  void write(std::int64_t to) {
    while (last_ < to) ASSERT_TRUE(write_down(base_, ledger_, ++last_));
  }

  disk files_ = new_disk();
  db::database base_ = db::database::open(place, over(files_));
  db::table& ledger_ = make_ledger(base_);
  std::int64_t last_ = 0;
};

}  // namespace spolia::test
