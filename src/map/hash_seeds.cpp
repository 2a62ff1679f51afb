// SPDX-License-Identifier: Apache-2.0
// hash_seeds.cpp: what seeds are made from. One number is drawn in a process, at the first map; the
// seeds are a sequence from there, of which one does not tell the next without that number.
#include <spolia/map/hash_seeds.hpp>

#include <atomic>
#include <cstdint>
#include <exception>

#include <spolia/base/ticks.hpp>
#include <spolia/map/detail/hash_spread.hpp>

#include "base/entropy.hpp"

namespace spolia::core::inline SPOLIA_OF_VERSION {
namespace {

/// Whether seeds are fixed, and to what.
constinit std::atomic<bool> fixed{false};
constinit std::atomic<std::uint64_t> fixed_seed{0};
constinit std::atomic<std::uint64_t> maps{0};

/// Without a source of random numbers: when the process came here, and where its memory lies.
std::uint64_t drawn() noexcept {
  try {
    return random_bits();
  } catch (const std::exception&) {
    return ticks::read() ^ reinterpret_cast<std::uintptr_t>(&maps);
  }
}

}  // namespace

std::uint64_t next_hash_seed() noexcept {
  // acquire ← the release in fix_hash_seeds(): the seed.
  if (fixed.load(std::memory_order_acquire)) return fixed_seed.load(std::memory_order_relaxed);
  static const std::uint64_t secret = drawn();
  return detail::map::split_mix(secret + maps.fetch_add(1, std::memory_order_relaxed));
}

void fix_hash_seeds(std::uint64_t seed) noexcept {
  fixed_seed.store(seed, std::memory_order_relaxed);
  // release → the acquire in next_hash_seed().
  fixed.store(true, std::memory_order_release);
}

void draw_hash_seeds() noexcept { fixed.store(false, std::memory_order_relaxed); }

}  // namespace spolia::core::inline SPOLIA_OF_VERSION
