// SPDX-License-Identifier: Apache-2.0
// query.cpp: from names and values to a plan, and from states to an answer.
#include <spolia/db/query.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <stdexcept>

#include "base/so_many.hpp"
#include "db/engine.hpp"
#include "db/query/query_groups.hpp"
#include "db/query/query_plan.hpp"
#include "db/query/query_run.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {
namespace {

[[noreturn]] void refuse_query(const std::string& what) {
  throw std::invalid_argument("spolia::db: " + what);
}

struct type_of_value {
  const char* operator()(std::monostate) const noexcept { return "nothing"; }
  const char* operator()(std::int64_t) const noexcept { return "std::int64_t"; }
  const char* operator()(double) const noexcept { return "double"; }
  const char* operator()(bool) const noexcept { return "bool"; }
  const char* operator()(std::string_view) const noexcept { return "std::string_view"; }
  const char* operator()(blob_view) const noexcept { return "blob_view"; }
  const char* operator()(decimal_number) const noexcept { return "decimal_number"; }
  const char* operator()(instant) const noexcept { return "instant"; }
};

word_order order_of_type(const column_layout& c) {
  switch (c.type.base) {
    case base_type::int64:
    case base_type::boolean:
    case base_type::decimal:
    case base_type::timestamp:
      return word_order::number;
    case base_type::float64:
      return word_order::real;
    case base_type::text:
      return word_order::bytes;
    case base_type::long_text:
    case base_type::blob:
      break;
  }
  return word_order::unseen;
}

/// For what is not done with out-of-line values.
void look_at(const query_input& in) {
  if (in.order == word_order::unseen) {
    refuse_query(in.column.in_words() +
                 " lies apart from its rows: a query has conditions for it, and counts what is not "
                 "null, but has no groups, min() and max() of it. for_each() shows each value");
  }
}

/// Texts without a limit, and blobs, compare as bytes.
bool holds_apart(std::string_view is, comparison how, std::string_view to) noexcept {
  return holds_for_bytes(is.compare(to), how);
}

const char* name_of(measure::kind m) noexcept {
  switch (m) {
    case measure::kind::rows:
    case measure::kind::present:
      return "count";
    case measure::kind::sum:
      return "sum";
    case measure::kind::min:
      return "min";
    case measure::kind::max:
      return "max";
    case measure::kind::avg:
      return "avg";
  }
  return "";
}

/// The keys for which the comparison holds, from lo to hi; or all others.
query_filter filter_of_key(comparison how, std::uint64_t key) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  query_filter f{.lo = 0, .hi = most};
  // There is nothing below 0, and nothing above the last: then all keys are outside of all keys.
  const auto nothing = [&] { f.what = query_filter::kind::outside; };
  switch (how) {
    case comparison::unequal:
      nothing();
      [[fallthrough]];
    case comparison::equal:
      f.lo = f.hi = key;
      break;
    case comparison::less:
      key == 0 ? nothing() : static_cast<void>(f.hi = key - 1);
      break;
    case comparison::less_equal:
      f.hi = key;
      break;
    case comparison::greater:
      key == most ? nothing() : static_cast<void>(f.lo = key + 1);
      break;
    case comparison::greater_equal:
      f.lo = key;
      break;
  }
  return f;
}

}  // namespace

const column_layout& query_column::in(const schema& s) const {
  if (!known_) return s.column(name_);
  if (table_ == s.tag() && number_ < s.columns().size()) return s.columns()[number_];
  refuse_query("the column is not one of table " + s.name() + ": take it from that table");
}

std::uint32_t query_plan::input(const column_layout& c) {
  for (std::uint32_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].column.number == c.number) return i;
  }
  inputs.push_back({c, order_of_type(c)});
  return static_cast<std::uint32_t>(inputs.size() - 1);
}

query::query(const reader& at, const table& of)
    : at_(at.session_),
      ended_(at_ != nullptr ? status() : at.how_ended()),
      turn_(at_ != nullptr ? at_->turn.load_relaxed() : 0),
      of_(of),
      plan_(std::make_shared<query_plan>()) {}
query::query(const query&) noexcept = default;
query::~query() = default;

/// The plan, to be changed; answers keep theirs.
query_plan& query::plan() {
  if (plan_.use_count() != 1) plan_ = std::make_shared<query_plan>(*plan_);
  return *plan_;
}

query& query::where(const query_column& c, comparison how, const value& v) {
  const column_layout& column = c.in(of_.layout());
  if (v.null()) refuse_query("nothing compares with null: ask where_null for " + column.in_words());
  query_plan& p = plan();
  std::vector<std::uint64_t> words(column.words);
  column.encode(v, words.data());
  const std::uint32_t input = p.input(column);
  query_filter f;
  switch (p.inputs[input].order) {
    case word_order::number:
      f = filter_of_key(how, number_key(words[0]));
      break;
    case word_order::real:
      f = filter_of_key(how, real_key(words[0]));
      break;
    case word_order::bytes:
      f.what = query_filter::kind::bytes;
      f.how = how;
      f.words = std::move(words);
      break;
    case word_order::unseen:
      f.what = query_filter::kind::program;
      f.holds = [how, to = std::string(apart_in(words.data()))](const std::uint64_t* is) {
        return holds_apart(apart_in(is), how, to);
      };
      break;
  }
  f.input = input;
  p.filters.push_back(std::move(f));
  return *this;
}

query& query::where_null(const query_column& c) {
  query_plan& p = plan();
  p.filters.push_back({.what = query_filter::kind::null, .input = p.input(c.in(of_.layout()))});
  return *this;
}

