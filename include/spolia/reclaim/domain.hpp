// SPDX-License-Identifier: Apache-2.0
// domain.hpp: what a user holds: a domain, which joins a scheme and a release policy, and the
// guards that it gives out. How both work stands in detail/domain_impl.hpp.
//
//     spolia::domain<> nodes;                      // bounded token epochs, amortized release
//     struct node : decltype(nodes)::header { ... };
//     std::atomic<node*> head;
//     node* fresh = nodes.make<node>(...);         // until it is published: nodes.destroy(fresh)
//     {
//       auto guard = nodes.enter();
//       auto first = guard.protect(head);          // safe to read until it goes, or the guard
//       node* n = first.get();
//       if (n != nullptr && head.compare_exchange_strong(n, n->next)) guard.retire(n);
//     }
//
// Default:     `domain<>` uses token epochs that a stalled reader does not stop (robust_token.hpp).
//              What waits stays below garbage_bound(), not counting what guards and deleters under
//              way have retired themselves. A structure has to read each pointer by protect or
//              step, and from a block that is still linked then: from a root, from a link that is
//              marked before its block goes, or with step's check. A structure that follows
//              pointers by plain loads, or through blocks that others have unlinked, takes
//              `region_domain`.
// Threads:     any number, without registration. A thread that ends leaves its waiting blocks to
//              the others, also those that it retires in destructors of thread-local objects. One
//              guard belongs to one thread; guards nest, and several domains may be in use at once.
//              A thread that ends inside a guard leaves it behind (checked build: reported): what
//              that guard protects stays, pins() names it, and the thread's number goes to no other
//              thread meanwhile.
// Copies:      a domain, and what is made with it, belongs to one copy of the library. Where two
//              plugins have static copies and share a domain, every build variant reports the
//              second one's first use, and ends the process.
// Errors:      a thread's first call of enter, make, drain or rest may throw std::bad_alloc. Under
//              schemes with slots so may enter, where more guards of the thread are alive at one
//              time than ever before. So may retire without `header`, which needs a small record:
//              then nothing was retired.
// Cost:        see the scheme; the domain adds two plain stores and a few tests to a guard.
// Destructor:  frees everything that waits. No guard may be alive (checked build: reported).
// Fork:        in the child, blocks that waited with threads which are gone are taken over, as
//              those of ended threads are. The exception are blocks whose thread was working on its
//              lists, or was inside a guard, when the fork came: these are never freed,
//              stats().lost_in_fork counts them, and they no longer count as waiting. Everything
//              else goes on as before.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
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
#include <spolia/base/weight.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/reclaim/detail/fork_losses.hpp>
#include <spolia/reclaim/detail/numbered.hpp>
#include <spolia/reclaim/detail/phases.hpp>
#include <spolia/reclaim/detail/pins.hpp>
#include <spolia/reclaim/detail/vacancy.hpp>
#include <spolia/reclaim/limbo.hpp>
#include <spolia/reclaim/protected_ptr.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/robust_token.hpp>
#include <spolia/reclaim/shared_budget.hpp>
#include <spolia/reclaim/statistics.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

template <class Scheme, class Release>
struct domain_cell;
template <class Cell>
struct presence;
struct cell_sums;

/// The model checker knows no time.
#if defined(SPOLIA_MODEL)
inline constexpr bool keeps_time = false;
#else
inline constexpr bool keeps_time = true;
#endif

}  // namespace detail::reclaim

