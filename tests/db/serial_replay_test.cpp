// SPDX-License-Identifier: Apache-2.0
// Several transactions at once on one thread, in any order. Each serializable one that commits is
// repeated, step by step, on what is committed at that moment: every answer that it got has to come
// again. And no step and no commit ends in a conflict without a reason: something that it has read
// or would change is locked, or was changed since its snapshot.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "db/serial_model.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;
using namespace spolia::test::serial;
using kind = step::kind;

std::string text(const record& r) {
  std::ostringstream s;
  s << "(" << r.id << " u" << r.u << " a" << r.a << " v" << r.v << ")";
  return s.str();
}
std::string text(const step& s, const reply& r) {
  static constexpr const char* names[] = {"find", "insert", "edit",  "update", "erase",
                                          "lock", "scan",   "query", "mark",   "go back"};
  static constexpr const char* ways[] = {"id", "u", "a", "all"};
  std::ostringstream o;
  o << names[static_cast<int>(s.what)] << " " << text(s.row);
  if (s.what == kind::scan) {
    o << " by " << ways[static_cast<int>(s.over)] << " " << s.lo << ".." << s.hi
      << (s.down ? " down" : "") << " at most " << s.most;
  }
  o << " -> " << db::message(r.how);
  for (const record& x : r.rows) o << " " << text(x);
  return o.str();
}

/// An open transaction, and what it has done.
struct running {
  running(db::database& base, bool s, std::size_t at, const state& sees)
      : tx(base.begin({.isolation = s ? db::isolation::serializable : db::isolation::snapshot})),
        serial(s),
        began(at),
        mine(sees) {}

  db::transaction tx;
  bool serial;
  std::size_t began;  // so many commits were before it
  alone mine;
  std::vector<std::pair<step, reply>> done;
  std::vector<db::savepoint> marks;
  std::vector<std::set<number>> changed_at_marks;
  std::set<number> locked;
  std::set<number> changed;
  std::set<number> wants;  // values of u
  std::set<number> seen;   // rows that it has read, and not locked
  std::vector<extent> read;
};

class world {
 public:
  /// Everything is collected before one of so many steps; 0: before none.
  world(const storage_kind& of, const kinds& k, std::uint64_t collects, bool gaps,
        std::uint64_t seed)
      : random_(seed), collects_(collects), gaps_(gaps), in_(of, k) {}

  /// What is wrong; empty: nothing yet.
  const std::string& wrong() const { return wrong_; }
  std::uint64_t commits() const { return history_.size() - 1; }
  std::uint64_t refused() const { return refused_; }

  void act() {
    if (collects_ != 0 && random_.chance(1, collects_)) in_.base.collect();
    if (all_.size() < 2 || (all_.size() < 5 && random_.chance(1, 6))) return begin();
    running& r = *std::next(all_.begin(), static_cast<long>(random_.below(all_.size())));
    if (r.done.size() > (gaps_ ? 1 : 2) && random_.chance(1, gaps_ ? 2 : 3)) {
      if (random_.chance(1, gaps_ ? 2 : 4)) return drop(r);  // a rollback
      return commit(r);
    }
    run(r, any_step(r));
  }

 private:
  static constexpr std::uint64_t ids = 5;

  number any(std::uint64_t n) { return static_cast<number>(random_.below(n)); }

