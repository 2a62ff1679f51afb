// SPDX-License-Identifier: Apache-2.0
// census_model_test.cpp: announcing against scanning, in every order and with weak memory.
#include <spolia/base/backoff.hpp>
#include <spolia/base/census.hpp>
#include <spolia/model/engine.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace spolia;

template <class Clock, fence::cost Order = fence::cost::seldom>
struct world {
  Clock clock;
  census living{Order};
  census::ticket ticket;
  std::uint64_t promised = 0;
};

/// One thread announces; another moves the clock on and asks for the oldest. Whenever the question
/// falls, the answer must not pass the ticket, which lives to the end.
template <class Clock, fence::cost Order = fence::cost::seldom>
void announce_against_oldest(model::scenario& run) {
  auto w = std::make_shared<world<Clock, Order>>();
  run.thread([w] { w->ticket = w->living.announce(w->clock); });
  run.thread([w] {
    w->clock.tick();
    w->promised = w->living.oldest(w->clock);
  });
  run.finally([w] {
    model::check(w->promised <= w->ticket.timestamp(), "oldest() passed a live ticket");
    model::check(w->living.oldest(99) == w->ticket.timestamp(), "a complete ticket is found");
    w->ticket.withdraw();
    model::check(w->living.oldest(99) == 99, "a withdrawn ticket is gone");
  });
}

/// The same with a list: what was live below the returned time must be in it.
template <class Clock, fence::cost Order = fence::cost::seldom>
void announce_against_scan(model::scenario& run) {
  auto w = std::make_shared<world<Clock, Order>>();
  auto times = std::make_shared<std::vector<std::uint64_t>>();
  run.thread([w] { w->ticket = w->living.announce(w->clock); });
  run.thread([w, times] {
    w->clock.tick();
    w->promised = w->living.scan(w->clock, *times);
  });
  run.finally([w, times] {
    const std::uint64_t t = w->ticket.timestamp();
    const bool listed = std::find(times->begin(), times->end(), t) != times->end();
    model::check(listed || t >= w->promised, "scan() vouched for a time and missed a ticket below");
    w->ticket.withdraw();
  });
}

/// Two scans, one of which may complete the announcement that the other has missed.
template <fence::cost Order = fence::cost::seldom>
void announce_against_two_scans(model::scenario& run) {
  struct shared : world<hardware_clock, Order> {
    std::vector<std::uint64_t> times;
    std::uint64_t missed = 0;
  };
  auto w = std::make_shared<shared>();
  run.thread([w] { w->ticket = w->living.announce(w->clock); });
  run.thread([w] {
    w->clock.tick();
    w->promised = w->living.scan(w->clock, w->times);
  });
  run.thread([w] {
    w->clock.tick();
    w->missed = w->living.oldest(w->clock);
  });
  run.finally([w] {
    const std::uint64_t t = w->ticket.timestamp();
    const bool listed = std::find(w->times.begin(), w->times.end(), t) != w->times.end();
    model::check(listed || t >= w->promised, "scan() vouched for a time and missed a ticket below");
    model::check(t >= w->missed, "oldest() passed a live ticket");
    w->ticket.withdraw();
  });
}

/// A thread stands still in the midst of its second announcement: a thread that asks need not wait
/// for it, and does not take the first one's place for it.
void completed_by_others(model::scenario& run) {
  auto w = std::make_shared<world<hardware_clock>>();
  run.thread([w] {
    w->living.announce(w->clock).withdraw();
    w->ticket = w->living.announce(w->clock);
  });
  run.thread([w] {
    w->clock.tick();
    w->promised = w->living.oldest(w->clock);
    w->clock.tick();
    const std::uint64_t again = w->living.oldest(w->clock);
    model::check(w->promised >= 1 && again >= w->promised, "what is known only grows");
  });
  run.finally([w] {
    model::check(w->promised <= w->ticket.timestamp(), "oldest() passed a live ticket");
    w->ticket.withdraw();
  });
}

/// A reader looks at a version that ends at time 2; its writer frees it once no reader can need it.
template <class Clock, fence::cost Order = fence::cost::seldom>
void read_against_free(model::scenario& run) {
  struct version {
    plain<int> payload{7};
  };
  auto w = std::make_shared<world<Clock, Order>>();
  auto* const old = new (memory::allocate(sizeof(version), alignof(version))) version();
  run.thread([w, old] {
    const auto ticket = w->living.announce(w->clock);
    if (ticket.timestamp() <= 2)
      model::check(old->payload.read() == 7, "what was announced stands");
  });
  run.thread([w, old] {
    w->clock.pass(w->clock.tick());
    while (w->living.oldest(w->clock) <= 2) spin_wait();
    old->payload.write(0);
    memory::deallocate(old, sizeof(version), alignof(version));
  });
}

