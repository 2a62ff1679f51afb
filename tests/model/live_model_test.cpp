// SPDX-License-Identifier: Apache-2.0
// live<T> under the model checker: values are whole while they are read, end when they are not read
// any more, and no update is lost.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <spolia/live.hpp>

#include "model/search.hpp"
#include "model/whole_value.hpp"

namespace {

using namespace spolia;
using namespace spolia::test;

using live_whole = live<whole_value>;

struct live_world {
  live_whole value{std::in_place, 1};
  atomic<bool> handed{false};
  std::optional<live_whole::reading> reading;
  int last = 0;  // what the value is in the end; 0: that is not asked
};

using live_setup = void (*)(model::scenario&, const std::shared_ptr<live_world>&);

model::outcome explore_live(live_setup threads, const char* fault, int preemptions) {
  model::options how;
  how.preemptions = preemptions;
  how.fault = fault;
  return searched(how, [=](model::scenario& run) {
    auto s = std::make_shared<live_world>();
    threads(run, s);
    run.finally([s] {
      const auto waiting = s->value.waiting();
      model::check(waiting <= (s->reading ? 1U : 0U), "a value waits that is not read");
      s->reading.reset();
      const int last = s->value.read()->look();
      model::check(s->last == 0 || s->last == last, "no update is lost");
    });
  });
}

void expect_live_clean(live_setup threads, int preemptions) {
  const auto got = explore_live(threads, "", preemptions + deeper());
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
  testing::Test::RecordProperty("executions", std::to_string(got.executions));
}

void expect_live_found(live_setup threads, const char* fault, const std::string& why,
                       int preemptions = 3) {
  const auto got = explore_live(threads, fault, preemptions);
  EXPECT_FALSE(got.ok) << fault;
  EXPECT_NE(got.why.find(why), std::string::npos) << fault << ": " << got.why;
}

void reads(model::scenario& run, const std::shared_ptr<live_world>& s) {
  run.thread([s] {
    const auto now = s->value.read();
    const int seen = now->look();
    model::check(seen == static_cast<int>(now.version()), "version and value are of one change");
  });
}

void stores(model::scenario& run, const std::shared_ptr<live_world>& s, int first, int last) {
  run.thread([s, first, last] {
    for (int n = first; n <= last; ++n) s->value.emplace(n);
  });
}

void one_reader(model::scenario& run, const std::shared_ptr<live_world>& s) {
  reads(run, s);
  stores(run, s, 2, 2);
}

void one_reader_two_stores(model::scenario& run, const std::shared_ptr<live_world>& s) {
  reads(run, s);
  stores(run, s, 2, 3);
}

void two_readers(model::scenario& run, const std::shared_ptr<live_world>& s) {
  reads(run, s);
  one_reader(run, s);
}

/// A slot names one value after the other.
void reads_twice(model::scenario& run, const std::shared_ptr<live_world>& s) {
  run.thread([s] {
    int before = 0;
    for (int i = 0; i < 2; ++i) {
      const auto now = s->value.read();
      const int seen = now->look();
      model::check(seen >= before, "a thread reads no older value than before");
      before = seen;
    }
  });
  stores(run, s, 2, 2);
}

/// A reading ends on another thread, and its slot is taken again.
void handed_on(model::scenario& run, const std::shared_ptr<live_world>& s) {
  run.thread([s] {
    s->reading.emplace(s->value.read());
    s->handed.store_release(true);  // → the acquire below
    s->value.read()->look();
  });
  run.thread([s] {
    if (!s->handed.load_acquire()) return;  // ← the release above
    (*s->reading)->look();
    s->reading.reset();
  });
  stores(run, s, 2, 2);
}

void updates(model::scenario& run, const std::shared_ptr<live_world>& s) {
  s->last = 4;
  for (int thread = 0; thread < 2; ++thread) {
    run.thread([s] { s->value.update([](whole_value& v) { v.number += v.look(); }); });
  }
}

TEST(live_model, a_reader_beside_one_store) { expect_live_clean(&one_reader, 4); }
TEST(live_model, a_reader_beside_two_stores) { expect_live_clean(&one_reader_two_stores, 3); }
TEST(live_model, two_readers_beside_a_store) { expect_live_clean(&two_readers, 2); }
TEST(live_model, a_reader_that_reads_twice) { expect_live_clean(&reads_twice, 3); }
TEST(live_model, a_reading_that_is_handed_on) { expect_live_clean(&handed_on, 2); }
TEST(live_model, two_updates) { expect_live_clean(&updates, 2); }

TEST(live_model, finds_planted_faults) {
  expect_live_found(&one_reader, "live.no_validate", "use after free");
  expect_live_found(&one_reader, "live.name_without_light", "data race: write");
  expect_live_found(&one_reader, "live.no_heavy", "a value waits");
  expect_live_found(&one_reader, "live.put_in_relaxed", "data race: read");
  expect_live_found(&one_reader, "live.clear_relaxed", "data race: write");
  expect_live_found(&one_reader, "live.scan_relaxed", "data race: write");
  expect_live_found(&one_reader, "live.end_without_light", "a value waits");
  expect_live_found(&reads_twice, "live.name_relaxed", "data race: write");
  expect_live_found(&one_reader_two_stores, "live.keeps_missed", "a value waits");
  expect_live_found(&two_readers, "live.no_ask", "a value waits");
  expect_live_found(&handed_on, "live.take_relaxed", "data race: write", 2);
  expect_live_found(&updates, "live.leave_relaxed", "data race: read");
}

}  // namespace
