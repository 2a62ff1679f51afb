// SPDX-License-Identifier: Apache-2.0
// collector_base.hpp: what collectors share: versions of any value, sessions, figures, and the
// traffic with the range tracker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include <spolia/base/cells.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/counters.hpp>
#include <spolia/base/threads.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/detail/any_version.hpp>
#include <spolia/version/owner.hpp>
#include <spolia/version/range_tracker.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

/// The first base of each collector, so that the sentence is the first thing a compiler says of
/// arguments in the wrong places.
template <class Domain, class Timeline>
struct kinds_of_a_collector {
  static_assert(some_domain<Domain>,
                "the first argument of a collector is its domain, such as spolia::region_domain; "
                "a timeline comes after it");
  static_assert(
      requires { Timeline::advances; },
      "the second argument of a collector is its timeline, such as spolia::timeline");
};

/// Sessions and figures of a collector; `Self` offers wants_upkeep(figures) and upkeep(figures),
/// asked and called outside of the guard at the end of each session that was prepared.
template <class Self, some_domain Domain, class Timeline>
class collector_sessions {
  static_assert(
      walkable_domain<Domain>,
      "collector: sessions walk versions that others may have unlinked, and this domain's "
      "scheme does not protect those: region_domain does");

  using guard = typename Domain::guard;

 public:
  using domain_type = Domain;
  using timeline_type = Timeline;
  using owner = list_owner<Domain>;

  struct alignas(cache_line) figures {
    tally ended;
    tally retired;
    tally cuts;
    tally passed;
    range_tracker::cell* part = nullptr;  // the thread's, of the tracker, if there is one
  };

  class session {
   public:
    session(session&& from) noexcept
        : of_(std::exchange(from.of_, nullptr)),
          figures_(from.figures_),
          guard_(std::move(from.guard_)) {}
    session& operator=(session&&) = delete;
    SPOLIA_ALWAYS_INLINE ~session() {
      if (of_ == nullptr) return;
      static_cast<void>(typename Domain::guard(std::move(guard_)));  // ends first
      if (figures_ != nullptr && Self::wants_upkeep(*figures_)) keep_up();
    }

    [[nodiscard]] typename Domain::guard& guard() noexcept { return guard_; }
    [[nodiscard]] Self& collector() const noexcept { return *of_; }

   private:
    friend class collector_sessions;
    SPOLIA_ALWAYS_INLINE explicit session(Self& of) : of_(&of), guard_(of.nodes().enter()) {}

    SPOLIA_NOINLINE void keep_up() noexcept { of_->upkeep(*figures_); }

    Self* of_;
    figures* figures_ = nullptr;  // set once prepared
    typename Domain::guard guard_;
  };

  collector_sessions(const collector_sessions&) = delete;
  collector_sessions& operator=(const collector_sessions&) = delete;

  /// A change of a held owner's field was not made.
  void let_go(session& s, owner& o) noexcept { let_go(o, s.guard(), figures_of(s)); }

  /// Ends all versions of a list that no thread uses any more.
  template <class List>
  void clear(List& list) noexcept {
    Self::each_left(list, [this](auto& v) { v.destroy_in(nodes_); });
    list.release();
  }
  /// Calls f(version) for each version that goes with its list; f may end it.
  template <class List, class F>
  static void each_left(const List& list, F&& f) noexcept {
    list.for_each([&](auto* v) {
      f(*v);
      return true;
    });
  }

  [[nodiscard]] SPOLIA_ALWAYS_INLINE session enter() { return session(static_cast<Self&>(*this)); }
  [[nodiscard]] Domain& nodes() const noexcept { return nodes_; }
  [[nodiscard]] Timeline& time() const noexcept { return time_; }

  [[nodiscard]] collector_stats stats() const noexcept {
    collector_stats sum;
    figures_.for_each([&](std::uint32_t, const figures& f) {
      sum.ended += f.ended.value();
      sum.cuts += f.cuts.value();
      sum.passed += f.passed.value();
      return true;
    });
    const std::uint64_t held = held_at_once(
        figures_, [](const figures& f) { return f.ended.value(); },
        [](const figures& f) { return f.retired.value(); });
    sum.retired = sum.ended - (std::min)(sum.ended, held);
    return sum;
  }

 protected:
  collector_sessions(Domain& nodes, Timeline& time) : nodes_(nodes), time_(time) {}
  ~collector_sessions() = default;

  figures& my_figures() { return figures_.of(threads::number()); }
  static void note_prepared(session& s, figures& mine) noexcept { s.figures_ = &mine; }
  static figures& figures_of(session& s) noexcept { return *s.figures_; }
  /// A list was cut, by a walk past so many versions.
  static void note_cut(figures& mine, std::uint64_t passed) noexcept {
    mine.cuts.add(1);
    mine.passed.add(passed);
  }

  /// The version is unlinked. Its owner's hold stays.
  static void retire(any_version<Domain>& v, guard& g, figures& mine) noexcept {
    mine.retired.add(1);
    v.retire_by(g);
  }
  /// The same, and the owner's hold goes.
  static void finish(any_version<Domain>& v, guard& g, figures& mine) noexcept {
    owner* const of = v.owner();
    retire(v, g, mine);
    if (of != nullptr) let_go(*of, g, mine);
  }
  static void let_go(owner& o, guard& g, figures& mine) noexcept {
    if (!o.drop()) return;
    if constexpr (!Self::info.reaches_idle_lists) mine.retired.add(o.ended_left());
    retire(o, g, mine);
  }

