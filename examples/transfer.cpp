// SPDX-License-Identifier: Apache-2.0
// Threads move money between two maps, and read the balances before they change them. Nothing is
// lost, nothing is spent twice, and a report sees each transfer whole or not at all. And a rule
// over a range: an order gets a number only if no other order of that day has it.
#include <array>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <spolia/map/transact.hpp>
#include <spolia/snapshot.hpp>

namespace {

using accounts = spolia::snapshot_hash<std::string, long>;
using savings = spolia::snapshot_tree<std::string, long>;

/// False: there is not enough, or the account is not there.
bool move_to_savings(accounts& from, savings& to, const std::string& who, long amount) {
  const auto result = spolia::transact([&](spolia::changes& all) {
    const long* const left = all.find(from, who);
    if (left == nullptr || *left < amount) return false;
    const long* const saved = all.find(to, who);
    all.insert_or_assign(from, who, *left - amount);
    all.insert_or_assign(to, who, (saved == nullptr ? 0 : *saved) + amount);
    return true;
  });
  return static_cast<bool>(result);
}

using orders = spolia::snapshot_tree<long, std::string>;

/// The next number of the day, from its first one on. A hundred a day.
bool take_number(orders& all_orders, long day, const std::string& who) {
  const auto result = spolia::transact(
      [&](spolia::changes& all) {
        long next = day * 100;
        for (const auto& [number, name] : all.range(all_orders, day * 100, (day + 1) * 100)) {
          if (number == next) ++next;
        }
        if (next == (day + 1) * 100) return false;
        all.insert(all_orders, next, who);
        return true;
      },
      spolia::changes::any_number);  // as often as it takes
  return static_cast<bool>(result);
}

}  // namespace

int main() {
  constexpr long money = 2000;
  const std::array<std::string, 2> names{"anna", "bert"};
  accounts giro;
  savings saved;
  orders numbers;
  for (const auto& name : names) giro.insert(name, money);

  std::vector<std::thread> threads;
  for (const auto& name : {names[0], names[0], names[1]}) {
    threads.emplace_back([&, name] {
      for (int i = 0; i < 300; ++i) move_to_savings(giro, saved, name, 5);
      for (int i = 0; i < 20; ++i) take_number(numbers, 7, name);
    });
  }
  bool right = true;
  for (int report = 0; report < 50; ++report) {
    const spolia::snapshot now("report");
    long sum = 0;
    for (const auto& [name, amount] : giro.all(now)) sum += amount;
    for (const auto& [name, amount] : saved.all(now)) sum += amount;
    right = right && sum == 2 * money;
  }
  for (auto& t : threads) t.join();

  std::printf("saved: %ld and %ld; %zu orders\n", saved.find("anna").value_or(0),
              saved.find("bert").value_or(0), numbers.size_approx());
  // Two threads have saved anna's 2000 in pieces of 5, but not more than that.
  right = right && saved.find("anna") == money && saved.find("bert") == 1500;
  return right && numbers.contains(700) && numbers.contains(759) && numbers.size_approx() == 60 ? 0
                                                                                                : 1;
}
