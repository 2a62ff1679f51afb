// SPDX-License-Identifier: Apache-2.0
// Caches of counts: units that a thread has at hand of an object that it loads again and again. A
// thread that rests, ends, or vanishes in a fork keeps no object by them.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <spolia/memory.hpp>

#include "nodes.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr int often = 3 * static_cast<int>(counted::detail::cache_after);
constexpr long many = 32;  // units: more than there are pointers

template <class Family>
class count_caches : public nodes_end<Family> {
 public:
  using node = booked_node<Family>;
  using pointer = typename Family::template pointer<node>;
  using location = typename Family::template location<node>;

  count_caches() {
    std::thread([] {}).join();  // from now on the process may have several threads
  }
  /// What the location holds, of which the calling thread has units at hand then.
  static pointer load_often(const location& from) {
    for (int i = 1; i < often; ++i) EXPECT_GE(from.load()->key(), 0);
    return from.load();
  }
  static void expect_units_at_hand(const pointer& p) {
    EXPECT_EQ(p.use_count() > many, counted::detail::have_count_caches()) << p.use_count();
  }
};
using both = testing::Types<shared_family, thin_family>;
TYPED_TEST_SUITE(count_caches, both);

/// A thread that has loaded what the location holds, dropped it, and waits until this ends.
template <class Location>
class resting_reader {
 public:
  explicit resting_reader(const Location& from)
      : thread_([this, &from] {
          for (int i = 0; i < often; ++i) EXPECT_GE(from.load()->key(), 0);
          rests_ = true;
          rests_.notify_one();
          done_.wait(false);
        }) {
    rests_.wait(false);
  }
  resting_reader(const resting_reader&) = delete;
  resting_reader& operator=(const resting_reader&) = delete;
  ~resting_reader() { end(); }
  void end() {
    done_ = true;
    done_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> rests_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

TYPED_TEST(count_caches, a_thread_that_rests_keeps_nothing) {
  typename TestFixture::location head(this->make(1));
  const resting_reader rests(head);
  this->expect_units_at_hand(head.load());
  head = nullptr;
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(this->book.live(), 0);
}

TYPED_TEST(count_caches, drain_empties_them_if_nothing_else_waits) {
  EXPECT_TRUE(counted::drain());
  const typename TestFixture::pointer p = this->make(1);
  typename TestFixture::location head(p);
  const resting_reader rests(head);
  this->expect_units_at_hand(p);
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(p.use_count(), 2);
}

TYPED_TEST(count_caches, a_thread_that_ends_leaves_nothing) {
  const typename TestFixture::pointer p = this->make(1);
  typename TestFixture::location head(p);
  resting_reader rests(head);
  this->expect_units_at_hand(p);
  rests.end();
  EXPECT_EQ(p.use_count(), 2);
}

/// Units go out, come back, and are fetched and given back in between.
TYPED_TEST(count_caches, many_pointers_at_once) {
  typename TestFixture::location head(this->make(1));
  std::vector<typename TestFixture::pointer> all;
  for (int i = 0; i < 1000; ++i) all.push_back(head.load());
  EXPECT_GE(all[0].use_count(), 1001);
  EXPECT_LE(all[0].use_count(), 1001 + 127);
  for (const auto& p : all) EXPECT_EQ(p->key(), 1);
  const typename TestFixture::pointer last = all.back();
  all.clear();
  EXPECT_LE(last.use_count(), 2 + 127) << "what is too much goes back";
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(last.use_count(), 2);
}

TYPED_TEST(count_caches, plain_pointers_end_at_once_again_after_an_epoch) {
  typename TestFixture::location head(this->make(1));
  typename TestFixture::pointer last = this->load_often(head);
  this->expect_units_at_hand(last);
  head = nullptr;
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(last.use_count(), 1);
  last.reset();
  EXPECT_EQ(this->book.live(), 0);
  // In the same memory, most likely; never in a location.
  this->make(2).reset();
  EXPECT_EQ(this->book.live(), 0);
}

TYPED_TEST(count_caches, one_thread_loads_and_another_one_drops) {
  typename TestFixture::location head(this->make(1));
  std::vector<typename TestFixture::pointer> all;
  std::thread([&] {
    for (int i = 0; i < 500; ++i) all.push_back(head.load());
  }).join();
  head = nullptr;
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(all[0].use_count(), 500);
  all.clear();
  EXPECT_EQ(this->book.live(), 0);
}

using shared_count_caches = count_caches<shared_family>;

/// Its destructor loads what it points to so often that its thread has units at hand; then that
/// location ends with it, without an epoch, and they are the last.
template <class Location>
struct loads_at_its_end {
  explicit loads_at_its_end(Location& other) : child(other.load()) {}
  loads_at_its_end(const loads_at_its_end&) = delete;
  loads_at_its_end& operator=(const loads_at_its_end&) = delete;
  ~loads_at_its_end() { shared_count_caches::load_often(child); }
  Location child;
};

TEST_F(shared_count_caches, a_load_that_empties_one_runs_no_destructor) {
  location first(make(1));
  const location second(make(2));
  atomic_shared_ptr<loads_at_its_end<location>> parent(
      make_shared<loads_at_its_end<location>>(first));
  first = nullptr;
  EXPECT_TRUE(counted::drain());
  // Tasks one by one: a drain would look at the caches again. In a destructor the helper's own
  // cache is filled.
  parent = nullptr;
  for (int i = 0; i < 100 && counted::statistics().waiting() != 0; ++i) {
    counted::detail::here().since_epoch = 4096;
    counted::detail::here().epoch = counted::statistics().epochs;
    counted::detail::help(counted::detail::here());
  }
  const auto waits = counted::statistics().waiting();
  load_often(second);
  if (counted::detail::have_count_caches()) {
    EXPECT_EQ(book.live(), 2) << "the cache's units were the last of the first node";
    EXPECT_EQ(counted::statistics().waiting(), waits + 1);
  }
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(book.live(), 1);
}

struct whole {
  int before = 1;
  int member = 2;
};

TEST_F(shared_count_caches, aliases_have_no_cache) {
  auto owner = make_shared<whole>();
  const weak_ptr<whole> watch = owner;
  atomic_shared_ptr<int> at(shared_ptr<int>(owner, &owner->member));
  owner.reset();
  for (int i = 0; i < 4 * often; ++i) EXPECT_EQ(*at.load(), 2);
  EXPECT_EQ(watch.use_count(), 1);
  // A pointer that was taken over says where its object is.
  const atomic_shared_ptr<int> taken(shared_ptr<int>(new int(3)));
  for (int i = 0; i < 4 * often; ++i) EXPECT_EQ(*taken.load(), 3);
  at = nullptr;
  EXPECT_TRUE(counted::drain());
  EXPECT_TRUE(watch.expired());
}

TEST_F(shared_count_caches, weak_pointers_expire_with_the_epoch) {
  atomic_shared_ptr<whole> at(make_shared<whole>());
  const weak_ptr<whole> watch = at.load();
  for (int i = 0; i < often; ++i) EXPECT_EQ(at.load()->member, 2);
  at = nullptr;
  EXPECT_NE(watch.lock(), nullptr) << "as long as its units wait";
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(watch.lock(), nullptr);
}

TYPED_TEST(count_caches, of_a_thread_that_is_lost_in_a_fork) {
  typename TestFixture::location head(this->make(1));
  const resting_reader rests(head);
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    head = nullptr;
    const bool good = counted::drain() && this->book.live() == 0;
    _exit(good ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

/// Readers that come and go and hand pointers on, beside writers and a thread that drains.
TYPED_TEST(count_caches, among_changes) {
  using place = typename TestFixture::location;
  using held = typename TestFixture::pointer;
  std::vector<place> hot(2);
  for (place& l : hot) l = this->make(1);
  place passed_on;
  std::atomic<bool> stop = false;
  std::vector<std::thread> all;
  for (int t = 0; t < 2; ++t) {
    all.emplace_back([&] {
      while (!stop) {
        std::thread([&] {
          std::vector<held> kept;
          for (int i = 0; i < 200; ++i) {
            const place& from = hot[static_cast<std::size_t>(i / 60) % hot.size()];
            held p = from.load();
            EXPECT_GE(p->key(), 1);
            if (i % 3 == 0) kept.push_back(p);
            if (i % 50 == 49) passed_on = std::move(p);
          }
          const held given = passed_on.load();
          EXPECT_TRUE(!given || given->key() >= 1);
          for (const held& p : kept) EXPECT_GE(p->key(), 1);
        }).join();
      }
    });
  }
  for (int i = 0; i < 1500; ++i) {
    hot[static_cast<std::size_t>(i) % 2] = this->make(i + 1);
    if (i % 4 == 0) counted::drain();
    if (i % 8 == 0) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& t : all) t.join();
  hot.clear();
  passed_on = nullptr;
  EXPECT_TRUE(counted::drain());
  EXPECT_EQ(this->book.live(), 0);
}

}  // namespace
