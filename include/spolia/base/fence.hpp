// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fences that order a store before a later load (the one order that release and acquire do not
/// give), cheap on the side that runs often.
///
/// Specification. Let thread R (a reader) and thread W (a reclaimer) run
///
///     R: store X;  fence::light();  load Y          W: store Y;  fence::heavy();  load X
///
/// Then at least one of the two loads sees the other thread's store. More exactly, there is one
/// order in which every light and heavy fence of the program takes place, and for each pair of
/// fences of which AT LEAST ONE IS HEAVY: what happens before the earlier fence is seen by every
/// load that happens after the later one. Either outcome is fine for an algorithm:
///   light first:  W's scan sees what R announced, so W leaves R's memory alone;
///   heavy first:  R's next load sees what W unlinked, so R does not use it.
/// Two light fences are not ordered with each other, not even through a heavy fence that falls
/// between them, and a light fence is not ordered with full(). full() is
/// std::atomic_thread_fence(seq_cst); a heavy fence is also a full one.
///
/// None of this makes a happens-before edge that the race detector could see. Therefore the rule of
/// this library: a fence orders store -> load only, and every happens-before edge is carried by a
/// release store or RMW and an acquire load or RMW on one location.
///
/// Cost: light() is a load and a compiler barrier where the kernel has membarrier(2), else a full
/// fence (tens of cycles). heavy() is a system call of about 1 to 5 microseconds, else a full
/// fence. Set SPOLIA_MEMBARRIER=off in the environment to force the fallback. All are thread-safe,
/// async-signal-safe and never fail. A forked child inherits the parent's registration.
///
/// Sandboxes: membarrier may be denied from some time on (seccomp), and a process that was saved
/// and restored (CRIU) has lost its registration, which the next heavy() renews. Where the system
/// call is denied, light() stays as it is, since no thread that is inside of one could be told; and
/// heavy() runs on each processor that is in use instead (sched_setaffinity), which takes tens of
/// microseconds for each, and a time slice where that is busy. Then it puts the thread's affinity
/// back; processors that are named in it and are not in use just now are lost from it, and so is a
/// change that another thread makes meanwhile. Where sched_setaffinity is denied, too, or the
/// thread may not run on all processors that are in use (a cpuset), or /sys/devices/system/cpu does
/// not say which these are, heavy() waits for two milliseconds, by far more than any processor that
/// exists keeps a store to itself; that is no promise of an architecture. A program that knows its
/// sandbox beforehand sets SPOLIA_MEMBARRIER=off and needs none of this.
/// (Taking rights from a page, which interrupts all processors on many systems, is not used: newer
/// processors are told to forget it without being interrupted.)
#pragma once

#include <atomic>
#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#if defined(SPOLIA_MODEL)
#include <spolia/model/hooks.hpp>
#endif

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// True once light fences are mere compiler barriers. Constant from before main() on.
extern SPOLIA_EXPORT constinit std::atomic<bool> light_fence_is_free;

inline bool asymmetric() noexcept { return light_fence_is_free.load(std::memory_order_relaxed); }

/// A barrier in all threads of this process, if the kernel has one; and a full fence here.
SPOLIA_EXPORT void heavy_fence() noexcept;

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace fence {

/// A seq_cst thread fence. The race detector does not understand these (gcc says so, once for each)
/// and treats them as nothing: by the rule above that is harmless, and this is the only place.
SPOLIA_ALWAYS_INLINE void full() noexcept {
#if defined(SPOLIA_MODEL)
  model::fence_full();
#else
#if SPOLIA_TSAN && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#if SPOLIA_TSAN && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
}

/// The side that runs often.
SPOLIA_ALWAYS_INLINE void light() noexcept {
#if defined(SPOLIA_MODEL)
  model::fence_light();
#else
  if (core::asymmetric()) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    full();
  }
#endif
}

/// The side that runs seldom.
inline void heavy() noexcept {
#if defined(SPOLIA_MODEL)
  model::fence_heavy();
#else
  core::heavy_fence();
#endif
}

/// The compiler moves no access over it: what a thread does is stopped by a fork in this order.
SPOLIA_ALWAYS_INLINE void for_forks() noexcept {
#if !defined(SPOLIA_MODEL)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// Which side pays for the order, where it is not always the same side that runs often.
enum class cost : std::uint8_t {
  seldom,  ///< the side that runs seldom: light() on the side that runs often, heavy() on the other
  both     ///< each some tens of cycles: full() on both sides
};

SPOLIA_ALWAYS_INLINE void often(cost paid_by) noexcept { paid_by == cost::both ? full() : light(); }
inline void seldom(cost paid_by) noexcept { paid_by == cost::both ? full() : heavy(); }

/// often(paid_by), for code that calls it again and again and asks only once what the kernel has.
/// An object that is made before main() may be a full fence for good, which is right, too.
class frequent {
 public:
#if defined(SPOLIA_MODEL)
  explicit frequent(cost paid_by = cost::seldom) noexcept : paid_by_(paid_by) {}
  void operator()() const noexcept { often(paid_by_); }

 private:
  cost paid_by_;
#else
  explicit frequent(cost paid_by = cost::seldom) noexcept
      : full_(paid_by == cost::both || !core::asymmetric()) {}
  SPOLIA_ALWAYS_INLINE void operator()() const noexcept {
    if (full_) [[unlikely]]
      return full();
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }

 private:
  bool full_;
#endif
};

}  // namespace fence
}  // namespace spolia::inline SPOLIA_FLAVOUR
