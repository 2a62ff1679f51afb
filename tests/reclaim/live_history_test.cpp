// SPDX-License-Identifier: Apache-2.0
// Histories of live<T> under load: reads, stores, updates and conditional stores of several threads
// have an order that explains them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include <spolia/live.hpp>

#include "support/ledger.hpp"
#include "support/linearization_search.hpp"
#include "support/stamp_clock.hpp"
#include "support/stress.hpp"

namespace {

using namespace spolia::test;

enum class live_op : std::uint8_t { read, store, add, store_if };

struct live_event {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  live_op op = live_op::read;
  std::uint64_t seen = 0;   // by read, and by the function of an update
  std::uint64_t value = 0;  // put in
  std::uint64_t asked = 0;  // the version that store_if has asked for
  spolia::live_change done{};
};

/// A live value, as a sequential object.
struct live_spec {
  using operation = live_event;
  struct state {
    std::uint64_t value = 0;
    std::uint64_t version = 1;
    friend bool operator==(const state&, const state&) = default;
  };
  static bool apply(state& s, const operation& o) {
    switch (o.op) {
      case live_op::read:
        return o.seen == s.value && o.done.version == s.version;
      case live_op::add:
        if (o.seen != s.value) return false;
        break;
      case live_op::store_if:
        if (o.done.changed != (o.asked == s.version)) return false;
        if (!o.done.changed) return o.done.version == s.version;
        break;
      case live_op::store:
        break;
    }
    s = {o.value, s.version + 1};
    return o.done.version == s.version;
  }
  static bool only_reads(const operation& o) { return !o.done.changed; }
  static digest128 digest(const state& s) { return digest_of(mix64(s.value) + s.version); }
};

live_event operate(spolia::live<tracked>& value, ledger& book, stress_thread& self,
                   std::uint64_t unique, stamp_clock clock) {
  live_event e;
  e.value = unique;
  const auto choice = self.random().below(8);
  const std::uint64_t version = choice == 3 ? value.version() : 0;
  e.start = clock.before();
  switch (choice) {
    case 0:
      e.op = live_op::store;
      e.done = value.emplace(book, unique);
      break;
    case 1:
    case 2:
      e.op = live_op::add;
      e.done = value.update([&](tracked& t) {
        e.seen = t.read();
        t = tracked(book, unique);
      });
      break;
    case 3:
      e.op = live_op::store_if;
      e.asked = version;
      e.done = value.store_if(version, tracked(book, unique));
      break;
    default: {
      const auto now = value.read();
      e.seen = now->read();
      e.done.version = now.version();
    }
  }
  e.end = clock.after();
  return e;
}

TEST(live_history, is_linearizable) {
  constexpr std::size_t threads = 4;
  const stamp_clock clock;
  for (std::uint64_t round = 0; round < 8; ++round) {
    ledger book;
    {
      spolia::live<tracked> value(std::in_place, book, 0U);
      std::vector<std::vector<live_event>> lanes(threads);
      run_stress({.threads = threads, .share = 0.1, .stream = round}, [&](stress_thread& self) {
        auto& lane = lanes[self.index()];
        for (std::uint64_t i = 1; self.running() && i <= 20'000; ++i) {
          lane.push_back(operate(value, book, self, i * threads + self.index(), clock));
          self.jitter();
        }
      });
      std::vector<live_event> all;
      for (const auto& lane : lanes) all.insert(all.end(), lane.begin(), lane.end());
      std::ranges::sort(all, {}, &live_event::start);
      const auto found = linearization_search<live_spec>().run(all, {});
      EXPECT_EQ(found.outcome, search_outcome::accepted) << "at " << found.stuck;
      EXPECT_EQ(book.live(), 1);
    }
    book.expect_empty();
  }
}

TEST(live_history, a_lost_update_would_be_refused) {
  const std::vector<live_event> lost{
      {.start = 1, .end = 4, .op = live_op::add, .seen = 0, .value = 5, .done = {true, 2}},
      {.start = 2, .end = 3, .op = live_op::add, .seen = 0, .value = 6, .done = {true, 3}}};
  EXPECT_EQ(linearization_search<live_spec>().run(lost, {}).outcome, search_outcome::refused);
}

}  // namespace
