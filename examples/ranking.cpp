// SPDX-License-Identifier: Apache-2.0
// A ranking is read page by page, from the top, while the scores keep changing. All pages are of
// one instant, and no thread waits.
#include <cstdio>
#include <ranges>
#include <thread>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/map/snapshot_tree.hpp>

namespace {

constexpr int players = 200;

using entry = std::pair<int, int>;  // score, player
using ranking = spolia::snapshot_tree<entry, int>;

/// Two players at a time: one loses a point to the other. Each is out of the ranking between the
/// erase and the insertion, so at most one player is missing at any instant.
void play(ranking& r, const spolia::atomic<bool>& over) {
  int scores[players] = {};
  for (int game = 0; !over.load_relaxed(); ++game) {
    for (const auto& [who, change] : {entry{game % players, 1}, entry{game * 7 % players, -1}}) {
      r.erase({scores[who], who});
      scores[who] += change;
      r.insert({scores[who], who}, game);
    }
  }
}

}  // namespace

int main() {
  ranking r;
  for (int who = 0; who < players; ++who) r.insert({0, who}, 0);
  spolia::atomic<bool> over{false};
  std::thread games([&] { play(r, over); });
  bool right = true;
  for (int look = 0; look < 200; ++look) {
    const spolia::snapshot now("ranking");
    const auto all = r.all(now);
    int count = 0;
    entry last{players * 1000000, 0};
    for (const auto& [who, game] : all | std::views::reverse) {  // for as long as you like
      right = right && who < last;
      last = who;
      ++count;
    }
    right = right && (count == players || count == players - 1);
    right = right && static_cast<int>(r.size(now)) == count;
  }
  over.store_relaxed(true);
  games.join();
  std::printf("%zu players, %d links from the first to the last at most\n", r.size_approx(),
              static_cast<int>(r.audit().height));
  return right && r.size_approx() == players ? 0 : 1;
}
