// SPDX-License-Identifier: Apache-2.0
// tpcc_tables.hpp: TPC-C's nine tables in a database of the store, and the columns that its
// transactions look at.
#pragma once

#include <spolia/db.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace bench {

using tpcc_number = spolia::db::column<std::int64_t>;
using tpcc_text = spolia::db::column<std::string_view>;

/// Fixed by the specification.
inline constexpr std::int64_t tpcc_districts = 10;

/// How much there is to begin with.
struct tpcc_scale {
  std::int64_t warehouses = 1;
  std::int64_t items = 100000;
  std::int64_t customers = 3000;  ///< of a district
  /// Orders that wait to be delivered at the beginning: 900 of 3000.
  [[nodiscard]] std::int64_t waiting() const noexcept { return customers * 3 / 10; }
  /// Last names are made of three digits.
  [[nodiscard]] std::int64_t names() const noexcept { return customers < 1000 ? customers : 1000; }
};

/// What each table is made with.
struct tpcc_table {
  tpcc_table(spolia::db::database& in, const spolia::db::table_spec& spec)
      : rows(in.create_table(spec)) {}
  [[nodiscard]] tpcc_number number(std::string_view name) const {
    return rows.column<std::int64_t>(name);
  }
  [[nodiscard]] tpcc_text text(std::string_view name) const {
    return rows.column<std::string_view>(name);
  }
  spolia::db::table& rows;
};

struct tpcc_warehouse : tpcc_table {
  explicit tpcc_warehouse(spolia::db::database& in);
  const tpcc_number id = number("w_id"), tax = number("w_tax"), ytd = number("w_ytd");
  const tpcc_text name = text("w_name");
  const spolia::db::selection for_order = rows.select({"w_tax"});
};

struct tpcc_district : tpcc_table {
  explicit tpcc_district(spolia::db::database& in);
  const tpcc_number w_id = number("d_w_id"), id = number("d_id"), tax = number("d_tax"),
                    ytd = number("d_ytd"), next_o_id = number("d_next_o_id");
  const tpcc_text name = text("d_name");
};

struct tpcc_customer : tpcc_table {
  explicit tpcc_customer(spolia::db::database& in);
  const tpcc_number w_id = number("c_w_id"), d_id = number("c_d_id"), id = number("c_id"),
                    discount = number("c_discount"), balance = number("c_balance"),
                    ytd_payment = number("c_ytd_payment"), payments = number("c_payment_cnt"),
                    deliveries = number("c_delivery_cnt");
  const tpcc_text credit = text("c_credit"), data = text("c_data"), first = text("c_first"),
                  last = text("c_last");
  const spolia::db::secondary& by_name = rows.index("by_name");
  const spolia::db::selection to_choose = rows.select({"c_id", "c_first"});
  const spolia::db::selection for_order = rows.select({"c_discount", "c_last", "c_credit"});
  const spolia::db::selection for_status =
      rows.select({"c_first", "c_middle", "c_last", "c_balance"});
};

struct tpcc_history : tpcc_table {
  explicit tpcc_history(spolia::db::database& in);
  const tpcc_number id = number("h_id"), c_w_id = number("h_c_w_id"), c_d_id = number("h_c_d_id"),
                    c_id = number("h_c_id"), w_id = number("h_w_id"), d_id = number("h_d_id"),
                    amount = number("h_amount");
};

struct tpcc_new_order : tpcc_table {
  explicit tpcc_new_order(spolia::db::database& in);
  const tpcc_number w_id = number("no_w_id"), d_id = number("no_d_id"), o_id = number("no_o_id");
};

struct tpcc_order : tpcc_table {
  explicit tpcc_order(spolia::db::database& in);
  const tpcc_number w_id = number("o_w_id"), d_id = number("o_d_id"), id = number("o_id"),
                    c_id = number("o_c_id"), entry = number("o_entry_d"),
                    carrier = number("o_carrier_id"), lines = number("o_ol_cnt");
  const spolia::db::secondary& by_customer = rows.index("by_customer");  ///< then by number
};

struct tpcc_order_line : tpcc_table {
  explicit tpcc_order_line(spolia::db::database& in);
  const tpcc_number w_id = number("ol_w_id"), d_id = number("ol_d_id"), o_id = number("ol_o_id"),
                    place = number("ol_number"), i_id = number("ol_i_id"),
                    supply_w_id = number("ol_supply_w_id"), delivery = number("ol_delivery_d"),
                    quantity = number("ol_quantity"), amount = number("ol_amount");
  const spolia::db::selection item_only = rows.select({"ol_i_id"});
};

struct tpcc_item : tpcc_table {
  explicit tpcc_item(spolia::db::database& in);
  const tpcc_number price = number("i_price");
  const tpcc_text name = text("i_name"), data = text("i_data");
  const spolia::db::selection for_order = rows.select({"i_price", "i_name", "i_data"});
  const spolia::db::selection price_only = rows.select({"i_price"});
};

struct tpcc_stock : tpcc_table {
  explicit tpcc_stock(spolia::db::database& in);
  const tpcc_number w_id = number("s_w_id"), i_id = number("s_i_id"),
                    quantity = number("s_quantity"), ytd = number("s_ytd"),
                    orders = number("s_order_cnt"), remote = number("s_remote_cnt");
  const spolia::db::selection quantity_only = rows.select({"s_quantity"});
  const spolia::db::selection counts =
      rows.select({"s_quantity", "s_ytd", "s_order_cnt", "s_remote_cnt"});
  const tpcc_text data = text("s_data");
  const std::array<tpcc_text, 10> districts = {
      text("s_dist_01"), text("s_dist_02"), text("s_dist_03"), text("s_dist_04"),
      text("s_dist_05"), text("s_dist_06"), text("s_dist_07"), text("s_dist_08"),
      text("s_dist_09"), text("s_dist_10")};
};

struct tpcc_tables {
  explicit tpcc_tables(spolia::db::database& in)
      : warehouse(in),
        district(in),
        customer(in),
        history(in),
        new_order(in),
        order(in),
        order_line(in),
        item(in),
        stock(in) {}
  tpcc_warehouse warehouse;
  tpcc_district district;
  tpcc_customer customer;
  tpcc_history history;
  tpcc_new_order new_order;
  tpcc_order order;
  tpcc_order_line order_line;
  tpcc_item item;
  tpcc_stock stock;
};

/// Microseconds since 1970.
std::int64_t tpcc_now();

/// Fills the tables with `threads` threads; tells `progress` the share that is done, from any of
/// them. The same seed makes the same rows, however many threads there are.
void load_tpcc(spolia::db::database& base, tpcc_tables& to, const tpcc_scale& scale,
               std::uint64_t seed, std::uint32_t threads, void (*progress)(double));

}  // namespace bench
