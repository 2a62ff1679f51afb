// SPDX-License-Identifier: Apache-2.0
// An object is weighed where nothing may throw. What is not noexcept would be passed over.
// refused: owned_bytes() must be
#include <spolia/memory.hpp>

#include <cstddef>
#include <vector>

struct image {
  std::vector<char> pixels;
#if defined(REFUSED)
  std::size_t owned_bytes() const { return spolia::weigh(pixels); }
#else
  std::size_t owned_bytes() const noexcept { return spolia::weigh(pixels); }
#endif
};

int main() { spolia::atomic_shared_ptr<image> p(spolia::make_shared<image>()); }
