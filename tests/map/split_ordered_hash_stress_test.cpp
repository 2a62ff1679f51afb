// SPDX-License-Identifier: Apache-2.0
// split_ordered_hash: many threads.
#include <spolia/map/split_ordered_hash.hpp>

#include <gtest/gtest.h>

#include "map/stress_suite.hpp"

namespace spolia::test {
namespace {

using split_ordered_hash_subjects = raced_subjects<split_ordered_hashes>;
INSTANTIATE_TYPED_TEST_SUITE_P(split_ordered_hash, map_stress, split_ordered_hash_subjects,
                               subject_names);

}  // namespace
}  // namespace spolia::test
