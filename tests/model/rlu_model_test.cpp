// SPDX-License-Identifier: Apache-2.0
// Read-log-update under the model checker: commits, walks, locks, and collectors beside them.

#include <gtest/gtest.h>

#include <memory>

#include <spolia/rlu.hpp>

#include "model/domain_scenarios.hpp"
#include "model/rlu_world.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

/// No tick of it is the thread's own: as if many threads always drew at once.
class crowded_clock : public logical_clock {
 public:
  std::uint64_t tick_alone() noexcept { return 0; }
};

/// A commit is seen whole, and what was seen stays so.
void a_reader_meets_a_commit(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->both_are_equal(); });
  run.thread([=] { w->add_to_both(); });
  run.finally([=] { w->clear(); });
}

/// The thread commits once more while a reader stands at a copy of its first set.
void a_reader_meets_two_commits(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->both_are_equal(); });
  run.thread([=] {
    w->add_to_both();
    w->add_to(w->z);
  });
  run.finally([=] { w->clear(); });
}

/// Another thread advances the clock while one commits, which then shares the new time.
template <class Clock>
void two_commit_at_one_time(model::scenario& run) {
  auto w = std::make_shared<world_with<Clock>>();
  run.thread([=] { w->add_to_both(); });
  run.thread([=] { w->add_to(w->z); });
  run.thread([=] { w->both_are_equal(); });
  run.finally([=] { w->clear(); });
}

/// A reader that has seen a set begins another section, while the thread that commits is asleep
/// between its steps.
void two_readers_meet_a_commit(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] {
    const int first = w->d.read([&](auto& in) { return w->look(in, w->x); });
    const int then = w->d.read([&](auto& in) { return w->look(in, w->y); });
    model::check(then >= first, "what one section saw, the next did not");
  });
  run.thread([=] { w->add_to_both(); });
  run.finally([=] { w->clear(); });
}

/// Two threads count; nothing is lost.
void two_count(model::scenario& run) {
  struct counted : world {
    plain<int> added[2];
  };
  auto w = std::make_shared<counted>();
  for (int i = 0; i < 2; ++i) {
    run.thread([=] {
      int mine = w->add_to(w->x);
      if (i == 0) mine += w->add_to(w->x);
      w->added[i].write(mine);
    });
  }
  run.finally([=] {
    w->d.read([&](auto& in) {
      model::check(w->look(in, w->x) == w->added[0].read() + w->added[1].read(),
                   "an update was lost");
    });
    w->clear();
  });
}

/// A reader looks twice, while copies come, are written back, and go.
void a_reader_beside_a_collector(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] { w->look_twice(); });
  run.thread([=] {
    w->add_to(w->x);
    w->d.collect();
    w->add_to(w->x);
    w->d.collect();
  });
  run.finally([=] { w->clear(); });
}

/// Copies go one by one from below, each after the next commit, while an old reader walks to the
/// master.
void a_reader_beside_small_passes(model::scenario& run) {
  auto w = std::make_shared<world>(1);
  run.thread([=] {
    w->d.read([&](auto& in) {
      const int first = w->look(in, w->x);
      model::check(w->look(in, w->x) == first, "a section saw two instants");
    });
  });
  run.thread([=] {
    for (int i = 0; i < 5; ++i) w->add_to(w->x);
  });
  run.finally([=] { w->clear(); });
}

/// The newest copy lies in another log than the one below it, which goes while a thread looks.
template <class Look>
void a_copy_goes_from_below(model::scenario& run, Look look) {
  struct with_steps : world {
    atomic<int> steps{0};
    void wait_for(int n) {
      while (steps.load_relaxed() < n) spin_wait();
    }
  };
  auto w = std::make_shared<with_steps>();
  run.thread([=] { look(*w); });
  run.thread([=] {
    w->add_to(w->x);
    w->steps.store_relaxed(1);
    w->wait_for(2);
    w->d.collect();
  });
  run.thread([=] {
    w->wait_for(1);
    w->add_to(w->x);
    w->steps.store_relaxed(2);
  });
  run.finally([=] { w->clear(); });
}
void a_copy_goes_from_below_a_reader(model::scenario& run) {
  a_copy_goes_from_below(run, [](world& w) {
    w.d.read([&](auto& in) {
      const int first = world::look(in, w.x);
      model::check(world::look(in, w.x) == first, "a section saw two instants");
    });
  });
}
void a_copy_goes_from_below_who_counts(model::scenario& run) {
  a_copy_goes_from_below(run, [](world& w) {
    w.d.for_each_chain([](std::size_t n) { model::check(n <= 2, "there were never so many"); });
  });
}

