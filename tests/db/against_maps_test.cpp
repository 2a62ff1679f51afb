// SPDX-License-Identifier: Apache-2.0
// Several transactions at once on one thread, in any order: what each of them sees, in tables and
// in indexes of all kinds, is what plain maps say, and so is how each of their steps may end.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "db/against_maps.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using spolia::test::content;
using spolia::test::key;
using spolia::test::table_content;

struct mark {
  savepoint at;
  table_content view;
  std::set<key> changed;
};

struct running {
  running(database& base, const transaction_options& o, std::size_t at, const table_content& sees)
      : tx(base.begin(o)),
        may_fail(o.isolation == isolation::serializable),
        began(at),
        view(sees) {}
  transaction tx;
  bool may_fail;  // at its end
  std::size_t began;
  table_content view;
  std::set<key> locked;
  std::set<key> changed;
  std::vector<mark> marks;
  std::set<key> stale;   // of those that were locked before the indexes were changed
  std::set<key> surely;  // of these: whose lock it has not given up since
};

struct holder {
  holder(const database& base, std::size_t sees) : at(base.snapshot()), moment(sees) {}
  reader at;
  std::size_t moment;
};

class against_maps : public testing::TestWithParam<spolia::test::storage_kind>,
                     protected spolia::test::items_like_maps {
 protected:
  against_maps()
      : items_like_maps(database::open({.versions = GetParam(),
                                        .changes_only = GetParam().changes_only,
                                        .partition_transactions = 4,
                                        .hash_indexes = GetParam().hashes}),
                        spolia::test::seed_for(0)) {}

  void begin() {
    const auto level = random.chance(1, 4) ? isolation::serializable : isolation::snapshot;
    all.emplace_back(base, transaction_options{.isolation = level}, history.size(), history.back());
  }
  running& any() { return *std::next(all.begin(), static_cast<long>(random.below(all.size()))); }
  void drop(running& r) {
    all.remove_if([&](const running& other) { return &other == &r; });
  }

  template <class F>
  bool another(const running& r, const F& does) const {
    return std::any_of(all.begin(), all.end(),
                       [&](const running& other) { return &other != &r && does(other); });
  }
  static bool since(const auto& at, const auto& what, const running& r) {
    const auto found = at.find(what);
    return found != at.end() && found->second >= r.began;
  }
  /// Another transaction has it locked, or one has changed it since, if only to what it was.
  bool may_meet(const running& r, const key& k) const {
    return another(r, [&](const running& other) { return other.locked.contains(k); }) ||
           since(changed_rows, k, r) || since(touched_rows, k, r);
  }
  /// A row that has come and gone since the snapshot may have left nothing to meet. Nor may one
  /// that another transaction has inserted and taken back, unless that one is serializable.
  bool must_meet(const running& r, const key& k) const {
    const bool nothing_left = !r.view.contains(k) && !history.back().contains(k);
    return (!nothing_left && since(changed_rows, k, r)) || another(r, [&](const running& other) {
             return other.locked.contains(k) && (other.may_fail || other.view.contains(k) ||
                                                 history[other.began - 1].contains(k));
           });
  }
  /// Once a row had the value, and another transaction has a lock, or one has changed something
  /// since. (The slot of a row that is gone goes to another row, which may be locked, before the
  /// entries of the former are gone.)
  bool may_meet(const running& r, std::int64_t v) const {
    return had.contains(v) &&
           (r.began < history.size() ||
            another(r, [](const running& other) { return !other.locked.empty(); }));
  }
  /// Another row than k has the value, now or as soon as another transaction commits.
  bool taken(const running& r, std::int64_t v, const key& k) const {
    for (const auto& [other, row] : history.back()) {
      if (other != k && row.one == v && !r.locked.contains(other)) return true;
    }
    return another(r, [&](const running& other) {
      return std::any_of(other.changed.begin(), other.changed.end(), [&](const key& c) {
        return other.view.contains(c) && other.view.at(c).one == v;
      });
    });
  }
  static bool has_in_view(const running& r, std::int64_t value, const key& k) {
    return std::any_of(r.view.begin(), r.view.end(), [&](const auto& entry) {
      return entry.first != k && entry.second.one == value;
    });
  }

  /// How a step that makes the row this, or nothing, may end; then it is so here too.
  void did(running& r, const key& k, const std::optional<content>& now, bool new_one, status s) {
    if (now) had.insert(now->one);
    if (s == outcome::conflict) {
      ASSERT_TRUE(may_meet(r, k) || (new_one && may_meet(r, now->one)))
          << "there was nothing in the way";
      return drop(r);
    }
    if (s == outcome::duplicate_key) {
      ASSERT_TRUE(new_one && (has_in_view(r, now->one, k) || may_meet(r, now->one)));
      r.locked.insert(k);
      return;
    }
    ASSERT_TRUE(s) << s.message();
    ASSERT_FALSE(must_meet(r, k)) << "two have one row";
    ASSERT_FALSE(new_one && (taken(r, now->one, k) || has_in_view(r, now->one, k)));
    r.locked.insert(k);
    r.changed.insert(k);
    if (now) {
      r.view[k] = *now;
    } else {
      r.view.erase(k);
    }
  }

  void insert(running& r, const key& k, const content& c) {
    const auto& [a, b] = k;
    const status s = r.tx.insert(
        items, {a, b, c.one, c.number, c.word, c.maybe ? value(*c.maybe) : value(), c.free});
    if (!r.view.contains(k)) return did(r, k, c, true, s);
    if (s == outcome::conflict) {
      ASSERT_TRUE(may_meet(r, k));
      return drop(r);
    }
    ASSERT_EQ(s, outcome::duplicate_key);
  }
  void update(running& r, const key& k, const content& c) {
    const auto& [a, b] = k;
    content now = r.view.contains(k) ? r.view[k] : content{};
    const bool change_one = random.chance(1, 2);
    if (change_one) now.one = c.one;
    now.number = c.number;
    now.maybe = c.maybe;
    now.free = c.free;
    const value m = c.maybe ? value(*c.maybe) : value();
    const status s =
        change_one
            ? r.tx.update(items, {a, b},
                          {{"number", c.number}, {"maybe", m}, {"one", c.one}, {"free", c.free}})
            : r.tx.update(items, {a, b}, {{"number", c.number}, {"maybe", m}, {"free", c.free}});
    if (r.view.contains(k)) return did(r, k, now, change_one, s);
    missed(r, k, s);
  }
  void erase(running& r, const key& k) {
    const auto& [a, b] = k;
    const status s = r.tx.erase(items, {a, b});
    if (r.view.contains(k)) return did(r, k, std::nullopt, false, s);
    missed(r, k, s);
  }
  void missed(running& r, const key& k, status s) {
    if (s == outcome::not_found) return;
    ASSERT_EQ(s, outcome::conflict);
    ASSERT_TRUE(may_meet(r, k));
    drop(r);
  }
  void lock(running& r, const key& k) {
    const auto& [a, b] = k;
    const auto got = r.tx.lock(items, {a, b});
    if (got) {
      ASSERT_TRUE(r.view.contains(k));
      ASSERT_FALSE(must_meet(r, k));
      ASSERT_EQ(of(*got), std::pair(k, r.view[k]));
      r.locked.insert(k);
      return;
    }
    if (got.why() == outcome::not_found) {
      ASSERT_FALSE(r.view.contains(k));
      return;
    }
    ASSERT_EQ(got.why(), outcome::conflict);
    ASSERT_TRUE(may_meet(r, k));
    drop(r);
  }

  void commit(running& r) {
    const status s = r.tx.commit();
    // Of a row that it has inserted and taken back it may have kept nothing.
    const auto is_change = [&](const key& k) {
      return r.view.contains(k) || history[r.began - 1].contains(k);
    };
    const auto any_changed = [&](const auto& holds) {
      return std::any_of(r.changed.begin(), r.changed.end(), holds);
    };
    const bool may_be_stale = any_changed([&](const key& k) { return r.stale.contains(k); });
    if (!s || any_changed([&](const key& k) { return r.surely.contains(k) && is_change(k); })) {
      const bool late = r.may_fail && r.began < history.size();
      ASSERT_TRUE((may_be_stale && s == outcome::schema_changed) ||
                  (late && s == outcome::conflict));
      return drop(r);
    }
    table_content next = history.back();
    for (const key& k : r.changed) {
      touched_rows[k] = history.size();
      const auto before = next.find(k);
      const auto now = r.view.find(k);
      if (!is_change(k)) continue;
      if (now == r.view.end() ? before == next.end()
                              : before != next.end() && before->second == now->second) {
        continue;
      }
      changed_rows[k] = history.size();
      if (before != next.end()) next.erase(before);
      if (now != r.view.end()) next.insert(*now);
    }
    history.push_back(std::move(next));
    drop(r);
  }
  void mark_or_go_back(running& r) {
    if (r.marks.empty() || random.chance(1, 2)) {
      r.marks.push_back({r.tx.savepoint(), r.view, r.changed});
      return;
    }
    r.marks.resize(1 + random.below(r.marks.size()));
    ASSERT_TRUE(r.tx.rollback_to(r.marks.back().at));
    r.view = r.marks.back().view;
    r.changed = r.marks.back().changed;
    // A row that it has inserted may be as if it had never been locked.
    std::erase_if(r.surely, [&](const key& k) { return !history[r.began - 1].contains(k); });
  }
  /// Creates an index that no step reads, or drops it.
  void change_catalogue() {
    more = !more;
    if (!more) {
      ASSERT_TRUE(base.drop_index(items, "more"));
    } else {
      ASSERT_TRUE(base.create_index(items, {.name = "more", .columns = {"word", "one"}}));
    }
    for (running& r : all) {
      r.surely = r.stale = r.locked;
      std::erase_if(r.surely, [&](const key& k) {
        return !history[r.began - 1].contains(k) && !r.view.contains(k);
      });
    }
  }

  void step() {
    if (all.empty() || (all.size() < 4 && random.chance(1, 8))) return begin();
    running& r = any();
    switch (random.below(12)) {
      case 0:
      case 1:
      case 2:
        return insert(r, any_key(), any_content());
      case 3:
      case 4:
      case 5:
        return update(r, any_key(), any_content());
      case 6:
      case 7:
        return erase(r, any_key());
      case 8:
        return lock(r, any_key());
      case 9:
        return mark_or_go_back(r);
      case 10:
        if (random.chance(1, 4)) return drop(r);
        return look(r.tx, r.view);
      default:
        return commit(r);
    }
  }
  void hold_or_let_go() {
    if (held.size() < 3 && random.chance(1, 2)) {
      held.emplace_back(base, history.size() - 1);
    }
    if (held.empty()) return;
    const auto at = std::next(held.begin(), static_cast<long>(random.below(held.size())));
    look(at->at, history[at->moment]);
    if (random.chance(1, 3)) held.erase(at);
  }

  std::vector<table_content> history{{}};   // after each commit
  std::map<key, std::size_t> changed_rows;  // the last commit that has changed them
  std::map<key, std::size_t> touched_rows;  // or maybe left them as they were
  std::set<std::int64_t> had;               // the unique index, at some time
  std::list<running> all;
  bool more = false;  // there is another index
  std::list<holder> held;
};
SPOLIA_OVER_STORAGES_AND_TABLES(against_maps);

TEST_P(against_maps, whatever_is_done_in_whatever_order) {
  for (int i = 0; i < spolia::test::tries(6000); ++i) {
    step();
    if (random.chance(1, 16)) hold_or_let_go();
    if (random.chance(1, 400)) change_catalogue();
    if (HasFatalFailure()) FAIL() << "step " << i;
  }
  all.clear();
  held.clear();
  look(base.snapshot(), history.back());
  base.collect();
  EXPECT_EQ(base.stats().cleaning, 0U);
}

}  // namespace
