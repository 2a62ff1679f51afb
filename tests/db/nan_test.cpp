// SPDX-License-Identifier: Apache-2.0
// Doubles as keys and values: one zero, one NaN, and bits that no arithmetic changes; and stores
// that were written when NaNs were many.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <spolia/db/json.hpp>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "db/seals.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

std::uint64_t bits_of(double v) { return std::bit_cast<std::uint64_t>(v); }
double of_bits(std::uint64_t bits) { return std::bit_cast<double>(bits); }

constexpr std::uint64_t the_one = 0x7FF8000000000000U;
/// What sqrt(-1) is on some processors, and other NaNs.
constexpr std::uint64_t negative = 0xFFF8000000000000U;
constexpr std::uint64_t with_payload = 0x7FF8000000000007U;
constexpr std::uint64_t signaling = 0x7FF0000000000001U;
constexpr std::uint64_t many[] = {the_one, negative, with_payload, signaling, 0xFFFFFFFFFFFFFFFFU};

TEST(one_nan, words) {
  for (const std::uint64_t n : many) EXPECT_EQ(double_word(n), the_one);
  EXPECT_EQ(double_word(bits_of(-0.0)), 0U);
  for (const std::uint64_t same :
       {bits_of(0.0), bits_of(1.0), bits_of(-1.0), std::uint64_t{1}, 0x8000000000000001U,
        0x7FF0000000000000U, 0xFFF0000000000000U, 0x7FEFFFFFFFFFFFFFU}) {
    EXPECT_EQ(double_word(same), same);
  }
}

struct key_kind {
  index_kind primary;
  hash_kind hashes;
};
class one_nan_as : public testing::TestWithParam<key_kind> {
 protected:
  database base = database::open({.hash_indexes = GetParam().hashes});
  table& t = base.create_table(
      {.name = "t",
       .columns = {{"k", float64, primary_key},
                   {"v", float64},
                   {"plain", float64, nullable},
                   {"h", float64}},
       .primary = GetParam().primary,
       .indexes = {{"u", {"v"}, true}, {"by_h", {"h"}, false, index_kind::hash}}});
  column<double> plain = t.column<double>("plain");
  column<double> v = t.column<double>("v");
};
INSTANTIATE_TEST_SUITE_P(each, one_nan_as,
                         testing::Values(key_kind{index_kind::hash, hash_kind::probing},
                                         key_kind{index_kind::hash, hash_kind::cuckoo},
                                         key_kind{index_kind::ordered, hash_kind::probing}),
                         [](const auto& i) {
                           return std::string(i.param.primary == index_kind::ordered ? "ordered"
                                              : i.param.hashes == hash_kind::cuckoo  ? "cuckoo"
                                                                                     : "probing");
                         });

TEST_P(one_nan_as, keys) {
  for (const std::uint64_t first : many) {
    for (const std::uint64_t second : many) {
      transaction tx = base.begin();
      ASSERT_TRUE(tx.insert(t, {of_bits(first), 1.0, of_bits(first), 1.0}));
      EXPECT_EQ(tx.insert(t, {of_bits(second), 2.0, nullptr, 1.0}), outcome::duplicate_key);
      const auto found = tx.find(t, {of_bits(second)});
      ASSERT_TRUE(found);
      EXPECT_EQ(bits_of(found->get(t.column<double>("k"))), the_one);
      EXPECT_EQ(bits_of(found->get(plain)), the_one);
      auto e = tx.edit(t, {of_bits(second)});
      ASSERT_TRUE(e);
      ASSERT_TRUE(e->set(plain, of_bits(second)));
      EXPECT_EQ(bits_of(e->get(plain)), the_one) << "the quick way to set a column";
      ASSERT_TRUE(e->set(plain, -0.0));
      EXPECT_EQ(bits_of(e->get(plain)), 0U);
      ASSERT_TRUE(tx.update(t, {of_bits(second)}, {{"plain", of_bits(second)}}));
      EXPECT_EQ(bits_of(tx.find(t, {of_bits(first)})->get(plain)), the_one);
      EXPECT_TRUE(tx.erase(t, {of_bits(second)}));
    }
  }
}

