// SPDX-License-Identifier: Apache-2.0
// domain.hpp: what a user holds: a scheme and a release policy joined, and the guards it gives out.
//
//     spolia::domain<> nodes;                      // bounded token epochs, amortized release
//     struct node : decltype(nodes)::header { ... };
//     std::atomic<node*> head;
//     node* fresh = nodes.make<node>(...);         // nodes.destroy(fresh) would undo it, so far
//     {
//       auto guard = nodes.enter();
//       node* n = guard.protect(head);             // safe to read until the guard goes
//       if (n != nullptr && head.compare_exchange_strong(n, n->next)) guard.retire(n);
//     }
//
// Default:     `domain<>` is token epochs that a stalled reader does not stop (robust_token.hpp):
//              what waits stays below garbage_bound(), and what guards and deleters that are under
//              way have retired themselves. It asks of a structure that each pointer be read by
//              protect or step, and out of a block that was still linked then: a root, a link that
//              is marked before its block goes, or step's look. What follows pointers by plain
//              loads, or through blocks that others have unlinked, says `region_domain`.
// Threads:     any number, without registration; a thread that ends leaves its waiting blocks to
//              the others, in its destructors of thread-local objects too. One guard belongs to one
//              thread; guards nest, and several domains may be in use at once.
// Errors:      a thread's first guard in a domain may throw std::bad_alloc; so may retire
//              without `header`, which needs a small record: then nothing was retired.
// Cost:        see the scheme; the domain adds two plain stores and a few tests to a guard.
// Destructor:  frees everything that waits. No guard may be alive (checked flavour: reported).
// Fork:        in the child, blocks that waited with threads which are gone are never freed, since
//              their lists may have been caught half-written; everything else goes on as before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/reclaim/domain_cell.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/pins.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/robust_token.hpp>
#include <spolia/reclaim/saturating.hpp>
#include <spolia/reclaim/statistics.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Scheme = robust_token, class Release = amortized>
class domain final : private threads::listener {
  static_assert(scheme<Scheme>, "Scheme does not offer what concepts.hpp asks of a scheme");
  static_assert(release_policy<Release>, "Release does not offer what a release policy must");

  using cell = detail::domain_cell<Scheme, Release>;
  static_assert(alignof(cell) >= cache_line, "threads' cells must not share cache lines");
  using presence = detail::presence<cell>;

 public:
  using scheme_type = Scheme;
  using release_type = Release;

  struct options {
    typename Scheme::options scheme{};
    typename Release::options release{};
    /// Measure one in so many pauses for domain_statistics::pauses (long ones always); 0: none.
    std::uint32_t time_pauses_one_in = 0;
    /// Where blocks come from and go to; null: operator new and delete. It must be thread-safe and
    /// outlive the domain. An allocator of another kind: allocator_resource.hpp.
    std::pmr::memory_resource* memory = nullptr;
    /// When more bytes than this wait to be freed, `over_budget` is called; 0: never. Once, until
    /// less than half of it waits. By whichever thread notices, between two operations: it may use
    /// the domain, and drain it, must not throw, and should not take long.
    std::uint64_t budget_bytes = 0;
    std::function<void(const struct over_budget&)> over_budget{};
    /// While threads that were interrupted inside of guards hold epochs up, each thread gives its
    /// processor away after so many microseconds, between two operations; 0: never. Schemes whose
    /// `ticks_regularly` is set. See courtesy.hpp.
    std::uint32_t turn_us = 300;
  };

  /// The base of blocks that are retired without allocating.
  struct header : stamped<typename Scheme::stamp> {};

  class guard;
  class outside;  // what the standard faces do outside of guards: outside.hpp

  /// Throws std::invalid_argument with one sentence when an option makes no sense.
  explicit domain(options o = {})
      : serial_(core::next_serial()),
        scheme_(checked(o).scheme),
        memory_(o.memory),
        release_(o.release, memory_),
        time_pauses_one_in_(o.time_pauses_one_in),
        budget_bytes_(o.over_budget ? o.budget_bytes : 0),
        over_budget_(std::move(o.over_budget)),
        courtesy_(o.turn_us) {
    threads::listen(*this);
  }
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  ~domain() {
    threads::unlisten(*this);
    cells_.for_each([](std::uint32_t n, cell& c) {
      if (c.inside()) misuse::report("a guard outlives its domain", n);
      return true;
    });
    release_everything();
  }

  /// Begins protection for this thread; ends when the guard goes.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE guard enter() { return guard(*this, my_cell()); }

  /// The same for a guard that may live long; pins() shows the label, which must stay as it is.
  [[nodiscard]] guard enter(const char* label) {
    cell& mine = my_cell();
    guard begun(*this, mine);
    if (mine.nested % cell::frees == 0) mine.watch.name(label, mine.guard_seen());
    return begun;
  }

  /// A new object of type T, which derives from `header`. Strong guarantee: throws std::bad_alloc
  /// or what T's constructor throws, and then nothing has changed.
  template <class T, class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments) {
    static_assert(std::is_base_of_v<header, T>,
                  "domain::make: T must derive from the domain's header");
    presence here(*this, my_cell());
    void* const place = release_.allocate(here.of.release, sizeof(T), alignof(T));
    try {
      T* const made = ::new (place) T(std::forward<Arguments>(arguments)...);
      if constexpr (requires { scheme_.born(here.of.local, made->stamp); }) {
        scheme_.born(here.of.local, made->stamp);
      }
      here.of.made.add(1);
      return made;
    } catch (...) {
      release_.deallocate(here.of.release, place, sizeof(T), alignof(T));
      throw;
    }
  }

  /// Ends an object from `make` that no other thread has ever been able to see.
  template <class T>
  void destroy(T* block) noexcept {
    if (block == nullptr) return;
    block->~T();
    cell* mine = nullptr;
    try {
      mine = &my_cell();
    } catch (const std::bad_alloc&) {  // a thread's first call: then without a cell
    }
    if (mine == nullptr) return memory_.deallocate(block, sizeof(T), alignof(T));
    presence here(*this, *mine);
    mine->unmade.add(1);
    release_.deallocate(mine->release, block, sizeof(T), alignof(T));
  }

  /// Frees what can be freed now: adopts the blocks of threads that are gone or between operations,
  /// and collects. Call it outside of guards. Returns true if nothing waits any more. Up to
  /// `rounds` times, since what was retired late may need another; one does for what idle threads
  /// have left. It waits for no guard of another thread; under neutralization until each thread
  /// that reads has been interrupted.
  bool drain(int rounds = drain_rounds);

  /// This thread will not be here for a while: until it is, nobody has to ask for it by a fence.
  /// Does nothing inside a guard, and in schemes that do not park threads. May throw std::bad_alloc
  /// if it is the thread's first call.
  void rest() {
    cell& me = my_cell();
    if (me.gate.own() % cell::one_guard == 0) rest(me);
  }

  domain_statistics stats() const;
  /// The sums among them: without the histogram, which takes 4 KiB of the stack.
  detail::cell_sums sums() const noexcept { return detail::sum_of(cells_); }

  /// Blocks retired and not yet destroyed; while others work, as many as at one moment of the call,
  /// or less. Cheap: for sampling.
  std::uint64_t garbage() const noexcept {
    return held_at_once(
        cells_, [](const cell& c) { return c.retired_blocks.value(); },
        [](const cell& c) { return c.release.meter.freed.value(); });
  }

  /// The guards that are alive and were alive at an earlier look: who may hold garbage up, the
  /// oldest first. This counts as a look, too. Throws std::bad_alloc.
  std::vector<pin> pins();

  /// How many blocks can wait at most with `threads` threads at one time, whatever these do;
  /// nothing if the scheme has no bound. With the options of both scheme and release policy: of the
  /// latter only batch's `at_least` adds to it, for each thread (release.hpp says why).
  /// Besides, there may wait all that the outermost guards that are alive have retired themselves,
  /// until they end; and all that deleters have retired in a thread's last step of freeing, until
  /// the end of its next outermost guard: a guard, or a deleter, that retires a million blocks goes
  /// a million beyond. And what ended threads have left: it is taken over when that is 1024 blocks,
  /// see docs/schemes.md.
  /// Under robust_token it is for blocks made by make(): from the first other block on that this
  /// domain retires (`retire(new int)`, `retire(new node, deleter)`) there is no bound, and this is
  /// nothing.
  std::optional<std::uint64_t> garbage_bound(std::size_t threads) const {
    const std::optional<std::uint64_t> waiting = scheme_.bound(threads);
    if (!waiting || unborn_.value()) return std::nullopt;
    return detail::saturating_sum(*waiting,
                                  detail::saturating_product(threads, release_.holds_back()));
  }

  static constexpr const scheme_info& info() noexcept { return Scheme::info; }

 private:
  SPOLIA_ALWAYS_INLINE void begin_guard(cell& c) noexcept {
    if (!c.inside()) [[likely]] {
      begin(c);
    } else {
      ++c.nested;
    }
  }
  SPOLIA_ALWAYS_INLINE void end_guard(cell& c) noexcept {
    if (c.nested == 0) [[likely]] {
      end(c);
    } else if (SPOLIA_FAULT("domain.inner_guard_frees") ? c.nested >= cell::frees
                                                        : c.nested == cell::frees) {
      end_and_free(c);
    } else {
      --c.nested;
    }
  }

  /// The beginning of an outermost guard.
  SPOLIA_ALWAYS_INLINE void begin(cell& c) noexcept {
    if (wants_tick(c)) [[unlikely]]
      tick(c);
    scheme_.enter(c.local);
    // Its light fence also orders the scheme's announcement.
    come(c, cell::one_guard + cell::guard_alive);
  }

  SPOLIA_ALWAYS_INLINE void come(cell& c, biased_gate::word more) noexcept {
    const biased_gate::arrival found = c.gate.come(more);
    if (found != biased_gate::arrival::plain) [[unlikely]]
      arrive(c, found);
  }
  /// The thread, which has no guard and no other presence yet, has found its gate changed.
  SPOLIA_NOINLINE void arrive(cell& c, biased_gate::arrival found) noexcept {
    if (found == biased_gate::arrival::asked) return hand_over(c);
    if constexpr (cell::scheme_parks) scheme_.unpark(c.local);
  }

  /// The end of an outermost guard.
  SPOLIA_ALWAYS_INLINE void end(cell& c) noexcept {
    scheme_.leave(c.local);
    if constexpr (cell::scheme_looks_back) {
      if (scheme_.looks_back(c.local) != 0) [[unlikely]]
        look_back(c);
    }
    c.gate.go(cell::guard_alive);
  }
  SPOLIA_NOINLINE void look_back(cell& c) noexcept {
    if constexpr (cell::scheme_looks_back) scheme_.look_back(c.local);
  }
  /// The same where a step of freeing is due: after the announcement was withdrawn, and the gate
  /// stays shut meanwhile, also when a deleter begins and ends a guard of its own.
  SPOLIA_NOINLINE void end_and_free(cell& c) noexcept {
    scheme_.leave(c.local);
    look_back(c);
    // Another reason to be present, since a deleter's guard is an outermost one.
    const bool absent = SPOLIA_FAULT("domain.absent_while_freeing");
    c.gate.go(cell::guard_alive - (absent ? 0 : cell::one_presence));
    free_some(c);
    c.gate.go(absent ? 0 : cell::one_presence);
  }
  /// A step of freeing, by a thread that is present.
  void free_some(cell& c) noexcept {
    c.nested &= cell::frees - 1;
    if (release_.is_due(c.release)) release_.step(c.release);
    free_when_due(c);
  }
  void free_when_due(cell& c) noexcept {
    if (release_.is_due(c.release) && !SPOLIA_FAULT("domain.free_bit_lost")) {
      c.nested |= cell::frees;
    }
  }

  /// For the bound. The block may be one that make() has not made.
  void note_origin([[maybe_unused]] const header& block) noexcept {
    if constexpr (requires { Scheme::unborn(block.stamp); }) {
      if (Scheme::unborn(block.stamp) && !unborn_.value()) unborn_.set(true);
    }
  }

  void retire(cell& me, retired* block) noexcept {
    if (SPOLIA_CHECKS && block->waiting()) {
      misuse::report("a block was retired twice", threads::number());
      return;
    }
    if (release_.owe(me.release)) me.nested |= cell::frees;
    me.retired_blocks.add(1);
    me.retired_bytes.add(block->holds_bytes());
    scheme_.retire(me.local, block, peers{*this}, sink{*this, me});
    if constexpr (cell::scheme_has_room) {
      if (me.retired_blocks.value() >= me.tick_when_retired) [[unlikely]]
        me.tick_at = 0;  // at once, when the operation is over
    }
  }

  SPOLIA_ALWAYS_INLINE cell& my_cell() {
#if !defined(SPOLIA_MODEL)
    if (core::here.domain == serial_) [[likely]]
      return *static_cast<cell*>(core::here.cell);
#endif
    return find_my_cell();
  }

  SPOLIA_NOINLINE cell& find_my_cell();  // domain_upkeep.hpp

  /// The other threads' parts, as the scheme sees them.
  struct peers {
    domain& of;
    template <class F>
    void for_each(F&& f) const {
      of.cells_.for_each([&](std::uint32_t n, cell& c) { return f(n, c.local); });
    }
    typename Scheme::local* find(std::uint32_t n) const noexcept {
      cell* const c = of.cells_.find(n);
      return c == nullptr ? nullptr : &c->local;
    }
    std::uint32_t high_water() const noexcept { return threads::high_water(); }
    std::uint64_t existing() const noexcept {
      const auto sum = detail::sum_of(of.cells_);
      return sum.made > sum.ended ? sum.made - sum.ended : 0;
    }
  };

  /// Where the scheme puts safe blocks.
  struct sink {
    domain& of;
    cell& me;
    template <class Poll = decltype(detail::no_poll)>
    void operator()(limbo& safe, Poll&& poll = Poll{}) const noexcept {
      of.release_.take(me.release, safe, std::forward<Poll>(poll));
      of.free_when_due(me);
    }
    /// So many more, if the scheme can choose.
    std::size_t wants() const noexcept { return of.release_.wants(me.release); }
  };

  SPOLIA_ALWAYS_INLINE bool wants_tick(cell& c) noexcept {
    if constexpr (cell::scheme_has_pace) {
      return c.gate.own() >= c.tick_at;
    } else if constexpr (cell::scheme_keeps_pace) {
      return scheme_.due(c.local);
    } else {
      return --c.countdown == 0 || scheme_.due(c.local);
    }
  }

  std::uint32_t pace_of(const typename Scheme::local& me) noexcept {
    // A budget is looked at in ticks, and few blocks may be large.
    if constexpr (requires { scheme_.pace_of(me); }) {
      if (budget_bytes_ == 0) return scheme_.pace_of(me);
    }
    return scheme_.pace();
  }

  // domain_upkeep.hpp
  SPOLIA_NOINLINE void tick(cell& me) noexcept;
  void step_aside(cell& me) noexcept;
  void rest(cell& me) noexcept;
  void visit_next_neighbour(cell& me) noexcept;
  void park_if_idle(cell& other) noexcept;
  bool enough_is_left() const noexcept;
  void take_over_what_is_left(cell& me) noexcept;
  bool take_over(cell& me, cell& other) noexcept;
  void after_taking_over(cell& me) noexcept;
  void adopt_from_others(cell& me) noexcept;
  void adopt(cell& me, cell& other) noexcept;
  void hand_over(cell& me) noexcept;
  void collect(cell& me) noexcept;
  void thread_left(std::uint32_t n) noexcept override;
  void thread_lost(std::uint32_t n) noexcept override;
  void forked() noexcept override;
  void forget(cell& c) noexcept;
  friend presence;
  void release_everything();
  void watch_budget() noexcept;
  std::uint32_t pace_of_chores() const noexcept;
  bool retired_much(const cell& me) const noexcept;

  static const options& checked(const options& o) {
    if (const char* const wrong = Scheme::what_is_wrong(o.scheme))
      throw std::invalid_argument(wrong);
    return o;
  }

  static constexpr int drain_rounds = 8;  // more than any scheme needs from retirement to release
  const std::uint64_t serial_;
  Scheme scheme_;
  const memory::origin memory_;
  Release release_;
  const std::uint32_t time_pauses_one_in_;
  const std::uint64_t budget_bytes_;
  const std::function<void(const struct over_budget&)> over_budget_;
  atomic<bool> over_{false};  // the budget, and that has been said
  cells<cell> cells_;
  alignas(cache_line) detail::courtesy courtesy_;  // read by all, seldom written
  alignas(cache_line) atomic<std::uint32_t> next_visit_{0};
  atomic<bool> barred_{false};               // a thread collects everybody's blocks: outside.hpp
  atomic<std::uint64_t> barriers_begun_{0};  // by such threads
  atomic<std::uint64_t> barriers_over_{0};   // the highest of them that has ended
  /// Blocks that threads had retired which have ended since; and how many of these there were when
  /// such threads' cells were last looked through.
  shared_tally retired_by_ended_;
  latest<std::uint64_t> looked_through_at_;
  latest<bool> unborn_;  // a block that the scheme's bound does not hold for was retired
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/reclaim/domain_upkeep.hpp>
#include <spolia/reclaim/guard.hpp>
