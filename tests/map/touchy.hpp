// SPDX-License-Identifier: Apache-2.0
/// \file
/// A type that fails when one asks for it.
#pragma once

#include <stdexcept>

namespace spolia::test {

struct bad_day : std::runtime_error {
  bad_day() : runtime_error("not today") {}
};

/// Counts down to an exception; below zero nothing is thrown.
struct trigger {
  int left = -1;
  void pull() {
    if (left >= 0 && left-- == 0) throw bad_day();
  }
};
inline thread_local trigger copies;
inline thread_local trigger comparisons;
inline thread_local int alive = 0;

struct touchy {
  explicit touchy(int v) : value(v) { ++alive; }
  touchy(const touchy& other) : value(other.value) {
    copies.pull();
    ++alive;
  }
  touchy& operator=(const touchy&) = delete;
  ~touchy() { --alive; }
  int value;
};

}  // namespace spolia::test
