// SPDX-License-Identifier: Apache-2.0
// backup.cpp: a durable store is copied while clients commit to it.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/db.hpp>

#include "demo.hpp"

namespace demo {
namespace {

namespace db = spolia::db;
constexpr std::int64_t accounts = 200'000;
constexpr std::int64_t each = 1000;
constexpr std::int64_t clients = 4;

struct bank {
  db::database base;
  db::table& accounts;
  db::column<std::int64_t> balance = accounts.column<std::int64_t>("balance");

  explicit bank(const std::filesystem::path& directory)
      : base(db::database::open(directory)), accounts(find_or_make(base)) {}

  static db::table& find_or_make(db::database& base) {
    if (!base.tables().empty()) return base.find_table("accounts");
    return base.create_table(
        {.name = "accounts",
         .columns = {{"id", db::int64, db::primary_key}, {"balance", db::int64}}});
  }

  bool fill() {
    std::int64_t id = 0;
    while (id < demo::accounts) {
      const db::status s = base.transact([&](db::transaction& tx) -> db::status {
        for (std::int64_t n = id; n < id + 1000; ++n) {
          if (auto e = tx.insert(accounts, {n, each}); !e) return e;
        }
        return db::outcome::ok;
      });
      if (!s) return false;
      id += 1000;
    }
    return true;
  }

  db::status transfer(std::int64_t from, std::int64_t to) {
    return base.transact([&](db::transaction& tx) -> db::status {
      auto giver = tx.edit(accounts, {from});
      if (!giver) return giver.why();
      auto taker = tx.edit(accounts, {to});
      if (!taker) return taker.why();
      if (auto s = giver->set(balance, giver->get(balance) - 1); !s) return s;
      return taker->set(balance, taker->get(balance) + 1);
    });
  }

  std::int64_t total() const {
    std::int64_t sum = 0;
    const db::reader now = base.snapshot("audit");
    now.for_each(accounts, [&](const db::row& r) { sum += r.get(balance); });
    return sum;
  }
};

}  // namespace

void backup_beside_load(record& to, const std::filesystem::path& scratch) {
  bank b(scratch / "bank");
  if (!b.fill()) return to.check(false, "the accounts could not be made");
  spolia::atomic<bool> over{false};
  spolia::atomic<std::uint64_t> commits{0};
  std::vector<std::thread> threads;
  for (std::int64_t n = 0; n < clients; ++n) {
    threads.emplace_back([&, n] {
      for (std::int64_t i = n; !over.load_relaxed(); i += clients) {
        const std::int64_t from = i * 7919 % accounts;
        if (b.transfer(from, (from + 1 + n) % accounts)) commits.fetch_add_relaxed(1);
      }
    });
  }
  std::uint64_t before = 0;
  double last = 0;
  sampler rate(
      [&](double at) {
        const std::uint64_t now = commits.load_relaxed();
        if (at > last)
          to.point("commits a second", at, static_cast<double>(now - before) / (at - last));
        before = now;
        last = at;
      },
      std::chrono::milliseconds(50));
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(800)); };
  const clock::time_point start = clock::now();
  wait();
  const std::uint64_t at_start = commits.load_relaxed();
  const double began = since(start);
  b.base.backup(scratch / "copy");
  const double took = since(start) - began;
  const std::uint64_t meanwhile = commits.load_relaxed() - at_start;
  wait();
  over.store_relaxed(true);
  for (std::thread& t : threads) t.join();
  rate.end();
  to.note(say("the backup of %lld rows ran from %.2f s to %.2f s", static_cast<long long>(accounts),
              began, began + took));
  to.check(meanwhile > 0, say("%llu transfers were committed during the backup, which took %.2f s",
                              static_cast<unsigned long long>(meanwhile), took));
  const bank copy(scratch / "copy");
  to.check(copy.total() == accounts * each && b.total() == accounts * each,
           "the copy opens, and its balances add up");
  to.in_short(say("%lld rows copied in %.2f s, %llu transfers committed meanwhile",
                  static_cast<long long>(accounts), took,
                  static_cast<unsigned long long>(meanwhile)));
}

}  // namespace demo
