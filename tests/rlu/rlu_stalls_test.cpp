// SPDX-License-Identifier: Apache-2.0
// Read-log-update beside a thread that is stopped at any step of a pass, a section or a commit. The
// steps are the calls that a domain makes of what it was given: its clock, its reclamation, and the
// copying and ending of objects.

#include <gtest/gtest.h>

#include <spolia/base/processors.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/rlu.hpp>
#include <spolia/rlu/detector.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/one_processor.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Stops a thread at its n-th step.
class stop_sign {
 public:
  /// Of threads that are to be stopped. The test's own say false, a detector's says nothing.
  static inline thread_local bool may_stop = true;

  /// At the calling thread's step.
  static void step(const char* what) noexcept {
    stop_sign* const sign = standing.load();
    if (sign == nullptr || !may_stop) return;
    if (sign->left_.fetch_sub(1) != 0) return;
    sign->where_ = what;
    sign->stopped_.post();
    sign->go_.wait();
    sign->gone_on_.post();
  }

  explicit stop_sign(int steps) : left_(steps) { standing.store(this); }
  stop_sign(const stop_sign&) = delete;
  stop_sign& operator=(const stop_sign&) = delete;
  ~stop_sign() { standing.store(nullptr); }

  /// Until a thread has come to its n-th step, or says that it will not.
  void wait() { stopped_.wait(); }
  void no_thread_comes() { stopped_.post(); }
  void go_on() { go_.post(); }
  /// Until it has.
  void wait_until_gone_on() { gone_on_.wait(); }
  /// Null: no thread came.
  [[nodiscard]] const char* where() const { return where_; }

 private:
  static inline std::atomic<stop_sign*> standing{nullptr};

  std::atomic<int> left_;
  const char* where_ = nullptr;
  posix_semaphore stopped_;
  posix_semaphore go_;
  posix_semaphore gone_on_;
};

class stepping_clock : public logical_clock {
 public:
  [[nodiscard]] std::uint64_t now() const noexcept {
    stop_sign::step("looks at the clock");
    return logical_clock::now();
  }
  std::uint64_t tick() noexcept {
    stop_sign::step("moves the clock");
    const std::uint64_t drawn = logical_clock::tick();
    stop_sign::step("has moved the clock");
    return drawn;
  }
  std::uint64_t tick_alone() noexcept { return 0; }
};

class stepping_blocks {
  using inner = spolia::domain<debra, batch>;

 public:
  using header = inner::header;
  using options = inner::options;

  explicit stepping_blocks(const options& o) : inner_(o) {}
  auto enter() {
    stop_sign::step("enters a guard");
    auto guard = inner_.enter();
    stop_sign::step("is in a guard");
    return guard;
  }
  bool drain(int rounds) {
    stop_sign::step("frees segments");
    return inner_.drain(rounds);
  }
  bool drain() {
    stop_sign::step("frees segments");
    return inner_.drain();
  }
  void rest() { inner_.rest(); }
  [[nodiscard]] std::uint64_t garbage() const noexcept { return inner_.garbage(); }

 private:
  inner inner_;
};

/// Says when it is copied, and when its object ends.
struct stepping {
  struct fixed {
    fixed() = default;
    explicit fixed(std::atomic<int>& objects) : alive(&objects) { objects.fetch_add(1); }
    fixed(fixed&& from) noexcept : alive(std::exchange(from.alive, nullptr)) {}
    ~fixed() {
      if (alive == nullptr) return;
      stop_sign::step("ends an object");
      alive->fetch_sub(1);
    }
    std::atomic<int>* alive = nullptr;
  };

  stepping(long v, rlu::ptr<stepping> n) noexcept : value(v), next(n) {}
  stepping(const stepping& from) noexcept : value(from.value), next(from.next) {
    stop_sign::step("copies");
  }
  stepping& operator=(const stepping& from) noexcept {
    stop_sign::step("writes back");
    value = from.value;
    stop_sign::step("has written back half");
    next = from.next;
    stop_sign::step("has written back");
    return *this;
  }

  long value;
  rlu::ptr<stepping> next;
};

using stepping_domain = rlu::basic_domain<stepping_clock, stepping_blocks>;
using pointer = rlu::ptr<stepping>;

