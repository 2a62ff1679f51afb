// SPDX-License-Identifier: Apache-2.0
// Comparing memory with the files beside writers and checkpoints: what is equal is said to be
// equal, and each kind of difference is found and named.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "db/durable.hpp"
#include "db/index/index.hpp"
#include "db/own_place.hpp"
#include "db/salvaged.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;
using namespace std::string_view_literals;
using differing = verify_difference::kind;

// No call takes an entry out of an index and leaves the row. So the test goes behind the interface:
// the rules of access do not hold for the arguments of an explicit instantiation.
secondary_index& entries_of(const secondary& of);
template <auto Member>
struct lets_in {
  friend secondary_index& entries_of(const secondary& of) { return *(of.*Member); }
};
template struct lets_in<&secondary::entries_>;

/// The rows with the numbers lo..hi in an int64 column are not in the index any more.
void lose_entries(const secondary& of, std::int64_t lo, std::int64_t hi) {
  for (std::int64_t n = lo; n <= hi; ++n) {
    const key_words key{number_in_key(static_cast<std::uint64_t>(n))};
    std::vector<std::uint64_t> found;
    const auto note = [&](std::uint64_t slot, const std::uint64_t*) {
      found.push_back(slot);
      return true;
    };
    entries_of(of).scan(key, key, std::numeric_limits<std::uint64_t>::max() / 2,
                        slot_visitor(note));
    for (const std::uint64_t slot : found) {
      ASSERT_TRUE(entries_of(of).remove(key, slot, entries_of(of).entry_of(key, slot).claim));
    }
  }
}

class verified : public growing_ledger {
 protected:
  [[nodiscard]] std::vector<std::string> data_files() const {
    std::vector<std::string> all;
    for (const std::string& name : files_->names()) {
      if (name.ends_with(".spl") && !name.ends_with("reserve.spl")) all.push_back(name);
    }
    return all;
  }
  /// Puts `to` where `from` is in the bodies of records, or of blocks: once in all.
  void put_in_place(const bytes& from, const bytes& to) {
    ASSERT_EQ(from.size(), to.size());
    int times = 0;
    for (const std::string& name : data_files()) {
      bytes& content = files_->content(name);
      const bool log = name.find("log-") != std::string::npos;
      if (log) {
        const auto records = records_of(content);
        content.resize(records.empty() ? file_head : records.back().end);
      }
      seal_again(content, log, [&](std::span<std::byte> body) {
        const auto at = std::search(body.begin(), body.end(), from.begin(), from.end());
        if (at == body.end()) return;
        ++times;
        std::copy(to.begin(), to.end(), at);
      });
    }
    ASSERT_EQ(times, 1);
  }
  static bytes chars(std::string_view s) {
    const auto all = std::as_bytes(std::span(s));
    return {all.begin(), all.end()};
  }
  /// How a row is put that has this key of one number.
  static bytes put_of(std::int64_t key, std::uint32_t length) {
    bytes all(17);
    all[0] = std::byte{1};
    put_at(all, 5, length);
    put_at(all, 9, key);
    return all;
  }
  verify_report equal() {
    const verify_report r = base_.verify();
    EXPECT_TRUE(r.equal()) << r.text();
    EXPECT_TRUE(r.shown.empty());
    EXPECT_NE(r.text().find("memory and the files are equal"), std::string::npos);
    return r;
  }
};

TEST_F(verified, memory_is_what_the_files_make) {
  EXPECT_EQ(equal().rows, 0U);
  write(20);
  const std::uint64_t changes = files_->changes;
  const auto names = files_->names();
  const verify_report now = equal();
  EXPECT_EQ(now.tables, 1U);
  EXPECT_EQ(now.rows, 17U);
  EXPECT_EQ(now.sequence, base_.stats().log.sequence);
  EXPECT_EQ(now.found_sequence, now.sequence);
  EXPECT_EQ(files_->changes, changes) << "nothing is written for it";
  EXPECT_EQ(files_->names(), names);
  base_.checkpoint();
  EXPECT_EQ(equal().rows, 17U);
  write(30);
  EXPECT_EQ(equal().rows, 25U);
  EXPECT_EQ(commits_in(base_), 30);
  base_ = database::open();
  options o = over(files_);
  o.read_only = true;
  base_ = database::open(place, o);
  EXPECT_EQ(equal().rows, 25U);
}

