// SPDX-License-Identifier: Apache-2.0
// What threads that have ended leave in their logs goes with the sections of those that come later,
// also of those that write nothing.

#include <gtest/gtest.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <spolia/rlu.hpp>

#include "support/parked_thread.hpp"
#include "support/resident.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace spolia;
using spolia::test::parked_thread;
using spolia::test::parking_spot;
using spolia::test::sanitized;

/// So large that copies of it are seen in the memory that the process has.
struct large {
  char weight[4000];
};

class rlu_ended : public testing::Test {
 protected:
  static constexpr std::size_t each = 200;  // objects of a thread, less than brings a pass on
  static constexpr std::size_t bytes = each * sizeof(large);
  static constexpr std::size_t most = 48;  // threads

  rlu_ended() {
    for (std::size_t i = 0; i < most * each; ++i) all_.push_back(home_.make<large>({}));
    before_ = test::resident_bytes();
  }
  ~rlu_ended() override {
    writers_.clear();
    for (const auto p : all_) home_.discard(p);
  }

  /// They have the domain's first numbers, in this order, and have written nothing yet.
  void begin_threads(std::size_t how_many) {
    for (std::size_t t = 0; t < how_many; ++t) {
      writers_.push_back(std::make_unique<parked_thread>([this, t](parking_spot& spot) {
        home_.read([](auto&) {});
        spot.park();
        home_.update([&](auto& in) {
          for (std::size_t i = t * each; i < (t + 1) * each; ++i) {
            if (auto mine = in.try_lock(all_[i])) std::memset(mine->weight, 1, sizeof mine->weight);
          }
        });
      }));
    }
  }
  /// Each changes its objects, and ends.
  void let_write(std::size_t from, std::size_t to) {
    for (std::size_t t = from; t < to; ++t) writers_[t].reset();
  }
  /// Bytes of copies, by the domain's count and by what the process has in memory.
  void expect_copies_of(std::size_t least, std::size_t most_threads) {
    const std::uint64_t counted = home_.stats().log_bytes;
    EXPECT_GE(counted, least * bytes);
    EXPECT_LE(counted, most_threads * bytes * 5 / 4);
#if defined(__GLIBC__)
    if (sanitized) return;                                  // memory is kept back
    constexpr std::size_t retired = std::size_t{8} << 20U;  // segments that wait, see domain_impl
    malloc_trim(0);
    const std::uint64_t resident = test::resident_bytes();
    EXPECT_LE(resident - std::min(resident, before_), most_threads * bytes * 5 / 4 + retired);
#endif
  }
  void read(int sections) {
    for (int i = 0; i < sections; ++i) home_.read([](auto&) {});
  }

  rlu::domain home_{{.low_watermark = 4 * bytes, .in_place = false}};
  std::vector<rlu::ptr<large>> all_;
  std::uint64_t before_ = 0;
  std::vector<std::unique_ptr<parked_thread>> writers_;
};

/// What one pass has written back is freed by the next one, which comes when more is left.
TEST_F(rlu_ended, logs_are_collected_by_a_thread_that_only_reads) {
  constexpr std::size_t early = 40;
  begin_threads(most);
  let_write(0, early);
  expect_copies_of(early, most);
  read(1000);
  let_write(early, most);
  read(1000);
  expect_copies_of(0, most - early + 1);
}

/// A few threads' logs are looked through at a time: the first ones, which cannot go, do not keep
/// the others from their turn.
TEST_F(rlu_ended, logs_are_collected_beside_those_that_a_section_holds_up) {
  constexpr std::size_t held_up = 16;
  constexpr std::size_t early = 40;
  begin_threads(most);
  let_write(held_up, early);
  const auto asleep = [this] {
    return std::make_unique<parked_thread>(
        [this](parking_spot& spot) { home_.read([&](auto&) { spot.park(); }); });
  };
  auto first = asleep();
  let_write(0, held_up);
  expect_copies_of(early, most);
  read(1000);  // writes back what is not held up
  const auto second = asleep();
  first.reset();
  let_write(early, most);
  read(1000);  // frees what was written back before the second one began
  expect_copies_of(0, held_up + most - early + 1);
}

}  // namespace
