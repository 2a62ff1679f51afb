// SPDX-License-Identifier: Apache-2.0
// Salvage after random damage to a random history, beside a model that knows what each record has
// done: what is left is what the whole records make, one after the other, and no value that no
// commit has put there.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/durable.hpp"
#include "db/salvaged.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using random_numbers = std::mt19937_64;
using some_columns = std::map<std::string, std::string>;

/// What one record has done.
struct deed {
  enum class kind : std::uint8_t { nothing, create, drop, index, put, set, erase };
  kind what = kind::nothing;
  std::size_t table = 0;  // in the order in which they were made
  std::string name;       // of that
  std::int64_t key = 0;
  some_columns columns;
};

struct table_model {
  std::string name;
  std::map<std::int64_t, some_columns> rows;
  std::map<std::int64_t, some_columns> in_part;
  bool replaced = false;  // by another one with its name: its drop is lost
};
using model = std::map<std::size_t, table_model>;

void apply(model& m, const deed& d) {
  const auto at = m.find(d.table);
  if (d.what == deed::kind::create) {
    for (auto& [number, t] : m) t.replaced = t.replaced || t.name == d.name;
    m[d.table].name = d.name;
  }
  if (at == m.end()) return;
  table_model& t = at->second;
  if (d.what == deed::kind::drop) {
    m.erase(at);
  } else if (d.what == deed::kind::put) {
    t.rows[d.key] = d.columns;
    t.in_part.erase(d.key);
  } else if (d.what == deed::kind::erase) {
    t.rows.erase(d.key);
    t.in_part.erase(d.key);
  } else if (d.what == deed::kind::set) {
    some_columns& row = t.rows.contains(d.key) ? t.rows[d.key] : t.in_part[d.key];
    for (const auto& [column, text] : d.columns) row[column] = text;
  }
}

/// A history: its files, what each record has done, and where each lies.
class story {
 public:
  explicit story(std::uint64_t seed) : random_(seed) { deeds_.resize(1); }

  void tell(int openings, bool checkpoints) {
    for (int i = 0; i < openings; ++i) {
      options o = over(files_);
      o.segment_bytes = 4096;
      database base = database::open(place, o);
      if (i == 0) make_table(base);
      for (std::uint64_t n = random_() % 60 + 5; n > 0; --n) step(base);
      if (checkpoints && random_() % 2 == 0) {
        const disk before = files_->copy();
        base.checkpoint();
        note(base, {});
        checkpoint_ = base.stats().log.sequence;
      }
    }
    for (const std::string& name : files_->names()) {
      if (name.find("/log-") == std::string::npos) continue;
      for (const record_place& r : records_of(files_->content(name))) {
        const bytes& all = files_->content(name);
        records_[r.number].assign(reinterpret_cast<const char*>(all.data()) + r.begin,
                                  r.end - r.begin);
      }
    }
  }

  /// Some damage to the files of the log.
  disk damaged() {
    const disk d = files_->copy();
    for (std::uint64_t n = random_() % 4 + 1; n > 0; --n) {
      std::vector<std::string> logs;
      for (const std::string& name : d->names()) {
        if (name.find("/log-") != std::string::npos) logs.push_back(name);
      }
      if (logs.empty()) break;
      damage(d, logs[random_() % logs.size()], logs[random_() % logs.size()]);
    }
    return d;
  }

  /// The records that are somewhere in these files as they were.
  [[nodiscard]] std::set<std::uint64_t> whole_in(const disk& d) const {
    std::set<std::uint64_t> whole;
    for (const std::string& name : d->names()) {
      if (name.find("/log-") == std::string::npos) continue;
      const bytes& all = d->content(name);
      const std::string_view text(reinterpret_cast<const char*>(all.data()), all.size());
      for (const auto& [number, record] : records_) {
        if (text.find(record) != std::string_view::npos) whole.insert(number);
      }
    }
    return whole;
  }
  /// What these records make after the checkpoint.
  [[nodiscard]] model expected(const std::set<std::uint64_t>& whole) const {
    model m;
    for (std::uint64_t n = 1; n < deeds_.size(); ++n) {
      if (n <= checkpoint_ || whole.contains(n)) apply(m, deeds_[n]);
    }
    return m;
  }
  [[nodiscard]] std::uint64_t checkpoint() const { return checkpoint_; }
  [[nodiscard]] std::uint64_t last() const { return deeds_.size() - 1; }
  [[nodiscard]] const disk& files() const { return files_; }

 private:
  struct living {
    std::size_t number = 0;
    std::string name;
    std::size_t columns = 0;
    std::set<std::int64_t> keys;
  };

