// SPDX-License-Identifier: Apache-2.0
// Hazard eras and intervals under the model checker: announcements against unlinking, dating and
// scanning.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/intervals.hpp>

#include "model/domain_scenarios.hpp"
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

// What all threads have begun an operation since goes without a scan, in a whole domain. The thread
// of the set-up has been here, the other one is parked until it comes.

template <class Scheme>
struct handfuls_of_one : shared_blocks<domain<Scheme, batch>> {
  using base = shared_blocks<domain<Scheme, batch>>;
  handfuls_of_one() : base({.scheme = {.scan_at = 1000, .advance_every = 1}}) {}

  /// The second handful asks for the first.
  void take_both_away() {
    this->take_away(0);
    this->take_away(1);
  }
};

template <class Scheme>
void a_parked_reader_comes_back(model::scenario& run) {
  auto s = std::make_shared<handfuls_of_one<Scheme>>();
  run.name(s->source, "source");
  run.thread([=] { s->take_both_away(); });
  run.thread([=] { s->look(); });
  run.finally([=] { s->clear(); });
}

/// The reader begins a second operation, so that the first block is known to be out of its reach.
template <class Scheme>
void a_reader_goes_on(model::scenario& run) {
  auto s = std::make_shared<handfuls_of_one<Scheme>>();
  run.name(s->source, "source");
  run.thread([=] {
    s->look();
    s->look();
  });
  run.thread([=] { s->take_both_away(); });
  run.finally([=] { s->clear(); });
}

TYPED_TEST(eras_model, handfuls_go_once_all_have_begun_anew) {
  expect_clean(a_parked_reader_comes_back<TypeParam>, at_most(2));
  expect_clean(a_reader_goes_on<TypeParam>, at_most(2));
}
TYPED_TEST(eras_model, faults_of_attendance_are_found) {
  expect_found(a_parked_reader_comes_back<TypeParam>, "parked.stays", at_most(2), "block");
  expect_found(a_parked_reader_comes_back<TypeParam>, "parked.back_by_a_load", at_most(2), "block");
  expect_found(a_reader_goes_on<TypeParam>, "eras.begun_relaxed", at_most(2), "data race");
  expect_found(a_reader_goes_on<TypeParam>, "eras.one_era_too_soon", at_most(2), "block");
}

}  // namespace
