// SPDX-License-Identifier: Apache-2.0
// bounded_domain.hpp: the domain in which a stalled reader holds up a bounded number of blocks.
//
// The library's own containers, where they can be protected by eras, live in this one unless they
// are given another. It is not what `domain<>` means, because it asks more of a structure: each
// pointer is read by protect or step, and never out of a block that may have been unlinked
// (robust_token.hpp). A structure that does not keep to that would fail only once a reader stalls.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/robust_token.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

using bounded_domain = domain<robust_token, amortized>;

}  // namespace spolia::inline SPOLIA_FLAVOUR