  /// That record was the last one.
  void note(const database& base, deed d) {
    const std::uint64_t number = base.stats().log.sequence;
    ASSERT_GE(number, deeds_.size());
    deeds_.resize(number);
    deeds_.push_back(std::move(d));
  }
  std::string text_for(std::size_t column) {
    return std::to_string(column) + "-" + std::to_string(random_() % 1000) +
           std::string(random_() % 30, 'x');
  }
  /// Of a shape that no other one has.
  void make_table(database& base) {
    living t{};
    t.number = made_++;
    t.columns = made_ % 4 + 1;
    t.name = "t" + std::to_string(random_() % 3);
    const auto same = [&](const living& x) { return x.name == t.name; };
    if (std::any_of(tables_.begin(), tables_.end(), same)) t.name += "-" + std::to_string(t.number);
    table_spec spec{.name = t.name, .columns = {{"k", int64, primary_key}}};
    for (std::size_t c = 0; c < t.columns; ++c) {
      // So that the row of one is none of another.
      const column_type type = (t.number + c) % 2 == 0 ? text(40) : text();
      spec.columns.push_back({"c" + std::to_string(c), type, nullable});
    }
    base.create_table(spec);
    note(base, {deed::kind::create, t.number, t.name, 0, {}});
    tables_.push_back(t);
  }
  void step(database& base) {
    const std::uint64_t what = random_() % 40;
    if (tables_.empty() || (what == 0 && tables_.size() < 4)) return make_table(base);
    const std::size_t at = random_() % tables_.size();
    living& t = tables_[at];
    table& in = base.find_table(t.name);
    if (what == 1) {
      ASSERT_TRUE(base.drop_table(in));
      note(base, {deed::kind::drop, t.number, t.name, 0, {}});
      tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (what == 2 && in.spec().indexes.empty()) {
      ASSERT_TRUE(base.create_index(in, {.name = "i", .columns = {"k"}, .unique = true}));
      note(base, {deed::kind::index, t.number, t.name, 0, {}});
    } else {
      change(base, in, t);
    }
  }
  void change(database& base, table& in, living& t) {
    const auto key = static_cast<std::int64_t>(random_() % 30);
    deed d{deed::kind::put, t.number, t.name, key, {}};
    std::vector<std::optional<std::string>> texts;
    for (std::size_t c = 0; c < t.columns; ++c) {
      texts.emplace_back(random_() % 5 == 0 ? std::nullopt : std::optional(text_for(c)));
    }
    const auto value_of = [&](std::size_t c) {
      return texts[c] ? value(*texts[c]) : value(nullptr);
    };
    const auto set = [&](std::size_t c) {
      d.columns["c" + std::to_string(c)] = texts[c].value_or("null");
    };
    const status s = base.transact([&](transaction& tx) -> status {
      if (!t.keys.contains(key)) {
        std::vector<value> row{value(key)};
        for (std::size_t c = 0; c < t.columns; ++c) {
          row.push_back(value_of(c));
          set(c);
        }
        return tx.insert(in, values(row));
      }
      if (random_() % 4 == 0) {
        d.what = deed::kind::erase;
        return tx.erase(in, {key});
      }
      d.what = deed::kind::set;
      auto row = tx.edit(in, {key});
      for (std::size_t c = 0; c < t.columns; ++c) {
        if (c != 0 && random_() % 2 == 0) continue;
        if (auto done = row->set(in.layout().columns()[c + 1], value_of(c)); !done) return done;
        set(c);
      }
      return outcome::ok;
    });
    ASSERT_TRUE(s);
    d.what == deed::kind::erase ? (void)t.keys.erase(key) : (void)t.keys.insert(key);
    note(base, std::move(d));
  }

  void damage(const disk& d, const std::string& log, const std::string& other) {
    bytes& all = d->content(log);
    if (all.empty()) return;
    const std::size_t at = random_() % all.size();
    const std::size_t some = std::min<std::size_t>(all.size() - at, random_() % 300 + 1);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(some);
    switch (random_() % 9) {
      case 0:
      case 1:
        all[at] ^= static_cast<std::byte>(random_() % 255 + 1);
        break;
      case 2:
        std::fill(begin, end, random_() % 2 == 0 ? std::byte{0} : std::byte{0xff});
        break;
      case 3:
        std::generate(begin, end, [&] { return static_cast<std::byte>(random_()); });
        break;
      case 4:
        all.resize(at);
        break;
      case 5:
        all.erase(begin, end);
        break;
      case 6: {
        const bytes more(some, static_cast<std::byte>(random_()));
        all.insert(begin, more.begin(), more.end());
        break;
      }
      case 7:
        std::swap(all, d->content(other));
        break;
      case 8:
        d->remove(log);
        break;
    }
  }

  random_numbers random_;
  const disk files_ = new_disk();
  std::vector<deed> deeds_;                       // by the numbers of records
  std::map<std::uint64_t, std::string> records_;  // their bytes, of those that are in the files
  std::uint64_t checkpoint_ = 0;
  std::vector<living> tables_;
  std::size_t made_ = 0;
};

std::map<std::int64_t, some_columns> rows_of(const database& base, const table& t) {
  std::map<std::int64_t, some_columns> all;
  base.snapshot().for_each(t, [&](const row& r) {
    some_columns columns;
    for (const column_layout& c : t.layout().columns()) {
      if (c.role == primary_key) continue;
      const value v = r.get(c);
      columns[c.name] = v.null() ? "null" : std::string(std::get<std::string_view>(v.what()));
    }
    all[r.get(t.column<std::int64_t>("k"))] = columns;
  });
  return all;
}

/// How often what was met: a test that never meets something does not test it.
struct tally_of {
  int lost = 0;
  int doubtful = 0;
  int in_part = 0;
  int complete = 0;
  int lost_tables = 0;
  int mixed = 0;
};

void compare(story& of, const disk& d, tally_of& met) {
  const std::set<std::uint64_t> whole = of.whole_in(d);
  const salvage_report r = salvage(place, "new", into(d));
  std::string lost_ones;
  for (std::uint64_t n = of.checkpoint() + 1; n <= of.last(); ++n) {
    if (!whole.contains(n)) lost_ones += " " + std::to_string(n);
  }
  SCOPED_TRACE(in_words(r) + "\n  lost in truth:" + lost_ones);
  const model expected = of.expected(whole);
  const database base = database::open("new", over(d));
  std::set<std::string> names;
  for (const auto& [number, t] : expected) {
    if (t.replaced) {
      const auto& rows = t.rows;
      ASSERT_TRUE(std::any_of(r.tables.begin(), r.tables.end(), [&](const salvaged_table& x) {
        if (x.former_name != t.name) return false;
        return x.doubtful || rows_of(base, base.find_table(x.name)) == rows;
      })) << t.name;
      continue;
    }
    names.insert(t.name);
    const auto told = std::find_if(r.tables.begin(), r.tables.end(),
                                   [&](const salvaged_table& x) { return x.name == t.name; });
    ASSERT_NE(told, r.tables.end()) << t.name;
    met.doubtful += told->doubtful ? 1 : 0;
    met.in_part += told->in_part != 0 ? 1 : 0;
    met.mixed += told->mixed != 0 ? 1 : 0;
    if (told->doubtful) continue;
    ASSERT_EQ(rows_of(base, base.find_table(t.name)), t.rows) << t.name;
    ASSERT_EQ(told->in_part, t.in_part.size()) << t.name;
  }
  for (const salvaged_table& t : r.tables) {
    ASSERT_TRUE(t.doubtful || !t.former_name.empty() || names.contains(t.name)) << t.name;
  }
  const std::uint64_t last_whole = whole.empty() ? 0 : *whole.rbegin();
  bool lost = false;
  for (std::uint64_t n = of.checkpoint() + 1; n < last_whole; ++n) {
    ASSERT_EQ(misses(r, n), !whole.contains(n)) << n;
    lost = lost || !whole.contains(n);
  }
  if (lost) {
    ASSERT_FALSE(r.complete());
  }
  met.lost += lost ? 1 : 0;
  met.complete += r.complete() ? 1 : 0;
  met.lost_tables += r.lost_tables.empty() ? 0 : 1;
}

class random_damage : public testing::TestWithParam<bool> {};

TEST_P(random_damage, leaves_what_is_whole) {
  const char* const again = std::getenv("SPOLIA_SEED");  // of a run that failed
  const std::uint64_t seed =
      again != nullptr ? std::strtoull(again, nullptr, 10) : std::random_device{}();
  tally_of met;
  for (int round = 0; round < tries(60); ++round) {
    story of(seed + static_cast<std::uint64_t>(round));
    of.tell(3, GetParam());
    for (int i = 0; i < 12; ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round) + ", " +
                   std::to_string(i));
      const disk d = of.damaged();
      compare(of, d, met);
      if (testing::Test::HasFailure()) return;
    }
  }
  if (spolia::test::fewer == 1) {  // else there are not enough rounds to be sure of it
    EXPECT_GT(met.lost, 0);
    EXPECT_GT(met.complete, 0);
    EXPECT_GT(met.in_part, 0);
    EXPECT_GT(met.mixed, 0);
  }
  RecordProperty("doubtful", met.doubtful);
}

INSTANTIATE_TEST_SUITE_P(of_logs, random_damage, testing::Bool(), [](const auto& of) {
  return std::string(of.param ? "after_checkpoints" : "alone");
});

}  // namespace
