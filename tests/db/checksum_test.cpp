// SPDX-License-Identifier: Apache-2.0
// The checksum of the log, by the processor's instruction and by tables, against its definition.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "db/log/checksum.hpp"  // of src/

namespace {

using namespace spolia::db;

std::uint32_t bit_by_bit(std::span<const std::byte> of) {
  std::uint32_t c = ~std::uint32_t{0};
  for (const std::byte b : of) {
    c ^= static_cast<std::uint32_t>(b);
    for (int i = 0; i < 8; ++i) c = c >> 1U ^ ((c & 1U) != 0 ? 0x82F63B78U : 0);
  }
  return ~c;
}

TEST(checksum, is_crc32c) {
  constexpr std::string_view check = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(check))), 0xE3069283U) << "the value of its catalogue";
}

TEST(checksum, is_the_same_by_all_ways) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(300);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (std::size_t first = 0; first < 9; ++first) {
    for (std::size_t size = 0; size + first <= bytes.size(); ++size) {
      const auto part = std::span(bytes).subspan(first, size);
      const std::uint32_t right = bit_by_bit(part);
      ASSERT_EQ(crc32c(part), right) << first << ", " << size;
      ASSERT_EQ(crc32c_by_table(part), right) << first << ", " << size;
    }
  }
}

/// Long enough for all the parts that are summed up beside each other.
TEST(checksum, is_the_same_for_long_ones) {
  std::mt19937_64 random(2);
  std::vector<std::byte> bytes(8000);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (const std::size_t first : {0U, 1U, 5U}) {
    for (std::size_t size = 300; size + first <= bytes.size(); size += 61) {
      const auto part = std::span(bytes).subspan(first, size);
      const std::uint32_t right = bit_by_bit(part);
      ASSERT_EQ(crc32c(part), right) << first << ", " << size;
      ASSERT_EQ(crc32c_by_table(part), right) << first << ", " << size;
    }
  }
}

TEST(checksum, goes_on) {
  std::vector<std::byte> bytes(100, std::byte{7});
  const std::span<const std::byte> all = bytes;
  for (std::size_t cut = 0; cut <= all.size(); ++cut) {
    ASSERT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), crc32c(all));
    ASSERT_EQ(crc32c_by_table(all.subspan(cut), crc32c_by_table(all.first(cut))), crc32c(all));
  }
}

TEST(checksum, of_parts_is_that_of_their_bytes) {
  std::mt19937_64 random(3);
  std::vector<std::byte> bytes(5000);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  for (const std::size_t size : {0U, 1U, 255U, 256U, 257U, 1024U, 5000U}) {
    const auto all = std::span(bytes).first(size);
    const part_checksums parts(all);
    for (int i = 0; i < 300; ++i) {
      const std::size_t begin = random() % (size + 1);
      const std::size_t end = i == 0 ? begin : begin + random() % (size - begin + 1);
      ASSERT_EQ(parts.of(begin, end), bit_by_bit(all.subspan(begin, end - begin)))
          << begin << " to " << end << " of " << size;
    }
    ASSERT_EQ(parts.of(0, size), bit_by_bit(all));
  }
}

}  // namespace
