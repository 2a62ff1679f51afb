// SPDX-License-Identifier: Apache-2.0
// What an object owns is a number of bytes.
// refused: owned_bytes() must be
#include <spolia/memory.hpp>

#include <cstddef>
#include <vector>

struct image {
  std::vector<char> pixels;
#if defined(REFUSED)
  const std::vector<char>& owned_bytes() const noexcept { return pixels; }
#else
  std::size_t owned_bytes() const noexcept { return spolia::weigh(pixels); }
#endif
};

int main() { spolia::atomic_shared_ptr<image> p(spolia::make_shared<image>()); }
