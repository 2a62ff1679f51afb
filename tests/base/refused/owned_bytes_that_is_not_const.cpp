// SPDX-License-Identifier: Apache-2.0
// An object is weighed as a constant one.
// refused: owned_bytes() must be
#include <spolia/memory.hpp>

#include <cstddef>
#include <vector>

struct image {
  std::vector<char> pixels;
#if defined(REFUSED)
  std::size_t owned_bytes() noexcept { return spolia::weigh(pixels); }
#else
  std::size_t owned_bytes() const noexcept { return spolia::weigh(pixels); }
#endif
};

int main() { spolia::atomic_thin_ptr<image> p(spolia::make_thin<image>()); }
