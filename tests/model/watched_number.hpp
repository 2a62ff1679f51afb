// SPDX-License-Identifier: Apache-2.0
/// \file
/// What scenarios about read-log-update keep in their objects.
#pragma once

#include <spolia/base/atomic.hpp>

namespace spolia::test {

/// A value that the checker watches for races.
struct number {
  explicit number(int v) noexcept { value.write(v); }
  number(const number& o) noexcept { value.write(o.value.read()); }
  number& operator=(const number& o) noexcept {
    value.write(o.value.read());
    return *this;
  }
  plain<int> value;
};

}  // namespace spolia::test
