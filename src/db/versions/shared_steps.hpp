// SPDX-License-Identifier: Apache-2.0
// shared_steps.hpp: several threads that read at one snapshot, and so share its gate.
//
// Idea:        a gate knows one owner, who is in a step or not. So the first thread that begins a
//              step begins it for all, and the last one that ends its own ends it. No thread
//              joins once the reader was ended; so the last one is soon out.
// Why no thread reads what is freed: while the count is not 0 the gate says `inside`, and there is
//   no withdrawal (gate.hpp). What a thread has read in its step comes before its leaving, that
//   before the last one's by the lock, and that before the withdrawal.
// Cost:        a lock for a few instructions, each time; nothing where there is no gate.
#pragma once

#include <cstdint>
#include <mutex>

#include <spolia/base/config.hpp>
#include <spolia/base/short_lock.hpp>

#include "db/commit/gate.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

class shared_steps {
 public:
  /// Null: the reader is never ended.
  explicit shared_steps(gate* of) noexcept : gate_(of) {}
  shared_steps(const shared_steps&) = delete;
  shared_steps& operator=(const shared_steps&) = delete;

  /// False: the reader was ended, and there is no step.
  bool enter() noexcept {
    if (gate_ == nullptr) return true;
    const std::lock_guard hold(lock_);
    if (inside_ == 0 ? !gate_->enter() : gate_->ended()) return false;
    ++inside_;
    return true;
  }
  void leave() noexcept {
    if (gate_ == nullptr) return;
    const std::lock_guard hold(lock_);
    if (--inside_ == 0 || SPOLIA_FAULT("shared_steps.first_leaves_for_all")) gate_->leave();
  }

 private:
  gate* const gate_;
  spolia::detail::short_lock lock_;
  std::uint32_t inside_ = 0;  // under the lock
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