/// A ticket goes to another thread, which withdraws it while the first announces more.
void withdraw_elsewhere(model::scenario& run) {
  struct shared : world<logical_clock> {
    atomic<bool> handed_over{false};
    census::ticket second;
    census::ticket third;
  };
  auto w = std::make_shared<shared>();
  run.thread([w] {
    w->ticket = w->living.announce(w->clock);
    w->handed_over.store_release(true);
    w->second = w->living.announce(w->clock);
    w->third = w->living.announce(w->clock);
  });
  run.thread([w] {
    while (!w->handed_over.load_acquire()) spin_wait();
    w->ticket.withdraw();
    w->clock.tick();
  });
  run.finally([w] {
    int live = 0;
    w->living.for_each([&](const census::entry&) { ++live; });
    model::check(live == 2, "two tickets, two slots");
    model::check(w->living.capacity() <= 3, "no slot is lost");
    w->second.withdraw();
    model::check(w->living.oldest(99) == w->third.timestamp(), "each ticket has its own slot");
    w->third.withdraw();
    model::check(w->living.oldest(99) == 99, "all are gone");
  });
}

/// An entry belongs to one ticket: its label and its time were announced together.
void for_each_against_reuse(model::scenario& run) {
  auto w = std::make_shared<world<logical_clock>>();
  run.thread([w] {
    w->living.announce(w->clock, "at one").withdraw();
    w->clock.tick();
    w->ticket = w->living.announce(w->clock, "at two");
  });
  run.thread([w] {
    w->living.for_each([](const census::entry& e) {
      model::check(std::string(e.label) == (e.timestamp == 1 ? "at one" : "at two"),
                   "an entry mixes two tickets");
    });
  });
  run.finally([w] { w->ticket.withdraw(); });
}

using scenario_body = void (*)(model::scenario&);

model::options with(const char* fault = "", int preemptions = 3) {
  model::options how;
  how.preemptions = preemptions;
  how.executions = 400000;
  how.light_fences_apart = true;
  how.fault = fault;
  return how;
}

void expect_sound(scenario_body body, int preemptions = 3) {
  const model::outcome found = model::explore(with("", preemptions), body);
  EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
  EXPECT_TRUE(found.exhausted) << found.executions << " executions did not suffice";
  testing::Test::RecordProperty("executions", static_cast<int>(found.executions));
}

TEST(CensusModel, OldestNeverPassesATicket) {
  expect_sound(announce_against_oldest<logical_clock>);
  expect_sound(announce_against_oldest<hardware_clock>);
  expect_sound(announce_against_oldest<logical_clock, fence::cost::both>);
  expect_sound(announce_against_oldest<hardware_clock, fence::cost::both>);
}

TEST(CensusModel, AScanMissesNothingItVouchesFor) {
  expect_sound(announce_against_scan<logical_clock>);
  expect_sound(announce_against_scan<hardware_clock>);
  expect_sound(announce_against_scan<logical_clock, fence::cost::both>);
  expect_sound(announce_against_scan<hardware_clock, fence::cost::both>);
}

TEST(CensusModel, WhatAReaderAnnouncedIsNotFreed) {
  expect_sound(read_against_free<logical_clock>);
  expect_sound(read_against_free<hardware_clock>);
  expect_sound(read_against_free<logical_clock, fence::cost::both>);
  expect_sound(read_against_free<hardware_clock, fence::cost::both>);
}

TEST(CensusModel, AnOpenAnnouncementIsSettledByWhoMeetsIt) {
  expect_sound(announce_against_two_scans<>, 2);
  expect_sound(announce_against_two_scans<fence::cost::both>, 2);
  expect_sound(completed_by_others);
}

TEST(CensusModel, TicketsMayBeWithdrawnElsewhere) { expect_sound(withdraw_elsewhere); }

TEST(CensusModel, EntriesAreNotMixed) { expect_sound(for_each_against_reuse); }

class CensusFault : public testing::TestWithParam<const char*> {};

TEST_P(CensusFault, IsFound) {
  for (const scenario_body body :
       {announce_against_oldest<logical_clock>, announce_against_oldest<hardware_clock>,
        announce_against_scan<logical_clock>, announce_against_scan<hardware_clock>,
        read_against_free<logical_clock>, read_against_free<hardware_clock>,
        announce_against_oldest<logical_clock, fence::cost::both>,
        announce_against_oldest<hardware_clock, fence::cost::both>,
        announce_against_scan<logical_clock, fence::cost::both>,
        announce_against_scan<hardware_clock, fence::cost::both>,
        read_against_free<logical_clock, fence::cost::both>,
        read_against_free<hardware_clock, fence::cost::both>}) {
    EXPECT_FALSE(model::explore(with(GetParam()), body).ok);
  }
}

TEST(CensusModel, WrongHelpIsFound) {
  EXPECT_FALSE(
      model::explore(with("census.completes_blindly"), announce_against_scan<hardware_clock>).ok);
  EXPECT_FALSE(model::explore(with("census.helps_unfenced", 2), announce_against_two_scans<>).ok);
  EXPECT_FALSE(model::explore(with("census.helps_unfenced", 2),
                              announce_against_two_scans<fence::cost::both>)
                   .ok);
}

INSTANTIATE_TEST_SUITE_P(Planted, CensusFault,
                         testing::Values("census.no_validation", "census.no_heavy"));

}  // namespace
