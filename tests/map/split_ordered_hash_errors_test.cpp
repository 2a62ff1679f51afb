// SPDX-License-Identifier: Apache-2.0
// split_ordered_hash: allocations, copies and comparisons that fail.
#include <spolia/map/split_ordered_hash.hpp>

#include <gtest/gtest.h>

#include "map/errors_suite.hpp"

namespace spolia::test {
namespace {

using split_ordered_hash_subjects = subjects<split_ordered_hashes, domains_of_a_list_hash>;
INSTANTIATE_TYPED_TEST_SUITE_P(split_ordered_hash, map_errors, split_ordered_hash_subjects,
                               subject_names);

}  // namespace
}  // namespace spolia::test
