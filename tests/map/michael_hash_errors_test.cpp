// SPDX-License-Identifier: Apache-2.0
// michael_hash: allocations, copies and comparisons that fail.
#include <spolia/map/michael_hash.hpp>

#include <gtest/gtest.h>

#include "map/errors_suite.hpp"

namespace spolia::test {
namespace {

using michael_hash_subjects = subjects<michael_hashes, domains_of_a_list_hash>;
INSTANTIATE_TYPED_TEST_SUITE_P(michael_hash, map_errors, michael_hash_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
