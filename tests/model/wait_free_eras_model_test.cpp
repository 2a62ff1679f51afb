// SPDX-License-Identifier: Apache-2.0
// Wait-free eras under the model checker, with readers that always ask: requests against answers,
// answers handed over against scans, and sources that go when the operation is over.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>

#include <spolia/reclaim/wait_free_eras.hpp>

#include "model/era_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using state_type = state<wait_free_eras>;
using shared_state = shared<wait_free_eras>;
using guard = state_type::guard;
using node = state_type::node;

constexpr auto one = &one_reader<wait_free_eras>;
constexpr auto young = &born_and_retired_under_the_reader<wait_free_eras>;
constexpr auto beside = &beside_another_clock_hand<wait_free_eras>;

/// The writer answers before it takes the block away.
void answered(model::scenario& run, const shared_state& s) {
  look_once<wait_free_eras>(run, s);
  run.thread([s] {
    s->d.collect();
    s->take_away(0);
  });
}

/// Two requests of one operation, with a slot used anew.
void asks_twice(model::scenario& run, const shared_state& s) {
  run.thread([s] {
    guard g(s->d);
    if (node* const n = g.protect(s->source[0])) n->look();
    if (node* const n = g.protect(s->source[1])) n->look();
  });
  run.thread([s] { s->take_away(0); });
}

/// What is asked for is in a block, which may go when the operation is over.
void asks_in_a_block(model::scenario& run, const shared_state& s) {
  s->source[0].load_relaxed()->next.store_relaxed(node::make(3));
  run.thread([s] {
    guard g(s->d);
    node* const at = g.protect(s->source[0], 0);
    if (at == nullptr) return;
    g.protect(at->next, 1);
    at->look();
  });
  run.thread([s] {
    node* const first = s->source[0].exchange_acq_rel(nullptr);
    node* const second = first->next.load_relaxed();
    s->d.retire(first);
    s->d.collect();
    s->d.retire(second);
    s->d.collect();
  });
}

/// The slot of the block is used anew before the helper has read from the block.
void goes_on_before_the_helper(model::scenario& run, const shared_state& s) {
  s->source[0].load_relaxed()->next.store_relaxed(node::make(3));
  run.thread([s] {
    guard g(s->d);
    node* const at = g.protect(s->source[0], 0);
    if (at == nullptr) return;
    g.protect(at->next, 1);
    g.protect(s->source[1], 0);
    g.protect(s->source[1], 1);
  });
  run.thread([s] {
    node* const first = s->source[0].exchange_acq_rel(nullptr);
    node* const second = first->next.load_relaxed();
    s->d.retire(first);
    s->d.retire(second);
    s->d.collect();
  });
  run.thread([s] { s->d.collect(); });
}

/// What is asked for is in no block, and goes with the operation.
void asks_on_the_stack(model::scenario& run, const shared_state& s) {
  run.thread([s] {
    void* const place = memory::allocate(sizeof(atomic<node*>), alignof(atomic<node*>));
    auto* const source = new (place) atomic<node*>(s->source[0].load_acquire());
    {
      guard g(s->d);
      g.protect(*source);
    }
    source->~atomic();
    memory::deallocate(place, sizeof(atomic<node*>), alignof(atomic<node*>));
  });
  run.thread([s] { s->d.collect(); });
}

TEST(wait_free_eras_model, what_was_asked_for_is_not_freed) {
  expect_clean<wait_free_eras>(one, 2);
  expect_clean<wait_free_eras>(&answered, 1);
  expect_clean<wait_free_eras>(young, 1);
  expect_clean<wait_free_eras>(beside, 1);
}
TEST(wait_free_eras_model, what_was_asked_for_is_not_freed_with_more_preemptions) {
  expect_clean<wait_free_eras>(&answered, 3, false);
  expect_clean<wait_free_eras>(young, 3, false);
  expect_clean<wait_free_eras>(beside, 2, false);
}
TEST(wait_free_eras_model, requests_follow_each_other) {
  expect_clean<wait_free_eras>(&asks_twice, 3, false);
  expect_clean<wait_free_eras>(&asks_twice, 1);
}
TEST(wait_free_eras_model, sources_may_go_with_the_operation) {
  expect_clean<wait_free_eras>(&asks_in_a_block, 3, false);
  expect_clean<wait_free_eras>(&asks_on_the_stack, 3, false);
  expect_clean<wait_free_eras>(&goes_on_before_the_helper, 2, false);
}

