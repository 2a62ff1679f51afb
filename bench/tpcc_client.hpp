// SPDX-License-Identifier: Apache-2.0
// tpcc_client.hpp: the five transactions of TPC-C, as one client runs them.
#pragma once

#include <spolia/base/atomic.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/db.hpp>

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tpcc_check.hpp"
#include "tpcc_random.hpp"
#include "tpcc_tables.hpp"

namespace bench {

enum class tpcc_kind : std::uint8_t { new_order, payment, order_status, delivery, stock_level };
inline constexpr std::array<const char*, 5> tpcc_kinds = {"new_order", "payment", "order_status",
                                                          "delivery", "stock_level"};

/// What became of a client's transactions of one kind. One thread writes, others may look.
struct tpcc_tally {
  spolia::histogram ticks;    ///< from the first try to the end, of those that were committed
  spolia::tally committed;    ///< of read-only ones: done
  spolia::tally rolled_back;  ///< by the program: an item that is not there
  spolia::tally conflicts;    ///< tries that ended so, and were begun anew
  spolia::tally given_up;     ///< after too many conflicts
  spolia::tally limits;       ///< refused for want of version memory
};

/// How the transactions are run.
struct tpcc_work {
  /// False: NewOrder and Payment do what they do in DBx1000 (benchmarks/tpcc_txn.cpp): they insert
  /// nothing, read of ITEM the price only, leave C_DATA alone, and every item is there.
  bool inserts = true;
  /// Delivery looks for the oldest order of a district from where the last search for one ended.
  /// The specification has no such thing (clause 2.7.4.2): its search begins at the first entry of
  /// the district, and shows what the index costs where rows were deleted.
  bool delivery_hint = false;
  spolia::db::transaction_options begin{};
};

/// What all clients share.
struct tpcc_world {
  tpcc_world(spolia::db::database& in, const tpcc_scale& s, std::uint64_t seed, const tpcc_work& w)
      : base(in),
        tables(in),
        scale(s),
        work(w),
        constants(seed),
        oldest(static_cast<std::size_t>(s.warehouses * tpcc_districts)) {}
  [[nodiscard]] static std::size_t district(std::int64_t w, std::int64_t d) {
    return static_cast<std::size_t>((w - 1) * tpcc_districts + d - 1);
  }

  spolia::db::database& base;
  tpcc_tables tables;
  const tpcc_scale scale;
  const tpcc_work work;
  const tpcc_constants constants;
  /// For each district an order before which none waits to be delivered: tpcc_work::delivery_hint.
  std::vector<spolia::atomic<std::int64_t>> oldest;
};

class tpcc_client {
 public:
  tpcc_client(tpcc_world& world, std::uint32_t number, std::uint64_t seed);

  void run(tpcc_kind kind);
  /// What it does from now on is in the tallies of of(); before, it is not. done() tells all.
  void count() noexcept { now_ = &tallies_; }
  [[nodiscard]] const tpcc_tally& of(tpcc_kind kind) const {
    return tallies_[static_cast<std::size_t>(kind)];
  }
  /// By this client in a district (tpcc_world::district).
  [[nodiscard]] const tpcc_done& done(std::size_t district) const { return done_[district]; }
  /// What the last transaction would have shown on a screen, so that it is not left out.
  [[nodiscard]] std::int64_t shown() const { return shown_ + brands_; }
  tpcc_random& random() { return random_; }

 private:
  struct line {
    std::int64_t item, supply, quantity;
  };
  /// A customer by number, or by last name.
  struct customer_choice {
    std::int64_t w, d, id;
    std::string last;  ///< empty: by number
  };

  /// A customer of the last name that was asked for.
  struct namesake {
    std::array<char, 16> first{};
    std::int64_t id = 0;
    auto operator<=>(const namesake&) const = default;
  };

  void new_order();
  void payment();
  void order_status();
  void delivery();
  void stock_level();

  spolia::db::status order_lines(spolia::db::transaction& tx, std::int64_t d, std::int64_t o_id);
  spolia::db::status order_line(spolia::db::transaction& tx, std::int64_t d, std::int64_t o_id,
                                std::int64_t place);
  spolia::db::status insert_order(spolia::db::transaction& tx, std::int64_t d, std::int64_t o_id,
                                  std::int64_t c, bool local);
  spolia::db::status take_stock(spolia::db::editor& stock, const line& wanted);
  spolia::db::status pay(spolia::db::transaction& tx, std::int64_t d, const customer_choice& who,
                         std::int64_t amount);
  spolia::db::status charge(spolia::db::editor& customer, std::int64_t c_id, std::int64_t d,
                            const customer_choice& who, std::int64_t amount);
  spolia::db::status deliver(spolia::db::transaction& tx, std::int64_t d, std::int64_t carrier);
  spolia::db::status deliver_order(spolia::db::transaction& tx, std::int64_t d, std::int64_t o_id,
                                   std::int64_t carrier);
  customer_choice choose_customer(std::int64_t w, std::int64_t d);
  /// Its number; none if no customer has the name.
  std::optional<std::int64_t> number_of(const spolia::db::reader& at, const customer_choice& who);
  template <class F>
  spolia::db::status attempt(tpcc_kind kind, F&& f);

  tpcc_world& world_;
  tpcc_tables& tables_;
  tpcc_random random_;
  const std::int64_t home_;
  std::int64_t next_history_;
  [[nodiscard]] tpcc_tally& tally(tpcc_kind kind) {
    return (*now_)[static_cast<std::size_t>(kind)];
  }

  std::array<tpcc_tally, 5> tallies_;
  std::array<tpcc_tally, 5> warm_up_;  // no record tells of them
  std::array<tpcc_tally, 5>* now_ = &warm_up_;
  std::vector<tpcc_done> done_;
  std::vector<line> lines_;
  std::vector<std::int64_t> found_;
  std::vector<namesake> namesakes_;
  std::string told_;  ///< its room is used again and again
  std::array<std::int64_t, static_cast<std::size_t>(tpcc_districts)> delivering_{};
  std::int64_t shown_ = 0;
  std::int64_t brands_ = 0;
};

}  // namespace bench
