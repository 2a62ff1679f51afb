// SPDX-License-Identifier: Apache-2.0
// The containers over counted pointers: each over ours of both families, and over the standard's.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <spolia/map.hpp>
#include <spolia/memory.hpp>

#include "support/elsewhere.hpp"
#include "support/faults.hpp"
#include "support/few_types.hpp"
#include "support/history.hpp"
#include "support/ledger.hpp"
#include "support/linearizability.hpp"
#include "support/parked_thread.hpp"
#include "support/recorded_operation.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using booked = spolia::test::tracked;

/// std::shared_ptr, and std::atomic of it.
struct standard_family {
  template <class T>
  using pointer = std::shared_ptr<T>;
  template <class T>
  using location = std::atomic<std::shared_ptr<T>>;
  template <class T>
  using view = std::shared_ptr<T>;
  struct quiet {};

  template <class T, class... Args>
  static pointer<T> make(Args&&... args) {
    return std::make_shared<T>(std::forward<Args>(args)...);
  }
  template <class T>
  static view<T> look(const location<T>& from) {
    return from.load();
  }
  template <class T>
  static void step(view<T>& at, const location<T>& to) {
    at = to.load();
  }
  template <class To, class From>
  static view<To> onward(view<From>&& /*at*/, const location<To>& to) {
    return to.load();
  }
  template <class T>
  static pointer<T> load(const location<T>& from) {
    return from.load();
  }
  template <class T>
  static void set(location<T>& to, pointer<T> p) {
    to.store(std::move(p));
  }
};

/// A container without its key and value, over a family.
template <class F>
struct hash_over {
  template <class K, class V>
  using of = counted_hash<K, V, F>;
};
template <class F>
struct bst_over {
  template <class K, class V>
  using of = counted_bst<K, V, F>;
};
template <class F>
struct tree_over {
  template <class K, class V>
  using of = counted_tree<K, V, F>;
};
template <class F>
struct btree_over {
  template <class K, class V>
  using of = counted_btree<K, V, F>;
};

template <class F>
struct locked_btree_over {
  template <class K, class V>
  using of = counted_btree_locked<K, V, F>;
};

template <class Subject>
class counted_maps : public testing::Test {
 public:
  ~counted_maps() override { EXPECT_TRUE(counted::drain()); }
};

// Not the standard's pointers under a sanitizer: of the containers it hears with ours, and the race
// detector finds fault with libstdc++ 12: github.com/google/sanitizers, issue 1558.
#if SPOLIA_ASAN || SPOLIA_TSAN
using subjects = types<5, hash_over<thin_family>, bst_over<shared_family>, btree_over<thin_family>,
                       tree_over<thin_family>, locked_btree_over<thin_family>,
                       hash_over<shared_family>, bst_over<thin_family>, btree_over<shared_family>>;
#else
using subjects =
    types<5, hash_over<thin_family>, bst_over<shared_family>, btree_over<thin_family>,
          tree_over<thin_family>, locked_btree_over<thin_family>, hash_over<shared_family>,
          bst_over<thin_family>, btree_over<shared_family>, hash_over<standard_family>,
          bst_over<standard_family>, btree_over<standard_family>, tree_over<standard_family>,
          locked_btree_over<standard_family>>;
#endif
TYPED_TEST_SUITE(counted_maps, subjects);