/// Passes after every second record: the third one comes to a segment of which a pass has seen all
/// that was there written back.
void a_copy_comes_after_a_look(model::scenario& run) {
  constexpr std::size_t glances_at = 2 * (sizeof(rlu::detail::record) + 16);
  auto w = std::make_shared<world>(glances_at << 4U, 1024);
  run.thread([=] {
    for (const auto p : {w->x, w->y, w->z}) w->add_to(p);
    for (int i = 0; i < 2; ++i) w->d.collect();
    for (const auto p : {w->x, w->y, w->z}) {
      w->d.read([&](auto& in) { model::check(w->look(in, p) == 1, "an update was lost"); });
    }
  });
  run.finally([=] { w->clear(); });
}

/// One thread collects all logs while the other one changes the same object.
void a_writer_beside_a_collector(model::scenario& run) {
  auto w = std::make_shared<world>();
  w->add_to(w->x);
  run.thread([=] {
    w->d.collect();
    w->d.collect();
  });
  run.thread([=] {
    const bool added = w->add_to(w->x);
    w->d.read(
        [&](auto& in) { model::check(w->look(in, w->x) == 1 + added, "an update was lost"); });
  });
  run.finally([=] { w->clear(); });
}

/// The object has a copy already when the reader meets the next one.
void a_reader_meets_a_second_commit(model::scenario& run) {
  auto w = std::make_shared<world>();
  run.thread([=] {
    w->add_to(w->x);
    w->d.read([&](auto& in) {
      const int first = w->look(in, w->x);
      model::check(w->look(in, w->x) == first, "a section saw two instants");
    });
  });
  run.thread([=] { w->add_to(w->x); });
  run.finally([=] { w->clear(); });
}

/// One thread looks through the segment that the other one has open between two sections.
void a_collector_looks_at_what_is_open(model::scenario& run) {
  auto w = std::make_shared<world>(1000000, 1024);
  run.thread([=] {
    w->add_to(w->x);
    w->add_to(w->x);
  });
  run.thread([=] { w->d.collect(); });
  run.finally([=] {
    w->d.read([&](auto& in) { model::check(w->look(in, w->x) == 2, "an update was lost"); });
    w->clear();
  });
}

/// One thread is in the middle of a pass, and the other one ends an object that the log speaks of.
void an_object_ends_beside_a_collector(model::scenario& run, bool discard) {
  auto w = std::make_shared<world>();
  w->add_to(w->x);
  run.thread([=] { w->d.collect(); });
  run.thread([=] {
    if (discard) return w->d.discard(w->x);
    w->d.attempt([&](auto& in) { in.free(w->x); });
    for (int i = 0; i < 4; ++i) w->d.collect();
  });
  run.finally([=] {
    w->d.discard(w->y);
    w->d.discard(w->z);
  });
}
void an_object_is_freed_beside_a_collector(model::scenario& run) {
  an_object_ends_beside_a_collector(run, false);
}
void an_object_is_discarded_beside_a_collector(model::scenario& run) {
  an_object_ends_beside_a_collector(run, true);
}

/// Each of two sections changes one of two objects because of both; one of them at most may commit.
void two_rely_on_what_they_read(model::scenario& run) {
  auto w = std::make_shared<world>();
  for (const auto mine : {w->x, w->y}) {
    run.thread([=] {
      w->d.attempt([&](auto& in) {
        in.serializable();
        if (w->look(in, w->x) + w->look(in, w->y) != 0) return in.cancel();
        if (auto copy = in.try_lock(mine)) copy->value.write(1);
      });
    });
  }
  run.finally([=] {
    w->d.read(
        [&](auto& in) { model::check(w->look(in, w->x) + w->look(in, w->y) < 2, "write skew"); });
    w->clear();
  });
}

/// A processor's counter that advances alone. One thread's is ahead of the others' by the bound.
class skewed_clock {
 public:
  static constexpr bool advances_alone = true;
  static constexpr std::uint32_t ahead = 1;  // the thread's number

  [[nodiscard]] std::uint64_t now() const noexcept {
    return time_.now() + (threads::number() == ahead ? bound() : 0);
  }
  std::uint64_t tick() noexcept {
    pass(now());
    return now();
  }
  void pass(std::uint64_t t) noexcept {
    while (time_.now() <= t + bound()) time_.tick();
  }
  [[nodiscard]] static constexpr std::uint64_t bound() noexcept { return 2; }
  [[nodiscard]] static constexpr bool after(std::uint64_t x, std::uint64_t y) noexcept {
    return detail::certainly_after(x, y, bound());
  }
  [[nodiscard]] static constexpr time_order compare(std::uint64_t x, std::uint64_t y) noexcept {
    return detail::order_of(x, y, bound());
  }

 private:
  logical_clock time_;
};

