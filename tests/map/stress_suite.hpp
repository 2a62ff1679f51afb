// SPDX-License-Identifier: Apache-2.0
/// \file
/// Many threads. Histories are linearizable, scans keep their promise, nothing is touched after its
/// end or left over, and garbage stays within the scheme's bound.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "map/subjects.hpp"
#include "support/all_domains.hpp"
#include "support/ledger.hpp"
#include "support/linearizability.hpp"
#include "support/recorded_operation.hpp"
#include "support/stress.hpp"
#include "support/within_bound.hpp"

namespace spolia::test {

template <class Subject>
class map_stress : public testing::Test {
 protected:
  using domain_type = typename Subject::domain_type;
  using numbers = typename Subject::template of<std::uint64_t, std::uint64_t>;

  /// Of a map without an order all pairs, which are recorded in order.
  template <class Lane>
  static void scan(const numbers& m, Lane& lane, std::uint64_t keys, std::uint64_t low,
                   std::uint64_t high) {
    if constexpr (is_ordered<numbers>) {
      lane.scan(low, high, [&](auto show) { m.range(low, high + 1, show); });
    } else {
      lane.scan(0, keys - 1, [&](auto show) {
        std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
        m.for_each([&](std::uint64_t k, std::uint64_t v) { all.emplace_back(k, v); });
        std::sort(all.begin(), all.end());
        for (const auto& [k, v] : all) show(k, v);
      });
    }
  }

  /// `scanners` of the threads run ranges instead; if `by_value`, half of the operations go by the
  /// value that there is.
  static void check(unsigned threads, unsigned scanners, std::uint64_t keys,
                    bool by_value = false) {
    constexpr std::size_t operations = 20'000;
    map_recorder record(threads, operations, scanners == 0 ? 0 : 200'000);
    domain_type d(eager<domain_type>());
    {
      numbers m(d);
      run_stress({.threads = threads, .share = 0.1, .stream = keys}, [&](stress_thread& self) {
        auto& lane = record.of(self.index());
        std::uint64_t value = self.index();
        std::size_t scans = 0;
        while (self.running() && !lane.full()) {
          if (self.index() < scanners) {
            if (++scans * (keys + 1) > 200'000) break;
            const std::uint64_t low = self.random().below(keys);
            const std::uint64_t high = low + self.random().below(keys - low);
            scan(m, lane, keys, low, high);
          } else if (by_value && self.random().chance(1, 2)) {
            operate_by_value(m, lane, self.random(), self.random().below(keys), value += threads);
          } else {
            operate(m, lane, self.random(), self.random().below(keys), value += threads);
          }
        }
      });
      std::size_t left = 0;
      m.for_each([&](std::uint64_t, std::uint64_t) { ++left; });
      EXPECT_EQ(m.size_approx(), left);
      expect_sound(m);
    }
    EXPECT_TRUE(drain_all(d));
    const auto events = record.events();
    EXPECT_TRUE(accepted(check_map(events)));
    if (scanners != 0) {
      EXPECT_TRUE(accepted(check_scans(events, record.scans())));
    }
  }
};
TYPED_TEST_SUITE_P(map_stress);

TYPED_TEST_P(map_stress, two_threads_fight_over_a_few_keys) { this->check(2, 0, 3); }
TYPED_TEST_P(map_stress, sixteen_threads_share_a_small_map) { this->check(16, 0, 20); }
TYPED_TEST_P(map_stress, scans_run_beside_updates) { this->check(4, 2, 150); }
TYPED_TEST_P(map_stress, updates_go_by_the_value_that_there_is) { this->check(3, 0, 3, true); }
TYPED_TEST_P(map_stress, scans_run_beside_updates_by_value) { this->check(4, 1, 60, true); }

TYPED_TEST_P(map_stress, what_stays_is_always_seen) {
  // Every tenth key is never erased, only replaced; the others come and go around it.
  constexpr std::uint64_t keys = 200;
  typename TestFixture::domain_type d(eager<typename TestFixture::domain_type>());
  typename TestFixture::numbers m(d);
  std::vector<std::uint64_t> staying;
  for (std::uint64_t k = 0; k < keys; k += 10) {
    m.insert(k, 0);
    staying.push_back(k);
  }
  run_stress({.threads = 4, .share = 0.1}, [&](stress_thread& self) {
    while (self.running()) {
      if (self.index() == 0) {
        std::vector<std::uint64_t> seen;
        m.for_each([&](std::uint64_t k, std::uint64_t) {
          if (k % 10 == 0) seen.push_back(k);
        });
        if (!is_ordered<typename TestFixture::numbers>) std::sort(seen.begin(), seen.end());
        ASSERT_EQ(seen, staying);
        ASSERT_TRUE(m.contains(10 * self.random().below(keys / 10)));
        continue;
      }
      const std::uint64_t key = self.random().below(keys);
      if (key % 10 == 0) {
        ASSERT_FALSE(m.insert_or_assign(key, self.random()()));
      } else if (self.random().chance(1, 2)) {
        m.insert(key, 0);
      } else {
        m.erase(key);
      }
    }
  });
}

TYPED_TEST_P(map_stress, elements_end_once_whatever_happens) {
  constexpr std::uint64_t keys = 12;
  constexpr unsigned threads = 4;
  ledger book;
  {
    typename TestFixture::domain_type d(eager<typename TestFixture::domain_type>());
    typename TypeParam::template of<tracked, tracked> m(d);
    // Each thread has two arguments, two nodes that are not linked yet or not unlinked yet, and
    // what it copied for for_each. Everything else is in the map, with a router for each pair at
    // most, or waits.
    const std::uint64_t elements = 2 * keys + threads * (1 + 2 + keys);
    run_stress({.threads = threads, .share = 0.1}, [&](stress_thread& self) {
      while (self.running()) {
        const std::uint64_t k = self.random().below(keys);
        switch (self.random().below(5)) {
          case 0:
            m.insert(tracked(book, k), tracked(book, 100 + k));
            break;
          case 1:
            m.insert_or_assign(tracked(book, k), tracked(book, 100 + k));
            break;
          case 2:
            m.erase(tracked(book, k));
            break;
          case 3:
            m.visit(tracked(book, k), [&](const tracked& v) { ASSERT_EQ(v.read(), 100 + k); });
            break;
          default:
            m.for_each([](const tracked& key, const tracked& v) {
              ASSERT_EQ(v.read(), 100 + key.read());
            });
        }
        expect_within_bound(d, threads + 1, [&] { return book.live() / 2; }, elements);
      }
    });
  }
  book.expect_empty();
}

REGISTER_TYPED_TEST_SUITE_P(map_stress, two_threads_fight_over_a_few_keys,
                            sixteen_threads_share_a_small_map, scans_run_beside_updates,
                            updates_go_by_the_value_that_there_is,
                            scans_run_beside_updates_by_value, what_stays_is_always_seen,
                            elements_end_once_whatever_happens);

}  // namespace spolia::test