TEST_F(verified, what_is_attached_is_compared_with_what_was_read) {
  write(10);
  options o = over(files_);
  o.read_only = o.attach = true;
  database there = database::open(place, o);
  write(20);
  base_.checkpoint();
  write(25);
  const verify_report r = there.verify();
  EXPECT_TRUE(r.equal()) << r.text();
  EXPECT_EQ(r.rows, 9U);
}

// It keeps them, and the process that has the database removes them.
TEST_F(verified, what_is_attached_is_compared_with_files_that_were_removed) {
  write(10);
  base_.checkpoint();
  options o = over(files_);
  o.read_only = o.attach = true;
  database there = database::open(place, o);
  const auto names = files_->names();
  for (std::int64_t n = 20; n <= 50; n += 10) {
    write(n);
    base_.checkpoint();
  }
  const auto now = files_->names();
  ASSERT_FALSE(std::includes(now.begin(), now.end(), names.begin(), names.end()));
  const verify_report r = there.verify();
  EXPECT_TRUE(r.equal()) << r.text();
  EXPECT_EQ(r.rows, 9U);
}

TEST_F(verified, all_types_and_indexes) {
  table& t = base_.create_table({.name = "all",
                                 .columns = {{"a", text(8), primary_key},
                                             {"b", int64, primary_key},
                                             {"c", float64, nullable},
                                             {"d", decimal(2)},
                                             {"e", timestamp},
                                             {"f", text()},
                                             {"g", blob(), nullable},
                                             {"h", int64},
                                             {"i", int64}},
                                 .primary = index_kind::ordered,
                                 .indexes = {{"by_h", {"h"}, false, index_kind::hash},
                                             {"by_i", {"i"}, true, index_kind::hash},
                                             {"by_both", {"h", "i"}, true}}});
  const std::string long_text(300, 'x');
  for (std::int64_t n = 0; n < 200; ++n) {
    const double c = n % 3 == 0 ? std::numeric_limits<double>::quiet_NaN() : -0.0;
    ASSERT_TRUE(base_.transact([&](transaction& tx) {
      return tx.insert(t, {n % 2 == 0 ? "even" : "odd", n, n % 5 == 0 ? value(nullptr) : value(c),
                           decimal_number{n, 2}, instant_at(n),
                           std::string_view(long_text).substr(0, static_cast<std::size_t>(n)),
                           n % 7 == 0 ? value(nullptr) : value(blob_view("\0\1"sv)), n % 10, n});
    }));
  }
  EXPECT_EQ(equal().rows, 200U);
  base_.checkpoint();
  EXPECT_EQ(equal().rows, 200U);
  lose_entries(t.index("by_i"), 17, 17);
  lose_entries(t.index("by_h"), 4, 4);
  const verify_report r = base_.verify();
  EXPECT_EQ(r.different_indexes, 2U);
  EXPECT_EQ(r.differences(), 2U);
  ASSERT_EQ(r.shown.size(), 2U);
  EXPECT_EQ(r.shown[0].details, "index by_h of memory leads to 180 rows, and the table has 200");
  EXPECT_EQ(r.shown[1].details, "index by_i of memory leads to 199 rows, and the table has 200");
  EXPECT_EQ(r.shown[0].what, differing::index);
  EXPECT_TRUE(base_.verify({.indexes = false}).equal());
}

// --- what differs -------------------------------------------------------------------------------

TEST_F(verified, a_value_that_differs) {
  write(10);
  put_in_place(chars("note 7"), chars("note 9"));
  const verify_report r = base_.verify();
  EXPECT_FALSE(r.equal());
  EXPECT_EQ(r.different_rows, 1U);
  EXPECT_EQ(r.differences(), 1U);
  ASSERT_EQ(r.shown.size(), 1U);
  EXPECT_EQ(r.shown[0].what, differing::row);
  EXPECT_EQ(r.shown[0].table, "ledger");
  EXPECT_EQ(r.shown[0].key, "7");
  EXPECT_EQ(r.shown[0].details, R"(column note is "note 7" in memory and "note 9" in the files)");
  EXPECT_EQ(r.text(),
            "up to change 11: 1 table, 9 rows: 1 difference\n  table ledger, row 7: column note is "
            "\"note 7\" in memory and \"note 9\" in the files\n");
}

