// SPDX-License-Identifier: Apache-2.0
#include "tpcc_tables.hpp"

#include <fmt/format.h>

#include <chrono>
#include <vector>

namespace bench {

namespace db = spolia::db;

namespace {

using columns = std::vector<db::column_spec>;

columns operator+(columns a, const columns& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// The columns of an address.
columns address(const std::string& of) {
  return {{of + "street_1", db::text(20)},
          {of + "street_2", db::text(20)},
          {of + "city", db::text(20)},
          {of + "state", db::text(2)},
          {of + "zip", db::text(9)}};
}

columns stock_columns() {
  columns all = {{"s_w_id", db::int64, db::primary_key},
                 {"s_i_id", db::int64, db::primary_key},
                 {"s_quantity", db::int64}};
  for (std::int64_t d = 1; d <= tpcc_districts; ++d) {
    all.push_back({fmt::format("s_dist_{:02}", d), db::text(24)});
  }
  return all + columns{{"s_ytd", db::int64},
                       {"s_order_cnt", db::int64},
                       {"s_remote_cnt", db::int64},
                       {"s_data", db::text(50)}};
}

}  // namespace

tpcc_warehouse::tpcc_warehouse(db::database& in)
    : tpcc_table(
          in, {.name = "warehouse",
               .columns = columns{{"w_id", db::int64, db::primary_key}, {"w_name", db::text(10)}} +
                          address("w_") + columns{{"w_tax", db::int64}, {"w_ytd", db::int64}}}) {}

tpcc_district::tpcc_district(db::database& in)
    : tpcc_table(in, {.name = "district",
                      .columns = columns{{"d_w_id", db::int64, db::primary_key},
                                         {"d_id", db::int64, db::primary_key},
                                         {"d_name", db::text(10)}} +
                                 address("d_") +
                                 columns{{"d_tax", db::int64},
                                         {"d_ytd", db::int64},
                                         {"d_next_o_id", db::int64}}}) {}

tpcc_customer::tpcc_customer(db::database& in)
    : tpcc_table(in, {.name = "customer",
                      .columns = columns{{"c_w_id", db::int64, db::primary_key},
                                         {"c_d_id", db::int64, db::primary_key},
                                         {"c_id", db::int64, db::primary_key},
                                         {"c_first", db::text(16)},
                                         {"c_middle", db::text(2)},
                                         {"c_last", db::text(16)}} +
                                 address("c_") +
                                 columns{{"c_phone", db::text(16)},
                                         {"c_since", db::int64},
                                         {"c_credit", db::text(2)},
                                         {"c_credit_lim", db::int64},
                                         {"c_discount", db::int64},
                                         {"c_balance", db::int64},
                                         {"c_ytd_payment", db::int64},
                                         {"c_payment_cnt", db::int64},
                                         {"c_delivery_cnt", db::int64},
                                         {"c_data", db::text(500)}},
                      .indexes = {{.name = "by_name",
                                   .columns = {"c_w_id", "c_d_id", "c_last"},
                                   .kind = db::index_kind::hash}}}) {}

tpcc_history::tpcc_history(db::database& in)
    : tpcc_table(in, {.name = "history",
                      .columns = {{"h_id", db::int64, db::primary_key},
                                  {"h_c_id", db::int64},
                                  {"h_c_d_id", db::int64},
                                  {"h_c_w_id", db::int64},
                                  {"h_d_id", db::int64},
                                  {"h_w_id", db::int64},
                                  {"h_date", db::int64},
                                  {"h_amount", db::int64},
                                  {"h_data", db::text(24)}}}) {}

tpcc_new_order::tpcc_new_order(db::database& in)
    : tpcc_table(in, {.name = "new_order",
                      .columns = {{"no_w_id", db::int64, db::primary_key},
                                  {"no_d_id", db::int64, db::primary_key},
                                  {"no_o_id", db::int64, db::primary_key}},
                      .primary = db::index_kind::ordered}) {}

tpcc_order::tpcc_order(db::database& in)
    : tpcc_table(in, {.name = "orders",
                      .columns = {{"o_w_id", db::int64, db::primary_key},
                                  {"o_d_id", db::int64, db::primary_key},
                                  {"o_id", db::int64, db::primary_key},
                                  {"o_c_id", db::int64},
                                  {"o_entry_d", db::int64},
                                  {"o_carrier_id", db::int64, db::nullable},
                                  {"o_ol_cnt", db::int64},
                                  {"o_all_local", db::int64}},
                      .indexes = {{"by_customer", {"o_w_id", "o_d_id", "o_c_id", "o_id"}}}}) {}

tpcc_order_line::tpcc_order_line(db::database& in)
    : tpcc_table(in, {.name = "order_line",
                      .columns = {{"ol_w_id", db::int64, db::primary_key},
                                  {"ol_d_id", db::int64, db::primary_key},
                                  {"ol_o_id", db::int64, db::primary_key},
                                  {"ol_number", db::int64, db::primary_key},
                                  {"ol_i_id", db::int64},
                                  {"ol_supply_w_id", db::int64},
                                  {"ol_delivery_d", db::int64, db::nullable},
                                  {"ol_quantity", db::int64},
                                  {"ol_amount", db::int64},
                                  {"ol_dist_info", db::text(24)}},
                      .primary = db::index_kind::ordered}) {}

tpcc_item::tpcc_item(db::database& in)
    : tpcc_table(in, {.name = "item",
                      .columns = {{"i_id", db::int64, db::primary_key},
                                  {"i_im_id", db::int64},
                                  {"i_name", db::text(24)},
                                  {"i_price", db::int64},
                                  {"i_data", db::text(50)}}}) {}

tpcc_stock::tpcc_stock(db::database& in)
    : tpcc_table(in, {.name = "stock", .columns = stock_columns()}) {}

std::int64_t tpcc_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace bench
