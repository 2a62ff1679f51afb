// SPDX-License-Identifier: Apache-2.0
// Many threads write to a map while one reads through it, without a lock.
//
// Several threads count the same words: upsert changes a count from its old value, or puts the
// first one in, and none is lost. The node that held the old count is retired. for_each holds no
// guard while its function runs, so a slow reader keeps no memory back.
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <spolia/map/list.hpp>

namespace {

using counts = spolia::list<std::string, std::size_t>;

void count(counts& map, const std::vector<std::string>& text) {
  for (const std::string& word : text) {
    map.upsert(word, [](std::size_t& n) { ++n; }, 1U);
  }
}

}  // namespace

int main() {
  const std::vector<std::string> text{"when",  "may",  "memory", "be",  "used",
                                      "again", "when", "never",  "may", "look"};
  constexpr std::size_t threads = 4;
  constexpr std::size_t rounds = 2000;
  counts map;
  std::vector<std::thread> writers;
  for (std::size_t t = 0; t < threads; ++t) {
    writers.emplace_back([&] {
      for (std::size_t i = 0; i < rounds; ++i) count(map, text);
    });
  }
  std::size_t looks = 0;
  bool ascending = true;
  for (; looks < 100; ++looks) {
    std::string last;
    map.for_each([&](const std::string& word, std::size_t) {
      ascending = ascending && last <= word;
      last = word;
    });
  }
  for (std::thread& w : writers) w.join();

  const std::size_t when = map.find("when").value_or(0);
  std::printf("read through %zu times while counting; \"when\" came %zu times\n", looks, when);
  return ascending && when == 2 * threads * rounds ? 0 : 1;
}
