// SPDX-License-Identifier: Apache-2.0
// What the standard faces rest on under the model checker: single slots that change threads,
// waiting for regions, and the barrier.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <new>

#include <spolia/base/memory.hpp>

#include "model/bare_scheme.hpp"
#include "model/domain_scenarios.hpp"
#include "reclaim/homes.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// What both kinds of home retire.
struct node {
  static node* make() { return ::new (memory::allocate(sizeof(node), alignof(node))) node; }
  static void destroy(node* n) {
    n->whole.write(false);
    n->~node();
    memory::deallocate(n, sizeof(node), alignof(node));
  }
  core::place& retired_at() {
    where.object = this;
    where.end = [](core::place* p) noexcept {
      destroy(static_cast<node*>(const_cast<void*>(p->object)));
    };
    return where;
  }
  void look() const { model::check(whole.read(), "the object was looked at after its end"); }

  core::place where;
  plain<bool> whole{true};
};

struct shared {
  shared() {
    for (auto& s : source) s.store_relaxed(node::make());
  }
  void clear() {
    for (auto& s : source) {
      if (node* const n = s.exchange_relaxed(nullptr)) node::destroy(n);
    }
  }
  std::array<atomic<node*>, 2> source;
};

using detail::reclaim::handed_hazards;
using detail::reclaim::handed_slots;

/// The scheme alone: every retirement makes a scan, which frees at once.
struct hazards {
  using slot = handed_hazards::slot;

  hazards() {
    for (auto& s : source) s.store_relaxed(bare_node::make(1));
  }
  slot& take() { return d.scheme.take(d.me()); }
  void give_back(slot& s) { d.scheme.give_back(d.me(), s); }
  static bare_node* protect(slot& s, const atomic<bare_node*>& from) {
    bare_node* seen = from.load_relaxed();
    while (!handed_hazards::try_protect(s, seen, from)) continue;
    return seen;
  }
  void look(std::size_t i = 0) {
    slot& s = take();
    if (const bare_node* const n = protect(s, source[i])) n->look();
    give_back(s);
  }
  void take_away(std::size_t i = 0) {
    if (bare_node* const n = source[i].exchange_acq_rel(nullptr)) d.retire(n);
  }
  void clear() {
    for (auto& s : source) {
      if (bare_node* const n = s.load_relaxed()) bare_node::end(n);
    }
    d.end();
  }

  bare_domain<handed_hazards> d;
  std::array<atomic<bare_node*>, 2> source;
};

void a_reader_and_a_writer(model::scenario& run) {
  auto s = std::make_shared<hazards>();
  run.name(s->source, "source");
  run.thread([=] { s->look(); });
  run.thread([=] { s->take_away(); });
  run.finally([=] { s->clear(); });
}

/// The slot is given back by the one thread and taken by the other, which names something else.
void a_slot_changes_its_owner(model::scenario& run) {
  auto s = std::make_shared<hazards>();
  run.name(s->source, "source");
  run.thread([=] {
    auto& mine = s->take();
    if (const bare_node* const n = hazards::protect(mine, s->source[0])) n->look();
    s->d.scheme.give_back(mine);  // as a thread whose hands are full does
  });
  run.thread([=] {
    auto& mine = s->take();
    if (const bare_node* const n = hazards::protect(mine, s->source[1])) n->look();
    s->take_away(0);
    s->give_back(mine);
  });
  run.finally([=] { s->clear(); });
}

/// The object that owns the slot is moved to a thread that ends the protection.
void a_hazard_pointer_moves(model::scenario& run) {
  struct state : hazards {
    atomic<slot*> handed{nullptr};
    atomic<bare_node*> seen{nullptr};
  };
  auto s = std::make_shared<state>();
  run.name(s->source, "source");
  run.thread([=] {
    auto& mine = s->take();
    s->seen.store_relaxed(hazards::protect(mine, s->source[0]));
    s->handed.store_release(&mine);
  });
  run.thread([=] {
    auto* const theirs = s->handed.load_acquire();
    if (theirs == nullptr) return;
    if (const bare_node* const n = s->seen.load_relaxed()) n->look();
    s->give_back(*theirs);
  });
  run.thread([=] { s->take_away(); });
  run.finally([=] { s->clear(); });
}

/// The same thread names one object after the other: a scan may see the second name only.
void a_slot_names_twice(model::scenario& run) {
  auto s = std::make_shared<hazards>();
  run.name(s->source, "source");
  run.thread([=] {
    auto& mine = s->take();
    for (auto& from : s->source) {
      if (const bare_node* const n = hazards::protect(mine, from)) n->look();
    }
    s->give_back(mine);
  });
  run.thread([=] { s->take_away(0); });
  run.finally([=] { s->clear(); });
}

