// SPDX-License-Identifier: Apache-2.0
// Read-log-update under the model checker, where sweeps of logs come after a fast-path check of
// which threads are in a section, and threads that are in none are offline.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/rlu.hpp>

#include "model/domain_scenarios.hpp"
#include "model/rlu_world.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// Each commit is followed by a fast-path check, and none by a scan of the census: but for what a
/// scenario says.
struct checking_world : world {
  explicit checking_world(std::uint32_t turn_us = 300) : world(1000, 1, false, turn_us) {}
};

/// A thread that has never been here begins a section.
void a_reader_comes(model::scenario& run, int commits) {
  auto w = std::make_shared<checking_world>();
  run.thread([=] { w->look_twice(); });
  run.thread([=] {
    for (int i = 0; i < commits; ++i) w->add_to(w->x);
  });
  run.finally([=] { w->clear(); });
}
void a_reader_comes_to_one_commit(model::scenario& run) { a_reader_comes(run, 1); }
void a_reader_comes_to_three(model::scenario& run) { a_reader_comes(run, 3); }

/// It has been here, and is between two sections or in one.
void a_reader_goes_on(model::scenario& run) {
  auto w = std::make_shared<checking_world>();
  run.thread([=] {
    w->d.read([](auto&) {});
    w->look_twice();
  });
  run.thread([=] {
    for (int i = 0; i < 2; ++i) w->add_to(w->x);
  });
  run.finally([=] { w->clear(); });
}

/// The same with less to try.
void a_reader_has_been_here(model::scenario& run) {
  auto w = std::make_shared<checking_world>();
  run.thread([=] {
    w->d.read([](auto&) {});
    w->look_twice();
  });
  run.thread([=] { w->add_to(w->x); });
  run.finally([=] { w->clear(); });
}

/// It goes offline by itself after its first section, or is at the end of that.
void a_reader_comes_online(model::scenario& run) {
  auto w = std::make_shared<checking_world>(1);
  run.thread([=] {
    w->d.read([](auto&) {});
    w->look_twice();
  });
  run.thread([=] { w->add_to(w->x); });
  run.finally([=] { w->clear(); });
}

/// A scan calls it, between two sections or in one.
void a_reader_is_called(model::scenario& run, int commits) {
  auto w = std::make_shared<checking_world>();
  run.thread([=] {
    for (int i = 0; i < 2; ++i) w->look_twice();
  });
  run.thread([=] {
    w->d.collect();
    for (int i = 0; i < commits; ++i) w->add_to(w->x);
  });
  run.finally([=] { w->clear(); });
}
void a_reader_is_called_before_two(model::scenario& run) { a_reader_is_called(run, 2); }

/// It comes to sweeps that scan the census.
void a_reader_comes_to_scans(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->look_twice(); });
  run.thread([=] {
    w->add_to(w->x);
    for (int i = 0; i < 2; ++i) w->d.collect();
  });
  run.finally([=] { w->clear(); });
}

/// Orders of single loads and stores: too many to try them all.
model::options some() { return in_random_orders(30000); }

TEST(rlu_fast_check_model, readers_are_not_missed) {
  expect_clean(a_reader_comes_to_one_commit, at_most(1));
  expect_clean(a_reader_comes_to_three, at_most_in_order(2));
  expect_clean(a_reader_goes_on, at_most_in_order(2));
  expect_clean(a_reader_is_called_before_two, at_most_in_order(2));
}
TEST(rlu_fast_check_model, between_two_sections_is_not_offline) {
  expect_found(a_reader_has_been_here, "rlu.takes_silence_for_absence", some(), "data race");
}
TEST(rlu_fast_check_model, a_thread_called_in_a_section_is_found_there) {
  expect_found(a_reader_is_called_before_two, "rlu.overlooks_sleepers", at_most_in_order(2),
               "data race");
}
TEST(rlu_fast_check_model, a_thread_that_comes_online_fences) {
  expect_clean(a_reader_comes_online, at_most(1));
  expect_found(a_reader_comes_online, "rlu.comes_online_unfenced", at_most(1), "data race");
}
TEST(rlu_fast_check_model, a_fast_check_fences) {
  expect_found(a_reader_comes_to_one_commit, "rlu.checks_unfenced", some(), "data race");
}
/// Walks over sessions and over the census pass by what is not occupied.
TEST(rlu_fast_check_model, a_session_is_occupied_before_its_first_section) {
  const cells_one_by_one here;
  expect_clean(a_reader_comes_to_three, at_most_in_order(1));
  expect_clean(a_reader_comes_to_scans, at_most_in_order(1));
  expect_found(a_reader_comes_to_three, "rlu.not_occupied", at_most_in_order(1), "data race");
  expect_found(a_reader_comes_to_scans, "census.shelf_stays_closed", at_most_in_order(1),
               "data race");
}

}  // namespace
