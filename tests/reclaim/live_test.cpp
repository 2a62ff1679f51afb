// SPDX-License-Identifier: Apache-2.0
// live<T>, clause by clause: what is read, what a change does, when values end, and which functions
// are called.

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/live.hpp>

#include "support/ledger.hpp"
#include "support/parked_thread.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"
#include "support/soon.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia::test;
using spolia::live;
using spolia::live_change;

using live_tracked = live<tracked>;

static_assert(std::is_nothrow_move_constructible_v<live<int>::reading>);
static_assert(std::is_nothrow_move_assignable_v<live<int>::reading>);
static_assert(!std::is_copy_constructible_v<live<int>::reading>);
static_assert(!std::is_convertible_v<live<int>::reading, const int*>);
static_assert(!std::is_default_constructible_v<live<tracked>>);
static_assert(!std::is_copy_constructible_v<live<int>> && !std::is_move_constructible_v<live<int>>);

TEST(live_value, begins_with_what_it_is_made_of) {
  EXPECT_EQ(*live<int>().read(), 0);
  EXPECT_EQ(*live<std::string>("abc").read(), "abc");
  const live<std::vector<int>> three(std::in_place, 3U, 7);
  EXPECT_EQ(three.copy(), (std::vector{7, 7, 7}));
  EXPECT_EQ(three.version(), 1U);
}

TEST(live_value, a_reading_keeps_what_it_has_read) {
  ledger book;
  {
    live_tracked value(std::in_place, book, 1U);
    auto first = value.read();
    EXPECT_TRUE(value.emplace(book, 2U));
    EXPECT_EQ(first->read(), 1U);
    EXPECT_EQ(first.version(), 1U);
    EXPECT_EQ(value.read()->read(), 2U);
    EXPECT_EQ(value.waiting(), 1U);
    auto moved = std::move(first);
    EXPECT_EQ(moved->read(), 1U);
    moved = value.read();  // lets the first one go
    EXPECT_EQ(book.live(), 1);
    EXPECT_EQ(value.waiting(), 0U);
    EXPECT_EQ(moved.version(), 2U);
  }
  book.expect_empty();
}

TEST(live_value, what_no_reader_holds_ends_at_once) {
  ledger book;
  live_tracked value(std::in_place, book, 0U);
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    value.emplace(book, i);
    ASSERT_EQ(book.live(), 1);
  }
}

TEST(live_value, each_reader_keeps_one_value_and_no_other) {
  ledger book;
  live_tracked value(std::in_place, book, 0U);
  std::vector<live_tracked::reading> held;
  for (std::uint64_t i = 1; i <= 300; ++i) {
    held.push_back(value.read());
    value.emplace(book, i);
    value.emplace(book, i);  // read by none
    ASSERT_EQ(book.live(), static_cast<std::int64_t>(held.size()) + 1);
  }
  for (std::size_t i = 0; i < held.size(); i += 2) held[i] = value.read();
  EXPECT_EQ(book.live(), 151);
  held.clear();
  EXPECT_EQ(book.live(), 1);
}

TEST(live_value, a_reading_may_end_on_another_thread) {
  ledger book;
  live_tracked value(std::in_place, book, 1U);
  std::optional<live_tracked::reading> handed;
  std::thread([&] { handed.emplace(value.read()); }).join();
  value.emplace(book, 2U);
  // A thread that has the number of the one that is gone has slots of its own.
  std::thread([&] {
    const auto mine = value.read();
    EXPECT_EQ(mine->read(), 2U);
    EXPECT_EQ((*handed)->read(), 1U);
  }).join();
  EXPECT_EQ(book.live(), 2);
  std::thread([&] { handed.reset(); }).join();
  EXPECT_EQ(book.live(), 1);
}

