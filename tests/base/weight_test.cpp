// SPDX-License-Identifier: Apache-2.0
// weight_of: what objects own, and the few bits in which that is kept.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <spolia/base/weight.hpp>

namespace {

using spolia::weigh;
using spolia::weightless;

const std::string of_100_bytes(100, 'x');

/// Says it itself.
struct weight_by_member {
  std::vector<int> numbers;
  [[nodiscard]] std::size_t owned_bytes() const noexcept { return weigh(numbers); }
};
struct weight_by_specialization {};
}  // namespace

template <>
struct spolia::weight_of<weight_by_specialization> {
  static std::size_t bytes(const weight_by_specialization&) noexcept { return 42; }
};

namespace {
struct weight_not_said {
  std::vector<int> numbers;
};

/// Has room for one element in itself, as small vectors have.
struct weight_inside {
  using value_type = std::string;
  using allocator_type = std::allocator<std::string>;
  static std::size_t capacity() noexcept { return 1; }
  const std::string* data() const noexcept { return &only; }
  const std::string* begin() const noexcept { return &only; }
  const std::string* end() const noexcept { return &only + 1; }
  std::string only;
};
/// As std::expected<void, std::string>.
struct weight_of_void {
  using value_type = void;
  static bool has_value() noexcept { return true; }
  void operator*() const noexcept {}
  std::string error;
};

TEST(weight, of_what_owns_nothing_is_nothing) {
  EXPECT_TRUE((weightless<int, double*, std::string_view, std::pair<int, char>, weight_not_said>));
  EXPECT_EQ(weigh(1, std::string_view("abc"), std::array<int, 1000>{}), 0U);
  EXPECT_EQ(weigh(weight_not_said{{1, 2, 3}}), 0U);
}

TEST(weight, of_strings_and_vectors_is_their_room) {
  EXPECT_EQ(weigh(std::string("short")), 0U);
  EXPECT_GE(weigh(of_100_bytes), 100U);
  EXPECT_LT(weigh(of_100_bytes), 300U);
  std::vector<int> v(10);
  v.reserve(1000);
  EXPECT_EQ(weigh(v), 1000 * sizeof(int));
  EXPECT_EQ(weigh(std::vector<bool>(8000)), 1000U);
  EXPECT_EQ(weigh(std::vector<std::string>(3, of_100_bytes)),
            3 * (sizeof(std::string) + weigh(of_100_bytes)));
  EXPECT_EQ(weigh(weight_inside{of_100_bytes}), weigh(of_100_bytes));
}

TEST(weight, of_containers_is_their_nodes_and_elements) {
  EXPECT_GE(weigh(std::map<int, std::string>{{1, of_100_bytes}}), 100 + sizeof(std::string));
  EXPECT_GE(weigh(std::unordered_map<int, int>{{1, 1}}), 2 * sizeof(int));
  EXPECT_GE(weigh(std::list<int>{1, 2}), 2 * sizeof(int));
  EXPECT_GE(weigh(std::deque<int>(100)), 100 * sizeof(int));
}

TEST(weight, of_smart_pointers_is_the_object_and_what_it_owns) {
  EXPECT_EQ(weigh(std::unique_ptr<int>()), 0U);
  EXPECT_EQ(weigh(std::make_unique<std::vector<int>>(100)),
            sizeof(std::vector<int>) + 100 * sizeof(int));
  const auto alone = std::make_shared<std::vector<int>>(1000);
  const std::size_t whole = weigh(alone);
  EXPECT_EQ(whole, sizeof(std::vector<int>) + 1000 * sizeof(int));
  const auto other = alone;  // NOLINT: each has its part
  EXPECT_EQ(weigh(alone, other), whole / 2 * 2);
  // How many there are is not known, and there may be none to look at.
  EXPECT_TRUE((weightless<std::shared_ptr<std::string[]>, std::unique_ptr<std::string[]>>));
}

TEST(weight, of_pairs_tuples_arrays_and_optionals_is_that_of_their_parts) {
  const std::size_t one = weigh(of_100_bytes);
  EXPECT_EQ(weigh(std::pair(1, of_100_bytes)), one);
  EXPECT_EQ(weigh(std::tuple(1, of_100_bytes, of_100_bytes)), 2 * one);
  EXPECT_EQ(weigh(std::array<std::string, 2>{of_100_bytes, of_100_bytes}), 2 * one);
  EXPECT_EQ(weigh(std::optional<std::string>(of_100_bytes)), one);
  EXPECT_EQ(weigh(std::optional<std::string>()), 0U);
  EXPECT_TRUE(weightless<weight_of_void>);
}

TEST(weight, is_what_a_class_says) {
  EXPECT_FALSE((weightless<weight_by_member>));
  EXPECT_EQ(weigh(weight_by_member{std::vector<int>(100)}), 100 * sizeof(int));
  EXPECT_FALSE((weightless<weight_by_specialization>));
  EXPECT_EQ(weigh(weight_by_specialization{}), 42U);
  EXPECT_EQ(weigh(std::optional<weight_by_member>(std::vector<int>(100))), 100 * sizeof(int));
}

TEST(weight, is_kept_with_an_error_of_a_sixteenth_at_most) {
  namespace kept = spolia::detail::weighing;
  EXPECT_EQ(kept::code_of(0), 0U);
  EXPECT_EQ(kept::bytes_of(0), 0U);
  EXPECT_EQ(kept::bytes_of(kept::large_code), 0U);
  for (std::size_t bytes = 1; bytes < std::size_t{1} << 38U; bytes += bytes / 37 + 1) {
    const std::size_t found = kept::bytes_of(kept::code_of(bytes));
    ASSERT_GE(found, bytes);
    ASSERT_LE(found, bytes + std::max<std::size_t>(15, bytes / 16)) << bytes;
  }
  EXPECT_EQ(kept::bytes_of(kept::code_of(~std::size_t{0})), std::size_t{1} << 38U);
}

}  // namespace
