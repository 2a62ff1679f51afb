// SPDX-License-Identifier: Apache-2.0
/// \file
/// A process that stays as this one is now, to tell later what something costs without all that
/// has happened here since then.
///
///     as_it_was before([&] { return [&](int) { return cost_of(work); }; });
///     much_happens();
///     const one_processor both_are_here;
///     EXPECT_LE(times_as_much(31, [&] { return cost_of(work); }, [&] { return before(0); }), 1.2);
///
/// What threads, the allocator or the library keep for the whole process has no share in what the
/// other one does. It runs on the processor of one_processor, where the caller has to be as well:
/// of two processors, one may be the slower for as long as another process is there.
#pragma once

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <utility>

#include "support/one_processor.hpp"

namespace spolia::test {

/// No other thread may run when it is made.
class as_it_was {
 public:
  /// In the process, `begin()` makes the function that is called there each time.
  explicit as_it_was(const std::function<std::function<double(int)>()>& begin) {
    EXPECT_EQ(::pipe(orders_.data()), 0);
    EXPECT_EQ(::pipe(answers_.data()), 0);
    child_ = ::fork();
    ::close(orders_.at(child_ == 0 ? 1 : 0));  // so that each ends when the other one does
    ::close(answers_.at(child_ == 0 ? 0 : 1));
    if (child_ == 0) serve(begin);
  }
  as_it_was(const as_it_was&) = delete;
  as_it_was& operator=(const as_it_was&) = delete;
  ~as_it_was() {
    ::close(orders_[1]);
    ::close(answers_[0]);
    int status = -1;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0) << "something has failed there";
  }

  /// What the function returns there.
  double operator()(int what) {
    double cost = 0;
    EXPECT_EQ(::write(orders_[1], &what, sizeof what), ssize_t{sizeof what});
    EXPECT_EQ(::read(answers_[0], &cost, sizeof cost), ssize_t{sizeof cost});
    return cost;
  }

 private:
  [[noreturn]] void serve(const std::function<std::function<double(int)>()>& begin) {
    const one_processor here;
    const std::function<double(int)> f = begin();
    for (int what = 0; ::read(orders_[0], &what, sizeof what) == ssize_t{sizeof what};) {
      const double cost = f(what);
      if (::write(answers_[1], &cost, sizeof cost) != ssize_t{sizeof cost}) break;
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }

  std::array<int, 2> orders_{-1, -1};
  std::array<int, 2> answers_{-1, -1};
  pid_t child_ = -1;
};

}  // namespace spolia::test
