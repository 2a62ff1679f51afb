// SPDX-License-Identifier: Apache-2.0
// durable_bank.cpp: the guide's bank on a disk (docs/durability.md): it is closed and opened again,
// shortens its log, and is copied while clerks work.
#include <spolia/db.hpp>

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace db = spolia::db;
constexpr std::int64_t accounts_in_all = 100;
constexpr std::int64_t each = 1000;

struct bank {
  db::database base;
  db::table& accounts;
  db::column<std::int64_t> balance = accounts.column<std::int64_t>("balance");

  explicit bank(const std::filesystem::path& directory)
      : base(db::database::open(directory)), accounts(find_or_make(base)) {}

  /// The table is durable once create_table has returned.
  static db::table& find_or_make(db::database& base) {
    if (db::table* const there = base.try_find_table("accounts")) return *there;
    return base.create_table({.name = "accounts",
                              .columns = {{"id", db::int64, db::primary_key},
                                          {"owner", db::text(32)},
                                          {"balance", db::int64}},
                              .indexes = {{.name = "by_owner", .columns = {"owner"}}}});
  }

  db::status fill() {
    return base.transact([&](db::transaction& tx) -> db::status {
      for (std::int64_t id = 0; id < accounts_in_all; ++id) {
        if (auto s = tx.insert(accounts, {id, id % 2 == 0 ? "Ada" : "Grace", each}); !s) return s;
      }
      return db::outcome::ok;
    });
  }

  /// Ok: the transfer is on the disk.
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

  std::int64_t total() const {
    std::int64_t sum = 0;
    const db::reader now = base.snapshot("audit");
    now.for_each(accounts, [&](const db::row& r) { sum += r.get(balance); });
    return sum;
  }
};

/// Four clerks at once: their commits share writes to the disk.
void work(bank& b) {
  std::vector<std::thread> clerks;
  for (std::int64_t n = 0; n < 4; ++n) {
    clerks.emplace_back([&b, n] {
      for (std::int64_t i = 0; i < 50; ++i) {
        const std::int64_t from = (i * 7 + n) % accounts_in_all;
        const std::int64_t to = (from + 1 + n) % accounts_in_all;
        const db::status s = b.transfer(from, to, i);
        if (!s && s != db::outcome::refused) std::printf("%s\n", std::string(s.message()).c_str());
      }
    });
  }
  for (std::thread& t : clerks) t.join();
}

int run(const std::filesystem::path& place) {
  {
    bank b(place / "bank");
    if (!b.fill()) return 1;
    work(b);
  }
  bank b(place / "bank");
  const db::recovery_report& found = b.base.recovered();
  std::printf("opened again: %llu records of log, total %lld\n",
              static_cast<unsigned long long>(found.log_records),
              static_cast<long long>(b.total()));
  if (b.total() != accounts_in_all * each) return 1;

  const db::checkpoint_report saved = b.base.checkpoint();
  std::printf("a checkpoint of %llu rows has removed %llu files\n",
              static_cast<unsigned long long>(saved.rows),
              static_cast<unsigned long long>(saved.removed_files));
  b.base.backup(place / "copy");
  work(b);
  const db::backup_report added = b.base.backup(place / "copy");
  const bank copy(place / "copy");
  std::printf("the copy goes up to change %llu; total %lld\n",
              static_cast<unsigned long long>(added.sequence),
              static_cast<long long>(copy.total()));
  return added.incremental && copy.total() == accounts_in_all * each ? 0 : 1;
}

}  // namespace

int main() {
  const auto place = std::filesystem::temp_directory_path() /
                     ("spolia-durable-bank-" + std::to_string(::getpid()));
  int result = 1;
  try {
    result = run(place);
  } catch (const db::storage_error& e) {
    std::printf("%s\n", e.what());
  }
  std::filesystem::remove_all(place);
  return result;
}
