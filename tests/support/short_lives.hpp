// SPDX-License-Identifier: Apache-2.0
// Programs that begin a thread for each request: thousands of threads, one after the other, that do
// little each.
#pragma once

#include <array>
#include <thread>

namespace spolia::test {

/// How many updates each thread makes.
inline constexpr std::array<int, 3> updates{1, 8, 40};

/// Threads that call update(i) for each of `each` numbers, one thread after the other.
template <class F>
void live_shortly(int how_many, int each, F&& update) {
  for (int n = 0; n < how_many; ++n) {
    std::thread([&] {
      for (int i = 0; i < each; ++i) update(n * each + i);
    }).join();
  }
}

}  // namespace spolia::test
