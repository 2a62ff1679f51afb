// SPDX-License-Identifier: Apache-2.0
// Changes of the catalogue of databases in directories: whenever the process dies, what is there is
// as before a change, or as after it.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "db/durable.hpp"
#include "db/log/log_format.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Tables, indexes and rows as text; the rows of each index are those of its table.
std::string described(const database& base) {
  std::string all;
  const reader now = base.snapshot();
  for (const table* const t : base.tables()) {
    std::map<std::int64_t, std::int64_t> rows;
    const auto k = t->column<std::int64_t>("k");
    const auto v = t->column<std::int64_t>("v");
    now.for_each(*t, [&](const row& r) { rows.emplace(r.get(k), r.get(v)); });
    all += t->name() + ":";
    for (const auto& [key, value] : rows) {
      EXPECT_TRUE(now.find(*t, {key}));
      all += " " + std::to_string(key) + "=" + std::to_string(value);
    }
    for (const index_spec& i : t->spec().indexes) {
      all += (i.unique ? ", unique " : ", ") + i.name;
      std::size_t found = 0;
      for (const auto& [key, value] : rows) {
        now.scan(t->index(i.name), {value}, {value},
                 [&](const row& r) { found += r.get(k) == key; });
      }
      EXPECT_EQ(found, rows.size()) << t->name() << " " << i.name;
    }
    all += "\n";
  }
  return all;
}

status put(database& base, const char* name, std::int64_t k, std::int64_t v) {
  table& t = base.find_table(name);
  return base.transact([&](transaction& tx) { return tx.insert(t, {k, v}); });
}
void create(database& base, const char* name, std::vector<index_spec> indexes = {}) {
  base.create_table({.name = name,
                     .columns = {{"k", int64, primary_key}, {"v", int64}},
                     .indexes = std::move(indexes)});
}

struct step {
  std::function<status(database&)> run;
  bool commits = false;  // it may be seen before it is durable
};

/// All that there is to change, and rows in between.
std::vector<step> all_steps() {
  const auto rows = [](const char* name, std::int64_t k, std::int64_t v) {
    return step{[=](database& base) { return put(base, name, k, v); }, true};
  };
  const auto table_of = [](const char* name, std::vector<index_spec> indexes = {}) {
    return step{[=](database& base) -> status {
      create(base, name, indexes);
      return {};
    }};
  };
  const auto index = [](const char* of, const index_spec& spec) {
    return step{[=](database& base) { return base.create_index(base.find_table(of), spec); }};
  };
  const auto without = [](const char* of, const char* name) {
    return step{[=](database& base) { return base.drop_index(base.find_table(of), name); }};
  };
  const auto drop = [](const char* name) {
    return step{[=](database& base) { return base.drop_table(base.find_table(name)); }};
  };
  const auto rename = [](const char* name, const char* to) {
    return step{[=](database& base) { return base.rename_table(name, to); }};
  };
  const step checkpoint{[](database& base) -> status {
    base.checkpoint();
    return {};
  }};
  const index_spec by_v{.name = "by_v", .columns = {"v"}};
  const index_spec one{.name = "one", .columns = {"v"}, .unique = true, .kind = index_kind::hash};
  return {table_of("a"),    rows("a", 1, 10),      rows("a", 2, 20),   index("a", by_v),
          rows("a", 3, 30), index("a", one),       rows("a", 4, 40),   table_of("b", {by_v}),
          rows("b", 1, 7),  without("a", "one"),   rows("a", 5, 40),   checkpoint,
          drop("b"),        rows("a", 6, 60),      table_of("b"),      rows("b", 1, 8),
          index("b", one),  without("a", "by_v"),  checkpoint,         drop("a"),
          rows("b", 2, 9),  table_of("c"),         rows("c", 1, 1),    drop("c"),
          checkpoint,       table_of("c", {by_v}), rows("c", 1, 2),    rows("b", 3, 3),
          rename("b", "d"), rename("c", "b"),      without("d", "one")};
}

/// What is there after so many steps.
std::vector<std::string> states_of(const std::vector<step>& steps, const options& o) {
  database base = database::open(place, o);
  std::vector<std::string> states{described(base)};
  for (const step& s : steps) {
    EXPECT_TRUE(s.run(base));
    states.push_back(described(base));
  }
  return states;
}

class every_moment {
 public:
  explicit every_moment(const options& o) : options_(o) {
    options_.files = new_disk();
    states_ = states_of(steps_, options_);
  }

