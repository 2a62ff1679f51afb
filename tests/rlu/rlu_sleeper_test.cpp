// SPDX-License-Identifier: Apache-2.0
// Beside a section that sleeps: copies that have moved together are overwritten by newer ones,
// unless a section sees them.

#include <gtest/gtest.h>

#include <spolia/rlu.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/stress.hpp"

namespace {

using namespace spolia;

struct number {
  long value = 0;
};

/// Objects that a thread changes, which looks through its log when it is told to and never else.
class rlu_sleeper : public testing::Test {
 protected:
  rlu_sleeper() {
    for (int i = 0; i < 100; ++i) all_.push_back(home_.make<number>({-1}));
  }
  ~rlu_sleeper() override {
    for (const auto p : all_) home_.discard(p);
    home_.discard(hot_);
  }

  void set(rlu::ptr<number> p, long value) {
    home_.update([&](auto& in) {
      if (auto mine = in.try_lock(p)) mine->value = value;
    });
  }
  void set_all(long value) {
    for (const auto p : all_) set(p, value);
    home_.collect();
  }
  /// Each copy in a segment of which it soon is all that is left, so that it moves.
  void move_all(long value) {
    for (const auto p : all_) {
      for (long i = 0; i < 20; ++i) set(hot_, i);
      set(p, value);
    }
    for (int i = 0; i < 3; ++i) home_.collect();
  }
  template <class In>
  void expect_all(In& in, long value) {
    for (const auto p : all_) ASSERT_EQ(in.read(p)->value, value);
  }
  /// Calls f beside a section that sees no change.
  template <class F>
  void beside_a_sleeper(long value, F&& f) {
    home_.read("asleep", [&](auto& in) {
      std::thread(f).join();
      expect_all(in, value);
    });
  }
  [[nodiscard]] std::uint64_t written_back() const { return home_.stats().written_back; }
  [[nodiscard]] std::uint64_t bytes() const { return home_.stats().log_bytes; }

  rlu::domain home_{{.segment_bytes = 1024,
                     .low_watermark = std::size_t{1} << 30U,
                     .walk_watermark = std::size_t{1} << 30U,
                     .in_place = false}};
  std::vector<rlu::ptr<number>> all_;
  rlu::ptr<number> hot_ = home_.make<number>({0});
};

TEST_F(rlu_sleeper, has_one_copy_of_each_object_which_stays_where_it_is) {
  beside_a_sleeper(-1, [&] {
    move_all(1);
    const std::uint64_t held = bytes();
    for (long value = 2; value < 20; ++value) {
      const std::uint64_t before = written_back();
      set_all(value);
      EXPECT_EQ(written_back() - before, all_.size());
      home_.collect();
      EXPECT_LE(bytes(), held);
      home_.read([&](auto& in) { expect_all(in, value); });
    }
  });
  home_.read([&](auto& in) { expect_all(in, 19); });
}

TEST_F(rlu_sleeper, keeps_what_another_one_sees) {
  beside_a_sleeper(-1, [&] {
    move_all(1);
    beside_a_sleeper(1, [&] {
      for (long value = 2; value < 10; ++value) set_all(value);
    });
    for (long value = 10; value < 20; ++value) set_all(value);
    home_.read([&](auto& in) { expect_all(in, 19); });
  });
  for (int i = 0; i < 4; ++i) home_.collect();
  EXPECT_EQ(bytes(), 0U) << "something is held though no section sleeps";
  home_.read([&](auto& in) { expect_all(in, 19); });
}

/// Pairs of objects that are always equal, beside sections that sleep for a while and see one
/// instant all the time: views of it, too, do not change.
void sleep_beside_writers(bool in_place) {
  rlu::domain d(
      {.segment_bytes = 512, .low_watermark = 4096, .walk_watermark = 256, .in_place = in_place});
  struct pair {
    rlu::ptr<number> left;
    rlu::ptr<number> right;
  };
  std::vector<pair> all;
  for (int i = 0; i < 60; ++i) all.push_back({d.make<number>({0}), d.make<number>({0})});
  std::atomic<long> commits{0};
  test::run_stress({.threads = 5}, [&](test::stress_thread& self) {
    const bool writes = self.index() < 2;
    while (self.running()) {
      if (writes) {
        const pair& p = all[self.random().below(all.size())];
        const auto how = d.attempt([&](auto& in) {
          auto left = in.try_lock(p.left);
          auto right = in.try_lock(p.right);
          if (!left || !right) return;
          EXPECT_EQ(left->value, right->value);
          right->value = ++left->value;
        });
        commits += how == rlu::outcome::committed ? 1 : 0;
        continue;
      }
      const auto time = std::chrono::microseconds(self.random().below(3000));
      d.read([&](auto& in) {
        std::vector<const number*> seen;
        std::vector<long> values;
        for (const pair& p : all) {
          seen.push_back(&*in.read(p.left));
          values.push_back(seen.back()->value);
          EXPECT_EQ(in.read(p.right)->value, values.back());
        }
        std::this_thread::sleep_for(time);
        for (std::size_t i = 0; i < all.size(); ++i) {
          EXPECT_EQ(seen[i]->value, values[i]) << "a view has changed";
          EXPECT_EQ(in.read(all[i].left)->value, values[i]);
          EXPECT_EQ(in.read(all[i].right)->value, values[i]);
        }
      });
    }
  });
  long sum = 0;
  for (const pair& p : all) sum += d.read([&](auto& in) { return in.read(p.left)->value; });
  EXPECT_EQ(sum, commits) << "an update was lost";
  for (const pair& p : all) {
    d.discard(p.left);
    d.discard(p.right);
  }
}
TEST(rlu_sleeper_stress, sections_see_one_instant_while_they_sleep) { sleep_beside_writers(false); }
TEST(rlu_sleeper_stress, also_beside_changes_in_place) { sleep_beside_writers(true); }

}  // namespace
