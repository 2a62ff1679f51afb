// SPDX-License-Identifier: Apache-2.0
// Nodes with versioned fields that die before their collector, over every collector.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "support/ledger.hpp"
#include "support/stress.hpp"
#include "version/all_collectors.hpp"
#include "version/boxes.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using counted = test::tracked;  // not the hook of versions

template <class Collector>
struct box_world {
  explicit box_world(ledger& book) : versions(nodes, time, eager_options<Collector>()) {
    structure.emplace(versions, counted(book, 0U));
  }
  ~box_world() {
    versions.close();
    structure.reset();
  }
  std::uint64_t read() {
    return structure->read([](const counted& c) { return c.read(); });
  }
  /// Ends what is current, since some collectors look at nothing but what is changed.
  void come_to_rest() {
    for (int i = 0; i < 2; ++i) {
      snapshot(time).withdraw();
      structure->move();
    }
    versions.collect();
    versions.collect();
  }

  typename Collector::domain_type nodes;
  typename Collector::timeline_type time;
  Collector versions;
  std::optional<boxes<counted, Collector>> structure;
};

template <class Collector>
class owners : public testing::Test {
 protected:
  void SetUp() override {
    if (!usable<Collector>()) GTEST_SKIP() << hardware_clock::reason();
  }
};
TYPED_TEST_SUITE(owners, all_collectors, collector_names);

TYPED_TEST(owners, snapshots_see_into_dead_nodes) {
  ledger book;
  {
    box_world<TypeParam> w(book);
    std::vector<snapshot> instants;
    for (unsigned i = 1; i <= 60; ++i) {
      instants.emplace_back(w.time);
      for (unsigned k = 0; k < i % 4; ++k) w.structure->set(counted(book, i));
      if (i % 3 == 0) w.structure->move();
    }
    w.versions.collect();
    w.nodes.drain();
    std::uint64_t expected = 0;
    for (unsigned i = 0; i < instants.size(); ++i) {
      EXPECT_EQ(w.structure->at(instants[i]).read(), expected);
      if ((i + 1) % 4 != 0) expected = i + 1;
    }
  }
  book.expect_empty();
}

/// Nodes come and go by the thousand under one snapshot, which needs one of them.
TYPED_TEST(owners, a_held_snapshot_keeps_the_nodes_that_it_reaches) {
  ledger book;
  {
    box_world<TypeParam> w(book);
    const snapshot held(w.time);
    std::uint64_t most = 0;
    for (unsigned i = 1; i <= 3000; ++i) {
      if (i % 3 == 0) snapshot(w.time).withdraw();
      w.structure->set(counted(book, i));
      if (i % 2 == 0) w.structure->move();
      most = std::max(most, w.versions.stats().held());
    }
    if (TypeParam::info.collects_between) {
      EXPECT_LE(most, 3U * 4 + 6 * 8 + 4);
    }
    EXPECT_EQ(w.structure->at(held).read(), 0U);
    EXPECT_EQ(w.read(), 3000U);
    w.come_to_rest();
    if (TypeParam::info.collects_between) {
      EXPECT_LE(w.versions.stats().held(), 4U);
    }
  }
  book.expect_empty();
}

TYPED_TEST(owners, nothing_is_left_when_all_snapshots_are_gone) {
  ledger book;
  {
    box_world<TypeParam> w(book);
    {
      const snapshot then(w.time);
      for (unsigned i = 0; i < 300; ++i) {
        if (i % 5 == 0) snapshot(w.time).withdraw();
        w.structure->set(counted(book, i));
        if (i % 2 == 0) w.structure->move();
      }
    }
    w.come_to_rest();
    EXPECT_EQ(w.versions.stats().held(), 0U);
    EXPECT_TRUE(w.nodes.drain());
    EXPECT_EQ(book.live(), 1);
  }
  book.expect_empty();
}

/// The collector closes with nodes in every state.
TYPED_TEST(owners, end_in_the_midst_of_things) {
  ledger book;
  for (unsigned changes = 0; changes < 60; ++changes) {
    box_world<TypeParam> w(book);
    const snapshot then(w.time);
    for (unsigned i = 0; i < changes; ++i) {
      if (i % 4 == 0) snapshot(w.time).withdraw();
      if (i % 3 == 0) w.structure->move();
      w.structure->set(counted(book, i));
    }
  }
  book.expect_empty();
}

/// Values only grow. A snapshot sees one of them for as long as it lives.
TYPED_TEST(owners, die_under_contention) {
  ledger book;
  {
    box_world<TypeParam> w(book);
    run_stress({.threads = 4, .share = 0.5}, [&](stress_thread& self) {
      std::uint64_t latest = 0;
      for (std::uint64_t round = 1; self.running(); ++round) {
        if (self.index() == 0) w.structure->set(counted(book, round));
        if (self.index() == 1) w.structure->move();
        if (self.index() < 2) continue;
        const std::uint64_t before = w.read();
        const snapshot mine(w.time);
        const counted& found = w.structure->at(mine);
        const std::uint64_t seen = found.read();
        ASSERT_GE(seen, before);
        ASSERT_GE(seen, latest);
        latest = seen;
        self.jitter();
        ASSERT_EQ(w.structure->at(mine).read(), seen);
        ASSERT_EQ(found.read(), seen);
      }
    });
    w.come_to_rest();
    EXPECT_EQ(w.versions.stats().held(), 0U);
    w.nodes.drain();
    EXPECT_EQ(book.live(), 1);
  }
  book.expect_empty();
}

}  // namespace
