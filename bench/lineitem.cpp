// SPDX-License-Identifier: Apache-2.0
#include "lineitem.hpp"

#include <bit>
#include <chrono>
#include <map>
#include <utility>
#include <variant>

namespace bench {

namespace db = spolia::db;

namespace {

/// Lines of one order.
constexpr std::uint64_t lines = 4;
/// No comment has it by chance: the other letters are those from a to p.
constexpr std::string_view word = "special";
constexpr std::uint64_t with_word = 50;  // one comment in so many
const db::instant first_day = db::instant_of("1992-01-01T00:00:00Z");
constexpr std::uint64_t days = 2526;
const db::instant q1_end = db::instant_of("1998-09-03T00:00:00Z");
const db::instant q6_begin = db::instant_of("1994-01-01T00:00:00Z");
const db::instant q6_end = db::instant_of("1995-01-01T00:00:00Z");
const db::decimal_number q6_least(5, 2);
const db::decimal_number q6_most(7, 2);
const db::decimal_number q6_quantity(2400, 2);
const db::query_options one_thread{.threads = 1};

db::decimal_number hundredths(std::uint64_t n) { return {static_cast<std::int64_t>(n), 2}; }

db::decimal_number some_quantity(random_source& r) { return hundredths(100 * (1 + r.below(50))); }
db::decimal_number some_price(random_source& r) { return hundredths(90000 + r.below(10000000)); }
db::decimal_number some_discount(random_source& r) { return hundredths(r.below(11)); }

std::string some_comment(random_source& r) {
  std::string made(20 + r.below(41), ' ');
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    bits = i % 16 == 0 ? r.next() : bits >> 4U;
    made[i] = static_cast<char>('a' + (bits & 15U));
  }
  if (r.below(with_word) == 0) made.replace(r.below(made.size() - word.size()), word.size(), word);
  return made;
}

bool has_word(std::string_view text) { return text.find(word) != std::string_view::npos; }

db::answer taken(db::result<db::answer> found) {
  if (!found) throw db::no_result(found.code());
  return std::move(*found);
}

/// Of query 1, for each pair of flag and status.
struct priced {
  std::int64_t quantity = 0;
  std::int64_t price = 0;
  std::int64_t discounted = 0;
  std::int64_t charged = 0;
  std::int64_t discounts = 0;
  std::int64_t count = 0;

  /// `n` rows, together of this quantity and price.
  void add(std::int64_t n, std::int64_t quantities, std::int64_t prices, std::int64_t discount,
           std::int64_t tax) noexcept {
    quantity += quantities;
    price += prices;
    discounted += prices * (100 - discount);
    charged += prices * (100 - discount) * (100 + tax);
    discounts += n * discount;
    count += n;
  }
};

using priced_groups = std::map<std::pair<char, char>, priced>;

report_figures figures_of(const priced_groups& groups) {
  report_figures all;
  for (const auto& [of, sums] : groups) {
    all.insert(all.end(), {of.first, of.second, sums.quantity, sums.price, sums.discounted,
                           sums.charged, sums.discounts, sums.count});
  }
  return all;
}

std::int64_t scaled(const db::answer& from, std::size_t row, std::size_t column) {
  return from.get<db::decimal_number>(row, column).scaled();
}

}  // namespace

const std::array<lineitem::report, 3> lineitem::reports = {
    {{"q1", &lineitem::q1_by_query, &lineitem::q1_by_rows},
     {"q6", &lineitem::q6_by_query, &lineitem::q6_by_rows},
     {"text", &lineitem::text_by_query, &lineitem::text_by_rows}}};

lineitem::lineitem(db::database& in) : rows_(in.create_table(spec())) {}

db::table_spec lineitem::spec() {
  return {.name = "lineitem",
          .columns = {{"orderkey", db::int64, db::primary_key},
                      {"linenumber", db::int64, db::primary_key},
                      {"quantity", db::decimal(2)},
                      {"extendedprice", db::decimal(2)},
                      {"discount", db::decimal(2)},
                      {"tax", db::decimal(2)},
                      {"returnflag", db::text(1)},
                      {"linestatus", db::text(1)},
                      {"shipdate", db::timestamp},
                      {"comment", db::text(60)}}};
}

db::status lineitem::fill(db::transaction& tx, std::uint64_t n, random_source& random) {
  const std::uint64_t day = random.below(days);
  const db::instant shipped = first_day + std::chrono::hours(24 * day);
  // As in TPC-H: what was shipped last is open, and nothing of it has come back.
  const bool open = shipped > db::instant_of("1995-06-17T00:00:00Z");
  const std::string_view flag = open ? "N" : random.below(2) == 0 ? "A" : "R";
  return tx.insert(
      rows_, {static_cast<std::int64_t>(n / lines), static_cast<std::int64_t>(n % lines),
              some_quantity(random), some_price(random), some_discount(random),
              hundredths(random.below(9)), flag, open ? "O" : "F", shipped, some_comment(random)});
}

