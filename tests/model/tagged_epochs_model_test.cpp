// SPDX-License-Identifier: Apache-2.0
// The schemes that tag blocks with epochs, in a whole domain under the model checker.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/base/fence.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/qsbr.hpp>
#include <spolia/reclaim/reservations.hpp>

#include "model/bare_scheme.hpp"
#include "model/domain_scenarios.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

template <class Scheme>
struct scenarios {
  using domain_type = domain<Scheme, batch>;
  using blocks = shared_blocks<domain_type>;

  static std::shared_ptr<blocks> eager() {
    return std::make_shared<blocks>(typename domain_type::options{.scheme = {.scan_at = 1}});
  }

  /// A reader comes while a writer takes the block away and scans.
  static void a_reader_comes_late(model::scenario& run) {
    auto s = eager();
    run.name(s->source, "source");
    run.thread([=] { s->look(); });
    run.thread([=] {
      s->take_away();
      s->run_on(1);
    });
    run.finally([=] { s->clear(); });
  }

  /// The reader begins a second operation: what it announces then is what the writer may see of it
  /// in its second scan.
  static void a_reader_goes_on(model::scenario& run) {
    auto s = eager();
    run.name(s->source, "source");
    run.thread([=] {
      s->look();
      s->look(1);
    });
    run.thread([=] {
      s->take_away();
      s->run_on(1);
      s->take_away(1);
      s->run_on(1);
    });
    run.finally([=] { s->clear(); });
  }

  /// What the writer has waiting becomes too old to stay, while the reader has been there before.
  static void a_reader_comes_back(model::scenario& run) {
    auto s = eager();
    run.name(s->source, "source");
    run.thread([=] {
      s->run_on(1);
      s->look();
    });
    run.thread([=] {
      s->take_away();
      s->run_on(1);
      s->take_away(1);
      s->run_on(1);
    });
    run.finally([=] { s->clear(); });
  }
};

using under_qsbr = scenarios<qsbr>;
using rcu = scenarios<reservations>;

/// Without what domains add: their fences hide that of the scan.
struct one_block : bare_domain<qsbr, 2> {
  one_block() : bare_domain({.scan_at = 1}) { source.store_relaxed(bare_node::make(1)); }
  atomic<bare_node*> source;

  void join() { scheme.join(me(), model::current_thread(), peers{this}); }
  void begin() {
    join();
    scheme.enter(me());
    fence::light();  // → the heavy fences of scans
  }
};

/// A thread ends, and another one gets its number.
void a_number_is_used_again(model::scenario& run) {
  auto s = std::make_shared<one_block>();
  run.name(s->source, "source");
  run.thread([=] {
    s->begin();
    if (auto* const n = s->source.load_acquire()) n->look();  // ← the set-up
    s->scheme.leave(s->me());
    s->scheme.exited(s->me(), one_block::peers{s.get()});
    s->join();
  });
  run.thread([=] {
    s->begin();
    s->retire(s->source.exchange_acq_rel(nullptr));
    s->scheme.leave(s->me());
    s->collect();
  });
  run.finally([=] { s->end(); });
}

/// A thread comes online while a scan looks.
void a_thread_joins(model::scenario& run) {
  auto s = std::make_shared<one_block>();
  run.name(s->source, "source");
  run.thread([=] {
    s->begin();
    if (auto* const n = s->source.load_acquire()) n->look();  // ← the set-up
    s->scheme.leave(s->me());
  });
  run.thread([=] {
    s->begin();
    s->retire(s->source.exchange_acq_rel(nullptr));
    s->scheme.leave(s->me());
    s->scheme.tick(s->me(), one_block::peers{s.get()}, one_block::sink{});
  });
  run.finally([=] { s->end(); });
}

TEST(qsbr_model, readers_are_safe) {
  expect_clean(under_qsbr::a_reader_comes_late, at_most(2));
  expect_clean(under_qsbr::a_reader_goes_on, at_most(2));
  expect_clean(under_qsbr::a_reader_comes_back, at_most(2));
  expect_clean(a_thread_joins, at_most(3));
  expect_clean(a_number_is_used_again, at_most(3));
}
// Under rcu the heavy fence of the scan before would do, too.
TEST(qsbr_model, a_report_sees_what_was_cut_before) {
  expect_found(under_qsbr::a_reader_comes_back, "epochs.cut_relaxed", at_most(2), "data race");
  expect_found(under_qsbr::a_reader_comes_back, "epochs.now_relaxed", at_most(2), "data race");
}
TEST(qsbr_model, a_report_of_the_tag_itself_is_not_enough) {
  expect_found(under_qsbr::a_reader_comes_back, "epochs.tag_itself_is_enough", at_most(2),
               "data race");
}
TEST(qsbr_model, the_first_operation_is_protected) {
  expect_found(under_qsbr::a_reader_comes_late, "qsbr.offline_start", at_most(2), "data race");
}
TEST(qsbr_model, coming_online_needs_the_heavy_fence) {
  expect_found(under_qsbr::a_reader_comes_late, "qsbr.join_unfenced", at_most(2), "data race");
}
TEST(qsbr_model, coming_online_passes_on_what_the_last_owner_of_the_number_did) {
  expect_found(a_number_is_used_again, "qsbr.join_relaxed", at_most(2), "data race");
}
TEST(qsbr_model, going_offline_needs_release) {
  expect_found(a_number_is_used_again, "qsbr.exit_relaxed", at_most(2), "data race");
}
TEST(qsbr_model, looking_for_threads_online_needs_the_light_fence) {
  expect_found(a_thread_joins, "qsbr.no_light", at_most(3), "use after free");
}
TEST(qsbr_model, taking_a_thread_for_offline_needs_the_heavy_fence) {
  expect_found(under_qsbr::a_reader_comes_back, "qsbr.no_heavy", at_most(2), "use after free");
}
TEST(qsbr_model, entering_and_leaving_need_release) {
  expect_found(under_qsbr::a_reader_goes_on, "qsbr.enter_relaxed", at_most(2), "data race");
  expect_found(under_qsbr::a_reader_comes_back, "qsbr.leave_relaxed", at_most(2), "data race");
}

TEST(rcu_model, readers_are_safe) {
  expect_clean(rcu::a_reader_comes_late, at_most(2));
  expect_clean(rcu::a_reader_goes_on, at_most(2));
  expect_clean(rcu::a_reader_comes_back, at_most(2));
}
TEST(rcu_model, a_reservation_keeps_what_its_epoch_retires) {
  expect_found(rcu::a_reader_comes_late, "epochs.tag_itself_is_enough", at_most(2), "data race");
}
TEST(rcu_model, scanning_needs_the_heavy_fence) {
  expect_found(rcu::a_reader_comes_late, "rcu.no_heavy", at_most(2), "data race");
}
TEST(rcu_model, entering_and_leaving_need_release) {
  expect_found(rcu::a_reader_goes_on, "rcu.enter_relaxed", at_most(2), "data race");
  expect_found(rcu::a_reader_comes_late, "rcu.leave_relaxed", at_most(2), "data race");
}

}  // namespace
