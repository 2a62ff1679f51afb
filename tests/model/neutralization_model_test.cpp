// SPDX-License-Identifier: Apache-2.0
// Neutralization under the model checker: read phases and reservations against rounds, with a
// signal that is delivered before any operation of its target, or not before the last.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include <spolia/reclaim/neutralization.hpp>

#include "model/bare_scheme.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Scheme>
struct state {
  using domain_type = bare_domain<Scheme>;
  using guard = bare_guard<domain_type>;

  /// NBR begins a round at each retirement, and waits for it at the second. NBR+ takes a bookmark
  /// at the first and begins a round of its own at the second.
  explicit state(std::uint32_t low = 1) : d({.low = low, .high = 4, .signal = 0}) {
    for (auto& s : source) s.store_relaxed(bare_node::make(1));
  }

  void unlink(std::size_t i) {
    guard g(d);
    if (bare_node* const old = source[i].exchange_acq_rel(nullptr)) d.retire(old);
  }

  void end() {
    for (auto& s : source) {
      if (bare_node* const n = s.load_relaxed()) bare_node::end(n);
    }
    d.end();
  }

  domain_type d;
  std::array<atomic<bare_node*>, 3> source;
};

using nbr = state<neutralization>;
using nbr_plus = state<neutralization_plus>;

/// A round is begun for two blocks, which are passed on one after the other.
struct nbr_in_pieces : nbr {
  nbr_in_pieces() : nbr(2) { d.wants = 1; }
};

template <class State>
using setup = void (*)(model::scenario&, const std::shared_ptr<State>&);

template <class State>
model::outcome explore(setup<State> threads, const char* fault, model::options how) {
  how.fault = fault;
  return model::explore(how, [=](model::scenario& run) {
    auto s = std::make_shared<State>();
    run.name(s->source, "source");
    threads(run, s);
    run.finally([s] { s->end(); });
  });
}

model::options up_to(int preemptions) {
  model::options how;
  how.preemptions = preemptions;
  return how;
}

model::options at_random() {
  model::options how;
  how.how = model::options::mode::random;
  how.executions = 30000;
  return how;
}

template <class State>
void expect_clean(setup<State> threads, int preemptions) {
  const auto got = explore(threads, "", up_to(preemptions));
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
  testing::Test::RecordProperty("executions", std::to_string(got.executions));
  const auto random = explore(threads, "", at_random());
  EXPECT_TRUE(random.ok) << random.why << "\n" << random.trace;
}

template <class State>
void expect_found(setup<State> threads, const char* fault) {
  auto got = explore(threads, fault, up_to(2));
  if (got.ok) got = explore(threads, fault, at_random());
  EXPECT_FALSE(got.ok) << fault;
}

template <class State>
void look(State& s, std::size_t i = 0) {
  typename State::guard g(s.d);
  g.read([&] {
    if (bare_node* const n = g.protect(s.source[i])) n->look();
  });
}

template <class State>
bare_node* find(typename State::guard& g, State& s, std::size_t i, unsigned slot = 0) {
  return g.read([&] {
    bare_node* const n = g.protect(s.source[i]);
    if (n != nullptr) n->look();
    g.keep(n, slot);
    return n;
  });
}

template <class State>
void one_reader(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] { look(*s); });
  run.thread([s] {
    s->unlink(0);
    s->d.collect();
  });
}

template <class State>
void two_readers(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] { look(*s); });
  one_reader(run, s);
}

/// A thread that waits for the first phase may see the number of the second one only.
void two_phases(model::scenario& run, const std::shared_ptr<nbr>& s) {
  run.thread([s] {
    look(*s);
    look(*s, 1);
  });
  run.thread([s] {
    s->unlink(0);
    s->d.collect();
  });
}

template <class State>
void kept(model::scenario& run, const std::shared_ptr<State>& s) {
  run.thread([s] {
    typename State::guard g(s->d);
    if (bare_node* const n = find(g, *s, 0)) n->look();
  });
  run.thread([s] {
    s->unlink(0);
    s->d.collect();
  });
}

/// What is kept is in the second piece.
void kept_in_pieces(model::scenario& run, const std::shared_ptr<nbr_in_pieces>& s) {
  run.thread([s] {
    nbr::guard g(s->d);
    if (bare_node* const n = find<nbr>(g, *s, 1)) n->look();
  });
  run.thread([s] {
    s->unlink(0);
    s->unlink(1);
    s->d.tick();
    s->d.tick();
  });
}