TEST_F(verified, a_value_that_lies_apart) {
  write(10);
  base_.checkpoint();
  const std::string memo(22, 'g');  // of row 6
  std::string other = memo;
  other.back() = 'h';
  put_in_place(chars(memo), chars(other));
  const verify_report r = base_.verify();
  EXPECT_EQ(r.differences(), 1U);
  ASSERT_EQ(r.different_rows, 1U);
  EXPECT_EQ(r.shown[0].details,
            "column memo is \"" + memo + "\" in memory and \"" + other + "\" in the files");
}

TEST_F(verified, long_values_are_cut) {
  table& t = base_.create_table(
      {.name = "long", .columns = {{"id", text(2), primary_key}, {"a", text()}, {"b", int64}}});
  std::string a(79, 'a');
  for (int n = 0; n < 30; ++n) a += "é";
  ASSERT_TRUE(base_.transact([&](transaction& tx) { return tx.insert(t, {"k", a, 77}); }));
  bytes number(8);
  put_at(number, 0, std::int64_t{77});
  bytes another = number;
  another[0] = std::byte{78};
  std::string b = a;
  b.back() = static_cast<char>(b.back() + 1);
  put_in_place(chars(a), chars(b));
  put_in_place(number, another);
  const verify_report r = base_.verify();
  ASSERT_EQ(r.different_rows, 1U);
  EXPECT_EQ(r.shown[0].key, "\"k\"");
  const std::string cut = "\"" + std::string(79, 'a') + "\"... of 139 bytes";
  EXPECT_EQ(r.shown[0].details,
            "column a is " + cut + " in memory and " + cut + " in the files; 1 more column");
}

TEST_F(verified, a_null_is_no_zero) {
  table& t = base_.create_table(
      {.name = "nulls", .columns = {{"id", int64, primary_key}, {"a", int64, nullable}}});
  ASSERT_TRUE(base_.transact([&](transaction& tx) -> status {
    if (auto s = tx.insert(t, {71, 1}); !s) return s;
    return tx.insert(t, {72, 1});
  }));
  const auto update = [&](std::int64_t key, const value& to) {
    ASSERT_TRUE(base_.transact([&](transaction& tx) { return tx.update(t, {key}, {{"a", to}}); }));
  };
  update(71, 0);
  update(72, nullptr);
  EXPECT_TRUE(base_.verify().equal());
  // As the guide has it: set; table 1 and the length, packed; key; which columns, which are null.
  bytes zero{std::byte{3}, std::byte{3}, std::byte{23}};
  zero.resize(11);
  put_at(zero, 3, std::int64_t{71});
  bytes null = zero;
  null[3] = std::byte{72};
  null[2] = std::byte{21};
  put_in_place(zero, zero);
  put_in_place(null, null);
  bytes to_other = null;
  to_other[3] = std::byte{71};
  put_in_place(null, to_other);  // 71 is null, and 72 is 1
  const verify_report r = base_.verify();
  EXPECT_EQ(r.different_rows, 2U);
  ASSERT_EQ(r.shown.size(), 2U);
  EXPECT_EQ(r.shown[0].details, "column a is 0 in memory and null in the files");
  EXPECT_EQ(r.shown[1].details, "column a is null in memory and 1 in the files");
}

TEST_F(verified, a_row_that_one_of_them_lacks) {
  write(10);
  base_.checkpoint();  // blocks have rows without the head of a change
  bytes key(8);
  put_at(key, 0, std::int64_t{7});
  bytes with_nulls = key;
  with_nulls.resize(16);
  put_at(with_nulls, 8, std::uint64_t{1} << 4U);  // no memo
  put_at(with_nulls, 0, std::int64_t{7});
  bytes another = with_nulls;
  put_at(another, 0, std::int64_t{1007});
  put_in_place(with_nulls, another);
  const verify_report r = base_.verify();
  EXPECT_EQ(r.rows_only_in_memory, 1U);
  EXPECT_EQ(r.rows_only_in_files, 1U);
  EXPECT_EQ(r.differences(), 2U);
  ASSERT_EQ(r.shown.size(), 2U);
  EXPECT_EQ(r.shown[0].what, differing::row_only_in_memory);
  EXPECT_EQ(r.shown[0].key, "7");
  EXPECT_EQ(r.shown[0].details, "the files lack it");
  EXPECT_EQ(r.shown[1].what, differing::row_only_in_files);
  EXPECT_EQ(r.shown[1].key, "1007");
  EXPECT_EQ(r.shown[1].details, "memory lacks it");
}

