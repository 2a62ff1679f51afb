// SPDX-License-Identifier: Apache-2.0
// What walks through removed blocks says that it needs regions: the default domain has none.
// refused: region_domain does
#include <spolia/map/avl.hpp>
#include <spolia/reclaim.hpp>

void use() {
#if defined(REFUSED)
  spolia::avl<int, int, spolia::domain<>> map;
#else
  spolia::avl<int, int> map;
#endif
  map.insert(1, 1);
}
