// SPDX-License-Identifier: Apache-2.0
// gate.hpp: readers and transactions that other threads may end: because their time is over, or
// because the program says so.
//
// Idea:        what a reader needs is its announcement. The thread that ends a reader marks it as
//              ended, and withdraws the announcement, but not while the reader is in a step: for
//              versions are freed without asking guards. A step is a lookup, one row of a scan, a
//              change, a commit. A thread that finds the reader in one leaves the withdrawal to the
//              next check.
// Cost:        a step of a reader with a gate: two stores, a light fence, a load. Others: nothing.
// Progress:    no thread waits for a reader, and a reader for no thread. A lock, for a few stores,
//              when a reader or transaction with a gate begins and ends.
// Why no reader reads what is freed: the owner stores `inside`, and then checks whether it was
//   ended. The thread that ends it stores `ended`, and then checks whether the owner is inside.
//   With a light and a heavy fence in between one of the two sees the other. So a withdrawal comes
//   only between two steps, and no step comes after it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/ticks.hpp>
#include <spolia/db/result.hpp>

#include "db/transaction/label.hpp"

namespace spolia::inline SPOLIA_FLAVOUR {
namespace db {

/// As ticks; not so many that a time that far ahead would have no number.
inline std::uint64_t in_ticks(std::chrono::nanoseconds t) {
  constexpr double most = 4e18;
  return static_cast<std::uint64_t>(
      std::min(static_cast<double>(t.count()) / core::ns_per_tick(), most));
}

class gate {
 public:
  /// The owner begins a step. False: it was ended, and there is no step.
  bool enter() noexcept {
    inside_.store_relaxed(true);
    fence::light();  // ↔ the heavy one in gate_board::end(): the store before the load
    // acquire ← the release in gate_board::end(): nothing depends on it but the order of the
    // owner's own accesses.
    if (ended_.load_acquire() == not_ended) return true;
    leave();
    return false;
  }
  // release → the acquire in gate_board::end(): what was read in the step, before the withdrawal.
  void leave() noexcept { inside_.store_release(false); }
  [[nodiscard]] bool ended() const noexcept {
    return ended_.load_acquire() != not_ended;
  }  // as in enter()
  /// Of one that was ended.
  [[nodiscard]] status why() const noexcept {
    return {outcome::ended_by_policy, static_cast<cause>(ended_.load_relaxed())};
  }

 private:
  friend class gate_board;
  static constexpr std::uint64_t never = (std::numeric_limits<std::uint64_t>::max)();

  atomic<bool> inside_{false};
  static constexpr std::uint32_t not_ended = ~std::uint32_t{0};
  atomic<std::uint32_t> ended_{not_ended};  // or the cause
  // Under the board's lock:
  census::ticket* ticket_ = nullptr;  // the owner's own, which it touches in steps only
  bool withdrawn_ = false;
  std::uint64_t timestamp_ = 0;
  const owned_label* label_ = nullptr;
  std::uint32_t thread_ = 0;  // the one that began it
  std::uint64_t id_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t deadline_ = never;  // both in ticks
  std::uint64_t asked_ = 0;         // when the program was last asked about it
  gate* next_ = nullptr;
  gate* before_ = nullptr;
};

/// All gates of a database.
class gate_board {
 public:
  struct found {
    std::uint64_t id = 0;  ///< 0: there is none
    std::uint64_t timestamp = 0;
    std::shared_ptr<const std::string> label{};  ///< null: none
    std::uint64_t age = 0;                       ///< in ticks
    std::uint32_t thread = 0;                    ///< the one that began it
  };

