// SPDX-License-Identifier: Apache-2.0
// Repeats executions until one fails, nothing is left to try, or the budget is used up.

#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>

#include "execution.hpp"

namespace spolia::model {

constinit std::uint64_t active_fault = 0;

namespace {

constexpr std::uint64_t default_draws = 10000;

// A replay string starts with the preemption bound that it was found under ("b2:"), because the
// bound decides what there is to choose from; "b-:" means none.
std::string bound_prefix(int bound) {
  return "b" + (bound < 0 ? std::string("-") : std::to_string(bound)) + ":";
}

std::pair<int, std::vector<decision>> parse_replay(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon < 2 || text[0] != 'b') {
    throw std::invalid_argument("a replay string starts with b<bound>:");
  }
  const std::string bound = text.substr(1, colon - 1);
  return {bound == "-" ? -1 : std::stoi(bound), parse_path(text.substr(colon + 1))};
}

// Frees what an exploration has changed in the process, whatever ends it.
class session {
 public:
  session(engine& self, const std::string& fault) {
    if (engine::current != nullptr) throw std::logic_error("explorations cannot be nested");
    engine::current = &self;
    active_fault = fault.empty() ? 0 : fault_hash(fault.c_str());
  }
  ~session() {
    engine::current = nullptr;
    active_fault = 0;
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
};

// Bodies of an execution that stopped half-way. Destroying what they captured would run the
// scenario's code on a state that no finished execution has, so they are kept, unused.
std::vector<std::function<void()>>& abandoned_bodies() {
  static auto* kept = new std::vector<std::function<void()>>();
  return *kept;
}

}  // namespace

engine::engine(const options& how, std::function<void(scenario&)> setup)
    : how_(how),
      setup_(std::move(setup)),
      bound_(how.how == options::mode::exhaustive ? how.preemptions : -1),
      choices_(how) {
  if (how_.executions == 0 && how_.how != options::mode::exhaustive) {
    how_.executions = default_draws;
  }
}

void engine::run_execution(std::uint64_t seed) {
  begin_execution(seed);
  run_stage("set-up", [this] {
    scenario run(*this);
    setup_(run);
  });
  if (!stopped()) run_threads();
  if (!stopped()) run_stage("finally", finally_);
  if (!stopped()) dispose_bodies();
  if (!stopped()) check_end();
  if (stopped()) {
    for (auto& body : bodies_) abandoned_bodies().push_back(std::move(body));
    abandoned_bodies().push_back(std::move(finally_));
    bodies_.clear();
  }
}

void engine::account(outcome& result) const {
  ++result.executions;
  result.steps += steps_;
  if (cut_) ++result.cut;
}

bool engine::out_of_budget(const outcome& result) const {
  return how_.executions != 0 && result.executions >= how_.executions;
}

void engine::report_failure(outcome& result, std::uint64_t seed) {
  result.ok = false;
  result.why = why_;
  result.seed = seed;
  const std::vector<decision> path = choices_.path();
  result.replay = bound_prefix(bound_) + print_path(path);
  choices_.follow(path);
  tracing_ = true;
  run_execution(seed);
  result.trace = tracer_.take_text();
  if (failed_) {
    result.why = why_;  // now with the names that the trace uses
    result.trace += "      " + why_ + "\n";
  } else {
    result.trace += "(the same decisions did not fail again: the scenario is not deterministic)\n";
  }
}

outcome engine::explore() {
  using steady = std::chrono::steady_clock;
  constexpr std::uint64_t executions_per_look_at_the_clock = 64;
  const session active(*this, how_.fault);
  const auto start = steady::now();
  outcome result;
  for (;;) {
    const std::uint64_t seed = how_.seed + result.executions;
    run_execution(seed);
    account(result);
    if (failed_) {
      report_failure(result, seed);
      return result;
    }
    if (choices_.following()) return result;
    if (how_.how == options::mode::exhaustive && !choices_.advance()) {
      result.exhausted = true;
      return result;
    }
    if (out_of_budget(result)) return result;
    if (how_.seconds > 0 && result.executions % executions_per_look_at_the_clock == 0 &&
        steady::now() - start > std::chrono::duration<double>(how_.seconds)) {
      return result;
    }
  }
}

outcome explore(const options& how, std::function<void(scenario&)> setup) {
  options actual = how;
  std::vector<decision> path;
  if (!how.replay.empty()) {
    actual.how = options::mode::exhaustive;
    std::tie(actual.preemptions, path) = parse_replay(how.replay);
  }
  // On the heap: an engine is several hundred kilobytes.
  const auto run = std::make_unique<engine>(actual, std::move(setup));
  if (!how.replay.empty()) run->follow(std::move(path));
  return run->explore();
}

}  // namespace spolia::model