TEST_F(verified, an_end_of_the_log_that_is_missing) {
  write(10);
  const std::string last = data_files().back();
  bytes& content = files_->content(last);
  const record_place gone = records_of(content).back();
  std::fill(content.begin() + static_cast<std::ptrdiff_t>(gone.begin), content.end(), std::byte{0});
  const verify_report r = base_.verify();
  EXPECT_EQ(r.found_sequence + 1, r.sequence);
  ASSERT_FALSE(r.shown.empty());
  EXPECT_EQ(r.shown[0].what, differing::end_of_log);
  EXPECT_EQ(r.shown[0].details,
            "the files lead to change 10, and all up to change 11 was durable: " + last +
                " ends at byte " + std::to_string(gone.begin));
  EXPECT_EQ(r.rows_only_in_memory, 1U) << "row 10";
  EXPECT_EQ(r.rows_only_in_files, 1U) << "row 8";
  EXPECT_EQ(r.different_rows, 1U) << "the counter";
  EXPECT_EQ(r.differences(), 4U);
}

TEST_F(verified, files_that_an_opening_would_refuse) {
  write(10);
  bytes& content = files_->content(data_files().back());
  const auto records = records_of(content);
  content[records[4].end - 1] ^= std::byte{1};
  try {
    static_cast<void>(base_.verify());
    ADD_FAILURE() << "it was not refused";
  } catch (const storage_error& e) {
    EXPECT_EQ(e.offset(), records[4].begin);
  }
  content[records[4].end - 1] ^= std::byte{1};
  equal();
  base_.checkpoint();
  write(20);
  const auto names = data_files();
  const auto checkpoint = std::find_if(names.begin(), names.end(), [](const std::string& n) {
    return n.find("checkpoint-") != std::string::npos;
  });
  files_->content(*checkpoint)[200] ^= std::byte{1};
  EXPECT_THROW(static_cast<void>(base_.verify()), storage_error);
}

/// An older checkpoint that could not be removed does not stand in for the newest.
TEST_F(verified, the_newest_checkpoint_is_looked_at) {
  write(5);
  base_.checkpoint();
  write(10);
  // As it is when the next checkpoint is whole, and its log ends.
  disk kept;
  files_->before_sync = [&] { kept = files_->copy(); };
  base_.checkpoint();
  files_->before_sync = nullptr;
  const auto newest = data_files();
  for (const std::string& name : kept->names()) {
    if (!files_->has(name) && !name.ends_with(".tmp")) files_->put(name, kept->content(name));
  }
  ASSERT_GT(data_files().size(), newest.size());
  equal();
  for (const std::string& name : newest) {
    if (name.find("checkpoint-") != std::string::npos) files_->content(name)[200] ^= std::byte{1};
  }
  EXPECT_THROW(static_cast<void>(base_.verify()), storage_error);
}

TEST_F(verified, tables_that_differ) {
  table& second = base_.create_table({.name = "second", .columns = {{"id", int64, primary_key}}});
  write(3);
  ASSERT_TRUE(base_.drop_table(second));
  ASSERT_TRUE(base_.verify().equal());
  bytes second_number(4);
  put_at(second_number, 0, std::uint32_t{1});
  const std::string last = data_files().back();
  bytes& content = files_->content(last);
  content.resize(records_of(content).back().end);
  // The body of the record that drops it is the last four bytes.
  const bytes body(content.end() - 4, content.end());
  ASSERT_EQ(body, second_number);
  std::size_t at = 0;
  const std::size_t records = records_of(content).size();
  seal_again(content, true, [&](std::span<std::byte> of) {
    if (++at == records) of[0] = std::byte{0};
  });
  const verify_report r = base_.verify();
  EXPECT_EQ(r.different_tables, 2U);
  ASSERT_EQ(r.shown.size(), 2U);
  EXPECT_EQ(r.shown[0].what, differing::table);
  EXPECT_EQ(r.shown[0].table, "ledger");
  EXPECT_EQ(r.shown[0].details, "the files lack it");
  EXPECT_EQ(r.shown[1].table, "second");
  EXPECT_EQ(r.shown[1].details, "memory lacks it");
}

