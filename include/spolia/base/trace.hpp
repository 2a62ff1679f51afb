// SPDX-License-Identifier: Apache-2.0
/// \file
/// What happened when: each thread keeps the newest of its events in a ring of its own, and write()
/// turns all rings into JSON lines from which the laboratory draws timelines.
///
///     trace::start({.capacity_per_thread = 1 << 16, .min_ns = 200});
///     ...
///     if (trace::on()) { const auto t = trace::ticks(); work();
///                        trace::record(trace::event::batch_freed, t, trace::ticks(), blocks); }
///     ...
///     trace::stop();
///     if (!trace::write(file)) std::perror("trace");
///
/// Thread safety: every function may be called by any thread at any time. record() by threads that
///   have already called on() may still add events for a moment after stop(). start(), stop() and
///   write() take turns by a mutex; record() and on() never wait for it. Not async-signal-safe.
/// Cost: off, one relaxed load. On, a few stores to the thread's own memory, and the reader's own
///   calls of ticks(). A thread's first event allocates its ring.
/// Progress: on, ticks and record are lock-free (record wait-free but for a thread's first event).
/// Memory: capacity_per_thread (rounded up to a power of two) times 24 bytes for each thread that
///   recorded something. Rings of threads that ended are kept until written, or until the next
///   start().
/// Errors: an event for whose ring there is no memory is dropped and counted, as is what a full
///   ring overwrites; write() reports both. Nothing but start() throws.
/// Fork: a child goes on with the forking thread's ring; lost threads' rings count as ended.
///
/// In the model build variant tracing is always off.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/ticks.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

enum class trace_event : std::uint8_t {
  batch_freed,        ///< a run of blocks went back to the allocator; count: blocks
  single_free,        ///< one block did; count: 1
  epoch_advanced,     ///< count: the new epoch
  grace_period,       ///< waited for readers; count: how many
  partition_dropped,  ///< a partition of versions went at one stroke; count: versions
  thread_joined,      ///< count: 0; recorded when the thread first uses the library
  thread_left,        ///< count: 0; recorded by the trace itself
  neutralized,        ///< a stalled reader was made to restart; count: 1
};

struct trace_options {
  std::size_t capacity_per_thread = std::size_t{1} << 14U;  ///< events; the newest are kept
  std::uint64_t min_ns = 0;  ///< single_free events shorter than this are not recorded
};

/// The number of the trace that is on; 0: none is.
extern SPOLIA_EXPORT constinit std::atomic<std::uint64_t> trace_session;

SPOLIA_EXPORT void trace_record(trace_event what, std::uint64_t start_ticks,
                                std::uint64_t end_ticks, std::uint64_t count) noexcept;
SPOLIA_EXPORT bool trace_start(const trace_options& how);
SPOLIA_EXPORT void trace_stop() noexcept;
SPOLIA_EXPORT bool trace_write(std::FILE* to) noexcept;
SPOLIA_EXPORT const char* trace_name(trace_event what) noexcept;

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace trace {

using event = core::trace_event;
using options = core::trace_options;

/// The event's name as written: "batch_freed" for event::batch_freed.
inline const char* name(event what) noexcept { return core::trace_name(what); }

/// Now, in ticks of unknown length; see ns_per_tick().
SPOLIA_ALWAYS_INLINE std::uint64_t ticks() noexcept { return ticks::read(); }

#if defined(SPOLIA_MODEL)

/// Time does not pass in the model, and nothing of it is recorded.
constexpr double ns_per_tick() noexcept { return 0; }
constexpr bool on() noexcept { return false; }
constexpr void record(event, std::uint64_t, std::uint64_t, std::uint64_t) noexcept {}

#else

/// Nanoseconds per tick. The first call in a process measures for two milliseconds.
inline double ns_per_tick() noexcept { return core::ns_per_tick(); }

/// Is a trace being recorded?
SPOLIA_ALWAYS_INLINE bool on() noexcept {
  return core::trace_session.load(std::memory_order_relaxed) != 0;
}

/// Adds an event that lasted from `start_ticks` to `end_ticks` to the calling thread's ring;
/// nothing if no trace is on. `count` below 2^56.
inline void record(event what, std::uint64_t start_ticks, std::uint64_t end_ticks,
                   std::uint64_t count) noexcept {
  if (on()) core::trace_record(what, start_ticks, end_ticks, count);
}

/// Begins a new trace; what the one before left unwritten is forgotten.
/// \return false, and nothing has changed, if a trace is on already
/// \throws std::invalid_argument if capacity_per_thread is 0 or above 2^32
inline bool start(const options& how = {}) { return core::trace_start(how); }

/// Ends the trace; what it recorded waits for write().
inline void stop() noexcept { core::trace_stop(); }

/// Writes the events recorded and not yet written, one JSON object a line, each thread's in order:
///     {"t_ns": 1200, "end_ns": 3400, "thread": 2, "event": "batch_freed", "count": 512}
/// Times are relative to start(). A thread whose ring overwrote events also gets a line with the
/// event "overwritten", and one line "dropped" tells of events that found no memory; both only with
/// "event", "count" and, for the first, "thread". May be called during a trace, to drain it.
/// \return false if the file could not be written: errno tells why, the events are kept and are
///         written again by the next call
inline bool write(std::FILE* to) noexcept { return core::trace_write(to); }

#endif

}  // namespace trace
}  // namespace spolia::inline SPOLIA_FLAVOUR
