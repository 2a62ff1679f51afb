// SPDX-License-Identifier: Apache-2.0
// How executions are searched, repeated, limited and written down.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/model/engine.hpp>

namespace {

using spolia::atomic;
namespace model = spolia::model;
using mode = model::options::mode;

struct pair_of_words {
  atomic<int> x{0}, y{0};
};

// Store buffering with an assertion that weak memory breaks.
void store_buffering(model::scenario& run) {
  struct state {
    pair_of_words words;
    int seen[2] = {};
  };
  auto s = std::make_shared<state>();
  run.name(s->words.x, "x");
  run.name(s->words.y, "y");
  run.thread([=] {
    s->words.x.store_relaxed(1);
    s->seen[0] = s->words.y.load_relaxed();
  });
  run.thread([=] {
    s->words.y.store_relaxed(1);
    s->seen[1] = s->words.x.load_relaxed();
  });
  run.finally([=] { model::check(s->seen[0] + s->seen[1] > 0, "one thread saw the other"); });
}

// Lost updates: needs one preemption between the load and the store.
void lost_update(model::scenario& run) {
  auto word = std::make_shared<atomic<int>>(0);
  run.name(*word, "counter");
  for (int i = 0; i < 2; ++i) {
    run.thread([=] { word->store_relaxed(word->load_relaxed() + 1); });
  }
  run.finally([=] { model::check(word->load_relaxed() == 2, "both updates count"); });
}

// Two threads of `steps` stores to their own words: only the interleavings count.
model::outcome interleave(int steps, int preemptions) {
  model::options how;
  how.preemptions = preemptions;
  return model::explore(how, [=](model::scenario& run) {
    auto words = std::make_shared<pair_of_words>();
    run.thread([=] {
      for (int i = 0; i < steps; ++i) words->x.store_relaxed(i);
    });
    run.thread([=] {
      for (int i = 0; i < steps; ++i) words->y.store_relaxed(i);
    });
  });
}

TEST(exhaustive, counts_all_interleavings_exactly) {
  EXPECT_EQ(interleave(1, -1).executions, 2u);
  EXPECT_EQ(interleave(2, -1).executions, 6u);   // 4 over 2
  EXPECT_EQ(interleave(3, -1).executions, 20u);  // 6 over 3
  EXPECT_EQ(interleave(5, -1).executions, 252u);
}

TEST(exhaustive, the_bound_counts_preemptions_only) {
  EXPECT_EQ(interleave(3, 0).executions, 2u);
  // One preemption: the first thread is interrupted after 1 or 2 of its 3 steps.
  EXPECT_EQ(interleave(3, 1).executions, 6u);
  EXPECT_TRUE(interleave(3, 1).exhausted);
  model::options how;
  how.weak_memory = false;
  how.preemptions = 0;
  EXPECT_TRUE(model::explore(how, lost_update).ok);
  how.preemptions = 1;
  EXPECT_FALSE(model::explore(how, lost_update).ok);
}

TEST(exhaustive, without_weak_memory_loads_return_the_newest) {
  model::options how;
  how.preemptions = -1;
  EXPECT_FALSE(model::explore(how, store_buffering).ok);
  how.weak_memory = false;
  const model::outcome strong = model::explore(how, store_buffering);
  EXPECT_TRUE(strong.ok);
  EXPECT_EQ(strong.executions, 6u);
}

TEST(replay, a_choice_string_gives_the_same_failure_at_once) {
  for (const mode how_found : {mode::exhaustive, mode::random, mode::pct}) {
    model::options how;
    how.how = how_found;
    const model::outcome found = model::explore(how, store_buffering);
    ASSERT_FALSE(found.ok);
    model::options again;
    again.replay = found.replay;
    const model::outcome repeated = model::explore(again, store_buffering);
    EXPECT_FALSE(repeated.ok);
    EXPECT_EQ(repeated.executions, 1u);
    EXPECT_EQ(repeated.why, found.why);
    EXPECT_EQ(repeated.trace, found.trace);
    EXPECT_EQ(repeated.replay.substr(repeated.replay.find(':')),
              found.replay.substr(found.replay.find(':')));
  }
}

TEST(replay, a_seed_gives_the_same_failure_at_once) {
  for (const mode how_found : {mode::random, mode::pct}) {
    model::options how;
    how.how = how_found;
    how.seed = 12345;
    const model::outcome found = model::explore(how, lost_update);
    ASSERT_FALSE(found.ok);
    how.seed = found.seed;
    how.executions = 1;
    const model::outcome repeated = model::explore(how, lost_update);
    EXPECT_FALSE(repeated.ok);
    EXPECT_EQ(repeated.trace, found.trace);
    EXPECT_EQ(repeated.replay, found.replay);
  }
}

TEST(replay, strings_that_are_none_are_refused) {
  for (const char* text : {"01", "b2", "b:1", "b2:0!", "b2:(7", "b2:(900)", "bx:1"}) {
    model::options how;
    how.replay = text;
    EXPECT_THROW(model::explore(how, lost_update), std::invalid_argument) << text;
  }
  model::options how;
  how.replay = "b2:z";  // a number that no decision of this scenario offers
  const model::outcome got = model::explore(how, lost_update);
  EXPECT_FALSE(got.ok);
  EXPECT_NE(got.why.find("replay string"), std::string::npos);
}

TEST(trace, shows_threads_operations_names_orders_and_old_values) {
  model::options how;
  how.preemptions = -1;
  const model::outcome found = model::explore(how, store_buffering);
  EXPECT_NE(found.trace.find("T0      store relaxed x := 1"), std::string::npos) << found.trace;
  EXPECT_NE(found.trace.find("T1      store relaxed y := 1"), std::string::npos) << found.trace;
  EXPECT_NE(found.trace.find("= 0   (old, 1 behind: the newest is 1)"), std::string::npos)
      << found.trace;
  EXPECT_NE(found.trace.find("finally: check failed: one thread saw the other"), std::string::npos);
}

TEST(budget, executions_and_seconds_are_limits) {
  model::options how;
  how.executions = 3;
  how.preemptions = -1;
  model::outcome got = model::explore(how, [](model::scenario& run) {
    auto words = std::make_shared<pair_of_words>();
    for (int i = 0; i < 2; ++i) {
      run.thread([=] {
        for (int k = 0; k < 20; ++k) words->x.fetch_add_relaxed(1);
      });
    }
  });
  EXPECT_EQ(got.executions, 3u);
  EXPECT_FALSE(got.exhausted);
  how.executions = 0;
  how.seconds = 0.05;
  const auto start = std::chrono::steady_clock::now();
  got = model::explore(how, [](model::scenario& run) {
    auto words = std::make_shared<pair_of_words>();
    for (int i = 0; i < 3; ++i) {
      run.thread([=] {
        for (int k = 0; k < 30; ++k) words->x.fetch_add_relaxed(1);
      });
    }
  });
  EXPECT_TRUE(got.ok);
  EXPECT_FALSE(got.exhausted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(state, globals_start_every_execution_as_they_were_made) {
  static atomic<int> global{7};
  static constinit atomic<unsigned char> constant{3};
  const model::outcome got = model::explore({}, [](model::scenario& run) {
    model::check(global.load_relaxed() == 7 && constant.load_relaxed() == 3, "as made");
    global.store_relaxed(8);
    run.thread([] { global.fetch_add_relaxed(1); });
    run.thread([] { constant.fetch_sub_relaxed(4); });
    run.finally([] {
      model::check(global.load_relaxed() == 9, "set-up and thread");
      model::check(constant.load_relaxed() == 255, "arithmetic wraps like the type");
      global.store_relaxed(10);
    });
  });
  EXPECT_TRUE(got.ok) << got.why << got.trace;
  EXPECT_GT(got.executions, 1u);
  EXPECT_EQ(global.load_relaxed(), 7);
}

TEST(state, set_up_and_finally_are_number_zero_and_threads_count_from_zero) {
  const model::outcome got = model::explore({}, [](model::scenario& run) {
    model::check(model::current_thread() == 0, "set-up");
    for (std::uint32_t i = 0; i < 3; ++i) {
      run.thread([=] {
        model::check(model::current_thread() == i, "thread");
        model::check(model::thread_count() == 3, "count");
      });
    }
    run.finally([] { model::check(model::current_thread() == 0, "finally"); });
  });
  EXPECT_TRUE(got.ok) << got.why;
}

TEST(state, explorations_do_not_nest) {
  EXPECT_NE(model::explore({}, [](model::scenario&) { model::explore({}, [](auto&) {}); })
                .why.find("nested"),
            std::string::npos);
}

TEST(faults, are_on_only_while_asked_for) {
  EXPECT_FALSE(SPOLIA_FAULT("test.some"));
  model::options how;
  how.fault = "test.some";
  bool some = false, other = true;
  model::explore(how, [&](model::scenario&) {
    some = SPOLIA_FAULT("test.some");
    other = SPOLIA_FAULT("test.other");
  });
  EXPECT_TRUE(some);
  EXPECT_FALSE(other);
  EXPECT_FALSE(model::fault("test.some"));
}

// Not a bound that a loaded machine could break; the figure is for people who read the log.
TEST(speed, is_printed) {
  const auto start = std::chrono::steady_clock::now();
  const model::outcome got = interleave(10, -1);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(got.executions, 184756u);  // 20 over 10
  std::printf("%.0f executions/s, %.1f million operations/s\n",
              static_cast<double>(got.executions) / took.count(),
              static_cast<double>(got.steps) / took.count() / 1e6);
}

}  // namespace
