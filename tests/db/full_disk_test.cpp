// SPDX-License-Identifier: Apache-2.0
// What docs/durability.md promises of disks without room, of processes without descriptors, and of
// names that cannot be changed: what failed says so and changes nothing, and the store goes on.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/log/log_room.hpp"

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;
using step_kind = file_step::kind;

bool has_temporary(const disk& files) {
  const auto names = files->names();
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& n) { return n.ends_with(".tmp"); });
}
const std::string reserve = std::string(place) + "/reserve.spl";

/// One step of those that come while it is armed fails: the n-th.
struct one_fault {
  std::uint64_t at = 0;  // 0: none
  int with = EIO;
  std::uint64_t steps = 0;
  std::optional<file_step> hit{};

  int operator()(const file_step& s) {
    // Reading is what the next opening does anyway.
    if (at == 0 || s.what == step_kind::read || ++steps != at) return 0;
    hit = s;
    return with;
  }
};

/// A store that is asked for one thing while one step fails, and for all things afterwards.
class one_step_fails {
 public:
  explicit one_step_fails(int reason) {
    fault_->with = reason;
    files_->extends = true;
    o_ = over(std::make_shared<faulty_files>(
        files_, [fault = fault_](const file_step& s) { return (*fault)(s); }));
    o_.segment_bytes = 4096;
    open();
    make_ledger(*base_);
    commit(12);
  }
  void open() { base_.emplace(database::open(place, o_)); }
  void close() { base_.reset(); }
  database& base() { return *base_; }
  /// So many, which must all be acknowledged; or the first that is not is in doubt.
  void commit(std::int64_t count) {
    table& ledger = base_->find_table("ledger");
    for (std::int64_t i = 0; i < count && !in_doubt_; ++i) {
      const status s = write_down(*base_, ledger, done_ + 1);
      if (s) {
        ++done_;
      } else {
        EXPECT_EQ(s, outcome::storage_failed);
        refused_ = true;
        in_doubt_ = base_->stats().log.failed;
      }
    }
  }

  /// Nothing fails meanwhile, nor is counted.
  std::uint64_t pause() { return std::exchange(fault_->at, 0); }
  void go_on(std::uint64_t armed) { fault_->at = armed; }

  /// False: the n-th step is behind the end.
  bool run(std::uint64_t n, const std::function<void(one_step_fails&)>& what) {
    fault_->at = n;
    bool thrown = false;
    try {
      what(*this);
    } catch (const storage_error& e) {
      thrown = true;
      EXPECT_EQ(e.reason().value(), fault_->with) << e.what();
    }
    fault_->at = 0;
    if (!fault_->hit) {
      EXPECT_FALSE(thrown);
      return false;
    }
    SCOPED_TRACE("step " + std::to_string(n) + " of kind " +
                 std::to_string(static_cast<int>(fault_->hit->what)) + ", of " + fault_->hit->name +
                 (thrown ? ", which was told" : ""));
    if (!base_) open();
    look(thrown);
    return true;
  }

 private:
  /// What only costs time or room later is not told to anybody.
  [[nodiscard]] bool may_be_quiet() const {
    const file_step& s = *fault_->hit;
    if (s.is_reserve() || s.what == step_kind::truncate) return true;
    return s.what == step_kind::reserve && fault_->with == ENOSPC;  // less was enough
  }
  void look(bool thrown) {
    const file_step& s = *fault_->hit;
    // What was published may not be written, be it the end of a segment.
    if (base_->stats().log.failed) {
      EXPECT_TRUE(s.is_segment() && (s.what == step_kind::write || s.what == step_kind::sync))
          << "the log has failed for good";
      return expect_files(done_, done_ + 1);
    }
    EXPECT_FALSE(base_->stats().log.failed) << base_->storage_failure();
    EXPECT_TRUE(thrown || refused_ || quiet_ || may_be_quiet()) << "and nothing has reported it";
    EXPECT_EQ(commits_in(*base_), done_);
    if (s.what != step_kind::remove) {
      EXPECT_FALSE(has_temporary(files_));
    }
    expect_files(done_, done_);
    refused_ = false;
    commit(12);
    EXPECT_FALSE(refused_) << base_->storage_failure();
    EXPECT_EQ(base_->storage_failure(), "");
    base_->checkpoint();
    base_->backup("copy");
    base_->backup([](std::span<const std::byte>) {});
    commit(2);
    EXPECT_EQ(commits_in(*base_), done_);
    expect_files(done_, done_);
  }
  /// After a kill, and after losses of power.
  void expect_files(std::int64_t least, std::int64_t most) {
    const std::int64_t killed = reopened(files_->copy());
    EXPECT_TRUE(killed >= least && killed <= most) << killed << " of " << least;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t found = reopened(files_->after_power_loss(random_));
      EXPECT_TRUE(found >= least && found <= most) << found << " of " << least;
    }
  }

  const disk files_ = new_disk();
  const std::shared_ptr<one_fault> fault_ = std::make_shared<one_fault>();
  options o_;
  std::mt19937_64 random_{1};
  std::optional<database> base_;
  std::int64_t done_ = 0;
  bool refused_ = false;
  bool in_doubt_ = false;

 public:
  bool quiet_ = false;  // what is asked for succeeds without the step that fails
};

