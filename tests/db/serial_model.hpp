// SPDX-License-Identifier: Apache-2.0
// serial_model.hpp: what one transaction after the other does to a table, in a plain map: the
// steps of transactions, what each answers in the store and in the map, and what it depends on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/storages.hpp"

namespace spolia::test::serial {

using number = std::int64_t;

struct record {
  number id = 0;
  number u = 0;  // unique
  number a = 0;
  number v = 0;
  auto operator<=>(const record&) const = default;
};
using state = std::map<number, record>;

/// What a scan goes over; `all` is the table in no order.
enum class way : std::uint8_t { by_id, by_u, by_a, all };

inline number key_of(way w, const record& r) {
  return w == way::by_u ? r.u : w == way::by_a ? r.a : r.id;
}

struct step {
  enum class kind : std::uint8_t {
    find,
    insert,
    edit,    // sets v
    update,  // sets u and a
    erase,
    lock,
    scan,
    query,   // of all rows: their number, and the sum of a
    mark,    // a savepoint
    go_back  // to the last mark
  };
  kind what = kind::find;
  record row{};  // what it is about
  way over = way::by_id;
  number lo = 0;
  number hi = 0;
  bool down = false;
  std::size_t most = 0;  // rows of a scan, which is stopped then
};

/// How a step ended, and which rows it has shown.
struct reply {
  db::outcome how = db::outcome::ok;
  std::vector<record> rows{};
  bool operator==(const reply&) const = default;
};

/// Keys from `lo` to `hi`; whatever rows have, or come to have, one of them.
struct extent {
  way over = way::by_id;
  number lo = 0;
  number hi = 0;
  [[nodiscard]] bool has(const record& r) const {
    return over == way::all || (lo <= key_of(over, r) && key_of(over, r) <= hi);
  }
};

/// A transaction alone with a map.
class alone {
 public:
  explicit alone(state from) : now(std::move(from)) {}

  [[nodiscard]] bool has_u(number u, number but) const {
    return std::any_of(now.begin(), now.end(),
                       [&](const auto& e) { return e.first != but && e.second.u == u; });
  }
  /// The rows of a scan, as if it were not stopped.
  [[nodiscard]] std::vector<record> rows_of(const step& s) const {
    const extent wanted{s.over, s.lo, s.hi};
    std::vector<record> rows;
    for (const auto& [id, r] : now) {
      if (wanted.has(r)) rows.push_back(r);
    }
    std::stable_sort(rows.begin(), rows.end(), [&](const record& x, const record& y) {
      const number kx = key_of(s.over, x);
      const number ky = key_of(s.over, y);
      return s.over != way::all && (s.down ? ky < kx : kx < ky);
    });
    return rows;
  }
  reply run(const step& s) {
    using kind = step::kind;
    const auto found = now.find(s.row.id);
    switch (s.what) {
      case kind::find:
      case kind::lock:
        if (found == now.end()) return {db::outcome::not_found};
        return {db::outcome::ok, {found->second}};
      case kind::insert:
        if (found != now.end() || has_u(s.row.u, s.row.id)) return {db::outcome::duplicate_key};
        now[s.row.id] = s.row;
        return {};
      case kind::edit:
        if (found == now.end()) return {db::outcome::not_found};
        found->second.v = s.row.v;
        return {};
      case kind::update:
        if (found == now.end()) return {db::outcome::not_found};
        if (has_u(s.row.u, s.row.id)) return {db::outcome::duplicate_key};
        found->second.u = s.row.u;
        found->second.a = s.row.a;
        return {};
      case kind::erase:
        return {now.erase(s.row.id) == 0 ? db::outcome::not_found : db::outcome::ok};
      case kind::scan:
        return {db::outcome::ok, rows_of(s)};
      case kind::query: {
        record sums{.id = static_cast<number>(now.size())};
        for (const auto& [id, r] : now) sums.a += r.a;
        return {db::outcome::ok, {sums}};
      }
      case kind::mark:
        marks_.push_back(now);
        return {};
      case kind::go_back:
        now = marks_.back();
        return {};
    }
    return {};
  }

  state now;

