// SPDX-License-Identifier: Apache-2.0
// The classic small programs, with the exact sets of outcomes that C++20 allows (minus load
// buffering and 2+2W, which the model leaves out and says so).

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/model/engine.hpp>

namespace {

using spolia::atomic;
namespace fence = spolia::fence;
namespace model = spolia::model;
using outcomes = std::set<std::string>;

struct variables {
  atomic<int> x, y, z, w;
  std::vector<int> seen = std::vector<int>(4, -1);
};
using body = std::function<void(variables&)>;

// Runs the bodies as threads in all ways; `results` says how many of seen[] make an outcome.
outcomes run(std::size_t results, const std::vector<body>& bodies) {
  outcomes all;
  model::options how;
  how.preemptions = -1;
  const model::outcome got = model::explore(how, [&](model::scenario& run) {
    auto shared = std::make_shared<variables>();
    for (const body& each : bodies) run.thread([=] { each(*shared); });
    run.finally([=, &all] {
      std::string text;
      for (std::size_t i = 0; i < results; ++i) text += std::to_string(shared->seen[i]);
      all.insert(text);
    });
  });
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
  return all;
}

void nothing() {}

// Store x, do something, load y; and the same the other way round.
outcomes store_buffering(const std::function<void()>& first, const std::function<void()>& second) {
  return run(2, {[=](variables& v) {
                   v.x.store_relaxed(1);
                   first();
                   v.seen[0] = v.y.load_relaxed();
                 },
                 [=](variables& v) {
                   v.y.store_relaxed(1);
                   second();
                   v.seen[1] = v.x.load_relaxed();
                 }});
}

const outcomes all_two = {"00", "01", "10", "11"};
const outcomes not_both_old = {"01", "10", "11"};

TEST(store_buffering, relaxed_and_release_acquire_allow_both_old) {
  EXPECT_EQ(store_buffering(nothing, nothing), all_two);
  EXPECT_EQ(run(2, {[](variables& v) {
                      v.x.store_release(1);
                      v.seen[0] = v.y.load_acquire();
                    },
                    [](variables& v) {
                      v.y.store_release(1);
                      v.seen[1] = v.x.load_acquire();
                    }}),
            all_two);
}

TEST(store_buffering, seq_cst_accesses_forbid_both_old) {
  EXPECT_EQ(run(2, {[](variables& v) {
                      v.x.store_seq_cst(1);
                      v.seen[0] = v.y.load_seq_cst();
                    },
                    [](variables& v) {
                      v.y.store_seq_cst(1);
                      v.seen[1] = v.x.load_seq_cst();
                    }}),
            not_both_old);
}

TEST(store_buffering, one_seq_cst_side_is_not_enough) {
  EXPECT_EQ(run(2, {[](variables& v) {
                      v.x.store_seq_cst(1);
                      v.seen[0] = v.y.load_seq_cst();
                    },
                    [](variables& v) {
                      v.y.store_release(1);
                      v.seen[1] = v.x.load_acquire();
                    }}),
            all_two);
}

TEST(store_buffering, full_fences_forbid_both_old) {
  EXPECT_EQ(store_buffering(fence::full, fence::full), not_both_old);
  EXPECT_EQ(store_buffering(fence::full, nothing), all_two);
}

TEST(store_buffering, fence_on_one_side_and_seq_cst_accesses_on_the_other) {
  EXPECT_EQ(run(2, {[](variables& v) {
                      v.x.store_relaxed(1);
                      fence::full();
                      v.seen[0] = v.y.load_relaxed();
                    },
                    [](variables& v) {
                      v.y.store_seq_cst(1);
                      v.seen[1] = v.x.load_seq_cst();
                    }}),
            not_both_old);
}

TEST(store_buffering, light_against_heavy_forbids_both_old) {
  EXPECT_EQ(store_buffering(fence::light, fence::heavy), not_both_old);
  EXPECT_EQ(store_buffering(fence::heavy, fence::heavy), not_both_old);
  EXPECT_EQ(store_buffering(fence::heavy, fence::full), not_both_old);
}

TEST(store_buffering, anything_less_than_light_against_heavy_allows_both_old) {
  EXPECT_EQ(store_buffering(fence::light, fence::light), all_two);
  EXPECT_EQ(store_buffering(fence::light, fence::full), all_two);
  EXPECT_EQ(store_buffering(nothing, fence::heavy), all_two);
  EXPECT_EQ(store_buffering(fence::light, nothing), all_two);
}

// The kernel interrupts one processor after the other. So T2's heavy fence may come after T0's
// light one (T2 has seen w) and before T1's (T1 has seen z) without ordering the two.
TEST(store_buffering, a_heavy_fence_between_two_light_ones_does_not_order_them) {
  const outcomes got = run(4, {[](variables& v) {
                                 v.x.store_relaxed(1);
                                 fence::light();
                                 v.w.store_relaxed(1);
                               },
                               [](variables& v) {
                                 v.seen[2] = v.z.load_relaxed();
                                 fence::light();
                                 v.seen[3] = v.x.load_relaxed();
                               },
                               [](variables& v) {
                                 v.seen[0] = v.w.load_relaxed();
                                 fence::heavy();
                                 v.seen[1] = v.x.load_relaxed();
                                 v.z.store_relaxed(1);
                               }});
  EXPECT_TRUE(got.contains("1110"));
  EXPECT_TRUE(got.contains("1111"));
  for (const std::string& each : got) EXPECT_NE(each.substr(0, 2), "10") << each;
}

// A light fence between two loads is what orders them after a heavy fence, where no acquire does.
TEST(store_buffering, a_light_fence_orders_two_loads_behind_a_heavy_one) {
  const auto looks = [](void (*between)()) {
    return run(2, {[](variables& v) {
                     v.y.store_relaxed(1);
                     fence::heavy();
                     v.x.store_relaxed(1);
                   },
                   [=](variables& v) {
                     v.seen[0] = v.x.load_relaxed();
                     between();
                     v.seen[1] = v.y.load_relaxed();
                   }});
  };
  EXPECT_TRUE(looks(nothing).contains("10"));
  EXPECT_FALSE(looks([] { fence::light(); }).contains("10"));
}

TEST(store_buffering, rmw_reads_the_newest) {
  EXPECT_EQ(run(2, {[](variables& v) { v.seen[0] = v.x.fetch_add_relaxed(1); },
                    [](variables& v) { v.seen[1] = v.x.fetch_add_relaxed(1); }}),
            (outcomes{"01", "10"}));
}

// ---- message passing
// -----------------------------------------------------------------------------

outcomes message_passing(const body& send, const body& receive) { return run(2, {send, receive}); }

void send_relaxed(variables& v) {
  v.x.store_relaxed(1);
  v.y.store_relaxed(1);
}
void send_release(variables& v) {
  v.x.store_relaxed(1);
  v.y.store_release(1);
}
template <void (*Fence)() noexcept>
void send_fence(variables& v) {
  v.x.store_relaxed(1);
  Fence();
  v.y.store_relaxed(1);
}
void receive_relaxed(variables& v) {
  v.seen[0] = v.y.load_relaxed();
  v.seen[1] = v.x.load_relaxed();
}
void receive_acquire(variables& v) {
  v.seen[0] = v.y.load_acquire();
  v.seen[1] = v.x.load_relaxed();
}
template <void (*Fence)() noexcept>
void receive_fence(variables& v) {
  v.seen[0] = v.y.load_relaxed();
  Fence();
  v.seen[1] = v.x.load_relaxed();
}

const outcomes whole_message = {"00", "01", "11"};

TEST(message_passing, needs_release_and_acquire) {
  EXPECT_EQ(message_passing(send_relaxed, receive_relaxed), all_two);
  EXPECT_EQ(message_passing(send_relaxed, receive_acquire), all_two);
  EXPECT_EQ(message_passing(send_release, receive_relaxed), all_two);
  EXPECT_EQ(message_passing(send_release, receive_acquire), whole_message);
}

TEST(message_passing, fences_stand_in_for_orders) {
  constexpr auto acquire = model::fence_acquire;
  constexpr auto release = model::fence_release;
  EXPECT_EQ(message_passing(send_fence<release>, receive_acquire), whole_message);
  EXPECT_EQ(message_passing(send_release, receive_fence<acquire>), whole_message);
  EXPECT_EQ(message_passing(send_fence<release>, receive_fence<acquire>), whole_message);
  EXPECT_EQ(message_passing(send_relaxed, receive_fence<acquire>), all_two);
  EXPECT_EQ(message_passing(send_fence<release>, receive_relaxed), all_two);
  EXPECT_EQ(message_passing(send_fence<acquire>, receive_fence<release>), all_two);
}

TEST(message_passing, full_and_heavy_fences_are_acquire_and_release) {
  EXPECT_EQ(message_passing(send_release, receive_fence<model::fence_full>), whole_message);
  EXPECT_EQ(message_passing(send_fence<model::fence_full>, receive_acquire), whole_message);
  EXPECT_EQ(message_passing(send_release, receive_fence<model::fence_heavy>), whole_message);
  EXPECT_EQ(message_passing(send_fence<model::fence_heavy>, receive_acquire), whole_message);
}

TEST(message_passing, light_fences_are_neither_acquire_nor_release) {
  constexpr auto light = model::fence_light;
  EXPECT_EQ(message_passing(send_fence<light>, receive_acquire), all_two);
  EXPECT_EQ(message_passing(send_release, receive_fence<light>), all_two);
  EXPECT_EQ(message_passing(send_fence<light>, receive_fence<light>), all_two);
}

// An RMW continues the release sequence whatever its order; a plain store by the same thread does
// not since C++20.
TEST(release_sequence, rmw_continues_and_store_breaks_it) {
  auto through = [](const body& between) {
    return run(2, {[](variables& v) {
                     v.x.store_relaxed(1);
                     v.y.store_release(1);
                   },
                   [=](variables& v) { between(v); },
                   [](variables& v) {
                     v.seen[0] = v.y.load_acquire();
                     v.seen[1] = v.x.load_relaxed();
                   }});
  };
  const outcomes kept = through([](variables& v) {
    int expected = 1;
    v.y.cas_strong_relaxed(expected, 2);
  });
  EXPECT_EQ(kept, (outcomes{"00", "01", "11", "21"}));
  const outcomes same_thread = run(2, {[](variables& v) {
                                         v.x.store_relaxed(1);
                                         v.y.store_release(1);
                                         v.y.store_relaxed(2);
                                       },
                                       [](variables& v) {
                                         v.seen[0] = v.y.load_acquire();
                                         v.seen[1] = v.x.load_relaxed();
                                       }});
  EXPECT_EQ(same_thread, (outcomes{"00", "01", "11", "20", "21"}));
}

// ---- more threads
// --------------------------------------------------------------------------------

outcomes independent_reads(const body& write_x, const body& write_y, const body& xy,
                           const body& yx) {
  return run(4, {write_x, write_y, xy, yx});
}

TEST(independent_reads_of_independent_writes, may_disagree_unless_seq_cst) {
  auto acquire_xy = [](variables& v) {
    v.seen[0] = v.x.load_acquire();
    v.seen[1] = v.y.load_acquire();
  };
  auto acquire_yx = [](variables& v) {
    v.seen[2] = v.y.load_acquire();
    v.seen[3] = v.x.load_acquire();
  };
  auto strong_xy = [](variables& v) {
    v.seen[0] = v.x.load_seq_cst();
    v.seen[1] = v.y.load_seq_cst();
  };
  auto strong_yx = [](variables& v) {
    v.seen[2] = v.y.load_seq_cst();
    v.seen[3] = v.x.load_seq_cst();
  };
  auto release_x = [](variables& v) { v.x.store_release(1); };
  auto release_y = [](variables& v) { v.y.store_release(1); };
  auto strong_x = [](variables& v) { v.x.store_seq_cst(1); };
  auto strong_y = [](variables& v) { v.y.store_seq_cst(1); };

  EXPECT_EQ(independent_reads(release_x, release_y, acquire_xy, acquire_yx).size(), 16u);
  const outcomes strong = independent_reads(strong_x, strong_y, strong_xy, strong_yx);
  EXPECT_EQ(strong.size(), 15u);
  EXPECT_FALSE(strong.contains("1010"));
  // C++20: seq_cst loads alone agree on the order in which they see stores of any order.
  const outcomes loads = independent_reads(release_x, release_y, strong_xy, strong_yx);
  EXPECT_EQ(loads.size(), 15u);
  EXPECT_FALSE(loads.contains("1010"));
}

TEST(independent_reads_of_independent_writes, full_fences_between_loads_forbid_disagreement) {
  const outcomes got = independent_reads([](variables& v) { v.x.store_relaxed(1); },
                                         [](variables& v) { v.y.store_relaxed(1); },
                                         [](variables& v) {
                                           v.seen[0] = v.x.load_relaxed();
                                           fence::full();
                                           v.seen[1] = v.y.load_relaxed();
                                         },
                                         [](variables& v) {
                                           v.seen[2] = v.y.load_relaxed();
                                           fence::full();
                                           v.seen[3] = v.x.load_relaxed();
                                         });
  EXPECT_EQ(got.size(), 15u);
  EXPECT_FALSE(got.contains("1010"));
}

TEST(coherence, one_location_never_goes_back) {
  const outcomes got = run(2, {[](variables& v) {
                                 v.x.store_relaxed(1);
                                 v.x.store_relaxed(2);
                               },
                               [](variables& v) {
                                 v.seen[0] = v.x.load_relaxed();
                                 v.seen[1] = v.x.load_relaxed();
                               }});
  EXPECT_EQ(got, (outcomes{"00", "01", "02", "11", "12", "22"}));
}

TEST(causality, acquire_chains_through_a_third_thread) {
  const outcomes got = run(3, {[](variables& v) { v.x.store_release(1); },
                               [](variables& v) {
                                 v.seen[0] = v.x.load_acquire();
                                 v.y.store_release(1);
                               },
                               [](variables& v) {
                                 v.seen[1] = v.y.load_acquire();
                                 v.seen[2] = v.x.load_relaxed();
                               }});
  EXPECT_FALSE(got.contains("110"));
  EXPECT_TRUE(got.contains("010"));
}

// A compare-and-swap that fails may have read an old value, one that succeeds may not.
TEST(compare_and_swap, may_fail_on_an_old_value) {
  const outcomes got = run(2, {[](variables& v) {
                                 v.x.store_relaxed(1);
                                 v.y.store_relaxed(1);
                               },
                               [](variables& v) {
                                 v.seen[0] = v.y.load_acquire();
                                 int expected = 7;
                                 v.x.cas_strong_relaxed(expected, 8);
                                 v.seen[1] = expected;
                               }});
  EXPECT_EQ(got, all_two);
}

// ---- what the model leaves out, so that this list fails when that changes ----------------------

TEST(not_modelled, load_buffering) {
  const outcomes got = run(2, {[](variables& v) {
                                 v.seen[0] = v.x.load_relaxed();
                                 v.y.store_relaxed(1);
                               },
                               [](variables& v) {
                                 v.seen[1] = v.y.load_relaxed();
                                 v.x.store_relaxed(1);
                               }});
  EXPECT_EQ(got, (outcomes{"00", "01", "10"}));
}

// What a thread has read before its light fence is seen after a heavy one, also if its store does
// not happen before the fence.
TEST(not_modelled, fences_that_forget_what_was_read) {
  const outcomes got = run(3, {[](variables& v) { v.x.store_relaxed(1); },
                               [](variables& v) {
                                 v.seen[0] = v.x.load_relaxed();
                                 fence::light();
                                 v.w.store_relaxed(1);
                               },
                               [](variables& v) {
                                 v.seen[1] = v.w.load_relaxed();
                                 fence::heavy();
                                 v.seen[2] = v.x.load_relaxed();
                               }});
  EXPECT_FALSE(got.contains("110"));  // fence.hpp allows it
  EXPECT_TRUE(got.contains("100"));
}

TEST(not_modelled, two_plus_two_writes) {
  outcomes got;
  model::options how;
  how.preemptions = -1;
  model::explore(how, [&](model::scenario& run) {
    auto v = std::make_shared<variables>();
    run.thread([=] {
      v->x.store_relaxed(1);
      v->y.store_relaxed(2);
    });
    run.thread([=] {
      v->y.store_relaxed(1);
      v->x.store_relaxed(2);
    });
    run.finally([=, &got] {
      got.insert(std::to_string(v->x.load_relaxed()) + std::to_string(v->y.load_relaxed()));
    });
  });
  EXPECT_EQ(got, (outcomes{"12", "21", "22"}));  // C++ allows 11 too
}

}  // namespace
