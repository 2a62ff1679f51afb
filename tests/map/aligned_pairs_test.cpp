// SPDX-License-Identifier: Apache-2.0
// Keys and values that are aligned more than a cache line lie so in every map, and in all copies
// that a map makes of them.

#include <gtest/gtest.h>

#include <cstdint>

#include "map/aligned_number.hpp"
#include "map/every_map.hpp"

namespace spolia::test {
namespace {

template <class Map>
class aligned_pairs : public testing::Test {};
TYPED_TEST_SUITE(aligned_pairs, every_map, every_map_name);

TYPED_TEST(aligned_pairs, lie_as_their_types_say) {
  using key = aligned_number<128>;
  using value = aligned_number<1024>;
  misplaced = 0;
  {
    typename TypeParam::template of<key, value> map;
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(map.insert(key(i * 37 % 101), value(i)));
    for (std::uint64_t i = 0; i < 100; ++i) {
      ASSERT_FALSE(map.insert_or_assign(key(i * 37 % 101), value(i + 1)));
    }
    std::uint64_t sum = 0;
    map.for_each([&](const key&, const value& v) { sum += v.value; });
    EXPECT_EQ(sum, 5050U);
    for (std::uint64_t i = 0; i < 100; i += 2) ASSERT_TRUE(map.erase(key(i * 37 % 101)));
    const auto found = map.find(key(37));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->value, 2U);
  }
  EXPECT_EQ(misplaced, 0);
}

}  // namespace
}  // namespace spolia::test