 private:
  std::vector<state> marks_;
};

/// Whether the store's reply is what a transaction alone gets. Rows of one key come in any order,
/// so of the last key before a scan was stopped some may be missing.
inline bool same_reply(const step& s, const reply& store, const reply& map) {
  if (s.what != step::kind::scan) return store == map;
  const std::size_t most = s.most == 0 ? map.rows.size() : s.most;
  if (store.how != map.how || store.rows.size() != std::min(most, map.rows.size())) return false;
  const auto key = [&](const record& r) { return s.over == way::all ? 0 : key_of(s.over, r); };
  for (std::size_t i = 0; i < store.rows.size(); ++i) {
    const record& r = store.rows[i];
    if (key(r) != key(map.rows[i])) return false;
    if (std::count(map.rows.begin(), map.rows.end(), r) != 1) return false;
    if (std::count(store.rows.begin(), store.rows.end(), r) != 1) return false;
  }
  return true;
}

/// The table in a store, with all kinds of indexes.
struct kinds {
  db::index_kind primary = db::index_kind::hash;
  db::index_kind unique = db::index_kind::ordered;
  db::index_kind other = db::index_kind::ordered;
};

class store {
 public:
  store(const storage_kind& of, const kinds& k)
      : indexes(k),
        base(db::database::open({.versions = of,
                                 .changes_only = of.changes_only,
                                 .partition_transactions = 4,
                                 .hash_indexes = of.hashes})),
        t(base.create_table(
            {.name = "t",
             .columns = {{"id", db::int64, db::primary_key},
                         {"u", db::int64},
                         {"a", db::int64},
                         {"v", db::int64}},
             .primary = k.primary,
             .indexes = {{.name = "by_u", .columns = {"u"}, .unique = true, .kind = k.unique},
                         {.name = "by_a", .columns = {"a"}, .kind = k.other}}})) {}

  [[nodiscard]] record of(const db::row& r) const {
    return {r.get(id), r.get(u), r.get(a), r.get(v)};
  }
  [[nodiscard]] bool ordered(way w) const {
    const db::index_kind k = w == way::by_u   ? indexes.unique
                             : w == way::by_a ? indexes.other
                                              : indexes.primary;
    return k == db::index_kind::ordered;
  }
  /// Savepoints go into `marks`.
  reply run(db::transaction& tx, const step& s, std::vector<db::savepoint>& marks) {
    using kind = step::kind;
    const record& r = s.row;
    switch (s.what) {
      case kind::find:
        return shown(tx.find(t, {r.id}));
      case kind::lock:
        return shown(tx.lock(t, {r.id}));
      case kind::insert:
        return {tx.insert(t, {r.id, r.u, r.a, r.v}).code()};
      case kind::edit: {
        auto e = tx.edit(t, {r.id});
        return {e ? e->set(v, r.v).code() : e.code()};
      }
      case kind::update:
        return {tx.update(t, {r.id}, {{"u", r.u}, {"a", r.a}}).code()};
      case kind::erase:
        return {tx.erase(t, {r.id}).code()};
      case kind::scan:
        return scan(tx, s);
      case kind::query: {
        const auto sums = tx.query(t).aggregate(db::count(), db::sum("a")).run({.threads = 1});
        return {db::outcome::ok, {{.id = sums->get<number>(0, 0), .a = sums->get<number>(0, 1)}}};
      }
      case kind::mark:
        marks.push_back(tx.savepoint());
        return {};
      case kind::go_back:
        return {tx.rollback_to(marks.back()).code()};
    }
    return {};
  }

  const kinds indexes;
  db::database base;
  db::table& t;
  const db::column<number> id = t.column<number>("id");
  const db::column<number> u = t.column<number>("u");
  const db::column<number> a = t.column<number>("a");
  const db::column<number> v = t.column<number>("v");

 private:
  reply shown(const db::result<db::row>& found) const {
    if (!found) return {found.code()};
    return {db::outcome::ok, {of(*found)}};
  }
  reply scan(const db::transaction& tx, const step& s) const {
    reply r;
    const auto show = [&](const db::row& row) {
      r.rows.push_back(of(row));
      return r.rows.size() != s.most;
    };
    if (s.over == way::all) {
      tx.for_each(t, show);
    } else if (s.over == way::by_id) {
      s.down ? tx.scan_down(t, {s.lo}, {s.hi}, show) : tx.scan(t, {s.lo}, {s.hi}, show);
    } else {
      const db::secondary& i = t.index(s.over == way::by_u ? "by_u" : "by_a");
      s.down ? tx.scan_down(i, {s.lo}, {s.hi}, show) : tx.scan(i, {s.lo}, {s.hi}, show);
    }
    return r;
  }
};

}  // namespace spolia::test::serial
