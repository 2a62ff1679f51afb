// SPDX-License-Identifier: Apache-2.0
// concepts.hpp: the contract between schemes, release policies, domains and containers.
//
//   A scheme decides WHEN a retired block is safe. It never frees: it hands lists of safe blocks to
//   a sink. A release policy, which takes them from the sink, decides HOW FAST they go back to the
//   allocator. A domain joins one of each and does the plumbing: cells per thread, nesting, thread
//   exit, statistics. A container states what it needs of a scheme, never a scheme's name.
//
// What a scheme is (concept `scheme`; `Peers` and `Sink` come from the domain. Peers are the locals
// of all threads, and existing(): how many blocks were made and not ended, approximately). Each is
// asked of every scheme, but for what is optional, or is said to be of some kinds of protection:
//
//   info               what it promises, as constants; docs, messages and benchmarks read it
//   options            its numbers, with defaults
//   stamp              what it keeps in each block besides the header (an empty type for most); of
//                      a block r it is static_cast<stamped<stamp>*>(r)->stamp. Made by its default
//                      constructor, which must do for blocks that were made without the domain
//   local              what it keeps for each thread; outlives the thread until another one adopts
//                      it
//   hold               what one guard carries (an empty type for most)
//
//   what_is_wrong(options)  what is wrong with the numbers, in one sentence; null if nothing
//   ticks_regularly    optional: true if `due` holds at least every few dozen operations
//   courteous          optional, with ticks_regularly: true if threads may give their processor
//                      away at ticks while epochs are held up (courtesy.hpp)
//   step_aside(me, peers)   if courteous: the thread is about to do that, between two operations
//   join(me, number, peers)   optional: a thread, whose number this is, uses the domain for the
//                      first time; may throw bad_alloc
//   due(me)            true when `tick` wants to run before this operation. On every outermost
//                      enter, and before the thread counts as present: so another one may be in
//                      adopt() with this thread's `local`, and what that changes is not to be read.
//   pace()             instead of due, with ticks_regularly: `tick` wants to run after so many
//                      outermost enters, which the domain counts anyway
//   pace_of(me)        optional, with pace: the same at the beginning of a tick, for this thread
//   tick(me, peers, sink)   the thread is between two operations: do what the paper does there
//   room(me)           optional: after so many more retired blocks a tick is due in any case
//   enter(me)          announce the operation. Only stores: the domain issues one light fence after
//                      it.
//   leave(me)          withdraw the announcement; the last accesses of the operation happen before
//                      it
//   looks_back(me), look_back(me)   optional: what some operations have to do after leave, and
//                              whether this one does (not 0): most do not
//   open(me), close(me, hold)   begin and end of each guard, nested ones too; open may throw
//                               bad_alloc
//   idle(other), park(other), unpark(me)   optional: has that thread done nothing for long?
//                      Its gate is parked. It is back, after the light fence of its beginning
//   born(me, stamp)    optional: a block was made by domain::make, and no other thread knows it yet
//   unborn(stamp)      optional, static: this block was not, and bound() does not hold for it
//   protect(me, hold, slot, source)   a pointer read from `source` that may be followed
//   step(me, hold, slot, source, to)  of pointer and era protection: the same within a search, for
//                      a source in a block that may have been unlinked. False: `to` may be followed
//                      only if a look made after this finds that block still linked
//   glance(me, hold, source, to)   optional: step() for the common case, in a few instructions and
//                              without a call. False: `to` may not be followed, step() has to be
//                              called
//   announce(me, hold, slot, p)   of every protection but region: p, which was read in another way,
//                      is named in the slot; it stays if a look made after this shows that it was
//                      not retired before
//   owners(hold)       static, of restartable, pointer and era protection: which of the guard's
//                      slots belong to protections (detail/slot_owners.hpp); it stays where it is
//                      when the hold is moved. Or else `slotless`, a constant that is true: slots
//                      are not looked at, and what a guard has read by the above stays until it
//                      ends
//   read(me, hold, f), keep(me, hold, slot, p)   of restartable protection: calls f(), which may be
//                      abandoned and started over. Called by f at its end: p stays after read()
//   retire(me, block, peers, sink)    the block was unlinked by this thread, inside a guard
//   collect(me, peers, sink)   outside of any guard: hand over all that can be proven safe now
//   adopt(me, other)   take over the waiting blocks of a thread that is gone or between operations.
//                      Must not write what other's `due`, `enter` and `exited` touch, unless it is
//                      atomic: these run outside of the gate that keeps the two apart
//   adopted(me, peers, sink)   optional: after an adoption between two
//                      operations; bounded schemes look whether the thread has too much now, and
//                      those with epochs end some that short-lived threads would not end
//   abandon(me, all)   the domain goes: give every waiting block, unproven
//   hand_over(me, safe)   optional, for barriers (outside.hpp): everything that waits, and `safe`
//                      with it, goes where `abandon` finds it
//   exited(me, peers)  this thread ends; its waiting blocks stay for another one to adopt
//   forked(other, peers)    that thread vanished in a fork: it is in no operation any more. What
//                      `lists` gives stays as it is
//   lists(other, f)    static: f(limbo) for each list of blocks that wait with that thread
//   lists_of_strangers(f)   optional: the same for those that wait with no thread
//   forget_strangers() optional, in a fork's child: drops what threads without a local have left
//   waiting(me)        how many blocks wait
//   epochs()           how many epochs, or scans, have ended; for figures, and to see whether
//                      they go on (courtesy.hpp)
//   bound(threads)     how many blocks can wait at most, whatever other threads do; nothing if
//                      unbounded. May take a second argument: how many blocks wait now
//
// Ordering: whatever thread X did before its `leave` happens before any block that X could still
// have seen is handed to a sink. `retire` may be called with the block's unlinking only
// relaxed-visible: the scheme orders it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/limbo.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// What the reads inside a guard may rely on.
enum class protection : std::uint8_t {
  region,       ///< everything reached inside the guard stays, unlinked or not
  era,          ///< what was alive at an era the guard has announced stays
  pointer,      ///< what one of a few slots names, and was still linked when it was named, stays
  restartable,  ///< everything reached inside read() stays, but read() may start over at any moment
};

