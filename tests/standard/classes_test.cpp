// SPDX-License-Identifier: Apache-2.0
// One suite for each class of defects that users of such libraries report: threads that end,
// waiting that never ends, forks. (Shared objects: plugin_test.cpp and flavours_test.cpp.
// Sanitizers: everything here is run under them.)

#include <gtest/gtest.h>

#include <pthread.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

#include "support/elsewhere.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia::test;
using spolia::hazard_pointer;
using spolia::make_hazard_pointer;

struct node : spolia::hazard_pointer_obj_base<node> {
  explicit node(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  tracked value;
};
struct item : spolia::rcu_obj_base<item> {
  explicit item(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  tracked value;
};

void expect_all_reclaimed(const ledger& book) {
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  spolia::rcu_barrier();
  book.expect_empty();
}

TEST(standard_thread_exit, what_an_ended_thread_has_retired_is_reclaimed) {
  ledger book;
  for (int i = 0; i < 50; ++i) {
    on_another_thread([&] {
      for (int k = 0; k < 20; ++k) {
        (new node(book))->retire();
        (new item(book))->retire();
      }
    });
  }
  expect_all_reclaimed(book);
}

TEST(standard_thread_exit, a_hazard_pointer_outlives_the_thread_that_made_it) {
  ledger book;
  std::atomic<node*> source(new node(book, 8));
  hazard_pointer h;
  node* seen = nullptr;
  on_another_thread([&] {
    h = make_hazard_pointer();
    seen = h.protect(source);
  });
  source.exchange(nullptr)->retire();
  on_another_thread([&] {  // takes the ended thread's number, and slots of its own
    hazard_pointer other = make_hazard_pointer();
    auto* const n = new node(book);
    other.reset_protection(n);
    n->retire();
  });
  spolia::hazard_pointer_clean_up();
  EXPECT_EQ(seen->value.read(), 8U);
  on_another_thread([&] { h = hazard_pointer(); });
  expect_all_reclaimed(book);
}

TEST(standard_thread_exit, slots_that_are_made_here_and_destroyed_there_come_back) {
  // The one thread only makes, the other one only destroys; nothing may pile up.
  const auto before = spolia::hazard_pointer_garbage_bound(16);
  for (int round = 0; round < 2000; ++round) {
    std::vector<hazard_pointer> some(30);
    spolia::make_hazard_pointer_batch(some);
    on_another_thread([&] { some.clear(); });
  }
  EXPECT_LE(spolia::hazard_pointer_garbage_bound(16), before + 16 * 16 * 64);
}

/// Uses both faces when its thread ends, after everything else that the thread did.
struct late_user {
  ledger* book = nullptr;
  hazard_pointer kept;
  ~late_user() {
    if (book == nullptr) return;
    hazard_pointer h = make_hazard_pointer();
    std::atomic<node*> source(new node(*book, 1));
    node* const n = h.protect(source);
    n->retire();
    EXPECT_EQ(n->value.read(), 1U);
    const std::scoped_lock region(spolia::rcu_default_domain());
    (new item(*book))->retire();
  }
};

TEST(standard_thread_exit, destructors_of_thread_locals_may_use_both) {
  ledger book;
  for (const bool used_before : {false, true}) {
    on_another_thread([&] {
      thread_local late_user last;
      last.book = &book;
      if (used_before) {
        last.kept = make_hazard_pointer();
        (new node(book))->retire();
        (new item(book))->retire();
      }
    });
  }
  EXPECT_EQ(book.made(), 2 * 2 + 2);
  expect_all_reclaimed(book);
}

TEST(standard_thread_exit, key_destructors_that_run_later_may_use_both) {
  static ledger book;
  pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key,
                               [](void* held) {
                                 delete static_cast<hazard_pointer*>(held);
                                 (new node(book))->retire();
                                 const std::scoped_lock region(spolia::rcu_default_domain());
                                 (new item(book))->retire();
                               }),
            0);
  on_another_thread([&] {
    (new node(book))->retire();  // joins: the library's key is older or younger than ours
    pthread_setspecific(key, new hazard_pointer(make_hazard_pointer()));
  });
  pthread_key_delete(key);
  expect_all_reclaimed(book);
}

TEST(standard_synchronous_waiting, retire_and_synchronize_on_many_threads_do_not_block_each_other) {
  ledger book;
  std::mutex user;  // taken by the deleters, and not held by a thread that waits
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        auto* const fresh = new tracked(book);
        spolia::rcu_retire(fresh, [&](tracked* p) {
          const std::scoped_lock mine(user);
          delete p;
        });
        if (t % 2 == 0) spolia::rcu_synchronize();
        if (i % 50 == 0) spolia::rcu_barrier();
        const std::scoped_lock region(spolia::rcu_default_domain());
      }
    });
  }
  for (auto& t : all) t.join();
  expect_all_reclaimed(book);
}