template <class Value, class Map>
void expect_answers_like_std_map(Map& m, const std::function<Value(std::uint64_t)>& value_of) {
  std::map<std::uint64_t, Value> model;
  rng random(seed_for(0));
  for (int i = 0; i < 6000; ++i) {
    // Grows, then shrinks, then is about empty.
    const std::uint64_t key = random.below(900);
    const Value value = value_of(random.below(1000));
    const std::uint64_t kind = random.below(8);
    if (kind < (i < 3000 ? 4U : 1U)) {
      ASSERT_EQ(m.insert(key, value), model.emplace(key, value).second);
    } else if (kind == 4) {
      ASSERT_EQ(m.insert_or_assign(key, value), model.insert_or_assign(key, value).second);
    } else if (kind < 7) {
      ASSERT_EQ(m.erase(key), model.erase(key) == 1);
    } else {
      const auto at = model.find(key);
      ASSERT_EQ(m.find(key), at == model.end() ? std::nullopt : std::optional(at->second));
      ASSERT_EQ(m.contains(key), at != model.end());
    }
    ASSERT_EQ(m.size_approx(), model.size());
  }
  for (const auto& [key, value] : model) ASSERT_EQ(m.find(key), value);
  for (std::uint64_t key = 0; key < 900; ++key) ASSERT_EQ(m.erase(key), model.erase(key) == 1);
  EXPECT_TRUE(m.empty_approx());
  EXPECT_TRUE(m.insert(5, value_of(5)));
}
TYPED_TEST(counted_maps, answers_like_std_map) {
  typename TypeParam::template of<std::uint64_t, std::string> strings;
  expect_answers_like_std_map<std::string>(strings, [](auto n) { return std::to_string(n); });
  // What is taken out need not end at once.
  typename TypeParam::template of<std::uint64_t, int> numbers;
  expect_answers_like_std_map<int>(numbers, [](auto n) { return static_cast<int>(n); });
}

/// Values that are taken out of a place, or replaced there, end although nothing else happens.
TYPED_TEST(counted_maps, values_end_soon_after_they_are_taken_out) {
  ledger book;
  {
    typename TypeParam::template of<int, std::shared_ptr<booked>> m;
    for (int i = 0; i < 100; ++i) m.insert(i, std::make_shared<booked>(book, 1));
    for (int i = 0; i < 100; i += 3) m.erase(i);
    for (int i = 1; i < 100; i += 3) m.insert_or_assign(i, std::make_shared<booked>(book, 2));
    EXPECT_TRUE(counted::drain());
    EXPECT_EQ(book.live(), static_cast<std::int64_t>(m.size_approx()));
  }
  EXPECT_TRUE(counted::drain());
  book.expect_empty();
}

/// Enough for a second level of inner nodes, in an order that is hard on each.
TYPED_TEST(counted_maps, many_keys) {
  constexpr std::uint64_t many = tries(20000);
  typename TypeParam::template of<std::uint64_t, std::uint64_t> m;
  for (std::uint64_t i = 0; i < many; ++i) ASSERT_TRUE(m.insert(i * 7919 % many, i));
  for (std::uint64_t i = 0; i < many; ++i) ASSERT_EQ(m.find(i * 7919 % many), i);
  for (std::uint64_t i = 0; i < many; ++i) ASSERT_TRUE(m.erase(i));
  EXPECT_TRUE(m.empty_approx());
}

TYPED_TEST(counted_maps, everything_ends) {
  ledger book;
  {
    typename TypeParam::template of<int, std::shared_ptr<booked>> m;
    for (int i = 0; i < 3000; ++i) {
      m.insert_or_assign(i % 700, std::make_shared<booked>(book, 1));
      if (i % 3 == 0) m.erase(i * 5 % 700);
    }
    EXPECT_GE(book.live(), static_cast<std::int64_t>(m.size_approx()));
  }
  EXPECT_TRUE(counted::drain());
  book.expect_empty();
}

TYPED_TEST(counted_maps, histories_are_linearizable) {
  typename TypeParam::template of<std::uint64_t, std::uint64_t> m;
  constexpr unsigned threads = 3;
  constexpr std::size_t each = 1500;
  map_recorder record(threads, each);
  run_stress({.threads = threads, .share = 0.2}, [&](stress_thread& self) {
    auto& lane = record.of(self.index());
    for (std::size_t i = 0; i < each; ++i) {
      const std::uint64_t key = self.random().below(40);
      operate(m, lane, self.random(), key, self.index() * each + i);
    }
  });
  EXPECT_TRUE(accepted(check_map(record.events())));
}

