// SPDX-License-Identifier: Apache-2.0
// The standard faces when memory is short.

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>

#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia::test;
using spolia::hazard_pointer;

struct node : spolia::hazard_pointer_obj_base<node> {
  explicit node(ledger& book) : value(book) {}
  tracked value;
};
struct item : spolia::rcu_obj_base<item> {
  explicit item(ledger& book, std::uint64_t v = 0) : value(book, v) {}
  tracked value;
};

TEST(standard_faults, a_batch_is_all_or_nothing) {
  std::array<hazard_pointer, 200> all;
  all[7] = spolia::make_hazard_pointer();
  const auto failures = for_each_allocation_failure([&] {
    try {
      spolia::make_hazard_pointer_batch(all);
    } catch (const std::bad_alloc&) {
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].empty(), i != 7);
      throw;
    }
  });
  EXPECT_GE(failures, 3U) << "rows made before a failure are kept, so few runs fail";
  for (const auto& h : all) EXPECT_FALSE(h.empty());
  spolia::clear_hazard_pointer_batch(all);
  const auto before = live_allocations();
  spolia::make_hazard_pointer_batch(all);
  EXPECT_EQ(live_allocations(), before) << "the slots are still there";
}

TEST(standard_faults, retiring_allocates_nothing) {
  ledger book;
  (new node(book))->retire();
  (new item(book))->retire();
  const auto before = thread_allocations();
  std::array<node*, 3> nodes{};
  for (auto& n : nodes) n = new node(book);
  std::array<item*, 3> items{};
  for (auto& i : items) i = new item(book);
  const auto made = thread_allocations();
  EXPECT_EQ(made, before + 6);
  for (node* n : nodes) n->retire();
  for (item* i : items) i->retire();
  EXPECT_EQ(thread_allocations(), made);
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  spolia::rcu_barrier();
  book.expect_empty();
}

/// Runs f on threads that hold the lowest numbers' cells' neighbours: each is the first with its
/// number, so that its cell has to be made, without memory.
template <class F>
void on_new_threads_without_memory(F f) {
  std::vector<std::unique_ptr<parked_thread>> all;
  for (int t = 0; t < 70; ++t) {
    all.push_back(std::make_unique<parked_thread>([&](parking_spot& spot) {
      {
        fail_after none_left(1, failing::from_then_on);
        f();
      }
      spot.park();
    }));
  }
}

TEST(standard_faults, a_first_retirement_without_memory_loses_nothing) {
  ledger book;
  std::vector<node*> nodes;
  std::vector<item*> items;
  for (int i = 0; i < 70; ++i) {
    nodes.push_back(new node(book));
    items.push_back(new item(book));
  }
  std::atomic<std::size_t> next{0};
  on_new_threads_without_memory([&] {
    const std::size_t mine = next++;
    nodes[mine]->retire();
    items[mine]->retire();
  });
  EXPECT_TRUE(spolia::hazard_pointer_clean_up());
  spolia::rcu_barrier();
  book.expect_empty();
  spolia::rcu_default_domain().lock();
  (new item(book))->retire();
  EXPECT_EQ(spolia::rcu_garbage(), 1U) << "the strays were counted in and out";
  spolia::rcu_default_domain().unlock();
  spolia::rcu_barrier();
}

TEST(standard_faults, a_region_without_memory_is_a_region) {
  spolia::rcu_domain d;
  ledger book;
  std::atomic<item*> source(new item(book, 5));
  parked_thread reader([&](parking_spot& spot) {
    std::optional<fail_after> none_left(std::in_place, 1, failing::from_then_on);
    d.lock();
    d.lock();
    EXPECT_TRUE(none_left->fired());
    none_left.reset();
    d.lock();  // there is memory now: a region of the ordinary kind
    const item* const seen = source.load();
    d.unlock();
    d.unlock();
    spot.park();
    EXPECT_EQ(seen->value.read(), 5U);
    d.unlock();
  });
  source.exchange(nullptr)->retire({}, d);
  for (int i = 0; i < 1000; ++i) (new item(book))->retire({}, d);
  EXPECT_FALSE(spolia::rcu_synchronize_for(std::chrono::milliseconds(5), d));
  reader.release();
  spolia::rcu_synchronize(d);
  spolia::rcu_barrier(d);
  book.expect_empty();
}

