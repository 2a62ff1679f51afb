// SPDX-License-Identifier: Apache-2.0
// rlu_scan.hpp: shows a user's function what one section has copied, after that section.
#pragma once

#include <vector>

#include <spolia/base/config.hpp>
#include <spolia/base/shown_to.hpp>
#include <spolia/map/detail/rlu_chain.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// collect(copies) fills a vector; then f(key, value) for each; f returns nothing, or false to
/// stop.
template <class Key, class Value, class F, class Collect>
void show_copies(F& f, Collect&& collect) {
  std::vector<rlu_entry<Key, Value>> copies;
  collect(copies);
  for (const auto& [key, value] : copies) {
    if (!shown_to(f, key, value)) return;
  }
}

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
