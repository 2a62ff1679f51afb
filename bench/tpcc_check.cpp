// SPDX-License-Identifier: Apache-2.0
// tpcc_check.cpp: all tables are read once, at one snapshot, and added up by warehouse, district,
// customer and order.
#include "tpcc_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace bench {

namespace db = spolia::db;

namespace {

struct order_sums {
  std::int64_t customer = 0;  ///< 0: there is no such order
  std::int64_t lines = 0;     ///< as the order says
  std::int64_t lines_found = 0, undelivered = 0, amount = 0;
  bool carrier = false, waits = false;
};

struct customer_sums {
  std::int64_t balance = 0, paid = 0, history = 0, delivered = 0;
};

struct district_sums {
  std::int64_t ytd = 0, next = 0, history = 0, lines_said = 0, lines = 0, orders = 0, waiting = 0;
  std::int64_t last_order = 0, last_waiting = 0;
  std::int64_t first_waiting = std::numeric_limits<std::int64_t>::max();
  std::vector<order_sums> order;        ///< by number
  std::vector<customer_sums> customer;  ///< by number
};

struct warehouse_sums {
  std::int64_t ytd = 0, districts = 0, history = 0;
};

class checker {
 public:
  checker(const db::reader& at, const tpcc_tables& in, const tpcc_scale& scale)
      : at_(at),
        in_(in),
        scale_(scale),
        districts_(static_cast<std::size_t>(scale.warehouses * tpcc_districts)),
        warehouses_(static_cast<std::size_t>(scale.warehouses)) {}

  std::vector<std::string> run(const std::vector<tpcc_done>& done) {
    read_warehouses();
    read_customers();
    read_orders();
    read_history();
    for (const tpcc_done& d : done) unrecorded_ = unrecorded_ || d.unrecorded != 0 || d.paid != 0;
    for (std::int64_t w = 1; w <= scale_.warehouses; ++w) {
      const auto* const of = &done[static_cast<std::size_t>((w - 1) * tpcc_districts)];
      std::int64_t paid = 0;
      for (std::int64_t d = 0; d < tpcc_districts; ++d) paid += of[d].paid;
      check_warehouse(w, paid);
      for (std::int64_t d = 1; d <= tpcc_districts; ++d) {
        w_ = w;
        d_ = d;
        check_district(of[d - 1]);
        check_orders();
        check_customers();
      }
    }
    return std::move(wrong_);
  }

 private:
  district_sums& district(std::int64_t w, std::int64_t d) {
    return districts_.at(static_cast<std::size_t>((w - 1) * tpcc_districts + d - 1));
  }
  order_sums& order(std::int64_t w, std::int64_t d, std::int64_t o) {
    auto& all = district(w, d).order;
    const auto n = static_cast<std::size_t>(o);
    if (all.size() <= n) all.resize(std::max(n + 1, all.size() * 2));
    return all[n];
  }
  warehouse_sums& warehouse(std::int64_t w) {
    return warehouses_.at(static_cast<std::size_t>(w - 1));
  }
  customer_sums& customer(std::int64_t w, std::int64_t d, std::int64_t c) {
    return district(w, d).customer.at(static_cast<std::size_t>(c));
  }

