// SPDX-License-Identifier: Apache-2.0
// Read-log-update when allocations fail, user types throw or begin sections of their own where one
// does not expect it, and the process forks.

#include <gtest/gtest.h>

#include <spolia/map/rlu_bst.hpp>
#include <spolia/map/rlu_hash.hpp>
#include <spolia/map/rlu_list.hpp>
#include <spolia/rlu.hpp>
#include <spolia/rlu/detector.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/faults.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct number {
  long value = 0;
};

TEST(rlu_errors, memory_that_is_missing_changes_nothing) {
  rlu::domain d({.segment_bytes = 64});
  const auto p = d.make<number>({0});
  long expected = 0;
  const std::uint64_t failures = for_each_allocation_failure([&] {
    rlu::ptr<number> other;
    try {
      d.update([&](auto& in) {
        in.serializable();
        EXPECT_EQ(in.read(p)->value, expected);
        auto mine = in.try_lock(p);
        ASSERT_TRUE(mine);
        mine->value = expected + 1;
        other = in.template make<number>({7});
      });
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(d.read([&](auto& in) { return in.read(p)->value; }), expected);
      throw;
    }
    ++expected;
    d.discard(other);
  });
  EXPECT_GE(failures, 3U);
  EXPECT_EQ(d.read([&](auto& in) { return in.read(p)->value; }), expected);
  d.discard(p);
}

TEST(rlu_errors, upkeep_without_memory_loses_nothing) {
  rlu::domain d({.segment_bytes = 256, .low_watermark = 1});
  const auto p = d.make<number>({0});
  for (long i = 1; i <= 300; ++i) {
    rlu::ptr<number> seen = p;
    d.update([&](auto& in) { in.try_lock(seen)->value = i; });
    fail_after fault(1, failing::from_then_on);
    d.collect();
  }
  EXPECT_EQ(d.read([&](auto& in) { return in.read(p)->value; }), 300);
  for (int i = 0; i < 3; ++i) d.collect();
  EXPECT_EQ(d.stats().log_bytes, 0U);
  d.discard(p);
}

template <class Map>
void fails_without_a_trace(Map& m) {
  std::map<int, std::string> model;
  const auto check = [&] {
    std::map<int, std::string> now;
    m.for_each([&](int k, const std::string& v) { now.emplace(k, v); });
    EXPECT_EQ(now, model);
  };
  const std::string text(100, 'x');
  for (int step = 0; step < 40; ++step) {
    const int key = step * 7 % 10;
    for_each_allocation_failure([&] {
      switch (step % 3) {
        case 0:
          m.insert(key, text);
          break;
        case 1:
          m.insert_or_assign(key, text + text);
          break;
        default:
          m.erase(key);
      }
    });
    switch (step % 3) {
      case 0:
        model.emplace(key, text);
        break;
      case 1:
        model.insert_or_assign(key, text + text);
        break;
      default:
        model.erase(key);
    }
    check();
    EXPECT_EQ(m.size_approx(), model.size());
  }
}

TEST(rlu_errors, maps_are_as_they_were) {
  rlu::domain d({.segment_bytes = 256});
  rlu_list<int, std::string> list(d);
  fails_without_a_trace(list);
  rlu_bst<int, std::string> tree(d);
  fails_without_a_trace(tree);
  rlu_hash<int, std::string> table(d, 3);
  fails_without_a_trace(table);
}

/// Its end begins a section of the same domain.
struct talkative {
  rlu::domain* d = nullptr;
  rlu::ptr<number> ended;
  talkative(rlu::domain& home, rlu::ptr<number> n) : d(&home), ended(n) {}
  talkative(talkative&& from) noexcept : d(std::exchange(from.d, nullptr)), ended(from.ended) {}
  ~talkative() {
    if (d == nullptr) return;
    d->update([&](auto& in) {
      if (auto n = in.try_lock(ended)) n->value += 1;
    });
  }
};
struct with_end {
  struct fixed : talkative {
    using talkative::talkative;
    fixed() = delete;
  };
  long value = 0;
};

TEST(rlu_errors, ends_of_objects_may_begin_sections) {
  rlu::domain d({.segment_bytes = 256, .low_watermark = 1});
  const auto ended = d.make<number>({0});
  const auto made = [&](auto& in) { return in.template make<with_end>({d, ended}, {}); };
  d.update([&](auto& in) {
    made(in);
    in.cancel();
  });
  d.update([&](auto& in) { in.free(made(in).self()); });
  rlu::ptr<with_end> third;
  d.update([&](auto& in) { third = made(in); });
  d.update([&](auto& in) { in.free(third); });
  for (int i = 0; i < 4; ++i) d.collect();
  EXPECT_EQ(d.read([&](auto& in) { return in.read(ended)->value; }), 3);
  d.discard(ended);
}

