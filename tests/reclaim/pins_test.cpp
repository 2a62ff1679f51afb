// SPDX-License-Identifier: Apache-2.0
// The thread that holds garbage up is named, and a budget for it is watched.

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"
#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Domain>
class domain_pins : public testing::Test {
 public:
  struct block : Domain::header {
    char bytes[1000] = {};
  };

  static void churn(Domain& d, int operations) {
    for (int i = 0; i < operations; ++i) {
      auto guard = d.enter();
      guard.retire(d.template make<block>());
    }
  }
};
TYPED_TEST_SUITE(domain_pins, some_domains, domain_names);

TYPED_TEST(domain_pins, a_stalled_thread_is_named) {
  TypeParam d;
  EXPECT_TRUE(d.pins().empty());
  parked_thread reader([&](parking_spot& self) {
    pthread_setname_np(pthread_self(), "reporter");
    auto guard = d.enter("monthly report");
    self.park();
  });
  d.pins();  // the look from which on its age counts
  this->churn(d, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const auto pins = d.pins();
  ASSERT_EQ(pins.size(), 1U);
  EXPECT_GE(pins[0].age, std::chrono::milliseconds(2));
  EXPECT_EQ(pins[0].thread_name, "reporter");
  ASSERT_NE(pins[0].label, nullptr);
  EXPECT_EQ(std::string(pins[0].label), "monthly report");
  EXPECT_GE(pins[0].retired_since, 100'000U);
  EXPECT_NE(pins[0].os_thread, 0);
  reader.release();
  EXPECT_TRUE(d.pins().empty());
}

TYPED_TEST(domain_pins, a_label_goes_with_its_guard) {
  TypeParam d;
  {
    auto guard = d.enter("before");
  }
  auto guard = d.enter();
  auto inner = d.enter("nested: the outer guard counts");
  d.pins();
  const auto pins = d.pins();
  ASSERT_EQ(pins.size(), 1U);
  EXPECT_EQ(pins[0].label, nullptr);
}

TYPED_TEST(domain_pins, threads_that_run_hold_no_other_up) {
  TypeParam d;
  for (int i = 0; i < 10; ++i) {
    this->churn(d, 1);
    EXPECT_TRUE(d.pins().empty());
  }
}

/// A guard of a thread that has ended, somewhere on the heap.
template <class Domain>
std::unique_ptr<typename Domain::guard> left_behind(Domain& d) {
  std::unique_ptr<typename Domain::guard> guard;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "forgetful");
    guard = std::make_unique<typename Domain::guard>(d.enter("forgotten"));
  }).join();
  return guard;
}

#if !SPOLIA_CHECKS  // which reports it: contract_faults
TYPED_TEST(domain_pins, a_guard_of_an_ended_thread_is_named) {
  TypeParam d;
  auto guard = left_behind(d);
  std::thread([&] {
    this->churn(d, 100);
  }).join();  // might have the number of the one that is gone
  const auto pins = d.pins();
  ASSERT_EQ(pins.size(), 1U);
  EXPECT_TRUE(pins[0].thread_has_ended);
  EXPECT_EQ(pins[0].thread_name, "forgetful");
  ASSERT_NE(pins[0].label, nullptr);
  EXPECT_EQ(std::string(pins[0].label), "forgotten");
  guard.reset();
  EXPECT_TRUE(d.pins().empty());
  std::thread([&] { this->churn(d, 1); }).join();  // has the number now
  EXPECT_TRUE(d.drain() || !TypeParam::info().reclaims);
}

#if !SPOLIA_TSAN && !defined(SPOLIA_TEST_EMULATED)  // no threads in a forked child
TYPED_TEST(domain_pins, a_forked_child_knows_of_no_guard_of_an_ended_thread) {
  TypeParam d;
  const auto guard = left_behind(d);
  EXPECT_EQ(status_of_child([&] {
              EXPECT_TRUE(d.pins().empty());
              parked_thread next([&](parking_spot& spot) {  // has the number of the one that ended
                const auto own = d.enter();
                spot.park();
              });
              EXPECT_TRUE(d.pins().empty()) << "a guard that was not seen before";
              next.release();
            }),
            0);
}
#endif

TYPED_TEST(domain_pins, a_guard_of_an_ended_thread_undoes_no_bound) {
  constexpr std::size_t threads = 3;  // the one that is gone, one that works, and this one
  TypeParam d;
  const auto bound = d.garbage_bound(threads);
  if (!bound) return;
  const auto guard = left_behind(d);
  const auto work = [&] {
    for (int i = 0; i < (sanitized ? 50 : 100); ++i) {
      this->churn(d, static_cast<int>(*bound / 50));
      ASSERT_LE(d.garbage(), *d.garbage_bound(threads));
    }
  };
  std::thread(work).join();
  work();
}
#endif