  /// The power goes at the n-th change of the files. False: it did not.
  bool lose_power_at(std::uint64_t n, bool extends, std::mt19937_64& random) {
    const disk files = new_disk();
    files->fails_at = n;
    files->extends = extends;
    options_.files = files;
    done_ = tried_ = 0;
    try {
      database base = database::open(place, options_);
      work(base);
    } catch (const storage_error&) {
      // While it was opened.
    }
    for (int image = 0; image < tries(4); ++image) look(files->after_power_loss(random));
    return done_ != steps_.size();
  }

 private:
  void work(database& base) {
    for (const step& s : steps_) {
      ++tried_;
      bool good = false;
      try {
        const status got = s.run(base);
        good = got && (!s.commits || base.sync());
        EXPECT_TRUE(got || got == outcome::storage_failed) << got.message();
      } catch (const storage_error&) {
        // A checkpoint, or a table that was to be made.
      }
      if (!good) {
        const std::string left = described(base);
        EXPECT_TRUE(left == states_[done_] || (s.commits && left == states_[tried_]))
            << "step " << tried_ << " has failed and changed something: " << left;
        return;
      }
      done_ = tried_;
    }
  }
  void look(const disk& left) const {
    options o = over(left);
    const database base = database::open(place, o);
    const std::string found = described(base);
    bool right = false;
    for (std::size_t i = done_; i <= tried_; ++i) right = right || found == states_[i];
    EXPECT_TRUE(right) << "after " << done_ << " to " << tried_ << " steps: " << found;
  }

  const std::vector<step> steps_ = all_steps();
  options options_;
  std::vector<std::string> states_;
  std::size_t done_ = 0;
  std::size_t tried_ = 0;
};

void lose_power_everywhere(const options& o, bool extends) {
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  every_moment all(o);
  for (std::uint64_t at = 1;; at += steps_apart) {
    SCOPED_TRACE("change " + std::to_string(at) + ", seed " + std::to_string(seed));
    if (!all.lose_power_at(at, extends, random) || testing::Test::HasFailure()) break;
  }
}

TEST(durable_catalog, the_power_goes_at_each_moment) {
  options o = over(nullptr);
  lose_power_everywhere(o, false);
  o.segment_bytes = 4096;
  o.durability = durability_level::async;
  lose_power_everywhere(o, true);
}

TEST(durable_catalog, changes_that_the_log_does_not_take_change_nothing) {
  for (const bool write_fails : {false, true}) {
    const disk files = new_disk();
    database base = database::open(place, over(files));
    create(base, "a", {{.name = "by_v", .columns = {"v"}}});
    for (std::int64_t k = 0; k < 3; ++k) ASSERT_TRUE(put(base, "a", k, k));
    table& a = base.find_table("a");
    const std::string before = described(base);
    if (write_fails) {
      files->fails_at = files->changes + 1;
    } else {
      files->sync_fails_at = files->syncs + 1;
    }
    transaction open = base.begin();
    ASSERT_TRUE(open.update(a, {1}, {{"v", 9}}));
    EXPECT_EQ(base.drop_table(a), outcome::storage_failed);
    EXPECT_EQ(open.commit(), outcome::schema_changed) << "it was about to be dropped";
    EXPECT_EQ(base.drop_table(a), outcome::storage_failed);
    EXPECT_EQ(base.create_index(a, {.name = "x", .columns = {"v"}}), outcome::storage_failed);
    EXPECT_EQ(base.drop_index(a, "by_v"), outcome::storage_failed);
    EXPECT_EQ(base.rename_table(a, "b"), outcome::storage_failed);
    EXPECT_THROW(create(base, "b"), storage_error);
    EXPECT_THROW(create(base, "b"), storage_error) << "again";
    EXPECT_EQ(described(base), before);
    EXPECT_NE(base.storage_failure(), "");
    base.collect();
    EXPECT_EQ(base.stats().cleaning, 0U);
    std::mt19937_64 random(1);
    for (int i = 0; i < 10; ++i) {
      const database found = database::open(place, over(files->after_power_loss(random)));
      EXPECT_TRUE(found.tables().empty() || described(found) == before);
    }
  }
}