TEST_F(verified, descriptions_that_differ) {
  write(3);
  const auto only_table = [&](const char* from, const char* to, const char* details) {
    put_in_place(chars(from), chars(to));
    const verify_report r = base_.verify();
    EXPECT_EQ(r.different_tables, 1U);
    EXPECT_EQ(r.differences(), 1U) << r.text();
    ASSERT_EQ(r.shown.size(), 1U);
    EXPECT_EQ(r.shown[0].table, "ledger");
    EXPECT_EQ(r.shown[0].details, details);
    EXPECT_EQ(r.rows, from == "even"sv ? 0U : 4U) << "rows of other columns are not compared";
    put_in_place(chars(to), chars(from));
  };
  only_table("ledger", "ledges", "the files call it ledges");
  only_table("even", "ever", "the files have other columns");
  only_table("by_n", "by_m", "the files have other indexes for it");
  equal();
}

TEST_F(verified, an_index_that_lacks_rows) {
  write(10);
  lose_entries(ledger_.index("by_n"), 40, 60);
  const verify_report r = base_.verify();
  EXPECT_EQ(r.differences(), 1U);
  EXPECT_EQ(r.different_indexes, 1U);
  ASSERT_EQ(r.shown.size(), 1U);
  EXPECT_EQ(r.shown[0].details, "index by_n of memory leads to 6 rows, and the table has 9");
}

TEST_F(verified, many_differences_are_counted_and_few_shown) {
  write(2);
  for (std::int64_t n = 100; n < 150; ++n) {
    ASSERT_TRUE(base_.transact(
        [&](transaction& tx) { return tx.insert(ledger_, {n, n, nullptr, false, nullptr}); }));
  }
  bytes& content = files_->content(data_files().back());
  content.resize(records_of(content)[2].end);
  verify_report r = base_.verify({.most_shown = 3});
  EXPECT_EQ(r.rows_only_in_memory, 50U);
  EXPECT_EQ(r.differences(), 51U);
  EXPECT_EQ(r.shown.size(), 3U);
  EXPECT_TRUE(r.text().ends_with("\n  and 48 more\n")) << r.text();
  EXPECT_EQ(std::ranges::count(r.text(), '\n'), 5);
  r = base_.verify({.most_shown = 0});
  EXPECT_EQ(r.differences(), 51U);
  EXPECT_TRUE(r.shown.empty());
}

// --- what goes on meanwhile ---------------------------------------------------------------------

/// Calls `f` in the midst of the reading of the files that a comparison does.
class in_between {
 public:
  in_between(memory_files& files, std::function<void()> f) : files_(files) {
    files_.after_read = [this, f = std::move(f)](const std::string& name, std::span<std::byte>) {
      if (name.find(".spl") == std::string::npos || std::exchange(done_, true)) return;
      f();
    };
  }
  in_between(const in_between&) = delete;
  in_between& operator=(const in_between&) = delete;
  ~in_between() {
    EXPECT_TRUE(done_);
    files_.after_read = nullptr;
  }

 private:
  memory_files& files_;
  bool done_ = false;
};

TEST_F(verified, goes_on_without_its_files) {
  write(10);
  base_.checkpoint();
  write(15);
  const in_between now(*files_, [&] {
    EXPECT_EQ(base_.readers().at(0).label, "verify");
    write(20);
    base_.checkpoint();
    write(25);
    base_.checkpoint();
  });
  EXPECT_EQ(equal().rows, 13U);
  EXPECT_EQ(equal().rows, 21U);
}

