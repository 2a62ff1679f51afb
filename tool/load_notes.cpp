// SPDX-License-Identifier: Apache-2.0
#include "load_notes.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "errors.hpp"
#include "schema_json.hpp"
#include "text.hpp"

namespace tool {
namespace {

constexpr std::string_view notes_name = "spolia_load";
constexpr std::string_view inserted_prefix = "spolia_load.inserted.";
constexpr std::string_view replaced_prefix = "spolia_load.replaced.";
constexpr std::string_view undo_name = "all-or-nothing";
constexpr std::string_view resume_name = "resume";
constexpr std::int64_t only_row = 1;
constexpr std::uint64_t rows_at_once = 1000;

db::table_spec notes_spec() {
  return {.name = std::string(notes_name),
          .columns = {{"id", db::int64, db::primary_key},
                      {"how", db::text()},
                      {"input", db::text()},
                      {"tables", db::text()},
                      {"made", db::text()},
                      {"rows", db::int64},
                      {"hash", db::int64}}};
}

/// Names may be any bytes.
std::string as_list(const std::vector<std::string>& names) {
  std::string all = "[";
  for (const std::string& n : names) {
    if (all.size() > 1) all += ',';
    db::append_json(all, std::string_view(n));
  }
  return all + "]";
}

/// JSON has these names in base64.
std::vector<std::string> of_list(const std::string& text) {
  std::vector<std::string> names;
  const auto all = nlohmann::json::parse(text, nullptr, false);
  if (!all.is_array()) return names;
  for (const auto& one : all) {
    if (one.is_string()) names.push_back(one.get<std::string>());
    if (!one.is_object() || !one.contains("base64") || !one["base64"].is_string()) continue;
    if (auto name = from_base64(one["base64"].get<std::string>())) names.push_back(*name);
  }
  return names;
}

void must(const db::status& s) {
  if (!s) throw failure(in_words(s));
}

std::vector<db::value> values_of(const db::table& t, const db::row& r, bool key_alone) {
  std::vector<db::value> all;
  for (const db::column_layout& c : t.layout().columns()) {
    if (!key_alone || c.role == db::primary_key) all.push_back(r.get(c));
  }
  return all;
}

bool is_empty(const db::database& base, const db::table& t) {
  bool none = true;
  base.snapshot().for_each(t, [&](const db::row&) { return none = false; });
  return none;
}

/// f(transaction, row) changes something for each row of a table that nothing else changes.
template <class F>
std::uint64_t each_row(db::database& base, const db::table& of, F&& f) {
  std::uint64_t rows = 0;
  std::optional<db::transaction> tx;
  const db::reader at = base.snapshot("undo");
  at.for_each(of, [&](const db::row& r) {
    if (!tx) tx.emplace(base.begin("undo"));
    must(f(*tx, r));
    if (++rows % rows_at_once != 0) return;
    must(tx->commit());
    tx.reset();
  });
  if (tx) must(tx->commit());
  return rows;
}

std::string unfinished_load(const load_notes::left& l) {
  return fmt::format("an unfinished load of {}, which has loaded {}", printable(l.from),
                     so_many(l.rows, "row"));
}
constexpr const char* what_can_be_done =
    "Go on with that one (--resume), or add --start-over, which leaves the rows that it has loaded "
    "and forgets how far it was";

}  // namespace

load_notes::load_notes(db::database& base, unfinished how)
    : base_(base), how_(how), hash_(fnv1a_of_nothing) {
  left_ = look();
  if (!left_ || left_->how != unfinished::undo) return;
  undone_ = undo(*left_);
  left_.reset();
}

/// Also drops notes of one that has come to its end.
std::optional<load_notes::left> load_notes::look() {
  db::table* const t = base_.try_find_table(notes_name);
  if (t == nullptr) return std::nullopt;
  if (!same(t->spec(), notes_spec())) {
    if (how_ == unfinished::keep) return std::nullopt;
    throw failure(fmt::format(
        "the store has a table {} that is not one of spolia load, which needs that name for "
        "--resume and --all-or-nothing",
        notes_name));
  }
  const auto row = base_.snapshot().find(*t, {only_row});
  if (!row) {
    drop_notes();
    return std::nullopt;
  }
  const auto text = [&](const char* column) {
    return std::string(row->get(t->column<std::string_view>(column)));
  };
  const auto number = [&](const char* column) {
    return static_cast<std::uint64_t>(row->get(t->column<std::int64_t>(column)));
  };
  return left{.how = text("how") == undo_name ? unfinished::undo : unfinished::resume,
              .from = text("input"),
              .tables = text("tables"),
              .made = text("made"),
              .rows = number("rows"),
              .hash = number("hash")};
}

void load_notes::begin(const std::string& from, const std::vector<std::string>& tables,
                       bool start_over) {
  if (how_ == unfinished::keep) return;
  if (start_over && left_) {
    drop_notes();
    left_.reset();
  }
  now_ = {.how = how_, .from = from, .tables = as_list(tables), .made = "[]", .hash = hash_};
  if (!left_) {
    notes_ = &base_.create_table(notes_spec());
    change([&](db::transaction& tx) { return write_down(tx); });
    return;
  }
  if (how_ == unfinished::undo) {
    throw usage_error(
        fmt::format("the store has {}. {}", unfinished_load(*left_), what_can_be_done));
  }
  if (left_->tables != now_.tables) {
    throw usage_error(
        fmt::format("the store has {}, into the tables {}, and this one is into {}. {}",
                    unfinished_load(*left_), printable(left_->tables), printable(now_.tables),
                    what_can_be_done));
  }
  notes_ = base_.try_find_table(notes_name);
}

void load_notes::make(const std::vector<std::string>& tables) {
  if (how_ != unfinished::undo || tables.empty()) return;
  now_.made = as_list(tables);
  change([&](db::transaction& tx) { return write_down(tx); });
}

void load_notes::use(const db::table& t) {
  if (how_ != unfinished::undo || undo_.contains(&t)) return;
  db::table_spec before = t.spec();
  before.indexes.clear();
  db::table_spec keys = before;
  std::erase_if(keys.columns, [](const auto& c) { return c.role != db::primary_key; });
  keys.name = std::string(inserted_prefix) + t.name();
  before.name = std::string(replaced_prefix) + t.name();
  undo_tables made;
  made.inserted = &base_.create_table(keys);
  made.replaced = &base_.create_table(before);
  undo_.emplace(&t, made);
}

void load_notes::pass(const row_source& row) {
  read(row);
  if (rows_ != left_->rows || hash_ == left_->hash) return;
  throw usage_error(fmt::format(
      "{} does not begin with the {} that the unfinished load of {} has loaded. Give that "
      "input, or add --start-over, which leaves the rows that were loaded "
      "and begins with the first one",
      printable(now_.from), so_many(rows_, "row"), printable(left_->from)));
}

void load_notes::read(const row_source& row) {
  ++rows_;
  if (how_ != unfinished::resume) return;
  line_ = row.table().name();
  for (const db::argument& v : row.row().values()) {
    line_ += ',';
    db::append_json(line_, v);
  }
  line_ += '\n';
  hash_ = fnv1a(line_, hash_);
}

void load_notes::inserted(db::transaction& tx, const db::table& t, const record& row) const {
  if (how_ != unfinished::undo) return;
  must(tx.insert(*undo_.at(&t).inserted, db::values(row.key())));
}

/// Only what was there before the load counts.
void load_notes::replaced(db::transaction& tx, const db::table& t, const record& row,
                          const db::row& before) const {
  if (how_ != unfinished::undo) return;
  const undo_tables& notes = undo_.at(&t);
  if (tx.find(*notes.inserted, db::values(row.key()))) return;
  const db::status s = tx.insert(*notes.replaced, db::values(values_of(t, before, false)));
  if (s != db::outcome::duplicate_key) must(s);
}

void load_notes::commits(db::transaction& tx) {
  if (notes_ == nullptr) return;
  now_.rows = rows_;
  now_.hash = hash_;
  must(write_down(tx));
}

db::status load_notes::write_down(db::transaction& tx) const {
  const auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  const std::string_view how = how_ == unfinished::undo ? undo_name : resume_name;
  const std::vector<std::pair<const char*, db::value>> row = {
      {"how", how},        {"input", now_.from},        {"tables", now_.tables},
      {"made", now_.made}, {"rows", number(now_.rows)}, {"hash", number(now_.hash)}};
  auto there = tx.edit(*notes_, {only_row});
  if (!there) {
    std::vector<db::value> values{only_row};
    for (const auto& [column, v] : row) values.push_back(v);
    return tx.insert(*notes_, db::values(values));
  }
  for (const auto& [column, v] : row) {
    if (const db::status s = there->set(notes_->layout().column(column), v); !s) return s;
  }
  return db::outcome::ok;
}

void load_notes::change(const std::function<db::status(db::transaction&)>& f) {
  must(base_.transact([&](db::transaction& tx) { return f(tx); }));
}

void load_notes::finish() {
  if (notes_ == nullptr) return;
  if (behind()) {
    throw usage_error(fmt::format("{} has {}, and the unfinished load of {} has loaded {}. {}",
                                  printable(now_.from), so_many(rows_, "row"),
                                  printable(left_->from), left_->rows, what_can_be_done));
  }
  change([&](db::transaction& tx) { return tx.erase(*notes_, {only_row}); });
  drop_notes();
}

void load_notes::fail() {
  if (how_ == unfinished::undo && notes_ != nullptr) undo(now_);
}

/// All rows that the load has touched go first, and then what was there before comes back: in
/// another order two rows could have one value of a unique index meanwhile. The notes stay as they
/// are until the end, so whatever stops this, it can be done once more.
std::uint64_t load_notes::undo(const left& l) {
  const auto each_table = [&](std::string_view prefix, auto&& f) {
    for (const db::table* const notes : base_.tables()) {
      if (!notes->name().starts_with(prefix)) continue;
      if (db::table* const of = base_.try_find_table(notes->name().substr(prefix.size())))
        f(*of, *notes);
    }
  };
  std::uint64_t rows = 0;
  const auto take_rows_out = [&](db::table& of, const db::table& notes) {
    rows += each_row(base_, notes, [&](db::transaction& tx, const db::row& r) {
      return take_out(tx, of, values_of(notes, r, true));
    });
  };
  each_table(inserted_prefix, take_rows_out);
  each_table(replaced_prefix, take_rows_out);
  each_table(replaced_prefix, [&](db::table& of, const db::table& notes) {
    each_row(base_, notes, [&](db::transaction& tx, const db::row& r) {
      return tx.insert(of, db::values(values_of(notes, r, false)));
    });
  });
  for (const std::string& name : of_list(l.made)) {
    db::table* const t = base_.try_find_table(name);
    if (t != nullptr && is_empty(base_, *t)) must(base_.drop_table(*t));
  }
  drop_notes();
  return rows;
}

/// A program may have deleted it meanwhile.
db::status load_notes::take_out(db::transaction& tx, db::table& of,
                                const std::vector<db::value>& key) {
  const db::status s = tx.erase(of, db::values(key));
  return s == db::outcome::not_found ? db::status() : s;
}

void load_notes::drop_notes() {
  for (db::table* t : base_.tables()) {
    const bool notes =
        t->name().starts_with(inserted_prefix) || t->name().starts_with(replaced_prefix);
    if (notes) must(base_.drop_table(*t));
  }
  undo_.clear();
  if (db::table* const t = base_.try_find_table(notes_name)) must(base_.drop_table(*t));
  notes_ = nullptr;
}

}  // namespace tool
