// SPDX-License-Identifier: Apache-2.0
// A reader holds the rows and index entries that it sees, and no others: of random changes, and of
// workloads that go on for long beside readers of many ages.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/storages.hpp"
#include "db/upkeep.hpp"
#include "support/cost.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using db::outcome;
using db::reader;
using db::status;
using db::transaction;

/// Under a sanitizer all takes ten times as long, and a fifth reaches the same code.
template <class T>
constexpr T fewer_if_slow(T n) noexcept {
  return sanitized ? n / 5 : n;
}

constexpr std::int64_t keys = 24;
constexpr std::int64_t values = 6;

/// Rows by key: the values of the columns a and b.
using content = std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>>;

class held_readers : public testing::TestWithParam<storage_kind> {
 protected:
  explicit held_readers(db::index_kind primary = db::index_kind::ordered)
      : base(db::database::open({.versions = GetParam(),
                                 .changes_only = GetParam().changes_only,
                                 .partition_transactions = 16,
                                 .hash_indexes = GetParam().hashes})),
        rows(base.create_table(
            {.name = "rows",
             .columns = {{"k", db::int64, db::primary_key}, {"a", db::int64}, {"b", db::int64}},
             .primary = primary,
             .indexes = {{"by_a", {"a"}},
                         {"by_b", {"b"}, false, db::index_kind::hash},
                         {"by_both", {"a", "b", "k"}, true}}})),
        k(rows.column<std::int64_t>("k")),
        a(rows.column<std::int64_t>("a")),
        b(rows.column<std::int64_t>("b")) {}

  /// What a snapshot shows, looked at in each way.
  void expect_shows(const reader& at, const content& wanted) const {
    const auto note = [&](content& to) {
      return [this, &to](const db::row& r) {
        EXPECT_TRUE(to.emplace(r.get(k), std::pair(r.get(a), r.get(b))).second) << "a row twice";
      };
    };
    content found;
    at.for_each(rows, note(found));
    EXPECT_EQ(found, wanted) << "rows in no order";
    for (std::int64_t n = 0; n < keys; ++n) {
      const auto r = at.find(rows, {n});
      const auto w = wanted.find(n);
      ASSERT_EQ(static_cast<bool>(r), w != wanted.end()) << "key " << n;
      if (!r) continue;
      EXPECT_EQ(std::pair(r->get(a), r->get(b)), w->second) << "key " << n;
    }
    for (const bool down : {false, true}) {
      expect_in_order(at, wanted, down);
      for (std::int64_t v = 0; v < values; ++v) expect_with(at, wanted, v, down);
    }
  }

  db::database base;
  db::table& rows;
  db::column<std::int64_t> k;
  db::column<std::int64_t> a;
  db::column<std::int64_t> b;

 private:
  using columns = std::vector<std::int64_t>;
  template <class Of>
  static void scan(const reader& at, const Of& of, std::initializer_list<db::value> from,
                   std::initializer_list<db::value> to, bool down,
                   const std::function<void(const db::row&)>& f) {
    if (down) {
      at.scan_down(of, from, to, f);
    } else {
      at.scan(of, from, to, f);
    }
  }
  void expect_in_order(const reader& at, const content& wanted, bool down) const {
    std::vector<columns> by_a;
    std::vector<columns> by_key;
    for (const auto& [key, v] : wanted) {
      by_key.push_back({key, v.first, v.second});
      by_a.push_back({v.first, v.second, key});
    }
    std::sort(by_a.begin(), by_a.end());
    if (down) std::reverse(by_a.begin(), by_a.end());
    if (down) std::reverse(by_key.begin(), by_key.end());
    std::vector<columns> found;
    scan(at, rows.index("by_both"), {}, {}, down,
         [&](const db::row& r) { found.push_back({r.get(a), r.get(b), r.get(k)}); });
    EXPECT_EQ(found, by_a) << "by a unique index";
    if (rows.spec().primary != db::index_kind::ordered) return;
    found.clear();
    scan(at, rows, {}, {}, down,
         [&](const db::row& r) { found.push_back({r.get(k), r.get(a), r.get(b)}); });
    EXPECT_EQ(found, by_key) << "by the primary key";
  }
  /// Of rows whose columns have that value.
  void expect_with(const reader& at, const content& wanted, std::int64_t v, bool down) const {
    columns with_a;
    columns with_b;
    for (const auto& [key, x] : wanted) {
      if (x.first == v) with_a.push_back(key);
      if (x.second == v) with_b.push_back(key);
    }
    const auto keys_by = [&](const char* index) {
      columns found;
      scan(at, rows.index(index), {v}, {v}, down,
           [&](const db::row& r) { found.push_back(r.get(k)); });
      std::sort(found.begin(), found.end());
      return found;
    };
    EXPECT_EQ(keys_by("by_a"), with_a);
    EXPECT_EQ(keys_by("by_b"), with_b);
  }
};

