// SPDX-License-Identifier: Apache-2.0
// Counted pointers in the child of a fork: what threads that vanish held, had waiting, or were just
// doing, after any of their instructions. In the child drain() ends, nothing waits, bounds hold,
// and the next fork is like the first.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/memory.hpp>

#include "support/elsewhere.hpp"
#include "support/forks_at_steps.hpp"
#include "support/parked_thread.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct piece {
  explicit piece(int n) : number(n) { alive.fetch_add(1, std::memory_order_relaxed); }
  piece(const piece&) = delete;
  piece& operator=(const piece&) = delete;
  ~piece() {
    alive.fetch_sub(1, std::memory_order_relaxed);
    if (at_end) at_end();
  }
  static long living() { return alive.load(std::memory_order_relaxed); }

  static inline std::atomic<long> alive{0};
  static inline thread_local std::function<void()> at_end;
  atomic_thin_ptr<piece> next;
  const int number;
};
using place = atomic_thin_ptr<piece>;

/// A list of so many, from the first to the last.
thin_ptr<piece> list_of(int many) {
  thin_ptr<piece> first;
  for (int i = many; i-- > 0;) {
    thin_ptr<piece> before = make_thin<piece>(i);
    before->next = std::move(first);
    first = std::move(before);
  }
  return first;
}

/// Nothing waits, and what this thread gives up ends. `stays`: as much as lost threads had in hand
/// at most.
bool goes_on(place& at, long stays, int changes = 30'000) {
  if (!is(counted::drain(), "drain() waits for lost threads")) return false;
  if (!is(counted::statistics().waiting() == 0, "something waits after drain()")) return false;
  at = nullptr;
  if (!is(counted::drain(), "drain() does not end what is given up")) return false;
  if (!is(piece::living() <= stays, "more has stayed than lost threads had in hand")) return false;
  const long before = piece::living();
  long most = 0;
  for (int i = 0; i < changes; ++i) {
    at = make_thin<piece>(i);
    most = (std::max)(most, piece::living() - before);
  }
  if (!is(most <= 16'384, "what waits has no bound")) return false;
  at = nullptr;
  return is(counted::drain(), "drain() is stuck in the end") &&
         is(piece::living() == before, "what was given up has not ended") &&
         is(counted::statistics().waiting() == 0, "something waits in the end");
}
/// Here, and in a child of this process.
bool goes_on_twice(place& at, long stays, int changes = 30'000) {
  if (!is(status_of_child([&] { EXPECT_TRUE(goes_on(at, stays, changes)); }, 60) == 0,
          "the second fork"))
    return false;
  return goes_on(at, stays, changes);
}

class counted_forks : public testing::Test {
 public:
  ~counted_forks() override {
    EXPECT_TRUE(counted::drain());
    EXPECT_EQ(piece::living(), 0);
  }
};

TEST_F(counted_forks, what_lost_threads_had_waiting_ends) {
  place at(list_of(100));
  const parked_thread holds([&](parking_spot& spot) {
    const private_thin_ptr<piece> pin(at);
    const private_thin_ptr<piece> another(pin->next);
    spot.park();
  });
  const parked_thread has_logged([&](parking_spot& spot) {
    place own;
    for (int i = 0; i < 1000; ++i) own = make_thin<piece>(i);
    own = nullptr;
    spot.park();
  });
  const parked_thread is_quiet([&](parking_spot& spot) {
    const counted::no_destructors quiet;
    place own;
    for (int i = 0; i < 1000; ++i) own = make_thin<piece>(i);
    own = nullptr;
    spot.park();
  });
  at = nullptr;
  EXPECT_FALSE(counted::drain());
  EXPECT_EQ(status_of_child([&] { EXPECT_TRUE(goes_on_twice(at, 0)); }), 0);
}

/// In the midst of a destructor, which a helper runs, with others after it.
TEST_F(counted_forks, what_a_lost_helper_had_in_hand_waits_no_more) {
  constexpr int many = 300;
  place at(make_thin<piece>(0));
  const parked_thread helps([&](parking_spot& spot) {
    std::vector<place> own(many);
    for (place& each : own) each = make_thin<piece>(1);
    for (place& each : own) each = nullptr;
    piece::at_end = [&] { spot.park(); };
    counted::drain();
    piece::at_end = nullptr;
  });
  EXPECT_GT(counted::statistics().waiting(), 0U);
  EXPECT_EQ(status_of_child([&] { EXPECT_TRUE(goes_on_twice(at, many)); }), 0);
  at = nullptr;
}

#if !SPOLIA_TSAN  // which forbids new threads in a forked child
/// The lost thread's number, with all that is kept for it, is the next one's.
TEST_F(counted_forks, threads_are_lost_again_and_again) {
  place at;
  std::function<bool(int)> generation = [&](int left) {
    if (left == 0) return goes_on(at, 0);
    const parked_thread holds([&](parking_spot& spot) {
      at = list_of(50);
      const private_thin_ptr<piece> pin(at);
      place own;
      for (int i = 0; i < 300; ++i) own = make_thin<piece>(i);
      own = nullptr;
      spot.park();
    });
    const int status = status_of_child(
        [&] { EXPECT_TRUE(is(goes_on(at, 0), "a generation") && generation(left - 1)); });
    return is(status == 0, "a later generation");
  };
  EXPECT_TRUE(generation(3));
  at = nullptr;
}
#endif

class counted_forks_at_steps : public counted_forks {
 public:
  static constexpr int few = 300;  // changes after each of many forks

  void SetUp() override {
    if (const char* const why_not = no_forks_at_steps()) GTEST_SKIP() << why_not;
  }
};

TEST_F(counted_forks_at_steps, a_change_may_be_lost_anywhere) {
  constexpr int many = 70;
  place at(make_thin<piece>(0));
  fork_at_steps(
      [&] {
        for (int i = 0; i < many; ++i) at = make_thin<piece>(i);  // one task is among them
      },
      [&] { at = make_thin<piece>(0); }, [&] { return goes_on(at, many, few); }, 20011);
  at = nullptr;
}

TEST_F(counted_forks_at_steps, a_drain_may_be_lost_anywhere) {
  constexpr int many = 40;
  place at(make_thin<piece>(0));
  fork_at_steps(
      [&] {
        at = nullptr;
        counted::drain();
      },
      [&] { at = list_of(many); }, [&] { return goes_on_twice(at, many + 1, few); }, 2003);
}

TEST_F(counted_forks_at_steps, reads_may_be_lost_anywhere) {
  place at(list_of(5));
  fork_at_steps(
      [&] {
        for (int i = 0; i < 3; ++i) {
          for (private_thin_ptr<piece> p(at); p; p = p->next) {
            const thin_ptr<piece> kept = p.share_out();
            EXPECT_GE(kept->number, 0);
          }
          const thin_ptr<piece> loaded = at.load();
          EXPECT_EQ(loaded->number, 0);
        }
      },
      [&] { (void)at.load(); }, [&] { return goes_on(at, 5, few); }, 101);
  at = nullptr;
}

}  // namespace
