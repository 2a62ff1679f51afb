// SPDX-License-Identifier: Apache-2.0
// domain.hpp: read-log-update with many versions: sections that read one instant without waiting,
// and sections that change several objects at once and conflict only on the same object.
// detail/domain_impl.hpp says how that works.
//
// Source:      Kim et al.: MV-RLU: Scaling Read-Log-Update with Multi-Versioning, ASPLOS 2019.
//
//     struct account { long balance; };
//     spolia::rlu::domain bank;
//     auto a = bank.make<account>({100}), b = bank.make<account>({0});
//     bank.update([&](auto& in) {
//       auto from = in.try_lock(a);
//       auto to = in.try_lock(b);
//       if (!from || !to) return;                       // another section has one: called again
//       from->balance -= 10; to->balance += 10;
//     });
//     long sum = bank.read([&](auto& in) { return in.read(a)->balance + in.read(b)->balance; });
//
// Promises:    snapshot isolation: a section sees what was committed before it began, and its own
//              writes. Of two sections that lock the same object at most one commits. Two sections
//              may each change what the other has only read (write skew), unless they lock that,
//              too (try_lock_const), or say serializable(). A thread sees what it has committed. A
//              section sees what was committed before it in real time, or was seen by a section
//              before it.
// Cost:        a section: an announcement in the census. A read of an object without copies: a
//              load. A read of the newest copy: two loads and a comparison. Any other read: a short
//              guard and a walk to the version of that time. A lock: a compare-and-swap and a copy.
//              A commit: a full fence and a tick of the clock.
// Progress:    reads wait for no thread. Where one meets a commit it waits for a hardware clock's
//              bound(). A section's beginning may wait for one commit of a thread in exclusive mode
//              (exclusive_mode.hpp). Locks never wait for sections. A section that conflicts starts
//              over after a pause, so that one of those that conflict commits; chance decides
//              which.
// Bound:       each thread's log holds `log_cap` bytes of versions at most, needed or not. Freed
//              objects that are large, or own much, hold about 1 MiB, or one of them alone does:
//              above that, threads sweep logs for their sake.
//              A sleeping section holds up the versions whose interval has its time, and the
//              write-back of objects whose master it may read.
// Errors:      std::bad_alloc from anything that begins, locks or makes: the section is abandoned,
//              and all is as it was. log_full when a log stays at its cap. What the user's function
//              throws comes out, and the section is abandoned. std::logic_error from an update
//              inside a section that only reads.
// Threads:     come and go. Other threads collect the log of a thread that has ended. Sections of
//              one domain nest: an inner section is a part of the outer one. Sections of two
//              domains may overlap, since these have nothing in common.
// Fork:        in the child, the sections of lost threads end. Their locks are given up, and no
//              section ever sees what they had not committed. (A commit that lacked nothing but its
//              timestamp gets one.) The child collects their logs as those of threads that have
//              ended. Three things stay for the life of the process: what the fork has caught in a
//              change of a log's lists, what a thread was sweeping, and what a section had freed in
//              place.
// Teardown:    `discard` each object that has not been freed, and then destroy the domain.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include <spolia/base/backoff.hpp>
#include <spolia/base/cells.hpp>
#include <spolia/base/census.hpp>
#include <spolia/base/clock.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/fence.hpp>
#include <spolia/base/memory.hpp>
#include <spolia/base/misuse.hpp>
#include <spolia/base/processors.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/courtesy.hpp>
#include <spolia/reclaim/debra.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/rlu/detail/scope.hpp>
#include <spolia/rlu/detail/session.hpp>
#include <spolia/rlu/options.hpp>
#include <spolia/rlu/pointers.hpp>
#include <spolia/rlu/section.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace rlu {

template <class Clock = logical_clock, class Blocks = spolia::domain<debra, batch>>
class basic_domain final : private threads::listener {
  static_assert(timestamp_clock<Clock>,
                "rlu: the first argument of a domain is its clock, such as spolia::logical_clock");
  static_assert(
      requires { typename Blocks::header; },
      "rlu: the second argument of a domain is the domain of its blocks, such as "
      "spolia::domain<spolia::debra, spolia::batch>");
  using session = detail::session<typename Blocks::header>;
  using log = detail::log<typename Blocks::header>;

 public:
  using clock_type = Clock;
  using reader = basic_reader<Clock, Blocks>;
  using writer = basic_writer<Clock, Blocks>;

  /// Throws std::invalid_argument if an option makes no sense.
  explicit basic_domain(options o = {}) : options_(detail::checked(o)) { threads::listen(*this); }
  /// With the clock that was asked for, if the machine has it.
  explicit basic_domain(clock_kind wanted, options o = {})
    requires std::constructible_from<Clock, clock_kind>
      : options_(detail::checked(o)), clock_(wanted) {
    threads::listen(*this);
  }
  basic_domain(const basic_domain&) = delete;
  basic_domain& operator=(const basic_domain&) = delete;
  ~basic_domain();

