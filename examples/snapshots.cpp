// SPDX-License-Identifier: Apache-2.0
// A report reads two maps as they were at one instant, while another thread keeps changing them.
// What the snapshot sees is kept, and no other old version is. And an audit reads two maps that
// were never meant to be seen together: each has its own timeline.
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>

#include <spolia/map/snapshot_hash.hpp>
#include <spolia/map/snapshot_tree.hpp>

namespace {

using stock = spolia::snapshot_hash<std::string, long>;
using orders = spolia::snapshot_hash<long, std::string>;

/// Takes a nail from the stock, then writes an order. So at any instant there are at most as many
/// orders as nails that are gone.
void sell(stock& nails, orders& sold, long from, long to) {
  for (long n = from; n < to; ++n) {
    nails.insert_or_assign("nails", 100000 - n - 1);
    sold.insert(n, "a nail");
  }
}

using arrivals = spolia::basic_timeline<spolia::logical_clock, spolia::stamping::on_update>;
using harbour = spolia::snapshot_hash<long, std::string>;
using depot =
    spolia::snapshot_tree<long, std::string, spolia::sl_rt<spolia::region_domain, arrivals>>;

/// Crates go from the harbour to the depot, one at a time. At any instant at most one is on its
/// way, and none is in both places.
bool audit_two_timelines() {
  constexpr long crates = 1000;
  spolia::timeline at_sea;
  arrivals on_land;
  harbour from(at_sea);
  depot to(on_land);
  for (long n = 0; n < crates; ++n) from.insert(n, "coffee");

  std::thread carrier([&] {
    for (long n = 0; n < crates; ++n) {
      from.erase(n);
      to.insert(n, "coffee");
    }
  });
  bool right = true;
  for (std::size_t arrived = 0; arrived < crates;) {
    const spolia::snapshot now({at_sea, on_land}, "audit");
    arrived = to.size(now);
    const auto all = static_cast<long>(from.size(now) + arrived);
    right = right && (all == crates || all == crates - 1);
  }
  carrier.join();
  return right;
}

}  // namespace

int main() {
  stock nails;
  orders sold;
  nails.insert("nails", 100000);
  sell(nails, sold, 0, 1000);

  std::thread shop([&] { sell(nails, sold, 1000, 50000); });
  bool right = true;
  for (int report = 0; report < 20; ++report) {
    const spolia::snapshot now("report");
    const long left = *nails.find(now, "nails");
    long counted = 0;
    for (const auto& [number, what] : sold.all(now)) counted += what.empty() ? 0 : 1;
    right = right && (left + counted == 100000 || left + counted == 99999);
    right = right && *nails.find(now, "nails") == left;
  }
  const spolia::snapshot held("held");
  shop.join();
  const auto account = nails.account();
  std::printf("%zu sold; %llu versions of the stock, %llu of them for the snapshot \"%s\"\n",
              sold.size_approx(), static_cast<unsigned long long>(account.versions()),
              static_cast<unsigned long long>(account.needed), account.snapshots.front().label);
  right = right && audit_two_timelines();
  return right && sold.size_approx() == 50000 && account.needed <= 1 ? 0 : 1;
}
