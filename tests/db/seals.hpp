// SPDX-License-Identifier: Apache-2.0
/// \file
/// The checksums of a database's files, so that tests can change what is in these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "db/memory_files.hpp"

namespace spolia::test {

/// CRC-32C bit by bit, so that the library is not measured with its own ruler.
inline std::uint32_t plain_crc(std::span<const std::byte> of) {
  std::uint32_t c = ~std::uint32_t{0};
  for (const std::byte b : of) {
    c ^= static_cast<std::uint32_t>(b);
    for (int i = 0; i < 8; ++i) c = c >> 1U ^ ((c & 1U) != 0 ? 0x82F63B78U : 0);
  }
  return ~c;
}
template <class T>
T number_at(const bytes& from, std::size_t at) {
  T v;
  std::memcpy(&v, from.data() + at, sizeof(v));
  return v;
}
template <class T>
void put_at(bytes& to, std::size_t at, T v) {
  std::memcpy(to.data() + at, &v, sizeof(v));
}
inline constexpr std::size_t file_head = 64;
inline constexpr std::size_t record_head = 40;

struct record_place {
  std::uint64_t number = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint32_t kind = 0;
};
/// The records of a segment that is whole.
inline std::vector<record_place> records_of(const bytes& log) {
  std::vector<record_place> all;
  for (std::size_t at = file_head; at + record_head <= log.size();) {
    if (number_at<std::uint32_t>(log, at) == 0) break;
    const std::size_t end = at + record_head + number_at<std::uint32_t>(log, at + 8);
    all.push_back(
        {number_at<std::uint64_t>(log, at + 16), at, end, number_at<std::uint32_t>(log, at + 36)});
    at = end;
  }
  return all;
}

/// Seals the records of a log, or the blocks of a checkpoint, again, in front of which `change` may
/// change their bodies.
template <class Change>
void seal_again(bytes& content, bool log, Change&& change) {
  const std::size_t head = log ? record_head : 32;
  std::uint32_t chain =
      log ? number_at<std::uint32_t>(content, 44) : plain_crc(std::span(content).subspan(12, 52));
  for (std::size_t at = file_head; at < content.size();) {
    const auto length = number_at<std::uint32_t>(content, at + 8);
    change(std::span(content).subspan(at + head, length));
    put_at(content, at + 12, chain);
    chain = plain_crc(std::span(content).subspan(at + 8, head - 8 + length));
    put_at(content, at + 4, chain);
    at += head + length;
  }
}

}  // namespace spolia::test