#if SPOLIA_CHECKS
std::string last_misuse;
void note_misuse(const char* what, std::uint32_t) { last_misuse = what; }

TEST(rlu_misuse, is_reported) {
  const auto before = core::set_misuse_handler(&note_misuse);
  rlu::domain d;
  const auto p = d.make<number>({0});
  rlu::view<number> kept;
  d.read([&](auto& in) { kept = in.read(p); });
  (void)kept->value;
  EXPECT_EQ(last_misuse, "rlu: a view or copy was used after its section");
  rlu::copy<number> written;
  d.update([&](auto& in) {
    written = in.try_lock(p);
    EXPECT_FALSE(in.try_lock(rlu::ptr<number>())) << "null";
  });
  EXPECT_EQ(last_misuse, "rlu: a null pointer was to be locked");
  d.read([&](auto&) { d.collect(); });
  EXPECT_EQ(last_misuse, "rlu: collect inside a section");
  d.update([&](auto& in) {
    EXPECT_TRUE(in.free(p));
    EXPECT_FALSE(in.try_lock(p));
  });
  EXPECT_EQ(last_misuse, "rlu: an object was locked that the same section has freed");
  d.update([&](auto& in) { in.free(p); });
  d.read([&](auto& in) { in.read(p); });
  EXPECT_EQ(last_misuse, "rlu: an object was read that an earlier section freed");
  core::set_misuse_handler(before);
}
#endif

TEST(rlu_errors, many_objects_of_one_section_cost_few_allocations) {
  rlu::domain d;
  const std::uint64_t before = thread_allocations();
  constexpr std::uint64_t count = 2000;
  d.update([&](auto& in) {
    for (std::uint64_t i = 0; i < count; ++i) (void)in.template make<number>({1});
    in.cancel();
  });
  EXPECT_LT(thread_allocations() - before, count + 100);
}

