// SPDX-License-Identifier: Apache-2.0
// replay_catalog.cpp: tables and indexes that come and go in a log that is read again.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "db/log/recovery.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

std::string in_words(const value& v) {
  struct {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(std::int64_t n) const { return std::to_string(n); }
    std::string operator()(double n) const { return std::to_string(n); }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(std::string_view text) const {
      return std::string(1, '"').append(text) + '"';
    }
    std::string operator()(decimal_number n) const { return n.text(); }
    std::string operator()(instant t) const { return to_text(t); }
    std::string operator()(blob_view) const { return "a blob"; }
  } const write;
  return std::visit(write, v.what());
}

/// The primary key of a row.
std::string in_words(const schema& s, const row_place& row) {
  std::vector<std::uint64_t> image(s.words());
  row.load(s.whole().runs, image.data());
  std::string words = "(";
  for (const std::uint32_t n : s.key()) {
    const column_layout& c = s.columns()[n];
    if (words.size() > 1) words += ", ";
    words += in_words(c.decode(image.data() + c.first));
  }
  return words + ")";
}

}  // namespace

/// A thread that adds an entry checks afterwards whether another row has the key: of two threads
/// that add two rows of one key, one at least sees the other's.
void loader::must_be_alone(const table& t, const secondary& i, const key_words& key,
                           std::uint64_t slot) {
  std::uint64_t other = no_slot;
  const auto look = [&](std::uint64_t there, const std::uint64_t*) {
    if (there != slot) other = there;
    return other == no_slot;
  };
  i.entries_->scan(key, key, not_yet, slot_visitor(look));
  if (other == no_slot) return;
  std::string one = in_words(t.form(), t.at(slot));
  std::string two = in_words(t.form(), t.at(other));
  if (two < one) one.swap(two);  // slots depend on which thread was faster
  throw malformed("rows " + one + " and " + two + " of table " + t.name() +
                  " have the same key of the unique index " + i.parts_->name);
}

table& loader::create(engine& of, const table_spec& spec, std::size_t number) {
  if (of.tables.named(spec.name) != nullptr) throw malformed("a table is made twice");
  try {
    table& made = of.tables.make(spec, of);
    made.number_ = static_cast<std::uint32_t>(number);
    try {
      of.tables.add(made);
    } catch (...) {
      of.tables.unmake(made);
      throw;
    }
    return made;
  } catch (const std::invalid_argument& e) {
    throw malformed(e.what());
  }
}

void loader::add_index(table& t, const index_spec& spec) {
  index_set now = t.indexes();
  for (const secondary* const i : now.all) {
    if (i->parts_->name == spec.name) throw malformed("an index is made twice");
  }
  std::vector<secondary*>& all = t.parts_->secondaries;
  all.reserve(all.size() + 1);
  try {
    all.push_back(&t.make_index(spec));
  } catch (const std::invalid_argument& e) {
    throw malformed(e.what());
  }
  now.all.push_back(all.back());
  now.columns |= now.all.back()->parts_->mask;
  t.show(std::make_unique<index_set>(std::move(now)));
}

void loader::drop_index(table& t, const std::string& name) {
  std::vector<secondary*>& all = t.parts_->secondaries;
  const auto gone = std::find_if(all.begin(), all.end(),
                                 [&](const secondary* i) { return i->parts_->name == name; });
  if (gone == all.end()) throw malformed("an index is dropped that does not exist");
  auto left = std::make_unique<index_set>();
  for (secondary* const i : all) {
    if (i == *gone) continue;
    left->all.push_back(i);
    left->columns |= i->parts_->mask;
  }
  t.show(std::move(left));
  t.engine_.tables.unmake(**gone);
  all.erase(gone);
}

void loader::rename(table& t, const std::string& name) {
  table_list& all = t.engine_.tables;
  if (name == t.name()) return;
  if (all.named(name) != nullptr) throw malformed("two tables get one name");
  try {
    look_at_table_name(name);
  } catch (const std::invalid_argument& e) {
    throw malformed(e.what());
  }
  t.form().names()->begin(name) = 0;
  all.add_name(name, t);
  all.take_name(t.name());
  t.show_name(name);
}

void recovery::change_table(record_kind what, decoder body) {
  const auto number = body.number<std::uint32_t>();
  table& t = numbered(number);
  if (what == record_kind::drop_table) {
    drop_table(number);
  } else if (what == record_kind::create_index) {
    loader::add_index(t, read_index(body));
  } else if (what == record_kind::rename_table) {
    loader::rename(t, body.text());
  } else {
    loader::drop_index(t, body.text());
  }
  if (!body.done()) throw malformed("something follows a change of the catalogue");
}

void recovery::create_table(const table_spec& spec) {
  if (numbered_.size() == most_tables) throw malformed("there are too many tables");
  numbered_.push_back(&loader::create(engine_, spec, numbered_.size()));
}

/// Its memory goes at once: the log may have made and dropped many.
void recovery::drop_table(std::uint32_t number) {
  give_all();
  pool_.finish();  // some of its rows may have been on their way
  table* const gone = std::exchange(numbered_[number], nullptr);
  engine_.tables.erase(*gone);
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
