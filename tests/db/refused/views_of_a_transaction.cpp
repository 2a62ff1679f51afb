// SPDX-License-Identifier: Apache-2.0
// A function of transact() that returns a text of a row, which is gone with the transaction.
// refused: returns what is gone with the transaction
#include <cstdint>
#include <string>

#include <spolia/db/database.hpp>

namespace db = spolia::db;

std::string owner_of(db::database& base, db::table& accounts, std::int64_t id) {
  const auto owner = accounts.column<std::string_view>("owner");
#if defined(REFUSED)
  auto found = base.transact([&](db::transaction& tx) {
    const auto row = tx.find(accounts, {id});
    return row->get(owner);
  });
#else
  auto found = base.transact(
      [&](db::transaction& tx) { return std::string(tx.find(accounts, {id})->get(owner)); });
#endif
  return found ? std::string(*found) : std::string();
}
