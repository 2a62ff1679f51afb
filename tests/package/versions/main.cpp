// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

extern "C" const void* first_version();
extern "C" const void* second_version();

int main() {
  const void* const first = first_version();
  const void* const second = second_version();
  const bool good = first != nullptr && second != nullptr && first != second;
  std::printf("each talks to its own: %s\n", good ? "yes" : "NO");
  return good ? 0 : 1;
}
