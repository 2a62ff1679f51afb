// SPDX-License-Identifier: Apache-2.0
// Functions of the program that the store calls, and what these may call in turn: it works, or it
// is refused with an error that says why. It never waits for the call that it is made from.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "db/faulty_files.hpp"
#include "db/layer_over.hpp"
#include "db/own_place.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;
using namespace std::chrono_literals;

/// A test that hangs ends the program.
class callbacks : public own_place {
 protected:
  callbacks() {
    watch_ = std::thread([over = over_.get_future()] {
      if (over.wait_for(90s) == std::future_status::ready) return;
      std::fputs("a call waits for the call that it is made from\n", stderr);
      std::_Exit(1);
    });
  }
  ~callbacks() override {
    over_.set_value();
    watch_.join();
  }

  /// A ledger of 20 commits. Each function is called once, and then is none: the first before the
  /// layer of files changes something, the other when the program is asked about a reader.
  struct calling_bank {
    calling_bank() {
      layer_faults faults;
      faults.before_change = [this] { std::exchange(in_the_log, [] {})(); };
      options o = small_segments();
      o.files = std::make_shared<layer_over>(faults);
      o.slow_after = 1ns;
      o.on_slow_reader = [this](const slow_reader&) {
        std::exchange(when_asked, [] {})();
        return slow_reader_action::leave;
      };
      base = std::make_unique<database>(database::open("base", o));
      commit(*base, 1, 20);
    }
    calling_bank(const calling_bank&) = delete;
    calling_bank& operator=(const calling_bank&) = delete;

    std::function<void()> in_the_log = [] {};
    std::function<void()> when_asked = [] {};
    std::unique_ptr<database> base;
  };

  /// What the call is refused with; empty: it is not.
  static std::string mistake(const std::function<void()>& f) {
    try {
      f();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return {};
  }
  static void is_refused(const std::string& call, const std::string& by,
                         const std::function<void()>& f) {
    const std::string why = mistake(f);
    EXPECT_TRUE(why.starts_with("spolia::db: " + call + " was called by " + by)) << why << call;
    EXPECT_NE(why.find("has returned"), std::string::npos) << why;
  }
  static void copies_are_refused(database& base, const std::string& by) {
    is_refused("checkpoint()", by, [&] { base.checkpoint(); });
    is_refused("backup()", by, [&] { base.backup("elsewhere"); });
    is_refused("backup()", by, [&] { base.backup([](std::span<const std::byte>) {}); });
    EXPECT_FALSE(fs::exists("elsewhere"));
  }
  static void copies_work(database& base) {
    EXPECT_GT(base.checkpoint().rows, 0U);
    base.backup("elsewhere");
    base.backup([](std::span<const std::byte>) {});
  }
  /// What waits for commits.
  static void indexes_are_refused(database& base, const std::string& by) {
    table& t = base.find_table("ledger");
    is_refused("create_index()", by,
               [&] { static_cast<void>(base.create_index(t, {.name = "x", .columns = {"n"}})); });
    is_refused("drop_index()", by, [&] { static_cast<void>(base.drop_index(t, "by_n")); });
    is_refused("drop_table()", by, [&] { static_cast<void>(base.drop_table(t)); });
  }
  static void indexes_work(database& base) {
    table& t = make_table(base);
    EXPECT_TRUE(base.create_index(t, {.name = "x", .columns = {"k"}}));
    EXPECT_TRUE(base.drop_index(t, "x"));
    EXPECT_TRUE(base.drop_table(t));
  }
  static table& make_table(database& base) {
    static std::atomic<int> made{0};
    return base.create_table(
        {.name = "t" + std::to_string(++made), .columns = {{"k", int64, primary_key}}});
  }
  static void put_one(database& base) {
    table& t = make_table(base);
    EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1}); }));
    EXPECT_TRUE(base.sync());
  }
  /// Calls that wait for no other thread.
  static void is_looked_at(database& base) {
    static_cast<void>(base.stats());
    static_cast<void>(base.readers());
    static_cast<void>(base.tables());
    static_cast<void>(base.storage_failure());
    static_cast<void>(base.checkpoint_failure());
    static_cast<void>(base.recovered());
    base.publish_status();
    base.collect();
    const reader now = base.snapshot();
    if (base.tables().empty()) return;
    now.for_each(*base.tables().front(), [](const row&) {});
  }
  /// A condition of a query calls f() on a thread that this one waits for.
  static void in_a_query(database& asked, const std::function<void()>& f) {
    const reader now = asked.snapshot();
    const table& ledger = asked.find_table("ledger");
    const auto here = std::this_thread::get_id();
    int calls = 0;
    const auto once = [&](std::int64_t) {
      if (calls++ != 0) return true;
      EXPECT_NE(std::this_thread::get_id(), here);
      f();
      return true;
    };
    const auto lend = [](std::function<void()> work) { std::thread(std::move(work)).join(); };
    EXPECT_TRUE(now.query(ledger)
                    .where(ledger.column<std::int64_t>("n"), once)
                    .aggregate(count())
                    .run({.threads = 2, .lend = lend, .morsel = 4}));
    EXPECT_GT(calls, 1);
  }
  static std::string stream_of(database& base) {
    std::string all;
    base.backup([&](std::span<const std::byte> part) {
      all.append(reinterpret_cast<const char*>(part.data()), part.size());
    });
    return all;
  }

  std::promise<void> over_;
  std::thread watch_;
};

