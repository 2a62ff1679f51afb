// SPDX-License-Identifier: Apache-2.0
/// \file
/// The model checker: runs small scenarios of the library's own headers under a controlled
/// scheduler and a weak memory model, many times, each time in another way.
///
///     using namespace spolia;
///     auto found = model::explore({}, [](model::scenario& run) {
///       auto flag = std::make_shared<atomic<bool>>(false);
///       auto data = std::make_shared<plain<int>>(0);
///       run.thread([=] { data->write(1); flag->store_release(true); });
///       run.thread([=] {
///         while (!flag->load_acquire()) spin_wait();
///         model::check(data->read() == 1, "the message arrived whole");
///       });
///     });
///     EXPECT_TRUE(found.ok) << found.why << "\n" << found.trace;
///
/// The set-up function runs anew before each execution and must make all state afresh: share it
/// with the threads by shared_ptr, or allocate it with memory::allocate. Scenarios must be
/// deterministic apart from what the checker decides (no clocks, no addresses from malloc in
/// decisions); the checker notices most that are not. One exploration at a time per process, and
/// no other threads that use the library meanwhile.
///
/// What is modelled
///   * Each atomic object has the list of its stores. A load may return any store that is not
///     older than what its thread has seen or has learned of (its view). Release and acquire
///     accesses and fences pass views on; RMWs read the newest store and continue release
///     sequences as in C++20. A compare-and-swap that fails may have read an old store.
///   * seq_cst accesses and fences follow C++20 [atomics.order], with the order of execution as S.
///   * fence::light/heavy as specified in fence.hpp, but for one thing that is said below.
///   * Happens-before as vector clocks. Reported: data races on plain<T>, access to an atomic whose
///     construction does not happen before, use after free, double free, a free that races with an
///     access, blocks never freed, deadlock (all threads wait in spin_wait), an execution longer
///     than max_steps, uncaught exceptions, failed check()s.
///   * Signals (model::signal) and thread exit hooks (model::at_thread_exit), see hooks.hpp.
///
/// What is NOT modelled, so that bugs which need it are not found
///   * Load buffering (a load that sees a store which its thread has not yet been able to make):
///     stores take effect in the order of execution. Likewise no reordering of two stores to the
///     same pair of locations (2+2W): the list of stores grows in the order of execution.
///   * Light and heavy fences that are weaker than processors have them. Whatever a thread has read
///     before its fence is known to fences that it is ordered with, as if the store had happened
///     before; fence.hpp promises that of stores which do. So where a thread looks at something,
///     and then at another thing, a light fence that is missing between the two looks may not be
///     missed here. Nor is it by x86 or ARMv8, where a store that was seen by one other processor
///     is seen by all, and where a membarrier falls between two instructions; and C++ asks the same
///     of two seq_cst fences. Only a compiler that swaps the looks could do harm. To tell the two
///     apart each thread would need a view of what happened before, beside that of what it has
///     read.
///   * An interruption between a store and the light fence after it, but for light_fences_apart.
///   * consume, atomic wait/notify, objects over 8 bytes, mixed-size access.
///   * A weak compare-and-swap fails spuriously only as often as options::spurious_failures says.
///   * Ordinary variables that are neither atomic nor plain are invisible, except for the life of
///     their block if memory::note_access is called.
///   * Threads are scheduled at atomic operations and fences only; that is enough because races on
///     everything else are reported.
///   * In exhaustive mode, executions that need more preemptions than the bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <spolia/model/fault.hpp>
#include <spolia/model/hooks.hpp>

namespace spolia::model {

struct options {
  enum class mode {
    exhaustive,  ///< every execution with at most `preemptions` preemptions, in depth-first order
    random,      ///< every decision is drawn evenly
    pct          ///< random priorities with pct_depth - 1 change points (Burckhardt et al. 2010)
  };
  mode how = mode::exhaustive;
  /// Exhaustive mode: how often a thread that could go on may be interrupted; negative: no bound.
  int preemptions = 2;
  /// Stop after so many executions; 0: when exhausted (exhaustive), or 10000 (random, pct).
  std::uint64_t executions = 0;
  /// Random and pct: execution i uses seed + i.
  std::uint64_t seed = 1;
  int pct_depth = 3;
  /// An execution with more operations than this fails (see cut_long_executions).
  std::uint64_t max_steps = 5000;
  /// Drop executions over max_steps and go on, instead of reporting them. What lives on the stacks
  /// of a dropped execution leaks.
  bool cut_long_executions = false;
  /// False: loads return the newest store always. Races are still judged by the declared orders.
  bool weak_memory = true;
  /// How many spurious failures of weak compare-and-swaps an execution may have.
  int spurious_failures = 0;
  /// True: a thread may be interrupted between a store and the light fence after it. Needed only
  /// where one thread acts on what it has seen of the store, and another may miss it.
  bool light_fences_apart = false;
  /// True: signals are delivered at the target's next operation always.
  bool prompt_signals = false;
  /// Stop after so many seconds; 0: no limit.
  double seconds = 0;
  /// Run only the execution that outcome::replay named. Scenario and options must be the same.
  std::string replay{};
  /// The planted fault to switch on, see SPOLIA_FAULT.
  std::string fault{};
};

struct outcome {
  bool ok = true;
  std::string why{};             ///< what failed
  std::uint64_t executions = 0;  ///< including the cut ones
  std::uint64_t cut = 0;
  std::uint64_t steps = 0;  ///< operations in all executions
  bool exhausted = false;   ///< exhaustive mode only: nothing is left to try
  std::string replay{};     ///< after a failure: the decisions that lead to it
  std::uint64_t seed = 0;   ///< after a failure in random or pct mode: gives it at once
  std::string trace{};      ///< after a failure: what each thread did, in order
};

/// What the set-up function fills. Threads are numbered 0, 1, 2, ... in the order of thread() calls
/// and start after set-up; everything that set-up did happens before all of them. Set-up and
/// finally run as number 0, each like a thread of its own that exits before the next one with that
/// number starts: its exit hooks run at its end. So per-thread cells stay dense.
class scenario {
 public:
  void thread(std::function<void()> body);
  /// Runs once after all threads have ended, and sees everything. Blocks still allocated after it,
  /// after its exit hooks and after the destruction of all bodies are leaks.
  void finally(std::function<void()> body);
  /// A name for traces: accesses within the object print as name or name+offset.
  template <class T>
  void name(const T& object, std::string text) {
    name(&object, sizeof(T), std::move(text));
  }
  void name(const void* address, std::size_t bytes, std::string text);

 private:
  friend class engine;
  explicit scenario(class engine& owner) : owner_(owner) {}
  class engine& owner_;
};

/// Explores the scenario and returns at the first failure.
outcome explore(const options& how, std::function<void(scenario&)> setup);

}  // namespace spolia::model
