// SPDX-License-Identifier: Apache-2.0
// scan.hpp: for_each and range in batches: a few pairs are copied inside a guard, then shown
// outside of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/shown_to.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// What comes after `*from`, or at it, and before `*to`; null: no limit.
template <class Key>
struct interval {
  /// Does it begin after the key, or end before the key or at it?
  template <class Less>
  [[nodiscard]] bool is_after(const Key& key, const Less& less) const {
    if (from == nullptr) return false;
    return with_from ? static_cast<bool>(less(key, *from)) : !less(*from, key);
  }
  template <class Less>
  [[nodiscard]] bool is_over_at(const Key& key, const Less& less) const {
    return to != nullptr && !less(key, *to);
  }

  const Key* from;
  bool with_from;
  const Key* to;
};

template <class Key, class Value>
using pairs = std::vector<std::pair<Key, Value>>;

/// Pairs to copy in one guard: some microseconds.
inline constexpr std::size_t scan_batch = 64;

/// Whether a walk gets on, asked at some of the keys that it comes to. By an order each lies beyond
/// those before it. By a comparison that is no order a walk could go in circles forever. So one
/// key is remembered, and after twice as many questions each time a later one; the others have to
/// lie beyond it. In a circle that key comes again, which does not lie beyond itself.
///
/// `Kept`: const Key*, if the keys stay while the walk lasts; else they are copied. `Every`: of so
/// many questions one is looked into, where the steps of a walk are short.
template <class Key, class Kept = std::optional<Key>, std::uint32_t Every = 1>
class progress {
 public:
  /// Down: beyond is below. False: the comparison is no order, and the walk must end.
  template <bool Down = false, class Compare>
  SPOLIA_ALWAYS_INLINE bool goes_on(const Key& to, const Compare& less) {
    return ++looks_ % Every != 0 || is_beyond_mark<Down>(to, less);
  }

 private:
  template <bool Down, class Compare>
  bool is_beyond_mark(const Key& to, const Compare& less) {
    if (mark_) {
      const Key& low = Down ? to : *mark_;
      const Key& high = Down ? *mark_ : to;
      if (!less(low, high) || less(high, low)) return false;
    }
    if (looks_ < next_) return true;
    next_ *= 2;
    if constexpr (std::is_pointer_v<Kept>) {
      mark_ = std::addressof(to);
    } else {
      mark_.emplace(to);
    }
    return true;
  }

  Kept mark_{};
  std::uint32_t looks_ = 0;
  std::uint32_t next_ = 1;
};

/// Takes the pairs of a batch all at once.
template <class F>
struct in_runs {
  static constexpr bool takes_runs = true;
  F& f;
  template <class Run>
  bool operator()(const Run& run) const {
    return f(run);
  }
};

/// Shows f these pairs, until it returns false; then this does, too.
template <class Key, class Value, class F>
bool show(std::span<const std::pair<Key, Value>> batch, F& f) {
  if constexpr (requires { F::takes_runs; }) {
    return batch.empty() || f(batch);
  } else {
    for (const auto& [key, value] : batch) {
      if (!shown_to(f, key, value)) return false;
    }
    return true;
  }
}

/// Shows f every pair from `lo` on and before `hi` (null: no limit), until f returns false.
/// `copy_some(rest, batch)` puts the first pairs of the interval `rest` into the empty batch,
/// `batch_size` at most and in ascending order, and says whether there were any.
template <class Key, class Value, class Compare, class CopySome, class F>
void scan_in_batches(const Key* lo, const Key* hi, const Compare& less, std::size_t batch_size,
                     CopySome copy_some, F& f) {
  pairs<Key, Value> batch;
  batch.reserve(batch_size);
  std::optional<Key> last;
  interval<Key> rest{lo, true, hi};
  progress<Key> way;
  while (copy_some(rest, batch) && way.goes_on(batch.back().first, less)) {
    if (!detail::map::show(std::span(std::as_const(batch)), f)) return;
    rest = {std::addressof(last.emplace(std::move(batch.back().first))), false, hi};
    batch.clear();
  }
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