/// A thread that has heard of a commit sees it, also where the counters are apart.
void a_commit_is_heard_of(model::scenario& run) {
  struct with_clock {
    rlu::basic_domain<skewed_clock> d;
    rlu::ptr<number> x = d.make<number>(number(0));
    atomic<int> committed{0};
  };
  auto w = std::make_shared<with_clock>();
  for (int i = 0; i < 2; ++i) {
    run.thread([=] {
      if (threads::number() == skewed_clock::ahead) {
        w->d.attempt([&](auto& in) {
          if (auto mine = in.try_lock(w->x)) mine->value.write(1);
        });
        w->committed.store_release(1);                // → the acquire below
      } else if (w->committed.load_acquire() == 1) {  // ← the release above
        const int seen = w->d.read([&](auto& in) { return in.read(w->x)->value.read(); });
        model::check(seen == 1, "a commit was heard of and not seen");
      }
    });
  }
  run.finally([=] { w->d.discard(w->x); });
}

/// A thread that has heard of it from a section that saw it, on the processor that is ahead, sees
/// it, too.
void a_commit_is_heard_of_from_a_reader(model::scenario& run) {
  struct with_clock {
    rlu::basic_domain<skewed_clock> d;
    rlu::ptr<number> x = d.make<number>(number(0));
    atomic<int> seen{0};
    int look() {
      return d.read([&](auto& in) { return in.read(x)->value.read(); });
    }
  };
  auto w = std::make_shared<with_clock>();
  for (int i = 0; i < 3; ++i) {
    run.thread([=] {
      if (threads::number() == skewed_clock::ahead) {
        (void)w->look();  // it may draw the commit's time, which is above this look's
        if (w->look() == 1) w->seen.store_release(1);  // → the acquire below
      } else if (threads::number() < skewed_clock::ahead) {
        w->d.attempt([&](auto& in) {
          if (auto mine = in.try_lock(w->x)) mine->value.write(1);
        });
      } else if (w->seen.load_acquire() == 1) {  // ← the release above
        model::check(w->look() == 1, "what one section saw, a later one did not");
      }
    });
  }
  run.finally([=] { w->d.discard(w->x); });
}

/// An object is taken out of the place where readers find it, and freed.
void an_object_is_freed(model::scenario& run) {
  struct place {
    rlu::ptr<number> to;
  };
  struct with_place : world {
    rlu::ptr<place> root = d.make<place>({x});
  };
  auto w = std::make_shared<with_place>();
  run.thread([=] {
    w->d.read([&](auto& in) {
      if (const auto found = in.read(in.read(w->root)->to)) (void)found->value.read();
    });
  });
  run.thread([=] {
    w->d.attempt([&](auto& in) {
      auto root = in.try_lock(w->root);
      if (root && in.free(root->to)) root->to = nullptr;
    });
    w->d.collect();
    w->d.collect();
  });
  run.finally([=] {
    w->d.discard(w->root);
    w->d.discard(w->y);
    w->d.discard(w->z);
  });
}

TEST(rlu_model, sets_are_seen_whole) {
  expect_clean(a_reader_meets_a_commit, at_most(1));
  expect_clean(a_reader_meets_a_commit, at_most_in_order(2));
  expect_clean(two_readers_meet_a_commit, at_most(1));
}
TEST(rlu_model, what_is_not_committed_is_not_seen) {
  expect_found(a_reader_meets_a_commit, "rlu.sees_uncommitted", at_most(1),
               "a section saw two instants");
}
TEST(rlu_model, a_timestamp_is_not_drawn_before_it_shows) {
  expect_found(a_reader_meets_a_commit, "rlu.no_help", at_most(2), "torn");
}
TEST(rlu_model, links_come_before_the_clock) {
  expect_found(two_commit_at_one_time<crowded_clock>, "rlu.no_fence", in_random_orders(50000),
               "two instants");
}
TEST(rlu_model, steps_of_others_need_a_fence) {
  expect_found(two_commit_at_one_time<logical_clock>, "clock.alone_in_a_crowd",
               in_random_orders(50000), "two instants");
}
TEST(rlu_model, links_need_release) {
  expect_found(a_reader_meets_a_commit, "rlu.links_relaxed", at_most(1), "race");
}
TEST(rlu_model, the_word_may_speak_of_the_next_set) {
  expect_clean(a_reader_meets_two_commits, at_most_in_order(2));
  expect_found(a_reader_meets_two_commits, "rlu.no_second_look", at_most_in_order(2), "torn");
}

TEST(rlu_model, updates_are_not_lost) { expect_clean(two_count, at_most(1)); }
TEST(rlu_model, locks_need_the_newest_version) {
  expect_found(two_count, "rlu.locks_stale", at_most(1), "an update was lost");
}
TEST(rlu_model, unlocking_needs_release) {
  expect_found(a_writer_beside_a_collector, "rlu.unlocks_relaxed", at_most(1), "use after free");
}

