// SPDX-License-Identifier: Apache-2.0
// One suite for each class of defects that users of such libraries report, asked of maps and the
// domains below them. (Shared objects: shared_objects_test.cpp. Sanitizers: sanitized.cmake.)

#include <gtest/gtest.h>

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/reclaim.hpp>

#include "support/elsewhere.hpp"
#include "support/ledger.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using spolia::test::tracked;  // not the base of versions

using all_maps =
    testing::Types<abtree<int, tracked>, avl<int, tracked>, external_bst<int, tracked>,
                   spolia::list<int, tracked>, spolia::list<int, tracked, domain<hazard_pointers>>,
                   external_bst<int, tracked, domain<robust_token>>>;
/// Those whose updates wait for no thread, not even for one that is gone.
using lock_free_maps = testing::Types<abtree<int, tracked>, spolia::list<int, tracked>,
                                      spolia::list<int, tracked, domain<hazard_pointers>>>;

template <class Map>
void put_and_take(Map& map, ledger& book, int first, int count) {
  for (int k = first; k < first + count; ++k) map.insert(k, tracked(book, 1));
  for (int k = first; k < first + count; ++k) map.erase(k);
}

// ---- thread exit -------------------------------------------------------------------------------

template <class Map>
class users_thread_exit : public testing::Test {};
TYPED_TEST_SUITE(users_thread_exit, all_maps);

/// Uses a map when its thread ends, after everything else that the thread did.
template <class Map>
struct late_user {
  Map* map = nullptr;
  ledger* book = nullptr;
  ~late_user() {
    if (map != nullptr) put_and_take(*map, *book, 100, 10);
  }
};

TYPED_TEST(users_thread_exit, thread_local_destructors_may_use_a_map) {
  ledger book;
  {
    TypeParam map;
    for (const bool used_before : {false, true}) {
      on_another_thread([&] {
        thread_local late_user<TypeParam> last;
        last.map = &map;
        last.book = &book;
        if (used_before) put_and_take(map, book, 0, 10);
      });
    }
    EXPECT_EQ(map.size_approx(), 0U);
    EXPECT_TRUE(map.domain().drain());
    EXPECT_EQ(book.live(), 0) << "blocks of ended threads that no thread takes over";
  }
  EXPECT_GE(book.made(), 30);
}

TYPED_TEST(users_thread_exit, key_destructors_that_run_last_may_use_a_map) {
  static ledger* book = nullptr;
  ledger own;
  book = &own;
  TypeParam map;
  pthread_key_t key;
  ASSERT_EQ(
      pthread_key_create(
          &key, [](void* held) { put_and_take(*static_cast<TypeParam*>(held), *book, 0, 10); }),
      0);
  on_another_thread([&] {
    put_and_take(map, own, 100, 10);  // joins: the library's key is older or younger than ours
    pthread_setspecific(key, &map);
  });
  pthread_key_delete(key);
  EXPECT_GE(own.made(), 20);
  EXPECT_TRUE(map.domain().drain());
  EXPECT_EQ(own.live(), 0);
}

TYPED_TEST(users_thread_exit, a_map_may_go_before_the_threads_that_have_used_it) {
  ledger book;
  auto map = std::make_unique<TypeParam>();
  parked_thread user([&](parking_spot& spot) {
    put_and_take(*map, book, 0, 10);
    map->insert(1, tracked(book, 1));
    spot.park();
  });
  map.reset();
  book.expect_empty();
  user.release();  // ends, and with it the cells that it had in a domain that is gone
}

// ---- synchronous waiting -----------------------------------------------------------------------

template <class Map>
class users_synchronous_waiting : public testing::Test {
  void SetUp() override { alarm(120); }  // what waits for itself ends the program
  void TearDown() override { alarm(0); }
};
TYPED_TEST_SUITE(users_synchronous_waiting, all_maps);

TYPED_TEST(users_synchronous_waiting, updates_and_drain_do_not_wait_for_a_reader_that_is_stuck) {
  ledger book;
  {
    TypeParam map;
    for (int k = 0; k < 20; ++k) map.insert(k, tracked(book, 1));
    parked_thread reader([&](parking_spot& spot) {
      map.visit(10, [&](const tracked& value) {
        spot.park();
        EXPECT_EQ(value.read(), 1U);
      });
    });
    EXPECT_TRUE(map.erase(10));
    EXPECT_TRUE(map.insert(10, tracked(book, 2)));
    EXPECT_FALSE(map.insert_or_assign(10, tracked(book, 3)));
    put_and_take(map, book, 100, 50);
    EXPECT_FALSE(map.domain().drain()) << "the reader holds one at least";
    reader.release();
    EXPECT_TRUE(map.domain().drain());
  }
  book.expect_empty();
}

