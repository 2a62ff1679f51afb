// SPDX-License-Identifier: Apache-2.0
// Read-log-update in the child of a fork that comes while another thread stands after any of its
// instructions: in a sweep of all logs, in a commit, in its first section. And where threads are
// lost that hold locks, or have written much.

#include <gtest/gtest.h>
#include <malloc.h>

#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>
#include <spolia/rlu.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "rlu/groups.hpp"
#include "support/elsewhere.hpp"
#include "support/forks_at_steps.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr rlu::options small{.segment_bytes = 256,
                             .low_watermark = 1U << 20U,
                             .log_cap = 8192,
                             .turn_us = 0,
                             .in_place = false};

class rlu_forks : public testing::Test {
 public:
  using world = groups<rlu::domain>;

  ~rlu_forks() override { mallopt(M_PERTURB, 0); }
  void SetUp() override {
    if (const char* const why_not = no_forks_at_steps()) GTEST_SKIP() << why_not;
    mallopt(M_PERTURB, 0xa5);  // what was freed shows
  }

  static void collect(world& w, int times) {
    for (int i = 0; i < times; ++i) w.d.collect();
  }

  /// So that every kind of record lies in the calling thread's log.
  static void write_some(world& w) {
    for (const std::size_t g : {0U, 1U, 2U, 0U}) w.add_one(g);
    const parked_thread sleeper(
        [&w](parking_spot& spot) { w.d.read([&](auto&) { spot.park(); }); });
    for (const std::size_t g : {3U, 1U, 0U, 0U}) w.add_one(g);
    w.d.update([&](auto& in) {
      for (int i = 0; i < 2; ++i) {
        const rlu::ptr<number> made = in.template make<number>({7});
        (void)made;
      }
    });
  }

  /// The groups can be changed and read for as long as one likes; the values are as many above
  /// those of now as there were changes.
  static bool goes_on(world& w) {
    std::array<long, world::count> values{};
    for (std::size_t g = 0; g < w.count; ++g) values[g] = w.look(g);
    for (int round = 0; round < 12; ++round) {
      for (std::size_t g = 0; g < w.count; ++g) {
        const long now = w.look(g);
        if (!is(now >= 0, "torn") || !is(now == values[g], "a value has changed")) return false;
        rlu::outcome how{};
        for (int tries = 0; tries < 4; ++tries) {
          how = w.try_to_add_one(g);
          if (how != rlu::outcome::log_full) break;
          w.d.collect();
        }
        if (!is(how != rlu::outcome::log_full, "the log stays full")) return false;
        if (!is(how == rlu::outcome::committed, "locked for ever")) return false;
        if (!is(w.look(g) == ++values[g], "an own commit is not seen")) return false;
      }
    }
    return true;
  }
  static bool ends_with_nothing(world& w) {
    collect(w, 5);
    if (!is(w.d.stats().log_bytes == 0, "a log stays")) return false;
    for (const auto& group : w.all) {
      for (const auto p : group) w.d.discard(p);
    }
    return true;
  }
};

TEST_F(rlu_forks, a_pass_may_be_lost_anywhere) {
  world w(small);
  write_some(w);
  fork_at_steps([&] { collect(w, 2); }, [&] { (void)w.look(0); },
                [&] { return goes_on(w) && ends_with_nothing(w); });
}

TEST_F(rlu_forks, a_pass_may_be_lost_anywhere_beside_a_section) {
  world w(small);
  write_some(w);
  w.d.read([&](auto& in) {
    const auto all_that_is_seen = [&] {
      std::vector<rlu::view<number>> seen;
      for (const auto& group : w.all) {
        for (const auto p : group) seen.push_back(in.read(p));
      }
      return seen;
    };
    const auto seen = all_that_is_seen();
    std::vector<long> values;
    for (const auto& one : seen) values.push_back(one->value);
    fork_at_steps([&] { collect(w, 2); }, [&] { (void)w.look(0); },
                  [&] {
                    bool right = true;
                    on_another_thread([&] { right = goes_on(w); });
                    const auto again = all_that_is_seen();
                    for (std::size_t i = 0; i < values.size(); ++i) {
                      right &= is(seen[i]->value == values[i], "a view has changed");
                      right &=
                          is(again[i]->value == values[i], "not the section's instant any more");
                    }
                    return right;
                  });
  });
}

