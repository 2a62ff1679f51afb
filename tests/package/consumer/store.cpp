// SPDX-License-Identifier: Apache-2.0
// store.cpp: the store with a version storage that the library has never seen.
#include <spolia/db.hpp>

#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace db = spolia::db;

namespace {

/// It keeps all.
class keeping final : public db::delta {
 public:
  bool reserve(std::uint32_t, std::span<db::ask> asks, std::uint64_t) override {
    const std::lock_guard hold(lock_);
    for (db::ask& a : asks) {
      all_.push_back(std::make_unique<std::byte[]>(db::version::bytes(a.words)));
      a.place = db::version::make(all_.back().get());
      a.handle = std::bit_cast<std::uintptr_t>(a.place);
    }
    return true;
  }
  void published(std::uint32_t, std::uint64_t) noexcept override {}
  void cancel(std::uint32_t) noexcept override {}
  [[nodiscard]] const db::version* find(const spolia::atomic<std::uint64_t>& chain, std::uint64_t,
                                        std::uint64_t time,
                                        const db::taking_back* on_the_way) const override {
    return db::walk(chain, time, on_the_way, lengths_, [](std::uint64_t handle) {
      return reinterpret_cast<const db::version*>(static_cast<std::uintptr_t>(handle));
    });
  }
  void collect() noexcept override {}

 private:
  [[nodiscard]] db::delta_stats figures() const noexcept override {
    const std::lock_guard hold(lock_);
    return {.versions_made = all_.size()};
  }

  mutable std::mutex lock_;
  std::vector<std::unique_ptr<std::byte[]>> all_;
};

bool versions_of_ones_own() {
  db::database base = db::database::open(
      {.own_versions = [](db::commit_board&) { return std::make_unique<keeping>(); }});
  db::table& t = base.create_table(
      {.name = "t", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  const auto v = t.column<std::int64_t>("v");
  bool good = bool(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, 1}); }));
  const db::reader before = base.snapshot();
  good &= bool(base.transact([&](db::transaction& tx) { return tx.update(t, {1}, {{"v", 2}}); }));
  return good && before.find(t, {1})->get(v) == 1 && base.snapshot().find(t, {1})->get(v) == 2 &&
         base.stats().versions.versions_made == 1;
}

/// What a program's functions give back, and why they refuse.
bool outcomes() {
  db::database base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  const auto v = t.column<std::int64_t>("v");
  const db::result<std::int64_t> made =
      base.transact([&](db::transaction& tx) -> db::result<std::int64_t> {
        if (auto s = tx.insert(t, {1, 5}); !s) return s;
        auto row = tx.edit(t, {1});
        if (!row) return row.why();
        return row->get(v) * 2;
      });
  const db::status too_late =
      base.transact([](db::transaction&) -> db::status { return db::refused("too late"); });
  return made && *made == 10 && too_late == db::outcome::refused && too_late.reason() == "too late";
}

/// What holds a snapshot or a transaction, as an object of the program's.
struct request {
  db::transaction work;
  std::optional<db::reader> before;
};

bool moves() {
  db::database base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});
  const auto v = t.column<std::int64_t>("v");
  std::vector<request> all;
  for (std::int64_t n = 0; n < 5; ++n) all.push_back({base.begin(), base.snapshot()});
  for (std::size_t n = 0; n < all.size(); ++n) {
    if (!all[n].work.insert(t, {n, n}) || !all[n].work.commit()) return false;
  }
  return all[4].before->find(t, {1}).code() == db::outcome::not_found &&
         base.snapshot().find(t, {4})->get(v) == 4;
}

/// What a program is told: by outcomes with their reasons, by labels, and by a comparison with the
/// files.
bool tells() {
  const std::filesystem::path place =
      std::filesystem::temp_directory_path() / ("spolia-consumer-" + std::to_string(::getpid()));
  bool good = true;
  {
    db::database base = db::database::open(place);
    db::table& t =
        base.create_table({.name = "users",
                           .columns = {{"id", db::int64, db::primary_key}, {"email", db::text(8)}},
                           .indexes = {{"by_email", {"email"}, true}}});
    good &= bool(base.transact([&](db::transaction& tx) { return tx.insert(t, {1, "a@b"}); }));
    const auto put = [&](std::string_view email) {
      return base.transact([&](db::transaction& tx) { return tx.insert(t, {2, email}); });
    };
    const db::status taken = put("a@b");
    good &=
        taken == db::outcome::duplicate_key && taken.reason() == "index by_email of table users";
    const db::status too_long = put("a@b.example");
    good &= too_long == db::outcome::too_long &&
            too_long.reason() == "column email of table users takes at most 8 bytes, got 11";
    const db::reader audit = base.snapshot("the audit");
    good &= base.readers().size() == 1 && base.readers().front().label == "the audit";
    const db::verify_report same = (base.verify)();
    good &= same.equal() && same.rows == 1;
  }
  std::filesystem::remove_all(place);
  return good;
}

}  // namespace

int main() {
  const bool storage = versions_of_ones_own();
  std::printf("the store takes a version storage of the program's: %s\n", storage ? "yes" : "NO");
  const bool outcomes_good = outcomes();
  std::printf("the program's functions give back what they have made: %s\n",
              outcomes_good ? "yes" : "NO");
  const bool moves_good = moves();
  std::printf("readers and transactions can be moved: %s\n", moves_good ? "yes" : "NO");
  const bool tells_good = tells();
  std::printf("the program is told what was wrong, who reads, and that all is right: %s\n",
              tells_good ? "yes" : "NO");
  return storage && outcomes_good && moves_good && tells_good ? 0 : 1;
}
