// SPDX-License-Identifier: Apache-2.0
// rlu_cache: in a cache of strings, pairs of keys are set at once, and read at one instant.
#include "rlu_cache.hpp"

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

/// Pairs of keys are set together. A section that reads both sees equal values, unless the cache
/// has dropped one of them to make room.
bool pairs_are_equal() {
  constexpr std::size_t buckets = 64;
  constexpr std::uint32_t most = 8;
  spolia::rlu::domain home;
  example::cache c(home, buckets, most);
  const auto one = [](int i) { return "one " + std::to_string(i); };
  const auto two = [](int i) { return "two " + std::to_string(i); };
  std::vector<std::thread> writers;
  for (int t = 0; t < 2; ++t) {
    writers.emplace_back([&, t] {
      for (int i = 0; i < 10000; ++i) {
        const int key = (i * 7 + t) % 400;
        if (i % 10 == 9) c.erase(one(key));
        c.set_both(one(key), two(key), std::to_string(i));
      }
    });
  }
  bool right = true;
  for (int i = 0; i < 10000; ++i) {
    const auto [a, b] = c.get_both(one(i % 400), two(i % 400));
    right &= !a || !b || *a == *b;
  }
  for (std::thread& t : writers) t.join();
  right &= c.size() <= buckets * most;
  c.set("key", "value");
  c.set("key", "another");
  return right && c.get("key") == "another" && c.erase("key") && !c.get("key") && !c.erase("key");
}

}  // namespace

int main() {
  const bool right = pairs_are_equal();
  std::puts(right ? "pairs were seen whole" : "WRONG");
  return right ? 0 : 1;
}
