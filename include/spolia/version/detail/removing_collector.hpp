// SPDX-License-Identifier: Apache-2.0
// removing_collector.hpp: what collectors share that remove one version at a time from a doubly
// linked list, when the range tracker has found it obsolete: dl_rt.hpp, bbf.hpp.
//
// `Self` offers take_out(version&, gone): unlinks the version, and calls gone(version&) for each
// one that this call alone may retire; returns how many versions it has come to.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/version/detail/collector_base.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::version {

template <class Self, class Version, some_domain Domain, class Timeline>
class removing_collector : public tracking_collector<Self, Version, Domain, Timeline> {
  using base = tracking_collector<Self, Version, Domain, Timeline>;

 public:
  using typename base::figures;
  using typename base::session;
  using typename base::version;

  template <class List>
  static void place(List&, version&) noexcept {}

  template <class List>
  void ended(session& s, List&, version* old, version* fresh) noexcept {
    figures& mine = base::figures_of(s);
    mine.ended.add(1);
    // relaxed, both: we have seen their stamps set.
    const std::uint64_t until = fresh->since.load_relaxed();
    if (old->since.load_relaxed() != until) return this->track(*old, until, mine);
    base::note_cut(mine, Self::take_out(*old, finisher(s.guard(), mine)));
  }

  /// What is tracked is linked, and ends with its list. But in nodes that have died there may be
  /// versions, not tracked any more, that wait for their neighbours to be taken out.
  void close() noexcept {
    this->abandon([this](version& v) {
      if (v.owner() == nullptr) return false;
      Self::take_out(v, [this](version& gone) {
        auto* const of = gone.owner();
        gone.destroy_in(this->nodes());
        this->release_hold(*of);
      });
      return true;
    });
  }

  void look(scan_times& found) const { this->time().scan(found); }
  bool expire(version& v, figures& mine, typename Domain::guard& g) noexcept {
    base::note_cut(mine, Self::take_out(v, finisher(g, mine)));
    return true;
  }

 protected:
  using base::base;
  ~removing_collector() = default;

 private:
  static auto finisher(typename Domain::guard& g, figures& mine) noexcept {
    return [&](version& gone) { base::finish(gone, g, mine); };
  }
};

}  // namespace detail::version
}  // namespace spolia::inline SPOLIA_FLAVOUR
