// SPDX-License-Identifier: Apache-2.0
// Threads that are cancelled while they work on a database in a directory: the process and the
// database go on, and have all that was acknowledged.

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spolia/db.hpp>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "db/own_place.hpp"
#include "db/slow_disk.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;

/// Runs a function; then it is cancelled, if it was told so and was not before.
class thread_to_cancel {
 public:
  explicit thread_to_cancel(std::function<void()> body) : body_(std::move(body)) {
    EXPECT_EQ(pthread_create(&thread_, nullptr, &run, this), 0);
  }
  thread_to_cancel(const thread_to_cancel&) = delete;
  thread_to_cancel& operator=(const thread_to_cancel&) = delete;
  ~thread_to_cancel() {
    if (!joined_) ended_by_it();
  }
  void cancel() { EXPECT_EQ(pthread_cancel(thread_), 0); }
  bool ended_by_it() {
    void* result = nullptr;
    joined_ = true;
    EXPECT_EQ(pthread_join(thread_, &result), 0);
    return result == PTHREAD_CANCELED;
  }

 private:
  static void* run(void* of) {
    static_cast<thread_to_cancel*>(of)->body_();
    pthread_testcancel();
    return nullptr;
  }
  const std::function<void()> body_;
  pthread_t thread_{};
  bool joined_ = false;
};

/// A layer of files in which a thread is cancelled at the n-th step that it takes. Each step is a
/// cancellation point, as those of the system are.
class cancelling {
 public:
  explicit cancelling(std::shared_ptr<storage_files> under)
      : files(std::make_shared<faulty_files>(std::move(under), [](const file_step&) {
          if (at != 0 && ++steps == at) pthread_cancel(pthread_self());
          pthread_testcancel();
          return 0;
        })) {}

  /// Runs f again and again, each time on a thread of its own that is cancelled before it, at its
  /// first step, at its second, until there are not so many; and between two of them after().
  template <class F, class After>
  static void at_each_step(F&& f, After&& after) {
    bool enough = false;
    for (std::uint64_t n = 0; !enough && !testing::Test::HasFailure(); n += steps_apart) {
      SCOPED_TRACE("cancelled at step " + std::to_string(n));
      bool was_done = false;
      thread_to_cancel one([&] {
        at = n;
        steps = 0;
        if (n == 0) pthread_cancel(pthread_self());
        f();
        was_done = true;
        enough = n > steps;
      });
      const bool ended = one.ended_by_it();
      EXPECT_EQ(ended, !enough);
      EXPECT_TRUE(was_done) << "it is cancelled when that is over";
      after();
    }
  }

  const std::shared_ptr<storage_files> files;

 private:
  static inline thread_local std::uint64_t at = 0;
  static inline thread_local std::uint64_t steps = 0;
};

class cancelled : public own_place {
 protected:
  cancelled() {
    how_.segment_bytes = 4096;
    how_.publish_status = true;
    open();
    make_ledger(*base_);
    commits_go_on();
  }
  void open() { base_.emplace(database::open(place, how_)); }
  /// They are in all that is opened from now on.
  void commits_go_on() {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(write_down(*base_, base_->find_table("ledger"), done_ + 1));
      ++done_;
    }
  }
  void all_is_there() {
    EXPECT_EQ(commits_in(*base_), done_);
    EXPECT_FALSE(base_->stats().log.failed);
    base_.reset();
    open();
    EXPECT_EQ(commits_in(*base_), done_);
  }
  /// While f runs on threads that are cancelled.
  void goes_on_after(const std::function<void()>& f) {
    cancelling::at_each_step(f, [this] { commits_go_on(); });
    all_is_there();
  }

  cancelling disk_{real_files()};
  options how_ = over(disk_.files);
  std::optional<database> base_;
  std::int64_t done_ = 0;
};

TEST_F(cancelled, in_changes_of_the_catalogue) {
  int n = 0;
  goes_on_after([&] {
    table& ledger = base_->find_table("ledger");
    EXPECT_TRUE(base_->create_index(ledger, {"by_even", {"even"}}));
    EXPECT_TRUE(base_->drop_index(ledger, "by_even"));
    table& made = base_->create_table(
        {.name = "t" + std::to_string(n++), .columns = {{"k", int64, primary_key}}});
    EXPECT_TRUE(base_->drop_table(made));
  });
}

TEST_F(cancelled, in_checkpoints) {
  goes_on_after([&] { base_->checkpoint(); });
}

TEST_F(cancelled, in_backups) {
  goes_on_after([&] { base_->backup("copy"); });
  EXPECT_GT(commits_at("copy"), 0);
  fs::remove_all("copy");
  std::vector<std::byte> copy;
  goes_on_after([&] {
    copy.clear();
    base_->backup([&](std::span<const std::byte> part) {
      copy.insert(copy.end(), part.begin(), part.end());
    });
  });
  cancelling::at_each_step(
      [&] {
        std::size_t at = 0;
        const auto source = [&](std::span<std::byte> to) {
          const std::size_t n = std::min(to.size(), copy.size() - at);
          std::copy_n(copy.begin() + static_cast<std::ptrdiff_t>(at), n, to.begin());
          at += n;
          return n;
        };
        database::restore(source, "copy", disk_.files);
      },
      [&] {
        EXPECT_GT(commits_at("copy"), 0);
        fs::remove_all("copy");
      });
}

