// SPDX-License-Identifier: Apache-2.0
// domain.hpp: what a user holds: a scheme and a release policy joined, and the guards it gives out.
//
//     spolia::domain<> nodes;                      // token epochs, amortized release
//     struct node : decltype(nodes)::header { ... };
//     node* fresh = nodes.make<node>(...);         // not shared yet: nodes.destroy(fresh) would undo it
//     {
//       auto guard = nodes.enter();
//       node* n = guard.protect(head);             // safe to read until the guard goes
//       if (n != nullptr && head.compare_exchange_strong(n, n->next)) guard.retire(n);
//     }
//
// Threads:     any number, without registration; a thread that ends leaves its waiting blocks to the
//              others, in its destructors of thread-local objects too. One guard belongs to one thread;
//              guards nest, and several domains may be in use at once.
// Errors:      the first guard of a thread in a domain may throw std::bad_alloc. retire of a block that
//              derives from `header` never allocates and never fails. retire of any other object
//              allocates a small record and may throw std::bad_alloc: then nothing was retired.
// Cost:        see the scheme; the domain adds two plain stores and two tests to a guard.
// Destructor:  frees everything that waits. No guard may be alive (checked flavour: reported).
// Fork:        in the child, blocks that waited with threads which are gone are never freed, since
//              their lists may have been caught half-written; everything else goes on as before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/token.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// The figures of a domain at one moment. While other threads work, sums are approximate.
struct domain_statistics {
  std::uint64_t retired = 0;        ///< blocks handed to the domain so far
  std::uint64_t freed = 0;          ///< of these, blocks destroyed
  std::uint64_t retired_bytes = 0;
  std::uint64_t freed_bytes = 0;
  std::uint64_t epochs = 0;         ///< epochs, rounds or scans of the scheme so far
  std::size_t threads = 0;          ///< threads that have ever used the domain at one time
  histogram_snapshot pauses;        ///< ns spent freeing, per pause, if options ask for it

  std::uint64_t garbage() const noexcept { return retired > freed ? retired - freed : 0; }
  std::uint64_t garbage_bytes() const noexcept {
    return retired_bytes > freed_bytes ? retired_bytes - freed_bytes : 0;
  }
};

template <class Scheme = token, class Release = amortized>
class domain final : private threads::listener {
  static_assert(scheme<Scheme>, "Scheme does not offer what concepts.hpp asks of a scheme");
  static_assert(release_policy<Release>, "Release does not offer what a release policy must");

  struct cell;

 public:
  using scheme_type = Scheme;
  using release_type = Release;

  struct options {
    typename Scheme::options scheme{};
    typename Release::options release{};
    /// Measure one in so many pauses for domain_statistics::pauses (long ones always); 0: none.
    std::uint32_t time_pauses_one_in = 0;
  };

  /// The base of blocks that are retired without allocating.
  struct header : retired {
    [[no_unique_address]] typename Scheme::stamp stamp;
  };

  class guard;

  /// Throws std::invalid_argument with one sentence when an option makes no sense.
  explicit domain(options o = {})
      : serial_(core::next_serial()), scheme_(checked(o).scheme), release_(o.release),
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