  void read_warehouses() {
    at_.for_each(in_.warehouse.rows, [&](const db::row& r) {
      warehouse(r.get(in_.warehouse.id)).ytd = r.get(in_.warehouse.ytd);
    });
    at_.for_each(in_.district.rows, [&](const db::row& r) {
      const tpcc_district& t = in_.district;
      district_sums& d = district(r.get(t.w_id), r.get(t.id));
      d.ytd = r.get(t.ytd);
      d.next = r.get(t.next_o_id);
      d.customer.resize(static_cast<std::size_t>(scale_.customers + 1));
      warehouse(r.get(t.w_id)).districts += d.ytd;
    });
  }
  void read_customers() {
    at_.for_each(in_.customer.rows, [&](const db::row& r) {
      const tpcc_customer& t = in_.customer;
      customer_sums& c = customer(r.get(t.w_id), r.get(t.d_id), r.get(t.id));
      c.balance = r.get(t.balance);
      c.paid = r.get(t.ytd_payment);
    });
  }
  void read_history() {
    at_.for_each(in_.history.rows, [&](const db::row& r) {
      const tpcc_history& t = in_.history;
      const std::int64_t amount = r.get(t.amount);
      warehouse(r.get(t.w_id)).history += amount;
      district(r.get(t.w_id), r.get(t.d_id)).history += amount;
      customer(r.get(t.c_w_id), r.get(t.c_d_id), r.get(t.c_id)).history += amount;
    });
  }
  void read_orders() {
    at_.for_each(in_.order.rows, [&](const db::row& r) {
      const tpcc_order& t = in_.order;
      district_sums& d = district(r.get(t.w_id), r.get(t.d_id));
      order_sums& o = order(r.get(t.w_id), r.get(t.d_id), r.get(t.id));
      o.customer = r.get(t.c_id);
      o.carrier = !r.null(t.carrier);
      o.lines = r.get(t.lines);
      d.lines_said += o.lines;
      ++d.orders;
      d.last_order = std::max(d.last_order, r.get(t.id));
    });
    at_.for_each(in_.new_order.rows, [&](const db::row& r) {
      const tpcc_new_order& t = in_.new_order;
      district_sums& d = district(r.get(t.w_id), r.get(t.d_id));
      order(r.get(t.w_id), r.get(t.d_id), r.get(t.o_id)).waits = true;
      ++d.waiting;
      d.last_waiting = std::max(d.last_waiting, r.get(t.o_id));
      d.first_waiting = std::min(d.first_waiting, r.get(t.o_id));
    });
    at_.for_each(in_.order_line.rows, [&](const db::row& r) {
      const tpcc_order_line& t = in_.order_line;
      order_sums& o = order(r.get(t.w_id), r.get(t.d_id), r.get(t.o_id));
      ++o.lines_found;
      ++district(r.get(t.w_id), r.get(t.d_id)).lines;
      if (r.null(t.delivery)) {
        ++o.undelivered;
      } else {
        o.amount += r.get(t.amount);
      }
    });
  }

  void check_warehouse(std::int64_t w, std::int64_t paid) {
    const warehouse_sums& s = warehouse(w);
    const std::string where = fmt::format("warehouse {}", w);
    equal(1, where, "W_YTD", s.ytd, "the sum of D_YTD", s.districts);
    equal(8, where, "W_YTD", s.ytd, "the sum of H_AMOUNT", s.history + paid);
  }
  void check_district(const tpcc_done& done) {
    const district_sums& s = district(w_, d_);
    const std::string where = fmt::format("warehouse {}, district {}", w_, d_);
    const std::int64_t last = s.next - 1 - static_cast<std::int64_t>(done.unrecorded);
    equal(2, where, "D_NEXT_O_ID - 1", last, "the last O_ID", s.last_order);
    if (s.waiting > 0) {
      equal(2, where, "D_NEXT_O_ID - 1", last, "the last NO_O_ID", s.last_waiting);
      equal(3, where, "last - first NO_O_ID + 1", s.last_waiting - s.first_waiting + 1,
            "the rows of NEW-ORDER", s.waiting);
    }
    equal(4, where, "the sum of O_OL_CNT", s.lines_said, "the rows of ORDER-LINE", s.lines);
    equal(9, where, "D_YTD", s.ytd, "the sum of H_AMOUNT", s.history + done.paid);
    equal(11, where, "the rows of ORDER without those of NEW-ORDER", s.orders - s.waiting,
          "the orders that were delivered",
          scale_.customers - scale_.waiting() + static_cast<std::int64_t>(done.delivered));
  }
  void check_orders() {
    district_sums& s = district(w_, d_);
    for (std::size_t n = 1; n < s.order.size(); ++n) {
      const order_sums& o = s.order[n];
      if (o.customer == 0 && o.lines_found == 0 && !o.waits) continue;
      const std::string where = fmt::format("warehouse {}, district {}, order {}", w_, d_, n);
      equal(5, where, "having no carrier", o.carrier ? 0 : 1, "having a row in NEW-ORDER",
            o.waits ? 1 : 0);
      equal(6, where, "O_OL_CNT", o.lines, "the rows of ORDER-LINE", o.lines_found);
      equal(7, where, "lines without OL_DELIVERY_D", o.undelivered,
            "lines of orders without carrier", o.carrier ? 0 : o.lines_found);
      if (o.customer != 0) {
        s.customer.at(static_cast<std::size_t>(o.customer)).delivered += o.amount;
      }
    }
  }
  void check_customers() {
    const district_sums& s = district(w_, d_);
    for (std::size_t n = 1; n < s.customer.size(); ++n) {
      const customer_sums& c = s.customer[n];
      const std::string where = fmt::format("warehouse {}, district {}, customer {}", w_, d_, n);
      if (!unrecorded_) {
        equal(10, where, "C_BALANCE", c.balance, "what was delivered less H_AMOUNT",
              c.delivered - c.history);
      }
      equal(12, where, "C_BALANCE + C_YTD_PAYMENT", c.balance + c.paid, "what was delivered",
            c.delivered);
    }
  }