TEST_F(rlu_forks, a_pass_may_be_lost_anywhere_beside_one_that_writes) {
  world w(small);
  write_some(w);
  EXPECT_TRUE(w.d.update([&](auto& in) {
    EXPECT_TRUE(w.add_one(in, 5));
    fork_at_steps([&] { collect(w, 2); }, [&] { (void)w.look(0); },
                  [&] {
                    if (!is(w.add_one(in, 6), "cannot be locked")) return false;
                    bool right = true;
                    on_another_thread([&] { right = w.look(5) == 0 && w.look(6) == 0; });
                    return is(right, "seen before it was committed");
                  });
  }));
  EXPECT_EQ(w.look(5), 1);
  EXPECT_EQ(w.look(6), 0);
}

TEST_F(rlu_forks, a_commit_may_be_lost_anywhere) {
  world w(small);
  write_some(w);
  const long before = w.look(0);
  fork_at_steps([&] { w.add_one(0); }, [&] { (void)w.look(0); },
                [&] {
                  const long now = w.look(0);
                  return is(now == before || now == before + 1, "half a commit") && goes_on(w) &&
                         is(w.look(0) == now + 12, "a lost commit has changed its mind") &&
                         ends_with_nothing(w);
                });
}

TEST_F(rlu_forks, a_commit_in_place_may_be_lost_anywhere) {
  rlu::options in_place = small;
  in_place.in_place = true;
  world w(in_place);
  write_some(w);
  fork_at_steps(
      [&] {
        for (int i = 0; i < 2; ++i) w.add_one(0);
      },
      [&] {
        collect(w, 5);
        w.add_one(1);
      },
      [&] {
        const long now = w.look(0);
        return is(now >= 0, "half a commit") && goes_on(w) &&
               is(w.look(0) == now + 12, "a lost commit has changed its mind") &&
               ends_with_nothing(w);
      });
}

TEST_F(rlu_forks, a_first_section_may_be_lost_anywhere) {
  world w(small);
  write_some(w);
  fork_at_steps([&] { w.add_one(0); }, [] {}, [&] { return goes_on(w) && ends_with_nothing(w); });
}

/// What it owns ends with the object.
struct owner {
  struct fixed {
    std::shared_ptr<int> owned;
  };
  long value = 0;
};

/// Where other threads stand when the fork comes, between two instructions that matter. These go
/// under sanitizers, too: in the child there is the forking thread alone.
class rlu_lost_threads : public testing::Test {
 public:
  using world = groups<rlu::domain>;

  static void expect_in_child(const std::function<bool()>& what) {
    EXPECT_EQ(status_of_child([&] { EXPECT_TRUE(what()); }, 60), 0);
  }
  /// Nothing stays in a log, and all is in the masters.
  static bool is_written_back(rlu::domain& d) {
    for (int i = 0; i < 5; ++i) d.collect();
    const rlu::statistics now = d.stats();
    return is(now.log_bytes == 0, "a log stays") && is(now.waiting == 0, "a copy stays");
  }
  static bool add_now(world& w, std::size_t g) {
    return is(w.try_to_add_one(g) == rlu::outcome::committed, "it stays locked");
  }
};

