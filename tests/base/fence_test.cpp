// SPDX-License-Identifier: Apache-2.0
// The specification of fence.hpp on this machine, with membarrier and without, and after fork. The
// memory model itself is tested in the model build variant.

#include <spolia/base/fence.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <thread>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/processors.hpp>

#include "support/sandbox.hpp"
#include "support/sanitized.hpp"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace {

using spolia::atomic;
using spolia::backoff;
namespace core = spolia::core;
namespace fence = spolia::fence;

// Read by a constructor of ordinary priority: before main, and before this file's other globals.
const bool asymmetric_before_main = core::asymmetric();

// Both threads store to their own word and then load the other's, in step, round after round.
class store_buffering {
 public:
  // Returns in how many rounds both loads saw the old value. Ends early where processors are so
  // scarce that each round waits for one.
  template <class Light, class Heavy>
  int both_old(int rounds, Light light, Heavy heavy) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    int count = 0;
    std::thread reader([&] {
      for (int round = 1; round <= rounds; ++round) {
        meet(round, reader_at_, writer_at_);
        if (over_.load_relaxed()) break;
        linger(round % 16);
        x_.word.store_relaxed(round);
        light();
        reader_saw_.word.store_relaxed(y_.word.load_relaxed());
        done(round, reader_done_);
      }
    });
    for (int round = 1; round <= rounds; ++round) {
      if (std::chrono::steady_clock::now() > end) over_.store_relaxed(true);
      meet(round, writer_at_, reader_at_);
      if (over_.load_relaxed()) break;
      linger(round / 16 % 16);
      y_.word.store_relaxed(round);
      heavy();
      const int saw = x_.word.load_relaxed();
      wait_for(round, reader_done_);
      if (saw != round && reader_saw_.word.load_relaxed() != round) ++count;
    }
    reader.join();
    return count;
  }

 private:
  /// In step, one side might always be the first, by as much as the other's fence takes.
  static void linger(int turns) {
    for (; turns > 0; --turns) spolia::cpu_relax();
  }
  struct alignas(spolia::cache_line) padded {
    atomic<int> word;
  };

  static void done(int round, padded& mine) { mine.word.store_release(round); }
  static void wait_for(int round, padded& other) {
    backoff pause;
    while (other.word.load_acquire() < round) pause.pause();
  }
  static void meet(int round, padded& mine, padded& other) {
    done(round, mine);
    wait_for(round, other);
  }

  atomic<bool> over_{false};  // the writer's word, before it meets
  padded x_, y_, reader_at_, writer_at_, reader_done_, reader_saw_;
};

#if defined(SPOLIA_TEST_EMULATED)
constexpr int rounds = 500;  // two emulated threads in step take long where processors are scarce
#else
constexpr int rounds = spolia::test::tries(10000);
#endif

TEST(fence, light_against_heavy_forbids_both_old) {
  EXPECT_EQ(store_buffering().both_old(rounds, fence::light, fence::heavy), 0);
}

TEST(fence, light_against_heavy_in_either_role) {
  EXPECT_EQ(store_buffering().both_old(rounds, fence::heavy, fence::light), 0);
  EXPECT_EQ(store_buffering().both_old(rounds, fence::heavy, fence::heavy), 0);
}

TEST(fence, full_against_full_and_full_against_heavy_forbid_both_old) {
  EXPECT_EQ(store_buffering().both_old(rounds, fence::full, fence::full), 0);
  EXPECT_EQ(store_buffering().both_old(rounds, fence::full, fence::heavy), 0);
}

TEST(fence, one_that_remembers_what_it_costs_is_as_good) {
  EXPECT_EQ(store_buffering().both_old(rounds, fence::frequent(), fence::heavy), 0);
  EXPECT_EQ(store_buffering().both_old(rounds, fence::frequent(fence::cost::both), fence::full), 0);
}

TEST(fence, is_chosen_before_main) { EXPECT_EQ(asymmetric_before_main, core::asymmetric()); }

#if defined(__linux__)

bool switched_off() {
  const char* wish = std::getenv("SPOLIA_MEMBARRIER");
  return wish != nullptr && std::strcmp(wish, "off") == 0;
}

bool kernel_offers_it() {
  const long offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return offered >= 0 && (offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

TEST(fence, is_asymmetric_where_the_kernel_offers_it_unless_switched_off) {
  EXPECT_EQ(core::asymmetric(), kernel_offers_it() && !switched_off());
}

// The exit status of a child that runs `body`, which returns true for success.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(fence, works_in_a_forked_child_which_inherits_the_registration) {
  EXPECT_EQ(in_child([] {
              const bool inherited =
                  !core::asymmetric() ||
                  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
              return inherited &&
                     store_buffering().both_old(rounds / 10, fence::light, fence::heavy) == 0;
            }),
            0);
}

// A sandbox that is put on later: membarrier, and then all that could stand in for it, is refused.
class sandboxed : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(errors, sandboxed, testing::Values(EPERM, ENOSYS));

/// How often the calling thread has been put off a processor.
long switches() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw + used.ru_nivcsw;
}

int both_old_without(std::initializer_list<long> calls, int error, int times) {
  return in_child([&] {
    if (!spolia::test::refuse(calls, error)) _exit(77);
    const auto count = store_buffering().both_old(times, fence::light, fence::heavy);
    return count == 0 && store_buffering().both_old(times, fence::frequent(), fence::heavy) == 0;
  });
}

