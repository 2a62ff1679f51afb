// SPDX-License-Identifier: Apache-2.0
// abtree: what every map has to pass when one thread uses it, beside its own tests.
#include <spolia/map/abtree.hpp>

#include <gtest/gtest.h>

#include "map/one_thread_suite.hpp"

namespace spolia::test {
namespace {

using abtree_subjects = subjects<abtrees, domains_of_each_way>;
INSTANTIATE_TYPED_TEST_SUITE_P(abtree, map_of_one_thread, abtree_subjects, subject_names);

}  // namespace
}  // namespace spolia::test
