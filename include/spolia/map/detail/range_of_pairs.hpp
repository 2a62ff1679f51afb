// SPDX-License-Identifier: Apache-2.0
// range_of_pairs.hpp: what a range of pairs has beside begin() and end().
#pragma once

#include <ranges>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// The base of a range, which is a view by it. std::ranges::view_interface gives the same members,
/// but under conditions that clang before 16 looks at while the range is not complete yet: with it,
/// and libstdc++, no program that has such a range compiles there.
template <class Range>
class range_of_pairs : public std::ranges::view_base {
 public:
  [[nodiscard]] bool empty() const { return self().begin() == self().end(); }
  explicit operator bool() const { return !empty(); }
  [[nodiscard]] auto front() const { return *self().begin(); }
  template <class R = Range>
    requires(std::ranges::common_range<const R> && std::ranges::bidirectional_range<const R>)
  [[nodiscard]] auto back() const {
    auto last = self().end();
    return *--last;
  }

 private:
  friend Range;
  range_of_pairs() = default;
  [[nodiscard]] const Range& self() const noexcept { return static_cast<const Range&>(*this); }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