TEST_P(one_nan_as, values_of_indexes_and_ends_of_ranges) {
  const double inf = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    double k = 0;
    for (const double x : {-inf, -1.0, 0.0, 5e-324, 1.0, inf}) {
      if (const status s = tx.insert(t, {++k, x, x, 1.0}); !s) return s;
    }
    return tx.insert(t, {99.0, of_bits(negative), of_bits(negative), of_bits(negative)});
  }));
  for (const std::uint64_t n : many) {
    transaction tx = base.begin();
    EXPECT_EQ(tx.insert(t, {50.0, of_bits(n), nullptr, 1.0}), outcome::duplicate_key);
    EXPECT_EQ(tx.update(t, {1.0}, {{"v", of_bits(n)}}), outcome::duplicate_key);
    const auto rows = [&](const secondary& i, std::initializer_list<value> from,
                          std::initializer_list<value> to) {
      int count = 0;
      tx.scan(i, from, to, [&](const row&) { ++count; });
      return count;
    };
    EXPECT_EQ(rows(t.index("u"), {of_bits(n)}, {of_bits(n)}), 1);
    EXPECT_EQ(rows(t.index("by_h"), {of_bits(n)}, {of_bits(n)}), 1);
    EXPECT_EQ(rows(t.index("u"), {inf}, {of_bits(n)}), 2) << "above all numbers";
    EXPECT_EQ(rows(t.index("u"), {}, {inf}), 6);
    EXPECT_EQ(rows(t.index("u"), {of_bits(n)}, {}), 1);
    const auto where = [&](comparison how) {
      return tx.query(t)
          .where("v", how, of_bits(n))
          .aggregate(count())
          .run()
          ->get<std::int64_t>(0, 0);
    };
    EXPECT_EQ(where(equal), 1);
    EXPECT_EQ(where(unequal), 6);
    EXPECT_EQ(where(less), 6);
    EXPECT_EQ(where(greater), 0);
    EXPECT_EQ(where(greater_equal), 1);
  }
}

TEST_P(one_nan_as, groups_and_measures) {
  ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
    double k = 0;
    for (const std::uint64_t n : many) {
      ++k;
      if (const status s = tx.insert(t, {k, k, of_bits(n), 1.0}); !s) return s;
    }
    if (const status s = tx.insert(t, {98.0, 98.0, -0.0, 1.0}); !s) return s;
    return tx.insert(t, {99.0, 99.0, 0.0, 1.0});
  }));
  // Through the quick way, too.
  ASSERT_TRUE(base.transact(
      [&](transaction& tx) -> status { return tx.edit(t, {1.0})->set(plain, of_bits(negative)); }));
  const reader now = base.snapshot();
  const auto groups = now.query(t).group_by("plain").aggregate(count()).run();
  ASSERT_EQ(groups->size(), 2U);
  EXPECT_EQ(groups->get<std::int64_t>(0, 1), 2);
  EXPECT_EQ(bits_of(groups->get<double>(1, 0)), the_one);
  EXPECT_EQ(groups->get<std::int64_t>(1, 1), 5);
  const auto all = now.query(t).aggregate(min("plain"), max("plain"), sum("plain")).run();
  EXPECT_EQ(bits_of(all->get<double>(0, 0)), 0U);
  EXPECT_EQ(bits_of(all->get<double>(0, 1)), the_one);
  EXPECT_EQ(bits_of(all->get<double>(0, 2)), the_one);
}

// Where the processor flushes small numbers to zero, as programs with other libraries set it.

class flushing {
 public:
#if defined(__x86_64__)
  static constexpr bool works = true;
  flushing() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040U); }
  ~flushing() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  static constexpr bool works = true;
  flushing() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" : : "r"(before_ | std::uint64_t{1} << 24U));
  }
  ~flushing() { asm volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  std::uint64_t before_ = 0;
#else
  static constexpr bool works = false;
#endif
};