TEST(handed_hazards_model, what_is_protected_stays) {
  expect_clean(a_reader_and_a_writer, at_most(2));
  expect_clean(a_slot_changes_its_owner, at_most(2));
  expect_clean(a_hazard_pointer_moves, at_most(2));
  expect_clean(a_slot_names_twice, at_most(2));
}
TEST(handed_hazards_model, naming_needs_its_fences_and_the_second_look) {
  expect_found(a_reader_and_a_writer, "hp.no_light", at_most(2), "data race");
  expect_found(a_reader_and_a_writer, "hp.no_heavy", at_most(2), "data race");
  expect_found(a_reader_and_a_writer, "handed.no_validate", at_most(2), "use after free");
  expect_found(a_slot_names_twice, "hp.relaxed_publish", at_most(2), "race");
  expect_found(a_reader_and_a_writer, "slots.read_relaxed", at_most(2), "race");
}
TEST(handed_hazards_model, ending_the_protection_needs_release) {
  expect_found(a_reader_and_a_writer, "handed.clear_relaxed", at_most(2), "race");
}
TEST(handed_hazards_model, a_slot_brings_its_owners_history_along) {
  expect_found(a_slot_changes_its_owner, "handed.release_relaxed", at_most(2), "race");
}

struct regions : shared {
  void look(std::size_t i = 0) {
    home.lock();
    if (const node* const n = source[i].load_acquire()) n->look();
    home.unlock();
  }
  node* unlink(std::size_t i = 0) { return source[i].exchange_acq_rel(nullptr); }
  void synchronize() {
    home.synchronize([] { return false; });
  }

  detail::reclaim::region_home home;
};

std::shared_ptr<regions> make_regions(model::scenario& run) {
  auto s = std::make_shared<regions>();
  run.name(s->source, "source");
  return s;
}

void a_writer_waits(model::scenario& run) {
  auto s = make_regions(run);
  run.thread([=] { s->look(); });
  run.thread([=] {
    node* const n = s->unlink();
    s->synchronize();
    node::destroy(n);
  });
  run.finally([=] { s->clear(); });
}

/// The waiter may see the second region only.
void a_reader_comes_twice(model::scenario& run) {
  auto s = make_regions(run);
  run.thread([=] {
    s->look(0);
    s->look(1);
  });
  run.thread([=] {
    node* const n = s->unlink(0);
    s->synchronize();
    node::destroy(n);
  });
  run.finally([=] { s->clear(); });
}

/// The parts of a home, for what it does only in need or seldom.
struct open_home : shared {
  using home = domain<detail::reclaim::regions>;

  void synchronize() {
    at.scheme().wait_for_readers(at.others(), [] { return false; });
  }

  home d{{.scheme = {.scan_every = 1}}};
  home::outside at{d};
};

void strangers_read(model::scenario& run) {
  auto s = std::make_shared<open_home>();
  run.name(s->source, "source");
  for (int t = 0; t < 2; ++t) {
    run.thread([=] {
      s->at.scheme().stranger_enters();
      if (const node* const n = s->source[0].load_acquire()) n->look();
      s->at.scheme().stranger_leaves();
    });
  }
  run.thread([=] {
    node* const n = s->source[0].exchange_acq_rel(nullptr);
    s->synchronize();
    node::destroy(n);
  });
  run.finally([=] { s->clear(); });
}

TEST(region_home_model, who_waits_may_free) {
  expect_clean(a_writer_waits, at_most(3));
  expect_clean(a_reader_comes_twice, at_most(2));
}
TEST(region_home_model, strangers_are_waited_for) {
  expect_clean(strangers_read, at_most(1));
  expect_found(strangers_read, "regions.stranger_without_light", at_most(1), "data race");
}
TEST(region_home_model, waiting_needs_the_heavy_fence) {
  expect_found(a_writer_waits, "regions.no_heavy", at_most(2), "data race");
}
TEST(region_home_model, leaving_needs_release) {
  expect_found(a_writer_waits, "regions.leave_relaxed", at_most(2), "race");
}
TEST(region_home_model, entering_again_needs_release) {
  expect_found(a_reader_comes_twice, "regions.enter_relaxed", at_most(2), "race");
}

/// A third thread carries a block from a cell to its own while a barrier goes round.
struct carried : open_home {
  struct marked {
    core::place where;
    atomic<bool>* ended;
  };

  void retire() {
    block.where.object = &block;
    block.where.end = [](core::place* p) noexcept {
      static_cast<const marked*>(p->object)->ended->store_relaxed(true);
    };
    auto* const me = at.me();
    at.enter(*me);
    at.retire_inside(*me, home::outside::block_in(block.where, 0));
    at.leave(*me);
    me->inflow_seen.store_relaxed(me->inflow());  // as if a thread had looked once
    retired.store_release(true);
  }

