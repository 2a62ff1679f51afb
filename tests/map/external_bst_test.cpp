// SPDX-License-Identifier: Apache-2.0
// external_bst: what one thread sees, under a scheme of each kind.
#include <spolia/map/external_bst.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <spolia/map/concepts.hpp>

#include "map/one_thread_suite.hpp"

namespace spolia::test {
namespace {

static_assert(concurrent_map<external_bst<int, int>>);
static_assert(
    concurrent_map<external_bst<std::string, std::string, domain<hazard_pointers, batch>>>);
static_assert(concurrent_map<external_bst<int, int, domain<neutralization>, std::greater<int>>>);

using external_bst_subjects = subjects<external_bsts, domains_of_each_way>;
INSTANTIATE_TYPED_TEST_SUITE_P(external_bst, map_of_one_thread, external_bst_subjects,
                               subject_names);

TEST(external_bst, each_erase_retires_a_leaf_and_its_router) {
  domain<> d;
  {
    external_bst<int, std::string> m(d);
    for (int k = 0; k < 100; ++k) m.insert(k, "text");
    for (int k = 0; k < 100; ++k) m.insert(k, "text");
    EXPECT_EQ(m.audit().routers, 99U);
    EXPECT_EQ(d.stats().retired, 0U);
    for (int k = 0; k < 30; ++k) m.insert_or_assign(k, "other");
    EXPECT_EQ(d.stats().retired, 30U);
    for (int k = 0; k < 100; k += 2) m.erase(k);
    EXPECT_EQ(d.stats().retired, 130U);
    for (int k = 1; k < 100; k += 2) m.erase(k);
    EXPECT_EQ(d.stats().retired, 229U) << "the last leaf has no router";
    EXPECT_EQ(m.audit().routers, 0U);
    m.insert(1, "text");
  }
  EXPECT_EQ(d.stats().retired, 229U) << "the destructor gives the rest back without retiring it";
}

TEST(external_bst, a_tree_of_any_height_ends_in_constant_space) {
  external_bst<std::uint64_t, int, domain<none>> m;
  // Ascending blocks, each descending: high to both sides. Searching a straight tree is quadratic.
  for (std::uint64_t block = 0; block < 100; ++block) {
    for (std::uint64_t i = 100; i-- > 0;) m.insert(block * 100 + i, 0);
  }
  EXPECT_EQ(m.size_approx(), 10'000U);
}

}  // namespace
}  // namespace spolia::test