constexpr std::size_t cap = 12288;
constexpr rlu::options small{.segment_bytes = 512,
                             .low_watermark = 4096,
                             .high_watermark = 8192,
                             .log_cap = cap,
                             .walk_watermark = 256,
                             .turn_us = 0,
                             .in_place = false,  // there a section may wait for a commit
                             .tries_when_full = 1};

/// Groups of objects whose values every update keeps equal; each group's first names the others.
struct world {
  static constexpr std::size_t groups = 4;
  static constexpr std::size_t size = 3;

  world() {
    for (auto& first : all) {
      pointer rest;
      for (std::size_t i = 0; i < size; ++i) {
        rest = d.make<stepping>(stepping::fixed(objects), {0, rest});
      }
      first = rest;
    }
  }
  ~world() {
    for (pointer p : all) {
      while (p) {
        const pointer next = d.alone(p).next;
        d.discard(p);
        p = next;
      }
    }
  }

  /// Adds one to a group, and puts a new object in the place of its last.
  rlu::outcome add_one(std::size_t g) {
    const rlu::outcome how = d.attempt([&](auto& in) {
      for (pointer p = all[g]; p; p = in.read(p)->next) {
        auto mine = in.try_lock(p);
        if (!mine) return;
        mine->value += 1;
        const pointer last = mine->next;
        if (!last || in.read(last)->next) continue;
        const long value = in.read(last)->value;
        if (in.free(last)) {
          mine->next = in.template make<stepping>(stepping::fixed(objects), {value + 1, {}});
        }
        return;
      }
    });
    if (how == rlu::outcome::committed) added[g].fetch_add(1);
    return how;
  }
  /// The group's common value; -1 if it has none.
  long look(std::size_t g) {
    return d.read([&](auto& in) {
      const long first = in.read(all[g])->value;
      std::size_t n = 0;
      for (pointer p = all[g]; p; p = in.read(p)->next, ++n) {
        if (in.read(p)->value != first) return -1L;
      }
      return n == size ? first : -1L;
    });
  }

  std::atomic<int> objects{0};
  stepping_domain d{small};
  std::array<pointer, groups> all;
  std::array<std::atomic<long>, groups> added{};
};

/// What threads do while another is stopped anywhere: they read and change all groups, until their
/// logs are full, or would be three times over if nothing had been taken back.
void goes_on(world& w) {
  bool full = false;
  for (int round = 0; round < 40 && !full; ++round) {
    for (std::size_t g = 0; g < world::groups; ++g) {
      const long before = w.look(g);
      ASSERT_GE(before, 0) << "torn";
      const rlu::outcome how = w.add_one(g);
      const long after = w.look(g);
      EXPECT_GE(after, before) << "backwards";
      if (how == rlu::outcome::committed) {
        EXPECT_GT(after, before) << "an own commit is not seen";
      }
      full |= how == rlu::outcome::log_full;
    }
  }
  if (full) w.d.collect();  // as update does: it must not wait for the stopped thread
}

/// By a thread whose log has room, while no other thread is awake: the stopped one may have locked
/// what one group consists of.
void all_can_be_changed_but_one(world& w) {
  int stuck = 0;
  for (std::size_t g = 0; g < world::groups; ++g) {
    stuck += w.add_one(g) == rlu::outcome::committed ? 0 : 1;
  }
  EXPECT_LE(stuck, 1);
}

/// A section that sees one instant before it is parked and when it goes on.
struct old_section {
  explicit old_section(world& w)
      : asleep([&w](parking_spot& spot) {
          stop_sign::may_stop = false;
          w.d.read([&](auto&) {
            std::array<long, world::groups> seen{};
            for (std::size_t g = 0; g < world::groups; ++g) seen[g] = w.look(g);
            spot.park();
            for (std::size_t g = 0; g < world::groups; ++g) {
              EXPECT_GE(seen[g], 0) << "torn";
              EXPECT_EQ(w.look(g), seen[g]) << "not the section's instant any more";
            }
          });
        }) {}
  parked_thread asleep;
};

/// A thread that is between two sections and may begin the next: beside it no fast-path check is
/// enough, so that what is written stays in the logs until a thread scans the census.
struct idle_thread {
  explicit idle_thread(world& w)
      : asleep([&w](parking_spot& spot) {
          stop_sign::may_stop = false;
          (void)w.look(0);
          spot.park();
        }) {}
  parked_thread asleep;
};

