// SPDX-License-Identifier: Apache-2.0
// delta_walk.hpp: walks down the chains of several rows, all in step.
//
// Idea:        the versions on the way to an old one are mostly in no cache, so each step of a walk
//              waits for memory. Walks do not depend on each other: so each of them takes one step,
//              the next version of each is prefetched, and then each takes the next step.
// Cost:        as the walks one by one, and 24 bytes on the stack for each.
// Threads:     as for a walk alone: the caller has a guard where the storage needs one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/db/delta.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// How many walks are in step: the caches have room for what so many prefetch.
#if defined(SPOLIA_MODEL)
inline constexpr std::size_t walks_together = 2;
#else
inline constexpr std::size_t walks_together = 128;
#endif

/// Prefetches the version's head, and the first lines of these words; each line once, since each
/// prefetch may need a page walk.
inline void fetch_version(const version* v, version_words reads) noexcept {
  constexpr std::uintptr_t line = 64;  // of most processors
  constexpr std::uintptr_t most = 8;
  const std::uintptr_t head = reinterpret_cast<std::uintptr_t>(v) / line;
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(v->words() + reads.first) / line;
  const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(v->words() + reads.end - 1) / line;
  __builtin_prefetch(v);
  for (std::uintptr_t i = (std::max)(first, head + 1); i <= (std::min)(last, first + most); ++i) {
    __builtin_prefetch(reinterpret_cast<const void*>(i * line));
  }
}

/// The position of a walk, or where it has ended. Trivial: in arrays of them, few may be used.
struct walk_place {
  const version* at;     ///< the version that was looked for; null: the walk did not get there
  std::uint64_t handle;  ///< the handle of `at`; or of a version that was not read (a dead link); 0
  std::uint64_t length;  ///< versions looked at
};

/// Those rows, of some that are looked for together, whose chains are to be walked down.
struct walks_left {
  void add(const old_row& row, std::size_t i) noexcept {
    rows[count] = row;
    which[count++] = i;
  }
  [[nodiscard]] std::span<const old_row> all() const noexcept {
    return std::span(rows).first(count);
  }
  std::size_t count = 0;
  std::array<old_row, walks_together> rows;
  std::array<std::size_t, walks_together> which;  // their numbers among all
  std::array<walk_place, walks_together> places;
};

/// Walks down the chains of these rows. Each walk ends at the newest version of its row that is not
/// after `time`, or when it has looked at `most` versions. `at(handle)` is the version that a
/// handle leads to; null: the link is dead. The versions that were found are prefetched, with the
/// words that will be read. Precondition: walks_together rows at most, and as many places.
template <class At>
void walk_together(std::span<const old_row> rows, std::uint64_t time, version_words reads,
                   std::span<walk_place> places, At&& at,
                   std::uint64_t most = ~std::uint64_t{0}) noexcept {
  std::array<std::uint8_t, walks_together> going;
  std::size_t left = 0;
  const auto go = [&](std::size_t i, std::uint64_t handle) {
    walk_place& p = places[i];
    p.handle = handle;
    p.at = handle == 0 || p.length == most ? nullptr : at(handle);
    if (p.at == nullptr) return;
    __builtin_prefetch(p.at);
    going[left++] = static_cast<std::uint8_t>(i);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    places[i].length = 0;
    // acquire ← the release in install(): the version is filled.
    go(i, rows[i].chain->load_acquire());
  }
  while (left != 0) {
    const std::size_t count = left;
    left = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t i = going[n];
      ++places[i].length;
      if (places[i].at->since.read() <= time) {
        fetch_version(places[i].at, reads);
      } else {
        // relaxed: the version that it leads to was there before this version was.
        go(i, places[i].at->older.load_relaxed());
      }
    }
  }
}

/// delta::visit() for rows whose versions are whole, in a storage whose links are never dead where
/// readers go.
template <class At>
void visit_together(std::span<const old_row> rows, std::uint64_t time, chain_lengths& lengths,
                    At&& at, version_taker& take) {
  std::array<walk_place, walks_together> places;
  std::array<const version*, walks_together> found;
  chain_lengths::some walked;
  for (std::size_t first = 0; first < rows.size(); first += walks_together) {
    const auto some = rows.subspan(first, (std::min)(walks_together, rows.size() - first));
    walk_together(some, time, take.reads(), places, at);
    for (std::size_t i = 0; i < some.size(); ++i) {
      walked.add(places[i].length);
      found[i] = places[i].at;
    }
    take.take(first, std::span(found).first(some.size()));
  }
  lengths.add(walked);
}

/// delta::fetch() for such a storage.
template <class At>
void fetch_together(std::span<const old_row> rows, std::uint64_t time, At&& at) noexcept {
  std::array<walk_place, walks_together> places;
  walk_together(rows.first((std::min)(walks_together, rows.size())), time, {}, places, at);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
