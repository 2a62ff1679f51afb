// SPDX-License-Identifier: Apache-2.0
// Salvage over each kind of damage: what is whole is there, nothing is made up, and the report says
// what is missing and where.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "db/log/log_format.hpp"

#include "db/durable.hpp"
#include "db/ledger_files.hpp"
#include "db/salvaged.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// The ledger after these commits, where record number n + 1 is commit n.
ledger_model model_of(std::int64_t last, const std::function<bool(std::uint64_t)>& lost) {
  ledger_model m;
  if (lost(1)) return m;  // the table
  for (std::int64_t n = 1; n <= last; ++n) {
    if (!lost(static_cast<std::uint64_t>(n) + 1)) m.commit(n);
  }
  return m;
}

/// Changes each byte of a log of one segment, and looks at what is left.
void at_every_byte_of_the_log(std::int64_t commits,
                              const std::function<void(bytes&, std::size_t)>& change) {
  const disk files = new_disk();
  work(files, 1, commits);
  const auto records = records_of(files->content(log_name(1)));
  ASSERT_EQ(records.size(), static_cast<std::size_t>(commits) + 1);
  const std::size_t size = files->content(log_name(1)).size();
  for (std::size_t at = 0; at < size; at += stride) {
    SCOPED_TRACE(at);
    const disk damaged = files->copy();
    change(damaged->content(log_name(1)), at);
    const auto got = salvage_all(damaged);
    SCOPED_TRACE(in_words(got.report));
    const auto hit = std::find_if(records.begin(), records.end(), [&](const record_place& r) {
      return r.begin <= at && at < r.end;
    });
    const std::uint64_t lost = hit != records.end() ? hit->number : 0;
    const auto expected = model_of(commits, [&](std::uint64_t n) { return n == lost; });
    ASSERT_EQ(got.rows, expected.rows);
    ASSERT_TRUE(says_place(got.report, log_name(1), at));
    ASSERT_EQ(got.report.complete(), lost == 0);
    ASSERT_EQ(got.report.missing.size(), lost != 0 ? 1U : 0U);
    if (lost == 0) continue;
    ASSERT_EQ(got.report.missing[0].first, lost);
    ASSERT_EQ(got.report.missing[0].last, lost == records.size() ? 0 : lost);
    if (lost == 1) continue;
    ASSERT_EQ(got.report.tables.at(0).in_part, expected.in_part.size());
    ASSERT_EQ(got.report.records, records.size() - 1);
  }
}

TEST(salvage, of_what_is_whole_is_all_of_it) {
  const disk files = new_disk();
  work(files, 1, 7, true);
  work(files, 8, 9);
  const auto got = salvage_all(files);
  EXPECT_TRUE(got.report.complete()) << in_words(got.report);
  EXPECT_TRUE(got.report.damage.empty());
  EXPECT_EQ(got.report.checkpoint_sequence, 9U);
  EXPECT_EQ(got.report.records, 2U);
  database base = database::open("new", over(files));
  EXPECT_EQ(commits_in(base), 9) << "with its indexes";
  EXPECT_EQ(base.find_table("ledger").spec().indexes.size(), 1U);
  ASSERT_TRUE(write_down(base, base.find_table("ledger"), 10)) << "and it goes on";
}

TEST(salvage, a_flipped_bit_in_the_log_loses_one_commit) {
  at_every_byte_of_the_log(7, [](bytes& content, std::size_t at) {
    content[at] ^= static_cast<std::byte>(1U << at % 8);
  });
}

TEST(salvage, a_byte_of_the_log_that_was_overwritten) {
  at_every_byte_of_the_log(
      6, [](bytes& content, std::size_t at) { content[at] ^= static_cast<std::byte>(at * 2 + 1); });
}

TEST(salvage, a_log_that_was_cut_anywhere) {
  const disk files = new_disk();
  work(files, 1, 6);
  const auto records = records_of(files->content(log_name(1)));
  const std::size_t size = files->content(log_name(1)).size();
  for (std::size_t at = 0; at <= size; at += stride) {
    SCOPED_TRACE(at);
    const disk damaged = files->copy();
    damaged->content(log_name(1)).resize(at);
    const auto got = salvage_all(damaged);
    SCOPED_TRACE(in_words(got.report));
    const auto whole = [&](std::uint64_t n) { return n <= 7 && records[n - 1].end <= at; };
    ASSERT_EQ(got.rows, model_of(6, [&](std::uint64_t n) { return !whole(n); }).rows);
    const bool at_an_end =
        at == file_head ||
        std::any_of(records.begin(), records.end(), [&](const auto& r) { return r.end == at; });
    ASSERT_EQ(got.report.complete(), at_an_end) << "it may end where a record does";
  }
}

