// SPDX-License-Identifier: Apache-2.0
// Sessions walk versions that others may have unlinked.
// refused: region_domain does
#include <spolia/reclaim.hpp>
#include <spolia/version/sl_rt.hpp>

void use(spolia::domain<>& bounded, spolia::region_domain& nodes, spolia::timeline& time) {
#if defined(REFUSED)
  spolia::sl_rt<spolia::domain<>> versions(bounded, time);
#else
  static_cast<void>(bounded);
  spolia::sl_rt<> versions(nodes, time);
#endif
}
