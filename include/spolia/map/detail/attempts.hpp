// SPDX-License-Identifier: Apache-2.0
// attempts.hpp: operations of containers with locks: try, and where another thread holds a lock,
// let go of everything and try again.
#pragma once

#include <cstdint>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

enum class outcome : std::uint8_t {
  done,
  changed,  // the structure is not as it was found: try again
  busy,     // a lock is held: its thread has to get on first
};

/// Runs attempt(guard) until it is done. While this thread waits for another one's lock it is
/// outside of guards, and keeps nothing from being freed.
template <class Domain, class Attempt>
void until_done(Domain& home, Attempt attempt) {
  for (backoff pause;;) {
    outcome o = outcome::changed;
    {
      auto g = home.enter();
      while (o == outcome::changed) o = attempt(g);
    }
    if (o == outcome::done) return;
    pause.pause();
  }
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
