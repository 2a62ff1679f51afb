// SPDX-License-Identifier: Apache-2.0
// snapshot.hpp: one instant of all structures that share a timeline, for as long as one likes.
//
//     const spolia::snapshot now;                             // of the process's own timeline
//     const spolia::snapshot now(time, "monthly report");     // or of another
//     table.at(session, now);  index.at(session, now);        // the same instant
//     std::thread([now = now.clone()] { ... });
//
// A snapshot is one announcement in the census and nothing else: it holds no guard, so it holds up
// only the versions that it can see, however long it lives. What it finds stays for as long as it
// lives, also while no guard does.
//
// Threads:     may be moved to another thread and end there. Clones share the announcement; it is
//              withdrawn when the last of them ends. One object belongs to one thread at a time.
//              Snapshots nest as one likes, and updates may be made while one is held.
// Errors:      the constructor throws std::bad_alloc, and then nothing was announced. clone() and
//              all else never fail.
// Cost:        an announcement (timeline.hpp) and a small block. clone(): a count.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/version/timeline.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

class snapshot {
 public:
  /// The present instant of `time`, which must outlive the snapshot. The label shows in the census;
  /// it must live as long as the snapshot (a string literal).
  template <class Timeline>
    requires requires(Timeline& time, const char* label) { time.announce(label); }
  explicit snapshot(Timeline& time, const char* label = nullptr)
      : shared_(::new(memory::allocate(sizeof(shared), alignof(shared))) shared(&time)) {
    try {
      shared_->ticket = time.announce(label == nullptr ? unnamed : label);
    } catch (...) {
      end(shared_);
      throw;
    }
  }
  /// The present instant of all structures that were given no timeline of their own.
  explicit snapshot(const char* label = nullptr) : snapshot(default_timeline(), label) {}
  snapshot(snapshot&& from) noexcept : shared_(std::exchange(from.shared_, nullptr)) {}
  snapshot& operator=(snapshot&& from) noexcept {
    if (this != &from) {
      withdraw();
      shared_ = std::exchange(from.shared_, nullptr);
    }
    return *this;
  }
  ~snapshot() { withdraw(); }

  /// The same instant, independently.
  ///
  /// A second announcement would not do: a scan might read its slot before it is there, and the
  /// first one's slot after that was withdrawn.
  [[nodiscard]] snapshot clone() const noexcept {
    if (shared_ != nullptr) shared_->holders.fetch_add_relaxed(1);
    return snapshot(shared_);
  }

  /// No instant at all, like one that was moved from.
  [[nodiscard]] static snapshot none() noexcept { return snapshot(static_cast<shared*>(nullptr)); }

  /// Ends the protection early.
  void withdraw() noexcept {
    shared* const mine = std::exchange(shared_, nullptr);
    if (mine == nullptr) return;
    // release → acquire: what each clone has read happens before the withdrawal. Without it a
    // version could be freed while a clone on another thread still reads it.
    const bool last = SPOLIA_FAULT("snapshot.relaxed_end")
                          ? mine->holders.fetch_sub_relaxed(1) == 1
                          : mine->holders.fetch_sub_acq_rel(1) == 1;
    if (last) end(mine);
  }

  /// False if it was moved from or withdrawn.
  [[nodiscard]] explicit operator bool() const noexcept { return shared_ != nullptr; }
  [[nodiscard]] std::uint64_t timestamp() const noexcept { return shared_->ticket.timestamp(); }
  /// Whether it is an instant of `time`.
  template <class Timeline>
  [[nodiscard]] bool belongs_to(const Timeline& time) const noexcept {
    return shared_ != nullptr && shared_->time == &time;
  }

 private:
  struct shared {
    explicit shared(const void* of) noexcept : time(of) {}
    const void* const time;
    census::ticket ticket;
    atomic<std::uint64_t> holders{1};
  };

  /// The census notes the time of those only that have a label.
  static constexpr const char* unnamed = "snapshot";

  explicit snapshot(shared* s) noexcept : shared_(s) {}

  static void end(shared* s) noexcept {
    s->~shared();
    memory::deallocate(s, sizeof(shared), alignof(shared));
  }

  shared* shared_;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
