// SPDX-License-Identifier: Apache-2.0
// domain.hpp: what a user holds: a scheme and a release policy joined, and the guards it gives out.
//
//     spolia::domain<> nodes;                      // token epochs, amortized release
//     struct node : decltype(nodes)::header { ... };
//     node* fresh = nodes.make<node>(...);         // nodes.destroy(fresh) would undo it, so far
//     {
//       auto guard = nodes.enter();
//       node* n = guard.protect(head);             // safe to read until the guard goes
//       if (n != nullptr && head.compare_exchange_strong(n, n->next)) guard.retire(n);
//     }
//
// Threads:     any number, without registration; a thread that ends leaves its waiting blocks to
//              the others, in its destructors of thread-local objects too. One guard belongs to one
//              thread; guards nest, and several domains may be in use at once.
// Errors:      a thread's first guard in a domain may throw std::bad_alloc; so may retire
//              without `header`, which needs a small record: then nothing was retired.
// Cost:        see the scheme; the domain adds two plain stores and two tests to a guard.
// Destructor:  frees everything that waits. No guard may be alive (checked flavour: reported).
// Fork:        in the child, blocks that waited with threads which are gone are never freed, since
//              their lists may have been caught half-written; everything else goes on as before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/domain_cell.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/statistics.hpp>
#include <spolia/reclaim/token.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Scheme = token, class Release = amortized>
class domain final : private threads::listener {
  static_assert(scheme<Scheme>, "Scheme does not offer what concepts.hpp asks of a scheme");
  static_assert(release_policy<Release>, "Release does not offer what a release policy must");

  using cell = detail::domain_cell<Scheme, Release>;
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
        time_pauses_one_in_(o.time_pauses_one_in) {
    threads::listen(*this);
  }
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  ~domain() {
    threads::unlisten(*this);
    cells_.for_each([](std::uint32_t n, cell& c) {
      if (c.depth != 0) misuse::report("a guard outlives its domain", n);
      return true;
    });
    release_everything();
  }

  /// Begins protection for this thread; ends when the guard goes.
  [[nodiscard]] guard enter() { return guard(*this, my_cell()); }

