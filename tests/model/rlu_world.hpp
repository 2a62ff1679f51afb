// SPDX-License-Identifier: Apache-2.0
/// \file
/// A domain of read-log-update with three numbers, for scenarios of the model checker.
#pragma once

#include <cstddef>
#include <cstdint>

#include <spolia/model/engine.hpp>
#include <spolia/rlu.hpp>

#include "model/watched_number.hpp"

namespace spolia::test {

/// Every record has a segment of its own. No thread collects unless the scenario says so.
template <class Clock>
struct world_with {
  explicit world_with(std::size_t low_watermark = 1000000, std::uint32_t segment_bytes = 1,
                      bool in_place = false, std::uint32_t turn_us = 300)
      : d({.segment_bytes = segment_bytes,
           .low_watermark = low_watermark,
           .turn_us = turn_us,
           .in_place = in_place}) {
    x = d.template make<number>(number(0));
    y = d.template make<number>(number(0));
    z = d.template make<number>(number(0));
  }
  /// In `finally`.
  void clear() {
    d.discard(x);
    d.discard(y);
    d.discard(z);
  }

  template <class In>
  static int look(In& in, rlu::ptr<number> p) {
    return in.read(p)->value.read();
  }
  rlu::outcome add_to_both() {
    return d.attempt([&](auto& in) {
      auto a = in.try_lock(x);
      auto b = in.try_lock(y);
      if (!a || !b) return;
      a->value.write(a->value.read() + 1);
      b->value.write(b->value.read() + 1);
    });
  }
  bool add_to(rlu::ptr<number> p) {
    return d.attempt([&](auto& in) {
      const int before = look(in, p);
      if (auto a = in.try_lock(p)) a->value.write(before + 1);
    }) == rlu::outcome::committed;
  }
  void both_are_equal() {
    d.read([&](auto& in) {
      const int first = look(in, x);
      model::check(look(in, y) == first, "a section saw two instants: torn");
      model::check(look(in, x) == first, "a section saw two instants");
    });
  }
  /// A section sees one instant of x, and a view of it does not change.
  void look_twice() {
    d.read([&](auto& in) {
      const auto seen = in.read(x);
      const int first = seen->value.read();
      model::check(look(in, x) == first, "a section saw two instants");
      model::check(seen->value.read() == first, "a view has changed");
    });
  }

  rlu::basic_domain<Clock, spolia::domain<debra, batch>> d;
  rlu::ptr<number> x;
  rlu::ptr<number> y;
  rlu::ptr<number> z;
};
using world = world_with<logical_clock>;

}  // namespace spolia::test
