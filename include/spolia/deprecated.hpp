// SPDX-License-Identifier: Apache-2.0
// deprecated.hpp: names that have changed, as aliases, until 0.1.0 is released. No other header
// includes this one.
#pragma once

#include <spolia/reclaim/quiescent.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

using quiescent [[deprecated("spolia::quiescent is called spolia::qsbr now")]] = qsbr;

}  // namespace spolia::inline SPOLIA_FLAVOUR
