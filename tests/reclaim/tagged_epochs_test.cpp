// SPDX-License-Identifier: Apache-2.0
// Quiescent states and epoch reservations: which thread holds up what, and how often the epoch
// moves on.

#include <gtest/gtest.h>

#include <string>

#include <spolia/reclaim.hpp>

#include "reclaim/contract.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Scheme>
class tagged_epochs : public testing::Test {
 protected:
  using domain_type = domain<Scheme, batch>;

  static constexpr int scan_at = 16;
  static typename domain_type::options often() { return {.scheme = {.scan_at = scan_at}}; }

  ledger book_;
};

using both = testing::Types<qsbr, reservations>;
struct names {
  template <class Scheme>
  static std::string GetName(int) {
    return std::string(Scheme::info.name);
  }
};
TYPED_TEST_SUITE(tagged_epochs, both, names);

TYPED_TEST(tagged_epochs, one_thread_has_little_waiting_and_moves_the_epoch_once_a_scan) {
  typename TestFixture::domain_type d(this->often());
  retire_fresh(d, this->book_, 1000 * this->scan_at);
  EXPECT_LE(this->book_.peak_limbo(), 2 * this->scan_at);
  EXPECT_GE(d.stats().epochs, 990U);
  EXPECT_LE(d.stats().epochs, 1000U);
  EXPECT_FALSE(d.garbage_bound(1).has_value());
  EXPECT_TRUE(d.drain());
  this->book_.expect_empty();
}

TYPED_TEST(tagged_epochs, an_idle_thread_holds_no_other_up) {
  ledger idle_book;
  typename TestFixture::domain_type d(this->often());
  parked_thread idle([&](parking_spot& spot) {
    retire_fresh(d, idle_book, 1);
    spot.park();
  });
  retire_fresh(d, this->book_, 1000 * this->scan_at);
  // What no report frees waits for one more scan, see qsbr.hpp.
  EXPECT_LE(this->book_.peak_limbo(), 3 * this->scan_at);
  idle.release();
}

TYPED_TEST(tagged_epochs, threads_that_are_gone_hold_no_other_up) {
  typename TestFixture::domain_type d(this->often());
  for (int i = 0; i < 10; ++i) on_another_thread([&] { retire_fresh(d, this->book_, 3); });
  this->book_.reset_peaks();
  retire_fresh(d, this->book_, 1000 * this->scan_at);
  EXPECT_LE(this->book_.peak_limbo(), 10 * 3 + 3 * this->scan_at);
  EXPECT_TRUE(d.drain());
  this->book_.expect_empty();
}

TYPED_TEST(tagged_epochs, an_operation_keeps_nothing_that_was_cut_before_it) {
  ledger before;
  typename TestFixture::domain_type d(this->often());
  parked_thread first([&](parking_spot& spot) {
    auto guard = d.enter();
    spot.park();
  });
  retire_fresh(d, before, 10 * this->scan_at);
  retire_fresh(d, this->book_, 1);  // the scan of the last of those
  EXPECT_EQ(before.live(), 10 * this->scan_at) << "the first thread could hold them";
  parked_thread second([&](parking_spot& spot) {
    {
      auto guard = d.enter();
    }
    auto guard = d.enter();
    spot.park();
  });
  first.release();
  retire_fresh(d, this->book_, 10 * this->scan_at);
  EXPECT_EQ(before.live(), 0) << "the second thread's operation began later";
  EXPECT_GE(this->book_.live(), 8 * this->scan_at) << "but it keeps these";
  second.release();
  EXPECT_TRUE(d.drain());
  this->book_.expect_empty();
}

TYPED_TEST(tagged_epochs, the_first_operation_of_a_thread_is_protected) {
  using node = block<typename TestFixture::domain_type>;
  ledger book_of_seen;
  typename TestFixture::domain_type d(this->often());
  atomic<node*> source(d.template make<node>(book_of_seen, 7U));
  // Leaves its number to the next thread, and has announced an epoch that is far ahead.
  on_another_thread([&] { retire_fresh(d, this->book_, 100 * this->scan_at); });
  parked_thread reader([&](parking_spot& spot) {
    auto guard = d.enter();
    const auto seen = hold(guard, source);
    spot.park();
    EXPECT_EQ(seen->value.read(), 7U);
  });
  {
    auto guard = d.enter();
    retire_tracked(guard, source.exchange_relaxed(nullptr));
  }
  retire_fresh(d, this->book_, 100 * this->scan_at);
  EXPECT_FALSE(d.drain());
  EXPECT_EQ(book_of_seen.live(), 1);
  reader.release();
  EXPECT_TRUE(d.drain());
  book_of_seen.expect_empty();
}

}  // namespace