/// Rows 1..count, each as long as a third of a block of a checkpoint.
std::string long_text(std::int64_t k) {
  return std::string(90'000, static_cast<char>('a' + k % 26)) + std::to_string(k);
}
table& make_long_rows(database& base, const std::string& name, std::int64_t first,
                      std::int64_t last) {
  table& t = base.create_table(
      {.name = name, .columns = {{"k", int64, primary_key}, {"n", int64}, {"text", text()}}});
  for (std::int64_t k = first; k <= last; ++k) {
    EXPECT_TRUE(
        base.transact([&](transaction& tx) { return tx.insert(t, {k, k * 7, long_text(k)}); }));
  }
  return t;
}
/// The keys in a table, of which each row is as make_long_rows() has made it.
std::vector<std::int64_t> long_rows_in(const database& base, const std::string& name) {
  std::vector<std::int64_t> keys;
  const table& t = base.find_table(name);
  base.snapshot().for_each(t, [&](const row& r) {
    const auto k = r.get(t.column<std::int64_t>("k"));
    EXPECT_EQ(r.get(t.column<std::int64_t>("n")), k * 7);
    EXPECT_EQ(r.get(t.column<std::string_view>("text")), long_text(k));
    keys.push_back(k);
  });
  std::sort(keys.begin(), keys.end());
  return keys;
}

struct block_place {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint32_t kind = 0;
  std::uint32_t table = 0;
  std::vector<std::int64_t> keys;
};
/// A row of make_long_rows() has its key in eight bytes, which columns are null, n, and the length
/// and the bytes of its text.
std::vector<block_place> blocks_of(const bytes& checkpoint) {
  std::vector<block_place> all;
  for (std::size_t at = file_head; at < checkpoint.size();) {
    const std::size_t end = at + 32 + number_at<std::uint32_t>(checkpoint, at + 8);
    all.push_back({at,
                   end,
                   number_at<std::uint32_t>(checkpoint, at + 16),
                   number_at<std::uint32_t>(checkpoint, at + 20),
                   {}});
    for (std::size_t row = at + 32; all.back().kind == 2 && row < end;) {
      all.back().keys.push_back(number_at<std::int64_t>(checkpoint, row));
      row += 28 + number_at<std::uint32_t>(checkpoint, row + 24);
    }
    at = end;
  }
  return all;
}

/// A checkpoint of two tables in many blocks, and a log after it that does not touch their rows.
class damaged_checkpoint : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 20;

  damaged_checkpoint() {
    {
      database base = database::open(place, over(files_));
      make_long_rows(base, "a", 1, rows);
      make_long_rows(base, "b", 101, 100 + rows);
      base.checkpoint();
    }
    for (const std::string& name : files_->names()) {
      if (name.find("/checkpoint-") != std::string::npos) name_ = name;
    }
    blocks_ = blocks_of(files_->content(name_));
  }
  /// The keys of a table whose rows are in blocks that `whole` says are.
  std::vector<std::int64_t> keys(std::uint32_t table,
                                 const std::function<bool(const block_place&)>& whole) const {
    std::vector<std::int64_t> all;
    for (const block_place& b : blocks_) {
      if (b.table == table && whole(b)) all.insert(all.end(), b.keys.begin(), b.keys.end());
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  /// Damages bytes from..to, and compares what is left.
  void damage(std::size_t from, std::size_t to,
              const std::function<void(std::span<std::byte>)>& change) {
    SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
    const disk damaged = files_->copy();
    change(std::span(damaged->content(name_)).subspan(from, to - from));
    const salvage_report r = db::salvage(place, "new", into(damaged));
    SCOPED_TRACE(in_words(r));
    const auto whole = [&](const block_place& b) { return to <= b.begin || b.end <= from; };
    const database base = database::open("new", over(damaged));
    for (std::uint32_t t = 0; t < 2; ++t) {
      const std::string name = t == 0 ? "a" : "b";
      if (!whole(blocks_[t])) {
        const auto is_t = [&](const lost_table& l) {
          return l.number == t && l.rows == keys(t, whole).size();
        };
        EXPECT_EQ(std::count_if(r.lost_tables.begin(), r.lost_tables.end(), is_t), 1);
        continue;
      }
      EXPECT_EQ(long_rows_in(base, name), keys(t, whole));
    }
    const bool hit = !std::all_of(blocks_.begin(), blocks_.end(), whole);
    EXPECT_EQ(r.complete(), !hit);
    EXPECT_TRUE(says_place(r, name_, from));
    EXPECT_TRUE(r.missing.empty()) << "of the log nothing is";
    EXPECT_EQ(r.more_rows_lost, !whole(blocks_.back()));
    if (whole(blocks_.back())) {
      EXPECT_EQ(r.lost_rows, 2 * rows - keys(0, whole).size() - keys(1, whole).size());
    }
  }

  const disk files_ = new_disk();
  std::string name_;
  std::vector<block_place> blocks_;
};

// Each look salvages all of it.
constexpr std::size_t each_nth = spolia::test::quick_tests ? 10 : spolia::test::fewer > 1 ? 5 : 1;

TEST_F(damaged_checkpoint, has_the_rows_of_its_other_blocks) {
  ASSERT_GT(blocks_.size(), 12U);
  const auto flip = [](std::span<std::byte> at) { at[0] ^= std::byte{0x10}; };
  for (std::size_t at = 0; at < file_head; at += 3 * each_nth) damage(at, at + 1, flip);
  for (std::size_t i = 0; i < blocks_.size(); i += each_nth) {
    const block_place& b = blocks_[i];
    for (const std::size_t at : {0U, 5U, 9U, 11U, 13U, 17U, 21U, 25U, 32U}) {
      if (b.begin + at < b.end) damage(b.begin + at, b.begin + at + 1, flip);
    }
    damage(b.end - 1, b.end, flip);
  }
}

TEST_F(damaged_checkpoint, with_zeros_over_several_blocks) {
  const auto zero = [](std::span<std::byte> at) { std::fill(at.begin(), at.end(), std::byte{0}); };
  for (std::size_t i = 0; i < blocks_.size(); i += each_nth) {
    for (std::size_t last = i; last < std::min(blocks_.size(), i + 4); ++last) {
      damage(blocks_[i].begin + (i % 2 == 0 ? 0 : 3), blocks_[last].end - 1, zero);
    }
  }
}

TEST_F(damaged_checkpoint, that_was_cut) {
  const std::size_t size = files_->content(name_).size();
  for (const block_place& b : blocks_) {
    for (const std::size_t at : {b.begin, b.begin + 20, b.end - 1}) {
      const disk damaged = files_->copy();
      damaged->content(name_).resize(at);
      const salvage_report r = db::salvage(place, "new", into(damaged));
      SCOPED_TRACE(in_words(r));
      EXPECT_FALSE(r.complete());
      EXPECT_TRUE(r.more_rows_lost || !r.missing.empty()) << "the end says how many there were";
      const database base = database::open("new", over(damaged));
      for (std::uint32_t t = 0; t < 2; ++t) {
        if (blocks_[t].end > at) continue;
        EXPECT_EQ(long_rows_in(base, t == 0 ? "a" : "b"),
                  keys(t, [&](const block_place& w) { return w.end <= at; }));
      }
    }
  }
  const disk longer = files_->copy();
  longer->content(name_).resize(size + 10);
  const salvage_report r = db::salvage(place, "new", into(longer));
  EXPECT_TRUE(r.complete()) << in_words(r);
  EXPECT_TRUE(says_place(r, name_, size));
}

TEST_F(damaged_checkpoint, and_what_the_log_after_it_says_of_lost_rows) {
  {
    database base = database::open(place, over(files_));
    table& a = base.find_table("a");
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (std::int64_t k = 1; k <= rows; ++k) {
        if (auto s = tx.update(a, {k}, {{"n", 1000 + k}}); !s) return s;
      }
      return outcome::ok;
    }));
  }
  const auto first = std::find_if(blocks_.begin(), blocks_.end(),
                                  [](const block_place& b) { return b.kind == 2; });
  files_->content(name_)[first->begin + 100] ^= std::byte{1};
  const salvage_report r = db::salvage(place, "new", into(files_));
  SCOPED_TRACE(in_words(r));
  const std::uint64_t lost =
      keys(0, [&](const block_place& b) { return b.begin == first->begin; }).size();
  EXPECT_EQ(r.lost_rows, lost);
  ASSERT_EQ(r.tables.size(), 2U);
  EXPECT_EQ(r.tables[0].in_part, lost);
  EXPECT_TRUE(r.tables[0].incomplete);
  EXPECT_FALSE(r.tables[1].incomplete) << "its blocks are whole";
  EXPECT_TRUE(r.tables[0].older.empty()) << "the log is whole";
  const bytes& lines = files_->content(r.tables[0].in_part_file);
  const std::string text(reinterpret_cast<const char*>(lines.data()), lines.size());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(lost));
  EXPECT_TRUE(text.starts_with(R"({"k":)")) << text;
  EXPECT_NE(text.find(R"(,"n":10)"), std::string::npos) << text;
  EXPECT_EQ(text.find("text"), std::string::npos) << "that is not known";
  const database base = database::open("new", over(files_));
  const table& a = base.find_table("a");
  base.snapshot().for_each(a, [&](const row& one) {
    EXPECT_EQ(one.get(a.column<std::int64_t>("n")), 1000 + one.get(a.column<std::int64_t>("k")));
  });
}

