// SPDX-License-Identifier: Apache-2.0
// lineitem.hpp: a table of the shape of TPC-H's lineitem, and reports over it.
//
//     q1      TPC-H's query 1: sums and counts by returnflag and linestatus, of all rows that were
//             shipped before September 1998
//     q6      TPC-H's query 6: what some discounts of one year have cost
//     text    how many comments, of 20 to 60 bytes, have a word in them
//
// Each by a query of one thread, and by for_each. Sums of products are what the store's queries
// cannot say: by a query q1 and q6 group by the discount (q1 by the tax, too), of which there are
// few values, and the products are made of the groups' sums.
#pragma once

#include <spolia/db.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "random.hpp"

namespace bench {

/// What a report has found: numbers in an order of its own.
using report_figures = std::vector<std::int64_t>;

class lineitem {
 public:
  struct report {
    const char* name;
    report_figures (lineitem::*by_query)(const spolia::db::reader& at) const;
    report_figures (lineitem::*by_rows)(const spolia::db::reader& at) const;
  };
  static const std::array<report, 3> reports;

  explicit lineitem(spolia::db::database& in);

  /// Inserts row `n`.
  spolia::db::status fill(spolia::db::transaction& tx, std::uint64_t n, random_source& random);
  /// Gives row `n` another quantity, price, discount and comment.
  spolia::db::status change(spolia::db::transaction& tx, std::uint64_t n, random_source& random);

  /// Twenty queries of one thread, each with one measure of one column.
  [[nodiscard]] report_figures twenty(const spolia::db::reader& at) const;

 private:
  report_figures q1_by_query(const spolia::db::reader& at) const;
  report_figures q1_by_rows(const spolia::db::reader& at) const;
  report_figures q6_by_query(const spolia::db::reader& at) const;
  report_figures q6_by_rows(const spolia::db::reader& at) const;
  report_figures text_by_query(const spolia::db::reader& at) const;
  report_figures text_by_rows(const spolia::db::reader& at) const;
  static spolia::db::table_spec spec();

  using number = spolia::db::column<spolia::db::decimal_number>;
  using words = spolia::db::column<std::string_view>;
  spolia::db::table& rows_;
  const number quantity_ = rows_.column<spolia::db::decimal_number>("quantity");
  const number price_ = rows_.column<spolia::db::decimal_number>("extendedprice");
  const number discount_ = rows_.column<spolia::db::decimal_number>("discount");
  const number tax_ = rows_.column<spolia::db::decimal_number>("tax");
  const words flag_ = rows_.column<std::string_view>("returnflag");
  const words status_ = rows_.column<std::string_view>("linestatus");
  const spolia::db::column<spolia::db::instant> shipped_ =
      rows_.column<spolia::db::instant>("shipdate");
  const words comment_ = rows_.column<std::string_view>("comment");
};

}  // namespace bench
