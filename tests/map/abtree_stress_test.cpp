// SPDX-License-Identifier: Apache-2.0
// abtree: many threads at once. A degree of 4 makes every fourth update rebalance, and few keys
// make the threads meet; with more threads than processors they are stopped in the middle of
// operations, which others then have to finish.
#include <spolia/map/abtree.hpp>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <spolia/reclaim.hpp>

#include "support/few_types.hpp"
#include "support/history.hpp"
#include "support/linearizability.hpp"
#include "support/recorded_operation.hpp"
#include "support/soon.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using test::rng;
using test::run_stress;
using test::stress_thread;

using number = std::uint64_t;

template <class Domain, unsigned Degree = 4>
using number_tree = abtree<number, number, Domain, std::less<number>, Degree>;

template <class Tree>
void expect_sound(const Tree& tree) {
  const auto found = tree.audit();
  EXPECT_EQ(found.wrong, "");
  EXPECT_EQ(found.violations, 0U);
  EXPECT_EQ(found.pairs, tree.size_approx());
}

/// How often each key was inserted, less how often it was erased, by one thread.
using balance = std::vector<std::int32_t>;

/// Random updates; each thread keeps its balance. In the end a key is there exactly if the sum
/// is 1.
template <class Tree>
void balance_books(Tree& tree, unsigned threads, std::size_t keys, double share) {
  std::vector<balance> books(threads, balance(keys));
  run_stress({.threads = threads, .share = share}, [&](stress_thread& self) {
    balance& mine = books[self.index()];
    while (self.running()) {
      for (int i = 0; i < 32; ++i) {
        const std::size_t key = self.random().below(keys);
        const bool grow = self.random().chance(1, 2);
        if (grow && tree.insert(key, key + 1)) ++mine[key];
        if (!grow && tree.erase(key)) --mine[key];
        const auto found = tree.find(self.random().below(keys));
        if (found && (*found == 0 || *found > keys))
          ADD_FAILURE() << "a value that no thread wrote";
      }
      self.jitter();
    }
  });
  expect_sound(tree);
  for (std::size_t key = 0; key < keys; ++key) {
    std::int32_t sum = 0;
    for (const balance& b : books) sum += b[key];
    ASSERT_EQ(sum, tree.contains(key) ? 1 : 0) << "key " << key;
  }
}

template <class Domain>
class Domains : public testing::Test {};
using domains = test::types_where_cheap<
    4, domain<token, amortized>, domain<robust_token>, domain<neutralization_plus, batch>,
    domain<hazard_pointers, batch>, domain<none>, domain<token, batch>, domain<debra, pooled>,
    domain<qsbr>, domain<reservations, batch>, domain<neutralization>, domain<hazard_pointers>>;
TYPED_TEST_SUITE(Domains, domains);

TYPED_TEST(Domains, updates_of_two_threads_add_up) {
  number_tree<TypeParam> tree;
  balance_books(tree, 2, 64, 0.5);
}

TYPED_TEST(Domains, updates_of_sixteen_threads_add_up) {
  number_tree<TypeParam> tree;
  balance_books(tree, 16, 500, 0.5);
}

TYPED_TEST(Domains, threads_in_few_keys_add_up) {
  number_tree<TypeParam, 3> tree;
  balance_books(tree, 4, 6, 0.5);
}

TYPED_TEST(Domains, updates_of_a_large_tree_add_up) {
  number_tree<TypeParam, abtree_degree> tree;
  balance_books(tree, 4, 20'000, 0.5);
}

TYPED_TEST(Domains, histories_are_linearizable) {
  constexpr unsigned threads = 4;
  constexpr std::size_t each = 1500;
  for (int round = 0; round < 8; ++round) {
    number_tree<TypeParam> tree;
    test::map_recorder record(threads, each);
    run_stress({.threads = threads, .share = 8, .stream = static_cast<number>(round)},
               [&](stress_thread& self) {
                 auto& lane = record.of(self.index());
                 rng& random = self.random();
                 while (!lane.full()) {
                   const number key = random.below(24);
                   test::operate(tree, lane, random, key, random());
                   if (random.chance(1, 16)) self.jitter();
                 }
               });
    ASSERT_TRUE(accepted(test::check_map(record.events())));
    expect_sound(tree);
  }
}

TYPED_TEST(Domains, scans_are_weakly_consistent) {
  constexpr unsigned threads = 3;
  constexpr std::size_t each = 1200;
  for (int round = 0; round < 4; ++round) {
    number_tree<TypeParam> tree;
    test::map_recorder record(threads, each, 200'000);
    run_stress({.threads = threads, .share = 8, .stream = static_cast<number>(round)},
               [&](stress_thread& self) {
                 auto& lane = record.of(self.index());
                 rng& random = self.random();
                 for (std::size_t i = 0; i < each; ++i) {
                   const number key = random.below(100);
                   const number value = random();
                   if (self.index() == 0 && i % 2 == 0) {
                     const number last = key + random.below(100);
                     lane.scan(key, last, [&](auto show) { tree.range(key, last + 1, show); });
                   } else if (random.chance(1, 2)) {
                     lane.insert(key, value, [&] { return tree.insert(key, value); });
                   } else {
                     lane.erase(key, [&] { return tree.erase(key); });
                   }
                 }
               });
    ASSERT_TRUE(accepted(test::check_scans(record.events(), record.scans())));
  }
}

TYPED_TEST(Domains, a_scan_sees_what_is_there_all_the_time) {
  number_tree<TypeParam> tree;
  constexpr number last = 600;
  for (number key = 0; key < last; key += 3) tree.insert(key, key);
  run_stress({.threads = 3, .share = 0.5}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.index() == 0) {
        number next = 0;
        number before = 0;
        tree.for_each([&](number key, number value) {
          EXPECT_TRUE(before == 0 || key > before) << "not ascending";
          EXPECT_EQ(key, value);
          EXPECT_NE(key % 3, 2U) << "a key that was never there";
          before = key;
          if (key % 3 != 0) return;
          EXPECT_EQ(key, next);
          next = key + 3;
        });
        EXPECT_EQ(next, last);
      } else {
        const number key = self.random().below(last / 3) * 3 + 1;
        if (!tree.insert(key, key)) tree.erase(key);
      }
    }
  });
  expect_sound(tree);
}

std::string text_of(number key, number version) {
  return "key " + std::to_string(key) + " in its version " + std::to_string(version);
}

/// Of the domains, those that protect what does not lie in leaves.
template <class Domain>
class EntryDomains : public testing::Test {};
using entry_domains =
    testing::Types<domain<token>, domain<neutralization>, domain<neutralization_plus, batch>>;
TYPED_TEST_SUITE(EntryDomains, entry_domains);

TYPED_TEST(EntryDomains, strings_come_whole) {
  abtree<std::string, std::string, TypeParam, std::less<std::string>, 4> tree;
  run_stress({.threads = 4, .share = 0.5}, [&](stress_thread& self) {
    while (self.running()) {
      const number n = self.random().below(60);
      const std::string key = "the key with the number " + std::to_string(n);
      switch (self.random().below(4)) {
        case 0:
          tree.insert_or_assign(key, text_of(n, self.random().below(1000)));
          break;
        case 1:
          tree.erase(key);
          break;
        case 2:
          if (const auto text = tree.find(key)) {
            EXPECT_EQ(text->rfind("key " + std::to_string(n) + " in", 0), 0U) << *text;
          }
          break;
        default:
          std::string before;
          tree.range(key, "the key z", [&](const std::string& k, const std::string& text) {
            EXPECT_LT(before, k);
            EXPECT_EQ(text.rfind("key " + k.substr(24) + " in", 0), 0U) << k << ": " << text;
            before = k;
          });
      }
    }
  });
  expect_sound(tree);
}

TEST(AbtreeThreads, come_and_go) {
  number_tree<domain<>> tree;
  std::atomic<std::int64_t> sum{0};
  test::churn_threads({.threads = 6, .share = 2}, [&](stress_thread& self) {
    std::int64_t mine = 0;
    for (int i = 0; i < 200; ++i) {
      const number key = self.random().below(200);
      if (self.random().chance(1, 2)) {
        mine += tree.insert(key, key) ? 1 : 0;
      } else {
        mine -= tree.erase(key) ? 1 : 0;
      }
    }
    sum.fetch_add(mine, std::memory_order_relaxed);
  });
  expect_sound(tree);
  EXPECT_EQ(tree.size_approx(), static_cast<std::size_t>(sum.load()));
  EXPECT_TRUE(tree.domain().drain());
}

// The sanitizers' allocators take locks that all threads share: a thread that is stopped inside one
// holds all of them up, whatever the tree does.
#if !SPOLIA_ASAN && !SPOLIA_TSAN

/// Stops the thread that gets the signal, wherever it is, until told otherwise.
struct stopper {
  static inline std::atomic<bool> stop{false};
  static inline std::atomic<bool> stopped{false};

  stopper() {
    struct sigaction action{};
    action.sa_handler = [](int) {
      stopped.store(true, std::memory_order_release);
      while (stop.load(std::memory_order_acquire)) sched_yield();
      stopped.store(false, std::memory_order_release);
    };
    sigaction(SIGUSR1, &action, &before_);
  }
  stopper(const stopper&) = delete;
  stopper& operator=(const stopper&) = delete;
  ~stopper() { sigaction(SIGUSR1, &before_, nullptr); }

 private:
  struct sigaction before_{};
};

/// Lock-freedom: what a stopped thread has begun is finished by the thread that needs it.
TEST(AbtreeThreads, a_thread_stopped_anywhere_holds_no_other_up) {
  stopper signal;
  number_tree<domain<none>, 3> tree;
  std::atomic<bool> over{false};
  std::atomic<number> of_victim{0};
  std::atomic<number> done{0};
  const auto update = [&](number seed, std::atomic<number>& count) {
    rng random(seed);
    while (!over.load(std::memory_order_relaxed)) {
      const number key = random.below(8);
      if (!tree.insert(key, key)) tree.erase(key);
      count.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::thread victim([&] { update(1, of_victim); });
  std::thread other([&] { update(2, done); });
  // A thread's first steps take locks of the C library: for an arena, and for what is to run when
  // the thread ends.
  EXPECT_TRUE(test::soon([&] { return of_victim.load() > 1000 && done.load() > 1000; }));
  for (int round = 0; round < 150 && !testing::Test::HasFailure(); ++round) {
    stopper::stop.store(true, std::memory_order_release);
    pthread_kill(victim.native_handle(), SIGUSR1);
    EXPECT_TRUE(test::soon([] { return stopper::stopped.load(std::memory_order_acquire); }));
    const number before = done.load();
    EXPECT_TRUE(test::soon([&] { return done.load() > before + 100; })) << "held up";
    stopper::stop.store(false, std::memory_order_release);
    EXPECT_TRUE(test::soon([] { return !stopper::stopped.load(std::memory_order_acquire); }));
  }
  over.store(true, std::memory_order_relaxed);
  victim.join();
  other.join();
  expect_sound(tree);
}

#endif

TEST(AbtreeThreads, trees_share_a_domain) {
  domain<> home;
  number_tree<domain<>> first(home);
  number_tree<domain<>> second(home);
  std::thread other([&] { balance_books(first, 2, 200, 1); });
  balance_books(second, 2, 200, 1);
  other.join();
  EXPECT_TRUE(home.drain());
}

}  // namespace