TEST(salvage, an_older_checkpoint_is_used_if_the_log_goes_on) {
  const disk files = new_disk();
  work(files, 1, 5, true);  // records 1 to 7
  const disk at_first = files->copy();
  work(files, 6, 8);
  const disk before = files->copy();
  work(files, 9, 9, true);
  std::string second;
  for (const std::string& n : files->names()) {
    if (n.find("/checkpoint-") != std::string::npos) second = n;
  }
  // As if the process had died before it removed what the second one has made superfluous.
  const disk both = files->copy();
  for (const std::string& n : before->names()) {
    if (n.find("/checkpoint-") != std::string::npos || n.find("/log-") != std::string::npos) {
      if (!both->has(n)) both->put(n, before->content(n));
    }
  }
  const auto rows = model_of(9, [](std::uint64_t) { return false; }).rows;
  auto got = salvage_all(both->copy());
  EXPECT_TRUE(got.report.complete()) << in_words(got.report);
  EXPECT_EQ(got.rows, rows);
  const disk damaged = both->copy();
  damaged->content(second)[200] ^= std::byte{1};
  got = salvage_all(damaged);
  // The log up to the second one is there but for its last record, and that is in no file.
  EXPECT_FALSE(got.rows.empty());
  for (const auto& [id, row] : got.rows) EXPECT_TRUE(rows.contains(id)) << id;
  EXPECT_TRUE(says_place(got.report, second, 200)) << in_words(got.report);
}