TEST_F(callbacks, a_sink_makes_no_copy_of_the_same_database) {
  options o = small_segments();
  o.publish_status = true;
  for (const auto level :
       {durability_level::sync, durability_level::async, durability_level::none}) {
    o.durability = level;
    const fs::path at = "base" + std::to_string(static_cast<int>(level));
    database base = database::open(at, o);
    commit(base, 1, 20);
    database other = database::open(at.string() + "-other", o);
    commit(other, 1, 3);
    bool called = false;
    base.backup([&](std::span<const std::byte>) {
      if (std::exchange(called, true)) return;
      copies_are_refused(base, "the sink");
      indexes_work(base);
      put_one(base);
      is_looked_at(base);
      EXPECT_GT(other.checkpoint().rows, 0U);
    });
    EXPECT_TRUE(called);
    EXPECT_GT(base.checkpoint().rows, 0U);
  }
}

TEST_F(callbacks, a_sink_closes_its_database_when_the_backup_is_over) {
  auto base = std::make_unique<database>(database::open("base", small_segments()));
  commit(*base, 1, 20);
  std::string all;
  database* const of = base.get();
  of->backup([&](std::span<const std::byte> part) {
    all.append(reinterpret_cast<const char*>(part.data()), part.size());
    base.reset();
    EXPECT_NE(refused([] { database::open("base", small_segments()); }), "") << "it is open yet";
  });
  EXPECT_EQ(commits_at("base"), 20) << "and is not any more";
  database next = database::open("base", small_segments());
  EXPECT_THROW(next.backup([&](std::span<const std::byte>) {
    next = database::open("other", small_segments());
    throw std::range_error("mine");
  }),
               std::range_error);
  EXPECT_EQ(commits_at("base"), 20);
  EXPECT_TRUE(next.tables().empty()) << "it is the other one";
  std::size_t done = 0;
  database::restore(
      [&](std::span<std::byte> to) {
        const std::size_t count = std::min(to.size(), all.size() - done);
        std::memcpy(to.data(), all.data() + done, count);
        done += count;
        if (done != count) {  // the first call is before the directory is made
          EXPECT_NE(refused([] { database::open("again", over(nullptr)); }).find("open elsewhere"),
                    std::string::npos);
        }
        return count;
      },
      "again");
  EXPECT_EQ(commits_at("again"), 20);
}

