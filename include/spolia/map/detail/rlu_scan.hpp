// SPDX-License-Identifier: Apache-2.0
// rlu_scan.hpp: what the maps over read-log-update do alike: they show a user's function what one
// section has copied, after that section; and count what a section has changed.
#pragma once

#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/map/detail/rlu_chain.hpp>
#include <spolia/map/detail/size_counter.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// collect(copies) fills a vector; then f(key, value) for each; f returns nothing, or false to
/// stop.
template <class Key, class Value, class F, class Collect>
void show_copies(F& f, Collect&& collect) {
  std::vector<rlu_entry<Key, Value>> copies;
  collect(copies);
  for (const auto& e : copies) {
    if (!shown_to(f, e.key, e.value)) return;
  }
}

/// Counts a change if the section commits, and says whether it is the one that was wanted. Of a
/// doomed section too: inside another one the caller would else try again forever.
template <class Writer>
bool is_done(Writer& in, rlu_change done, rlu_change wanted, size_counter& size) {
  if (done == rlu_change::added) in.count(size.here().added);
  if (done == rlu_change::removed) in.count(size.here().removed);
  return done == wanted || done == rlu_change::doomed;
}
template <class... Seen>
inline constexpr rlu_change wanted_by =
    sizeof...(Seen) != 0 ? rlu_change::replaced : rlu_change::added;

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
