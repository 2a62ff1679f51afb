// SPDX-License-Identifier: Apache-2.0
// Copies that go to a disk of their own, which is full or fails while that of the database works:
// the caller is told, the database goes on, nothing half made is taken for a copy, and the next one
// succeeds.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "db/durable.hpp"
#include "db/faulty_files.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using namespace spolia::db;
using namespace spolia::test;
using copy_step = file_step::kind;

constexpr const char* copy_place = "copy";

/// The database's directory is on one disk, all others on another one.
class two_disks final : public storage_files {
 public:
  two_disks(std::shared_ptr<storage_files> own, std::shared_ptr<storage_files> other)
      : own_(std::move(own)), other_(std::move(other)) {}
  std::unique_ptr<storage_directory> open_directory(const std::filesystem::path& directory,
                                                    directory_mode how) override {
    return (directory == place ? own_ : other_)->open_directory(directory, how);
  }

 private:
  const std::shared_ptr<storage_files> own_;
  const std::shared_ptr<storage_files> other_;
};

/// Steps on the other disk fail, from the n-th on, or that one alone; of those that can fail so.
struct second_disk_fault {
  std::uint64_t from = 0;  // 0: none
  bool for_good = false;
  int with = EIO;
  std::uint64_t steps = 0;
  std::optional<file_step> hit{};

  [[nodiscard]] bool may_fail(copy_step what) const {
    if (with == EIO) return true;
    const bool opens = what == copy_step::open_directory || what == copy_step::open;
    if (with == EMFILE) return opens || what == copy_step::list;
    return opens || what == copy_step::write || what == copy_step::sync ||
           what == copy_step::rename || what == copy_step::sync_directory;
  }
  int operator()(const file_step& s) {
    if (from == 0 || !may_fail(s.what)) return 0;
    ++steps;
    if (for_good ? steps < from : steps != from) return 0;
    if (!hit) hit = s;
    return with;
  }
};

/// What a copy shows that is opened to be read; nothing: it is refused.
std::optional<std::int64_t> shown_by(const disk& files) {
  options o = over(files);
  o.read_only = true;
  try {
    database there = database::open(copy_place, o);
    return commits_in(there).value_or(-1);
  } catch (const storage_error&) {
    return std::nullopt;
  }
}

class copying {
 public:
  copying() {
    o_ = over(std::make_shared<two_disks>(
        own_, std::make_shared<faulty_files>(
                  other_, [f = fault_](const file_step& s) { return (*f)(s); })));
    o_.segment_bytes = 4096;
    base_.emplace(database::open(place, o_));
    make_ledger(*base_);
    commit(12);
  }
  database& base() { return *base_; }
  memory_files& other_disk() { return *other_; }
  void commit(std::int64_t count) {
    table& ledger = base_->find_table("ledger");
    for (std::int64_t i = 0; i < count; ++i) {
      const status s = write_down(*base_, ledger, ++done_);
      ASSERT_TRUE(s) << s.reason();
    }
  }
  /// One that succeeds.
  void copy() {
    base_->backup(copy_place);
    copied_ = done_;
  }

