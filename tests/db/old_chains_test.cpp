// SPDX-License-Identifier: Apache-2.0
// Old rows in every way of reading: chains of every shape, by snapshots of every age, in every
// storage, compared with a map. Rows are taken back and revived, deleted and inserted again with
// other texts, changed often or not at all, many in one transaction; what lies between two
// snapshots goes meanwhile.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "db/storages.hpp"
#include "support/sanitized.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;

class old_chains : public testing::TestWithParam<test::storage_kind> {
 protected:
  static constexpr std::int64_t keys = 400;  // more than are read together
  static constexpr std::int64_t groups = 5;
  static constexpr std::int64_t values = 40;

  struct line {
    std::int64_t a = 0;
    std::int64_t b = 0;
    std::string word;
    std::optional<std::string> memo;
    auto operator<=>(const line&) const = default;
  };
  using lines = std::map<std::int64_t, line>;
  using shown = std::vector<std::pair<std::int64_t, line>>;
  struct old_reader {
    std::unique_ptr<reader> at;
    std::shared_ptr<const lines> was;
  };

  static table_spec spec() {
    return {.name = "lines",
            .columns = {{"k", int64, primary_key},
                        {"a", int64},
                        {"b", int64},
                        {"word", text(24)},
                        {"memo", text(), nullable}},
            .primary = index_kind::ordered,
            .indexes = {{"by_a", {"a"}},
                        {"by_both", {"a", "k"}, true},
                        {.name = "by_b", .columns = {"b"}, .kind = index_kind::hash}}};
  }
  options how() {
    options o;
    o.versions = GetParam();
    o.changes_only = GetParam().changes_only;
    o.partition_transactions = 1U << random_.below(4);
    o.most_partitions = 24;  // soon half of them are in use: so gaps come soon
    o.hash_indexes = GetParam().hashes;
    o.recovery_threads = 1;
    o.checkpoint_log_bytes = 0;
    return o;
  }
  /// The rows of `lines`, as a reader shows them.
  struct columns_of {
    explicit columns_of(const table& t)
        : of(t),
          k(t.column<std::int64_t>("k")),
          a(t.column<std::int64_t>("a")),
          b(t.column<std::int64_t>("b")),
          word(t.column<std::string_view>("word")),
          memo(t.column<std::string_view>("memo")) {}
    [[nodiscard]] std::pair<std::int64_t, line> read(const row& r) const {
      line l{r.get(a), r.get(b), std::string(r.get(word)), {}};
      if (!r.null(memo)) l.memo = std::string(r.get(memo));
      return {r.get(k), l};
    }
    const table& of;
    column<std::int64_t> k;
    column<std::int64_t> a;
    column<std::int64_t> b;
    column<std::string_view> word;
    column<std::string_view> memo;
  };

  old_chains() : random_(test::seed_for(0)), base_(database::open()) {}

  // What is changed.