/// Readers look at values whose book says whether they are alive.
TYPED_TEST(counted_maps, values_stay_while_they_are_visited) {
  ledger book;
  {
    typename TypeParam::template of<std::uint64_t, booked> m;
    run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
      while (self.running()) {
        const std::uint64_t key = self.random().below(500);
        if (self.index() < 2) {
          m.visit(key, [&](const booked& t) { ASSERT_EQ(t.read(), key); });
        } else if (self.random().chance(1, 2)) {
          m.insert_or_assign(key, booked(book, key));
        } else {
          m.erase(key);
        }
      }
    });
  }
  EXPECT_TRUE(counted::drain());
  book.expect_empty();
}

TYPED_TEST(counted_maps, failing_allocations_change_nothing) {
  for (const std::uint64_t key : {0U, 31U, 200U, 1000U}) {
    typename TypeParam::template of<std::uint64_t, std::uint64_t> m;
    for (std::uint64_t i = 0; i < 32 * 8; ++i) m.insert(i, i);
    const std::size_t before = m.size_approx();
    const bool there = m.contains(key);
    for_each_allocation_failure([&] {
      try {
        m.insert_or_assign(key, 7);
        m.erase(key);
      } catch (const std::bad_alloc&) {
        EXPECT_TRUE(!m.contains(key) || m.find(key) == 7U || m.find(key) == key);
        throw;
      }
    });
    EXPECT_FALSE(m.contains(key));
    EXPECT_EQ(m.size_approx(), before - (there ? 1 : 0));
  }
}

/// Its copies are made while a writer has its turn, or is about to have it.
struct parks {
  static inline thread_local parking_spot* at = nullptr;
  parks() = default;
  parks(const parks&) {
    if (at != nullptr) at->park();
  }
  parks& operator=(const parks&) = delete;
};

/// For the child of a fork in which a writer was lost that was about to insert 7. As many others
/// as a hash map has parts write, too.
template <class Map>
void expect_usable(Map& m) {
  for (int key = 0; key < 200; ++key) EXPECT_EQ(m.insert(key, {}), key != 1);
  EXPECT_LE(m.size_approx(), 201U);  // the lost one's pair may be counted
  for (int key = 0; key < 200; ++key) EXPECT_TRUE(m.erase(key));
  EXPECT_FALSE(m.contains(7));
  EXPECT_LE(m.size_approx(), 1U);
}

TYPED_TEST(counted_maps, a_forked_child_writes_where_a_writer_was_lost) {
  typename TypeParam::template of<int, parks> m;
  m.insert(1, {});
  parked_thread writer([&](parking_spot& spot) {
    parks::at = &spot;
    EXPECT_TRUE(m.insert(7, {}));
  });
  EXPECT_EQ(status_of_child([&] { expect_usable(m); }), 0);
  // And so does a child's child.
  EXPECT_EQ(status_of_child([&] { EXPECT_EQ(status_of_child([&] { expect_usable(m); }), 0); }), 0);
  writer.release();
  EXPECT_EQ(m.size_approx(), 2U);
}

/// Parks where the link to a leaf's lower half is going to be set.
struct parking_family : thin_family {
  template <class T>
  static void set(atomic_thin_ptr<T>& to, thin_ptr<T> p) {
    if (parks::at != nullptr) parks::at->park();
    thin_family::set<T>(to, std::move(p));
  }
};

template <class Map>
void expect_usable_where_a_division_was_lost() {
  Map m;
  for (int key = 0; key < 64; key += 2) m.insert(key, key);
  const auto expect_right = [&m] {
    // The upper half hangs below the node, and still stands in the leaf; soon there is more of it
    // there than of what belongs there.
    for (int key = 32; key < 64; key += 2) EXPECT_TRUE(m.erase(key));
    for (int key = 0; key < 8; key += 2) EXPECT_TRUE(m.erase(key));
    for (int key = 1; key < 32; key += 2) m.insert(key, key);
    for (int key = 0; key < 64; ++key)
      EXPECT_EQ(m.contains(key), key < 32 && (key % 2 == 1 || key >= 8)) << key;
  };
  parked_thread writer([&](parking_spot& spot) {
    parks::at = &spot;
    EXPECT_TRUE(m.insert(1, 1));
  });
  EXPECT_EQ(status_of_child(expect_right), 0);
  writer.release();
  EXPECT_EQ(m.size_approx(), 33U);
  expect_right();
  EXPECT_TRUE(counted::drain());
}
TEST(counted_btree, a_forked_child_where_a_leaf_was_being_divided) {
  expect_usable_where_a_division_was_lost<counted_btree<int, int, parking_family>>();
  expect_usable_where_a_division_was_lost<counted_btree_locked<int, int, parking_family>>();
}