TEST(small_numbers, keep_their_bits_where_they_are_flushed_to_zero) {
  if (!flushing::works) GTEST_SKIP() << "this processor is not known to have such a mode";
  constexpr std::uint64_t small[] = {1, 2, 0x000FEDCBA9876543U, 0x8000000000000001U};
  std::map<std::uint64_t, std::string> written;
  for (const std::uint64_t s : small) append_json(written[s], of_bits(s));
  EXPECT_EQ(written[1], "5e-324");
  const disk files = new_disk();
  const flushing mode;
  const auto look = [&](database& base) {
    const table& t = base.find_table("t");
    const auto v = t.column<double>("v");
    const reader now = base.snapshot();
    for (const std::uint64_t s : small) {
      const auto found = now.find(t, {of_bits(s)});
      ASSERT_TRUE(found) << s;
      EXPECT_EQ(bits_of(found->get(v)), s);
      const auto at = now.query(t).where("v", equal, of_bits(s)).aggregate(count()).run();
      EXPECT_EQ(at->get<std::int64_t>(0, 0), 1) << s;
      std::string json;
      append_json(json, of_bits(s));
      EXPECT_EQ(json, written[s]);
    }
    const auto groups = now.query(t).group_by("v").aggregate(count()).run();
    EXPECT_EQ(groups->size(), std::size(small) + 1);
    const auto ends = now.query(t).aggregate(min("v"), max("v")).run();
    EXPECT_EQ(bits_of(ends->get<double>(0, 0)), 0x8000000000000001U);
    EXPECT_EQ(bits_of(ends->get<double>(0, 1)), 0x000FEDCBA9876543U);
  };
  {
    database base = database::open(place, over(files));
    table& t = base.create_table({.name = "t",
                                  .columns = {{"k", float64, primary_key}, {"v", float64}},
                                  .indexes = {{"u", {"v"}, true}}});
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      for (const std::uint64_t s : small) {
        if (const status done = tx.insert(t, {of_bits(s), of_bits(s)}); !done) return done;
      }
      return tx.insert(t, {-0.0, -0.0});
    }));
    transaction tx = base.begin();
    EXPECT_EQ(tx.insert(t, {0.0, 7.0}), outcome::duplicate_key);
    table& plain = base.create_table(
        {.name = "plain", .columns = {{"k", int64, primary_key}, {"v", float64}}});
    ASSERT_TRUE(tx.insert(plain, {1, 1.0}));
    auto e = tx.edit(plain, {1});
    ASSERT_TRUE(e->set(plain.column<double>("v"), of_bits(2)));
    EXPECT_EQ(bits_of(e->get(plain.column<double>("v"))), 2U);
    look(base);
  }
  database again = database::open(place, over(files));
  look(again);
}

// Stores that were written when each NaN was kept as it came.

/// Numbers that stand for NaNs in what is written, until the files are changed: the log of an older
/// store is the same but for these eight bytes.
double stands_for(std::size_t which) { return of_bits(0x40123456789ABC00U + which); }
constexpr std::uint64_t old_nans[] = {the_one, negative, with_payload, signaling};

void make_old(bytes& content, bool log, std::uint32_t format = 4) {
  put_at(content, 12, format);
  put_at(content, 8, plain_crc(std::span(content).subspan(12, file_head - 12)));
  seal_again(content, log, [](std::span<std::byte> body) {
    for (std::size_t at = 0; at + 8 <= body.size(); ++at) {
      std::uint64_t word = 0;
      std::memcpy(&word, body.data() + at, 8);
      const std::uint64_t which = word - bits_of(stands_for(0));
      if (which < std::size(old_nans)) std::memcpy(body.data() + at, &old_nans[which], 8);
    }
  });
}

constexpr const char* hash_table = "by hash";
constexpr const char* ordered_table = "in order";
constexpr const char* unique_table = "unique";

void write_old(database& base) {
  table& h = base.create_table({.name = hash_table,
                                .columns = {{"k", float64, primary_key},
                                            {"v", int64},
                                            {"note", text(), nullable},
                                            {"x", float64, nullable}}});
  table& o = base.create_table(
      {.name = ordered_table,
       .columns = {{"k", float64, primary_key}, {"n", int64, primary_key}, {"v", int64}},
       .primary = index_kind::ordered});
  table& u = base.create_table(
      {.name = unique_table,
       .columns = {{"id", int64, primary_key}, {"u", float64}, {"m", int64}},
       .indexes = {{"u", {"u"}, true, index_kind::hash}, {"mu", {"m", "u"}, true}}});
  const std::string long_note(100, 'n');
  for (int i = 0; i < 4; ++i) {
    const double nan = stands_for(static_cast<std::size_t>(i));
    ASSERT_TRUE(base.transact([&](transaction& tx) -> status {
      if (auto s = tx.insert(h, {nan, i, i == 2 ? value(long_note) : value(nullptr), nan}); !s)
        return s;
      if (auto s = tx.insert(h, {10.0 + i, i, "\xff", nan}); !s) return s;
      if (auto s = tx.insert(o, {nan, 5, i}); !s) return s;
      if (auto s = tx.insert(o, {nan, 10 + i, i}); !s) return s;
      return tx.insert(u, {i, nan, 3});
    }));
  }
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(h, {stands_for(3)}); }));
}

/// With the files of an older program.
disk old_store(bool checkpoint, std::uint32_t format = 4) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    write_old(base);
    if (checkpoint) base.checkpoint();
  }
  for (const std::string& name : files->names()) {
    if (name.find("checkpoint-") != std::string::npos)
      make_old(files->content(name), false, format);
    if (!checkpoint && name.find("log-") != std::string::npos)
      make_old(files->content(name), true, format);
  }
  return files;
}

