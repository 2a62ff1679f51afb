// SPDX-License-Identifier: Apache-2.0
// epoch.hpp: the baseline: a version goes when every snapshot is gone that began before it ended.
//
// Source:      the epoch-based scheme (EBR) that Wei et al., PPoPP 2023, section 6, compare with.
// Idea:        nothing is unlinked. A version that ended at time e may be retired once no snapshot
//              is announced below e: all later ones stop at the version that followed it, or at a
//              newer one.
// Cost:        one word a version on top of the tracker's. An update: amortized O(1).
// Progress:    as range_tracker.hpp.
// Bound:       none while a snapshot lives: all that ended since it began is kept. Otherwise
//              5 P B, and (5 P + 3) B more where threads have ended, as in range_tracker.hpp with
//              H = 0.
// Bytes:       while a snapshot lives none either. Otherwise those versions and the current ones,
//              each a block of sizeof(version) (64 with usual domains) and its value, and what is
//              retired and not freed, the domain's stats().garbage_bytes(): bounded as its scheme
//              says, for no snapshot holds a guard.
// Why no freed version is reached. Let u be retired, and v the version that followed it, v.since =
//   u.until. No snapshot was announced below u.until, and none will be. So every walk from a head
//   stops at v or at a newer version, and no thread loads v.left, which goes on naming u.
//
// Departures from the paper:
//   D1  The epochs are the timeline's, and are held up by snapshots, not by guards.
//   D2  No shortcut for two versions with one stamp: the artifact's makes the newer one skip the
//       older by a plain store, which races with the same done one version before, and could then
//       name a freed version. Such versions wait like all others.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/detail/chain.hpp>
#include <spolia/version/detail/collector_base.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

#pragma GCC diagnostic push
// Bases may have virtual functions; a domain ends each node by the type that it was made with.
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
template <some_domain Domain>
struct epoch_version : any_version<Domain> {
  atomic<epoch_version*> left{this};
};
#pragma GCC diagnostic pop

/// Old left pointers may name freed versions, so there is no walking to the end.
template <some_domain Domain>
class epoch_list : private version_chain<epoch_version<Domain>> {
  using chain = version_chain<epoch_version<Domain>>;

 public:
  using node = epoch_version<Domain>;
  epoch_list() noexcept = default;
  explicit epoch_list(node* first) noexcept : chain(first) {}
  using chain::aim;
  using chain::begin;
  using chain::find;
  using chain::finish_append;
  using chain::head;
  using chain::release;
  bool try_append(node* x, node* y) noexcept { return this->advance(x, y); }
};

}  // namespace detail::version

template <class Domain = region_domain, class Timeline = timeline>
class epoch_collector final
    : private detail::version::kinds_of_a_collector<Domain, Timeline>,
      public detail::version::tracking_collector<epoch_collector<Domain, Timeline>,
                                                 detail::version::epoch_version<Domain>, Domain,
                                                 Timeline> {
  using base =
      detail::version::tracking_collector<epoch_collector, detail::version::epoch_version<Domain>,
                                          Domain, Timeline>;

 public:
  static constexpr collector_info info{
      .name = "epoch_collector",
      .title = "epochs (EBR)",
      .source = "the baseline of Wei et al., PPoPP 2023, section 6",
      .collects_between = false,
      .reaches_idle_lists = true,
      .cost = "amortized constant",
      .bound = "none while a snapshot lives"};

  using list = detail::version::epoch_list<Domain>;
  using typename base::figures;
  using typename base::options;
  using typename base::session;
  using typename base::version;

  epoch_collector(Domain& nodes, Timeline& time, const options& o = {}) : base(nodes, time, o) {}
  ~epoch_collector() { close(); }

  static void place(list&, version&) noexcept {}

  void ended(session& s, list&, version* old, version* fresh) noexcept {
    figures& mine = base::figures_of(s);
    mine.ended.add(1);
    // relaxed: we have seen its stamp set.
    this->track(*old, fresh->since.load_relaxed(), mine);
  }

  void close() noexcept { this->abandon(); }
  /// What is left of the head was tracked.
  template <class F>
  static void each_left(const list& l, F&& f) noexcept {
    if (version* const v = l.head()) f(*v);
  }

  void look(scan_times& found) const { this->time().watermark(found); }
  bool expire(version& v, figures& mine, typename Domain::guard& g) noexcept {
    base::finish(v, g, mine);
    return true;
  }
};

static_assert(version_collector<epoch_collector<>>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
