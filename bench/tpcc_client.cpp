// SPDX-License-Identifier: Apache-2.0
#include "tpcc_client.hpp"

#include <fmt/format.h>
#include <spolia/base/ticks.hpp>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "store.hpp"

namespace bench {

namespace db = spolia::db;
using db::outcome;
using db::status;

namespace {

/// Clause 2.4.2.2: what is shown as brand or generic.
bool original(std::string_view data) { return data.find("ORIGINAL") != std::string_view::npos; }

/// The first that is not ok of this and of what the steps end with.
inline status all(status s) { return s; }
template <class Step, class... Rest>
status all(status s, Step&& step, Rest&&... rest) {
  return s ? all(step(), rest...) : s;
}

}  // namespace

tpcc_client::tpcc_client(tpcc_world& world, std::uint32_t number, std::uint64_t seed)
    : world_(world),
      tables_(world.tables),
      random_(seed, world.constants, world.scale),
      home_(number % world.scale.warehouses + 1),
      next_history_((std::int64_t{number} + 1) << 44U),
      done_(world.oldest.size()) {}

void tpcc_client::run(tpcc_kind kind) {
  switch (kind) {
    case tpcc_kind::new_order:
      return new_order();
    case tpcc_kind::payment:
      return payment();
    case tpcc_kind::order_status:
      return order_status();
    case tpcc_kind::delivery:
      return delivery();
    case tpcc_kind::stock_level:
      return stock_level();
  }
}

/// Runs f as a transaction until it does not end in a conflict, and counts how it went.
template <class F>
status tpcc_client::attempt(tpcc_kind kind, F&& f) {
  tpcc_tally& t = tally(kind);
  std::uint64_t tries = 0;
  const std::uint64_t begin = spolia::ticks::read();
  const auto counted = [&](db::transaction& tx) {
    ++tries;
    return f(tx);
  };
  const status s = world_.base.transact(with_conflicts(counted), {.begin = world_.work.begin});
  if (s) {
    t.ticks.record(spolia::ticks::read() - begin);
    t.committed.add();
  } else if (s == outcome::limit) {
    t.limits.add();
  } else if (s == outcome::conflict) {
    t.given_up.add();
  } else {
    t.rolled_back.add();
  }
  t.conflicts.add(s == outcome::conflict ? tries : tries - 1);
  return s;
}

// ---- NewOrder, clause 2.4

void tpcc_client::new_order() {
  const std::int64_t d = random_.uniform(1, tpcc_districts);
  const std::int64_t c = random_.customer();
  const std::int64_t count = random_.uniform(5, 15);
  const bool mistaken = world_.work.inserts && random_.percent(1);
  lines_.clear();
  bool local = true;
  for (std::int64_t i = 1; i <= count; ++i) {
    const bool wrong = mistaken && i == count;
    const std::int64_t item = wrong ? world_.scale.items + 1 : random_.item();
    const std::int64_t supply = random_.percent(1) ? random_.other_warehouse(home_) : home_;
    local = local && supply == home_;
    lines_.push_back({item, supply, random_.uniform(1, 10)});
  }
  const status done = attempt(tpcc_kind::new_order, [&](db::transaction& tx) -> status {
    const auto w = tx.find(tables_.warehouse.rows, {home_}, tables_.warehouse.for_order);
    if (!w) return w.why();
    auto district = tx.edit(tables_.district.rows, {home_, d});
    if (!district) return district.why();
    const std::int64_t o_id = district->get(tables_.district.next_o_id);
    if (const status s = district->set(tables_.district.next_o_id, o_id + 1); !s) return s;
    const auto customer = tx.find(tables_.customer.rows, {home_, d, c}, tables_.customer.for_order);
    if (!customer) return customer.why();
    shown_ = 0;
    const status s =
        all(world_.work.inserts ? insert_order(tx, d, o_id, c, local) : status(outcome::ok),
            [&] { return order_lines(tx, d, o_id); });
    if (!s) return s;
    // Sum x (1 - discount) x (1 + taxes), each in ten-thousandths.
    const std::int64_t taxes =
        10000 + w->get(tables_.warehouse.tax) + district->get(tables_.district.tax);
    shown_ = shown_ * (10000 - customer->get(tables_.customer.discount)) / 10000 * taxes / 10000;
    return outcome::ok;
  });
  if (done && !world_.work.inserts) ++done_[tpcc_world::district(home_, d)].unrecorded;
}

status tpcc_client::insert_order(db::transaction& tx, std::int64_t d, std::int64_t o_id,
                                 std::int64_t c, bool local) {
  return all(tx.insert(tables_.order.rows,
                       {home_, d, o_id, c, tpcc_now(), nullptr, lines_.size(), local ? 1 : 0}),
             [&] { return tx.insert(tables_.new_order.rows, {home_, d, o_id}); });
}

status tpcc_client::order_lines(db::transaction& tx, std::int64_t d, std::int64_t o_id) {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (const status s = order_line(tx, d, o_id, static_cast<std::int64_t>(i)); !s) return s;
  }
  return outcome::ok;
}

