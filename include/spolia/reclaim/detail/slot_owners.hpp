// SPDX-License-Identifier: Apache-2.0
// slot_owners.hpp: which slots of a guard belong to protections.
//
// The word lies in the guard's row of slots and not in the guard, so that a protection finds it
// though the guard has been moved, or has ended. A row is free for the next guard when its guard
// and all of that guard's protections are gone: a protection that ends late gives back its own
// slot, never one of another guard.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/concepts.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// Where a block lies; of no size if that is not known, and nowhere if a null pointer was read.
struct block_place {
  const void* begin = nullptr;
  std::size_t bytes = 0;

  bool contains(const void* p) const noexcept {
    const std::less<> before;
    if (begin == nullptr) return false;
    return !before(p, begin) && before(p, static_cast<const char*>(begin) + bytes);
  }
};

class slot_owners {
 public:
  /// Does a guard use the row, or a protection that has outlived its guard?
  bool in_use() const noexcept { return word_ != 0; }
  bool guard_lives() const noexcept { return (word_ & guard_bit) != 0; }

  void guard_begins() noexcept {
    word_ = guard_bit;
#if SPOLIA_CHECKS
    seen_ = {};
#endif
  }
  void guard_ends() noexcept { word_ &= ~guard_bit; }
  void forget() noexcept { word_ = 0; }

  /// The lowest free slot. Throws std::length_error if there is none.
  unsigned take() {
    const std::uint32_t in_use = SPOLIA_FAULT("slots.taken_twice") ? 0 : word_;
    const auto slot = static_cast<unsigned>(std::countr_one(in_use));
    if (slot >= guard_slots) [[unlikely]]
      none_left();
    word_ |= 1U << slot;
    return slot;
  }
  void give_back(unsigned slot) noexcept { word_ &= ~(1U << slot); }

#if SPOLIA_CHECKS
  /// The thread's rows are known to each other.
  void is_after(const slot_owners& first, slot_owners& before) noexcept {
    first_ = &first;
    before.next_ = this;
  }

  void note(unsigned slot, block_place block) noexcept { seen_[slot] = block; }

  /// Reports a source in a block whose protection has ended. It is still named, since its slot has
  /// not been used again: so its memory cannot have become something else.
  void check_source(const void* source) const noexcept {
    if (!has(source, false)) return;
    const slot_owners* row = first_ == nullptr ? this : first_;
    for (; row != nullptr; row = row->next_) {
      if (row->has(source, true)) return;
    }
    misuse::report("a pointer is read from a block that is no longer protected", threads::number());
  }
#endif

 private:
  static constexpr std::uint32_t guard_bit = 1U << guard_slots;

  [[noreturn]] SPOLIA_NOINLINE static void none_left() {
    throw std::length_error("a guard protects 8 blocks at one time: end a protection before");
  }

  std::uint32_t word_ = 0;  // bit i: slot i belongs to a protection; guard_bit: the guard lives
#if SPOLIA_CHECKS
  /// Does p lie in a block that a slot was used for last, and that is protected still, or no more?
  bool has(const void* p, bool still) const noexcept {
    for (unsigned slot = 0; slot < guard_slots; ++slot) {
      if (((word_ >> slot & 1U) != 0) == still && seen_[slot].contains(p)) return true;
    }
    return false;
  }

  std::array<block_place, guard_slots> seen_{};
  const slot_owners* first_ = nullptr;  // null: this is the first
  const slot_owners* next_ = nullptr;
#endif
};

/// A slot of a guard, or none. Belongs to the guard's thread.
class owned_slot {
 public:
  owned_slot() noexcept = default;
  /// Throws std::length_error.
  explicit owned_slot(slot_owners& of) : of_(&of), number_(of.take()) {}
  owned_slot(owned_slot&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), number_(other.number_) {}
  owned_slot& operator=(owned_slot&& other) noexcept {
    if (this != &other) {
      release();
      of_ = std::exchange(other.of_, nullptr);
      number_ = other.number_;
    }
    return *this;
  }
  ~owned_slot() { release(); }

  unsigned number() const noexcept { return number_; }

  /// For the checked variant.
  void note([[maybe_unused]] block_place block) const noexcept {
#if SPOLIA_CHECKS
    of_->note(number_, block);
#endif
  }
  void expect_alive() const noexcept {
    if (SPOLIA_CHECKS && of_ != nullptr && !of_->guard_lives()) {
      misuse::report("a protection is used after its guard has ended", threads::number());
    }
  }

 private:
  void release() noexcept {
    if (of_ != nullptr) of_->give_back(number_);
  }

  slot_owners* of_ = nullptr;
  unsigned number_ = 0;
};

/// Where nothing need be owned, since what was read stays until the guard, or the read phase, ends.
struct no_slot {
  static void expect_alive() noexcept {}
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
