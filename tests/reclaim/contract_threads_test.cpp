// SPDX-License-Identifier: Apache-2.0
// Threads that end, idle, stall, come by the thousand, and vanish in a fork.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "reclaim/contract.hpp"
#include "support/forks_at_steps.hpp"
#include "support/parked_thread.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"
#include "support/structures.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Domain>
class contract_threads : public testing::Test {
 protected:
  ledger book_;
};
TYPED_TEST_SUITE(contract_threads, all_domains, domain_names);

TYPED_TEST(contract_threads, the_blocks_of_a_thread_that_ended_are_adopted) {
  ledger& book = this->book_;
  TypeParam d;
  on_another_thread([&] { retire_fresh(d, book, 100); });
  EXPECT_EQ(book.retired(), 100);
  EXPECT_TRUE(drain_all(d));
  if (TypeParam::info().reclaims) book.expect_empty();
}

/// Uses its domain when its thread ends, after everything else that the thread did.
template <class Domain>
struct late_user {
  Domain* home = nullptr;
  ledger* book = nullptr;
  ~late_user() {
    if (home != nullptr) retire_fresh(*home, *book, 10);
  }
};

TYPED_TEST(contract_threads, thread_local_destructors_may_use_the_domain) {
  ledger& book = this->book_;
  TypeParam d;
  for (const bool joined_before : {false, true}) {
    for (int i = 0; i < 3; ++i) {
      on_another_thread([&] {
        // Constructed before the thread joins: destroyed after whatever joining constructs.
        thread_local late_user<TypeParam> last;
        last.home = &d;
        last.book = &book;
        if (joined_before) retire_fresh(d, book, 10);
      });
    }
  }
  EXPECT_EQ(book.retired(), 3 * 10 + 3 * 20);
  EXPECT_TRUE(drain_all(d));
  if (TypeParam::info().reclaims) book.expect_empty();
}

TYPED_TEST(contract_threads, a_thousand_short_threads_leave_nothing_behind) {
  ledger& book = this->book_;
  TypeParam d(eager<TypeParam>());
  constexpr int rounds = starts(250);
  for (int i = 0; i < rounds; ++i) {
    std::vector<std::thread> some;
    for (int t = 0; t < 4; ++t) some.emplace_back([&] { retire_fresh(d, book, 5); });
    for (std::thread& t : some) t.join();
  }
  EXPECT_TRUE(drain_all(d));
  EXPECT_EQ(book.retired(), rounds * 4 * 5);
  EXPECT_LE(d.stats().threads, 1U);
  if (TypeParam::info().reclaims) book.expect_empty();
}

TYPED_TEST(contract_threads, more_threads_than_cores_share_a_stack) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    treiber_stack<tracked, TypeParam> stack(d);
    run_stress({.threads = 24, .share = 0.1}, [&](stress_thread& self) {
      while (self.running()) {
        stack.put(tracked(book, self.index()));
        stack.take();
        self.jitter();
      }
    });
    while (stack.take().has_value()) continue;
    EXPECT_TRUE(drain_all(d));
  }
  EXPECT_GT(book.retired(), 0);
  book.expect_empty();
}

TYPED_TEST(contract_threads, the_blocks_of_an_idle_thread_are_adopted) {
  if (!TypeParam::info().reclaims || needs_every_thread<TypeParam>) return;
  ledger idle_book;
  ledger& book = this->book_;
  TypeParam d(eager<TypeParam>());
  parked_thread idle([&](parking_spot& spot) {
    // A guard of another thread keeps the blocks waiting until this one has stopped.
    retire_fresh(d, idle_book, 10);
    spot.park();
    retire_fresh(d, idle_book, 10);
  });
  for (int i = 0; i < 3000 && idle_book.live() != 0; ++i) retire_fresh(d, book, 1000);
  EXPECT_EQ(idle_book.live(), 0) << "they wait for a thread that does nothing";
  idle.release();
  EXPECT_TRUE(d.drain());
  idle_book.expect_empty();
}

