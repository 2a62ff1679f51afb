// SPDX-License-Identifier: Apache-2.0
// life.hpp: whether an object is still there, for what refers to it and might outlive it. In the
// checked build variant only: in the others it is always there, and nothing is kept.
//
//     life alive;                                   // the last member of the object
//     life::witness of(object.alive);               // in what refers to it
//     if (!of.expects("a range is used whose map has ended")) return ...;
//
// Cost: in the checked variant a block for each object, and a count for each witness.
// Errors: none; an object for whose block there was no memory is not looked after.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

#if SPOLIA_CHECKS && !defined(SPOLIA_MODEL)

class life {
  /// From malloc and not from operator new: it is no allocation of the user's that may fail.
  struct note {
    atomic<std::uint32_t> holders{1};
    atomic<bool> ended{false};
  };
  class holder {
   public:
    holder() = default;
    explicit holder(note* n) noexcept : note_(n) {}
    // relaxed: the one that it is copied from holds the note.
    holder(const holder& from) noexcept : note_(from.note_) {
      if (note_ != nullptr) note_->holders.fetch_add_relaxed(1);
    }
    holder(holder&& from) noexcept : note_(std::exchange(from.note_, nullptr)) {}
    holder& operator=(holder from) noexcept {
      std::swap(note_, from.note_);
      return *this;
    }
    ~holder() {
      // acq_rel ↔ itself: the last one frees the note after all others have used it.
      if (note_ != nullptr && note_->holders.fetch_sub_acq_rel(1) == 1) std::free(note_);
    }
    note* operator->() const noexcept { return note_; }
    explicit operator bool() const noexcept { return note_ != nullptr; }

   private:
    note* note_ = nullptr;
  };

 public:
  class witness {
   public:
    witness() = default;
    explicit witness(const life& of) noexcept : of_(of.mine_) {}
    /// True if it is still there, or there is none; else says `what` is wrong.
    [[nodiscard]] bool expects(const char* what) const noexcept {
      // relaxed: a thread that may use the object knows by itself that it has not ended.
      if (!of_ || !of_->ended.load_relaxed()) [[likely]]
        return true;
      misuse::report(what, threads::number());
      return false;
    }

   private:
    holder of_;
  };

  life() noexcept {
    if (void* const room = std::malloc(sizeof(note))) mine_ = holder(::new (room) note);
  }
  life(const life&) = delete;
  life& operator=(const life&) = delete;
  ~life() {
    if (mine_) mine_->ended.store_relaxed(true);
  }

 private:
  holder mine_;  // null: there was no memory
};

#else

class life {
 public:
  struct witness {
    constexpr witness() noexcept = default;
    constexpr explicit witness(const life&) noexcept {}
    [[nodiscard]] static constexpr bool expects(const char*) noexcept { return true; }
  };
};

#endif

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
