// SPDX-License-Identifier: Apache-2.0
// Transactions that take the first or the last row of a range again and again: they see what is
// there, whatever they change in between, and what they have taken does not delay them.

#include <gtest/gtest.h>

#include <time.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "support/sanitized.hpp"

namespace {

using namespace spolia::db;

/// The ways to look into the table: by its key, by a value that is of one row, and by one that is
/// of many.
enum class by : std::uint8_t { key, rank, state };
constexpr std::array all_ways = {by::key, by::rank, by::state};
constexpr std::int64_t states = 3;

struct job {
  std::int64_t rank = 0;
  std::int64_t state = 0;
};

class queues : public testing::Test {
 protected:
  table& make(const std::string& name) {
    return base.create_table({.name = name,
                              .columns = {{"id", int64, primary_key},
                                          {"rank", int64},
                                          {"state", int64},
                                          {"hits", int64}},
                              .primary = index_kind::ordered,
                              .indexes = {{"by_rank", {"rank"}, true}, {"by_state", {"state"}}}});
  }
  void fill(table& t, std::int64_t count) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t i = 0; i < count; ++i) {
        if (const status s = tx.insert(t, {i, i, i % states, 0}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  /// The key of the first row of those from `from` to `to`, or of the last one.
  static std::optional<std::int64_t> first(const reader& at, const table& t, by way, bool down,
                                           std::int64_t from, std::int64_t to) {
    std::optional<std::int64_t> found;
    const auto one = [&](const row& r) {
      found = r.get(t.column<std::int64_t>("id"));
      return false;
    };
    if (way == by::key) {
      down ? at.scan_down(t, {from}, {to}, one) : at.scan(t, {from}, {to}, one);
    } else {
      const secondary& i = t.index(way == by::rank ? "by_rank" : "by_state");
      down ? at.scan_down(i, {from}, {to}, one) : at.scan(i, {from}, {to}, one);
    }
    return found;
  }

  database base = database::open();
};

/// What a transaction sees: rows by their keys.
class model {
 public:
  std::map<std::int64_t, job> rows;

  [[nodiscard]] std::int64_t value(std::int64_t key, by way) const {
    if (way == by::key) return key;
    return way == by::rank ? rows.at(key).rank : rows.at(key).state;
  }
  /// Rows of one value come in no order that is promised: so the value.
  [[nodiscard]] std::optional<std::int64_t> first(by way, bool down, std::int64_t from,
                                                  std::int64_t to) const {
    std::optional<std::int64_t> best;
    for (const auto& [key, its] : rows) {
      const std::int64_t v = value(key, way);
      if (v < from || v > to) continue;
      if (!best || (down ? v > *best : v < *best)) best = v;
    }
    return best;
  }
  [[nodiscard]] bool has_rank(std::int64_t rank) const {
    for (const auto& [key, its] : rows) {
      if (its.rank == rank) return true;
    }
    return false;
  }
};

/// Takes rows from both ends, puts some back where it has taken them, changes their values, is
/// refused, and goes back to savepoints, in one transaction; also in the functions of scans.
class churn {
 public:
  churn(transaction& tx, table& t, const model& begun, std::uint64_t seed)
      : tx_(tx), t_(t), now_(begun), random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) step(i);
  }
  void look(by way, bool down, std::int64_t from, std::int64_t to) {
    const auto wanted = now_.first(way, down, from, to);
    std::optional<std::int64_t> found;
    const auto one = [&](const row& r) {
      found = r.get(t_.column<std::int64_t>(way == by::key    ? "id"
                                            : way == by::rank ? "rank"
                                                              : "state"));
      return false;
    };
    const secondary& i = t_.index(way == by::rank ? "by_rank" : "by_state");
    if (way == by::key) {
      down ? tx_.scan_down(t_, {from}, {to}, one) : tx_.scan(t_, {from}, {to}, one);
    } else {
      down ? tx_.scan_down(i, {from}, {to}, one) : tx_.scan(i, {from}, {to}, one);
    }
    ASSERT_EQ(found, wanted) << "way " << static_cast<int>(way) << (down ? " down" : " up")
                             << " from " << from << " to " << to;
  }
  void look_everywhere() {
    for (const by way : all_ways) {
      for (const bool down : {false, true}) {
        look(way, down, -1, 2 * most);
        look(way, down, most / 4, most / 2);
      }
    }
  }

  static constexpr std::int64_t most = 150;

 private:
  std::int64_t any(std::int64_t end) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(end));
  }
  void step(int number) {
    SCOPED_TRACE("step " + std::to_string(number));
    const auto what = any(20);
    if (what < 9) {
      take(any(8) == 0);
    } else if (what < 12) {
      insert(any(most), any(most));
    } else if (what < 14) {
      set(any(most), any(most));
    } else if (what == 14) {
      savepoints_.emplace_back(tx_.savepoint(), now_);
    } else if (what == 15 && !savepoints_.empty()) {
      const auto to = static_cast<std::size_t>(any(static_cast<std::int64_t>(savepoints_.size())));
      ASSERT_TRUE(tx_.rollback_to(savepoints_[to].first));
      now_ = savepoints_[to].second;
      savepoints_.resize(to + 1);
    } else {
      const std::int64_t from = any(most);
      look(all_ways[static_cast<std::size_t>(any(3))], any(2) == 0, from, from + any(most));
    }
    if (number % 16 == 0) look_everywhere();
  }
  /// Some from one end, each found anew; or all within one scan, whose function looks as well.
  void take(bool in_one_scan) {
    const bool down = any(3) == 0;
    const std::int64_t count = any(30);
    if (in_one_scan) {
      std::int64_t left = count;
      const auto one = [&](const row& r) {
        erase(r.get(t_.column<std::int64_t>("id")));
        look(by::key, down, -1, 2 * most);
        if (left % 8 == 0) insert(any(most), any(most));
        return --left > 0;
      };
      down ? tx_.scan_down(t_, {}, {}, one) : tx_.scan(t_, {}, {}, one);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      look(by::key, down, -1, 2 * most);
      if (now_.rows.empty()) return;
      erase(down ? now_.rows.rbegin()->first : now_.rows.begin()->first);
      look(by::state, down, 0, states);
    }
  }
  void erase(std::int64_t key) {
    if (now_.rows.erase(key) == 0) return;  // within a scan, what was changed since comes as it was
    ASSERT_TRUE(tx_.erase(t_, {key}));
  }
  void insert(std::int64_t key, std::int64_t rank) {
    const bool fits = !now_.rows.contains(key) && !now_.has_rank(rank);
    const status s = tx_.insert(t_, {key, rank, rank % states, 0});
    ASSERT_EQ(s.code(), fits ? outcome::ok : outcome::duplicate_key) << key << ", " << rank;
    if (fits) now_.rows[key] = {rank, rank % states};
  }
  void set(std::int64_t key, std::int64_t rank) {
    const auto there = now_.rows.find(key);
    const bool fits =
        there == now_.rows.end() || there->second.rank == rank || !now_.has_rank(rank);
    const status s = tx_.update(t_, {key}, {{"rank", rank}, {"state", rank % states}});
    if (there == now_.rows.end()) {
      ASSERT_EQ(s.code(), outcome::not_found);
    } else {
      ASSERT_EQ(s.code(), fits ? outcome::ok : outcome::duplicate_key);
      if (fits) there->second = {rank, rank % states};
    }
  }

  transaction& tx_;
  table& t_;
  model now_;
  std::vector<std::pair<savepoint, model>> savepoints_;
  std::mt19937_64 random_;
};