/// A few changes, of which some are taken back, each told to `now`.
class changer {
 public:
  changer(db::database& base, db::table& rows, std::uint64_t seed)
      : base_(base), rows_(rows), random_(seed) {}

  std::uint64_t number(std::uint64_t below) { return random_() % below; }
  std::int64_t any_value() { return static_cast<std::int64_t>(number(values)); }

  void transact(content& now) {
    content then = now;
    transaction tx = base_.begin(
        {.isolation = number(2) == 0 ? db::isolation::serializable : db::isolation::snapshot});
    for (std::uint64_t n = 1 + number(4); n != 0; --n) {
      const content before = then;
      const bool back = number(5) == 0;
      const db::savepoint to = tx.savepoint();
      change(tx, then);
      if (!back) continue;
      ASSERT_TRUE(tx.rollback_to(to));
      then = before;
    }
    if (number(5) == 0) return tx.rollback();
    ASSERT_TRUE(tx.commit());
    now = then;
  }

 private:
  void change(transaction& tx, content& now) {
    const auto key = static_cast<std::int64_t>(number(keys));
    const bool there = now.count(key) != 0;
    switch (number(4)) {
      case 0:
      case 1: {
        const std::pair v(any_value(), any_value());
        ASSERT_EQ(tx.insert(rows_, {key, v.first, v.second}),
                  there ? outcome::duplicate_key : outcome::ok);
        if (!there) now[key] = v;
        break;
      }
      case 2:
        ASSERT_EQ(tx.erase(rows_, {key}), there ? outcome::ok : outcome::not_found);
        now.erase(key);
        break;
      default: {
        const std::int64_t v = any_value();
        const bool first = number(2) == 0;
        ASSERT_EQ(tx.update(rows_, {key}, {{first ? "a" : "b", v}}),
                  there ? outcome::ok : outcome::not_found);
        if (there) (first ? now[key].first : now[key].second) = v;
      }
    }
  }

  db::database& base_;
  db::table& rows_;
  std::mt19937_64 random_;
};

/// Changes, readers that begin and end in any order, and collecting: each reader shows at any time
/// what there was when it began.
void play(db::database& base, db::table& rows, std::uint64_t seed,
          const std::function<void(const reader&, const content&)>& expect) {
  struct held {
    std::unique_ptr<reader> at;
    content then;
  };
  const std::uint64_t index_bytes = base.stats().index_bytes;
  changer c(base, rows, seed);
  content now;
  std::vector<held> readers;
  for (int n = 0; n < tries(1200) && !testing::Test::HasFailure(); ++n) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(n));
    c.transact(now);
    if (c.number(6) == 0 && readers.size() < 8) {
      readers.push_back({std::unique_ptr<reader>(new reader(base.snapshot())), now});
    }
    if (c.number(12) == 0) base.collect();
    if (readers.empty() || c.number(3) != 0) continue;
    const auto r = readers.begin() + static_cast<std::ptrdiff_t>(c.number(readers.size()));
    expect(*r->at, r->then);
    if (c.number(3) == 0) readers.erase(r);
  }
  for (const held& r : readers) expect(*r.at, r.then);
  readers.clear();
  expect(base.snapshot(), now);
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U) << "no reader is left";
  for (std::int64_t key = 0; key < keys; ++key) {
    ASSERT_NE(base.transact([&](transaction& tx) { return tx.erase(rows, {key}); }),
              outcome::conflict);
  }
  base.collect();
  // Indexes without keys have no arrays: they keep those that their first keys have made.
  EXPECT_LE(base.stats().index_bytes, index_bytes + 24576) << "no entry is left";
}

TEST_P(held_readers, show_what_there_was) {
  const auto expect = [&](const reader& at, const content& c) { expect_shows(at, c); };
  play(base, rows, 1, expect);
}
SPOLIA_OVER_STORAGES_AND_TABLES(held_readers);

class held_readers_hashed : public held_readers {
 protected:
  held_readers_hashed() : held_readers(db::index_kind::hash) {}
};
TEST_P(held_readers_hashed, show_what_there_was) {
  const auto expect = [&](const reader& at, const content& c) { expect_shows(at, c); };
  play(base, rows, 2, expect);
}
SPOLIA_OVER_STORAGES_AND_TABLES(held_readers_hashed);