  line any_line() {
    line l{static_cast<std::int64_t>(random_.below(values)),
           static_cast<std::int64_t>(random_.below(groups)),
           std::string(random_.below(25), static_cast<char>('a' + random_.below(26))),
           {}};
    if (random_.chance(2, 3)) {
      l.memo = std::string(random_.below(4) * 30, static_cast<char>('A' + random_.below(26)));
    }
    return l;
  }
  static value memo_value(const line& l) { return l.memo ? value(*l.memo) : value(nullptr); }
  /// Inserts, changes or deletes the row.
  void change(transaction& tx, table& t, lines& view, std::int64_t k, bool erase) {
    const auto there = view.find(k);
    line l = any_line();
    if (there == view.end()) {
      ASSERT_TRUE(tx.insert(t, {k, l.a, l.b, l.word, memo_value(l)}));
      view[k] = std::move(l);
    } else if (erase) {
      ASSERT_TRUE(tx.erase(t, {k}));
      view.erase(there);
    } else {
      switch (random_.below(4)) {
        case 0:
          ASSERT_TRUE(tx.update(t, {k}, {{"a", l.a}}));
          there->second.a = l.a;
          break;
        case 1:
          ASSERT_TRUE(tx.update(t, {k}, {{"word", l.word}, {"b", l.b}}));
          there->second.word = l.word;
          there->second.b = l.b;
          break;
        case 2:
          ASSERT_TRUE(tx.update(t, {k}, {{"memo", memo_value(l)}}));
          there->second.memo = l.memo;
          break;
        default:
          ASSERT_EQ(tx.insert(t, {k, l.a, l.b, l.word, nullptr}), outcome::duplicate_key);
      }
    }
  }
  /// A run of rows, or some of the few that are changed again and again, or any.
  void some_changes(transaction& tx, table& t, lines& view) {
    const bool erase = random_.chance(1, 3);
    if (random_.chance(1, 8)) {
      const auto from = static_cast<std::int64_t>(random_.below(keys));
      const auto end = std::min<std::int64_t>(keys, from + 20 + (random_.chance(1, 2) ? 150 : 0));
      const std::int64_t step = random_.chance(1, 2) ? 1 : 3;
      for (std::int64_t k = from; k < end; k += step) {
        if (mine(k)) {
          ASSERT_NO_FATAL_FAILURE(change(tx, t, view, k, erase));
        }
      }
      return;
    }
    for (std::uint64_t n = 1 + random_.below(5); n != 0; --n) {
      const auto k = static_cast<std::int64_t>(random_.below(random_.chance(1, 2) ? 6 : keys));
      if (mine(k)) {
        ASSERT_NO_FATAL_FAILURE(change(tx, t, view, k, erase && random_.chance(1, 2)));
      }
    }
  }
  void transact(table& t) {
    lines view = *now_;
    transaction tx = base_.begin(
        {.isolation = random_.chance(1, 4) ? isolation::serializable : isolation::snapshot});
    for (std::uint64_t n = 1 + random_.below(3); n != 0; --n) {
      const lines before = view;
      const savepoint to = tx.savepoint();
      ASSERT_NO_FATAL_FAILURE(some_changes(tx, t, view));
      if (!random_.chance(1, 6)) continue;
      ASSERT_TRUE(tx.rollback_to(to));
      view = before;
    }
    if (random_.chance(1, 8)) return tx.rollback();
    ASSERT_TRUE(tx.commit());
    now_ = std::make_shared<const lines>(std::move(view));
  }
  /// Whether others than the old transaction may change the row.
  [[nodiscard]] bool mine(std::int64_t k) const { return !old_ || k % 7 != 3; }

  // An old transaction with changes of its own.

  void begin_old() {
    old_.emplace(base_.begin());
    old_view_ = *now_;
  }
  void change_old(table& t) {
    for (std::uint64_t n = 1 + random_.below(4); n != 0; --n) {
      const auto k = static_cast<std::int64_t>(random_.below(keys / 7)) * 7 + 3;
      ASSERT_NO_FATAL_FAILURE(change(*old_, t, old_view_, k, random_.chance(1, 3)));
    }
  }
  void end_old() {
    if (random_.chance(1, 2)) {
      ASSERT_TRUE(old_->commit());
      lines next = *now_;
      for (std::int64_t k = 3; k < keys; k += 7) {
        next.erase(k);
        if (const auto own = old_view_.find(k); own != old_view_.end()) next.insert(*own);
      }
      now_ = std::make_shared<const lines>(std::move(next));
    }
    old_.reset();
  }

  // What is shown.