/// Each step of it fails once, for each reason; under a sanitizer for one of them, or every third
/// step does.
void each_step_fails(const std::function<void(one_step_fails&)>& what, bool quiet = false) {
  const std::array reasons{ENOSPC, EMFILE, EIO};
  for (std::uint64_t r = 0; r < reasons.size(); ++r) {
    const int reason = reasons.at(r);
    constexpr std::uint64_t every = steps_apart * (sanitized ? 3 : 1);
    std::uint64_t n = 1 + r * every / 3;
    for (;; n += every) {
      SCOPED_TRACE("errno " + std::to_string(reason) + ", step " + std::to_string(n));
      one_step_fails all(reason);
      all.quiet_ = quiet;
      if (!all.run(n, what) || testing::Test::HasFailure()) break;
    }
    EXPECT_GT(n, 4U) << "few steps";
  }
}

TEST(full_disk, a_checkpoint_of_which_a_step_fails_changes_nothing) {
  each_step_fails([](one_step_fails& w) { w.base().checkpoint(); });
}

TEST(full_disk, a_copy_of_which_a_step_fails_changes_nothing) {
  each_step_fails([](one_step_fails& w) { w.base().backup("copy"); });
  each_step_fails([](one_step_fails& w) { w.base().backup([](std::span<const std::byte>) {}); });
}

TEST(full_disk, log_added_to_a_copy_of_which_a_step_fails_changes_nothing) {
  each_step_fails([](one_step_fails& w) {
    const auto armed = w.pause();
    w.base().backup("copy");
    w.commit(16);
    w.go_on(armed);
    w.base().backup("copy");
  });
}

/// The commits in between cross the ends of several segments.
TEST(full_disk, a_segment_that_cannot_be_made_leaves_the_one_before) {
  each_step_fails([](one_step_fails& w) { w.commit(40); }, true);
}

TEST(full_disk, an_opening_of_which_a_step_fails_changes_nothing) {
  each_step_fails(
      [](one_step_fails& w) {
        w.close();
        w.open();
      },
      true);
}

/// A database on a disk that is full but for what it has itself.
class full_store {
 public:
  explicit full_store(bool extends, std::int64_t rows = 20) {
    files->extends = extends;
    open();
    make_ledger(*base);
    for (std::int64_t n = 1; n <= rows; ++n) {
      EXPECT_TRUE(write_down(*base, ledger(), n));
    }
    done = rows;
  }
  void open() { base.emplace(database::open(place, over(files))); }
  table& ledger() { return base->find_table("ledger"); }
  void fill_up() { files->capacity = files->room_taken(); }
  void make_room() { files->capacity = ~std::uint64_t{0}; }
  /// Until there is no room for more.
  status commit_until_full() {
    status s;
    while ((s = write_down(*base, ledger(), done + 1))) ++done;
    return s;
  }
  status erase(std::int64_t id) {
    return base->transact([&](transaction& tx) { return tx.erase(ledger(), {id}); });
  }

  const disk files = new_disk();
  std::optional<database> base;
  std::int64_t done = 0;
};

