// SPDX-License-Identifier: Apache-2.0
// What the host in main.go calls: a map whose readers are restarted by a signal, and a database.
#include <cstdio>
#include <exception>
#include <memory>

#include <spolia/db.hpp>
#include <spolia/map.hpp>
#include <spolia/reclaim.hpp>

namespace {

namespace db = spolia::db;
using home_type = spolia::domain<spolia::neutralization_plus>;

struct used {
  home_type home;
  spolia::list<int, int, home_type> map{home};
  db::database base = db::database::open();
  db::table& rows = base.create_table(
      {.name = "t", .columns = {{"id", db::int64, db::primary_key}, {"round", db::int64}}});
};

std::unique_ptr<used> all;

}  // namespace

extern "C" int begin_use() {
  try {
    all = std::make_unique<used>();
    return 0;
  } catch (const std::exception& e) {
    std::printf("NO: %s\n", e.what());
    return 1;
  }
}

extern "C" int use_part(int worker, int round) {
  for (int i = 0; i < 200; ++i) {
    const int key = worker * 1000 + i % 20;
    if (!all->map.insert(key, i) || !all->map.contains(key) || !all->map.erase(key)) return 1;
  }
  const auto done = all->base.transact([&](db::transaction& tx) {
    return tx.insert(all->rows, {std::int64_t{worker} * 1000 + round, std::int64_t{round}});
  });
  return done ? 0 : 1;
}

extern "C" int end_use(int workers, int rounds) {
  const db::reader now = all->base.snapshot();
  int found = 0;
  for (int w = 0; w < workers; ++w) {
    for (int r = 0; r < rounds; ++r) {
      found += now.find(all->rows, {std::int64_t{w} * 1000 + r}) ? 1 : 0;
    }
  }
  return found == workers * rounds ? 0 : 1;
}
