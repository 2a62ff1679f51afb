// SPDX-License-Identifier: Apache-2.0
// region_reads.hpp: what guards and reads are under schemes that protect everything reached inside
// a guard: nothing but loads.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/base/source.hpp>
#include <spolia/reclaim/concepts.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

/// A base of such schemes: of Spolia's, and of a user's own.
struct region_reads {
  using stamp = nothing;
  using hold = nothing;

  template <class Local>
  nothing open(Local&) noexcept {
    return {};
  }
  template <class Local>
  void close(Local&, nothing) noexcept {}

  template <class Local, class Source>
  source_value<Source> protect(Local&, nothing, unsigned, const Source& source) noexcept {
    // acquire ← the release with which the structure published the block: it is seen constructed.
    return source_traits<Source>::load_acquire(source);
  }
};

}  // namespace spolia::inline SPOLIA_FLAVOUR