  void equal(std::uint32_t condition, const std::string& where, const char* what, std::int64_t a,
             const char* other, std::int64_t b) {
    constexpr std::uint32_t enough = 3;
    if (a == b || ++counts_[condition] > enough) return;
    wrong_.push_back(fmt::format("condition {}: {}: {} is {}, but {} is {}", condition, where, what,
                                 a, other, b));
  }

  const db::reader& at_;
  const tpcc_tables& in_;
  const tpcc_scale& scale_;
  std::vector<district_sums> districts_;
  std::vector<warehouse_sums> warehouses_;
  std::vector<std::string> wrong_;
  std::array<std::uint32_t, tpcc_conditions + 1> counts_{};
  std::int64_t w_ = 0, d_ = 0;
  bool unrecorded_ = false;
};

}  // namespace

std::vector<std::string> check_tpcc(const db::reader& at, const tpcc_tables& in,
                                    const tpcc_scale& scale, const std::vector<tpcc_done>& done) {
  return checker(at, in, scale).run(done);
}

void spoil_tpcc(db::database& base, tpcc_tables& in, std::uint32_t condition) {
  // Of the first warehouse and district, the first order, the oldest one that waits, a customer.
  std::int64_t waiting = 0;
  std::int64_t payment = 0;
  {
    const db::reader now = base.snapshot();
    now.scan(in.new_order.rows, {1, 1}, {1, 1},
             [&](const db::row& r) { waiting = r.get(in.new_order.o_id); });
    now.for_each(in.history.rows, [&](const db::row& r) {
      payment = r.get(in.history.id);
      return false;
    });
  }
  const db::status s = base.transact([&](db::transaction& tx) -> db::status {
    switch (condition) {
      case 1:
      case 8:
        return tx.update(in.warehouse.rows, {1}, {{"w_ytd", 1}});
      case 2:
        return tx.update(in.district.rows, {1, 1}, {{"d_next_o_id", 1}});
      case 3:
        return tx.insert(in.new_order.rows, {1, 1, waiting + 5});
      case 4:
      case 6:
        return tx.update(in.order.rows, {1, 1, 1}, {{"o_ol_cnt", 77}});
      case 5:
        return tx.update(in.order.rows, {1, 1, 1}, {{"o_carrier_id", nullptr}});
      case 7:
        return tx.update(in.order_line.rows, {1, 1, 1, 1}, {{"ol_delivery_d", nullptr}});
      case 9:
        return tx.update(in.district.rows, {1, 1}, {{"d_ytd", 1}});
      case 10:
        return tx.update(in.history.rows, {payment}, {{"h_amount", 1}});
      case 11:
        return tx.erase(in.new_order.rows, {1, 1, waiting});
      case 12:
        return tx.update(in.customer.rows, {1, 1, 1}, {{"c_ytd_payment", -1}});
      default:
        throw std::logic_error("no such condition");
    }
  });
  if (!s) throw std::runtime_error("cannot spoil the tables: " + std::string(s.message()));
}

}  // namespace bench
