// SPDX-License-Identifier: Apache-2.0
// The heavy fence where the system denies membarrier, or has forgotten that the process registered
// for it (it was saved and restored): on machines that are made up here. This program has a
// syscall() of its own, which the library calls.
#include <spolia/base/fence.hpp>

#include <gtest/gtest.h>

#if defined(__linux__)

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t most = 8192;
using processors = std::bitset<most>;

processors from_to(std::size_t first, std::size_t last) {
  processors set;
  for (std::size_t n = first; n <= last; ++n) set.set(n);
  return set;
}

enum class registration { there, forgotten, refused };

/// What a kernel does for one thread.
struct machine {
  std::size_t numbers = 64;  // that processors may ever have
  processors in_use = from_to(0, 3);
  processors cpuset = from_to(0, most - 1);
  processors wished = from_to(0, most - 1);
  std::size_t goes = most;  // this processor ends to be in use when it is asked for
  std::string online = "0-3\n";
  int deny = EPERM;  // what membarrier says, or 0
  registration registered = registration::there;
  bool may_move = true;  // the thread may set its affinity

  std::vector<std::size_t> visited{};
  int naps = 0;
  int barriers = 0;

  [[nodiscard]] processors allowed() const { return wished & cpuset & in_use; }

  long membarrier(int command) {
    if (deny != 0) return fail(deny);
    if (command == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
      if (registered == registration::refused) return fail(EINVAL);
      registered = registration::there;
      return 0;
    }
    if (registered != registration::there) return fail(EPERM);
    ++barriers;
    return 0;
  }
  long get_affinity(std::size_t bytes, void* to) const {
    if (bytes * 8 < numbers) return fail(EINVAL);
    const std::size_t length = std::min(bytes, (numbers + 63) / 64 * 8);
    const processors set = allowed();
    std::memset(to, 0, length);
    for (std::size_t n = 0; n < length * 8; ++n) {
      if (set[n]) static_cast<unsigned char*>(to)[n / 8] |= static_cast<unsigned char>(1U << n % 8);
    }
    return static_cast<long>(length);
  }
  long set_affinity(std::size_t bytes, const void* from) {
    if (!may_move) return fail(EPERM);
    processors wish;
    for (std::size_t n = 0; n < std::min(bytes * 8, most); ++n) {
      wish[n] = (static_cast<const unsigned char*>(from)[n / 8] >> n % 8 & 1U) != 0;
    }
    if (wish.count() == 1 && goes != most && wish[goes]) in_use.reset(goes);
    if ((wish & cpuset & in_use).none()) return fail(EINVAL);
    wished = wish;
    if (allowed().count() == 1) visited.push_back(allowed()._Find_first());
    return 0;
  }
  static long fail(int error) {
    errno = error;
    return -1;
  }
};

/// The machine that answers; none: the system does.
machine* made_up = nullptr;
constexpr long its_file = 12345;

}  // namespace

extern "C" long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  const auto pointer = [](long value) { return reinterpret_cast<void*>(value); };
  if (made_up != nullptr) {
    switch (number) {
      case SYS_membarrier:
        return made_up->membarrier(static_cast<int>(a[0]));
      case SYS_sched_getaffinity:
        return made_up->get_affinity(static_cast<std::size_t>(a[1]), pointer(a[2]));
      case SYS_sched_setaffinity:
        return made_up->set_affinity(static_cast<std::size_t>(a[1]), pointer(a[2]));
      case SYS_openat:
        return made_up->online.empty() ? machine::fail(EACCES) : its_file;
      case SYS_read: {
        const std::size_t length = std::min(static_cast<std::size_t>(a[2]), made_up->online.size());
        std::memcpy(pointer(a[1]), made_up->online.data(), length);
        return static_cast<long>(length);
      }
      case SYS_close:
        return a[0] == its_file ? 0 : machine::fail(EBADF);
      case SYS_nanosleep:
        ++made_up->naps;
        return 0;
      default:
        break;
    }
  }
  using function = long (*)(long, ...);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "syscall"));
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

