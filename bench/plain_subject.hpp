// SPDX-License-Identifier: Apache-2.0
// plain_subject.hpp: what `spolia-bench rlu` measures that has no domain of its own to ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rlu.hpp"
#include "trial.hpp"

namespace bench {

inline const rlu_options& ours(const set_options& o) { return static_cast<const rlu_options&>(o); }

/// A set that is made with its number of buckets, and is all that there is.
template <class Set>
struct plain_subject {
  struct worker {
    explicit worker(plain_subject& s) : set(s.set) {}
    bool insert(std::uint64_t k) { return set.insert(k); }
    bool erase(std::uint64_t k) { return set.erase(k); }
    bool contains(std::uint64_t k) { return set.contains(k); }
    Set& set;
  };
  explicit plain_subject(const set_options& o)
      : set(static_cast<std::size_t>(buckets_of(ours(o)))) {}
  template <class Park>
    requires requires(Set& s, Park& p) { s.stall(p); }
  void stall(Park&& park) {
    set.stall(park);
  }
  sums counted() const { return {}; }
  std::optional<std::uint64_t> garbage() const {
    if constexpr (requires(const Set& s) { s.garbage(); }) return set.garbage();
    return std::nullopt;
  }
  void describe(trial_result&, std::size_t) {}
  Set set;
};

}  // namespace bench
