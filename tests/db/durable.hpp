// SPDX-License-Identifier: Apache-2.0
/// \file
/// A small database whose state says which commits are in it: commit number n makes row n and sets
/// the counter in row 0, so that a state is right only if it is that after some commit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <spolia/db.hpp>

#include "db/memory_files.hpp"

namespace spolia::test {

inline const char* const place = "base";

using disk = std::shared_ptr<memory_files>;
inline disk new_disk() { return std::make_shared<memory_files>(); }

inline db::options over(const std::shared_ptr<db::storage_files>& files) {
  db::options o;
  o.recovery_threads = 1;
  o.checkpoint_log_bytes = 0;
  o.files = files;
  return o;
}

inline db::table& make_ledger(db::database& base) {
  return base.create_table({.name = "ledger",
                            .columns = {{"id", db::int64, db::primary_key},
                                        {"n", db::int64},
                                        {"note", db::text(12), db::nullable},
                                        {"even", db::boolean},
                                        {"memo", db::text(), db::nullable}},
                            .indexes = {{"by_n", {"n"}}}});
}

/// Of the n-th commit: none, in the row, or apart from it.
inline std::optional<std::string> memo_of(std::int64_t n) {
  if (n % 4 == 3) return std::nullopt;
  return std::string(static_cast<std::size_t>(n % 4 * 11), static_cast<char>('a' + n % 26));
}

/// The n-th commit, from 1. Every fifth takes away the row of two before.
inline db::status write_down(db::database& base, db::table& ledger, std::int64_t n) {
  return base.transact([&](db::transaction& tx) -> db::status {
    const std::string note = "note " + std::to_string(n);
    const db::value text = n % 3 == 0 ? db::value(nullptr) : db::value(note);
    const auto words = memo_of(n);
    const db::value memo = words ? db::value(*words) : db::value(nullptr);
    if (auto s = tx.insert(ledger, {n, n * 10, text, n % 2 == 0, memo}); !s) return s;
    if (n % 5 == 0) {
      if (auto s = tx.erase(ledger, {n - 2}); !s) return s;
    }
    if (n == 1) return tx.insert(ledger, {0, n, nullptr, false, memo});
    return tx.update(ledger, {0}, {{"n", n}, {"memo", memo}});
  });
}

/// How many commits are in the database; nothing, with a failed expectation, if its state is that
/// after no commit.
inline std::optional<std::int64_t> commits_in(db::database& base) {
  if (base.tables().empty()) return 0;
  const db::table& ledger = base.find_table("ledger");
  const auto n = ledger.column<std::int64_t>("n");
  const auto note = ledger.column<std::string_view>("note");
  const auto even = ledger.column<bool>("even");
  const auto memo = ledger.column<std::string_view>("memo");
  const auto has_memo = [&](const db::row& row, std::int64_t of) {
    const auto words = memo_of(of);
    return row.null(memo) != words.has_value() && row.get(memo) == words.value_or("");
  };
  const db::reader now = base.snapshot();
  std::int64_t rows = 0;
  now.for_each(ledger, [&](const db::row&) { ++rows; });
  const auto counter = now.find(ledger, {0});
  const std::int64_t last = counter ? counter->get(n) : 0;
  std::int64_t expected = counter ? 1 : 0;
  bool right = !counter || has_memo(*counter, last);
  for (std::int64_t i = 1; i <= last; ++i) {
    const auto row = now.find(ledger, {i});
    const bool there = !(i % 5 == 3 && i + 2 <= last);
    if (there) ++expected;
    right = right && static_cast<bool>(row) == there;
    if (!row || !there) continue;
    right = right && row->get(n) == i * 10 && row->get(even) == (i % 2 == 0) &&
            row->null(note) == (i % 3 == 0) && has_memo(*row, i) &&
            (i % 3 == 0 || row->get(note) == "note " + std::to_string(i));
  }
  std::int64_t indexed = 0;
  now.scan(ledger.index("by_n"), {}, {}, [&](const db::row&) { ++indexed; });
  EXPECT_TRUE(right) << "a row is not as its commit has made it";
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(indexed, expected);
  if (!right || rows != expected || indexed != expected) return std::nullopt;
  return last;
}

/// The number of commits that the next opening finds.
inline std::int64_t reopened(const disk& files) {
  db::database base = db::database::open(place, over(files));
  return commits_in(base).value_or(-1);
}

}  // namespace spolia::test
