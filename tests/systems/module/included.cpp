// SPDX-License-Identifier: Apache-2.0
// The source beside program.cpp that includes the headers.
#include <cstdint>

#include <spolia/db.hpp>
#include <spolia/map.hpp>

int entries_of(spolia::abtree<int, int>& m);
void add_rows(spolia::db::database& base);

int entries_of(spolia::abtree<int, int>& m) {
  int count = 0;
  m.for_each([&count](int, int) { ++count; });
  return count;
}

void add_rows(spolia::db::database& base) {
  spolia::db::table& t = base.find_table("t");
  static_cast<void>(base.transact([&](spolia::db::transaction& tx) {
    return tx.insert(t, {std::int64_t{1}, "one"}) && tx.insert(t, {std::int64_t{2}, "two"});
  }));
}