TEST(rlu_model, collectors_disturb_no_reader) {
  expect_clean(a_reader_beside_a_collector, at_most_in_order(2));
}
TEST(rlu_model, masters_are_overwritten_when_no_section_reads_them) {
  expect_found(a_reader_beside_a_collector, "rlu.overwrites_early", at_most_in_order(2),
               "data race");
}
TEST(rlu_model, copies_go_when_no_section_has_found_them) {
  expect_found(a_reader_beside_a_collector, "rlu.no_second_grace", at_most_in_order(2),
               "free of block");
}

TEST(rlu_model, segments_go_when_no_section_has_found_their_copies) {
  expect_found(a_reader_beside_a_collector, "rlu.gone_too_early", at_most_in_order(2),
               "free of block");
  expect_clean(a_copy_comes_after_a_look, at_most_in_order(1));
  expect_found(a_copy_comes_after_a_look, "rlu.forgets_what_came_later", at_most_in_order(1),
               "use after free");
}

TEST(rlu_model, walks_are_guarded) {
  expect_found(a_reader_beside_a_collector, "rlu.walks_unguarded", at_most_in_order(2), "block");
}
TEST(rlu_model, copies_are_unlinked_before_they_go) {
  expect_clean(a_reader_beside_small_passes, at_most_in_order(1));
  expect_clean(a_copy_goes_from_below_a_reader, at_most_in_order(1));
  expect_found(a_copy_goes_from_below_a_reader, "rlu.not_unlinked", at_most_in_order(1), "block");
}

TEST(rlu_model, collectors_disturb_no_writer) {
  expect_clean(a_writer_beside_a_collector, at_most_in_order(1));
}
TEST(rlu_model, collectors_lock) {
  expect_found(a_writer_beside_a_collector, "rlu.collects_unlocked", at_most_in_order(2),
               "use after free");
}

TEST(rlu_model, the_head_is_not_for_every_section) {
  expect_clean(a_reader_meets_a_second_commit, at_most_in_order(1));
  expect_found(a_reader_meets_a_second_commit, "rlu.takes_any_head", at_most_in_order(2),
               "two instants");
}
TEST(rlu_model, what_is_looked_through_is_not_filled) {
  expect_clean(a_collector_looks_at_what_is_open, at_most_in_order(2));
  expect_found(a_collector_looks_at_what_is_open, "rlu.fills_what_is_read", at_most_in_order(2),
               "race");
}
TEST(rlu_model, a_pass_avoids_what_is_filled_beside_it) {
  model::options how = in_random_orders(20000);
  how.pct_depth = 5;
  how.weak_memory = false;
  expect_found(a_collector_looks_at_what_is_open, "rlu.looks_where_it_is_avoided", how, "race");
}
TEST(rlu_model, collectors_keep_objects_alive) {
  expect_clean(an_object_is_freed_beside_a_collector, at_most_in_order(1));
  expect_found(an_object_is_freed_beside_a_collector, "rlu.collects_unguarded", at_most_in_order(1),
               "block");
}
TEST(rlu_model, discarding_waits_for_collectors) {
  expect_clean(an_object_is_discarded_beside_a_collector, at_most_in_order(1));
  expect_found(an_object_is_discarded_beside_a_collector, "rlu.discards_at_once",
               at_most_in_order(1), "block");
}

TEST(rlu_model, who_counts_copies_keeps_them) {
  expect_clean(a_copy_goes_from_below_who_counts, at_most_in_order(1));
  expect_found(a_copy_goes_from_below_who_counts, "rlu.counts_unguarded", at_most_in_order(2),
               "block");
}

TEST(rlu_model, serializable_sections_validate_what_they_read) {
  expect_clean(two_rely_on_what_they_read, at_most(1));
  expect_found(two_rely_on_what_they_read, "rlu.not_validated", at_most(1), "write skew");
}
TEST(rlu_model, what_was_heard_of_is_seen) {
  expect_clean(a_commit_is_heard_of, at_most(1));
  expect_found(a_commit_is_heard_of, "rlu.ends_too_early", at_most(1), "not seen");
  expect_clean(a_commit_is_heard_of_from_a_reader, at_most_in_order(2));
  expect_found(a_commit_is_heard_of_from_a_reader, "rlu.tells_too_early", at_most_in_order(2),
               "a later one did not");
}

TEST(rlu_model, objects_end_when_no_section_can_see_them) {
  expect_clean(an_object_is_freed, at_most_in_order(2));
}
TEST(rlu_model, freeing_waits_for_readers) {
  expect_found(an_object_is_freed, "rlu.overwrites_early", at_most_in_order(2), "free of block");
}

}  // namespace
