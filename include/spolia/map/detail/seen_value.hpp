// SPDX-License-Identifier: Apache-2.0
// seen_value.hpp: what an update remembers of a value that it has copied, so that it can tell later
// whether the key still has that value. No guard is held in between: what was copied may be freed,
// and its address another value's.
//
// A value that is copied byte by byte is what its bytes are: one that has gone and come back is as
// good as one that has stayed, since all that an update's function is given is these bytes. Every
// other value has a stamp beside it, which no other value of the same container has had. It is not
// compared by ==, which may say less than the type means.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/map/detail/kept_pair.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Beside a value that its bytes do not tell from others.
template <class Value, bool ToldByBytes = is_plain_bytes<Value>>
struct value_stamp {
  std::uint64_t number = 0;
};
template <class Value>
struct value_stamp<Value, true> {};

/// For a value that the calling thread is about to put into a container. `mine`: how many stamps
/// threads of its number have taken there. A stamp comes again after 2^44 of them.
template <class Value>
SPOLIA_ALWAYS_INLINE value_stamp<Value> next_stamp([[maybe_unused]] tally& mine) noexcept {
  if constexpr (is_plain_bytes<Value>) {
    return {};
  } else {
    mine.add();
    constexpr unsigned bits = 44;
    const std::uint64_t count = mine.value() & ((std::uint64_t{1} << bits) - 1);
    return {std::uint64_t{threads::number()} << bits | count};
  }
}
/// The same by a size_counter, which is asked only if there is a stamp.
template <class Value, class Counter>
  requires requires(Counter& all) { all.here().stamped; }
SPOLIA_ALWAYS_INLINE value_stamp<Value> next_stamp([[maybe_unused]] Counter& all) {
  if constexpr (is_plain_bytes<Value>) {
    return {};
  } else {
    return next_stamp<Value>(all.here().stamped);
  }
}
/// The same where one thread at a time puts values in.
template <class Value>
SPOLIA_ALWAYS_INLINE value_stamp<Value> next_stamp([[maybe_unused]] std::uint64_t& count) noexcept {
  if constexpr (is_plain_bytes<Value>) {
    return {};
  } else {
    return {++count};
  }
}

/// A copy of a value, and which one it is.
template <class Value, bool ToldByBytes = is_plain_bytes<Value>>
class seen_value {
 public:
  /// Throws what copying the value throws.
  void look(const Value& there, value_stamp<Value> stamp) {
    value_.emplace(there);
    stamp_ = stamp.number;
  }
  [[nodiscard]] bool is([[maybe_unused]] const Value& there,
                        value_stamp<Value> stamp) const noexcept {
    return stamp.number == stamp_ || SPOLIA_FAULT("map.any_value_will_do");
  }
  [[nodiscard]] const Value& value() const noexcept { return *value_; }
  /// The copy itself. It can be taken once after each look.
  [[nodiscard]] Value taken() { return std::move(*value_); }
  /// Ends the copy, if there is one: the next look would do so under a guard.
  void forget() noexcept { value_.reset(); }

 private:
  std::optional<Value> value_{};
  std::uint64_t stamp_ = 0;
};

template <class Value>
class seen_value<Value, true> {
 public:
  /// `there`: where it lies, for a copy need not have the same padding.
  void look(const Value& there, value_stamp<Value> = {}) noexcept {
    std::memcpy(bytes_.data(), std::addressof(there), sizeof(Value));
  }
  [[nodiscard]] bool is([[maybe_unused]] const Value& there,
                        value_stamp<Value> = {}) const noexcept {
    if (std::is_empty_v<Value> || SPOLIA_FAULT("map.any_value_will_do")) return true;
    return std::memcmp(bytes_.data(), std::addressof(there), sizeof(Value)) == 0;
  }
  [[nodiscard]] Value value() const noexcept { return std::bit_cast<Value>(bytes_); }
  [[nodiscard]] Value taken() const noexcept { return value(); }
  void forget() noexcept {}

 private:
  std::array<std::byte, sizeof(Value)> bytes_{};
};

/// The same of a kept_pair: where that is a counted block, the block is held and nothing is copied.
template <class Pair, class Value, bool Held = Pair::extra_bytes != 0>
class seen_pair {
 public:
  void look(const Pair& there) noexcept { held_.emplace(there); }
  [[nodiscard]] bool is(const Pair& there) const noexcept {
    return std::addressof(there.value()) == std::addressof(held_->value()) ||
           SPOLIA_FAULT("map.any_value_will_do");
  }
  [[nodiscard]] const Value& value() const noexcept { return held_->value(); }
  [[nodiscard]] Value taken() const { return Value(value()); }
  void forget() noexcept { held_.reset(); }

 private:
  std::optional<Pair> held_{};
};
template <class Pair, class Value>
class seen_pair<Pair, Value, false> : public seen_value<Value> {
 public:
  void look(const Pair& there) noexcept { seen_value<Value>::look(there.value()); }
  [[nodiscard]] bool is(const Pair& there) const noexcept {
    return seen_value<Value>::is(there.value());
  }
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
