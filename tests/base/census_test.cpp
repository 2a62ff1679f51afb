// SPDX-License-Identifier: Apache-2.0
// census_test.cpp: the census against what is really live, race by race and under load.
#include <spolia/base/census.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/backoff.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/threads.hpp>

namespace {

using namespace spolia;

/// A counter that lets something happen just before its n-th reading: races without threads.
template <bool AdvancesAlone>
struct interrupted_clock {
  static constexpr bool advances_alone = AdvancesAlone;

  std::uint64_t now() const noexcept {
    if (--*until == 0) happening();
    return value;
  }
  std::uint64_t tick() noexcept { return ++value; }
  void pass(std::uint64_t t) noexcept { value = std::max(value, t + 1); }
  static constexpr std::uint64_t bound() noexcept { return 0; }
  static constexpr bool after(std::uint64_t x, std::uint64_t y) noexcept { return x > y; }
  static constexpr time_order compare(std::uint64_t, std::uint64_t) noexcept {
    return time_order::uncertain;
  }

  void before_reading(int n, std::function<void()> what) {
    *until = n;
    happening = std::move(what);
  }

  std::uint64_t value = 1;
  std::unique_ptr<int> until = std::make_unique<int>(0);
  std::function<void()> happening;
};

std::vector<census::entry> entries(const census& living) {
  std::vector<census::entry> all;
  living.for_each([&](const census::entry& e) { all.push_back(e); });
  return all;
}

TEST(Census, EmptyHoldsNothingUp) {
  const census living;
  const logical_clock clock(5);
  std::vector<std::uint64_t> times{1, 2, 3};
  EXPECT_EQ(living.oldest(17), 17U);
  EXPECT_EQ(living.oldest(clock), 5U);
  EXPECT_EQ(living.scan(clock, times), 5U);
  EXPECT_TRUE(times.empty());
  EXPECT_TRUE(entries(living).empty());
}

TEST(Census, KnowsWhatIsAnnounced) {
  census living;
  logical_clock clock(10);
  auto first = living.announce(clock);
  EXPECT_TRUE(first);
  EXPECT_EQ(first.timestamp(), 10U);
  clock.tick();
  auto second = living.announce(clock);
  auto twin = living.announce(clock);
  clock.tick();
  std::vector<std::uint64_t> times;
  EXPECT_EQ(living.oldest(clock), 10U);
  EXPECT_EQ(living.scan(clock, times), 12U);
  EXPECT_EQ(times, (std::vector<std::uint64_t>{10, 11}));
  first.withdraw();
  EXPECT_FALSE(first);
  first.withdraw();
  EXPECT_EQ(living.oldest(clock), 11U);
  census::withdraw(std::move(second));
  EXPECT_EQ(living.oldest(clock), 11U) << "the twin is still there";
  twin = {};
  EXPECT_EQ(living.oldest(clock), 12U);
}

TEST(Census, NeverPromisesMoreThanItsLimit) {
  census living;
  logical_clock clock(20);
  const auto ticket = living.announce(clock);
  EXPECT_EQ(living.oldest(7), 7U) << "a slot seen empty before may hold anything from 7 on by now";
  std::vector<std::uint64_t> times;
  EXPECT_EQ(living.scan(7, times), 7U);
  EXPECT_EQ(times, std::vector<std::uint64_t>{20});
}

TEST(Census, ListsAscendingWhateverTheOrder) {
  census living;
  std::mt19937 random(3);
  std::vector<std::uint64_t> wanted;
  std::vector<census::ticket> tickets;
  for (int i = 0; i < 500; ++i) {
    const std::uint64_t t = random() % 1000;
    tickets.push_back(living.announce(logical_clock(t)));
    wanted.push_back(t);
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  std::vector<std::uint64_t> times;
  EXPECT_EQ(living.scan(2000, times), 2000U);
  EXPECT_EQ(times, wanted);
  EXPECT_EQ(living.oldest(2000), wanted.front());
}

TEST(Census, TicketsMoveAndAreNotCopied) {
  static_assert(!std::is_copy_constructible_v<census::ticket>);
  static_assert(std::is_nothrow_move_constructible_v<census::ticket>);
  census living;
  logical_clock clock(3);
  auto a = living.announce(clock);
  auto b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: what a moved-from ticket is, is part of its contract
  EXPECT_EQ(b.timestamp(), 3U);
  clock.tick();
  b = living.announce(clock);
  EXPECT_EQ(living.oldest(99), 4U) << "assignment withdraws what was held";
  auto& same = b;
  b = std::move(same);
  EXPECT_EQ(living.oldest(99), 4U);
}

TEST(Census, TellsWhoHoldsWhatSinceWhen) {
  census living;
  logical_clock clock(3);
  const std::uint64_t before = ticks::read_in_order();
  const auto report = living.announce(clock, "report");
  const std::uint64_t after = ticks::read_in_order();
  const auto plain_one = living.announce(clock);
  std::vector<census::entry> all = entries(living);
  ASSERT_EQ(all.size(), 2U);
  if (all[0].label == nullptr) std::swap(all[0], all[1]);
  EXPECT_STREQ(all[0].label, "report");
  EXPECT_EQ(all[0].timestamp, 3U);
  EXPECT_TRUE(all[0].settled);
  EXPECT_EQ(all[0].thread, threads::number());
  EXPECT_GE(all[0].start_ticks, before);
  EXPECT_LE(all[0].start_ticks, after);
  EXPECT_EQ(all[1].label, nullptr);
  EXPECT_EQ(all[1].start_ticks, 0U);
}

TEST(Census, ASlotThatIsUsedAgainForgetsItsLabel) {
  census living;
  const logical_clock clock;
  living.announce(clock, "old").withdraw();
  const auto ticket = living.announce(clock);
  ASSERT_EQ(entries(living).size(), 1U);
  EXPECT_EQ(entries(living)[0].label, nullptr);
  EXPECT_EQ(entries(living)[0].start_ticks, 0U);
}

TEST(Census, ASeatAnnouncesAgainAndAgain) {
  census living;
  logical_clock clock;
  (void)living.announce(clock, "of a ticket that stood there before");
  census::reserved_slot mine = living.reserve();
  ASSERT_TRUE(mine);
  EXPECT_TRUE(entries(living).empty()) << "a reserved slot is not yet an announcement";
  for (const char* const label :
       {static_cast<const char*>(nullptr), "report", static_cast<const char*>(nullptr)}) {
    clock.tick();
    const std::uint64_t t = mine.announce(clock, label);
    EXPECT_EQ(t, clock.now());
    clock.tick();
    EXPECT_EQ(living.oldest(clock), t);
    ASSERT_EQ(entries(living).size(), 1U);
    EXPECT_EQ(entries(living)[0].timestamp, t);
    EXPECT_EQ(entries(living)[0].label, label);
    mine.withdraw();
    EXPECT_EQ(living.oldest(clock), clock.now());
  }
}

TEST(Census, MissedByAScanMeansAnnouncedAfterIt) {
  census living;
  interrupted_clock<false> clock;
  std::uint64_t promised = 0;
  clock.before_reading(2, [&] {
    clock.value = 7;
    promised = living.oldest(7);
  });
  const auto ticket = living.announce(clock);
  EXPECT_EQ(promised, 1U) << "the scan saw the stored time";
  EXPECT_EQ(ticket.timestamp(), 7U) << "the clock has moved, so the announcement moves too";
}

/// The thread read the clock and sleeps before it stores; meanwhile a scan finds nothing.
TEST(Census, AScanBetweenReadingTheClockAndAnnouncing) {
  census living;
  struct lagging_clock : interrupted_clock<false> {
    mutable std::uint64_t lag = 0;
    std::uint64_t now() const noexcept { return value - std::exchange(lag, 0); }
  } clock;
  clock.value = 7;
  clock.lag = 6;
  const std::uint64_t promised = living.oldest(7);
  const auto ticket = living.announce(clock);
  EXPECT_EQ(promised, 7U);
  EXPECT_GE(ticket.timestamp(), promised);
}

TEST(Census, OpenAnnouncementsLimitWhatIsKnown) {
  census living;
  interrupted_clock<true> clock;
  clock.value = 5;
  const auto settled = living.announce(clock);
  std::vector<std::uint64_t> times;
  std::uint64_t known = 0;
  std::uint64_t oldest = 0;
  bool seen_open = false;
  clock.value = 8;
  clock.before_reading(2, [&] {
    clock.value = 30;
    known = living.scan(20, times);
    oldest = living.oldest(20);
    living.for_each(
        [&](const census::entry& e) { seen_open = seen_open || (!e.settled && e.timestamp == 8); });
  });
  const auto ticket = living.announce(clock);
  EXPECT_EQ(times, std::vector<std::uint64_t>{5});
  EXPECT_EQ(known, 8U) << "what ended after 8 may be needed by the announcement that was open";
  EXPECT_EQ(oldest, 5U);
  EXPECT_TRUE(seen_open);
  EXPECT_EQ(ticket.timestamp(), 30U);
  EXPECT_EQ(living.scan(40, times), 40U);
  EXPECT_EQ(times, (std::vector<std::uint64_t>{5, 30}));
}

/// The same when the thread that asks has a clock: nothing is held up by a thread that was
/// interrupted.
TEST(Census, OpenAnnouncementsAreSettledByWhoMeetsThem) {
  census living;
  interrupted_clock<true> clock;
  std::vector<std::uint64_t> times;
  std::uint64_t known = 0;
  clock.value = 8;
  clock.before_reading(2, [&] {
    clock.value = 30;
    known = living.scan(clock, times);
    clock.value = 40;
    EXPECT_EQ(living.oldest(clock), 30U);
  });
  const auto ticket = living.announce(clock);
  EXPECT_EQ(known, 30U);
  EXPECT_EQ(times, std::vector<std::uint64_t>{30});
  EXPECT_EQ(ticket.timestamp(), 30U) << "the time that it was given, not the one that it read";
}

/// A slot's open announcement is not taken for an earlier one of the same slot.
TEST(Census, AnAnnouncementOpenedLaterIsNotSettledBelowTheClock) {
  census living;
  interrupted_clock<true> clock;
  clock.value = 8;
  for (int n = 0; n < 3; ++n) living.announce(clock).withdraw();
  std::uint64_t known = 0;
  clock.before_reading(2, [&] { known = living.oldest(clock); });
  EXPECT_EQ(living.announce(clock).timestamp(), 8U);
  EXPECT_EQ(known, 8U);
}

TEST(Census, AClockThatStepsBackDoesNotTakeTheAnnouncementWithIt) {
  census living;
  interrupted_clock<true> clock;
  clock.value = 9;
  clock.before_reading(2, [&] { clock.value = 4; });
  EXPECT_EQ(living.announce(clock).timestamp(), 9U);
}

TEST(Census, SubtractsTheClocksBound) {
  census living;
  struct vague_clock : interrupted_clock<true> {
    static constexpr std::uint64_t bound() noexcept { return 100; }
  } clock;
  clock.value = 1000;
  EXPECT_EQ(living.oldest(clock), 900U);
  clock.value = 40;
  EXPECT_EQ(living.oldest(clock), 0U);
}

TEST(Census, ATicketOutlivesItsThreadAndIsWithdrawnElsewhere) {
  census living;
  logical_clock clock(2);
  census::ticket ticket;
  std::uint32_t number = 0;
  std::thread([&] {
    number = threads::number();
    ticket = living.announce(clock, "moved");
  }).join();
  clock.tick();
  EXPECT_EQ(living.oldest(clock), 2U);
  std::thread([&] {
    const auto own = living.announce(clock);
    EXPECT_EQ(living.oldest(clock), 2U) << "the number's next thread leaves the slot alone";
  }).join();
  ASSERT_EQ(entries(living).size(), 1U);
  EXPECT_EQ(entries(living)[0].thread, number);
  std::thread([moved = std::move(ticket)]() mutable { moved.withdraw(); }).join();
  EXPECT_EQ(living.oldest(clock), 3U);
}

TEST(Census, SlotsWithdrawnElsewhereAreUsedAgain) {
  census living;
  const logical_clock clock;
  for (int round = 0; round < 50; ++round) {
    std::vector<census::ticket> tickets;
    for (int i = 0; i < 100; ++i) tickets.push_back(living.announce(clock));
    tickets.resize(80);
    std::thread([&] { tickets.clear(); }).join();
  }
  EXPECT_GE(living.capacity(), 100U);
  EXPECT_LE(living.capacity(), 100U + 13U) << "at most one chunk is not full at the peak";
}

TEST(Census, ManyThreadsNeverSeeTheOldestPassALiveTicket) {
  census living;
  logical_clock clock;
  constexpr int rounds = 4000;
  std::mutex exchange_mutex;
  std::vector<census::ticket> handed_over;
  std::atomic<std::uint64_t> promised{0};  // the highest `oldest` that any thread was told
  std::atomic<int> running{3};
  const auto reader = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<census::ticket> mine;
    for (int i = 0; i < rounds; ++i) {
      mine.push_back(living.announce(clock, "reader"));
      if (random() % 4 == 0) clock.pass(mine.back().timestamp());
      for (const census::ticket& t : mine) {
        ASSERT_LE(promised.load(std::memory_order_seq_cst), t.timestamp());
      }
      if (random() % 3 == 0) {
        const std::lock_guard lock(exchange_mutex);
        std::swap(mine, handed_over);
      }
      if (mine.size() > random() % 20) mine.erase(mine.begin());
    }
    running.fetch_sub(1);
  };
  std::vector<std::thread> crowd;
  for (unsigned t = 1; t <= 3; ++t) crowd.emplace_back(reader, t);
  std::vector<std::uint64_t> times;
  while (running.load() != 0) {
    std::uint64_t old = living.oldest(clock);
    if (old % 2 == 0) {
      const std::uint64_t known = living.scan(clock, times);
      ASSERT_TRUE(std::is_sorted(times.begin(), times.end()));
      old = times.empty() ? known : std::min(known, times.front());
    }
    std::uint64_t told = promised.load();
    while (told < old && !promised.compare_exchange_weak(told, old)) {
    }
    living.for_each([&](const census::entry& e) { ASSERT_STREQ(e.label, "reader"); });
  }
  for (auto& t : crowd) t.join();
  handed_over.clear();
  EXPECT_EQ(living.oldest(clock), clock.now());
}

/// What the census is for: memory that readers look at is written over once no reader can need it.
/// Version v is current from began[v] to began[v + 1].
template <class Clock>
void reuse_memory_under_readers(Clock& clock) {
  constexpr std::size_t versions = 3000;
  constexpr std::uint64_t being_stamped = ~std::uint64_t{0};
  census living;
  std::vector<std::uint64_t> payload(versions + 1);  // not atomic: the race detector watches it
  std::vector<std::atomic<std::uint64_t>> began(versions + 1);
  std::atomic<std::size_t> newest{0};
  std::atomic<bool> stop{false};
  const auto stamp_of = [&](std::size_t v) {
    std::uint64_t stamp;
    while ((stamp = began[v].load()) == being_stamped) spin_wait();
    return stamp;
  };
  const auto reader = [&] {
    while (!stop.load()) {
      const auto ticket = living.announce(clock);
      clock.pass(ticket.timestamp());
      std::size_t v = newest.load();
      while (v > 0 && !clock.after(ticket.timestamp(), stamp_of(v))) --v;
      ASSERT_EQ(payload[v], 0U) << "freed under a reader";
    }
  };
  std::thread one(reader);
  std::thread two(reader);
  std::size_t freed = 0;
  for (std::size_t v = 1; v <= versions; ++v) {
    began[v].store(being_stamped);
    newest.store(v);
    const std::uint64_t now = clock.tick();
    began[v].store(now);
    clock.pass(now);
    if (v % 8 != 0) continue;
    const auto waiting_after_a_look = [&] {
      const std::uint64_t old = living.oldest(clock);
      while (freed < v && clock.after(old, began[freed + 1].load())) payload[freed++] = 1;
      return v - freed;
    };
    while (waiting_after_a_look() > 64) std::this_thread::yield();
  }
  stop = true;
  one.join();
  two.join();
  EXPECT_GE(freed, versions - 64);
}

TEST(Census, MemoryIsReusedUnderReadersOfALogicalClock) {
  logical_clock clock;
  reuse_memory_under_readers(clock);
}

TEST(Census, MemoryIsReusedUnderReadersOfTheBestClock) {
  selected_clock clock(clock_kind::hardware);
  reuse_memory_under_readers(clock);
}

}  // namespace