/// Threads that end leave so much that the next one ends epochs at once: not past such a region.
TEST(standard_faults, a_region_without_memory_holds_up_what_ended_threads_have_left) {
  struct counted_item : spolia::rcu_obj_base<counted_item> {
    explicit counted_item(std::atomic<int>& of) : ended(of) {}
    ~counted_item() { ++ended; }
    std::atomic<int>& ended;
  };
  std::atomic<int> ended{0};
  spolia::rcu_domain d;
  parked_thread reader([&](parking_spot& spot) {
    {
      const fail_after none_left(1, failing::from_then_on);
      d.lock();
    }
    spot.park();
    d.unlock();
  });
  for (int life = 0; life < 20; ++life) {
    std::thread([&] {
      for (int i = 0; i < 600; ++i) {
        const std::scoped_lock region(d);
        (new counted_item(ended))->retire({}, d);
      }
    }).join();
  }
  EXPECT_EQ(ended, 0);
  reader.release();
  spolia::rcu_barrier(d);
  EXPECT_EQ(ended, 20 * 600);
}

TEST(standard_faults, regions_without_memory_vanish_in_a_fork_with_their_threads) {
  spolia::rcu_domain d;  // without a cell for any thread
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    const fail_after none_left(1, failing::from_then_on);
    while (!stop) const std::scoped_lock region(d);
  });
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(status_of_child([&] {
                alarm(30);
                {
                  const fail_after none_left(1, failing::from_then_on);
                  const std::scoped_lock region(d);  // as the reader that was caught
                }
                spolia::rcu_synchronize(d);
              }),
              0);
  }
  {
    std::optional<fail_after> none_left(std::in_place, 1, failing::from_then_on);
    std::optional<std::scoped_lock<spolia::rcu_domain>> ours(d);
    none_left.reset();
    EXPECT_EQ(status_of_child([&] {
                alarm(30);
                EXPECT_FALSE(spolia::rcu_synchronize_for(std::chrono::milliseconds(5), d));
                ours.reset();
                spolia::rcu_synchronize(d);
              }),
              0);
  }
  stop = true;
  reader.join();
}

TEST(standard_faults, rcu_retire_may_fail_and_then_nothing_has_happened) {
  ledger book;
  auto* const t = new tracked(book, 3);
  int called = 0;
  const auto deleter = [&called](tracked* p) {
    ++called;
    delete p;
  };
  {
    fail_after one(1);
    EXPECT_THROW(spolia::rcu_retire(t, deleter), std::bad_alloc);
  }
  spolia::rcu_barrier();
  EXPECT_EQ(called, 0);
  EXPECT_EQ(t->read(), 3U);
  spolia::rcu_retire(t, deleter);
  spolia::rcu_barrier();
  EXPECT_EQ(called, 1);
  book.expect_empty();
}

struct refuses_to_move {
  refuses_to_move() = default;
  refuses_to_move(refuses_to_move&& other) : armed(other.armed) {
    if (armed) throw 5;
  }
  void operator()(tracked* p) const { delete p; }
  bool armed = false;
};

TEST(standard_faults, rcu_retire_passes_on_what_the_deleters_move_throws) {
  ledger book;
  auto* const t = new tracked(book, 3);
  const auto before = live_allocations();
  refuses_to_move d;
  EXPECT_THROW(
      {
        refuses_to_move armed;
        armed.armed = true;
        spolia::rcu_retire(t, std::move(armed));
      },
      int);
  EXPECT_EQ(live_allocations(), before);
  spolia::rcu_retire(t, std::move(d));
  spolia::rcu_barrier();
  book.expect_empty();
}

TEST(standard_faults, a_domain_that_cannot_be_made) {
  fail_after one(1);
  EXPECT_THROW(spolia::rcu_domain(), std::bad_alloc);
}

}  // namespace
