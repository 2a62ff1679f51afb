// SPDX-License-Identifier: Apache-2.0
// Linked into each test that the thread sanitizer watches. It keeps a record of each block of
// memory, and of each atomic that synchronises, in tables that grow under locks which it does not
// take before a fork: a child whose parent had another thread in there waits forever once it needs
// a record. So before a process forks for the first time its tables grow by more records than a
// test needs.
#include <pthread.h>

#include <atomic>
#include <memory>
#include <vector>

namespace {

struct recorded {
  std::atomic<int> word{0};
};

void make_room() {
  static std::atomic<bool> made{false};
  if (made.exchange(true, std::memory_order_relaxed)) return;
  constexpr int blocks = 1 << 16, that_synchronise = 1 << 13;
  std::vector<std::unique_ptr<recorded>> all;
  all.reserve(blocks);
  for (int i = 0; i < blocks; ++i) {
    all.push_back(std::make_unique<recorded>());
    if (i < that_synchronise) all.back()->word.store(1, std::memory_order_release);
  }
}

// Called before the sanitizer's own, which was registered earlier.
const int registered = pthread_atfork(make_room, nullptr, nullptr);

}  // namespace