/// A scheme's promises. The documentation's tables and the benchmark's listing are made from these.
struct scheme_info {
  std::string_view name;    ///< as in the benchmark's --scheme
  std::string_view title;   ///< in words
  std::string_view source;  ///< paper and section
  protection protects;
  bool robust;            ///< waiting blocks stay bounded though a thread stalls inside a guard
  std::string_view cost;  ///< of one operation
  std::string_view progress;
  /// The bound of waiting blocks, in words. On top of it, what one outermost guard retires may wait
  /// until it ends, and what the deleters of one step of freeing retire until their thread's next
  /// guard ends.
  std::string_view bound;
  bool reclaims = true;  ///< false only for the baseline that never frees
};

/// Slots that one guard has in a scheme whose protections own slots.
inline constexpr unsigned guard_slots = 8;

/// For schemes that keep nothing of the kind.
struct nothing {};

namespace detail::reclaim {
/// Stand-ins with which the concept is checked.
template <class Local>
struct any_peers {
  template <class F>
  void for_each(F&&) const noexcept;
  Local* find(std::uint32_t) const noexcept;
  std::uint32_t high_water() const noexcept;
  std::uint64_t existing() const noexcept;
};
struct any_sink {
  void operator()(limbo&) const noexcept;
  template <class Poll>
  void operator()(limbo&, Poll&&) const noexcept;
  std::size_t wants() const noexcept;
};
}  // namespace detail::reclaim

template <class S>
concept scheme = std::same_as<std::remove_cvref_t<decltype(S::info)>, scheme_info> &&
                 std::default_initializable<typename S::options> &&
                 std::constructible_from<S, typename S::options> &&
                 requires(S s, typename S::local me, typename S::hold hold, retired* r, limbo& bag,
                          detail::reclaim::any_peers<typename S::local> peers,
                          detail::reclaim::any_sink sink, const atomic<int*>& source) {
                   typename S::stamp;
                   requires(
                       requires {
                         { s.due(me) } noexcept -> std::same_as<bool>;
                       } ||
                       requires {
                         { s.pace() } noexcept -> std::same_as<std::uint32_t>;
                       });
                   { s.tick(me, peers, sink) } noexcept;
                   { s.enter(me) } noexcept;
                   { s.leave(me) } noexcept;
                   { s.open(me) } -> std::same_as<typename S::hold>;
                   { s.close(me, hold) } noexcept;
                   { s.protect(me, hold, 0U, source) } noexcept -> std::same_as<int*>;
                   { s.retire(me, r, peers, sink) } noexcept;
                   { s.collect(me, peers, sink) } noexcept;
                   { s.adopt(me, me) } noexcept;
                   { s.abandon(me, bag) } noexcept;
                   { S::what_is_wrong(typename S::options{}) } -> std::same_as<const char*>;
                   { s.exited(me, peers) } noexcept;
                   { s.forked(me, peers) } noexcept;
                   S::lists(me, [](limbo&) {});
                   { s.waiting(me) } noexcept -> std::same_as<std::size_t>;
                   { s.epochs() } noexcept -> std::same_as<std::uint64_t>;
                   { s.bound(std::size_t{1}) } -> std::same_as<std::optional<std::uint64_t>>;
                 };