  template <class F>
  static shown some_of(const lines& in, F&& wanted) {
    shown some;
    for (const auto& l : in) {
      if (wanted(l)) some.push_back(l);
    }
    return some;
  }
  static shown sorted(shown all) {
    std::sort(all.begin(), all.end());
    return all;
  }
  void expect_all(const reader& at, const columns_of& c, const lines& in) {
    shown found;
    const auto note = [&](const row& r) { found.push_back(c.read(r)); };
    const auto take = [&] { return std::exchange(found, {}); };
    const shown all(in.begin(), in.end());
    at.for_each(c.of, note);
    ASSERT_EQ(sorted(take()), all) << "rows in no order";
    at.scan(c.of, {}, {}, note);
    ASSERT_EQ(take(), all) << "by the key";
    at.scan_down(c.of, {}, {}, note);
    ASSERT_EQ(take(), shown(all.rbegin(), all.rend())) << "by the key, down";
    shown by_a = all;
    std::sort(by_a.begin(), by_a.end(), [](const auto& x, const auto& y) {
      return std::tie(x.second.a, x.first) < std::tie(y.second.a, y.first);
    });
    at.scan(c.of.index("by_both"), {}, {}, note);
    ASSERT_EQ(take(), by_a) << "by a unique index";
    at.scan_down(c.of.index("by_both"), {}, {}, note);
    ASSERT_EQ(take(), shown(by_a.rbegin(), by_a.rend())) << "by a unique index, down";
  }
  void expect_some(const reader& at, const columns_of& c, const lines& in) {
    shown found;
    const auto note = [&](const row& r) { found.push_back(c.read(r)); };
    const auto take = [&] { return sorted(std::exchange(found, {})); };
    const auto low = static_cast<std::int64_t>(random_.below(values));
    const std::int64_t high = low + 4;
    const shown with_a =
        some_of(in, [&](const auto& l) { return l.second.a >= low && l.second.a <= high; });
    at.scan(c.of.index("by_a"), {low}, {high}, note);
    ASSERT_EQ(take(), with_a) << "by an index";
    at.scan_down(c.of.index("by_a"), {low}, {high}, note);
    ASSERT_EQ(take(), with_a) << "by an index, down";
    const auto b = static_cast<std::int64_t>(random_.below(groups));
    at.scan(c.of.index("by_b"), {b}, {b}, note);
    ASSERT_EQ(take(), some_of(in, [&](const auto& l) { return l.second.b == b; })) << "by a hash";
    std::map<std::int64_t, std::string> words;
    std::map<std::int64_t, std::string> wanted;
    at.for_each(
        c.of, [&](const row& r) { words.emplace(r.get(c.k), r.get(c.word)); },
        c.of.select({"k", "word"}));
    for (const auto& [k, l] : in) wanted.emplace(k, l.word);
    ASSERT_EQ(words, wanted) << "a selection";
    for (std::int64_t k = static_cast<std::int64_t>(random_.below(9)); k < keys; k += 9) {
      const auto there = in.find(k);
      const auto r = at.find(c.of, {k});
      ASSERT_EQ(static_cast<bool>(r), there != in.end()) << "key " << k;
      if (!r) continue;
      ASSERT_EQ(c.read(*r).second, there->second) << "key " << k;
      ASSERT_EQ(at.find(c.of, {k}, c.of.select({"b"}))->get(c.b), there->second.b) << "key " << k;
    }
  }
  /// Of each group: rows, the sum of a, the first and the last word, memos that are there.
  void expect_sums(const reader& at, const columns_of& c, const lines& in, std::uint32_t threads) {
    using sums = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::string, std::string,
                            std::int64_t>;
    const auto low = static_cast<std::int64_t>(random_.below(values / 2));
    std::map<std::int64_t, sums> wanted;
    for (const auto& [k, l] : in) {
      if (l.a < low) continue;
      const auto [to, fresh] = wanted.emplace(l.b, sums{l.b, 0, 0, l.word, l.word, 0});
      auto& [b, rows, sum, first, last, memos] = to->second;
      ++rows;
      sum += l.a;
      first = std::min(first, l.word);
      last = std::max(last, l.word);
      memos += l.memo ? 1 : 0;
    }
    const auto all = at.query(c.of)
                         .where("a", greater_equal, low)
                         .group_by("b")
                         .aggregate(db::count(), db::sum("a"), (db::min)("word"), (db::max)("word"),
                                    db::count("memo"))
                         .run({.threads = threads, .morsel = 64});
    ASSERT_TRUE(all);
    ASSERT_EQ(all->size(), wanted.size());
    std::size_t i = 0;
    for (const auto& [b, s] : wanted) {
      const auto number = [&](std::size_t column) { return all->get<std::int64_t>(i, column); };
      const auto word = [&](std::size_t column) {
        return std::string(all->get<std::string_view>(i, column));
      };
      ASSERT_EQ(sums(number(0), number(1), number(2), word(3), word(4), number(5)), s)
          << threads << " threads";
      ++i;
    }
  }
  void expect_shows(const reader& at, const table& t, const lines& in) {
    const columns_of c(t);
    ASSERT_NO_FATAL_FAILURE(expect_all(at, c, in));
    ASSERT_NO_FATAL_FAILURE(expect_some(at, c, in));
    ASSERT_NO_FATAL_FAILURE(expect_sums(at, c, in, 1));
    ASSERT_NO_FATAL_FAILURE(expect_sums(at, c, in, 3));
  }
  void expect_opens(const std::filesystem::path& place, const options& o, const lines& in) {
    const database base = database::open(place, o);
    const reader at = base.snapshot();
    ASSERT_NO_FATAL_FAILURE(expect_shows(at, base.find_table("lines"), in));
  }

  // Readers that come and go.

