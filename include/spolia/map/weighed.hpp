// SPDX-License-Identifier: Apache-2.0
/// \file
/// A function that says what the values of one map weigh: the bytes that they own beyond their
/// own size, where weight_of<Value> (base/weight.hpp) does not know it, or where it is another
/// number in this map.
///
///     struct bytes_of_pixels {
///       std::size_t operator()(const image& i) const noexcept { return i.width() * i.height(); }
///     };
///     spolia::abtree<int, spolia::weighed<image, bytes_of_pixels>> images;
///     images.insert(1, image("a.png"));
///     images.visit(1, [](const image& i) { show(i); });
///     if (auto found = images.find(1)) show(*found);
///
/// A weighed value is made of a value and becomes one where one is asked for; `*` and `->` read it.
/// Any map takes it.
///
/// When:        By is asked once for each value that the map makes, or when it is retired; by then
///              no thread can change it.
/// Cost:        that of By; a weighed value is as large as the value.
/// Errors:      none; By must not throw.
/// Thread safety: that of the value.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Value, class By>
class weighed {
  static_assert(std::is_nothrow_invocable_r_v<std::size_t, const By&, const Value&>,
                "weighed: By gives the bytes that a value owns, and does not throw, as in "
                "`std::size_t operator()(const image&) const noexcept`");
  static_assert(!std::is_trivially_destructible_v<Value>,
                "weighed: a value without a destructor owns nothing that would wait to be freed");

 public:
  using value_type = Value;

  weighed()
    requires std::default_initializable<Value>
  = default;
  template <class V>
    requires(!std::same_as<std::remove_cvref_t<V>, weighed> && std::constructible_from<Value, V>)
  weighed(V&& value) : value_(std::forward<V>(value)) {}  // NOLINT: a value is one without a word

  operator const Value&() const noexcept { return value_; }  // NOLINT: likewise
  operator Value&() noexcept { return value_; }              // NOLINT: likewise
  const Value& operator*() const noexcept { return value_; }
  Value& operator*() noexcept { return value_; }
  const Value* operator->() const noexcept { return std::addressof(value_); }
  Value* operator->() noexcept { return std::addressof(value_); }

  friend bool operator==(const weighed& a, const weighed& b)
    requires std::equality_comparable<Value>
  {
    return a.value_ == b.value_;
  }

  /// For weight_of.
  std::size_t owned_bytes() const noexcept { return By()(value_); }

 private:
  Value value_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
