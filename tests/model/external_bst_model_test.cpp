// SPDX-License-Identifier: Apache-2.0
// The external search tree in a whole domain under the model checker.

#include <gtest/gtest.h>

#include <spolia/map/external_bst.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/reclaim/token.hpp>

#include "model/map_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct trees {
  template <class Domain>
  using of = external_bst<int, int, Domain>;
};

TEST(external_bst_model, is_right_with_weak_memory) { expect_all_clean<trees, none>(at_most(2)); }
TEST(external_bst_model, is_right_under_token) { expect_all_clean<trees, token>(at_most(1)); }
TEST(external_bst_model, is_right_under_token_with_more_preemptions) {
  for (const auto scenario :
       {insert_behind_an_erase<trees, token>, insert_beside_an_erase<trees, token>,
        erase_neighbours<trees, token>, replace_against_an_erase<trees, token>}) {
    expect_clean(scenario, at_most_in_order(3));
  }
}
TEST(external_bst_model, is_right_under_hazard_pointers) {
  expect_all_clean<trees, hazard_pointers>(at_most_in_order(2));
}
/// At random: two threads that wait for a third one's lock, and enter a guard for each look, could
/// keep each other going forever if the scheduler never let the third one run.
TEST(external_bst_model, three_threads_at_one_place) {
  for (const auto scenario :
       {three_at_one_place<trees, token>, three_at_one_place<trees, hazard_pointers>}) {
    model::options how;
    how.how = model::options::mode::random;
    how.executions = 4000;
    const auto got = model::explore(how, scenario);
    EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  }
}

TEST(external_bst_model, without_marks_a_search_goes_on_into_freed_nodes) {
  expect_found(search_over_what_is_freed<trees, hazard_pointers>, "external_bst.no_mark",
               at_most_in_order(2), "freed");
}
TEST(external_bst_model, a_link_that_has_changed_must_not_be_overwritten) {
  expect_found(insert_behind_an_erase<trees, token>, "external_bst.no_validate",
               at_most_in_order(2), "answers say");
}
TEST(external_bst_model, a_node_is_published_whole) {
  expect_found(insert_behind_an_erase<trees, token>, "external_bst.publish_relaxed", at_most(2),
               "race");
}
TEST(external_bst_model, the_next_holder_of_a_lock_sees_the_link) {
  expect_found(insert_twice<trees, token>, "external_bst.unlock_relaxed", at_most(2),
               "answers say");
}
TEST(external_bst_model, the_siblings_link_is_locked_too) {
  expect_found(insert_beside_an_erase<trees, token>, "external_bst.lock_one_side",
               at_most_in_order(2), "answers say");
}

}  // namespace