status tpcc_client::order_line(db::transaction& tx, std::int64_t d, std::int64_t o_id,
                               std::int64_t place) {
  const line& wanted = lines_[static_cast<std::size_t>(place)];
  const bool inserts = world_.work.inserts;
  const auto item = tx.find(tables_.item.rows, {wanted.item},
                            inserts ? tables_.item.for_order : tables_.item.price_only);
  if (!item) return item.why();  // the one in a hundred that is mistaken
  const tpcc_stock& stock = tables_.stock;
  auto row = tx.edit(tables_.stock.rows, {wanted.supply, wanted.item});
  if (!row) return row.why();
  const std::int64_t amount = wanted.quantity * item->get(tables_.item.price);
  shown_ += amount;
  const status s = take_stock(*row, wanted);
  if (!s || !inserts) return s;
  row->visit(stock.data, [&](std::string_view data) {
    brands_ += original(item->get(tables_.item.data)) && original(data) ? 1 : 0;
  });
  const auto& district = stock.districts[static_cast<std::size_t>(d - 1)];
  return row->visit(district, [&](std::string_view text) {
    return tx.insert(tables_.order_line.rows,
                     {home_, d, o_id, place + 1, wanted.item, wanted.supply, nullptr,
                      wanted.quantity, amount, text});
  });
}

status tpcc_client::take_stock(db::editor& row, const line& wanted) {
  const tpcc_stock& stock = tables_.stock;
  const std::int64_t left = row.get(stock.quantity) - wanted.quantity;
  return all(
      row.set(stock.quantity, left >= 10 ? left : left + 91),
      [&] { return row.set(stock.ytd, row.get(stock.ytd) + wanted.quantity); },
      [&] { return row.set(stock.orders, row.get(stock.orders) + 1); },
      [&] {
        return wanted.supply == home_ ? status(outcome::ok)
                                      : row.set(stock.remote, row.get(stock.remote) + 1);
      });
}

// ---- Payment, clause 2.5

tpcc_client::customer_choice tpcc_client::choose_customer(std::int64_t w, std::int64_t d) {
  if (random_.percent(60)) return {w, d, 0, tpcc_last_name(random_.name_to_ask())};
  return {w, d, random_.customer(), ""};
}

std::optional<std::int64_t> tpcc_client::number_of(const db::reader& at,
                                                   const customer_choice& who) {
  if (who.last.empty()) return who.id;
  namesakes_.clear();
  const auto note = [&](const db::row& r) {
    namesake& n = namesakes_.emplace_back();
    const std::string_view first = r.get(tables_.customer.first);
    std::copy(first.begin(), first.end(), n.first.begin());
    n.id = r.get(tables_.customer.id);
  };
  at.scan(tables_.customer.by_name, {who.w, who.d, who.last}, {who.w, who.d, who.last}, note,
          tables_.customer.to_choose);
  if (namesakes_.empty()) return std::nullopt;
  // In the order of first names.
  const auto middle =
      namesakes_.begin() + static_cast<std::ptrdiff_t>((namesakes_.size() + 1) / 2 - 1);
  std::nth_element(namesakes_.begin(), middle, namesakes_.end());
  return middle->id;
}

