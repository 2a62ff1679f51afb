// SPDX-License-Identifier: Apache-2.0
// Programs that begin a thread for each request, and no thread beside these does more: what waits
// must not grow with them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <spolia/hazard_pointer.hpp>
#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>
#include <spolia/rlu.hpp>
#include <spolia/snapshot.hpp>

#include "support/all_domains.hpp"
#include "support/few_types.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "support/short_lives.hpp"
#include "version/all_collectors.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr int lives = !sanitized ? 1000 : fewer > 4 ? 100 : 400;

/// How many there are of them is counted where they begin and end, and nowhere else.
struct witness {
  witness() { ++live; }
  witness(const witness&) { ++live; }
  witness& operator=(const witness&) = default;
  ~witness() { --live; }

  static inline std::atomic<std::int64_t> live{0};
  std::array<char, 48> weight{};
};

/// After each number of updates there are never more witnesses than `most`.
template <class F>
void expect_at_most(std::int64_t most, F&& update) {
  for (const int each : updates) {
    std::int64_t seen = 0;
    for (int part = 0; part < 10; ++part) {
      live_shortly(lives / 10, each, update);
      seen = std::max(seen, witness::live.load());
    }
    EXPECT_LE(seen, most) << "threads with " << each << " updates each";
  }
}

/// Adopted, in bags, in a queue: what a few threads may have waiting by default, rounded up.
constexpr std::int64_t few_threads = 4096;

template <class Domain>
class short_lives : public testing::Test {};
TYPED_TEST_SUITE(short_lives, few_domains, domain_names);

/// Few enough for what is tried here.
template <class Domain>
typename Domain::options small() {
  typename Domain::options o;
  if constexpr (requires { o.scheme.low; }) {
    o.scheme.low = 512;
    o.scheme.high = 2048;
  }
  return o;
}

TYPED_TEST(short_lives, retire) {
  using domain_type = TypeParam;
  if (!domain_type::info().reclaims) GTEST_SKIP() << "never frees";
  struct block : domain_type::header {
    witness w;
  };
  domain_type d(small<domain_type>());
  expect_at_most(few_threads, [&](int) {
    auto* const b = d.template make<block>();
    auto guard = d.enter();
    guard.retire(b);
  });
}