 private:
  Domain& nodes_;
  Timeline& time_;
  cells<figures> figures_;
};

/// A collector with a range tracker. `Self` offers look(scan_times&), which may throw
/// std::bad_alloc, and expire(version&, figures&, guard&): false if it is to be tried again.
template <class Self, class Version, some_domain Domain, class Timeline>
class tracking_collector : public collector_sessions<Self, Domain, Timeline> {
  using base = collector_sessions<Self, Domain, Timeline>;

 public:
  using version = Version;
  using options = range_tracker::options;
  using typename base::figures;
  using typename base::owner;
  using typename base::session;

  void prepare(session& s) {
    figures& mine = this->my_figures();
    if (!range_tracker::in_use(mine.part)) [[unlikely]]
      mine.part = &tracker_.mine();
    this->note_prepared(s, mine);
  }

  /// Unlinks and retires all that is obsolete and can be reached; outside of sessions.
  void collect() {
    audit([](const any_version<Domain>&) {});
  }
  /// The same, and calls f(version) for each ended version that stays and was reached; f must not
  /// use the collector.
  template <class F>
  void audit(F&& f) {
    figures& mine = this->my_figures();
    static_cast<void>(this->nodes().enter());  // so that later guards of this thread cannot fail
    const auto expire = [&](tracked* t) {
      const obsolete x(*t);
      auto g = this->nodes().enter();
      return end_of(x, mine, g);
    };
    tracker_.collect(tracker_.mine(), looker(), expire,
                     [&](const tracked* t) { f(static_cast<const any_version<Domain>&>(*t)); });
  }

  /// The owner has left its structure at time `until`; see owner.hpp.
  void died(session& s, owner& o, std::uint64_t until) noexcept {
    figures& mine = base::figures_of(s);
    mine.ended.add(1);
    const bool unseen = o.since.load_relaxed() >= until || SPOLIA_FAULT("owner.no_range");
    if (unseen) return base::let_go(o, s.guard(), mine);  // it was there between two snapshots
    tracker_.deprecate(*mine.part, &o, until);
  }

  static bool wants_upkeep(const figures& mine) noexcept {
    return range_tracker::is_due(*mine.part);
  }
  void upkeep(figures& mine) noexcept {
    tracker_.work(*mine.part, looker(), ender{*this, mine, {}});
  }

 protected:
  tracking_collector(Domain& nodes, Timeline& time, const options& o)
      : base(nodes, time), tracker_(checked(o)) {}
  ~tracking_collector() = default;

  void track(Version& v, std::uint64_t until, figures& mine) noexcept {
    if (range_tracker::weighs_next(*mine.part)) {
      range_tracker::weigh_now_and_then(*mine.part, v.bytes());
    }
    tracker_.deprecate(*mine.part, &v, until);
  }
  /// f(version) returns whether the version's hold on its owner has been seen to.
  template <class F>
  void abandon(F&& f) noexcept {
    tracker_.abandon([&](tracked* t) {
      auto& x = static_cast<any_version<Domain>&>(*t);
      owner* const of = x.owner();
      if (of != &x && f(static_cast<Version&>(x))) return;
      if (of != nullptr) release_hold(*of);
    });
  }
  /// The same for all; each ends, for the tracker has it.
  void abandon() noexcept {
    abandon([this](Version& v) {
      v.destroy_in(this->nodes());
      return false;
    });
  }
  /// No thread uses the collector any more.
  void release_hold(owner& of) noexcept {
    if (of.drop()) of.destroy_in(this->nodes());
  }

 private:
  static const options& checked(const options& o) {
    if (const char* const wrong = range_tracker::what_is_wrong(o))
      throw std::invalid_argument(wrong);
    return o;
  }
  auto looker() noexcept {
    return [this](scan_times& found) { static_cast<Self*>(this)->look(found); };
  }
  /// A version, or an owner, that no snapshot needs.
  struct obsolete {
    explicit obsolete(tracked& t) noexcept
        : what(static_cast<any_version<Domain>&>(t)), of(what.owner()) {}
    any_version<Domain>& what;
    owner* const of;
  };
  /// False if it is to be tried again.
  bool end_of(const obsolete& x, figures& mine, typename Domain::guard& g) noexcept {
    if (x.of != &x.what) [[likely]] {
      return static_cast<Self*>(this)->expire(static_cast<Version&>(x.what), mine, g);
    }
    base::let_go(*x.of, g, mine);
    return true;
  }

  /// Ends some under one guard for all, if there are any: they are few, and a guard costs as much
  /// as one of them.
  struct ender {
    SPOLIA_ALWAYS_INLINE bool operator()(tracked* t) noexcept {
      const obsolete x(*t);
      if (!here) [[unlikely]]
        begin();
      return of.end_of(x, mine, *here);
    }
    SPOLIA_NOINLINE void begin() noexcept { here.emplace(of.nodes().enter()); }

    tracking_collector& of;
    figures& mine;
    std::optional<typename Domain::guard> here;
  };

  range_tracker tracker_;
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR
