// SPDX-License-Identifier: Apache-2.0
// The domain's own part under the model checker: one thread's blocks, and others that take them
// over.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/base/biased_gate.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/token.hpp>

#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// What a gate guards: written by the owner while present, or by a visitor.
struct gated {
  void touch() { blocks.write(blocks.read() + 1); }
  biased_gate gate;
  plain<int> blocks{0};
};

/// Two visitors, and an owner that is there twice, the second time for two reasons.
template <bool Insists = false>
void an_owner_and_visitors(model::scenario& run) {
  auto s = std::make_shared<gated>();
  run.name(s->gate, "gate");
  run.thread([=] {
    s->gate.come(1);
    s->touch();
    s->gate.go(1);
    s->gate.come(2);
    s->touch();
    s->gate.come(1);
    s->gate.go(1);
    s->touch();
    s->gate.go(2);
  });
  auto visits = std::make_shared<std::array<int, 2>>();
  run.thread([=] {
    const auto touch = [&] { s->touch(); };
    (*visits)[0] = (Insists ? s->gate.insist(touch) : s->gate.visit(touch)) ? 1 : 0;
  });
  run.thread([=] { (*visits)[1] = s->gate.park([&] { s->touch(); }) ? 1 : 0; });
  run.finally([=] {
    model::check(s->blocks.read() == 3 + (*visits)[0] + (*visits)[1], "no touch is lost");
  });
}

TEST(biased_gate_model, lets_in_one_at_a_time) {
  expect_clean(an_owner_and_visitors<>, at_most(3));
  expect_clean(an_owner_and_visitors<true>, at_most(3));
}

/// The owner is told once that the gate was parked, and a visit to a parked gate leaves it so.
void an_owner_comes_to_a_parked_gate(model::scenario& run) {
  auto s = std::make_shared<gated>();
  run.name(s->gate, "gate");
  model::check(s->gate.park([&] { s->touch(); }), "no thread is there yet");
  auto told = std::make_shared<std::array<bool, 2>>();
  run.thread([=] {
    for (bool& parked : *told) {
      parked = s->gate.come(1) == biased_gate::arrival::unparked;
      s->touch();
      s->gate.go(1);
    }
  });
  auto visited = std::make_shared<int>(0);
  run.thread([=] { *visited = s->gate.visit([&] { s->touch(); }) ? 1 : 0; });
  run.finally([=] {
    model::check((*told)[0] && !(*told)[1], "the first time, and only then");
    model::check(s->blocks.read() == 3 + *visited, "no touch is lost");
  });
}
TEST(biased_gate_model, a_parked_gate_is_opened_by_its_owner) {
  expect_clean(an_owner_comes_to_a_parked_gate, at_most(3));
}
TEST(biased_gate_model, a_visitor_needs_the_heavy_fence) {
  expect_found(an_owner_and_visitors<>, "gate.no_heavy", at_most(2), "data race");
  expect_found(an_owner_and_visitors<true>, "gate.no_heavy", at_most(2), "data race");
}
TEST(biased_gate_model, an_owner_takes_a_question_back) {
  expect_found(an_owner_and_visitors<>, "gate.enters_unasked", at_most(2), "data race");
  expect_found(an_owner_and_visitors<>, "gate.same_question", at_most(3), "data race");
}

/// Of a visitor that must not give up. How often the owner has answered, and how often it went in.
struct asked_gate : gated {
  void come() {
    if (gate.come(1) == biased_gate::arrival::asked) {
      touch();
      answers.write(answers.read() + 1);
      gate.answered();
    }
  }
  void stay() {
    come();
    touch();
    gate.go(1);
  }
  /// Until the question is resolved; once the others may know that it stands, `stands` says so.
  void ask_and_wait() {
    const biased_gate::word question = gate.leave_question();
    if (question == biased_gate::no_question) {  // the other visitor is there
      skipped = true;
      return;
    }
    if (!SPOLIA_FAULT("test.no_heavy")) fence::heavy();
    stands.store_release(true);
    while (!gate.resolve(question, [&] {
      touch();
      entries.write(entries.read() + 1);
    })) {
      spin_wait();
    }
    // What the owner did for us is there.
    model::check(answers.read() + entries.read() == 1, "a question is resolved once");
  }

  atomic<bool> stands{false};
  plain<int> answers{0};
  plain<int> entries{0};
  bool skipped = false;
};

/// An owner that is there three times, a visitor whose question stands, and one that gives up.
template <bool Parks>
void a_question_stands(model::scenario& run) {
  auto s = std::make_shared<asked_gate>();
  run.name(s->gate, "gate");
  run.thread([=] {
    for (int i = 0; i < 3; ++i) s->stay();
  });
  run.thread([=] { s->ask_and_wait(); });
  auto visited = std::make_shared<bool>(false);
  run.thread([=] {
    const auto touch = [&] { s->touch(); };
    *visited = Parks ? s->gate.park(touch) : s->gate.insist(touch);
  });
  run.finally([=] {
    const int resolved = s->answers.read() + s->entries.read();
    model::check(resolved == (s->skipped ? 0 : 1), "no question is lost");
    model::check(s->blocks.read() == 3 + resolved + (*visited ? 1 : 0), "no touch is lost");
  });
}

