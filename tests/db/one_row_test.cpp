// SPDX-License-Identifier: Apache-2.0
// Many threads that edit one row: those that wait leave the processors to the one that has it.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <spolia/db.hpp>

namespace {

namespace db = spolia::db;

TEST(one_row, a_thousand_threads_edit_it_in_few_tries) {
  constexpr int threads = 1000;
  constexpr int edits = 10;  // of each thread
  db::database base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t", .columns = {{"key", db::int64, db::primary_key}, {"sum", db::int64}}});
  ASSERT_TRUE(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, 0}); }));
  const auto sum = t.column<std::int64_t>("sum");

  std::atomic<int> ready{0};
  std::atomic<long> tries{0};
  std::atomic<int> failed{0};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      ++ready;
      ready.notify_all();
      for (int seen = ready; seen < threads; seen = ready) ready.wait(seen);
      for (int e = 0; e < edits; ++e) {
        const db::status s = base.transact([&](db::transaction& tx) -> db::status {
          ++tries;
          auto row = tx.edit(t, {1});
          if (!row) return row.why();
          return row->set(sum, row->get(sum) + 1);
        });
        if (!s) ++failed;
      }
    });
  }
  for (std::thread& one : all) one.join();

  EXPECT_EQ(failed, 0);
  EXPECT_EQ(base.snapshot().find(t, {1})->get(sum), threads * edits);
  // A thread that tries again at once keeps the one that has the row from running. With pauses of a
  // millisecond at most there are a hundred tries for each edit, and more with more threads.
  EXPECT_LT(tries, 20 * threads * edits);
}

}  // namespace
