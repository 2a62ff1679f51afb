// SPDX-License-Identifier: Apache-2.0
// at_work.hpp: what this thread does for a database while it calls the program. Internal.
//
// A sink, on_slow_reader and a layer of files are called in the middle of something that other
// calls wait for. If they made such a call themselves, on the same thread, it would wait for
// itself, and two of them, on two threads, would wait for each other. So each thread has a list of
// what it is doing, and a call that waits checks that list first.
// Order:       a call waits only for what comes later here than all that its thread has. So there
//              is no circle, within one database:
//                1. the lock of copies: a checkpoint, a backup       calls sinks, a layer of files
//                2. the lock of changes of the catalogue             (a layer of files, by 5 and 6)
//                3. a commit, which a change of the catalogue
//                   waits for                                        calls on_slow_reader
//                4. engine::unsettled: alone while the log begins
//                   again                                            calls a layer of files
//                5. the lead of the log                              calls a layer of files
//                6. the lock of the log's room                       calls a layer of files
//              A copy waits for 5 and 6, so that 3 must not wait for it: a copy's sink may wait for
//              2, which waits for 3. All other locks are held by no thread that calls the program,
//              but those of rows, which are waited for as long as the program has said.
// Threads:     the list is the thread's own. A thread that works for a query has the list of the
//              thread that has asked, too, which waits for it. That a callback waits for another
//              thread of the program, which makes the call, is not seen.
#pragma once

#include <cstdint>
#include <memory>

#include <spolia/base/config.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class engine;
class gate;

class at_work {
 public:
  /// To be combined.
  enum doing : std::uint8_t {
    copying = 1,      ///< a checkpoint or a backup, of which there is one at a time
    asking = 2,       ///< on_slow_reader, maybe within a commit
    writing = 4,      ///< the log, for all that wait for it
    lengthening = 8,  ///< the log, which has a lock of its own
    background = 16   ///< as copying, on the thread that closing waits for
  };

  /// `call` says what the caller has called: a string literal.
  at_work(const engine& of, doing what, const char* call) noexcept;
  /// asking, for the transaction that has this gate; null: for none.
  at_work(const engine& of, const gate* asks, const char* call) noexcept;
  /// What the thread is at which has called here(), and which waits for this one.
  explicit at_work(const at_work* caller) noexcept;
  ~at_work();
  at_work(const at_work&) = delete;
  at_work& operator=(const at_work&) = delete;

  /// For threads that this one waits for.
  [[nodiscard]] static const at_work* here() noexcept { return innermost; }
  [[nodiscard]] static bool within(const engine& of, unsigned any_of) noexcept;
  /// Whether this thread is in on_slow_reader for the transaction that has the gate.
  [[nodiscard]] static bool asked_by(const gate& of) noexcept {
    return here() != nullptr && asked_by(here(), of);
  }
  /// Throws std::invalid_argument if this thread is in one of them, which `call` would wait for.
  static void must_not_wait(const engine& of, unsigned any_of, const char* call) {
    if (innermost != nullptr) [[unlikely]]
      refuse_within(of, any_of, call);
  }
  /// Ends the database: now, or, if the program does that while it is called by a checkpoint or a
  /// backup, when this is over. Out of another callback of a database that cannot be.
  static void close(std::unique_ptr<engine> e) noexcept;

 private:
  static thread_local constinit const at_work* innermost;  // of this thread; null: it is at none

  static void refuse_within(const engine& of, unsigned any_of, const char* call);
  static const at_work* find(const at_work* from, const engine& of, unsigned any_of) noexcept;
  static bool asked_by(const at_work* from, const gate& of) noexcept;
  static const at_work* outermost(const at_work* from, const engine& of) noexcept;

  const engine* const of_;  // null: see caller_
  const doing what_;
  const char* const call_;
  const gate* const asks_ = nullptr;
  const at_work* const caller_ = nullptr;
  const at_work* const outer_;
  mutable std::unique_ptr<engine> closed_;
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
