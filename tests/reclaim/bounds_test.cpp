// SPDX-License-Identifier: Apache-2.0
// garbage_bound() over the space of options: what waits, counted where blocks are made and
// destroyed and where their memory comes from, is never more, beside a reader that has stalled.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"
#include "support/parked_thread.hpp"
#include "support/stress.hpp"
#include "support/within_bound.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// How many there are, and the most so far.
class count_of_live {
 public:
  void more() {
    const std::int64_t now = now_.fetch_add(1) + 1;
    for (std::int64_t seen = most_; seen < now && !most_.compare_exchange_weak(seen, now);) {
    }
  }
  void less() { now_.fetch_sub(1); }
  std::int64_t now() const { return now_; }
  std::int64_t most() const { return most_; }

 private:
  std::atomic<std::int64_t> now_{0};
  std::atomic<std::int64_t> most_{0};
};

/// Counts pieces of memory.
class counting_resource : public std::pmr::memory_resource {
 public:
  count_of_live pieces;

 private:
  void* do_allocate(std::size_t bytes, std::size_t align) override {
    pieces.more();
    return std::pmr::new_delete_resource()->allocate(bytes, align);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t align) override {
    pieces.less();
    std::pmr::new_delete_resource()->deallocate(p, bytes, align);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

template <class Domain>
struct block : Domain::header {
  explicit block(count_of_live& of) : all(of) { all.more(); }
  ~block() { all.less(); }
  count_of_live& all;
};

/// One of the numbers.
template <class T, std::size_t N>
T any_of(rng& random, const T (&numbers)[N]) {
  return numbers[random.below(N)];
}

/// Options anywhere in their space, small ones more often, so that bounds are reached.
template <class Domain>
typename Domain::options any_options(rng& random) {
  typename Domain::options o;
  auto& s = o.scheme;
  if constexpr (requires { s.scan_at; }) s.scan_at = any_of(random, {1U, 7U, 64U, 300U, 1024U});
  if constexpr (requires { s.tick_every; }) s.tick_every = any_of(random, {1U, 64U, 5000U});
  if constexpr (requires { s.patience; }) s.patience = any_of(random, {0U, 3U, 100U, 1024U});
  if constexpr (requires { s.stall_after; }) s.stall_after = any_of(random, {1U, 50U, 700U});
  if constexpr (requires { s.park_after; }) s.park_after = any_of(random, {0U, 1U, 8U});
  if constexpr (requires { s.processors; }) s.processors = any_of(random, {0U, 1U, 64U});
  if constexpr (requires { s.low; }) {
    s.low = any_of(random, {1U, 40U, 500U});
    s.high = s.low + any_of(random, {1U, 64U, 700U});
  }
  auto& r = o.release;
  if constexpr (requires { r.at_least; }) {
    r.at_least = any_of(random, {std::size_t{0}, std::size_t{1}, std::size_t{50}, std::size_t{1000},
                                 std::size_t{4000}});
  }
  if constexpr (requires { r.every; }) {
    r.every = any_of(random, {0U, 1U, 16U, 900U, 100'000U});
    r.spread = any_of(random, {std::size_t{0}, std::size_t{1}, std::size_t{4096}});
    r.cap = any_of(random, {std::size_t{0}, std::size_t{10}, std::size_t{1} << 20U});
    r.pool = any_of(random, {std::size_t{0}, std::size_t{100}});
  }
  return o;
}

/// Places whose blocks are replaced; everything that is not in one of them waits, or is in the
/// hands of a thread.
template <class Domain>
class replaced_blocks {
 public:
  explicit replaced_blocks(typename Domain::options o) : pool_(pool_of(o)), d(with(o, memory_)) {
    for (auto& p : places_) p.store_relaxed(d.template make<block<Domain>>(all_));
  }
  replaced_blocks(const replaced_blocks&) = delete;
  replaced_blocks& operator=(const replaced_blocks&) = delete;
  ~replaced_blocks() {
    for (auto& p : places_) d.destroy(p.load_relaxed());
  }

  void replace(rng& random) {
    auto* const fresh = d.template make<block<Domain>>(all_);
    auto guard = d.enter();
    guard.retire(places_[random.below(places_.size())].exchange_acq_rel(fresh));
  }
  void replace_within_bound(rng& random, std::size_t threads) {
    replace(random);
    expect_within_bound(threads);
  }
  /// Two guards, and a block held by one, while `wait` runs.
  template <class F>
  void hold(F&& wait) {
    auto outer = d.enter();
    auto guard = d.enter();
    const auto held =
        guard.read([&](auto& phase) { return phase.keep(phase.protect(places_[0])); });
    wait();
    EXPECT_EQ(&held->all, &all_);
  }
  void stall(parking_spot& spot) {
    hold([&] { spot.park(); });
  }

  /// With `threads` that have used it, of which each may have a fresh block in its hands.
  void expect_within_bound(std::size_t threads) {
    const std::size_t beside = places_.size() + threads;
    test::expect_within_bound(d, threads, [&] { return all_.now(); }, beside);
    const std::size_t pooled = threads * pool_;
    test::expect_within_bound(d, threads, [&] { return memory_.pieces.now(); }, beside + pooled);
  }

 private:
  static std::size_t pool_of(const typename Domain::options& o) {
    if constexpr (std::is_same_v<typename Domain::release_type, pooled>) return o.release.pool;
    return 0;
  }
  static typename Domain::options with(typename Domain::options o, counting_resource& memory) {
    o.memory = &memory;
    return o;
  }

  const std::size_t pool_;
  counting_resource memory_;
  count_of_live all_;
  std::array<atomic<block<Domain>*>, 20> places_;

 public:
  Domain d;  // ends first
};

template <class Domain>
class garbage_bound : public testing::Test {};
using bounded_domains = policies_for<
    testing::Types<robust_token, hazard_pointers, neutralization, neutralization_plus>>::all;
TYPED_TEST_SUITE(garbage_bound, bounded_domains, domain_names);

TYPED_TEST(garbage_bound, is_never_passed_by_one_thread) {
  rng random(seed_for(1));
  for (int round = 0; round < tries(40); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    replaced_blocks<TypeParam> blocks(any_options<TypeParam>(random));
    ASSERT_TRUE(blocks.d.garbage_bound(1).has_value());
    for (int i = 0; i < 6000; ++i) blocks.replace_within_bound(random, 1);
  }
}

TYPED_TEST(garbage_bound, is_never_passed_beside_a_stalled_reader) {
  rng random(seed_for(2));
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    replaced_blocks<TypeParam> blocks(any_options<TypeParam>(random));
    const unsigned writers = 1 + static_cast<unsigned>(random.below(3));
    {
      parked_thread reader([&](parking_spot& spot) { blocks.stall(spot); });
      std::vector<std::thread> threads;
      for (unsigned t = 0; t < writers; ++t) {
        threads.emplace_back([&blocks, writers, mine = rng(random())]() mutable {
          for (int i = 0; i < 5000; ++i) blocks.replace_within_bound(mine, writers + 2);
        });
      }
      for (std::thread& t : threads) t.join();
    }
  }
}

/// A thread that holds a block from enter() to leave(), again and again, and does nothing else.
template <class Domain>
class repeated_reader {
 public:
  explicit repeated_reader(replaced_blocks<Domain>& of)
      : thread_([this, &of] {
          for (comes_.wait(); !over_; comes_.wait()) {
            of.hold([this] {
              is_in_.post();
              goes_.wait();
            });
            is_out_.post();
          }
        }) {}
  repeated_reader(const repeated_reader&) = delete;
  repeated_reader& operator=(const repeated_reader&) = delete;
  ~repeated_reader() {
    over_ = true;
    comes_.post();
    thread_.join();
  }
  void enter() {
    comes_.post();
    is_in_.wait();
  }
  void leave() {
    goes_.post();
    is_out_.wait();
  }

 private:
  posix_semaphore comes_, is_in_, goes_, is_out_;
  bool over_ = false;  // said before comes_
  std::thread thread_;
};

/// Some reader is inside all the time, but none for long. Each is a thread that does nothing else,
/// so that its domain hears nothing of it between its guards.
TYPED_TEST(garbage_bound, does_not_grow_with_readers_that_take_turns) {
  typename TypeParam::options o;
  if constexpr (requires { o.scheme.stall_after; }) {
    o.scheme.stall_after = 200;
    o.scheme.patience = 64;
    o.scheme.processors = 64;
  }
  if constexpr (requires { o.scheme.scan_at; }) o.scheme.scan_at = 64;
  if constexpr (requires { o.scheme.low; }) {
    o.scheme.low = 500;
    o.scheme.high = 564;
  }
  replaced_blocks<TypeParam> blocks(o);
  rng random(seed_for(6));
  const auto work = [&] {
    for (int i = 0; i < 1000; ++i) blocks.replace(random);
  };
  repeated_reader<TypeParam> one(blocks);
  repeated_reader<TypeParam> other(blocks);
  one.enter();
  std::array<std::uint64_t, 2> most{};  // in the first turns, and after these
  for (int turn = 0; turn < 40; ++turn) {
    repeated_reader<TypeParam>& next = turn % 2 == 0 ? other : one;
    work();
    next.enter();
    work();
    std::uint64_t& in_these = most[turn < 6 ? 0 : 1];
    in_these = std::max(in_these, blocks.d.garbage());
    (turn % 2 == 0 ? one : other).leave();
  }
  one.leave();
  EXPECT_GT(most[0], 0U);
  EXPECT_LE(most[1], most[0] + most[0] / 2 + 700);  // what waits for a scan comes and goes
}

/// Threads that come and go leave what they have to one that retires nothing.
TYPED_TEST(garbage_bound, is_not_passed_by_a_thread_that_takes_over) {
  rng random(seed_for(3));
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    replaced_blocks<TypeParam> blocks(any_options<TypeParam>(random));
    for (int life = 0; life < 20; ++life) {
      std::thread([&] {
        for (int i = 0; i < 400; ++i) blocks.replace_within_bound(random, 2);
      }).join();
      for (int i = 0; i < 5000; ++i) auto guard = blocks.d.enter();
      blocks.expect_within_bound(2);
    }
  }
}

/// The same where nothing becomes safe in the thread that takes over: each life ends with a scan,
/// and leaves safe blocks only.
TEST(garbage_bound_of_batch, holds_for_a_thread_that_takes_over_safe_blocks) {
  rng random(seed_for(4));
  replaced_blocks<domain<hazard_pointers, batch>> blocks(
      {.scheme = {.scan_at = 64}, .release = {.at_least = 1000}});
  for (int life = 0; life < 20; ++life) {
    std::thread([&] {
      for (int i = 0; i < 6 * 64; ++i) blocks.replace_within_bound(random, 2);
    }).join();
    for (int i = 0; i < 6000; ++i) {
      auto guard = blocks.d.enter();
      blocks.expect_within_bound(2);
    }
  }
}

/// Most blocks freed by one operation, once the first was freed; before, `until` pile up.
template <class Release>
std::uint64_t most_at_once(std::size_t until, int operations) {
  rng random(seed_for(5));
  replaced_blocks<domain<hazard_pointers, Release>> blocks(
      {.scheme = {.scan_at = 64}, .release = {.at_least = until}});
  std::uint64_t most = 0;
  std::uint64_t before = 0;
  for (int i = 0; i < operations; ++i) {
    blocks.replace_within_bound(random, 1);
    const std::uint64_t freed = blocks.d.stats().freed;
    if (before == 0 && freed != 0) {
      EXPECT_GE(blocks.d.stats().retired, until);
    }
    most = std::max(most, freed - before);
    before = freed;
  }
  EXPECT_GT(before, 0U);
  return most;
}

TEST(blocks_that_pile_up_first, are_freed_at_once_or_a_few_at_a_time) {
  EXPECT_GE(most_at_once<batch>(1000, 8000), 1000U);
  EXPECT_LE(most_at_once<amortized>(1000, 8000), 64U);
  EXPECT_LE(most_at_once<pooled>(1000, 8000), 64U);
}

/// Retires many when it ends.
template <class Domain>
struct crowded_block : Domain::header {
  static constexpr int many = 40'000;
  crowded_block(Domain& d, count_of_live& of, bool& ended) : home(d), all(of), over(ended) {}
  ~crowded_block() {
    for (int i = 0; i < many; ++i) {
      auto* const b = home.template make<block<Domain>>(all);
      home.enter().retire(b);
    }
    over = true;
  }
  Domain& home;
  count_of_live& all;
  bool& over;
};

/// These wait until the thread's next guard ends.
TYPED_TEST(garbage_bound, is_passed_by_what_a_deleter_retires_for_one_operation_only) {
  count_of_live all;
  bool over = false;
  TypeParam d;
  const auto replace = [&] {
    auto* const b = d.template make<block<TypeParam>>(all);
    d.enter().retire(b);
  };
  d.enter().retire(d.template make<crowded_block<TypeParam>>(d, all, over));
  for (int i = 0; i < 1'000'000 && !over; ++i) replace();
  ASSERT_TRUE(over);
  EXPECT_GT(static_cast<std::uint64_t>(all.most()), *d.garbage_bound(1)) << "nothing is tried here";
  replace();
  EXPECT_LE(static_cast<std::uint64_t>(all.now()), *d.garbage_bound(1));
}

template <class Domain>
struct plain_block : Domain::header {
  struct deleted {
    void operator()(plain_block* b) const { delete b; }
  };
  struct left_alone {
    void operator()(plain_block*) const {}
  };
};

/// The header has a member of that name, and a block's own may hide it.
TEST(garbage_bound_of_others, holds_for_blocks_with_a_stamp_of_their_own) {
  struct stamped_block : domain<>::header {
    int stamp = 0;
  };
  domain<> d;
  stamped_block* const b = d.make<stamped_block>();
  EXPECT_FALSE(robust_token::unborn(static_cast<domain<>::header&>(*b).stamp));
  d.enter().retire(b);
  EXPECT_NE(d.garbage_bound(1), std::nullopt);
}

/// A stalled reader holds up whatever it might have been made before.
TEST(garbage_bound_of_others, is_none_once_make_has_not_made_a_block) {
  constexpr int many = 50'000;
  using block = plain_block<domain<>>;
  domain<> boxed;
  domain<> bare;
  domain<> made;
  {
    parked_thread reader([&](parking_spot& spot) {
      auto a = boxed.enter();
      auto b = bare.enter();
      auto c = made.enter();
      spot.park();
    });
    ASSERT_TRUE(boxed.garbage_bound(2) && bare.garbage_bound(2) && made.garbage_bound(2));
    const std::uint64_t bound = *made.garbage_bound(2);
    for (int i = 0; i < many; ++i) {
      boxed.enter().retire(new int);
      bare.enter().retire(new block, block::deleted{});
      made.enter().retire(made.make<block>());
    }
    EXPECT_EQ(boxed.garbage_bound(2), std::nullopt);
    EXPECT_EQ(bare.garbage_bound(2), std::nullopt);
    EXPECT_GT(boxed.garbage(), bound);
    EXPECT_GT(bare.garbage(), bound);
    EXPECT_LE(made.garbage(), made.garbage_bound(2).value());
  }
}
TEST(garbage_bound_of_others, holds_for_blocks_from_elsewhere_by_pointers) {
  domain<hazard_pointers> d;
  d.enter().retire(new int);
  EXPECT_TRUE(d.garbage_bound(1).has_value());
}
/// A deleter alone makes no difference.
TEST(garbage_bound_of_others, holds_for_blocks_of_make_with_a_deleter) {
  using block = plain_block<domain<>>;
  domain<> d;
  block* const b = d.make<block>();
  d.enter().retire(b, block::left_alone{});
  EXPECT_TRUE(d.garbage_bound(1).has_value());
  EXPECT_TRUE(d.drain());
  d.destroy(b);
}

TEST(garbage_bound_of_others, is_none_where_a_reader_may_hold_anything) {
  EXPECT_EQ(domain<token>().garbage_bound(1), std::nullopt);
  EXPECT_EQ(domain<debra>().garbage_bound(1), std::nullopt);
  EXPECT_EQ(domain<qsbr>().garbage_bound(1), std::nullopt);
  EXPECT_EQ(domain<reservations>().garbage_bound(1), std::nullopt);
  EXPECT_EQ(domain<hazard_eras>().garbage_bound(1), std::nullopt);
  EXPECT_EQ(domain<intervals>().garbage_bound(1), std::nullopt);
  EXPECT_EQ(domain<wait_free_eras>().garbage_bound(1), std::nullopt);
  EXPECT_EQ(domain<none>().garbage_bound(1), std::nullopt);
}

TYPED_TEST(garbage_bound, does_not_wrap) {
  using all = std::numeric_limits<std::size_t>;
  const TypeParam d;
  std::uint64_t less = 0;
  for (int bits = 0; bits < all::digits; ++bits) {
    const std::uint64_t bound = *d.garbage_bound(std::size_t{1} << bits);
    EXPECT_GE(bound, less) << "2^" << bits << " threads";
    EXPECT_GE(bound, std::size_t{1} << bits) << "2^" << bits << " threads";
    less = bound;
  }
  EXPECT_EQ(*d.garbage_bound(all::max()), std::numeric_limits<std::uint64_t>::max());
}

TEST(garbage_bound_of_others, does_not_overflow) {
  using all = std::numeric_limits<std::size_t>;
  const domain<hazard_pointers, batch> never({.release = {.at_least = all::max()}});
  EXPECT_EQ(never.garbage_bound(1), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(never.garbage_bound(0), 0U);
}

TEST(garbage_bound_of_others, falls_when_the_stalled_reader_has_gone) {
  using block = plain_block<domain<>>;
  domain<>::options o;
  o.scheme.stall_after = 100;
  o.scheme.patience = 20;
  o.scheme.processors = 64;
  domain<> d(o);
  const std::uint64_t first = d.garbage_bound(2).value();
  const auto bound_beside_a_reader = [&](int existing) {
    std::vector<block*> all(static_cast<std::size_t>(existing));
    for (block*& b : all) b = d.make<block>();
    parked_thread reader([&](parking_spot& self) {
      auto guard = d.enter();
      self.park();
    });
    for (block* b : all) d.enter().retire(b);
    const std::uint64_t bound = d.garbage_bound(2).value();
    EXPECT_LE(d.garbage(), bound);
    reader.release();
    return bound;
  };
  EXPECT_GE(bound_beside_a_reader(20'000), first + 15'000);
  EXPECT_GE(d.garbage_bound(2).value(), d.garbage());
  EXPECT_TRUE(d.drain());
  EXPECT_EQ(d.garbage_bound(2).value(), first);
  EXPECT_LE(bound_beside_a_reader(1000), first + 2000) << "of what another reader had held";
}

/// Whatever a reader has held up. What exceeds the cap goes with each operation, also when nothing
/// is retired any more.
TEST(pauses, no_operation_frees_all_beyond_the_cap) {
  using block = plain_block<domain<token>>;
  constexpr std::uint64_t many = 50'000;
  constexpr std::uint64_t cap = 1000;
  domain<token>::options o;
  o.release.cap = cap;
  o.free_within_ms = 0;
  domain<token> d(o);
  {
    const parked_thread reader([&](parking_spot& self) {
      auto guard = d.enter();
      self.park();
    });
    for (std::uint64_t i = 0; i < many; ++i) d.enter().retire(d.make<block>());
  }
  std::uint64_t most = 0;
  std::uint64_t reads = 0;
  for (int i = 0; i < 100'000 && d.garbage() > cap; ++i) {
    const std::uint64_t before = d.garbage();
    {
      auto guard = d.enter();
      // Until the domain has looked for what is safe.
      most == 0 ? guard.retire(d.make<block>()) : void(++reads);
    }
    most = (std::max)(most, before - (std::min)(before, d.garbage()));
  }
  EXPECT_GE(most, 1000U);
  EXPECT_LE(most, 1200U);
  EXPECT_LE(d.garbage(), cap);
  EXPECT_LE(reads, many / 1024 + 100);
}

}  // namespace
