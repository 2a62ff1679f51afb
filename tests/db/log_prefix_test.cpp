// SPDX-License-Identifier: Apache-2.0
// Serializable commits need not lie in the log in the order of their timestamps (group_commit.hpp).
// What a crash leaves, which is a prefix of the log, must be closed all the same: a transaction is
// in it only with every transaction whose values it has read or replaced.
//
// Each transaction writes down what it saw, in the same commit: so each recovered state says itself
// what has to be in it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db/durable.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

constexpr std::int64_t cells = 8;
constexpr std::int64_t reads = 3;  // of a transaction, before it writes

/// `cells`: the transaction that wrote each one last. `seen`: what each transaction has read, and
/// under number 0 the cell that it wrote, and whose value it replaced.
struct witnesses {
  explicit witnesses(database& base)
      : cell(base.find_table("cells")),
        seen(base.find_table("seen")),
        writer(cell.column<std::int64_t>("writer")),
        where(seen.column<std::int64_t>("cell")),
        whose(seen.column<std::int64_t>("whose")) {}

  static void make(database& base) {
    table& cell = base.create_table(
        {.name = "cells", .columns = {{"id", int64, primary_key}, {"writer", int64}}});
    base.create_table({.name = "seen",
                       .columns = {{"transaction", int64, primary_key},
                                   {"number", int64, primary_key},
                                   {"cell", int64},
                                   {"whose", int64}}});
    const status filled = base.transact([&](transaction& tx) -> status {
      for (std::int64_t i = 0; i < cells; ++i) {
        if (auto s = tx.insert(cell, {i, 0}); !s) return s;
      }
      return outcome::ok;
    });
    ASSERT_TRUE(filled);
    ASSERT_TRUE(base.sync());
  }

  /// One transaction with this number.
  status work(database& base, std::int64_t number, rng& random) const {
    const retries once{.tries = 1, .begin = {.isolation = isolation::serializable}};
    return base.transact(
        [&](transaction& tx) -> status {
          for (std::int64_t i = 1; i <= reads; ++i) {
            const auto at = static_cast<std::int64_t>(random.below(cells));
            const std::int64_t found = tx.find(cell, {at})->get(writer);
            if (auto s = tx.insert(seen, {number, i, at, found}); !s) return s;
          }
          const auto at = static_cast<std::int64_t>(random.below(cells));
          const std::int64_t replaced = tx.find(cell, {at})->get(writer);
          if (auto s = tx.insert(seen, {number, 0, at, replaced}); !s) return s;
          return tx.update(cell, {at}, {{"writer", number}});
        },
        once);
  }

  [[nodiscard]] std::int64_t value(const reader& now, std::int64_t number, std::int64_t which,
                                   column<std::int64_t> of) const {
    const auto row = now.find(seen, {number, which});
    return row ? row->get(of) : -1;
  }

  table& cell;
  table& seen;
  column<std::int64_t> writer;
  column<std::int64_t> where;
  column<std::int64_t> whose;
};

/// How many transactions are in the database, all with everything that they depend on.
std::int64_t closed_transactions(database& base) {
  const witnesses in(base);
  const reader now = base.snapshot();
  std::int64_t notes = 0;
  std::int64_t written = 0;
  now.for_each(in.seen, [&](const row& one) {
    ++notes;
    const std::int64_t of = one.get(in.whose);
    EXPECT_TRUE(of == 0 || in.value(now, of, 0, in.where) == one.get(in.where))
        << "what wrote " << of << " into cell " << one.get(in.where) << " is missing";
  });
  // From what each cell has back to its beginning: every transaction once.
  for (std::int64_t i = 0; i < cells; ++i) {
    std::int64_t writer = now.find(in.cell, {i})->get(in.writer);
    for (; writer > 0; writer = in.value(now, writer, 0, in.whose)) {
      EXPECT_EQ(in.value(now, writer, 0, in.where), i);
      ++written;
    }
    EXPECT_EQ(writer, 0) << "cell " << i << " has lost a transaction between two others";
  }
  EXPECT_EQ(notes, written * (reads + 1)) << "a transaction is there in part";
  return written;
}

/// The bytes of the one segment.
bytes& segment_of(memory_files& files) {
  for (const std::string& name : files.names()) {
    if (name.find("/log-") != std::string::npos) return files.content(name);
  }
  ADD_FAILURE() << "there is no segment";
  static bytes none;
  return none;
}

class log_prefix : public testing::TestWithParam<durability_level> {
 protected:
  options how() const {
    options o = over(files_);
    o.durability = GetParam();
    return o;
  }
  /// Threads that commit, and meanwhile copies of what is in the files.
  std::uint64_t run_and_look() {
    database base = database::open(place, how());
    witnesses::make(base);
    empty_ = segment_of(*files_->copy()).size();
    const witnesses in(base);
    run_stress({.threads = 4}, [&](stress_thread& self) {
      std::int64_t number = (self.index() + 1) * std::int64_t{1'000'000'000};
      while (self.running()) {
        if (in.work(base, number, self.random())) ++number;
        self.jitter();
        if (self.index() == 0 && self.random().chance(1, 64)) killed_.push_back(files_->copy());
      }
    });
    EXPECT_TRUE(base.sync());
    return segment_of(*files_->copy()).size();
  }

  const disk files_ = new_disk();
  std::vector<disk> killed_;
  std::size_t empty_ = 0;  // bytes before the first of the transactions
};

TEST_P(log_prefix, has_what_its_transactions_depend_on) {
  const std::size_t whole = run_and_look();
  ASSERT_GT(whole, empty_);
  rng random(seed_for(99));
  std::int64_t most = 0;
  for (int cut = 0; cut < tries(40); ++cut) {
    const disk left = files_->copy();
    segment_of(*left).resize(cut == 0 ? whole : empty_ + random.below(whole - empty_));
    database base = database::open(place, over(left));
    most = std::max(most, closed_transactions(base));
  }
  EXPECT_GT(most, 20);
  killed_.resize(std::min<std::size_t>(killed_.size(), 20));
  for (const disk& left : killed_) {
    database base = database::open(place, over(left));
    closed_transactions(base);
  }
}

INSTANTIATE_TEST_SUITE_P(each, log_prefix,
                         testing::Values(durability_level::sync, durability_level::async),
                         [](const auto& of) {
                           return of.param == durability_level::sync ? "sync" : "async";
                         });

}  // namespace
