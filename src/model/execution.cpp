// SPDX-License-Identifier: Apache-2.0
// Scheduling: which thread runs, until when, and how an execution ends. The scheduler has no stack
// of its own while threads run: a thread that reaches an operation decides which one goes next and
// changes to that fiber directly, or simply goes on.

#include "execution.hpp"

#include <exception>
#include <memory>
#include <utility>

namespace spolia::model {

engine* engine::current = nullptr;

namespace {

constexpr const char* not_deterministic =
    "the scenario is not deterministic, or the replay string is of another one";

}  // namespace

void engine::begin_execution(std::uint64_t seed) {
  // Counted over all explorations, because globals keep their ties from one to the next.
  static std::uint32_t executions = 0;
  execution_ = ++executions;
  choices_.begin(seed);
  heap_.begin();
  memory_.begin();
  tracer_.begin(tracing_);
  plains_.clear();
  bodies_.clear();
  finally_ = nullptr;
  stage_hooks_.clear();
  thread_count_ = 0;
  changes_ = 0;
  steps_ = 0;
  preemptions_ = 0;
  spurious_ = 0;
  failed_ = false;
  cut_ = false;
  why_.clear();
}

void engine::add_thread(std::function<void()> body) {
  if (bodies_.size() == max_threads) fail("a scenario has too many threads");
  bodies_.push_back(std::move(body));
}

void engine::run_stage(const char* name, const std::function<void()>& work) {
  phase_ = phase::single;
  running_ = 0;
  stage_name_ = name;
  stage_work_ = &work;
  stage_.start(stage_main);
  fiber::change(host_, stage_);
}

void engine::stage_main() {
  engine& self = *current;
  try {
    if (*self.stage_work_) (*self.stage_work_)();
    self.run_exit_hooks(self.stage_hooks_);
  } catch (const std::exception& thrown) {
    self.fail(std::string("uncaught exception: ") + thrown.what());
  } catch (...) {
    self.fail("uncaught exception");
  }
  self.leave_for_good();
}

void engine::run_threads() {
  thread_count_ = static_cast<std::uint32_t>(bodies_.size());
  memory_.start_threads(thread_count_);
  phase_ = phase::starting;
  for (running_ = 0; running_ < thread_count_; ++running_) {
    thread_state& thread = me();
    thread.ended = thread.waiting = thread.must_deliver = false;
    thread.own_changes = 0;
    thread.round.count = 0;
    thread.round.open = false;
    thread.round.stale = false;
    thread.signals.count = 0;
    thread.hooks.clear();
    thread.stack.start(thread_main);
    fiber::change(host_, thread.stack);
    if (stopped()) return;
  }
  phase_ = phase::threads;
  running_ = no_thread;
  if (how_.how == options::mode::pct) draw_priorities();
  const std::uint32_t first = pick();
  if (first == no_thread || stopped()) return;
  prepare(first);
  running_ = first;
  fiber::change(host_, threads_[first].stack);
}

void engine::thread_main() {
  engine& self = *current;
  try {
    self.run_body();
  } catch (const std::exception& thrown) {
    self.fail(std::string("uncaught exception: ") + thrown.what());
  } catch (...) {
    self.fail("uncaught exception");
  }
  self.me().ended = true;
  if (self.phase_ == phase::threads) {
    const std::uint32_t next = self.pick();
    if (next != no_thread) {
      self.prepare(next);
      fiber& mine = self.me().stack;
      self.running_ = next;
      fiber::change(mine, self.threads_[next].stack);
    }
  }
  self.leave_for_good();
}

void engine::run_body() {
  bodies_[running_]();
  deliver_all();
  run_exit_hooks(me().hooks);
  deliver_all();
}

void engine::run_exit_hooks(std::vector<exit_hook>& hooks) {
  while (!hooks.empty()) {
    const exit_hook last = hooks.back();
    hooks.pop_back();
    last.call(last.argument);
  }
}

void engine::at_thread_exit(exit_hook hook) {
  (phase_ == phase::single ? stage_hooks_ : me().hooks).push_back(hook);
}

// Back to the caller of run_stage() or run_threads(); this fiber is not resumed.
void engine::leave_for_good() {
  fiber& mine = phase_ == phase::single ? stage_ : me().stack;
  fiber::change(mine, host_);
}

void engine::fail(const std::string& why) {
  failed_ = true;
  why_ = who() + ": " + why;
  if (running_ != no_thread) leave_for_good();
}

std::string engine::who() const {
  if (phase_ == phase::single) return stage_name_;
  if (running_ == no_thread) return "scheduler";
  return "T" + std::to_string(running_);
}

// ---- one scheduling point ----------------------------------------------------------------------

// Called before each operation. When it returns, this thread carries out its operation.
void engine::reach() {
  count_step();
  if (phase_ == phase::single) return;
  // A handler ends with operations of its own, so others may step in between it and ours.
  do {
    pass_control();
  } while (deliver_one());
}

void engine::count_step() {
  if (++steps_ <= how_.max_steps) return;
  if (how_.cut_long_executions) {
    cut_ = true;
    leave_for_good();
  }
  fail("more than max_steps operations: a loop without spin_wait(), or too long a scenario");
}

void engine::pass_control() {
  fiber& mine = me().stack;
  if (phase_ == phase::starting) {
    fiber::change(mine, host_);
    return;
  }
  const std::uint32_t next = pick();
  prepare(next);
  if (next == running_) return;
  running_ = next;
  fiber::change(mine, threads_[next].stack);
}

void engine::prepare(std::uint32_t thread) {
  thread_state& next = threads_[thread];
  next.must_deliver = !can_go_on(next);
  next.waiting = false;
}

// Returns the thread that goes next; no_thread when all have ended.
std::uint32_t engine::pick() {
  std::array<std::uint32_t, max_threads> options;
  std::uint32_t count = 0;
  const bool may_continue = running_ != no_thread && enabled(threads_[running_]);
  if (may_continue) options[count++] = running_;
  bool all_ended = true;
  const bool interrupt = !may_continue || bound_ < 0 || preemptions_ < bound_;
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    all_ended = all_ended && threads_[i].ended;
    if (interrupt && i != running_ && enabled(threads_[i])) options[count++] = i;
  }
  if (count == 0) {
    if (!all_ended) fail("deadlock: all threads wait in spin_wait()");
    return no_thread;
  }
  const std::uint32_t chosen = how_.how == options::mode::pct && !choices_.following()
                                   ? pick_by_priority(options.data(), count)
                                   : options[choose(count)];
  if (may_continue && chosen != running_) ++preemptions_;
  return chosen;
}

