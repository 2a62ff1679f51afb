// SPDX-License-Identifier: Apache-2.0
// What waits is known in bytes, with what blocks own, and goes by bytes and by time: over every
// scheme, by counts of objects that are alive and by what is resident.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <spolia/hazard_pointer.hpp>
#include <spolia/rcu.hpp>
#include <spolia/reclaim.hpp>

#include "support/all_domains.hpp"
#include "support/parked_thread.hpp"
#include "support/soon.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

constexpr std::size_t megabyte = std::size_t{1} << 20U;

std::atomic<std::int64_t> blobs_alive{0};

/// Owns memory, and says so.
struct counted_blob {
  explicit counted_blob(std::size_t bytes) : data(bytes, 'x') { blobs_alive.fetch_add(1); }
  counted_blob(const counted_blob&) = delete;
  counted_blob& operator=(const counted_blob&) = delete;
  ~counted_blob() { blobs_alive.fetch_sub(1); }
  [[nodiscard]] std::size_t owned_bytes() const noexcept { return weigh(data); }
  std::vector<char> data;
};

template <class Domain>
struct blob_block : Domain::header, counted_blob {
  using counted_blob::counted_blob;
};

template <class Domain>
void retire_one(Domain& d, std::size_t bytes) {
  auto* const b = d.template make<blob_block<Domain>>(bytes);
  auto g = d.enter();
  g.retire(b);
}

template <class Domain>
class weights_by_scheme : public testing::Test {};
TYPED_TEST_SUITE(weights_by_scheme, few_domains, domain_names);

TYPED_TEST(weights_by_scheme, what_waits_is_told_with_what_it_owns) {
  TypeParam d;
  {
    auto g = d.enter();
    g.retire(d.template make<blob_block<TypeParam>>(megabyte / 4));
    EXPECT_GE(d.stats().garbage_bytes(), megabyte / 4);
    EXPECT_LE(d.stats().garbage_bytes(), megabyte / 3);
    g.retire(d.template make<blob_block<TypeParam>>(std::size_t{10}), weight{megabyte / 2});
    EXPECT_GE(d.stats().garbage_bytes(), megabyte * 3 / 4);
    g.retire(new counted_blob(megabyte / 8));
    EXPECT_GE(d.stats().garbage_bytes(), megabyte * 7 / 8);
    EXPECT_LE(d.stats().garbage_bytes(), megabyte);
  }
  if (!TypeParam::info().reclaims) return;
  EXPECT_TRUE(d.drain());
  EXPECT_EQ(d.stats().garbage_bytes(), 0U);
}

TYPED_TEST(weights_by_scheme, few_large_blocks_wait) {
  if (!TypeParam::info().reclaims) return;
  TypeParam d;
  std::int64_t most = 0;
  for (int i = 0; i < 200; ++i) {
    retire_one(d, megabyte / 4);
    most = std::max(most, blobs_alive.load());
  }
  EXPECT_LE(most, 16);  // four megabytes
}

