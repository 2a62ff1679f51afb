// SPDX-License-Identifier: Apache-2.0
// avl: many threads.
#include <spolia/map/avl.hpp>

#include <gtest/gtest.h>

#include "map/stress_suite.hpp"

namespace spolia::test {
namespace {

using avl_subjects = raced_subjects<avls>;
INSTANTIATE_TYPED_TEST_SUITE_P(avl, map_stress, avl_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
