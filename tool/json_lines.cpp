// SPDX-License-Identifier: Apache-2.0
#include "json_lines.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "text.hpp"

namespace tool {
namespace {

using json = nlohmann::json;

/// Characters of a line, with a note of the last one that was looked at: where an error is.
class looked_at {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  looked_at(const char* at, const char** note) : at_(at), note_(note) {}
  reference operator*() const { return *(*note_ = at_); }
  looked_at& operator++() {
    ++at_;
    return *this;
  }
  looked_at operator++(int) {
    const looked_at before = *this;
    ++at_;
    return before;
  }
  friend bool operator==(const looked_at& a, const looked_at& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** note_;
};

/// Takes the events of one line. In a stream the outermost object has one member: the table.
class line_events final : public nlohmann::json_sax<json> {
 public:
  line_events(record& row, db::table* table, const stream_source::finder* find)
      : row_(row), table_(table), find_(find) {}

  bool null() override {
    return value([&](const auto& c) { return row_.set_null(c); });
  }
  bool boolean(bool v) override {
    return value([&](const auto& c) { return row_.set(c, v); });
  }
  bool number_integer(number_integer_t v) override {
    return value([&](const auto& c) { return row_.set(c, std::int64_t{v}); });
  }
  bool number_unsigned(number_unsigned_t v) override {
    if (at_count()) {
      count_ = v;
      return true;
    }
    const bool fits = v <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    return value([&](const auto& c) {
      return fits ? row_.set(c, static_cast<std::int64_t>(v)) : row_.set(c, static_cast<double>(v));
    });
  }
  bool number_float(number_float_t v, const string_t& written) override {
    return value([&](const db::column_layout& c) {
      // As it is written: a double may be another number, and 1e-400 is not 0.
      const bool differs = c.type.base == db::base_type::decimal ||
                           (c.type.base == db::base_type::float64 && v == 0);
      return differs ? row_.set_written(c, written) : row_.set(c, v);
    });
  }
  bool string(string_t& v) override {
    if (encoded_) return base64(v);
    return value([&](const db::column_layout& c) {
      if (c.type.base == db::base_type::timestamp || c.type.base == db::base_type::decimal) {
        return row_.set_written(c, v);
      }
      if (c.type.base != db::base_type::float64) return row_.set_text(c, v);
      // Such numbers as JSON has no word for.
      const auto d = to_float64(v);
      const std::uint64_t bits = d ? db::double_word(*d) : 0;
      const bool no_word = db::is_nan_word(bits) || db::is_infinite_word(bits);
      return no_word ? row_.set(c, *d) : row_.set_text(c, v);
    });
  }
  bool binary(binary_t&) override { return fail("binary"); }
  bool start_array(std::size_t) override { return fail("an array where a value must be"); }
  bool end_array() override { return true; }

  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == row_depth()) return begin_row();
    if (depth_ < row_depth()) return true;
    if (depth_ != row_depth() + 1) return fail("an object where a value must be");
    encoded_ = true;
    decoded_ = false;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (!encoded_) return true;
    encoded_ = false;
    return decoded_ || fail(R"(an object in a column must be {"base64":"..."})");
  }
  bool key(string_t& v) override {
    if (encoded_) return v == "base64" && !decoded_ ? true : fail("the only member can be base64");
    if (depth_ < row_depth()) return outer_key(v);
    for (const db::column_layout& c : table_->layout().columns()) {
      if (c.name != v) continue;
      column_ = &c;
      return !row_.given(c) || fail(fmt::format("column {} is there twice", c.name));
    }
    return fail(fmt::format("table {} has no column '{}'", table_->name(), v));
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& e) override {
    const std::string_view said = e.what();
    const std::size_t why = said.find(" - ");
    if (why == std::string_view::npos) return fail("not JSON, or a number that is too large");
    const std::string_view rest = said.substr(why + 3);
    return fail("not JSON: " + std::string(rest.substr(0, rest.find(';'))));
  }

  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }
  [[nodiscard]] bool has_row() const noexcept { return has_row_; }
  [[nodiscard]] db::table* table() const noexcept { return table_; }
  /// Of rows: the last line of a stream.
  [[nodiscard]] std::optional<std::uint64_t> count() const noexcept { return count_; }

