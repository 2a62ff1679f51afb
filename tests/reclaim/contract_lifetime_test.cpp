// SPDX-License-Identifier: Apache-2.0
// The life of blocks: what is protected stays, what was retired ends exactly once and in the way
// that was asked for.

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "reclaim/contract.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Domain>
class contract_lifetime : public testing::Test {
 protected:
  ledger book_;
};
TYPED_TEST_SUITE(contract_lifetime, all_domains, domain_names);

TYPED_TEST(contract_lifetime, a_protected_block_survives_until_the_guard_ends) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    auto* const b = d.template make<block<TypeParam>>(book, 7U);
    atomic<block<TypeParam>*> source(b);
    parked_thread reader([&](parking_spot& spot) {
      auto guard = d.enter();
      const auto seen = hold(guard, source);
      spot.park();
      EXPECT_EQ(seen->value.read(), 7U);  // aborts if it is gone
    });
    {
      auto guard = d.enter();
      source.store_relaxed(nullptr);
      retire_tracked(guard, b);
    }
    for (int round = 0; round < 20; ++round) {
      retire_fresh(d, book, 10);
      d.drain();
    }
    EXPECT_GE(book.limbo(), 1);
    reader.release();
    EXPECT_TRUE(drain_all(d));
    if (TypeParam::info().reclaims) {
      EXPECT_EQ(book.live(), 0);
    }
  }
  book.expect_empty();
}

TYPED_TEST(contract_lifetime, what_was_retired_is_freed_once_after_drain) {
  ledger& book = this->book_;
  {
    TypeParam d;
    for (int t = 0; t < 3; ++t) on_another_thread([&] { retire_fresh(d, book, 1000); });
    retire_fresh(d, book, 1000);
    EXPECT_TRUE(drain_all(d));
    EXPECT_EQ(book.destroyed(), TypeParam::info().reclaims ? 4000 : 0);
    EXPECT_EQ(d.garbage(), static_cast<std::uint64_t>(book.live()));
  }
  EXPECT_EQ(book.retired(), 4000);
  book.expect_empty();
}

TYPED_TEST(contract_lifetime, blocks_are_freed_in_passing_without_drain) {
  if (!TypeParam::info().reclaims) return;
  ledger& book = this->book_;
  TypeParam d(eager<TypeParam>());
  retire_fresh(d, book, 20'000);
  EXPECT_GT(book.destroyed(), 15'000);
}

TYPED_TEST(contract_lifetime, a_block_that_was_never_published_can_be_destroyed) {
  ledger& book = this->book_;
  TypeParam d;
  auto* const b = d.template make<block<TypeParam>>(book);
  d.destroy(b);
  book.expect_empty();
  d.destroy(static_cast<block<TypeParam>*>(nullptr));
  EXPECT_EQ(d.stats().retired, 0U);
}

struct counting_deleter {
  template <class T>
  void operator()(T* p) const noexcept {
    ++ended;
    delete p;
  }
  static inline std::atomic<int> ended{0};
};

template <class Domain>
struct own_block : Domain::header {
  explicit own_block(ledger& book) : value(book) {}
  tracked value;
};

TYPED_TEST(contract_lifetime, a_deleter_of_any_form_ends_its_object_once) {
  ledger& book = this->book_;
  counting_deleter::ended = 0;
  int by_lambda = 0;
  auto note = std::make_shared<int>(0);
  {
    TypeParam d;
    {
      auto guard = d.enter();
      guard.retire(new tracked(book));                      // default_delete, foreign object
      guard.retire(new tracked(book), counting_deleter{});  // empty, foreign object
      guard.retire(new own_block<TypeParam>(book), counting_deleter{});  // empty, own header
      const auto deleter = [&by_lambda, note](auto* p) {
        ++by_lambda;
        ++*note;
        delete p;
      };
      guard.retire(new tracked(book), deleter);               // stateful, foreign object
      guard.retire(new own_block<TypeParam>(book), deleter);  // stateful, own header
    }
    EXPECT_TRUE(drain_all(d));
    EXPECT_EQ(d.stats().retired, 5U);
  }
  EXPECT_EQ(counting_deleter::ended, 2);
  EXPECT_EQ(by_lambda, 2);
  EXPECT_EQ(*note, 2);
  EXPECT_EQ(note.use_count(), 1) << "a deleter was not destroyed";
  book.expect_empty();
}

TYPED_TEST(contract_lifetime, over_aligned_blocks_keep_their_alignment) {
  ledger& book = this->book_;
  {
    TypeParam d;
    for (int i = 0; i < 100; ++i) {
      using aligned = block<TypeParam, tracked_overaligned>;  // aborts when not aligned
      auto* const b = d.template make<aligned>(book);
      auto guard = d.enter();
      retire_tracked(guard, b);
      guard.retire(new tracked_overaligned(book));
    }
    EXPECT_TRUE(drain_all(d));
  }
  book.expect_empty();
}

struct other_base {
  virtual ~other_base() = default;
  std::string name = "the header is not the first base";
};

template <class Domain>
struct second_base : other_base, Domain::header {
  explicit second_base(ledger& book) : value(book, 5) {}
  tracked value;
};

TYPED_TEST(contract_lifetime, the_header_need_not_be_the_first_base) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    auto* const b = d.template make<second_base<TypeParam>>(book);
    atomic<second_base<TypeParam>*> source(b);
    parked_thread reader([&](parking_spot& spot) {
      auto guard = d.enter();
      const auto seen = hold(guard, source);
      spot.park();
      EXPECT_EQ(seen->value.read(), 5U);
    });
    {
      auto guard = d.enter();
      source.store_relaxed(nullptr);
      retire_tracked(guard, b);
    }
    retire_fresh(d, book, 50);
    d.drain();
    reader.release();
    EXPECT_TRUE(drain_all(d));
  }
  book.expect_empty();
}

