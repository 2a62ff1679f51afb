// SPDX-License-Identifier: Apache-2.0
// Salvage over each kind of damage: what is whole is there, nothing is made up, and the report says
// what is missing and where.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db/log/log_format.hpp"

#include "db/durable.hpp"
#include "db/salvaged.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

std::string log_name(unsigned first) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "log-%016x.spl", first);
  return std::string(place) + "/" + name.data();
}
std::string checkpoint_name(unsigned last) {
  std::array<char, 48> name{};
  std::snprintf(name.data(), name.size(), "checkpoint-%016x.spl", last);
  return std::string(place) + "/" + name.data();
}

/// Commits first..last; the table is there or is made.
void work(const disk& files, std::int64_t first, std::int64_t last, bool checkpoint = false) {
  database base = database::open(place, over(files));
  table& ledger = base.tables().empty() ? make_ledger(base) : base.find_table("ledger");
  for (std::int64_t n = first; n <= last; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  if (checkpoint) base.checkpoint();
}

/// The ledger after these commits, where record number n + 1 is commit n.
ledger_model model_of(std::int64_t last, const std::function<bool(std::uint64_t)>& lost) {
  ledger_model m;
  if (lost(1)) return m;  // the table
  for (std::int64_t n = 1; n <= last; ++n) {
    if (!lost(static_cast<std::uint64_t>(n) + 1)) m.commit(n);
  }
  return m;
}

/// Changes each byte of a log of one segment, and looks at what is left.
void at_every_byte_of_the_log(std::int64_t commits,
                              const std::function<void(bytes&, std::size_t)>& change) {
  const disk files = new_disk();
  work(files, 1, commits);
  const auto records = records_of(files->content(log_name(1)));
  ASSERT_EQ(records.size(), static_cast<std::size_t>(commits) + 1);
  const std::size_t size = files->content(log_name(1)).size();
  for (std::size_t at = 0; at < size; at += stride) {
    SCOPED_TRACE(at);
    const disk damaged = files->copy();
    change(damaged->content(log_name(1)), at);
    const auto got = salvage_all(damaged);
    SCOPED_TRACE(in_words(got.report));
    const auto hit = std::find_if(records.begin(), records.end(), [&](const record_place& r) {
      return r.begin <= at && at < r.end;
    });
    const std::uint64_t lost = hit != records.end() ? hit->number : 0;
    const auto expected = model_of(commits, [&](std::uint64_t n) { return n == lost; });
    ASSERT_EQ(got.rows, expected.rows);
    ASSERT_TRUE(says_place(got.report, log_name(1), at));
    ASSERT_EQ(got.report.complete(), lost == 0);
    ASSERT_EQ(got.report.missing.size(), lost != 0 ? 1U : 0U);
    if (lost == 0) continue;
    ASSERT_EQ(got.report.missing[0].first, lost);
    ASSERT_EQ(got.report.missing[0].last, lost == records.size() ? 0 : lost);
    if (lost == 1) continue;
    ASSERT_EQ(got.report.tables.at(0).in_part, expected.in_part.size());
    ASSERT_EQ(got.report.records, records.size() - 1);
  }
}

TEST(salvage, of_what_is_whole_is_all_of_it) {
  const disk files = new_disk();
  work(files, 1, 7, true);
  work(files, 8, 9);
  const auto got = salvage_all(files);
  EXPECT_TRUE(got.report.complete()) << in_words(got.report);
  EXPECT_TRUE(got.report.damage.empty());
  EXPECT_EQ(got.report.checkpoint_sequence, 9U);
  EXPECT_EQ(got.report.records, 2U);
  database base = database::open("new", over(files));
  EXPECT_EQ(commits_in(base), 9) << "with its indexes";
  EXPECT_EQ(base.find_table("ledger").spec().indexes.size(), 1U);
  ASSERT_TRUE(write_down(base, base.find_table("ledger"), 10)) << "and it goes on";
}

TEST(salvage, a_flipped_bit_in_the_log_loses_one_commit) {
  at_every_byte_of_the_log(7, [](bytes& content, std::size_t at) {
    content[at] ^= static_cast<std::byte>(1U << at % 8);
  });
}

TEST(salvage, a_byte_of_the_log_that_was_overwritten) {
  at_every_byte_of_the_log(
      6, [](bytes& content, std::size_t at) { content[at] ^= static_cast<std::byte>(at * 2 + 1); });
}

TEST(salvage, a_log_that_was_cut_anywhere) {
  const disk files = new_disk();
  work(files, 1, 6);
  const auto records = records_of(files->content(log_name(1)));
  const std::size_t size = files->content(log_name(1)).size();
  for (std::size_t at = 0; at <= size; at += stride) {
    SCOPED_TRACE(at);
    const disk damaged = files->copy();
    damaged->content(log_name(1)).resize(at);
    const auto got = salvage_all(damaged);
    SCOPED_TRACE(in_words(got.report));
    const auto whole = [&](std::uint64_t n) { return n <= 7 && records[n - 1].end <= at; };
    ASSERT_EQ(got.rows, model_of(6, [&](std::uint64_t n) { return !whole(n); }).rows);
    const bool at_an_end =
        at == file_head ||
        std::any_of(records.begin(), records.end(), [&](const auto& r) { return r.end == at; });
    ASSERT_EQ(got.report.complete(), at_an_end) << "it may end where a record does";
  }
}

}  // namespace