std::uint32_t engine::pick_by_priority(const std::uint32_t* options, std::uint32_t count) {
  for (std::size_t i = 0; i < change_points_.size(); ++i) {
    if (change_points_[i] == steps_ && running_ != no_thread) {
      me().priority = -1 - static_cast<int>(i);
    }
  }
  std::uint32_t best = 0;
  for (std::uint32_t i = 1; i < count; ++i) {
    if (threads_[options[i]].priority > threads_[options[best]].priority) best = i;
  }
  return options[choices_.settle(count, best)];
}

// The number of operations of an execution is not known beforehand, so the length of the stretch
// that the change points fall in is drawn too. That costs a small factor in the chance of a hit,
// and makes one number, the seed, describe the execution.
void engine::draw_priorities() {
  for (std::uint32_t i = 0; i < thread_count_; ++i) {
    threads_[i].priority = static_cast<int>(i) + 1;
    std::swap(threads_[i].priority, threads_[choices_.draw() % (i + 1)].priority);
  }
  const std::uint64_t stretch = std::uint64_t{16} << (choices_.draw() % 6);
  change_points_.clear();
  for (int i = 1; i < how_.pct_depth; ++i) {
    change_points_.push_back(steps_ + 1 + choices_.draw() % stretch);
  }
}

std::uint32_t engine::choose(std::uint32_t count) {
  const std::uint32_t chosen = choices_.choose(count);
  if (choices_.diverged()) {
    fail(not_deterministic);
  }
  return chosen;
}

// ---- signals -----------------------------------------------------------------------------------

void engine::signal(std::uint32_t thread, void (*handler)()) {
  reach();
  if (phase_ == phase::single || thread >= thread_count_ || threads_[thread].ended) return;
  if (tracing_) tracer_.line(who(), "signal to T" + std::to_string(thread));
  signal_queue& queue = threads_[thread].signals;
  for (std::size_t i = 0; i < queue.count; ++i) {
    if (queue.handlers[i] == handler) return;
  }
  if (queue.count == signal_queue::capacity) fail("too many different signals are pending");
  queue.handlers[queue.count++] = handler;
}

// Runs the oldest pending handler, or decides to leave it for later; false when none has run. The
// handler may jump out, so nothing here may depend on what comes after the call.
bool engine::deliver_one() {
  thread_state& thread = me();
  const bool forced = std::exchange(thread.must_deliver, false);
  signal_queue& queue = thread.signals;
  if (queue.count == 0) return false;
  if (!forced && !how_.prompt_signals && choose(2) != 0) return false;
  void (*const handler)() = queue.handlers[0];
  --queue.count;
  for (std::size_t i = 0; i < queue.count; ++i) queue.handlers[i] = queue.handlers[i + 1];
  if (tracing_) tracer_.line(who(), "runs its signal handler");
  handler();
  return true;
}

void engine::deliver_all() {
  while (me().signals.count != 0) {
    me().must_deliver = true;
    deliver_one();
  }
}

// ---- the end -----------------------------------------------------------------------------------

// Destroys what the bodies have captured, as an operation of the scenario like any other.
void engine::dispose_bodies() {
  run_stage("disposal", [this] {
    bodies_.clear();
    finally_ = nullptr;
  });
}

void engine::check_end() {
  if (!choices_.used_up()) {
    failed_ = true;
    why_ = not_deterministic;
    return;
  }
  const block* first = heap_.first_live();
  if (first == nullptr) return;
  failed_ = true;
  why_ = "leak: blocks that were never freed: " + std::to_string(heap_.live()) +
         ", the first is block" + std::to_string(heap_.number(*first)) + " (" +
         std::to_string(first->bytes) + " bytes)";
}

}  // namespace spolia::model