TEST(standard_synchronous_waiting, a_deleter_may_synchronize) {
  ledger book;
  for (int i = 0; i < 50; ++i) {
    spolia::rcu_retire(new tracked(book), [](tracked* p) {
      spolia::rcu_synchronize();
      delete p;
    });
  }
  expect_all_reclaimed(book);
}

#if SPOLIA_CHECKS

class standard_misuse : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(standard_misuse, waiting_for_oneself_is_reported) {
  EXPECT_DEATH(
      {
        const std::scoped_lock region(spolia::rcu_default_domain());
        spolia::rcu_synchronize();
      },
      "rcu_synchronize inside of a region waits for itself");
  EXPECT_DEATH(
      {
        const std::scoped_lock region(spolia::rcu_default_domain());
        spolia::rcu_barrier();
      },
      "rcu_barrier inside of a region or a deleter waits for itself");
  EXPECT_DEATH(
      {
        spolia::rcu_retire(new int, [](int* p) {
          delete p;
          spolia::rcu_barrier();
        });
        spolia::rcu_barrier();
      },
      "rcu_barrier inside of a region or a deleter waits for itself");
}

TEST_F(standard_misuse, a_region_that_is_not_open_cannot_be_closed) {
  EXPECT_DEATH(spolia::rcu_default_domain().unlock(), "unlock without a region");
}

TEST_F(standard_misuse, a_thread_that_ends_inside_a_region_is_reported) {
  EXPECT_DEATH(on_another_thread([] { spolia::rcu_default_domain().lock(); }),
               "a thread ended inside a guard");
}

TEST_F(standard_misuse, retiring_twice_is_reported) {
  ledger book;
  EXPECT_DEATH(
      {
        auto* const n = new node(book);
        hazard_pointer h = make_hazard_pointer();
        h.reset_protection(n);
        n->retire();
        n->retire();
      },
      "an object was retired twice");
  EXPECT_DEATH(
      {
        auto* const i = new item(book);
        const std::scoped_lock region(spolia::rcu_default_domain());
        i->retire();
        i->retire();
      },
      "an object was retired twice");
}

TEST_F(standard_misuse, an_empty_hazard_pointer_protects_nothing) {
  std::atomic<node*> source(nullptr);
  node* p = nullptr;
  EXPECT_DEATH(hazard_pointer().protect(source), "an empty hazard_pointer");
  EXPECT_DEATH(hazard_pointer().try_protect(p, source), "an empty hazard_pointer");
  EXPECT_DEATH(hazard_pointer().reset_protection(), "an empty hazard_pointer");
  EXPECT_DEATH(hazard_pointer().reset_protection(p), "an empty hazard_pointer");
}

#endif

TEST(standard_fork, a_child_goes_on_alone) {
  ledger book;
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int t = 0; t < 3; ++t) {
    others.emplace_back([&, t] {
      while (!stop.load()) {
        hazard_pointer h = make_hazard_pointer();
        (new node(book))->retire();
        (new item(book))->retire();
        const std::scoped_lock region(spolia::rcu_default_domain());
        if (t == 0) (new item(book))->retire();
      }
    });
  }
  others.emplace_back([&] {
    while (!stop.load()) spolia::rcu_barrier();
  });
  // Protected by a slot that another thread took first, and with a region open across the fork.
  hazard_pointer kept;
  on_another_thread([&] { kept = make_hazard_pointer(); });
  std::atomic<node*> source(new node(book, 6));
  node* const seen = kept.protect(source);
  source.exchange(nullptr)->retire();
  for (int i = 0; i < 10; ++i) {
    std::optional<std::scoped_lock<spolia::rcu_domain>> region(spolia::rcu_default_domain());
    EXPECT_EQ(status_of_child([&] {
                region.reset();
                ledger own;
                for (int n = 0; n < 1000; ++n) {
                  hazard_pointer h = make_hazard_pointer();
                  auto* const mine = new node(own, 1);
                  h.reset_protection(mine);
                  mine->retire();
                  (new item(own))->retire();
                }
                spolia::hazard_pointer_clean_up();
                spolia::rcu_synchronize();
                spolia::rcu_barrier();
                EXPECT_EQ(own.live(), 0);
                EXPECT_EQ(seen->value.read(), 6U) << "protected across the fork";
              }),
              0);
    region.reset();
  }
  stop = true;
  for (auto& t : others) t.join();
  kept = hazard_pointer();
  expect_all_reclaimed(book);
}

}  // namespace
