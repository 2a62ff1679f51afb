// SPDX-License-Identifier: Apache-2.0
// split_ordered_hash: what one thread sees, under a scheme of each kind.
#include <spolia/map/split_ordered_hash.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <set>
#include <stdexcept>
#include <vector>

#include "map/one_thread_suite.hpp"

namespace spolia::test {
namespace {

using split_ordered_hash_subjects = subjects<split_ordered_hashes, domains_of_a_list_hash>;
INSTANTIATE_TYPED_TEST_SUITE_P(split_ordered_hash, map_of_one_thread, split_ordered_hash_subjects,
                               subject_names);

using split_numbers = split_ordered_hash<std::uint64_t, std::uint64_t>;

/// All keys below `n` are there, and no other is shown.
template <class Map>
void expect_all_below(const Map& m, std::uint64_t n) {
  for (std::uint64_t k = 0; k < n; ++k) ASSERT_EQ(m.find(k), k);
  std::vector<std::uint64_t> shown;
  m.for_each([&](std::uint64_t k, std::uint64_t) { shown.push_back(k); });
  std::sort(shown.begin(), shown.end());
  ASSERT_EQ(shown.size(), n);
  for (std::uint64_t k = 0; k < n; ++k) ASSERT_EQ(shown[k], k);
}

TEST(split_ordered_hash, doubles_when_there_are_more_pairs_than_its_load) {
  domain<> d;
  split_numbers m(d, {.buckets = 2, .load = 3});
  for (std::uint64_t k = 0; k < 8; ++k) m.insert(k, k);
  EXPECT_EQ(m.bucket_count(), 2U);
  m.insert(8, 8);
  EXPECT_EQ(m.bucket_count(), 4U);
  for (std::uint64_t k = 9; k < 20'000; ++k) m.insert(k, k);
  EXPECT_EQ(m.bucket_count(), 8192U);
  expect_all_below(m, 20'000);
  EXPECT_EQ(d.stats().retired, 0U) << "growth moves nothing";
}

TEST(split_ordered_hash, stays_as_large_as_it_was) {
  split_numbers m;
  for (std::uint64_t k = 0; k < 5000; ++k) m.insert(k, k);
  const auto large = m.bucket_count();
  EXPECT_GE(large, 1024U);
  EXPECT_EQ(m.clear(), 5000U);
  EXPECT_EQ(m.bucket_count(), large);
  for (std::uint64_t k = 0; k < 100; ++k) m.insert(k, k);
  expect_all_below(m, 100);
  EXPECT_EQ(m.bucket_count(), large);
}

TEST(split_ordered_hash, of_the_largest_size_goes_on_in_longer_lists) {
  split_numbers m({.buckets = 1, .load = 1, .most_buckets = 9});
  for (std::uint64_t k = 0; k < 2000; ++k) EXPECT_TRUE(m.insert(k, k));
  EXPECT_EQ(m.bucket_count(), 8U) << "rounded down";
  m.reserve(1'000'000);
  EXPECT_EQ(m.bucket_count(), 8U);
  expect_all_below(m, 2000);
  for (std::uint64_t k = 0; k < 2000; ++k) EXPECT_TRUE(m.erase(k));
  EXPECT_TRUE(m.empty_approx());
}

TEST(split_ordered_hash, has_room_for_what_was_reserved) {
  split_numbers m({.load = 2});
  m.reserve(100'000);
  EXPECT_EQ(m.bucket_count(), 65'536U);
  m.reserve(10);
  EXPECT_EQ(m.bucket_count(), 65'536U) << "it is enough for that";
  for (std::uint64_t k = 0; k < 5000; ++k) m.insert(k, k);
  expect_all_below(m, 5000);
  EXPECT_EQ(m.bucket_count(), 65'536U);
}

TEST(split_ordered_hash, options_that_make_no_sense_are_refused) {
  using options = split_ordered_options;
  for (const options& o : {options{.load = 0}, options{.buckets = 0}, options{.most_buckets = 0},
                           options{.buckets = (std::uint64_t{1} << 40U) + 1},
                           options{.buckets = 9, .most_buckets = 15},
                           options{.most_buckets = (std::uint64_t{1} << 40U) + 1}}) {
    EXPECT_THROW(split_numbers{o}, std::invalid_argument);
  }
  EXPECT_EQ(split_numbers({.buckets = 9}).bucket_count(), 16U) << "rounded up";
}

/// Counts blocks that were made.
class made_blocks final : public std::pmr::memory_resource {
 public:
  std::size_t count = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    ++count;
    return std::pmr::new_delete_resource()->allocate(bytes, align);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
    std::pmr::new_delete_resource()->deallocate(p, bytes, align);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

TEST(split_ordered_hash, only_what_may_add_a_pair_makes_dummy_nodes) {
  made_blocks memory;
  domain<> d({.memory = &memory});
  split_numbers m(d, {.load = 1});
  m.insert(1, 1);
  m.reserve(std::uint64_t{1} << 20U);
  const auto before = memory.count;
  for (std::uint64_t k = 0; k < 1000; ++k) {
    EXPECT_EQ(m.contains(k), k == 1);
    EXPECT_EQ(m.find(k).has_value(), k == 1);
    if (k != 1) {
      EXPECT_FALSE(m.erase(k));
    }
  }
  m.for_each([](std::uint64_t, std::uint64_t) {});
  EXPECT_EQ(memory.count, before);
  EXPECT_TRUE(m.insert(2, 2));
  EXPECT_LE(memory.count, before + 1 + 20) << "a bucket, and its parents";
  EXPECT_GT(memory.count, before + 1);
}

struct all_meet {
  std::size_t operator()(std::uint64_t) const noexcept { return 5; }
};

TEST(split_ordered_hash, keys_of_one_hash_are_told_apart_by_the_comparison) {
  split_ordered_hash<std::uint64_t, std::uint64_t, domain<>, all_meet> m;
  for (std::uint64_t k = 500; k-- > 0;) EXPECT_TRUE(m.insert(k, k));
  expect_all_below(m, 500);
  std::uint64_t erased = 0;
  m.for_each([&](std::uint64_t k, std::uint64_t) { erased += k % 2 == 0 && m.erase(k) ? 1 : 0; });
  EXPECT_EQ(erased, 250U);
  EXPECT_EQ(m.size_approx(), 250U);
}

TEST(split_ordered_hash, the_split_order_is_that_of_the_paper) {
  using namespace spolia::detail::map;
  EXPECT_EQ(reversed_bits(1), std::uint64_t{1} << 63U);
  EXPECT_EQ(reversed_bits(0x0123456789ABCDEFU), 0xF7B3D591E6A2C480U);
  EXPECT_EQ(get_parent(13), 5U);
  EXPECT_EQ(get_parent(5), 1U);
  EXPECT_EQ(get_parent(1), 0U);
  EXPECT_EQ(next_child(0, 13), 1U);
  EXPECT_EQ(next_child(1, 13), 5U);
  EXPECT_EQ(next_child(5, 13), 13U);
  // Of 8 buckets, in the order of the list.
  const std::uint64_t order[] = {0, 4, 2, 6, 1, 5, 3, 7};
  EXPECT_TRUE(std::is_sorted(std::begin(order), std::end(order),
                             [](auto a, auto b) { return so_dummykey(a) < so_dummykey(b); }));
  for (const std::uint64_t bucket : order) {
    EXPECT_LT(so_dummykey(bucket), so_regularkey(bucket));
    EXPECT_LT(so_regularkey(bucket + std::uint64_t{8} * 12345) - so_dummykey(bucket),
              std::uint64_t{1} << 61U);
  }
}

}  // namespace
}  // namespace spolia::test
