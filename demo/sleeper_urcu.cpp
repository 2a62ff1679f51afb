// SPDX-License-Identifier: Apache-2.0
// sleeper_urcu.cpp: the same replacements beside a sleeping reader of liburcu, where that is
// installed. Like other libraries with epochs or grace periods, it frees nothing while the reader
// sleeps.
#include <urcu/urcu-memb.h>

#include <algorithm>
#include <array>
#include <semaphore>
#include <string>
#include <thread>

#include <spolia/base/atomic.hpp>

#include "demo.hpp"

namespace demo {
namespace {

constexpr int replacements = 1'000'000;

struct node {
  explicit node(int n) { payload.fill(static_cast<char>(n)); }
  std::array<char, 104> payload;
  rcu_head head{};  // what call_rcu links, as the header of a domain does
};

void free_node(rcu_head* h) { delete caa_container_of(h, node, head); }

}  // namespace

void sleep_beside_liburcu(record& to) {
  const std::string curve = "liburcu";
  const double before = resident_after_trim();
  spolia::atomic<node*> current{new node(0)};
  std::binary_semaphore asleep{0};
  std::binary_semaphore wake{0};
  std::thread reader([&] {
    urcu_memb_register_thread();
    urcu_memb_read_lock();
    // acquire ← the release that published the node: its payload is seen.
    const node* const seen = current.load_acquire();
    const char first = seen->payload.front();
    asleep.release();
    wake.acquire();
    to.check(seen->payload.back() == first, curve + ": the node is still as it was");
    urcu_memb_read_unlock();
    urcu_memb_unregister_thread();
  });
  asleep.acquire();
  urcu_memb_register_thread();
  double most = 0;
  for (int n = 1; n <= replacements; ++n) {
    // acq_rel: release → the reader's acquire; acquire ← the release of the replacement before.
    node* const old = current.exchange_acq_rel(new node(n));
    urcu_memb_call_rcu(&old->head, &free_node);
    if (n % 20'000 == 0) {
      const double grown = std::max(resident() - before, 0.0);
      most = std::max(most, grown);
      to.point(curve, n / 1e6, grown);
    }
  }
  to.note(say("%s: %.0f MB more; it states no bound", curve.c_str(), most));
  urcu_memb_unregister_thread();
  wake.release();
  reader.join();
  urcu_memb_barrier();
  delete current.load_relaxed();
}

}  // namespace demo
