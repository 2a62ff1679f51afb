// SPDX-License-Identifier: Apache-2.0
// Read-log-update on many threads: torn reads, values that go backwards, lost updates, write skew,
// threads that come and go, and clocks that are apart.

#include <gtest/gtest.h>

#include <spolia/rlu.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "rlu/groups.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// The processors' counters, as if each thread ran on one that is `ahead` by up to `apart` ticks.
/// Promises a bound of `promised`; keeps it if that is not less than `apart`.
class skewed_clock {
 public:
  static constexpr bool advances_alone = true;
  static inline thread_local std::uint64_t ahead = 0;

  [[nodiscard]] std::uint64_t now() const noexcept { return ticks::read_in_order() + ahead; }
  std::uint64_t tick() noexcept { return wait_until_after(now()); }
  void pass(std::uint64_t t) noexcept { wait_until_after(t); }
  [[nodiscard]] static constexpr std::uint64_t bound() noexcept { return 3000; }
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
