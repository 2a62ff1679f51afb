// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pthread.h>
#include <spolia/base/unwind.hpp>

#include <stdexcept>
#include <vector>

namespace {

using spolia::let_unwinding_pass;

/// Where a thread that is asked to end does so.
void end_here() {
  pthread_cancel(pthread_self());
  pthread_testcancel();
}

struct note {
  explicit note(bool& left) : left_(left) {}
  ~note() { left_ = true; }
  bool& left_;
};

template <class Body>
void* result_of_thread(Body body) {
  pthread_t thread;
  EXPECT_EQ(pthread_create(
                &thread, nullptr,
                [](void* its_body) -> void* {
                  (*static_cast<Body*>(its_body))();
                  return nullptr;
                },
                &body),
            0);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  return result;
}

TEST(unwind, a_cancelled_thread_passes_a_handler_that_goes_on) {
  bool unwound = false;
  bool went_on = false;
  void* const result = result_of_thread([&] {
    const note mine(unwound);
    try {
      end_here();
    } catch (...) {
      let_unwinding_pass();
      went_on = true;
    }
    went_on = true;
  });
  EXPECT_EQ(result, PTHREAD_CANCELED);
  EXPECT_TRUE(unwound);
  EXPECT_FALSE(went_on);
}

TEST(unwind, a_thread_that_exits_passes_nested_handlers) {
  int answer = 0;
  void* const result = result_of_thread([&] {
    try {
      try {
        pthread_exit(&answer);
      } catch (...) {
        let_unwinding_pass();
      }
    } catch (...) {
      let_unwinding_pass();
    }
  });
  EXPECT_EQ(result, &answer);
}

TEST(unwind, exceptions_of_any_type_are_handled) {
  std::vector<int> seen;
  const auto try_it = [&](auto thrown) {
    try {
      throw thrown;
    } catch (...) {
      let_unwinding_pass();
      seen.push_back(1);
    }
  };
  try_it(std::runtime_error("one"));
  try_it(7);
  try_it(nullptr);
  EXPECT_EQ(seen.size(), 3U);
}

}  // namespace