template <class Scheme = robust_token, class Release = amortized>
class domain final : private threads::listener, private shared_budget::member {
  static_assert(scheme<Scheme>,
                "the first argument of a domain is its scheme, such as spolia::robust_token, and "
                "offers what a scheme must: see docs/scheme-contract.md; a note below names what "
                "is missing");
  static_assert(
      !scheme<Scheme> || protects_regions<Scheme> || protects_in_slots<Scheme> || requires {
        requires Scheme::slotless;
      }, "Scheme must say which slots are in use, by owners(), or that it is `slotless`");
  static_assert(release_policy<Release>,
                "the second argument of a domain is its release policy, such as spolia::amortized, "
                "and offers what reclaim/concepts.hpp says");

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
    /// When more bytes than this wait to be freed, `over_budget` is called; 0: never. It is called
    /// once, and again only after less than half of this number has waited. The thread that notices
    /// calls it, between two operations. The function may use the domain, and drain it; it must not
    /// throw, and should not take long.
    std::uint64_t budget_bytes = 0;
    std::function<void(const struct over_budget&)> over_budget{};
    /// A budget that several domains share (shared_budget.hpp), which must outlive them; null:
    /// none. `label` is what its report calls this domain: the text must stay as it is.
    shared_budget* shared = nullptr;
    const char* label = nullptr;
    /// A retired block is freed within so many milliseconds after the last guard that holds it up
    /// has ended. Any thread that uses the domain does that, also one that only reads, and also for
    /// blocks that sleeping and ended threads have left. The library has no thread for it: where no
    /// thread uses the domain, the block waits for the next one that does, or for drain(). A thread
    /// that does less than before may be late by 256 operations. Each operation frees at most 1024
    /// blocks, and stops earlier once these own 256 KiB, but frees at least one. 0: blocks wait as
    /// long as scheme and policy make them.
    std::uint32_t free_within_ms = 1000;
    /// While threads that were interrupted inside of guards hold epochs up, each thread yields its
    /// processor after so many microseconds, between two operations; 0: never. Only with schemes
    /// that set `courteous`. See courtesy.hpp.
    std::uint32_t turn_us = 300;
  };

  /// The base of blocks that are retired without allocating.
  struct header : stamped<typename Scheme::stamp> {
   private:
    friend class domain;

    /// For the checked variant: make() of the domain with that serial number has made it, of that
    /// size; whether it was another one's, or none, or another type; and that its domain ends it.
    void note_maker([[maybe_unused]] std::uint64_t serial,
                    [[maybe_unused]] std::size_t bytes) noexcept {
#if SPOLIA_CHECKS
      made_by_.serial = serial;
      made_by_.bytes = bytes;
#endif
    }
    bool is_of_another([[maybe_unused]] std::uint64_t serial) const noexcept {
#if SPOLIA_CHECKS
      return made_by_.serial != 0 && made_by_.serial != serial;
#else
      return false;
#endif
    }
    bool was_made() const noexcept {
#if SPOLIA_CHECKS
      return made_by_.serial != 0;
#else
      return true;
#endif
    }
    bool was_made_as([[maybe_unused]] std::size_t bytes) const noexcept {
#if SPOLIA_CHECKS
      return made_by_.bytes == bytes;
#else
      return true;
#endif
    }
    void ends() noexcept {
#if SPOLIA_CHECKS
      made_by_.serial = 0;
#endif
    }
#if SPOLIA_CHECKS
    /// Goes with the block, and not with what is copied to another one. 0: no domain has made it.
    struct maker {
      maker() = default;
      maker(const maker&) noexcept {}
      maker& operator=(const maker&) noexcept { return *this; }
      ~maker() {
        if (serial == 0) return;
        misuse::report(
            "a block of make() is deleted by the program: retire it, or give it to the domain's "
            "destroy() if no other thread has seen it",
            threads::number());
      }
      std::uint64_t serial = 0;
      std::size_t bytes = 0;
    };
    maker made_by_;
#endif
  };

  /// A pointer that a guard of this domain has read, with its protection.
  template <class Pointer>
  using protected_ptr = spolia::protected_ptr<
      Pointer, std::conditional_t<protects_in_slots<Scheme>, detail::reclaim::owned_slot,
                                  detail::reclaim::no_slot>>;

  class guard;
  class outside;  // what the standard faces do outside of guards: src/reclaim/outside.hpp

  /// Throws std::invalid_argument with one sentence when an option makes no sense; under
  /// neutralization std::runtime_error when the system has no free signal (signals.hpp).
  explicit domain(options o = {})
      : serial_(core::next_serial()),
        scheme_(checked(o).scheme),
        memory_(o.memory),
        release_(o.release, memory_),
        time_pauses_one_in_(o.time_pauses_one_in),
        budget_bytes_(o.over_budget ? o.budget_bytes : 0),
        over_budget_(std::move(o.over_budget)),
        shared_(o.shared),
        label_(o.label),
        watched_bytes_(shared_ == nullptr   ? budget_bytes_
                       : budget_bytes_ == 0 ? shared_->bytes()
                                            : (std::min)(budget_bytes_, shared_->bytes())),
        within_(std::int64_t{o.free_within_ms} * 1'000'000),
        alarm_(detail::reclaim::keeps_time && within_ != 0 ? silent : never),
        courtesy_(o.turn_us) {
    threads::listen(*this);
    if (shared_ != nullptr) shared_->join(*this);
  }
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;

  ~domain();

  /// Begins protection for this thread; ends when the guard goes.
  [[nodiscard]] SPOLIA_ALWAYS_INLINE guard enter() { return guard(*this, my_cell()); }

  /// The same for a guard that may live long. pins() shows the label, whose text must stay as it
  /// is.
  [[nodiscard]] guard enter(const char* label);

  /// A new object of type T, which derives from `header`. Strong guarantee: throws std::bad_alloc
  /// or what T's constructor throws, and then nothing has changed.
  template <class T, class... Arguments>
  [[nodiscard]] T* make(Arguments&&... arguments);

  /// Ends an object from `make` that no other thread can see: because no thread ever could, or
  /// because none uses the domain any more.
  template <class T>
  void destroy(T* block) noexcept;

  /// Frees what can be freed now: adopts the blocks of threads that are gone or between operations,
  /// and collects. Call it outside of guards. Returns true if nothing waits any more. It does so up
  /// to `rounds` times, since what was retired late may need another round; one round does for what
  /// idle threads have left. It waits for no guard of another thread, but under neutralization it
  /// waits until each thread that reads has been interrupted.
  bool drain(int rounds = drain_rounds);

  /// Says that this thread will not use the domain for a while. Until it does, no other thread
  /// needs a fence to learn of it. Does nothing inside a guard, and under schemes that do not park
  /// threads. May throw std::bad_alloc if it is the thread's first call.
  void rest();

  domain_statistics stats() const;
  /// The sums among them: without the histogram, which takes 4 KiB of the stack.
  detail::reclaim::cell_sums sums() const noexcept;

  /// How many blocks are retired and not yet destroyed. While other threads work, it is at most the
  /// number at some moment of the call. Cheap: for sampling.
  std::uint64_t garbage() const noexcept;

  /// The guards that are alive and were so at an earlier check, the oldest first: they may hold
  /// garbage up. This call is a check, too. A guard whose thread has ended is named at once. It
  /// counts as one of a stalled thread, and its thread as one of the `threads` of garbage_bound(),
  /// for as long as the guard and the domain live. Throws std::bad_alloc.
  std::vector<pin> pins();

  /// How many blocks can wait at most with `threads` threads at one time, whatever these do;
  /// nothing if the scheme has no bound. It follows the options of the scheme and the release
  /// policy: of the latter only `at_least` adds to it, for each thread (release.hpp says why).
  /// Three things come on top. What an outermost guard that is alive has retired itself waits until
  /// it ends. What deleters have retired in a thread's last step of freeing waits until the end of
  /// its next outermost guard. So a guard, or a deleter, that retires a million blocks goes a
  /// million beyond. What ended threads have left waits until it is 1024 blocks, and is then taken
  /// over: see docs/schemes.md.
  /// Under robust_token the bound holds for blocks made by make(). Once this domain has retired any
  /// other block (`retire(new int)`, `retire(new node, deleter)`) there is no bound, and this
  /// returns nothing.
  std::optional<std::uint64_t> garbage_bound(std::size_t threads) const;

  static constexpr const scheme_info& info() noexcept { return Scheme::info; }

 private:
  friend presence;
  friend struct detail::reclaim::numbered;
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
  /// False: it is not one that make() has made as a T, and ends neither by this domain's memory nor
  /// by T's destructor.
  template <class T>
  static bool expect_made(const header& block) noexcept {
    if (!SPOLIA_CHECKS) return true;
    if (!block.was_made()) {
      misuse::report(
          "a block is retired or destroyed that no make() has made: make it so, or retire it "
          "with its deleter, as in guard.retire(p, std::default_delete<node>())",
          threads::number());
      return false;
    }
    if (!block.was_made_as(sizeof(T))) {
      misuse::report(
          "a block is retired or destroyed as another type than make() has made it as: the pointer "
          "must be to the type that was made, not to a base of it",
          threads::number());
      return false;
    }
    return true;
  }
  /// Goes on where it is not: the block is freed with those of this domain.
  void expect_own(const header& block) const noexcept {
    if (!SPOLIA_CHECKS || !block.is_of_another(serial_)) return;
    misuse::report(
        "a block is retired into a domain that has not made it, whose guards do not protect it: "
        "retire it under a guard of the domain whose make() made it",
        threads::number());
  }
  void note_origin(const header& block) noexcept;
  void retire(cell& me, retired* block) noexcept;
  SPOLIA_NOINLINE void retire_weighed(cell& me, const retired& block) noexcept;

  // Between operations.
  SPOLIA_ALWAYS_INLINE bool wants_tick(cell& c) noexcept;
  SPOLIA_NOINLINE void tick(cell& me) noexcept;
  biased_gate::word next_tick(const cell& me, biased_gate::word said) const noexcept;
  std::uint32_t pace_of(const typename Scheme::local& me) noexcept;
  /// Where a budget is watched, schemes that do not tick regularly are made to, every few dozen
  /// operations: large blocks would pass it long before the usual chores.
  std::uint32_t pace_of_chores() const noexcept {
    if constexpr (cell::scheme_keeps_pace) return cell::chores_every;
    return watched_bytes_ == 0 ? cell::chores_every : cell::chores_every / 16;
  }
  bool retired_much(const cell& me) const noexcept;

  // Time passes.
  SPOLIA_NOINLINE void set_alarm(cell& me) noexcept;
  SPOLIA_NOINLINE void look_at_time(cell& me) noexcept;
  void tick_for_time(cell& me) noexcept;
  void free_old(cell& me, std::int64_t now) noexcept;
  void free_left(cell& me) noexcept;
  void be_silent(std::int64_t alarm) noexcept;
  void rest(cell& me) noexcept;
  void step_aside(cell& me) noexcept;
  void collect(cell& me) noexcept;
  SPOLIA_NOINLINE void press(cell& me) noexcept;
  bool is_held_up(const cell& me) const noexcept {
    return scheme_.waiting(me.local) != 0 && sums().garbage_bytes() >= 4 * cell::press_bytes;
  }
  std::uint64_t press_after(const cell& me) const noexcept;
  void look_at_budget(cell& me) noexcept;
  void watch_budget() noexcept;
  std::uint64_t waiting_bytes() const noexcept override { return sums().garbage_bytes(); }
  shared_budget::share describe() override {
    const auto now = sums();
    return {label_, now.garbage_bytes(), now.garbage(), detail::reclaim::pins_of(cells_, true)};
  }

  // Blocks of other threads.
  void visit_next_neighbour(cell& me) noexcept;
  void park_if_idle(cell& other) noexcept;
  /// Threads that have ended had retired many blocks, or had taken many over, since what such
  /// threads leave was looked for: a thread that only reads takes blocks over, too. That is counted
  /// for the domain: what is counted for a number comes to nothing where the thread that has the
  /// number next does not use the domain.
  bool enough_is_left() const noexcept {
    constexpr std::uint64_t enough = 1024;
    return taken_in_by_ended_.value() - looked_through_at_.value() >= enough;
  }
  void take_over_what_is_left(cell& me) noexcept;
  void hasten_what_was_taken_over(cell& me) noexcept;
  bool take_over(cell& me, std::uint32_t n, cell& other) noexcept;
  void adopt_from_others(cell& me) noexcept;
  void leave_vacant(std::uint32_t n, cell& other) noexcept;
  void adopt(cell& me, cell& other) noexcept;
  void hand_over(cell& me) noexcept;

  // Threads end, and the domain.
  void thread_left(std::uint32_t n) noexcept override;
  bool keeps(std::uint32_t n) noexcept override;
  void thread_lost(std::uint32_t n) noexcept override;
  void forked() noexcept override {
    if constexpr (requires { scheme_.forget_strangers(); }) scheme_.forget_strangers();
  }
  void losses_told() noexcept override;
  void release_everything();

  static const options& checked(const options& o) {
    if (const char* const wrong = Scheme::what_is_wrong(o.scheme))
      throw std::invalid_argument(wrong);
    return o;
  }

  static constexpr int drain_rounds = 8;  // more than any scheme needs from retirement to release
  const std::uint64_t serial_;
  const misuse::copy_of_the_library copy_{};
  Scheme scheme_;
  const memory::origin memory_;
  Release release_;
  const std::uint32_t time_pauses_one_in_;
  const std::uint64_t budget_bytes_;
  const std::function<void(const struct over_budget&)> over_budget_;
  shared_budget* const shared_;
  const char* const label_;
  const std::uint64_t watched_bytes_;  // the smaller of the two budgets; 0: none
  atomic<bool> over_{false};           // the budget, and that has been said
  const std::int64_t within_;          // ns in which to free; 0: that does not matter
  cells<cell> cells_;
  /// When some thread is to look at what all have left, by pin_watch::now_ns(); or one of these:
  static constexpr std::int64_t silent = 0;  // nothing waits, as far as is known
  static constexpr std::int64_t never = (std::numeric_limits<std::int64_t>::max)();
  alignas(cache_line) atomic<std::int64_t> alarm_;
  alignas(cache_line) detail::reclaim::courtesy courtesy_;  // read by all, seldom written
  alignas(cache_line) atomic<std::uint32_t> next_visit_{0};
  atomic<bool> barred_{false};  // a barrier's thread collects the blocks of all threads
  atomic<std::uint64_t> barriers_begun_{0};  // by such threads
  atomic<std::uint64_t> barriers_over_{0};   // the highest of them that has ended
  /// Blocks that threads had retired which have ended since; and how many of these there were when
  /// such threads' cells were last looked through.
  shared_tally taken_in_by_ended_;
  latest<std::uint64_t> looked_through_at_;
  detail::reclaim::fork_losses lost_;
  latest<bool> unborn_;  // a block that the scheme's bound does not hold for was retired
};