TEST_F(queues, show_what_is_there_whatever_is_changed) {
  table& t = make("jobs");
  fill(t, churn::most);
  model begun;
  for (std::int64_t i = 0; i < churn::most; ++i) begun.rows[i] = {i, i % states};
  for (int seed = 1; seed <= spolia::test::tries(60) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const isolation how : {isolation::snapshot, isolation::serializable}) {
      transaction tx = base.begin({.isolation = how});
      churn one(tx, t, begun, static_cast<std::uint64_t>(seed));
      one.run(80);
      one.look_everywhere();
      tx.rollback();
    }
  }
}

double seconds_of_this_thread() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Takes first rows of one table; the time that it takes, in sum.
struct taker {
  taker(database& base, table& t, by index, bool last)
      : tx(base.begin()), of(t), way(index), down(last) {}

  void take(std::size_t count, const auto& first) {
    const double begin = seconds_of_this_thread();
    for (std::size_t i = 0; i < count; ++i) {
      const auto key = first(tx, of, way, down);
      ASSERT_TRUE(key);
      ASSERT_TRUE(tx.erase(of, {*key}));
    }
    seconds += seconds_of_this_thread() - begin;
  }

  transaction tx;
  table& of;
  by way;
  bool down;
  double seconds = 0;
};

/// Of two transactions, taken in turns, one has taken many before.
TEST_F(queues, are_not_delayed_by_what_was_taken) {
  constexpr std::int64_t rows = 4000;
  constexpr std::size_t before = 3000;
  constexpr std::size_t at_once = 20;
  table& long_one = make("long");
  table& short_one = make("short");
  fill(long_one, rows);
  fill(short_one, rows);
  const auto find = [](const reader& at, const table& t, by way, bool down) {
    return first(at, t, way, down, 0, rows);
  };
  for (const by way : all_ways) {
    for (const bool down : {false, true}) {
      SCOPED_TRACE("way " + std::to_string(static_cast<int>(way)) + (down ? " down" : " up"));
      taker much(base, long_one, way, down);
      taker little(base, short_one, way, down);
      much.take(before, find);
      much.seconds = 0;
      for (int turn = 0; turn < 15; ++turn) {
        much.take(at_once, find);
        little.take(at_once, find);
      }
      // Ten to twenty times, where each search passes over all that was taken.
      EXPECT_LT(much.seconds, 4 * little.seconds);
      much.tx.rollback();
      little.tx.rollback();
    }
  }
}

/// The commit of a serializable transaction looks through what was read: once, however often the
/// first row was looked for.
TEST_F(queues, are_looked_through_once) {
  constexpr std::int64_t few = 200;
  constexpr std::int64_t many = 8 * few;
  table& t = make("jobs");
  fill(t, many);
  const auto commit_after = [&](std::int64_t count) {
    transaction tx = base.begin({.isolation = isolation::serializable});
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(first(tx, t, by::key, false, 0, many), i);
      EXPECT_TRUE(tx.erase(t, {i}));
    }
    const double begin = seconds_of_this_thread();
    EXPECT_TRUE(tx.commit());
    const double took = seconds_of_this_thread() - begin;
    EXPECT_TRUE(base.transact([&](transaction& again) -> status {
      for (std::int64_t i = 0; i < count; ++i) {
        if (const status s = again.insert(t, {i, i, i % states, 0}); !s) return s;
      }
      return outcome::ok;
    }));
    return took;
  };
  double of_few = 0;
  double of_many = 0;
  for (int turn = 0; turn < 6; ++turn) {
    of_few += commit_after(few);
    of_many += commit_after(many);
  }
  // Nine times is usual.
  EXPECT_LT(of_many, 24 * of_few) << "sixty-four times, where each range is looked through";
}

}  // namespace
