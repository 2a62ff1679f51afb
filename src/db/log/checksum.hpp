// SPDX-License-Identifier: Apache-2.0
// checksum.hpp: CRC-32C (Castagnoli, reflected polynomial 0x82F63B78). Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Of `bytes`; or, given the checksum of what stands before them, of both.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;
/// The same without the processor's instruction.
std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
