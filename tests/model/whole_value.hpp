// SPDX-License-Identifier: Apache-2.0
/// \file
/// A value that must be whole while it is looked at.
#pragma once

#include <spolia/model/engine.hpp>

#include "model/domain_scenarios.hpp"

namespace spolia::test {

struct whole_value {
  explicit whole_value(int n) : number(n) {}
  whole_value(const whole_value& other) : number(other.look()) {}
  whole_value(whole_value&& other) noexcept : number(other.number) {}
  whole_value& operator=(const whole_value&) = delete;
  ~whole_value() { whole.write(false); }
  int look() const {
    model::check(whole.read(), "a value was looked at after its end");
    return number;
  }

  plain<bool> whole{true};
  int number;
};

}  // namespace spolia::test
