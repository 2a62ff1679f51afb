// SPDX-License-Identifier: Apache-2.0
// list: many threads.
#include <spolia/map/list.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>

#include "map/stress_suite.hpp"

namespace spolia::test {
namespace {

using list_subjects = raced_subjects<lists>;
INSTANTIATE_TYPED_TEST_SUITE_P(list, map_stress, list_subjects, subject_names);

template <class Domain>
class list_stress : public testing::Test {
 protected:
  using numbers = list<std::uint64_t, std::uint64_t, Domain>;
};
TYPED_TEST_SUITE(list_stress, raced_domains, domain_names);

TYPED_TEST(list_stress, what_was_deleted_is_out_when_its_operation_ends) {
  TypeParam d(eager<TypeParam>());
  typename TestFixture::numbers m(d);
  std::atomic<std::uint64_t> deleted{0};
  run_stress({.threads = 4, .share = 0.1}, [&](stress_thread& self) {
    std::uint64_t mine = 0;
    while (self.running()) {
      const std::uint64_t key = self.random().below(4);
      switch (self.random().below(3)) {
        case 0:
          m.insert(key, 0);
          break;
        case 1:
          mine += m.erase(key) ? 1 : 0;
          break;
        default:
          mine += m.insert_or_assign(key, 1) ? 0 : 1;
          break;
      }
    }
    deleted += mine;
  });
  EXPECT_EQ(d.stats().retired, deleted.load());
}

}  // namespace
}  // namespace spolia::test
