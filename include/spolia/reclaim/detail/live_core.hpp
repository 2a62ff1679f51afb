// SPDX-License-Identifier: Apache-2.0
// live_core.hpp: the part of live.hpp that does not depend on the type of the value.
//
// Idea:        a reader names the value in a slot of its thread, and then checks again whether it
//              is the current one. A change puts the new value in, and issues a heavy fence. Then
//              it ends the old value, or puts it on a list if a slot names it. A reader that has
//              cleared its slot checks whether the value that it held is still the current one. If
//              not, either the change has found the slot clear, or the value is on the list, or is
//              about to be. So the reader goes over the list, or asks the thread that does so to do
//              it once more. Therefore no value ever waits that no slot names.
// Source:      Michael: Hazard Pointers, IEEE TPDS 15(6), 2004, with the asymmetric fence of later
//              practice. Paper and practice scan when enough has been retired; here the last reader
//              of a value knows, by one load, that it may be the last.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <system_error>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/detail/change_calls.hpp>
#include <spolia/reclaim/detail/reading_slots.hpp>
#include <spolia/reclaim/detail/turns.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

class live_core {
 public:
  struct node {
    plain<node*> next{nullptr};  // on the list
    std::uint64_t version = 0;
    std::int64_t replaced_ns = 0;
  };
  using end_of_node = void (*)(node*) noexcept;

  struct hold {
    const live_core* of = nullptr;
    reading_row::slot* slot = nullptr;  // null: it holds nothing
    const node* value = nullptr;
  };

  live_core(const live_core&) = delete;
  live_core& operator=(const live_core&) = delete;

 protected:
  live_core(end_of_node end, node* first) noexcept : current_(first), end_(end) {
    first->version = 1;
  }
  ~live_core();

  /// Throws std::bad_alloc.
  SPOLIA_ALWAYS_INLINE hold begin_reading() const {
    reading_row::slot& mine = my_row().take();
    const node* const seen = current_.load_relaxed();
    name(mine, seen);
    // acquire ← the release in put_in(): we see the value whole.
    const node* again = current_.load_acquire();
    if (again != seen && !SPOLIA_FAULT("live.no_validate")) [[unlikely]]
      again = read_in(mine, again);
    return {this, &mine, SPOLIA_FAULT("live.no_validate") ? seen : again};
  }

  /// The same in a slot that is taken already, whatever it names. `seen` is most likely current.
  const node* read_in(reading_row::slot& mine, const node* seen) const noexcept;

  SPOLIA_ALWAYS_INLINE static void end_reading(const hold& h) noexcept {
    reading_row::clear(*h.slot);
    // light → the heavy fence in retire(): either that thread finds the slot clear, or our check
    // finds the value replaced.
    if (!SPOLIA_FAULT("live.end_without_light")) fence::light();
    if (h.of->current_.load_relaxed() != h.value) [[unlikely]]
      h.of->end_what_is_unread();
  }

  /// While such an object lives, only its thread may change the value. The replaced value ends
  /// afterwards.
  class change {
   public:
    /// Throws std::bad_alloc, and std::system_error if the thread is changing the value already.
    explicit change(live_core& of) : of_(of) {
      of.copy_.expect_own(whole);
      const std::uint64_t self = threads::identity();
      if (of.turn_.is(self)) {
        throw std::system_error(
            std::make_error_code(std::errc::resource_deadlock_would_occur),
            "spolia: a live value is changed in the function of its own update()");
      }
      of.turn_.enter(self);
    }
    ~change() {
      of_.turn_.leave();
      if (replaced_ != nullptr) of_.retire(replaced_);
    }
    change(const change&) = delete;
    change& operator=(const change&) = delete;

    const node* current() const noexcept { return of_.current_.load_relaxed(); }
    std::uint64_t put_in(node* fresh) noexcept {
      replaced_ = of_.current_.load_relaxed();
      const std::uint64_t version = replaced_->version + 1;
      fresh->version = version;
      // release → the acquires in begin_reading() and read_in(): readers see the value whole.
      SPOLIA_FAULT("live.put_in_relaxed") ? of_.current_.store_relaxed(fresh)
                                          : of_.current_.store_release(fresh);
      return version;
    }

   private:
    live_core& of_;
    node* replaced_ = nullptr;
  };

  change_calls& calls() noexcept { return calls_; }

  /// Calls the functions after a change, unless another thread is calling them.
  class telling {
   public:
    /// To be made before the change. Throws std::bad_alloc.
    explicit telling(live_core& of) : of_(of) {
      if (of.calls_.empty()) return;
      self_ = threads::identity();
      hold_ = of.begin_reading();
    }
    ~telling() {
      if (hold_.slot != nullptr) end_reading(hold_);
    }
    telling(const telling&) = delete;
    telling& operator=(const telling&) = delete;

