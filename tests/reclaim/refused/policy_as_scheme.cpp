// SPDX-License-Identifier: Apache-2.0
// A release policy at the first place, where a domain has its scheme.
// refused: the first argument of a domain is its scheme
#include <spolia/reclaim.hpp>

#if defined(REFUSED)
using own = spolia::domain<spolia::batch>;
#else
using own = spolia::domain<spolia::robust_token, spolia::batch>;
#endif

void pass(own& all) { static_cast<void>(all.enter()); }