/// Values that change the map as they end: they do so after the update that has taken them out.
struct acts_at_end {
  const std::function<void()>* act;
  ~acts_at_end() {
    if (act != nullptr) (*act)();
  }
};
template <class Map>
void expect_values_to_act_after_updates() {
  Map* of = nullptr;
  const std::function<void()> act = [&of] {
    if (of != nullptr && !of->erase(7)) of->insert(7, acts_at_end{nullptr});
  };
  {
    Map m;
    of = &m;
    for (int i = 0; i < 20'000; ++i) {
      m.insert_or_assign(i % 7, acts_at_end{&act});
      if (i % 5 == 0) m.erase(i * 3 % 7);
    }
    EXPECT_TRUE(counted::drain());
    of = nullptr;
  }
  EXPECT_TRUE(counted::drain());
}
TEST(counted_maps_with_acts, run_them_without_a_lock) {
  expect_values_to_act_after_updates<counted_tree<int, acts_at_end>>();
  expect_values_to_act_after_updates<counted_hash<int, acts_at_end>>();
}

// ---- locks of nodes

/// Calls what it is told to as it compares with that key.
struct watched_order {
  static constexpr int none = (std::numeric_limits<int>::min)();
  static inline thread_local int key = none;
  static inline thread_local std::function<void()> then;
  bool operator()(int a, int b) const {
    if (a == key || b == key) {
      key = none;
      then();
    }
    return a < b;
  }
};
void at_comparison_with(int key, std::function<void()> then) {
  watched_order::then = std::move(then);
  watched_order::key = key;
}

