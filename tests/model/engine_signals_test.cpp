// SPDX-License-Identifier: Apache-2.0
// Signals to scenario threads, jumps out of their handlers, and thread exit hooks.

#include <gtest/gtest.h>

#include <csetjmp>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/model/engine.hpp>

namespace {

using spolia::atomic;
using spolia::plain;
using spolia::spin_wait;
namespace fence = spolia::fence;
namespace memory = spolia::memory;
namespace model = spolia::model;

// Handlers have no argument, so what they work on is global; all of it is older than the executions
// and starts each of them with these values.
atomic<int> handled{0};
atomic<bool> acknowledged{false};

void count_handler() { handled.fetch_add_relaxed(1); }
void other_handler() { handled.fetch_add_relaxed(10); }
void acknowledging_handler() { acknowledged.store_release(true); }

model::outcome explore(const std::function<void(model::scenario&)>& setup, bool prompt = false) {
  model::options how;
  how.preemptions = -1;
  how.prompt_signals = prompt;
  return model::explore(how, setup);
}

void expect_clean(const model::outcome& got) {
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
}

// The target adds 1, 2, 4 in three operations; the handler notes how far it had come.
std::set<int> moments(bool prompt) {
  static int at_delivery;
  static atomic<int> progress{0};
  std::set<int> seen;
  expect_clean(explore(
      [&](model::scenario& run) {
        at_delivery = -1;
        run.thread([] {
          for (int step : {1, 2, 4}) progress.fetch_add_relaxed(step);
        });
        run.thread([] { model::signal(0, [] { at_delivery = progress.load_relaxed(); }); });
        run.finally([&seen] { seen.insert(at_delivery); });
      },
      prompt));
  return seen;
}

TEST(signals, arrive_before_any_later_operation_or_at_the_end) {
  // -1: the target had ended. 7: after its last operation.
  EXPECT_EQ(moments(false), (std::set<int>{-1, 0, 1, 3, 7}));
  EXPECT_EQ(moments(true), (std::set<int>{-1, 0, 1, 3}));
}

TEST(signals, may_be_late_unless_prompt) {
  // The target's second operation comes after the signal was sent; has the handler run before it?
  auto late = [](bool prompt) {
    static atomic<bool> sent{false};
    bool seen_late = false;
    expect_clean(explore(
        [&](model::scenario& run) {
          run.thread([&seen_late] {
            if (sent.load_acquire() && handled.load_relaxed() == 0) seen_late = true;
          });
          run.thread([] {
            model::signal(0, count_handler);
            sent.store_release(true);
          });
        },
        prompt));
    return seen_late;
  };
  EXPECT_TRUE(late(false));
  EXPECT_FALSE(late(true));
}

TEST(signals, same_handler_is_pending_once_and_others_queue_up) {
  std::set<int> totals;
  expect_clean(explore([&](model::scenario& run) {
    run.thread([] {
      while (!acknowledged.load_acquire()) spin_wait();
    });
    run.thread([] {
      model::signal(0, count_handler);
      model::signal(0, count_handler);
      model::signal(0, other_handler);
      acknowledged.store_release(true);
    });
    run.finally([&totals] { totals.insert(handled.load_relaxed()); });
  }));
  EXPECT_EQ(totals, (std::set<int>{11, 12}));
}

TEST(signals, reach_a_thread_that_waits_for_nothing_else) {
  expect_clean(explore([](model::scenario& run) {
    run.thread([] {
      while (!acknowledged.load_acquire()) spin_wait();
    });
    run.thread([] { model::signal(0, acknowledging_handler); });
  }));
  const model::outcome without = explore([](model::scenario& run) {
    run.thread([] {
      while (!acknowledged.load_acquire()) spin_wait();
    });
    run.thread([] { model::yield(); });
  });
  EXPECT_FALSE(without.ok);
  EXPECT_NE(without.why.find("deadlock"), std::string::npos);
}

// The signal itself orders nothing: what the sender wrote before is not published by it.
TEST(signals, give_no_happens_before) {
  static plain<int>* data;
  auto send = [](bool release) {
    static atomic<bool> flag{false};
    return explore([=](model::scenario& run) {
      auto owned = std::make_shared<plain<int>>(0);
      run.thread([] {
        model::yield();
        model::yield();
      });
      run.thread([=] {
        data = owned.get();
        owned->write(1);
        if (release) flag.store_release(true);
        model::signal(0, [] {
          static_cast<void>(flag.load_acquire());
          static_cast<void>(data->read());
        });
      });
    });
  };
  const model::outcome racy = send(false);
  EXPECT_FALSE(racy.ok);
  EXPECT_NE(racy.why.find("data race"), std::string::npos) << racy.why;
}

// ---- jumps
// ---------------------------------------------------------------------------------------

sigjmp_buf restart;
bool restartable;      // the reader is in its section; only the reader's own thread looks
int sections;          // how many the reader has begun
atomic<int> phase{0};  // odd: in a section

void jump_back() {
  if (!restartable) return;
  restartable = false;
  phase.store_release(2 * sections);
  siglongjmp(restart, 1);
}

void answer_without_jumping() {
  if (restartable) phase.store_release(2 * sections);
}

struct cell {
  atomic<int> value{1};
};

void read_in_section(const atomic<cell*>& head) {
  sigsetjmp(restart, 0);
  phase.store_relaxed(2 * sections++ + 1);
  restartable = true;
  fence::light();
  if (cell* seen = head.load_acquire()) {
    model::yield();
    model::check(seen->value.load_relaxed() == 1, "the cell is whole");
  }
  restartable = false;
  phase.store_release(2 * sections);
}

void unlink_and_free(atomic<cell*>& head, void (*handler)(), bool fenced, bool wait) {
  cell* const old = head.exchange_acq_rel(nullptr);
  if (fenced) fence::heavy();
  const int found = phase.load_acquire();
  if (found % 2 == 1) model::signal(0, handler);
  while (wait && found % 2 == 1 && phase.load_acquire() == found) spin_wait();
  memory::deallocate(old, sizeof(cell), alignof(cell));
}

// The reader walks to a cell in a section that can be restarted; the reclaimer unlinks the cell,
// interrupts the reader if it is in a section, waits until that has ended, and frees.
model::outcome neutralize(void (*handler)(), bool fenced, bool wait) {
  return explore([=](model::scenario& run) {
    restartable = false;
    sections = 0;
    auto head =
        std::make_shared<atomic<cell*>>(new (memory::allocate(sizeof(cell), alignof(cell))) cell());
    run.thread([=] { read_in_section(*head); });
    run.thread([=] { unlink_and_free(*head, handler, fenced, wait); });
  });
}

TEST(jumps, a_handler_may_leave_to_its_own_threads_checkpoint) {
  expect_clean(neutralize(jump_back, true, true));
}

TEST(jumps, each_part_of_the_protocol_is_needed) {
  EXPECT_FALSE(neutralize(answer_without_jumping, true, true).ok);
  EXPECT_FALSE(neutralize(jump_back, false, true).ok);
  EXPECT_FALSE(neutralize(jump_back, true, false).ok);
}

// Two abandoned handlers in one thread, and state from before the checkpoint that survives.
TEST(jumps, can_be_repeated) {
  static int jumps;
  static bool inside;  // after that there is no frame to jump to
  static sigjmp_buf again;
  std::set<int> seen;
  expect_clean(explore([&](model::scenario& run) {
    jumps = 0;
    inside = false;
    run.thread([] {
      sigsetjmp(again, 0);
      inside = true;
      for (int i = 0; i < 2; ++i) model::yield();
      inside = false;
    });
    run.thread([] {
      for (int i = 0; i < 2; ++i) {
        model::signal(0, [] {
          if (!inside) return;
          ++jumps;
          siglongjmp(again, 1);
        });
      }
    });
    run.finally([&seen] { seen.insert(jumps); });
  }));
  EXPECT_EQ(seen, (std::set<int>{0, 1, 2}));
}

// ---- exit hooks
// ----------------------------------------------------------------------------------

TEST(exit_hooks, run_in_reverse_order_on_their_thread_and_may_use_everything) {
  static std::vector<std::string>* log;
  static atomic<bool> go{false};
  auto hook = [](void* name) {
    while (!go.load_acquire()) spin_wait();
    log->push_back(static_cast<const char*>(name) + std::to_string(model::current_thread()));
  };
  static char first[] = "first", second[] = "second";
  expect_clean(explore([=](model::scenario& run) {
    auto lines = std::make_shared<std::vector<std::string>>();
    log = lines.get();
    run.thread([] { go.store_release(true); });
    run.thread([=] {
      model::at_thread_exit(hook, first);
      model::at_thread_exit(hook, second);
    });
    run.finally([=] {
      model::check(*lines == std::vector<std::string>{"second1", "first1"}, "reverse order");
    });
  }));
}

TEST(exit_hooks, of_set_up_and_finally_run_at_their_ends) {
  static int left;
  auto leave = [](void*) { ++left; };
  expect_clean(explore([=](model::scenario& run) {
    left = 0;
    model::at_thread_exit(leave, nullptr);
    run.thread([] { model::check(left == 1, "set-up has left"); });
    run.finally([=] { model::at_thread_exit(leave, nullptr); });
  }));
  EXPECT_EQ(left, 2);
}

// A scheme's hook says that its thread is out of reach, so no handler may come after it.
TEST(exit_hooks, run_after_the_last_pending_signal) {
  static bool left;
  expect_clean(explore([](model::scenario& run) {
    left = false;
    run.thread([] {
      model::at_thread_exit([](void*) { left = true; }, nullptr);
      model::yield();
    });
    run.thread([] { model::signal(0, [] { model::check(!left, "before the hooks"); }); });
  }));
}

// A hook that frees what its thread owned, as schemes do.
TEST(exit_hooks, free_what_the_thread_owned) {
  auto owner = [](bool hooked) {
    return explore([=](model::scenario& run) {
      run.thread([=] {
        void* own = memory::allocate(8, 8);
        if (hooked) {
          model::at_thread_exit([](void* block) { memory::deallocate(block, 8, 8); }, own);
        }
      });
    });
  };
  expect_clean(owner(true));
  EXPECT_FALSE(owner(false).ok);
}

}  // namespace
