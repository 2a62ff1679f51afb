// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>

#include "all.hpp"

int main() {
  std::printf("headers %s, library %s\n", SPOLIA_VERSION_STRING, spolia::core::version());
  // Both units must link to one library, of the version whose headers they include.
  if (std::strcmp(SPOLIA_VERSION_STRING, spolia::core::version()) != 0) return 1;
  return version_seen_by_second() == spolia::core::version() ? 0 : 2;
}
