// SPDX-License-Identifier: Apache-2.0
// walk.hpp: what walks through structures go by: private pointers that are never copied, and have a
// pin of their own as long as they point to something, so no step asks whether it may move the pin.
//
// first_walk   by a pin that each thread has for it, and of which one look tells that it is free: a
//              walk that points to something has a name in the first slot, so to end it writes that
//              one only. With it comes the knowledge that light fences are free. So it calls
//              nothing, and what surrounds it can stay in registers.
// walk         by any pin.
//
// Thread safety, errors: as private_ptr. Only walks by any pin may throw, when they begin, and in a
// step of one that is null.
// Cost:        a step: two loads of the location, two stores of the pin, a light fence.
#pragma once

#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/counted/detail/conversions.hpp>
#include <spolia/counted/detail/pins.hpp>
#include <spolia/counted/home.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

/// How the first walk of a thread gets its pin.
class first_pin {
 public:
  static constexpr bool light_is_free = true;

  /// False: it is in use, cannot be used, or it is time to look whether something is overdue, which
  /// the walk by any pin does.
  SPOLIA_ALWAYS_INLINE bool find() noexcept {
    at_ = walker();
    return (at_->is_free() || SPOLIA_FAULT("counted.walks_share")) && !at_->ends_turns();
  }
  SPOLIA_ALWAYS_INLINE void take() const noexcept {}
  SPOLIA_ALWAYS_INLINE void give_back() const noexcept { clear_name(at_->first(), free_mark); }
  SPOLIA_ALWAYS_INLINE pin* at() const noexcept { return at_; }

 private:
  pin* at_ = nullptr;
};

/// How any walk does.
class any_pin {
 public:
  static constexpr bool light_is_free = false;

  void take() {
    member& me = here();
    if (me.pins.walker().ends_turns()) look_at_time(me);
    at_ = me.pins.take();
  }
  void give_back() const noexcept { here().pins.give_back(at_); }
  [[nodiscard]] pin* at() const noexcept { return at_; }

 private:
  pin* at_ = nullptr;
};

/// Location is an atomic_shared_ptr or an atomic_thin_ptr, and holds pointers as make_shared or
/// make_thin returned them.
template <class Location, class Pin = any_pin>
class walk {
 public:
  using element_type = typename Location::value_type::element_type;

  SPOLIA_ALWAYS_INLINE explicit walk(const Location& from, Pin by = {}) : by_(by) { begin(from); }
  /// Goes on from r, in whose object the location may lie.
  template <class Other>
  SPOLIA_ALWAYS_INLINE walk(walk<Other, Pin>&& r, const Location& from) : by_(r.by_) {
    const void* const before = std::exchange(r.object_, nullptr);
    before == nullptr ? begin(from) : go_on(before, from);
  }
  SPOLIA_ALWAYS_INLINE walk(walk&& r) noexcept
      : by_(r.by_), object_(std::exchange(r.object_, nullptr)) {}
  walk& operator=(walk&&) = delete;
  SPOLIA_ALWAYS_INLINE ~walk() {
    if (object_ != nullptr) by_.give_back();
  }

  /// What the location holds now. It may lie in the object that this points to.
  SPOLIA_ALWAYS_INLINE void step(const Location& to) {
    object_ == nullptr ? begin(to) : go_on(object_, to);
  }

  /// The same of a walk that is not null; but where the location holds null, this stays where it
  /// is, which it says by false.
  SPOLIA_ALWAYS_INLINE bool follow(const Location& to) noexcept {
    // What this points to stays named in the second slot, whatever the first one names meanwhile.
    by_.at()->keep(reinterpret_cast<word>(object_));
    const word next =
        put_name_unless_null(by_.at()->first(), access::words_of(to), Pin::light_is_free);
    if (next == 0) return false;
    object_ = Location::units::made_object(next);
    return true;
  }

  element_type& operator*() const noexcept { return *object_; }
  element_type* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  template <class Other, class OtherPin>
  friend class walk;

  SPOLIA_ALWAYS_INLINE void begin(const Location& from) {
    by_.take();
    name(from);
  }
  /// Where it was is its name: the location holds what make_shared or make_thin returned.
  SPOLIA_ALWAYS_INLINE void go_on(const void* before, const Location& to) noexcept {
    by_.at()->keep(reinterpret_cast<word>(before));
    name(to);
  }
  SPOLIA_ALWAYS_INLINE void name(const Location& what) noexcept {
    object_ = Location::units::made_object(
        put_name_unless_null(by_.at()->first(), access::words_of(what), Pin::light_is_free));
    if (object_ == nullptr) by_.give_back();
  }

  Pin by_;
  element_type* object_ = nullptr;  // null: it has no pin
};

}  // namespace counted::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