/// Damage with right checksums: what makes no sense is named, and harms nothing else.
TEST(salvage, made_up_records) {
  const disk files = new_disk();
  work(files, 1, 5, true);
  {
    database base = database::open(place, over(files));
    table& ledger = base.find_table("ledger");
    for (std::int64_t n = 6; n <= 8; ++n) ASSERT_TRUE(write_down(base, ledger, n));
    table& more = base.create_table({.name = "more", .columns = {{"k", int64, primary_key}}});
    ASSERT_TRUE(base.create_index(ledger, {.name = "x", .columns = {"n"}}));
    ASSERT_TRUE(base.drop_index(ledger, "by_n"));
    ASSERT_TRUE(base.drop_table(more));
  }
  const std::uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  int refused = 0;
  for (int round = 0; round < tries(400); ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const disk damaged = files->copy();
    const bool in_log = round % 2 == 0;
    bytes& content = damaged->content(in_log ? log_name(8) : checkpoint_name(7));
    seal_again(content, in_log, [&](std::span<std::byte> body) {
      if (body.empty() || random() % 3 != 0) return;
      for (std::uint64_t i = random() % 3 + 1; i > 0; --i) {
        body[random() % body.size()] = static_cast<std::byte>(random());
      }
    });
    const bool opens = [&] {
      try {
        database::open(place, over(damaged->copy()));
        return true;
      } catch (const storage_error&) {
        return false;
      }
    }();
    const salvage_report r = db::salvage(place, "new", into(damaged));
    database base = database::open("new", over(damaged));
    for (const table* t : base.tables()) base.snapshot().for_each(*t, [](const row&) {});
    if (opens) continue;
    ++refused;
    ASSERT_FALSE(r.complete()) << in_words(r);
  }
  EXPECT_GT(refused, 0);
}