/// Looks at the map that it was in when it ends.
template <template <class, class> class Map>
struct curious {
  explicit curious(const Map<int, curious>* m) : map(m) {}
  curious(const curious&) = default;
  curious& operator=(const curious&) = default;
  ~curious() {
    if (map != nullptr) map->contains(1);
  }
  const Map<int, curious>* map;
};
template <class Key, class Value>
using curious_tree = abtree<Key, Value>;
template <class Key, class Value>
using curious_list = spolia::list<Key, Value>;

template <template <class, class> class Map>
void end_values_that_look() {
  Map<int, curious<Map>> map;
  auto& home = map.domain();
  alarm(120);
  for (int i = 0; i < 2000; ++i) {
    map.insert(i % 7, curious<Map>(&map));
    map.erase(i % 5);
  }
  EXPECT_TRUE(home.drain());
  alarm(0);
  for (int k = 0; k < 7; ++k) map.erase(k);
  EXPECT_TRUE(home.drain());
}

TEST(users_synchronous_waiting_in_destructors, a_value_may_use_its_map_when_it_ends) {
  end_values_that_look<curious_tree>();
  end_values_that_look<curious_list>();
}

TEST(users_synchronous_waiting_in_destructors, drains_on_many_threads_do_not_block_each_other) {
  ledger book;
  abtree<int, tracked> map;
  alarm(120);
  std::vector<std::thread> all;
  for (int t = 0; t < 4; ++t) {
    all.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        put_and_take(map, book, 100 * t, 5);
        map.domain().drain();
      }
    });
  }
  for (std::thread& t : all) t.join();
  alarm(0);
  EXPECT_TRUE(map.domain().drain());
  book.expect_empty();
}

// ---- fork --------------------------------------------------------------------------------------

template <class Map>
class users_fork : public testing::Test {};
TYPED_TEST_SUITE(users_fork, all_maps);

TYPED_TEST(users_fork, a_child_goes_on_though_a_reader_vanished) {
  ledger book;
  TypeParam map;
  map.insert(5, tracked(book, 7));
  parked_thread reader(
      [&](parking_spot& spot) { map.visit(5, [&](const tracked&) { spot.park(); }); });
  EXPECT_EQ(status_of_child([&] {
              EXPECT_TRUE(map.visit(5, [](const tracked& v) { EXPECT_EQ(v.read(), 7U); }));
              ledger own;
              put_and_take(map, own, 100, 100);
              map.domain().drain();
              EXPECT_EQ(own.live(), 0) << "a thread that is gone holds them up";
            }),
            0);
  reader.release();
  EXPECT_TRUE(map.contains(5)) << "the child's doings are not the parent's";
}

/// Threads that update a map while this lives, or until stop().
template <class Map>
class updaters {
 public:
  updaters(Map& map, ledger& book, int threads) {
    for (int t = 0; t < threads; ++t) {
      all_.emplace_back([&, this] {
        while (!over_.load()) put_and_take(map, book, 0, 20);
      });
    }
  }
  ~updaters() { stop(); }
  void stop() {
    over_ = true;
    for (std::thread& t : all_) t.join();
    all_.clear();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> all_;
};

template <class Map>
class users_fork_amid_updates : public testing::Test {};
TYPED_TEST_SUITE(users_fork_amid_updates, lock_free_maps);

TYPED_TEST(users_fork_amid_updates, a_child_goes_on_whatever_the_others_were_doing) {
  ledger book;
  TypeParam map;
  updaters others(map, book, 2);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(status_of_child([&] {
                ledger own;
                put_and_take(map, own, 0, 200);
                for (int k = 20; k < 200; ++k) EXPECT_FALSE(map.contains(k));
              }),
              0);
  }
  others.stop();
  EXPECT_TRUE(map.domain().drain());
  EXPECT_EQ(book.live(), 0);
}

TEST(users_fork_and_exec, another_program_starts_from_amid_updates) {
  ledger book;
  abtree<int, tracked> map;
  const updaters other(map, book, 1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(status_of_child([] {
                execl("/bin/true", "true", static_cast<char*>(nullptr));
                ADD_FAILURE() << "no exec";
              }),
              0);
  }
}

}  // namespace
