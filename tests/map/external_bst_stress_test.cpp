// SPDX-License-Identifier: Apache-2.0
// external_bst: many threads.
#include <spolia/map/external_bst.hpp>

#include <gtest/gtest.h>

#include "map/stress_suite.hpp"

namespace spolia::test {
namespace {

using external_bst_subjects = raced_subjects<external_bsts>;
INSTANTIATE_TYPED_TEST_SUITE_P(external_bst, map_stress, external_bst_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
