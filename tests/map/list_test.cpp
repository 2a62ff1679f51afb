// SPDX-License-Identifier: Apache-2.0
// list: what one thread sees, under a scheme of each kind.
#include <spolia/map/list.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <spolia/map/concepts.hpp>

#include "map/one_thread_suite.hpp"

namespace spolia::test {
namespace {

using spolia::test::tracked;

static_assert(concurrent_map<list<int, int>>);
static_assert(concurrent_map<list<std::string, std::string, domain<hazard_pointers, batch>>>);
static_assert(concurrent_map<list<int, int, domain<neutralization>, std::greater<int>>>);
// Nothing that needs a copy is offered for what cannot be copied.
static_assert(!concurrent_map<list<int, std::unique_ptr<int>>>);

using list_subjects = subjects<lists, domains_of_each_way>;
INSTANTIATE_TYPED_TEST_SUITE_P(list, map_of_one_thread, list_subjects, subject_names);

template <class Domain>
class list_of_one_thread : public testing::Test {
 protected:
  template <class Key, class Value>
  using list_of = list<Key, Value, Domain>;
  using numbers = list_of<std::uint64_t, std::uint64_t>;
};
TYPED_TEST_SUITE(list_of_one_thread, domains_of_each_way, domain_names);

TYPED_TEST(list_of_one_thread, elements_are_made_in_their_node_and_end_once) {
  ledger book;
  int replaced = 0;
  {
    typename TestFixture::template list_of<tracked, tracked> m;
    for (std::uint64_t i = 0; i < 50; ++i) {
      m.insert(tracked(book, i), tracked(book, i));
      if (!m.insert_or_assign(tracked(book, i / 2), tracked(book, i))) ++replaced;
      if (i % 3 == 0) m.erase(tracked(book, i));
    }
    EXPECT_EQ(book.copied(), replaced) << "the key that is there, into the node that replaces it";
    m.for_each([](const tracked& k, const tracked&) { EXPECT_LT(k.read(), 50U); });
  }
  book.expect_empty();
}

TYPED_TEST(list_of_one_thread, each_erase_and_each_replacement_retires_one_node) {
  TypeParam d(eager<TypeParam>());
  {
    typename TestFixture::numbers m(d);
    for (std::uint64_t k = 0; k < 100; ++k) m.insert(k, k);
    for (std::uint64_t k = 0; k < 100; ++k) m.insert(k, k);
    EXPECT_EQ(d.stats().retired, 0U);
    for (std::uint64_t k = 0; k < 30; ++k) m.insert_or_assign(k, k + 1);
    EXPECT_EQ(d.stats().retired, 30U);
    for (std::uint64_t k = 0; k < 100; k += 2) m.erase(k);
    EXPECT_EQ(d.stats().retired, 80U);
    EXPECT_EQ(&m.domain(), &d);
  }
  EXPECT_EQ(d.stats().retired, 80U) << "the destructor gives the rest back without retiring it";
  EXPECT_TRUE(drain_all(d));
}

}  // namespace
}  // namespace spolia::test