TEST_F(callbacks, of_slow_readers_do_not_wait_for_the_commit_that_asks) {
  options o = small_segments();
  o.versions = version_storage::one_shot;  // a reader holds all that is written
  o.version_budget = 300'000;
  int depth = 0;
  int calls = 0;
  std::function<void()> within;
  o.on_slow_reader = [&](const slow_reader&) {
    EXPECT_EQ(++depth, 1) << "what it does itself is not asked about";
    if (++calls == 1) within();
    --depth;
    return slow_reader_action::leave;
  };
  database base = database::open("base", o);
  commit(base, 1, 20);
  table& ledger = base.find_table("ledger");
  transaction* asking = nullptr;
  within = [&] {
    indexes_are_refused(base, "options::on_slow_reader");
    copies_are_refused(base, "options::on_slow_reader");  // a sink may wait for this commit
    put_one(base);
    is_looked_at(base);
    // It commits itself, and does not fit either.
    EXPECT_EQ(base.transact([&](transaction& tx) { return tx.update(ledger, {1}, {{"n", 1}}); }),
              outcome::limit);
    EXPECT_NE(mistake([&] { static_cast<void>(asking->update(ledger, {1}, {{"n", 1}})); }), "");
    EXPECT_NE(mistake([&] { static_cast<void>(asking->commit()); }), "");
  };
  const reader old = base.snapshot("old");
  status done;
  for (std::int64_t n = 0; done; ++n) {
    transaction tx = base.begin();
    asking = &tx;
    ASSERT_TRUE(tx.update(ledger, {2}, {{"n", n}}));
    done = tx.commit();
  }
  EXPECT_EQ(done, outcome::limit);
  EXPECT_GE(calls, 1);
  EXPECT_TRUE(old.find(ledger, {1}));
}

/// What the commit has it keeps until the function has returned: to wait, or to try again, is vain.
TEST_F(callbacks, of_slow_readers_are_told_what_the_commit_that_asks_has) {
  options o = small_segments();
  o.versions = version_storage::one_shot;  // a reader holds all that is written
  o.version_budget = 300'000;
  std::function<void()> when_asked = [] {};
  o.on_slow_reader = [&](const slow_reader&) {
    std::exchange(when_asked, [] {})();
    return slow_reader_action::leave;
  };
  database base = database::open("base", o);
  commit(base, 1, 20);
  table& ledger = base.find_table("ledger");
  table& t = base.create_table({.name = "t",
                                .columns = {{"k", int64, primary_key}, {"v", int64}},
                                .indexes = {{.name = "by_v", .columns = {"v"}, .unique = true}}});
  ASSERT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {1, 10}); }));
  transaction* asking = nullptr;
  const std::vector<std::function<status(transaction&)>> wants = {
      [&](transaction& tx) { return tx.update(ledger, {2}, {{"n", 1}}); },
      [&](transaction& tx) { return tx.erase(ledger, {2}); },
      [&](transaction& tx) { return tx.lock(ledger, {2}).why(); },
      [&](transaction& tx) { return tx.insert(t, {2, 2}); },   // which it inserts
      [&](transaction& tx) { return tx.insert(t, {3, 20}); },  // a value of its own
      [&](transaction& tx) { return tx.update(t, {1}, {{"v", 20}}); },
  };
  int refusals = 0;
  const auto all_refused = [&] {
    for (const auto longest_wait : {0us, std::chrono::microseconds(1h)}) {
      for (const auto& f : wants) {
        const std::string why = mistake([&] {
          static_cast<void>(base.transact(f, {.begin = {.longest_wait = longest_wait}}));
        });
        EXPECT_NE(why.find("wants a row, or a value"), std::string::npos) << refusals << why;
        ++refusals;
      }
    }
    EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {refusals, refusals}); }))
        << "which it has not";
    transaction tx = base.begin();
    EXPECT_EQ(tx.update(ledger, {4}, {{"n", 1}}), outcome::conflict) << "another one has it";
  };
  when_asked = [&] {
    all_refused();
    in_a_query(base, all_refused);
    EXPECT_NE(mistake([&] { asking->rollback(); }), "");
    EXPECT_TRUE(asking->state());
  };
  const reader old = base.snapshot("old");
  transaction another = base.begin();
  ASSERT_TRUE(another.lock(ledger, {4}));
  status done;
  for (std::int64_t n = 0; done; ++n) {
    // Which keeps the key and the value of what it takes back.
    transaction tx = base.begin({.isolation = isolation::serializable});
    asking = &tx;
    ASSERT_TRUE(tx.update(ledger, {2}, {{"n", n}}));
    ASSERT_TRUE(tx.insert(t, {2, 20}));
    ASSERT_TRUE(tx.erase(t, {2}));
    done = tx.commit();
  }
  EXPECT_EQ(done, outcome::limit);
  EXPECT_EQ(refusals, 24);
  EXPECT_TRUE(base.transact([&](transaction& tx) { return tx.insert(t, {2, 20}); }));
}

