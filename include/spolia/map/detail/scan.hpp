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

/// What comes after `*from`, or at it, and before `*to`, or WithTo also at it; null: no limit.
template <class From, class To = From, bool WithTo = false>
struct interval {
  static constexpr bool has_to = WithTo;

  /// Does it begin after the key, or end before the key, or at it?
  template <class Key, class Less>
  [[nodiscard]] bool is_after(const Key& key, const Less& less) const {
    if (from == nullptr) return false;
    return with_from ? static_cast<bool>(less(key, *from)) : !less(*from, key);
  }
  template <class Key, class Less>
  [[nodiscard]] bool is_over_at(const Key& key, const Less& less) const {
    if constexpr (WithTo) {
      return to != nullptr && static_cast<bool>(less(*to, key));
    } else {
      return to != nullptr && !less(key, *to);
    }
  }
  /// The same for a walk upwards or, if Down, downwards: does it come to the interval later than to
  /// the key, or is it over there?
  template <bool Down, class Key, class Less>
  [[nodiscard]] bool begins_beyond(const Key& key, const Less& less) const {
    if constexpr (Down) return is_over_at(key, less);
    if constexpr (!Down) return is_after(key, less);
  }
  template <bool Down, class Key, class Less>
  [[nodiscard]] bool is_left_at(const Key& key, const Less& less) const {
    if constexpr (Down) return is_after(key, less);
    if constexpr (!Down) return is_over_at(key, less);
  }
  /// What such a walk has before it when it has come to the key.
  template <bool Down, class Key>
  [[nodiscard]] auto beyond(const Key& key) const {
    if constexpr (Down) {
      return interval<From, Key>{from, with_from, std::addressof(key)};
    } else {
      return interval<Key, To, WithTo>{std::addressof(key), false, to};
    }
  }
  /// True: nothing is in it, by the order of its ends. (Where they are no keys of the map, a
  /// comparison might take them for something else: two arrays for two addresses.)
  template <class Key, class Less>
  [[nodiscard]] bool is_empty(const Less& less) const {
    if constexpr (std::is_same_v<From, Key> && std::is_same_v<To, Key>) {
      if (from == nullptr || to == nullptr) return false;
      return WithTo && with_from ? static_cast<bool>(less(*to, *from)) : !less(*from, *to);
    } else {
      return false;
    }
  }

  const From* from;
  bool with_from;
  const To* to;
};
template <class Key>
inline constexpr interval<Key> all_keys{nullptr, true, nullptr};
template <class Key>
interval<Key> from_to(const Key& lo, const Key& hi) noexcept {
  return {std::addressof(lo), true, std::addressof(hi)};
}
template <class Key>
interval<Key> from_on(const Key& key) noexcept {
  return {std::addressof(key), true, nullptr};
}
template <class Key>
interval<Key> after_it(const Key& key) noexcept {
  return {std::addressof(key), false, nullptr};
}
template <class Key>
interval<Key> before_it(const Key& key) noexcept {
  return {nullptr, true, std::addressof(key)};
}
template <class Key>
interval<Key, Key, true> up_to(const Key& key) noexcept {
  return {nullptr, true, std::addressof(key)};
}

template <class Key, class Value>
using pairs = std::vector<std::pair<Key, Value>>;

/// Pairs to copy in one guard: some microseconds.
inline constexpr std::size_t scan_batch = 64;

/// Whether a walk advances, asked at some of the keys that it meets. By an order each lies beyond
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

/// Shows f every pair of the interval, if Down from the last to the first, until f returns false;
/// then this does, too. `copy_some(rest, batch)` puts the first pairs of the interval `rest` on
/// that way into the empty batch, as many as there is room for and in that order, and says whether
/// there were any.
template <bool Down, class Key, class Value, class Within, class Compare, class CopySome, class F>
bool scan_in_batches(pairs<Key, Value>& batch, const Within& within, const Compare& less,
                     CopySome copy_some, F& f) {
  std::optional<Key> last;
  progress<Key> way;
  const auto show_rest = [&](const auto& self, auto rest) -> bool {
    while (copy_some(rest, batch) && way.template goes_on<Down>(batch.back().first, less)) {
      if (!detail::map::show(std::span(std::as_const(batch)), f)) return false;
      const Key& at = last.emplace(std::move(batch.back().first));
      batch.clear();
      const auto next = rest.template beyond<Down>(at);
      if constexpr (std::is_same_v<decltype(rest), std::remove_const_t<decltype(next)>>) {
        rest = next;
      } else {
        return self(self, next);
      }
    }
    batch.clear();
    return true;
  };
  return show_rest(show_rest, within);
}
template <bool Down, class Key, class Value, class Within, class Compare, class CopySome, class F>
void scan_in_batches(const Within& within, const Compare& less, std::size_t batch_size,
                     CopySome copy_some, F& f) {
  pairs<Key, Value> batch;
  batch.reserve(batch_size);
  scan_in_batches<Down>(batch, within, less, copy_some, f);
}

/// A batch that takes one pair.
template <class Key, class Value>
class one_pair {
 public:
  static constexpr bool takes_one = true;

  template <class K, class V>
  void emplace_back(K&& key, V&& value) {
    found_.emplace(std::forward<K>(key), std::forward<V>(value));
  }
  [[nodiscard]] std::size_t size() const noexcept { return found_ ? 1 : 0; }
  [[nodiscard]] bool empty() const noexcept { return !found_; }
  [[nodiscard]] const std::pair<Key, Value>& back() const noexcept { return *found_; }
  [[nodiscard]] std::optional<std::pair<Key, Value>> taken() { return std::move(found_); }

 private:
  std::optional<std::pair<Key, Value>> found_;
};

/// How many pairs a batch takes: one, or as many as are copied in one guard.
template <class Batch, std::size_t Many = scan_batch>
inline constexpr std::size_t room_of = requires { Batch::takes_one; } ? 1 : Many;

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
