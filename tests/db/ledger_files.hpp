// SPDX-License-Identifier: Apache-2.0
/// \file
/// The files of a ledger (durable.hpp) in memory: their names, and commits that make them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include <spolia/db.hpp>

#include "db/durable.hpp"

namespace spolia::test {

inline std::string log_name(unsigned first) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "log-%016x.spl", first);
  return std::string(place) + "/" + name.data();
}
inline std::string checkpoint_name(unsigned last) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "checkpoint-%016x.spl", last);
  return std::string(place) + "/" + name.data();
}

/// Commits first..last; the table is there or is made.
inline void work(const disk& files, std::int64_t first, std::int64_t last,
                 bool checkpoint = false) {
  db::database base = db::database::open(place, over(files));
  db::table& ledger = base.tables().empty() ? make_ledger(base) : base.find_table("ledger");
  for (std::int64_t n = first; n <= last; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  if (checkpoint) base.checkpoint();
}

}  // namespace spolia::test