/// Nor do two functions, on two threads, for each other's calls.
TEST_F(callbacks, of_slow_readers_do_not_wait_for_a_sink_that_waits_for_the_commit_that_asks) {
  options o = small_segments();
  o.versions = version_storage::one_shot;  // a reader holds all that is written
  o.version_budget = 300'000;
  std::promise<void> asks;
  std::promise<void> builds;
  database* of = nullptr;
  bool first = true;
  o.on_slow_reader = [&](const slow_reader&) {
    if (std::exchange(first, false)) {
      asks.set_value();
      builds.get_future().wait();
      std::this_thread::sleep_for(50ms);  // most likely it waits by now
      copies_are_refused(*of, "options::on_slow_reader");
    }
    return slow_reader_action::leave;
  };
  database base = database::open("base", o);
  of = &base;
  commit(base, 1, 20);
  table& ledger = base.find_table("ledger");
  const reader old = base.snapshot("old");
  std::thread commits;
  base.backup([&](std::span<const std::byte>) {
    if (commits.joinable()) return;
    commits = std::thread([&] {
      status done;
      for (std::int64_t n = 0; done; ++n) {
        transaction tx = base.begin();
        ASSERT_TRUE(tx.update(ledger, {2}, {{"n", n}}));
        done = tx.commit();
      }
      EXPECT_EQ(done, outcome::limit);
    });
    asks.get_future().wait();
    builds.set_value();
    EXPECT_TRUE(base.create_index(ledger, {.name = "x", .columns = {"n"}}));
  });
  commits.join();
  EXPECT_GT(base.checkpoint().rows, 0U);
}

/// All that the thread is within counts, and what has begun first lasts longest.
TEST_F(callbacks, within_each_other_are_all_looked_at) {
  calling_bank calls;
  auto& [in_the_log, when_asked, base] = calls;
  table& ledger = base->find_table("ledger");
  int called = 0;
  std::unique_ptr<const reader> slow(new reader(base->snapshot({.deadline = 1h})));
  in_the_log = [&] {
    when_asked = [&] {
      ++called;
      is_refused("sync()", "the layer of files", [&] { static_cast<void>(base->sync()); });
    };
    base->collect();
  };
  EXPECT_TRUE(base->transact([&](transaction& tx) { return tx.update(ledger, {1}, {{"n", 10}}); }));
  EXPECT_EQ(std::exchange(called, 0), 1);
  slow.reset();
  database* const of = base.get();
  of->backup([&](std::span<const std::byte>) {
    if (called != 0) return;
    const reader held = base->snapshot({.deadline = 1h});
    transaction tx = base->begin();
    EXPECT_TRUE(tx.update(ledger, {1}, {{"n", 10}}));
    when_asked = [&] {
      ++called;
      base.reset();
    };
    EXPECT_TRUE(tx.commit()) << "it is not closed yet";
    EXPECT_NE(refused([] { database::open("base", small_segments()); }), "");
  });
  EXPECT_EQ(called, 1);
  EXPECT_EQ(commits_at("base"), 20);
}