TEST(full_disk, a_commit_without_room_leaves_nothing_and_the_next_one_with_room_succeeds) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  for (const bool extends : {false, true}) {
    full_store w(extends);
    w.fill_up();
    EXPECT_EQ(w.commit_until_full(), outcome::storage_failed);
    EXPECT_GT(w.done, 1000) << "what a segment has more than its records is used";
    EXPECT_NE(w.base->storage_failure().find("No space"), std::string::npos)
        << w.base->storage_failure();
    EXPECT_FALSE(w.base->stats().log.failed);
    EXPECT_EQ(commits_in(*w.base), w.done);
    EXPECT_EQ(reopened(w.files->copy()), w.done) << "and in the files";
    const std::string much(1000, 'x');
    while (w.base->transact(
        [&](transaction& tx) { return tx.update(w.ledger(), {0}, {{"even", true}}); })) {
    }
    {
      transaction one = w.base->begin();
      EXPECT_TRUE(one.update(w.ledger(), {0}, {{"memo", much}})) << "no lock is left";
      EXPECT_EQ(one.commit(), outcome::storage_failed);
      transaction two = w.base->begin({.isolation = isolation::serializable});
      EXPECT_TRUE(two.insert(w.ledger(), {-1, -1, nullptr, false, much}));
      EXPECT_EQ(two.commit(), outcome::storage_failed);
      transaction three = w.base->begin();
      EXPECT_TRUE(three.insert(w.ledger(), {-1, -1, nullptr, false, nullptr})) << "nor a row";
    }
    EXPECT_THROW(w.base->create_table({.name = "t", .columns = {{"k", int64, primary_key}}}),
                 storage_error);
    EXPECT_EQ(w.base->tables().size(), 1U);
    EXPECT_EQ(w.base->create_index(w.ledger(), {.name = "more", .columns = {"n"}}),
              outcome::storage_failed);
    try {
      w.base->checkpoint();
      ADD_FAILURE() << "there is no room";
    } catch (const storage_error& e) {
      const std::string what = e.what();
      EXPECT_TRUE(e.file().filename().string().starts_with("log-")) << what;
      EXPECT_NE(what.find("which the log needs to begin a checkpoint"), what.npos) << what;
      EXPECT_NE(what.find("then call checkpoint() again"), what.npos) << what;
    }
    try {
      w.base->backup("elsewhere");
      ADD_FAILURE() << "there is no room";
    } catch (const storage_error& e) {
      const std::string what = e.what();
      EXPECT_NE(what.find("which the log of the database needs to begin a copy"), what.npos)
          << what;
    }
    EXPECT_TRUE(w.base->sync()) << "all that was published is durable";
    w.make_room();
    EXPECT_TRUE(write_down(*w.base, w.ledger(), ++w.done));
    EXPECT_EQ(w.base->storage_failure(), "");
    EXPECT_TRUE(w.base->create_index(w.ledger(), {.name = "more", .columns = {"n"}}));
    w.base->checkpoint();
    EXPECT_EQ(commits_in(*w.base), w.done);
    EXPECT_EQ(reopened(w.files->copy()), w.done);
  }
}

TEST(full_disk, what_frees_room_has_some_in_reserve) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  full_store w(true, 2000);
  w.fill_up();
  ASSERT_EQ(w.commit_until_full(), outcome::storage_failed);
  std::int64_t erased = 0;
  for (; erased < 600; ++erased) ASSERT_TRUE(w.erase(erased * 5 + 1)) << erased;
  EXPECT_EQ(write_down(*w.base, w.ledger(), w.done + 1), outcome::storage_failed)
      << "that room is not for others";
  EXPECT_TRUE(w.base->drop_index(w.ledger(), "by_n"));
  const auto rows = [](database& base) {
    std::int64_t sum = 0;
    base.snapshot().for_each(base.find_table("ledger"), [&](const row&) { ++sum; });
    return sum;
  };
  const std::int64_t left = rows(*w.base);
  {
    database again = database::open(place, over(w.files->copy()));
    EXPECT_EQ(rows(again), left);
  }
  // When there is room again, so is the reserve.
  w.make_room();
  ASSERT_TRUE(w.base->transact(
      [&](transaction& tx) { return tx.update(w.ledger(), {0}, {{"even", true}}); }));
  w.fill_up();
  status s;
  while ((s = w.base->transact(
              [&](transaction& tx) { return tx.update(w.ledger(), {0}, {{"even", true}}); }))) {
  }
  EXPECT_EQ(s, outcome::storage_failed);
  EXPECT_TRUE(w.erase(5 * erased + 1));
}

