// SPDX-License-Identifier: Apache-2.0
// steam.hpp: STEAM+LF: a thread that changes an object compacts its list.
//
// Source:      Böttcher et al.: Scalable Garbage Collection for In-Memory MVCC Systems, VLDB 2020
//              (Steam), in the lock-free form of Wei et al., PPoPP 2023, section 6.
// Idea:        each change cuts off what the scan in force does not need (list_ssl.hpp). The census
//              is scanned again when the last scan is older than `scan_period`, and three times as
//              old as that scan, and walks of more than 16 versions since, have taken.
// Cost:        two words a version, and two a list. The first change of a list after a scan: the
//              length of the list; any other: what has ended since the one before. One in a period
//              a scan.
// Progress:    compactions are wait-free but for pairing head and scan.
// Bound:       none in time: the versions of a list stay until that list is changed again ("dusty
//              corners"). After a change, a list holds what was needed when the last scan was made,
//              and what ended since, a period ago at most if changes go on.
// Bytes:       so none in time either: of each list those versions, each a block of sizeof(version)
//              (72 with usual domains) and its value. Besides, what is retired and not freed, the
//              domain's stats().garbage_bytes(): bounded as its scheme says.
// Why no freed version is reached: list_ssl.hpp and scan_board.hpp. The thread that wins a
//   version's flag retires it.
//
// Departures from the paper and its artifact:
//   D1  The period counts from the last scan by any thread; the artifact's from the thread's own,
//       so that many threads scan many times in a period.
//   D2  A list is walked to its end once for each scan, where the paper's is at each change: with
//       very many snapshots held that is most of what a change takes.
//   D3  Nodes that leave their structure (owner.hpp) go through a range tracker, where the artifact
//       leaves them to Java's collector. When such a node goes, the rest of its lists goes with it;
//       so ended versions need no holds, and changes hold the node only while they are under way.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/passed.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/detail/collector_base.hpp>
#include <spolia/version/list_ssl.hpp>
#include <spolia/version/scan_board.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Domain = region_domain, class Timeline = timeline>
class steam final
    : private detail::version::kinds_of_a_collector<Domain, Timeline>,
      public detail::version::tracking_collector<steam<Domain, Timeline>,
                                                 ssl_node<detail::version::any_version<Domain>>,
                                                 Domain, Timeline> {
  using base =
      detail::version::tracking_collector<steam, ssl_node<detail::version::any_version<Domain>>,
                                          Domain, Timeline>;

 public:
  static constexpr collector_info info{
      .name = "steam",
      .title = "STEAM+LF",
      .source = "Wei et al., PPoPP 2023, section 6",
      .collects_between = true,
      .reaches_idle_lists = false,
      .cost = "the length of the list that is changed, once a scan",
      .bound = "none for lists that are not changed again"};

  struct options {
    std::chrono::nanoseconds scan_period = std::chrono::milliseconds(1);  ///< 0: at each change
    range_tracker::options owners{};                                      ///< see D3
  };
  struct list : ssl_list<detail::version::any_version<Domain>> {
    using ssl_list<detail::version::any_version<Domain>>::ssl_list;
    atomic<std::uint64_t> compacted_by{0};  ///< see scan_board::compact_further()
  };
  using typename base::figures;
  using typename base::owner;
  using typename base::session;
  using typename base::version;

  /// Throws std::bad_alloc.
  steam(Domain& nodes, Timeline& time, const options& o = {})
      : base(nodes, time, o.owners), options_(o), board_(nodes) {}
  ~steam() { close(); }

  static void place(list& l, version& v) noexcept { l.place(v); }

  void ended(session& s, list& l, version* old, version*) noexcept {
    figures& mine = base::figures_of(s);
    owner* const of = old->owner();  // `old` may be cut off
    // relaxed: we have seen its stamp set.
    const std::uint64_t since = old->since.load_relaxed();
    mine.ended.add(1);
    std::int64_t begun = now();
    if (due(begun)) {
      board_.renew(s.guard(), [this](scan_times& found) { this->time().scan(found); });
      const std::int64_t end = put_off(begun, longest_scan);
      scan_takes_.store_relaxed((std::min)(end - begun, longest_scan));
      begun = end;
    }
    const std::uint64_t passed = board_.compact_further(
        l, since, [this](version* head) { this->time().settle(*head); },
        [&](version* v) { base::retire(*v, s.guard(), mine); });
    base::note_cut(mine, passed);
    // A thread that lost its processor meanwhile has not walked all of the time.
    if (passed > short_walk) put_off(begun, static_cast<std::int64_t>(passed) * ns_for_each);
    if (of != nullptr) base::let_go(*of, s.guard(), mine);
  }

  void close() noexcept {
    this->abandon([](version&) { return false; });
    board_.close();
  }

  void look(scan_times& found) const { this->time().scan(found); }
  /// No versions are tracked.
  static bool expire(version&, figures&, typename Domain::guard&) noexcept { return true; }

 private:
  /// In nanoseconds; where each change scans, no time is asked for.
  [[nodiscard]] std::int64_t now() const {
    if (options_.scan_period.count() == 0) return 0;
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  /// Whether this thread is to scan now; then no other is meanwhile.
  bool due(std::int64_t at) noexcept {
    if (options_.scan_period.count() == 0) return true;
    std::int64_t next = next_scan_.load_relaxed();
    if (!is_over(at, next, longest_put_off + options_.scan_period.count())) return false;
    const std::int64_t later = at + scan_takes_.load_relaxed() + options_.scan_period.count();
    return next_scan_.cas_strong_relaxed(next, later);
  }

  /// Where snapshots are very many, a scan takes milliseconds, and so do walks of all lists that
  /// come after it. The next scan waits for three times as long as they take, or updates would do
  /// little else. Of what has taken from `begun` on `at_most` counts. The time now.
  std::int64_t put_off(std::int64_t begun, std::int64_t at_most) noexcept {
    if (options_.scan_period.count() == 0) return begun;
    const std::int64_t end = now();
    next_scan_.fetch_add_relaxed(3 * (std::min)(end - begun, at_most));
    return end;
  }

  static constexpr std::int64_t ns_for_each = 1500;  // where nothing of it is in the caches
  static constexpr std::int64_t longest_scan = 300'000'000;
  // Of many threads that walk long lists; a scan too many does no harm.
  static constexpr std::int64_t longest_put_off = 60'000'000'000;
  static constexpr std::uint64_t short_walk = 16;
  const options options_;
  scan_board<Domain> board_;
  alignas(cache_line) atomic<std::int64_t> next_scan_{0};
  atomic<std::int64_t> scan_takes_{0};  // the last one
};

static_assert(version_collector<steam<>>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
