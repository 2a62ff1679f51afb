// SPDX-License-Identifier: Apache-2.0
// home.hpp: the process's one collector, which lives in the compiled library and is never
// destroyed: pointers may be used in destructors of static and of thread-local objects.
//
// In the model build variant each scenario brings a collector of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include <spolia/base/backoff.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/export.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/counted/detail/collector.hpp>
#include <spolia/counted/detail/pool.hpp>

namespace spolia::core::inline SPOLIA_OF_VERSION {

/// What the library does for pointers of every build variant. Members and blocks have the same
/// layout in the native and the checked one.
#if !defined(SPOLIA_MODEL)
extern SPOLIA_EXPORT constinit thread_local void* counted_member SPOLIA_TLS_MODEL;

/// Where the member's first pins are, if light fences are free; else one that is always in use.
/// Each of them is one load.
extern SPOLIA_EXPORT constinit thread_local std::array<void*, 4> counted_firsts SPOLIA_TLS_MODEL;

SPOLIA_EXPORT void* join_counted();  ///< throws std::bad_alloc
SPOLIA_EXPORT void help_counted(void* member) noexcept;
SPOLIA_EXPORT void look_at_counted_time(void* member) noexcept;
SPOLIA_EXPORT void fill_counted_cache(void* member, std::uintptr_t entry,
                                      std::uintptr_t word) noexcept;
SPOLIA_EXPORT void spill_counted_cache(void* member) noexcept;
SPOLIA_EXPORT void end_counted_location(std::uintptr_t entry, std::size_t bytes) noexcept;
SPOLIA_EXPORT void end_counted_object(std::uintptr_t entry) noexcept;
SPOLIA_EXPORT void end_what_was_put_off(void* member) noexcept;
SPOLIA_EXPORT bool drain_counted() noexcept;
/// A private pointer of the first thread is used by the second one, which calls.
SPOLIA_EXPORT void report_private_pointer(std::uint32_t owner, std::uint32_t user) noexcept;
struct counted_figures {
  std::uint64_t logged, dropped, doomed, ended, epochs, pins, scan_ticks, sweep_ticks, end_ticks;
};
SPOLIA_EXPORT void time_counted(bool wanted) noexcept;
SPOLIA_EXPORT counted_figures figures_of_counted() noexcept;
/// Of the blocks and heads that pins name; they need not be alive. Throws std::bad_alloc.
SPOLIA_EXPORT std::vector<std::uintptr_t> names_of_counted_pins();
/// Blocks until changed(about) returns true; looks again after each call of wake_counted(about).
SPOLIA_EXPORT void wait_counted(const void* about, bool (*changed)(const void*),
                                const void* argument);
SPOLIA_EXPORT void wake_counted(const void* about) noexcept;
#endif

}  // namespace spolia::core::inline SPOLIA_OF_VERSION