/// Rows that come and go beside a reader that sees none of them.
class workloads : public testing::TestWithParam<std::tuple<storage_kind, db::index_kind>> {
 protected:
  workloads()
      : base(db::database::open({.versions = std::get<0>(GetParam()),
                                 .changes_only = std::get<0>(GetParam()).changes_only,
                                 // Too little, if notes of what has gone counted.
                                 .budget = is_ring() ? 0 : std::uint64_t{2} << 20U,
                                 .partition_bytes = 64U << 10U,
                                 .partition_cache_bytes = 64U << 10U})),
        rows(base.create_table(
            {.name = "rows",
             .columns = {{"k", db::int64, db::primary_key}, {"touched", db::int64}},
             .primary = std::get<1>(GetParam()),
             .indexes = {{"by_touched", {"touched"}, false, std::get<1>(GetParam())}}})) {}

  static bool is_ring() {
    return std::get<0>(GetParam()).storage == db::version_storage::one_shot_consolidated;
  }
  void commit(const std::function<status(transaction&)>& f) { ASSERT_TRUE(base.transact(f)); }
  void insert(std::int64_t key) {
    commit([&](transaction& tx) { return tx.insert(rows, {key, key}); });
  }
  /// Step by step, with a reader held from the start: memory stays, and so does what waits.
  void stays(const std::function<void(std::int64_t)>& step) {
    constexpr std::int64_t live = 100;
    constexpr std::int64_t at_first = 3000;
    constexpr std::int64_t steps = sanitized ? 2000 : 20000;
    for (std::int64_t n = 0; n < live; ++n) insert(n);
    const reader held = base.snapshot("held");
    for (std::int64_t n = 0; n < at_first; ++n) step(n);
    const std::uint64_t before = resident_bytes();
    const db::statistics then = base.stats();
    for (std::int64_t n = at_first; n < at_first + steps; ++n) step(n);
    // What the reader sees hangs at it; of the rest, what one look may leave.
    EXPECT_LE(base.stats().cleaning, 2 * live + 300U);
    // What waits for its next look may need a few slots more than it did then.
    EXPECT_LE(base.stats().table_bytes, 2 * then.table_bytes) << "slots are used again";
    // Partitions are bounded by their ring, which the first steps have not filled yet.
    if (!is_ring()) {
      EXPECT_LT(base.stats().versions.bytes, then.versions.bytes + (512U << 10U));
    }
    // An earlier test's collect() has given back what the allocator had: so all of it is seen, and
    // so is what the allocator sets aside anew. At 650 bytes a step, this would be 13 MB.
    if (!SPOLIA_ASAN && !SPOLIA_TSAN) {
      EXPECT_LT(resident_bytes() - std::min(before, resident_bytes()), (is_ring() ? 6U : 2U)
                                                                           << 20U);
    }
    std::int64_t seen = 0;
    held.for_each(rows, [&](const db::row&) { ++seen; });
    EXPECT_EQ(seen, live);
  }

  db::database base;
  db::table& rows;
};
INSTANTIATE_TEST_SUITE_P(
    each, workloads,
    testing::Combine(testing::Values(storage_kind{db::version_storage::one_shot_consolidated},
                                     storage_kind{db::version_storage::steam_eager},
                                     storage_kind{db::version_storage::steam_eager, true},
                                     storage_kind{db::version_storage::range},
                                     storage_kind{db::version_storage::range, true}),
                     testing::Values(db::index_kind::ordered, db::index_kind::hash)),
    [](const auto& of) {
      const bool ordered = std::get<1>(of.param) == db::index_kind::ordered;
      return storage_name({std::get<0>(of.param), 0}) + (ordered ? "_ordered" : "_hash");
    });

TEST_P(workloads, a_queue) {
  stays([&](std::int64_t n) {
    commit([&](transaction& tx) -> status {
      if (const status s = tx.erase(rows, {n}); !s) return s;
      return tx.insert(rows, {n + 100, n + 100});
    });
  });
}
TEST_P(workloads, an_index_of_what_was_touched) {
  stays([&](std::int64_t n) {
    commit(
        [&](transaction& tx) { return tx.update(rows, {n * 7 % 100}, {{"touched", n + 1000}}); });
  });
}
TEST_P(workloads, the_same_keys_again) {
  stays([&](std::int64_t n) {
    const std::int64_t key = n * 7 % 100;
    commit([&](transaction& tx) { return tx.erase(rows, {key}); });
    commit([&](transaction& tx) { return tx.insert(rows, {key, n}); });
  });
}
TEST_P(workloads, insertions_that_are_taken_back) {
  stays([&](std::int64_t n) {
    transaction tx = base.begin();
    ASSERT_TRUE(tx.insert(rows, {n + 1000, n}));
    ASSERT_TRUE(tx.update(rows, {n % 100}, {{"touched", -n - 1}}));
    tx.rollback();
    commit([&](transaction& t) { return t.update(rows, {n % 100}, {{"touched", n % 3}}); });
  });
}