db::status lineitem::change(db::transaction& tx, std::uint64_t n, random_source& random) {
  auto row =
      tx.edit(rows_, {static_cast<std::int64_t>(n / lines), static_cast<std::int64_t>(n % lines)});
  if (!row) return row.why();
  if (const db::status s = row->set(quantity_, some_quantity(random)); !s) return s;
  if (const db::status s = row->set(price_, some_price(random)); !s) return s;
  if (const db::status s = row->set(discount_, some_discount(random)); !s) return s;
  return row->set(comment_, some_comment(random));
}

report_figures lineitem::q1_by_query(const db::reader& at) const {
  const db::answer found = taken(at.query(rows_)
                                     .where(shipped_, db::less, q1_end)
                                     .group_by(flag_, status_, discount_, tax_)
                                     .aggregate(db::count(), db::sum(quantity_), db::sum(price_))
                                     .run(one_thread));
  priced_groups groups;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::pair of{found.get<std::string_view>(i, 0)[0], found.get<std::string_view>(i, 1)[0]};
    groups[of].add(found.get<std::int64_t>(i, 4), scaled(found, i, 5), scaled(found, i, 6),
                   scaled(found, i, 2), scaled(found, i, 3));
  }
  return figures_of(groups);
}

report_figures lineitem::q1_by_rows(const db::reader& at) const {
  std::array<std::array<priced, 26>, 26> sums{};
  const db::selection needed = rows_.select(
      {"quantity", "extendedprice", "discount", "tax", "returnflag", "linestatus", "shipdate"});
  at.for_each(
      rows_,
      [&](const db::row& r) {
        if (r.get(shipped_) >= q1_end) return;
        const auto flag = static_cast<std::size_t>(r.get(flag_)[0] - 'A');
        const auto status = static_cast<std::size_t>(r.get(status_)[0] - 'A');
        sums[flag][status].add(1, r.get(quantity_).scaled(), r.get(price_).scaled(),
                               r.get(discount_).scaled(), r.get(tax_).scaled());
      },
      needed);
  priced_groups groups;
  for (std::size_t flag = 0; flag < sums.size(); ++flag) {
    for (std::size_t status = 0; status < sums.size(); ++status) {
      if (sums[flag][status].count == 0) continue;
      groups[{static_cast<char>('A' + flag), static_cast<char>('A' + status)}] = sums[flag][status];
    }
  }
  return figures_of(groups);
}

report_figures lineitem::q6_by_query(const db::reader& at) const {
  const db::answer found = taken(at.query(rows_)
                                     .where(shipped_, db::greater_equal, q6_begin)
                                     .where(shipped_, db::less, q6_end)
                                     .where(discount_, db::greater_equal, q6_least)
                                     .where(discount_, db::less_equal, q6_most)
                                     .where(quantity_, db::less, q6_quantity)
                                     .group_by(discount_)
                                     .aggregate(db::sum(price_))
                                     .run(one_thread));
  std::int64_t revenue = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    revenue += scaled(found, i, 0) * scaled(found, i, 1);
  }
  return {revenue};
}

report_figures lineitem::q6_by_rows(const db::reader& at) const {
  std::int64_t revenue = 0;
  const db::selection needed = rows_.select({"quantity", "extendedprice", "discount", "shipdate"});
  at.for_each(
      rows_,
      [&](const db::row& r) {
        const db::instant shipped = r.get(shipped_);
        if (shipped < q6_begin || shipped >= q6_end) return;
        const std::int64_t discount = r.get(discount_).scaled();
        if (discount < q6_least.scaled() || discount > q6_most.scaled()) return;
        if (r.get(quantity_).scaled() >= q6_quantity.scaled()) return;
        revenue += r.get(price_).scaled() * discount;
      },
      needed);
  return {revenue};
}

report_figures lineitem::text_by_query(const db::reader& at) const {
  const db::answer found =
      taken(at.query(rows_).where(comment_, has_word).aggregate(db::count()).run(one_thread));
  return {found.get<std::int64_t>(0, 0)};
}

report_figures lineitem::text_by_rows(const db::reader& at) const {
  std::int64_t count = 0;
  const auto look = [&](const db::row& r) { count += has_word(r.get(comment_)) ? 1 : 0; };
  at.for_each(rows_, look, rows_.select({"comment"}));
  return {count};
}

report_figures lineitem::twenty(const db::reader& at) const {
  report_figures all;
  for (const char* column : {"quantity", "extendedprice", "discount", "tax", "orderkey"}) {
    for (const db::measure& m :
         {db::sum(column), db::avg(column), db::min(column), db::max(column)}) {
      const db::answer found = taken(at.query(rows_).aggregate(m).run(one_thread));
      // An average by its bits; the others are whole numbers, some of them of hundredths.
      const db::value v = found.at(0, 0);
      if (const auto* whole = std::get_if<std::int64_t>(&v.what())) {
        all.push_back(*whole);
      } else if (const auto* decimal = std::get_if<db::decimal_number>(&v.what())) {
        all.push_back(decimal->scaled());
      } else {
        all.push_back(std::bit_cast<std::int64_t>(found.get<double>(0, 0)));
      }
    }
  }
  return all;
}

}  // namespace bench