/// Numbers without a name, as a cast makes them: what would be written no opening could read.
TEST(durable_catalog, kinds_that_there_are_not_are_refused) {
  const disk files = new_disk();
  const index_spec index{.name = "x", .columns = {"v"}, .kind = static_cast<index_kind>(7)};
  const table_spec good{.name = "b", .columns = {{"k", int64, primary_key}, {"v", int64}}};
  std::string before;
  {
    database base = database::open(place, over(files));
    create(base, "a");
    ASSERT_TRUE(put(base, "a", 1, 1));
    before = described(base);
    const auto refused = [&](const table_spec& spec) {
      try {
        base.create_table(spec);
      } catch (const std::invalid_argument& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    table_spec bad = good;
    bad.primary = static_cast<index_kind>(2);
    EXPECT_EQ(refused(bad),
              "spolia::db: the primary key of table b has the kind 2, which there is not: use "
              "index_kind::hash or index_kind::ordered");
    bad = good;
    bad.indexes = {index};
    EXPECT_EQ(refused(bad),
              "spolia::db: index x of table b has the kind 7, which there is not: use "
              "index_kind::hash or index_kind::ordered");
    bad = good;
    bad.columns[1].type.base = static_cast<base_type>(8);
    EXPECT_EQ(refused(bad),
              "spolia::db: column v of table b has the type 8, which there is not: int64, float64, "
              "boolean, text(n), text(), blob(), decimal(n) and timestamp are allowed");
    bad = good;
    bad.columns[1].role = static_cast<column_role>(3);
    EXPECT_EQ(refused(bad),
              "spolia::db: column v of table b has the role 3, which there is not: primary_key, "
              "nullable or none are allowed");
    EXPECT_THROW(static_cast<void>(base.create_index(base.find_table("a"), index)),
                 std::invalid_argument);
    EXPECT_EQ(described(base), before);
  }
  EXPECT_EQ(described(database::open(place, over(files))), before);
}

/// The log has no number for it, and must not take it for another one.
TEST(durable_catalog, the_log_refuses_an_index_of_a_kind_that_it_does_not_know) {
  byte_buffer bytes;
  EXPECT_THROW(
      put_index(bytes, {.name = "x", .columns = {"v"}, .kind = static_cast<index_kind>(2)}),
      std::invalid_argument);
  for (const index_kind kind : {index_kind::hash, index_kind::ordered}) {
    bytes.clear();
    put_index(bytes, {.name = "x", .columns = {"v"}, .unique = true, .kind = kind});
    decoder from(bytes);
    const index_spec read = read_index(from);
    EXPECT_TRUE(read.kind == kind && read.unique && read.name == "x");
  }
}

/// The first of the changes is on its way to the disk when that fails.
TEST(durable_catalog, each_change_meets_a_disk_that_fails) {
  const index_spec more{.name = "more", .columns = {"v"}, .unique = true};
  const std::vector<std::function<status(database&, table&)>> changes{
      [&](database& base, table& t) { return base.create_index(t, more); },
      [](database& base, table& t) { return base.drop_index(t, "by_v"); },
      [](database& base, table& t) { return base.rename_table(t, "b"); },
      [](database& base, table& t) { return base.drop_table(t); }};
  for (const auto& change : changes) {
    const disk files = new_disk();
    database base = database::open(place, over(files));
    create(base, "a", {{.name = "by_v", .columns = {"v"}}});
    ASSERT_TRUE(put(base, "a", 1, 5));
    const std::string before = described(base);
    files->sync_fails_at = files->syncs + 1;
    EXPECT_EQ(change(base, base.find_table("a")), outcome::storage_failed);
    EXPECT_EQ(described(base), before);
    EXPECT_EQ(base.find_table("a").layout().name(), "a");
    EXPECT_EQ(base.try_find_table("b"), nullptr);
    EXPECT_EQ(base.resume().undone, 1U);
    EXPECT_EQ(described(base), before);
    EXPECT_TRUE(change(base, base.find_table("a")));
    const std::string changed = described(base);
    EXPECT_EQ(described(database::open(place, over(files->copy()))), changed);
  }
}

/// Looks at the database while each change is on its way to the disk.
TEST(durable_catalog, no_transaction_sees_a_change_before_it_is_durable) {
  const disk files = new_disk();
  options o = over(files);
  o.durability = durability_level::async;
  o.loss_window = std::chrono::hours(1);
  database base = database::open(place, o);
  create(base, "a", {{.name = "by_v", .columns = {"v"}}});
  ASSERT_TRUE(put(base, "a", 1, 5));
  table& a = base.find_table("a");
  int looks = 0;
  const auto change = [&](const std::function<void()>& f, const std::function<void()>& meanwhile) {
    const std::string before = described(base);
    bool first = true;
    files->before_sync = [&] {
      if (!std::exchange(first, false)) return;
      ++looks;
      EXPECT_EQ(described(base), before);
      if (meanwhile) meanwhile();
    };
    f();
    files->before_sync = nullptr;
    EXPECT_NE(described(base), before) << "but then";
    EXPECT_EQ(base.stats().log.durable, base.stats().log.sequence);
  };
  const auto update = [&] {
    transaction tx = base.begin();
    return tx.update(a, {1}, {{"v", 6}});
  };
  change([&] { create(base, "b"); },
         [&] {
           EXPECT_EQ(base.try_find_table("b"), nullptr);
           EXPECT_TRUE(update());
         });
  change([&] { EXPECT_TRUE(base.create_index(a, {.name = "more", .columns = {"v"}})); },
         [&] {
           EXPECT_EQ(a.try_index("more"), nullptr);
           EXPECT_TRUE(update());
         });
  change([&] { EXPECT_TRUE(base.drop_index(a, "more")); }, [&] { EXPECT_TRUE(update()); });
  change([&] { EXPECT_TRUE(base.rename_table("a", "c")); },
         [&] {
           EXPECT_EQ(&base.find_table("a"), &a);
           EXPECT_EQ(base.try_find_table("c"), nullptr) << "it is about to get that name";
           EXPECT_THROW(create(base, "c"), std::invalid_argument) << "so no other one does";
           EXPECT_THROW(create(base, "a"), std::invalid_argument);
           EXPECT_TRUE(update());
         });
  change([&] { EXPECT_TRUE(base.drop_table(a)); },
         [&] { EXPECT_EQ(update(), outcome::schema_changed); });
  EXPECT_EQ(update(), outcome::dropped);
  EXPECT_EQ(looks, 5);
}

/// A checkpoint that has the record of the rename has the new name, also if it is taken before the
/// name is shown: no opening reads that record again. Which comes first is left to the threads.
TEST(durable_catalog, a_checkpoint_beside_a_rename_has_the_name_of_its_last_record) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  create(base, "a");
  ASSERT_TRUE(put(base, "a", 1, 1));
  for (int round = 0; round < 40 && !HasFailure(); ++round) {
    const std::string now = round % 2 == 0 ? "a" : "b";
    const std::string next = round % 2 == 0 ? "b" : "a";
    std::atomic<bool> begun{false};
    std::thread other;
    bool first = true;
    files->before_sync = [&] {
      if (!std::exchange(first, false)) return;
      other = std::thread([&] {
        begun.store(true, std::memory_order_relaxed);
        base.checkpoint();
      });
      while (!begun.load(std::memory_order_relaxed)) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // so that it mostly waits
    };
    EXPECT_TRUE(base.rename_table(now, next));
    ASSERT_TRUE(other.joinable());
    other.join();
    files->before_sync = nullptr;
    EXPECT_EQ(described(database::open(place, over(files->copy()))), next + ": 1=1\n");
  }
}

/// Of two tables with one name, an opening would show one. With right checksums, so no program of
/// this project has written it.
TEST(durable_catalog, a_record_that_gives_a_name_which_is_taken_is_refused) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    create(base, "first");
    create(base, "other");
    ASSERT_TRUE(base.rename_table("other", "later"));
  }
  bytes& log = files->content(std::string(place) + "/log-0000000000000001.spl");
  seal_again(log, true, [](std::span<std::byte> body) {
    const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
    if (const std::size_t at = text.find("later"); at != std::string_view::npos) {
      std::memcpy(body.data() + at, "first", 5);
    }
  });
  try {
    database::open(place, over(files));
    ADD_FAILURE() << "it was opened";
  } catch (const storage_error& e) {
    EXPECT_NE(e.problem().find("two tables get one name"), std::string::npos) << e.what();
  }
}