/// The protection of one thread for the length of a short operation. A structure is written against
/// guards, once for all schemes that can protect it:
///
///   guard.protect(src)        reads a pointer that may be followed, and gives it together with its
///                             protection (protected_ptr.hpp). Under a region scheme: a plain
///                             acquire load. Under a pointer scheme it announces the pointer and
///                             reads it again; the caller makes sure that what holds `src` is
///                             protected itself, and was not unlinked (for a list: an unmarked
///                             link).
///   guard.step(src, to, linked)
///                             the same for a `src` in a block that may have been unlinked
///                             meanwhile and would not show it. Where the scheme needs to know it
///                             asks linked(), and if that is false the search has to start over.
///   guard.read(f)             the searching part, for restartable schemes and any others:
///                             f(phase) only reads shared memory, starting from a root, by
///                             phase.protect(src) and phase.step(...), and has no objects with
///                             destructors alive. Under a restartable scheme f may be abandoned
///                             anywhere and started over, and there is no other way to read;
///                             otherwise it is just called. What is to be used afterwards f returns
///                             by `return phase.keep(std::move(protection), ...)`.
///   guard.announce(p)         outside of read(): ask that p stay. It does if the caller can show,
///                             by a check made afterwards, that p was not retired before the call.
///   guard.retire(p)           p was unlinked by this thread; frees it when no thread can read it
///                             any more.
///
/// Errors: where protections own slots, a guard has eight: protect, step, announce and read throw
/// std::length_error when more are wanted at one time, and then nothing has changed.
template <class Scheme, class Release>
class domain<Scheme, Release>::guard {
  template <class>
  static constexpr bool reads_by_itself = !protects_by_restart<Scheme>;