void write_some(world& w, std::initializer_list<std::size_t> groups) {
  for (const std::size_t g : groups) (void)w.add_one(g);
}

/// Runs `victim` until it comes to its n-th step, and beside it, when it is stopped there, threads
/// that go on. Returns where it was stopped; empty: it has ended before.
std::string stopped_at(int n, const std::function<void(world&, stop_sign&)>& victim) {
  stop_sign::may_stop = false;
  std::string where;
  {
    world w;
    const idle_thread beside(w);
    // So that every kind of record lies in the log: some written over by others, some of objects
    // that were freed, some that a section holds, which sees masters as well.
    write_some(w, {0, 1, 2, 0, 1, 2});
    {
      const old_section sleeper(w);
      write_some(w, {3, 1, 0, 0, 1, 0, 0, 0});
      stop_sign sign(n);
      std::thread stopped([&] {
        stop_sign::may_stop = true;
        victim(w, sign);
      });
      sign.wait();
      if (sign.where() != nullptr) where = sign.where();
      const old_section later(w);  // ends when the other has gone on
      std::array<std::thread, 2> others;
      std::barrier both(2);  // else the second might get the first one's log, which may be full
      for (std::thread& one : others) {
        one = std::thread([&] {
          stop_sign::may_stop = false;
          (void)w.look(0);
          both.arrive_and_wait();
          goes_on(w);
        });
      }
      for (std::thread& one : others) one.join();
      all_can_be_changed_but_one(w);
      const auto held = w.d.stats();
      EXPECT_LE(held.log_bytes + held.retired_bytes, 4 * cap);  // of four threads that write
      sign.go_on();
      stopped.join();
    }
    for (std::size_t g = 0; g < world::groups; ++g) EXPECT_EQ(w.look(g), w.added[g].load());
    for (int i = 0; i < 4; ++i) w.d.collect();
    EXPECT_EQ(w.d.stats().log_bytes, 0U);
    EXPECT_EQ(w.objects.load(), static_cast<int>(world::groups * world::size));
  }
  return where;
}

/// At each step, the first to the last, or to `most`. Returns the kinds there are.
std::set<std::string> at_each_step(const std::function<void(world&, stop_sign&)>& victim,
                                   int most = 1000) {
  std::set<std::string> kinds;
  for (int n = 0; n < most; ++n) {
    SCOPED_TRACE(n);
    const std::string where = stopped_at(n, victim);
    if (where.empty() || testing::Test::HasFailure()) return kinds;
    kinds.insert(where);
  }
  return kinds;
}

const std::set<std::string> of_any_pass = {
    "looks at the clock", "moves the clock",       "has moved the clock",
    "enters a guard",     "is in a guard",         "copies",
    "writes back",        "has written back half", "has written back"};

TEST(rlu_stalls, a_pass_may_stop_anywhere) {
  std::set<std::string> all = of_any_pass;
  all.insert({"frees segments", "ends an object"});
  EXPECT_EQ(at_each_step([](world& w, stop_sign& sign) {
              for (int i = 0; i < 3; ++i) w.d.collect();
              sign.no_thread_comes();
            }),
            all);
}

TEST(rlu_stalls, a_detector_may_stop_anywhere) {
  const auto kinds = at_each_step(
      [](world& w, stop_sign& sign) {
        stop_sign::may_stop = false;
        const rlu::detector upkeep(w.d, std::chrono::microseconds(50));
        sign.wait_until_gone_on();
      },
      50);
  EXPECT_EQ(kinds, of_any_pass);
}

TEST(rlu_stalls, a_section_may_stop_anywhere) {
  const std::set<std::string> all = {"looks at the clock", "enters a guard",
                                     "is in a guard",      "copies",
                                     "moves the clock",    "has moved the clock"};
  EXPECT_EQ(at_each_step([](world& w, stop_sign& sign) {
              for (std::size_t g = 0; g < 2; ++g) {
                EXPECT_GE(w.look(g), 0);
                EXPECT_EQ(w.add_one(g), rlu::outcome::committed);
              }
              sign.no_thread_comes();
            }),
            all);
}

