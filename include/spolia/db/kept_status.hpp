// SPDX-License-Identifier: Apache-2.0
// kept_status.hpp: an outcome whose reason stays the same until the thing that it names is renamed.
// Internal.
//
// Cost:        the reason is put into words when it is wanted first, and every later status shares
//              it: a program that is refused again and again allocates nothing.
// Without memory for the words, a status has the outcome alone.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/db/result.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// Without memory for the words, the outcome alone.
template <std::invocable Words>
[[nodiscard]] status said(outcome o, Words&& in_words) noexcept {
  try {
    return {o, std::forward<Words>(in_words)()};
  } catch (const std::bad_alloc&) {
    return o;
  }
}

class kept_status {
 public:
  kept_status() = default;
  kept_status(const kept_status&) = delete;
  kept_status& operator=(const kept_status&) = delete;
  ~kept_status() { delete first_.load_relaxed(); }

  /// `in_words` returns the reason, the same each time for the same `about`, which counts how often
  /// that has changed. The first reason is read without a lock. Of the others the last is kept: a
  /// table may be renamed any number of times.
  template <std::invocable Words>
  [[nodiscard]] status get(outcome o, Words&& in_words, std::uint32_t about = 0) noexcept {
    if (about != 0) [[unlikely]]
      return later(o, std::forward<Words>(in_words), about);
    // acquire ← the release in make(): the status.
    if (const status* const there = first_.load_acquire()) [[likely]]
      return *there;
    return make(o, std::forward<Words>(in_words));
  }

 private:
  template <class Words>
  SPOLIA_NOINLINE status make(outcome o, Words&& in_words) noexcept {
    try {
      auto fresh = std::make_unique<const status>(o, std::forward<Words>(in_words)());
      const status* there = nullptr;
      // acq_rel → the acquires here and in get(): the status.
      if (first_.cas_strong_acq_rel(there, fresh.get())) return *fresh.release();
      return *there;
    } catch (const std::bad_alloc&) {
      return o;
    }
  }

  template <class Words>
  SPOLIA_NOINLINE status later(outcome o, Words&& in_words, std::uint32_t about) noexcept {
    {
      const std::lock_guard hold(lock_);
      if (about_ == about) return last_;
    }
    status fresh = said(o, std::forward<Words>(in_words));
    status before = fresh;  // goes when the lock has been given back
    const std::lock_guard hold(lock_);
    std::swap(last_, before);
    about_ = about;
    return fresh;
  }

  atomic<const status*> first_{nullptr};
  spolia::detail::short_lock lock_;
  std::uint32_t about_ = 0;  // 0: there is no last_ yet
  status last_{};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