/// An older checkpoint, log after it that is damaged, and a newer one that is damaged, too: what
/// the newer one still has lies over what the older files make.
TEST(salvage, blocks_of_a_newer_checkpoint_lie_over_an_older_one) {
  const disk files = new_disk();
  const auto names_with = [](const disk& d, const char* part) {
    std::vector<std::string> all;
    for (const std::string& n : d->names()) {
      if (n.find(part) != std::string::npos) all.push_back(n);
    }
    return all;
  };
  std::map<std::string, bytes> old;
  {
    database base = database::open(place, over(files));
    table& a = make_long_rows(base, "a", 1, 9);
    base.checkpoint();
    for (std::int64_t k = 1; k <= 9; ++k) {
      ASSERT_TRUE(
          base.transact([&](transaction& tx) { return tx.update(a, {k}, {{"n", 100 + k}}); }));
    }
    for (const std::string& n : files->names()) old[n] = files->content(n);
    base.checkpoint();
  }
  const std::string newer = names_with(files, "/checkpoint-").back();
  for (const auto& [name, content] : old) {
    if (!files->has(name) && name.find(".tmp") == std::string::npos) files->put(name, content);
  }
  const auto older_log = names_with(files, "/log-").front();
  const auto records = records_of(files->content(older_log));
  ASSERT_GE(records.size(), 9U);
  files->content(older_log)[records[3].end - 1] ^= std::byte{1};  // the update of row 4
  const auto blocks = blocks_of(files->content(newer));
  const auto hit = std::find_if(blocks.begin(), blocks.end(), [](const block_place& b) {
    return std::find(b.keys.begin(), b.keys.end(), 4) != b.keys.end();
  });
  ASSERT_NE(hit, blocks.end());
  files->content(newer)[hit->end - 1] ^= std::byte{1};
  const salvage_report r = db::salvage(place, "new", into(files));
  SCOPED_TRACE(in_words(r));
  const database base = database::open("new", over(files));
  const table& a = base.find_table("a");
  std::int64_t rows = 0;
  base.snapshot().for_each(a, [&](const row& x) {
    const auto k = x.get(a.column<std::int64_t>("k"));
    EXPECT_EQ(x.get(a.column<std::int64_t>("n")), k == 4 ? 28 : 100 + k);
    EXPECT_EQ(x.get(a.column<std::string_view>("text")), long_text(k));
    ++rows;
  });
  EXPECT_EQ(rows, 9) << "also those that are in no whole block of the newer one";
  EXPECT_FALSE(r.complete());
  ASSERT_EQ(r.tables.size(), 1U);
  std::uint64_t older = 0;
  for (const older_rows& o : r.tables[0].older) older += o.rows;
  EXPECT_EQ(older, hit->keys.size()) << "the others are as the newer one has them";
}

/// A lost record has renamed or dropped a table whose name another one takes in a record that is
/// whole: each row that a whole record has comes out.
class lost_names : public testing::Test {
 protected:
  table& make(const char* name, std::int64_t first) {
    table& t = base_->create_table({.name = name, .columns = {{"k", int64, primary_key}}});
    put(t, first);
    return t;
  }
  void put(table& t, std::int64_t first) {
    EXPECT_TRUE(base_->transact([&](transaction& tx) -> status {
      if (const status done = tx.insert(t, {first}); !done) return done;
      return tx.insert(t, {first + 1});
    }));
  }
  /// Damages what `lost` has written, and brings out the rest: the rows of each table by its name.
  std::map<std::string, std::vector<std::int64_t>> without(const std::function<void()>& lost,
                                                           const std::function<void()>& after) {
    const std::uint64_t first = base_->stats().log.sequence + 1;
    lost();
    const std::uint64_t last = base_->stats().log.sequence;
    after();
    base_.reset();
    bytes& log = files_->content(log_name(1));
    for (const record_place& r : records_of(log)) {
      if (first <= r.number && r.number <= last) log[r.end - 1] ^= std::byte{1};
    }
    report_ = db::salvage(place, "new", into(files_));
    const database made = database::open("new", over(files_));
    std::map<std::string, std::vector<std::int64_t>> all;
    for (const table* const t : made.tables()) {
      std::vector<std::int64_t>& keys = all[t->name()];
      const auto k = t->column<std::int64_t>("k");
      made.snapshot().for_each(*t, [&](const row& r) { keys.push_back(r.get(k)); });
      std::sort(keys.begin(), keys.end());
    }
    return all;
  }
  std::string former_name(const std::string& name) const {
    for (const salvaged_table& t : report_.tables) {
      if (t.name == name) return t.former_name;
    }
    return "no such table";
  }