/// What f says in a child of a fork; a child that hangs is ended by the system.
template <class F>
bool holds_in_child(F&& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    _exit(f() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Where a thread can be parked, for a fork to lose it there.
struct gate {
  std::atomic<bool> reached{false};
  std::atomic<bool> open{false};
  void pass() {
    reached.store(true);
    while (!open.load()) std::this_thread::yield();
  }
  void wait_until_reached() const {
    while (!reached.load()) std::this_thread::yield();
  }
};

/// Parks a thread that commits just before it has its timestamp.
class gated_clock : public logical_clock {
 public:
  static inline thread_local gate* parks_at = nullptr;
  std::uint64_t tick() noexcept {
    park();
    return logical_clock::tick();
  }
  std::uint64_t tick_alone() noexcept {
    park();
    return logical_clock::tick_alone();
  }

 private:
  static void park() {
    if (gate* const at = std::exchange(parks_at, nullptr)) at->pass();
  }
};

TEST(rlu_errors, what_a_lost_thread_was_committing_stays_as_it_was_seen) {
#if SPOLIA_TSAN
  GTEST_SKIP() << "the race detector follows no fork of a program with threads";
#endif
  rlu::basic_domain<gated_clock> d;
  const auto p = d.make<number>({0});
  const auto q = d.make<number>({0});
  const auto other = d.make<number>({0});
  gate in_commit;
  std::thread lost([&] {
    gated_clock::parks_at = &in_commit;
    d.update([&](auto& in) { in.try_lock(p)->value = in.try_lock(q)->value = 1; });
  });
  in_commit.wait_until_reached();
  EXPECT_TRUE(holds_in_child([&] {
    const bool same = d.read([&](auto& in) {
      const long first = in.read(p)->value;
      // Has the number of the thread that was lost.
      std::thread next([&] { d.update([&](auto& w) { w.try_lock(other)->value = 1; }); });
      next.join();
      return in.read(p)->value == first && in.read(q)->value == first;
    });
    const bool whole = d.alone(p).value == d.alone(q).value;
    d.discard(p);
    d.discard(q);
    return same && whole;
  }));
  in_commit.open.store(true);
  lost.join();
  for (const auto each : {p, q, other}) d.discard(each);
}

/// Parks a thread that assigns it, which commits in place do.
struct gated_number {
  static inline thread_local gate* parks_at = nullptr;
  explicit gated_number(long v) : value(v) {}
  gated_number(const gated_number&) = default;
  gated_number& operator=(const gated_number& o) noexcept {
    if (gate* const at = std::exchange(parks_at, nullptr)) at->pass();
    value = o.value;
    return *this;
  }
  long value;
};

TEST(rlu_errors, what_a_lost_thread_was_changing_in_place_is_whole) {
#if SPOLIA_TSAN
  GTEST_SKIP() << "the race detector follows no fork of a program with threads";
#endif
  rlu::domain d;
  const auto p = d.make<number>({0});
  const auto q = d.make<gated_number>(gated_number(0));
  gate in_commit;
  std::thread lost([&] {
    d.collect();  // is alone from here on
    gated_number::parks_at = &in_commit;
    d.update([&](auto& in) { in.try_lock(p)->value = in.try_lock(q)->value = 1; });
  });
  in_commit.wait_until_reached();
  EXPECT_TRUE(holds_in_child([&] {
    const bool whole =
        d.read([&](auto& in) { return in.read(p)->value == 1 && in.read(q)->value == 1; });
    const auto next = d.attempt([&](auto& in) {
      if (auto mine = in.try_lock(p)) mine->value = 2;
    });
    const bool there = d.read([&](auto& in) { return in.read(p)->value == 2; });
    return whole && there && next == rlu::outcome::committed;
  }));
  in_commit.open.store(true);
  lost.join();
  d.discard(p);
  d.discard(q);
}

TEST(rlu_errors, a_lost_section_leaves_nothing_to_the_next_thread) {
#if SPOLIA_TSAN
  GTEST_SKIP() << "the race detector follows no fork of a program with threads";
#endif
  rlu::domain d;
  const auto held = d.make<number>({0});
  const auto other = d.make<number>({0});
  tally counted;
  gate in_section;
  std::thread lost([&] {
    d.update([&](auto& in) {
      in.serializable();
      EXPECT_EQ(in.read(other)->value, 0);
      in.count(counted);
      in.try_lock(held)->value = 1;
      in_section.pass();
    });
  });
  in_section.wait_until_reached();
  EXPECT_TRUE(holds_in_child([&] {
    const rlu::ptr<number> mine = d.make<number>({0});
    d.discard(other);  // which the lost section has read
    std::thread next([&] { d.update([&](auto& in) { in.try_lock(mine)->value = 1; }); });
    next.join();
    const bool right = counted.value() == 0 && d.alone(held).value == 0;
    d.discard(held);
    d.discard(mine);
    return right;
  }));
  in_section.open.store(true);
  lost.join();
  EXPECT_EQ(counted.value(), 1U);
  d.discard(held);
  d.discard(other);
}

TEST(rlu_errors, the_log_of_a_lost_thread_takes_nothing_of_the_next_ones_cap) {
#if SPOLIA_TSAN
  GTEST_SKIP() << "the race detector follows no fork of a program with threads";
#endif
  rlu::domain d({.segment_bytes = 256, .log_cap = 2048, .in_place = false});
  std::array<rlu::ptr<number>, 64> all;
  for (auto& p : all) p = d.make<number>({0});
  const auto fill = [&] {
    rlu::outcome how = rlu::outcome::committed;
    for (std::size_t i = 0; i < all.size() && how != rlu::outcome::log_full; ++i) {
      how = d.attempt([&](auto& in) {
        if (auto mine = in.try_lock(all[i])) mine->value = 1;
      });
    }
    return how;
  };
  gate is_full;
  d.read([&](auto&) {  // needs what is overwritten meanwhile
    std::thread lost([&] {
      EXPECT_EQ(fill(), rlu::outcome::log_full);
      is_full.pass();
    });
    is_full.wait_until_reached();
    EXPECT_TRUE(holds_in_child([&] {
      const auto mine = d.make<number>({0});
      rlu::outcome how = rlu::outcome::log_full;
      std::thread next([&] {
        how = d.attempt([&](auto& in) {
          if (auto copy = in.try_lock(mine)) copy->value = 1;
        });
      });
      next.join();
      return how == rlu::outcome::committed;
    }));
    is_full.open.store(true);
    lost.join();
  });
  for (const auto p : all) d.discard(p);
}

TEST(rlu_errors, what_a_lost_thread_was_looking_through_takes_nothing_of_the_cap) {
#if SPOLIA_TSAN
  GTEST_SKIP() << "the race detector follows no fork of a program with threads";
#endif
  rlu::domain d({.segment_bytes = 256, .log_cap = 2048, .in_place = false});
  std::array<rlu::ptr<gated_number>, 64> all;
  for (auto& p : all) p = d.make<gated_number>(gated_number(0));
  const auto set = [&](rlu::ptr<gated_number> p, long to) {
    return d.attempt([&](auto& in) {
      if (auto mine = in.try_lock(p)) mine->value = to;
    });
  };
  std::size_t n = 0;
  while (n < all.size() && set(all[n], 1) != rlu::outcome::log_full) ++n;
  ASSERT_LT(n, all.size());
  gate in_pass;
  std::thread lost([&] {
    gated_number::parks_at = &in_pass;  // when it writes the first one back
    d.collect();
  });
  in_pass.wait_until_reached();
  EXPECT_TRUE(holds_in_child([&] {
    // As much again as there was: no thread has it any more.
    for (std::size_t i = n; i < n + 8; ++i) {
      if (set(all[i], 2) != rlu::outcome::committed) return false;
    }
    return d.read([&](auto& in) { return in.read(all[n])->value == 2; });
  }));
  in_pass.open.store(true);
  lost.join();
  for (const auto p : all) d.discard(p);
}

TEST(rlu_errors, a_forked_child_goes_on) {
#if SPOLIA_TSAN
  GTEST_SKIP() << "the race detector follows no fork of a program with threads";
#endif
  rlu::domain d({.segment_bytes = 256, .low_watermark = 1});
  const auto busy = d.make<number>({0});
  const auto mine = d.make<number>({0});
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load())
      d.update([&](auto& in) {
        if (auto n = in.try_lock(busy)) n->value += 1;
      });
  });
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(holds_in_child([&] {
      for (long n = 1; n <= 100; ++n) {
        d.update([&](auto& in) { in.try_lock(mine)->value = n; });
      }
      d.collect();
      const bool right = d.read(
          [&](auto& in) { return in.read(mine)->value == 100 && in.read(busy)->value >= 0; });
      d.discard(mine);
      d.discard(busy);
      return right;
    }));
  }
  stop.store(true);
  other.join();
  d.discard(busy);
  d.discard(mine);
}

TEST(rlu_errors, counting_chains_that_fails_leaves_logs_to_be_collected) {
  rlu::domain d({.in_place = false});
  const auto p = d.make<number>({0});
  const auto set = [&](long to) { d.update([&](auto& in) { in.try_lock(p)->value = to; }); };
  set(1);
  EXPECT_THROW(d.for_each_chain([](std::size_t) { throw std::runtime_error("no"); }),
               std::runtime_error);
  for (int i = 0; i < 3; ++i) d.collect();
  EXPECT_EQ(d.stats().waiting, 0U);
  EXPECT_EQ(d.stats().log_bytes, 0U);
  if (d.stats().waiting == 0) d.discard(p);  // which waits for each thread that looks through a log
}

/// Its move makes another object of the same section.
struct prolific {
  rlu::domain* d = nullptr;
  bool throws = false;
  static inline rlu::ptr<number> made;
  prolific(rlu::domain& home, bool t) : d(&home), throws(t) {}
  prolific(prolific&& from) : d(from.d), throws(from.throws) {
    d->update([&](auto& in) { made = in.template make<number>({5}); });
    if (throws) throw std::runtime_error("no");
  }
};
struct with_prolific {
  struct fixed : prolific {
    using prolific::prolific;
    fixed() = delete;
  };
  long value = 0;
};

TEST(rlu_errors, moving_a_fixed_part_may_make_objects) {
  rlu::domain d;
  rlu::ptr<with_prolific> outer;
  d.update([&](auto& in) { outer = in.template make<with_prolific>({d, false}, {}); });
  const auto inner = prolific::made;
  d.update([&](auto& in) {
    EXPECT_THROW((void)in.template make<with_prolific>({d, true}, {}), std::runtime_error);
    in.cancel();
  });
  const auto how = d.attempt([&](auto& in) {
    if (auto mine = in.try_lock(inner)) mine->value += 1;
  });
  EXPECT_EQ(how, rlu::outcome::committed);
  EXPECT_EQ(d.alone(inner).value, 6);
  d.discard(inner);
  d.discard(outer);
}

TEST(rlu_errors, a_child_born_while_chains_are_counted_goes_on) {
#if SPOLIA_TSAN
  GTEST_SKIP() << "the race detector follows no fork of a program with threads";
#endif
  rlu::domain d({.in_place = false});
  const auto p = d.make<number>({0});
  d.update([&](auto& in) { in.try_lock(p)->value = 1; });
  gate stays;
  std::thread lost([&] {  // so that there is one to lose
    d.read([&](auto&) { stays.pass(); });
  });
  stays.wait_until_reached();
  pid_t child = -1;
  d.for_each_chain([&](std::size_t) {
    if (child == -1) child = fork();
  });
  if (child == 0) {
    alarm(20);
    for (int i = 0; i < 3; ++i) d.collect();
    const bool empty = d.stats().waiting == 0 && d.stats().passes >= 3;
    if (empty) d.discard(p);
    _exit(empty ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  stays.open.store(true);
  lost.join();
  d.discard(p);
}

TEST(rlu_errors, a_detector_without_memory_is_none) {
  rlu::domain d;
  const std::uint64_t failures = for_each_allocation_failure([&] { rlu::detector upkeep(d); });
  EXPECT_GE(failures, 1U) << "the thread's";
}

}  // namespace
