// SPDX-License-Identifier: Apache-2.0
// As void_pointer.cpp, for a pointer that is there.
#include <spolia/memory.hpp>

#include <cstdlib>

int main() {
  spolia::shared_ptr<const void> p;
  const void* const block = std::malloc(8);
#if defined(REFUSED)
  p.reset(block);
#else
  p.reset(block, [](const void* at) { std::free(const_cast<void*>(at)); });
#endif
}
