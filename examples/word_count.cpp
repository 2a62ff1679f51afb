// SPDX-License-Identifier: Apache-2.0
// A map that many threads write to while one looks through it, without a lock.
//
// The threads count words; insert_or_assign replaces a count, and the node that held it before is
// retired. for_each holds no guard while its function runs, so a slow reader keeps no memory back.
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <spolia/map/list.hpp>

namespace {

/// A thread's counts are its own keys: an update of a value from its old one needs one writer a
/// key.
struct word_of {
  std::string word;
  std::size_t thread;
  auto operator<=>(const word_of&) const = default;
};

using counts = spolia::list<word_of, std::size_t>;

void count(counts& map, std::size_t thread, const std::vector<std::string>& text) {
  for (const std::string& word : text) {
    const word_of key{word, thread};
    map.insert_or_assign(key, map.find(key).value_or(0) + 1);
  }
}

}  // namespace

int main() {
  const std::vector<std::string> text{"when",  "may",  "memory", "be",  "used",
                                      "again", "when", "nobody", "may", "look"};
  constexpr std::size_t threads = 4;
  constexpr std::size_t rounds = 2000;
  counts map;
  std::vector<std::thread> writers;
  for (std::size_t t = 0; t < threads; ++t) {
    writers.emplace_back([&, t] {
      for (std::size_t i = 0; i < rounds; ++i) count(map, t, text);
    });
  }
  std::size_t looks = 0;
  bool ascending = true;
  for (; looks < 100; ++looks) {
    std::string last;
    map.for_each([&](const word_of& key, std::size_t) {
      ascending = ascending && last <= key.word;
      last = key.word;
    });
  }
  for (std::thread& w : writers) w.join();

  std::size_t when = 0;
  map.range(word_of{"when", 0}, word_of{"when", threads},
            [&](const word_of&, std::size_t n) { when += n; });
  std::printf("looked through %zu times while counting; \"when\" came %zu times\n", looks, when);
  return ascending && when == 2 * threads * rounds ? 0 : 1;
}
