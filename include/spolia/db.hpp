// SPDX-License-Identifier: Apache-2.0
// db.hpp: the embedded transactional store.
//
// What is in it
//   db::database             open, transact, snapshot, checkpoint, backup (database.hpp)
//   db::table, db::schema    typed columns, primary and secondary indexes (table.hpp, schema.hpp)
//   db::transaction          snapshot isolation, serializable on request (transaction.hpp)
//   db::reader               one moment of all tables, for as long as you like (transaction.hpp)
//   db::query                filters, sums and groups, with several threads (query.hpp)
//   db::store_status, json   what a running store does; rows as JSON
//   db::salvage              a new store out of what is whole in a damaged one (salvage.hpp)
//
// The smallest example
//     namespace db = spolia::db;
//     db::database base = db::database::open();  // in memory; open("bank") lasts
//     db::table& accounts = base.create_table({
//         .name = "accounts",
//         .columns = {{"id", db::int64, db::primary_key}, {"balance", db::int64}}});
//     const auto balance = accounts.column<std::int64_t>("balance");
//     db::status done = base.transact([&](db::transaction& tx) {
//       return tx.insert(accounts, {1, 100});
//     });
//     done = base.transact([&](db::transaction& tx) -> db::status {
//       auto row = tx.edit(accounts, {1});
//       if (!row) return row.why();
//       if (row->get(balance) < 10) return db::refused("the balance is too low");
//       return row->set(balance, row->get(balance) - 10);
//     });
//
// What is guaranteed
//   Conflicts are results, not exceptions. A commit in a directory is durable when it returns, at
//   the default level. Readers never wait for writers. With the default version storage a reader
//   keeps about as much as it sees, however old it is; docs/reference/store-version-storages.md
//   says what each storage holds. Versions have a budget.
//
// Where to go on
//   docs/db.md, the guide, and docs/reference/, its details; docs/durability.md, what survives
//   what; docs/tool.md, the command line.
#pragma once

#include <spolia/db/database.hpp>
#include <spolia/db/json.hpp>
#include <spolia/db/query.hpp>
#include <spolia/db/result.hpp>
#include <spolia/db/salvage.hpp>
#include <spolia/db/schema.hpp>
#include <spolia/db/store_status.hpp>
#include <spolia/db/table.hpp>
#include <spolia/db/transaction.hpp>
