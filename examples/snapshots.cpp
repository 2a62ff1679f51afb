// SPDX-License-Identifier: Apache-2.0
// A report over two live maps, as they were at one instant, while another thread goes on changing
// them: what the snapshot sees stays, and nothing else does.
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include <spolia/map/snapshot_hash.hpp>

namespace {

using stock = spolia::snapshot_hash<std::string, long>;
using orders = spolia::snapshot_hash<long, std::string>;

/// Each order takes a nail from the stock, in this order: so at any instant the orders are at most
/// as many as the nails that are gone.
void sell(stock& nails, orders& sold, long from, long to) {
  for (long n = from; n < to; ++n) {
    nails.insert_or_assign("nails", 100000 - n - 1);
    sold.insert(n, "a nail");
  }
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
  return right && sold.size_approx() == 50000 && account.needed <= 1 ? 0 : 1;
}
