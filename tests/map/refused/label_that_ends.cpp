// SPDX-License-Identifier: Apache-2.0
// A label that may end before its snapshot does.
// refused: a_label_is_a_literal_since_it_stays_as_long_as_the_snapshot
#include <string>

#include <spolia/snapshot.hpp>

spolia::snapshot now() {
#if defined(REFUSED)
  return spolia::snapshot(std::string("nightly report"));
#else
  return spolia::snapshot("nightly report");
#endif
}
