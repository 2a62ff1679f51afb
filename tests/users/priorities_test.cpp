// SPDX-License-Identifier: Apache-2.0
// Every public operation by two threads of different real-time priorities on one processor:
// whatever one waits for, it sleeps in the end, so that the other one gets on. Here: pointers, the
// standard faces, snapshots, sections, threads. Maps: priorities_maps_test.cpp; the store:
// tests/db/priorities_test.cpp.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include <spolia/hazard_pointer.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>

#include "support/two_priorities.hpp"

namespace {

using namespace spolia;
using spolia::test::both_get_on;

// ---- the standard faces

struct rcu_use {
  struct object : rcu_obj_base<object> {};
  rcu_domain mine;
  std::atomic<object*> current{new object};

  void use(unsigned, unsigned i) {
    for (rcu_domain* const d : {&mine, &rcu_default_domain()}) {
      const std::scoped_lock region(*d);
      static_cast<void>(current.load(std::memory_order_acquire));
    }
    current.exchange(new object)->retire(std::default_delete<object>(), mine);
    rcu_retire(new int(1));
    if (i % 4 == 0) rcu_synchronize(mine);
    if (i % 8 == 1) rcu_barrier(mine);
    if (i % 16 == 1) rcu_barrier();
  }
};
TEST(priorities, rcu) { both_get_on<rcu_use>(); }

struct hazard_use {
  struct object : hazard_pointer_obj_base<object> {};
  std::atomic<object*> current{new object};

  void use(unsigned, unsigned i) {
    auto h = make_hazard_pointer();
    static_cast<void>(h.protect(current));
    current.exchange(new object)->retire();
    if (i % 8 == 0) hazard_pointer_clean_up();
  }
};
TEST(priorities, hazard_pointers) { both_get_on<hazard_use>(); }

// ---- counted pointers

struct make_use {
  void use(unsigned, unsigned i) {
    std::array<shared_ptr<std::uint64_t>, 1500> some;  // more than a thread keeps at hand
    for (auto& p : some) p = make_shared<std::uint64_t>(i);
    const weak_ptr<std::uint64_t> watches(some[0]);
    static_cast<void>(watches.lock());
  }
};
TEST(priorities, make_shared) { both_get_on<make_use>(); }

struct location_use {
  atomic_shared_ptr<int> strong;
  atomic_weak_ptr<int> weak;
  atomic_thin_ptr<int> thin;

  void use(unsigned, unsigned i) {
    strong.store(make_shared<int>(1));
    weak.store(strong.load());
    static_cast<void>(weak.load().lock());
    thin = make_thin<int>(2);
    const private_ptr at(strong);
    auto expected = strong.load();
    strong.compare_exchange_strong(expected, make_shared<int>(3));
    if (i % 128 == 0) counted::drain();
    if (i % 128 == 1) static_cast<void>(counted::statistics());
    if (i % 128 == 2) strong.notify_all();
  }
};
TEST(priorities, locations) { both_get_on<location_use>(); }

// ---- snapshots

struct snapshot_use {
  snapshot_hash<int, int> hash;
  snapshot_tree<int, int> tree;

  void use(unsigned who, unsigned i) {
    const snapshot held("held");
    for (int n = 0; n < 4; ++n) {
      const int key = static_cast<int>(i * 5 + who) % 32 + n;
      hash.insert_or_assign(key, n);
      tree.insert_or_assign(key, n);
    }
    static_cast<void>(hash.find(held, 1));
    static_cast<void>(tree.find(held, 1));
    if (i % 8 == 0) tree.for_each([](const int&, const int&) {});
    if (i % 32 == 0) hash.collect();
    if (i % 32 == 1) tree.collect();
  }
};
TEST(priorities, snapshots) { both_get_on<snapshot_use>(); }

struct lease_use {
  snapshot_hash<int, int> hash;

  void use(unsigned, unsigned i) {
    const lease held(i % 2 == 0 ? std::chrono::hours(1) : std::chrono::nanoseconds(1));
    hash.insert_or_assign(1, static_cast<int>(i));
    try {
      static_cast<void>(hash.find(held, 1));
    } catch (const snapshot_expired&) {
      // Its time was over.
    }
    hash.time().leases().end_overdue();
  }
};
TEST(priorities, leases) { both_get_on<lease_use>(); }

struct batch_use {
  snapshot_hash<int, int> hash;
  snapshot_tree<int, int> tree;

  void use(unsigned who, unsigned i) {
    changes both;
    const int key = static_cast<int>(i + who) % 8;
    both.insert_or_assign(hash, key, 1);
    both.insert_or_assign(tree, key, 1);
    both.erase(hash, key + 1);
    both.commit();
    static_cast<void>(hash.find(key));
    tree.insert_or_assign(key, 2);
  }
};
TEST(priorities, batches_of_changes) { both_get_on<batch_use>(); }

// ---- read-log-update

struct rlu_use {
  rlu::domain home;
  rlu_list<int, int> from{home};
  rlu_bst<int, int> to{home};

  void use(unsigned who, unsigned i) {
    const int key = static_cast<int>(i + who) % 8;
    home.update([&](auto&) {
      from.insert_or_assign(key, 1);
      to.erase(key);
    });
    home.read([&](auto&) { return to.contains(key); });
    home.update([&](auto&) { to.insert_or_assign(key, from.find(key).value_or(0)); });
    if (i % 32 == 0) home.collect();
    if (i % 32 == 1) home.for_each_section([](const census::entry&) {});
  }
};
TEST(priorities, rlu_sections) { both_get_on<rlu_use>(); }

// ---- pools, numbers of threads, the census

struct pool_use {
  using pooled_domain = domain<token, pooled>;
  struct block : pooled_domain::header {};
  pooled_domain home;

  void use(unsigned, unsigned i) {
    auto g = home.enter();
    for (int n = 0; n < 8; ++n) g.retire(home.make<block>());
    if (i % 64 == 0) static_cast<void>(home.pins());
  }
};
TEST(priorities, pools) { both_get_on<pool_use>(); }

struct thread_use {
  abtree<int, int> map;

  void use(unsigned who, unsigned i) {
    if (i % 8 != 0) return void(map.insert_or_assign(static_cast<int>(who), 1));
    std::thread([&] { map.insert_or_assign(static_cast<int>(i), 1); }).join();
  }
};
TEST(priorities, threads_that_come_and_go) { both_get_on<thread_use>(); }

}  // namespace
