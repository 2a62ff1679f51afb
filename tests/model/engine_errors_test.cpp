// SPDX-License-Identifier: Apache-2.0
// Each kind of error that the engine reports: a scenario that has it, and its repaired twin.

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/model/engine.hpp>

namespace {

using spolia::atomic;
using spolia::plain;
using spolia::spin_wait;
namespace memory = spolia::memory;
namespace model = spolia::model;

struct node {
  plain<int> payload{0};
  atomic<int> word{0};
};

node* make_node() { return new (memory::allocate(sizeof(node), alignof(node))) node(); }
void free_node(node* n) { memory::deallocate(n, sizeof(node), alignof(node)); }

model::outcome explore(const std::function<void(model::scenario&)>& setup) {
  model::options how;
  how.preemptions = -1;
  return model::explore(how, setup);
}

void expect_clean(const model::outcome& got) {
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
}

void expect_failure(const model::outcome& got, const std::string& part) {
  EXPECT_FALSE(got.ok);
  EXPECT_NE(got.why.find(part), std::string::npos) << got.why << "\n" << got.trace;
  EXPECT_EQ(got.trace.find("did not fail again"), std::string::npos) << got.trace;
}

// Hands a written plain<int> over through a flag; `publish` and `consume` carry the orders.
template <class Publish, class Consume>
model::outcome hand_over(Publish publish, Consume consume) {
  struct state {
    plain<int> data{0};
    atomic<bool> flag{false};
  };
  return explore([=](model::scenario& run) {
    auto s = std::make_shared<state>();
    run.thread([=] {
      s->data.write(42);
      publish(s->flag);
    });
    run.thread([=] {
      if (consume(s->flag)) model::check(s->data.read() == 42, "the data arrived");
    });
  });
}

TEST(races, release_and_acquire_hand_plain_data_over) {
  expect_clean(
      hand_over([](auto& f) { f.store_release(true); }, [](auto& f) { return f.load_acquire(); }));
}

TEST(races, a_weaker_order_on_either_side_is_a_race) {
  expect_failure(
      hand_over([](auto& f) { f.store_relaxed(true); }, [](auto& f) { return f.load_acquire(); }),
      "data race: read");
  expect_failure(
      hand_over([](auto& f) { f.store_release(true); }, [](auto& f) { return f.load_relaxed(); }),
      "data race: read");
}

TEST(races, fences_carry_happens_before_with_relaxed_accesses) {
  auto send = [](bool fenced) {
    return [=](auto& flag) {
      if (fenced) model::fence_release();
      flag.store_relaxed(true);
    };
  };
  auto receive = [](bool fenced) {
    return [=](auto& flag) {
      const bool seen = flag.load_relaxed();
      if (fenced) model::fence_acquire();
      return seen;
    };
  };
  expect_clean(hand_over(send(true), receive(true)));
  expect_failure(hand_over(send(false), receive(true)), "data race");
  expect_failure(hand_over(send(true), receive(false)), "data race");
}

// The library's light fences must not look like an edge to any thread.
TEST(races, light_fences_carry_no_happens_before) {
  expect_failure(hand_over(
                     [](auto& flag) {
                       model::fence_light();
                       flag.store_relaxed(true);
                     },
                     [](auto& flag) { return flag.load_acquire(); }),
                 "data race");
  expect_failure(hand_over([](auto& flag) { flag.store_release(true); },
                           [](auto& flag) {
                             const bool seen = flag.load_relaxed();
                             model::fence_light();
                             return seen;
                           }),
                 "data race");
}

TEST(races, a_relaxed_rmw_passes_happens_before_on) {
  auto pass_on = [](bool by_rmw) {
    struct state {
      plain<int> data{0};
      atomic<int> count{0};
    };
    return explore([=](model::scenario& run) {
      auto s = std::make_shared<state>();
      run.thread([=] {
        s->data.write(1);
        s->count.store_release(1);
      });
      run.thread([=] {
        if (by_rmw) {
          int expected = 1;
          s->count.cas_strong_relaxed(expected, 2);
        } else if (s->count.load_relaxed() == 1) {
          s->count.store_relaxed(2);
        }
      });
      run.thread([=] {
        if (s->count.load_acquire() == 2) static_cast<void>(s->data.read());
      });
    });
  };
  expect_clean(pass_on(true));
  expect_failure(pass_on(false), "data race");
}

// The message carries what was before it, not what the sender does next.
TEST(races, writing_after_the_release_is_a_race) {
  struct state {
    plain<int> data{0};
    atomic<bool> flag{false};
  };
  expect_failure(explore([](model::scenario& run) {
                   auto s = std::make_shared<state>();
                   run.thread([=] {
                     s->flag.store_release(true);
                     s->data.write(1);
                   });
                   run.thread([=] {
                     if (s->flag.load_acquire()) static_cast<void>(s->data.read());
                   });
                 }),
                 "data race");
}

TEST(races, write_against_read_and_write_against_write) {
  auto pair = [](bool first_writes) {
    return explore([=](model::scenario& run) {
      auto data = std::make_shared<plain<int>>(0);
      run.thread([=] { first_writes ? data->write(1) : void(data->read()); });
      run.thread([=] { data->write(2); });
    });
  };
  expect_failure(pair(false), "against the read by T0");
  expect_failure(pair(true), "against the write by T0");
}

TEST(races, readers_do_not_race_and_setup_and_finally_see_everything) {
  expect_clean(explore([](model::scenario& run) {
    auto data = std::make_shared<plain<int>>(0);
    data->write(5);
    run.thread([=] { model::check(data->read() == 5, "set-up happens before"); });
    run.thread([=] { model::check(data->read() == 5, "set-up happens before"); });
    run.finally([=] { data->write(6); });
  }));
}

TEST(races, an_atomic_must_be_published_after_its_construction) {
  auto publish = [](bool properly) {
    return explore([=](model::scenario& run) {
      auto head = std::make_shared<atomic<node*>>(nullptr);
      run.thread([=] {
        node* fresh = make_node();
        properly ? head->store_release(fresh) : head->store_relaxed(fresh);
      });
      run.thread([=] {
        if (node* seen = head->load_acquire()) seen->word.load_relaxed();
      });
      run.finally([=] { free_node(head->load_relaxed()); });
    });
  };
  expect_clean(publish(true));
  expect_failure(publish(false), "construction by T0 does not happen before");
}

// ---- blocks
// --------------------------------------------------------------------------------------

TEST(blocks, use_after_free_through_atomic_plain_and_note) {
  auto use = [](auto access) {
    return explore([=](model::scenario& run) {
      node* shared = make_node();
      run.thread([=] { free_node(shared); });
      run.thread([=] { access(shared); });
    });
  };
  expect_failure(use([](node* n) { n->word.load_relaxed(); }), "use after free");
  expect_failure(use([](node* n) { static_cast<void>(n->payload.read()); }), "use after free");
  expect_failure(use([](node* n) { memory::note_access(n); }), "use after free");
}

// The access comes first in every execution that sees done == true, but only by luck.
TEST(blocks, free_needs_happens_before_from_the_last_access) {
  struct state {
    atomic<bool> done{false};
  };
  auto after = [](bool release) {
    return explore([=](model::scenario& run) {
      auto s = std::make_shared<state>();
      node* shared = make_node();
      run.thread([=] {
        shared->word.load_relaxed();
        release ? s->done.store_release(true) : s->done.store_relaxed(true);
      });
      run.thread([=] {
        while (!s->done.load_acquire()) spin_wait();
        free_node(shared);
      });
    });
  };
  expect_clean(after(true));
  expect_failure(after(false), "races with an access by T0");
}

TEST(blocks, double_free_leak_wrong_size_and_strangers) {
  expect_failure(explore([](model::scenario& run) {
                   node* shared = make_node();
                   run.thread([=] { free_node(shared); });
                   run.finally([=] { free_node(shared); });
                 }),
                 "double free");
  expect_failure(explore([](model::scenario& run) { run.thread([] { make_node(); }); }),
                 "leak: blocks that were never freed: 1,");
  expect_failure(explore([](model::scenario&) { memory::deallocate(make_node(), 1, 8); }),
                 "another size");
  expect_failure(explore([](model::scenario&) {
                   int local = 0;
                   memory::deallocate(&local, sizeof local, alignof(int));
                 }),
                 "allocate() did not give");
  expect_failure(explore([](model::scenario&) {
                   node* n = make_node();
                   make_node();  // not right after the first
                   memory::note_access(n + 1);
                 }),
                 "outside of all blocks");
}

TEST(blocks, what_bodies_own_dies_before_leaks_are_counted) {
  expect_clean(explore([](model::scenario& run) {
    std::shared_ptr<node> owned(make_node(), free_node);
    run.thread([=] { owned->word.store_relaxed(1); });
  }));
}

TEST(blocks, alignment_is_kept_and_a_full_heap_throws) {
  expect_clean(explore([](model::scenario&) {
    for (std::size_t align : {8u, 64u, 4096u}) {
      void* block = memory::allocate(24, align);
      model::check(reinterpret_cast<std::uintptr_t>(block) % align == 0, "aligned");
      memory::deallocate(block, 24, align);
    }
    try {
      static_cast<void>(memory::allocate(std::size_t{1} << 40, 8));
      model::check(false, "bad_alloc was thrown");
    } catch (const std::bad_alloc&) {
    }
  }));
}

// ---- waiting
// -------------------------------------------------------------------------------------

TEST(waiting, a_flag_that_no_thread_sets_is_a_deadlock) {
  auto wait_for_each_other = [](bool first_gives) {
    struct state {
      atomic<bool> a{false}, b{false};
    };
    return explore([=](model::scenario& run) {
      auto s = std::make_shared<state>();
      run.thread([=] {
        if (first_gives) s->a.store_release(true);
        while (!s->b.load_acquire()) spin_wait();
        s->a.store_release(true);
      });
      run.thread([=] {
        while (!s->a.load_acquire()) spin_wait();
        s->b.store_release(true);
      });
    });
  };
  expect_clean(wait_for_each_other(true));
  expect_failure(wait_for_each_other(false), "deadlock");
}

// Two spinners that store the value that is there already must not keep each other awake.
TEST(waiting, a_lock_that_is_never_released_is_a_deadlock) {
  auto lock_twice = [](bool release) {
    return explore([=](model::scenario& run) {
      auto lock = std::make_shared<atomic<int>>(0);
      for (int i = 0; i < 3; ++i) {
        run.thread([=] {
          while (lock->exchange_acquire(1) != 0) spin_wait();
          if (release) lock->store_release(0);
        });
      }
    });
  };
  expect_clean(lock_twice(true));
  expect_failure(lock_twice(false), "deadlock");
}

// What a waiting loop itself changes in every round does not count as news.
TEST(waiting, a_waiter_does_not_wake_itself) {
  struct state {
    atomic<bool> flag{false};
    atomic<int> rounds{0};
  };
  expect_failure(explore([](model::scenario& run) {
                   auto s = std::make_shared<state>();
                   run.thread([=] {
                     while (!s->flag.load_acquire()) {
                       s->rounds.fetch_add_relaxed(1);
                       spin_wait();
                     }
                   });
                 }),
                 "deadlock");
}

TEST(waiting, a_loop_without_spin_wait_hits_the_step_limit) {
  auto endless = [](bool cut) {
    model::options how;
    how.max_steps = 200;
    how.cut_long_executions = cut;
    how.executions = 3;
    return model::explore(how, [](model::scenario& run) {
      auto flag = std::make_shared<atomic<bool>>(false);
      run.thread([=] {
        while (!flag->load_acquire()) {
        }
      });
      run.thread([=] { flag->store_release(true); });
    });
  };
  expect_failure(endless(false), "max_steps");
  const model::outcome cut = endless(true);
  EXPECT_TRUE(cut.ok);
  EXPECT_GT(cut.cut, 0u);
}

// spin_wait makes a waiter see the newest flag, but must not bring unrelated data up to date: the
// missing acquire has to be found.
TEST(waiting, spin_wait_does_not_hide_missing_acquire) {
  struct state {
    atomic<int> data{0};
    atomic<bool> flag{false};
  };
  auto receive = [](bool acquire) {
    return explore([=](model::scenario& run) {
      auto s = std::make_shared<state>();
      run.thread([=] {
        s->data.store_relaxed(1);
        s->flag.store_release(true);
      });
      run.thread([=] {
        while (!(acquire ? s->flag.load_acquire() : s->flag.load_relaxed())) spin_wait();
        model::check(s->data.load_relaxed() == 1, "data is new");
      });
    });
  };
  expect_clean(receive(true));
  expect_failure(receive(false), "data is new");
}

// ---- the rest
// ------------------------------------------------------------------------------------

TEST(failures, exceptions_and_checks_in_every_stage) {
  expect_failure(explore([](model::scenario&) { throw std::runtime_error("early"); }),
                 "set-up: uncaught exception: early");
  expect_failure(
      explore([](model::scenario& run) { run.thread([] { throw std::runtime_error("inside"); }); }),
      "T0: uncaught exception: inside");
  expect_failure(
      explore([](model::scenario& run) { run.finally([] { model::check(false, "at the end"); }); }),
      "finally: check failed: at the end");
}

TEST(failures, exceptions_may_cross_a_switch_of_threads) {
  expect_clean(explore([](model::scenario& run) {
    auto word = std::make_shared<atomic<int>>(0);
    for (int i = 0; i < 2; ++i) {
      run.thread([=] {
        try {
          throw i;
        } catch (int caught) {
          word->fetch_add_relaxed(1);  // the other thread runs here, in its own handler
          try {
            throw;
          } catch (int again) {
            model::check(caught == i && again == i, "my exception");
          }
        }
      });
    }
  }));
}

TEST(failures, nondeterminism_is_noticed) {
  int calls = 0;
  const model::outcome got = explore([&](model::scenario& run) {
    auto word = std::make_shared<atomic<int>>(0);
    const int stores = 1 + calls++ % 2;
    for (int i = 0; i < 2; ++i) {
      run.thread([=] {
        for (int k = 0; k < stores; ++k) word->fetch_add_relaxed(1);
        word->load_relaxed();
      });
    }
  });
  EXPECT_FALSE(got.ok);
  EXPECT_NE(got.why.find("not deterministic"), std::string::npos) << got.why;
}

TEST(failures, weak_compare_and_swap_without_a_loop_is_found_when_asked_for) {
  auto once = [](int spurious) {
    model::options how;
    how.spurious_failures = spurious;
    return model::explore(how, [](model::scenario& run) {
      auto word = std::make_shared<atomic<int>>(0);
      run.thread([=] {
        int expected = 0;
        model::check(word->cas_weak_acq_rel(expected, 1), "swapped at once");
      });
    });
  };
  expect_clean(once(0));
  expect_failure(once(1), "swapped at once");
}

}  // namespace