TYPED_TEST(contract_threads, a_stalled_reader_holds_up_no_more_than_stated) {
  ledger& book = this->book_;
  constexpr int blocks = 20'000;
  {
    TypeParam d(eager<TypeParam>());
    atomic<block<TypeParam>*> source(d.template make<block<TypeParam>>(book, 3U));
    parked_thread reader([&](parking_spot& spot) {
      auto guard = d.enter();
      const auto seen = hold(guard, source);
      spot.park();
      EXPECT_EQ(seen->value.read(), 3U);
    });
    {
      auto guard = d.enter();
      retire_tracked(guard, source.exchange_relaxed(nullptr));
    }
    const auto bound_now = [&] {
      auto bound = d.garbage_bound(2);
      if constexpr (protects_eras<typename TypeParam::scheme_type>) {
        // Whatever was alive when it stalled, which is this one block; and of what is made after
        // that, the blocks that wait for the eager scans of two threads.
        if (!bound.has_value()) bound = 1 + 2 * (2 * 2 * guard_slots + 1);
      }
      return bound;
    };
    const auto bound = bound_now();
    EXPECT_EQ(bound.has_value(), TypeParam::info().robust);
    for (int i = 0; i < blocks; ++i) {
      retire_fresh(d, book, 1);
      if (bound.has_value()) {
        ASSERT_LE(d.garbage(), *bound_now());
        ASSERT_LE(d.garbage(), 1000U);
      }
    }
    if (!bound.has_value()) {
      // The reader may hold any block that was reachable after it began. Those are all.
      EXPECT_EQ(book.limbo(), blocks + 1);
    }
    reader.release();
    EXPECT_TRUE(drain_all(d));
  }
  book.expect_empty();
}

