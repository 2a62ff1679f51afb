// SPDX-License-Identifier: Apache-2.0
// Keys and values that are aligned more than a cache line lie so in every map, and in all copies
// that a map makes of them.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "map/every_map.hpp"

namespace spolia::test {
namespace {

/// Counts the objects that do not lie as their type says.
inline int misplaced = 0;

template <std::size_t Alignment>
class alignas(Alignment) aligned_number {
 public:
  explicit aligned_number(std::uint64_t n) noexcept : value(n) { look(); }
  aligned_number(const aligned_number& other) noexcept : value(other.value) { look(); }
  aligned_number& operator=(const aligned_number& other) noexcept {
    value = other.value;
    look();
    return *this;
  }
  ~aligned_number() { look(); }

  friend bool operator<(const aligned_number& a, const aligned_number& b) noexcept {
    return a.value < b.value;
  }
  friend bool operator==(const aligned_number& a, const aligned_number& b) noexcept {
    return a.value == b.value;
  }

  std::uint64_t value;

 private:
  void look() const noexcept {
    // volatile: the compiler takes it for known where the object lies.
    const volatile auto at = reinterpret_cast<std::uintptr_t>(this);
    if (at % Alignment != 0) ++misplaced;
  }
};

}  // namespace
}  // namespace spolia::test

template <std::size_t Alignment>
struct std::hash<spolia::test::aligned_number<Alignment>> {
  std::size_t operator()(const spolia::test::aligned_number<Alignment>& n) const noexcept {
    return n.value % 5;
  }
};

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
