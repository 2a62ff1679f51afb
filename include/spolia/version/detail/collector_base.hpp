// SPDX-License-Identifier: Apache-2.0
// collector_base.hpp: what collectors share: versions of any value, sessions, figures, and the
// traffic with the range tracker.
#pragma once

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
#include <spolia/version/range_tracker.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail {

/// A version of a value of some type.
template <walkable_domain Domain>
struct any_version : Domain::header, tracked {
  /// Retires the version, or ends one that nobody can see.
  virtual void retire_by(typename Domain::guard& g) noexcept = 0;
  virtual void destroy_in(Domain& nodes) noexcept = 0;
  /// What it takes, for accounting; 0: it does not say.
  [[nodiscard]] virtual std::size_t bytes() const noexcept { return 0; }

 protected:
  ~any_version() = default;
};

/// Sessions and figures of a collector; `Self` offers upkeep(session), called outside of its guard
/// at the end of each session that was prepared.
template <class Self, walkable_domain Domain, class Timeline>
class collector_sessions {
 public:
  using domain_type = Domain;
  using timeline_type = Timeline;

  struct alignas(cache_line) figures {
    tally ended;
    tally retired;
  };

  class session {
   public:
    session(session&& from) noexcept
        : of_(std::exchange(from.of_, nullptr)),
          figures_(from.figures_),
          guard_(std::move(from.guard_)) {}
    session& operator=(session&&) = delete;
    ~session() {
      if (of_ == nullptr) return;
      guard_.reset();
      if (figures_ != nullptr) of_->upkeep(*figures_);
    }

    [[nodiscard]] typename Domain::guard& guard() noexcept { return *guard_; }
    [[nodiscard]] Self& collector() const noexcept { return *of_; }

   private:
    friend class collector_sessions;
    explicit session(Self& of) : of_(&of), guard_(of.nodes().enter()) {}

    Self* of_;
    figures* figures_ = nullptr;  // set once prepared
    std::optional<typename Domain::guard> guard_;
  };

  collector_sessions(const collector_sessions&) = delete;
  collector_sessions& operator=(const collector_sessions&) = delete;

  [[nodiscard]] session enter() { return session(static_cast<Self&>(*this)); }
  [[nodiscard]] Domain& nodes() const noexcept { return nodes_; }
  [[nodiscard]] Timeline& time() const noexcept { return time_; }

  [[nodiscard]] collector_stats stats() const noexcept {
    collector_stats sum;
    figures_.for_each([&](std::uint32_t, const figures& f) {
      sum.retired += f.retired.value();
      sum.ended += f.ended.value();
      return true;
    });
    return sum;
  }

 protected:
  collector_sessions(Domain& nodes, Timeline& time) : nodes_(nodes), time_(time) {}
  ~collector_sessions() = default;

  figures& my_figures() { return figures_.of(threads::number()); }
  void note_prepared(session& s) { s.figures_ = &my_figures(); }
  static figures& figures_of(session& s) noexcept { return *s.figures_; }

  template <class Version>
  static void retire(Version& v, typename Domain::guard& g, figures& mine) noexcept {
    mine.retired.add(1);
    v.retire_by(g);
  }

  /// Ends the versions that are linked, of a list that nobody uses any more.
  template <class List>
  void destroy_linked(List& list) noexcept {
    for (auto* v = list.release(); v != nullptr;) {
      auto* const older = v->left.load_relaxed();
      v->destroy_in(nodes_);
      v = older;
    }
  }

 private:
  Domain& nodes_;
  Timeline& time_;
  cells<figures> figures_;
};

/// A collector with a range tracker. `Self` offers look(scan_times&), which may throw
/// std::bad_alloc, and expire(version*, figures&): false if it is to be tried again.
template <class Self, class Version, walkable_domain Domain, class Timeline>
class tracking_collector : public collector_sessions<Self, Domain, Timeline> {
  using base = collector_sessions<Self, Domain, Timeline>;

 public:
  using version = Version;
  using options = range_tracker::options;
  using typename base::figures;
  using typename base::session;

  void prepare(session& s) {
    static_cast<void>(tracker_.mine());
    this->note_prepared(s);
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
    tracker_.collect(tracker_.mine(), looker(), expirer(mine),
                     [&](const tracked* t) { f(static_cast<const any_version<Domain>&>(*t)); });
  }

  void upkeep(figures& mine) noexcept { tracker_.work(tracker_.mine(), looker(), expirer(mine)); }

 protected:
  tracking_collector(Domain& nodes, Timeline& time, const options& o)
      : base(nodes, time), tracker_(checked(o)) {}
  ~tracking_collector() = default;

  void track(Version& v, std::uint64_t until) noexcept {
    tracker_.deprecate(tracker_.mine(), &v, until);
  }
  template <class F>
  void abandon(F&& f) noexcept {
    tracker_.abandon([&](tracked* t) { f(*static_cast<Version*>(t)); });
  }

 private:
  static const options& checked(const options& o) {
    if (const char* const wrong = range_tracker::check(o)) throw std::invalid_argument(wrong);
    return o;
  }
  auto looker() noexcept {
    return [this](scan_times& found) { static_cast<Self*>(this)->look(found); };
  }
  auto expirer(figures& mine) noexcept {
    return [this, &mine](tracked* t) {
      return static_cast<Self*>(this)->expire(*static_cast<Version*>(t), mine);
    };
  }

  range_tracker tracker_;
};

}  // namespace detail
}  // namespace spolia::inline SPOLIA_FLAVOUR
