// SPDX-License-Identifier: Apache-2.0
// trace_test.cpp: what was recorded is written, what was lost is counted, and nothing is torn.
#include <spolia/base/trace.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <spolia/base/threads.hpp>

// Clang's thread sanitizer lets no program replace the operators: there, the tests of memory are
// left to the other builds.
#if !SPOLIA_TSAN
namespace {
std::atomic<bool> no_memory{false};
std::atomic<long> live_blocks{0};

void* take(std::size_t n) {
  void* const block = std::malloc(n == 0 ? 1 : n);
  if (block != nullptr) live_blocks.fetch_add(1);
  return block;
}
void give_back(void* block) {
  if (block != nullptr) live_blocks.fetch_sub(1);
  std::free(block);
}
}  // namespace

// The trace asks for its rings with the nothrow forms; these let a test refuse them. Not inlined,
// or the compiler would pair malloc with delete and wonder.
#define SPOLIA_TEST_REPLACED [[gnu::noinline]]
SPOLIA_TEST_REPLACED void* operator new(std::size_t n) {
  if (void* p = take(n)) return p;
  throw std::bad_alloc();
}
SPOLIA_TEST_REPLACED void* operator new(std::size_t n, const std::nothrow_t&) noexcept {
  return no_memory.load() ? nullptr : take(n);
}
SPOLIA_TEST_REPLACED void* operator new[](std::size_t n) { return ::operator new(n); }
SPOLIA_TEST_REPLACED void* operator new[](std::size_t n, const std::nothrow_t& t) noexcept {
  return ::operator new(n, t);
}
SPOLIA_TEST_REPLACED void operator delete(void* p) noexcept { give_back(p); }
SPOLIA_TEST_REPLACED void operator delete(void* p, std::size_t) noexcept { give_back(p); }
SPOLIA_TEST_REPLACED void operator delete[](void* p) noexcept { give_back(p); }
SPOLIA_TEST_REPLACED void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
#endif

namespace {

namespace trace = spolia::trace;
using trace::event;

struct line {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint32_t thread = 0;
  std::string what;
  std::uint64_t count = 0;
};

struct file_closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using file = std::unique_ptr<std::FILE, file_closer>;

/// Strict: a line that differs from the documented form in one character is a failure.
line parse(const std::string& text) {
  line l;
  char what[32] = "";
  int end = -1;
  std::sscanf(text.c_str(),
              "{\"t_ns\": %" SCNd64 ", \"end_ns\": %" SCNd64
              ", \"thread\": %u, \"event\": \"%31[a-z_]\", \"count\": %" SCNu64 "}%n",
              &l.start, &l.end, &l.thread, what, &l.count, &end);
  if (end < 0) {
    std::sscanf(text.c_str(), "{\"event\": \"%31[a-z]\", \"thread\": %u, \"count\": %" SCNu64 "}%n",
                what, &l.thread, &l.count, &end);
  }
  if (end < 0) {
    std::sscanf(text.c_str(), "{\"event\": \"%31[a-z]\", \"count\": %" SCNu64 "}%n", what, &l.count,
                &end);
  }
  EXPECT_EQ(text.substr(end < 0 ? 0 : static_cast<std::size_t>(end)), "\n") << text;
  l.what = what;
  return l;
}

std::vector<line> parse(std::FILE* f) {
  std::vector<line> all;
  std::rewind(f);
  char text[256];
  while (std::fgets(text, sizeof text, f) != nullptr) all.push_back(parse(std::string(text)));
  return all;
}

std::vector<line> written() {
  const file f(std::tmpfile());
  EXPECT_TRUE(trace::write(f.get()));
  return parse(f.get());
}

std::uint64_t total(const std::vector<line>& lines, const std::string& what) {
  std::uint64_t sum = 0;
  for (const line& l : lines) sum += l.what == what ? l.count : 0;
  return sum;
}

class Trace : public testing::Test {
 protected:
  void SetUp() override { spolia::threads::number(); }  // whose coming would be an event
  void TearDown() override {
#if !SPOLIA_TSAN
    no_memory = false;
#endif
    trace::stop();
    written();
  }
};

TEST_F(Trace, IsOffByDefault) {
  EXPECT_FALSE(trace::on());
  trace::record(event::batch_freed, 1, 2, 3);
  EXPECT_TRUE(written().empty());
}

TEST_F(Trace, WritesWhatWasRecorded) {
  ASSERT_TRUE(trace::start());
  EXPECT_TRUE(trace::on());
  const std::uint64_t first = trace::ticks();
  const auto later = static_cast<std::uint64_t>(1e6 / trace::ns_per_tick());
  trace::record(event::batch_freed, first, first + later, 512);
  trace::record(event::epoch_advanced, first + later, first + 2 * later, 7);
  trace::stop();
  EXPECT_FALSE(trace::on());
  trace::record(event::grace_period, first, first, 1);
  const std::vector<line> lines = written();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].what, "batch_freed");
  EXPECT_EQ(lines[0].count, 512U);
  EXPECT_EQ(lines[0].thread, spolia::threads::number());
  EXPECT_GE(lines[0].start, 0);
  EXPECT_NEAR(static_cast<double>(lines[0].end - lines[0].start), 1e6,
              2 * trace::ns_per_tick() + 10);
  EXPECT_EQ(lines[1].what, "epoch_advanced");
  EXPECT_EQ(lines[1].count, 7U);
  EXPECT_EQ(lines[1].start, lines[0].end);
  EXPECT_TRUE(written().empty()) << "each event is written once";
}

TEST_F(Trace, NamesEveryEvent) {
  const std::map<event, std::string> names{{event::batch_freed, "batch_freed"},
                                           {event::single_free, "single_free"},
                                           {event::epoch_advanced, "epoch_advanced"},
                                           {event::grace_period, "grace_period"},
                                           {event::partition_dropped, "partition_dropped"},
                                           {event::thread_joined, "thread_joined"},
                                           {event::thread_left, "thread_left"},
                                           {event::neutralized, "neutralized"}};
  for (const auto& [what, name] : names) EXPECT_EQ(trace::name(what), name);
}

TEST_F(Trace, KeepsTheNewestAndCountsTheRest) {
  ASSERT_TRUE(trace::start({.capacity_per_thread = 5}));  // rounded up to 8
  for (std::uint64_t i = 0; i < 30; ++i) trace::record(event::batch_freed, i, i, i);
  const std::vector<line> lines = written();
  ASSERT_EQ(lines.size(), 9U);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(lines[i].count, 22 + i);
  EXPECT_EQ(lines[8].what, "overwritten");
  EXPECT_EQ(lines[8].count, 22U);
  trace::record(event::batch_freed, 0, 0, 77);
  const std::vector<line> more = written();
  ASSERT_EQ(more.size(), 1U) << "a loss is reported once";
  EXPECT_EQ(more[0].count, 77U);
}

TEST_F(Trace, LeavesOutShortSingleFrees) {
  ASSERT_TRUE(trace::start({.capacity_per_thread = 16, .min_ns = 1000}));
  const auto ticks_of = [](double ns) {
    return static_cast<std::uint64_t>(ns / trace::ns_per_tick());
  };
  trace::record(event::single_free, 0, ticks_of(500), 1);
  trace::record(event::single_free, 0, ticks_of(1500), 2);
  trace::record(event::batch_freed, 0, ticks_of(500), 3);
  const std::vector<line> lines = written();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].count, 2U);
  EXPECT_EQ(lines[1].count, 3U);
}

TEST_F(Trace, RefusesWhatMakesNoSense) {
  EXPECT_THROW(trace::start({.capacity_per_thread = 0}), std::invalid_argument);
  EXPECT_THROW(trace::start({.capacity_per_thread = std::size_t{1} << 33}), std::invalid_argument);
  EXPECT_FALSE(trace::on());
  ASSERT_TRUE(trace::start());
  trace::record(event::grace_period, 1, 2, 3);
  EXPECT_FALSE(trace::start()) << "one trace at a time";
  EXPECT_EQ(written().size(), 1U) << "the refused start changed nothing";
}

TEST_F(Trace, ANewTraceForgetsTheOldOne) {
  ASSERT_TRUE(trace::start({.capacity_per_thread = 4}));
  for (std::uint64_t i = 0; i < 9; ++i) trace::record(event::batch_freed, 1, 2, 1000);
  trace::stop();
  ASSERT_TRUE(trace::start({.capacity_per_thread = 64}));
  EXPECT_TRUE(written().empty());
  for (std::uint64_t i = 0; i < 9; ++i) trace::record(event::batch_freed, 1, 2, i);
  EXPECT_EQ(total(written(), "batch_freed"), 36U);
}

TEST_F(Trace, KeepsEventsOfEndedThreadsAndTellsThatTheyCameAndLeft) {
  ASSERT_TRUE(trace::start());
  std::uint32_t number = 0;
  std::thread([&] {
    number = spolia::threads::number();
    trace::record(event::batch_freed, 1, 2, 9);
  }).join();
  trace::stop();
  const std::vector<line> lines = written();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].what, "thread_joined");
  EXPECT_EQ(lines[1].count, 9U);
  EXPECT_EQ(lines[2].what, "thread_left");
  for (const line& l : lines) EXPECT_EQ(l.thread, number);
  EXPECT_TRUE(written().empty());
}

TEST_F(Trace, AThreadThatComesByItsFirstEventHasOneRing) {
  ASSERT_TRUE(trace::start());
  std::thread([] { trace::record(event::batch_freed, 1, 2, 9); }).join();
  const std::vector<line> lines = written();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].what, "thread_joined");
  EXPECT_EQ(lines[1].what, "batch_freed");
  EXPECT_EQ(lines[2].what, "thread_left");
  EXPECT_TRUE(written().empty());
}

#if !SPOLIA_TSAN
TEST_F(Trace, GivesMemoryBackOnceItIsWritten) {
  std::thread([] { spolia::threads::number(); }).join();  // the registry's own first allocations
  ASSERT_TRUE(trace::start());
  trace::record(event::batch_freed, 1, 2, 1);
  written();
  for (int i = 0; i < 5; ++i) {
    const long before = live_blocks.load();
    std::thread([] { trace::record(event::batch_freed, 1, 2, 1); }).join();
    EXPECT_GT(live_blocks.load(), before);
    EXPECT_EQ(total(written(), "batch_freed"), 1U);
    EXPECT_EQ(live_blocks.load(), before) << "the ended thread's ring";
  }
  const long without_rings = live_blocks.load();
  for (int i = 0; i < 5; ++i) {
    trace::record(event::batch_freed, 1, 2, 1);
    trace::stop();
    ASSERT_TRUE(trace::start());
  }
  EXPECT_LE(live_blocks.load(), without_rings + 2)
      << "one ring, forgotten by its thread only later";
}
#endif

/// A file into which each write is accompanied by events that overwrite the caller's ring.
ssize_t overwrite_meanwhile(void* writes, const char* text, std::size_t size) {
  auto& into = *static_cast<std::string*>(writes);
  if (into.empty()) {
    for (std::uint64_t i = 100; i < 108; ++i) trace::record(event::batch_freed, 1, 2, i);
  }
  into.append(text, size);
  return static_cast<ssize_t>(size);
}

TEST_F(Trace, WhatIsOverwrittenWhileItIsWrittenCountsAsLost) {
  ASSERT_TRUE(trace::start({.capacity_per_thread = 8}));
  for (std::uint64_t i = 0; i < 8; ++i) trace::record(event::batch_freed, 1, 2, i);
  std::string text;
  {
    const file f(fopencookie(
        &text, "w",
        {.read = nullptr, .write = overwrite_meanwhile, .seek = nullptr, .close = nullptr}));
    ASSERT_EQ(std::setvbuf(f.get(), nullptr, _IONBF, 0), 0);
    EXPECT_TRUE(trace::write(f.get()));
  }
  const std::size_t second = text.find('\n') + 1;
  EXPECT_EQ(parse(text.substr(0, second)).count, 0U);
  const line lost = parse(text.substr(second));
  EXPECT_EQ(lost.what, "overwritten");
  EXPECT_EQ(lost.count, 7U);
  const std::vector<line> rest = written();
  ASSERT_EQ(rest.size(), 8U);
  EXPECT_EQ(rest.front().count, 100U);
}