TEST(live_value, update_changes_a_copy_once) {
  live<std::vector<int>> value(std::in_place, std::vector{1});
  const auto before = value.read();
  std::vector<int> more{2, 3};
  const live_change done = value.update([&](std::vector<int>& all) {
    for (const int n : std::exchange(more, {})) all.push_back(n);
  });
  EXPECT_TRUE(done);
  EXPECT_EQ(done.version, 2U);
  EXPECT_EQ(value.copy(), (std::vector{1, 2, 3}));
  EXPECT_EQ(*before, std::vector{1});
  const live_change not_done = value.update([](std::vector<int>& all) {
    all.clear();
    return false;
  });
  EXPECT_FALSE(not_done);
  EXPECT_EQ(not_done.version, 2U);
  EXPECT_EQ(value.read()->size(), 3U);
}

TEST(live_value, store_if_asks_for_the_version) {
  live<int> value(1);
  EXPECT_TRUE(value.store_if(1, 5));
  const live_change late = value.store_if(1, 6);
  EXPECT_FALSE(late);
  EXPECT_EQ(late.version, 2U);
  EXPECT_EQ(value.copy(), 5);
}

struct live_throws {
  live_throws() = default;
  live_throws(const live_throws&) { throw std::runtime_error("no copy"); }
};

TEST(live_value, what_throws_changes_nothing) {
  live<live_throws> value;
  EXPECT_THROW(value.update([](live_throws&) {}), std::runtime_error);
  EXPECT_EQ(value.version(), 1U);
  ledger book;
  live_tracked other(std::in_place, book, 1U);
  EXPECT_THROW(other.update([](tracked&) { throw std::logic_error("not so"); }), std::logic_error);
  EXPECT_EQ(other.version(), 1U);
  EXPECT_EQ(book.live(), 1);
  EXPECT_TRUE(other.emplace(book, 2U));  // the turn was given back
}

TEST(live_value, a_change_within_its_own_update_is_refused) {
  live<int> value(1);
  live<int> other(1);
  EXPECT_TRUE(value.update([&](int& n) {
    EXPECT_THROW(value.store(7), std::system_error);
    EXPECT_THROW(value.update([](int&) {}), std::system_error);
    other.store(8);
    n += *value.read() + *other.read();
  }));
  EXPECT_EQ(value.copy(), 10);
}

/// Its end puts another value in.
struct live_heir {
  explicit live_heir(live<live_heir>* where, int more) : of(where), left(more) {}
  live_heir(live_heir&& o) noexcept : of(std::exchange(o.of, nullptr)), left(o.left) {}
  live_heir& operator=(live_heir&&) = delete;
  ~live_heir() {
    if (of != nullptr && left > 0) of->emplace(nullptr, left - 1);
  }
  live<live_heir>* of;
  int left;
};

TEST(live_value, a_destructor_may_change_the_value) {
  live<live_heir> value(std::in_place, nullptr, 0);
  value.emplace(&value, 3);
  value.emplace(nullptr, 9);
  EXPECT_EQ(value.read()->left, 2);
  EXPECT_EQ(value.version(), 4U);
  EXPECT_EQ(value.waiting(), 0U);
}

TEST(live_value, old_readings_name_their_threads) {
  live<int> value(1);
  parked_thread sleeper([&](parking_spot& spot) {
    pthread_setname_np(pthread_self(), "sleeper");
    const auto mine = value.read();
    spot.park();
    EXPECT_EQ(*mine, 1);
  });
  EXPECT_TRUE(value.old_readings().empty());
  value.store(2);
  const auto mine = value.read();
  value.store(3);
  const auto old = value.old_readings();
  ASSERT_EQ(old.size(), 2U);
  EXPECT_EQ(old[0].version, 1U);
  EXPECT_EQ(old[0].thread_name, "sleeper");
  EXPECT_GE(old[0].replaced_ago, old[1].replaced_ago);
  EXPECT_EQ(old[1].version, 2U);
  EXPECT_EQ(old[1].thread, spolia::threads::number());
  sleeper.release();
  EXPECT_EQ(value.old_readings().size(), 1U);
}

