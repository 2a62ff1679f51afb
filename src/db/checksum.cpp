// SPDX-License-Identifier: Apache-2.0
// checksum.cpp: eight bytes at a time, by the processor's instruction where it has one.
#include "checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::uint32_t polynomial = 0x82F63B78U;
using crc_tables = std::array<std::array<std::uint32_t, 256>, 8>;

/// [k][b]: what the byte b does to the checksum k bytes later.
constexpr crc_tables make_tables() {
  crc_tables t{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t c = b;
    for (int i = 0; i < 8; ++i) c = c >> 1U ^ ((c & 1U) != 0 ? polynomial : 0);
    t[0][b] = c;
  }
  for (std::size_t k = 1; k < t.size(); ++k) {
    for (std::size_t b = 0; b < 256; ++b) t[k][b] = t[k - 1][b] >> 8U ^ t[0][t[k - 1][b] & 0xffU];
  }
  return t;
}
constexpr crc_tables tables = make_tables();

std::uint64_t eight(const std::byte* from) noexcept {
  std::uint64_t w;
  std::memcpy(&w, from, sizeof(w));
  if constexpr (std::endian::native == std::endian::big) w = __builtin_bswap64(w);
  return w;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::span<const std::byte> bytes,
                                                               std::uint32_t before) noexcept {
  std::uint64_t c = ~before;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) c = __builtin_ia32_crc32di(c, eight(bytes.data() + i));
  auto last = static_cast<std::uint32_t>(c);
  for (; i < bytes.size(); ++i) {
    last = __builtin_ia32_crc32qi(last, static_cast<unsigned char>(bytes[i]));
  }
  return ~last;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  std::uint32_t c = ~before;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t w = eight(bytes.data() + i) ^ c;
    c = 0;
    for (std::size_t k = 0; k < 8; ++k) c ^= tables[7 - k][w >> (8 * k) & 0xffU];
  }
  for (; i < bytes.size(); ++i) {
    c = c >> 8U ^ tables[0][(c ^ static_cast<std::uint32_t>(bytes[i])) & 0xffU];
  }
  return ~c;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  if (has) return by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