    /// After the change: calls the functions with the value to which value_of(node) points. Throws
    /// what one of them has thrown.
    template <class ValueOf>
    void tell(ValueOf value_of);

   private:
    live_core& of_;
    std::uint64_t self_ = 0;
    hold hold_;
  };

  [[nodiscard]] std::uint64_t waiting() const noexcept {
    const std::uint64_t self = threads::passing_identity();
    if (counted_in_.value() != process_of(self)) [[unlikely]]
      end_what_is_unread(work_.wait_and_begin(self), self);
    return waiting_count_.load_relaxed();
  }

  /// Calls f(node, since when it is replaced, thread, os_thread) for each reading of a node that
  /// waits. f may throw.
  template <class F>
  void each_old_reading(F&& f) const;

 private:
#if defined(SPOLIA_MODEL)
  reading_row& my_row() const { return own_slots_.of(threads::number()); }
  reading_slots& all_slots() const noexcept { return own_slots_; }
#else
  SPOLIA_ALWAYS_INLINE reading_row& my_row() const {
    void* const mine = core::here.readings;
    if (mine != nullptr) [[likely]]
      return *static_cast<reading_row*>(mine);
    return join();
  }
  reading_row& join() const;
  static reading_slots& all_slots() noexcept {
    return *static_cast<reading_slots*>(core::all_readings());
  }
#endif

  /// Names a value in a slot, and orders that before the check that follows.
  static void name(reading_row::slot& mine, const node* value) noexcept {
    // release → the acquires in reading_slots: what we did with the value that the slot named
    // before happens before that value ends.
    SPOLIA_FAULT("live.name_relaxed") ? mine.store_relaxed(value) : mine.store_release(value);
    // light → the heavy fence in retire(): either that thread finds the name, or our check finds
    // the value replaced.
    if (!SPOLIA_FAULT("live.name_without_light")) fence::light();
  }

  static constexpr const char* whole = "a live value";

  static std::int64_t now_ns() noexcept {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }

  void retire(node* replaced) noexcept;
  void end_what_is_unread() const noexcept;
  void end_what_is_unread(shared_work::begun how, std::uint64_t self) const noexcept;
  node* take_unread() const noexcept;
  void begin_after(shared_work::begun how, std::uint64_t self) const noexcept;
  /// How many forks came before the process of the thread with that identity.
  static std::uint32_t process_of(std::uint64_t identity) noexcept {
    return static_cast<std::uint32_t>(identity >> 32U);
  }

  atomic<node*> current_;
  const end_of_node end_;
  const misuse::copy_of_the_library copy_{};
  turn turn_;
  mutable shared_work work_;
  mutable plain<node*> waiting_{nullptr};  // unordered; for the thread that does the work
  mutable atomic<std::uint64_t> waiting_count_{0};
  mutable latest<std::uint32_t> counted_in_;  // the process; set by the thread that does the work
  shared_work tellers_;
  std::uint64_t told_ = 1;  // the last version that was told of; for the thread that tells
  change_calls calls_;
#if defined(SPOLIA_MODEL)
  mutable reading_slots own_slots_;  // an execution's own
#endif
};

#if !defined(SPOLIA_MODEL)
inline reading_row& live_core::join() const {
  copy_.expect_own(whole);
  reading_row& mine = all_slots().of(threads::number());
  mine.os_thread.set(threads::os_id());
  core::here.readings = &mine;
  return mine;
}
#endif

inline const live_core::node* live_core::read_in(reading_row::slot& mine,
                                                 const node* seen) const noexcept {
  for (;;) {
    name(mine, seen);
    // acquire ← the release in put_in(): we see the value whole.
    const node* const again = current_.load_acquire();
    if (again == seen) break;
    seen = again;
  }
  // The value that the slot named before may have been found named there, and put on the list; now
  // no slot names it.
  if (!SPOLIA_FAULT("live.keeps_missed")) end_what_is_unread();
  return seen;
}

/// Ends a replaced value, or puts it on the list.
inline void live_core::retire(node* replaced) noexcept {
  const std::uint64_t self = threads::passing_identity();
  const auto how = work_.wait_and_begin(self);
  begin_after(how, self);
  replaced->replaced_ns = now_ns();
  replaced->next.write(waiting_.read());
  waiting_.write(replaced);
  waiting_count_.fetch_add_relaxed(1);
  // heavy → the light fences in name() and end_reading(), see there. For values that came onto the
  // list earlier, the fence of that time is enough: no reader begins to hold such a value, and a
  // reader that ceases to hold one needs no heavy fence.
  if (!SPOLIA_FAULT("live.no_heavy")) fence::heavy();
  end_what_is_unread(shared_work::begun::yes, self);
}

inline void live_core::end_what_is_unread() const noexcept {
  copy_.expect_own(whole);  // join() does not check it for a thread that has read other values
  const std::uint64_t self = threads::passing_identity();
  const auto how = work_.begin_or_ask(self);
  if (how != shared_work::begun::left_to_another) end_what_is_unread(how, self);
}