namespace spolia::inline SPOLIA_FLAVOUR {
namespace counted::detail {

#if defined(SPOLIA_MODEL)

/// The scenario's.
inline collector* scenario_collector = nullptr;

inline void forget_this_thread() noexcept {}
inline member& here() { return scenario_collector->here(); }
inline member& known_here() { return here(); }
inline bool is_here(const member& me) { return &here() == &me; }
inline pin* own_first_pin(std::uint32_t i) { return &here().pins.firsts(threads::number())[i]; }
inline void help(member& me) noexcept { scenario_collector->help(me); }
inline void look_at_time(member& me) noexcept { scenario_collector->look(me); }
inline void fill_count_cache(member& me, const cached_units& p) {
  scenario_collector->fill_count_cache(me, p);
}
inline void spill_count_cache(member& me) noexcept { scenario_collector->spill(me); }
template <class Units>
void end_of_location(word w) noexcept {
  scenario_collector->end_of_location(&here(), Units::unit(w), Units::bytes(w));
}
template <class Block>
void object_ends(Block* b) noexcept {
  scenario_collector->object_ends(&here(), entry_of(b, task::end_object));
}
template <class Changed>
void wait_for(const void*, const Changed& changed) {
  while (!changed()) spin_wait();
}
inline void wake(const void*) noexcept {}

#else

/// The calling thread's. Throws std::bad_alloc on a thread's first call only.
SPOLIA_ALWAYS_INLINE member& here() {
  void* const known = core::counted_member;
  if (known != nullptr) [[likely]]
    return *static_cast<member*>(known);
  return *static_cast<member*>(core::join_counted());
}
/// Of a thread that has used the collector before.
SPOLIA_ALWAYS_INLINE member& known_here() noexcept {
  return *static_cast<member*>(core::counted_member);
}
SPOLIA_ALWAYS_INLINE bool is_here(const member& me) noexcept { return core::counted_member == &me; }
/// In use if the thread has none yet, or light fences are not free.
SPOLIA_ALWAYS_INLINE pin* own_first_pin(std::uint32_t i) noexcept {
  return static_cast<pin*>(core::counted_firsts[i]);
}
inline void help(member& me) noexcept { core::help_counted(&me); }
inline void look_at_time(member& me) noexcept { core::look_at_counted_time(&me); }
inline void fill_count_cache(member& me, const cached_units& p) {
  core::fill_counted_cache(&me, p.what, p.at);
}
inline void spill_count_cache(member& me) noexcept { core::spill_counted_cache(&me); }
/// A location of such units ends, and had w. What its object weighs stands with the counts, and is
/// asked for only where it matters: a helper that ends many locations does not wait for each.
template <class Units>
SPOLIA_ALWAYS_INLINE void end_of_location(word w) noexcept {
  bool helping = false;
  if (void* const known = core::counted_member; known != nullptr) [[likely]] {
    member& me = *static_cast<member*>(known);
    helping = me.helping;
    if (!helping && me.log.has_room()) [[likely]] {
      if (collector::log(me, Units::unit(w), Units::bytes(w))) help(me);
      return;
    }
    if (helping && me.work.push_into_chunk(Units::unit(w))) [[likely]] {
      me.unlogged.add();
      return;
    }
  }
  core::end_counted_location(Units::unit(w), helping ? 0 : Units::bytes(w));
}
inline bool ends_silently(control* c) noexcept {
  const bool silent = c->ops().silent;
  if (silent) drop_weak(c);
  return silent;
}
inline bool ends_silently(head* h) noexcept {
  const bool silent = h->ops().silent;
  if (silent) end_object(h);
  return silent;
}
template <class Block>
void object_ends(Block* b) noexcept {
  if (ends_silently(b)) return;
  void* const known = core::counted_member;
  if (known == nullptr || !destruction_queue::ends_shortly(*static_cast<member*>(known), b)) {
    core::end_counted_object(entry_of(b, task::end_object));
  } else if (destruction_queue::put_off(*static_cast<member*>(known))) {
    core::end_what_was_put_off(known);
  }
}

template <class Changed>
void wait_for(const void* about, const Changed& changed) {
  core::wait_counted(
      about, [](const void* f) { return (*static_cast<const Changed*>(f))(); }, &changed);
}
inline void wake(const void* about) noexcept { core::wake_counted(about); }

#endif

/// The first walk's.
SPOLIA_ALWAYS_INLINE pin* walker() { return own_first_pin(0); }
/// Those of private pointers.
SPOLIA_ALWAYS_INLINE pin* first_private(std::uint32_t i) { return own_first_pin(i + 1); }

/// As take_from_count_cache, where its units have gone out: now and then it looks at the clock, and
/// destructors may run.
SPOLIA_NOINLINE inline bool take_last_of_count_cache(member& me, std::uint32_t units) noexcept {
  const bool taken = me.cache.take_last(units);
  if (me.cache.is_time_to_look(me.reading.each)) look_at_time(me);
  if (me.cache.is_shut() || me.reads_seldom) spill_count_cache(me);
  return taken;
}
/// A unit of the object that the word leads to, if the calling thread has some of it at hand.
SPOLIA_ALWAYS_INLINE bool take_from_count_cache(member& me, word w) {
  if (w != own_count_cache().at &&
      !(SPOLIA_FAULT("counted.cache_any_word") && own_count_cache().at != no_word))
    return false;
  const std::uint32_t units = me.cache.seen();
  if (count_cache::is_low(units)) [[unlikely]]
    return take_last_of_count_cache(me, units);
  const bool taken = me.cache.take(units);
  if (me.cache.is_shut()) [[unlikely]]
    spill_count_cache(me);
  return taken;
}

/// The cache is shut; of its object are n units more.
template <class Block>
SPOLIA_NOINLINE bool empty_count_cache(Block* b, std::uint32_t n) noexcept {
  n += here().cache.empty().n;
  if (n != 0 && drop_units(entry_of(b, task::drop_strong), n)) object_ends(b);
  return true;
}
template <class Block>
SPOLIA_NOINLINE bool back_to_full_count_cache(member& me, Block* b, std::uint32_t units) noexcept {
  const bool back = me.cache.put_into_full(units);
  return (back && !me.cache.is_shut()) || empty_count_cache(b, back ? 0 : 1);
}
/// Drops the unit of a plain pointer to what was in the count cache when the thread last looked.
template <class Block>
SPOLIA_NOINLINE bool back_to_count_cache(Block* b) noexcept {
  member& me = known_here();
  const std::uint32_t units = me.cache.seen();
  if (count_cache::is_full(units)) [[unlikely]]
    return back_to_full_count_cache(me, b, units);
  const bool back = me.cache.put(units);
  if (!back || me.cache.is_shut()) [[unlikely]]
    return empty_count_cache(b, back ? 0 : 1);
  return true;
}
template <class Block>
SPOLIA_ALWAYS_INLINE bool drops_into_count_cache(Block* b) noexcept {
  return entry_of(b, task::drop_strong) == own_count_cache().what && back_to_count_cache(b);
}

/// Drops the unit of a plain pointer.
inline void release(control* c) noexcept {
  if (c->drop_strong(1, [c] { return drops_into_count_cache(c); })) object_ends(c);
}

inline void release(head* h) noexcept {
  if (h->drop(1, [h] { return drops_into_count_cache(h); })) object_ends(h);
}

/// A unit that a location gave up, while the location goes on. Room was reserved in me.log.
SPOLIA_ALWAYS_INLINE void defer(member& me, entry e, std::size_t bytes) noexcept {
  if (collector::log(me, e, bytes)) [[unlikely]]
    help(me);
}

}  // namespace counted::detail

namespace counted {

using detail::collector_counts;

/// Ends every object that only deferred units keep alive. True if nothing waits any more; false if
/// pins or another thread's work hold something up, or if there is no memory for a thread's first
/// call. Runs destructors. May be called anywhere; does nothing in a destructor that the collector
/// runs.
inline bool drain() noexcept {
#if defined(SPOLIA_MODEL)
  return detail::scenario_collector->drain(detail::here());
#else
  return core::drain_counted();
#endif
}

/// Sums over all threads, since the process began.
inline collector_counts statistics() noexcept {
#if defined(SPOLIA_MODEL)
  return detail::scenario_collector->counts();
#else
  const core::counted_figures f = core::figures_of_counted();
  return {f.logged, f.dropped,    f.doomed,      f.ended,    f.epochs,
          f.pins,   f.scan_ticks, f.sweep_ticks, f.end_ticks};
#endif
}

#if !defined(SPOLIA_MODEL)
/// Whether statistics() sums up how long tasks take, from now on; at first it does not. Two reads
/// of the processor's counter a task.
inline void time_tasks(bool wanted) noexcept { core::time_counted(wanted); }

/// Gives back to the allocator what the pool has and does not use: slabs all of whose blocks are
/// free, but one for each size, and those in which another thread keeps free blocks at hand. Takes
/// time linear in the number of free blocks; others go on meanwhile. Call drain() before. Returns
/// how many bytes it gave back.
inline std::size_t trim() noexcept { return core::trim_blocks(); }
#endif

/// While one lives, its thread runs no foreign destructors when it changes or reads locations: for
/// code that holds a lock that destructors may want. Make it before the lock is taken: when it
/// goes, the thread does a task that it owes.
class no_destructors {
 public:
  /// Throws std::bad_alloc on a thread's first use of the collector.
  no_destructors() : me_(detail::here()), before_(me_.quiet) { me_.quiet = true; }
  no_destructors(const no_destructors&) = delete;
  no_destructors& operator=(const no_destructors&) = delete;
  /// Throws std::bad_alloc; else the thread's next change of a location does not, if its new
  /// pointer is one that make_shared or make_thin returned.
  void reserve() { me_.log.reserve(); }
  /// On the thread on which it began (checked build: reported).
  ~no_destructors() {
    if (SPOLIA_CHECKS && !detail::is_here(me_)) {
      misuse::report("a no_destructors ends on another thread than it began on", threads::number());
    }
    me_.quiet = before_;
    if (!before_ && me_.owes) detail::help(me_);
  }

 private:
  detail::member& me_;
  const bool before_;
};

}  // namespace counted
}  // namespace spolia::inline SPOLIA_FLAVOUR