/// One slot keeps one block after the other.
void one_slot_twice(model::scenario& run, const std::shared_ptr<nbr>& s) {
  run.thread([s] {
    nbr::guard g(s->d);
    if (bare_node* const n = find(g, *s, 0)) n->look();
    if (bare_node* const n = find(g, *s, 1)) n->look();
  });
  run.thread([s] {
    s->unlink(0);
    s->d.collect();
  });
}

void nested(model::scenario& run, const std::shared_ptr<nbr>& s) {
  run.thread([s] {
    nbr::guard outer(s->d);
    bare_node* const first = find(outer, *s, 0);
    {
      nbr::guard inner(s->d);
      if (bare_node* const n = find(inner, *s, 1)) n->look();
    }
    if (first != nullptr) first->look();
  });
  run.thread([s] {
    s->unlink(0);
    s->unlink(1);
    s->d.collect();
  });
}

void announced(model::scenario& run, const std::shared_ptr<nbr>& s) {
  run.thread([s] {
    nbr::guard g(s->d);
    bare_node* const n = s->source[0].load_relaxed();
    g.announce(n, 0);
    if (n != nullptr && s->source[0].load_acquire() == n) n->look();
  });
  run.thread([s] {
    s->unlink(0);
    s->d.collect();
  });
}

/// Both reclaim, and both read.
template <class State>
void two_writers(model::scenario& run, const std::shared_ptr<State>& s) {
  for (std::size_t i = 0; i < 2; ++i) {
    run.thread([s, i] {
      look(*s, 1 - i);
      s->unlink(i);
      s->d.collect();
    });
  }
}

/// The second thread takes a bookmark, the third one makes a round, which the second may use if it
/// is complete and began after the bookmark.
void bookmark_and_round(model::scenario& run, const std::shared_ptr<nbr_plus>& s) {
  run.thread([s] { look(*s); });
  run.thread([s] {
    s->unlink(0);
    s->unlink(1);
  });
  run.thread([s] {
    s->unlink(2);
    s->d.collect();
  });
}

TEST(neutralization_model, a_read_phase_is_over_before_its_blocks_are_freed) {
  expect_clean<nbr>(&one_reader, 2);
  expect_clean<nbr_plus>(&one_reader, 2);
  expect_clean<nbr>(&two_phases, 1);
}
TEST(neutralization_model, two_readers) { expect_clean<nbr>(&two_readers, 1); }
TEST(neutralization_model, what_is_kept_stays) {
  expect_clean<nbr>(&kept, 2);
  expect_clean<nbr_plus>(&kept, 2);
  expect_clean<nbr_in_pieces>(&kept_in_pieces, 2);
  expect_clean<nbr>(&one_slot_twice, 1);
  expect_clean<nbr>(&announced, 2);
}
TEST(neutralization_model, nested_guards) { expect_clean<nbr>(&nested, 1); }
TEST(neutralization_model, two_writers) {
  expect_clean<nbr>(&two_writers, 1);
  expect_clean<nbr_plus>(&two_writers, 1);
}
TEST(neutralization_model, rounds_of_others) { expect_clean<nbr_plus>(&bookmark_and_round, 1); }

TEST(neutralization_model, every_planted_fault_is_found) {
  expect_found<nbr>(&one_reader, "nbr.no_ack");
  expect_found<nbr>(&one_reader, "nbr.no_light");
  expect_found<nbr>(&one_reader, "nbr.no_heavy");
  expect_found<nbr>(&one_reader, "nbr.end_relaxed");
  expect_found<nbr>(&two_phases, "nbr.begin_relaxed");
  expect_found<nbr>(&kept, "nbr.keep_late");
  expect_found<nbr_in_pieces>(&kept_in_pieces, "nbr.settled_unread");
  expect_found<nbr>(&one_slot_twice, "nbr.keep_relaxed");
  expect_found<nbr>(&announced, "nbr.announce_no_light");
  expect_found<nbr>(&kept, "slots.read_relaxed");
  expect_found<nbr_plus>(&bookmark_and_round, "nbr.plus_incomplete_round");
  expect_found<nbr_plus>(&bookmark_and_round, "nbr.plus_ticket_relaxed");
}

}  // namespace
