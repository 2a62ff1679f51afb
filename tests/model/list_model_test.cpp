// SPDX-License-Identifier: Apache-2.0
// The list in a whole domain under the model checker.

#include <gtest/gtest.h>

#include <spolia/map/list.hpp>
#include <spolia/reclaim/hazard_eras.hpp>
#include <spolia/reclaim/hazard_pointers.hpp>
#include <spolia/reclaim/intervals.hpp>
#include <spolia/reclaim/none.hpp>
#include <spolia/reclaim/token.hpp>
#include <spolia/reclaim/wait_free_eras.hpp>

#include "model/map_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

struct lists {
  template <class Domain>
  using of = list<int, int, Domain>;
};

TEST(list_model, is_right_by_itself) { expect_all_clean<lists, none>(at_most(2)); }
TEST(list_model, is_right_under_token) { expect_all_clean<lists, token>(at_most(1)); }
TEST(list_model, is_right_under_token_with_more_preemptions) {
  expect_all_clean<lists, token>(at_most_in_order(2));
}
TEST(list_model, is_right_under_hazard_pointers) {
  expect_all_clean<lists, hazard_pointers>(at_most_in_order(2));
}
TEST(list_model, is_right_under_eras) {
  expect_all_clean<lists, hazard_eras>(at_most_in_order(2));
  expect_all_clean<lists, intervals>(at_most_in_order(2));
  expect_all_clean<lists, wait_free_eras>(at_most_in_order(1));
}
TEST(list_model, three_threads_at_one_place) {
  expect_clean(three_at_one_place<lists, token>, at_most_in_order(2));
  expect_clean(three_at_one_place<lists, hazard_pointers>, at_most_in_order(2));
}

TEST(list_model, without_marks_insertions_are_lost) {
  expect_found(insert_behind_an_erase<lists, token>, "list.no_mark", at_most(2),
               "what the operations' answers say");
}
TEST(list_model, a_node_is_published_whole) {
  expect_found(insert_behind_an_erase<lists, token>, "list.publish_relaxed", at_most(2), "race");
}
TEST(list_model, who_has_not_unlinked_a_node_must_not_retire_it) {
  expect_found(search_over_what_is_freed<lists, token>, "list.retire_before_unlink", at_most(2),
               "race");
}
TEST(list_model, a_deleted_nodes_link_says_nothing_under_hazard_pointers) {
  expect_found(search_over_what_is_freed<lists, hazard_pointers>, "list.no_validate",
               at_most_in_order(2), "freed");
}

}  // namespace
