// SPDX-License-Identifier: Apache-2.0
/// \file
/// A transaction over several maps: what a function reads and changes is done at one instant, or
/// not at all, and the function runs again where another thread came between.
///
///     const auto result = spolia::transact([&](spolia::changes& all) {
///       const long* from = all.find(accounts, "anna");
///       const long* to = all.find(savings, "anna");
///       if (from == nullptr || to == nullptr || *from < 100) return false;    // nothing changes
///       all.insert_or_assign(accounts, "anna", *from - 100);
///       all.insert_or_assign(savings, "anna", *to + 100);
///       return true;
///     });
///     if (!result) ...                            // result.is says why
///
/// Order:       strictly serializable: map/changes.hpp.
/// Function:    gets an empty batch. All that it reads through that is of one instant, in each run
///              of another one; what it reads otherwise is not asked for again. It may run several
///              times, and so has no other effects. It returns nothing, or false: nothing is to
///              change, and what it has read was so at one instant. What it throws passes through,
///              and nothing has changed.
/// Budget:      a batch that was undone, or whose reads are out of date, counts as one retry. There
///              are 256 unless you say otherwise, with pauses that grow: some milliseconds. What
///              `expect` and its like say is an answer, and not tried again.
/// Progress:    no thread waits for another, and a thread that stops half-way keeps no other from
///              going on. A transaction may fail while others keep changing what it has read: then
///              result.is is outdated or disturbed, and nothing has changed.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/map/changes.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

inline constexpr std::uint32_t usual_retries = 256;

template <std::invocable<changes&> F>
commit_result transact(F&& f, std::uint32_t retries = usual_retries) {
  changes all;
  backoff pause;
  for (std::uint32_t used = 0;; ++used, pause.pause()) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, changes&>>) {
      f(all);
    } else {
      if (!f(all)) return {.is = commit_result::outcome::declined, .retries = used};
    }
    commit_result result = all.commit(retries - used);
    used += result.retries;
    result.retries = used;
    if (result.is != commit_result::outcome::outdated || used == retries) return result;
    all.clear();  // `f` may name nothing this time
  }
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