/// A checkpoint that begins between the snapshot and the opening of the files waits.
TEST_F(verified, no_later_checkpoint_is_looked_at) {
  write(10);
  std::atomic<bool> begun{false};
  std::atomic<bool> made{false};
  std::thread makes;
  files_->after_list = [&](std::vector<std::string>&) {
    if (begun.exchange(true)) return;
    makes = std::thread([&] {
      write(15);
      base_.checkpoint();
      made = true;
    });
    for (int i = 0; i < 50 && !made; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  EXPECT_EQ(equal().rows, 9U);
  makes.join();
  EXPECT_EQ(equal().rows, 13U);
  files_->after_list = nullptr;
}

/// Several at once, beside a thread that makes checkpoints: each finds its files.
TEST_F(verified, by_several_threads) {
  write(10);
  std::atomic<bool> stop{false};
  std::thread makes([&] {
    while (!stop) base_.checkpoint();
  });
  std::vector<std::thread> threads;
  std::atomic<int> equal{0};
  for (int n = 0; n < 3; ++n) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const verify_report r = base_.verify({.threads = 1});
        if (r.equal() && r.rows == 9) ++equal;
      }
    });
  }
  for (std::thread& one : threads) one.join();
  stop = true;
  makes.join();
  EXPECT_EQ(equal, 60);
  EXPECT_TRUE(base_.readers().empty());
}

TEST_F(verified, tables_and_indexes_come_and_go_meanwhile) {
  table& second =
      base_.create_table({.name = "second", .columns = {{"id", int64, primary_key}, {"n", int64}}});
  ASSERT_TRUE(base_.transact([&](transaction& tx) { return tx.insert(second, {1, 2}); }));
  write(10);
  ASSERT_TRUE(base_.create_index(ledger_, {.name = "by_even", .columns = {"even", "id"}}));
  {
    const in_between now(*files_, [&] {
      ASSERT_TRUE(base_.drop_table(second));
      ASSERT_TRUE(base_.drop_index(ledger_, "by_even"));
      ASSERT_TRUE(base_.create_index(ledger_, {.name = "by_id", .columns = {"id"}}));
      base_.create_table({.name = "second", .columns = {{"other", text(4), primary_key}}});
      write(20);
      base_.collect();
    });
    const verify_report r = equal();
    EXPECT_EQ(r.tables, 2U);
    EXPECT_EQ(r.rows, 10U);
  }
  const verify_report r = equal();
  EXPECT_EQ(r.tables, 2U);
  EXPECT_EQ(r.rows, 17U);
}

/// An index whose record comes before the snapshot, and which is not shown yet.
TEST_F(verified, an_index_that_is_on_its_way_to_the_disk) {
  write(10);
  std::atomic<bool> in_sync{false};
  std::atomic<bool> go_on{false};
  std::thread::id maker;
  files_->before_sync = [&] {
    if (std::this_thread::get_id() != maker || in_sync.exchange(true)) return;
    while (!go_on) std::this_thread::yield();
  };
  std::thread makes([&] {
    maker = std::this_thread::get_id();
    EXPECT_TRUE(base_.create_index(ledger_, {.name = "by_id", .columns = {"id"}}));
  });
  while (!in_sync) std::this_thread::yield();
  std::thread lets_go([&] {
    const auto begun = [](const reader_info& r) { return r.label == "verify"; };
    while (std::ranges::none_of(base_.readers(), begun)) std::this_thread::yield();
    go_on = true;
  });
  equal();
  makes.join();
  lets_go.join();
  files_->before_sync = nullptr;
  equal();
}

TEST_F(verified, beside_readers_of_long_ago) {
  write(10);
  const reader old = base_.snapshot("old");
  write(30);
  base_.checkpoint();
  write(40);
  EXPECT_EQ(equal().rows, 33U);
  std::int64_t rows = 0;
  old.for_each(ledger_, [&](const row&) { ++rows; });
  EXPECT_EQ(rows, 9);
}

TEST_F(verified, its_snapshot_can_be_ended) {
  write(10);
  const in_between now(*files_, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    write(20);
    base_.collect();
  });
  try {
    static_cast<void>(base_.verify({.deadline = std::chrono::milliseconds(1)}));
    ADD_FAILURE() << "it went on";
  } catch (const no_result& e) {
    EXPECT_EQ(e.code(), outcome::ended_by_policy);
  }
  EXPECT_TRUE(base_.readers().empty());
}

