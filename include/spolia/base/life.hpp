// SPDX-License-Identifier: Apache-2.0
// life.hpp: whether an object is still there, for what refers to it and might outlive it. In the
// checked build variant only: in the others it is always there, and nothing is kept.
//
//     life alive;                                   // the last member of the object
//     life::witness of(object.alive);               // in what refers to it
//     if (!of.expects("a range is used whose map has ended")) return ...;
//
// Cost: in the checked variant a block for each object, and a count for each witness.
// Errors: the constructor throws std::bad_alloc there.
#pragma once

#include <memory>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

#if SPOLIA_CHECKS && !defined(SPOLIA_MODEL)

class life {
  using flag = atomic<bool>;

 public:
  class witness {
   public:
    witness() = default;
    explicit witness(const life& of) noexcept : ended_(of.ended_) {}
    /// True if it is still there, or there is none; else says `what` is wrong.
    [[nodiscard]] bool expects(const char* what) const noexcept {
      // relaxed: a thread that may use the object knows by itself that it has not ended.
      if (ended_ == nullptr || !ended_->load_relaxed()) [[likely]]
        return true;
      misuse::report(what, threads::number());
      return false;
    }

   private:
    std::shared_ptr<const flag> ended_;
  };

  life() : ended_(std::make_shared<flag>(false)) {}
  life(const life&) = delete;
  life& operator=(const life&) = delete;
  ~life() { ended_->store_relaxed(true); }

 private:
  std::shared_ptr<flag> ended_;
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
