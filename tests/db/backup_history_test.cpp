// SPDX-License-Identifier: Apache-2.0
// Copies of a database whose history has parted: after a copy was restored, a folder put back, a
// process killed. A backup replaces a copy only if the database has all that the copy has.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>

#include "db/durable.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

using ids = std::set<std::int64_t>;

enum class way { owner, closed, attached };

options looking(const disk& files, way how) {
  options o = over(files);
  o.read_only = how != way::owner;
  o.attach = how == way::attached;
  return o;
}

void put_row(database& base, std::int64_t id) {
  table* t = base.try_find_table("t");
  if (t == nullptr) {
    t = &base.create_table({.name = "t", .columns = {{"id", int64, primary_key}}});
  }
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(*t, {id}); }));
}

/// As a program that opens the database, works and ends.
void put_rows(const disk& files, const std::string& in, std::int64_t first, std::int64_t end) {
  database base = database::open(in, over(files));
  for (std::int64_t id = first; id < end; ++id) put_row(base, id);
}

ids rows_of(const disk& files, const std::string& in) {
  const disk left = files->copy();  // a copy stays one
  database base = database::open(in, looking(left, way::attached));
  ids all;
  const table* const t = base.try_find_table("t");
  if (t == nullptr) return all;
  const auto id = t->column<std::int64_t>("id");
  base.snapshot().for_each(*t, [&](const row& r) { all.insert(r.get(id)); });
  return all;
}

/// As cp -a does, after rm -r.
void copy_folder(const disk& files, const std::string& from, const std::string& to) {
  for (const std::string& name : files->names()) {
    if (name.starts_with(to + "/")) files->remove(name);
  }
  for (const std::string& name : files->names()) {
    if (!name.starts_with(from + "/")) continue;
    const auto content = files->content(name);
    files->put(to + name.substr(from.size()), content);
  }
}

std::string why_not(const disk& files, way how, const std::string& from, const std::string& to) {
  try {
    database::open(from, looking(files, how)).backup(to);
  } catch (const storage_error& e) {
    return e.what();
  }
  return "";
}

TEST(parted_histories, a_copy_that_has_more_is_kept_whatever_is_left_of_the_log) {
  for (const way how : {way::owner, way::closed, way::attached}) {
    for (const bool checkpoint : {false, true}) {
      for (const bool seen_from_outside : {false, true}) {  // the copy, as it was made
        SCOPED_TRACE(std::to_string(static_cast<int>(how)) + (checkpoint ? " checkpoint" : "") +
                     (seen_from_outside ? " outside" : ""));
        const disk files = new_disk();
        put_rows(files, place, 1, 2);
        copy_folder(files, place, "before");
        {
          database base = database::open(place, over(files));
          for (std::int64_t id = 2; id < 5; ++id) put_row(base, id);
          if (!seen_from_outside) base.backup("copy");
          if (seen_from_outside) {
            EXPECT_EQ(why_not(files, way::attached, place, "copy"), "");
          }
        }
        copy_folder(files, "before", place);
        {
          database base = database::open(place, over(files));
          for (std::int64_t id = 12; id < 22; ++id) put_row(base, id);
          if (checkpoint) base.checkpoint();
          put_row(base, 22);
        }
        const std::string why = why_not(files, how, place, "copy");
        EXPECT_NE(why.find("Use another directory"), std::string::npos) << why;
        EXPECT_EQ(rows_of(files, "copy"), ids({1, 2, 3, 4}));
      }
    }
  }
}

TEST(parted_histories, a_copy_of_this_history_is_brought_up_to_date_when_the_log_is_gone) {
  for (const way how : {way::owner, way::closed, way::attached}) {
    for (const way first : {way::owner, way::closed, way::attached}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(how)) + std::to_string(static_cast<int>(first)));
      const disk files = new_disk();
      put_rows(files, place, 1, 4);
      ASSERT_EQ(why_not(files, first, place, "copy"), "");
      for (std::int64_t id = 4; id < 7; ++id) {
        put_rows(files, place, id, id + 1);
        database::open(place, over(files)).checkpoint();
      }
      put_rows(files, place, 7, 8);
      EXPECT_EQ(why_not(files, how, place, "copy"), "");
      EXPECT_EQ(rows_of(files, "copy"), ids({1, 2, 3, 4, 5, 6, 7}));
      // What was restored of it knows as much.
      database::open("copy", over(files)).checkpoint();
      EXPECT_EQ(rows_of(files, "copy"), ids({1, 2, 3, 4, 5, 6, 7}));
    }
  }
}

TEST(parted_histories, a_copy_that_ends_within_a_segment_is_gone_on_with) {
  const disk files = new_disk();
  database base = database::open(place, over(files));
  put_row(base, 1);
  std::uint64_t whole = 0;
  ids all{1};
  for (std::int64_t id = 2; id < 8; ++id) {
    const backup_report made = database::open(place, looking(files, way::attached)).backup("copy");
    EXPECT_EQ(made.incremental, id != 2) << "the log from there on is all in one segment";
    EXPECT_EQ(rows_of(files, "copy"), all);
    if (id == 2) whole = made.bytes;
    if (id > 3) {
      EXPECT_LE(made.bytes, whole) << "it is what is new, alone";
    }
    put_row(base, id);
    all.insert(id);
  }
  EXPECT_TRUE(base.backup("copy").incremental);
  EXPECT_EQ(rows_of(files, "copy"), all);
  put_row(base, 8);
  all.insert(8);
  EXPECT_TRUE(base.backup("copy").incremental);
  EXPECT_EQ(rows_of(files, "copy"), all);
}

