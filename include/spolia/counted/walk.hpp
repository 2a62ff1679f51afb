// SPDX-License-Identifier: Apache-2.0
// walk.hpp: what walks through structures go by: a private pointer that is never copied, and holds
// a pin of its own from begin to end, so no step needs to ask whether it may move the pin.
//
// Thread safety, errors: as private_ptr; only the begin of a walk may throw.
// Cost:        a step: two loads of the location, two stores of the pin, a light fence.
#pragma once

#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/conversions.hpp>
#include <spolia/counted/home.hpp>
#include <spolia/counted/pins.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted {

/// Location is an atomic_shared_ptr or an atomic_thin_ptr.
template <class Location>
class walk {
 public:
  using element_type = typename Location::value_type::element_type;

  SPOLIA_ALWAYS_INLINE explicit walk(const Location& from)
      : pins_(here().pins), pin_(pins_.take()) {
    go(pin_->name(access::words_of(from)));
  }
  /// Goes on from r, in whose object the location may lie.
  template <class Other>
  SPOLIA_ALWAYS_INLINE walk(walk<Other>&& r, const Location& from) noexcept
      : pins_(r.pins_), pin_(std::exchange(r.pin_, nullptr)) {
    go(pin_->protect(access::words_of(from), r.word_));
  }
  walk(const walk&) = delete;
  walk& operator=(const walk&) = delete;
  SPOLIA_ALWAYS_INLINE ~walk() {
    if (pin_ != nullptr) pins_.give_back(pin_);
  }

  /// What the location holds now. It may lie in the object that this points to.
  SPOLIA_ALWAYS_INLINE void step(const Location& to) noexcept {
    go(pin_->protect(access::words_of(to), word_));
  }

  element_type& operator*() const noexcept { return *object_; }
  element_type* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  template <class Other>
  friend class walk;

  SPOLIA_ALWAYS_INLINE void go(word w) noexcept {
    word_ = w;
    object_ = Location::units::object(w);
  }

  pin_set& pins_;
  pin* pin_;
  word word_ = 0;
  element_type* object_ = nullptr;
};

}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR
