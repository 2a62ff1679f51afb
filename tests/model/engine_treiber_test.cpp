// SPDX-License-Identifier: Apache-2.0
// The checker against a real algorithm: a Treiber stack with hazard pointers, in two forms (seq_cst
// fences, and asymmetric ones), right and with planted faults, each of which must be found.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <set>
#include <string>

#include <spolia/base/atomic.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/model/engine.hpp>

namespace {

using spolia::atomic;
using spolia::plain;
namespace fence = spolia::fence;
namespace memory = spolia::memory;
namespace model = spolia::model;
using mode = model::options::mode;

constexpr int threads = 2;
constexpr int empty = -1;

struct node {
  explicit node(int v) : value(v) {}
  plain<int> value;
  plain<node*> next{nullptr};
};

class stack {
 public:
  explicit stack(bool asymmetric) : asymmetric_(asymmetric) {}

  // The release pairs with the acquire in pop: the node's fields arrive whole.
  void push(int value) {
    node* const fresh = new (memory::allocate(sizeof(node), alignof(node))) node(value);
    node* old = top_.load_relaxed();
    do {
      fresh->next.write(old);
    } while (SPOLIA_FAULT("stack.relaxed_push") ? !top_.cas_strong_relaxed(old, fresh)
                                                : !top_.cas_strong_release(old, fresh));
  }

  int pop(std::size_t self) {
    for (;;) {
      node* const found = protect(self);
      if (found == nullptr) return empty;
      node* const next = found->next.read();
      node* expected = found;
      const bool won = top_.cas_strong_acq_rel(expected, next);
      if (!won) {
        hazards_[self].store_release(nullptr);
        continue;
      }
      const int value = found->value.read();
      hazards_[self].store_release(nullptr);
      retire(found, self);
      return value;
    }
  }

  // What had to be left because another thread looked at it.
  void free_left_over() {
    for (node* each : left_over_) {
      if (each != nullptr) free_node(each);
    }
  }

  const atomic<node*>& top() const { return top_; }
  const atomic<node*>& hazard(std::size_t i) const { return hazards_[i]; }

 private:
  static void free_node(node* n) { memory::deallocate(n, sizeof(node), alignof(node)); }

  node* protect(std::size_t self) {
    for (;;) {
      node* const seen = top_.load_relaxed();
      if (seen == nullptr) return nullptr;
      // Release: a scan that reads a later hazard of this thread must have its earlier accesses
      // happen before, or it may free what they touched.
      if (SPOLIA_FAULT("stack.relaxed_hazard")) {
        hazards_[self].store_relaxed(seen);
      } else {
        hazards_[self].store_release(seen);
      }
      if (!SPOLIA_FAULT("stack.no_protect_fence")) asymmetric_ ? fence::light() : fence::full();
      if (top_.load_acquire() == seen) return seen;
    }
  }

  void retire(node* gone, std::size_t self) {
    if (SPOLIA_FAULT("stack.light_retire_fence")) {
      fence::light();
    } else if (!SPOLIA_FAULT("stack.no_retire_fence")) {
      asymmetric_ ? fence::heavy() : fence::full();
    }
    for (const atomic<node*>& hazard : hazards_) {
      node* const held =
          SPOLIA_FAULT("stack.relaxed_scan") ? hazard.load_relaxed() : hazard.load_acquire();
      if (held == gone) {
        left_over_[self] = gone;
        return;
      }
    }
    free_node(gone);
  }

  bool asymmetric_;
  atomic<node*> top_{nullptr};
  std::array<atomic<node*>, threads> hazards_;
  std::array<node*, threads> left_over_{};  // each thread pops once
};

// Both threads push one value and pop one; one value was there before.
void push_and_pop(model::scenario& run, bool asymmetric) {
  struct state {
    explicit state(bool asymmetric) : s(asymmetric) {}
    stack s;
    std::array<int, threads> popped{};
  };
  auto shared = std::make_shared<state>(asymmetric);
  run.name(shared->s.top(), "top");
  for (std::size_t i = 0; i < threads; ++i) {
    run.name(shared->s.hazard(i), "hazard" + std::to_string(i));
  }
  shared->s.push(99);
  for (std::size_t i = 0; i < threads; ++i) {
    run.thread([=] {
      shared->s.push(static_cast<int>(i));
      shared->popped[i] = shared->s.pop(i);
    });
  }
  run.finally([=] {
    std::set<int> all(shared->popped.begin(), shared->popped.end());
    shared->s.free_left_over();
    all.insert(shared->s.pop(0));
    model::check(all == std::set<int>{0, 1, 99}, "each value is popped once");
    model::check(shared->s.pop(0) == empty, "nothing is left");
  });
}

model::outcome check_stack(model::options how, bool asymmetric, const char* fault = "") {
  how.fault = fault;
  const auto start = std::chrono::steady_clock::now();
  const model::outcome got =
      model::explore(how, [=](model::scenario& run) { push_and_pop(run, asymmetric); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%-26s %-10s %8llu executions %7.3f s %9.0f/s  %s\n", fault[0] ? fault : "right",
              asymmetric ? "asymmetric" : "full", static_cast<unsigned long long>(got.executions),
              took.count(), static_cast<double>(got.executions) / took.count(), got.why.c_str());
  return got;
}

class treiber : public testing::TestWithParam<bool> {};

TEST_P(treiber, is_right_with_three_preemptions) {
  model::options how;
  how.preemptions = 3;
  const model::outcome got = check_stack(how, GetParam());
  EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  EXPECT_TRUE(got.exhausted);
}

TEST_P(treiber, is_right_at_random) {
  model::options how;
  for (const mode each : {mode::random, mode::pct}) {
    how.how = each;
    how.executions = 20000;
    const model::outcome got = check_stack(how, GetParam());
    EXPECT_TRUE(got.ok) << got.why << "\n" << got.trace;
  }
}

constexpr const char* faults[] = {"stack.relaxed_push",     "stack.relaxed_hazard",
                                  "stack.no_protect_fence", "stack.no_retire_fence",
                                  "stack.relaxed_scan",     "stack.light_retire_fence"};

TEST_P(treiber, every_planted_fault_is_found_with_three_preemptions) {
  model::options how;
  how.preemptions = 3;
  for (const char* each : faults) {
    const model::outcome got = check_stack(how, GetParam(), each);
    EXPECT_FALSE(got.ok) << each;
  }
}

TEST_P(treiber, every_planted_fault_is_found_at_random) {
  model::options how;
  how.how = mode::random;
  how.executions = 100000;
  for (const char* each : faults) {
    const model::outcome got = check_stack(how, GetParam(), each);
    EXPECT_FALSE(got.ok) << each;
  }
}

TEST_P(treiber, a_fault_is_repeated_by_its_choices) {
  model::options how;
  how.preemptions = 3;
  const model::outcome found = check_stack(how, GetParam(), "stack.no_protect_fence");
  ASSERT_FALSE(found.ok);
  how.replay = found.replay;
  const model::outcome again = check_stack(how, GetParam(), "stack.no_protect_fence");
  EXPECT_FALSE(again.ok);
  EXPECT_EQ(again.executions, 1u);
  EXPECT_EQ(again.trace, found.trace);
  EXPECT_NE(found.trace.find("hazard"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(fences, treiber, testing::Bool(), [](const auto& each) {
  return each.param ? std::string("asymmetric") : std::string("full");
});

}  // namespace