 public:
  using scheme_type = Scheme;

  /// What this guard's protections are: protected_ptr<node*>, protected_ptr<marked_ptr<node>>.
  template <class Pointer>
  using protected_ptr = domain::protected_ptr<Pointer>;

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

  /// Reads the pointer in `source`, which may be followed while the protection lives.
  template <class Source>
  [[nodiscard]] SPOLIA_ALWAYS_INLINE protected_ptr<source_value<Source>> protect(
      const Source& source) noexcept(!protects_in_slots<Scheme>) {
    static_assert(reads_by_itself<Source>,
                  "reads under this scheme may start over: protect in guard.read(), by what it "
                  "hands to its function, as in `guard.read([&](auto& phase) { return "
                  "phase.keep(phase.protect(head)); })`");
    static_cast<void>(is_usable());
    if constexpr (protects_in_slots<Scheme>) {
      detail::reclaim::owned_slot slot = slot_for(&source);
      const auto p = domain_->scheme_.protect(cell_->local, hold_, slot.number(), source);
      return detail::reclaim::protecting::in(std::move(slot), p);
    } else {
      return detail::reclaim::protecting::without_slot(
          domain_->scheme_.protect(cell_->local, hold_, 0, source));
    }
  }

  /// The older form, in which the caller says which of the guard's slots is used. What the slot
  /// named before is given up.
  template <class Source>
  [[deprecated("protect(source) gives the pointer and its protection, and get() the pointer")]]
  source_value<Source> protect(const Source& source, unsigned) noexcept {
    static_assert(!protects_in_slots<Scheme> || !reads_by_itself<Source>,
                  "a slot named by its number may be in use: protect(source) gives the pointer and "
                  "its protection, and get() the pointer");
    return protect(source).get();
  }

