// SPDX-License-Identifier: Apache-2.0
// snapshot.cpp: one snapshot of two maps is held while writers move money between them.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <spolia/map/changes.hpp>
#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>

#include "demo.hpp"

namespace demo {
namespace {

constexpr long accounts = 150'000;
constexpr long each = 1000;
constexpr int writers = 2;
constexpr double seconds = 3;

using savings = spolia::snapshot_hash<long, long>;
using current = spolia::snapshot_tree<long, long>;

/// What one instant of both maps comes to.
struct view {
  std::uint64_t pairs = 0;
  long money = 0;
  std::uint64_t print = 0;  // of every pair
  bool operator==(const view&) const = default;
};

view look(const savings& a, const current& b, const spolia::snapshot& now) {
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

/// Moves money between the two accounts of a key; each writer has keys of its own.
void move_money(savings& a, current& b, long first, const std::atomic<bool>& over,
                std::atomic<std::uint64_t>& moves) {
  std::vector<long> saved(accounts, each);
  std::uint64_t random = 88172645463325252U + static_cast<std::uint64_t>(first);
  while (!over.load(std::memory_order_relaxed)) {
    random ^= random << 13U;
    random ^= random >> 7U;
    random ^= random << 17U;
    const long key = static_cast<long>(random % (accounts / writers)) * writers + first;
    const long now = static_cast<long>(random >> 32U) % (2 * each);
    saved[static_cast<std::size_t>(key)] = now;
    spolia::changes move;
    move.insert_or_assign(a, key, now);
    move.insert_or_assign(b, key, 2 * each - now);
    move.commit();
    moves.fetch_add(1, std::memory_order_relaxed);
  }
}

/// What both maps hold that is current, or that a snapshot sees.
double megabytes_of(savings& a, current& b) {
  const auto first = a.account();
  const auto second = b.account();
  return static_cast<double>(first.current_bytes + first.needed_bytes + second.current_bytes +
                             second.needed_bytes) /
         1e6;
}

}  // namespace

void held_snapshot(record& to) {
  savings a;
  current b;
  for (long key = 0; key < accounts; ++key) {
    a.insert(key, each);
    b.insert(key, each);
  }
  const double full = resident();
  const double at_first = megabytes_of(a, b);

  const spolia::snapshot held("the report");
  const view first = look(a, b, held);
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> moves{0};
  std::vector<std::thread> threads;
  for (long n = 0; n < writers; ++n) {
    threads.emplace_back([&, n] { move_money(a, b, n, over, moves); });
  }
  double most = 0;
  double most_early = 0;  // in the first half
  sampler memory([&](double at) {
    const double grown = std::max(resident() - full, 0.0);
    most = std::max(most, grown);
    if (at < seconds / 2) most_early = most;
    to.point("memory beyond the two maps", at, grown);
  });
  std::uint64_t looks = 0;
  bool same = true;
  bool whole = true;
  const clock::time_point start = clock::now();
  while (since(start) < seconds) {
    same = same && look(a, b, held) == first;
    const spolia::snapshot now("a new one");
    const view fresh = look(a, b, now);
    whole = whole && fresh.money == 2 * accounts * each && fresh.pairs == 2 * accounts;
    ++looks;
  }
  over.store(true);
  for (std::thread& t : threads) t.join();
  memory.end();
  // One old version of each pair, and what batches keep beside the current ones. A quarter more:
  // blocks of many sizes come and go in the allocator of three threads.
  const double versions = megabytes_of(a, b) - at_first;
  const double most_allowed = versions * 1.25 + slack_megabytes;
  to.bound("memory beyond the two maps", most_allowed);
  to.check(same && first.money == 2 * accounts * each,
           say("the held snapshot showed the same %llu pairs in each of %llu looks, while %llu "
               "transfers went on",
               static_cast<unsigned long long>(first.pairs), static_cast<unsigned long long>(looks),
               static_cast<unsigned long long>(moves.load())));
  to.check(whole, "every new snapshot of both maps showed the whole sum");
  to.check(
      most <= most_allowed,
      say("%.1f MB more at most; allowed are %.1f MB: one old version of each pair (%.1f MB), a "
          "quarter more and %.0f MB for the allocator",
          most, most_allowed, versions, slack_megabytes));
  to.check(most <= most_early + slack_megabytes / 2,
           say("memory stays flat: %.1f MB more in the first half, %.1f MB in the second",
               most_early, most));
  to.in_short(say("%llu looks beside %llu transfers: always the same; %.1f MB more (bound %.1f)",
                  static_cast<unsigned long long>(looks),
                  static_cast<unsigned long long>(moves.load()), most, most_allowed));
}

}  // namespace demo
