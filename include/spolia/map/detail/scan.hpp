// SPDX-License-Identifier: Apache-2.0
// scan.hpp: for_each and range in batches: a few pairs are copied inside a guard, then shown
// outside of it.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// What comes behind `*from`, or at it, and in front of `*to`; null: no limit.
template <class Key>
struct interval {
  const Key* from;
  bool with_from;
  const Key* to;
};

template <class Key, class Value>
using pairs = std::vector<std::pair<Key, Value>>;

/// Pairs to copy in one guard: some microseconds.
inline constexpr std::size_t scan_batch = 64;

/// Shows f these pairs, until it returns false; then this does, too.
template <class Key, class Value, class F>
bool show(const pairs<Key, Value>& batch, F& f) {
  for (const auto& [key, value] : batch) {
    if constexpr (std::same_as<std::invoke_result_t<F&, const Key&, const Value&>, bool>) {
      if (!f(key, value)) return false;
    } else {
      f(key, value);
    }
  }
  return true;
}

/// Shows f every pair from `lo` on and in front of `hi` (null: no limit), until f returns false.
/// `copy_some(rest, batch)` puts the first pairs of the interval `rest` into the empty batch,
/// `batch_size` at most and in ascending order, and says whether there were any.
template <class Key, class Value, class CopySome, class F>
void scan_in_batches(const Key* lo, const Key* hi, std::size_t batch_size, CopySome copy_some,
                     F& f) {
  pairs<Key, Value> batch;
  batch.reserve(batch_size);
  std::optional<Key> last;
  interval<Key> rest{lo, true, hi};
  while (copy_some(rest, batch)) {
    if (!show(batch, f)) return;
    rest = {&last.emplace(std::move(batch.back().first)), false, hi};
    batch.clear();
  }
}

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
