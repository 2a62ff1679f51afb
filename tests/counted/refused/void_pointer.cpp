// SPDX-License-Identifier: Apache-2.0
// A void* has no destructor to run: it needs a deleter.
#include <spolia/memory.hpp>

#include <cstdlib>

int main() {
  void* const block = std::malloc(8);
#if defined(REFUSED)
  spolia::shared_ptr<void> p(block);
#else
  spolia::shared_ptr<void> p(block, std::free);
#endif
}
