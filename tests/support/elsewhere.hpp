// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a test does on a thread of its own, or in the child of a fork.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace spolia::test {

/// Runs `f()` on a thread of its own, to its end.
template <class F>
void on_another_thread(F&& f) {
  std::thread(std::forward<F>(f)).join();
}

/// Runs `f` in a child; its status is 0 if no expectation failed there and it was over in
/// `seconds`.
template <class F>
int status_of_child(F f, unsigned seconds = 120) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    f();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

}  // namespace spolia::test