  /// The gate's owner begins. `most`: ticks that it may live; 0: no limit.
  void put(gate& g, census::ticket& t, const owned_label& label, std::uint64_t most) noexcept {
    const std::lock_guard hold(lock_);
    g.inside_.store_relaxed(false);
    g.ended_.store_relaxed(gate::not_ended);
    g.ticket_ = &t;
    g.withdrawn_ = false;
    g.timestamp_ = t.timestamp();
    g.label_ = &label;
    g.thread_ = threads::number();
    g.id_ = ++ids_;
    g.start_ = g.asked_ = ticks::read();
    g.deadline_ = most == 0 ? gate::never : g.start_ + most;
    g.before_ = nullptr;
    g.next_ = first_;
    if (first_ != nullptr) first_->before_ = &g;
    first_ = &g;
    if (g.deadline_ < next_.load_relaxed()) next_.store_relaxed(g.deadline_);
  }
  /// The gate's owner has announced itself anew, in a step.
  void renew(gate& g) noexcept {
    const std::lock_guard hold(lock_);
    g.timestamp_ = g.ticket_->timestamp();
  }
  /// The gate's owner moves its announcement to another ticket, which is empty.
  void hand_on(gate& g, census::ticket& to) noexcept {
    const std::lock_guard hold(lock_);
    to = std::move(*g.ticket_);
    g.ticket_ = &to;
  }
  /// The gate's owner ends; it withdraws its announcement itself.
  void take(gate& g) noexcept {
    const std::lock_guard hold(lock_);
    if (g.next_ != nullptr) g.next_->before_ = g.before_;
    (g.before_ != nullptr ? g.before_->next_ : first_) = g.next_;
    g.leave();
  }

  /// Whether an owner that began from `since` on, and before `until`, was ended, and has not come
  /// back to find out: it is announced no more, and may yet look at what it has found before.
  [[nodiscard]] bool is_left(std::uint64_t since, std::uint64_t until) noexcept {
    const std::lock_guard hold(lock_);
    const gate* g = first_;
    while (g != nullptr && (!g->withdrawn_ || g->timestamp_ < since || g->timestamp_ >= until)) {
      g = g->next_;
    }
    return g != nullptr;
  }

  /// Whether there may be an owner whose time is over, and which was not ended yet.
  [[nodiscard]] bool due() const noexcept {
    const std::uint64_t next = next_.load_relaxed();
    return next != gate::never && ticks::read() >= next;
  }
  /// Ends the owners whose time is over, and the one with this id, but never `but`; returns how
  /// many it has ended.
  std::uint64_t end_overdue(const gate* but = nullptr, std::uint64_t also = 0) noexcept {
    const std::lock_guard hold(lock_);
    const std::uint64_t now = ticks::read();
    std::uint64_t next = gate::never;
    std::uint64_t count = 0;
    for (gate* g = first_; g != nullptr; g = g->next_) {
      if (g->withdrawn_) continue;
      if (g == but) {
        if (g->deadline_ < next) next = g->deadline_;  // for others
        continue;
      }
      const std::uint32_t before = g->ended_.load_relaxed();
      const bool was_ended = before != gate::not_ended;
      if (g->deadline_ <= now || g->id_ == also || was_ended) {
        const cause why = g->deadline_ <= now ? cause::deadline : cause::slow_reader;
        if (!was_ended) ++count;
        // If it was in a step: check again soon.
        if (!end(*g, was_ended ? static_cast<cause>(before) : why)) next = now;
      } else if (g->deadline_ < next) {
        next = g->deadline_;
      }
    }
    next_.store_relaxed(next);
    return count;
  }

  /// The oldest of the owners that have lived for `age` ticks, and of which this was not said for
  /// as long; never `but`.
  found slow(std::uint64_t age, const gate* but) noexcept {
    const std::lock_guard hold(lock_);
    const std::uint64_t now = ticks::read();
    gate* oldest = nullptr;
    for (gate* g = first_; g != nullptr; g = g->next_) {
      if (g == but || g->ended_.load_relaxed() != gate::not_ended || now - g->asked_ < age)
        continue;
      if (oldest == nullptr || g->start_ < oldest->start_) oldest = g;
    }
    if (oldest == nullptr) return {};
    oldest->asked_ = now;
    return {oldest->id_, oldest->timestamp_, oldest->label_->text(), now - oldest->start_,
            oldest->thread_};
  }

 private:
  /// Marks the owner as ended, and withdraws its announcement if it is in no step.
  static bool end(gate& g, cause why) noexcept {
    // release → the acquire in enter(); see there.
    g.ended_.store_release(static_cast<std::uint32_t>(why));
    // ↔ the light one in enter().
    if (!SPOLIA_FAULT("gate.no_heavy")) fence::heavy();
    // acquire ← the release in leave().
    if (!SPOLIA_FAULT("gate.not_asked") && g.inside_.load_acquire()) return false;
    g.ticket_->withdraw();
    return g.withdrawn_ = true;
  }

  spolia::detail::short_lock lock_;
  gate* first_ = nullptr;
  std::uint64_t ids_ = 0;
  atomic<std::uint64_t> next_{gate::never};
};

}  // namespace db
}  // namespace spolia::inline SPOLIA_FLAVOUR
