// SPDX-License-Identifier: Apache-2.0
// Hazard eras and intervals under the model checker: announcements against unlinking, dating and
// scanning.

#include <gtest/gtest.h>

#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/intervals.hpp>

#include "model/era_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Scheme>
class eras_model : public testing::Test {};
using schemes = testing::Types<hazard_eras, intervals>;
TYPED_TEST_SUITE(eras_model, schemes);

TYPED_TEST(eras_model, what_lives_in_an_announced_era_is_not_freed) {
  expect_clean<TypeParam>(&one_reader<TypeParam>, 3);
  expect_clean<TypeParam>(&announced<TypeParam>, 3);
  expect_clean<TypeParam>(&beside_another_clock_hand<TypeParam>, 2);
}
TYPED_TEST(eras_model, a_block_may_be_younger_than_the_operation) {
  expect_clean<TypeParam>(&born_and_retired_under_the_reader<TypeParam>, 2);
}
TYPED_TEST(eras_model, operations_and_looks_follow_each_other) {
  expect_clean<TypeParam>(&one_slot_twice<TypeParam>, 2);
  expect_clean<TypeParam>(&two_looks<TypeParam>, 2);
  expect_clean<TypeParam>(&two_operations<TypeParam>, 1);
}
TYPED_TEST(eras_model, nested_guards) { expect_clean<TypeParam>(&nested<TypeParam>, 2); }
TYPED_TEST(eras_model, steps_over_what_was_unlinked) {
  expect_clean<TypeParam>(&a_frozen_link<TypeParam>, 2);
  expect_clean<TypeParam>(&handed_on<TypeParam>, 2);
}

TYPED_TEST(eras_model, faults_of_clocks_and_dates_are_found) {
  expect_found<TypeParam>(&beside_another_clock_hand<TypeParam>, "eras.retired_by_a_load");
  expect_found<TypeParam>(&one_reader<TypeParam>, "eras.read_relaxed");
  expect_found<TypeParam>(&born_and_retired_under_the_reader<TypeParam>, "eras.clock_first");
}

TEST(eras_model_faults, of_hazard_eras_are_found) {
  const auto found = [](auto scenario, const char* fault) {
    expect_found<hazard_eras>(scenario, fault);
  };
  found(&one_reader<hazard_eras>, "he.no_light");
  found(&one_reader<hazard_eras>, "he.no_heavy");
  found(&announced<hazard_eras>, "he.no_light");
  found(&one_reader<hazard_eras>, "he.no_second_look");
  found(&one_slot_twice<hazard_eras>, "he.relaxed_publish");
  found(&one_reader<hazard_eras>, "slots.read_relaxed");
  found(&one_reader<hazard_eras>, "slots.clear_relaxed");
  found(&a_frozen_link<hazard_eras>, "he.no_look_in_a_second_era");
  found(&handed_on<hazard_eras>, "he.slot_without_effect");
}

TEST(eras_model_faults, of_intervals_are_found) {
  const auto found = [](auto scenario, const char* fault) {
    expect_found<intervals>(scenario, fault);
  };
  found(&born_and_retired_under_the_reader<intervals>, "ibr.no_light");
  found(&one_reader<intervals>, "ibr.no_heavy");
  found(&born_and_retired_under_the_reader<intervals>, "ibr.no_second_look");
  found(&two_operations<intervals>, "ibr.enter_relaxed");
  found(&one_reader<intervals>, "ibr.leave_relaxed");
  found(&one_reader<intervals>, "ibr.read_relaxed");
  found(&two_looks<intervals>, "ibr.lower_follows");
  found(&a_frozen_link<intervals>, "ibr.no_look_in_a_second_era");
}

}  // namespace