query& query::where_not_null(const query_column& c) {
  query_plan& p = plan();
  p.filters.push_back({.what = query_filter::kind::not_null, .input = p.input(c.in(of_.layout()))});
  return *this;
}

query& query::where_words(const query_column& c, std::function<bool(const std::uint64_t*)> holds) {
  query_plan& p = plan();
  const std::uint32_t input = p.input(c.in(of_.layout()));
  p.filters.push_back(
      {.what = query_filter::kind::program, .input = input, .holds = std::move(holds)});
  return *this;
}

void query::group_by_column(const query_column& c) {
  const column_layout& column = c.in(of_.layout());
  query_plan& p = plan();
  if (p.keys.size() == 64)
    refuse_query("a query of table " + column.table->now() + " groups by at most 64 columns");
  const std::uint32_t input = p.input(column);
  look_at(p.inputs[input]);
  p.keys.reserve(p.keys.size() + 1);  // so that names and keys are as many, also without memory
  p.names.insert(p.names.begin() + static_cast<std::ptrdiff_t>(p.keys.size()), column.name);
  p.keys.push_back(input);
  p.key_words += column.words;
}

void query::add_measure(const measure& m) {
  query_plan& p = plan();
  p.folds.reserve(p.folds.size() + 1);  // as above
  query_fold f{.what = m.what, .at = p.state_words, .words = 1};
  if (m.what == measure::kind::rows) {
    p.names.emplace_back("count");
  } else {
    const column_layout& column = m.of.in(of_.layout());
    const bool adds = m.what == measure::kind::sum || m.what == measure::kind::avg;
    f.input = p.input(column);
    if (m.what != measure::kind::present) look_at(p.inputs[f.input]);
    const base_type base = column.type.base;
    const bool number =
        base == base_type::int64 || base == base_type::float64 || base == base_type::decimal;
    if (adds && !number) {
      refuse_query(column.in_words() + " has type " + column.type_in_words() +
                   ", which has no numbers to be added");
    }
    if (adds) f.words = 3;
    if (m.what == measure::kind::min || m.what == measure::kind::max) f.words = 1 + column.words;
    p.names.push_back(std::string(name_of(m.what)) + "(" + column.name + ")");
  }
  p.folds.push_back(f);
  p.state_words += f.words;
}

result<answer> query::run(const query_options& o) const {
  if (plan_->keys.empty() && plan_->folds.empty()) {
    refuse_query("the query of table " + of_.name() +
                 " asks for nothing: give it group_by() or aggregate()");
  }
  if (o.morsel == 0) refuse_query("query_options::morsel is 0: it is 1 at least");
  if (at_ == nullptr) return ended_;
  if (const outcome how = at_->end_of(turn_); how != outcome::ok) return how;
  const auto work = std::make_shared<query_run>(*at_->owner, of_, plan_, o);
  const status s = work->run();
  if (!s) return s;
  return answer(plan_, work->take_groups(), work->figures());
}

query reader::query(const table& t) const {
  if (!t.is_of(engine_)) t.refuse_stranger();
  return {*this, t};
}

answer::answer(std::shared_ptr<const query_plan> of, std::unique_ptr<query_groups> all,
               const query_figures& took)
    : plan_(std::move(of)), groups_(std::move(all)), order_(groups_->sorted()), figures_(took) {}
answer::answer(answer&&) noexcept = default;
answer& answer::operator=(answer&&) noexcept = default;
answer::~answer() = default;

std::size_t answer::size() const noexcept { return order_.size(); }
std::size_t answer::columns() const noexcept { return plan_ != nullptr ? plan_->names.size() : 0; }

const std::string& answer::name(std::size_t column) const {
  if (column >= columns()) {
    refuse_query("the answer has " + so_many(columns(), "column") + ", from 0 on, and none " +
                 std::to_string(column));
  }
  return plan_->names[column];
}

const std::uint64_t* answer::entry(std::size_t row, std::size_t column) const {
  if (row >= size() || column >= columns()) {
    refuse_query("the answer has " + so_many(size(), "row") + " and " +
                 so_many(columns(), "column") + ", from 0 on, and no row " + std::to_string(row) +
                 " with a column " + std::to_string(column));
  }
  return groups_->entry(order_[row]);
}

bool answer::null(std::size_t row, std::size_t column) const {
  const std::uint64_t* const e = entry(row, column);
  if (column < plan_->keys.size()) return groups_->null_key(e, column);
  return groups_->null_measure(e, column - plan_->keys.size());
}

value answer::at(std::size_t row, std::size_t column) const {
  if (null(row, column)) return {};
  const std::uint64_t* const e = entry(row, column);
  if (column < plan_->keys.size()) return groups_->key(e, column);
  return groups_->measured(e, column - plan_->keys.size());
}

double answer::real(std::size_t row, std::size_t column) const {
  if (null(row, column)) return 0;
  const std::size_t keys = plan_->keys.size();
  if (column >= keys && plan_->folds[column - keys].what == measure::kind::sum) {
    return groups_->sum(entry(row, column), column - keys);
  }
  const value v = at(row, column);
  if (const double* const d = std::get_if<double>(&v.what())) return *d;
  refuse_type(column, v);
}

void answer::refuse_type(std::size_t column, const value& is) const {
  const std::size_t keys = plan_->keys.size();
  const bool sum = column >= keys && plan_->folds[column - keys].what == measure::kind::sum;
  const bool rounded = sum && !std::holds_alternative<double>(is.what());
  refuse_query("column " + name(column) + " of the answer has type " +
               std::visit(type_of_value(), is.what()) +
               (rounded ? ", and may be read as double" : "") +
               ". It is read as another: at() gives any");
}

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