 private:
  [[nodiscard]] int row_depth() const noexcept { return find_ == nullptr ? 1 : 2; }
  [[nodiscard]] bool at_count() const noexcept {
    return depth_ == 1 && row_depth() == 2 && name_ == "rows";
  }
  bool fail(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
    return false;
  }
  template <class F>
  bool value(F&& f) {
    if (depth_ != row_depth() || column_ == nullptr) return fail("not an object with columns");
    const auto complaint = f(*column_);
    return complaint.empty() || fail(complaint);
  }
  bool base64(const string_t& v) {
    const auto bytes = from_base64(v);
    if (!bytes) return fail("this is not base64");
    decoded_ = true;
    return value_of_encoded(*bytes);
  }
  bool value_of_encoded(const std::string& bytes) {
    const auto complaint = row_.set_bytes(*column_, bytes);
    return complaint.empty() || fail(complaint);
  }
  bool outer_key(const string_t& v) {
    if (!name_.empty()) return fail("more than one table on a line");
    name_ = v;
    return true;
  }
  bool begin_row() {
    if (find_ != nullptr) table_ = (*find_)(name_);
    if (table_ == nullptr) return fail(fmt::format("the schema has no table '{}'", name_));
    row_.begin(*table_);
    has_row_ = true;
    return true;
  }

  record& row_;
  db::table* table_;
  const stream_source::finder* find_;
  int depth_ = 0;
  std::string name_;
  const db::column_layout* column_ = nullptr;
  bool has_row_ = false;
  bool encoded_ = false;
  bool decoded_ = false;
  std::optional<std::uint64_t> count_;
  std::string wrong_;
};

/// Reads one line, all of it.
void read_line(const text_input& from, std::uint64_t number, const std::string& line,
               line_events& to) {
  // For the parser that is the end, whatever comes after it.
  if (const std::size_t zero = line.find('\0'); zero != std::string::npos) {
    throw bad_input(from.name(), number, zero + 1, "not JSON: a zero byte");
  }
  const char* last = line.data();
  const looked_at begin(line.data(), &last);
  const looked_at end(line.data() + line.size(), &last);
  const bool good = json::sax_parse(begin, end, &to);
  if (good && to.wrong().empty()) return;
  throw bad_input(from.name(), number, static_cast<std::uint64_t>(last - line.data()) + 1,
                  to.wrong().empty() ? "not JSON" : to.wrong());
}

}  // namespace

void append_json_row(std::string& to, const db::table& t, const db::row& r) {
  db::append_json_row(to, t.layout(), [&](const db::column_layout& c) { return r.get(c); });
}

bool json_source::next() {
  do {
    number_ = input_.line();
    if (!input_.next_line(line_)) return false;
  } while (line_.find_first_not_of(" \t") == std::string::npos);
  line_events events(row_, &table_, nullptr);
  read_line(input_, number_, line_, events);
  if (!events.has_row()) refuse("not an object with columns");
  if (const auto wrong = row_.complete(); !wrong.empty()) refuse(wrong);
  return true;
}

bad_input json_source::wrong(const std::string& why) const {
  return {input_.name(), number_, 1, why};
}

bool stream_source::next() {
  number_ = input_.line();
  if (!input_.next_line(line_)) refuse("the dump is cut off: its last line is missing");
  line_events events(row_, nullptr, &find_);
  read_line(input_, number_, line_, events);
  if (!events.has_row()) {
    if (!events.count()) refuse("neither a row nor the end of the dump");
    if (*events.count() != rows_) {
      refuse(fmt::format("{}, where the dump had {}", so_many(rows_, "row"), *events.count()));
    }
    if (input_.next_line(line_)) refuse("the dump goes on after its last line");
    return false;
  }
  table_ = events.table();
  ++rows_;
  if (const auto wrong = row_.complete(); !wrong.empty()) refuse(wrong);
  return true;
}

bad_input stream_source::wrong(const std::string& why) const {
  return {input_.name(), number_, 1, why};
}

}  // namespace tool