TEST_P(sandboxed, the_fence_runs_everywhere_instead) {
  const int status = both_old_without({SYS_membarrier}, GetParam(), rounds);
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

cpu_set_t own_processors() {
  cpu_set_t own{};
  EXPECT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
  return own;
}

bool may_run_everywhere() {
  const cpu_set_t own = own_processors();
  return core::asymmetric() && CPU_COUNT(&own) == sysconf(_SC_NPROCESSORS_ONLN);
}

// Where threads seldom run at the same moment the tests above see little. What it does shows;
// fence_system_test looks at each step.
TEST_P(sandboxed, the_fence_changes_processors) {
  if (spolia::processors() < 2 || !core::asymmetric()) GTEST_SKIP() << "one processor, or no need";
  const int status = in_child([] {
    if (!spolia::test::refuse({SYS_membarrier}, GetParam())) _exit(77);
    cpu_set_t before{};
    cpu_set_t after{};
    sched_getaffinity(0, sizeof before, &before);
    const long switched = switches();
    constexpr int times = 50;
    for (int i = 0; i < times; ++i) fence::heavy();
    sched_getaffinity(0, sizeof after, &after);
    return switches() - switched >= times && CPU_EQUAL(&before, &after);
  });
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

/// The shortest of many, which end when one is as short as that.
std::chrono::nanoseconds shortest_heavy_fence(std::chrono::nanoseconds enough) {
  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 200 && shortest > enough; ++i) {
    const auto start = std::chrono::steady_clock::now();
    fence::heavy();
    shortest =
        std::min<std::chrono::nanoseconds>(shortest, std::chrono::steady_clock::now() - start);
  }
  return shortest;
}
constexpr std::chrono::milliseconds waits_instead{2};

// Numbers of processors that there are not, or that are not in use, are nothing to wait for.
TEST_P(sandboxed, the_fence_does_not_wait_where_it_runs_everywhere) {
  if (!may_run_everywhere()) GTEST_SKIP() << "SKIPPED some processors, or no need";
  const int status = in_child([] {
    if (!spolia::test::refuse({SYS_membarrier}, GetParam())) _exit(77);
    return shortest_heavy_fence(waits_instead * 3 / 4) < waits_instead;
  });
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

TEST_P(sandboxed, the_fence_waits_where_it_cannot_tell_which_processors_are_in_use) {
  if (!core::asymmetric()) GTEST_SKIP() << "no need";
  const int status = in_child([] {
    if (!spolia::test::refuse({SYS_membarrier, SYS_openat}, GetParam())) _exit(77);
    return shortest_heavy_fence(waits_instead / 2) >= waits_instead;
  });
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

TEST_P(sandboxed, the_fence_leaves_a_thread_on_its_processor) {
  const int status = in_child([] {
    if (!spolia::test::refuse({SYS_membarrier}, GetParam())) _exit(77);
    const cpu_set_t all = own_processors();
    bool kept = true;
    for (std::size_t n = 0; n < CPU_SETSIZE; ++n) {
      if (!CPU_ISSET(n, &all)) continue;
      cpu_set_t one{};
      CPU_SET(n, &one);
      kept &= sched_setaffinity(0, sizeof one, &one) == 0;
      fence::heavy();
      const cpu_set_t after = own_processors();
      kept &= CPU_EQUAL(&one, &after) != 0;
    }
    return kept;
  });
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

TEST_P(sandboxed, the_fence_takes_its_time_if_all_is_refused) {
  if (!core::asymmetric()) GTEST_SKIP() << "no need";
  const int status = in_child([] {
    if (!spolia::test::refuse({SYS_membarrier, SYS_sched_setaffinity, SYS_nanosleep}, GetParam())) {
      _exit(77);
    }
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) fence::heavy();
    return std::chrono::steady_clock::now() - start > 20 * std::chrono::microseconds(100);
  });
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

TEST_P(sandboxed, the_fence_waits_if_it_may_not_run_everywhere) {
  const int status =
      both_old_without({SYS_membarrier, SYS_sched_setaffinity, SYS_nanosleep}, GetParam(), 200);
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

// The fence is noexcept: were one of its steps a cancellation point, the process would end here.
TEST_P(sandboxed, a_thread_that_is_to_end_passes_the_fence) {
  const int status = in_child([] {
    if (!spolia::test::refuse({SYS_membarrier}, GetParam())) _exit(77);
    bool passed = false;
    std::thread cancelled([&] {
      pthread_cancel(pthread_self());
      fence::heavy();
      core::nap(std::chrono::microseconds(1));
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
      passed = true;
    });
    cancelled.join();
    return passed;
  });
  if (status == 77) GTEST_SKIP() << "SKIPPED sandboxes: seccomp is refused";
  EXPECT_EQ(status, 0);
}

// Runs this program's other tests again, in a process where the fallback is forced.
TEST(fence, fallback_passes_the_same_tests) {
  if (switched_off()) GTEST_SKIP() << "this is the process with the fallback";
#if defined(SPOLIA_TEST_EMULATED)
  GTEST_SKIP() << "an emulated program cannot start itself: fence/without_membarrier stands in";
#endif
  EXPECT_EQ(in_child([] {
              setenv("SPOLIA_MEMBARRIER", "off", 1);
              unsetenv("GTEST_OUTPUT");
              unsetenv("GTEST_TOTAL_SHARDS");
              execl("/proc/self/exe", "fence_test", "--gtest_brief=1", "--gtest_filter=fence.*",
                    static_cast<char*>(nullptr));
              return false;
            }),
            0);
}

#endif

}  // namespace