/// Both have found it by the name that it had: the second one finds out that it has another.
TEST(durable_catalog, two_threads_rename_a_table_by_one_name) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  create(base, "a");
  std::atomic<bool> begun{false};
  std::thread other;
  bool first = true;
  files->before_sync = [&] {
    if (!std::exchange(first, false)) return;
    other = std::thread([&] {
      begun.store(true, std::memory_order_relaxed);
      EXPECT_THROW(static_cast<void>(base.rename_table("a", "c")), std::invalid_argument);
    });
    while (!begun.load(std::memory_order_relaxed)) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that it mostly has found it
  };
  EXPECT_TRUE(base.rename_table("a", "b"));
  ASSERT_TRUE(other.joinable());
  other.join();
  files->before_sync = nullptr;
  EXPECT_NE(base.try_find_table("b"), nullptr);
  EXPECT_EQ(base.tables().size(), 1U);
}

TEST(durable_catalog, a_log_that_was_cut_or_flipped_anywhere) {
  std::vector<step> steps = all_steps();
  std::erase_if(steps, [first = 0](const step&) mutable {  // the checkpoints
    const int n = first++;
    return n == 11 || n == 18 || n == 24;
  });
  const disk files = new_disk();
  const std::vector<std::string> states = states_of(steps, over(files));
  const std::string log = std::string(place) + "/log-0000000000000001.spl";
  const std::size_t size = files->content(log).size();
  options look = over(nullptr);
  look.read_only = true;
  std::size_t before = 0;
  for (std::size_t at = size - (size - 64) / stride * stride; at <= size; at += stride) {
    SCOPED_TRACE(at);
    const disk damaged = files->copy();
    damaged->content(log).resize(at);
    look.files = damaged;
    const std::string found = described(database::open(place, look));
    while (before < states.size() && states[before] != found) ++before;
    ASSERT_LT(before, states.size()) << found;
  }
  EXPECT_EQ(before, states.size() - 1);
  for (std::size_t at = 0; at < size; at += stride) {
    SCOPED_TRACE(at);
    const disk damaged = files->copy();
    damaged->content(log)[at] ^= static_cast<std::byte>(1U << at / stride % 8);
    look.files = damaged;
    try {
      const std::string found = described(database::open(place, look));
      ASSERT_EQ(found, states[states.size() - 2]) << "the last alone may be missing";
    } catch (const storage_error& e) {
      EXPECT_FALSE(e.problem().empty());
    }
  }
}

