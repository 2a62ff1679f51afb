// SPDX-License-Identifier: Apache-2.0
// Threads that use the library, for the first time or still, when the process exits: after the
// destructors of its static objects and of its shared objects.

#include <gtest/gtest.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include <spolia/map.hpp>
#include <spolia/memory.hpp>
#include <spolia/reclaim.hpp>

namespace {

using namespace spolia;

/// What the child does at the very end; its result is the child's status.
using last_words = int (*)();
constinit last_words at_the_end = nullptr;

// Lower priorities come later: after the library's own, which have none.
[[gnu::destructor(102)]] void end() {
  if (at_the_end != nullptr) _exit(at_the_end());
}

int status_of_exit(last_words what) {
  const pid_t child = fork();
  if (child == 0) {
    at_the_end = what;
    alarm(20);
    std::exit(99);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

template <class Map>
Map& lasting() {
  static Map& it = *new Map;
  return it;
}

TEST(users_exit, a_thread_may_use_a_map_first_when_destructors_have_run) {
  lasting<abtree<int, int>>().insert(1, 2);
  EXPECT_EQ(status_of_exit([] {
              int found = 0;
              std::thread([&] {
                const auto p = make_shared<int>(5);
                found = lasting<abtree<int, int>>().find(1).value_or(0) + *p;
              }).join();
              return found == 7 ? 0 : 1;
            }),
            0);
}

TEST(users_exit, a_thread_that_ends_then_holds_nothing_up) {
  EXPECT_EQ(status_of_exit([] {
              using plain = domain<>;
              struct block : plain::header {
                ~block() { ++*ended; }
                int* ended = nullptr;
              };
              plain& home = lasting<plain>();
              int ended = 0;
              std::thread([&] {
                auto g = home.enter();
                auto* const b = home.make<block>();
                b->ended = &ended;
                g.retire(b);
              }).join();
              return home.drain() && ended == 1 ? 0 : 1;
            }),
            0);
}

TEST(users_exit, the_end_of_a_thread_that_was_there_before_is_noticed_then) {
  const pid_t child = fork();
  if (child == 0) {
    static std::atomic<bool> over{false};
    static std::atomic<std::uint32_t> number{~0U};
    static std::thread& early = *new std::thread([] {
      number = threads::number();
      number.notify_one();
      over.wait(false);
    });
    number.wait(~0U);
    at_the_end = [] {
      over = true;
      over.notify_one();
      early.join();
      std::uint32_t next = 0;
      std::thread([&] { next = threads::number(); }).join();
      return next == number ? 0 : 1;  // the smallest that no thread has
    };
    alarm(20);
    std::exit(99);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(users_exit, readers_may_be_interrupted_then) {
  using map = spolia::list<int, int, domain<neutralization>>;
  lasting<map>().insert(1, 2);
  EXPECT_EQ(status_of_exit([] {
              struct sigaction now{};
              int handlers = 0;
              for (int s = SIGRTMIN; s <= SIGRTMAX; ++s) {
                sigaction(s, nullptr, &now);
                if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) ++handlers;
              }
              return handlers == 1 ? 0 : 1;
            }),
            0);
}

}  // namespace
