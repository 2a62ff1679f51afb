// SPDX-License-Identifier: Apache-2.0
// A function of a range that returns a number, which would not stop it.
// refused: return false to stop, true to go on, or nothing
#include <spolia/map/abtree.hpp>

int first_from(const spolia::abtree<int, int>& ages, int from) {
  int first = 0;
  ages.range(from, from + 100, [&](const int& age, const int&) {
    first = age;
#if defined(REFUSED)
    return 0;
#else
    return false;
#endif
  });
  return first;
}