/// Fast-path checks are enough for what a thread has written itself, and come soon when all others
/// are offline. What one of these has left needs a scan of the census.
TEST(rlu_stalls, a_thread_that_goes_on_writes_back_what_a_sleeper_has_written) {
  struct cell {
    long value;
  };
  rlu::domain d({.low_watermark = 4096, .walk_watermark = 256, .turn_us = 0, .in_place = false});
  const auto mine = d.make<cell>({0});
  const auto its = d.make<cell>({0});
  const auto add_to = [&](rlu::ptr<cell> p) {
    d.update([&](auto& in) { ++in.try_lock(p)->value; });
  };
  const parked_thread asleep([&](parking_spot& self) {
    add_to(its);
    self.park();
  });
  bool home = false;
  for (int i = 0; i < 100'000 && !home; ++i) {
    if (i % 64 == 0) add_to(mine);
    const std::uint64_t before = d.stats().walks;
    EXPECT_EQ(d.read([&](auto& in) { return in.read(its)->value; }), 1);
    home = d.stats().walks == before;
  }
  EXPECT_TRUE(home);
  d.discard(mine);
  d.discard(its);
}

/// Reads a few objects that change, beside as many sections as there are processors, which all see
/// something else: so some thread was interrupted, and what is read is all copies.
class rlu_turns : public testing::Test {
 public:
  struct cell {
    long value;
  };
  static std::uint64_t beside_sections(std::uint32_t sections, std::uint32_t turn_us) {
    rlu::domain d({.turn_us = turn_us});
    const auto few = d.make<cell>({0});
    const auto change = [&] { d.update([&](auto& in) { ++in.try_lock(few)->value; }); };
    std::uint64_t turns = 0;
    // Turns are given within a second, which a busy machine may leave us nothing of.
    for (int again = 0; again < 20 && turns == 0; ++again) {
      std::vector<std::unique_ptr<parked_thread>> asleep;
      for (std::uint32_t i = 0; i < sections; ++i) {
        change();
        asleep.push_back(std::make_unique<parked_thread>(
            [&](parking_spot& self) { d.read([&](auto&) { self.park(); }); }));
      }
      change();
      long sum = 0;
      for (int i = 0; i < 20'000; ++i) sum += d.read([&](auto& in) { return in.read(few)->value; });
      EXPECT_GT(sum, 0);
      turns = d.stats().turns;
      if (turn_us == 0 || sections < processors()) break;
    }
    EXPECT_TRUE(sections == 0 || d.stats().walks > 4096U);
    d.discard(few);
    return turns;
  }
};

TEST_F(rlu_turns, are_given_when_sections_were_interrupted) {
  EXPECT_GT(beside_sections(processors(), 100), 0U);
}
TEST_F(rlu_turns, are_given_where_the_process_may_use_one_processor_only) {
  const one_processor here;
  EXPECT_GT(beside_sections(1, 100), 0U);
}
/// So much longer than the test that only the first turn can end by itself.
TEST_F(rlu_turns, end_at_once_when_a_section_holds_up_what_changes) {
  rlu::domain d({.turn_us = 1'000'000'000});
  const auto few = d.make<cell>({0});
  std::deque<parked_thread> asleep;
  for (std::uint32_t i = 0; i <= processors(); ++i) {
    d.update([&](auto& in) { ++in.try_lock(few)->value; });
    asleep.emplace_back([&](parking_spot& self) { d.read([&](auto&) { self.park(); }); });
  }
  d.update([&](auto& in) { ++in.try_lock(few)->value; });
  const auto turns_after_reads = [&](std::uint64_t enough) {
    for (int i = 0; i < 2'000'000 && d.stats().turns < enough; ++i) {
      EXPECT_GT(d.read([&](auto& in) { return in.read(few)->value; }), 0);
    }
    return d.stats().turns;
  };
  EXPECT_GT(turns_after_reads(1), 0U);
  asleep.pop_front();  // whose thread may give its first turn, too
  const std::uint64_t before = d.stats().turns;
  EXPECT_GT(turns_after_reads(before + 1), before) << "for the next";
  for (int i = 0; i < 100'000; ++i) d.read([&](auto& in) { return in.read(few)->value; });
  EXPECT_LE(d.stats().turns, before + processors()) << "once for each";
  asleep.clear();
  d.discard(few);
}

TEST_F(rlu_turns, are_not_given_without_or_if_that_is_forbidden) {
  EXPECT_EQ(beside_sections(processors() - 1, 100), 0U);
  EXPECT_EQ(beside_sections(processors(), 0), 0U);
}

}  // namespace