class ages : public testing::Test {
 protected:
  db::database base = db::database::open();
  db::table& rows = base.create_table(
      {.name = "rows", .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}}});

  void insert(std::int64_t first, std::int64_t count) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t n = first; n < first + count; ++n) {
        if (const status s = tx.insert(rows, {n, n}); !s) return s;
      }
      return {};
    }));
  }
  void erase(std::int64_t first, std::int64_t count) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t n = first; n < first + count; ++n) {
        if (const status s = tx.erase(rows, {n}); !s) return s;
      }
      return {};
    }));
  }
};

/// Each of many readers sees rows of its own: those go when it ends, whichever it is.
TEST_F(ages, are_told_apart) {
  constexpr std::int64_t readers = fewer_if_slow(200);
  constexpr std::int64_t each = 10;
  std::vector<std::unique_ptr<reader>> all;
  for (std::int64_t n = 0; n < readers; ++n) {
    insert(n * each, each);
    all.push_back(std::unique_ptr<reader>(new reader(base.snapshot())));
    erase(n * each, each);
  }
  base.collect();
  EXPECT_EQ(base.stats().cleaning, std::uint64_t{readers * each});
  std::mt19937_64 random(3);
  std::shuffle(all.begin(), all.end(), random);
  while (!all.empty()) {
    std::int64_t seen = 0;
    all.back()->for_each(rows, [&](const db::row&) { ++seen; });
    EXPECT_EQ(seen, each);
    all.pop_back();
    base.collect();
    ASSERT_EQ(base.stats().cleaning, all.size() * each);
  }
}

/// All readers see the rows: these go when the last has ended, in whatever order that is.
TEST_F(ages, that_need_the_same) {
  for (const bool oldest_first : {true, false}) {
    insert(0, 100);
    std::vector<std::unique_ptr<reader>> all;
    for (std::int64_t n = 0; n < 64; ++n) {
      all.push_back(std::unique_ptr<reader>(new reader(base.snapshot())));
      insert(1000 + n, 1);
    }
    erase(0, 100);
    erase(1000, 64);
    if (!oldest_first) std::reverse(all.begin(), all.end());
    while (all.size() > 1) {
      all.erase(all.begin());
      base.collect();
      ASSERT_GE(base.stats().cleaning, 100U);
    }
    std::int64_t seen = 0;
    const auto k = rows.column<std::int64_t>("k");
    all.front()->for_each(rows, [&](const db::row& r) { seen += r.get(k) < 100 ? 1 : 0; });
    EXPECT_EQ(seen, 100);
    all.clear();
    base.collect();
    EXPECT_EQ(base.stats().cleaning, 0U);
  }
}

/// What a reader sees that is held is not in the way of others: the first row is found as quickly
/// as without the reader.
TEST_F(ages, that_are_old_are_not_in_the_way) {
  constexpr std::int64_t count = 5000;
  const auto make = [&](const char* name) -> db::table& {
    return base.create_table(
        {.name = name,
         .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}, {"same", db::int64}},
         .primary = db::index_kind::ordered,
         .indexes = {{"by_v", {"v"}}, {"by_same", {"same"}, false, db::index_kind::hash}}});
  };
  const auto put_those_from = [&](db::table& t, std::int64_t from) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t n = from; n < from + count; ++n) {
        if (const status s = tx.insert(t, {n, n, 1}); !s) return s;
      }
      return {};
    }));
  };
  const auto replace_all = [&](db::table& t) {
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t n = 0; n < count; ++n) {
        if (const status s = tx.erase(t, {n}); !s) return s;
      }
      return {};
    }));
    put_those_from(t, count);
    for (int looks = 0; looks < 3; ++looks) base.collect();
  };
  db::table& queue = make("queue");
  db::table& plain = make("plain");  // nothing of it is held
  put_those_from(queue, 0);
  put_those_from(plain, 0);
  replace_all(plain);
  auto held = std::unique_ptr<reader>(new reader(base.snapshot()));
  replace_all(queue);
  const auto first_rows = [&](db::table& of) {
    const reader now = base.snapshot();
    std::int64_t sum = 0;
    const auto one = [&](const db::row& r) {
      sum += r.get(of.column<std::int64_t>("k")) >= count ? 1 : 0;
      return false;
    };
    const double cost = cost_of([&] {
      now.scan(of, {}, {}, one);
      now.scan(of.index("by_v"), {}, {}, one);
      now.scan(of.index("by_same"), {1}, {1}, one);
    });
    EXPECT_EQ(sum, 3);
    return cost;
  };
  const auto [with, without] =
      least_in_turn(20, [&] { return first_rows(queue); }, [&] { return first_rows(plain); });
  EXPECT_LT(with, 8 * without + 5e-6);
  std::int64_t seen = 0;
  held->scan(queue, {}, {}, [&](const db::row&) { ++seen; });
  held->scan_down(queue.index("by_v"), {}, {}, [&](const db::row&) { ++seen; });
  held->scan(queue.index("by_same"), {1}, {1}, [&](const db::row&) { ++seen; });
  EXPECT_EQ(seen, 3 * count);
}

