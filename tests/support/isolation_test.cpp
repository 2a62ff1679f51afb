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
  EXPECT_EQ(serial_verdict(anomaly), "") << "no transaction has seen it";
}
/// Each by its name in Adya's thesis.
TEST(isolation, the_kinds_of_anomalies) {
  const auto kind = [](const history& h, const std::string& name) {
    return verdict(h).find("(" + name) != std::string::npos &&
           serial_verdict(h).find("(" + name) != std::string::npos;
  };
  EXPECT_TRUE(kind({{.thread = 0, .writes = {{x, 0, 1}, {y, 3, 2}}},
                    {.thread = 1, .writes = {{x, 1, 4}, {y, 0, 3}}}},
                   "G0"));
  EXPECT_TRUE(kind(
      {{.thread = 0, .writes = {{x, 0, 1}}, .rolled_back = true}, {.thread = 1, .reads = {{x, 1}}}},
      "G1a"));
  EXPECT_TRUE(kind(
      {{.thread = 0, .writes = {{x, 0, 2}}, .passed = {{x, 1}}}, {.thread = 1, .reads = {{x, 1}}}},
      "G1b"));
  EXPECT_TRUE(kind({{.thread = 0, .reads = {{y, 2}}, .writes = {{x, 0, 1}}},
                    {.thread = 1, .reads = {{x, 1}}, .writes = {{y, 0, 2}}}},
                   "G1c"));
  // A long fork: two readers, each of which has seen one of two.
  EXPECT_TRUE(kind({{.thread = 0, .writes = {{x, 0, 1}}},
                    {.thread = 1, .writes = {{y, 0, 2}}},
                    {.thread = 2, .reads = {{x, 1}, {y, 0}}},
                    {.thread = 3, .reads = {{x, 0}, {y, 2}}}},
                   "G2"));
}
TEST(isolation, what_was_rolled_back_alone_is_nothing) {
  const history h = {{.thread = 0, .reads = {{x, 0}}, .writes = {{x, 0, 1}}, .rolled_back = true},
                     {.thread = 1, .reads = {{x, 0}}, .writes = {{x, 0, 2}}}};
  EXPECT_EQ(verdict(h), "");
  EXPECT_EQ(serial_verdict(h), "");
}
/// Two that each insert what the other one has looked for, and have read it as keys or as a range.
TEST(isolation, phantoms_are_allowed_but_not_serializable) {
  for (const bool range : {false, true}) {
    history h = {{.thread = 0, .writes = {{x, 0, 1}}}, {.thread = 1, .writes = {{y, 0, 2}}}};
    (range ? h[0].missed : h[0].reads).push_back({y, range ? 2U : 0U});
    (range ? h[1].missed : h[1].reads).push_back({x, range ? 1U : 0U});
    EXPECT_EQ(verdict(h), "");
    EXPECT_TRUE(begins(serial_verdict(h), "a cycle of dependencies (G2)"));
    h[1].missed.clear();
    h[1].reads.clear();
    EXPECT_EQ(serial_verdict(h), "");
  }
}
/// A key that is deleted, found absent, and inserted again: each absence has a version.
TEST(isolation, absence_has_versions) {
  const history h = {{.thread = 0, .reads = {{x, 0}}, .writes = {{x, 0, 1}}},
                     {.thread = 1, .reads = {{x, 1}}, .writes = {{x, 1, 2}}},  // deletes it
                     {.thread = 2, .reads = {{x, 2}, {y, 0}}},
                     {.thread = 3, .reads = {{x, 2}}, .writes = {{x, 2, 3}, {y, 0, 4}}}};
  EXPECT_EQ(serial_verdict(h), "");
  history torn = h;
  torn[2].reads[1].version = 4;
  EXPECT_TRUE(begins(verdict(torn), "a cycle"));
}
TEST(isolation, serial_histories_are_serializable) {
  EXPECT_EQ(serial_verdict({{.thread = 0, .reads = {{x, 0}}, .writes = {{x, 0, 1}}},
                            {.thread = 1, .reads = {{x, 1}, {y, 0}}, .writes = {{y, 0, 2}}},
                            {.thread = 2, .reads = {{x, 0}, {y, 0}}}}),
            "");
}

}  // namespace
