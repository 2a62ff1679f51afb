// SPDX-License-Identifier: Apache-2.0
// lease.hpp: a snapshot for a limited time: when that is over it is ended, and a thread that
// goes on reading at it is told so by an exception of its own.
//
//     spolia::lease now(std::chrono::minutes(5), "report");
//     try {
//       table.for_each(now, [&](const auto& key, const auto& value) { ... });
//     } catch (const spolia::snapshot_expired&) {
//       // what came so far was of one instant; the rest cannot be read any more
//     }
//
// Idea:        an announcement that others may withdraw. So nothing that was read at it stays for
//              its sake: containers read at a lease under a guard, and give copies, or what the
//              guard protects. That is why it is another type than `snapshot`, which is never
//              ended.
// When it ends: at the first update of a container of its timeline after its time is over, or by
//              `time.leases().end_overdue()`. Not before its time; and if no thread updates,
//              nothing is held up that would go.
// Why nothing wrong is read. A reader takes a guard, looks whether the lease was ended, reads, and
//   looks again. The thread that ends it says so first, and then withdraws the announcement.
//   The first look: if the reader has not seen it said, then what the lease sees was not yet
//   retired when the guard began, and is not freed while it lives: it is like a pointer that is
//   read under a guard and taken away afterwards, with what is said in the place of the pointer.
//   The second look: lists are cut when the announcement is gone, and then a walk may miss what the
//   lease sees. A walk that met such a cut sees it said: the saying comes before the withdrawal,
//   that before the scan that no longer finds it, and that before the cut.
// Cost:        a reading: a load more than at a snapshot. An update: a load; with leases alive a
//              look at the processor's counter, too.
// Errors:      the constructor throws std::bad_alloc, and then nothing was announced. A lease that
//              was moved from is one whose time is over: reading at it throws snapshot_expired, and
//              is reported in the checked variant.
// Threads:     may be moved to another thread; belongs to one at a time.
// Progress:    a lock, held for a few stores, when a lease begins and ends.
// Fork:        in the child, leases of threads that were lost are ended later, like all others;
//              if the lock was held at that moment, those that there were are not ended by others.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/short_lock.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/ticks.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// What reading at a lease throws when its time is over.
class snapshot_expired : public std::runtime_error {
 public:
  explicit snapshot_expired(const char* label)
      : std::runtime_error(std::string("the time of a snapshot is over: ") + label) {}
  /// Of one without a label: the system's number of the thread that began it, 0 if it is not known.
  explicit snapshot_expired(long os_thread)
      : std::runtime_error("the time of a snapshot is over, which has no label" +
                           begun_by(os_thread)) {}

 private:
  static std::string begun_by(long os_thread) {
    if (os_thread == 0) return {};
    const std::string name = threads::os_name(os_thread);
    return " and was begun by the system's thread " + std::to_string(os_thread) +
           (name.empty() ? name : ", named " + name);
  }
};

/// The leases of a timeline.
class lease_board final : private threads::listener {
 public:
  /// The label of a lease that was given none.
  static constexpr char no_label[] = "lease";

  /// How one lease stands; for lease.
  struct entry {
    entry(const char* text, std::uint64_t until, long thread) noexcept
        : label(text), deadline(until), os_thread(thread) {}
    [[noreturn]] void say_expired() const {
      if (label == no_label) throw snapshot_expired(os_thread);
      throw snapshot_expired(label);
    }
    atomic<bool> ended{false};
    const char* const label;
    const std::uint64_t deadline;
    const long os_thread;  // the system's number of the thread that began it
    census::ticket ticket;
    plain<entry*> next{nullptr};
    plain<entry*> before{nullptr};
    plain<std::uint32_t> forgotten{0};  // how often the board had been, when this was put there
  };

  lease_board() noexcept { threads::listen(*this); }
  ~lease_board() { threads::unlisten(*this); }
  lease_board(const lease_board&) = delete;
  lease_board& operator=(const lease_board&) = delete;

  void put(entry& e) noexcept {
    const std::lock_guard here(lock_);
    e.forgotten.write(forgotten_.read());
    entry* const after = first_.read();
    e.next.write(after);
    if (after != nullptr) after->before.write(&e);
    first_.write(&e);
    next_.store_relaxed((std::min)(next_.load_relaxed(), e.deadline));
  }
  void take(entry& e) noexcept {
    const std::lock_guard here(lock_);
    // Else its neighbours may be half-written, and no longer there.
    if (e.forgotten.read() == forgotten_.read()) unlink(e);
    end(e);
  }

  /// Whether the time of a lease is over that was not ended.
  [[nodiscard]] bool due() const noexcept {
    const std::uint64_t next = next_.load_relaxed();
    return next != never && ticks::read() >= next;
  }
  /// Ends those whose time is over, and says how many.
  std::size_t end_overdue() noexcept {
    const std::lock_guard here(lock_);
    const std::uint64_t now = ticks::read();
    std::uint64_t next = never;
    std::size_t ended = 0;
    for (entry* e = first_.read(); e != nullptr; e = e->next.read()) {
      if (e->ended.load_relaxed()) continue;
      if (e->deadline > now) {
        next = (std::min)(next, e->deadline);
        continue;
      }
      end(*e);
      ++ended;
    }
    next_.store_relaxed(next);
    return ended;
  }