TEST(wait_free_eras_model, every_planted_fault_is_found) {
  const auto found = [](auto scenario, const char* fault) {
    expect_found<wait_free_eras>(scenario, fault);
  };
  found(one, "wfe.no_heavy");
  found(&answered, "wfe.given_up_early");
  found(&answered, "wfe.emptied_first");
  found(&answered, "wfe.slots_first");
  found(&asks_on_the_stack, "wfe.no_wait");
  found(&asks_on_the_stack, "wfe.no_heavy_at_the_end");
  found(&asks_on_the_stack, "wfe.reading_without_fence");
  found(&asks_on_the_stack, "wfe.read_too_late");
}
/// A request that is pending, without a scheme around it.
struct pending_request {
  pending_request() : block(bare_node::make(1)), source(block) {
    threads::number();  // so that there are cells
    asked = request.ask(rows, source);
  }

  /// Nothing, unless the helper was in time.
  bare_node* fetch() {
    if (!request.answered(asked)) return nullptr;
    const std::uint64_t bits = request.answer().value.load_relaxed();
    bare_node* found = nullptr;
    std::memcpy(&found, &bits, sizeof found);
    return found;
  }
  bool kept() const {
    bool any = false;
    request.for_each_answer([&](const detail::reclaim::era_answer& a) {
      // acquire: as a scan.
      any = any || a.kept.load_acquire() != detail::reclaim::no_era;
      return true;
    });
    return any;
  }

  detail::reclaim::era_clock clock;
  detail::reclaim::era_rows rows;
  detail::reclaim::era_request request;
  bare_node* block;
  atomic<bare_node*> source;
  std::uint64_t asked = 0;
};

void expect_request(const std::function<void(model::scenario&)>& setup, const char* fault) {
  model::options how;
  how.preemptions = 3;
  EXPECT_TRUE(model::explore(how, setup).ok);
  how.fault = fault;
  EXPECT_FALSE(model::explore(how, setup).ok) << fault;
}

TEST(era_request_model, a_helper_announces_before_it_reads) {
  expect_request(
      [](model::scenario& run) {
        auto s = std::make_shared<pending_request>();
        auto freed = std::make_shared<bool>(false);
        run.thread([s] {
          s->request.help(1, s->clock);
          if (const bare_node* const found = s->fetch()) found->look();
        });
        run.thread([s, freed] {
          s->source.store_release(nullptr);
          s->clock.end();
          fence::heavy();
          *freed = !s->kept();
          if (*freed) bare_node::end(s->block);
        });
        run.finally([s, freed] {
          if (!*freed) bare_node::end(s->block);
        });
      },
      "wfe.no_light");
}

TEST(era_request_model, a_helper_hands_over_the_era_in_which_it_has_read) {
  expect_request(
      [](model::scenario& run) {
        auto s = std::make_shared<pending_request>();
        auto born = std::make_shared<atomic<std::uint64_t>>(0);
        run.thread([s, born] {
          s->request.help(1, s->clock);
          if (s->request.answered(s->asked) && s->fetch() == nullptr) {
            model::check(born->load_relaxed() <= s->request.answer().era.load_relaxed(),
                         "what was found was born in its era, or before");
          }
        });
        run.thread([s, born] {
          s->clock.end();
          born->store_relaxed(s->clock.birth());
          s->source.store_release(nullptr);
        });
        run.finally([s] { bare_node::end(s->block); });
      },
      "wfe.no_second_look");
}

/// The source lies in a block, whose slot is used anew while the helper reads.
TEST(era_request_model, the_block_of_the_source_stays_until_no_helper_reads) {
  struct in_block {
    in_block() : holder(bare_node::make(1)) {
      threads::number();
      row = &rows.take(count);
      row->at[0].store_relaxed(1);
      asked = request.ask(rows, holder->next);
    }
    detail::reclaim::era_clock clock;
    detail::reclaim::row_count count;
    detail::reclaim::era_rows rows;
    detail::reclaim::era_row* row = nullptr;
    detail::reclaim::era_request request;
    bare_node* holder;
    std::uint64_t asked = 0;
    bool freed = false;
  };
  expect_request(
      [](model::scenario& run) {
        auto s = std::make_shared<in_block>();
        run.thread([s] { s->request.help(1, s->clock); });
        run.thread([s] {
          if (!s->request.take_back(s->asked)) return;
          s->row->at[0].store_release(2);
          s->freed =
              s->request.floor() == detail::reclaim::no_era;  // all that a scan has left to look at
          if (s->freed) bare_node::end(s->holder);
          s->request.settle();
          if (!s->freed) bare_node::end(s->holder);
          s->freed = true;
        });
        run.finally([s] {
          if (!s->freed) bare_node::end(s->holder);
        });
      },
      "wfe.no_floor");
}

}  // namespace