/// A queue, and readers that are held beside it.
struct queue_and_readers {
  explicit queue_and_readers(db::database& in) : base(in) {
    for (; next < length; ++next)
      EXPECT_TRUE(base.transact([&](transaction& tx) { return put(tx); }));
  }
  status put(transaction& tx) const { return tx.insert(queue, {next}); }
  status take_and_put(transaction& tx) const {
    tx.scan(queue, {}, {}, [&](const db::row& r) {
      EXPECT_EQ(r.get(queue.column<std::int64_t>("k")), next - length);
      return false;
    });
    if (const status s = tx.erase(queue, {next - length}); !s) return s;
    return put(tx);
  }
  void go_on(std::int64_t transactions) {
    for (; transactions > 0; --transactions, ++next) {
      EXPECT_TRUE(base.transact([&](transaction& tx) { return take_and_put(tx); }));
    }
  }
  void hold() {
    held.push_back(std::unique_ptr<reader>(new reader(base.snapshot())));
    go_on(length);
  }
  double commits() {
    return cost_of([&] { go_on(2000); });
  }
  double first_rows() {
    return cost_of([&] {
      for (int n = 0; n < 500; ++n) {
        go_on(1);
        const reader now = base.snapshot();
        now.scan(queue, {}, {}, [](const db::row&) { return false; });
      }
    });
  }

  static constexpr std::int64_t length = 100;
  db::database& base;
  db::table& queue = base.create_table({.name = "queue",
                                        .columns = {{"k", db::int64, db::primary_key}},
                                        .primary = db::index_kind::ordered});
  std::int64_t next = 0;
  std::vector<std::unique_ptr<reader>> held;
};

/// A queue beside a thousand readers of all ages, each of which sees rows of its own, goes on
/// nearly as it does beside one, and its first row is found nearly as quickly.
TEST_F(ages, of_a_thousand_do_not_stop_a_queue) {
  db::database other = db::database::open();
  queue_and_readers one(other);
  queue_and_readers all(base);
  one.hold();
  while (all.held.size() < fewer_if_slow(std::size_t{1000})) all.hold();
  // Half and more on a quiet machine, an eighth where looks were as seldom as readers are many.
  const auto [by_all, by_one] =
      least_in_turn(7, [&] { return all.commits(); }, [&] { return one.commits(); });
  EXPECT_LT(by_all * 0.25, by_one);
  const auto [first_of_all, first_of_one] =
      least_in_turn(12, [&] { return all.first_rows(); }, [&] { return one.first_rows(); });
  EXPECT_LT(first_of_all, 3 * first_of_one);
  for (int looks = 0; looks < 2; ++looks) base.collect();
  const std::vector<db::reader_info> told = base.readers();
  ASSERT_EQ(told.size(), all.held.size());
  std::uint64_t in_all = 0;
  for (const db::reader_info& r : told) {
    EXPECT_GE(r.held, std::uint64_t{queue_and_readers::length})
        << "each sees rows that no other one sees";
    in_all += r.held;
  }
  EXPECT_EQ(in_all, base.stats().cleaning);
}