  step any_step(const running& r) {
    step s{.row = {any(ids), any(ids), any(3), any(1000)}};
    if (gaps_) {
      // Keys that come and go, and are looked for. Their values seldom clash with each other.
      static constexpr kind few[] = {kind::find,   kind::find,   kind::edit,
                                     kind::insert, kind::insert, kind::erase};
      s.what = few[random_.below(std::size(few))];
      s.row.u = any(1'000'000'000);
      return s;
    }
    static constexpr kind often[] = {
        kind::find,   kind::find,   kind::insert, kind::insert, kind::insert, kind::edit,
        kind::update, kind::update, kind::erase,  kind::erase,  kind::lock,   kind::scan,
        kind::scan,   kind::scan,   kind::query,  kind::mark,   kind::go_back};
    s.what = often[random_.below(std::size(often))];
    if (s.what == kind::query && !random_.chance(1, 4)) s.what = kind::find;
    if (s.what == kind::go_back && r.marks.empty()) s.what = kind::mark;
    if (s.what != kind::scan) return s;
    s.over = static_cast<way>(random_.below(random_.chance(1, 6) ? 4 : 3));
    if (s.over == way::by_id && !in_.ordered(way::by_id)) s.over = way::by_u;
    s.lo = any(ids);
    s.hi = in_.ordered(s.over) ? s.lo + any(3) : s.lo;
    s.down = random_.chance(1, 2);
    s.most = random_.below(3);
    return s;
  }

  void begin() {
    all_.emplace_back(in_.base, random_.chance(3, 4), history_.size(), history_.back());
  }
  void drop(running& r) {
    all_.remove_if([&](const running& other) { return &other == &r; });
  }
  void fail(const running& r, const std::string& what) {
    wrong_ = what + (r.serial ? "; serializable" : "; snapshot") + ", after commit " +
             std::to_string(r.began - 1) + " of " + std::to_string(commits());
    for (const auto& [s, got] : r.done) wrong_ += "\n  " + text(s, got);
    wrong_ += "\n its snapshot:";
    for (const auto& [id, row] : history_[r.began - 1]) wrong_ += " " + text(row);
    wrong_ += "\n committed:";
    for (const auto& [id, row] : history_.back()) wrong_ += " " + text(row);
  }

  void run(running& r, const step& s) {
    const reply got = in_.run(r.tx, s, r.marks);
    r.done.emplace_back(s, got);
    if (got.how == db::outcome::conflict) {
      if (!may_meet(r, s)) return fail(r, "a step met a conflict without a reason");
      ++refused_;
      return drop(r);
    }
    const alone before = r.mine;
    if (!same_reply(s, got, r.mine.run(s))) return fail(r, "a step shows what its snapshot is not");
    note(r, s, got, before);
    if (changes(s) && got.how == db::outcome::ok && another_keeps(r, s.row.id)) {
      fail(r, "two have one row");
    }
  }

  static bool changes(const step& s) {
    return s.what == kind::insert || s.what == kind::edit || s.what == kind::update ||
           s.what == kind::erase || s.what == kind::lock;
  }
  /// What the step has read, locked and changed.
  void note(running& r, const step& s, const reply& got, const alone& before) {
    const number id = s.row.id;
    const bool there = before.now.contains(id);
    const bool has_value = s.what == kind::insert ? !there : s.what == kind::update && there;
    if (has_value) {
      r.wants.insert(s.row.u);
      for (const auto& [other, row] : before.now) {
        if (other != id && row.u == s.row.u) r.seen.insert(other);
      }
    }
    if (s.what == kind::scan) {
      extent e{s.over, s.lo, s.hi};
      if (s.most != 0 && got.rows.size() == s.most && s.over != way::all) {
        (s.down ? e.lo : e.hi) = key_of(s.over, got.rows.back());
      }
      r.read.push_back(e);
    } else if (s.what == kind::query) {
      r.read.push_back({way::all});
    } else if (s.what == kind::mark) {
      r.changed_at_marks.push_back(r.changed);
    } else if (s.what == kind::go_back) {
      r.changed = r.changed_at_marks.back();
    } else if (s.what == kind::find || (changes(s) && s.what != kind::insert && !there)) {
      there ? void(r.seen.insert(id)) : r.read.push_back({way::by_id, id, id});
    } else if (s.what == kind::insert && there) {
      r.seen.insert(id);
    } else {
      r.locked.insert(id);
      if (got.how == db::outcome::ok && s.what != kind::lock) r.changed.insert(id);
    }
  }

  bool another_has(const running& r, number id) const {
    return std::any_of(all_.begin(), all_.end(), [&](const running& other) {
      return &other != &r && other.locked.contains(id);
    });
  }
  /// It has the row locked, and not only as one that it has inserted and taken back: that it may
  /// have let go, unless it is serializable.
  bool another_keeps(const running& r, number id) const {
    return std::any_of(all_.begin(), all_.end(), [&](const running& other) {
      return &other != &r && other.locked.contains(id) &&
             (other.serial || other.mine.now.contains(id) ||
              history_[other.began - 1].contains(id));
    });
  }
  bool changed_since(const running& r, number id) const {
    const auto at = touched_.find(id);
    return at != touched_.end() && at->second >= r.began;
  }
  bool may_meet(const running& r, const step& s) const {
    if (!changes(s)) return false;
    if (another_has(r, s.row.id) || changed_since(r, s.row.id)) return true;
    if (s.what != kind::insert && s.what != kind::update) return false;
    const bool wanted = std::any_of(all_.begin(), all_.end(), [&](const running& other) {
      return &other != &r && other.wants.contains(s.row.u);
    });
    return wanted ||
           std::any_of(history_.back().begin(), history_.back().end(), [&](const auto& e) {
             return e.second.u == s.row.u && changed_since(r, e.first);
           });
  }
  /// Something that it has read was changed since.
  bool may_end_in_conflict(const running& r) const {
    const auto changed = [&](number id) { return changed_since(r, id); };
    if (std::any_of(r.seen.begin(), r.seen.end(), changed)) return true;
    return std::any_of(r.read.begin(), r.read.end(), [&](const extent& e) {
      const auto part = [&](const auto& entry) {
        return changed(entry.first) && e.has(entry.second);
      };
      const state& then = history_[r.began - 1];
      const state& now = history_.back();
      return std::any_of(then.begin(), then.end(), part) ||
             std::any_of(now.begin(), now.end(), part);
    });
  }

  void commit(running& r) {
    const db::status s = r.tx.commit();
    if (s == db::outcome::conflict) {
      if (!r.serial || !may_end_in_conflict(r)) {
        return fail(r, "a commit met a conflict without a reason");
      }
      ++refused_;
      return drop(r);
    }
    if (!s) return fail(r, "a commit ended in " + std::string(s.message()));
    state next = history_.back();
    for (const number id : r.changed) {
      const auto row = r.mine.now.find(id);
      const bool was_there = history_[r.began - 1].contains(id);
      // Another one may have inserted what this one has inserted and taken back.
      if (row == r.mine.now.end() && !(was_there && next.contains(id))) continue;
      touched_[id] = history_.size();
      next.erase(id);
      if (row != r.mine.now.end()) next.insert(*row);
    }
    std::set<number> values;
    for (const auto& [id, row] : next) {
      if (!values.insert(row.u).second) return fail(r, "two rows have one value of a unique index");
    }
    // One that has changed nothing is a snapshot.
    if (r.serial && !r.changed.empty() && r.mine.now != history_[r.began - 1]) repeat(r, next);
    history_.push_back(std::move(next));
    if (wrong_.empty()) drop(r);
  }
  void repeat(const running& r, const state& next) {
    alone again(history_.back());
    for (const auto& [s, got] : r.done) {
      if (!same_reply(s, got, again.run(s))) {
        return fail(
            r, "committed, but in the order of commits the answer is another one: " + text(s, got));
      }
    }
    if (again.now != next) fail(r, "the order of commits leads elsewhere");
  }

  rng random_;
  const std::uint64_t collects_;
  const bool gaps_;
  store in_;
  std::vector<state> history_{{}};         // after each commit
  std::map<number, std::size_t> touched_;  // the last commit that changed the row
  std::list<running> all_;
  std::uint64_t refused_ = 0;
  std::string wrong_;
};

class serial_replay : public testing::TestWithParam<storage_kind> {};
SPOLIA_OVER_STORAGES_AND_TABLES(serial_replay);

TEST_P(serial_replay, commits_are_serial_and_conflicts_have_reasons) {
  using db::index_kind;
  std::uint64_t commits = 0;
  std::uint64_t refused = 0;
  struct state {
    std::uint64_t collects;
    bool gaps;
  };
  static constexpr state states[] = {{0, false}, {6, false}, {2, true}, {1, false}};
  for (unsigned n = 0; n < 8 * std::size(states); ++n) {
    const auto kind_of = [&](unsigned bit) {
      return (n >> bit & 1U) != 0 ? index_kind::ordered : index_kind::hash;
    };
    const state& s = states[n / 8];
    world w(GetParam(), {kind_of(0), kind_of(1), kind_of(2)}, s.collects, s.gaps, seed_for(n));
    for (int i = 0; i < tries(1600) && w.wrong().empty(); ++i) w.act();
    ASSERT_EQ(w.wrong(), "") << "kinds " << n;
    commits += w.commits();
    refused += w.refused();
  }
  EXPECT_GT(commits, static_cast<unsigned>(tries(600)));
  EXPECT_GT(refused, static_cast<unsigned>(tries(600)));
}

}  // namespace