/// The conditions of a query run on threads that the one which has asked waits for.
TEST_F(callbacks, of_queries_wait_for_nothing_that_the_thread_which_asks_is_within) {
  calling_bank calls;
  auto& [in_the_log, when_asked, base] = calls;
  database other = database::open("other", small_segments());
  commit(other, 1, 20);
  const auto ask = [&] {
    const reader slow = base->snapshot({.deadline = 1h});
    std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(base->transact(
        [&](transaction& tx) { return tx.update(base->find_table("ledger"), {1}, {{"n", 10}}); }));
  };
  int called = 0;
  when_asked = [&] {
    in_a_query(*base, [&] {
      ++called;
      indexes_are_refused(*base, "options::on_slow_reader");
      copies_are_refused(*base, "options::on_slow_reader");
      put_one(*base);
    });
  };
  ask();
  EXPECT_EQ(std::exchange(called, 0), 1);
  in_the_log = [&] {
    in_a_query(*base, [&] {
      ++called;
      is_refused("sync()", "the layer of files", [&] { static_cast<void>(base->sync()); });
    });
  };
  ask();
  EXPECT_EQ(std::exchange(called, 0), 1);
  std::string all;
  database* const of = base.get();
  of->backup([&](std::span<const std::byte>) {
    if (called != 0) return;
    in_a_query(*base, [&] {
      ++called;
      copies_are_refused(*base, "the sink");
      indexes_work(*base);
      put_one(*base);
    });
    in_a_query(other, [&] { base.reset(); });
    EXPECT_NE(refused([] { database::open("base", small_segments()); }), "") << "it is open yet";
  });
  EXPECT_EQ(called, 1);
  EXPECT_EQ(commits_at("base"), 20);
}

TEST_F(callbacks, of_openings_and_restorations_find_the_directory_taken) {
  std::string all;
  {
    database base = database::open("base", small_segments());
    commit(base, 1, 20);
    base.checkpoint();
    commit(base, 21, 25);
    all = stream_of(base);
  }
  options o = small_segments();
  int calls = 0;
  o.on_recovery = [&](const recovery_progress&) {
    if (++calls != 1) return;
    EXPECT_NE(refused([] { database::open("base", small_segments()); }).find("open elsewhere"),
              std::string::npos);
    database other = database::open("other", small_segments());
    commit(other, 1, 3);
    EXPECT_NE(refused([&] { other.backup("base"); }).find("open elsewhere"), std::string::npos);
  };
  {
    const database base = database::open("base", o);
  }
  EXPECT_GT(calls, 0);
  EXPECT_EQ(commits_at("base"), 25);
}

/// A layer of files is called while others wait for what it does.
TEST_F(callbacks, of_files_do_not_wait_for_the_log) {
  for (const auto level : {durability_level::sync, durability_level::async}) {
    SCOPED_TRACE(static_cast<int>(level));
    const fs::path at = "base" + std::to_string(static_cast<int>(level));
    std::atomic<bool> armed{false};
    std::atomic<int> calls{0};
    std::unique_ptr<database> base;
    layer_faults faults;
    faults.before_change = [&] {
      if (!armed.exchange(false)) return;
      ++calls;
      const std::string by = "the layer of files (options::files) within a write to the log";
      copies_are_refused(*base, by);
      indexes_are_refused(*base, by);
      is_refused("sync()", by, [&] { static_cast<void>(base->sync()); });
      is_refused("create_table()", by, [&] { make_table(*base); });
      table& ledger = base->find_table("ledger");
      is_refused("commit()", by, [&] {
        static_cast<void>(base->transact(
            [&](transaction& tx) { return tx.insert(base->find_table("spare"), {7}); }));
      });
      is_refused("commit()", by, [&] {
        transaction tx = base->begin({.durable_reads = true});
        static_cast<void>(tx.find(ledger, {0}));
        static_cast<void>(tx.commit());
      });
      is_looked_at(*base);
    };
    options o = over(std::make_shared<layer_over>(faults));
    o.segment_bytes = 16384;
    o.durability = level;
    base = std::make_unique<database>(database::open(at, o));
    commit(*base, 1, 5);
    base->create_table({.name = "spare", .columns = {{"k", int64, primary_key}}});
    ASSERT_TRUE(base->sync());
    table& ledger = base->find_table("ledger");
    for (std::int64_t n = 6; n <= 300; ++n) {  // also where segments end, and are made longer
      armed = true;
      ASSERT_TRUE(write_down(*base, ledger, n));
      if (n % 50 == 0) {
        ASSERT_TRUE(base->sync());
      }
    }
    armed = false;
    EXPECT_GT(calls, 5);
    base.reset();
    EXPECT_EQ(commits_at(at), 300);
  }
}

