// SPDX-License-Identifier: Apache-2.0
// kept_status.hpp: an outcome whose reason is the same each time, until what it is about gets
// another name. Internal.
//
// Cost:        the reason is put into words when it is wanted first, and every later status shares
//              it: a program that is refused again and again allocates nothing.
// Without memory for the words, a status has the outcome alone.
#pragma once

#include <concepts>
#include <memory>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
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
  ~kept_status() {
    for (const one* o = made_.load_relaxed(); o != nullptr;) delete std::exchange(o, o->before);
  }

  /// `in_words` returns the reason, the same each time for the same `about`: what is kept of former
  /// ones stays as long as this does.
  template <std::invocable Words>
  [[nodiscard]] status get(outcome o, Words&& in_words, const void* about = nullptr) noexcept {
    // acquire ← the release below: the status, and those before it.
    const one* there = made_.load_acquire();
    if (there != nullptr && there->about == about) [[likely]]
      return there->what;
    return make(o, std::forward<Words>(in_words), about);
  }

 private:
  struct one {
    status what;
    const void* about;
    const one* before;
  };

  template <class Words>
  SPOLIA_NOINLINE status make(outcome o, Words&& in_words, const void* about) noexcept {
    try {
      // acquire ← the release below, as in get().
      auto fresh = std::make_unique<one>(
          one{status(o, std::forward<Words>(in_words)()), about, made_.load_acquire()});
      // release → the acquires here and in get(): the status.
      while (fresh->before == nullptr || fresh->before->about != about) {
        if (made_.cas_weak_acq_rel(fresh->before, fresh.get())) return fresh.release()->what;
      }
      return fresh->before->what;
    } catch (const std::bad_alloc&) {
      return o;
    }
  }

  atomic<const one*> made_{nullptr};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
