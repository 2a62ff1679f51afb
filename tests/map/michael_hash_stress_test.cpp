// SPDX-License-Identifier: Apache-2.0
// michael_hash: many threads.
#include <spolia/map/michael_hash.hpp>

#include <gtest/gtest.h>

#include "map/stress_suite.hpp"

namespace spolia::test {
namespace {

using michael_hash_subjects = raced_subjects<michael_hashes>;
INSTANTIATE_TYPED_TEST_SUITE_P(michael_hash, map_stress, michael_hash_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
