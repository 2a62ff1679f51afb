// SPDX-License-Identifier: Apache-2.0
// abtree: what every map has to pass when threads share it, beside its own stress tests.
#include <spolia/map/abtree.hpp>

#include <gtest/gtest.h>

#include "map/stress_suite.hpp"

namespace spolia::test {
namespace {

using abtree_subjects = raced_subjects<abtrees>;
INSTANTIATE_TYPED_TEST_SUITE_P(abtree, map_stress, abtree_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
