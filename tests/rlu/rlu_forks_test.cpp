// SPDX-License-Identifier: Apache-2.0
// Read-log-update in the child of a fork that comes while another thread stands after any of its
// instructions: in a pass over all logs, in a commit, in its first section.

#include <gtest/gtest.h>
#include <malloc.h>

#include <spolia/rlu.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "rlu/groups.hpp"
#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"
#include "support/sanitized.hpp"
#include "support/single_steps.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr rlu::options small{.segment_bytes = 256,
                             .low_watermark = 1U << 20U,
                             .log_cap = 8192,
                             .turn_us = 0,
                             .in_place = false};

/// In a child: what it says goes out at once.
bool is(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "in the child: %s\n", what);
  return right;
}

class rlu_forks : public testing::Test {
 public:
  using world = groups<rlu::domain>;

  ~rlu_forks() override { mallopt(M_PERTURB, 0); }
  void SetUp() override {
    if (sanitized) GTEST_SKIP() << "a fork waits for locks of the sanitizer";
    if (!single_steps::possible) GTEST_SKIP() << "no trap flag";
    mallopt(M_PERTURB, 0xa5);  // what was freed shows
  }

  /// Calls in_child(), in a child, for each of many steps of `victim`.
  static void at_steps(const std::function<void()>& victim, const std::function<void()>& before,
                       const std::function<bool()>& in_child) {
    const char* const asked = std::getenv("SPOLIA_STEPS");
    const std::uint64_t every = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 251;
    single_steps steps(rng(seed_for(0)).below(every), every);
    std::thread stepping([&] {
      (void)threads::number();  // the list of threads is locked meanwhile
      before();
      steps.run(victim);
    });
    int stops = 0;
    for (; steps.stopped(); steps.go_on()) {
      ++stops;
      if (HasFailure()) continue;
      const int status = status_of_child([&] { EXPECT_TRUE(in_child()); }, 20);
      EXPECT_EQ(status, 0) << "stop " << stops;
    }
    stepping.join();
    EXPECT_GT(stops, 2);
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

  /// The groups from `first` on can be changed, and all can be read, for as long as one likes; the
  /// values are as many above those of now as there were changes.
  static bool goes_on(world& w, std::size_t first) {
    std::array<long, world::count> values{};
    for (std::size_t g = 0; g < w.count; ++g) values[g] = w.look(g);
    for (int round = 0; round < 12; ++round) {
      for (std::size_t g = 0; g < w.count; ++g) {
        const long now = w.look(g);
        if (!is(now >= 0, "torn") || !is(now == values[g], "a value has changed")) return false;
        if (g < first) continue;
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
  /// The value of the first group. A commit that lacks only its time gets that from the first
  /// section that meets it.
  static long completed(world& w) {
    const long first = w.look(0);
    return first < 0 ? first : w.look(0);
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
  at_steps([&] { collect(w, 2); }, [&] { (void)w.look(0); },
           [&] { return goes_on(w, 0) && ends_with_nothing(w); });
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
    at_steps([&] { collect(w, 2); }, [&] { (void)w.look(0); },
             [&] {
               bool right = true;
               on_another_thread([&] { right = goes_on(w, 0); });
               const auto again = all_that_is_seen();
               for (std::size_t i = 0; i < values.size(); ++i) {
                 right &= is(seen[i]->value == values[i], "a view has changed");
                 right &= is(again[i]->value == values[i], "not the section's instant any more");
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
    at_steps([&] { collect(w, 2); }, [&] { (void)w.look(0); },
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
  at_steps([&] { w.add_one(0); }, [&] { (void)w.look(0); },
           [&] {
             const long now = completed(w);
             return is(now == before || now == before + 1, "half a commit") && goes_on(w, 1) &&
                    is(w.look(0) == now, "a lost commit has changed its mind");
           });
}

TEST_F(rlu_forks, a_commit_in_place_may_be_lost_anywhere) {
  rlu::options in_place = small;
  in_place.in_place = true;
  world w(in_place);
  write_some(w);
  at_steps(
      [&] {
        for (int i = 0; i < 2; ++i) w.add_one(0);
      },
      [&] {
        collect(w, 5);
        w.add_one(1);
      },
      [&] {
        const long now = completed(w);
        return is(now >= 0, "half a commit") && goes_on(w, 1) &&
               is(w.look(0) == now, "a lost commit has changed its mind");
      });
}

TEST_F(rlu_forks, a_first_section_may_be_lost_anywhere) {
  world w(small);
  write_some(w);
  at_steps([&] { w.add_one(0); }, [] {}, [&] { return completed(w) >= 0 && goes_on(w, 1); });
}

}  // namespace
