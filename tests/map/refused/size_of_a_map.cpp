// SPDX-License-Identifier: Apache-2.0
// The size of a map that threads change.
// refused: call_size_approx_since_threads_change_the_map
#include <spolia/map/abtree.hpp>

bool is_long(const spolia::abtree<int, int>& all) {
#if defined(REFUSED)
  return all.size() > 1000;
#else
  return all.size_approx() > 1000;
#endif
}