  /// One of which a step fails. False: there is no such step.
  bool copy_with_fault(std::uint64_t n, int reason, bool for_good) {
    *fault_ = {.from = n, .for_good = for_good, .with = reason};
    const bool told = copy_is_told(reason);
    fault_->from = 0;
    if (!fault_->hit) {
      EXPECT_FALSE(told);
      return false;
    }
    SCOPED_TRACE("step of kind " + std::to_string(static_cast<int>(fault_->hit->what)) + ", of " +
                 fault_->hit->name + (told ? ", which was told" : ""));
    // What an earlier copy has more is not needed when the new one is whole.
    EXPECT_TRUE(told || fault_->hit->what == copy_step::remove) << "and nothing has reported it";
    look(told);
    // The directory cannot be looked at, or nothing removed, while all fails.
    if (reason == ENOSPC && copied_ == 0) {
      EXPECT_EQ(left(), std::vector<std::string>{});
    }
    go_on();
    return true;
  }
  /// The same for a first copy that is then gone on with as it was left.
  bool fail_and_go_on_with_it(std::uint64_t n) {
    *fault_ = {.from = n, .for_good = true, .with = EIO};
    copy_is_told(EIO);
    fault_->from = 0;
    if (!fault_->hit) return false;
    go_on_with_the_copy();
    return true;
  }
  /// Two, one after the other, that end at a step as if they were killed; then the power is lost.
  /// Returns which of them had that many steps.
  std::pair<bool, bool> fail_twice(std::uint64_t first, std::uint64_t second) {
    std::pair<bool, bool> hit;
    *fault_ = {.from = first, .for_good = true, .with = EIO};
    copy_is_told(EIO);
    hit.first = fault_->hit.has_value();
    fault_->from = 0;
    commit(3);
    *fault_ = {.from = second, .for_good = true, .with = EIO};
    const bool told = copy_is_told(EIO);
    hit.second = fault_->hit.has_value();
    fault_->from = 0;
    for (int i = 0; i < 8; ++i) expect_copy(other_->after_power_loss(random_), told);
    return hit;
  }
  bool copy_is_told(int reason) {
    try {
      base_->backup(copy_place);
      return false;
    } catch (const storage_error& e) {
      EXPECT_EQ(e.reason().value(), reason) << e.what();
      return true;
    }
  }
  /// What stays of it, after a kill and after losses of power.
  void look(bool told) {
    expect_copy(other_->copy(), told);
    for (int i = 0; i < 3; ++i) expect_copy(other_->after_power_loss(random_), told);
  }
  /// The database does, and the next copy succeeds, and one after that.
  void go_on() {
    EXPECT_FALSE(base_->stats().log.failed) << base_->storage_failure();
    EXPECT_EQ(base_->storage_failure(), "");
    for (int i = 0; i < 2; ++i) {
      commit(3);
      copy();
      EXPECT_EQ(shown_by(other_->copy()), done_);
      EXPECT_EQ(shown_by(other_->synced()), done_) << "a copy that was told to be whole is durable";
    }
    for (const std::string& name : other_->names()) EXPECT_FALSE(name.ends_with(".tmp")) << name;
    base_->checkpoint();
    EXPECT_EQ(commits_in(*base_), done_);
    EXPECT_EQ(reopened(own_->copy()), done_);
  }
  /// Opens what a failure has left, if that shows all, and goes on with it.
  void go_on_with_the_copy() {
    if (shown_by(other_->copy()) != done_) return;
    ++gone_on_with;
    {
      database there = database::open(copy_place, over(other_));
      ASSERT_TRUE(write_down(there, there.find_table("ledger"), ++done_));
      EXPECT_EQ(shown_by(other_->synced()), done_) << "acknowledged, and lost with the power";
    }
  }
  int gone_on_with = 0;
  [[nodiscard]] std::vector<std::string> left() const { return other_->names(); }

 private:
  void expect_copy(const disk& files, bool told) {
    const auto data = [](const disk& of) {
      return std::ranges::any_of(of->names(),
                                 [](const std::string& n) { return n.ends_with(".spl"); });
    };
    const auto shows = shown_by(files);
    if (!told) {
      EXPECT_TRUE(shows == done_ || shows == copied_) << shows.value_or(-2);
    } else if (copied_ != 0) {
      EXPECT_TRUE(shows && *shows >= copied_ && *shows <= done_) << shows.value_or(-2);
    } else {
      EXPECT_TRUE(!shows || *shows == done_) << *shows << " of " << done_;
    }
    // An opening that writes must not make an empty database where there were data.
    if (shows || !data(files)) return;
    EXPECT_THROW(database::open(copy_place, over(files)), storage_error);
  }