/// What waits is told by reader: each thing at one that needs it.
TEST_F(ages, know_what_waits_for_them) {
  constexpr std::int64_t half = 500;
  insert(0, 2 * half);
  auto older = std::unique_ptr<reader>(new reader(base.snapshot("older")));
  erase(0, half);
  auto younger = std::unique_ptr<reader>(new reader(base.snapshot("younger")));
  erase(half, half);
  base.collect();
  std::vector<db::reader_info> all = base.readers();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].held, std::uint64_t{half}) << "the younger one does not see them";
  EXPECT_EQ(all[1].held, std::uint64_t{half}) << "both see them";
  const db::statistics sum = base.stats();
  EXPECT_EQ(sum.cleaning, std::uint64_t{2 * half});
  EXPECT_EQ(all[0].held_bytes + all[1].held_bytes, sum.cleaning_bytes);
  EXPECT_GT(all[0].held_bytes, half * rows.row_bytes());
  younger.reset();
  base.collect();
  all = base.readers();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].held, std::uint64_t{2 * half});
  EXPECT_EQ(all[0].held_bytes, base.stats().cleaning_bytes);
  older.reset();
  base.collect();
  EXPECT_EQ(base.stats().cleaning_bytes, 0U);
}

class burials : public testing::TestWithParam<db::version_storage> {
 protected:
  db::database base = db::database::open({.versions = GetParam()});
  db::table& rows = base.create_table(
      {.name = "rows",
       .columns = {{"k", db::int64, db::primary_key}, {"v", db::int64}},
       .primary = db::index_kind::ordered,
       .indexes = {{"by_v", {"v"}}, {"hashed", {"v"}, false, db::index_kind::hash}}});

  void commit(const std::function<status(transaction&)>& f) { ASSERT_TRUE(base.transact(f)); }
  void insert(std::int64_t v) {
    commit([&](transaction& tx) { return tx.insert(rows, {7, v}); });
  }
  void erase() {
    commit([&](transaction& tx) { return tx.erase(rows, {7}); });
    for (int looks = 0; looks < 3; ++looks) base.collect();
  }
};

/// A row that was deleted after a transaction's snapshot, and is buried, is there for it: alone,
/// and where its key has another row since.
TEST_P(burials, are_seen_by_transactions_of_before) {
  for (const bool again : {false, true}) {
    insert(1);
    std::vector<std::unique_ptr<transaction>> all;
    for (int n = 0; n < 5; ++n) {
      all.push_back(std::unique_ptr<transaction>(
          new transaction(base.begin({.isolation = db::isolation::serializable}))));
    }
    erase();
    if (again) insert(2);
    const auto found = all[0]->find(rows, {7});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->get(rows.column<std::int64_t>("v")), 1);
    EXPECT_EQ(all[1]->insert(rows, {7, 3}), outcome::duplicate_key);
    EXPECT_TRUE(all[1]->insert(rows, {8, 3})) << "it goes on";
    EXPECT_EQ(all[1]->commit(), outcome::conflict) << "it has seen that the key is there";
    EXPECT_EQ(all[2]->erase(rows, {7}), outcome::conflict);
    EXPECT_EQ(all[3]->update(rows, {7}, {{"v", 4}}), outcome::conflict);
    EXPECT_EQ(all[4]->lock(rows, {7}).why(), outcome::conflict);
    all.clear();
    if (again) erase();
    base.collect();
    EXPECT_EQ(base.stats().cleaning, 0U);
  }
}

/// Notes are found by what they are about, whichever others come and go: also where many have one
/// home.
TEST(kept_notes, are_found_until_they_are_taken) {
  db::database base = db::database::open();
  db::table& rows =
      base.create_table({.name = "rows", .columns = {{"k", db::int64, db::primary_key}}});
  db::kept_notes all;
  std::map<std::uint64_t, db::note*> there;
  std::mt19937_64 random(9);
  for (int n = 0; n < 20000; ++n) {
    const std::uint64_t slot = random() % 200 + (std::uint64_t{random() % 2} << 35U);
    db::note* const like = db::note::of_row(rows, slot);
    ASSERT_EQ(like->slot(), slot);
    const auto found = there.find(slot);
    ASSERT_EQ(all.find(like->about()), found == there.end() ? nullptr : found->second);
    const bool growing = n / 2500 % 2 == 0;
    if (found == there.end() && random() % 4 < (growing ? 3U : 1U)) {
      all.put(*like);
      there[slot] = like;
      continue;
    }
    db::note::free(like);
    if (found == there.end() || random() % 4 < (growing ? 3U : 1U)) continue;
    all.take(*found->second);
    db::note::free(found->second);
    there.erase(found);
  }
  for (const auto& [slot, n] : there) {
    EXPECT_EQ(all.find(n->about()), n);
    all.take(*n);
    db::note::free(n);
  }
}