TYPED_TEST(contract_lifetime, an_inner_guard_leaves_the_outer_ones_protection) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    atomic<block<TypeParam>*> first(d.template make<block<TypeParam>>(book, 1U));
    atomic<block<TypeParam>*> second(d.template make<block<TypeParam>>(book, 2U));
    parked_thread reader([&](parking_spot& spot) {
      auto outer = d.enter();
      const auto a = hold(outer, first);
      {
        auto inner = d.enter();
        EXPECT_EQ(hold(inner, second)->value.read(), 2U);
        auto innermost = d.enter();
        EXPECT_EQ(hold(innermost, second)->value.read(), 2U);
      }
      spot.park();
      EXPECT_EQ(a->value.read(), 1U);
    });
    for (auto* source : {&first, &second}) {
      auto guard = d.enter();
      retire_tracked(guard, source->exchange_relaxed(nullptr));
    }
    retire_fresh(d, book, 50);
    d.drain();
    reader.release();
    EXPECT_TRUE(drain_all(d));
  }
  book.expect_empty();
}

TYPED_TEST(contract_lifetime, protection_moves_with_the_guard) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    atomic<block<TypeParam>*> source(d.template make<block<TypeParam>>(book, 1U));
    parked_thread reader([&](parking_spot& spot) {
      auto first = d.enter();
      const auto seen = hold(first, source);
      auto second = std::move(first);
      auto third = d.enter();
      third = std::move(second);
      spot.park();
      EXPECT_EQ(seen->value.read(), 1U);
    });
    {
      auto guard = d.enter();
      retire_tracked(guard, source.exchange_relaxed(nullptr));
    }
    retire_fresh(d, book, 50);
    d.drain();
    EXPECT_GE(book.limbo(), 1);
    reader.release();
    EXPECT_TRUE(drain_all(d)) << "some guard was not ended";
  }
  book.expect_empty();
}

TYPED_TEST(contract_lifetime, domains_do_not_hold_each_other_up) {
  if (!TypeParam::info().reclaims) return;
  ledger& book = this->book_;
  TypeParam held(eager<TypeParam>());
  TypeParam other(eager<TypeParam>());
  auto guard = held.enter();
  retire_fresh(other, book, 100);
  EXPECT_TRUE(other.drain());
  book.expect_empty();
  {
    auto both = other.enter();
    retire_tracked(guard, held.template make<block<TypeParam>>(book));
    retire_tracked(both, other.template make<block<TypeParam>>(book));
  }
  EXPECT_TRUE(other.drain());
  EXPECT_GE(book.live(), 0);
  guard = held.enter();
}