  const disk own_ = new_disk();
  const disk other_ = new_disk();
  const std::shared_ptr<second_disk_fault> fault_ = std::make_shared<second_disk_fault>();
  options o_;
  std::mt19937_64 random_{1};
  std::optional<database> base_;
  std::int64_t done_ = 0;
  std::int64_t copied_ = 0;
};

/// At each step, once and for good, for each reason; under a sanitizer at every third.
void each_step_of_a_copy_fails(const std::function<void(copying&)>& before) {
  for (const int reason : {ENOSPC, EIO, EMFILE}) {
    for (const bool for_good : {false, true}) {
      constexpr std::uint64_t every = steps_apart * (sanitized ? 3 : 1);
      std::uint64_t n = 1;
      for (;; n += every) {
        SCOPED_TRACE("errno " + std::to_string(reason) + ", step " + std::to_string(n) +
                     (for_good ? " and all after it" : ""));
        copying all;
        before(all);
        if (!all.copy_with_fault(n, reason, for_good) || testing::Test::HasFailure()) break;
      }
      EXPECT_GT(n, 4U) << "few steps";
    }
  }
}

TEST(failing_copies, a_first_one) {
  each_step_of_a_copy_fails([](copying&) {});
}

TEST(failing_copies, one_that_adds_the_log) {
  each_step_of_a_copy_fails([](copying& c) {
    c.copy();
    c.commit(16);
  });
}

/// The log since was removed by a checkpoint.
TEST(failing_copies, one_that_takes_the_place_of_an_earlier_one) {
  each_step_of_a_copy_fails([](copying& c) {
    c.copy();
    c.commit(16);
    c.base().checkpoint();
    c.commit(4);
  });
}

/// What is whole may be in the system's memory alone, up to its last byte.
TEST(failing_copies, one_that_is_gone_on_with_is_made_durable) {
  int gone_on_with = 0;
  bool hit = true;
  for (std::uint64_t n = 1; hit; ++n) {
    SCOPED_TRACE("step " + std::to_string(n) + " and all after it");
    copying all;
    hit = all.fail_and_go_on_with_it(n);
    gone_on_with += all.gone_on_with;
  }
  EXPECT_GT(gone_on_with, 0);
}

/// A copy that was replaced is whole as soon as the checkpoint has its name; but where the process
/// was killed then, that name is in the system's memory, and what is added next has one of its own.
TEST(failing_copies, what_a_killed_one_has_left_is_durable_before_it_is_added_to) {
  std::pair<bool, bool> hit{true, true};
  for (std::uint64_t first = 1; hit.first && !testing::Test::HasFailure(); ++first) {
    hit.second = true;
    for (std::uint64_t second = 1; hit.second && !testing::Test::HasFailure();
         second += steps_apart) {
      SCOPED_TRACE("steps " + std::to_string(first) + " and " + std::to_string(second));
      copying all;
      all.copy();
      all.commit(16);
      all.base().checkpoint();
      all.commit(4);
      hit = all.fail_twice(first, second);
    }
  }
}

/// However much room there is, a copy has too little of it or is whole.
TEST(failing_copies, a_disk_with_any_room_that_is_too_little) {
  for (const bool earlier : {false, true}) {
    bool whole = false;
    for (std::uint64_t room = 0; !whole; room += 61 * fewer) {
      SCOPED_TRACE("room for " + std::to_string(room) + (earlier ? " more" : ""));
      copying all;
      if (earlier) {
        all.copy();
        all.commit(16);
      }
      all.other_disk().set_capacity(all.other_disk().room_taken() + room);
      whole = !all.copy_is_told(ENOSPC);
      all.look(!whole);
      if (!whole && !earlier) {
        EXPECT_EQ(all.left(), std::vector<std::string>{});
      }
      all.other_disk().set_capacity(~std::uint64_t{0});
      all.go_on();
      if (testing::Test::HasFailure()) break;
      ASSERT_LT(room, 1U << 20U);
    }
  }
}

}  // namespace
