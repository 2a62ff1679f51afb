// SPDX-License-Identifier: Apache-2.0
// The judge of histories knows the anomalies, and lets pass what snapshot isolation allows.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/isolation.hpp"

namespace {

using namespace spolia::test;

using history = std::vector<transaction_log>;
constexpr std::uint64_t x = 1;
constexpr std::uint64_t y = 2;

std::string serial_verdict(const history& h) { return serializability_broken(h); }
std::string verdict(const history& h) { return snapshot_isolation_broken(h); }
bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

TEST(isolation, serial_histories_pass) {
  EXPECT_EQ(verdict({{.thread = 0, .reads = {{x, 0}}, .writes = {{x, 0, 1}}},
                     {.thread = 1, .reads = {{x, 1}, {y, 0}}, .writes = {{y, 0, 2}}},
                     {.thread = 0, .reads = {{x, 1}, {y, 2}}, .writes = {{x, 1, 3}}}}),
            "");
}
TEST(isolation, dirty_reads_and_writes) {
  EXPECT_TRUE(begins(verdict({{.thread = 0, .reads = {{x, 7}}}}), "dirty read"));
  EXPECT_TRUE(begins(verdict({{.thread = 0, .writes = {{x, 7, 8}}}}), "dirty write"));
}
TEST(isolation, lost_updates) {
  EXPECT_TRUE(begins(verdict({{.thread = 0, .reads = {{x, 0}}, .writes = {{x, 0, 1}}},
                              {.thread = 1, .reads = {{x, 0}}, .writes = {{x, 0, 2}}}}),
                     "lost update"));
  // The second knows what it replaces, but decided on what it had read before.
  EXPECT_TRUE(begins(verdict({{.thread = 0, .reads = {{x, 0}}, .writes = {{x, 0, 1}}},
                              {.thread = 1, .reads = {{x, 0}}, .writes = {{x, 1, 2}}}}),
                     "a cycle"));
}
TEST(isolation, reads_that_do_not_repeat) {
  EXPECT_TRUE(begins(
      verdict({{.thread = 0, .writes = {{x, 0, 1}}}, {.thread = 1, .reads = {{x, 0}, {x, 1}}}}),
      "not repeatable"));
}
TEST(isolation, half_of_a_commit) {
  EXPECT_TRUE(begins(verdict({{.thread = 0, .writes = {{x, 0, 1}, {y, 0, 2}}},
                              {.thread = 1, .reads = {{x, 1}, {y, 0}}}}),
                     "a cycle"));
}
TEST(isolation, two_readers_that_disagree_on_the_order) {
  EXPECT_TRUE(begins(verdict({{.thread = 0, .writes = {{x, 0, 1}}},
                              {.thread = 1, .writes = {{y, 0, 2}}},
                              {.thread = 2, .reads = {{x, 1}, {y, 0}}},
                              {.thread = 3, .reads = {{x, 0}, {y, 2}}}}),
                     "a cycle"));
}
TEST(isolation, a_thread_that_does_not_see_its_own_commit) {
  EXPECT_TRUE(
      begins(verdict({{.thread = 0, .writes = {{x, 0, 1}}}, {.thread = 0, .reads = {{x, 0}}}}),
             "a cycle"));
}
TEST(isolation, write_skew_is_allowed_but_not_serializable) {
  const history skew = {{.thread = 0, .reads = {{x, 0}, {y, 0}}, .writes = {{x, 0, 1}}},
                        {.thread = 1, .reads = {{x, 0}, {y, 0}}, .writes = {{y, 0, 2}}}};
  EXPECT_EQ(verdict(skew), "");
  EXPECT_TRUE(begins(serial_verdict(skew), "a cycle"));
}
TEST(isolation, the_read_only_anomaly_is_allowed_but_not_serializable) {
  history anomaly = {{.thread = 0, .reads = {{y, 0}}, .writes = {{y, 0, 1}}},
                     {.thread = 1, .reads = {{x, 0}, {y, 0}}, .writes = {{x, 0, 2}}},
                     {.thread = 2, .reads = {{x, 0}, {y, 1}}}};
  EXPECT_EQ(verdict(anomaly), "");
  EXPECT_TRUE(begins(serial_verdict(anomaly), "a cycle"));
  anomaly.pop_back();
  EXPECT_EQ(serial_verdict(anomaly), "") << "nobody has seen it";
}
TEST(isolation, serial_histories_are_serializable) {
  EXPECT_EQ(serial_verdict({{.thread = 0, .reads = {{x, 0}}, .writes = {{x, 0, 1}}},
                            {.thread = 1, .reads = {{x, 1}, {y, 0}}, .writes = {{y, 0, 2}}},
                            {.thread = 2, .reads = {{x, 0}, {y, 0}}}}),
            "");
}

}  // namespace
