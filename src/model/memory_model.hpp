// SPDX-License-Identifier: Apache-2.0
// The weak memory model: what a load may return, and what each operation makes visible to whom.
// Knows nothing of scheduling; every call is one operation of one thread, in the order of
// execution.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "views.hpp"

namespace spolia::model {

inline bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}
inline bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

// One store. An acquire load of it takes over `seen` and `when`.
struct message {
  std::uint64_t value = 0;
  view_slice seen{};
  clock when{};
};

struct location {
  std::vector<message> stores;
  const void* address = nullptr;

  position newest() const { return static_cast<position>(stores.size() - 1); }
};

// What one thread knows.
struct thread_memory {
  view current;     // what its loads must not be older than
  view acquirable;  // what an acquire fence would add: the views of all messages it has read
  view released;    // what its relaxed stores pass on: its view at its last release fence
  clock now{};
  clock acquirable_clock{};
  clock released_clock{};
  bool has_released = false;
};

class memory_model {
 public:
  // Forgets everything and lets `threads` threads start with what set-up did in view.
  void begin();
  void start_threads(std::uint32_t threads);

  // Fails (returns false) when there is no room for another location.
  bool add_location(const void* address, std::uint64_t initial, std::uint32_t& index);
  location& at(std::uint32_t index) { return locations_[index]; }
  const clock& now(std::uint32_t thread) const { return threads_[thread].now; }

  // The oldest store that a load with this order may return.
  position oldest_visible(std::uint32_t thread, std::uint32_t where, std::memory_order order) const;
  // The thread's next loads of this location return its newest store.
  // Returns false if they would have anyway.
  bool catch_up(std::uint32_t thread, std::uint32_t where);

  std::uint64_t read(std::uint32_t thread, std::uint32_t where, position which,
                     std::memory_order order);
  void write(std::uint32_t thread, std::uint32_t where, std::uint64_t value,
             std::memory_order order);
  // The second half of an RMW, after read() of the newest store with the same order.
  void replace(std::uint32_t thread, std::uint32_t where, std::uint64_t value,
               std::memory_order order);

  void acquire_fence(std::uint32_t thread);
  void release_fence(std::uint32_t thread);
  void full_fence(std::uint32_t thread);
  void light_fence(std::uint32_t thread);
  void heavy_fence(std::uint32_t thread);

 private:
  std::size_t size() const { return whole_groups(used_); }
  message compose(thread_memory& me, std::uint64_t value, std::memory_order order,
                  const message* continued);
  void append(std::uint32_t thread, std::uint32_t where, const message& stored,
              std::memory_order order);

  std::vector<location> locations_ = std::vector<location>(64);
  std::size_t used_ = 0;
  view_pool pool_;
  std::array<thread_memory, max_threads> threads_;
  std::uint32_t thread_count_ = 0;
  view strong_;      // S so far: what seq_cst fences have published, and seq_cst accesses
  view from_light_;  // what happens before some light fence so far; heavy fences see it
  view from_heavy_;  // what happens before some heavy fence so far; light fences see it
  view scratch_;
};

}  // namespace spolia::model