  /// A new object of type T, which derives from `header`. Strong guarantee: throws std::bad_alloc or
  /// what T's constructor throws, and then nothing has changed.
  template <class T, class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments) {
    static_assert(std::is_base_of_v<header, T>, "domain::make: T must derive from the domain's header");
    presence here(*this, my_cell());
    void* const place = release_.allocate(here.of.release, sizeof(T), alignof(T));
    try {
      T* const made = ::new (place) T(std::forward<Arguments>(arguments)...);
      if constexpr (requires { scheme_.born(*made); }) scheme_.born(*made);
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
    presence here(*this, my_cell());
    block->~T();
    release_.deallocate(here.of.release, block, sizeof(T), alignof(T));
  }

  /// Frees what can be freed now: adopts the blocks of threads that are gone or between operations,
  /// and collects. Call it outside of guards. Returns true if nothing waits any more.
  bool drain() {
    cell& me = my_cell();
    if (me.depth != 0) {
      misuse::report("drain inside a guard", threads::number());
      return false;
    }
    presence here(*this, me);
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

  /// How many blocks can wait at most with `threads` threads, whatever these do; nothing if the scheme
  /// has no bound. Release policies add nothing to it (release.hpp says why).
  std::optional<std::uint64_t> garbage_bound(std::size_t threads) const {
    return scheme_.bound(threads);
  }

  static constexpr const scheme_info& info() noexcept { return Scheme::info; }

 private:
  /// A thread's cell. Everything but the atomics belongs to the thread while `busy` is not zero, and
  /// to whoever holds the gate while it is.
  struct alignas(cache_line) cell {
    std::uint32_t depth = 0;                 // guards alive; touched by the owner only
    std::uint32_t countdown = chores_every;  // visits to a neighbour: see chores_every; the owner's
    std::uint32_t present = 0;               // presences alive; the owner's
    std::uint32_t retired_now = 0;      // blocks retired under the current outermost guard
    bool in_tick = false;               // a deleter that runs in a tick must not start another one
    atomic<std::uint32_t> busy{0};      // `present`, plus one inside an outermost guard
    atomic<std::uint32_t> gate{open};   // taken: somebody adopts the blocks of this cell
    atomic<bool> used{false};
    typename Scheme::local local;
    typename Release::local release;
    tally retired_blocks;
    tally retired_bytes;
    tally adopted_blocks;
    atomic<std::uint64_t> inflow_seen{0};     // by the last visitor
    atomic<std::uint64_t> inflow_emptied{0};  // when the cell was last emptied by an adopter

    std::uint64_t inflow() const noexcept {
      return retired_blocks.value() + adopted_blocks.value();
    }
  };

  /// Makes the calling thread's cell its own for a while.
  ///
  /// This and adopt_from form a lock that is biased towards the owner (Dekker's):
  ///   owner: busy = 1; light fence; gate?      other: gate = taken; heavy fence; busy?
  /// If the light fence comes first, the other one sees busy and gives up. If the heavy fence comes
  /// first, the owner sees the gate taken and waits. Without the fences both could go in at once.
  struct presence {
    presence(domain& d, cell& c) noexcept : of(c), inside(c.depth != 0 ? 1U : 0U) {
      ++c.present;
      d.come(c, c.present + inside);
    }
    ~presence() { go(of, --of.present + inside); }
    presence(const presence&) = delete;
    presence& operator=(const presence&) = delete;
    cell& of;
    const std::uint32_t inside;
  };

  /// The beginning of an outermost guard.
  void begin(cell& c) noexcept {
    if (wants_tick(c)) [[unlikely]] tick(c);
    scheme_.enter(c.local);
    come(c, c.present + 1);  // its light fence also orders the scheme's announcement
  }

  /// The end of an outermost guard. A slow free happens after the announcement was withdrawn.
  void end(cell& c) noexcept {
    scheme_.leave(c.local);
    release_.step(c.release, std::exchange(c.retired_now, 0U));
    go(c, c.present);
  }

  void retire(cell& me, retired* block) noexcept {
    if (SPOLIA_CHECKS && block->waiting()) {
      misuse::report("a block was retired twice", threads::number());
      return;
    }
    ++me.retired_now;
    me.retired_blocks.add(1);
    me.retired_bytes.add(block->how().bytes);
    scheme_.retire(me.local, block, peers{*this}, sink{*this, me});
  }

  void come(cell& c, std::uint32_t busy) noexcept {
    c.busy.store_relaxed(busy);
    // light → the heavy fence in adopt_from, see `presence`.
    fence::light();
    // acquire ← the release of the gate in adopt_from: we see the lists as the adopter left them.
    if (c.gate.load_acquire() != open) [[unlikely]] wait_at_gate(c, busy);
  }

  static void go(cell& c, std::uint32_t busy) noexcept {
    // release → the acquire of busy in adopt_from: it sees our lists whole. Without it an adopter could
    // splice a list whose last link is not written yet.
    c.busy.store_release(busy);
  }

  SPOLIA_NOINLINE void wait_at_gate(cell& c, std::uint32_t busy) noexcept {
    if (busy > 1) return;  // we were present before: the adopter will give up
    backoff pause;
    for (;;) {
      // release → the acquire of busy in adopt_from (nothing was touched since the last one).
      c.busy.store_release(0);
      while (c.gate.load_relaxed() != open) pause.pause();
      c.busy.store_relaxed(busy);
      // light → the heavy fence in adopt_from, see `presence`.
      fence::light();
      // acquire ← the release of the gate in adopt_from, as in come().
      if (c.gate.load_acquire() == open) return;
    }
  }

  cell& my_cell() {
#if defined(SPOLIA_MODEL)
    return find_my_cell();
#else
    if (core::here.domain == serial_) [[likely]] return *static_cast<cell*>(core::here.cell);
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
  };

  /// Where the scheme puts safe blocks.
  struct sink {
    domain& of;
    cell& me;
    void operator()(limbo& safe) const noexcept {
      of.release_.take(me.release, safe, detail::no_poll);
    }
    template <class Poll>
    void operator()(limbo& safe, Poll&& poll) const noexcept {
      of.release_.take(me.release, safe, std::forward<Poll>(poll));
    }
  };

  /// Schemes that look around every few operations anyway also set the pace of the domain's chores.
  static constexpr bool scheme_keeps_pace = requires { requires Scheme::ticks_regularly; };

  bool wants_tick(cell& c) noexcept {
    if constexpr (scheme_keeps_pace) {
      return scheme_.due(c.local);
    } else {
      return --c.countdown == 0 || scheme_.due(c.local);
    }
  }

  /// Between two operations: let the scheme do its work, and now and then look after the others.
  SPOLIA_NOINLINE void tick(cell& me) noexcept {
    if constexpr (scheme_keeps_pace) --me.countdown;
    const bool chores = me.countdown == 0;
    if (chores) me.countdown = chores_every;
    if (me.in_tick) return;
    presence here(*this, me);
    me.in_tick = true;
    scheme_.tick(me.local, peers{*this}, sink{*this, me});
    if (chores) visit_next_neighbour(me);
    me.in_tick = false;
  }

  /// One look at one other cell: the blocks of a thread that is gone, or has retired nothing between
  /// two looks, are taken over, so that nothing waits for a thread that does not come back.
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
    if (other->busy.load_relaxed() != 0) return;
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

  /// Takes over the waiting and safe blocks of a thread that has ended or is between two operations.
  void adopt_from(cell& me, cell& other) noexcept {
    std::uint32_t expected = open;
    // acquire ← the release of the gate by an earlier adopter.
    if (!other.gate.cas_strong_acquire(expected, taken)) return;
    // heavy → the light fence in come(), see `presence`.
    fence::heavy();
    // acquire ← the release of busy in go(): the owner's lists are whole.
    if (other.busy.load_acquire() == 0) {
      const std::size_t found = scheme_.waiting(other.local) + release_.backlog(other.release);
      scheme_.adopt(me.local, other.local);
      release_.adopt(me.release, other.release);
      me.adopted_blocks.add(found);
      other.inflow_emptied.store_relaxed(other.inflow());
    }
    // release → the acquire of the gate in come(): the owner finds its lists empty, not half-moved.
    other.gate.store_release(open);
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
    c->countdown = chores_every;
    c->used.store_relaxed(false);
  }

  void thread_lost(std::uint32_t n) noexcept override {
    cell* const c = cells_.find(n);
    if (c == nullptr) return;
    scheme_.forked(c->local, peers{*this});
    c->release.safe.forget();
    c->depth = 0;
    c->present = 0;
    c->in_tick = false;
    c->busy.store_relaxed(0);
    c->gate.store_relaxed(open);
    c->used.store_relaxed(false);
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

  static constexpr std::uint32_t open = 0;
  static constexpr std::uint32_t taken = 1;
  /// Ticks, or operations where the scheme does not tick regularly, between two visits.
  static constexpr std::uint32_t chores_every = scheme_keeps_pace ? 32 : 1024;
  static constexpr int drain_rounds = 8;  // more than any scheme needs from retirement to release

  const std::uint64_t serial_;
  Scheme scheme_;
  Release release_;
  const std::uint32_t time_pauses_one_in_;
  cells<cell> cells_;
  alignas(cache_line) atomic<std::uint32_t> next_visit_{0};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/reclaim/guard.hpp>
