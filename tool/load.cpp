// SPDX-License-Identifier: Apache-2.0
#include "load.hpp"

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string_view>
#include <variant>

#include "errors.hpp"
#include "text.hpp"

namespace tool {
namespace {

/// As they are stored: by their bits, not by comparing numbers.
bool is_the_same(const db::argument& x, const db::argument& y) {
  const auto* const a = std::get_if<double>(&x.what());
  const auto* const b = std::get_if<double>(&y.what());
  if (a == nullptr || b == nullptr) return x.what() == y.what();
  return db::double_word(*a) == db::double_word(*b);
}

class batch {
 public:
  batch(db::database& base, row_source& rows, const load_options& o, load_notes& notes)
      : rows_(rows), options_(o), notes_(notes), tx_(base.begin("load")) {}

  /// Puts one row in.
  void put() {
    db::table& t = rows_.table();
    notes_.read(rows_);
    const db::status s = tx_.insert(t, rows_.row().values());
    if (s) {
      notes_.inserted(tx_, t, rows_.row());
      ++counts_.inserted;
    } else if (s != db::outcome::duplicate_key) {
      give_up(s);
    } else {
      settle(t, s);
    }
  }
  load_counts commit() {
    notes_.commits(tx_);
    if (const db::status s = tx_.commit(); !s) give_up(s);
    return counts_;
  }

 private:
  void settle(db::table& t, const db::status& taken) {
    if (options_.conflict == on_conflict::skip) {
      ++counts_.skipped;
      return;
    }
    const auto key = rows_.row().key();
    const auto there = tx_.find(t, db::values(key));
    if (!there) refuse_unique(taken);
    if (options_.conflict == on_conflict::fail) {
      rows_.refuse(
          fmt::format("table {} has a row with this key; --on-conflict skip or replace", t.name()));
    }
    notes_.replaced(tx_, t, rows_.row(), *there);
    replace(t, key);
  }
  void replace(db::table& t, const std::vector<db::value>& key) {
    auto row = tx_.edit(t, db::values(key));
    if (!row) give_up(row.why());
    for (const db::column_layout& c : t.layout().columns()) {
      if (c.role == db::primary_key) continue;
      const db::argument& v = rows_.row().values()[c.number];
      if (is_the_same(row->get(c), v)) continue;
      const db::status s = row->set(c, v);
      if (s == db::outcome::duplicate_key) refuse_unique(s);
      if (!s) give_up(s);
    }
    ++counts_.replaced;
  }
  [[noreturn]] void refuse_unique(const db::status& taken) const {
    rows_.refuse(fmt::format("unique {} has the value already", taken.reason()));
  }
  [[noreturn]] void give_up(const db::status& s) const { rows_.refuse(in_words(s)); }

  row_source& rows_;
  const load_options& options_;
  load_notes& notes_;
  db::transaction tx_;
  load_counts counts_;
};

}  // namespace

void load_rows(db::database& base, row_source& rows, const load_options& o, load_notes& notes,
               load_counts& done, const std::function<void(const row_source&)>& tell) {
  bool more = true;
  while (notes.behind() && (more = rows.next())) {
    notes.pass(rows);
    tell(rows);
  }
  while (more) {
    batch one(base, rows, o, notes);
    std::uint64_t n = 0;
    try {
      while ((o.batch == 0 || n < o.batch) && (more = rows.next())) {
        one.put();
        ++n;
        tell(rows);
      }
      if (n == 0) return;
      const load_counts did = one.commit();
      done.inserted += did.inserted;
      done.replaced += did.replaced;
      done.skipped += did.skipped;
    } catch (const std::invalid_argument& e) {
      rows.refuse(e.what());
    } catch (const std::bad_alloc&) {
      throw could_not_look("out of memory; a smaller --batch may help");
    }
  }
}

}  // namespace tool