/// To the last byte of what there is, and of what is kept.
TEST(full_disk, room_is_counted) {
  log_room room(100, 0);
  room.begin(1100);
  EXPECT_FALSE(room.promise(1001));
  EXPECT_TRUE(room.promise(1000));
  EXPECT_FALSE(room.promise(1));
  EXPECT_EQ(room.owed(), 0U);
  EXPECT_FALSE(room.promise_kept(101));
  EXPECT_TRUE(room.promise_kept(100));
  EXPECT_FALSE(room.promise_kept(1));
  EXPECT_EQ(room.owed(), 100U);
  room.give_back(40);
  EXPECT_EQ(room.owed(), 60U);
  EXPECT_FALSE(room.promise(1)) << "what is kept comes first";
  room.made(61);
  EXPECT_FALSE(room.promise(2));
  EXPECT_TRUE(room.promise(1));
  EXPECT_TRUE(room.promise_kept(100));
  EXPECT_FALSE(room.promise_kept(1));

  log_room for_the_next(100, 10);
  for_the_next.begin(1110);
  EXPECT_FALSE(for_the_next.promise(1001));
  EXPECT_TRUE(for_the_next.promise(1000));
  EXPECT_FALSE(for_the_next.promise_kept(101)) << "an opening has the rest";
  EXPECT_TRUE(for_the_next.promise_kept(100));
}

