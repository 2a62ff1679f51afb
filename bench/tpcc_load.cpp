// SPDX-License-Identifier: Apache-2.0
// tpcc_load.cpp: the first population of TPC-C's tables (clause 4.3.3).
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "store.hpp"
#include "tpcc_random.hpp"
#include "tpcc_tables.hpp"

namespace bench {

namespace db = spolia::db;

namespace {

/// One part of the work, which any thread may do.
using job = std::function<void(tpcc_random&)>;

class loader {
 public:
  loader(db::database& base, tpcc_tables& to, const tpcc_scale& scale)
      : base_(base), to_(to), scale_(scale), now_(tpcc_now()) {}

  std::vector<job> jobs() {
    std::vector<job> all;
    constexpr std::int64_t part = 5000;
    for (std::int64_t i = 1; i <= scale_.items; i += part) {
      const std::int64_t end = std::min(i + part - 1, scale_.items);
      all.emplace_back([=, this](tpcc_random& r) { items(r, i, end); });
    }
    for (std::int64_t w = 1; w <= scale_.warehouses; ++w) {
      all.emplace_back([=, this](tpcc_random& r) { warehouse(r, w); });
      for (std::int64_t i = 1; i <= scale_.items; i += part) {
        const std::int64_t end = std::min(i + part - 1, scale_.items);
        all.emplace_back([=, this](tpcc_random& r) { stock(r, w, i, end); });
      }
      for (std::int64_t d = 1; d <= tpcc_districts; ++d) {
        all.emplace_back([=, this](tpcc_random& r) { customers(r, w, d); });
        all.emplace_back([=, this](tpcc_random& r) { orders(r, w, d); });
      }
    }
    return all;
  }

 private:
  /// Calls insert(tx, i) for each i from `first` to `last`, many in a transaction.
  template <class F>
  void each(std::int64_t first, std::int64_t last, F&& insert) {
    constexpr std::int64_t together = 100;
    for (std::int64_t from = first; from <= last; from += together) {
      const std::int64_t end = std::min(from + together - 1, last);
      const db::status s = base_.transact([&](db::transaction& tx) -> db::status {
        for (std::int64_t i = from; i <= end; ++i) {
          if (const db::status done = insert(tx, i); !done) return done;
        }
        return db::outcome::ok;
      });
      if (!s) throw std::runtime_error("loading TPC-C: " + std::string(s.message()));
    }
  }

  void items(tpcc_random& r, std::int64_t first, std::int64_t last) {
    each(first, last, [&](db::transaction& tx, std::int64_t i) {
      return tx.insert(to_.item.rows, {i, r.uniform(1, 10000), r.letters(14, 24),
                                       r.uniform(100, 10000), r.data(26, 50)});
    });
  }

  void warehouse(tpcc_random& r, std::int64_t w) {
    // 10.00 of each customer.
    const std::int64_t ytd = scale_.customers * 1000;
    each(w, w, [&](db::transaction& tx, std::int64_t) {
      return tx.insert(to_.warehouse.rows, {w, r.letters(6, 10), r.letters(10, 20),
                                            r.letters(10, 20), r.letters(10, 20), r.letters(2, 2),
                                            r.zip(), r.uniform(0, 2000), ytd * tpcc_districts});
    });
    each(1, tpcc_districts, [&](db::transaction& tx, std::int64_t d) {
      return tx.insert(to_.district.rows, {w, d, r.letters(6, 10), r.letters(10, 20),
                                           r.letters(10, 20), r.letters(10, 20), r.letters(2, 2),
                                           r.zip(), r.uniform(0, 2000), ytd, scale_.customers + 1});
    });
  }

  void stock(tpcc_random& r, std::int64_t w, std::int64_t first, std::int64_t last) {
    each(first, last, [&](db::transaction& tx, std::int64_t i) {
      return tx.insert(
          to_.stock.rows,
          {w, i, r.uniform(10, 100), r.letters(24, 24), r.letters(24, 24), r.letters(24, 24),
           r.letters(24, 24), r.letters(24, 24), r.letters(24, 24), r.letters(24, 24),
           r.letters(24, 24), r.letters(24, 24), r.letters(24, 24), 0, 0, 0, r.data(26, 50)});
    });
  }