std::multiset<std::string> left_out_lines(memory_files& files) {
  std::multiset<std::string> all;
  for (const std::string& name : files.names()) {
    if (!name.ends_with(".jsonl")) continue;
    const bytes& content = files.content(name);
    const std::string text(reinterpret_cast<const char*>(content.data()), content.size());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      all.insert(text.substr(at, end - at));
      if (end == std::string::npos) break;  // a line that is torn
      at = end + 1;
    }
  }
  return all;
}
const std::multiset<std::string> expected_lines = {
    R"({"k":"nan","v":0,"note":null,"x":"nan"})",
    R"({"k":"nan","v":2,"note":")" + std::string(100, 'n') + R"(","x":"nan"})",
    R"({"k":"nan","n":5,"v":0})",
    R"({"k":"nan","n":5,"v":2})",
    R"({"k":"nan","n":5,"v":3})",
    R"({"id":0,"u":"nan","m":3})",
    R"({"id":2,"u":"nan","m":3})",
    R"({"id":3,"u":"nan","m":3})"};

/// The negative NaN came first in every index.
void expect_the_first(database& base, std::int64_t v = 1) {
  const reader now = base.snapshot();
  const table& h = base.find_table(hash_table);
  const table& o = base.find_table(ordered_table);
  const table& u = base.find_table(unique_table);
  const auto count_of = [&](const table& t) {
    int count = 0;
    now.for_each(t, [&](const row& r) {
      ++count;
      for (const column_layout& c : t.layout().columns()) {
        const value of_column = r.get(c);
        if (const double* const d = std::get_if<double>(&of_column.what())) {
          EXPECT_EQ(bits_of(*d), double_word(*d));
        }
      }
    });
    return count;
  };
  EXPECT_EQ(count_of(h), 5);
  EXPECT_EQ(count_of(o), 5);
  EXPECT_EQ(count_of(u), 1);
  for (const std::uint64_t n : many) {
    const auto in_h = now.find(h, {of_bits(n)});
    ASSERT_TRUE(in_h);
    EXPECT_EQ(in_h->get(h.column<std::int64_t>("v")), v);
    const auto in_o = now.find(o, {of_bits(n), 5});
    ASSERT_TRUE(in_o);
    EXPECT_EQ(in_o->get(o.column<std::int64_t>("v")), 1);
    EXPECT_TRUE(now.find(o, {of_bits(n), 12}));
    std::int64_t id = -1;
    now.scan(u.index("u"), {of_bits(n)}, {of_bits(n)},
             [&](const row& r) { id = r.get(u.column<std::int64_t>("id")); });
    EXPECT_EQ(id, 1);
  }
}

class old_stores : public testing::TestWithParam<std::pair<bool, std::uint32_t>> {
 protected:
  static options how(const std::shared_ptr<storage_files>& files) {
    options o = over(files);
    o.recovery_threads = GetParam().second;
    return o;
  }
};
INSTANTIATE_TEST_SUITE_P(each, old_stores,
                         testing::Values(std::pair{false, 1U}, std::pair{false, 3U},
                                         std::pair{true, 1U}, std::pair{true, 3U}),
                         [](const auto& i) {
                           return std::string(i.param.first ? "checkpoint" : "log") +
                                  (i.param.second == 1 ? "" : "_threads");
                         });

TEST_P(old_stores, keep_the_first_of_each_and_write_down_the_others) {
  const disk files = old_store(GetParam().first);
  {
    database base = database::open(place, how(files));
    EXPECT_EQ(base.recovered().left_out_rows, expected_lines.size());
    ASSERT_EQ(base.recovered().left_out_files.size(), 3U);
    for (const auto& name : base.recovered().left_out_files) {
      EXPECT_TRUE(files->has(name.string()));
      EXPECT_TRUE(std::any_of(
          base.recovered().notes.begin(), base.recovered().notes.end(),
          [&](const auto& note) { return note.text.find(name.string()) != std::string::npos; }));
    }
    EXPECT_EQ(left_out_lines(*files), expected_lines);
    expect_the_first(base);
    table& h = base.find_table(hash_table);
    ASSERT_TRUE(base.transact(
        [&](transaction& tx) { return tx.update(h, {of_bits(the_one)}, {{"v", 77}}); }));
  }
  for (int round = 0; round < 2; ++round) {
    database base = database::open(place, how(files));
    EXPECT_EQ(base.recovered().left_out_rows, 0U) << "that was done before";
    EXPECT_EQ(left_out_lines(*files), expected_lines);
    expect_the_first(base, 77);
    base.checkpoint();
  }
  database base = database::open(place, how(files));
  table& o = base.find_table(ordered_table);
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.erase(o, {of_bits(negative), 5}); }));
  EXPECT_FALSE(base.snapshot().find(o, {of_bits(the_one), 5}));
}

