// SPDX-License-Identifier: Apache-2.0
// sl_rt.hpp: SL-RT: the range tracker says which lists have obsolete versions, and these lists are
// compacted.
//
// Source:      Wei et al., PPoPP 2023, sections 3 and 5.
// Idea:        as DL-RT, but a singly linked list is walked, and all that no snapshot needs is cut
//              off at once (list_ssl.hpp). Versions that a compaction has cut off on account of
//              another one wait in the tracker until they are looked at; there they only have to be
//              retired. So do those that ended before every snapshot that lives: no thread comes
//              to them any more, and nothing is walked for their sake.
// Cost:        two words a version on top of the tracker's. An update: amortized O(1), and
//              compactions, each of which takes the length of the list down to what the oldest
//              snapshot sees. Only versions that are younger than that snapshot need one. One
//              that no snapshot has seen is cut off when it ends, in amortized O(log S) with S
//              announced times, if the scan in force knows that.
// Progress:    as range_tracker.hpp; compactions are wait-free but for pairing head and scan.
// Bound:       3 H + 5 P B versions on top of the current ones, and (5 P + 3) B more where threads
//              have ended, as DL-RT: each ended version is in the tracker until it is retired.
// Bytes:       those versions and the current ones, each a block of sizeof(version) (72 with usual
//              domains) and its value, and what is retired and not freed, the domain's
//              stats().garbage_bytes(): bounded as its scheme says, for no snapshot holds a guard.
// Why no freed version is reached. A version u is retired by the thread that has it from the
//   tracker, where each is once, or by the one that has ended it and did not put it there. Either
//   it was cut off for good: list_ssl.hpp and scan_board.hpp.
//   Or it ended at or before the least time m that a scan E has found, E.least(). Let v be the
//   version after it then, v.since = u.until <= m. Of u's list, E and all later scans need v or a
//   newer version with a stamp not above m. So do earlier ones, for scans follow each other: no
//   thread cuts it off. Call the newest such version w.
//   1. A snapshot, alive or to come, has a time t >= m, and stops at w or at a newer version.
//   2. A compaction under a later guard has E or a later scan. Their times are not below m, so none
//      of them is left at w: the walk ends there (flagged_only).
//   3. A thread that was there under an earlier guard is protected by it.
//   So no thread loads w.left, which goes on leading to u.
// Or it was the newest version of its list, and forget() has put another one in its place, that
//   leads to nothing. It is in no other version's left pointer, and it has not ended: either the
//   head went on from it to a newer one, or to that, and the thread that made it do so has the
//   version. All that is older ended at or before its stamp, and is retired as above; the new one
//   does for it what w does.
//
// Departures from the paper and its artifact:
//   D1  The tracker holds versions, not lists: none is there twice, what has been cut off already
//       costs no walk, and each has one owner that retires it.
//   D2  A version that ends at a time which the scan in force knows, and was current at none that
//       it has found, is retired at once: where one of these is older, a compaction cuts it off
//       before, and ends there. All others go through the tracker. (Of two versions with one stamp,
//       the artifact makes the newer skip the older by a compare-and-swap of its own, without
//       regard to scans. A compaction that stands on the version skipped may have cut off what it
//       skips to: that would link a retired version again.)
//   D3  What ended before every announced time is not unlinked (above). The papers' collector does
//       so, for Java's would keep it.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/detail/collector_base.hpp>
#include <spolia/version/list_ssl.hpp>
#include <spolia/version/scan_board.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Domain = region_domain, class Timeline = timeline>
class sl_rt final
    : private detail::version::kinds_of_a_collector<Domain, Timeline>,
      public detail::version::tracking_collector<sl_rt<Domain, Timeline>,
                                                 ssl_node<detail::version::any_version<Domain>>,
                                                 Domain, Timeline> {
  using base =
      detail::version::tracking_collector<sl_rt, ssl_node<detail::version::any_version<Domain>>,
                                          Domain, Timeline>;

 public:
  static constexpr collector_info info{
      .name = "sl_rt",
      .title = "SL-RT",
      .source = "Wei et al., PPoPP 2023, sections 3 and 5",
      .collects_between = true,
      .reaches_idle_lists = true,
      .cost = "amortized constant, and the length of the lists that are compacted",
      .bound = "3 H + 5 P^2 log P"};

  using list = ssl_list<detail::version::any_version<Domain>>;
  using typename base::figures;
  using typename base::options;
  using typename base::session;
  using typename base::version;

  sl_rt(Domain& nodes, Timeline& time, const options& o = {})
      : base(nodes, time, o), board_(nodes) {}
  ~sl_rt() { close(); }

  static void place(list& l, version& v) noexcept { l.place(v); }

  void ended(session& s, list& l, version* old, version* fresh) noexcept {
    figures& mine = base::figures_of(s);
    mine.ended.add(1);
    // relaxed, both: we have seen their stamps set.
    const std::uint64_t since = old->since.load_relaxed();
    const std::uint64_t until = fresh->since.load_relaxed();
    if (is_obsolete(until) || is_cut_out(l, *old, since, until, mine)) {
      return base::finish(*old, s.guard(), mine);
    }
    this->track(*old, until, mine);
  }

  /// Puts `instead` in the place of `newest`, the newest version of the list, which has its stamp,
  /// and gives that up; unless a snapshot sees an older one, or another thread was faster. For
  /// readers the two say the same. `instead` has a stamp of 0, and is the caller's: it may be in
  /// several lists, and is never ended. In a prepared session.
  bool forget(session& s, list& l, version* newest, version* instead) noexcept {
    // relaxed: the caller has seen it set.
    const bool seen = !is_obsolete(newest->since.load_relaxed());
    if (seen && !SPOLIA_FAULT("sl_rt.forgets_what_is_seen")) return false;
    if (!l.replace(newest, instead)) return false;
    figures& mine = base::figures_of(s);
    mine.ended.add(1);
    base::retire(*newest, s.guard(), mine);
    return true;
  }

  void close() noexcept {
    this->abandon();
    board_.close();
  }
  /// What is left of the head was tracked.
  template <class F>
  static void each_left(const list& l, F&& f) noexcept {
    if (version* const v = l.head()) f(*v);
  }

  void look(scan_times& found) {
    auto g = this->nodes().enter();
    board_.renew(g, [this](scan_times& fresh) { this->time().scan(fresh); });
    const scan_times& latest = *board_.latest();
    found.known = latest.known;
    found.times = latest.times;
    found.looked_at = latest.looked_at;
  }

  bool expire(version& v, figures& mine, typename Domain::guard& g) noexcept {
    if (!is_obsolete(v.until.read())) {
      if (!list::is_unlinked(&v)) {
        // The tracker comes to older ones first, so what is beyond it was seen to.
        compact(list::list_of(v), mine, v.since.load_relaxed());  // relaxed: it has ended
      }
      // Another compaction may have cut it off and not said so yet: then later.
      if (!list::is_unlinked(&v)) return false;
    }
    base::finish(v, g, mine);
    return true;
  }

 private:
  /// Whether no snapshot sees anything that ended at that time or earlier. Under a guard, as the
  /// board asks.
  [[nodiscard]] bool is_obsolete(std::uint64_t until) const noexcept {
    const scan_times& latest = *board_.latest();
    return until <= (SPOLIA_FAULT("sl_rt.forgets_times") ? latest.known : latest.least());
  }
  /// Whether a version that ended a moment ago, and that no snapshot has seen, is cut off for good:
  /// it is at the list's new end, and what lies beyond it is not walked.
  [[nodiscard]] bool is_cut_out(list& l, const version& v, std::uint64_t since, std::uint64_t until,
                                figures& mine) noexcept {
    const scan_times& latest = *board_.latest();
    if (until > latest.known || latest.see(since, until)) return false;
    if (!SPOLIA_FAULT("sl_rt.stays_linked")) compact(l, mine, since);
    return SPOLIA_FAULT("sl_rt.stays_linked") ||
           list::is_unlinked(&v);  // else another compaction has cut it off and says so soon
  }
  void compact(list& l, figures& mine, std::uint64_t down_to = 0) noexcept {
    static constexpr typename list::flagged_only flags_only{};
    base::note_cut(
        mine, board_.compact(
                  l, [this](version* head) { this->time().settle(*head); }, flags_only, down_to));
  }

  scan_board<Domain> board_;
};

static_assert(version_collector<sl_rt<>>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
