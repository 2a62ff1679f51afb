// SPDX-License-Identifier: Apache-2.0
// A look-up with a key of another type, by a comparison that takes its own only.
// refused: this map finds keys of its own type only
#include <string>
#include <string_view>

#include <spolia/map/abtree.hpp>

bool knows(const spolia::abtree<std::string, int>& ages, std::string_view name) {
#if defined(REFUSED)
  return ages.contains(name);
#else
  return ages.contains(std::string(name));
#endif
}