  /// One step of a search from block to block: reads from `source`, which lies in a block that is
  /// protected. False: `to` is null, and the search has to start over from a root. `linked()`
  /// tells, by an acquire load, whether the block that holds `source` is still linked; it is asked
  /// afterwards, and only if the scheme needs to know. `to` may be the block's own protection.
  template <class Source, std::predicate Linked>
  [[nodiscard]] bool step(const Source& source, protected_ptr<source_value<Source>>& to,
                          Linked&& linked) {
    static_assert(reads_by_itself<Source>,
                  "reads under this scheme may start over: step in guard.read(), by what it hands "
                  "to its function, as in `phase.step(...)`");
    if constexpr (protects_in_slots<Scheme>) {
      detail::reclaim::owned_slot slot = slot_for(&source);
      source_value<Source> p{};
      const unsigned number = slot.number();
      const bool found = domain_->scheme_.step(cell_->local, hold_, number, source, p) || linked();
      to = found ? detail::reclaim::protecting::in(std::move(slot), p) : nullptr;
      return found;
    } else {
      source_value<Source> p{};
      const bool found = detail::reclaim::numbered::step(*this, source, p, 0, linked);
      to = detail::reclaim::protecting::without_slot(found ? p : source_value<Source>{});
      return found;
    }
  }