TYPED_TEST(contract_threads, operations_that_retire_much_keep_to_the_bound) {
  ledger& book = this->book_;
  constexpr int each = 200;
  TypeParam d;
  if (!d.garbage_bound(1).has_value()) return;
  // First nothing at all, so that the thread looks around seldom.
  for (int i = 0; i < 100'000; ++i) auto guard = d.enter();
  for (int i = 0; i < 2'000; ++i) {
    {
      auto guard = d.enter();
      for (int n = 0; n < each; ++n) {
        retire_tracked(guard, d.template make<block<TypeParam>>(book));
      }
    }
    ASSERT_LE(d.garbage(), *d.garbage_bound(1) + each) << "after " << i << " operations";
  }
  EXPECT_TRUE(drain_all(d));
  book.expect_empty();
}

/// In a fork's child, when all that can be freed is: what is lost counts as that, and not as
/// waiting.
template <class Domain>
void expect_told_apart(const Domain& d) {
  if (!Domain::info().reclaims) return;
  const domain_statistics now = d.stats();
  EXPECT_EQ(d.garbage(), 0U);
  EXPECT_EQ(now.garbage(), 0U);
  EXPECT_EQ(now.garbage_bytes(), 0U);
  EXPECT_EQ(now.retired, now.freed + now.lost_in_fork);
  EXPECT_EQ(now.retired_bytes, now.freed_bytes + now.lost_in_fork_bytes);
}

TYPED_TEST(contract_threads, a_forked_child_goes_on_alone) {
  ledger& book = this->book_;
  {
    TypeParam d(eager<TypeParam>());
    std::atomic<bool> stop{false};
    std::atomic<int> running{0};
    std::vector<std::thread> others;
    for (int t = 0; t < 2; ++t) {
      others.emplace_back([&] {
        retire_fresh(d, book, 10);
        ++running;
        while (!stop.load()) {
          retire_fresh(d, book, 10);
          // What is never freed makes a fork slower and slower.
          if (!TypeParam::info().reclaims)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
    }
    while (running.load() < 2) std::this_thread::yield();
    retire_fresh(d, book, 10);
    const int status = status_of_child([&] {
      ledger own;
      retire_fresh(d, own, 1000);
      EXPECT_TRUE(drain_all(d));
      EXPECT_EQ(own.live(), TypeParam::info().reclaims ? 0 : 1000);
      expect_told_apart(d);
    });
    EXPECT_EQ(status, 0);
    stop = true;
    for (std::thread& t : others) t.join();
    retire_fresh(d, book, 10);
    EXPECT_TRUE(drain_all(d));
    if (TypeParam::info().reclaims) book.expect_empty();
  }
  book.expect_empty();
}

/// Neither the race detector nor the emulator does.
#if SPOLIA_TSAN || defined(SPOLIA_TEST_EMULATED)
constexpr bool begins_threads_when_forked = false;
#else
constexpr bool begins_threads_when_forked = true;
#endif

template <class Domain>
class contract_forks : public testing::Test {};
TYPED_TEST_SUITE(contract_forks, few_domains, domain_names);

TYPED_TEST(contract_forks, leave_what_threads_between_operations_had_retired) {
  if (!TypeParam::info().reclaims) return;
  ledger book;
  TypeParam d;
  parked_thread idle([&](parking_spot& self) {
    retire_fresh(d, book, 10);
    self.park();
  });
  retire_fresh(d, book, 10);
  EXPECT_EQ(status_of_child([&] {
              EXPECT_TRUE(drain_all(d));
              expect_told_apart(d);
              EXPECT_EQ(d.stats().lost_in_fork, 0U);
              EXPECT_EQ(book.live(), 0);
            }),
            0);
  idle.release();
}

TYPED_TEST(contract_forks, free_what_lost_readers_held) {
  if (!TypeParam::info().reclaims) return;
  ledger book;
  TypeParam d(eager<TypeParam>());
  atomic<block<TypeParam>*> source(d.template make<block<TypeParam>>(book));
  parked_thread reader([&](parking_spot& spot) {
    auto guard = d.enter();
    [[maybe_unused]] const auto seen = hold(guard, source);
    const auto inner = d.enter();  // the number's next thread is not inside
    spot.park();
  });
  const auto at_first = d.garbage_bound(2);
  {
    auto guard = d.enter();
    retire_tracked(guard, source.exchange_relaxed(nullptr));
  }
  retire_fresh(d, book, 100);
  EXPECT_FALSE(drain_all(d));
  EXPECT_GT(book.live(), 0);
  const auto held_up = d.garbage_bound(2);
  const auto goes_on = [&] {
    std::optional<parked_thread> next;  // has the number of the one that was lost
    if (begins_threads_when_forked && !needs_every_thread<TypeParam>) {
      next.emplace([&](parking_spot& spot) {
        retire_fresh(d, book, 1);
        spot.park();
      });
    }
    EXPECT_TRUE(drain_all(d));
    if (std::is_same_v<typename TypeParam::scheme_type, robust_token> && held_up > at_first) {
      EXPECT_LT(d.garbage_bound(2), held_up);
    }
    expect_told_apart(d);
    EXPECT_EQ(d.stats().lost_in_fork, 0U) << "the reader had retired nothing";
    EXPECT_EQ(book.live(), 0);
    EXPECT_TRUE(d.pins().empty());
    retire_fresh(d, book, 1000);
    EXPECT_LE(d.garbage(), 500U) << "without a drain";
  };
  EXPECT_EQ(status_of_child([&] {
              EXPECT_EQ(status_of_child(goes_on), 0) << "the second fork";
              goes_on();
            }),
            0);
  reader.release();
  EXPECT_TRUE(drain_all(d));
}

TYPED_TEST(contract_forks, may_catch_an_operation_anywhere) {
  if (const char* const why_not = no_forks_at_steps()) GTEST_SKIP() << why_not;
  if (!TypeParam::info().reclaims) return;
  ledger book;
  {
    TypeParam d(eager<TypeParam>());
    atomic<block<TypeParam>*> source(d.template make<block<TypeParam>>(book));
    unsigned runs = 0;
    fork_at_steps(
        [&] {
          for (int i = 0; i < 2; ++i) {
            auto* const fresh = d.template make<block<TypeParam>>(book);
            auto guard = d.enter();
            [[maybe_unused]] const auto seen = hold(guard, source);
            retire_tracked(guard, source.exchange_relaxed(fresh));
          }
        },
        [&] {
          ++runs;
          auto guard = d.enter();
        },
        [&] {
          ledger own;
          const auto others = [&] {
            retire_fresh(d, own, 20);
            EXPECT_TRUE(drain_all(d));
          };
          others();
          if (!needs_every_thread<TypeParam>) {
            on_another_thread(others);  // has the number of the one that was lost
            others();
          }
          expect_told_apart(d);
          EXPECT_LE(d.stats().lost_in_fork, 2U * runs);
          return own.live() == 0;
        },
        1499);
    d.destroy(source.load_relaxed());
    drain_all(d);
  }
  book.expect_empty();
}

TYPED_TEST(contract_forks, leave_the_guard_of_the_thread_that_forks) {
  if (!TypeParam::info().reclaims) return;
  ledger book;
  TypeParam d(eager<TypeParam>());
  atomic<block<TypeParam>*> source(d.template make<block<TypeParam>>(book));
  const parked_thread lost([&](parking_spot& spot) {
    auto guard = d.enter();
    spot.park();
  });
  std::optional guard(d.enter());
  auto seen = hold(*guard, source);
  const auto goes_on = [&] {
    ledger others;
    retire_tracked(*guard, source.exchange_relaxed(nullptr));
    retire_fresh(d, others, 200);
    EXPECT_EQ(book.live(), 1) << "it is held";
    seen = {};
    guard.reset();
    EXPECT_TRUE(drain_all(d));
    EXPECT_EQ(book.live() + others.live(), 0);
    expect_told_apart(d);
  };
  EXPECT_EQ(status_of_child(goes_on), 0);
  seen = {};
  retire_tracked(*guard, source.exchange_relaxed(nullptr));
  guard.reset();
}

template <class Domain>
struct parking_block : Domain::header {
  explicit parking_block(parking_spot& s) : spot(s) {}
  ~parking_block() { spot.park(); }
  parking_spot& spot;
};

/// Retires some of these, and is caught in the destructor of the first.
template <class Domain>
auto lost_while_it_frees(Domain& d) {
  return [&d](parking_spot& spot) {
    for (int i = 0; i < 3; ++i) {
      auto* const fresh = d.template make<parking_block<Domain>>(spot);
      auto guard = d.enter();
      guard.retire(fresh);
    }
    drain_all(d);
  };
}

template <class Domain>
struct forking_block : Domain::header {
  explicit forking_block(std::function<void()>& f) : when_it_ends(f) {}
  ~forking_block() { when_it_ends(); }
  std::function<void()>& when_it_ends;
};

TYPED_TEST(contract_forks, may_come_in_a_deleter) {
  if (!TypeParam::info().reclaims) return;
  TypeParam d;
  const parked_thread lost(lost_while_it_frees(d));
  pid_t child = -1;
  std::function<void()> fork_once = [&] {
    if (child == -1) child = fork();
  };
  for (int i = 0; i < 8; ++i) {
    auto* const fresh = d.template make<forking_block<TypeParam>>(fork_once);
    auto guard = d.enter();
    guard.retire(fresh);
  }
  const bool all = drain_all(d);  // also in the child, with what the deleter has left
  if (child == 0) {
    EXPECT_TRUE(all);
    expect_told_apart(d);
    EXPECT_LE(d.stats().lost_in_fork, 3U);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  if (child == -1) return;  // the thread that is caught holds the others up
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TYPED_TEST(contract_threads, a_fork_may_catch_a_thread_that_frees) {
  if (!begins_threads_when_forked) GTEST_SKIP() << "no threads after such a fork";
  if (!TypeParam::info().reclaims) return;
  TypeParam d;
  const parked_thread lost(lost_while_it_frees(d));
  const int status = status_of_child([&] {
    ledger own;
    on_another_thread([&] {  // has the number of the one that was lost
      retire_fresh(d, own, 1000);
      EXPECT_TRUE(drain_all(d));
    });
    EXPECT_EQ(own.live(), 0);
    expect_told_apart(d);
    EXPECT_LE(d.stats().lost_in_fork, 3U);
  });
  EXPECT_EQ(status, 0);
}

TYPED_TEST(contract_threads, a_fork_may_catch_an_adopter_at_work) {
  ledger& book = this->book_;
  {
    TypeParam d;
    std::atomic<bool> stop{false};
    std::thread adopter([&] {
      while (!stop.load()) d.drain();
    });
    on_another_thread([&] { retire_fresh(d, book, 10); });  // an ended thread's cell, too
    for (int i = 0; i < starts(15); ++i) {
      retire_fresh(d, book, 10);
      const int status = status_of_child([&] {
        ledger own;
        retire_fresh(d, own, 100);
        EXPECT_TRUE(drain_all(d));
        expect_told_apart(d);
      });
      EXPECT_EQ(status, 0);
    }
    stop = true;
    adopter.join();
    EXPECT_TRUE(drain_all(d));
  }
  book.expect_empty();
}

}  // namespace