TEST(parted_histories, a_copy_of_another_history_within_a_segment_is_kept) {
  const disk files = new_disk();
  put_rows(files, place, 1, 2);
  copy_folder(files, place, "before");
  {
    database base = database::open(place, over(files));
    put_row(base, 2);
    ASSERT_EQ(why_not(files, way::attached, place, "copy"), "");
  }
  copy_folder(files, "before", place);
  put_rows(files, place, 12, 15);
  for (const way how : {way::closed, way::attached, way::owner}) {
    EXPECT_NE(why_not(files, how, place, "copy").find("does not match"), std::string::npos);
    EXPECT_EQ(rows_of(files, "copy"), ids({1, 2}));
  }
}

/// Stores and copies of one database, and what must be in each.
class model {
 public:
  explicit model(std::uint64_t seed) : random_(seed) { open(0); }

  void step() {
    const std::size_t s = random_() % stores;
    const std::size_t c = random_() % copies;
    switch (random_() % 9) {
      case 0:
      case 1:
      case 2:
        return commit(s);
      case 3:
        if (open_[s]) open_[s]->checkpoint();
        return;
      case 4:
        open_[s].reset();
        if (made_[s]) open(s);
        return;
      case 5:
        return restore(c, s);
      case 6:
        return put_back(s, random_() % stores);
      default:
        return back_up(s, c);
    }
  }
  int done = 0;
  int continued = 0;
  int refused = 0;

 private:
  static constexpr std::size_t stores = 3;
  static constexpr std::size_t copies = 2;
  static std::string store(std::size_t s) { return "store" + std::to_string(s); }
  static std::string copy(std::size_t c) { return "copy" + std::to_string(c); }

  void open(std::size_t s) {
    options o = over(files_);
    o.segment_bytes = 4096;
    open_[s] = std::make_unique<database>(database::open(store(s), o));
    made_[s] = true;
  }
  void commit(std::size_t s) {
    if (!open_[s]) return;
    put_row(*open_[s], ++last_);
    rows_[s].insert(last_);
  }
  /// The store is that copy from now on.
  void restore(std::size_t c, std::size_t s) {
    if (!copied_[c]) return;
    open_[s].reset();
    copy_folder(files_, copy(c), store(s));
    rows_[s] = copied_rows_[c];
    open(s);
  }
  /// A folder is copied, also while a process has it open.
  void put_back(std::size_t from, std::size_t to) {
    if (from == to || !made_[from]) return;
    open_[to].reset();
    copy_folder(files_, store(from), store(to));
    rows_[to] = rows_[from];
    open(to);
  }
  void back_up(std::size_t s, std::size_t c) {
    if (!made_[s]) return;
    try {
      backup_report made;
      if (open_[s] && random_() % 2 == 0) {
        made = open_[s]->backup(copy(c));
      } else {
        made = database::open(store(s), looking(files_, way::attached)).backup(copy(c));
      }
      ++done;
      if (made.incremental) ++continued;
      EXPECT_TRUE(std::includes(rows_[s].begin(), rows_[s].end(), copied_rows_[c].begin(),
                                copied_rows_[c].end()))
          << "the copy has lost rows that this store never had";
      copied_[c] = true;
      copied_rows_[c] = rows_[s];
    } catch (const storage_error&) {
      ++refused;
      if (random_() % 3 == 0 && copied_[c]) forget(c);
    }
    if (copied_[c]) {
      EXPECT_EQ(rows_of(files_, copy(c)), copied_rows_[c]);
    }
  }
  /// The copy is put aside, so that the next one is whole.
  void forget(std::size_t c) {
    copy_folder(files_, "nothing", copy(c));
    copied_[c] = false;
    copied_rows_[c].clear();
  }

  const disk files_ = new_disk();
  std::mt19937_64 random_;
  std::int64_t last_ = 0;
  std::unique_ptr<database> open_[stores];
  bool made_[stores] = {};
  ids rows_[stores];
  bool copied_[copies] = {};
  ids copied_rows_[copies];
};

TEST(parted_histories, no_copy_loses_a_row_that_the_store_does_not_have) {
  int done = 0;
  int continued = 0;
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(tries(60)); ++seed) {
    SCOPED_TRACE(seed);
    model one(seed);
    for (int i = 0; i < 80 && !testing::Test::HasFailure(); ++i) one.step();
    done += one.done;
    continued += one.continued;
    refused += one.refused;
  }
  EXPECT_GT(done, 0);
  EXPECT_GT(continued, 0);
  EXPECT_GT(refused, 0);
  EXPECT_GT(done - continued, 0);
}

TEST(parted_histories, a_copy_whose_end_cannot_be_read_is_no_copy_to_go_on_with) {
  const disk files = new_disk();
  put_rows(files, place, 1, 4);
  ASSERT_EQ(why_not(files, way::closed, place, "copy"), "");
  put_rows(files, place, 4, 6);
  for (const std::string& name : files->names()) {
    if (name.starts_with("copy/checkpoint-")) files->content(name)[20] ^= std::byte{1};
  }
  EXPECT_NE(why_not(files, way::closed, place, "copy"), "");
}

}  // namespace
