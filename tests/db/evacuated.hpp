// SPDX-License-Identifier: Apache-2.0
// A store whose held snapshots are checked against what was there: for tests of one_shot_evacuated.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "support/stress.hpp"

namespace spolia::test {

using namespace spolia::db;

inline constexpr std::int64_t nothing = -1;

/// Tables whose rows have other widths: some fill a writer's part of a partition to the last word,
/// some are wider than one. Each column of a row is made of one number, or the row is not there.
class evacuated : public testing::Test {
 protected:
  static constexpr std::array<std::uint32_t, 8> widths = {0, 7, 16, 40, 100, 360, 1500, 5000};
  static constexpr std::int64_t rows = 60;  // of each table
  using state = std::vector<std::int64_t>;  // of all rows

  /// A snapshot, and what it has to show.
  struct held {
    std::unique_ptr<reader> at;
    state was;
  };

  evacuated() {
    for (const std::uint32_t width : widths) {
      std::vector<column_spec> columns = {{"k", int64, primary_key}, {"v", int64}};
      if (width != 0) columns.push_back({"pad", text(width)});
      tables.push_back(
          &base.create_table({.name = "t" + std::to_string(width), .columns = columns}));
      keys.push_back(tables.back()->column<std::int64_t>("k"));
      values.push_back(tables.back()->column<std::int64_t>("v"));
      pads.push_back(width == 0 ? column<std::string_view>()
                                : tables.back()->column<std::string_view>("pad"));
    }
    now.assign(widths.size() * rows, nothing);
  }

  static std::string pad(std::int64_t v, std::uint32_t width) {
    return std::string(static_cast<std::size_t>(v) * 7 % (width + 1),
                       static_cast<char>('a' + v % 26));
  }
  status put(transaction& tx, std::size_t row, std::int64_t v) {
    table& t = *tables[row / rows];
    const std::uint32_t width = widths[row / rows];
    const auto key = static_cast<std::int64_t>(row % rows);
    if (v == nothing) return tx.erase(t, {key});
    if (now[row] == nothing) {
      return width == 0 ? tx.insert(t, {key, v}) : tx.insert(t, {key, v, pad(v, width)});
    }
    if (width == 0) return tx.update(t, {key}, {{"v", v}});
    return tx.update(t, {key}, {{"v", v}, {"pad", pad(v, width)}});
  }
  /// Changes some rows in one transaction, which may be taken back.
  void change(test::rng& random) {
    transaction tx = base.begin();
    const state before = now;
    for (std::uint64_t i = 1 + random.below(4); i > 0; --i) {
      const auto row =
          static_cast<std::size_t>(random.below(random.chance(1, 2) ? 24 : now.size()));
      const std::int64_t v = now[row] != nothing && random.chance(1, 12) ? nothing : ++last;
      ASSERT_TRUE(put(tx, row, v));
      now[row] = v;
    }
    if (random.chance(1, 10)) {
      tx.rollback();
      now = before;
    } else {
      ASSERT_TRUE(tx.commit());
    }
  }
  void hold() { all.push_back({std::unique_ptr<reader>(new reader(base.snapshot())), now}); }

  [[nodiscard]] std::int64_t value_in(const row& r, std::size_t t) const {
    const std::int64_t v = r.get(values[t]);
    return widths[t] == 0 || r.get(pads[t]) == pad(v, widths[t]) ? v : -2;
  }
  [[nodiscard]] std::int64_t find(const reader& at, std::size_t row) const {
    const auto found = at.find(*tables[row / rows], {static_cast<std::int64_t>(row % rows)});
    return found ? value_in(*found, row / rows) : nothing;
  }
  /// By scans, which are another way than find() goes.
  [[nodiscard]] state scan(const reader& at) const {
    state found(now.size(), nothing);
    for (std::size_t t = 0; t < tables.size(); ++t) {
      at.for_each(*tables[t], [&](const row& r) {
        found[t * rows + static_cast<std::size_t>(r.get(keys[t]))] = value_in(r, t);
      });
    }
    return found;
  }
  void check_all() const {
    for (const held& h : all) {
      ASSERT_EQ(scan(*h.at), h.was);
      for (std::size_t i = 0; i < now.size(); i += 7) ASSERT_EQ(find(*h.at, i), h.was[i]) << i;
    }
  }
  [[nodiscard]] delta_stats figures() const { return base.stats().versions; }

  database base = database::open(
      {.versions = version_storage::one_shot_evacuated, .partition_transactions = 8});
  std::vector<table*> tables;
  std::vector<column<std::int64_t>> keys;
  std::vector<column<std::int64_t>> values;
  std::vector<column<std::string_view>> pads;  // nothing where there is none
  state now;
  std::vector<held> all;
  std::int64_t last = 0;
};

}  // namespace spolia::test
