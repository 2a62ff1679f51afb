// SPDX-License-Identifier: Apache-2.0
// bbf.hpp: BBF+: the range tracker says which versions are obsolete, and a list with a tree of
// removals lets go of each, in amortized constant time.
//
// Source:      Ben-David et al.: Space and Time Bounded Multiversion Garbage Collection, DISC 2021;
//              measured in Wei et al., PPoPP 2023, section 6.
// Idea:        as DL-RT, but a removal costs amortized O(1) even where neighbours go at the same
//              time (list_tree.hpp). For that, a version may have to wait in its list until one of
//              its neighbours has gone.
// Cost:        seven words a version on top of the tracker's. An update: amortized O(1).
// Progress:    as range_tracker.hpp; removals are lock-free.
// Bound:       twice as many as DL-RT: 2 (C + 3 H + 5 P B) + O(P log Lmax), the C current ones
//              included, and 2 (5 P + 3) B more where threads have ended: see range_tracker.hpp,
//              and list_tree.hpp for Lmax. (What waits has left the tracker, and two others below
//              it that have not.)
// Bytes:       those versions, each a block of sizeof(version) (112 with usual domains) and its
//              value, and what is retired and not freed, the domain's stats().garbage_bytes():
//              bounded as its scheme says, for no snapshot holds a guard.
// Why no freed version is reached: list_tree.hpp. Each version is retired once, by the removal that
//   took it out, its own or a neighbour's, and under the guard of that removal.
// In nodes that die (owner.hpp) a version that waits keeps its hold. It does not wait for long: the
//   versions that it waits for end with the node, and the newest one has none below it when it is
//   the last.
//
// Departures from the papers:
//   D1  Each field of a node has links of its own (owned_field.hpp). In the artifact, where
//       versions are the nodes themselves, removed ones stay reachable from dead parents, each
//       names the one to its right, and one long read transaction makes memory grow without bound.
//   D2  A version that is overwritten by one with the same stamp is removed at once: no snapshot
//       has seen it.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/detail/removing_collector.hpp>
#include <spolia/version/list_tree.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Domain = region_domain, class Timeline = timeline>
class bbf final
    : private detail::version::kinds_of_a_collector<Domain, Timeline>,
      public detail::version::removing_collector<bbf<Domain, Timeline>,
                                                 tree_node<detail::version::any_version<Domain>>,
                                                 Domain, Timeline> {
  using base =
      detail::version::removing_collector<bbf, tree_node<detail::version::any_version<Domain>>,
                                          Domain, Timeline>;

 public:
  static constexpr collector_info info{
      .name = "bbf",
      .title = "BBF+",
      .source = "Ben-David et al., DISC 2021; Wei et al., PPoPP 2023, section 6",
      .collects_between = true,
      .reaches_idle_lists = true,
      .cost = "amortized constant",
      .bound = "2 C + 6 H + 10 P^2 log P"};

  using list = tree_list<detail::version::any_version<Domain>>;
  using typename base::options;
  using typename base::version;

  bbf(Domain& nodes, Timeline& time, const options& o = {}) : base(nodes, time, o) {}
  ~bbf() { this->close(); }

  template <class Gone>
  static std::uint64_t take_out(version& v, Gone&& gone) noexcept {
    return list::remove(&v, [&](version* x) { gone(*x); });
  }
};

static_assert(version_collector<bbf<>>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