TEST_P(old_stores, stay_as_they_are_when_they_are_read) {
  const disk files = old_store(GetParam().first);
  std::map<std::string, bytes> before;
  for (const std::string& name : files->names()) before[name] = files->content(name);
  {
    options o = how(files);
    o.read_only = true;
    database base = database::open(place, o);
    expect_the_first(base);
    EXPECT_EQ(base.recovered().left_out_rows, expected_lines.size());
    EXPECT_TRUE(base.recovered().left_out_files.empty());
    EXPECT_EQ(base.recovered().notes.size(), 3U);
    EXPECT_THROW(base.backup("copy"), storage_error) << "it would not have them";
    EXPECT_THROW(base.backup([](std::span<const std::byte>) {}), storage_error);
  }
  std::map<std::string, bytes> after;
  for (const std::string& name : files->names()) {
    if (name.find("copy") == std::string::npos) after[name] = files->content(name);
  }
  EXPECT_EQ(after, before);
}

/// Whatever step fails, and whatever a loss of power leaves: no row is lost.
TEST_P(old_stores, lose_nothing_when_the_first_opening_is_cut_short) {
  std::mt19937_64 random(7);
  bool opened = false;
  for (std::uint64_t n = 1; !opened; n += steps_apart) {
    ASSERT_LT(n, 200U);
    for (int fate = 0; fate < 4; ++fate) {
      const disk files = old_store(GetParam().first)->copy();
      files->fails_at = n;
      try {
        database base = database::open(place, how(files));
        opened = true;
      } catch (const storage_error&) {
        opened = false;
      }
      const disk left = fate == 0 ? files->copy() : files->after_power_loss(random);
      database base = database::open(place, how(left));
      expect_the_first(base);
      EXPECT_EQ(left_out_lines(*left), expected_lines) << "step " << n;
    }
  }
}

/// Of an opening that is refused nothing stays, and no row is written down by halves.
TEST_P(old_stores, stay_as_they_are_when_an_opening_is_refused) {
  using kind = file_step::kind;
  const disk files = old_store(GetParam().first);
  std::map<std::string, bytes> before;
  for (const std::string& name : files->names()) before[name] = files->content(name);
  const auto with = [&](kind what, const std::string& begins, int times) {
    SCOPED_TRACE(begins);
    const auto choose = [&](const file_step& s) {
      return s.what == what && s.name.starts_with(begins) && --times == 0 ? EIO : 0;
    };
    options o = how(std::make_shared<faulty_files>(files, choose));
    o.publish_status = true;
    EXPECT_THROW(database::open(place, o), storage_error);
    std::map<std::string, bytes> after;
    for (const std::string& name : files->names()) after[name] = files->content(name);
    EXPECT_EQ(after, before);
  };
  for (const int times : {1, 2, 3}) {
    for (const auto what : {kind::open, kind::write, kind::sync, kind::rename}) {
      with(what, "left-out", times);
    }
  }
  with(kind::open, "status", 1);
  with(kind::rename, "status", 1);
  with(kind::rename, "log-", 1);
}

/// Opening what was written since there is one NaN goes over no row once more: what could not be in
/// such a file is not met.
TEST(one_nan_in_files, is_believed_of_files_of_the_new_format) {
  for (const bool checkpoint : {false, true}) {
    const disk files = old_store(checkpoint, 5);
    database base = database::open(place, over(files));
    EXPECT_EQ(base.recovered().left_out_rows, 0U);
    const table& h = base.find_table(hash_table);
    EXPECT_EQ(bits_of(base.snapshot().find(h, {11.0})->get(h.column<double>("x"))), negative);
  }
}

/// What is the same everywhere is left alone: nothing is written, and nothing is said.
TEST(old_stores_without_doubles, are_not_touched) {
  const disk files = new_disk();
  {
    database base = database::open(place, over(files));
    table& t = base.create_table({.name = "t",
                                  .columns = {{"k", float64, primary_key}, {"v", float64}},
                                  .indexes = {{"u", {"v"}, true}}});
    ASSERT_TRUE(base.transact(
        [&](transaction& tx) { return tx.insert(t, {of_bits(negative), of_bits(negative)}); }));
  }
  database base = database::open(place, over(files));
  EXPECT_EQ(base.recovered().left_out_rows, 0U);
  EXPECT_TRUE(base.recovered().notes.empty());
  EXPECT_EQ(base.stats().log.sequence, base.recovered().sequence) << "nothing was logged";
}

}  // namespace
