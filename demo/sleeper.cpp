// SPDX-License-Identifier: Apache-2.0
// sleeper.cpp: a million nodes are replaced beside a reader that sleeps while it reads. How much
// memory grows depends on the scheme alone; the code is the same.
#include <algorithm>
#include <array>
#include <cstdint>
#include <semaphore>
#include <string>
#include <thread>

#include <spolia/reclaim.hpp>

#include "demo.hpp"

namespace demo {

void sleep_beside_liburcu(record& to);

namespace {

constexpr int replacements = 1'000'000;

/// Returns the result in one line.
template <class Scheme>
std::string sleep_beside_replacements(record& to, const std::string& curve) {
  using domain = spolia::domain<Scheme>;
  struct node : domain::header {
    explicit node(int n) { payload.fill(static_cast<char>(n)); }
    std::array<char, 104> payload;
  };
  const double before = resident_after_trim();
  domain nodes;
  spolia::atomic<node*> current{nodes.template make<node>(0)};
  std::binary_semaphore asleep{0};
  std::binary_semaphore wake{0};
  std::thread reader([&] {
    auto guard = nodes.enter("the sleeping reader");
    const auto seen = guard.protect(current);
    const char first = seen->payload.front();
    asleep.release();
    wake.acquire();
    to.check(seen->payload.front() == first && seen->payload.back() == first,
             curve + ": the node that the reader sleeps on is still as it was");
  });
  asleep.acquire();

  double most = 0;
  for (int n = 1; n <= replacements; ++n) {
    {
      auto guard = nodes.enter();
      // acq_rel: release → the acquire in protect(), which sees the payload; acquire ← the release
      // of the replacement before, for the destructor.
      guard.retire(current.exchange_acq_rel(nodes.template make<node>(n)));
    }
    if (n % 20'000 == 0) {
      const double grown = std::max(resident() - before, 0.0);
      most = std::max(most, grown);
      to.point(curve, n / 1e6, grown);
    }
  }
  std::string held = "an unnamed reader";
  for (const spolia::pin& p : nodes.pins()) held = p.label != nullptr ? p.label : held;
  const auto waiting = static_cast<unsigned long long>(nodes.garbage());
  std::string result;
  if (const auto bound = nodes.garbage_bound(2)) {
    const double megabytes = static_cast<double>(*bound * sizeof(node)) / 1e6;
    to.bound(curve, megabytes);
    to.check(waiting <= *bound, say("%s: %llu nodes wait; the bound is %llu", curve.c_str(),
                                    waiting, static_cast<unsigned long long>(*bound)));
    to.check(
        most <= megabytes + slack_megabytes,
        say("%s: the process took %.1f MB more; %.1f MB of nodes may wait, and the check allows "
            "%.0f MB for stacks, code and the allocator",
            curve.c_str(), most, megabytes, slack_megabytes));
    result = say("%s %.1f MB (of nodes at most %.1f)", Scheme::info.name.data(), most, megabytes);
  } else {
    to.note(say("%s states no bound: %llu nodes wait, %.0f MB, held up by '%s'", curve.c_str(),
                waiting, most, held.c_str()));
    result = say("%s %.0f MB (no bound)", Scheme::info.name.data(), most);
  }
  wake.release();
  reader.join();
  nodes.destroy(current.exchange_acq_rel(nullptr));
  to.check(nodes.drain(), curve + ": every node is freed once the reader has woken up");
  return result;
}

}  // namespace

void sleeping_reader(record& to) {
  std::string all = sleep_beside_replacements<spolia::robust_token>(to, "robust_token (default)");
  all += ", " + sleep_beside_replacements<spolia::hazard_pointers>(to, "hazard_pointers");
  all += ", " + sleep_beside_replacements<spolia::token>(to, "token");
  if constexpr (SPOLIA_DEMO_LIBURCU != 0) sleep_beside_liburcu(to);
  to.in_short(all);
}

}  // namespace demo
