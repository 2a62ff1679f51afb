// SPDX-License-Identifier: Apache-2.0
// A value by brackets, as containers of one thread give it.
// refused: call_find_to_read_and_insert_or_assign_to_write
#include <spolia/map/counted_hash.hpp>

void count(spolia::counted_hash<int, int>& seen, int what) {
#if defined(REFUSED)
  seen[what] = 1;
#else
  seen.insert_or_assign(what, 1);
#endif
}
