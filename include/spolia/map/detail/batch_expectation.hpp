// SPDX-License-Identifier: Apache-2.0
// batch_expectation.hpp: what a batch (map/changes.hpp) expects of a key, and how putting a part of
// it in place has ended.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/map/detail/seen_value.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// A part of a batch.
enum class staged : std::uint8_t {
  yes,      // it is in place
  undone,   // the batch was undone meanwhile
  refused,  // what it expects is not so
};

/// That a key is absent, is there, has a value that == says is equal, or has the very pair that was
/// seen. Of values that are copied as bytes equal bytes are the same pair (seen_value.hpp).
template <class Pair, class Value>
class expected_pair {
 public:
  struct is_absent {};
  struct is_there {};

  explicit expected_pair(is_absent) noexcept {}
  explicit expected_pair(is_there) noexcept : what_(kind::there) {}
  /// What was found; null: nothing.
  explicit expected_pair(const Pair* found) {
    if (found == nullptr) return;
    seen_.look(*found);
    what_ = kind::seen;
  }
  /// Throws what making the value throws.
  template <class V>
  expected_pair(std::in_place_t, V&& value)
      : what_(kind::equal),
        equal_([](const Value& a, const Value& b) { return static_cast<bool>(a == b); }),
        value_(std::in_place, std::forward<V>(value)) {}

  /// Throws what comparing values throws.
  [[nodiscard]] bool holds(const Pair* now) const {
    if (now == nullptr || what_ == kind::absent) return (now == nullptr) == (what_ == kind::absent);
    if (what_ == kind::there) return true;
    return what_ == kind::seen ? seen_.is(*now) : equal_(now->value(), *value_);
  }

 private:
  enum class kind : std::uint8_t { absent, there, seen, equal };

  kind what_ = kind::absent;
  bool (*equal_)(const Value&, const Value&) = nullptr;
  std::optional<Value> value_{};
  seen_pair<Pair, Value> seen_{};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