  static constexpr std::uint64_t never = (std::numeric_limits<std::uint64_t>::max)();

 private:
  /// Under the lock, as end().
  void unlink(entry& e) noexcept {
    entry* const after = e.next.read();
    entry* const before = e.before.read();
    if (after != nullptr) after->before.write(before);
    (before != nullptr ? before->next : first_).write(after);
  }
  static void end(entry& e) noexcept {
    if (SPOLIA_FAULT("lease.withdrawn_first")) e.ticket.withdraw();
    // release, and before the announcement goes: see "Why nothing is read". The withdrawal passes
    // it on to the thread that scans, and that one to the thread that frees.
    e.ended.store_release(true);
    e.ticket.withdraw();
  }

  void thread_left(std::uint32_t) noexcept override {}
  void thread_lost(std::uint32_t) noexcept override {}
  /// Any thread may have held the lock, also one without a number.
  void forked() noexcept override {
    if (!lock_.reset()) return;
    first_.write(nullptr);  // caught half-written: those are never ended
    forgotten_.write(forgotten_.read() + 1);
  }

  detail::short_lock lock_;
  plain<entry*> first_{nullptr};
  plain<std::uint32_t> forgotten_{0};  // by a fork
  atomic<std::uint64_t> next_{never};
};

class lease {
 public:
  /// The present instant of `time`, for so long. The label must live as long as the lease,
  /// and as accounts of that time are read.
  template <class Timeline>
    requires requires(Timeline& time, const char* label) { time.announce(label); }
  lease(Timeline& time, std::chrono::nanoseconds at_most, const char* label = lease_board::no_label)
      : time_(&time), board_(&time.leases()), entry_(made(label, after(at_most))) {
    try {
      entry_->ticket = time.announce(label);
    } catch (...) {
      end_entry();
      throw;
    }
    timestamp_ = entry_->ticket.timestamp();
    board_->put(*entry_);
  }
  /// The same of all structures that were given no timeline of their own.
  explicit lease(std::chrono::nanoseconds at_most, const char* label = lease_board::no_label);
  lease(lease&& from) noexcept
      : time_(from.time_),
        board_(from.board_),
        entry_(std::exchange(from.entry_, nullptr)),
        timestamp_(from.timestamp_) {}
  lease& operator=(lease&&) = delete;
  ~lease() {
    if (entry_ == nullptr) return;
    board_->take(*entry_);
    end_entry();
  }

  /// False if it was moved from.
  [[nodiscard]] explicit operator bool() const noexcept { return entry_ != nullptr; }
  /// True also of a lease that has been moved from.
  [[nodiscard]] bool expired() const noexcept {
    // acquire ← the release in end(), for a thread that looks without a guard and goes by it.
    return entry_ == nullptr || entry_->ended.load_acquire();
  }
  [[nodiscard]] std::uint64_t timestamp() const noexcept { return timestamp_; }
  template <class Timeline>
  [[nodiscard]] bool belongs_to(const Timeline& time) const noexcept {
    return entry_ != nullptr && time_ == &time;
  }

  /// For containers, before they ask anything of it: throws snapshot_expired if it was moved from,
  /// which the checked variant reports first.
  void expect_held() const {
    if (entry_ != nullptr) return;
    misuse::report("a lease that was moved from is read", threads::number());
    see_unexpired();
  }
  /// For containers: what read() gives, which has to be called under a guard, protects what it has
  /// read, and holds nothing but pointers. Throws snapshot_expired if the lease was ended before or
  /// meanwhile.
  template <class Read>
  auto look(Read&& read) const {
    if (!SPOLIA_FAULT("lease.no_first_look")) see_unexpired();
    const auto found = read();
    // The walk's loads are acquires, so this one comes after them.
    if (!SPOLIA_FAULT("lease.no_second_look")) see_unexpired();
    return found;
  }

 private:
  void see_unexpired() const {
    if (!expired()) [[likely]]
      return;
    if (entry_ == nullptr) throw snapshot_expired("moved");
    entry_->say_expired();
  }
  static lease_board::entry* made(const char* label, std::uint64_t until) {
    const long thread = threads::os_id_of(threads::number());
    return ::new (memory::allocate(sizeof(lease_board::entry), alignof(lease_board::entry)))
        lease_board::entry(label, until, thread);
  }
  static std::uint64_t after(std::chrono::nanoseconds at_most) noexcept {
#if defined(SPOLIA_MODEL)
    constexpr double ns_per_tick = 1;  // nothing waits there
#else
    const double ns_per_tick = core::ns_per_tick();
#endif
    const auto ns = static_cast<double>((std::max)(at_most, std::chrono::nanoseconds(0)).count());
    const std::uint64_t now = ticks::read();
    const double most = static_cast<double>((lease_board::never - now) / 2);
    return now + static_cast<std::uint64_t>((std::min)(ns / ns_per_tick, most));
  }
  void end_entry() noexcept {
    entry_->~entry();
    memory::deallocate(entry_, sizeof(lease_board::entry), alignof(lease_board::entry));
  }

  const void* time_;
  lease_board* board_;
  lease_board::entry* entry_;
  std::uint64_t timestamp_ = 0;
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
