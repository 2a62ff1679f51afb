// SPDX-License-Identifier: Apache-2.0
// Read-log-update on many threads: torn reads, values that go backwards, lost updates, write skew,
// threads that come and go, and clocks that are apart.

#include <gtest/gtest.h>

#include <spolia/rlu.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "rlu/groups.hpp"
#include "support/parked_thread.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// The processors' counters, as if each thread ran on one that is `ahead` by up to 3000 ticks more
/// than it may be.
class skewed_clock {
 public:
  static constexpr bool advances_alone = true;
  static inline thread_local std::uint64_t ahead = 0;

  [[nodiscard]] std::uint64_t now() const noexcept { return ticks::read_in_order() + ahead; }
  std::uint64_t tick() noexcept { return wait_until_after(now()); }
  void pass(std::uint64_t t) noexcept { wait_until_after(t); }
  [[nodiscard]] static std::uint64_t bound() noexcept {
    return 3000 + core::counters_compared().bound;
  }
  [[nodiscard]] bool after(std::uint64_t x, std::uint64_t y) const noexcept {
    return detail::certainly_after(x, y, bound());
  }
  [[nodiscard]] time_order compare(std::uint64_t x, std::uint64_t y) const noexcept {
    return detail::order_of(x, y, bound());
  }

 private:
  std::uint64_t wait_until_after(std::uint64_t t) const noexcept {
    for (;;) {
      const std::uint64_t read = now();
      if (after(read, t)) return read;
      cpu_relax();
    }
  }
};
using skewed_domain = rlu::basic_domain<skewed_clock>;

constexpr rlu::options small_logs{.segment_bytes = 1024};

template <class Domain>
class rlu_stress : public testing::Test {};
using domains = testing::Types<rlu::domain, rlu::basic_domain<hardware_clock>, skewed_domain>;
struct domain_names {
  template <class D>
  static std::string GetName(int i) {
    return std::array{"logical", "hardware", "skewed"}[static_cast<std::size_t>(i)];
  }
};
TYPED_TEST_SUITE(rlu_stress, domains, domain_names);

TYPED_TEST(rlu_stress, nothing_is_torn_or_lost_and_nothing_goes_backwards) {
  if (!hardware_clock::trusted()) GTEST_SKIP() << hardware_clock::reason();
  groups<TypeParam> w(small_logs);
  nothing_is_torn_or_lost(w, [](unsigned thread) { skewed_clock::ahead = thread * 1000; });
  skewed_clock::ahead = 3000;
  EXPECT_EQ(w.sum(), w.added.load());
  for (int i = 0; i < 3; ++i) w.d.collect();
  EXPECT_EQ(w.d.stats().log_bytes, 0U);
}

/// The processors' counters, with a bound of 16; each look takes one tick, wherever it is.
class apart_clock {
 public:
  static constexpr bool advances_alone = true;
  static inline thread_local std::uint64_t ahead = 0;
  /// What others do at the thread's next step.
  static inline thread_local std::function<void()> meanwhile;

  [[nodiscard]] std::uint64_t now() const noexcept { return time_.fetch_add(1) + ahead; }
  std::uint64_t tick() noexcept {
    step();
    const std::uint64_t drawn = wait_until_after(now());
    step();
    return drawn;
  }
  void pass(std::uint64_t t) noexcept {
    step();
    wait_until_after(t);
    step();
  }
  [[nodiscard]] static constexpr std::uint64_t bound() noexcept { return 16; }
  [[nodiscard]] static constexpr bool after(std::uint64_t x, std::uint64_t y) noexcept {
    return detail::certainly_after(x, y, bound());
  }
  [[nodiscard]] static constexpr time_order compare(std::uint64_t x, std::uint64_t y) noexcept {
    return detail::order_of(x, y, bound());
  }
  void pass_by(std::uint64_t ticks) const noexcept { time_.fetch_add(ticks); }

 private:
  static void step() {
    if (meanwhile) meanwhile();
  }
  std::uint64_t wait_until_after(std::uint64_t t) const noexcept {
    for (;;) {
      const std::uint64_t read = now();
      if (after(read, t)) return read;
    }
  }
  mutable std::atomic<std::uint64_t> time_{1000};
};
using apart_domain = rlu::basic_domain<apart_clock>;

/// Calls f on a thread whose counter is ahead.
template <class F>
void on_a_processor(std::uint64_t ahead, F&& f) {
  std::thread([&] {
    apart_clock::ahead = ahead;
    f();
  }).join();
}

/// The least distance between the counters at which `broken(distance)`; 1000: it never is.
template <class F>
std::uint64_t least_distance(F&& broken) {
  std::uint64_t distance = 0;
  while (distance < 1000 && !broken(distance)) distance += distance < 100 ? 1 : 100;
  return distance;
}

// What the documentation says rests on the clock's bound: it holds as far as the bound goes, and
// would not hold without it.

