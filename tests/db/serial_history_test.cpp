// SPDX-License-Identifier: Apache-2.0
// Many threads that find, scan, insert, change and roll back: what the transactions that committed
// have seen, absent keys and ranges included, must be what one after the other would see.
//
// A key that was inserted stays, and what a row has in its column `a` only grows, and is looked for
// from a value on. So no key and no range is ever again what it was once: if a transaction has not
// found something that was there when it committed, there is a dependency that says so. (Where
// something comes and goes, a transaction may have seen the time before it and commit after it.)

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "db/storages.hpp"
#include "support/isolation.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// What a version is, by its number.
struct content {
  std::uint64_t snapshot = 0;  // of the transaction that made it
  std::int64_t a = 0;
};

/// A scan by `a` from a value on, and the keys that it has shown, or that were its own.
struct look {
  std::int64_t from;
  std::set<std::uint64_t> shown;
};

struct raw_log {
  transaction_log log;
  std::uint64_t snapshot = 0;
  std::map<std::uint64_t, content> made;
  std::vector<look> looks;

  [[nodiscard]] bool owns(std::uint64_t key) const {
    return std::any_of(log.writes.begin(), log.writes.end(),
                       [&](const auto& w) { return w.key == key; });
  }
};

/// The versions of each key in their order. Of two transactions that change a row, the later one
/// began after the earlier one's commit: so they are in the order of their snapshots.
class resolver {
 public:
  explicit resolver(std::vector<raw_log>& all) : all_(all) {
    for (const raw_log& r : all) {
      if (r.log.rolled_back) continue;
      for (const auto& w : r.log.writes) versions_[w.key].push_back({w.made, r.made.at(w.made)});
    }
    for (auto& [key, of_key] : versions_) {
      std::sort(of_key.begin(), of_key.end(),
                [](const auto& x, const auto& y) { return x.second.snapshot < y.second.snapshot; });
    }
  }
  std::vector<transaction_log> resolve() {
    std::vector<transaction_log> logs;
    for (raw_log& r : all_) {
      for (const look& l : r.looks) find_missed(r, l);
      logs.push_back(r.log);
    }
    return logs;
  }

 private:
  using versions = std::vector<std::pair<std::uint64_t, content>>;

  /// The first one whose transaction began at that time or later.
  static versions::const_iterator from(const versions& of, std::uint64_t time) {
    return std::find_if(of.begin(), of.end(),
                        [&](const auto& v) { return v.second.snapshot >= time; });
  }
  /// The first version of each key that the scan would have shown, had it been there.
  void find_missed(raw_log& r, const look& l) const {
    for (const auto& [key, of] : versions_) {
      if (l.shown.contains(key)) continue;
      auto v = from(of, r.snapshot);
      if (v != of.begin()) --v;
      v = std::find_if(v, of.end(), [&](const auto& x) {
        const content& c = x.second;
        return l.from <= c.a && !r.made.contains(x.first);
      });
      if (v != of.end()) r.log.missed.push_back({key, v->first});
    }
  }

  std::vector<raw_log>& all_;
  std::map<std::uint64_t, versions> versions_;
};

class serial_history : public testing::TestWithParam<storage_kind> {
 protected:
  static constexpr std::int64_t some = 8;  // keys at a time
  static constexpr std::size_t most =
      spolia::test::quick_tests ? 400 : 1000;  // transactions of a thread
  static constexpr std::size_t least = 15;     // however busy the machine is

  struct place {
    place(const storage_kind& of, index_kind primary)
        : ordered(primary == index_kind::ordered),
          base(database::open({.versions = of,
                               .changes_only = of.changes_only,
                               .partition_transactions = 4,
                               .most_partitions = 8,
                               .hash_indexes = of.hashes})),
          t(base.create_table({.name = "t",
                               .columns = {{"k", int64, primary_key}, {"a", int64}, {"v", int64}},
                               .primary = primary,
                               .indexes = {{.name = "by_a", .columns = {"a"}}}})) {}
    const bool ordered;
    std::atomic<std::int64_t> first{0};  // of the keys that are used now
    std::atomic<std::int64_t> peak{0};   // about the largest value of `a`
    database base;
    table& t;
    column<std::int64_t> k = t.column<std::int64_t>("k");
    column<std::int64_t> a = t.column<std::int64_t>("a");
    column<std::int64_t> v = t.column<std::int64_t>("v");
  };