  /// Looks at the own cell and at the next one.
  void look_after_others() {
    auto* const me = at.me();
    for (int look = 0; look < 2; ++look) {
      me->countdown = 1;
      at.enter(*me);
      at.leave(*me);
    }
  }

  atomic<bool> ended{false};
  atomic<bool> retired{false};
  marked block{{}, &ended};
};

void a_barrier_goes_round(model::scenario& run) {
  auto s = std::make_shared<carried>();
  run.thread([=] { s->look_after_others(); });
  run.thread([=] { s->retire(); });
  run.thread([=] {
    while (!s->retired.load_acquire()) spin_wait();
    s->at.barrier(*s->at.me(), [&] { s->synchronize(); });
    model::check(s->ended.load_relaxed(), "the barrier has missed a block");
  });
  run.finally([=] { s->clear(); });
}

/// The owner of the block is inside of a region when the barrier begins, and then of another one.
void a_barrier_asks_a_reader(model::scenario& run) {
  auto s = std::make_shared<carried>();
  run.thread([=] {
    auto* const me = s->at.me();
    s->at.enter(*me);
    s->retire();
    s->at.leave(*me);
    s->at.enter(*me);
    s->at.leave(*me);
  });
  run.thread([=] {
    auto* const me = s->at.me();
    while (!s->retired.load_acquire()) spin_wait();
    s->at.barrier(*me, [&] { s->synchronize(); });
    model::check(s->ended.load_relaxed(), "the barrier has missed a block");
  });
  run.finally([=] { s->clear(); });
}

/// A block that is in no cell is taken along by a thread that the barrier may have visited already.
void a_barrier_looks_for_strays(model::scenario& run) {
  auto s = std::make_shared<carried>();
  s->block.where.object = &s->block;
  s->block.where.end = [](core::place* p) noexcept {
    static_cast<const carried::marked*>(p->object)->ended->store_relaxed(true);
  };
  s->at.scheme().astray.put(open_home::home::outside::block_in(s->block.where, 0));
  run.thread([=] {
    auto* const me = s->at.me();
    s->at.enter(*me);
    s->at.take_strays(*me);
    s->at.leave(*me);
  });
  run.thread([=] {
    s->at.barrier(*s->at.me(), [&] { s->synchronize(); });
    model::check(s->ended.load_relaxed(), "the barrier has missed a stray");
  });
  run.finally([=] { s->clear(); });
}

/// Each may find the other under way, and may count on one that began after its call only.
void barriers_take_turns(model::scenario& run) {
  auto s = std::make_shared<carried>();
  run.thread([=] {
    s->retire();
    s->at.barrier(*s->at.me(), [&] { s->synchronize(); });
    model::check(s->ended.load_relaxed(), "the barrier has missed a block of its own thread");
  });
  run.thread([=] { s->at.barrier(*s->at.me(), [&] { s->synchronize(); }); });
  run.finally([=] { s->clear(); });
}

TEST(region_home_model, a_barrier_misses_nothing) {
  expect_clean(a_barrier_goes_round, at_most_in_order(1));
  expect_clean(a_barrier_asks_a_reader, at_most_in_order(2));
  expect_clean(a_barrier_looks_for_strays, at_most_in_order(2));
  expect_clean(barriers_take_turns, at_most_in_order(2));
}
TEST(region_home_model, a_barrier_takes_strays_first) {
  expect_found(a_barrier_looks_for_strays, "outside.strays_last", at_most_in_order(2),
               "the barrier has missed a stray");
}
TEST(region_home_model, a_barrier_needs_the_heavy_fence) {
  expect_found(a_barrier_asks_a_reader, "outside.no_heavy", at_most(2), "data race");
}
TEST(region_home_model, a_reader_that_is_asked_hands_its_blocks_over) {
  expect_found(a_barrier_asks_a_reader, "outside.nothing_handed_over", at_most_in_order(2),
               "the barrier has missed");
  expect_found(a_barrier_asks_a_reader, "gate.question_overlooked", at_most_in_order(2),
               "data race");
}
TEST(region_home_model, a_barrier_counts_on_later_ones_only) {
  expect_found(barriers_take_turns, "outside.counts_on_the_one_under_way", at_most_in_order(2),
               "the barrier has missed");
}
TEST(region_home_model, a_barrier_must_keep_the_others_from_carrying) {
  expect_found(a_barrier_goes_round, "outside.unbarred", at_most_in_order(2),
               "the barrier has missed");
}

}  // namespace