TEST(rlu_clocks_apart, a_section_sees_one_instant_within_the_bound_only) {
  // Reads x before a commit to both, and y after it.
  const auto torn = [](std::uint64_t distance) {
    groups<apart_domain> w;
    bool differ = false;
    on_a_processor(distance, [&] {
      w.d.read([&](auto& in) {
        const long before = in.read(w.all[0][0])->value;
        on_a_processor(0, [&] { w.add_one(0); });
        differ = in.read(w.all[0][1])->value != before;
      });
    });
    return differ;
  };
  const std::uint64_t least = least_distance(torn);
  EXPECT_GT(least, apart_clock::bound());
  EXPECT_LE(least, 4 * apart_clock::bound()) << "the history that is no snapshot was not found";
}

TEST(rlu_clocks_apart, what_was_heard_of_is_seen_within_the_bound_only) {
  const auto unseen = [](std::uint64_t distance) {
    groups<apart_domain> w;
    on_a_processor(distance, [&] { w.add_one(0); });
    long seen = 0;
    on_a_processor(0, [&] { seen = w.look(0); });
    return seen != 1;
  };
  const std::uint64_t least = least_distance(unseen);
  EXPECT_GT(least, apart_clock::bound());
  EXPECT_LE(least, 4 * apart_clock::bound());
}

TEST(rlu_clocks_apart, what_a_section_saw_later_ones_see_within_the_bound_only) {
  // Two looks in turns, at each step of a commit. The one on the processor that is ahead may draw
  // the commit's time, and see it before the others' counters are there.
  const auto unseen = [](std::uint64_t distance) {
    groups<apart_domain> w;
    bool backwards = false;
    on_a_processor(distance / 2, [&] {
      apart_clock::meanwhile = [&] {
        for (int i = 0; i < 2; ++i) {
          long first = 0;
          long second = 0;
          on_a_processor(distance, [&] { first = w.look(0); });
          on_a_processor(0, [&] { second = w.look(0); });
          backwards |= second < first;
        }
      };
      w.add_one(0);
      apart_clock::meanwhile = nullptr;
    });
    return backwards;
  };
  const std::uint64_t least = least_distance(unseen);
  EXPECT_GT(least, apart_clock::bound());
  EXPECT_LE(least, 4 * apart_clock::bound());
}

TEST(rlu_clocks_apart, a_pass_knows_of_all_sections_within_the_bound_only) {
  // It lets go of what ended before `known`, but for the times that it has found: so no section may
  // begin with an earlier one.
  const auto missed = [](std::uint64_t distance) {
    const apart_clock clock;
    census sections;
    std::vector<std::uint64_t> times;
    std::uint64_t known = 0;
    std::uint64_t began = 0;
    on_a_processor(distance, [&] { known = sections.scan(clock, times); });
    on_a_processor(0, [&] { began = sections.announce(clock).timestamp(); });
    return began < known;
  };
  const std::uint64_t least = least_distance(missed);
  EXPECT_GT(least, apart_clock::bound());
  EXPECT_LE(least, 4 * apart_clock::bound());
}

TEST(rlu_clocks_apart, what_was_made_by_a_thread_alone_stays_for_who_is_behind) {
  struct place {
    rlu::ptr<number> to;
  };
  apart_domain d;
  const auto root = d.make<place>({});
  on_a_processor(apart_clock::bound(), [&] {
    for (int i = 0; i < 3; ++i) d.collect();  // no other thread is there: from here on in place
    rlu::ptr<number> made;
    d.update([&](auto& in) { in.try_lock(root)->to = made = in.template make<number>({1}); });
    const parked_thread behind([&](parking_spot& spot) {
      apart_clock::ahead = 0;
      d.read([&](auto& in) {
        const auto seen = in.read(in.read(root)->to);
        EXPECT_EQ(seen->value, 1);
        spot.park();
        EXPECT_EQ(seen->value, 1) << "overwritten while a section reads it";
      });
    });
    d.update([&](auto& in) { in.try_lock(made)->value = 2; });
    for (int i = 0; i < 3; ++i) {
      d.clock().pass_by(2 * apart_clock::bound());
      d.collect();
    }
  });
  d.discard(d.alone(root).to);
  d.discard(root);
}

TEST(rlu_clocks_apart, nothing_is_lost_beyond_the_bound_either) {
  // No passes, which must not miss a section.
  groups<apart_domain> w(rlu::options{.low_watermark = std::size_t{1} << 40U,
                                      .log_cap = std::size_t{1} << 40U,
                                      .walk_watermark = 1U << 31U});
  std::atomic<long> added{0};
  run_stress({.threads = 3, .share = 0.1}, [&](stress_thread& self) {
    apart_clock::ahead = self.index() * 100 * apart_clock::bound();
    for (int i = 0; i < 3000 && self.running(); ++i) {
      const auto p = w.all[self.random().below(2)][0];
      long mine = 0;
      w.d.update([&](auto& in) {
        if (auto copy = in.try_lock(p)) mine = copy->value += 1;
      });
      added.fetch_add(1);
      EXPECT_GE(w.d.read([&](auto& in) { return in.read(p)->value; }), mine);
    }
  });
  apart_clock::ahead = 1000 * apart_clock::bound();
  const auto value = [&](std::size_t g) {
    return w.d.read([&](auto& in) { return in.read(w.all[g][0])->value; });
  };
  EXPECT_EQ(value(0) + value(1), added.load());
}