/// Everything reached inside the guard may be followed, also through blocks that were unlinked.
template <class S>
concept protects_regions = scheme<S> && S::info.protects == protection::region;

/// Reads happen inside guard.read(f), and f may start over.
template <class S>
concept protects_by_restart = scheme<S> && S::info.protects == protection::restartable;

/// Only what a slot names is safe, and only if it was still linked when the slot was set.
template <class S>
concept protects_pointers =
    scheme<S> && (S::info.protects == protection::pointer || S::info.protects == protection::era) &&
    requires(S s, typename S::local me, typename S::hold hold, const atomic<int*>& source,
             int* to) {
      { s.step(me, hold, 0U, source, to) } noexcept -> std::same_as<bool>;
    };

/// Protections own slots of their guard. Under the other schemes what a guard has read stays until
/// it ends, and a protection is nothing but the pointer.
template <class S>
concept protects_in_slots = scheme<S> && !protects_regions<S> &&
                            !requires { requires S::slotless; } && requires(typename S::hold hold) {
                              { S::owners(hold) } noexcept;
                            };

/// As protects_pointers; and what was made before a protected block, and is unlinked with it or
/// later, is protected with it.
template <class S>
concept protects_eras = protects_pointers<S> && S::info.protects == protection::era;

/// Only the blocks that slots name, and nothing that hangs on them.
template <class S>
concept protects_single_pointers = protects_pointers<S> && !protects_eras<S>;

/// What an optimistic search needs: it may walk through blocks that others have unlinked meanwhile.
template <class S>
concept protects_optimistic_search = protects_regions<S> || protects_by_restart<S>;

/// What a search needs that takes each of its steps by guard.step: any kind of protection does.
template <class S>
concept protects_stepwise_search = protects_optimistic_search<S> || protects_pointers<S>;

/// Bounded waiting blocks though a thread stalls.
template <class S>
concept robust = scheme<S> && S::info.robust;

/// A release policy: see release.hpp.
template <class R>
concept release_policy =
    std::default_initializable<typename R::options> &&
    std::constructible_from<R, typename R::options, memory::origin> &&
    requires(R r, typename R::local me, limbo& safe) {
      { R::name } -> std::convertible_to<std::string_view>;
      {
        r.take(me, safe, [] {})
      } noexcept;
      { r.owe(me) } noexcept -> std::same_as<bool>;
      { r.owe_further(me, std::size_t{1}) } noexcept;
      { r.is_due(me) } noexcept -> std::same_as<bool>;
      { r.remind(me, std::uint64_t{1}) } noexcept;
      { r.hasten(me, std::size_t{1}) } noexcept;
      { r.unpaid(me) } noexcept -> std::same_as<std::uint64_t>;
      { r.step(me) } noexcept;
      { r.drain(me) } noexcept;
      { r.adopt(me, me) } noexcept;
      { r.allocate(me, std::size_t{1}, std::size_t{1}) } -> std::same_as<void*>;
      { r.deallocate(me, static_cast<void*>(nullptr), std::size_t{1}, std::size_t{1}) } noexcept;
      { r.backlog(me) } noexcept -> std::same_as<std::size_t>;
      { r.wants(me) } noexcept -> std::same_as<std::size_t>;
      // So many safe blocks one thread may keep on top of what the scheme's bound allows.
      { r.holds_back() } noexcept -> std::same_as<std::uint64_t>;
    };

}  // namespace spolia::inline SPOLIA_FLAVOUR