TEST(durable_catalog, a_checkpoint_with_gaps_that_was_damaged_anywhere) {
  const disk files = new_disk();
  const std::vector<step> steps = all_steps();
  const std::string last = states_of(steps, over(files)).back();
  std::string checkpoint;
  for (const std::string& n : files->names()) {
    if (n.find("/checkpoint-") != std::string::npos) checkpoint = n;
  }
  EXPECT_EQ(described(database::open(place, over(files->copy()))), last);
  const std::size_t size = files->content(checkpoint).size();
  for (std::size_t at = 0; at < size; ++at) {
    SCOPED_TRACE(at);
    const disk flipped = files->copy();
    flipped->content(checkpoint)[at] ^= static_cast<std::byte>(1U << at % 8);
    EXPECT_THROW(database::open(place, over(flipped)), storage_error);
    const disk cut = files->copy();
    cut->content(checkpoint).resize(at);
    EXPECT_THROW(database::open(place, over(cut)), storage_error);
  }
}

/// A number that came again would let older log mean another table.
TEST(durable_catalog, copies_are_added_to_over_changes_and_openings) {
  const disk files = new_disk();
  std::vector<std::string> states;
  const auto opened_copy = [&] { return described(database::open("copy", over(files->copy()))); };
  const std::vector<step> steps = all_steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(i);
    database base = database::open(place, over(files));
    ASSERT_TRUE(steps[i].run(base));
    const backup_report made = base.backup("copy");
    EXPECT_EQ(made.incremental, i != 0 && i != 11 && i != 18 && i != 24) << "not over checkpoints";
    EXPECT_EQ(opened_copy(), described(base));
    bytes stream;
    base.backup([&](std::span<const std::byte> part) {
      stream.insert(stream.end(), part.begin(), part.end());
    });
    std::size_t at = 0;
    const std::string to = "restored" + std::to_string(i);
    database::restore(
        [&](std::span<std::byte> room) {
          const std::size_t n = std::min(room.size(), stream.size() - at);
          std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), n, room.begin());
          at += n;
          return n;
        },
        to, files);
    EXPECT_EQ(described(database::open(to, over(files))), described(base));
  }
}