  /// A new object of type T, which derives from `header`. Strong guarantee: throws std::bad_alloc
  /// or what T's constructor throws, and then nothing has changed.
  template <class T, class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments) {
    static_assert(std::is_base_of_v<header, T>,
                  "domain::make: T must derive from the domain's header");
    presence here(my_cell());
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
    presence here(*mine);
    mine->unmade.add(1);
    release_.deallocate(mine->release, block, sizeof(T), alignof(T));
  }

  /// Frees what can be freed now: adopts the blocks of threads that are gone or between operations,
  /// and collects. Call it outside of guards. Returns true if nothing waits any more.
  bool drain() {
    cell& me = my_cell();
    if (me.depth != 0) {
      misuse::report("drain inside a guard", threads::number());
      return false;
    }
    presence here(me);
    for (int round = 0; round < drain_rounds; ++round) {
      adopt_from_others(me);
      collect(me);
      release_.drain(me.release);
      if (stats().garbage() == 0) return true;
    }
    return stats().garbage() == 0;
  }

  domain_statistics stats() const {
    domain_statistics sum;
    cells_.for_each([&](std::uint32_t, const cell& c) {
      // freed before retired: a block counted as freed is then always counted as retired too.
      sum.freed += c.release.meter.freed.value();
      sum.freed_bytes += c.release.meter.freed_bytes.value();
      sum.retired += c.retired_blocks.value();
      sum.retired_bytes += c.retired_bytes.value();
      sum.threads += c.used.load_relaxed() ? 1 : 0;
      sum.pauses.merge(c.release.meter.pauses);
      return true;
    });
    sum.epochs = scheme_.epochs();
    return sum;
  }

  /// Blocks retired and not yet destroyed, approximate while others work. Cheap: for sampling.
  std::uint64_t garbage() const noexcept {
    std::uint64_t freed = 0;
    std::uint64_t retired = 0;
    cells_.for_each([&](std::uint32_t, const cell& c) {
      freed += c.release.meter.freed.value();  // first, as in stats()
      retired += c.retired_blocks.value();
      return true;
    });
    return retired > freed ? retired - freed : 0;
  }

  /// How many blocks can wait at most with `threads` threads, whatever these do; nothing if the
  /// scheme has no bound. Release policies add nothing to it (release.hpp says why).
  std::optional<std::uint64_t> garbage_bound(std::size_t threads) const {
    return scheme_.bound(threads);
  }

  static constexpr const scheme_info& info() noexcept { return Scheme::info; }

 private:
  /// The beginning of an outermost guard.
  void begin(cell& c) noexcept {
    if (wants_tick(c)) [[unlikely]]
      tick(c);
    scheme_.enter(c.local);
    c.gate.come(c.present + 1);  // its light fence also orders the scheme's announcement
  }

  /// The end of an outermost guard. A slow free happens after the announcement was withdrawn, and
  /// the gate stays shut meanwhile, also when a deleter begins and ends a guard of its own.
  void end(cell& c) noexcept {
    scheme_.leave(c.local);
    if (!SPOLIA_FAULT("domain.absent_while_freeing")) ++c.present;
    release_.step(c.release, std::exchange(c.retired_now, 0U));
    if (!SPOLIA_FAULT("domain.absent_while_freeing")) --c.present;
    c.gate.go(c.present);
  }

  void retire(cell& me, retired* block) noexcept {
    if (SPOLIA_CHECKS && block->waiting()) {
      misuse::report("a block was retired twice", threads::number());
      return;
    }
    ++me.retired_now;
    me.retired_blocks.add(1);
    me.retired_bytes.add(block->holds_bytes());
    scheme_.retire(me.local, block, peers{*this}, sink{*this, me});
  }

  /// Blocks made and not ended, waiting ones included. Approximate while others work.
  std::uint64_t existing() const noexcept {
    std::uint64_t ended = 0;
    std::uint64_t made = 0;
    cells_.for_each([&](std::uint32_t, const cell& c) {
      ended += c.release.meter.freed.value() + c.unmade.value();  // first, as in stats()
      made += c.made.value();
      return true;
    });
    return made > ended ? made - ended : 0;
  }

  cell& my_cell() {
#if defined(SPOLIA_MODEL)
    return find_my_cell();
#else
    if (core::here.domain == serial_) [[likely]]
      return *static_cast<cell*>(core::here.cell);
    cell& found = find_my_cell();
    core::here.domain = serial_;
    core::here.cell = &found;
    return found;
#endif
  }

  SPOLIA_NOINLINE cell& find_my_cell() {
    const std::uint32_t number = threads::number();
    cell& found = cells_.of(number);
    if (!found.used.load_relaxed()) {
      presence here(found);  // its last owner's blocks may be under adoption
      found.release.meter.time_one_in = time_pauses_one_in_;
      if constexpr (requires { scheme_.join(found.local, number, peers{*this}); }) {
        scheme_.join(found.local, number, peers{*this});
      }
      threads::watch_this_thread(*this);
      found.used.store_relaxed(true);
    }
    return found;
  }

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
    std::uint64_t existing() const noexcept { return of.existing(); }
  };

  /// Where the scheme puts safe blocks.
  struct sink {
    domain& of;
    cell& me;
    template <class Poll = decltype(detail::no_poll)>
    void operator()(limbo& safe, Poll&& poll = Poll{}) const noexcept {
      of.release_.take(me.release, safe, std::forward<Poll>(poll));
    }
  };

  bool wants_tick(cell& c) noexcept {
    if constexpr (cell::scheme_keeps_pace) {
      return scheme_.due(c.local);
    } else {
      return --c.countdown == 0 || scheme_.due(c.local);
    }
  }

  /// Between two operations: let the scheme do its work, and now and then look after the others.
  SPOLIA_NOINLINE void tick(cell& me) noexcept {
    if constexpr (cell::scheme_keeps_pace) --me.countdown;
    const bool chores = me.countdown == 0;
    if (chores) me.countdown = cell::chores_every;
    if (me.in_tick) return;
    presence here(me);
    me.in_tick = true;
    scheme_.tick(me.local, peers{*this}, sink{*this, me});
    if (chores) visit_next_neighbour(me);
    me.in_tick = false;
  }

  /// One look at one other cell: the blocks of a thread that is gone, or has retired nothing
  /// between two looks, are taken over, so that nothing waits for a thread that does not come back.
  void visit_next_neighbour(cell& me) noexcept {
    const std::uint32_t all = threads::high_water();
    const std::uint32_t n = next_visit_.load_relaxed();
    next_visit_.store_relaxed(n + 1 < all ? n + 1 : 0);  // a lost update: a cell is visited twice
    cell* const other = cells_.find(n);
    if (other == nullptr || other == &me) return;
    const std::uint64_t inflow = other->inflow();
    const bool unchanged = other->inflow_seen.load_relaxed() == inflow;
    other->inflow_seen.store_relaxed(inflow);
    if (!unchanged || other->inflow_emptied.load_relaxed() == inflow) return;
    if (!other->gate.looks_idle() || barred_.load_relaxed()) return;
    adopt_from(me, *other);
    if constexpr (requires { scheme_.adopted(me.local, peers{*this}, sink{*this, me}); }) {
      scheme_.adopted(me.local, peers{*this}, sink{*this, me});
    }
  }

  void adopt_from_others(cell& me) noexcept {
    cells_.for_each([&](std::uint32_t, cell& other) {
      if (&other != &me) adopt_from(me, other);
      return true;
    });
  }

  /// Takes over the blocks of a thread that has ended or is between two operations; else false.
  bool adopt_from(cell& me, cell& other) noexcept {
    return other.gate.visit([&] {
      const std::size_t found = scheme_.waiting(other.local) + release_.backlog(other.release);
      scheme_.adopt(me.local, other.local);
      release_.adopt(me.release, other.release);
      me.adopted_blocks.add(found);
      other.inflow_emptied.store_relaxed(other.inflow());
    });
  }

  void collect(cell& me) noexcept {
    if (me.in_tick) return;
    me.in_tick = true;
    scheme_.collect(me.local, peers{*this}, sink{*this, me});
    me.in_tick = false;
  }

  void thread_left(std::uint32_t n) noexcept override {
    cell* const c = cells_.find(n);
    if (c == nullptr || !c->used.load_relaxed()) return;
    if (c->depth != 0) {
      misuse::report("a thread ended inside a guard", n);
      return;  // its protection stays: whatever it could see must not be freed
    }
    scheme_.exited(c->local, peers{*this});
    c->countdown = cell::chores_every;
    c->used.store_relaxed(false);
  }

  void thread_lost(std::uint32_t n) noexcept override {
    barred_.store_relaxed(false);
    if (cell* const c = cells_.find(n)) {
      forget(*c);
      c->depth = 0;
      c->present = 0;
      c->in_tick = false;
      c->gate.reset();
    }
    // It may have been moving the blocks of any cell, also of the one thread that is left.
    cells_.for_each([this](std::uint32_t, cell& other) {
      if (other.gate.evict()) forget(other);
      return true;
    });
  }

  /// In a fork's child: the lists may be half-written. The thread, if there is one, joins anew.
  void forget(cell& c) noexcept {
    scheme_.forked(c.local, peers{*this});
    c.release.safe.forget();
    c.used.store_relaxed(false);
  }

  /// For the destructor: nobody looks any more, so everything is safe. Deleters may retire more.
  void release_everything() {
    for (bool more = true; more;) {
      more = false;
      cells_.for_each([&](std::uint32_t, cell& c) {
        limbo all;
        scheme_.abandon(c.local, all);
        c.release.safe.append(all);
        more = more || !c.release.safe.empty();
        release_.drain(c.release);
        return true;
      });
    }
  }

  static const options& checked(const options& o) {
    if (const char* const wrong = Scheme::check(o.scheme)) throw std::invalid_argument(wrong);
    return o;
  }

  static constexpr int drain_rounds = 8;  // more than any scheme needs from retirement to release
  const std::uint64_t serial_;
  Scheme scheme_;
  const memory::origin memory_;
  Release release_;
  const std::uint32_t time_pauses_one_in_;
  cells<cell> cells_;
  alignas(cache_line) atomic<std::uint32_t> next_visit_{0};
  atomic<bool> barred_{false};  // a thread collects everybody's blocks: outside.hpp
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/reclaim/guard.hpp>