  void customers(tpcc_random& r, std::int64_t w, std::int64_t d) {
    each(1, scale_.customers, [&](db::transaction& tx, std::int64_t c) {
      const std::string last = tpcc_last_name(c <= scale_.names() ? c - 1 : r.name_to_load());
      return tx.insert(to_.customer.rows, {w,
                                           d,
                                           c,
                                           r.letters(8, 16),
                                           "OE",
                                           last,
                                           r.letters(10, 20),
                                           r.letters(10, 20),
                                           r.letters(10, 20),
                                           r.letters(2, 2),
                                           r.zip(),
                                           r.digits(16),
                                           now_,
                                           r.percent(10) ? "BC" : "GC",
                                           5000000,
                                           r.uniform(0, 5000),
                                           -1000,
                                           1000,
                                           1,
                                           0,
                                           r.letters(300, 500)});
    });
    each(1, scale_.customers, [&](db::transaction& tx, std::int64_t c) {
      const std::int64_t id = ((w * tpcc_districts + d) << 20U) + c;
      return tx.insert(to_.history.rows, {id, c, d, w, d, w, now_, 1000, r.letters(12, 24)});
    });
  }

  void orders(tpcc_random& r, std::int64_t w, std::int64_t d) {
    // Each customer has one, in a random order.
    std::vector<std::int64_t> of;
    for (std::int64_t c = 1; c <= scale_.customers; ++c) of.push_back(c);
    for (std::size_t i = of.size(); i > 1; --i) {
      std::swap(of[i - 1], of[static_cast<std::size_t>(r.uniform(0, static_cast<int>(i) - 1))]);
    }
    const std::int64_t delivered = scale_.customers - scale_.waiting();
    each(1, scale_.customers, [&](db::transaction& tx, std::int64_t o) -> db::status {
      const bool done = o <= delivered;
      const std::int64_t lines = r.uniform(5, 15);
      const db::value none;
      db::status s =
          tx.insert(to_.order.rows, {w, d, o, of[static_cast<std::size_t>(o - 1)], now_,
                                     done ? db::value(r.uniform(1, 10)) : none, lines, 1});
      for (std::int64_t n = 1; s && n <= lines; ++n) {
        s = tx.insert(to_.order_line.rows,
                      {w, d, o, n, r.uniform(1, scale_.items), w, done ? db::value(now_) : none, 5,
                       done ? 0 : r.uniform(1, 999999), r.letters(24, 24)});
      }
      if (s && !done) s = tx.insert(to_.new_order.rows, {w, d, o});
      return s;
    });
  }

  db::database& base_;
  tpcc_tables& to_;
  const tpcc_scale& scale_;
  const std::int64_t now_;
};

}  // namespace

void load_tpcc(db::database& base, tpcc_tables& to, const tpcc_scale& scale, std::uint64_t seed,
               std::uint32_t threads, void (*progress)(double)) {
  const tpcc_constants constants(seed);
  loader all(base, to, scale);
  const std::vector<job> jobs = all.jobs();
  spolia::atomic<std::uint64_t> next{0};
  spolia::atomic<std::uint64_t> done{0};
  worker_pool loaders;
  for (std::uint32_t n = 0; n < threads; ++n) {
    loaders.add([&] {
      while (!loaders.stopped()) {
        const std::uint64_t mine = next.fetch_add_relaxed(1);
        if (mine >= jobs.size()) return;
        // By the job, not by the thread: the same rows from any number of threads.
        tpcc_random random(seed * 1000003 + mine, constants, scale);
        jobs[mine](random);
        const std::uint64_t now = done.fetch_add_relaxed(1) + 1;
        progress(static_cast<double>(now) / static_cast<double>(jobs.size()));
      }
    });
  }
  loaders.begin();
  loaders.wait();
}

}  // namespace bench
