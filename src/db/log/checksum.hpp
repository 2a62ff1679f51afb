// SPDX-License-Identifier: Apache-2.0
// checksum.hpp: CRC-32C (Castagnoli, reflected polynomial 0x82F63B78). Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Of `bytes`; or, given the checksum of what stands before them, of both.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;
/// The same without the processor's instruction.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

/// The checksums of any parts of some bytes, which must stay: one takes as long for a long part as
/// for a short one. Has a 64th of their memory.
class part_checksums {
 public:
  /// Throws std::bad_alloc.
  explicit part_checksums(std::span<const std::byte> all);
  [[nodiscard]] std::uint32_t of(std::size_t begin, std::size_t end) const noexcept;

 private:
  [[nodiscard]] std::uint32_t up_to(std::size_t end) const noexcept;

  std::span<const std::byte> all_;
  std::vector<std::uint32_t> up_to_;  // each step
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
