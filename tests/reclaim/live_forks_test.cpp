// SPDX-License-Identifier: Apache-2.0
// A live value in the child of a fork that comes while another thread is just ending what was
// replaced.

#include <gtest/gtest.h>

#include <spolia/live.hpp>

#include "support/elsewhere.hpp"
#include "support/parked_thread.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct parks_at_end {
  explicit parks_at_end(parking_spot* at = nullptr) : spot(at) {}
  parks_at_end(const parks_at_end&) = delete;
  parks_at_end& operator=(const parks_at_end&) = delete;
  ~parks_at_end() {
    if (spot != nullptr) spot->park();
  }
  parking_spot* const spot;
};

TEST(live_forks, what_a_lost_thread_was_ending_does_not_count_as_waiting) {
  live<parks_at_end> value;
  const parked_thread ends([&](parking_spot& spot) {
    value.emplace(&spot);
    value.emplace();
  });
  EXPECT_EQ(value.waiting(), 1U);
  EXPECT_EQ(status_of_child([&] {
              EXPECT_EQ(value.waiting(), 0U);
              {
                const auto now = value.read();
                value.emplace();
                EXPECT_EQ(value.waiting(), 1U);
                EXPECT_EQ(status_of_child([&] { EXPECT_EQ(value.waiting(), 1U); }), 0);
              }
              EXPECT_EQ(value.waiting(), 0U);
            }),
            0);
}

}  // namespace
