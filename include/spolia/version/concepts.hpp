// SPDX-License-Identifier: Apache-2.0
// concepts.hpp: the contract between version lists, collectors, versioned objects and containers.
//
// The life of a version
//   made        domain.make<version>: may throw, and then nothing has changed
//   appended    it is the head of its list. From here on nothing can fail: what a version needs to
//               be stamped, to end, to be tracked and to be retired it carries along
//   stamped     by its maker or by the thread that meets it first (timeline::settle), before
//               anything is appended after it and before any thread relies on it
//   ended       another version was appended after it and stamped: it is current in
//               [since, until), and the collector's from now on (collector::ended)
//   obsolete    no snapshot alive or to come has a time in [since, until)
//   unlinked    by the collector: no thread that begins afterwards can reach it
//   retired     to the domain, exactly once, under a guard
//   freed       by the domain, when every guard is gone that was alive when it was retired
//
// Two protections. A guard protects everything that is reached under it, unlinked or not (region
// protection: lists are walked over unlinked versions), for the length of one operation. A snapshot
// protects the version that it sees in each list, and only that one, for as long as it lives. So a
// reader takes a short guard for each walk, and what it has found stays when the guard is gone.
//
// What a collector is (concept `version_collector`):
//
//   info                what it promises, as constants
//   domain_type, timeline_type, options
//   list                a version list over `version`, the base of all versions; the list is one
//                       word, so that a container can have millions. It may be made without a
//                       version, and begin later
//   version             what a version of any value is to the collector: domain header, links,
//                       `retire_by(guard)`, `destroy_in(domain)` and `bytes()`, which know its true
//                       type. One collector serves lists of values of any types
//   owner               what versions of fields belong to, if a node with fields can leave its
//                       structure before the collector closes: owner.hpp
//   session             what an operation holds: a guard, and on its end, after the guard, what the
//                       collector has to do for the versions that the operation has ended. Belongs
//                       to one thread; sessions nest
//   enter()             a session; a thread's first one may throw std::bad_alloc
//   place(list, version)   the version, which no other thread knows yet, will be in this list only
//   prepare(session)    before a change: whatever ended() needs is allocated; may throw
//   ended(session, list, old, fresh)   `fresh` was appended after `old` by this thread, both are
//                       stamped, and prepare was called. Never fails
//   let_go(session, owner)   a change of a field, for which the owner is held, was not made
//   died(session, owner, until)   the owner has left its structure at that time: once
//   each_left(list, f)  static: calls f(version) for each version that goes with its list
//   collect()           outside of sessions: unlinks all that is obsolete and can be reached. For
//                       idle times; updates do it by themselves
//   clear(list)         ends all versions of a list that no thread uses any more. Only after
//                       close()
//   close()             no thread uses the collector's lists any more: gives up what it tracks.
//                       Also done by the destructor
//   stats()             versions ended and retired
//   nodes(), time()     the domain and the timeline
//
// Order of destruction: snapshots that are used, then close() of the collector, then clear() of its
// lists, then the collector, the domain and the timeline in any order. A list must not go while its
// collector is open: versions of it may be tracked, and surgery needs their neighbours. Except with
// its owner, which goes when neither snapshots nor the collector need it: owner.hpp.
//
// Exceptions from user types: a value's copy or comparison may throw before the append; then the
// new version is destroyed and nothing has changed. Destructors must not throw. They run when the
// domain frees, on any thread, and may use sessions of the same collector.
//
// Thread exit: what a thread has tracked is left to the others (range_tracker.hpp). A session must
// not outlive its thread.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/concepts.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/version/snapshot.hpp>
#include <spolia/version/timeline.hpp>
#include <spolia/version/tracked.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// A collector's promises. The documentation's tables are made from these.
struct collector_info {
  std::string_view name;
  std::string_view title;   ///< in words
  std::string_view source;  ///< paper and section
  bool collects_between;    ///< obsolete versions go though an older snapshot is alive
  bool reaches_idle_lists;  ///< also versions of lists that no thread changes any more
  std::string_view cost;    ///< of one update
  std::string_view bound;   ///< of versions, in words
};

struct collector_stats {
  std::uint64_t ended = 0;    ///< versions that were overwritten
  std::uint64_t retired = 0;  ///< versions handed to the domain
  std::uint64_t cuts = 0;     ///< removals from lists, or compactions of lists
  std::uint64_t passed = 0;   ///< versions that these have come to; over `cuts`, the papers' c
  /// Ended and not retired: what the collector holds.
  [[nodiscard]] std::uint64_t held() const noexcept {
    return ended > retired ? ended - retired : 0;
  }
};

/// A domain of whatever scheme.
template <class D>
concept some_domain = requires {
  typename D::scheme_type;
  typename D::release_type;
} && std::same_as<D, domain<typename D::scheme_type, typename D::release_type>>;

/// A domain under whose guards lists may be walked.
template <class D>
concept walkable_domain = some_domain<D> && protects_regions<typename D::scheme_type>;

/// See list_ssl.hpp, list_pdl.hpp. How versions are unlinked is between list and collector.
template <class L>
concept version_list = requires(L list, const L& constant, typename L::node* x, std::uint64_t t) {
  requires std::constructible_from<L, typename L::node*>;
  requires std::default_initializable<L>;
  { list.begin(x) } noexcept -> std::same_as<bool>;
  { constant.head() } noexcept -> std::same_as<typename L::node*>;
  { list.try_append(x, x) } noexcept -> std::same_as<bool>;
  { L::finish_append(x, x) } noexcept;
  { L::find(x, t) } noexcept -> std::same_as<typename L::node*>;
};

template <class C>
concept version_collector =
    std::same_as<std::remove_cvref_t<decltype(C::info)>, collector_info> &&
    walkable_domain<typename C::domain_type> && version_list<typename C::list> &&
    std::same_as<typename C::version, typename C::list::node> &&
    std::is_base_of_v<typename C::domain_type::header, typename C::version> &&
    std::is_base_of_v<tracked, typename C::version> &&
    std::constructible_from<C, typename C::domain_type&, typename C::timeline_type&,
                            typename C::options> &&
    requires(C c, typename C::session s, typename C::list list, typename C::version* v,
             typename C::owner& owner, void (*each)(typename C::version&)) {
      { c.enter() } -> std::same_as<typename C::session>;
      { C::place(list, *v) } noexcept;
      { c.prepare(s) };
      { c.ended(s, list, v, v) } noexcept;
      { c.let_go(s, owner) } noexcept;
      { c.died(s, owner, std::uint64_t{}) } noexcept;
      { C::each_left(list, each) } noexcept;
      { c.collect() };
      { c.close() } noexcept;
      { c.clear(list) } noexcept;
      { c.stats() } noexcept -> std::same_as<collector_stats>;
      { c.nodes() } noexcept -> std::same_as<typename C::domain_type&>;
      { c.time() } noexcept -> std::same_as<typename C::timeline_type&>;
    };

}  // namespace spolia::inline SPOLIA_FLAVOUR
