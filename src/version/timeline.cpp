// SPDX-License-Identifier: Apache-2.0
// timeline.cpp: the default timeline of this copy of the library. other_flavour.cpp has the other
// build variant's.
#include <spolia/version/timeline.hpp>

#include <spolia/base/made_once.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

constinit atomic<timeline*> the_default_timeline{nullptr};

timeline& make_default_timeline() {
  static constinit made_once<timeline> it;
  timeline& made = it.get();
  // release → the acquire in default_timeline(). Several threads may store it: it is the same.
  the_default_timeline.store_release(&made);
  return made;
}

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR
