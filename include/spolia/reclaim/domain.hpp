// SPDX-License-Identifier: Apache-2.0
// domain.hpp: what a user holds: a scheme and a release policy joined, and the guards it gives out.
// How both work stands in detail/domain_impl.hpp.
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
//              is marked before its block goes, or step's look. A structure that follows pointers
//              by plain loads, or through blocks that others have unlinked, takes `region_domain`.
// Threads:     any number, without registration; a thread that ends leaves its waiting blocks to
//              the others, in its destructors of thread-local objects too. One guard belongs to one
//              thread; guards nest, and several domains may be in use at once.
// Errors:      a thread's first guard in a domain may throw std::bad_alloc; so may retire
//              without `header`, which needs a small record: then nothing was retired.
// Cost:        see the scheme; the domain adds two plain stores and a few tests to a guard.
// Destructor:  frees everything that waits. No guard may be alive (checked build: reported).
// Fork:        in the child, blocks that waited with threads which are gone are never freed, since
//              their lists may have been caught half-written; everything else goes on as before.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <spolia/base/atomic.hpp>
#include <spolia/base/biased_gate.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/reclaim/detail/pins.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/robust_token.hpp>
#include <spolia/reclaim/statistics.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

template <class Scheme, class Release>
struct domain_cell;
template <class Cell>
struct presence;
struct cell_sums;

}  // namespace detail::reclaim

template <class Scheme = robust_token, class Release = amortized>
class domain final : private threads::listener {
  static_assert(scheme<Scheme>, "Scheme does not offer what concepts.hpp asks of a scheme");
  static_assert(release_policy<Release>, "Release does not offer what a release policy must");

  using cell = detail::reclaim::domain_cell<Scheme, Release>;
  static_assert(alignof(cell) >= cache_line, "threads' cells must not share cache lines");
  using presence = detail::reclaim::presence<cell>;

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
    /// less than half of it waits. The thread that notices calls it, between two operations: it may
    /// use the domain, and drain it, must not throw, and should not take long.
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
  class outside;  // what the standard faces do outside of guards: src/reclaim/outside.hpp

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

  ~domain();

  /// Begins protection for this thread; ends when the guard goes.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE guard enter() { return guard(*this, my_cell()); }

  /// The same for a guard that may live long; pins() shows the label, which must stay as it is.
  [[nodiscard]] guard enter(const char* label);

  /// A new object of type T, which derives from `header`. Strong guarantee: throws std::bad_alloc
  /// or what T's constructor throws, and then nothing has changed.
  template <class T, class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments);

  /// Ends an object from `make` that no other thread has ever been able to see.
  template <class T>
  void destroy(T* block) noexcept;

  /// Frees what can be freed now: adopts the blocks of threads that are gone or between operations,
  /// and collects. Call it outside of guards. Returns true if nothing waits any more. Up to
  /// `rounds` times, since what was retired late may need another; one does for what idle threads
  /// have left. It waits for no guard of another thread; under neutralization until each thread
  /// that reads has been interrupted.
  bool drain(int rounds = drain_rounds);

  /// This thread will not be here for a while: until it is, no thread has to ask for it by a fence.
  /// Does nothing inside a guard, and in schemes that do not park threads. May throw std::bad_alloc
  /// if it is the thread's first call.
  void rest();

  domain_statistics stats() const;
  /// The sums among them: without the histogram, which takes 4 KiB of the stack.
  detail::reclaim::cell_sums sums() const noexcept;

  /// Blocks retired and not yet destroyed; while others work, as many as at one moment of the call,
  /// or less. Cheap: for sampling.
  std::uint64_t garbage() const noexcept;

  /// The guards that are alive and were alive at an earlier look, the oldest first: they may hold
  /// garbage up. This counts as a look, too. Throws std::bad_alloc.
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
  std::optional<std::uint64_t> garbage_bound(std::size_t threads) const;

  static constexpr const scheme_info& info() noexcept { return Scheme::info; }

 private:
  friend presence;
  struct peers;  // the other threads' parts, as the scheme sees them
  struct sink;   // where the scheme puts safe blocks

  // The calling thread's cell.
  SPOLIA_ALWAYS_INLINE cell& my_cell();
  SPOLIA_NOINLINE cell& find_my_cell();

  // Guards begin and end.
  SPOLIA_ALWAYS_INLINE void begin_guard(cell& c) noexcept;
  SPOLIA_ALWAYS_INLINE void end_guard(cell& c) noexcept;
  SPOLIA_ALWAYS_INLINE void begin(cell& c) noexcept;
  SPOLIA_ALWAYS_INLINE void come(cell& c, biased_gate::word more) noexcept;
  SPOLIA_NOINLINE void arrive(cell& c, biased_gate::arrival found) noexcept;
  SPOLIA_ALWAYS_INLINE void end(cell& c) noexcept;
  SPOLIA_NOINLINE void look_back(cell& c) noexcept;
  SPOLIA_NOINLINE void end_and_free(cell& c) noexcept;
  void free_some(cell& c) noexcept;
  void free_when_due(cell& c) noexcept;

  // Blocks are retired.
  void note_origin(const header& block) noexcept;
  void retire(cell& me, retired* block) noexcept;

  // Between operations.
  SPOLIA_ALWAYS_INLINE bool wants_tick(cell& c) noexcept;
  SPOLIA_NOINLINE void tick(cell& me) noexcept;
  std::uint32_t pace_of(const typename Scheme::local& me) noexcept;
  std::uint32_t pace_of_chores() const noexcept;
  bool retired_much(const cell& me) const noexcept;
  void rest(cell& me) noexcept;
  void step_aside(cell& me) noexcept;
  void collect(cell& me) noexcept;
  void watch_budget() noexcept;

  // Blocks of other threads.
  void visit_next_neighbour(cell& me) noexcept;
  void park_if_idle(cell& other) noexcept;
  bool enough_is_left() const noexcept;
  void take_over_what_is_left(cell& me) noexcept;
  bool take_over(cell& me, cell& other) noexcept;
  void after_taking_over(cell& me) noexcept;
  void adopt_from_others(cell& me) noexcept;
  void adopt(cell& me, cell& other) noexcept;
  void hand_over(cell& me) noexcept;

  // Threads end, and the domain.
  void thread_left(std::uint32_t n) noexcept override;
  void thread_lost(std::uint32_t n) noexcept override;
  void forked() noexcept override;
  void forget(cell& c) noexcept;
  void release_everything();

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
  alignas(cache_line) detail::reclaim::courtesy courtesy_;  // read by all, seldom written
  alignas(cache_line) atomic<std::uint32_t> next_visit_{0};
  atomic<bool> barred_{false};  // a barrier's thread collects the blocks of all threads
  atomic<std::uint64_t> barriers_begun_{0};  // by such threads
  atomic<std::uint64_t> barriers_over_{0};   // the highest of them that has ended
  /// Blocks that threads had retired which have ended since; and how many of these there were when
  /// such threads' cells were last looked through.
  shared_tally retired_by_ended_;
  latest<std::uint64_t> looked_through_at_;
  latest<bool> unborn_;  // a block that the scheme's bound does not hold for was retired
};

/// The protection of one thread for the length of a short operation. Containers are written against
/// guards, once for all schemes:
///
///   guard.read(f)             the searching part: f() only reads shared memory, starting from a
///                             root, and has no objects with destructors alive. Under a restartable
///                             scheme f may be abandoned anywhere and started over; otherwise it is
///                             just called.
///   guard.protect(src, slot)  reads a pointer that may be followed. Under a region scheme: a plain
///                             acquire load. Under a pointer scheme it announces the pointer in
///                             `slot` and re-reads; the caller makes sure that what holds `src` was
///                             not itself unlinked (for a list: an unmarked link).
///   guard.step(src, to, slot, linked)
///                             the same for a `src` in a block that may have been unlinked
///                             meanwhile and would not show it. Where the scheme needs to know it
///                             asks linked(), and if that is false the search has to start over.
///   guard.keep(p, slot)       last words of f under a restartable scheme: p may be used after
///                             read().
///   guard.announce(p, slot)   outside of read(): ask that p stay. It does if the caller can show,
///                             by a check made afterwards, that p was not retired before the call.
///   guard.retire(p)           p was unlinked by this thread; frees it when no thread can read it
///                             any more.
template <class Scheme, class Release>
class domain<Scheme, Release>::guard {
 public:
  guard(guard&& other) noexcept
      : domain_(std::exchange(other.domain_, nullptr)), cell_(other.cell_), hold_(other.hold_) {}

  guard& operator=(guard&& other) noexcept {
    if (this != &other) {
      finish();
      domain_ = std::exchange(other.domain_, nullptr);
      cell_ = other.cell_;
      hold_ = other.hold_;
    }
    return *this;
  }

  SPOLIA_ALWAYS_INLINE ~guard() { finish(); }

  /// A pointer read from `source` that may be followed until the guard goes or the slot is used
  /// again.
  template <class Source>
  source_value<Source> protect(const Source& source, unsigned slot = 0) noexcept {
    return domain_->scheme_.protect(cell_->local, hold_, slot, source);
  }

  /// One step of a search from block to block: reads from `source`, which lies in a block found
  /// before, a pointer that may be followed until the guard goes or the slot is used again. False:
  /// start over from a root. `linked()` tells, by an acquire load, whether the block that holds
  /// `source` is still linked; it is asked afterwards, and only if the scheme needs to know.
  template <class Source, std::predicate Linked>
  bool step(const Source& source, source_value<Source>& to, unsigned slot, Linked&& linked) {
    return steps()(source, to, slot, std::forward<Linked>(linked));
  }

