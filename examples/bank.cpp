// SPDX-License-Identifier: Apache-2.0
// bank.cpp: the guide's bank (docs/db.md): accounts, transfers from several threads, and an audit
// that looks at one moment for as long as it likes.
#include <spolia/db.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

namespace db = spolia::db;

/// Everything that the program knows of its database: tables, and columns by their types.
struct bank {
  db::database base = db::database::open();
  db::table& accounts =
      base.create_table({.name = "accounts",
                         .columns = {{"id", db::int64, db::primary_key},
                                     {"owner", db::text(32)},
                                     {"balance", db::int64},
                                     {"note", db::text(80), db::nullable}},
                         .indexes = {{.name = "by_owner", .columns = {"owner"}}}});
  db::column<std::string_view> owner = accounts.column<std::string_view>("owner");
  db::column<std::int64_t> balance = accounts.column<std::int64_t>("balance");

  db::status open_account(std::int64_t id, const char* who, std::int64_t cents) {
    return base.transact(
        [&](db::transaction& tx) { return tx.insert(accounts, {id, who, cents, nullptr}); });
  }

  /// Both accounts change, or neither. transact() tries again when another transaction was faster.
  db::status transfer(std::int64_t from, std::int64_t to, std::int64_t cents) {
    return base.transact([&](db::transaction& tx) -> db::status {
      auto giver = tx.edit(accounts, {from});
      if (!giver) return giver.why();
      auto taker = tx.edit(accounts, {to});
      if (!taker) return taker.why();
      if (giver->get(balance) < cents) return db::refused("the balance is too low");
      if (auto s = giver->set(balance, giver->get(balance) - cents); !s) return s;
      return taker->set(balance, taker->get(balance) + cents);
    });
  }

  /// Takes money from one account if all accounts of its owner together have enough; returns the
  /// rest of that account. It is serializable: else two withdrawals at once could both find enough.
  db::result<std::int64_t> withdraw(std::int64_t id, std::int64_t cents) {
    return base.transact(
        [&](db::transaction& tx) -> db::result<std::int64_t> {
          auto account = tx.edit(accounts, {id});
          if (!account) return account.why();
          std::int64_t all = 0;
          tx.scan(accounts.index("by_owner"), {account->get(owner)}, {account->get(owner)},
                  [&](const db::row& r) { all += r.get(balance); });
          if (all < cents)
            return db::refused("all accounts together have only " + std::to_string(all));
          const std::int64_t left = account->get(balance) - cents;
          if (auto s = account->set(balance, left); !s) return s;
          return left;
        },
        {.begin = {.isolation = db::isolation::serializable}});
  }

  /// Opens accounts until one of them is refused; that one and its fee are undone.
  db::status open_some(std::initializer_list<std::int64_t> ids, const char* who) {
    return base.transact([&](db::transaction& tx) -> db::status {
      for (const std::int64_t id : ids) {
        const db::savepoint here = tx.savepoint();
        auto bank_account = tx.edit(accounts, {0});
        if (!bank_account) return bank_account.why();
        if (auto s = bank_account->set(balance, bank_account->get(balance) + 1); !s) return s;
        const db::status opened = tx.insert(accounts, {id, who, -1, nullptr});
        if (opened == db::outcome::duplicate_key) return tx.rollback_to(here);
        if (!opened) return opened;
      }
      return db::outcome::ok;
    });
  }

  /// The sum at one moment. However long this takes, it holds up no transfer.
  std::int64_t total() const {
    const db::reader now = base.snapshot("audit");
    std::int64_t sum = 0;
    now.for_each(accounts, [&](const db::row& r) { sum += r.get(balance); });
    return sum;
  }

  std::int64_t wealth_of(const char* who) const {
    const db::reader now = base.snapshot();
    std::int64_t sum = 0;
    now.scan(accounts.index("by_owner"), {who}, {who},
             [&](const db::row& r) { sum += r.get(balance); });
    return sum;
  }

  /// Prints how much each owner has in accounts that are not in debt. The query uses as many
  /// threads as there are processors, or fewer for a small table.
  void print_owners() const {
    const db::reader now = base.snapshot("owners");
    const auto sums = now.query(accounts)
                          .where("balance", db::greater_equal, 0)
                          .group_by("owner")
                          .aggregate(db::count(), db::sum("balance"), db::max("balance"))
                          .run();
    if (!sums) return;  // ended_by_policy: does not happen here, where no reader is ended
    for (std::size_t i = 0; i < sums->size(); ++i) {
      const auto who = sums->get<std::string_view>(i, 0);
      std::printf("%.*s: %lld in %lld accounts, %lld in one\n", static_cast<int>(who.size()),
                  who.data(), static_cast<long long>(sums->get<std::int64_t>(i, 2)),
                  static_cast<long long>(sums->get<std::int64_t>(i, 1)),
                  static_cast<long long>(sums->get<std::int64_t>(i, 3)));
    }
  }
  std::int64_t added_up() const {
    const db::reader now = base.snapshot("audit");
    const auto sums = now.query(accounts).aggregate(db::sum("balance")).run();
    return sums ? sums->get<std::int64_t>(0, 0) : -1;
  }
};

}  // namespace

int main() {
  bank b;
  constexpr std::int64_t accounts = 100;
  constexpr std::int64_t each = 1000;
  for (std::int64_t id = 0; id < accounts; ++id) {
    if (!b.open_account(id, id % 2 == 0 ? "Ada" : "Grace", each)) return 1;
  }
  if (b.open_account(7, "Mallory", 0) != db::outcome::duplicate_key) return 1;

  std::vector<std::thread> clerks;
  for (int n = 0; n < 4; ++n) {
    clerks.emplace_back([&b, n] {
      for (std::int64_t i = 0; i < 5000; ++i) {
        const std::int64_t from = (i * 7 + n) % accounts;
        const std::int64_t to = (i * 13 + 5 * n + 1) % accounts;
        if (from == to) continue;
        const db::status done = b.transfer(from, to, i % 50);
        if (!done && done != db::outcome::refused) std::printf("a transfer failed\n");
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    if (b.total() != accounts * each || b.added_up() != accounts * each) return 1;
  }
  for (std::thread& t : clerks) t.join();
  const auto left = b.withdraw(2, 10);
  if (!left || !b.transfer(0, 2, 0)) return 1;
  std::printf("account 2 has %lld left\n", static_cast<long long>(*left));
  const db::status refused = b.withdraw(2, accounts * each).why();
  if (refused != db::outcome::refused) return 1;
  std::printf("a withdrawal was refused: %s\n", std::string(refused.reason()).c_str());
  if (!b.open_some({1000, 1001, 7, 1002}, "Ada")) return 1;
  const db::reader last = b.base.snapshot({.label = "check", .deadline = std::chrono::minutes(1)});
  if (!last.find(b.accounts, {1001}) || last.find(b.accounts, {1002})) return 1;

  b.print_owners();
  const db::statistics s = b.base.stats();
  std::printf("total %lld, of which %lld are Ada's\n", static_cast<long long>(b.total()),
              static_cast<long long>(b.wealth_of("Ada")));
  std::printf("%llu commits, %llu conflicts; %llu versions made, %llu dropped\n",
              static_cast<unsigned long long>(s.commits),
              static_cast<unsigned long long>(s.conflicts),
              static_cast<unsigned long long>(s.versions.versions_made),
              static_cast<unsigned long long>(s.versions.versions_dropped));
  return b.total() == accounts * each - 10 ? 0 : 1;
}
