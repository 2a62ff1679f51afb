// SPDX-License-Identifier: Apache-2.0
// checksum.cpp: eight bytes at a time, by the processor's instruction where it has one.
#include "db/log/checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

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

// The processor's own instruction, where there is one: eight bytes, and one.
#if defined(__x86_64__)
// "crc32" is implied, but for zig, which switches off by name what a processor may lack.
#define SPOLIA_CRC_TARGET __attribute__((target("sse4.2,crc32")))
bool has_instruction() noexcept { return __builtin_cpu_supports("sse4.2") != 0; }
SPOLIA_CRC_TARGET std::uint32_t step(std::uint32_t c, std::uint64_t w) noexcept {
  return static_cast<std::uint32_t>(__builtin_ia32_crc32di(c, w));
}
SPOLIA_CRC_TARGET std::uint32_t step(std::uint32_t c, unsigned char b) noexcept {
  return __builtin_ia32_crc32qi(c, b);
}
#elif defined(__aarch64__) && defined(__linux__)
bool has_instruction() noexcept { return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#if defined(__clang__)
#define SPOLIA_CRC_TARGET __attribute__((target("crc")))
SPOLIA_CRC_TARGET std::uint32_t step(std::uint32_t c, std::uint64_t w) noexcept {
  return __builtin_arm_crc32cd(c, w);
}
SPOLIA_CRC_TARGET std::uint32_t step(std::uint32_t c, unsigned char b) noexcept {
  return __builtin_arm_crc32cb(c, b);
}
#else
#define SPOLIA_CRC_TARGET __attribute__((target("+crc")))
SPOLIA_CRC_TARGET std::uint32_t step(std::uint32_t c, std::uint64_t w) noexcept {
  return __builtin_aarch64_crc32cx(c, w);
}
SPOLIA_CRC_TARGET std::uint32_t step(std::uint32_t c, unsigned char b) noexcept {
  return __builtin_aarch64_crc32cb(c, b);
}
#endif
#endif

#if defined(SPOLIA_CRC_TARGET)
// The instruction takes three cycles of the processor, which can begin one in each: so three parts
// are summed up beside each other. What the first two have is then moved over the bytes after
// them, as if these were zeros: a linear map of the checksum's bits.
using crc_move = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr crc_move make_move(std::size_t bytes) {
  std::array<std::uint32_t, 32> of_bit{};
  for (std::size_t bit = 0; bit < of_bit.size(); ++bit) {
    std::uint32_t c = std::uint32_t{1} << bit;
    for (std::size_t n = 0; n < bytes; ++n) c = c >> 8U ^ tables[0][c & 0xffU];
    of_bit[bit] = c;
  }
  crc_move m{};
  for (std::size_t k = 0; k < m.size(); ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      for (std::size_t bit = 0; bit < 8; ++bit) {
        if ((b >> bit & 1U) != 0) m[k][b] ^= of_bit[8 * k + bit];
      }
    }
  }
  return m;
}

template <std::size_t Part>
constexpr crc_move move_over = make_move(Part);

std::uint32_t moved(const crc_move& over, std::uint32_t c) noexcept {
  return over[0][c & 0xffU] ^ over[1][c >> 8U & 0xffU] ^ over[2][c >> 16U & 0xffU] ^
         over[3][c >> 24U];
}

/// As many whole threes of parts as there are; takes them off the bytes.
template <std::size_t Part>
SPOLIA_CRC_TARGET std::uint32_t by_threes(std::span<const std::byte>& bytes,
                                          std::uint32_t c) noexcept {
  for (; bytes.size() >= 3 * Part; bytes = bytes.subspan(3 * Part)) {
    const std::byte* const from = bytes.data();
    std::uint32_t second = 0;
    std::uint32_t third = 0;
    for (std::size_t i = 0; i < Part; i += 8) {
      c = step(c, eight(from + i));
      second = step(second, eight(from + Part + i));
      third = step(third, eight(from + 2 * Part + i));
    }
    c = moved(move_over<Part>, moved(move_over<Part>, c) ^ second) ^ third;
  }
  return c;
}

SPOLIA_CRC_TARGET std::uint32_t by_instruction(std::span<const std::byte> bytes,
                                               std::uint32_t before) noexcept {
  std::uint32_t c = by_threes<128>(bytes, by_threes<1024>(bytes, ~before));
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) c = step(c, eight(bytes.data() + i));
  for (; i < bytes.size(); ++i) c = step(c, static_cast<unsigned char>(bytes[i]));
  return ~c;
}
#endif

constexpr std::size_t step_of_parts = 256;

/// The product of two polynomials, modulo that of the checksum. The highest bit is x to the 0.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t p = 0;
  for (; a != 0; a <<= 1U) {
    if ((a & 0x80000000U) != 0) p ^= b;
    b = b >> 1U ^ ((b & 1U) != 0 ? polynomial : 0);
  }
  return p;
}
/// [k]: x to the power of the bits in 2^k bytes.
constexpr std::array<std::uint32_t, 64> make_powers() noexcept {
  std::array<std::uint32_t, 64> p{};
  p[0] = 0x80000000U >> 8U;
  for (std::size_t k = 1; k < p.size(); ++k) p[k] = product(p[k - 1], p[k - 1]);
  return p;
}
constexpr std::array<std::uint32_t, 64> powers = make_powers();

/// What a checksum is after so many bytes more, but for what these are.
std::uint32_t behind(std::uint32_t c, std::size_t bytes) noexcept {
  for (std::size_t k = 0; bytes != 0; bytes >>= 1U, ++k) {
    if ((bytes & 1U) != 0) c = product(powers[k], c);
  }
  return c;
}

}  // namespace

part_checksums::part_checksums(std::span<const std::byte> all) : all_(all) {
  up_to_.reserve(all.size() / step_of_parts + 1);
  up_to_.push_back(0);
  for (std::size_t at = 0; at + step_of_parts <= all.size(); at += step_of_parts) {
    up_to_.push_back(crc32c(all.subspan(at, step_of_parts), up_to_.back()));
  }
}

std::uint32_t part_checksums::up_to(std::size_t end) const noexcept {
  const std::size_t before = end / step_of_parts;
  return crc32c(all_.subspan(before * step_of_parts, end % step_of_parts), up_to_[before]);
}

/// The checksum of two parts is that of the first, moved over the second, with that of the second.
std::uint32_t part_checksums::of(std::size_t begin, std::size_t end) const noexcept {
  return up_to(end) ^ behind(up_to(begin), end - begin);
}

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

#if defined(SPOLIA_CRC_TARGET)
/// Static constructors of others may find it false yet, and compute the same by the table.
static const bool crc_instruction = has_instruction();
#endif

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
#if defined(SPOLIA_CRC_TARGET)
  if (crc_instruction) return by_instruction(bytes, before);
#endif
  return crc32c_by_table(bytes, before);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
