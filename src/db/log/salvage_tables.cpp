// SPDX-License-Identifier: Apache-2.0
// salvage_tables.cpp: putting what is whole of a damaged database into a new one.
//
// It goes through transactions, as a program does: what a file says that makes no sense is an
// outcome then, and harms nothing. Rows come first, secondary indexes at the end.
#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include <spolia/db/json.hpp>

#include "db/log/salvage.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

constexpr std::size_t changes_in_transaction = 1000;  // of one transaction
constexpr std::size_t bytes_in_batch = 4U << 20U;

std::string_view text_of_key(bytes_view b) noexcept {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

/// That must not fail: no other transaction is there, and nothing has a limit.
void put_it(status s) {
  if (!s) throw std::runtime_error("spolia::db: a row cannot be put: " + std::string(s.message()));
}

bool same_columns(const table_spec& x, const table_spec& y) {
  return std::equal(x.columns.begin(), x.columns.end(), y.columns.begin(), y.columns.end(),
                    [](const column_spec& a, const column_spec& b) {
                      return a.name == b.name && a.type == b.type && a.role == b.role;
                    });
}

}  // namespace

/// Whether the table has such columns.
static bool can_be_made(const schema& of, const index_spec& i) {
  try {
    look_at_index_name(i.name, of.name());
    static_cast<void>(of.key_columns(i.name, i.columns));
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

/// A change of a row that was read: all of it or the key, and some columns.
class salvaged_tables::words {
 public:
  /// Throws malformed.
  words(const schema& s, const change_header& c, decoder from, std::vector<std::uint64_t>& image)
      : schema_(s), image_(image) {
    image_.assign(s.words(), 0);
    const bytes_view all = from.rest();
    std::uint64_t shape = 0;
    if (c.what == row_change::put) {
      decoder key(all);
      read_row_image(key, s, true, image_.data());
      key_ = all.first(all.size() - key.rest().size());
      shape = read_row_image(from, s, false, image_.data());
      set_ = s.whole().mask;
    } else {
      read_row_image(from, s, true, image_.data());
      key_ = all.first(all.size() - from.rest().size());
    }
    if (c.what == row_change::set) {
      const std::uint64_t columns = from.packed();
      const std::uint64_t nulls = from.packed();
      const set_rules rules(s);
      if ((columns & ~rules.settable) != 0 || (nulls & ~(columns & rules.nullable)) != 0) {
        rules.refuse({columns, nulls});
      }
      read_columns(from, s, {columns, nulls}, image_.data());
      set_ = columns;
      shape = nulls;
    }
    if (!from.done()) throw malformed("a change is longer than its row");
    for (const column_layout& column : s.columns()) {
      const bool null = (shape >> column.number & 1U) != 0;
      values_.push_back(null ? value() : column.decode(image_.data() + column.first));
      const std::uint64_t word = image_[column.first];
      const bool number = (s.doubles() & s.keyed()) >> column.number & 1U;
      if (number && is_nan_word(word) && word != nan_word) {
        throw malformed("a key has a not-a-number of an older format, of which there is one now");
      }
    }
    for (const std::uint32_t n : s.key()) keys_.push_back(values_[n]);
  }

  [[nodiscard]] const schema& layout() const noexcept { return schema_; }
  /// As the file has it.
  [[nodiscard]] std::string key() const { return std::string(text_of_key(key_)); }
  [[nodiscard]] const std::vector<value>& keys() const noexcept { return keys_; }
  [[nodiscard]] const std::vector<value>& all() const noexcept { return values_; }
  [[nodiscard]] std::uint64_t columns() const noexcept { return set_; }

 private:
  const schema& schema_;
  std::vector<std::uint64_t>& image_;
  bytes_view key_;
  std::uint64_t set_ = 0;
  std::vector<value> values_;
  std::vector<value> keys_;
};

bool salvaged_tables::can_be(const schema& s, const change_header& c, bytes_view row) {
  std::vector<std::uint64_t> image;
  try {
    words(s, c, decoder(row), image);
  } catch (const malformed&) {
    return false;
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

void salvaged_tables::hole(missing_records what) {
  sound_ = false;
  holes_.push_back(what);
}

void salvaged_tables::number_up_to(std::uint32_t count) {
  if (count > tables_.size()) tables_.resize(count);
}

salvaged_tables::one* salvaged_tables::find(std::uint32_t number) const noexcept {
  return number < tables_.size() ? tables_[number].get() : nullptr;
}

/// Null: its definition is lost, and so is what would be done to it.
salvaged_tables::one* salvaged_tables::known(std::uint32_t number) {
  if (number >= most_tables) throw malformed("there are too many tables");
  named_ = std::max(named_, number + 1);
  one* const t = find(number);
  if (t == nullptr && sound_) throw malformed("it is about an unknown table");
  return t;
}

const schema* salvaged_tables::layout_of(std::uint32_t number) const noexcept {
  const one* const t = find(number);
  return t != nullptr ? &t->of->layout() : nullptr;
}

salvaged_tables::one& salvaged_tables::make(std::uint32_t number, const table_spec& spec) {
  if (number >= most_tables) throw malformed("there are too many tables");
  flush();
  table_spec bare = spec;
  bare.indexes.clear();
  make_room_for(spec.name);
  auto made = std::make_unique<one>();
  made->spec = spec;
  try {
    made->of = &base_.create_table(bare);
  } catch (const std::invalid_argument& e) {
    throw malformed(e.what());
  }
  number_up_to(number + 1);
  tables_[number] = std::move(made);
  take_indexes(*tables_[number], spec);
  return *tables_[number];
}

salvaged_tables::one* salvaged_tables::called(const std::string& name) const noexcept {
  const auto same = std::find_if(tables_.begin(), tables_.end(), [&](const auto& t) {
    return t != nullptr && t->spec.name == name;
  });
  return same == tables_.end() ? nullptr : same->get();
}

/// A table that is to have the name has it alone. Another one that has it was dropped, or renamed,
/// by a record that is lost: which of the two is not known, so it keeps its rows by a name that is
/// made up.
void salvaged_tables::make_room_for(const std::string& name) {
  one* const other = called(name);
  if (other == nullptr) return;
  if (sound_) throw malformed("two tables have one name");
  constexpr std::size_t longest = 65'000;  // a number follows
  std::string made_up;
  for (std::uint32_t n = 2; made_up.empty() || called(made_up) != nullptr; ++n) {
    made_up = name.substr(0, longest) + ' ' + std::to_string(n);
  }
  std::string former = other->former_name.empty() ? name : other->former_name;
  give_name(*other, made_up);
  other->former_name = std::move(former);
}

void salvaged_tables::rename(one& t, const std::string& name) {
  if (t.spec.name != name) {
    make_room_for(name);
    give_name(t, name);
  }
  t.former_name.clear();
}

/// No other table has it.
void salvaged_tables::give_name(one& t, const std::string& name) {
  flush();
  try {
    put_it(base_.rename_table(*t.of, name));
  } catch (const std::invalid_argument& e) {
    throw malformed(e.what());
  }
  t.spec.name = name;
}

void salvaged_tables::rename_table(std::uint32_t number, const std::string& name) {
  one* const t = known(number);
  if (t != nullptr && !t->doubtful) rename(*t, name);  // else another one may have been meant
}

/// All that make sense; the others are named.
void salvaged_tables::take_indexes(one& t, const table_spec& spec) {
  t.spec.indexes = spec.indexes;
  std::erase_if(t.spec.indexes, [&](const index_spec& i) {
    const bool lost = !can_be_made(t.of->layout(), i);
    if (lost) t.lost_indexes.push_back(i.name);
    return lost;
  });
}

void salvaged_tables::create_table(std::uint32_t number, const table_spec& spec, bool doubtful) {
  make(number, spec).doubtful = doubtful;
}

void salvaged_tables::remove(std::unique_ptr<one>& t) {
  flush();
  put_it(base_.drop_table(*t->of));
  t.reset();
}

void salvaged_tables::drop_table(std::uint32_t number) {
  const one* const t = known(number);
  if (t != nullptr && t->doubtful) return;  // another one may have been meant
  if (t != nullptr) remove(tables_[number]);
  lost_.erase(number);
}

void salvaged_tables::create_index(std::uint32_t number, const index_spec& spec) {
  one* const t = known(number);
  if (t == nullptr) return;
  if (!can_be_made(t->of->layout(), spec)) throw malformed("an index makes no sense");
  const auto same = [&](const index_spec& i) { return i.name == spec.name; };
  if (std::erase_if(t->spec.indexes, same) != 0 && sound_) {
    throw malformed("an index is made twice");
  }
  t->spec.indexes.push_back(spec);
}

void salvaged_tables::drop_index(std::uint32_t number, const std::string& name) {
  one* const t = known(number);
  if (t == nullptr) return;
  const auto gone =
      std::erase_if(t->spec.indexes, [&](const index_spec& i) { return i.name == name; });
  if (gone == 0 && sound_) throw malformed("an index is dropped that does not exist");
}

void salvaged_tables::begin_change(std::size_t bytes) {
  if (changes_ >= changes_in_transaction || bytes_ >= bytes_in_batch) flush();
  if (now_ == nullptr) now_.reset(new transaction(base_.begin("salvage")));
  ++changes_;
  bytes_ += bytes;
}

void salvaged_tables::flush() {
  if (now_ != nullptr) put_it(now_->commit());
  now_.reset();
  changes_ = bytes_ = 0;
}

change_header salvaged_tables::next_change(decoder& from) {
  if (decoder(from).number<std::uint8_t>() != static_cast<std::uint8_t>(row_change::set)) {
    const change_header c = read_long_change(from);
    from.bytes(change_header::bytes);
    return c;
  }
  from.number<std::uint8_t>();
  const std::uint64_t table = from.packed();
  const std::uint64_t length = from.packed();
  if (table >= most_tables || length > longest_record) throw malformed("a change of no table");
  return {row_change::set, static_cast<std::uint32_t>(table), static_cast<std::uint32_t>(length)};
}

std::string salvaged_tables::apply(bytes_view changes) {
  std::string wrong;
  decoder from(changes);
  while (!from.done()) {
    change_header c;
    bytes_view row;
    try {
      c = next_change(from);
      row = from.bytes(c.length);
      named_ = std::max(named_, c.table + 1);
    } catch (const malformed& e) {
      return e.what();  // where the next one begins is not known
    }
    one* const t = find(c.table);
    if (t == nullptr) {
      lost_[c.table].number = c.table;
      ++lost_[c.table].changes;
      if (sound_) wrong = "a change of an unknown table";
      continue;
    }
    try {
      change(*t, c, row, false);
    } catch (const malformed& e) {
      wrong = e.what();
    }
  }
  return wrong;
}

void salvaged_tables::change(one& t, const change_header& c, bytes_view row, bool from_block) {
  begin_change(row.size());
  try {
    const words w(t.of->layout(), c, decoder(row), image_);
    switch (c.what) {
      case row_change::put:
        return put(t, w, from_block);
      case row_change::set:
        return set(t, w);
      case row_change::erase:
        return erase(t, w);
    }
  } catch (const std::invalid_argument& e) {
    throw malformed(e.what());
  }
}

void salvaged_tables::put(one& t, const words& row, bool from_block) {
  const status made = now_->insert(*t.of, values(row.all()));
  if (made == outcome::duplicate_key) {
    if (from_block && t.begun_empty) throw malformed("a key comes twice");
    auto there = now_->edit(*t.of, values(row.keys()));
    put_it(there.why());
    for (const column_layout& c : row.layout().columns()) {
      if (c.role != primary_key) put_it(there->set(c, row.all()[c.number]));
    }
  } else {
    put_it(made);
  }
  if (!t.parts.empty()) t.parts.erase(row.key());
  if (!holes_.empty()) t.marks[row.key()] = {.exact = holes_.size(), .since = 0, .known = 0};
}

void salvaged_tables::set(one& t, const words& row) {
  auto there = now_->edit(*t.of, values(row.keys()));
  if (!there) {
    if (there.why() != outcome::not_found) put_it(there.why());
    part& p = t.parts[row.key()];
    each_column(row.columns() | row.layout().keyed(), [&](std::uint32_t c) {
      std::string text;
      append_json(text, row.all()[c]);
      p[c] = std::move(text);
    });
    if (sound_) throw malformed("a row is changed that does not exist");
    return;
  }
  const auto& columns = row.layout().columns();
  each_column(row.columns(),
              [&](std::uint32_t c) { put_it(there->set(columns[c], row.all()[c])); });
  if (holes_.empty()) return;
  mark& m = t.marks[row.key()];
  if (m.exact == holes_.size()) return;
  if (m.since != holes_.size()) m.known = 0;
  m.since = holes_.size();
  m.known |= row.columns();
  m.mixed = ((m.known | row.layout().keyed()) != row.layout().whole().mask);
  if (!m.mixed) m.exact = holes_.size();
}

void salvaged_tables::erase(one& t, const words& row) {
  const status gone = now_->erase(*t.of, values(row.keys()));
  t.marks.erase(row.key());
  t.parts.erase(row.key());
  if (gone != outcome::not_found) return put_it(gone);
  if (sound_) throw malformed("a row is erased that does not exist");
}

void salvaged_tables::begin_table(std::uint32_t number, const table_spec& spec, bool incomplete) {
  one* const old = find(number);
  // Of one number, and with the same columns, it is the same table: a record that is lost has
  // renamed it.
  if (old != nullptr && !old->doubtful && same_columns(old->spec, spec)) rename(*old, spec.name);
  const bool same = old != nullptr && old->spec.name == spec.name;
  one* t = old;
  if (!same || !incomplete) {
    if (old != nullptr) remove(tables_[number]);
    t = &make(number, spec);
  }
  t->begun_empty = !same || !incomplete;
  if (!t->begun_empty) take_indexes(*t, spec);
  t->incomplete = incomplete;
}

std::string salvaged_tables::put_rows(std::uint32_t number, bytes_view rows, std::uint64_t count) {
  one* const t = find(number);
  if (t == nullptr) {
    lost_[number].number = number;
    lost_[number].rows += count;
    named_ = std::max(named_, number + 1);
    return {};
  }
  const schema& s = t->of->layout();
  std::vector<bytes_view> all;
  try {
    image_.resize(s.words());
    decoder from(rows);
    while (all.size() < count) {
      const bytes_view before = from.rest();
      read_row_image(from, s, false, image_.data());
      all.push_back(before.first(before.size() - from.rest().size()));
    }
    if (!from.done()) throw malformed("a block is longer than its rows");
  } catch (const malformed& e) {
    t->incomplete = true;
    return e.what();
  }
  std::string wrong;
  for (const bytes_view row : all) {
    try {
      change(*t, {.what = row_change::put}, row, true);
    } catch (const malformed& e) {
      wrong = e.what();
    }
  }
  return wrong;
}

void salvaged_tables::make_index(one& t, const index_spec& i) {
  index_spec spec = i;
  try {
    status s = base_.create_index(*t.of, spec);
    if (s == outcome::duplicate_key && spec.unique) {
      t.not_unique.push_back(spec.name);
      spec.unique = false;
      s = base_.create_index(*t.of, spec);
    }
    put_it(s);
  } catch (const std::invalid_argument&) {
    t.lost_indexes.push_back(spec.name);
  }
}

void salvaged_tables::make_indexes(const recovery_listener& tell) {
  flush();
  std::uint64_t done = 0;
  for (const auto& t : tables_) {
    if (tell) tell({"indexes", done++, tables_.size(), 0});
    if (t == nullptr) continue;
    for (const index_spec& i : t->spec.indexes) make_index(*t, i);
  }
}

std::vector<older_rows> salvaged_tables::older_of(const one& t, std::uint64_t rows) const {
  std::vector<std::uint64_t> counts(holes_.size() + 1);
  for (const auto& [key, m] : t.marks) ++counts[m.exact];
  counts[0] += rows - t.marks.size();
  std::vector<older_rows> older;
  for (std::size_t i = 0; i < holes_.size(); ++i) {
    if (counts[i] != 0) older.push_back({.than = holes_[i], .rows = counts[i]});
  }
  return older;
}

void salvaged_tables::report(salvage_report& to, const line_writer& write) const {
  const reader now = base_.snapshot("salvage");
  for (const auto& t : tables_) {
    if (t == nullptr) continue;
    salvaged_table told{.name = t->spec.name};
    now.for_each(*t->of, [&](const row&) { ++told.rows; });
    told.older = older_of(*t, told.rows);
    told.mixed = static_cast<std::uint64_t>(std::count_if(
        t->marks.begin(), t->marks.end(), [](const auto& m) { return m.second.mixed; }));
    told.in_part = t->parts.size();
    told.incomplete = t->incomplete;
    told.doubtful = t->doubtful;
    told.former_name = t->former_name;
    told.not_unique = t->not_unique;
    told.lost_indexes = t->lost_indexes;
    std::string lines;
    for (const auto& [key, p] : t->parts) {
      char between = '{';
      for (const auto& [column, text] : p) {
        lines += std::exchange(between, ',');
        append_json_string(lines, t->of->layout().columns()[column].name);
        lines += ':' + text;
      }
      lines += "}\n";
    }
    if (!lines.empty()) {
      const auto number = static_cast<std::size_t>(&t - tables_.data());
      told.in_part_file = write("in-part-table-" + std::to_string(number) + ".jsonl", lines);
    }
    to.tables.push_back(std::move(told));
  }
  for (const auto& [number, lost] : lost_) to.lost_tables.push_back(lost);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