/// f() on another thread: whether it has ended while `holder` was parked.
template <class F>
bool ends_beside(parked_thread& holder, const F& f) {
  std::atomic<bool> over = false;
  std::thread other([&] {
    f();
    // relaxed: it says nothing about the map.
    over.store(true, std::memory_order_relaxed);
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!over.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const bool was_over = over.load(std::memory_order_relaxed);
  holder.release();
  other.join();
  return was_over;
}

/// What tells its locks from one lock: a writer that is stopped has its nodes, and no others.
TEST(counted_tree, a_writer_that_stops_holds_up_neither_readers_nor_writers_elsewhere) {
  counted_tree<int, parks> m;
  for (int key : {8, 4, 12, 2, 6, 10, 14}) m.insert(key, {});
  parked_thread writer([&](parking_spot& spot) {
    parks::at = &spot;
    EXPECT_TRUE(m.erase(4));  // copies 6, while 8, 4 and 6 are locked
    parks::at = nullptr;
  });
  EXPECT_TRUE(ends_beside(writer, [&] {
    for (int key : {2, 4, 6, 8, 10, 12, 14}) EXPECT_TRUE(m.contains(key));
    EXPECT_TRUE(m.erase(10));
    for (int key : {1, 3, 9, 11, 13}) EXPECT_TRUE(m.insert(key, {}));
    EXPECT_FALSE(m.insert_or_assign(14, {}));
    EXPECT_EQ(m.last()->first, 14);
  }));
  EXPECT_EQ(m.size_approx(), 10U);
}

/// The one that stops has a leaf; the others divide theirs, and replace the node above.
TEST(counted_btree_locked, a_writer_that_stops_holds_up_neither_readers_nor_writers_elsewhere) {
  constexpr int end = 2000;
  counted_btree_locked<int, parks> m;
  for (int key = 0; key <= end; key += 2) m.insert(key, {});
  parked_thread writer([&](parking_spot& spot) {
    parks::at = &spot;
    EXPECT_TRUE(m.insert(end + 1, {}));
    parks::at = nullptr;
  });
  EXPECT_TRUE(ends_beside(writer, [&] {
    for (int key = 0; key <= end; key += 2) EXPECT_TRUE(m.contains(key));
    for (int key = 1; key < end - 100; key += 2) EXPECT_TRUE(m.insert(key, {}));
    for (int key = 0; key < end - 100; ++key) EXPECT_TRUE(m.erase(key));
    EXPECT_EQ(m.first()->first, end - 100);
    EXPECT_EQ(m.last()->first, end);
  }));
  EXPECT_EQ(m.size_approx(), 52U);
}

/// However long a thread is stopped, it holds up what it looks at, and not what was taken out after
/// that: keys ascend, and the lowest goes, or descend, and the highest goes. In a tree each node
/// has hung below the one before it; in a B tree nodes are replaced that led to all leaves.
template <template <class...> class Map, int Many, class Stop>
void expect_few_held_up(std::int64_t least, std::int64_t most, const Stop& stop_at_first,
                        int sign = 1) {
  ledger book;
  {
    Map<int, booked, thin_family, watched_order> m;
    const auto held_up = [&] {
      static_cast<void>(counted::drain());
      return book.live() - static_cast<std::int64_t>(m.size_approx());
    };
    for (int key = 0; key < Many; ++key) m.insert(sign * key, booked(book, 1));
    parked_thread stopped([&](parking_spot& spot) { stop_at_first(m, spot); });
    for (int key = Many; key < 200 + 2 * Many; ++key) {
      m.insert(sign * key, booked(book, 1));
      EXPECT_TRUE(m.erase(sign * (key - Many)));
    }
    EXPECT_GE(held_up(), least);
    EXPECT_LE(held_up(), most);
    stopped.release();
    EXPECT_EQ(held_up(), 0);
  }
  EXPECT_TRUE(counted::drain());
  book.expect_empty();
}
template <template <class...> class Map, int Many>
void expect_few_held_up_anywhere(std::int64_t most_in_look, std::int64_t least_on_way,
                                 std::int64_t most_on_way) {
  for (const int sign : {1, -1}) {
    const auto visit = [sign](auto& m, parking_spot& spot) {
      EXPECT_TRUE(m.visit(sign * 2, [&](const booked&) { spot.park(); }));
    };
    expect_few_held_up<Map, Many>(1, most_in_look, visit, sign);
  }
  expect_few_held_up<Map, Many>(least_on_way, most_on_way, [](auto& m, parking_spot& spot) {
    at_comparison_with(3, [&] { spot.park(); });
    EXPECT_FALSE(m.erase(3));  // by then it is gone
  });
  expect_few_held_up<Map, Many>(least_on_way, most_on_way, [](auto& m, parking_spot& spot) {
    at_comparison_with(3, [&] { spot.park(); });
    EXPECT_TRUE(m.upper_bound(3).has_value());
  });
}
TEST(counted_tree, a_stalled_thread_holds_up_what_it_looks_at_alone) {
  expect_few_held_up_anywhere<counted_tree, 8>(2, 1, 4);
}
/// A leaf, and a node that leads to none.
TEST(counted_btree_locked, a_stalled_thread_holds_up_what_it_looks_at_alone) {
  expect_few_held_up_anywhere<counted_btree_locked, 1000>(32, 0, 32);
}

/// The same where a node with two children goes, and that on the way to the next key is copied.
TEST(counted_tree, a_stalled_thread_does_not_hold_up_what_hung_below_two_children) {
  for (const int stalled : {8, 12}) {
    ledger book;
    counted_tree<int, booked, thin_family, watched_order> m;
    const std::vector<int> keys = {8, 4, 12, 2, 6, 10, 14};
    for (const int key : keys) m.insert(key, booked(book, 1));
    parked_thread reader([&](parking_spot& spot) {
      EXPECT_TRUE(m.visit(stalled, [&](const booked&) { spot.park(); }));
    });
    for (const int key : keys) EXPECT_TRUE(m.erase(key));
    static_cast<void>(counted::drain());
    EXPECT_GE(book.live(), 1);
    EXPECT_LE(book.live(), 2);
    reader.release();
    EXPECT_TRUE(counted::drain());
    book.expect_empty();
  }
}

/// Parks before a link is set, or after it.
template <bool After>
struct parking_at_link : thin_family {
  template <class T>
  static void set(atomic_thin_ptr<T>& to, thin_ptr<T> p) {
    if (!After && parks::at != nullptr) parks::at->park();
    thin_family::set<T>(to, std::move(p));
    if (After && parks::at != nullptr) parks::at->park();
  }
};
template <bool After>
void expect_usable_where_an_erasure_was_lost() {
  counted_tree<int, int, parking_at_link<After>> m;
  for (int key : {8, 4, 12, 2, 6, 5, 10, 14}) m.insert(key, key);
  parked_thread writer([&](parking_spot& spot) {
    parks::at = &spot;
    EXPECT_TRUE(m.erase(4));
  });
  EXPECT_EQ(status_of_child([&] {
              for (int key : {2, 5, 6, 8, 10, 12, 14}) EXPECT_EQ(m.find(key), key);
              EXPECT_EQ(m.contains(4), !After);
              for (int key = 0; key < 16; ++key) m.insert(key, key);
              for (int key = 0; key < 16; ++key) EXPECT_TRUE(m.erase(key)) << key;
              EXPECT_FALSE(m.first().has_value());
            }),
            0);
  writer.release();
  EXPECT_EQ(m.size_approx(), 7U);
}
TEST(counted_tree, a_forked_child_where_an_insertion_was_under_way) {
  counted_tree<int, int, parking_at_link<true>> m;
  m.insert(1, 1);
  parked_thread writer([&](parking_spot& spot) {
    parks::at = &spot;
    EXPECT_TRUE(m.insert(2, 2));
  });
  EXPECT_EQ(status_of_child([&] {
              EXPECT_EQ(m.find(2), 2);
              EXPECT_GE(m.size_approx(), 2U) << "rather a pair too many";
            }),
            0);
  writer.release();
}
TEST(counted_tree, a_forked_child_where_an_erasure_was_under_way) {
  expect_usable_where_an_erasure_was_lost<false>();
  expect_usable_where_an_erasure_was_lost<true>();
}

/// While a thread stands at a node, another one takes that out: what hangs below it hangs elsewhere
/// by then, and must be found, whichever way the thread goes on.
TEST(counted_tree, what_hung_below_a_node_that_was_just_taken_out_is_there) {
  using map = counted_tree<int, int, parking_at_link<true>, watched_order>;
  for (const int sign : {1, -1}) {
    const int lowest = 3 * sign;
    using look = std::function<bool(map&)>;
    const std::vector<look> looks = {[&](map& m) { return m.contains(lowest); },
                                     [&](map& m) { return m.lower_bound(lowest)->first == lowest; },
                                     [&](map& m) { return m.last_upto(lowest)->first == lowest; },
                                     [&](map& m) { return !m.insert(lowest, 1); },
                                     [&](map& m) { return !m.insert_or_assign(lowest, 1); },
                                     [&](map& m) { return m.erase(lowest); }};
    for (std::size_t i = 0; i < looks.size(); ++i) {
      map m;
      for (const int key : {1, 2, 3}) m.insert(sign * key, 0);
      at_comparison_with(2 * sign, [&] { std::thread([&] { m.erase(2 * sign); }).join(); });
      EXPECT_TRUE(looks[i](m)) << i << " of " << sign;
      EXPECT_FALSE(m.contains(2 * sign));
    }
  }
}

/// Whatever fails: also where the thread's log is full, and where a way is copied.
TEST(counted_tree, an_update_that_fails_is_not_counted) {
  counted_tree<int, int, parking_at_link<true>, watched_order> m;
  std::uint64_t failures = 0;
  const auto fails_at_first = [&](const auto& change) {
    const std::size_t before = m.size_approx();
    for (std::uint64_t n = 1;; ++n) {
      try {
        const fail_after nth(n);
        EXPECT_TRUE(change());
        return;
      } catch (const std::bad_alloc&) {
        ++failures;
      }
      EXPECT_EQ(m.size_approx(), before);
    }
  };
  for (int key : {4, 2, 8, 6, 7}) fails_at_first([&] { return m.insert(key, key); });
  fails_at_first([&] { return m.erase(4); });
  EXPECT_GE(failures, 1U);
  failures = 0;
  for (int i = 0; i < 600; ++i) {
    fails_at_first([&] { return m.erase(7); });
    fails_at_first([&] { return m.insert(7, i); });
  }
  EXPECT_GE(failures, 2U) << "the log was never full";
  EXPECT_EQ(m.size_approx(), 4U);
}

/// The thread that forks stands at a node, in the midst of an insertion below it, that another
/// thread has taken out and still had the lock of.
template <class Map, class Change, class Check>
void expect_child_goes_on(Map& m, int watched, int inserted, const Change& change,
                          const Check& check) {
  bool in_child = false;
  int status = -1;
  at_comparison_with(watched, [&] {
    auto writer = std::make_unique<parked_thread>([&](parking_spot& spot) {
      parks::at = &spot;
      change();
    });
    const pid_t child = fork();
    in_child = child == 0;
    if (in_child) {
      alarm(120);
      static_cast<void>(writer.release());  // its thread is not here
    } else {
      EXPECT_EQ(waitpid(child, &status, 0), child);
    }
  });
  EXPECT_TRUE(m.insert(inserted, 4));
  EXPECT_EQ(m.find(inserted), 4);
  check();
  if (in_child) _exit(testing::Test::HasFailure() ? 1 : 0);
  EXPECT_EQ(status, 0);
}
TEST(counted_tree, a_forked_child_goes_on_below_a_node_that_was_just_taken_out) {
  counted_tree<int, int, parking_at_link<true>, watched_order> m;
  for (int key : {1, 2, 3}) m.insert(key, key);
  expect_child_goes_on(
      m, 3, 4, [&] { EXPECT_TRUE(m.erase(3)); }, [&] { EXPECT_FALSE(m.contains(3)); });
}

/// Counts links to inner nodes that are set, and parks after that.
struct parking_at_inner : thin_family {
  static inline thread_local int inners = 0;
  template <class T>
  static void set(atomic_thin_ptr<T>& to, thin_ptr<T> p) {
    thin_family::set<T>(to, std::move(p));
    if constexpr (requires(T& t) { t.over_inners(); }) {
      ++inners;
      if (parks::at != nullptr) parks::at->park();
    }
  }
};
/// The root has no room for the next leaf, and is replaced with the last leaf below it.
TEST(counted_btree_locked, a_forked_child_goes_on_below_a_node_that_was_just_taken_out) {
  using map = counted_btree_locked<int, int, parking_at_inner, watched_order>;
  int last = 0;
  parking_at_inner::inners = 0;
  for (map tried; parking_at_inner::inners == 0; ++last) tried.insert(last, last);
  --last;
  map m;
  for (int key = 0; key < last; ++key) m.insert(key, key);
  expect_child_goes_on(
      m, 1'000'000, 1'000'000, [&] { EXPECT_TRUE(m.insert(last, last)); },
      [&] {
        for (int key = 0; key <= last; ++key) EXPECT_EQ(m.find(key), key);
      });
}

/// The thread that forks has its turn in the child, too.
TYPED_TEST(counted_maps, a_writer_that_forks_keeps_its_turn) {
  if (SPOLIA_TSAN) GTEST_SKIP() << "the race detector forbids new threads in a forked child";
  struct forks {
    forks() = default;
    forks(const forks& r) : act(r.act) {
      if (act) act();
    }
    forks& operator=(const forks&) = delete;
    std::function<void()> act;
  };
  typename TypeParam::template of<int, forks> m;
  m.insert(7, {});
  std::atomic<int> done = 0;
  forks in_turn;
  in_turn.act = [&] {
    if (done.fetch_add(1, std::memory_order_relaxed) != 0) return;
    EXPECT_EQ(status_of_child([&] {
                std::atomic<bool> waits = false;
                std::atomic<bool> wrote = false;
                std::thread other([&] {
                  waits.store(true, std::memory_order_relaxed);
                  EXPECT_FALSE(m.insert_or_assign(7, {}));
                  wrote.store(true, std::memory_order_relaxed);
                });
                while (!waits.load(std::memory_order_relaxed)) std::this_thread::yield();
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                EXPECT_FALSE(wrote.load(std::memory_order_relaxed)) << "it took the turn";
                other.detach();
              }),
              0);
  };
  EXPECT_FALSE(m.insert_or_assign(7, in_turn));  // an insertion may copy before its turn
}

/// Tables that grow and get back to what they were, under the eyes of look-ups.
TEST(counted_hash, what_stays_is_found_while_tables_come_and_go) {
  constexpr int stay = 1000;
  constexpr int come = sanitized ? 10'000 : 40'000;
  counted_hash<int, int> map;
  for (int key = 0; key < stay; ++key) map.insert(key, key);
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    // relaxed: it says nothing about the map.
    while (!stop.load(std::memory_order_relaxed)) {
      for (int key = 0; key < stay; ++key) ASSERT_EQ(map.find(key), key);
    }
  });
  for (int round = 0; round < 4; ++round) {
    for (int key = stay; key < come; ++key) map.insert(key, key);
    for (int key = stay; key < come; ++key) ASSERT_TRUE(map.erase(key));
    round % 2 == 0 ? map.shrink() : map.reserve(come);
  }
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(map.size_approx(), std::size_t{stay});
}