/// The program may be cancelled where it takes or gives a stream: that is its own code.
TEST_F(cancelled, in_its_own_code_for_a_stream) {
  thread_to_cancel backup([&] {
    base_->backup([](std::span<const std::byte>) {
      pthread_cancel(pthread_self());
      pthread_testcancel();
      ADD_FAILURE() << "it should end here";
    });
  });
  EXPECT_TRUE(backup.ended_by_it());
  thread_to_cancel restore([&] {
    const auto source = [](std::span<std::byte>) -> std::size_t {
      pthread_cancel(pthread_self());
      pthread_testcancel();
      ADD_FAILURE() << "it should end here";
      return 0;
    };
    database::restore(source, "copy");
  });
  EXPECT_TRUE(restore.ended_by_it());
  base_->backup([](std::span<const std::byte>) {});
  commits_go_on();
  all_is_there();
}

/// Room is made meanwhile, segments end, checkpoints are begun, and the status is shown.
TEST_F(cancelled, in_commits) {
  base_.reset();
  how_.checkpoint_log_bytes = 8192;
  for (const auto level : {durability_level::sync, durability_level::async}) {
    how_.durability = level;
    open();
    const std::string name = "t" + std::to_string(static_cast<int>(level));
    base_->create_table(
        {.name = name, .columns = {{"k", int64, primary_key}, {"text", text(3000)}}});
    const std::string much(3000, 'x');
    std::int64_t k = 0;
    goes_on_after([&] {
      table& t = base_->find_table(name);
      for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(base_->transact([&](transaction& tx) { return tx.insert(t, {++k, much}); }));
      }
      base_->publish_status();
    });
    std::int64_t rows = 0;
    base_->snapshot().for_each(base_->find_table(name), [&](const row&) { ++rows; });
    EXPECT_EQ(rows, k);
    base_.reset();
  }
}

/// Where the log is memory, a thread that has committed makes it longer for later commits.
TEST_F(cancelled, in_commits_to_files_in_memory) {
  how_.files = nullptr;
  how_.segment_bytes = 64U << 20U;
  base_.reset();
  open();
  constexpr std::int64_t rows = 60;
  table& t = base_->create_table(
      {.name = "t", .columns = {{"k", int64, primary_key}, {"text", text(60000)}}});
  const std::string much(60000, 'x');
  thread_to_cancel one([&] {
    pthread_cancel(pthread_self());
    for (std::int64_t k = 0; k < rows; ++k) {
      EXPECT_TRUE(base_->transact([&](transaction& tx) { return tx.insert(t, {k, much}); }));
    }
  });
  EXPECT_TRUE(one.ended_by_it());
  commits_go_on();
  all_is_there();
  std::int64_t found = 0;
  base_->snapshot().for_each(base_->find_table("t"), [&](const row&) { ++found; });
  EXPECT_EQ(found, rows);
}

TEST_F(cancelled, while_it_is_opened_and_closed) {
  table& many = base_->create_table({.name = "many",
                                     .columns = {{"k", int64, primary_key}, {"v", int64}},
                                     .indexes = {{"by_v", {"v"}}}});
  constexpr std::int64_t rows = 20000;  // worth several threads
  ASSERT_TRUE(base_->transact([&](transaction& tx) -> status {
    for (std::int64_t k = 0; k < rows; ++k) {
      if (const status s = tx.insert(many, {k, k}); !s) return s;
    }
    return outcome::ok;
  }));
  base_.reset();
  how_.recovery_threads = 3;
  how_.durability = durability_level::async;
  cancelling::at_each_step(
      [&] {
        open();
        commits_go_on();
        base_.reset();
      },
      [&] {
        database base = database::open(place, over(nullptr));
        EXPECT_EQ(commits_in(base), done_);
        base.checkpoint();  // else each opening would have more to read than the one before
      });
}

/// The one that writes for it is not held up, and its own commit is there.
TEST(cancelled_waiters, commits_that_wait_for_a_slow_disk) {
  slow_disk slow;
  database base = database::open(place, over(slow.files));
  table& ledger = make_ledger(base);
  ASSERT_TRUE(write_down(base, ledger, 1));
  slow.stop();
  std::atomic<int> acknowledged{1};
  std::optional<thread_to_cancel> first;
  std::optional<thread_to_cancel> second;
  first.emplace([&] { acknowledged += write_down(base, ledger, 2) ? 1 : 0; });
  slow.meet();
  second.emplace([&] { acknowledged += write_down(base, ledger, 3) ? 1 : 0; });
  while (!base.snapshot().find(ledger, {3})) std::this_thread::yield();
  first->cancel();
  second->cancel();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  slow.go_on();
  EXPECT_TRUE(first->ended_by_it());
  EXPECT_TRUE(second->ended_by_it());
  EXPECT_EQ(acknowledged, 3);
  EXPECT_TRUE(write_down(base, ledger, 4));
  EXPECT_EQ(reopened(slow.files->synced()), 4);
}

}  // namespace
