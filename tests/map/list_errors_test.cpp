// SPDX-License-Identifier: Apache-2.0
// list: allocations, copies and comparisons that fail.
#include <spolia/map/list.hpp>

#include <gtest/gtest.h>

#include "map/errors_suite.hpp"

namespace spolia::test {
namespace {

using list_subjects = subjects<lists, domains_of_each_way>;
INSTANTIATE_TYPED_TEST_SUITE_P(list, map_errors, list_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
