// SPDX-License-Identifier: Apache-2.0
// Treiber's stack and the queue of Michael and Scott (support/structures.hpp) in whole domains
// under the model checker: each value is taken once and in order, and no node is touched after its
// end.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>

#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/intervals.hpp>
#include <spolia/reclaim/qsbr.hpp>
#include <spolia/reclaim/reservations.hpp>
#include <spolia/reclaim/token.hpp>

#include "model/domain_scenarios.hpp"
#include "support/schemes.hpp"
#include "support/structures.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// A structure that holds 1 and 2, put in this order.
template <template <class, class> class Structure, class Scheme>
struct shared_bag {
  using domain_type = domain<Scheme, batch>;

  shared_bag() : d(eager()), bag(std::make_unique<Structure<int, domain_type>>(d)) {
    bag->put(1);
    bag->put(2);
  }
  static typename domain_type::options eager() {
    typename domain_type::options o;
    if constexpr (requires { o.scheme.tick_every; }) o.scheme = {.tick_every = 1, .patience = 0};
    if constexpr (requires { o.scheme.scan_every; }) o.scheme.scan_every = 1;
    if constexpr (requires { o.scheme.min_looks; }) o.scheme.min_looks = 1;
    return o;
  }
  void take(std::size_t slot) { taken[slot] = bag->take().value_or(0); }

  /// Lets the scheme free what this thread retired, if it may.
  void free_what_is_safe() {
    if constexpr (protects_pointers<Scheme>) {
      d.drain();
    } else {
      for (int operation = 0; operation < 4; ++operation) auto guard = d.enter();
    }
  }

  domain_type d;
  std::unique_ptr<Structure<int, domain_type>> bag;
  std::array<int, 3> taken{};
};

/// One thread puts 3 and takes, the other takes and lets nodes be freed under the first one's eyes.
template <template <class, class> class Structure, class Scheme>
void put_and_take(model::scenario& run) {
  auto s = std::make_shared<shared_bag<Structure, Scheme>>();
  run.thread([=] {
    s->bag->put(3);
    s->take(0);
  });
  run.thread([=] {
    s->take(1);
    s->free_what_is_safe();
  });
  run.finally([=] {
    s->take(2);
    const auto& t = s->taken;
    model::check(t[0] + t[1] + t[2] == 6 && t[0] * t[1] * t[2] == 6, "each value is taken once");
    model::check(!s->bag->take().has_value(), "nothing else is there");
    s->bag.reset();
  });
}

/// The second node is taken and freed while a thread still stands on the first.
template <class Scheme>
void take_what_comes_next(model::scenario& run) {
  auto s = std::make_shared<shared_bag<michael_scott_queue, Scheme>>();
  run.thread([=] { s->take(0); });
  run.thread([=] {
    s->take(1);
    s->take(2);
    s->free_what_is_safe();
  });
  run.finally([=] {
    const auto& t = s->taken;
    model::check(t[0] + t[1] + t[2] == 3 && (t[0] == 0 || t[1] * t[2] == 0), "each comes once");
    s->bag.reset();
  });
}

/// The values come in the order in which they were put.
template <class Scheme>
void in_order(model::scenario& run) {
  auto s = std::make_shared<shared_bag<michael_scott_queue, Scheme>>();
  run.thread([=] {
    s->take(0);
    s->take(1);
  });
  run.thread([=] { s->bag->put(3); });
  run.finally([=] {
    s->take(2);
    model::check(s->taken == std::array{1, 2, 3}, "first in, first out");
    s->bag.reset();
  });
}

template <class Scheme>
class bag_model : public testing::Test {};
using schemes =
    with_extra_schemes<token, debra, qsbr, reservations, hazard_pointers, hazard_eras, intervals>;
TYPED_TEST_SUITE(bag_model, schemes);

TYPED_TEST(bag_model, a_stack_gives_each_value_once) {
  expect_clean(put_and_take<treiber_stack, TypeParam>, at_most_in_order(2));
}
TYPED_TEST(bag_model, a_queue_gives_each_value_once) {
  expect_clean(put_and_take<michael_scott_queue, TypeParam>, at_most_in_order(2));
}
TYPED_TEST(bag_model, a_queue_can_be_emptied_under_a_taker) {
  expect_clean(take_what_comes_next<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(bag_model, a_queue_keeps_the_order) {
  expect_clean(in_order<TypeParam>, at_most_in_order(2));
}
TYPED_TEST(bag_model, orders_are_strong_enough) { expect_clean(in_order<TypeParam>, at_most(1)); }

TEST(bag_model_faults, a_link_of_a_node_that_was_taken_protects_nothing) {
  expect_found(take_what_comes_next<hazard_pointers>, "queue.no_look", at_most_in_order(2),
               "freed");
}
TEST(bag_model_faults, a_name_that_is_not_checked_protects_nothing) {
  expect_found(put_and_take<treiber_stack, hazard_pointers>, "hp.no_validate", at_most_in_order(2),
               "race");
}
TEST(bag_model_faults, a_reader_must_say_when_it_has_left) {
  expect_found(put_and_take<treiber_stack, token>, "token.leave_relaxed", at_most_in_order(2),
               "race");
}

}  // namespace
