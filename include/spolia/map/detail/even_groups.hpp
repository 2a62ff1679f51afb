// SPDX-License-Identifier: Apache-2.0
// even_groups.hpp: how things in a row are shared out among nodes of one level of a tree.
#pragma once

#include <algorithm>
#include <cstddef>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// n things, one at least, in as few groups of at most `most` as there can be, as equal as may be.
class even_groups {
 public:
  even_groups(std::size_t n, std::size_t most) noexcept : n_(n), count_((n - 1) / most + 1) {}

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// The first thing of group i; of group count(): the end.
  [[nodiscard]] std::size_t begin_of(std::size_t i) const noexcept {
    return i * (n_ / count_) + (std::min)(i, n_ % count_);
  }

 private:
  const std::size_t n_;
  const std::size_t count_;
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