  /// One thread's part.
  class actor {
   public:
    actor(place& in, stress_thread& self) : in_(in), self_(self) {
      next_ = std::uint64_t{self.index() + 1} << 40U;
    }
    /// A transaction. False: it met a conflict.
    bool act(raw_log& r, isolation level) {
      transaction tx = in_.base.begin({.isolation = level});
      r.snapshot = tx.timestamp();
      r.log.thread = self_.index();
      for (auto n = 1 + below(4); n > 0; --n) {
        if (!step(r, tx)) return false;
        self_.jitter();
      }
      // By one thread all the time.
      if (self_.index() == 0 || self_.random().chance(1, 12)) in_.base.collect();
      if (self_.random().chance(1, 4)) {
        r.log.rolled_back = true;
        return true;
      }
      return bool(tx.commit());
    }

   private:
    static std::uint64_t number(std::int64_t n) { return static_cast<std::uint64_t>(n); }
    std::int64_t below(std::int64_t n) {
      return static_cast<std::int64_t>(self_.random().below(number(n)));
    }
    std::int64_t any_key() { return in_.first.load() + below(some); }
    bool step(raw_log& r, transaction& tx) {
      switch (below(6)) {
        case 0:
        case 1:
          find(r, tx, any_key());
          return true;
        case 2:
          in_.ordered ? scan(r, tx) : find(r, tx, any_key());
          return true;
        case 3:
          look_by_a(r, tx);
          return true;
        default:
          return change(r, tx, any_key());
      }
    }
    static void note(raw_log& r, std::int64_t key, std::uint64_t version) {
      if (!r.owns(number(key))) r.log.reads.push_back({number(key), version});
    }
    void find(raw_log& r, const transaction& tx, std::int64_t key) {
      const auto row = tx.find(in_.t, {key});
      note(r, key, row ? number(row->get(in_.v)) : 0);
    }
    void scan(raw_log& r, const transaction& tx) {
      std::int64_t at = any_key();
      const std::int64_t end = at + below(4);
      auto rows = below(3);
      const auto show = [&](const row& x) {
        for (; at < x.get(in_.k); ++at) note(r, at, 0);
        note(r, at++, number(x.get(in_.v)));
        return --rows != 0;
      };
      tx.scan(in_.t, {at}, {end}, show);
      for (; rows != 0 && at <= end; ++at) note(r, at, 0);
    }
    void look_by_a(raw_log& r, const transaction& tx) {
      look l{in_.peak.load() - below(3), {}};
      tx.scan(in_.t.index("by_a"), {l.from}, {}, [&](const row& x) {
        note(r, x.get(in_.k), number(x.get(in_.v)));
        l.shown.insert(number(x.get(in_.k)));
      });
      for (const auto& w : r.log.writes) l.shown.insert(w.key);
      r.looks.push_back(std::move(l));
    }
    bool change(raw_log& r, transaction& tx, std::int64_t key) {
      if (r.owns(number(key))) return true;
      content c{r.snapshot, in_.peak.load() + below(2)};
      std::uint64_t replaced = 0;
      const std::uint64_t made = ++next_;
      auto e = tx.edit(in_.t, {key});
      status s = outcome::ok;
      if (e) {
        replaced = number(e->get(in_.v));
        c.a = std::max(c.a, e->get(in_.a));
        s = e->set(in_.a, c.a);
        if (s) s = e->set(in_.v, static_cast<std::int64_t>(made));
      } else if (e.code() == outcome::not_found) {
        s = tx.insert(in_.t, {key, c.a, static_cast<std::int64_t>(made)});
        if (s && below(2) == 0) in_.first.fetch_add(1);
      } else {
        return false;
      }
      if (!s) return false;
      if (below(4) == 0) in_.peak.fetch_add(1);
      r.log.reads.push_back({number(key), replaced});
      r.log.writes.push_back({number(key), replaced, made});
      r.made[made] = c;
      return true;
    }

    place& in_;
    stress_thread& self_;
    std::uint64_t next_;
  };