void tpcc_client::payment() {
  const std::int64_t d = random_.uniform(1, tpcc_districts);
  const bool away = random_.percent(15);
  const std::int64_t c_w = away ? random_.other_warehouse(home_) : home_;
  const std::int64_t c_d = away ? random_.uniform(1, tpcc_districts) : d;
  const customer_choice who = choose_customer(c_w, c_d);
  const std::int64_t amount = random_.uniform(100, 500000);
  ++next_history_;
  const status done =
      attempt(tpcc_kind::payment, [&](db::transaction& tx) { return pay(tx, d, who, amount); });
  if (done && !world_.work.inserts) done_[tpcc_world::district(home_, d)].paid += amount;
}

status tpcc_client::pay(db::transaction& tx, std::int64_t d, const customer_choice& who,
                        std::int64_t amount) {
  const tpcc_warehouse& warehouses = tables_.warehouse;
  const tpcc_district& districts = tables_.district;
  auto w = tx.edit(tables_.warehouse.rows, {home_});
  if (!w) return w.why();
  auto district = tx.edit(tables_.district.rows, {home_, d});
  if (!district) return district.why();
  const auto c_id = number_of(tx, who);
  if (!c_id) return outcome::not_found;
  auto customer = tx.edit(tables_.customer.rows, {who.w, who.d, *c_id});
  if (!customer) return customer.why();
  return all(
      w->set(warehouses.ytd, w->get(warehouses.ytd) + amount),
      [&] { return district->set(districts.ytd, district->get(districts.ytd) + amount); },
      [&] { return charge(*customer, *c_id, d, who, amount); },
      [&] {
        if (!world_.work.inserts) return status(outcome::ok);
        told_.clear();
        w->visit(warehouses.name,
                 [&](std::string_view name) { told_.append(name).append(4, ' '); });
        district->visit(districts.name, [&](std::string_view name) { told_.append(name); });
        return tx.insert(tables_.history.rows,
                         {next_history_, *c_id, who.d, who.w, d, home_, tpcc_now(), amount, told_});
      });
}

status tpcc_client::charge(db::editor& customer, std::int64_t c_id, std::int64_t d,
                           const customer_choice& who, std::int64_t amount) {
  const tpcc_customer& c = tables_.customer;
  status s = all(
      customer.set(c.balance, customer.get(c.balance) - amount),
      [&] { return customer.set(c.ytd_payment, customer.get(c.ytd_payment) + amount); },
      [&] { return customer.set(c.payments, customer.get(c.payments) + 1); });
  const auto is_bad = [](std::string_view credit) { return credit == "BC"; };
  if (!s || !world_.work.inserts || !customer.visit(c.credit, is_bad)) return s;
  // Of bad credit: what happened comes before what was told, as much of it as there is room for.
  customer.visit(c.data, [&](std::string_view data) {
    told_.clear();
    fmt::format_to(std::back_inserter(told_), "{} {} {} {} {} {} | {}", c_id, who.d, who.w, d,
                   home_, amount, data);
  });
  if (told_.size() > 500) told_.resize(500);
  return customer.set(c.data, told_);
}

// ---- Order-Status, clause 2.6

void tpcc_client::order_status() {
  const std::int64_t d = random_.uniform(1, tpcc_districts);
  const customer_choice who = choose_customer(home_, d);
  tpcc_tally& t = tally(tpcc_kind::order_status);
  const std::uint64_t begin = spolia::ticks::read();
  const db::reader now = world_.base.snapshot("order status");
  const auto c_id = number_of(now, who);
  const tpcc_customer& customers = tables_.customer;
  const auto customer = c_id ? now.find(customers.rows, {home_, d, *c_id}, customers.for_status)
                             : db::result<db::row>(outcome::not_found);
  if (!customer) {
    t.rolled_back.add();
    return;
  }
  shown_ = customer->get(tables_.customer.balance);
  std::int64_t newest = 0;
  now.scan_down(tables_.order.by_customer, {home_, d, *c_id}, {home_, d, *c_id},
                [&](const db::row& r) {
                  newest = r.get(tables_.order.id);
                  return false;
                });
  now.scan(tables_.order_line.rows, {home_, d, newest}, {home_, d, newest},
           [&](const db::row& r) { shown_ += r.get(tables_.order_line.amount); });
  t.ticks.record(spolia::ticks::read() - begin);
  t.committed.add();
}

// ---- Delivery, clause 2.7