TEST(live_value, watches_hear_of_changes_in_order) {
  live<int> value(0);
  std::vector<std::string> heard;
  auto first = value.on_change([&](const int& n, std::uint64_t version) {
    heard.push_back("a" + std::to_string(n) + "v" + std::to_string(version));
  });
  auto second = value.on_change([&](const int& n) { heard.push_back("b" + std::to_string(n)); });
  auto third = value.on_change([&, only = std::make_unique<int>(3)] { heard.push_back("c"); });
  value.store(1);
  EXPECT_EQ(heard, (std::vector<std::string>{"a1v2", "b1", "c"}));
  second = {};
  value.update([](int& n) {
    n = 2;
    return false;
  });
  value.update([](int& n) { n = 3; });
  EXPECT_EQ(heard, (std::vector<std::string>{"a1v2", "b1", "c", "a3v3", "c"}));
  {
    const auto gone = std::move(first);
  }
  third.end();
  value.store(4);
  EXPECT_EQ(heard.size(), 5U);
}

TEST(live_value, a_watch_may_change_the_value_and_end_itself) {
  live<int> value(0);
  std::vector<int> heard;
  live<int>::watch self;
  self = value.on_change([&](const int& n) {
    heard.push_back(n);
    if (n < 3) value.store(n + 1);  // this function hears of it when it is through
    if (n == 3) self.end();
  });
  value.store(1);
  EXPECT_EQ(heard, (std::vector{1, 2, 3}));
  value.store(9);
  EXPECT_EQ(heard.size(), 3U);
}

TEST(live_value, what_a_watch_throws_goes_on_when_all_have_heard) {
  live<int> value(0);
  int heard = 0;
  const auto bad = value.on_change([] { throw std::runtime_error("bad"); });
  const auto worse = value.on_change([] { throw std::logic_error("worse"); });
  const auto good = value.on_change([&](const int& n) { heard = n; });
  EXPECT_THROW(value.store(1), std::runtime_error);
  EXPECT_EQ(heard, 1);
  EXPECT_EQ(value.copy(), 1);
  EXPECT_THROW(value.update([](int& n) { ++n; }), std::runtime_error);
  EXPECT_EQ(heard, 2);
}

/// By pthread_exit, which unwinds as pthread_cancel does.
TEST(live_value, a_thread_may_end_in_the_function_of_a_watch) {
  live<int> value(1);
  bool ends = true;
  int heard = 0;
  const auto first = value.on_change([&](const int&, std::uint64_t) {
    if (ends) pthread_exit(nullptr);
  });
  const auto second = value.on_change([&](const int& now, std::uint64_t) { heard = now; });
  pthread_t id{};
  ASSERT_EQ(pthread_create(
                &id, nullptr,
                [](void* v) -> void* {
                  static_cast<live<int>*>(v)->store(2);
                  return nullptr;
                },
                &value),
            0);
  pthread_join(id, nullptr);
  EXPECT_EQ(value.copy(), 2);
  EXPECT_EQ(heard, 0) << "it ended before";
  ends = false;
  EXPECT_TRUE(value.store(3));
  EXPECT_EQ(heard, 3) << "no thread is taken for one that calls functions";
  EXPECT_EQ(value.waiting(), 0U);
}

TEST(live_value, the_end_of_a_watch_waits_for_its_function) {
  live<int> value(0);
  std::atomic<bool> begun{false};
  std::atomic<bool> over{false};
  auto slow = value.on_change([&] {
    begun.store(true, std::memory_order_relaxed);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    over.store(true, std::memory_order_relaxed);
  });
  std::thread changes([&] { value.store(1); });
  ASSERT_TRUE(soon([&] { return begun.load(std::memory_order_relaxed); }));
  slow.end();
  EXPECT_TRUE(over.load(std::memory_order_relaxed));
  changes.join();
}

