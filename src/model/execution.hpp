// SPDX-License-Identifier: Apache-2.0
// The engine: one object per exploration. execution.cpp schedules, operations.cpp carries out what
// the hooks ask for, explore.cpp repeats executions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <spolia/model/engine.hpp>

#include "choices.hpp"
#include "fiber.hpp"
#include "heap.hpp"
#include "memory_model.hpp"
#include "tracer.hpp"

namespace spolia::model {

struct exit_hook {
  void (*call)(void*);
  void* argument;
};

// What a thread has loaded since it last left spin_wait(): one round of its waiting loop, if it is
// in one.
struct waiting_round {
  static constexpr std::size_t capacity = 64;

  std::array<std::uint32_t, capacity> loaded{};
  std::size_t count = 0;  // over capacity: too many, take all locations
  bool open = false;
  bool stale = false;  // an old value was among them
  std::uint64_t changes_at_start = 0;
};

struct signal_queue {
  static constexpr std::size_t capacity = 8;

  std::array<void (*)(), capacity> handlers{};
  std::size_t count = 0;
};

struct thread_state {
  fiber stack;
  bool ended = false;
  bool waiting = false;  // in spin_wait(), until another thread changes something
  std::uint64_t waiting_since = 0;
  std::uint64_t own_changes = 0;
  waiting_round round;
  signal_queue signals;
  bool must_deliver = false;  // it was resumed for nothing but its signal
  int priority = 0;           // pct
  std::vector<exit_hook> hooks;
};

// Which threads wrote and read a plain object last.
struct plain_history {
  epoch written{};
  clock read{};
};

class engine {
 public:
  engine(const options& how, std::function<void(scenario&)> setup);
  outcome explore();
  // The next execution makes these decisions, and is the only one.
  void follow(std::vector<decision> path) { choices_.follow(std::move(path)); }

  static engine* current;  // null outside executions

  // scenario
  void add_thread(std::function<void()> body);
  void set_finally(std::function<void()> body) { finally_ = std::move(body); }
  void name(const void* address, std::size_t bytes, std::string text);

  // hooks
  void born(tie& object) noexcept;
  std::uint64_t load(const atomic_cell& cell, std::memory_order order);
  void store(atomic_cell& cell, std::uint64_t value, std::memory_order order);
  std::uint64_t exchange(atomic_cell& cell, std::uint64_t value, std::memory_order order);
  std::uint64_t fetch(atomic_cell& cell, arithmetic what, std::uint64_t operand, std::uint64_t mask,
                      std::memory_order order);
  bool compare_exchange(atomic_cell& cell, std::uint64_t& expected, std::uint64_t desired,
                        std::memory_order success, std::memory_order failure, bool weak);
  void plain_read(tie& object, const void* address);
  void plain_write(tie& object, const void* address);
  using fence_kind = void (memory_model::*)(std::uint32_t);
  void fence(fence_kind kind, const char* name);
  void light_fence();
  void spin_wait();
  void yield() { reach(); }
  void* allocate(std::size_t bytes, std::size_t align);
  void deallocate(void* address, std::size_t bytes);
  void note_access(const void* address);
  std::uint32_t current_thread() const { return running_; }
  std::uint32_t thread_count() const {
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(bodies_.size()));
  }
  void at_thread_exit(exit_hook hook);
  void signal(std::uint32_t thread, void (*handler)());
  void fail(const std::string& why);

 private:
  // One thread of control (set-up, finally), threads up to their first operation, all threads.
  enum class phase : std::uint8_t { single, starting, threads };

  // explore.cpp
  void run_execution(std::uint64_t seed);
  void account(outcome& result) const;
  void report_failure(outcome& result, std::uint64_t seed);
  bool out_of_budget(const outcome& result) const;

  // execution.cpp
  void begin_execution(std::uint64_t seed);
  void run_stage(const char* name, const std::function<void()>& work);
  static void stage_main();
  void run_threads();
  static void thread_main();
  void run_body();
  void run_exit_hooks(std::vector<exit_hook>& hooks);
  void draw_priorities();
  bool stopped() const { return failed_ || cut_; }
  void leave_for_good();
  void dispose_bodies();
  void check_end();

  std::uint64_t foreign_changes(const thread_state& thread) const {
    return changes_ - thread.own_changes;
  }
  bool can_go_on(const thread_state& thread) const {
    return !thread.ended && (!thread.waiting || foreign_changes(thread) != thread.waiting_since);
  }
  bool enabled(const thread_state& thread) const {
    return can_go_on(thread) || (!thread.ended && thread.signals.count != 0);
  }
  void reach();
  void count_step();
  void pass_control();
  std::uint32_t pick();
  std::uint32_t pick_by_priority(const std::uint32_t* options, std::uint32_t count);
  void prepare(std::uint32_t thread);
  bool deliver_one();
  void deliver_all();
  std::uint32_t choose(std::uint32_t count);
  std::string who() const;

  // operations.cpp
  thread_state& me() { return threads_[running_]; }
  void touch(const void* address);
  std::uint32_t locate(const atomic_cell& cell);
  std::uint32_t operate_on(const atomic_cell& cell);
  epoch born_at(const tie& object) const;
  void check_born(const tie& object, const void* address);
  std::uint64_t& bare_value(atomic_cell& cell);
  void open_round();
  void note_load(std::uint32_t where);
  void count_change(std::uint32_t where, std::uint64_t value);
  template <class Update>
  std::uint64_t update(atomic_cell& cell, const char* name, std::memory_order order, Update&& next);
  std::uint32_t failing_candidates(std::uint32_t where, std::uint64_t expected,
                                   std::memory_order failure);
  plain_history& history_of(tie& object);
  /// What is known of an object that is accessed now; null where no thread can race. Fails if
  /// another thread may be writing to it.
  plain_history* plain_access(tie& object, const void* address, const char* what);
  void check_room(std::uint32_t where);
  void trace_load(const atomic_cell& cell, const char* name, std::memory_order order,
                  std::uint64_t value, position behind);
  void trace_store(const atomic_cell& cell, const char* name, std::memory_order order,
                   std::uint64_t value);

  options how_;
  std::function<void(scenario&)> setup_;
  int bound_;  // preemptions; negative: none

  choices choices_;
  heap heap_;
  memory_model memory_;
  tracer tracer_{heap_};

  // The running execution. running_ is no_thread while the scheduler's own stack runs.
  static constexpr std::uint32_t no_thread = max_threads;
  std::uint32_t execution_ = 0;
  phase phase_ = phase::single;
  std::uint32_t running_ = 0;
  std::uint32_t thread_count_ = 0;
  std::array<thread_state, max_threads> threads_;
  std::vector<std::function<void()>> bodies_;
  std::function<void()> finally_;
  fiber host_;
  fiber stage_;
  const char* stage_name_ = "";
  const std::function<void()>* stage_work_ = nullptr;
  std::vector<exit_hook> stage_hooks_;
  std::vector<plain_history> plains_;
  std::array<position, max_options> candidates_{};
  std::vector<std::uint64_t> change_points_;
  std::uint64_t changes_ = 0;  // stores that changed a value
  std::uint64_t steps_ = 0;
  int preemptions_ = 0;
  int spurious_ = 0;
  bool failed_ = false;
  bool cut_ = false;
  bool tracing_ = false;
  std::string why_;
};

}  // namespace spolia::model