  /// Calls f(reader&), which sees one instant, and returns what f returns. Inside another section
  /// of this thread f sees what that sees. \throws std::bad_alloc
  template <class F>
  auto read(F&& f) {
    return read(nullptr, std::forward<F>(f));
  }
  /// The same with a label for `for_each_section`. The label must live as long as the section.
  template <class F>
  auto read(const char* label, F&& f) {
    using result = std::invoke_result_t<F&, reader&>;
    static_assert(!detail::bound_to_section<result>, "rlu: a view must not outlive its section");
    session& mine = my_session();
    if (mine.depth != 0) [[unlikely]]
      return read_within(std::forward<F>(f));
    const detail::reading here(*this, mine, label);
    reader in(*this, mine, false);
    return std::forward<F>(f)(in);
  }

  /// Calls f(writer&) until its section has committed, and returns what f returned in the call that
  /// was committed. If f returns void, update returns false where f has cancelled the section.
  /// Inside another section that writes, f becomes part of that and is called once. What f returns
  /// means nothing then if the writer is doomed.
  /// \throws std::bad_alloc, log_full, and what f throws
  template <class F>
  auto update(F&& f) {
    using result = std::invoke_result_t<F&, writer&>;
    static_assert(!detail::bound_to_section<result>, "rlu: a view must not outlive its section");
    for (retries again(*this);; again.pause()) {
      session& mine = my_session();
      if (mine.depth != 0) [[unlikely]]
        return update_within(f);
      detail::writing here(*this, mine);
      writer in(*this, mine, true);
      if constexpr (std::is_void_v<result>) {
        f(in);
        again.last = here.ended(in);
        if (is_over(again.last)) return again.last == outcome::committed;
      } else {
        result made = f(in);
        again.last = here.ended(in);
        if (is_over(again.last)) return made;
      }
    }
  }

  /// One try of update; returns how it ended. \throws std::bad_alloc and what f throws
  template <std::invocable<writer&> F>
  outcome attempt(F&& f) {
    session& mine = my_session();
    if (mine.depth != 0) {
      const detail::part here(mine, true);
      writer in(*this, mine, true);
      f(in);
      return mine.state;
    }
    detail::writing here(*this, mine);
    writer in(*this, mine, true);
    f(in);
    return here.ended(in);
  }

  /// A new object, outside of sections. \throws std::bad_alloc, what moving the fixed part throws
  template <class T>
  [[nodiscard]] ptr<T> make(detail::fixed_of<T> fixed, const T& body) {
    return make_with<T>(std::move(fixed), body, {});
  }
  /// With `count` values of T::tail after the body, which are zero at first.
  template <detail::has_tail T>
  [[nodiscard]] ptr<T> make(detail::fixed_of<T> fixed, const T& body, std::size_t count) {
    return make_with<T>(std::move(fixed), body, detail::tail_of<T>(count));
  }
  template <class T>
  [[nodiscard]] ptr<T> make(const T& body) {
    return make<T>(detail::fixed_of<T>(), body);
  }

  /// For teardown: ends an object that no section can see, neither now nor later. Null is allowed.
  /// Waits for sweeps of logs that are under way.
  template <class T>
  void discard(ptr<T> p) noexcept {
    static_assert(!detail::is_element<T>, "rlu: elements end with their array");
    if (!p) return;
    detail::whole<T>* const o = detail::access::master(p);
    write_back(*o);
    if (!SPOLIA_FAULT("rlu.discards_at_once")) wait_for_collectors();
    detail::whole<T>::destroy(*o);
  }

  /// For teardown: the newest version of an object that no section can reach and no other thread
  /// uses.
  template <class T>
  T& alone(ptr<T> p) noexcept {
    detail::whole<T>* const o = detail::access::master(p);
    write_back(*o);
    return o->body;
  }

  /// Sweeps every log once. Two calls with a moment between them free all that no section needs,
  /// but for what is in the open segments of threads that write. Do not call it inside a section.
  void collect() {
    session& mine = my_session();
    if (mine.depth != 0) return misuse::report("rlu: collect inside a section", threads::number());
    if (mine.collecting) return;  // by a destructor that a sweep has called
    sessions_.for_each_occupied([&](std::uint32_t n, session& s) {
      if (n == threads::number()) s.written.close();
      pass(mine, &s, nullptr, true);
      leave_vacant(n, s);
      return true;
    });
    become_exclusive_if_so(mine);
    blocks_.drain();
    graves_.clear();
  }

  /// Calls f(census::entry) for each section that is alive, which tells which sections hold
  /// versions up, and since when.
  template <class F>
  void for_each_section(F&& f) const {
    sections_.for_each(std::forward<F>(f));
  }

  /// Calls f(n) for objects that have copies, with how many: of all but those in logs that a thread
  /// looks through just now, or whose newest copy is being committed. For accounting; logs are not
  /// collected meanwhile. f must not begin a section.
  template <class F>
  void for_each_chain(F&& f);