TEST_F(rlu_lost_threads, locks_of_lost_sections_are_given_up) {
  world w(small);
  const auto kept = w.d.make<number>({7});
  const auto freed = w.d.make<number>({8});
  w.add_one(0);  // the second group has a master only
  parked_thread writes([&](parking_spot& spot) {
    w.d.update([&](auto& in) {
      EXPECT_TRUE(w.add_one(in, 0));
      EXPECT_TRUE(w.add_one(in, 1));
      EXPECT_TRUE(in.try_lock_const(kept));
      EXPECT_TRUE(in.free(freed));
      spot.park();
      in.cancel();
    });
  });
  EXPECT_EQ(w.try_to_add_one(0), rlu::outcome::conflict) << "they are held here";
  expect_in_child([&] {
    if (!is(w.look(0) == 1 && w.look(1) == 0, "what was not committed is seen")) return false;
    if (!add_now(w, 0) || !add_now(w, 1)) return false;
    if (!is(w.look(0) == 2 && w.look(1) == 1, "an own commit is not seen")) return false;
    const auto how = w.d.attempt([&](auto& in) {
      if (auto mine = in.try_lock(kept)) mine->value += 1;
      in.free(freed);
    });
    return is(how == rlu::outcome::committed, "they stay locked") && is_written_back(w.d) &&
           is(w.d.alone(kept).value == 8, "the master is not the newest version");
  });
  writes.release();
  w.d.discard(kept);
  w.d.discard(freed);
}

TEST_F(rlu_lost_threads, an_update_of_a_map_waits_for_no_lost_thread) {
  rlu::domain home;
  rlu_hash<int, int> hash(home, 4);
  rlu_list<int, int> list(home);
  rlu_bst<int, int> tree(home);
  const auto put = [&](int key) {
    hash.insert_or_assign(key, key);
    list.insert_or_assign(key, key);
    tree.insert_or_assign(key, key);
  };
  for (const int key : {40, 20, 60, 10, 30}) put(key);
  const parked_thread writes([&](parking_spot& spot) {
    home.update([&](auto& in) {
      put(25);
      hash.erase(20);
      list.erase(20);
      tree.erase(20);
      spot.park();
      in.cancel();
    });
  });
  expect_in_child([&] {
    for (int key = 0; key < 70; key += 5) put(key);
    for (int key = 0; key < 70; key += 5) {
      if (!is(hash.erase(key) && list.erase(key) && tree.erase(key), "it is not there")) {
        return false;
      }
    }
    int left = 0;
    const auto count = [&](int, int) { ++left; };
    hash.for_each(count);
    list.for_each(count);
    tree.for_each(count);
    return is(left == 0, "something is left");
  });
}

TEST_F(rlu_lost_threads, what_they_had_written_is_collected) {
  rlu::options large = small;
  large.log_cap = 1U << 20U;
  world w(large);
  const auto owned = std::make_shared<int>(1);
  const auto freed = w.d.make<owner>({owned}, {});
  const parked_thread needs_all([&](parking_spot& spot) { w.d.read([&](auto&) { spot.park(); }); });
  const parked_thread idle([&](parking_spot& spot) {
    for (int i = 0; i < 100; ++i) w.add_one(static_cast<std::size_t>(i) % w.count);
    spot.park();
  });
  const parked_thread reads([&](parking_spot& spot) {
    w.add_one(0);
    w.d.update([&](auto& in) { in.free(freed); });
    w.d.read([&](auto&) { spot.park(); });
  });
  const parked_thread writes([&](parking_spot& spot) {
    for (int i = 0; i < 10; ++i) w.add_one(1);
    w.d.update([&](auto& in) {
      for (const std::size_t g : {1U, 2U, 3U, 4U}) EXPECT_TRUE(w.add_one(in, g));
      spot.park();
    });
  });
  EXPECT_GT(w.d.stats().log_bytes, 16384U);
  const long sum = w.sum();
  const std::uint64_t before = w.d.stats().written_back;
  expect_in_child([&] {
    if (!is_written_back(w.d)) return false;
    return is(w.d.stats().written_back - before >= w.count * w.size, "copies stay in chains") &&
           is(owned.use_count() == 1, "what was freed does not end") &&
           is(w.sum() == sum && sum == 111, "something is lost");
  });
}

}  // namespace
