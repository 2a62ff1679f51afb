// SPDX-License-Identifier: Apache-2.0
/// \file
/// Scenarios over a whole domain: readers look at what one shared pointer leads to, while a writer
/// takes it away and runs on, so that the scheme comes to freeing it.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <spolia/model/engine.hpp>
#include <spolia/reclaim/domain.hpp>

#include "model/search.hpp"

namespace spolia::test {

using scenario_setup = std::function<void(model::scenario&)>;

inline model::options at_most(int preemptions) {
  model::options how;
  how.preemptions = preemptions;
  return how;
}
/// For long scenarios about which thread does what when: loads see the newest store. Races are
/// still judged by the declared orders.
inline model::options at_most_in_order(int preemptions) {
  model::options how = at_most(preemptions);
  how.weak_memory = false;
  return how;
}

/// So many executions in random orders, where there are too many to try them all.
inline model::options in_random_orders(std::uint64_t executions) {
  model::options how;
  how.how = model::options::mode::pct;
  how.executions = executions;
  return how;
}

/// Every such execution that is tried is right, and all are tried unless they are random ones. Each
/// day a long search ends after so many tries.
inline void expect_clean(const scenario_setup& setup, model::options how,
                         std::uint64_t tries = usual_tries) {
  how.preemptions += deeper();
  const auto got = searched(how, setup, tries);
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted || how.how == model::options::mode::pct);
  testing::Test::RecordProperty("executions", std::to_string(got.executions));
}

/// With the planted fault some execution is not, for the expected reason.
inline void expect_found(const scenario_setup& setup, const char* fault, model::options how,
                         const char* why) {
  how.fault = fault;
  const auto got = model::explore(how, setup);
  EXPECT_FALSE(got.ok) << fault << " was not found in " << got.executions << " executions";
  EXPECT_NE(got.why.find(why), std::string::npos) << got.why << "\n" << got.trace;
}

/// Cells are occupied and vacated one by one, while this lives.
struct cells_one_by_one {
  cells_one_by_one() { scenario_occupies_cells = true; }
  cells_one_by_one(const cells_one_by_one&) = delete;
  cells_one_by_one& operator=(const cells_one_by_one&) = delete;
  ~cells_one_by_one() { scenario_occupies_cells = false; }
};

/// One domain, and pointers to blocks that must be whole while they are looked at.
template <class Domain>
struct shared_blocks {
  struct block : Domain::header {
    ~block() { whole.write(false); }
    plain<bool> whole{true};
  };

  explicit shared_blocks(typename Domain::options o) : d(o) {
    for (auto& s : source) s.store_relaxed(d.template make<block>());
  }
  /// To be called in `finally`: the domain hears of the end of each thread that uses it, so it must
  /// outlive that.
  void clear() {
    for (auto& s : source) d.destroy(s.exchange_relaxed(nullptr));
  }

  void look(std::size_t i = 0) {
    auto guard = d.enter();
    const auto b = guard.read([&](auto& phase) { return phase.keep(phase.protect(source[i])); });
    if (b != nullptr) model::check(b->whole.read(), "the block was looked at after its end");
  }

  void take_away(std::size_t i = 0) {
    auto guard = d.enter();
    block* const b = source[i].exchange_acq_rel(nullptr);
    if (b != nullptr) guard.retire(b);
  }

  /// Operations in which nothing happens, so that the scheme gets on.
  void run_on(int operations) {
    for (int n = 0; n < operations; ++n) auto guard = d.enter();
  }

  Domain d;
  std::array<atomic<block*>, 2> source;
};

}  // namespace spolia::test
