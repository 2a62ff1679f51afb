// SPDX-License-Identifier: Apache-2.0
/// \file
/// Read-copy-update with the names and the meaning of C++26 [saferecl.rcu], in namespace spolia.
///
///     std::atomic<config*> current;
///
///     { std::scoped_lock region(spolia::rcu_default_domain());   // reader
///       use(*current.load(std::memory_order_acquire)); }
///
///     spolia::rcu_retire(current.exchange(fresh));               // writer; or
///     spolia::rcu_synchronize();                                 // waits for the readers;
///                                                                // delete it then
///
/// The default domain exists once in a process, in the compiled library.
///
/// Thread safety: everything may be called by any thread at any time, without registration, but
/// rcu_synchronize and rcu_barrier not inside of a region of their domain, where they would wait
/// for themselves, and rcu_barrier not in a deleter (checked build: reported). A region is closed
/// by the thread that opened it. Errors: a domain's constructor and rcu_retire may throw
/// std::bad_alloc; then nothing has happened. Nothing else fails or allocates for its result.
/// Deleters must not throw. When: deleters run in unlock, in retire and in rcu_barrier, of any
/// thread, a few at a time; never in lock and in rcu_synchronize. Do not hold a lock there that a
/// deleter takes. Waiting: rcu_synchronize takes one grace period, rcu_barrier two, or four where
/// other threads call it at the same time, and the deleters; however short the time between two
/// regions of a thread is. A grace period: until all regions open at its beginning are closed.
/// Bound: none while a region stays open. Copying: an rcu_obj_base with a trivially
/// copyable D is trivially copyable, as the standard says, so copying a whole object while another
/// thread may retire it is a data race. Copy its members. Unloading: the code of a deleter must
/// stay: call rcu_barrier before a plugin goes.
///
/// Extensions: own rcu_domain objects; rcu_synchronize_for; rcu_garbage; rcu_garbage_bytes. The
/// scheme behind it: src/reclaim/regions.hpp.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/base/weight.hpp>
#include <spolia/reclaim/detail/face_base.hpp>
#include <spolia/reclaim/detail/place.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// Regions of RCU protection: Lockable, nestable, one count for each thread and domain.
class SPOLIA_EXPORT rcu_domain {
 public:
  /// Extension: a domain of your own.
  rcu_domain();
  rcu_domain(const rcu_domain&) = delete;
  rcu_domain& operator=(const rcu_domain&) = delete;
  /// Ends everything that was retired. No region may be open.
  ~rcu_domain();

  /// Opens a region.
  void lock() noexcept;
  bool try_lock() noexcept {
    lock();
    return true;
  }
  /// Closes the innermost region of this thread.
  void unlock() noexcept;

 private:
  friend class rcu_access;
  explicit rcu_domain(void* home) noexcept : home_(home) {}

  void* const home_;
};

using rcu_deadline = std::chrono::steady_clock::time_point;

