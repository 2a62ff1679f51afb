// SPDX-License-Identifier: Apache-2.0
/// \file
/// What waits, beside the bound of that moment.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace spolia::test {

/// Expects that waiting() is at most the domain's bound with `threads` and `beside`. A bound rises
/// with a reader that stalls, and falls after it: so a peak means nothing beside a bound that is
/// asked for later, and neither does a number while another thread changes the bound.
template <class Domain, class Count>
void expect_within_bound(Domain& d, std::size_t threads, Count&& waiting, std::uint64_t beside) {
  const auto bound = d.garbage_bound(threads);
  if (!bound.has_value()) return;
  const auto now = static_cast<std::uint64_t>(waiting());
  if (d.garbage_bound(threads) == bound) {
    EXPECT_LE(now, *bound + beside);
  }
}

}  // namespace spolia::test
