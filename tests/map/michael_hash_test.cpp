// SPDX-License-Identifier: Apache-2.0
// michael_hash: what one thread sees, under a scheme of each kind.
#include <spolia/map/michael_hash.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <stdexcept>

#include "map/one_thread_suite.hpp"

namespace spolia::test {
namespace {

using michael_hash_subjects = subjects<michael_hashes, domains_of_a_list_hash>;
INSTANTIATE_TYPED_TEST_SUITE_P(michael_hash, map_of_one_thread, michael_hash_subjects,
                               subject_names);

TEST(michael_hash, has_as_many_buckets_as_was_said) {
  using map = michael_hash<int, int>;
  EXPECT_EQ(map(1).bucket_count(), 1U);
  EXPECT_EQ(map(1000).bucket_count(), 1000U);
  EXPECT_THROW(map(0), std::invalid_argument);
}

/// A number that counts how often it is compared.
struct michael_key {
  std::uint64_t number;
  static inline std::uint64_t compared = 0;
  friend bool operator<(michael_key a, michael_key b) noexcept {
    ++compared;
    return a.number < b.number;
  }
};
struct michael_key_hash {
  std::size_t operator()(michael_key k) const noexcept { return k.number; }
};

TEST(michael_hash, an_operation_goes_through_its_own_bucket_alone) {
  michael_hash<michael_key, int, domain<>, michael_key_hash, std::less<>> m(100);
  for (std::uint64_t k = 0; k < 1000; ++k) EXPECT_TRUE(m.insert(michael_key{k}, 1));
  michael_key::compared = 0;
  for (std::uint64_t k = 0; k < 1000; ++k) EXPECT_TRUE(m.contains(michael_key{k}));
  EXPECT_LE(michael_key::compared, 1000U * 12) << "ten keys a bucket, and all are asked";
}

}  // namespace
}  // namespace spolia::test