/// Entries that end, are added again, and end again, from one look of the cleaner to the next: none
/// of them is left when the reader has ended. A few at a time, else there are more looks.
TEST_P(burials, of_entries_that_come_again_leave_nothing) {
  constexpr std::int64_t count = fewer_if_slow(1000);
  constexpr std::int64_t few = 10;
  commit([&](transaction& tx) -> status {
    for (std::int64_t n = 0; n < count; ++n) {
      if (const status s = tx.insert(rows, {n, n}); !s) return s;
    }
    return {};
  });
  base.collect();
  const std::uint64_t before = base.stats().index_bytes;
  for (std::int64_t first = 0; first < count; first += few) {
    const auto move_all = [&](std::int64_t by) {
      commit([&](transaction& tx) -> status {
        for (std::int64_t n = first; n < first + few; ++n) {
          if (const status s = tx.update(rows, {n}, {{"v", n + by}}); !s) return s;
        }
        return {};
      });
    };
    {
      const reader held = base.snapshot();
      move_all(count);
      base.collect();
      move_all(0);
      move_all(count);
      base.collect();
    }
    base.collect();
  }
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_LE(base.stats().index_bytes, before + before / 5);
}

/// What hangs at a reader is told also before it is buried.
TEST_P(burials, are_told_of_before_they_happen) {
  insert(1);
  const reader held = base.snapshot();
  commit([&](transaction& tx) { return tx.erase(rows, {7}); });
  for (int looks = 0; looks < 4; ++looks) {
    base.collect();
    const std::vector<db::reader_info> all = base.readers();
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].held, 3U) << "a row and two entries, after looks: " << looks;
    EXPECT_EQ(all[0].held_bytes, base.stats().cleaning_bytes);
  }
}

