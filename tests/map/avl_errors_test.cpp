// SPDX-License-Identifier: Apache-2.0
// avl: allocations, copies and comparisons that fail.
#include <spolia/map/avl.hpp>

#include <gtest/gtest.h>

#include "map/errors_suite.hpp"

namespace spolia::test {
namespace {

using avl_subjects = subjects<avls, domains_of_each_way>;
INSTANTIATE_TYPED_TEST_SUITE_P(avl, map_errors, avl_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
