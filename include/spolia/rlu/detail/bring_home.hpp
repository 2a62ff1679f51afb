// SPDX-License-Identifier: Apache-2.0
// bring_home.hpp: what is done to an object that ends: its newest version goes to the master.
#pragma once

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/rlu/detail/commit_word.hpp>
#include <spolia/rlu/object.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu::detail {

/// Brings the newest version of an object home that no section can reach: then the master is all
/// there is of it. `lost`: a fork has left locks behind, and copies that will never be committed.
template <class Clock>
void bring_home(object& o, Clock& clock, bool lost) noexcept {
  for (backoff busy; !o.try_collect() && !(lost && o.try_take_from_lost());) busy.pause();
  record* const first = o.newest.load_relaxed();
  record* newest = first;
  if (lost) {
    while (newest != nullptr && since_of(*newest, clock, 0) == not_yet) {
      newest = newest->older.load_relaxed();
    }
  }
  if (newest != nullptr) newest->how->write_back(o, *newest);
  o.newest.store_relaxed(nullptr);
  for (record* r = first; r != nullptr;) {
    record* const older = r->older.load_relaxed();
    if (is_unended(r->ended.load_relaxed())) r->ended.store_relaxed(0);  // nobody finds it
    // → the acquire in the collector's examine, which comes before it looks at `ended`. It may take
    // the copy away at once.
    r->state.store_release(record_state::unlinked);
    r = older;
  }
  o.end_collect();
}

}  // namespace rlu::detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