void tpcc_client::delivery() {
  const std::int64_t carrier = random_.uniform(1, 10);
  const status done = attempt(tpcc_kind::delivery, [&](db::transaction& tx) -> status {
    for (std::int64_t d = 1; d <= tpcc_districts; ++d) {
      if (const status s = deliver(tx, d, carrier); !s) return s;
    }
    return outcome::ok;
  });
  if (!done) return;
  for (std::int64_t d = 1; d <= tpcc_districts; ++d) {
    const std::int64_t o_id = delivering_[static_cast<std::size_t>(d - 1)];
    if (o_id == 0) continue;
    const std::size_t place = tpcc_world::district(home_, d);
    ++done_[place].delivered;
    std::int64_t before = world_.oldest[place].load_relaxed();
    while (before < o_id + 1 && !world_.oldest[place].cas_weak_relaxed(before, o_id + 1)) {
    }
  }
}

/// The oldest order of one district that waits; if none does, that is well, too.
status tpcc_client::deliver(db::transaction& tx, std::int64_t d, std::int64_t carrier) {
  std::int64_t& o_id = delivering_[static_cast<std::size_t>(d - 1)];
  o_id = 0;
  const auto take = [&](const db::row& r) {
    o_id = r.get(tables_.new_order.o_id);
    return false;
  };
  if (world_.work.delivery_hint) {
    const std::int64_t from = world_.oldest[tpcc_world::district(home_, d)].load_relaxed();
    tx.scan(tables_.new_order.rows, {home_, d, from}, {home_, d}, take);
  } else {
    tx.scan(tables_.new_order.rows, {home_, d}, {home_, d}, take);
  }
  if (o_id == 0) return outcome::ok;
  return all(tx.erase(tables_.new_order.rows, {home_, d, o_id}),
             [&] { return deliver_order(tx, d, o_id, carrier); });
}

status tpcc_client::deliver_order(db::transaction& tx, std::int64_t d, std::int64_t o_id,
                                  std::int64_t carrier) {
  auto order = tx.edit(tables_.order.rows, {home_, d, o_id});
  if (!order) return order.why();
  if (const status s = order->set(tables_.order.carrier, carrier); !s) return s;
  const std::int64_t now = tpcc_now();
  std::int64_t sum = 0;
  for (std::int64_t n = 1; n <= order->get(tables_.order.lines); ++n) {
    auto row = tx.edit(tables_.order_line.rows, {home_, d, o_id, n});
    if (!row) return row.why();
    sum += row->get(tables_.order_line.amount);
    if (const status s = row->set(tables_.order_line.delivery, now); !s) return s;
  }
  const tpcc_customer& c = tables_.customer;
  auto customer = tx.edit(tables_.customer.rows, {home_, d, order->get(tables_.order.c_id)});
  if (!customer) return customer.why();
  return all(customer->set(c.balance, customer->get(c.balance) + sum),
             [&] { return customer->set(c.deliveries, customer->get(c.deliveries) + 1); });
}

// ---- Stock-Level, clause 2.8

void tpcc_client::stock_level() {
  const std::int64_t d = random_.uniform(1, tpcc_districts);
  const std::int64_t threshold = random_.uniform(10, 20);
  tpcc_tally& t = tally(tpcc_kind::stock_level);
  const std::uint64_t begin = spolia::ticks::read();
  const db::reader now = world_.base.snapshot("stock level");
  const auto district = now.find(tables_.district.rows, {home_, d});
  if (!district) throw std::runtime_error("TPC-C: there is no such district");
  const std::int64_t next = district->get(tables_.district.next_o_id);
  found_.clear();
  const auto note = [&](const db::row& r) { found_.push_back(r.get(tables_.order_line.i_id)); };
  now.scan(tables_.order_line.rows, {home_, d, next - 20}, {home_, d, next - 1}, note,
           tables_.order_line.item_only);
  std::sort(found_.begin(), found_.end());
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
  shown_ = std::count_if(found_.begin(), found_.end(), [&](std::int64_t i) {
    const auto row = now.find(tables_.stock.rows, {home_, i}, tables_.stock.quantity_only);
    return row && row->get(tables_.stock.quantity) < threshold;
  });
  t.ticks.record(spolia::ticks::read() - begin);
  t.committed.add();
}

}  // namespace bench