/// That which makes a log longer fills the reserve up, too, within the commit that needs the room.
TEST_F(callbacks, of_files_do_not_wait_for_the_commit_that_makes_the_log_longer) {
  std::unique_ptr<database> base;
  bool calls_back = false;
  int calls = 0;
  const auto no_reserve = [&](const file_step& s) {
    if (!s.is_reserve()) return 0;
    if (std::exchange(calls_back, false)) {
      ++calls;
      const std::string by = "the layer of files (options::files) within a write to the log";
      indexes_are_refused(*base, by);
      copies_are_refused(*base, by);
      is_looked_at(*base);
    }
    return ENOSPC;  // so that it is tried again
  };
  options o = small_segments();
  o.files = std::make_shared<faulty_files>(real_files(), no_reserve);
  base = std::make_unique<database>(database::open("base", o));
  commit(*base, 1, 5);
  table& spare = make_table(*base);
  calls_back = true;
  EXPECT_TRUE(base->transact([&](transaction& tx) {  // more than a segment has room for
    for (std::int64_t k = 0; k < 1000; ++k) EXPECT_TRUE(tx.insert(spare, {k}));
  }));
  EXPECT_EQ(calls, 1);
  base.reset();
  EXPECT_EQ(commits_at("base"), 5);
}

TEST_F(callbacks, of_files_of_a_copy_make_no_other_copy) {
  std::atomic<bool> armed{false};
  std::unique_ptr<database> base;
  int calls = 0;
  layer_faults faults;
  faults.before_change = [&] {
    if (!armed) return;
    ++calls;
    armed = false;
    copies_are_refused(*base, "the ");
    is_looked_at(*base);
    armed = true;
  };
  options o = small_segments();
  o.files = std::make_shared<layer_over>(faults);
  base = std::make_unique<database>(database::open("base", o));
  commit(*base, 1, 30);
  armed = true;
  base->checkpoint();
  base->backup("copy");
  armed = false;
  EXPECT_GT(calls, 5);
  base.reset();
  EXPECT_EQ(commits_at("copy"), 30);
}

/// Of scans, of queries and of transact(): nothing waits for these.
TEST_F(callbacks, of_reading_may_call_everything) {
  database base = database::open("base", small_segments());
  commit(base, 1, 30);
  table& ledger = base.find_table("ledger");
  const auto all = [&] {
    copies_work(base);
    fs::remove_all("elsewhere");
    indexes_work(base);
    put_one(base);
    is_looked_at(base);
  };
  int calls = 0;
  const auto once = [&] {
    if (calls++ == 0) all();
    return true;
  };
  const reader now = base.snapshot();
  now.for_each(ledger, [&](const row&) { once(); });
  EXPECT_GT(std::exchange(calls, 0), 1);
  now.scan(ledger.index("by_n"), {}, {}, [&](const row&) { once(); });
  EXPECT_GT(std::exchange(calls, 0), 1);
  now.scan_down(ledger.index("by_n"), {}, {}, [&](const row&) { once(); });
  EXPECT_GT(std::exchange(calls, 0), 1);
  const auto n = ledger.column<std::int64_t>("n");
  EXPECT_TRUE(now.query(ledger)
                  .where(n, [&](std::int64_t) { return once(); })
                  .aggregate(count())
                  .run({.threads = 1}));
  EXPECT_GT(std::exchange(calls, 0), 1);
  EXPECT_TRUE(now.query(ledger).aggregate(count()).run({.threads = 3,
                                                        .lend =
                                                            [&](std::function<void()> f) {
                                                              once();
                                                              f();
                                                            },
                                                        .morsel = 4}));
  EXPECT_TRUE(base.transact([&](transaction& tx) {
    all();
    return tx.update(ledger, {1}, {{"n", 10}});
  }));
}

}  // namespace