/// Of commits that come to nothing for another reason, and of changes of the catalogue.
TEST(full_disk, room_that_is_not_used_is_given_back) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  const disk files = new_disk();
  options o = over(files);
  o.version_budget = 1U << 20U;
  o.versions = version_storage::one_shot;  // one that keeps all
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  for (std::int64_t n = 1; n <= 10; ++n) ASSERT_TRUE(write_down(base, ledger, n));
  const reader old = base.snapshot();
  status s;
  for (int i = 0; s && i < 100'000; ++i) {
    s = base.transact([&](transaction& tx) { return tx.update(ledger, {0}, {{"n", 5}}); });
  }
  ASSERT_EQ(s, outcome::limit);
  files->set_capacity(files->room_taken());
  // More, all together, than there is room for.
  const std::string much(100'000, 'x');
  for (int i = 0; i < 50; ++i) {
    transaction tx = base.begin();
    ASSERT_TRUE(tx.update(ledger, {0}, {{"memo", much}}));
    ASSERT_EQ(tx.commit(), outcome::limit) << i;
  }
  for (int i = 0; i < 500; ++i) {
    const index_spec twice{.name = std::string(10'000, 'i'), .columns = {"even"}, .unique = true};
    ASSERT_EQ(base.create_index(ledger, twice), outcome::duplicate_key) << i;
  }
}

TEST(full_disk, what_is_kept_is_made_before_others_have_room) {
  full_store w(true, 2000);
  w.fill_up();
  ASSERT_EQ(w.commit_until_full(), outcome::storage_failed);
  for (std::int64_t n = 0; n < 300; ++n) ASSERT_TRUE(w.erase(n * 5 + 1)) << n;
  w.files->set_capacity(w.files->room_taken() + 4096);
  EXPECT_EQ(write_down(*w.base, w.ledger(), w.done + 1), outcome::storage_failed);
  w.files->set_capacity(w.files->room_taken() + (64U << 10U));
  EXPECT_TRUE(write_down(*w.base, w.ledger(), ++w.done));
}

TEST(full_disk, the_reserve_comes_to_an_end) {
  if (no_lone_threads) GTEST_SKIP() << "SKIPPED one thread calls the library";
  full_store w(true, 10);
  w.fill_up();
  ASSERT_EQ(w.commit_until_full(), outcome::storage_failed);
  status s;
  std::int64_t erased = 0;
  for (; erased < w.done; ++erased) {
    if (erased % 5 == 2) continue;  // gone already
    s = w.erase(erased + 1);
    if (!s) break;
  }
  EXPECT_EQ(s, outcome::storage_failed);
  EXPECT_GT(erased, 2000) << "as the guide says";
  EXPECT_FALSE(w.base->stats().log.failed);
  w.make_room();
  EXPECT_TRUE(w.erase(erased + 1));
}

TEST(full_disk, a_full_disk_can_be_opened_to_delete) {
  for (const bool extends : {false, true}) {
    for (const bool killed : {false, true}) {
      full_store w(extends);
      if (killed) {
        const disk left = w.files->copy();
        left->extends = extends;
        left->capacity = left->room_taken();
        database base = database::open(place, over(left));
        EXPECT_EQ(commits_in(base), w.done);
        continue;
      }
      w.base.reset();
      w.fill_up();
      ASSERT_TRUE(w.files->has(reserve));
      for (int round = 0; round < 2; ++round) {
        w.open();
        if (round == 0) {
          EXPECT_EQ(commits_in(*w.base), w.done);
        }
        EXPECT_EQ(write_down(*w.base, w.ledger(), w.done + 1), outcome::storage_failed);
        for (std::int64_t id = 1; id <= 2; ++id) EXPECT_TRUE(w.erase(5 * round + id));
        w.base.reset();
        w.fill_up();
        if (round == 0) {
          // Now there is none, so this is all that an opening can say.
          EXPECT_FALSE(w.files->has(reserve));
          try {
            w.open();
            ADD_FAILURE() << "there is no room for a segment";
          } catch (const storage_error& e) {
            EXPECT_EQ(e.reason(), std::errc::no_space_on_device);
            EXPECT_NE(e.problem().find("no reserve"), std::string::npos) << e.what();
          }
          EXPECT_FALSE(has_temporary(w.files));
          w.make_room();
          w.open();
          EXPECT_TRUE(w.files->has(reserve)) << "there is room: it is made";
          w.base.reset();
          w.fill_up();
        }
      }
      w.make_room();
      w.open();
      EXPECT_TRUE(w.files->has(reserve));
      EXPECT_TRUE(write_down(*w.base, w.ledger(), w.done + 1));
    }
  }
}

/// On a disk that is full, by a process that is killed, again and again.
class killed_store {
 public:
  explicit killed_store(bool extends) : extends_(extends) {
    files_->extends = extends;
    {
      database base = open();
      table& ledger = make_ledger(base);
      for (std::int64_t n = 1; n <= rows; ++n) EXPECT_TRUE(write_down(base, ledger, n));
    }
    files_->capacity = files_->room_taken();
    const database base = open();
    EXPECT_FALSE(files_->has(reserve)) << "it is a segment now";
    kill_again(0);
  }
  /// Another process finds the files as they are, and so much room more than they take.
  void kill_again(std::uint64_t room) {
    files_ = files_->copy();
    files_->extends = extends_;
    files_->capacity = files_->room_taken() + room;
  }
  [[nodiscard]] std::uint64_t room() { return files_->capacity - files_->room_taken(); }
  database open() {
    options o = over(files_);
    o.segment_bytes = 1U << 14U;  // as much is kept for deletions: some two hundred
    return database::open(place, o);
  }
  /// How many rows can be deleted, of so many.
  std::int64_t erase(database& base, std::int64_t most) {
    table& ledger = base.find_table("ledger");
    std::int64_t erased = 0;
    for (; erased < most; ++next_) {
      if (next_ % 5 == 3) continue;  // gone already
      if (!base.transact([&](transaction& tx) { return tx.erase(ledger, {next_}); })) break;
      ++erased;
    }
    return erased;
  }
  void make_room() { files_->capacity = ~std::uint64_t{0}; }

  static constexpr std::int64_t rows = 700;

 private:
  const bool extends_;
  disk files_ = new_disk();
  std::int64_t next_ = 1;
};

TEST(full_disk, a_process_that_is_killed_on_a_full_disk_can_begin_again_and_delete) {
  for (const bool extends : {false, true}) {
    killed_store w(extends);
    for (int round = 0; round < 12; ++round) {
      SCOPED_TRACE(round);
      const std::uint64_t room = w.room();
      {
        database base = w.open();
        if (round % 2 == 0) {
          EXPECT_EQ(w.erase(base, 5), 5);
        }
        w.kill_again(std::min(room, w.room()));
      }
    }
    // Until nothing is left of the reserve: an opening is possible all the same.
    std::int64_t erased = 60;
    for (int round = 0; round < 5; ++round) {
      database base = w.open();
      const std::int64_t now = w.erase(base, w.rows);
      if (round == 0) {
        EXPECT_GT(now, 10);
      }
      erased += now;
      w.kill_again(0);
    }
    EXPECT_LT(erased, w.rows / 2) << "which is not all that there are";
    w.make_room();
    database base = w.open();
    EXPECT_EQ(w.erase(base, 5), 5);
    base.checkpoint();
  }
}

/// The segment comes first: reserve.spl is for the opening after.
TEST(full_disk, room_that_is_given_to_a_full_disk_is_for_deletions_first) {
  for (const std::uint64_t room : {0U, 4U << 10U, 12U << 10U, 16U << 10U, 40U << 10U}) {
    for (const bool extends : {false, true}) {
      SCOPED_TRACE(room);
      killed_store w(extends);
      w.kill_again(room);
      database base = w.open();
      EXPECT_EQ(w.erase(base, 60), 60);
    }
  }
}

/// Nothing is set aside, as after a store that was closed, and less becomes free than is kept.
TEST(full_disk, some_room_is_enough_to_delete_in) {
  full_store w(true, 100);
  w.base.reset();
  w.files->remove(reserve);
  w.fill_up();
  w.files->set_capacity(w.files->room_taken() + (100U << 10U));
  w.open();
  std::int64_t erased = 0;
  for (std::int64_t id = 1; id < 100; ++id) erased += w.erase(id) ? 1 : 0;
  EXPECT_EQ(erased, 99 - 20) << "but those that were gone before";
}

TEST(full_disk, the_reserve_is_made_again_by_a_store_that_is_open) {
  full_store w(true);
  w.base.reset();
  w.fill_up();
  w.open();
  ASSERT_FALSE(w.files->has(reserve));
  w.make_room();
  EXPECT_TRUE(write_down(*w.base, w.ledger(), ++w.done));
  EXPECT_TRUE(w.files->has(reserve));
}

/// As one is that was made with another options::segment_bytes.
TEST(full_disk, a_reserve_that_is_smaller_than_others_serves_and_is_replaced) {
  full_store w(true);
  w.base.reset();
  const std::size_t whole = w.files->content(reserve).size();
  w.files->shorten(reserve, 64 + 4096 + 16384);
  w.fill_up();
  w.open();
  EXPECT_TRUE(w.erase(1));
  w.base.reset();

  w.make_room();
  w.open();
  w.base.reset();
  ASSERT_EQ(w.files->content(reserve).size(), whole);
  w.files->shorten(reserve, 64 + 4096 + 16384);
  w.open();
  w.base.reset();
  EXPECT_EQ(w.files->content(reserve).size(), whole) << "there is room for a whole one";
  w.open();
  EXPECT_FALSE(w.base->snapshot().find(w.ledger(), {1}));
  EXPECT_TRUE(write_down(*w.base, w.ledger(), w.done + 1));
}

TEST(full_disk, what_is_no_reserve_is_not_taken_for_one) {
  full_store w(true);
  w.base.reset();
  w.files->content(reserve)[5000] = std::byte{1};
  w.fill_up();
  EXPECT_THROW(w.open(), storage_error);
  w.make_room();
  w.open();
  EXPECT_EQ(commits_in(*w.base), w.done);
}

/// Each takes its own rows, while the room comes and goes. Whose commit was refused has no row.
TEST(full_disk, many_who_commit_share_the_room) {
  constexpr std::int64_t threads = 6;
  for (const durability_level level : {durability_level::sync, durability_level::async}) {
    const disk files = new_disk();
    options o = over(files);
    o.durability = level;
    o.segment_bytes = 1U << 16U;
    std::array<std::vector<std::int64_t>, threads> made;
    {
      database base = database::open(place, o);
      table& t = base.create_table(
          {.name = "t", .columns = {{"k", int64, primary_key}, {"text", text(5000)}}});
      std::atomic<std::int64_t> refused{0};
      std::atomic<bool> stop{false};
      std::vector<std::thread> all;
      for (std::int64_t me = 0; me < threads; ++me) {
        all.emplace_back([&, me] {
          for (std::int64_t n = 0; !stop.load(); ++n) {
            const std::string much(static_cast<std::size_t>(n * 37 % 5000), 'x');
            const std::int64_t k = me << 32U | n;
            const status s =
                base.transact([&](transaction& tx) { return tx.insert(t, {k, much}); });
            if (s) {
              made.at(static_cast<std::size_t>(me)).push_back(k);
            } else {
              EXPECT_EQ(s, outcome::storage_failed);
              refused.fetch_add(1);
            }
          }
        });
      }
      for (int round = 0; round < 6; ++round) {
        files->set_capacity(files->room_taken() + 200000);
        const std::int64_t before = refused.load();
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (refused.load() < before + 20 && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::yield();
        }
        EXPECT_GE(refused.load(), before + 20);
      }
      stop.store(true);
      for (std::thread& one : all) one.join();
      EXPECT_FALSE(base.stats().log.failed) << base.storage_failure();
      files->set_capacity(~std::uint64_t{0});
      EXPECT_TRUE(base.sync());
    }
    database again = database::open(place, over(files));
    std::vector<std::int64_t> found;
    const table& t = again.find_table("t");
    again.snapshot().for_each(
        t, [&](const row& r) { found.push_back(r.get(t.column<std::int64_t>("k"))); });
    std::sort(found.begin(), found.end());
    std::vector<std::int64_t> expected;
    for (const auto& of : made) expected.insert(expected.end(), of.begin(), of.end());
    EXPECT_EQ(found, expected);
  }
}

TEST(full_disk, a_segment_that_cannot_be_made_is_not_tried_with_each_commit) {
  const disk files = new_disk();
  std::uint64_t tries = 0;
  bool broken = false;
  options o = over(std::make_shared<faulty_files>(files, [&](const file_step& s) {
    if (!broken || s.what != step_kind::open) return 0;
    ++tries;
    return EMFILE;
  }));
  o.segment_bytes = 4096;
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  std::int64_t done = 0;
  broken = true;
  const std::uint64_t before = base.stats().log.bytes;
  while (done < 1000) ASSERT_TRUE(write_down(base, ledger, ++done));
  EXPECT_GT(tries, 0U);
  EXPECT_LE(tries, (base.stats().log.bytes - before) / 4096 + 1) << "once each 4 KiB";
  EXPECT_THROW(base.checkpoint(), storage_error);
  broken = false;
  const std::size_t names = files->names().size();
  while (done < 1100) ASSERT_TRUE(write_down(base, ledger, ++done));
  EXPECT_GT(files->names().size(), names) << "it goes on by itself";
  EXPECT_EQ(reopened(files->copy()), done);
}

TEST(full_disk, checkpoints_that_fail_come_again_after_pauses_that_grow) {
  const disk files = new_disk();
  std::atomic<bool> broken{true};
  options o = over(std::make_shared<faulty_files>(files, [&](const file_step& s) {
    return broken.load() && s.name.starts_with("checkpoint-") ? EMFILE : 0;
  }));
  o.checkpoint_log_bytes = 8192;
  o.checkpoint_share = 100;
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  std::int64_t done = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto since = [&] { return std::chrono::steady_clock::now() - start; };
  while (base.stats().log.failed_checkpoints < 3 && since() < std::chrono::seconds(60)) {
    ASSERT_TRUE(write_down(base, ledger, ++done));
  }
  EXPECT_GE(since(), std::chrono::milliseconds(300)) << "0.1 s, and 0.2 s";
  EXPECT_NE(base.checkpoint_failure().find("checkpoint-"), std::string::npos);
  EXPECT_GT(base.stats().log.since_checkpoint, 8192U) << "the log is as long as it is";
  broken = false;
  const std::uint64_t failed = base.stats().log.failed_checkpoints;
  while (base.stats().log.checkpoints == 0 && since() < std::chrono::seconds(60)) {
    ASSERT_TRUE(write_down(base, ledger, ++done));
  }
  EXPECT_EQ(base.stats().log.checkpoints, 1U);
  EXPECT_LE(base.stats().log.failed_checkpoints, failed + 1);
  while (!base.checkpoint_failure().empty() && since() < std::chrono::seconds(60)) {
    std::this_thread::yield();
  }
  EXPECT_EQ(base.checkpoint_failure(), "");
}

/// Room does not help then.
TEST(full_disk, a_checkpoint_after_a_failure_of_the_log_says_to_resume) {
  bool full = false;
  options o = over(new_disk());
  o.files = std::make_shared<faulty_files>(o.files, [&](const file_step& s) {
    return full && s.what == step_kind::sync && s.is_segment() ? ENOSPC : 0;
  });
  database base = database::open(place, o);
  table& ledger = make_ledger(base);
  full = true;
  ASSERT_EQ(write_down(base, ledger, 1), outcome::storage_failed);
  full = false;
  try {
    base.checkpoint();
    ADD_FAILURE() << "the log has failed";
  } catch (const storage_error& e) {
    EXPECT_NE(e.problem().find("until database::resume()"), std::string::npos) << e.problem();
    EXPECT_EQ(e.problem().find("checkpoint() again"), std::string::npos) << e.problem();
  }
  base.resume();
  base.checkpoint();
}

}  // namespace
