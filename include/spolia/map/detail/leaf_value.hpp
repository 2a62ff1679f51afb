// SPDX-License-Identifier: Apache-2.0
// leaf_value.hpp: a value as leaves keep it that are copied as a whole when one of their pairs
// changes: values that own memory are out of line, and all copies of a leaf share them. So a
// change costs as much, and as much waits to be freed, as the one value takes, and not the leaf's.
//
// Both kinds: made of a value (\throws std::bad_alloc, or what copying the value throws), copies
// that throw what the value's throw, or nothing, and value().
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/bits.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/weight.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

template <class Value>
class value_in_leaf {
 public:
  explicit value_in_leaf(const Value& v) : value_(v) {}
  [[nodiscard]] const Value& value() const noexcept { return value_; }

 private:
  Value value_;
};

template <class Value>
class value_apart {
  struct box {
    explicit box(const Value& v) : value(v), owned(weighing::code_of(weigh(value))) {}
    const Value value;
    const std::uint32_t owned;  // the code of what it owns
    atomic<std::uint32_t> holders{1};
  };

 public:
  explicit value_apart(const Value& v) : box_(make(v)) {}
  /// relaxed: the thread that copies a leaf has it, and publishes the copy by a release.
  value_apart(const value_apart& from) noexcept : box_(from.box_) {
    box_->holders.fetch_add_relaxed(1);
  }
  value_apart& operator=(const value_apart&) = delete;
  ~value_apart() {
    // acq_rel: what others did with the value happens before its end, on whichever thread that is.
    if (box_->holders.fetch_sub_acq_rel(1) != 1) return;
    box_->~box();
    memory::deallocate(box_, sizeof(box), alignof(box));
  }

  [[nodiscard]] const Value& value() const noexcept { return box_->value; }
  /// Of what several leaves have in common each has its part, about: no division for each value.
  [[nodiscard]] std::size_t owned_bytes() const noexcept {
    const auto parts = bit_length(box_->holders.load_relaxed()) - 1;
    return (sizeof(box) + weighing::bytes_of(box_->owned)) >> parts;
  }

 private:
  static box* make(const Value& v) {
    void* const room = memory::allocate(sizeof(box), alignof(box));
    try {
      return ::new (room) box(v);
    } catch (...) {
      memory::deallocate(room, sizeof(box), alignof(box));
      throw;
    }
  }

  box* box_;
};

template <class Value>
using leaf_value = std::conditional_t<weightless<Value> || std::is_trivially_destructible_v<Value>,
                                      value_in_leaf<Value>, value_apart<Value>>;

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