/// For the thread that has begun the work.
inline void live_core::end_what_is_unread(shared_work::begun how,
                                          std::uint64_t self) const noexcept {
  begin_after(how, self);
  node* unread = nullptr;
  do {
    node* const more = take_unread();
    if (more == nullptr) continue;
    node* last = more;
    while (last->next.read() != nullptr) last = last->next.read();
    last->next.write(unread);
    unread = more;
  } while (!work_.end(self));
  while (unread != nullptr) {  // last: destructors may change this live value, and come back here
    node* const gone = unread;
    unread = gone->next.read();
    end_(gone);
    // A destructor may have forked: the values that this thread ends are not counted in the child.
    if (process_of(threads::passing_identity()) == process_of(self)) {
      waiting_count_.fetch_sub_relaxed(1);
    }
  }
}

/// Makes the list usable after a fork. A thread that was lost may have left it half-written: then
/// it is given up. The values that such a thread was just ending were counted as waiting: so each
/// process counts the list anew.
inline void live_core::begin_after(shared_work::begun how, std::uint64_t self) const noexcept {
  if (how == shared_work::begun::after_a_lost_thread) waiting_.write(nullptr);
  if (counted_in_.value() == process_of(self)) [[likely]]
    return;
  std::uint64_t listed = 0;
  for (const node* n = waiting_.read(); n != nullptr; n = n->next.read()) ++listed;
  waiting_count_.store_relaxed(listed);
  counted_in_.set(process_of(self));
}

/// Takes those values from the list that no slot names.
inline live_core::node* live_core::take_unread() const noexcept {
  node* unread = waiting_.read();
  if (unread == nullptr) return nullptr;
  node* kept = nullptr;
  all_slots().names([&](std::span<const void*> names) {
    std::sort(names.begin(), names.end(), std::less<>{});
    node* rest = nullptr;
    for (node* at = std::exchange(unread, nullptr); at != nullptr;) {
      node* const next = at->next.read();
      const bool named = std::binary_search(names.begin(), names.end(),
                                            static_cast<const void*>(at), std::less<>{});
      node*& list = named ? kept : rest;
      at->next.write(list);
      list = at;
      at = next;
    }
    unread = rest;
  });
  waiting_.write(kept);
  return unread;
}

inline live_core::~live_core() {
  if (!calls_.empty()) {
    misuse::report(
        "a live value ended before a watch of it, which would call into it when it ends itself: "
        "end the watches first, as where they are declared after the value",
        0);
  }
  node* unread = current_.load_relaxed();
  unread->next.write(waiting_.read());
#if SPOLIA_CHECKS
  waiting_.write(unread);
  unread = take_unread();
  if (waiting_.read() != nullptr) {
    misuse::report(
        "a live value ended while a reading of it was alive, which holds what has ended now: end "
        "readings before the value; what must outlive it is copied (copy())",
        0);
  }
#endif
  while (unread != nullptr) {
    node* const gone = unread;
    unread = gone->next.read();
    end_(gone);
  }
}

template <class ValueOf>
void live_core::telling::tell(ValueOf value_of) {
  using begun = shared_work::begun;
  if (hold_.slot == nullptr || of_.tellers_.begin_or_ask(self_) == begun::left_to_another) return;
  // A function may end this thread. Then changes that other threads have made meanwhile are told of
  // at the next change.
  struct at_work {
    shared_work& of;
    std::uint64_t self;
    bool over = false;
    ~at_work() {
      while (!over) over = of.end(self);
    }
  } here{of_.tellers_, self_};
  std::exception_ptr thrown;
  do {
    hold_.value = of_.read_in(*hold_.slot, of_.current_.load_relaxed());
    if (hold_.value->version > of_.told_) {
      of_.told_ = hold_.value->version;
      const auto first = of_.calls_.call_all(value_of(hold_.value), of_.told_, self_);
      if (!thrown) thrown = first;
    }
    here.over = of_.tellers_.end(self_);
  } while (!here.over);
  if (thrown) std::rethrow_exception(thrown);
}

template <class F>
void live_core::each_old_reading(F&& f) const {
  const std::uint64_t self = threads::passing_identity();
  begin_after(work_.wait_and_begin(self), self);
  struct at_end {
    ~at_end() { of.end_what_is_unread(shared_work::begun::yes, self); }
    const live_core& of;
    std::uint64_t self;
  } const end{*this, self};
  const std::int64_t now = now_ns();
  for (const node* n = waiting_.read(); n != nullptr; n = n->next.read()) {
    all_slots().each([&](std::uint32_t thread, const reading_row& row, const void* name) {
      const std::chrono::nanoseconds ago(std::max<std::int64_t>(now - n->replaced_ns, 0));
      if (name == n) f(*n, ago, thread, row.os_thread.value());
    });
  }
}

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