TEST(domain_budget, is_watched_and_names_who_passes_it) {
  using reclaimed = domain<token>;
  int calls = 0;
  std::string who;
  std::uint64_t bytes = 0;
  reclaimed::options o;
  o.budget_bytes = 8U << 20U;
  o.over_budget = [&](const over_budget& now) {
    ++calls;
    bytes = now.garbage_bytes;
    if (!now.pins.empty() && now.pins[0].label != nullptr) who = now.pins[0].label;
  };
  reclaimed d(o);
  domain_pins<reclaimed>::churn(d, 20'000);
  EXPECT_EQ(calls, 0) << "no thread holds anything up";
  parked_thread reader([&](parking_spot& self) {
    auto guard = d.enter("stalled");
    self.park();
  });
  domain_pins<reclaimed>::churn(d, 20'000);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(who, "stalled");
  EXPECT_GT(bytes, 8U << 20U);
  reader.release();
  d.drain();
  domain_pins<reclaimed>::churn(d, 20'000);
  EXPECT_EQ(calls, 1) << "it is over";
}

TEST(domain_budget, names_a_guard_that_no_look_has_found_before) {
  using reclaimed = domain<token>;
  int calls = 0;
  std::string who;
  reclaimed::options o;
  o.budget_bytes = 1U << 20U;
  o.over_budget = [&](const over_budget& now) {
    ++calls;
    EXPECT_EQ(now.pins.size(), 1U) << "and not the one that has looked";
    for (const pin& p : now.pins) who = p.label;
  };
  reclaimed d(o);
  const parked_thread reader([&](parking_spot& self) {
    auto guard = d.enter("stalled");
    self.park();
  });
  {
    auto guard = d.enter();
    for (int i = 0; i < 2000; ++i) guard.retire(d.make<domain_pins<reclaimed>::block>());
  }
  domain_pins<reclaimed>::churn(d, 300);  // a thread looks once in so many operations at least
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(who, "stalled");
}

TEST(shared_budgets, are_watched_and_tell_the_shares) {
  int calls = 0;
  shared_budget::passed last{};
  shared_budget all(4U << 20U, [&](const shared_budget::passed& now) {
    ++calls;
    last = now;
  });
  using regions = domain<token>;
  regions::options o;
  o.shared = &all;
  o.label = "large";
  regions large(o);
  o.label = "idle";
  const regions idle(o);
  {
    domain<hazard_pointers> small({.shared = &all, .label = "small"});
    const auto retire = [](auto& d, int blocks) {
      using block = typename domain_pins<std::remove_reference_t<decltype(d)>>::block;
      auto guard = d.enter();
      for (int i = 0; i < blocks; ++i) guard.retire(d.template make<block>());
    };
    parked_thread reader([&](parking_spot& self) {
      auto guard = large.enter("stalled");
      self.park();
    });
    auto held = small.enter("here");  // so that it does not look: it is asked
    retire(small, 500);
    const auto look = [&] {  // which a thread does once in so many operations at least
      for (int i = 0; i < 300; ++i) retire(large, 1);
    };
    retire(large, 2500);
    look();
    EXPECT_EQ(calls, 0);
    retire(large, 2000);
    look();
    EXPECT_EQ(calls, 1);
    EXPECT_GT(last.garbage_bytes, last.budget_bytes);
    ASSERT_EQ(last.shares.size(), 3U);
    EXPECT_STREQ(last.shares[0].label, "large");
    ASSERT_EQ(last.shares[0].pins.size(), 1U);
    EXPECT_STREQ(last.shares[0].pins[0].label, "stalled");
    EXPECT_STREQ(last.shares[1].label, "small");
    EXPECT_EQ(last.shares[1].garbage_blocks, 500U);
    EXPECT_EQ(last.shares[2].garbage_bytes, 0U);
    retire(large, 2000);
    EXPECT_EQ(calls, 1) << "until it is over";
  }
  EXPECT_TRUE(large.drain());
  EXPECT_EQ(all.garbage_bytes(), 0U) << "what is gone does not count";
}

TEST(domain_budget, is_watched_anew_in_a_forked_child) {
  using reclaimed = domain<token>;
  int calls = 0;
  reclaimed::options o;
  o.free_within_ms = 0;  // by operations alone: else a slow child has freed all before it looks
  o.budget_bytes = 1U << 20U;
  o.over_budget = [&](const over_budget&) { ++calls; };
  reclaimed d(o);
  const parked_thread reader([&](parking_spot& self) {
    auto guard = d.enter("stalled");
    self.park();
  });
  domain_pins<reclaimed>::churn(d, 5000);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(status_of_child([&] {
              // The reader is gone, and what it held up is not freed all at once.
              domain_pins<reclaimed>::churn(d, 1000);
              EXPECT_EQ(calls, 2) << "of the parent's and the child's";
              EXPECT_TRUE(d.drain());
              auto guard = d.enter("here");
              d.pins();
              const auto pins = d.pins();
              EXPECT_EQ(pins.size(), 1U);
              for (const pin& p : pins) EXPECT_EQ(p.os_thread, getpid());
            }),
            0);
}

#if !SPOLIA_TSAN && !defined(SPOLIA_TEST_EMULATED)  // no threads in a forked child
TEST(domain_budget, is_watched_by_the_next_thread_where_a_lost_one_was_telling) {
  using reclaimed = domain<token>;
  parking_spot* parks_at = nullptr;
  int calls = 0;
  reclaimed::options o;
  o.free_within_ms = 0;
  o.budget_bytes = 2000;
  o.over_budget = [&](const over_budget&) {
    ++calls;
    if (parks_at != nullptr) parks_at->park();
  };
  reclaimed d(o);
  const auto guard = d.enter();  // holds up all, in the child, too
  const parked_thread telling([&](parking_spot& spot) {
    parks_at = &spot;
    domain_pins<reclaimed>::churn(d, 5000);
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(status_of_child([&] {
              parks_at = nullptr;
              on_another_thread([&] { domain_pins<reclaimed>::churn(d, 5000); });
              EXPECT_EQ(calls, 2) << "of the parent's and the child's";
            }),
            0);
}
#endif

template <class Domain>
class domain_over_budget : public testing::Test {};
TYPED_TEST_SUITE(domain_over_budget, few_domains, domain_names);

TYPED_TEST(domain_over_budget, may_use_the_domain_and_frees_what_can_be_freed) {
  if (!TypeParam::info().reclaims) return;
  using suite = domain_pins<TypeParam>;
  TypeParam* d = nullptr;
  int calls = 0;
  int inside = 0;
  std::uint64_t left = 0;
  typename TypeParam::options o;
  o.budget_bytes = 2000;
  o.over_budget = [&](const over_budget&) {
    ++calls;
    ++inside;
    suite::churn(*d, 5000);  // of its own accord it would call us again
    d->drain();
    left = std::max(left, d->garbage());
    EXPECT_EQ(inside, 1) << "told of what it does itself";
    --inside;
  };
  TypeParam its(o);
  d = &its;
  std::uint64_t most = 0;
  for (int i = 0; i < tries(50'000) && calls < 3; ++i) {
    {
      auto guard = its.enter();
      for (int n = 0; n < 10; ++n) {
        guard.retire(its.template make<typename suite::block>());
      }
    }
    most = std::max(most, its.stats().garbage_bytes());
  }
  // Large blocks are looked for so often that some schemes never have more waiting between two
  // operations.
  EXPECT_EQ(calls, most > o.budget_bytes ? 3 : 0);
  EXPECT_EQ(left, 0U) << "no thread held it up";
}

/// Blocks so large that a few pass the budget, before the usual chores come.
TYPED_TEST(domain_over_budget, is_told_of_a_few_large_blocks) {
  if (!TypeParam::info().reclaims) return;
  struct large : TypeParam::header {
    char bytes[1U << 16U] = {};
  };
  int calls = 0;
  typename TypeParam::options o;
  o.budget_bytes = 1U << 20U;
  o.over_budget = [&](const over_budget&) { ++calls; };
  TypeParam d(o);
  parked_thread reader([&](parking_spot& self) {
    auto guard = d.enter("stalled");
    self.park();
  });
  std::uint64_t most = 0;
  for (int i = 0; i < 16 + 2 + 64; ++i) {
    {
      auto guard = d.enter();
      guard.retire(d.template make<large>());
    }
    most = std::max(most, d.stats().garbage_bytes());
  }
  {
    auto guard = d.enter();
  }
  // Schemes that the reader does not stop keep to the budget: they look for large blocks in time.
  EXPECT_EQ(calls, most > o.budget_bytes ? 1 : 0);
  if constexpr (std::is_same_v<typename TypeParam::scheme_type, token>) {
    EXPECT_EQ(calls, 1) << "one that it does stop";
  }
  reader.release();
}

TEST(domain_budget, is_kept_by_the_scheme_that_a_stalled_reader_does_not_stop) {
  domain<robust_token> d;
  parked_thread reader([&](parking_spot& self) {
    auto guard = d.enter("stalled");
    self.park();
  });
  std::uint64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    domain_pins<domain<robust_token>>::churn(d, 1000);
    most = std::max(most, d.garbage());
    ASSERT_LE(d.garbage(), *d.garbage_bound(2));
  }
  EXPECT_LT(most, 20'000U);
  reader.release();
}

}  // namespace
