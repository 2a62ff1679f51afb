// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string_view>

#include <spolia/map.hpp>
#include <spolia/version.hpp>

int main() {
  spolia::abtree<int, int> squares;
  for (int i = 0; i < 1000; ++i) squares.insert(i, i * i);
  const bool good =
      squares.find(31) == 961 && std::string_view(SPOLIA_VERSION_STRING) == spolia::core::version();
  std::printf("Spolia %s: %s\n", spolia::core::version(), good ? "works" : "WRONG");
  return good ? 0 : 1;
}