TEST(durable_catalog, without_a_log_the_last_checkpoint_is_what_is_there) {
  const disk files = new_disk();
  options o = over(files);
  o.durability = durability_level::none;
  std::string saved;
  for (const step& s : all_steps()) {
    database base = database::open(place, o);
    ASSERT_EQ(described(base), saved);
    ASSERT_TRUE(s.run(base));
    base.checkpoint();
    saved = described(base);
    if (base.tables().size() != 1) continue;
    ASSERT_TRUE(base.drop_table(*base.tables()[0])) << "what is not in a checkpoint is not saved";
  }
}

/// Threads change rows of tables that come and go, indexes come and go, checkpoints are taken, and
/// copies of the files are opened all the while: the sum over each table is the same in each.
class under_load : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 12;
  static constexpr std::int64_t money = 100;

  under_load() : base_(database::open(place, chosen())) {
    create(base_, "bank", {{.name = "by_v", .columns = {"v"}, .kind = index_kind::hash}});
    for (std::int64_t k = 0; k < rows; ++k) EXPECT_TRUE(put(base_, "bank", k, money));
    create(base_, "more");
  }
  options chosen() const {
    options o = over(files_);
    o.durability = durability_level::async;
    o.segment_bytes = 1U << 16U;
    return o;
  }
  /// From one account to another; and two rows for some other table.
  static status transfer(database& base, transaction& tx, std::int64_t key,
                         std::mt19937_64& random) {
    table& bank = base.find_table("bank");
    const auto v = bank.column<std::int64_t>("v");
    auto from = tx.edit(bank, {static_cast<std::int64_t>(random() % rows)});
    if (!from) return from.why();
    auto to = tx.edit(bank, {static_cast<std::int64_t>(random() % rows)});
    if (!to) return to.why();
    if (auto done = from->set(v, from->get(v) - 1); !done) return done;
    if (auto done = to->set(v, to->get(v) + 1); !done) return done;
    const std::vector<table*> all = base.tables();
    table& other = *all[random() % all.size()];
    if (&other == &bank) return {};
    if (auto done = tx.insert(other, {key, key}); !done) return done;
    return tx.insert(other, {key + 1, -key});
  }
  void write(std::int64_t thread) {
    std::mt19937_64 random(static_cast<std::uint64_t>(thread));
    for (std::int64_t i = 1; !stop_.load(std::memory_order_relaxed); ++i) {
      const status s = base_.transact(
          [&](transaction& tx) { return transfer(base_, tx, (i * 2 + thread) * 2, random); });
      EXPECT_TRUE(s || s == outcome::dropped || s == outcome::schema_changed ||
                  s == outcome::conflict)
          << s.message();
    }
  }
  void change() {
    table& bank = base_.find_table("bank");
    while (!stop_.load(std::memory_order_relaxed)) {
      EXPECT_TRUE(base_.create_index(bank, {.name = "x", .columns = {"v"}}));
      EXPECT_TRUE(base_.rename_table("more", "less"));
      EXPECT_TRUE(base_.drop_table(base_.find_table("less")));
      create(base_, "more", {{.name = "by_v", .columns = {"v"}}});
      EXPECT_TRUE(base_.drop_index(bank, "x"));
    }
  }
  static void check(const database& of) {
    static_cast<void>(described(of));
    EXPECT_LE(of.tables().size(), 2U) << "one of them by two names";
    for (const table* const t : of.tables()) {
      std::int64_t sum = 0;
      of.snapshot().for_each(*t, [&](const row& r) { sum += r.get(t->column<std::int64_t>("v")); });
      EXPECT_EQ(sum, t->name() == "bank" ? rows * money : 0) << t->name();
    }
  }

  void TearDown() override {
    stop_.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads_) thread.join();
    check(base_);
  }

  const disk files_ = new_disk();
  database base_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST_F(under_load, each_copy_of_the_files_is_whole) {
  for (std::int64_t n = 0; n < 2; ++n) threads_.emplace_back([this, n] { write(n); });
  threads_.emplace_back([this] { change(); });
  const auto start = std::chrono::steady_clock::now();
  int looked = 0;
  const auto goes_on = [&] {
    return looked < 200 && std::chrono::steady_clock::now() - start < std::chrono::seconds(1) &&
           !HasFailure();
  };
  for (; looked == 0 || goes_on(); ++looked) {
    if (looked % 2 == 0) base_.checkpoint();
    options there = over(files_->copy());
    there.recovery_threads = looked % 4 < 2 ? 1 : 2;
    check(database::open(place, there));
  }
}

}  // namespace
