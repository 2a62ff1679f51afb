// SPDX-License-Identifier: Apache-2.0
// empty_versions.hpp: the versions that the empty buckets of a snapshot_hash share, one for each
// depth: so that a bucket of which nothing is left takes a word.
//
// Such a version says that the bucket was always empty: its stamp is 0, and nothing is to its left.
// It may take the place of a bucket's newest version when that is empty and no snapshot, alive or
// to come, sees an older one; then no reader can tell one from the other. What is appended after it
// is as for any other version, but that it does not end. It may leave a bucket and come back while
// a thread is about to append: the bucket is empty again then, and has the same depth, which is all
// that the thread goes by.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include <spolia/base/atomic.hpp>
#include <spolia/base/config.hpp>
#include <spolia/version/concepts.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {
namespace detail::map {

/// Can put a version that it does not own in the place of a list's newest one.
template <class Collector>
concept forgetting_collector =
    requires(Collector& c, typename Collector::session& s, typename Collector::list& l,
             typename Collector::version* v) { c.forget(s, l, v, v); };

template <class Version, class Collector>
class empty_versions {
 public:
  static constexpr std::size_t depths = 49;

  [[nodiscard]] bool has(const Version& v) const noexcept {
    if constexpr (forgetting_collector<Collector>) {
      // relaxed: nothing is read there.
      return of_depth_[v.depth].load_relaxed() == &v;
    } else {
      return false;
    }
  }

  /// Null: there is no memory.
  template <class Maker, class Domain>
  Version* of(Domain& nodes, std::uint8_t depth) noexcept {
    atomic<Version*>& one = of_depth_[depth];
    // acquire ← the release below: it is whole.
    if (Version* const known = one.load_acquire()) return known;
    Version* made = nullptr;
    try {
      made = Maker::make(nodes, 0, depth);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    made->since.store_relaxed(0);
    made->stamp.is(0);
    Collector::list::aim(nullptr, made);
    Version* none = nullptr;
    // release → the acquire above, and that of the lists' heads.
    if (one.cas_strong_acq_rel(none, made)) return made;
    made->destroy_in(nodes);
    return none;
  }

  /// One is about to take the place of a version with that stamp.
  void note(std::uint64_t since) noexcept {
    if (SPOLIA_FAULT("hash.forgets_since_when")) return;
    // relaxed: the head that is set afterwards passes it on.
    std::uint64_t seen = latest_.load_relaxed();
    while (seen < since && !latest_.cas_weak_relaxed(seen, since)) {
    }
  }
  /// A bucket that was seen with one of them has been empty since then at least, unless it had
  /// pairs in between.
  [[nodiscard]] std::uint64_t latest() const noexcept { return latest_.load_relaxed(); }

  /// No bucket has one of them any more.
  template <class Domain>
  void end(Domain& nodes) noexcept {
    for (atomic<Version*>& one : of_depth_) {
      if (Version* const v = one.load_relaxed()) v->destroy_in(nodes);
      one.store_relaxed(nullptr);
    }
  }

 private:
  std::array<atomic<Version*>, depths> of_depth_{};
  atomic<std::uint64_t> latest_{0};
};

}  // namespace detail::map
}  // namespace spolia::inline SPOLIA_FLAVOUR
