// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>

#include <spolia/version.hpp>

int main() {
  const char* const library = spolia::core::version();
  std::printf("over %s: headers %s, library %s\n", OVER, SPOLIA_VERSION_STRING, library);
  return std::strcmp(library, SPOLIA_VERSION_STRING) == 0 ? 0 : 1;
}
