// SPDX-License-Identifier: Apache-2.0
#include "csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text.hpp"

namespace tool {
namespace {

constexpr std::string_view line_end = "\r\n";
constexpr std::string_view utf8_mark = "\xEF\xBB\xBF";

/// Quotes all that another program could take for something else, or trim.
bool plain(std::string_view s) noexcept {
  const auto harmless = [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '"'; };
  return !s.empty() && s.front() != ' ' && s.back() != ' ' &&
         std::all_of(s.begin(), s.end(), harmless);
}

void append_text(std::string& to, std::string_view s) {
  if (plain(s)) {
    to += s;
    return;
  }
  to += '"';
  for (const char c : s) {
    if (c == '"') to += '"';
    to += c;
  }
  to += '"';
}

struct appender {
  std::string& to;
  void operator()(std::monostate) const {}
  void operator()(std::int64_t v) const { append(to, v); }
  void operator()(double v) const { append(to, v); }
  void operator()(db::decimal_number v) const { to += v.text(); }
  void operator()(db::instant v) const { to += db::to_text(v); }
  void operator()(bool v) const { to += v ? "true" : "false"; }
  void operator()(std::string_view v) const { append_text(to, v); }
  void operator()(db::blob_view v) const {
    if (v.size() == 0) to += "\"\"";  // no null
    append_base64(to, v.chars());
  }
};

}  // namespace

csv_fields::csv_fields(byte_source& from, std::string name) : input_(from, std::move(name)) {
  input_.skip(utf8_mark);
}

bool csv_fields::next(std::vector<field>& to) {
  to.clear();
  while (to.empty()) {
    if (input_.peek() == text_input::end) return false;
    bool more = true;
    while (more) {
      to.emplace_back();
      read_field(to.back());
      more = more_follow();
      if (to.size() > db::most_columns) input_.fail("more fields than a table has columns");
    }
    if (to.size() == 1 && to[0].text.empty() && !to[0].quoted) to.clear();
  }
  return true;
}

void csv_fields::read_field(field& f) {
  f.line = input_.line();
  f.column = input_.column();
  if (input_.peek() == '"') {
    read_quoted(f);
    return;
  }
  for (;;) {
    const int c = input_.peek();
    if (c == text_input::end || c == ',' || c == '\n' || c == '\r') return;
    if (c == '"') input_.fail("a quote in a field that does not begin with one");
    if (f.text.size() == text_input::longest) input_.fail(text_input::longer_than_allowed("field"));
    f.text += static_cast<char>(input_.next());
  }
}

void csv_fields::read_quoted(field& f) {
  f.quoted = true;
  input_.next();
  for (;;) {
    const int c = input_.next();
    if (c == text_input::end) {
      throw bad_input(input_.name(), f.line, f.column, "the quote that begins here never ends");
    }
    if (c == '"') {
      if (input_.peek() != '"') return;
      input_.next();
    }
    if (f.text.size() == text_input::longest) input_.fail(text_input::longer_than_allowed("field"));
    f.text += static_cast<char>(c);
  }
}

bool csv_fields::more_follow() {
  const int c = input_.peek();
  if (c == text_input::end) return false;
  if (c == ',') {
    input_.next();
    return true;
  }
  if (c == '\r') {
    input_.next();
    if (input_.peek() != '\n') input_.fail("a carriage return without a line feed");
  } else if (c != '\n') {
    input_.fail("text after the quote that ends a field");
  }
  input_.next();
  return false;
}

csv_source::csv_source(byte_source& from, std::string name, db::table& into)
    : fields_(from, std::move(name)), table_(into) {
  read_header();
}

void csv_source::read_header() {
  if (!fields_.next(found_)) fields_.input().fail("there is no header line");
  for (const csv_fields::field& f : found_) {
    const auto& all = table_.layout().columns();
    const auto c = std::find_if(all.begin(), all.end(),
                                [&](const db::column_layout& one) { return one.name == f.text; });
    if (c == all.end()) {
      refuse_at(f, fmt::format("table {} has no column '{}'", table_.name(), f.text));
    }
    if (std::find(columns_.begin(), columns_.end(), &*c) != columns_.end()) {
      refuse_at(f, fmt::format("column {} is there twice", c->name));
    }
    columns_.push_back(&*c);
  }
}

bool csv_source::next() {
  if (!fields_.next(found_)) return false;
  row_.begin(table_);
  if (found_.size() != columns_.size()) {
    refuse(fmt::format("{}, where the header has {}", so_many(found_.size(), "field"),
                       columns_.size()));
  }
  for (std::size_t i = 0; i < found_.size(); ++i) take(*columns_[i], found_[i]);
  if (const auto wrong = row_.complete(); !wrong.empty()) refuse(wrong);
  return true;
}

void csv_source::take(const db::column_layout& c, const csv_fields::field& f) {
  const bool text = c.type.base == db::base_type::text || db::lies_apart(c.type.base);
  const bool null = f.text.empty() && !f.quoted && !(text && c.role != db::nullable);
  const auto wrong = null ? row_.set_null(c) : row_.set_written(c, f.text);
  if (!wrong.empty()) refuse_at(f, wrong);
}

void csv_source::refuse_at(const csv_fields::field& f, const std::string& why) const {
  throw bad_input(fields_.input().name(), f.line, f.column, why);
}

bad_input csv_source::wrong(const std::string& why) const {
  const text_input& input = fields_.input();
  if (found_.empty()) return {input.name(), input.line(), input.column(), why};
  return {input.name(), found_[0].line, found_[0].column, why};
}

void append_csv_header(std::string& to, const db::table& t) {
  for (const db::column_layout& c : t.layout().columns()) {
    if (c.number != 0) to += ',';
    append_text(to, c.name);
  }
  to += line_end;
}

void append_csv_row(std::string& to, const db::table& t, const db::row& r) {
  for (const db::column_layout& c : t.layout().columns()) {
    if (c.number != 0) to += ',';
    std::visit(appender{to}, r.get(c).what());
  }
  to += line_end;
}

}  // namespace tool
