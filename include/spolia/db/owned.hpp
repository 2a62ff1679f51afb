// SPDX-License-Identifier: Apache-2.0
// owned.hpp: texts and blobs that were read from a row without a name, and therefore are copies:
//
//     auto name = tx.find(people, {7})->get(full_name);         // an owned_text: a std::string
//
//     const auto found = tx.find(people, {7});
//     std::string_view name = found->get(full_name);            // no copy: stays as `found` does
//
// A view of a temporary copy would outlive it, and so does not compile.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/db/blob.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// A std::string but for views of temporary ones.
class owned_text : public std::string {
 public:
  owned_text() = default;
  explicit owned_text(std::string_view of) : std::string(of) {}
  operator std::string_view() const& noexcept { return {data(), size()}; }  // NOLINT: it is a text
  operator std::string_view() const&& = delete;  // give the row, or the text, a name

  template <class Text>
    requires std::convertible_to<const Text&, std::string_view>
  friend bool operator==(const owned_text& a, const Text& b) noexcept {
    return std::string_view(a) == std::string_view(b);
  }
};

/// The bytes of a blob.
class owned_blob {
 public:
  owned_blob() = default;
  explicit owned_blob(blob_view of) : bytes_(of.data(), of.data() + of.size()) {}
  [[nodiscard]] const std::byte* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const& noexcept { return bytes_; }
  [[nodiscard]] std::vector<std::byte> bytes() && noexcept { return std::move(bytes_); }
  operator blob_view() const& noexcept { return std::span(bytes_); }  // NOLINT: it is a blob
  operator blob_view() const&& = delete;  // give the row, or the blob, a name
  friend bool operator==(const owned_blob& a, const owned_blob& b) noexcept = default;
  friend bool operator==(const owned_blob& a, blob_view b) noexcept { return blob_view(a) == b; }

 private:
  std::vector<std::byte> bytes_;
};

/// What a T is read as where it has to own its bytes.
template <class T>
struct owned {
  using type = T;
};
template <>
struct owned<std::string_view> {
  using type = owned_text;
};
template <>
struct owned<blob_view> {
  using type = owned_blob;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