/// Ends with a further block: what a tree does whose nodes own their children.
template <class Domain>
struct nested_block : Domain::header {
  nested_block(Domain& d, ledger& b, int n) : home(d), book(b), value(b), below(n) {}
  ~nested_block() {
    if (below == 0) return;
    auto guard = home.enter();
    auto* const child = home.template make<nested_block>(home, book, below - 1);
    retire_tracked(guard, child);
  }
  Domain& home;
  ledger& book;
  tracked value;
  int below;
};

TYPED_TEST(contract_lifetime, a_deleter_may_enter_the_domain_and_retire_more) {
  ledger& book = this->book_;
  for (const bool drained : {true, false}) {
    {
      TypeParam d(eager<TypeParam>());
      for (int i = 0; i < 50; ++i) {
        auto* const top = d.template make<nested_block<TypeParam>>(d, book, 20);
        auto guard = d.enter();
        retire_tracked(guard, top);
      }
      if (drained) {
        for (int i = 0; i < 30; ++i) d.drain();  // each frees one level at least
        if (TypeParam::info().reclaims) {
          EXPECT_EQ(book.live(), 0);
        }
      }
    }
    book.expect_empty();  // otherwise the destructor has to do it
  }
  EXPECT_EQ(book.made(), 2 * 50 * 21);
}

TYPED_TEST(contract_lifetime, statistics_add_up) {
  ledger& book = this->book_;
  TypeParam d(eager<TypeParam>());
  retire_fresh(d, book, 500);
  on_another_thread([&] { retire_fresh(d, book, 300); });
  const auto before = d.stats();
  EXPECT_EQ(before.retired, 800U);
  EXPECT_EQ(before.retired_bytes, 800U * sizeof(block<TypeParam>));
  EXPECT_EQ(before.freed, static_cast<std::uint64_t>(book.destroyed()));
  EXPECT_EQ(before.freed_bytes, before.freed * sizeof(block<TypeParam>));
  EXPECT_EQ(before.garbage(), d.garbage());
  EXPECT_TRUE(drain_all(d));
  const auto after = d.stats();
  EXPECT_EQ(after.retired, 800U);
  EXPECT_EQ(after.freed, TypeParam::info().reclaims ? 800U : 0U);
  EXPECT_EQ(after.threads, 1U) << "the other one is gone";
  if (TypeParam::info().reclaims) {
    EXPECT_EQ(after.garbage_bytes(), 0U);
    EXPECT_GT(after.epochs, 0U);
  }
}

template <class Domain, class Change>
void expect_refused(Change change) {
  typename Domain::options o;
  change(o.scheme);
  EXPECT_THROW(Domain{o}, std::invalid_argument);
}

TEST(contract_options, senseless_numbers_are_refused) {
  expect_refused<domain<token>>([](auto& o) { o.tick_every = 0; });
  expect_refused<domain<token>>([](auto& o) { o.tick_every = (1U << 20U) + 1; });
  expect_refused<domain<debra>>([](auto& o) { o.scan_every = 0; });
  expect_refused<domain<debra>>([](auto& o) { o.min_looks = 0; });
  expect_refused<domain<debra>>([](auto& o) { o.hasty_looks = 0; });
  expect_refused<domain<qsbr>>([](auto& o) { o.scan_at = 0; });
  expect_refused<domain<reservations>>([](auto& o) { o.scan_at = (1U << 30U) + 1; });
  expect_refused<domain<hazard_pointers>>([](auto& o) { o.scan_at = 0; });
  expect_refused<domain<hazard_eras>>([](auto& o) { o.advance_every = 0; });
  expect_refused<domain<intervals>>([](auto& o) { o.scan_at = 0; });
  expect_refused<domain<neutralization>>([](auto& o) { o.low = 0; });
  expect_refused<domain<neutralization_plus>>([](auto& o) { o.high = o.low; });
}

}  // namespace