SPOLIA_EXPORT rcu_domain& process_rcu_domain() noexcept;
/// `bytes`: what the object takes, with what it owns.
SPOLIA_EXPORT void retire_by_rcu(place&, rcu_domain&, std::size_t bytes) noexcept;
/// Until `*deadline`, if there is one; false if that came first.
SPOLIA_EXPORT bool wait_for_rcu_readers(rcu_domain&, const rcu_deadline* deadline) noexcept;
/// False if the caller would wait for itself.
SPOLIA_EXPORT bool rcu_barrier_of(rcu_domain&) noexcept;
/// Is the calling thread inside of a region?
SPOLIA_EXPORT bool inside_rcu_region(rcu_domain&) noexcept;
SPOLIA_EXPORT std::uint64_t rcu_garbage_of(rcu_domain&) noexcept;
SPOLIA_EXPORT std::uint64_t rcu_garbage_bytes_of(rcu_domain&) noexcept;

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {

using core::rcu_domain;

/// The one domain that the standard knows.
[[nodiscard]] inline rcu_domain& rcu_default_domain() noexcept {
  return core::process_rcu_domain();
}

template <class T, class D = std::default_delete<T>>
class rcu_obj_base;

/// T has exactly one base rcu_obj_base<T, D>, which is public and not virtual, and no other
/// specialization of it.
template <class T>
concept rcu_protectable = detail::reclaim::has_base_of_its_own<rcu_obj_base, T>;

/// The base of what is retired without allocating. T may be incomplete until a member is used.
template <class T, class D>
class rcu_obj_base {
 public:
  /// Calls d(x) for this object x once every region of `dom` that is open now is closed. At most
  /// once per object.
  void retire(D d = D(), rcu_domain& dom = rcu_default_domain()) noexcept {
    static_assert(rcu_protectable<T>,
                  "T must have one public, non-virtual base rcu_obj_base<T, D>");
    T* const self = static_cast<T*>(this);
    if (!detail::reclaim::prepare<rcu_obj_base>(spolia_place_, self)) return;
    spolia_deleter_ = std::move(d);
    core::retire_by_rcu(spolia_place_, dom, detail::weighing::of_whole(*self));
  }

 protected:
  rcu_obj_base() = default;
  rcu_obj_base(const rcu_obj_base&) = default;
  rcu_obj_base(rcu_obj_base&&) = default;
  rcu_obj_base& operator=(const rcu_obj_base&) = default;
  rcu_obj_base& operator=(rcu_obj_base&&) = default;
  ~rcu_obj_base() = default;

 private:
  friend struct detail::reclaim::endings;

  // A long name, so that it hides none in classes that derive from this.
  core::place spolia_place_;
  [[no_unique_address]] D spolia_deleter_;
};

namespace detail {

/// What stands in for an object without the base.
template <class T, class D>
struct rcu_record : core::place {
  rcu_record(T* p, D&& d) : of(p), deleter(std::move(d)) {
    object = const_cast<const std::remove_volatile_t<T>*>(p);
    end = [](core::place* where) noexcept {
      auto* const self = static_cast<rcu_record*>(where);
      self->deleter(self->of);
      delete self;
    };
  }
  T* of;
  [[no_unique_address]] D deleter;
};

}  // namespace detail

/// Calls d(p) once every region of `dom` that is open now is closed. Throws std::bad_alloc, or what
/// moving the deleter throws; then p is still the caller's.
template <class T, class D = std::default_delete<T>>
void rcu_retire(T* p, D d = D(), rcu_domain& dom = rcu_default_domain()) {
  static_assert(std::move_constructible<D> && std::destructible<D> && std::invocable<D&, T*>,
                "rcu_retire: D must be movable, and d(p) must be valid");
  std::size_t bytes = sizeof(detail::rcu_record<T, D>);
  if constexpr (requires { sizeof(T); }) {
    if (p != nullptr) bytes += detail::weighing::of_whole(*p);
  }
  core::retire_by_rcu(*new detail::rcu_record<T, D>(p, std::move(d)), dom, bytes);
}

namespace detail {

/// Inside of a region, waiting for all regions never ends.
inline bool may_wait(rcu_domain& dom, const char* what) noexcept {
  if (!SPOLIA_CHECKS || !core::inside_rcu_region(dom)) return true;
  misuse::report(what, threads::number());
  return false;
}

}  // namespace detail

/// Returns when every region of `dom` that was open when it was called is closed.
inline void rcu_synchronize(rcu_domain& dom = rcu_default_domain()) noexcept {
  if (detail::may_wait(dom, "rcu_synchronize inside of a region waits for itself")) {
    core::wait_for_rcu_readers(dom, nullptr);
  }
}

/// Extension: the same, for a limited time. True if all those regions are closed.
template <class Rep, class Period>
[[nodiscard]] bool rcu_synchronize_for(std::chrono::duration<Rep, Period> most,
                                       rcu_domain& dom = rcu_default_domain()) noexcept {
  if (!detail::may_wait(dom, "rcu_synchronize_for inside of a region waits for itself")) {
    return false;
  }
  // In floating point no duration overflows, and one that is no number is not above zero.
  const std::chrono::duration<double> seconds = most;
  // The clock ends in some 290 years: a caller that wants to wait for one hundred gets no deadline.
  constexpr std::chrono::duration<double> endless = std::chrono::hours(100 * 365 * 24);
  if (seconds > endless) return core::wait_for_rcu_readers(dom, nullptr);
  auto deadline = std::chrono::steady_clock::now();
  if (seconds > seconds.zero()) {
    deadline += std::chrono::duration_cast<std::chrono::nanoseconds>(most);
  }
  return core::wait_for_rcu_readers(dom, &deadline);
}

/// Returns when the deleters of everything that was retired into `dom` before the call have run.
inline void rcu_barrier(rcu_domain& dom = rcu_default_domain()) noexcept {
  if (!core::rcu_barrier_of(dom)) {
    misuse::report("rcu_barrier inside of a region or a deleter waits for itself",
                   threads::number());
  }
}

/// Extension: objects that are retired and not yet reclaimed; approximate while others work.
inline std::uint64_t rcu_garbage(rcu_domain& dom = rcu_default_domain()) noexcept {
  return core::rcu_garbage_of(dom);
}
/// Extension: what these take, with what they own (base/weight.hpp).
inline std::uint64_t rcu_garbage_bytes(rcu_domain& dom = rcu_default_domain()) noexcept {
  return core::rcu_garbage_bytes_of(dom);
}

}  // namespace spolia::inline SPOLIA_FLAVOUR
