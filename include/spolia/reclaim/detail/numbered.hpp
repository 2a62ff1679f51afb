// SPDX-License-Identifier: Apache-2.0
// numbered.hpp: a guard's slots by their numbers, for containers whose steps let slots change roles
// instead of contents. Not for use on a guard that hands out protections: both would use the same
// slots.
#pragma once

#include <concepts>
#include <utility>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::reclaim {

/// numbered::step() by itself, for as long as the guard lives: a small copy, which stays in
/// registers where the guard's address is known to others.
template <class Scheme>
class stepper {
 public:
  stepper(Scheme& scheme, typename Scheme::local& local, typename Scheme::hold& hold) noexcept
      : scheme_(&scheme), local_(&local), hold_(&hold) {}

  template <class Source, std::predicate Linked>
  SPOLIA_ALWAYS_INLINE bool operator()(const Source& source, source_value<Source>& to,
                                       unsigned slot, Linked&& linked) const {
    if constexpr (protects_pointers<Scheme>) {
      return scheme_->step(*local_, *hold_, slot, source, to) || linked();
    } else {
      to = scheme_->protect(*local_, *hold_, slot, source);
      return true;
    }
  }

  /// Can most steps be taken without a call, and without anything that a call would need?
  static constexpr bool glances =
      !protects_pointers<Scheme> ||
      requires(Scheme s, typename Scheme::local l, typename Scheme::hold h, atomic<int*>& source,
               int* to) { s.glance(l, h, source, to); };

  /// The same where nothing need be done but to look. False: `to` must not be followed, the step
  /// has to be taken by the above. So a search is written twice, and the one that is nearly
  /// always run fits in registers.
  template <class Source>
  SPOLIA_ALWAYS_INLINE bool glance(const Source& source, source_value<Source>& to) const noexcept
    requires glances
  {
    if constexpr (protects_pointers<Scheme>) {
      return scheme_->glance(*local_, *hold_, source, to);
    } else {
      to = scheme_->protect(*local_, *hold_, 0, source);
      return true;
    }
  }

 private:
  Scheme* scheme_;
  typename Scheme::local* local_;
  typename Scheme::hold* hold_;
};

/// What guards do by the numbers of slots. A call ends what the slot was used for before.
struct numbered {
  /// A pointer read from `source` that may be followed. Under restartable schemes: inside read().
  template <class Guard, class Source>
  static source_value<Source> protect(Guard& g, const Source& source, unsigned slot) noexcept {
    return g.domain_->scheme_.protect(g.cell_->local, g.hold_, slot, source);
  }

  /// One step of a search from block to block: reads from `source`, which lies in a block found
  /// before, a pointer that may be followed. False: start over from a root. `linked()` tells, by an
  /// acquire load, whether the block that holds `source` is still linked; it is asked afterwards,
  /// and only if the scheme needs to know.
  template <class Guard, class Source, std::predicate Linked>
  static bool step(Guard& g, const Source& source, source_value<Source>& to, unsigned slot,
                   Linked&& linked) {
    return steps(g)(source, to, slot, std::forward<Linked>(linked));
  }
  template <class Guard>
  static auto steps(Guard& g) noexcept {
    return stepper(g.domain_->scheme_, g.cell_->local, g.hold_);
  }

  /// Last words in read() under a restartable scheme: p may be used afterwards.
  template <class Guard, class T>
  static void keep([[maybe_unused]] Guard& g, [[maybe_unused]] T* p,
                   [[maybe_unused]] unsigned slot) noexcept {
    if constexpr (protects_by_restart<typename Guard::scheme_type>) {
      g.domain_->scheme_.keep(g.cell_->local, g.hold_, slot, p);
    }
  }

  /// Outside of read(): see guard::announce().
  template <class Guard, class T>
  static void announce([[maybe_unused]] Guard& g, [[maybe_unused]] T* p,
                       [[maybe_unused]] unsigned slot) noexcept {
    if constexpr (!protects_regions<typename Guard::scheme_type>) {
      g.domain_->scheme_.announce(g.cell_->local, g.hold_, slot, p);
    }
  }
};

}  // namespace detail::reclaim
}  // namespace spolia::inline SPOLIA_FLAVOUR
