// SPDX-License-Identifier: Apache-2.0
// How long transactions wait for the locks of others that give them up.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

namespace {

using namespace spolia::db;
using std::chrono::steady_clock;

/// The slot of an insertion that was undone goes to the next one, of another key: who waited for
/// the first key must not wait for the holder of the second.
TEST(db_waits, for_a_key_end_when_its_insertion_is_undone) {
  constexpr std::chrono::seconds longest{20};
  database base = database::open();
  table& t = base.create_table({.name = "t", .columns = {{"k", int64, primary_key}}});
  for (std::int64_t key = 1; key <= 5; ++key) {
    transaction first = base.begin();
    ASSERT_TRUE(first.insert(t, {key}));
    spolia::atomic<bool> asks{false};
    status s = outcome::ended;
    steady_clock::duration took{};
    std::thread waits([&] {
      transaction tx = base.begin(transaction_options{.longest_wait = longest});
      asks.store_release(true);  // → the acquire below
      const auto start = steady_clock::now();
      s = tx.insert(t, {key});
      took = steady_clock::now() - start;
    });
    while (!asks.load_acquire()) std::this_thread::yield();  // ← the release above
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    first.rollback();
    transaction other = base.begin();
    EXPECT_TRUE(other.insert(t, {100 + key}));
    waits.join();
    EXPECT_TRUE(s) << s.message();
    EXPECT_LT(took, longest / 2);
  }
}

}  // namespace
