// SPDX-License-Identifier: Apache-2.0
// A database begins again whose files are memory: mappings of the segment that has failed go.

#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"

namespace {

using namespace spolia::db;
using namespace spolia::test;

/// Files of the system's, which are memory on tmpfs: there a log fails where the name of its next
/// segment is in doubt.
TEST(resume_memory, files_that_are_memory) {
  const std::filesystem::path shm = "/dev/shm";
  const auto base_of = std::filesystem::exists(shm) ? shm : std::filesystem::temp_directory_path();
  const auto root = base_of / ("spolia-resume-" + std::to_string(::getpid()));
  std::filesystem::remove_all(root);
  bool fails = false;
  options o = over(std::make_shared<faulty_files>(real_files(), [&fails](const file_step& s) {
    const bool is_name =
        s.what == file_step::kind::sync_directory || s.what == file_step::kind::remove;
    return fails && is_name ? EIO : 0;
  }));
  o.segment_bytes = 4096;
  std::int64_t done = 0;
  {
    database base = database::open(root, o);
    table& ledger = make_ledger(base);
    for (int round = 0; round < 3; ++round) {
      fails = true;
      while (write_down(base, ledger, done + 1)) ++done;
      EXPECT_TRUE(base.stats().log.failed);
      EXPECT_THROW(base.resume(), storage_error);
      fails = false;
      const std::int64_t shown = commits_in(base).value_or(-1);
      EXPECT_EQ(base.resume().durable.size(), static_cast<std::size_t>(shown - done));
      done = shown;
      for (int i = 0; i < 40; ++i) ASSERT_TRUE(write_down(base, ledger, ++done));
    }
  }
  {
    database again = database::open(root, over(nullptr));
    EXPECT_EQ(commits_in(again), done);
  }
  std::filesystem::remove_all(root);
}

}  // namespace