  static std::vector<transaction_log> record(place& in, isolation level, double share) {
    std::mutex lock;
    std::vector<raw_log> all;
    run_stress({.threads = 4, .share = share}, [&](stress_thread& self) {
      actor me(in, self);
      std::vector<raw_log> mine;
      while ((self.running() || mine.size() < least) && mine.size() < most) {
        raw_log r;
        if (me.act(r, level)) mine.push_back(std::move(r));
      }
      const std::lock_guard hold(lock);
      std::move(mine.begin(), mine.end(), std::back_inserter(all));
    });
    return resolver(all).resolve();
  }
};
SPOLIA_OVER_STORAGES_AND_TABLES(serial_history);

TEST_P(serial_history, of_serializable_transactions_is_serial) {
  for (const index_kind primary : {index_kind::hash, index_kind::ordered}) {
    place in(GetParam(), primary);
    const auto logs = record(in, isolation::serializable, 0.3);
    EXPECT_EQ(serializability_broken(logs), "") << logs.size() << " transactions";
  }
}

TEST_P(serial_history, at_snapshot_isolation_is_of_snapshot_isolation) {
  place in(GetParam(), index_kind::ordered);
  const auto logs = record(in, isolation::snapshot, 0.3);
  EXPECT_EQ(snapshot_isolation_broken(logs), "") << logs.size() << " transactions";
}

/// Each thread inserts its key of a pair if the other one is not there, or deletes it, or rolls
/// back: both of a pair are never there.
TEST_P(serial_history, of_two_keys_one_is_there) {
  for (const index_kind primary : {index_kind::hash, index_kind::ordered}) {
    place in(GetParam(), primary);
    constexpr std::int64_t pairs = 4;
    const auto there = [&](const reader& at, std::int64_t key) {
      return bool(at.find(in.t, {key}));
    };
    run_stress({.threads = 4, .share = 0.3}, [&](stress_thread& self) {
      while (self.running()) {
        const auto pair = static_cast<std::int64_t>(self.random().below(pairs));
        const std::int64_t key = 2 * pair + (self.random().chance(1, 2) ? 1 : 0);
        transaction tx = in.base.begin({.isolation = isolation::serializable});
        const std::int64_t other = key ^ 1;
        const bool free = self.random().chance(1, 2)
                              ? !there(tx, other)
                              : tx.edit(in.t, {other}).code() == outcome::not_found;
        self.jitter();
        const bool changed =
            tx.state() && (free ? tx.insert(in.t, {key, pair, 0}) : tx.erase(in.t, {other}));
        self.jitter();
        if (changed && self.random().chance(3, 4)) static_cast<void>(tx.commit());
        if (self.random().chance(1, 8)) in.base.collect();
        const reader now = in.base.snapshot();
        for (std::int64_t p = 0; p < pairs; ++p) {
          ASSERT_FALSE(there(now, 2 * p) && there(now, 2 * p + 1)) << "both of pair " << p;
        }
      }
    });
  }
}

/// The judge must be able to say no: two snapshots that each insert what the other has not found.
TEST_P(serial_history, write_skew_is_found_where_it_is_allowed) {
  for (const isolation level : {isolation::snapshot, isolation::serializable}) {
    place in(GetParam(), index_kind::ordered);
    std::vector<raw_log> all(2);
    transaction one = in.base.begin({.isolation = level});
    transaction two = in.base.begin({.isolation = level});
    const std::array both{&one, &two};
    for (unsigned i = 0; i < 2; ++i) {
      all[i].snapshot = both[i]->timestamp();
      all[i].log.thread = i;
      for (const std::uint64_t key : {1U, 2U}) {
        EXPECT_FALSE(both[i]->find(in.t, {static_cast<std::int64_t>(key)}));
        all[i].log.reads.push_back({key, 0});
      }
    }
    for (std::uint64_t i = 0; i < 2; ++i) {
      const std::uint64_t key = i + 1;
      EXPECT_TRUE(both[i]->insert(in.t, {static_cast<std::int64_t>(key), 0, 0}));
      all[i].log.writes.push_back({key, 0, key});
      all[i].made[key] = {all[i].snapshot, 0};
      all[i].log.rolled_back = !both[i]->commit();
    }
    const auto logs = resolver(all).resolve();
    EXPECT_EQ(snapshot_isolation_broken(logs), "");
    EXPECT_EQ(serializability_broken(logs).empty(), level == isolation::serializable);
  }
}

}  // namespace