/// Threads that are there at one time, so each has a number of its own, retire `each` blocks, and
/// end.
template <class Domain>
void let_a_crowd_retire(Domain& d, int crowd, int each) {
  struct block : Domain::header {
    witness w;
  };
  std::atomic<int> here{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < crowd; ++t) {
    threads.emplace_back([&] {
      {
        auto guard = d.enter();
      }
      ++here;
      while (here != crowd) std::this_thread::yield();
      for (int i = 0; i < each; ++i) {
        auto* const b = d.template make<block>();
        auto guard = d.enter();
        guard.retire(b);
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

/// What many threads at once have left is taken over by threads that retire nothing and run few
/// operations each.
TYPED_TEST(short_lives, take_over_from_a_crowd) {
  if (!TypeParam::info().reclaims) GTEST_SKIP() << "never frees";
  constexpr int crowd = 12;
  TypeParam d(small<TypeParam>());
  let_a_crowd_retire(d, crowd, 200);
  // A thread looks at another cell once in 1024 operations, and takes over at the second look.
  live_shortly(3 * crowd * 1024 / 40, 40, [&](int) { auto guard = d.enter(); });
  EXPECT_LE(witness::live, 1200) << "of " << crowd * 200;
}

/// The same by threads of one operation each: what one of them has taken over and not freed is
/// handed on until it is less than what threads are asked to look for.
TYPED_TEST(short_lives, hand_on_what_they_took_over) {
  if (!TypeParam::info().reclaims) GTEST_SKIP() << "never frees";
  constexpr int crowd = 12;
  TypeParam d(small<TypeParam>());
  let_a_crowd_retire(d, crowd, 500);
  // Schemes that set their own pace need thousands. Each cell in turn is looked at twice in 24 000.
  for (int n = 0; n < 8000 && witness::live > 1200; n += 100) {
    live_shortly(100, 1, [&](int) { auto guard = d.enter(); });
  }
  EXPECT_LE(witness::live, 1200) << "of " << crowd * 500;
}

/// The blocks of many are taken over, a few threads' at a time, long before each has been looked at
/// in turn.
TYPED_TEST(short_lives, take_over_from_a_large_crowd) {
  if (!TypeParam::info().reclaims) GTEST_SKIP() << "never frees";
  constexpr int crowd = 64;
  TypeParam d(small<TypeParam>());
  let_a_crowd_retire(d, crowd, 40);
  for (int i = 0; i < 8 * 1024; ++i) auto guard = d.enter();
  EXPECT_LE(witness::live, 1000) << "of " << crowd * 40;
}

/// Threads that only read, one after the other, each long enough to take over what the one that
/// retires has waiting while it does nothing. After each of them it retires a thousand blocks.
template <class Read, class Retire>
void expect_few_beside_readers(Read&& read, Retire&& retire) {
  std::int64_t seen = 0;
  for (int n = 0; n < (sanitized ? 8 : 20); ++n) {
    live_shortly(1, 1000, read);
    for (int i = 0; i < 1000; ++i) {
      retire();
      seen = std::max(seen, witness::live.load());
    }
  }
  EXPECT_LE(seen, few_threads);
}

/// The same by one thread that reads in turn with the one that retires, and retires nothing itself.
template <class Read, class Retire>
void expect_few_beside_a_reader(Read&& read, Retire&& retire) {
  constexpr int turns = sanitized ? 8 : 20;
  std::atomic<int> turn{0};  // even: of the reader
  const auto wait_for = [&](int wanted) {
    // acquire ← the release at the end of the other's turn.
    while (turn.load(std::memory_order_acquire) != wanted) std::this_thread::yield();
  };
  std::thread reader([&] {
    for (int n = 0; n < turns; ++n) {
      wait_for(2 * n);
      for (int i = 0; i < 2000; ++i) read(i);
      turn.store(2 * n + 1, std::memory_order_release);  // → wait_for()
    }
  });
  std::int64_t seen = 0;
  for (int n = 0; n < turns; ++n) {
    wait_for(2 * n + 1);
    for (int i = 0; i < 1000; ++i) {
      retire();
      seen = std::max(seen, witness::live.load());
    }
    turn.store(2 * n + 2, std::memory_order_release);  // → wait_for()
  }
  reader.join();
  EXPECT_LE(seen, few_threads);
}

TYPED_TEST(short_lives, read_beside_one_that_retires) {
  if (!TypeParam::info().reclaims) GTEST_SKIP() << "never frees";
  struct block : TypeParam::header {
    witness w;
  };
  TypeParam d(small<TypeParam>());
  const auto read = [&](int) { auto guard = d.enter(); };
  const auto retire = [&] {
    auto* const b = d.template make<block>();
    auto guard = d.enter();
    guard.retire(b);
  };
  expect_few_beside_readers(read, retire);
  expect_few_beside_a_reader(read, retire);
}

template <class Collector>
class short_lives_versions : public testing::Test {};
using collectors = with_every_collector<few_or_all, 2, itself, sl_rt<>, dl_rt<>>;
struct collectors_by_name {
  template <class Collector>
  static std::string GetName(int) {
    return std::string(Collector::info.name);
  }
};
TYPED_TEST_SUITE(short_lives_versions, collectors, collectors_by_name);

TYPED_TEST(short_lives_versions, hash) {
  snapshot_hash<int, witness, TypeParam> map;
  expect_at_most(few_threads, [&](int i) { map.insert_or_assign(i % 500, witness()); });
}
TYPED_TEST(short_lives_versions, tree) {
  snapshot_tree<int, witness, TypeParam> map;
  expect_at_most(few_threads, [&](int i) { map.insert_or_assign(i % 500, witness()); });
}
TYPED_TEST(short_lives_versions, removed_nodes) {
  snapshot_hash<int, witness, TypeParam> map;
  expect_at_most(few_threads, [&](int i) {
    map.erase(i % 50);
    map.insert(i % 50, witness());
  });
}

TEST(short_lives_faces, rcu) {
  struct item : rcu_obj_base<item> {
    witness w;
  };
  expect_at_most(few_threads, [](int) { (new item)->retire(); });
  rcu_barrier();
  EXPECT_EQ(witness::live, 0);
}
TEST(short_lives_faces, hazard_pointer) {
  struct item : hazard_pointer_obj_base<item> {
    witness w;
  };
  expect_at_most(few_threads, [](int) { (new item)->retire(); });
  EXPECT_TRUE(hazard_pointer_clean_up());
  EXPECT_EQ(witness::live, 0);
}

TEST(short_lives_faces, hazard_pointer_beside_one_that_retires) {
  struct item : hazard_pointer_obj_base<item> {
    witness w;
  };
  const auto read = [](int) { const auto h = make_hazard_pointer(); };
  const auto retire = [] { (new item)->retire(); };
  expect_few_beside_readers(read, retire);
  expect_few_beside_a_reader(read, retire);
  EXPECT_TRUE(hazard_pointer_clean_up());
  EXPECT_EQ(witness::live, 0);
}

TEST(short_lives_pointers, counted) {
  {
    atomic_shared_ptr<witness> at(make_shared<witness>());
    expect_at_most(few_threads, [&](int) { at.store(make_shared<witness>()); });
    expect_at_most(few_threads, [&](int) {
      for (int i = 0; i < 20; ++i) const auto seen = at.load();  // fills the thread's count cache
      at.store(make_shared<witness>());
    });
  }
  counted_hash<int, witness> hash;
  expect_at_most(few_threads, [&](int i) { hash.insert_or_assign(i % 500, witness()); });
}

TEST(short_lives_rlu, maps) {
  rlu_hash<int, witness> hash(256);
  expect_at_most(4 * few_threads, [&](int i) { hash.insert_or_assign(i % 500, witness()); });
}

/// By resident memory, since what waits could be counted wrongly everywhere else.
TEST(short_lives_memory, of_a_snapshot_map) {
  if (SPOLIA_ASAN || SPOLIA_TSAN) GTEST_SKIP() << "memory is kept back";
  snapshot_hash<int, int> map;
  const auto update = [&](int i) { map.insert_or_assign(i % 1000, i); };
  live_shortly(1000, 8, update);
  const std::uint64_t before = resident_bytes();
  live_shortly(8000, 8, update);  // 64 000 versions: 7 MB
  EXPECT_LT(resident_bytes() - std::min(before, resident_bytes()), 2U << 20U);
}

// Last, since what may wait grows with the most threads that there were at one time.

/// Threads that use `other` and then sleep, each with a number that another thread had before.
class sleepers {
 public:
  sleepers() = default;
  sleepers(const sleepers&) = delete;
  sleepers& operator=(const sleepers&) = delete;
  ~sleepers() {
    over_.store(true);
    over_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  void one_more() {
    const int before = here_;
    threads_.emplace_back([this] {
      {
        auto guard = other_.enter();
      }
      ++here_;
      here_.notify_all();
      over_.wait(false);
    });
    here_.wait(before);
  }

 private:
  domain<token> other_;
  std::atomic<int> here_{0};
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

/// The most witnesses after any of 100 threads that call update(i) for `each` numbers. Each has a
/// thread number of its own: an unrelated thread has it from then on. So whatever is kept with a
/// number, in place of with the structure, is of no use to the next thread.
template <class F>
std::int64_t most_when_numbers_are_used_once(int each, F&& update) {
  // What other tests have left to the process's collectors is not counted.
  EXPECT_TRUE(counted::drain());
  rcu_barrier();
  EXPECT_TRUE(hazard_pointer_clean_up());
  sleepers others;
  std::int64_t most = 0;
  for (int life = 0; life < 100; ++life) {
    live_shortly(1, each, update);
    others.one_more();
    most = std::max(most, witness::live.load());
  }
  return most;
}

template <class Domain>
class short_lives_numbers : public testing::Test {};
TYPED_TEST_SUITE(short_lives_numbers, few_domains, domain_names);

TYPED_TEST(short_lives_numbers, used_once) {
  using domain_type = TypeParam;
  if (!domain_type::info().reclaims) GTEST_SKIP() << "never frees";
  struct block : domain_type::header {
    witness w;
  };
  for (const int each : {150, 900}) {
    domain_type d(small<domain_type>());
    const std::int64_t seen = most_when_numbers_are_used_once(each, [&](int) {
      auto* const b = d.template make<block>();
      auto guard = d.enter();
      guard.retire(b);
    });
    EXPECT_LE(seen, 2 * few_threads) << "of " << 100 * each;
  }
}

TEST(short_lives_numbers_faces, used_once) {
  struct by_region : rcu_obj_base<by_region> {
    witness w;
  };
  struct by_pointer : hazard_pointer_obj_base<by_pointer> {
    witness w;
  };
  const std::int64_t seen = most_when_numbers_are_used_once(900, [](int) {
    const std::scoped_lock inside(rcu_default_domain());
    (new by_region)->retire();
    (new by_pointer)->retire();
  });
  EXPECT_LE(seen, 4 * few_threads) << "of " << 2 * 100 * 900;
  rcu_barrier();
  EXPECT_TRUE(hazard_pointer_clean_up());
}

template <class Collector>
class short_lives_numbers_versions : public testing::Test {};
TYPED_TEST_SUITE(short_lives_numbers_versions, collectors, collectors_by_name);

TYPED_TEST(short_lives_numbers_versions, used_once) {
  for (const int each : {40, 900}) {
    snapshot_hash<int, witness, TypeParam> hash;
    EXPECT_LE(most_when_numbers_are_used_once(
                  each, [&](int i) { hash.insert_or_assign(i % 500, witness()); }),
              4 * few_threads)
        << "of " << 100 * each;
  }
  snapshot_tree<int, witness, TypeParam> tree;
  EXPECT_LE(most_when_numbers_are_used_once(
                900, [&](int i) { tree.insert_or_assign(i % 500, witness()); }),
            4 * few_threads);
}

TEST(short_lives_numbers_rlu, used_once) {
  rlu::options small;
  small.segment_bytes = 1024;
  small.low_watermark = 65536;  // more than one thread writes
  rlu::domain d(small);
  rlu_hash<int, witness> hash(d, 256);
  EXPECT_LE(most_when_numbers_are_used_once(
                200, [&](int i) { hash.insert_or_assign(i % 500, witness()); }),
            3 * few_threads / 2)
      << "of " << 100 * 200;
  EXPECT_LE(d.stats().log_bytes, 4 * small.low_watermark);
}

TEST(short_lives_numbers_pointers, used_once) {
  for (const int each : {50, 900}) {  // fewer than a thread logs before it helps, and more
    atomic_shared_ptr<witness> at(make_shared<witness>());
    EXPECT_LE(most_when_numbers_are_used_once(each, [&](int) { at.store(make_shared<witness>()); }),
              3 * few_threads)
        << "of " << 100 * each;
    counted_hash<int, witness> hash;
    EXPECT_LE(most_when_numbers_are_used_once(
                  each, [&](int i) { hash.insert_or_assign(i % 500, witness()); }),
              3 * few_threads)
        << "of " << 100 * each;
    counted_btree<int, witness> tree;
    EXPECT_LE(most_when_numbers_are_used_once(
                  each, [&](int i) { tree.insert_or_assign(i % 500, witness()); }),
              4 * few_threads)
        << "of " << 100 * each;
  }
}

/// By resident memory: what an ended thread has of the pointers' blocks is for the others.
TEST(short_lives_numbers_pointers, blocks_of_used_once) {
  if (SPOLIA_ASAN || SPOLIA_TSAN) GTEST_SKIP() << "memory is kept back";
  atomic_shared_ptr<witness> at(make_shared<witness>());
  const auto update = [&](int) { at.store(make_shared<witness>()); };
  most_when_numbers_are_used_once(1000, update);
  const std::uint64_t before = resident_bytes();
  most_when_numbers_are_used_once(1000, update);  // 100 000 blocks: 10 MB
  EXPECT_LT(resident_bytes() - std::min(before, resident_bytes()), 3U << 20U);
}

}  // namespace
