// SPDX-License-Identifier: Apache-2.0
// A pair emplaced.
// refused: call_insert_or_insert_or_assign_with_a_key_and_a_value
#include <spolia/map/rlu_list.hpp>

void add(spolia::rlu_list<int, int>& all, int key) {
#if defined(REFUSED)
  all.emplace(key, 1);
#else
  all.insert(key, 1);
#endif
}