TYPED_TEST(weights_by_scheme, a_slow_reader_frees_in_time_what_a_sleeping_thread_has_left) {
  if (!TypeParam::info().reclaims) return;
  if (listed::waits_for_every_thread<typename TypeParam::scheme_type>) return;
  typename TypeParam::options o;
  o.free_within_ms = 100;
  TypeParam d(o);
  for (int i = 0; i < 10; ++i) static_cast<void>(d.enter());  // so its first look is over
  parked_thread sleeper([&](parking_spot& here) {
    for (int i = 0; i < 3; ++i) retire_one(d, 10);
    here.park();
  });
  int operations = 0;
  const bool freed = soon([&] {
    {
      auto g = d.enter();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++operations;
    return blobs_alive == 0;
  });
  sleeper.release();
  EXPECT_TRUE(freed);
  EXPECT_LT(operations, 200) << "not at the pace of the scheme";
}

TEST(weights, what_goes_from_one_sleeping_thread_to_the_next_is_freed_in_time) {
  domain<token>::options o;
  o.free_within_ms = 100;
  domain<token> d(o);
  parked_thread stalled([&](parking_spot& here) {
    auto g = d.enter();
    here.park();
  });
  parked_thread first([&](parking_spot& here) {
    for (int i = 0; i < 3; ++i) retire_one(d, 10);
    here.park();
  });
  parked_thread second([&](parking_spot& here) {
    d.drain(1);  // takes them over, and frees nothing
    here.park();
  });
  EXPECT_EQ(blobs_alive, 3);
  stalled.release();
  EXPECT_TRUE(soon([&] {
    {
      auto g = d.enter();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return blobs_alive == 0;
  }));
}

TYPED_TEST(weights_by_scheme, a_thread_frees_in_time_what_it_has_retired_itself) {
  if (!TypeParam::info().reclaims) return;
  typename TypeParam::options o;
  o.free_within_ms = 100;
  TypeParam d(o);
  for (int i = 0; i < 100; ++i) retire_one(d, 10);
  EXPECT_TRUE(soon([&] {
    auto g = d.enter();
    return blobs_alive == 0;
  }));
}

TEST(weights, the_first_block_after_a_while_makes_a_slow_thread_look) {
  domain<hazard_pointers>::options o;
  o.free_within_ms = 100;
  domain<hazard_pointers> d(o);
  const auto operates_slowly = [&] {
    static_cast<void>(d.enter());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  for (int i = 0; i < 50; ++i) operates_slowly();
  retire_one(d, 10);
  int operations = 0;
  EXPECT_TRUE(soon([&] {
    operates_slowly();
    ++operations;
    return blobs_alive == 0;
  }));
  EXPECT_LT(operations, 300);
}

TEST(weights, time_goes_before_what_a_release_policy_waits_for) {
  using domain_type = domain<token, batch>;
  domain_type::options o;
  o.free_within_ms = 100;
  o.release.at_least = 1000;
  domain_type d(o);
  for (int i = 0; i < 10; ++i) retire_one(d, 10);
  EXPECT_TRUE(soon([&] {
    auto g = d.enter();
    return blobs_alive == 0;
  }));
}

TEST(weights, what_is_safe_is_looked_for_with_each_megabyte_and_not_more_often) {
  domain<hazard_pointers>::options o;
  o.free_within_ms = 0;
  domain<hazard_pointers> d(o);
  for (int i = 0; i < 256; ++i) {
    auto* const b = d.make<blob_block<domain<hazard_pointers>>>(std::size_t{10});
    d.enter().retire(b, weight{megabyte / 16});
  }
  EXPECT_GE(d.stats().epochs, 10U);
  EXPECT_LE(d.stats().epochs, 40U) << "scans";
}

TEST(weights, few_blocks_wait_that_are_large_themselves) {
  using domain_type = domain<hazard_pointers>;
  struct large : domain_type::header, counted_blob {
    large() : counted_blob(0) {}
    std::array<char, megabyte / 16> room;
  };
  domain_type d;
  std::int64_t most = 0;
  for (int i = 0; i < 300; ++i) {
    auto* const b = d.make<large>();
    d.enter().retire(b);
    most = std::max(most, blobs_alive.load());
  }
  EXPECT_LE(most, 64);
}

TYPED_TEST(weights_by_scheme, blocks_wait_for_more_where_no_time_is_said) {
  typename TypeParam::options o;
  o.free_within_ms = 0;
  TypeParam d(o);
  if (TypeParam::info().protects == protection::pointer) {
    for (int i = 0; i < 10; ++i) retire_one(d, 10);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    while (std::chrono::steady_clock::now() < end) static_cast<void>(d.enter());
    EXPECT_NE(blobs_alive, 0);
  }
}

struct way_of_freeing {
  int operations = 0;
  std::int64_t most = 0;  // freed by one of them
};

/// How so many blocks go that become safe at one time, and are not followed by others.
way_of_freeing freed_after_a_stall(int blocks, weight of_each) {
  domain<token>::options o;
  o.free_within_ms = 100;
  domain<token> d(o);
  parked_thread stalled([&](parking_spot& here) {
    auto g = d.enter();
    here.park();
  });
  for (int i = 0; i < blocks; ++i) {
    auto* const b = d.make<blob_block<domain<token>>>(std::size_t{10});
    d.enter().retire(b, of_each);
  }
  stalled.release();
  EXPECT_EQ(blobs_alive, blocks);
  way_of_freeing found;
  EXPECT_TRUE(soon([&] {
    const std::int64_t before = blobs_alive;
    {
      auto g = d.enter();
    }
    found.most = std::max(found.most, before - blobs_alive);
    ++found.operations;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return blobs_alive == 0;
  }));
  return found;
}

TEST(weights, what_is_old_goes_in_time_and_not_by_one_operation) {
  const way_of_freeing heavy = freed_after_a_stall(40, weight{megabyte});
  EXPECT_LT(heavy.operations, 400) << "not one for each quarter of the time";
  EXPECT_LE(heavy.most, 4);
  const way_of_freeing light = freed_after_a_stall(10'000, weight{});
  EXPECT_LT(light.operations, 400);
  EXPECT_LE(light.most, 3000);
}

TEST(weights, a_budget_counts_what_blocks_own) {
  int told = 0;
  domain<token>::options o;
  o.budget_bytes = 8 * megabyte;
  o.over_budget = [&](const over_budget& said) {
    ++told;
    EXPECT_GT(said.garbage_bytes, 8 * megabyte);
  };
  domain<token> d(o);
  parked_thread stalled([&](parking_spot& here) {
    auto g = d.enter();
    here.park();
  });
  for (int i = 0; i < 64; ++i) retire_one(d, megabyte / 4);
  EXPECT_EQ(told, 1);
  stalled.release();
  EXPECT_TRUE(d.drain());
}

/// Each block that is retired then pays for more than itself.
TEST(weights, what_a_guard_held_up_is_soon_gone) {
  domain<token, amortized> d;
  parked_thread stalled([&](parking_spot& here) {
    auto g = d.enter();
    here.park();
  });
  for (int i = 0; i < 64; ++i) retire_one(d, megabyte / 4);
  EXPECT_EQ(blobs_alive, 64);
  stalled.release();
  for (int i = 0; i < 80; ++i) retire_one(d, megabyte / 4);
  EXPECT_LE(blobs_alive, 16);
}

struct hazard_blob : hazard_pointer_obj_base<hazard_blob>, counted_blob {
  using counted_blob::counted_blob;
};

TEST(weights_of_faces, few_large_objects_wait_for_hazard_pointers) {
  std::int64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    (new hazard_blob(megabyte / 4))->retire();
    most = std::max(most, blobs_alive.load());
  }
  EXPECT_LE(most, 16);
  EXPECT_TRUE(hazard_pointer_clean_up());
  EXPECT_EQ(hazard_pointer_garbage_bytes(), 0U);
}

TEST(weights_of_faces, few_large_objects_wait_for_regions) {
  std::int64_t most = 0;
  for (int i = 0; i < 100; ++i) {
    rcu_retire(new counted_blob(megabyte / 4));
    most = std::max(most, blobs_alive.load());
  }
  EXPECT_LE(most, 16);
  rcu_barrier();
  EXPECT_EQ(rcu_garbage_bytes(), 0U);
}

TEST(weights_of_faces, readers_free_in_time_what_a_sleeping_thread_has_left) {
  // Until nothing makes this thread look, but after a thousand more.
  for (int i = 0; i < 30; ++i) {
    static_cast<void>(make_hazard_pointer());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int i = 0; i < 1100; ++i) static_cast<void>(make_hazard_pointer());
  parked_thread sleeper([&](parking_spot& here) {
    for (int i = 0; i < 40; ++i) {
      (new hazard_blob(10))->retire();
      rcu_retire(new counted_blob(10));
    }
    here.park();
  });
  EXPECT_EQ(blobs_alive, 80);
  int operations = 0;
  const bool freed = soon([&] {
    ++operations;
    {
      auto h = make_hazard_pointer();
    }
    rcu_default_domain().lock();
    rcu_default_domain().unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return blobs_alive == 0;
  });
  sleeper.release();
  EXPECT_TRUE(freed);
  EXPECT_LT(operations, 500);
}

}  // namespace