  [[nodiscard]] statistics stats() const noexcept;
  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }

 private:
  friend reader;
  friend writer;
  template <class T, class Domain>
  friend class array;
  template <class Domain>
  friend class detector;
  template <class Domain, class Session>
  friend class detail::reading;
  template <class Domain, class Session>
  friend class detail::writing;

  struct retries;

  void end(session& of, bool commits) noexcept;
  SPOLIA_NOINLINE void give_up(session& of) noexcept { end(of, false); }

  /// Nothing is to be tried again.
  static bool is_over(outcome how) noexcept {
    return how == outcome::committed || how == outcome::cancelled;
  }

  template <class F>
  SPOLIA_NOINLINE auto read_within(F&& f);
  template <class F>
  SPOLIA_NOINLINE auto update_within(F& f);

  template <class T>
  static ptr<T> make_with(detail::fixed_of<T>&& fixed, const T& body, detail::tail_length<T> tail) {
    static_assert(!detail::is_element<T>, "rlu: elements live in an array, see array.hpp");
    return detail::access::pointer<T>(
        detail::make_whole<T>(detail::word::since(0), std::move(fixed), body, tail));
  }

  session& my_session();
  SPOLIA_NOINLINE session& find_my_session();
  void join(session& mine);

  // After sections: the logs are looked through.
  static bool is_due(session& mine) noexcept;
  void become_exclusive_if_so(session& mine) noexcept;
  SPOLIA_NOINLINE void tend(session& mine) noexcept;
  void tend_own(session& mine, bool walks, bool now) noexcept;
  void fast_check_if_enough(session& mine) noexcept;
  bool pass_by_fast_check(session& mine) noexcept;
  void end_pass(session& mine, bool walks) noexcept;
  SPOLIA_NOINLINE void press(session& mine) noexcept;
  void pass_twice(session& mine) noexcept;
  void hurry(session& mine, bool helps) noexcept;
  SPOLIA_NOINLINE void come_online(session& mine, const char* label) noexcept;
  bool tend_all();
  bool others_do(session& mine) noexcept;
  session* neighbour_in_need(session& mine, bool walks) noexcept;
  bool enough_is_left() const noexcept;
  SPOLIA_NOINLINE void collect_what_is_left(session& mine) noexcept;
  void leave_vacant(std::uint32_t n, session& left) noexcept;
  void set_next_pass(session& mine, std::uint64_t written_back, bool walks) noexcept;
  void drain_now_and_then(session& mine) noexcept;
  void pass(session& mine, session* first, session* second, bool everything) noexcept;
  void collect(session& s, session& mine, bool everything) noexcept;
  void retire(typename log::piece& empty) noexcept;

  // Objects end.
  void write_back(detail::object& o) noexcept;
  void wait_for_collectors() const noexcept;

  void leaves_log(session& s) noexcept;
  void thread_left(std::uint32_t n) noexcept override;
  void thread_lost(std::uint32_t n) noexcept override;

  static constexpr std::uint32_t look_every = 64;         // sections, before another thread's turn
  static constexpr std::uint64_t walks_a_copy = 4;        // that a sweep had to leave
  static constexpr std::uint32_t most_haste = 4;          // a sixteenth of a watermark
  static constexpr std::uint64_t most_walks = 1U << 24U;  // between two sweeps, whatever happens
#if defined(SPOLIA_MODEL)                                 // so that small scenarios come to it
  static constexpr std::uint64_t most_retired = 1;
  static constexpr std::uint32_t most_asked_for = 1;
  static constexpr std::uint32_t looks_at_neighbour = 1;
#else
  static constexpr std::uint32_t looks_at_neighbour = 8;
  static constexpr std::uint64_t most_retired = 32;    // segments a thread, before others are asked
  static constexpr std::uint32_t most_asked_for = 16;  // threads of the process may be strangers
#endif
  const std::uint64_t serial_ = core::next_serial();  // names the domain in core::here
  const misuse::copy_of_the_library copy_{};
  const options options_;
  Clock clock_;
  census sections_;
  cells<session> sessions_;                        // outlive what is retired, which they count
  detail::graveyard<typename log::piece> graves_;  // goes after what buries
  Blocks blocks_{detail::options_of_blocks<Blocks>()};
  atomic<std::uint64_t> drain_at_{0};
  atomic<std::uint32_t> detectors_{0};
  /// Bytes that threads wrote which have ended since; and how many of these there were when such
  /// threads' logs were last looked through, and the first number that is to come next.
  shared_tally left_behind_;
  latest<std::uint64_t> left_seen_;
  latest<std::uint32_t> left_from_;
  const std::size_t processors_ = processors();
  spolia::detail::reclaim::courtesy courtesy_{options_.turn_us, detail::forgiven_us};
  detail::exclusive_mode<session> exclusive_;
};

/// The domain for general use: timestamps from a shared counter.
using domain = basic_domain<>;
/// With the processor's counter, where it can be trusted; else with a shared one.
using hardware_domain = basic_domain<selected_clock>;

}  // namespace rlu
}  // namespace spolia::inline SPOLIA_FLAVOUR

#include <spolia/rlu/detail/domain_impl.hpp>
