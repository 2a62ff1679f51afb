// SPDX-License-Identifier: Apache-2.0
// snapshot.cpp: one snapshot of two maps is held while writers move money between them.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/map/changes.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>

#include "demo.hpp"

namespace demo {
namespace {

constexpr long accounts = 150'000;
constexpr long each = 1000;
constexpr int writers = 2;
constexpr const char* curve = "memory beyond the two maps";
constexpr double seconds = 2.4;  // after every pair has been changed

using savings = spolia::snapshot_hash<long, long>;
using current_accounts = spolia::snapshot_tree<long, long>;

/// What both maps show at one instant.
struct view {
  std::uint64_t pairs = 0;
  long money = 0;
  std::uint64_t print = 0;  // of every pair
  bool operator==(const view&) const = default;
};

view look(const savings& a, const current_accounts& b, const spolia::snapshot& now) {
  view seen;
  const auto add = [&](long key, long value, std::uint64_t factor) {
    ++seen.pairs;
    seen.money += value;
    seen.print +=
        (static_cast<std::uint64_t>(key) * 2 + 1) * factor * static_cast<std::uint64_t>(value + 1);
  };
  for (const auto& [key, value] : a.all(now)) add(key, value, 0x9E3779B97F4A7C15U);
  for (const auto& [key, value] : b.all(now)) add(key, value, 0xC2B2AE3D27D4EB4FU);
  return seen;
}

/// The most that both maps had retired and not freed at one time, in bytes.
struct most_waiting {
  spolia::atomic<std::uint64_t> bytes{0};

  /// Called by the writers themselves: what waits grows by what they retire, so no rise is missed
  /// while another thread gets no processor.
  void note(const savings& a, const current_accounts& b) {
    const std::uint64_t now =
        a.domain().stats().garbage_bytes() + b.domain().stats().garbage_bytes();
    std::uint64_t most = bytes.load_relaxed();
    while (most < now && !bytes.cas_weak_relaxed(most, now)) {
    }
  }
  [[nodiscard]] double megabytes() const { return static_cast<double>(bytes.load_relaxed()) / 1e6; }
};

/// Moves money between the two accounts of a key; each writer has keys of its own. At first it goes
/// through all of them once: from then on the held snapshot sees an old version of every pair.
void move_money(savings& a, current_accounts& b, long first, const spolia::atomic<bool>& over,
                spolia::atomic<std::uint64_t>& moves, spolia::atomic<int>& been_through,
                most_waiting& waiting) {
  std::uint64_t random = 88172645463325252U + static_cast<std::uint64_t>(first);
  for (long n = 0; !over.load_relaxed(); ++n) {
    random ^= random << 13U;
    random ^= random >> 7U;
    random ^= random << 17U;
    const long of_mine =
        n < accounts / writers ? n : static_cast<long>(random % (accounts / writers));
    const long now = static_cast<long>(random >> 32U) % (2 * each);
    spolia::changes move;
    move.insert_or_assign(a, of_mine * writers + first, now);
    move.insert_or_assign(b, of_mine * writers + first, 2 * each - now);
    move.commit();
    moves.fetch_add_relaxed(1);
    if (n % 64 == 0) waiting.note(a, b);
    if (n == accounts / writers) been_through.fetch_add_relaxed(1);
  }
}

/// What both maps hold, in megabytes: what is current, and what snapshots see beside it.
struct held_by_maps {
  double current = 0;
  double old = 0;

  held_by_maps(savings& a, current_accounts& b) {
    const auto first = a.account();
    const auto second = b.account();
    current = static_cast<double>(first.current_bytes + second.current_bytes) / 1e6;
    old = static_cast<double>(first.needed_bytes + second.needed_bytes) / 1e6;
  }
};

/// How far memory has grown, and how much of that the allocator keeps for later, in megabytes.
struct growth {
  double resident = 0;
  double kept = 0;

  [[nodiscard]] double in_use() const { return resident - kept; }
};

/// Since it was made.
class growth_meter {
 public:
  [[nodiscard]] growth now() const {
    return {std::max(resident() - resident_, 0.0), std::max(kept_by_allocator() - kept_, 0.0)};
  }

