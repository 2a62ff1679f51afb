// SPDX-License-Identifier: Apache-2.0
// dl_rt.hpp: DL-RT: the range tracker says which versions are obsolete, and a doubly linked list
// lets go of each.
//
// Source:      Wei et al., PPoPP 2023, sections 3 and 4.
// Idea:        an overwritten version goes to the range tracker with the time when it was current;
//              when no snapshot has such a time, it is removed from its list (list_pdl.hpp) and
//              retired.
// Cost:        three words a version on top of the tracker's. An update: amortized O(1), and the
//              removals, O(c) each.
// Progress:    as range_tracker.hpp; removals are lock-free.
// Bound:       3 H + 5 P B versions on top of the current ones, and (5 P + 3) B more where threads
//              have ended: H the most that were needed at any time so far, P threads at one time,
//              B = P log P: see range_tracker.hpp.
// Bytes:       those versions and the current ones, each a block of sizeof(version) (80 with usual
//              domains) and its value, and what is retired and not freed, the domain's
//              stats().garbage_bytes(): bounded as its scheme says, for no snapshot holds a guard.
// Why no freed version is reached: list_pdl.hpp. remove() is called once for each version, by
//   the thread that has it from the tracker, and under the guard under which it is retired.
//
// A version that is overwritten by one with the same stamp was never seen by a snapshot, and is
// removed at once.
#pragma once

#include <cstdint>

#include <spolia/base/config.hpp>
#include <spolia/reclaim/region_domain.hpp>
#include <spolia/version/concepts.hpp>
#include <spolia/version/detail/removing_collector.hpp>
#include <spolia/version/list_pdl.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

template <class Domain = region_domain, class Timeline = timeline>
class dl_rt final
    : private detail::version::kinds_of_a_collector<Domain, Timeline>,
      public detail::version::removing_collector<dl_rt<Domain, Timeline>,
                                                 pdl_node<detail::version::any_version<Domain>>,
                                                 Domain, Timeline> {
  using base =
      detail::version::removing_collector<dl_rt, pdl_node<detail::version::any_version<Domain>>,
                                          Domain, Timeline>;

 public:
  static constexpr collector_info info{
      .name = "dl_rt",
      .title = "DL-RT",
      .source = "Wei et al., PPoPP 2023, sections 3 and 4",
      .collects_between = true,
      .reaches_idle_lists = true,
      .cost = "amortized constant, and O(c) with c removals of neighbours under way",
      .bound = "3 H + 5 P^2 log P"};

  using list = pdl_list<detail::version::any_version<Domain>>;
  using typename base::options;
  using typename base::version;

  dl_rt(Domain& nodes, Timeline& time, const options& o = {}) : base(nodes, time, o) {}
  ~dl_rt() { this->close(); }

  template <class Gone>
  static std::uint64_t take_out(version& v, Gone&& gone) noexcept {
    const std::uint64_t run = SPOLIA_FAULT("dl_rt.not_unlinked") ? 0 : list::remove(&v);
    gone(v);
    return run;
  }
};

static_assert(version_collector<dl_rt<>>);

}  // namespace spolia::inline SPOLIA_FLAVOUR