  using found = std::map<std::string, std::vector<std::int64_t>>;
  const disk files_ = new_disk();
  std::optional<database> base_{database::open(place, over(files_))};
  salvage_report report_;
};

TEST_F(lost_names, of_a_table_that_was_renamed) {
  table& a = make("a", 1);
  table& b = make("b", 11);
  make("a 2", 21);  // that name is taken
  const found all = without([&] { ASSERT_TRUE(base_->rename_table(a, "c")); },
                            [&] {
                              ASSERT_TRUE(base_->rename_table(b, "a"));
                              put(a, 3);
                              put(b, 13);
                            });
  EXPECT_EQ(all, (found{{"a", {11, 12, 13, 14}}, {"a 2", {21, 22}}, {"a 3", {1, 2, 3, 4}}}));
  EXPECT_EQ(former_name("a 3"), "a");
  EXPECT_EQ(former_name("a"), "");
  EXPECT_FALSE(report_.complete());
}

TEST_F(lost_names, of_a_table_that_was_dropped) {
  table& a = make("a", 1);
  const found all = without([&] { ASSERT_TRUE(base_->drop_table(a)); }, [&] { make("a", 11); });
  EXPECT_EQ(all, (found{{"a", {11, 12}}, {"a 2", {1, 2}}}));
  EXPECT_EQ(former_name("a 2"), "a");
}

/// It has the name that a whole record gives it in the end.
TEST_F(lost_names, of_two_that_were_exchanged) {
  table& a = make("a", 1);
  table& b = make("b", 11);
  const found all = without([&] { ASSERT_TRUE(base_->rename_table(a, "aside")); },
                            [&] {
                              ASSERT_TRUE(base_->rename_table(b, "a"));
                              ASSERT_TRUE(base_->rename_table(a, "b"));
                            });
  EXPECT_EQ(all, (found{{"a", {11, 12}}, {"b", {1, 2}}}));
  EXPECT_EQ(former_name("b"), "");
}

TEST(salvage, older_formats_are_read) {
  for (const std::uint32_t format : {1U, 2U, 3U, 4U}) {
    const disk files = new_disk();
    work(files, 1, 6);
    bytes& log = files->content(log_name(1));
    put_at(log, 12, format);
    put_at(log, 8, plain_crc(std::span(log).subspan(12, 52)));
    const auto records = records_of(log);
    log[records[3].begin + 45] ^= std::byte{1};
    const auto got = salvage_all(files);
    EXPECT_EQ(got.rows, model_of(6, [](std::uint64_t n) { return n == 4; }).rows);
    EXPECT_EQ(got.report.missing, std::vector({missing_records{4, 4}}));
  }
}

/// The checksums are right, and two rows of a checkpoint have one key: the first one stays.
TEST(salvage, a_checkpoint_in_which_a_key_comes_twice) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    table& t =
        base.create_table({.name = "t", .columns = {{"k", int64, primary_key}, {"v", int64}}});
    for (std::int64_t n = 1; n <= 20; ++n) {
      ASSERT_TRUE(base.transact(
          [&](transaction& tx) { return tx.insert(t, {0x4141414141414100 + n, n}); }));
    }
    base.checkpoint();
  }
  bytes fifth(8, std::byte{'A'});
  fifth[0] = std::byte{5};
  seal_again(files->content(checkpoint_name(22)), false, [&](std::span<std::byte> body) {
    const auto at = std::search(body.begin(), body.end(), fifth.begin(), fifth.end());
    if (at != body.end()) *at = std::byte{12};
  });
  const salvage_report r = db::salvage(place, "new", into(files));
  EXPECT_FALSE(r.complete());
  EXPECT_NE(in_words(r).find("a key comes twice"), std::string::npos) << in_words(r);
  ASSERT_EQ(r.tables.size(), 1U);
  EXPECT_EQ(r.tables[0].rows, 19U);
}

}  // namespace