#if !SPOLIA_TSAN
TEST_F(Trace, DropsAndCountsWithoutMemory) {
  ASSERT_TRUE(trace::start());
  std::thread([] {
    no_memory = true;
    spolia::threads::number();
    for (int i = 0; i < 5; ++i) trace::record(event::batch_freed, 1, 2, 1);
    no_memory = false;
    trace::record(event::batch_freed, 1, 2, 100);
  }).join();
  const std::vector<line> lines = written();
  EXPECT_EQ(total(lines, "dropped"), 6U) << "that the thread came, too";
  EXPECT_EQ(total(lines, "batch_freed"), 100U);
  EXPECT_EQ(total(written(), "dropped"), 0U) << "reported once";
}
#endif

TEST_F(Trace, AFailedWriteKeepsTheEvents) {
  ASSERT_TRUE(trace::start());
  trace::record(event::batch_freed, 1, 2, 6);
  const file full(std::fopen("/dev/full", "w"));
  ASSERT_NE(full, nullptr);
  errno = 0;
  EXPECT_FALSE(trace::write(full.get()));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(total(written(), "batch_freed"), 6U);
}

TEST_F(Trace, DrainedWhileRunningNothingIsTornOrLostUncounted) {
  constexpr std::uint64_t each = 30000;
  ASSERT_TRUE(trace::start({.capacity_per_thread = 64}));
  std::atomic<int> running{3};
  std::barrier together(3);  // no number is given out twice
  std::vector<std::thread> crowd;
  for (int t = 0; t < 3; ++t) {
    crowd.emplace_back([&] {
      together.arrive_and_wait();
      for (std::uint64_t i = 0; i < each; ++i) trace::record(event::batch_freed, 2 * i, 3 * i, i);
      together.arrive_and_wait();
      running.fetch_sub(1);
    });
  }
  std::uint64_t seen = 0;
  std::map<std::uint32_t, std::uint64_t> latest;
  const double length = trace::ns_per_tick();
  const auto drain = [&] {
    for (const line& l : written()) {
      seen += l.what == "overwritten" ? l.count : 1;
      if (l.what != "batch_freed") continue;
      ASSERT_NEAR(static_cast<double>(l.end - l.start), static_cast<double>(l.count) * length, 2e3)
          << "two events mixed";
      ASSERT_TRUE(latest.count(l.thread) == 0 || latest[l.thread] < l.count) << "out of order";
      latest[l.thread] = l.count;
    }
  };
  while (running.load() != 0) drain();
  for (auto& t : crowd) t.join();
  trace::stop();
  drain();
  EXPECT_EQ(seen, 3 * (each + 2)) << "each thread also tells that it came and left";
}

TEST_F(Trace, StartsAndStopsWhileThreadsRecordAndEnd) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> crowd;
  for (int t = 0; t < 2; ++t) {
    crowd.emplace_back([&] {
      while (!stop.load()) {
        std::thread([] {
          for (std::uint64_t i = 0; i < 200; ++i) trace::record(event::batch_freed, i, i, 1);
        }).join();
        trace::record(event::grace_period, 1, 2, 3);
      }
    });
  }
  for (std::size_t round = 1; round <= 100; ++round) {
    ASSERT_TRUE(trace::start({.capacity_per_thread = round}));
    if (round % 2 == 0) written();
    trace::stop();
    if (round % 3 == 0) written();
  }
  stop = true;
  for (auto& t : crowd) t.join();
}

TEST_F(Trace, AForkedChildGoesOn) {
  ASSERT_TRUE(trace::start());
  trace::record(event::batch_freed, 1, 2, 5);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    trace::record(event::batch_freed, 1, 2, 6);
    trace::stop();
    _exit(total(written(), "batch_freed") == 11 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(total(written(), "batch_freed"), 5U);
}

}  // namespace
