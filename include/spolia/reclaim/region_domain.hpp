// SPDX-License-Identifier: Apache-2.0
// region_domain.hpp: the domain in which everything reached inside a guard stays, unlinked or not.
//
// `domain<>` promises a bound while a reader stalls, and in exchange asks that each pointer be read
// by protect or step, and out of a block that is still linked (robust_token.hpp). What walks by
// plain loads, or through blocks that others have unlinked, lives in this one, whose scheme is
// `token`: nothing is asked of its reads, and nothing is freed while one of its readers stalls.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/reclaim/domain.hpp>
#include <spolia/reclaim/release.hpp>
#include <spolia/reclaim/token.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

using region_domain = domain<token, amortized>;

}  // namespace spolia::inline SPOLIA_FLAVOUR
