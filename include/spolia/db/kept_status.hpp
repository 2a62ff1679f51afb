// SPDX-License-Identifier: Apache-2.0
// kept_status.hpp: an outcome whose reason is the same each time. Internal.
//
// Cost:        the reason is put into words when it is wanted first, and every later status shares
//              it: a program that is refused again and again allocates nothing.
// Without memory for the words, a status has the outcome alone.
#pragma once

#include <concepts>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/result.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class kept_status {
 public:
  kept_status() = default;
  kept_status(const kept_status&) = delete;
  kept_status& operator=(const kept_status&) = delete;
  ~kept_status() { delete made_.load_relaxed(); }

  /// `in_words` returns the reason, the same each time.
  template <std::invocable Words>
  [[nodiscard]] status get(outcome o, Words&& in_words) noexcept {
    // acquire ← the release below: the status.
    const status* there = made_.load_acquire();
    if (there != nullptr) return *there;
    try {
      const status* const fresh = new status(o, std::forward<Words>(in_words)());
      // release → the acquires here and above: the status.
      if (made_.cas_strong_acq_rel(there, fresh)) return *fresh;
      delete fresh;
      return *there;
    } catch (const std::bad_alloc&) {
      return o;
    }
  }

 private:
  atomic<const status*> made_{nullptr};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