TEST(live_value, watches_hear_of_the_last_change_whoever_makes_it) {
  live<std::uint64_t> value(0);
  std::uint64_t last = 0;
  std::uint64_t calls = 0;
  const auto watch = value.on_change([&](const std::uint64_t& n, std::uint64_t version) {
    EXPECT_GT(version, last);  // one at a time, so without a lock
    EXPECT_EQ(n + 1, version);
    last = version;
    ++calls;
  });
  run_stress({.threads = 4, .share = 0.5}, [&](stress_thread& self) {
    while (self.running()) {
      value.update([](std::uint64_t& n) { ++n; });
      self.jitter();
    }
  });
  EXPECT_EQ(last, value.version());
  EXPECT_GT(calls, 0U);
}

/// What a configuration is: much memory, which the value owns.
struct live_config {
  static constexpr std::size_t bytes = std::size_t{sanitized ? 1U : 64U} << 16U;
  explicit live_config(ledger& book) : alive(book), text(bytes, 'x') {}
  tracked alive;
  std::vector<char> text;
};

TEST(live_value, reloads_of_what_owns_much_keep_one_copy_for_each_reader) {
  ledger book;
  const std::uint64_t before = resident_when_trimmed();
  live<live_config> current(std::in_place, book);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const auto now = current.read();
      ASSERT_EQ(now->text[now->alive.read() + 7], 'x');
    }
  });
  for (const int pause_us : {0, 300, 3000}) {
    book.reset_peaks();
    for (int i = 0; i < 300; ++i) {
      current.emplace(book);
      if (pause_us != 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    }
    // The current one, the reader's, one that is being made, and one that is just ending.
    EXPECT_LE(book.peak_live(), 4) << pause_us;
    EXPECT_TRUE(soon([&] { return book.live() <= 2; }));
  }
  // The address sanitizer keeps what was freed for a while.
  if (!sanitized) {
    EXPECT_LE(resident_when_trimmed(), before + (std::uint64_t{16} << 20U));
  }
  stop.store(true, std::memory_order_relaxed);
  reader.join();
  EXPECT_EQ(book.live(), 1);
}

TEST(live_value, readers_that_sleep_and_threads_that_end_keep_what_they_read) {
  ledger book;
  live_tracked value(std::in_place, book, 0U);
  std::vector<std::unique_ptr<parked_thread>> sleepers;
  for (std::uint64_t i = 1; i <= 8; ++i) {
    sleepers.push_back(std::make_unique<parked_thread>([&](parking_spot& spot) {
      const auto mine = value.read();
      const std::uint64_t seen = mine->read();
      spot.park();
      EXPECT_EQ(mine->read(), seen);
    }));
    for (int n = 0; n < 500; ++n) value.emplace(book, i);
  }
  std::uint64_t least = 0;
  EXPECT_EQ(book.live(), 9);
  churn_threads({.threads = 3, .share = 0.3}, [&](stress_thread&) {
    const auto now = value.read();
    EXPECT_GE(now->read(), least);
    value.emplace(book, now->read());
  });
  EXPECT_EQ(book.live(), 9);
  sleepers.clear();
  EXPECT_EQ(book.live(), 1);
}

#if SPOLIA_CHECKS

class live_misuse : public testing::Test {
 protected:
  // The child of a death test starts afresh: other threads' locks are not copied into it.
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(live_misuse, a_value_that_ends_before_a_reading_is_reported) {
  EXPECT_DEATH(
      {
        auto value = std::make_unique<live<int>>(1);
        const auto held = value->read();
        value.reset();
      },
      "end readings before the value");
}
TEST_F(live_misuse, a_value_that_ends_before_a_watch_is_reported) {
  EXPECT_DEATH(
      {
        auto value = std::make_unique<live<int>>(1);
        const auto hears = value->on_change([](const int&) {});
        value.reset();
      },
      "end the watches first");
}
TEST_F(live_misuse, a_reading_that_was_moved_from_is_reported) {
  EXPECT_DEATH(
      {
        const live<int> value(1);
        auto first = value.read();
        const auto second = std::move(first);
        static_cast<void>(*first);
      },
      "or read again");
}

#endif

}  // namespace
