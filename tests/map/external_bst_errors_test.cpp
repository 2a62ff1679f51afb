// SPDX-License-Identifier: Apache-2.0
// external_bst: allocations, copies and comparisons that fail.
#include <spolia/map/external_bst.hpp>

#include <gtest/gtest.h>

#include "map/errors_suite.hpp"

namespace spolia::test {
namespace {

using external_bst_subjects = subjects<external_bsts, domains_of_each_way>;
INSTANTIATE_TYPED_TEST_SUITE_P(external_bst, map_errors, external_bst_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
