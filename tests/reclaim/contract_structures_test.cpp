// SPDX-License-Identifier: Apache-2.0
// Small structures under every scheme and policy: what they answer is linearizable, what was put is
// taken once, nothing is touched after its end, and nothing is left.

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

#include "reclaim/contract.hpp"
#include "support/linearizability.hpp"
#include "support/stress.hpp"
#include "support/structures.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr unsigned threads = 4;
constexpr std::size_t operations = 5000;

template <class Domain>
class contract_structures : public testing::Test {};
TYPED_TEST_SUITE(contract_structures, some_domains, domain_names);

/// Threads put numbers of their own and take whatever there is.
template <class Bag>
void put_and_take(Bag& bag, bag_recorder& record, ledger& book) {
  run_stress({.threads = threads, .share = 0.1}, [&](stress_thread& self) {
    auto& lane = record.of(self.index());
    std::uint64_t next = self.index();
    while (self.running() && !lane.full()) {
      if (self.random().chance(1, 2)) {
        lane.put(next, [&] { bag.put(tracked(book, next)); });
        next += threads;
      } else {
        lane.take([&]() -> std::optional<std::uint64_t> {
          const auto taken = bag.take();
          if (!taken.has_value()) return std::nullopt;
          return taken->read();
        });
      }
    }
  });
}

TYPED_TEST(contract_structures, a_stack_is_linearizable) {
  ledger book;
  bag_recorder record(threads, operations);
  {
    TypeParam d(eager<TypeParam>());
    {
      treiber_stack<tracked, TypeParam> stack(d);
      put_and_take(stack, record, book);
    }
    EXPECT_TRUE(drain_all(d));
  }
  book.expect_empty();
  EXPECT_TRUE(accepted(check_stack(record.events())));
}

TYPED_TEST(contract_structures, a_queue_is_linearizable) {
  ledger book;
  bag_recorder record(threads, operations);
  {
    TypeParam d(eager<TypeParam>());
    {
      michael_scott_queue<tracked, TypeParam> queue(d);
      put_and_take(queue, record, book);
    }
    EXPECT_TRUE(drain_all(d));
  }
  book.expect_empty();
  EXPECT_TRUE(accepted(check_queue(record.events())));
}

TYPED_TEST(contract_structures, an_optimistic_set_is_linearizable) {
  if constexpr (protects_optimistic_search<typename TypeParam::scheme_type>) {
    map_recorder record(threads, operations);
    TypeParam d(eager<TypeParam>());
    {
      optimistic_set<TypeParam> set(d);
      run_stress({.threads = threads, .share = 0.1}, [&](stress_thread& self) {
        auto& lane = record.of(self.index());
        while (self.running() && !lane.full()) {
          const std::uint64_t key = self.random().below(8);
          switch (self.random().below(3)) {
            case 0:
              lane.insert(key, 0, [&] { return set.insert(key); });
              break;
            case 1:
              lane.erase(key, [&] { return set.erase(key); });
              break;
            default:
              lane.contains(key, [&] { return set.contains(key); });
              break;
          }
        }
      });
    }
    EXPECT_TRUE(drain_all(d));
    EXPECT_GT(d.stats().retired, 0U);
    EXPECT_TRUE(accepted(check_map(record.events())));
  }
}

}  // namespace