  /// What guard.read(f) hands to f: see above.
  using phase = detail::reclaim::phase_of<guard, Scheme>;

  /// The searching part of an operation: f(phase), or f() where it needs no protections. Returns
  /// what f returns; under a restartable scheme that is phase.keep(...), or something trivially
  /// copyable.
  template <class F>
  SPOLIA_ALWAYS_INLINE auto read(F&& f) {
    if constexpr (!std::invocable<F&>) {
      if constexpr (protects_by_restart<Scheme>) {
        return phase(domain_->scheme_, cell_->local, hold_).run(f);
      } else {
        phase here(*this);
        return f(here);
      }
    } else if constexpr (protects_by_restart<Scheme>) {
      using result = std::invoke_result_t<F&>;
      static_assert(std::is_void_v<result> || std::is_trivially_copyable_v<result>,
                    "read() may start over: it can only hand out values without destructors");
      return domain_->scheme_.read(cell_->local, hold_, f);
    } else {
      return f();
    }
  }

  /// Names p without reading a source: see above.
  template <class T>
  [[nodiscard]] protected_ptr<T*> announce(T* p) noexcept(!protects_in_slots<Scheme>) {
    if constexpr (protects_in_slots<Scheme>) {
      detail::reclaim::owned_slot slot(Scheme::owners(hold_));
      domain_->scheme_.announce(cell_->local, hold_, slot.number(), p);
      return detail::reclaim::protecting::in(std::move(slot), p);
    } else {
      detail::reclaim::numbered::announce(*this, p, 0);
      return detail::reclaim::protecting::without_slot(p);
    }
  }

  /// Retires a block that derives from the domain's header: never allocates, never fails.
  /// Its weight is what weight_of<T> says (base/weight.hpp), or `owned` where that is given.
  template <class T>
    requires std::is_base_of_v<header, T>
  void retire(T* block) noexcept {
    if (!can_retire(block)) return;
    retire(block, owned_by(*block));
  }
  template <class T>
    requires std::is_base_of_v<header, T>
  void retire(T* block, weight owned) noexcept {
    if (!can_retire(block) || !domain::expect_made<T>(*block)) return;
    domain_->expect_own(*block);
    static_cast<retired*>(block)->ends_by(disposers<T>::made, owned.bytes);
    domain_->retire(*cell_, block);
  }