namespace {

class fence_on : public testing::Test {
 protected:
  void SetUp() override {
    if (!spolia::core::asymmetric()) GTEST_SKIP() << "SKIPPED membarrier: there is none here";
  }
  static void fence(machine& m) {
    made_up = &m;
    errno = 4711;
    spolia::fence::heavy();
    made_up = nullptr;
    EXPECT_EQ(errno, 4711);
  }
  /// Each processor that is in use has been run on, once and none else, and nothing was waited for.
  static void expect_everywhere(machine& m) {
    const processors all = m.in_use;
    fence(m);
    EXPECT_EQ(m.naps, 0);
    processors seen;
    for (const std::size_t n : m.visited) seen.set(n);
    EXPECT_EQ(seen, all);
    EXPECT_EQ(m.visited.size(), all.count());
  }
};

TEST_F(fence_on, a_usual_machine_runs_on_each_processor_and_does_not_wait) {
  machine m;
  expect_everywhere(m);
  EXPECT_EQ(m.wished, from_to(0, most - 1)) << "a thread that might run anywhere must stay so";
  m.visited.clear();
  m.in_use.set(5);  // one more
  m.online = "0-3,5\n";
  expect_everywhere(m);
}

TEST_F(fence_on, processors_that_are_not_in_use_are_not_waited_for) {
  machine m;
  m.in_use = from_to(0, 1) | from_to(6, 7) | from_to(63, 63);
  m.online = "0-1,6-7,63\n";
  expect_everywhere(m);
}

TEST_F(fence_on, thousands_of_processors_all_are_run_on) {
  machine m;
  m.numbers = most;
  m.in_use = from_to(0, 4095) | from_to(8191, 8191);
  m.online = "0-4095,8191\n";
  expect_everywhere(m);
}

TEST_F(fence_on, a_thread_of_one_processor_visits_all_and_comes_back) {
  machine m;
  m.wished = from_to(2, 2);
  fence(m);
  EXPECT_EQ(m.naps, 0);
  EXPECT_EQ(m.wished, from_to(2, 2));
  EXPECT_EQ(m.visited, (std::vector<std::size_t>{0, 1, 2, 3, 2}));  // the last is the way back
}

TEST_F(fence_on, a_cpuset_waits_since_other_threads_may_run_outside_of_it) {
  machine m;
  m.cpuset = from_to(0, 1);
  fence(m);
  EXPECT_EQ(m.naps, 1);
  EXPECT_EQ(m.wished, from_to(0, most - 1));
}

TEST_F(fence_on, a_processor_that_goes_meanwhile_makes_it_wait) {
  machine m;
  m.goes = 2;
  fence(m);
  EXPECT_EQ(m.naps, 1);
  EXPECT_EQ(m.wished, from_to(0, most - 1));
}

TEST_F(fence_on, a_thread_whose_only_processor_goes_can_run_on) {
  machine m;
  m.wished = from_to(2, 2);
  m.goes = 2;
  fence(m);
  EXPECT_EQ(m.naps, 1);
  EXPECT_EQ(m.allowed(), m.in_use);
}

TEST_F(fence_on, no_list_of_processors_makes_it_wait) {
  for (const char* text : {"", "\n", "x\n", "0-3", "0-\n", "3-0\n", "0-4294967295\n", "0-3,\n"}) {
    machine m;
    m.online = text;
    fence(m);
    EXPECT_EQ(m.naps, 1) << text;
  }
  machine long_list;  // longer than what is read
  long_list.online = "0";
  while (long_list.online.size() < 5000) long_list.online += ",1";
  fence(long_list);
  EXPECT_EQ(long_list.naps, 1);
}

TEST_F(fence_on, a_thread_that_may_not_move_waits) {
  machine m;
  m.may_move = false;
  fence(m);
  EXPECT_EQ(m.naps, 1);
  EXPECT_TRUE(m.visited.empty());
}

TEST_F(fence_on, a_restored_process_registers_again) {
  machine m;
  m.deny = 0;
  m.registered = registration::forgotten;
  for (int times = 1; times <= 3; ++times) {
    fence(m);
    EXPECT_EQ(m.barriers, times);
  }
  EXPECT_EQ(m.naps, 0);
  EXPECT_TRUE(m.visited.empty());
}

TEST_F(fence_on, a_restored_process_that_cannot_register_runs_everywhere) {
  machine m;
  m.deny = 0;
  m.registered = registration::refused;
  expect_everywhere(m);
  EXPECT_EQ(m.barriers, 0);
}

}  // namespace

#endif