TEST(counted_hash, room_that_is_not_to_be_had_loses_nothing) {
  counted_hash<int, int> map;
  for (int key = 0; key < 1000; ++key) map.insert(key, key);
  EXPECT_THROW(map.reserve((std::size_t{1} << 40U) + 1), std::length_error);
  int thrown = 0;
  for (std::uint64_t n = 1; n < 20; ++n) {
    const fail_after nth(n);
    try {
      n % 4 == 0 ? map.shrink() : map.reserve(1'000'000);
    } catch (const std::bad_alloc&) {
      ++thrown;
    }
  }
  EXPECT_GE(thrown, 1);
  for (int key = 0; key < 1000; ++key) EXPECT_EQ(map.find(key), key);
}

/// Within a second, as long as a thread looks something up.
template <class Map>
std::uint64_t bytes_left_by(int keys) {
  std::vector<int> order(static_cast<std::size_t>(keys));
  std::iota(order.begin(), order.end(), 0);
  const std::uint64_t before = resident_when_trimmed();
  Map map;
  for (int key : order) map.insert(typename Map::value_type(key, key));
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (int key : order) map.erase(key);
  // The time that is promised, and more on a busy machine.
  for (int ms = 0; ms < 5000 && counted::statistics().waiting() != 0; ms += 10) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (int key = 0; key < 256; ++key) EXPECT_EQ(map.find(key), map.end());
  }
  return resident_when_trimmed() - before;
}
/// As the standard's maps take pairs.
template <class Map>
struct with_pairs : Map {
  using value_type = std::pair<int, int>;
  void insert(const value_type& p) { Map::insert(p.first, p.second); }
  static std::nullopt_t end() { return std::nullopt; }
};

TEST(counted_maps_memory, an_emptied_map_keeps_little) {
  if (sanitized) GTEST_SKIP() << "a sanitizer's heap takes more";
  constexpr int keys = 400'000;
  EXPECT_LE((bytes_left_by<with_pairs<counted_hash<int, int>>>(keys)),
            2 * (bytes_left_by<std::unordered_map<int, int>>(keys)));
}

TEST(counted_maps_memory, a_look_at_an_emptied_table_is_short) {
  constexpr int keys = 200'000;
  counted_hash<int, int> map;
  const auto look = [&] {
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      map.for_each([](int, int) { return false; });
      map.for_each([](int, int) {});
      best = std::min(best, std::chrono::steady_clock::now() - begin);
    }
    return best;
  };
  for (int key = 0; key < keys; ++key) map.insert(key, key);
  const auto full = look();
  for (int key = 0; key < keys; ++key) map.erase(key);
  EXPECT_LT(20 * look(), full) << "tables are small again";
}

}  // namespace
