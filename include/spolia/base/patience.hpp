// SPDX-License-Identifier: Apache-2.0
/// \file
/// How to wait for another thread that may take long: spin, then yield, then sleep.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// For one wait. Costs the waiting thread no processor once the other one has taken a millisecond
/// or so, and is never late by more than that.
class patience {
 public:
  void pause() noexcept {
#if defined(SPOLIA_MODEL)
    model::spin_wait();
#else
    if (++pauses_ < awake) return spin_.pause();
    std::this_thread::sleep_for(nap_);
    nap_ = std::min(2 * nap_, longest_nap);
#endif
  }

 private:
#if !defined(SPOLIA_MODEL)
  static constexpr std::uint32_t awake = 200;
  static constexpr std::chrono::microseconds longest_nap{1000};
  std::uint32_t pauses_ = 0;
  std::chrono::microseconds nap_{20};
  backoff spin_;
#endif
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