/// Each life of a key is buried by itself, and goes with its reader; so do its slot and its entry.
TEST_P(burials, of_many_lives_leave_nothing) {
  const reader oldest = base.snapshot();  // sees none of them
  std::unique_ptr<reader> before;
  for (std::int64_t n = 0; n < fewer_if_slow(std::int64_t{1000}); ++n) {
    insert(n % 3);
    auto now = std::unique_ptr<reader>(new reader(base.snapshot()));
    erase();
    for (const reader* r : {before.get(), now.get()}) {
      if (r == nullptr) continue;
      std::int64_t seen = 0;
      r->scan(rows, {}, {}, [&](const db::row&) { ++seen; });
      r->scan_down(rows.index("by_v"), {}, {}, [&](const db::row&) { ++seen; });
      for (std::int64_t v = 0; v < 3; ++v) {
        r->scan(rows.index("hashed"), {v}, {v}, [&](const db::row&) { ++seen; });
      }
      ASSERT_EQ(seen, 3);
    }
    before = std::move(now);
  }
  EXPECT_LE(rows.row_slots(), 64U);
  if (base.stats().versions.partitions == 0) {  // these are taken in chunks of 128 KiB
    EXPECT_LE(base.stats().versions.bytes, 32U << 10U);
  }
  before.reset();
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

INSTANTIATE_TEST_SUITE_P(each, burials, storages_that_collect_between(),
                         [](const auto& of) { return storage_name({{of.param}, 0}); });

/// Where there are no commits, readers that begin and end take away what they may.
TEST_F(ages, readers_go_on_where_there_are_no_commits) {
  constexpr std::int64_t count = fewer_if_slow(100000);
  insert(0, count);
  auto held = std::unique_ptr<reader>(new reader(base.snapshot()));
  erase(0, count);
  EXPECT_EQ(base.stats().cleaning, std::uint64_t{count});
  held.reset();
  int steps = 0;
  for (; base.stats().cleaning != 0 && steps < 2000; ++steps) const reader other = base.snapshot();
  EXPECT_EQ(base.stats().cleaning, 0U);
  EXPECT_GT(steps, 0) << "not all in the one that has ended";
}

/// So it is with versions that were moved out of partitions; and it is known which reader they
/// wait for.
TEST_F(ages, versions_go_where_there_are_no_commits) {
  constexpr std::int64_t count = fewer_if_slow(30000);
  insert(0, count);
  auto held = std::unique_ptr<reader>(new reader(base.snapshot("held")));
  for (std::int64_t round = 1; round < 4; ++round) {
    for (std::int64_t n = 0; n < count; ++n) {
      ASSERT_TRUE(
          base.transact([&](transaction& tx) { return tx.update(rows, {n}, {{"v", n + round}}); }));
    }
  }
  base.collect();
  const std::uint64_t bytes = base.stats().versions.bytes;
  ASSERT_EQ(base.readers().size(), 1U);
  const db::reader_info known = base.readers().front();
  EXPECT_EQ(known.held_versions, std::uint64_t{count});
  EXPECT_GE(known.held_version_bytes, count * 48U);
  EXPECT_LE(known.held_version_bytes, bytes);
  const auto v = rows.column<std::int64_t>("v");
  std::int64_t sum = 0;
  held->for_each(rows, [&](const db::row& r) { sum += r.get(v); });
  EXPECT_EQ(sum, count * (count - 1) / 2);
  held.reset();
  const auto left = [&] {
    const auto versions = base.stats().versions;
    return versions.versions_made - versions.versions_dropped;
  };
  EXPECT_GT(left(), 0U) << "not all at once";
  int steps = 0;
  for (; left() != 0 && steps < 200; ++steps) const reader other = base.snapshot();
  EXPECT_EQ(left(), 0U);
  EXPECT_LE(base.stats().versions.bytes, bytes - known.held_version_bytes);
}

/// A large deletion: the next row is found at once, and each commit after it is short.
TEST_F(ages, a_large_deletion_is_cleaned_by_the_one_that_made_it) {
  constexpr std::int64_t count = fewer_if_slow(200000);
  insert(0, count);
  erase(0, count - 10);
  EXPECT_LE(base.stats().cleaning, 64U);
  insert(0, count - 10);
  EXPECT_LE(base.stats().cleaning, 64U);
}

/// A thread that holds many readers begins and ends one more nearly as quickly as the first.
TEST_F(ages, do_not_slow_the_next_reader) {
  db::database other = db::database::open();
  const auto begin_in = [](db::database& in) {
    return cost_of([&] {
      for (int n = 0; n < 200; ++n) const reader one = in.snapshot();
    });
  };
  const auto expect_quick = [&] {
    const auto [with, without] =
        least_in_turn(20, [&] { return begin_in(base); }, [&] { return begin_in(other); });
    EXPECT_LT(with, 4 * without + 50e-6);
  };
  insert(0, 10);
  std::vector<std::unique_ptr<reader>> all;
  for (int n = 0; n < 1000; ++n)
    all.push_back(std::unique_ptr<reader>(new reader(base.snapshot())));
  expect_quick();
  for (int n = 0; n < 1000; n += 2) all[static_cast<std::size_t>(n)].reset();
  expect_quick();
}

/// While what a reader held is taken away, commits have half of the time. Another program that
/// takes the processor's caches meanwhile slows one half more than the other, so one round in eight
/// is enough.
TEST_F(ages, commits_go_on_while_much_is_cleaned) {
  constexpr std::int64_t count = sanitized ? 30000 : 60000;
  insert(count, 100);
  std::int64_t n = 0;
  const auto commit = [&] {
    ASSERT_TRUE(base.transact(
        [&](transaction& tx) { return tx.update(rows, {count + n % 100}, {{"v", n}}); }));
    ++n;
  };
  const auto commits_in = [&](auto&& until) {
    const double begin = thread_seconds();
    const std::int64_t first = n;
    while (!until(thread_seconds() - begin)) commit();
    return static_cast<double>(n - first) / (thread_seconds() - begin);
  };
  const auto a_while = [](double seconds) { return seconds > 0.05; };
  // Under a sanitizer, to free a block costs as much as a commit: only that they go on.
  const double share = test::sanitized ? 1.0 / 20 : 1.0 / 3;
  double best = 0;  // of the throughput without, and of the time
  double least = 1e9;
  for (int round = 0; round < 8 && (best <= share || least >= 4.0 * count / 250000 + 0.2);
       ++round) {
    insert(0, count);
    const double without = commits_in(a_while);
    auto held = std::unique_ptr<reader>(new reader(base.snapshot()));
    erase(0, count);
    for (int looks = 0; looks < 3; ++looks) base.collect();
    ASSERT_GE(base.stats().cleaning, std::uint64_t{count});
    held.reset();
    double seconds = 0;
    const double meanwhile = commits_in([&](double now) {
      seconds = now;
      return n % 64 == 0 && base.stats().cleaning < 1000;  // which takes longer than a commit
    });
    best = std::max(best, meanwhile / std::min(without, commits_in(a_while)));
    least = std::min(least, seconds);
  }
  EXPECT_GT(best, share) << "half, and this machine may be busy";
  EXPECT_LT(least, 4.0 * count / 250000 + 0.2);
}

}  // namespace