  void hold() { held_.push_back({std::make_unique<reader>(base_.snapshot()), now_}); }
  /// With so many old readers at most.
  void step(table& t, std::size_t most) {
    ASSERT_NO_FATAL_FAILURE(transact(t));
    if (held_.size() > most) held_.resize(most);
    if (held_.size() < most && random_.chance(1, most)) hold();
    if (!old_ && random_.chance(1, 40)) begin_old();
    if (old_ && random_.chance(1, 3)) {
      ASSERT_NO_FATAL_FAILURE(change_old(t));
    }
    if (random_.chance(1, 20)) base_.collect();
    if (random_.chance(1, 9)) {
      ASSERT_NO_FATAL_FAILURE(look(t));
    }
    if (random_.chance(1, 60)) {  // many at once
      std::erase_if(held_, [&](const old_reader&) { return random_.chance(1, 2); });
    }
  }
  void look(table& t) {
    if (old_ && random_.chance(1, 3)) {
      ASSERT_NO_FATAL_FAILURE(expect_shows(*old_, t, old_view_));
      if (random_.chance(1, 3)) {
        ASSERT_NO_FATAL_FAILURE(end_old());
      }
    }
    if (held_.empty()) return;
    const auto r = held_.begin() + static_cast<std::ptrdiff_t>(random_.below(held_.size()));
    ASSERT_NO_FATAL_FAILURE(expect_shows(*r->at, t, *r->was));
    if (random_.chance(1, 3)) held_.erase(r);
  }
  void expect_all_old(const table& t) {
    for (const old_reader& r : held_) ASSERT_NO_FATAL_FAILURE(expect_shows(*r.at, t, *r.was));
  }
  void let_all_go() {
    held_.clear();
    old_.reset();
  }

  test::rng random_;
  database base_;  // readers end before it
  std::shared_ptr<const lines> now_ = std::make_shared<const lines>();
  std::vector<old_reader> held_;
  std::optional<transaction> old_;
  lines old_view_;
};
SPOLIA_OVER_STORAGES(old_chains);

TEST_P(old_chains, show_what_there_was) {
  base_ = database::open(how());
  table& t = base_.create_table(spec());
  constexpr std::size_t most[] = {12, 2, 1};
  for (int n = 0; n < test::tries(450); ++n) {
    SCOPED_TRACE("step " + std::to_string(n));
    ASSERT_NO_FATAL_FAILURE(step(t, most[n / 50 % 3]));
  }
  ASSERT_NO_FATAL_FAILURE(expect_all_old(t));
  let_all_go();
  hold();
  const auto between = [&] { return base_.stats().versions.dropped_between; };
  const std::uint64_t before = between();
  for (int n = 0; n < test::tries(300); ++n) ASSERT_NO_FATAL_FAILURE(transact(t));
  ASSERT_NO_FATAL_FAILURE(expect_all_old(t));
  if (info_of(GetParam()).collects_between && test::fewer == 1) {
    EXPECT_GT(between(), before) << "no chain has a gap";
  }
  let_all_go();
  ASSERT_NO_FATAL_FAILURE(expect_shows(base_.snapshot(), t, *now_));
  base_.collect();
  EXPECT_EQ(base_.stats().cleaning, 0U);
}

/// Files that are written while the rows of their snapshot become old.
TEST_P(old_chains, are_right_in_files) {
  const test::disk files = test::new_disk();
  options o = how();
  o.files = files;
  base_ = database::open(test::place, o);
  table& t = base_.create_table(spec());
  for (int round = 0; round < 2; ++round) {
    for (int n = 0; n < test::tries(60); ++n) ASSERT_NO_FATAL_FAILURE(step(t, 12));
    const lines before = *now_;
    test::bytes copy;
    base_.backup([&](std::span<const std::byte> some) {
      copy.insert(copy.end(), some.begin(), some.end());
      for (int n = 0; n < 20 && !HasFatalFailure(); ++n) transact(t);
    });
    std::size_t given = 0;
    const std::string place = "copy" + std::to_string(round);
    database::restore(
        [&](std::span<std::byte> to) {
          const std::size_t some = std::min(to.size(), copy.size() - given);
          std::memcpy(to.data(), copy.data() + given, some);
          given += some;
          return some;
        },
        place, files);
    ASSERT_NO_FATAL_FAILURE(expect_opens(place, o, before));
    std::thread beside([&] { base_.checkpoint(); });
    for (int n = 0; n < 40 && !HasFatalFailure(); ++n) transact(t);
    beside.join();
    EXPECT_EQ(base_.verify().differences(), 0U);
    options look = o;
    look.read_only = look.attach = true;
    ASSERT_NO_FATAL_FAILURE(expect_opens(test::place, look, *now_));
    ASSERT_NO_FATAL_FAILURE(expect_all_old(t));
  }
}

}  // namespace