 private:
  double resident_ = resident();
  double kept_ = kept_by_allocator();
};

/// What the repeated reads have shown.
struct looks_taken {
  std::uint64_t count = 0;
  bool same = true;   // at the held snapshot
  bool whole = true;  // at each new one
};

void look_again(const savings& a, const current_accounts& b, const spolia::snapshot& held,
                const view& first, looks_taken& looks) {
  looks.same = looks.same && look(a, b, held) == first;
  const spolia::snapshot now("a new one");
  const view fresh = look(a, b, now);
  looks.whole = looks.whole && fresh.money == 2 * accounts * each && fresh.pairs == 2 * accounts;
  ++looks.count;
}

/// In megabytes, beyond what the two maps took before.
struct memory_used {
  growth most;             // the sample with the most resident memory
  double most_in_use = 0;  // of all samples
  double at_full = 0;      // in use when every pair had an old version, and for a while then
  double versions = 0;     // what batches keep beside the current pairs, and an old version of each
                           // pair for each of the two snapshots that are alive during a look
  double waiting = 0;      // what the maps had retired and not freed

  [[nodiscard]] double bound() const { return versions + waiting + most.kept + slack_megabytes; }
};

void check_memory(record& to, const memory_used& m) {
  to.bound(curve, m.bound());
  to.check(m.most.resident <= m.bound(),
           say("at most %.1f MB more; the bound is %.1f MB: %.1f MB for an old version of each "
               "pair for each of two snapshots, %.1f MB that waited to be freed, %.1f MB of freed "
               "memory that the allocator kept, %.0f MB for its own needs, stacks and code",
               m.most.resident, m.bound(), m.versions, m.waiting, m.most.kept, slack_megabytes));
  to.check(m.most_in_use <= m.at_full + slack_megabytes / 2,
           say("memory stays flat: without what the allocator kept, %.1f MB more when every pair "
               "had been changed, %.1f MB at the end",
               m.at_full, m.most_in_use));
}

}  // namespace

void held_snapshot(record& to) {
  savings a;
  current_accounts b;
  for (long key = 0; key < accounts; ++key) {
    a.insert(key, each);
    b.insert(key, each);
  }
  const growth_meter meter;
  const held_by_maps at_first(a, b);

  const spolia::snapshot held("the report");
  const view first = look(a, b, held);
  spolia::atomic<bool> over{false};
  spolia::atomic<std::uint64_t> moves{0};
  spolia::atomic<int> been_through{0};
  spolia::atomic<bool> just_full{false};
  most_waiting waiting;
  std::vector<std::thread> threads;
  for (long n = 0; n < writers; ++n) {
    threads.emplace_back([&, n] { move_money(a, b, n, over, moves, been_through, waiting); });
  }
  memory_used used;
  sampler memory([&](double at) {
    const growth grown = meter.now();
    if (grown.resident > used.most.resident) used.most = grown;
    used.most_in_use = std::max(used.most_in_use, grown.in_use());
    if (just_full.load_relaxed()) used.at_full = std::max(used.at_full, grown.in_use());
    to.point(curve, at, grown.resident);
  });
  looks_taken looks;
  while (been_through.load_relaxed() < writers) look_again(a, b, held, first, looks);
  const clock::time_point start = clock::now();
  while (since(start) < seconds) {
    just_full.store_relaxed(since(start) < seconds / 3);
    look_again(a, b, held, first, looks);
  }
  over.store_relaxed(true);
  for (std::thread& t : threads) t.join();
  memory.end();

  const held_by_maps at_last(a, b);
  used.versions = at_last.current - at_first.current + 2 * at_last.old;
  used.waiting = waiting.megabytes();
  const auto count = static_cast<unsigned long long>(looks.count);
  const auto transfers = static_cast<unsigned long long>(moves.load_relaxed());
  to.check(looks.same && first.money == 2 * accounts * each,
           say("the held snapshot showed the same %llu pairs each of the %llu times it was read, "
               "while %llu transfers were made",
               static_cast<unsigned long long>(first.pairs), count, transfers));
  to.check(looks.whole, "every new snapshot of both maps showed the whole sum");
  check_memory(to, used);
  to.in_short(
      say("read %llu times beside %llu transfers, always the same; %.1f MB more (%.1f allowed)",
          count, transfers, used.most.resident, used.bound()));
}

}  // namespace demo
