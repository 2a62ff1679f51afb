// SPDX-License-Identifier: Apache-2.0
// blob.hpp: bytes as a value, and how long values lie in two words of a row.
//
// The first word of a variable text or blob is its length. Of up to eight bytes the second word
// holds the bytes, with zeros after them. Of longer values it holds an address: that of a block
// (value_blocks.hpp), or, on the way into or out of a row, of other memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// The longest variable text or blob, in bytes.
inline constexpr std::size_t longest_value = std::size_t{16} << 20U;

/// Bytes that something else owns: values of blob columns.
class blob_view {
 public:
  constexpr blob_view() noexcept = default;
  constexpr blob_view(std::span<const std::byte> of) noexcept : bytes_(of) {}  // NOLINT: it is one
  explicit blob_view(std::string_view of) noexcept
      : bytes_(std::as_bytes(std::span(of.data(), of.size()))) {}
  [[nodiscard]] constexpr const std::byte* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] constexpr std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// The same bytes as characters.
  [[nodiscard]] std::string_view chars() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  friend bool operator==(blob_view a, blob_view b) noexcept { return a.chars() == b.chars(); }

 private:
  std::span<const std::byte> bytes_;
};

/// The words of an out-of-line value.
inline constexpr std::uint32_t apart_words = 2;

/// Whether the bytes lie elsewhere.
inline bool lies_apart(const std::uint64_t* words) noexcept { return words[0] > sizeof(*words); }

/// The value in the words; lives as long as they do, and what they refer to.
inline std::string_view apart_in(const std::uint64_t* words) noexcept {
  const auto* const at = lies_apart(words)
                             ? reinterpret_cast<const char*>(static_cast<std::uintptr_t>(words[1]))
                             : reinterpret_cast<const char*>(words + 1);
  return {at, static_cast<std::size_t>(words[0])};
}

/// Lets the words refer to the bytes where they are, unless there are few.
inline void put_apart(std::string_view bytes, std::uint64_t* words) noexcept {
  words[0] = bytes.size();
  words[1] = 0;
  if (lies_apart(words)) {
    words[1] = reinterpret_cast<std::uintptr_t>(bytes.data());
  } else if (!bytes.empty()) {
    std::memcpy(words + 1, bytes.data(), bytes.size());
  }
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
