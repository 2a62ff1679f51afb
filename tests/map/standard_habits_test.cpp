// SPDX-License-Identifier: Apache-2.0
// What users of the standard's containers try: a map has none of it, and no concept takes it for
// what it is not.
#include <gtest/gtest.h>

#include <concepts>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

#include "every_map.hpp"

namespace spolia::test {
namespace {

template <class Map>
concept has_iterators =
    requires(const Map& m) { m.begin(); } || requires(const Map& m) { m.end(); };
template <class Map>
concept has_brackets =
    requires(Map& m, int key) { m[key]; } || requires(Map& m, int key) { m.at(key); };
template <class Map>
concept has_counts = requires(const Map& m) { m.size(); } || requires(const Map& m) {
  m.empty();
} || requires(const Map& m, int key) { m.count(key); };
template <class Map>
concept emplaces =
    requires(Map& m) { m.emplace(1, 2); } || requires(Map& m) { m.try_emplace(1, 2); };

template <class Each>
class standard_habits : public testing::Test {};
TYPED_TEST_SUITE(standard_habits, every_map);

TYPED_TEST(standard_habits, are_no_answer_to_concepts) {
  using map = typename TypeParam::template of<int, int>;
  static_assert(!std::ranges::range<map> && !std::ranges::range<const map>);
  static_assert(!has_iterators<map> && !has_brackets<map> && !has_counts<map> && !emplaces<map>);
  static_assert(!requires(const map& m) { m.all(); });
  SUCCEED();
}

TEST(standard_labels, are_literals) {
  static_assert(std::constructible_from<snapshot, const char*>);
  static_assert(std::constructible_from<snapshot, timeline&, const char*>);
  static_assert(!std::constructible_from<snapshot, std::string>);
  static_assert(!std::constructible_from<snapshot, std::string_view>);
  static_assert(!std::constructible_from<snapshot, timeline&, std::string>);
  static_assert(!std::convertible_to<std::string, snapshot>);
  EXPECT_TRUE(snapshot("a literal"));
}

}  // namespace
}  // namespace spolia::test
