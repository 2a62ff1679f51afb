// SPDX-License-Identifier: Apache-2.0
// A program that imports the library, and shares objects with a source that includes its headers.
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>

import spolia;

namespace db = spolia::db;

/// Of included.cpp.
int entries_of(spolia::abtree<int, int>& m);
void add_rows(db::database& base);

namespace {

struct node : spolia::domain<spolia::hazard_pointers>::header {
  int value = 7;
};

bool pointers() {
  spolia::domain<spolia::hazard_pointers> home;
  spolia::atomic<node*> at{home.make<node>()};
  bool good = false;
  {
    auto guard = home.enter();
    good = guard.protect(at)->value == 7;
    guard.retire(at.exchange_acq_rel(nullptr));
  }
  spolia::atomic_shared_ptr<std::string> shared(spolia::make_shared<std::string>("text"));
  spolia::live<int> current(3);
  spolia::rcu_retire(new int(1));
  spolia::rcu_barrier();
  return good && shared.load()->size() == 4 && *current.read() == 3;
}

bool maps() {
  spolia::abtree<int, int> m;
  std::thread other([&m] {
    for (int i = 0; i < 100; ++i) m.insert(i, i);
  });
  for (int i = 100; i < 200; ++i) m.insert(i, i);
  other.join();
  spolia::snapshot_hash<int, std::string> h;
  h.insert(1, "old");
  const spolia::snapshot then;
  h.insert_or_assign(1, std::string("new"));
  spolia::rlu_hash<int, int> r(16);
  r.insert(1, 1);
  return entries_of(m) == 200 && *h.find(then, 1) == "old" && r.contains(1);
}

bool store() {
  db::database base = db::database::open();
  db::table& t = base.create_table(
      {.name = "t", .columns = {{"id", db::int64, db::primary_key}, {"name", db::text(20)}}});
  add_rows(base);
  const db::reader now = base.snapshot();
  return now.find(t, {std::int64_t{1}}) && !now.find(t, {std::int64_t{3}});
}

}  // namespace

int main() {
  const bool good = pointers() && maps() && store();
  std::puts(good ? "ok" : "NO: something is lost between the module and the headers");
  return good ? 0 : 1;
}