  /// step() by itself, for as long as the guard lives: a small copy, which stays in registers where
  /// the guard's address is known to others.
  class stepper {
   public:
    template <class Source, std::predicate Linked>
    SPOLIA_ALWAYS_INLINE bool operator()(const Source& source, source_value<Source>& to,
                                         unsigned slot, Linked&& linked) const {
      if constexpr (protects_pointers<Scheme>) {
        return scheme_->step(*local_, *hold_, slot, source, to) || linked();
      } else {
        to = scheme_->protect(*local_, *hold_, slot, source);
        return true;
      }
    }

    /// Can most steps be taken without a call, and without anything that a call would need?
    static constexpr bool glances =
        !protects_pointers<Scheme> ||
        requires(Scheme s, typename Scheme::local l, typename Scheme::hold h, atomic<int*>& source,
                 int* to) { s.glance(l, h, source, to); };

    /// The same where nothing need be done but to look. False: `to` must not be followed, the step
    /// has to be taken by the above. So a search is written twice, and the one that is nearly
    /// always run fits in registers.
    template <class Source>
    SPOLIA_ALWAYS_INLINE bool glance(const Source& source, source_value<Source>& to) const noexcept
      requires glances
    {
      if constexpr (protects_pointers<Scheme>) {
        return scheme_->glance(*local_, *hold_, source, to);
      } else {
        to = scheme_->protect(*local_, *hold_, 0, source);
        return true;
      }
    }

   private:
    friend class guard;
    stepper(Scheme& scheme, typename Scheme::local& local, typename Scheme::hold& hold) noexcept
        : scheme_(&scheme), local_(&local), hold_(&hold) {}

    Scheme* scheme_;
    typename Scheme::local* local_;
    typename Scheme::hold* hold_;
  };
  stepper steps() noexcept { return {domain_->scheme_, cell_->local, hold_}; }

  /// The searching part of an operation; returns what f() returns (trivially copyable, no
  /// references).
  template <class F>
  SPOLIA_ALWAYS_INLINE auto read(F&& f) {
    using result = std::invoke_result_t<F&>;
    if constexpr (protects_by_restart<Scheme>) {
      static_assert(std::is_void_v<result> || std::is_trivially_copyable_v<result>,
                    "read() may start over: it can only hand out values without destructors");
      return domain_->scheme_.read(cell_->local, hold_, f);
    } else {
      return f();
    }
  }

  template <class T>
  void keep(T* p, unsigned slot) noexcept {
    if constexpr (protects_by_restart<Scheme>) domain_->scheme_.keep(cell_->local, hold_, slot, p);
  }

  template <class T>
  void announce(T* p, unsigned slot) noexcept {
    if constexpr (!protects_regions<Scheme>) {
      domain_->scheme_.announce(cell_->local, hold_, slot, p);
    }
  }

  /// Retires a block that derives from the domain's header: never allocates, never fails.
  template <class T>
    requires std::is_base_of_v<header, T>
  void retire(T* block) noexcept {
    static_cast<retired*>(block)->how_.write(&disposers<T>::made);
    domain_->retire(*cell_, block);
  }

  /// The same, ended by `Deleter{}(block)`. If the block is not one of make()'s, see
  /// domain::garbage_bound().
  template <class T, class Deleter>
    requires std::is_base_of_v<header, T> && std::is_empty_v<Deleter>
  void retire(T* block, Deleter) noexcept {
    static_cast<retired*>(block)->how_.write(&disposers<T>::template deleted_by<Deleter>::how);
    domain_->note_origin(*block);
    domain_->retire(*cell_, block);
  }

  /// Retires any object, to be ended by `deleter(object)`. Throws std::bad_alloc, or what moving
  /// the deleter throws; then nothing was retired and the object is still the caller's. See
  /// domain::garbage_bound() for what waits.
  template <class T, class Deleter = std::default_delete<T>>
    requires(!std::is_base_of_v<header, T> || !std::is_empty_v<Deleter>)
  void retire(T* object, Deleter deleter = {}) {
    using box = boxed<T, Deleter>;
    void* const place = domain_->memory_.allocate(sizeof(box), alignof(box));
    box* made;
    try {
      made = ::new (place) box(object, std::move(deleter));
    } catch (...) {
      domain_->memory_.deallocate(place, sizeof(box), alignof(box));
      throw;
    }
    static_cast<retired*>(made)->how_.write(&box::how);
    domain_->note_origin(*made);
    cell_->made.add(1);
    domain_->retire(*cell_, made);
  }

 private:
  friend class domain;

  /// The constants that say how a T from make(), or with an empty deleter, ends.
  template <class T>
  struct disposers;
  /// What stands in for an object without a header.
  template <class T, class Deleter>
  struct boxed;

  SPOLIA_ALWAYS_INLINE guard(domain& d, cell& c);
  SPOLIA_ALWAYS_INLINE void finish() noexcept;

  domain* domain_;
  cell* cell_;
  [[no_unique_address]] typename Scheme::hold hold_{};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/reclaim/detail/domain_impl.hpp>