TEST(rlu_stress_threads, come_and_go) {
  groups<rlu::domain> w(small_logs);
  threads_come_and_go(w);
  for (int i = 0; i < 3; ++i) w.d.collect();
  EXPECT_EQ(w.d.stats().log_bytes, 0U) << "a thread that has ended left a log behind";
}

/// Of two sections that each read both and write one, both may commit under snapshot isolation, and
/// not if they say what they rely on.
template <class Prepare>
bool both_go(Prepare prepare) {
  rlu::domain d;
  const auto x = d.make<number>({1});
  const auto y = d.make<number>({1});
  const auto spend = [&](auto& in, auto from, auto other) {
    prepare(in, other);
    if (in.read(x)->value + in.read(y)->value < 2) return in.cancel();
    if (auto mine = in.try_lock(from)) mine->value -= 1;
  };
  rlu::outcome inner{};
  const rlu::outcome outer = d.attempt([&](auto& in) {
    spend(in, x, y);
    std::thread([&] { inner = d.attempt([&](auto& other) { spend(other, y, x); }); }).join();
  });
  const long left = d.read([&](auto& in) { return in.read(x)->value + in.read(y)->value; });
  EXPECT_TRUE(outer == rlu::outcome::committed || inner == rlu::outcome::committed);
  EXPECT_EQ(left, 2 - (outer == rlu::outcome::committed) - (inner == rlu::outcome::committed));
  d.discard(x);
  d.discard(y);
  return left == 0;
}

TEST(rlu_isolation, write_skew_is_possible_unless_refused) {
  EXPECT_TRUE(both_go([](auto&, auto) {})) << "snapshot isolation allows it";
  EXPECT_FALSE(both_go([](auto& in, auto other) { (void)in.try_lock_const(other); }));
  EXPECT_FALSE(both_go([](auto& in, auto) { in.serializable(); }));
}

TEST(rlu_isolation, the_faster_of_two_wins) {
  rlu::domain d;
  const auto p = d.make<number>({0});
  EXPECT_EQ(d.attempt([&](auto& in) {
    EXPECT_EQ(in.read(p)->value, 0);
    std::thread([&] { d.update([&](auto& other) { other.try_lock(p)->value = 1; }); }).join();
    EXPECT_FALSE(in.try_lock(p)) << "there is a newer version";
    EXPECT_FALSE(in.try_lock_const(p));
  }),
            rlu::outcome::conflict);
  d.discard(p);
}

struct node {
  using fixed = std::shared_ptr<std::atomic<long>>;  // counts the nodes that are alive
  rlu::ptr<node> next;
  long number = 0;
};

struct one_less {
  std::atomic<long>* count;
  void operator()(std::atomic<long>*) const { count->fetch_sub(1); }
};

TEST(rlu_stress_objects, are_freed_while_they_are_read) {
  std::atomic<long> alive{0};
  {
    rlu::domain d({.segment_bytes = 1024});
    const auto counted = [&] {
      alive.fetch_add(1);
      return node::fixed(&alive, one_less{&alive});
    };
    const auto head = d.make<node>(counted(), {});
    run_stress({.threads = 4, .share = 0.6}, [&](stress_thread& self) {
      while (self.running()) {
        if (self.index() == 0) {
          // A stack whose numbers grow from the bottom: pushes two, takes one or three away.
          d.update([&](auto& in) {
            auto top = in.try_lock(head);
            if (!top) return;
            long n = top->number;
            for (int i = 0; i < 2; ++i) {
              top->next = in.template make<node>(counted(), {.next = top->next, .number = ++n});
            }
            top->number = n;
          });
        } else if (self.index() == 1) {
          d.update([&](auto& in) {
            auto top = in.try_lock(head);
            for (std::uint64_t i = 1 + self.random().below(3); top && top->next && i > 0; --i) {
              const auto victim = top->next;
              top->next = in.read(victim)->next;
              if (!in.free(victim)) return;
            }
            if (top) top->number = top->next ? in.read(top->next)->number : 0;
          });
        } else {
          d.read([&](auto& in) {
            auto top = in.read(head);
            long expected = top->number;
            int steps = 0;
            for (auto n = in.read(top->next); n && ++steps < 1000; n = in.read(n->next)) {
              ASSERT_EQ(n->number, expected--);
            }
          });
        }
      }
    });
    // What is left is discarded by hand.
    std::vector<rlu::ptr<node>> rest;
    d.read([&](auto& in) {
      for (auto p = head; p; p = in.read(p)->next) rest.push_back(p);
    });
    for (const auto p : rest) d.discard(p);
  }
  EXPECT_EQ(alive.load(), 0);
}

}  // namespace
