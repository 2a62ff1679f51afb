// SPDX-License-Identifier: Apache-2.0
// A plugin with a static copy of the library, compiled without further options. Its program exports
// the library's symbols, so it uses the program's copy.
#include <spolia/reclaim.hpp>

namespace {
struct block : spolia::domain<>::header {};
}  // namespace

extern "C" void use_domain(spolia::domain<>& d) {
  {
    auto guard = d.enter();
    guard.retire(d.make<block>());
  }
  while (!d.drain()) continue;
}