/// An owner that comes after the fence stays until the question is resolved.
void an_owner_stays_long(model::scenario& run) {
  auto s = std::make_shared<asked_gate>();
  auto over = std::make_shared<atomic<bool>>(false);
  run.name(s->gate, "gate");
  run.thread([=] {
    s->stay();
    while (!s->stands.load_acquire()) spin_wait();
    s->come();
    while (!over->load_acquire()) spin_wait();
    s->gate.go(1);
  });
  run.thread([=] {
    s->ask_and_wait();
    over->store_release(true);
  });
  run.finally([=] { model::check(s->blocks.read() == 2, "no touch is lost"); });
}

TEST(biased_gate_model, a_question_is_resolved_once) {
  expect_clean(a_question_stands<false>, at_most(2));
  expect_clean(a_question_stands<true>, at_most(2));
  expect_clean(an_owner_stays_long, at_most(3));
}
TEST(biased_gate_model, a_question_needs_the_heavy_fence) {
  expect_found(a_question_stands<false>, "test.no_heavy", at_most(2), "data race");
}
TEST(biased_gate_model, an_owner_that_comes_answers) {
  expect_found(an_owner_stays_long, "gate.question_overlooked", at_most(2), "deadlock");
  expect_found(a_question_stands<false>, "gate.answers_unasked", at_most(2), "data race");
  expect_found(a_question_stands<false>, "gate.answer_relaxed", at_most(2), "data race");
}
TEST(biased_gate_model, a_question_to_an_owner_that_is_gone_is_resolved) {
  expect_found(a_question_stands<false>, "gate.never_enters", at_most(2), "deadlock");
}

using token_domain = domain<token, amortized>;

/// Its destructor begins and ends a guard, as one does that retires what it owns.
struct guard_user : token_domain::header {
  explicit guard_user(token_domain& d) : home(d) {}
  ~guard_user() { auto guard = home.enter(); }
  token_domain& home;
};

token_domain::options frees_one_by_one() {
  return {.scheme = {.tick_every = 1, .patience = 0}, .release = {.every = 1}};
}

/// The end of a guard frees two blocks; after the first one's destructor the thread is still at it,
/// and another thread tries to take its blocks over.
void a_visitor_comes_during_a_slow_free(model::scenario& run) {
  auto d = std::make_shared<token_domain>(frees_one_by_one());
  const auto retire_two = [=] {
    auto guard = d->enter();
    for (int i = 0; i < 2; ++i) guard.retire(d->make<guard_user>(*d));
  };
  run.thread([=] {
    retire_two();
    for (int operation = 0; operation < 2; ++operation) auto guard = d->enter();
    retire_two();  // the first two are safe by now
  });
  run.thread([=] { d->drain(); });
  run.finally([=] {
    while (!d->drain()) continue;
  });
}

/// A step of freeing is due from the beginning of the outer guard on, and not before its end.
void a_guard_ends_inside_of_one_that_frees(model::scenario& run) {
  using shared = shared_blocks<token_domain>;
  auto s = std::make_shared<shared>(frees_one_by_one());
  run.name(s->source, "source");
  run.thread([=] {
    {
      auto guard = s->d.enter();
      for (int i = 0; i < 2; ++i) guard.retire(s->d.make<shared::block>());
    }
    s->run_on(2);
    auto outer = s->d.enter();  // they are safe by now, unless the other thread has held them up
    const auto seen = outer.protect(s->source[0]);
    {
      auto inner = s->d.enter();
    }
    if (seen != nullptr) model::check(seen->whole.read(), "the outer guard's protection is gone");
  });
  run.thread([=] {
    s->take_away();
    s->run_on(4);
  });
  run.finally([=] { s->clear(); });
}

/// Nothing more is retired, and more is safe than is freed at once.
void a_thread_only_reads_on(model::scenario& run) {
  using shared = shared_blocks<token_domain>;
  auto s = std::make_shared<shared>(frees_one_by_one());
  run.thread([=] {
    {
      auto guard = s->d.enter();
      for (int i = 0; i < 3; ++i) guard.retire(s->d.make<shared::block>());
    }
    s->run_on(20);
    model::check(s->d.garbage() == 0, "safe blocks wait until something is retired");
  });
  run.finally([=] { s->clear(); });
}

TEST(domain_model, blocks_are_freed_behind_the_outermost_guard) {
  expect_clean(a_guard_ends_inside_of_one_that_frees, at_most_in_order(1));
  expect_clean(a_thread_only_reads_on, at_most_in_order(1));
}
TEST(domain_model, what_frees_is_the_end_of_the_outermost_guard) {
  expect_found(a_guard_ends_inside_of_one_that_frees, "domain.inner_guard_frees",
               at_most_in_order(1), "data race");
}
TEST(domain_model, that_blocks_are_to_be_freed_must_not_be_forgotten) {
  expect_found(a_thread_only_reads_on, "domain.free_bit_lost", at_most_in_order(1),
               "safe blocks wait");
}

TEST(domain_model, a_thread_is_present_while_it_frees) {
  expect_clean(a_visitor_comes_during_a_slow_free, at_most_in_order(1));
}
TEST(domain_model, a_deleters_guard_does_not_open_the_gate) {
  expect_found(a_visitor_comes_during_a_slow_free, "domain.absent_while_freeing",
               at_most_in_order(1), "data race");
}

}  // namespace