  /// The same; `Deleter{}(block)` ends the block. If make() has not made it, see
  /// domain::garbage_bound().
  template <class T, class Deleter>
    requires std::is_base_of_v<header, T> && std::is_empty_v<Deleter>
  void retire(T* block, Deleter d) noexcept {
    if (!can_retire(block)) return;
    retire(block, d, owned_by(*block));
  }
  template <class T, class Deleter>
    requires std::is_base_of_v<header, T> && std::is_empty_v<Deleter>
  void retire(T* block, Deleter, weight owned) noexcept {
    if (!can_retire(block)) return;
    static_cast<retired*>(block)->ends_by(disposers<T>::template deleted_by<Deleter>::how,
                                          owned.bytes);
    domain_->expect_own(*block);
    domain_->note_origin(*block);
    domain_->retire(*cell_, block);
  }

  /// Retires any object, which `deleter(object)` will end. Throws std::bad_alloc, or what moving
  /// the deleter throws; then nothing was retired and the object is still the caller's. See
  /// domain::garbage_bound() for what waits.
  template <class T, class Deleter = std::default_delete<T>>
    requires(!std::is_base_of_v<header, T> || !std::is_empty_v<Deleter>)
  void retire(T* object, Deleter deleter = {}) {
    retire(object, std::move(deleter), owned_by(*object));
  }
  template <class T, class Deleter = std::default_delete<T>>
    requires(!std::is_base_of_v<header, T>)
  void retire(T* object, weight owned) {
    retire(object, Deleter{}, owned);
  }
  template <class T, class Deleter>
    requires(!std::is_base_of_v<header, T> || !std::is_empty_v<Deleter>)
  void retire(T* object, Deleter deleter, weight owned) {
    if (!is_usable()) return;
    using box = boxed<T, Deleter>;
    void* const place = domain_->memory_.allocate(sizeof(box), alignof(box));
    box* made;
    try {
      made = ::new (place) box(object, std::move(deleter));
    } catch (...) {
      domain_->memory_.deallocate(place, sizeof(box), alignof(box));
      throw;
    }
    static_cast<retired*>(made)->ends_by(box::how, owned.bytes);
    domain_->note_origin(*made);
    cell_->made.add(1);
    domain_->retire(*cell_, made);
  }

 private:
  friend class domain;
  friend struct detail::reclaim::numbered;

  /// False, in the checked variant: a mistake was reported.
  bool is_usable() const noexcept {
#if SPOLIA_CHECKS && !defined(SPOLIA_MODEL)
    if (domain_ == nullptr) {
      misuse::report("a guard is used that was moved from", threads::number());
      return false;
    }
    if (&domain_->my_cell() != cell_) {
      misuse::report("a guard is used on another thread than it began on", threads::number());
      return false;
    }
#endif
    return true;
  }
  bool can_retire([[maybe_unused]] const void* block) const noexcept {
#if SPOLIA_CHECKS
    if (block == nullptr) {
      misuse::report("a null pointer is retired", threads::number());
      return false;
    }
#endif
    return is_usable();
  }

  /// A free slot. Throws std::length_error.
  detail::reclaim::owned_slot slot_for([[maybe_unused]] const void* source) {
    detail::reclaim::slot_owners& all = Scheme::owners(hold_);
#if SPOLIA_CHECKS
    all.check_source(source);
#endif
    return detail::reclaim::owned_slot(all);
  }

  /// The constants that say how a T from make(), or with an empty deleter, ends.
  template <class T>
  struct disposers;
  /// What stands in for an object without a header.
  template <class T, class Deleter>
  struct boxed;

  template <class T>
  static weight owned_by([[maybe_unused]] const T& object) noexcept {
    if constexpr (weightless<T>) {
      return {};
    } else {
      return {weigh(object)};
    }
  }

  SPOLIA_ALWAYS_INLINE guard(domain& d, cell& c);
  SPOLIA_ALWAYS_INLINE void finish() noexcept;

  domain* domain_;
  cell* cell_;
  [[no_unique_address]] typename Scheme::hold hold_{};
};

}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/reclaim/detail/domain_impl.hpp>
