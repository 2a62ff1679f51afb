// SPDX-License-Identifier: Apache-2.0
// A budget of several domains in the child of a fork that catches another thread in a domain's
// coming and going, and in the function that is told.

#include <gtest/gtest.h>

#include <spolia/reclaim/shared_budget.hpp>

#include <array>
#include <cstdint>

#include "support/elsewhere.hpp"
#include "support/forks_at_steps.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// What a domain is to the budget.
class place final : public shared_budget::member {
 public:
  explicit place(std::uint64_t bytes) : bytes_(bytes) {}

 private:
  std::uint64_t waiting_bytes() const noexcept override { return bytes_; }
  shared_budget::share describe() override { return {nullptr, bytes_, 1, {}}; }

  const std::uint64_t bytes_;
};

TEST(budget_forks, may_come_while_domains_come_and_go) {
  if (const char* const why_not = no_forks_at_steps()) GTEST_SKIP() << why_not;
  std::uint64_t told = 0;
  std::uint64_t shares = 0;
  shared_budget all(1, [&](const shared_budget::passed& now) {
    told = now.garbage_bytes;
    for (const auto& each : now.shares) shares += each.garbage_bytes;
  });
  std::array<place, 2> stay{place(10), place(100)};
  place goes(1000);
  for (place& each : stay) all.join(each);
  fork_at_steps(
      [&] {
        all.join(goes);
        all.say(goes, 1000);
        all.leave(goes);
      },
      [] {},
      [&] {
        all.look(stay[0], 10);
        if (!is(shares == 110 || shares == 1110, "a domain is missing")) return false;
        if (!is(told == shares, "the sum is not that of the shares")) return false;
        for (place& each : stay) all.leave(each);
        return is(all.garbage_bytes() == shares - 110, "what has gone is in the sum");
      },
      1);
  for (place& each : stay) all.leave(each);
}

TEST(budget_forks, may_come_while_the_function_is_told) {
  parking_spot* parks_at = nullptr;
  int calls = 0;
  shared_budget all(1, [&](const shared_budget::passed&) {
    ++calls;
    if (parks_at != nullptr) parks_at->park();
  });
  place stays(10);
  all.join(stays);
  {
    const parked_thread is_told([&](parking_spot& spot) {
      parks_at = &spot;
      all.look(stays, 10);
    });
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(status_of_child([&] {
                parks_at = nullptr;
                all.look(stays, 10);
                EXPECT_EQ(calls, 2) << "of the parent's and the child's";
              }),
              0);
  }
  all.leave(stays);
}

}  // namespace
