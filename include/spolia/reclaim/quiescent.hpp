// SPDX-License-Identifier: Apache-2.0
// quiescent.hpp: the former place and name of qsbr, until 0.1.0 is released. reclaim.hpp includes
// it, so that programs with the former name compile, with a warning that says the new one.
#pragma once

#include <spolia/base/config.hpp>
#include <spolia/reclaim/qsbr.hpp>

namespace spolia::inline SPOLIA_FLAVOUR {

using quiescent [[deprecated("spolia::quiescent is called spolia::qsbr now")]] = qsbr;

}  // namespace spolia::inline SPOLIA_FLAVOUR