/// A commit that is on its way to the disk is in it when that is done.
TEST_F(verified, what_is_not_durable_yet_is_waited_for) {
  base_ = database::open();
  options o = over(files_);
  o.durability = durability_level::async;
  o.loss_window = std::chrono::hours(1);
  base_ = database::open(place, o);
  table& ledger = base_.find_table("ledger");
  for (std::int64_t n = 1; n <= 10; ++n) ASSERT_TRUE(write_down(base_, ledger, n));
  EXPECT_LT(base_.stats().log.durable, base_.stats().log.sequence);
  EXPECT_EQ(equal().rows, 9U);
  EXPECT_EQ(base_.stats().log.durable, base_.stats().log.sequence);
}

/// Real files, small segments, checkpoints all the time, serializable commits among the writers,
/// tables and indexes that come and go.
TEST_F(verified, beside_writers_and_checkpoints) {
  for (const durability_level level : {durability_level::sync, durability_level::async}) {
    options o;
    o.durability = level;
    o.segment_bytes = 8192;
    o.checkpoint_log_bytes = 64U << 10U;
    database base = database::open(level == durability_level::sync ? "sync" : "async", o);
    table& t = base.create_table({.name = "all",
                                  .columns = {{"id", int64, primary_key}, {"n", int64}},
                                  .indexes = {{"by_n", {"n"}, false, index_kind::hash}}});
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> done{0};
    std::vector<std::thread> threads;
    for (std::int64_t w = 0; w < 3; ++w) {
      threads.emplace_back([&, w] {
        const retries how{
            .begin = {.isolation = w == 0 ? isolation::serializable : isolation::snapshot}};
        for (std::int64_t n = 0; !stop; ++n) {
          const std::int64_t key = n * 7 % 50 + w;
          const status s = base.transact(
              [&](transaction& tx) -> status {
                const auto found = tx.find(t, {key});
                if (!found) return tx.insert(t, {key, n});
                if (n % 3 == 0) return tx.erase(t, {key});
                return tx.update(t, {key}, {{"n", n % 20}});
              },
              how);
          if (s) ++done;
        }
      });
    }
    threads.emplace_back([&] {
      for (int n = 0; !stop; ++n) {
        table& made = base.create_table(
            {.name = "some" + std::to_string(n % 3), .columns = {{"id", int64, primary_key}}});
        ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(made, {n}); }));
        ASSERT_TRUE(base.create_index(t, {.name = "by_id", .columns = {"id"}, .unique = true}));
        ASSERT_TRUE(base.drop_table(made));
        ASSERT_TRUE(base.drop_index(t, "by_id"));
      }
    });
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    int rounds = 0;
    for (; std::chrono::steady_clock::now() < until || rounds < tries(40); ++rounds) {
      const std::uint64_t before = done;
      const verify_report r = base.verify();
      ASSERT_TRUE(r.equal()) << r.text();
      while (done == before) std::this_thread::yield();
    }
    stop = true;
    for (std::thread& one : threads) one.join();
    EXPECT_GT(base.stats().log.checkpoints, 0U);
  }
}

// --- what is refused ----------------------------------------------------------------------------

TEST_F(verified, without_files_or_a_log) {
  const auto refused = [](database& base) {
    try {
      static_cast<void>(base.verify());
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  database memory = database::open();
  EXPECT_NE(refused(memory).find("in memory only"), std::string::npos);
  options o = over(new_disk());
  o.durability = durability_level::none;
  database none = database::open(place, o);
  EXPECT_NE(refused(none).find("durability_level::none"), std::string::npos);
  std::string in_sink;
  base_.backup([&](std::span<const std::byte>) { in_sink = refused(base_); });
  EXPECT_NE(in_sink.find("verify()"), std::string::npos) << in_sink;
}

TEST_F(verified, after_the_log_has_failed) {
  write(10);
  files_->sync_fails_at = files_->syncs + 1;
  EXPECT_EQ(write_down(base_, ledger_, 11), outcome::storage_failed);
  EXPECT_THROW(static_cast<void>(base_.verify()), storage_error);
  EXPECT_TRUE(base_.readers().empty());
  base_.resume();
  last_ = 11;
  write(20);
  EXPECT_EQ(equal().rows, 17U);
}

}  // namespace
